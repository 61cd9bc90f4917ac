//! `SET n = n + ?` of a column that is no counter, in a conditional statement: numbers added as their type has them.

use num_bigint::BigInt;
use types::CqlType;
use types::decimal::{decimal_parts, decimal_value};

use crate::error::{QueryError, invalid};

/// Beyond this distance of scales a sum of decimals would have too many digits.
const SCALES_APART_MAX: i64 = 10_000;

/// `a + b`, or `a - b`. Integers of a fixed size do not wrap around.
pub(super) fn sum(ty: &CqlType, name: &str, a: &[u8], b: &[u8], takes: bool) -> Result<Vec<u8>, QueryError> {
    let refuse = || invalid!("A number of the wrong length for {name} of type {ty}");
    if let Some(len) = ty.integer_len() {
        let wide = |bytes: &[u8]| {
            let fill = if bytes.first().is_some_and(|first| first & 0x80 != 0) { 0xff } else { 0 };
            let mut wide = [fill; 16];
            let from = 16usize.checked_sub(bytes.len())?;
            wide[from..].copy_from_slice(bytes);
            Some(i128::from_be_bytes(wide))
        };
        let (a, b) = (wide(a).ok_or_else(refuse)?, wide(b).ok_or_else(refuse)?);
        let sum = if takes { a - b } else { a + b };
        let half = 1i128 << (8 * len - 1);
        if !(-half..half).contains(&sum) {
            return Err(invalid!("Integer overflow: {a} {} {b} is no {ty}, for {name}", if takes { '-' } else { '+' }));
        }
        return Ok(sum.to_be_bytes()[16 - len..].to_vec());
    }
    Ok(match ty {
        CqlType::Float => {
            let number = |bytes: &[u8]| bytes.try_into().map(f32::from_be_bytes).map_err(|_| refuse());
            let (a, b) = (number(a)?, number(b)?);
            (if takes { a - b } else { a + b }).to_be_bytes().to_vec()
        }
        CqlType::Double => {
            let number = |bytes: &[u8]| bytes.try_into().map(f64::from_be_bytes).map_err(|_| refuse());
            let (a, b) = (number(a)?, number(b)?);
            (if takes { a - b } else { a + b }).to_be_bytes().to_vec()
        }
        CqlType::VarInt => {
            let (a, b) = (BigInt::from_signed_bytes_be(a), BigInt::from_signed_bytes_be(b));
            (if takes { a - b } else { a + b }).to_signed_bytes_be()
        }
        CqlType::Decimal => {
            let refuse = |error| invalid!("{error}");
            let ((a_scale, a), (b_scale, b)) = (decimal_parts(a).map_err(refuse)?, decimal_parts(b).map_err(refuse)?);
            let scale = a_scale.max(b_scale);
            let aligned = |scale_of: i64, unscaled: BigInt| match scale - scale_of {
                by if by <= SCALES_APART_MAX => Ok(unscaled * BigInt::from(10).pow(by as u32)),
                _ => Err(invalid!("The scales of two decimals are too far apart to add them, for {name}")),
            };
            let (a, b) = (aligned(a_scale, a)?, aligned(b_scale, b)?);
            decimal_value(scale, &if takes { a - b } else { a + b })
        }
        other => return Err(invalid!("{other} is no number, for {name}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums() {
        let check = |ty: CqlType, a: &str, b: &str, takes: bool, expect: Option<&str>| {
            let bytes = |text: &str| ty.from_text(text).unwrap();
            let sum = sum(&ty, "n", &bytes(a), &bytes(b), takes).ok();
            assert_eq!(sum.map(|sum| ty.to_cql_literal(&sum).unwrap()).as_deref(), expect, "{ty} {a} {b}");
        };
        check(CqlType::Int, "2", "3", false, Some("5"));
        check(CqlType::TinyInt, "127", "1", false, None);
        check(CqlType::TinyInt, "-1", "-128", true, Some("127"));
        check(CqlType::BigInt, "-9223372036854775808", "1", true, None);
        check(CqlType::VarInt, "9223372036854775807", "1", false, Some("9223372036854775808"));
        check(CqlType::Decimal, "1.5", "0.25", true, Some("1.25"));
        check(CqlType::Double, "1.5", "0.25", false, Some("1.75"));
        check(CqlType::Decimal, "1e100000", "1", false, None);
    }
}
