//! `CAST(x AS type)`: which conversions exist, and what they give; as Cassandra's `CastFcts`.

use num_bigint::BigInt;

use crate::decimal::{decimal_from_text, decimal_parts};
use crate::error::{Error, marshal};
use crate::{CqlType, calendar, uuid};

impl CqlType {
    /// Whether values of this type can be cast to `to`.
    pub fn can_cast(&self, to: &CqlType) -> bool {
        use CqlType::*;
        let (from, to) = (self.unfrozen(), to.unfrozen());
        let scalar = CqlType::scalar_from_name(&from.to_string()).is_some();
        from == to
            || (from.is_number() && to.is_number() && *to != Counter)
            || (scalar && !matches!(from, Blob | Duration) && matches!(to, Text | Ascii))
            || matches!((from, to), (TimeUuid, Timestamp | Date) | (Timestamp, Date) | (Date, Timestamp))
    }

    pub fn is_number(&self) -> bool {
        use CqlType::*;
        matches!(self, TinyInt | SmallInt | Int | BigInt | Counter | Float | Double | VarInt | Decimal)
    }

    /// Bytes of a value, for the integer types of fixed width.
    pub fn integer_len(&self) -> Option<usize> {
        use CqlType::*;
        match self {
            TinyInt => Some(1),
            SmallInt => Some(2),
            Int => Some(4),
            BigInt | Counter => Some(8),
            _ => None,
        }
    }

    /// The value as one of `to`; integers that do not fit lose their upper bits, as in Java. An error for pairs that
    /// [`CqlType::can_cast`] refuses and for bytes that are no value of this type.
    pub fn cast(&self, to: &CqlType, bytes: &[u8]) -> Result<Vec<u8>, Error> {
        use CqlType::*;
        let (from, to) = (self.unfrozen(), to.unfrozen());
        if !from.can_cast(to) {
            return Err(marshal(format!("{from} cannot be cast to {to}")));
        }
        from.validate(bytes)?;
        if from == to || bytes.is_empty() {
            return Ok(bytes.to_vec());
        }
        let number = |bytes: &[u8]| bytes.try_into().map(i64::from_be_bytes).map_err(|_| marshal("eight bytes wanted"));
        let unix_ms = |bytes: &[u8]| bytes.try_into().map(uuid::unix_ms).map_err(|_| marshal("sixteen bytes wanted"));
        Ok(match (from, to) {
            (_, Text | Ascii) => from.to_plain_text(bytes)?.into_bytes(),
            (TimeUuid, Timestamp) => unix_ms(bytes)?.to_be_bytes().to_vec(),
            (TimeUuid, Date) => calendar::date_of_timestamp(unix_ms(bytes)?).to_be_bytes().to_vec(),
            (Timestamp, Date) => calendar::date_of_timestamp(number(bytes)?).to_be_bytes().to_vec(),
            (Date, _) => {
                let days = bytes.try_into().map(u32::from_be_bytes).map_err(|_| marshal("four bytes wanted"))?;
                calendar::timestamp_of_date(days).to_be_bytes().to_vec()
            }
            _ => Number::of(from, bytes)?.into_type(to)?,
        })
    }

    /// Text without the quotes of a literal.
    fn to_plain_text(&self, bytes: &[u8]) -> Result<String, Error> {
        let literal = self.to_cql_literal(bytes)?;
        let inner = literal.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        Ok(inner.map_or_else(|| literal.clone(), |inner| inner.replace("''", "'")))
    }
}

/// A value of a numeric type.
enum Number {
    Integer(BigInt),
    Float(f64),
    /// The unscaled value and the scale.
    Decimal(BigInt, i64),
}

impl Number {
    fn of(ty: &CqlType, bytes: &[u8]) -> Result<Number, Error> {
        Ok(match ty {
            CqlType::Float => Number::Float(f64::from(f32::from_be_bytes(array(bytes)?))),
            CqlType::Double => Number::Float(f64::from_be_bytes(array(bytes)?)),
            CqlType::Decimal => {
                let (scale, unscaled) = decimal_parts(bytes)?;
                Number::Decimal(unscaled, scale)
            }
            _ => Number::Integer(BigInt::from_signed_bytes_be(bytes)),
        })
    }

    fn into_type(self, to: &CqlType) -> Result<Vec<u8>, Error> {
        Ok(match to {
            CqlType::Float => match &self {
                // Once only: rounding to a double first would round twice.
                Number::Float(value) => (*value as f32).to_be_bytes().to_vec(),
                other => other.to_text().parse::<f32>().unwrap_or(f32::NAN).to_be_bytes().to_vec(),
            },
            CqlType::Double => match &self {
                Number::Float(value) => value.to_be_bytes().to_vec(),
                other => other.to_text().parse::<f64>().unwrap_or(f64::NAN).to_be_bytes().to_vec(),
            },
            CqlType::Decimal => decimal_from_text(&self.to_text())?,
            CqlType::VarInt => self.truncated()?.to_signed_bytes_be(),
            _ => {
                let len = to.integer_len().unwrap_or(8);
                if let Number::Float(value) = self {
                    // Java's narrowing: saturates at int and long, then cuts.
                    let wide = if len < 8 { i64::from(value as i32) } else { value as i64 };
                    return Ok(wide.to_be_bytes()[8 - len..].to_vec());
                }
                let whole = self.truncated()?;
                let mut bytes = whole.to_signed_bytes_be();
                let fill = if bytes[0] & 0x80 == 0 { 0 } else { 0xff };
                if bytes.len() < len {
                    bytes.splice(0..0, std::iter::repeat_n(fill, len - bytes.len()));
                }
                bytes[bytes.len() - len..].to_vec()
            }
        })
    }

    fn to_text(&self) -> String {
        match self {
            Number::Integer(value) => value.to_string(),
            Number::Float(value) => value.to_string(),
            Number::Decimal(unscaled, scale) => format!("{unscaled}E{}", -scale),
        }
    }

    /// Towards zero.
    fn truncated(&self) -> Result<BigInt, Error> {
        /// Of a power of ten that is worked out: far beyond any number, short of exhausting memory.
        const SCALE_MAX: i64 = 100_000;
        match self {
            Number::Integer(value) => Ok(value.clone()),
            Number::Float(value) if value.is_finite() => {
                let text = format!("{:.0}", value.trunc());
                text.parse().map_err(|_| marshal(format!("{value} is not an integer")))
            }
            Number::Float(value) => Err(marshal(format!("{value} is not an integer"))),
            Number::Decimal(_, scale) if scale.abs() > SCALE_MAX => Err(marshal("the scale is too large for a cast")),
            Number::Decimal(unscaled, scale) => {
                let power = BigInt::from(10).pow(scale.unsigned_abs() as u32);
                Ok(if *scale >= 0 { unscaled / power } else { unscaled * power })
            }
        }
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], Error> {
    bytes.try_into().map_err(|_| marshal(format!("{N} bytes wanted, got {}", bytes.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(from: CqlType, text: &str, to: CqlType, expect: &str) {
        let cast = from.cast(&to, &from.from_text(text).unwrap()).unwrap();
        assert_eq!(to.to_plain_text(&cast).unwrap(), expect, "{text} as {to}");
    }

    #[test]
    fn numbers() {
        use CqlType::*;
        check(Int, "300", TinyInt, "44");
        check(Int, "-1", BigInt, "-1");
        check(BigInt, "4294967297", Int, "1");
        check(Double, "3.99", Int, "3");
        check(Double, "-3.99", VarInt, "-3");
        check(Double, "1e20", Int, "2147483647");
        check(Float, "1.5", Double, "1.5");
        check(Double, "1e30", VarInt, "1000000000000000019884624838656");
        check(Decimal, "-12.75", Int, "-12");
        check(Decimal, "12.75", Double, "12.75");
        check(VarInt, "123456789012345678901234567890", Decimal, "123456789012345678901234567890");
        check(Int, "7", Decimal, "7");
        check(Double, "2.5", Decimal, "2.5");
        check(VarInt, "-129", TinyInt, "127");
    }

    #[test]
    fn text_and_times() {
        use CqlType::*;
        check(Int, "-5", Text, "-5");
        check(Ascii, "it's", Text, "it's");
        check(Boolean, "true", Ascii, "true");
        check(Timestamp, "2015-05-21 11:03:02.000+0000", Date, "2015-05-21");
        check(Date, "2015-05-21", Timestamp, "2015-05-21T00:00:00.000Z");
        check(TimeUuid, "d2177dd0-eaa2-11de-a572-001b779c76e3", Date, "2009-12-17");
    }

    #[test]
    fn refusals() {
        use CqlType::*;
        for (from, to) in [(Text, Int), (Blob, Text), (Int, Timestamp), (Boolean, Int), (Uuid, Timestamp)] {
            assert!(!from.can_cast(&to), "{from} {to}");
            assert!(from.cast(&to, &[0; 16]).is_err());
        }
        assert!(Int.cast(&BigInt, &[1]).is_err());
        assert!(Double.cast(&VarInt, &f64::NAN.to_be_bytes()).is_err());
    }
}
