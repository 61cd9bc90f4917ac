//! Running aggregates: one value taken at a time, one result at the end. Pure.

use std::cmp::Ordering;

use num_bigint::BigInt;
use types::CqlType;
use types::decimal::{decimal_parts, decimal_value};

use crate::error::{QueryError, invalid, server};
use crate::plan::{Aggregate, UserAggregate};

pub(crate) enum Running<'a> {
    Count(i64),
    Extreme { ty: &'a CqlType, wanted: Ordering, best: Option<Vec<u8>> },
    Total { ty: &'a CqlType, is_average: bool, sum: Sum, count: u64 },
    First(Option<Option<Vec<u8>>>),
    User { aggregate: &'a UserAggregate, state: Option<Vec<u8>> },
}

pub(crate) enum Sum {
    Whole(BigInt),
    /// Compensated, after Kahan: the error of the last addition goes into the next. Beside it the plain sum, which
    /// tells what infinities came to.
    Float {
        sum: f64,
        lost: f64,
        plain: f64,
    },
    /// The unscaled value and the scale, the largest so far.
    Decimal {
        unscaled: BigInt,
        scale: i64,
    },
}

impl<'a> Running<'a> {
    pub fn new(aggregate: &'a Aggregate) -> Self {
        let extreme = |ty, wanted| Running::Extreme { ty, wanted, best: None };
        let total = |ty: &'a CqlType, is_average| {
            let sum = match ty {
                CqlType::Float | CqlType::Double => Sum::Float { sum: 0.0, lost: 0.0, plain: 0.0 },
                CqlType::Decimal => Sum::Decimal { unscaled: BigInt::ZERO, scale: 0 },
                _ => Sum::Whole(BigInt::ZERO),
            };
            Running::Total { ty, is_average, sum, count: 0 }
        };
        match aggregate {
            Aggregate::Count => Running::Count(0),
            Aggregate::Min(ty) => extreme(ty, Ordering::Less),
            Aggregate::Max(ty) => extreme(ty, Ordering::Greater),
            Aggregate::Sum(ty) => total(ty, false),
            Aggregate::Average(ty) => total(ty, true),
            Aggregate::First => Running::First(None),
            Aggregate::User(aggregate) => Running::User { aggregate, state: aggregate.initial.clone() },
        }
    }

    /// Takes the values of one row; null counts only as a group's first, and for users' aggregates.
    pub fn take(&mut self, values: &[Option<&[u8]>]) -> Result<(), QueryError> {
        // A row is counted, whatever is in it.
        let value = values.first().copied().unwrap_or(Some(&[]));
        match (self, value) {
            (Running::User { aggregate, state }, _) => *state = aggregate.step(state.as_deref(), values)?,
            (Running::First(first), value) => {
                first.get_or_insert_with(|| value.map(<[u8]>::to_vec));
            }
            (_, None) => {}
            (Running::Count(count), Some(_)) => *count += 1,
            (Running::Extreme { ty, wanted, best }, Some(value)) => {
                if best.as_ref().is_none_or(|best| ty.compare(value, best) == *wanted) {
                    *best = Some(value.to_vec());
                }
            }
            // An empty value is no number.
            (Running::Total { .. }, Some([])) => {}
            (Running::Total { ty, sum, count, .. }, Some(value)) => {
                ty.validate(value).map_err(server)?;
                sum.add(ty, value)?;
                *count += 1;
            }
        }
        Ok(())
    }

    /// Sums and averages of nothing are zero, as in Cassandra.
    pub fn finish(self) -> Result<Option<Vec<u8>>, QueryError> {
        Ok(match self {
            Running::User { aggregate, state } => aggregate.finish(state)?,
            Running::Count(count) => Some(count.to_be_bytes().to_vec()),
            Running::Extreme { best, .. } => best,
            Running::First(first) => first.flatten(),
            Running::Total { ty, is_average, sum, count } => {
                Some(sum.result(ty, if is_average { count.max(1) } else { 1 }))
            }
        })
    }
}

impl Sum {
    fn add(&mut self, ty: &CqlType, value: &[u8]) -> Result<(), QueryError> {
        match self {
            Sum::Whole(sum) => *sum += BigInt::from_signed_bytes_be(value),
            Sum::Float { sum, lost, plain } => {
                let value = match (ty, <[u8; 4]>::try_from(value), <[u8; 8]>::try_from(value)) {
                    (CqlType::Float, Ok(bytes), _) => f64::from(f32::from_be_bytes(bytes)),
                    (_, _, Ok(bytes)) => f64::from_be_bytes(bytes),
                    _ => return Err(server("a number of the wrong length")),
                };
                *plain += value;
                let corrected = value - *lost;
                let next = *sum + corrected;
                *lost = (next - *sum) - corrected;
                *sum = next;
            }
            Sum::Decimal { unscaled, scale } => {
                let (other_scale, other) = decimal_parts(value).map_err(server)?;
                let power = |by: i64| {
                    // A hostile scale must not exhaust memory.
                    let by = u32::try_from(by).ok().filter(|by| *by <= 100_000);
                    by.map(|by| BigInt::from(10).pow(by)).ok_or_else(|| invalid!("The scales are too far apart to add"))
                };
                if other_scale > *scale {
                    *unscaled *= power(other_scale - *scale)?;
                    *scale = other_scale;
                    *unscaled += other;
                } else {
                    *unscaled += other * power(*scale - other_scale)?;
                }
            }
        }
        Ok(())
    }

    fn result(self, ty: &CqlType, count: u64) -> Vec<u8> {
        match self {
            Sum::Float { sum, plain, .. } => {
                let sum = if sum.is_finite() { sum } else { plain };
                let value = sum / count as f64;
                if *ty == CqlType::Float { (value as f32).to_be_bytes().to_vec() } else { value.to_be_bytes().to_vec() }
            }
            Sum::Decimal { unscaled, scale } => decimal_value(scale, &half_even(unscaled, count)),
            Sum::Whole(sum) => {
                let bytes = (sum / count).to_signed_bytes_be();
                let Some(len) = ty.integer_len() else { return bytes };
                // Wraps around, as Java's integers.
                let fill = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
                let mut fixed = vec![fill; len];
                let kept = bytes.len().min(len);
                fixed[len - kept..].copy_from_slice(&bytes[bytes.len() - kept..]);
                fixed
            }
        }
    }
}

/// `sum / count`, to the nearest, halves to the even one.
fn half_even(sum: BigInt, count: u64) -> BigInt {
    let (quotient, remainder) = (&sum / count, &sum % count);
    let twice = remainder.magnitude() * 2u8;
    let up = match twice.cmp(&count.into()) {
        Ordering::Less => false,
        Ordering::Greater => true,
        Ordering::Equal => quotient.bit(0),
    };
    let away = if sum.sign() == num_bigint::Sign::Minus { -1 } else { 1 };
    if up { quotient + away } else { quotient }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(aggregate: Aggregate, ty: &CqlType, values: &[&str]) -> String {
        let mut running = Running::new(&aggregate);
        for value in values {
            let bytes = (*value != "null").then(|| ty.from_text(value).unwrap());
            running.take(&[bytes.as_deref()]).unwrap();
        }
        let result = if matches!(aggregate, Aggregate::Count) { &CqlType::BigInt } else { ty };
        running.finish().unwrap().map_or("null".into(), |bytes| result.to_cql_literal(&bytes).unwrap())
    }

    #[test]
    fn sums_and_averages() {
        use CqlType::*;
        let both = |ty: CqlType, values: &[&str]| {
            [run(Aggregate::Sum(ty.clone()), &ty, values), run(Aggregate::Average(ty.clone()), &ty, values)]
        };
        assert_eq!(both(Int, &["1", "null", "2", "4"]), ["7", "2"]);
        assert_eq!(both(Int, &[]), ["0", "0"]);
        assert_eq!(both(Int, &["2147483647", "2147483647"]), ["-2", "2147483647"]);
        assert_eq!(both(TinyInt, &["-100", "-100"]), ["56", "-100"]);
        assert_eq!(both(Decimal, &["1.5", "2.25"]), ["3.75", "1.88"]);
        assert_eq!(both(Decimal, &["-1", "-2"]), ["-3", "-2"]);
        assert_eq!(
            both(VarInt, &["10000000000000000000000", "1"]),
            ["10000000000000000000001", "5000000000000000000000"]
        );
        assert_eq!(both(Double, &["0.1", "0.2"])[0], "0.30000000000000004");
    }

    #[test]
    fn others() {
        let ints = ["null", "3", "1", "2"];
        assert_eq!(run(Aggregate::Count, &CqlType::Int, &ints), "3");
        assert_eq!(run(Aggregate::Min(CqlType::Int), &CqlType::Int, &ints), "1");
        assert_eq!(run(Aggregate::Max(CqlType::Int), &CqlType::Int, &ints), "3");
        assert_eq!(run(Aggregate::First, &CqlType::Int, &ints), "null");
        assert_eq!(run(Aggregate::Max(CqlType::Int), &CqlType::Int, &[]), "null");
    }
}
