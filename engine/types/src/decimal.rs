//! `varint` and `decimal`: Java's `BigInteger.toByteArray` (two's complement, big-endian, shortest) and a
//! big-endian i32 scale before an unscaled varint.
//!
//! Comparing never computes a power of ten of the scale, which a client chooses: digits are compared as text.

use std::cmp::Ordering;

use num_bigint::{BigInt, Sign};

use crate::error::{Error, marshal};

pub fn varint_from_text(text: &str) -> Result<Vec<u8>, Error> {
    let digits = text.strip_prefix('+').filter(|rest| !rest.starts_with('-')).unwrap_or(text);
    let value: BigInt = digits.parse().map_err(|_| marshal(format!("unable to make int from '{text}'")))?;
    Ok(value.to_signed_bytes_be())
}

pub fn varint_to_text(bytes: &[u8]) -> String {
    BigInt::from_signed_bytes_be(bytes).to_string()
}

/// The forms that Java's `BigDecimal(String)` takes: sign, digits with an optional point, exponent.
pub fn decimal_from_text(text: &str) -> Result<Vec<u8>, Error> {
    let refuse = || marshal(format!("unable to make BigDecimal from '{text}'"));
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (&text[..at], text[at + 1..].parse::<i64>().map_err(|_| refuse())?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: String = [whole, fraction].concat();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(refuse());
    }
    let scale = i32::try_from(fraction.len() as i64 - exponent).map_err(|_| refuse())?;
    let mut unscaled: BigInt = digits.parse().map_err(|_| refuse())?;
    if negative {
        unscaled = -unscaled;
    }
    Ok(decimal_value(i64::from(scale), &unscaled))
}

/// As Java's `BigDecimal.toString`: plain when the scale is not negative and the number not tiny, else scientific.
pub fn decimal_to_text(bytes: &[u8]) -> Result<String, Error> {
    let (scale, unscaled) = decimal_parts(bytes)?;
    let digits = unscaled.magnitude().to_string();
    let sign = if unscaled.sign() == Sign::Minus { "-" } else { "" };
    let adjusted = digits.len() as i64 - 1 - scale;
    if scale >= 0 && adjusted >= -6 {
        if scale == 0 {
            return Ok(format!("{sign}{digits}"));
        }
        let scale = scale as usize;
        if digits.len() > scale {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            return Ok(format!("{sign}{whole}.{fraction}"));
        }
        return Ok(format!("{sign}0.{digits:0>scale$}"));
    }
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    Ok(format!("{sign}{first}{point}{rest}E{adjusted:+}"))
}

/// The scale and the unscaled value.
pub fn decimal_parts(bytes: &[u8]) -> Result<(i64, BigInt), Error> {
    match bytes.split_first_chunk::<4>() {
        Some((scale, unscaled)) if !unscaled.is_empty() => {
            Ok((i32::from_be_bytes(*scale) as i64, BigInt::from_signed_bytes_be(unscaled)))
        }
        _ => Err(marshal(format!("Expected 0 or at least 4 bytes ({})", bytes.len()))),
    }
}

/// Numeric order whatever the scales; malformed values by their bytes.
/// The bytes of `unscaled * 10^-scale`. The scale is an int: what is beyond is cut off there.
pub fn decimal_value(scale: i64, unscaled: &BigInt) -> Vec<u8> {
    let scale = scale.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32;
    let mut out = scale.to_be_bytes().to_vec();
    out.extend_from_slice(&unscaled.to_signed_bytes_be());
    out
}

pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    let (Ok((a_scale, x)), Ok((b_scale, y))) = (decimal_parts(a), decimal_parts(b)) else {
        // Malformed or empty ones come first, so that the order stays transitive.
        return decimal_parts(a).is_ok().cmp(&decimal_parts(b).is_ok()).then_with(|| a.cmp(b));
    };
    if x.sign() != y.sign() || x.sign() == Sign::NoSign {
        return x.sign().cmp(&y.sign());
    }
    let magnitude = |value: &BigInt, scale: i64| {
        let digits = value.magnitude().to_string();
        (digits.len() as i64 - scale, digits.trim_end_matches('0').to_string())
    };
    let order = magnitude(&x, a_scale).cmp(&magnitude(&y, b_scale));
    if x.sign() == Sign::Minus { order.reverse() } else { order }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["0", "-1", "1.50", "-0.001", "123456789012345678901234567890.5", "1E+5", "1.25E-20", "0.0000010"] {
            assert_eq!(decimal_to_text(&decimal_from_text(text).unwrap()).unwrap(), text);
        }
        assert_eq!(decimal_from_text("-1.5").unwrap(), [0, 0, 0, 1, 0xF1]);
        for bad in ["", ".", "-", "1.2.3", "e5", "1e", "0x1", "1_0", "1e99999999999"] {
            assert!(decimal_from_text(bad).is_err(), "{bad}");
        }
        assert_eq!(varint_from_text("-129").unwrap(), [0xFF, 0x7F]);
        assert_eq!(varint_to_text(&[0xFF, 0x7F]), "-129");
        assert_eq!(varint_from_text("0").unwrap(), [0]);
        assert!(varint_from_text("").is_err() && varint_from_text("1.0").is_err());
    }

    #[test]
    fn hostile_scales_are_cheap() {
        let huge = [0x80, 0, 0, 0, 1];
        let tiny = [0x7F, 0xFF, 0xFF, 0xFF, 1];
        assert_eq!(compare(&huge, &tiny), Ordering::Greater);
        assert_eq!(decimal_to_text(&tiny).unwrap(), "1E-2147483647");
    }
}
