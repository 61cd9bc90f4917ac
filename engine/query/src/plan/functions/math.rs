//! `abs`, `exp`, `log`, `log10` and `round` of a number, with a result of its own type: Cassandra's `MathFcts`.
//!
//! Integers are computed with in floating point and cut off, as in Java. Of `decimal` and `varint`, which have no such
//! functions of their own, there are `abs` and `round`.

use num_bigint::{BigInt, Sign};
use types::CqlType;
use types::decimal::{decimal_parts, decimal_value};

use crate::error::{QueryError, invalid};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Abs,
    Exp,
    Log,
    Log10,
    Round,
}

#[derive(Clone, Debug)]
pub(crate) struct Math {
    kind: Kind,
    ty: CqlType,
}

const NAMES: [(&str, Kind); 5] =
    [("abs", Kind::Abs), ("exp", Kind::Exp), ("log", Kind::Log), ("log10", Kind::Log10), ("round", Kind::Round)];

pub(super) fn is_name(name: &str) -> bool {
    NAMES.iter().any(|(known, _)| *known == name)
}

/// The digits behind the point are dropped, half of the last unit counts up, away from zero.
fn rounded(scale: i64, unscaled: BigInt) -> Result<Vec<u8>, QueryError> {
    if scale <= 0 {
        // As a number without a point: nothing is behind it.
        let zeros = u32::try_from(-scale).ok().filter(|zeros| *zeros <= 10_000);
        let zeros = zeros.ok_or_else(|| invalid!("the decimal has too many digits to be rounded"))?;
        return Ok(decimal_value(0, &(unscaled * BigInt::from(10).pow(zeros))));
    }
    // More digits than any number has: it is zero.
    let digits = unscaled.magnitude().to_string().len() as i64;
    let Some(places) = u32::try_from(scale).ok().filter(|_| scale <= digits) else {
        return Ok(decimal_value(0, &BigInt::ZERO));
    };
    let unit = BigInt::from(10).pow(places);
    let half = &unit / 2;
    let away = if unscaled.sign() == Sign::Minus { unscaled - half } else { unscaled + half };
    Ok(decimal_value(0, &(away / unit)))
}

impl Math {
    /// The function of a name for an argument of a type; `None` when it has none for it.
    pub fn of(name: &str, ty: &CqlType) -> Option<Math> {
        let kind = NAMES.iter().find(|(known, _)| *known == name)?.1;
        let ty = if *ty == CqlType::Counter { CqlType::BigInt } else { ty.clone() };
        let has = ty.is_number()
            && (matches!(kind, Kind::Abs | Kind::Round) || !matches!(ty, CqlType::Decimal | CqlType::VarInt));
        has.then_some(Math { kind, ty })
    }

    pub fn name(&self) -> String {
        let name = NAMES.iter().find(|(_, kind)| *kind == self.kind).map_or("", |(name, _)| name);
        format!("system.{name}")
    }

    pub fn result(&self) -> CqlType {
        self.ty.clone()
    }

    /// Of a floating point number; `round` goes to the next whole one, half up.
    fn float(&self, value: f64) -> f64 {
        match self.kind {
            Kind::Abs => value.abs(),
            Kind::Exp => libm::exp(value),
            Kind::Log => libm::log(value),
            Kind::Log10 => libm::log10(value),
            Kind::Round => {
                let floor = value.floor();
                // Whole numbers of a long, as Java's are.
                (if value - floor >= 0.5 { floor + 1.0 } else { floor }) as i64 as f64
            }
        }
    }

    pub fn call(&self, value: &[u8]) -> Result<Vec<u8>, QueryError> {
        fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], QueryError> {
            bytes.try_into().map_err(|_| invalid!("{N} bytes wanted, got {}", bytes.len()))
        }
        match (&self.ty, self.kind) {
            (CqlType::Float, Kind::Round) => {
                let value = f32::from_be_bytes(array(value)?);
                Ok((self.float(f64::from(value)) as i32 as f32).to_be_bytes().to_vec())
            }
            (CqlType::Float, _) => {
                Ok((self.float(f64::from(f32::from_be_bytes(array(value)?))) as f32).to_be_bytes().to_vec())
            }
            (CqlType::Double, _) => Ok(self.float(f64::from_be_bytes(array(value)?)).to_be_bytes().to_vec()),
            (CqlType::Decimal, kind) => {
                let (scale, unscaled) = decimal_parts(value).map_err(|error| invalid!("{error}"))?;
                match kind {
                    Kind::Abs => Ok(decimal_value(scale, &BigInt::from(unscaled.magnitude().clone()))),
                    _ => rounded(scale, unscaled),
                }
            }
            (_, Kind::Round) => Ok(value.to_vec()),
            (ty, kind) => {
                let whole = BigInt::from_signed_bytes_be(value);
                let result = match kind {
                    Kind::Abs => BigInt::from(whole.magnitude().clone()),
                    _ => {
                        let number = i64::try_from(&whole).map_err(|error| invalid!("{error}"))? as f64;
                        let result = self.float(number);
                        // Those below a long go by way of an int.
                        match ty {
                            CqlType::BigInt => BigInt::from(result as i64),
                            _ => BigInt::from(result as i32),
                        }
                    }
                };
                // The upper bits are lost, as in Java.
                CqlType::VarInt.cast(ty, &result.to_signed_bytes_be()).map_err(|error| invalid!("{error}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, ty: CqlType, value: &str) -> String {
        let math = Math::of(name, &ty).unwrap_or_else(|| panic!("{name} of {ty}"));
        let value = ty.from_json(value).unwrap().unwrap();
        ty.to_json(&math.call(&value).unwrap()).unwrap()
    }

    #[test]
    fn results_have_the_type_of_the_argument() {
        for (name, ty, value, expected) in [
            ("abs", CqlType::Int, "-3", "3"),
            ("abs", CqlType::TinyInt, "-128", "-128"),
            ("abs", CqlType::VarInt, "-99999999999999999999", "99999999999999999999"),
            ("abs", CqlType::Decimal, "-1.50", "1.50"),
            ("abs", CqlType::Double, "-1.5", "1.5"),
            ("exp", CqlType::Int, "2", "7"),
            ("exp", CqlType::Int, "100", "2147483647"),
            ("log", CqlType::BigInt, "10", "2"),
            ("log10", CqlType::SmallInt, "1000", "3"),
            ("log10", CqlType::Double, "100.0", "2.0"),
            ("round", CqlType::Double, "2.5", "3.0"),
            ("round", CqlType::Double, "-2.5", "-2.0"),
            ("round", CqlType::Float, "0.4", "0.0"),
            ("round", CqlType::Int, "7", "7"),
            ("round", CqlType::Decimal, "2.5", "3"),
            ("round", CqlType::Decimal, "-2.5", "-3"),
            ("round", CqlType::Decimal, "0.0004", "0"),
        ] {
            assert_eq!(of(name, ty.clone(), value), expected, "{name}({value}) of {ty}");
        }
        assert!(Math::of("exp", &CqlType::Decimal).is_none() && Math::of("abs", &CqlType::Text).is_none());
    }
}
