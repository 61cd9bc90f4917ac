//! `duration`: months, days and nanoseconds, three signed vints that all have one sign.

use std::fmt;

use crate::error::{Error, marshal};
use crate::vint;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CqlDuration {
    pub months: i32,
    pub days: i32,
    pub nanos: i64,
}

const NS_PER_HOUR: i128 = 3_600_000_000_000;

/// Unit, its field (months, days, nanoseconds) and its size there, largest first: the order they must be written in.
const UNITS: [(&str, usize, i128); 10] = [
    ("y", 0, 12),
    ("mo", 0, 1),
    ("w", 1, 7),
    ("d", 1, 1),
    ("h", 2, NS_PER_HOUR),
    ("m", 2, 60_000_000_000),
    ("s", 2, 1_000_000_000),
    ("ms", 2, 1_000_000),
    ("us", 2, 1_000),
    ("ns", 2, 1),
];

const UNIT_NAMES: [&str; UNITS.len()] =
    ["years", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds"];

impl CqlDuration {
    /// `1y2mo3w4d5h6m7s8ms9us10ns`, ISO 8601 `P1Y2M3DT4H5M6S` or `P4W`, or `P0001-02-03T04:05:06`; a minus in front
    /// of any. Units must come in order and once.
    pub fn parse(text: &str) -> Result<CqlDuration, Error> {
        let refuse = || marshal(format!("Unable to convert '{text}' to a duration"));
        let (negative, source) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let parts = match source.strip_prefix('P') {
            Some(iso) if iso.contains('-') => alternative_parts(iso),
            // Weeks stand alone.
            Some(iso) => iso_parts(iso).filter(|parts| parts.len() == 1 || !iso.contains('W')),
            None => standard_parts(source),
        };
        let parts = parts.filter(|parts| !parts.is_empty()).ok_or_else(refuse)?;

        let mut totals = [0i128; 3];
        let mut last_unit = None;
        for (number, unit) in parts {
            if let Some(last) = last_unit.filter(|last| *last >= unit) {
                let (last_name, name) = (UNIT_NAMES[last], UNIT_NAMES[unit]);
                return Err(marshal(match last == unit {
                    true => format!("Invalid duration. The {name} are specified multiple times"),
                    false => format!("Invalid duration. The {last_name} should be after {name}"),
                }));
            }
            last_unit = Some(unit);
            let (_, field, size) = UNITS[unit];
            totals[field] += number as i128 * size * if negative { -1 } else { 1 };
        }
        let large = |what| {
            marshal(format!("Invalid duration. The total number of {what} must be less or equal to its maximum"))
        };
        Ok(CqlDuration {
            months: totals[0].try_into().map_err(|_| large("months"))?,
            days: totals[1].try_into().map_err(|_| large("days"))?,
            nanos: totals[2].try_into().map_err(|_| large("nanoseconds"))?,
        })
    }

    pub fn from_bytes(bytes: &[u8]) -> Result<CqlDuration, Error> {
        let refuse = || marshal(format!("Expected at least 3 bytes for a duration ({})", bytes.len()));
        let mut rest = bytes;
        let mut next = || vint::read_signed(&mut rest).ok_or_else(refuse);
        let (months, days, nanos) = (next()?, next()?, next()?);
        if !rest.is_empty() {
            return Err(marshal("The duration has bytes after its end"));
        }
        let months = months.try_into().map_err(|_| marshal("The duration months must be a 32 bits integer"))?;
        let days = days.try_into().map_err(|_| marshal("The duration days must be a 32 bits integer"))?;
        let signs = [months as i64, days as i64, nanos];
        if signs.iter().any(|&n| n < 0) && signs.iter().any(|&n| n > 0) {
            return Err(marshal("The duration months, days and nanoseconds must be all of the same sign"));
        }
        Ok(CqlDuration { months, days, nanos })
    }

    pub fn to_bytes(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12);
        vint::write_signed(self.months as i64, &mut out);
        vint::write_signed(self.days as i64, &mut out);
        vint::write_signed(self.nanos, &mut out);
        out
    }
}

impl fmt::Display for CqlDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.months < 0 || self.days < 0 || self.nanos < 0 {
            f.write_str("-")?;
        }
        let mut rest = [self.months as i128, self.days as i128, self.nanos as i128].map(i128::abs);
        for (name, field, size) in UNITS {
            // Days are never shown as weeks, as Cassandra shows them.
            if name != "w" && rest[field] >= size {
                write!(f, "{}{name}", rest[field] / size)?;
                rest[field] %= size;
            }
        }
        Ok(())
    }
}

fn split_number(text: &str) -> Option<(i64, &str)> {
    let len = text.bytes().take_while(u8::is_ascii_digit).count();
    Some((text[..len].parse().ok()?, &text[len..]))
}

fn unit_named(name: &str) -> Option<usize> {
    let name = name.to_lowercase();
    let name = if name == "µs" { "us" } else { &name };
    UNITS.iter().position(|unit| unit.0 == name)
}

fn standard_parts(mut text: &str) -> Option<Vec<(i64, usize)>> {
    let mut parts = Vec::new();
    while !text.is_empty() {
        let (number, rest) = split_number(text)?;
        let len = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        parts.push((number, unit_named(&rest[..len])?));
        text = &rest[len..];
    }
    Some(parts)
}

fn iso_parts(mut text: &str) -> Option<Vec<(i64, usize)>> {
    let mut parts = Vec::new();
    let mut in_time = false;
    while !text.is_empty() {
        if let Some(rest) = text.strip_prefix('T') {
            if in_time || rest.is_empty() {
                return None;
            }
            in_time = true;
            text = rest;
            continue;
        }
        let (number, rest) = split_number(text)?;
        let unit = match (rest.chars().next()?, in_time) {
            ('Y', false) => "y",
            ('M', false) => "mo",
            ('W', false) => "w",
            ('D', false) => "d",
            ('H', true) => "h",
            ('M', true) => "m",
            ('S', true) => "s",
            _ => return None,
        };
        parts.push((number, unit_named(unit)?));
        text = &rest[1..];
    }
    Some(parts)
}

/// `YYYY-MM-DDThh:mm:ss`.
fn alternative_parts(text: &str) -> Option<Vec<(i64, usize)>> {
    let shape = |b: u8| if b.is_ascii_digit() { b'0' } else { b };
    if !text.bytes().map(shape).eq(*b"0000-00-00T00:00:00") {
        return None;
    }
    let number = |at: usize, len: usize| text[at..at + len].parse::<i64>().ok();
    Some(vec![
        (number(0, 4)?, unit_named("y")?),
        (number(5, 2)?, unit_named("mo")?),
        (number(8, 2)?, unit_named("d")?),
        (number(11, 2)?, unit_named("h")?),
        (number(14, 2)?, unit_named("m")?),
        (number(17, 2)?, unit_named("s")?),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        let check = |text: &str, months, days, nanos, shown: &str| {
            let duration = CqlDuration::parse(text).unwrap();
            assert_eq!(duration, CqlDuration { months, days, nanos }, "{text}");
            assert_eq!(duration.to_string(), shown);
            assert_eq!(CqlDuration::from_bytes(&duration.to_bytes()), Ok(duration));
        };
        check("1y3mo2h10m", 15, 0, 7_800_000_000_000, "1y3mo2h10m");
        check("-5d12h30m", 0, -5, -45_000_000_000_000, "-5d12h30m");
        check("2w", 0, 14, 0, "14d");
        check("3MS4µs5ns", 0, 0, 3_004_005, "3ms4us5ns");
        check("P1Y2M3DT4H5M6S", 14, 3, 14_706_000_000_000, "1y2mo3d4h5m6s");
        check("-P4W", 0, -28, 0, "-28d");
        check("P0001-02-03T04:05:06", 14, 3, 14_706_000_000_000, "1y2mo3d4h5m6s");
        for bad in ["", "-", "P", "PT", "1", "1x", "1d1y", "1d1d", "P1H", "99999999999y", "P1-2-3", "1s2µ"] {
            assert!(CqlDuration::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bytes() {
        assert_eq!(CqlDuration { months: 1, days: 2, nanos: 3 }.to_bytes(), [2, 4, 6]);
        assert!(CqlDuration::from_bytes(&[2, 3, 6]).is_err(), "mixed signs");
        assert!(CqlDuration::from_bytes(&[2, 4]).is_err());
    }
}
