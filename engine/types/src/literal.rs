//! Values as text and back: what a quoted or bare constant of CQL means for a scalar type, and how a value of any
//! type is written as a literal that parses to itself.

use std::net::IpAddr;

use crate::error::{Error, marshal};
use crate::validate::hex;
use crate::{CqlType, calendar, collection, decimal, duration::CqlDuration, uuid};

impl CqlType {
    /// The value that a scalar's text stands for, as Cassandra's `AbstractType.fromString`. Blobs are hexadecimal
    /// without `0x`. Collections have no text form: their literals are terms of the grammar.
    pub fn from_text(&self, text: &str) -> Result<Vec<u8>, Error> {
        let refuse = |what: &str| marshal(format!("Unable to make {what} from '{text}'"));
        Ok(match self {
            // The empty string is the empty value.
            CqlType::Inet | CqlType::Timestamp if text.is_empty() => Vec::new(),
            CqlType::Text => text.as_bytes().to_vec(),
            CqlType::Ascii if text.is_ascii() => text.as_bytes().to_vec(),
            CqlType::Ascii => return Err(marshal(format!("Invalid ASCII character in string literal: {text}"))),
            CqlType::Blob => blob_from_hex(text)?,
            CqlType::Boolean => match text.to_ascii_lowercase().as_str() {
                "true" => vec![1],
                "false" => vec![0],
                _ => return Err(refuse("boolean")),
            },
            CqlType::TinyInt => text.parse::<i8>().map_err(|_| refuse("byte"))?.to_be_bytes().to_vec(),
            CqlType::SmallInt => text.parse::<i16>().map_err(|_| refuse("short"))?.to_be_bytes().to_vec(),
            CqlType::Int => text.parse::<i32>().map_err(|_| refuse("int"))?.to_be_bytes().to_vec(),
            CqlType::BigInt | CqlType::Counter => {
                text.parse::<i64>().map_err(|_| refuse("long"))?.to_be_bytes().to_vec()
            }
            CqlType::Float => text.parse::<f32>().map_err(|_| refuse("float"))?.to_be_bytes().to_vec(),
            CqlType::Double => text.parse::<f64>().map_err(|_| refuse("double"))?.to_be_bytes().to_vec(),
            CqlType::VarInt => decimal::varint_from_text(text)?,
            CqlType::Decimal => decimal::decimal_from_text(text)?,
            CqlType::Uuid => uuid::parse(text)?.to_vec(),
            CqlType::TimeUuid => {
                let bytes = uuid::parse(text)?;
                if uuid::version(&bytes) != 1 {
                    return Err(marshal("TimeUUID supports only version 1 UUIDs"));
                }
                bytes.to_vec()
            }
            CqlType::Inet => match text.parse::<IpAddr>().map_err(|_| refuse("inet address"))? {
                IpAddr::V4(ip) => ip.octets().to_vec(),
                IpAddr::V6(ip) => ip.octets().to_vec(),
            },
            CqlType::Timestamp => calendar::timestamp_from_text(text)?.to_be_bytes().to_vec(),
            CqlType::Date => calendar::date_from_text(text)?.to_be_bytes().to_vec(),
            CqlType::Time => calendar::time_from_text(text)?.to_be_bytes().to_vec(),
            CqlType::Duration => CqlDuration::parse(text)?.to_bytes(),
            CqlType::Frozen(inner) => return inner.from_text(text),
            CqlType::List(_)
            | CqlType::Set(_)
            | CqlType::Map(..)
            | CqlType::Tuple(_)
            | CqlType::Udt(_)
            | CqlType::Vector(..) => {
                return Err(refuse("collection"));
            }
        })
    }

    /// A literal that gives the same value back. Quoted where the grammar wants quotes; an empty value of a type
    /// other than text or blob has no literal and shows as `null`.
    pub fn to_cql_literal(&self, bytes: &[u8]) -> Result<String, Error> {
        self.validate(bytes)?;
        if bytes.is_empty() && !matches!(self.unfrozen(), CqlType::Text | CqlType::Ascii | CqlType::Blob) {
            return Ok("null".to_string());
        }
        let array = |bytes: &[u8]| bytes.try_into().map_err(|_| marshal("a UUID has sixteen bytes"));
        Ok(match self {
            CqlType::Text | CqlType::Ascii => quote(&String::from_utf8_lossy(bytes)),
            CqlType::Blob => format!("0x{}", hex(bytes)),
            CqlType::Boolean => (bytes[0] != 0).to_string(),
            CqlType::TinyInt | CqlType::SmallInt | CqlType::Int | CqlType::BigInt | CqlType::Counter => {
                signed(bytes).to_string()
            }
            CqlType::Float => float_text(f32::from_bits(unsigned(bytes) as u32)),
            CqlType::Double => float_text(f64::from_bits(unsigned(bytes))),
            CqlType::VarInt => decimal::varint_to_text(bytes),
            CqlType::Decimal => decimal::decimal_to_text(bytes)?,
            CqlType::Uuid | CqlType::TimeUuid => uuid::to_text(&array(bytes)?),
            CqlType::Inet => quote(&inet_text(bytes)),
            CqlType::Timestamp => quote(&calendar::timestamp_to_text(signed(bytes))),
            CqlType::Date => quote(&calendar::date_to_text(unsigned(bytes) as u32)),
            CqlType::Time => quote(&calendar::time_to_text(signed(bytes))),
            CqlType::Duration => {
                let text = CqlDuration::from_bytes(bytes)?.to_string();
                if text.is_empty() { "0ns".to_string() } else { text }
            }
            CqlType::Frozen(inner) => inner.to_cql_literal(bytes)?,
            CqlType::List(element) => list_text(element, bytes, ['[', ']'])?,
            CqlType::Set(element) => list_text(element, bytes, ['{', '}'])?,
            CqlType::Map(key, value) => {
                let mut parts = Vec::new();
                for (k, v) in collection::entries(bytes)? {
                    parts.push(format!("{}: {}", nullable_text(key, k)?, nullable_text(value, v)?));
                }
                format!("{{{}}}", parts.join(", "))
            }
            CqlType::Tuple(types) => {
                let mut parts = Vec::new();
                for (field, ty) in collection::fields(bytes, types.len())?.into_iter().zip(types) {
                    parts.push(nullable_text(ty, field)?);
                }
                format!("({})", parts.join(", "))
            }
            CqlType::Udt(udt) => {
                let mut parts = Vec::new();
                for (field, (name, ty)) in collection::fields(bytes, udt.fields.len())?.into_iter().zip(&udt.fields) {
                    parts.push(format!("{}: {}", quote_identifier(name), nullable_text(ty, field)?));
                }
                format!("{{{}}}", parts.join(", "))
            }
            CqlType::Vector(element, dimension) => {
                let elements = collection::vector_elements(bytes, element.fixed_len(), *dimension)?;
                let parts: Result<Vec<_>, _> =
                    elements.into_iter().map(|value| element.to_cql_literal(value)).collect();
                format!("[{}]", parts?.join(", "))
            }
        })
    }
}

/// Hexadecimal digits in pairs, without `0x`.
fn blob_from_hex(text: &str) -> Result<Vec<u8>, Error> {
    let refuse = || marshal(format!("cannot parse '{text}' as hex bytes"));
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0).ok_or_else(refuse)?;
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A name as CQL must write it: bare when it is lower case and starts with a letter, else in double quotes. Does
/// not know the reserved words, which the grammar does.
pub fn quote_identifier(name: &str) -> String {
    let bare = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if bare { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// Validated bytes of at most eight, sign-extended.
fn signed(bytes: &[u8]) -> i64 {
    let start = if bytes[0] >= 0x80 { -1 } else { 0 };
    bytes.iter().fold(start, |value, &byte| value << 8 | byte as i64)
}

fn unsigned(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, &byte| value << 8 | byte as u64)
}

/// Rust's shortest digits that round-trip; always with a point or exponent, and Java's names of what is not finite.
fn float_text<F: std::fmt::Debug>(value: F) -> String {
    match format!("{value:?}").as_str() {
        "inf" => "Infinity".to_string(),
        "-inf" => "-Infinity".to_string(),
        finite => finite.to_string(),
    }
}

fn inet_text(bytes: &[u8]) -> String {
    match (<[u8; 4]>::try_from(bytes), <[u8; 16]>::try_from(bytes)) {
        (Ok(four), _) => IpAddr::from(four).to_string(),
        (_, Ok(sixteen)) => IpAddr::from(sixteen).to_string(),
        _ => hex(bytes),
    }
}

fn nullable_text(ty: &CqlType, value: Option<&[u8]>) -> Result<String, Error> {
    value.map_or(Ok("null".to_string()), |bytes| ty.to_cql_literal(bytes))
}

fn list_text(element: &CqlType, bytes: &[u8], brackets: [char; 2]) -> Result<String, Error> {
    let parts: Result<Vec<_>, _> =
        collection::elements(bytes)?.into_iter().map(|value| nullable_text(element, value)).collect();
    Ok(format!("{}{}{}", brackets[0], parts?.join(", "), brackets[1]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn literals() {
        let check = |ty: CqlType, text: &str, bytes: &[u8], literal: &str| {
            assert_eq!(ty.from_text(text).unwrap(), bytes, "{ty} {text}");
            assert_eq!(ty.to_cql_literal(bytes).unwrap(), literal);
        };
        check(CqlType::Int, "-2", &[0xFF, 0xFF, 0xFF, 0xFE], "-2");
        check(CqlType::TinyInt, "-128", &[0x80], "-128");
        check(CqlType::Text, "it's", b"it's", "'it''s'");
        check(CqlType::Blob, "00Ff", &[0, 255], "0x00ff");
        check(CqlType::Blob, "", &[], "0x");
        check(CqlType::Boolean, "TRUE", &[1], "true");
        check(CqlType::Double, "1.5", &1.5f64.to_be_bytes(), "1.5");
        check(CqlType::Double, "3", &3f64.to_be_bytes(), "3.0");
        check(CqlType::Float, "-Infinity", &f32::NEG_INFINITY.to_be_bytes(), "-Infinity");
        check(CqlType::Inet, "127.0.0.1", &[127, 0, 0, 1], "'127.0.0.1'");
        check(CqlType::Inet, "::1", &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1], "'::1'");
        check(CqlType::Timestamp, "1970-01-01T00:00:01Z", &1000i64.to_be_bytes(), "'1970-01-01T00:00:01.000Z'");
        check(CqlType::Date, "1970-01-02", &[0x80, 0, 0, 1], "'1970-01-02'");
        check(CqlType::Duration, "1h", &CqlDuration::parse("1h").unwrap().to_bytes(), "1h");
    }

    #[test]
    fn refusals_in_cassandras_words() {
        let check = |ty: CqlType, text: &str, message: &str| {
            assert_eq!(ty.from_text(text).unwrap_err().to_string(), message);
        };
        check(CqlType::Int, "2147483648", "Unable to make int from '2147483648'");
        check(CqlType::Blob, "abc", "cannot parse 'abc' as hex bytes");
        check(CqlType::Inet, "1.2.3", "Unable to make inet address from '1.2.3'");
        check(CqlType::TimeUuid, "00000000-0000-4000-8000-000000000000", "TimeUUID supports only version 1 UUIDs");
        check(CqlType::Timestamp, "soon", "Unable to coerce 'soon' to a formatted date (long)");
    }

    #[test]
    fn compounds() {
        let ty = CqlType::parse("map<text, frozen<list<int>>>").unwrap();
        let list = collection::write_collection(2, [&1i32.to_be_bytes()[..], &2i32.to_be_bytes()]);
        let map = collection::write_collection(1, [&b"k"[..], &list]);
        assert_eq!(ty.to_cql_literal(&map).unwrap(), "{'k': [1, 2]}");
        let tuple = CqlType::parse("tuple<int, text>").unwrap();
        assert_eq!(tuple.to_cql_literal(&collection::write_tuple([Some(&[0, 0, 0, 7][..])])).unwrap(), "(7, null)");
    }

    proptest! {
        #[test]
        fn literal_of_any_value_reads_back(at in 0..20usize, bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let ty = &CqlType::SCALARS[at];
            if let Ok(literal) = ty.to_cql_literal(&bytes) && literal != "null" {
                let text = literal.strip_prefix("0x").unwrap_or(&literal);
                let text = text.strip_prefix('\'').and_then(|t| t.strip_suffix('\'')).unwrap_or(text);
                let text = text.replace("''", "'");
                let extreme = matches!(ty, CqlType::Date | CqlType::Timestamp | CqlType::Time);
                match ty.from_text(&text) {
                    Ok(back) => prop_assert_eq!(ty.compare(&back, &bytes), std::cmp::Ordering::Equal, "{}", literal),
                    // Years beyond seven digits and times beyond a day are shown but not read.
                    Err(error) => prop_assert!(extreme, "{} {}", literal, error),
                }
            }
        }
    }
}
