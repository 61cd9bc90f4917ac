//! Quantities with their unit written out: `160 MiB/s`, `1.05 ms`, `10000 IOPS`, `7 %`, `1/1000`.
//!
//! A quantity is read in one dimension only and kept in that dimension's base unit (ns, B, B/s, 1/s, GHz, ns/B,
//! plain). A number without a unit is refused, except where the dimension is a ratio and a fraction is written.
//! Pure text in, number out.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::nearest::nearest;

/// What a quantity measures. `UNITS` lists every accepted unit with its size in base units, base unit first.
pub trait Dimension: Copy + Clone + fmt::Debug + PartialEq + 'static {
    const NAME: &'static str;
    const UNITS: &'static [(&'static str, f64)];
    const EXAMPLE: &'static str;
    /// A bare number or `a/b` is accepted: true only for ratios.
    const UNITLESS: bool = false;
}

macro_rules! dimension {
    ($(#[$doc:meta])* $name:ident, $text:literal, $example:literal, $unitless:literal, [$(($unit:literal, $size:expr)),+ $(,)?]) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name;
        impl Dimension for $name {
            const NAME: &'static str = $text;
            const UNITS: &'static [(&'static str, f64)] = &[$(($unit, $size)),+];
            const EXAMPLE: &'static str = $example;
            const UNITLESS: bool = $unitless;
        }
    };
}

const KIB: f64 = 1024.0;

dimension!(
    /// Base unit: nanoseconds.
    Time, "duration", "1.5 ms", false,
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("min", 60e9), ("h", 3600e9), ("d", 86400e9)]
);
dimension!(
    /// Base unit: bytes.
    Bytes, "size in bytes", "64 KiB", false,
    [("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12),
     ("KiB", KIB), ("MiB", KIB * KIB), ("GiB", KIB * KIB * KIB), ("TiB", KIB * KIB * KIB * KIB)]
);
dimension!(
    /// Base unit: bytes a second. `Gbps` counts bits.
    Bandwidth, "bandwidth", "160 MiB/s", false,
    [("B/s", 1.0), ("kB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9),
     ("KiB/s", KIB), ("MiB/s", KIB * KIB), ("GiB/s", KIB * KIB * KIB), ("Mbps", 1e6 / 8.0), ("Gbps", 1e9 / 8.0)]
);
dimension!(
    /// Base unit: events a second.
    Rate, "rate", "80k/s", false,
    [("/s", 1.0), ("op/s", 1.0), ("IOPS", 1.0), ("packets/s", 1.0), ("items/s", 1.0), ("rows/s", 1.0),
     ("k/s", 1e3), ("kop/s", 1e3), ("M/s", 1e6), ("Mop/s", 1e6)]
);
dimension!(
    /// Base unit: one. `x` marks a factor.
    Ratio, "ratio", "1/1000", true,
    [("x", 1.0), ("ratio", 1.0), ("%", 0.01)]
);
dimension!(
    /// Base unit: one thing.
    Count, "count", "8 vCPU", false,
    [("count", 1.0), ("vCPU", 1.0), ("cores", 1.0), ("shards", 1.0), ("threads", 1.0), ("channels", 1.0), ("disks", 1.0),
     ("requests", 1.0), ("connections", 1.0), ("credits", 1.0), ("shares", 1.0), ("items", 1.0), ("rows", 1.0), ("segments", 1.0),
     ("zones", 1.0)]
);
dimension!(
    /// Base unit: GHz.
    Frequency, "frequency", "2.8 GHz", false,
    [("GHz", 1.0), ("MHz", 1e-3)]
);
dimension!(
    /// Base unit: nanoseconds a byte, or whatever else a kind of work is counted in.
    TimePerByte, "time per byte", "0.5 ns/B", false,
    [("ns/B", 1.0), ("us/KiB", 1e3 / KIB), ("ns/entry", 1.0), ("ns/cell", 1.0), ("ns/half-doubling", 1.0)]
);
dimension!(
    /// Base unit: bytes an operation.
    BytesPerOp, "bytes an operation", "15 kB/op", false,
    [("B/op", 1.0), ("kB/op", 1e3), ("KiB/op", KIB)]
);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    #[error("`{text}` does not begin with a number; a {dimension} is written like `{example}`")]
    NotANumber { text: String, dimension: &'static str, example: &'static str },
    #[error("`{text}` has no unit; a {dimension} is written like `{example}`")]
    NoUnit { text: String, dimension: &'static str, example: &'static str },
    #[error("`{unit}` is not a unit of a {dimension}{}; use one of {known}", suggestion(.nearest))]
    UnknownUnit { unit: String, dimension: &'static str, nearest: Option<&'static str>, known: String },
}

fn suggestion(nearest: &Option<&'static str>) -> String {
    nearest.map(|n| format!(", did you mean `{n}`?")).unwrap_or_default()
}

/// A number in the base unit of `D`.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
pub struct Quantity<D>(pub f64, PhantomData<D>);

pub type Duration = Quantity<Time>;
pub type Size = Quantity<Bytes>;

impl<D: Dimension> Quantity<D> {
    pub const fn new(base_units: f64) -> Self {
        Self(base_units, PhantomData)
    }

    pub fn parse(text: &str) -> Result<Self, QuantityError> {
        let trimmed = text.trim();
        let digits = trimmed
            .find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_' | '-' | '+')))
            .unwrap_or(trimmed.len());
        let (number, unit) = (&trimmed[..digits], trimmed[digits..].trim());
        let not_a_number =
            || QuantityError::NotANumber { text: text.to_string(), dimension: D::NAME, example: D::EXAMPLE };
        let parse = |s: &str| s.replace('_', "").parse::<f64>().ok().filter(|n| n.is_finite());
        let value = parse(number).ok_or_else(not_a_number)?;
        if D::UNITLESS {
            if unit.is_empty() {
                return Ok(Self::new(value));
            }
            if let Some(divisor) = unit.strip_prefix('/') {
                let divisor = parse(divisor.trim()).filter(|d| *d != 0.0).ok_or_else(not_a_number)?;
                return Ok(Self::new(value / divisor));
            }
        }
        if unit.is_empty() {
            return Err(QuantityError::NoUnit { text: text.to_string(), dimension: D::NAME, example: D::EXAMPLE });
        }
        match D::UNITS.iter().find(|(name, _)| *name == unit) {
            Some((_, size)) => Ok(Self::new(value * size)),
            None => Err(QuantityError::UnknownUnit {
                unit: unit.to_string(),
                dimension: D::NAME,
                nearest: nearest(unit, D::UNITS.iter().map(|(name, _)| *name)),
                known: D::UNITS.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
            }),
        }
    }

    pub fn f64(self) -> f64 {
        self.0
    }

    /// Rounded to the nearest whole base unit; negative values become 0.
    pub fn u64(self) -> u64 {
        self.0.round().max(0.0) as u64
    }
}

impl<D> fmt::Debug for Quantity<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Written in the largest unit that keeps the number at 1 or more and gives it back exactly.
impl<D: Dimension> fmt::Display for Quantity<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let candidates = D::UNITS.iter().filter(|(_, size)| *size >= 1.0 && (self.0 / size).abs() >= 1.0);
        let short = |size: f64| format!("{}", self.0 / size);
        let base = D::UNITS[0];
        let best = candidates.fold(base, |best, unit| {
            if unit.1 > best.1 && short(unit.1).len() <= short(best.1).len() { *unit } else { best }
        });
        write!(f, "{} {}", self.0 / best.1, best.0)
    }
}

impl<D: Dimension> Serialize for Quantity<D> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, D: Dimension> Deserialize<'de> for Quantity<D> {
    fn deserialize<De: Deserializer<'de>>(deserializer: De) -> Result<Self, De::Error> {
        struct Text<D>(PhantomData<D>);
        impl<D: Dimension> Visitor<'_> for Text<D> {
            type Value = Quantity<D>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a {} such as `{}`", D::NAME, D::EXAMPLE)
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Quantity::parse(text).map_err(E::custom)
            }
            // YAML reads a bare number as a number: hand it on as text so that the missing unit is named.
            fn visit_u64<E: de::Error>(self, n: u64) -> Result<Self::Value, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_i64<E: de::Error>(self, n: i64) -> Result<Self::Value, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_f64<E: de::Error>(self, n: f64) -> Result<Self::Value, E> {
                self.visit_str(&n.to_string())
            }
        }
        deserializer.deserialize_any(Text(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_read_into_base_units() {
        let size = |text| Quantity::<Bytes>::parse(text).unwrap().u64();
        assert_eq!(size("64 KiB"), 65_536);
        assert_eq!(size("3.4 TB"), 3_400_000_000_000);
        assert_eq!(size("64KiB"), 65_536);
        let rate = |text| Quantity::<Rate>::parse(text).unwrap().f64();
        assert_eq!(rate("80k/s"), 80_000.0);
        assert_eq!(rate("10_000 IOPS"), 10_000.0);
        assert_eq!(Quantity::<Bandwidth>::parse("1 Gbps").unwrap().f64(), 125e6);
        assert_eq!(Quantity::<Time>::parse("20m").unwrap().u64(), 1_200_000_000_000);
        let ratio = |text| Quantity::<Ratio>::parse(text).unwrap().f64();
        assert_eq!((ratio("1/1000"), ratio("7 %"), ratio("0.77 x"), ratio("1")), (0.001, 0.07, 0.77, 1.0));
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text| Quantity::<Bytes>::parse(text).unwrap_err().to_string();
        assert_eq!(error("800"), "`800` has no unit; a size in bytes is written like `64 KiB`");
        assert_eq!(error("lots"), "`lots` does not begin with a number; a size in bytes is written like `64 KiB`");
        assert!(error("5 Kib").starts_with("`Kib` is not a unit of a size in bytes, did you mean `KiB`?"));
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["1 ms", "20 min", "90 s", "1500 ns", "4 h"] {
            let value = Quantity::<Time>::parse(text).unwrap();
            assert_eq!(Quantity::<Time>::parse(&value.to_string()).unwrap(), value, "{value}");
        }
        assert_eq!(Quantity::<Time>::new(50e6).to_string(), "50 ms");
        assert_eq!(Quantity::<Rate>::new(124_958.0).to_string(), "124958 /s");
    }
}
