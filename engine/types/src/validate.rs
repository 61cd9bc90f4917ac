//! Whether bytes are a value of a type, with the words of Cassandra's serializers.

use crate::error::{Error, marshal};
use crate::{CqlType, collection, duration::CqlDuration};

impl CqlType {
    pub fn validate(&self, bytes: &[u8]) -> Result<(), Error> {
        let len = bytes.len();
        let length = |right: bool, expected: &str| {
            if right { Ok(()) } else { Err(marshal(format!("Expected {expected} ({len})"))) }
        };
        match self {
            CqlType::Blob => Ok(()),
            CqlType::Text => std::str::from_utf8(bytes).map(drop).map_err(|_| marshal("String didn't validate.")),
            CqlType::Ascii => match bytes.iter().find(|b| !b.is_ascii()) {
                None => Ok(()),
                Some(byte) => Err(marshal(format!("Invalid byte for ascii: {byte}"))),
            },
            CqlType::Int => length(len == 4 || len == 0, "4 or 0 byte int"),
            CqlType::BigInt | CqlType::Counter => length(len == 8 || len == 0, "8 or 0 byte long"),
            CqlType::SmallInt => length(len == 2, "2 bytes for a smallint"),
            CqlType::TinyInt => length(len == 1, "1 byte for a tinyint"),
            CqlType::Boolean => length(len == 1 || len == 0, "1 or 0 byte value"),
            CqlType::Float => length(len == 4 || len == 0, "4 or 0 byte value for a float"),
            CqlType::Double => length(len == 8 || len == 0, "8 or 0 byte value for a double"),
            CqlType::Timestamp => length(len == 8 || len == 0, "8 or 0 byte long for date"),
            CqlType::Date => length(len == 4, "4 byte long for date"),
            CqlType::Time => length(len == 8, "8 byte long for time"),
            CqlType::Decimal => length(len == 0 || len > 4, "0 or at least 4 bytes"),
            CqlType::VarInt => Ok(()),
            CqlType::Inet if matches!(len, 0 | 4 | 16) => Ok(()),
            CqlType::Inet => Err(marshal(format!("Expected 4 or 16 byte inetaddress; got {}", hex(bytes)))),
            CqlType::Uuid if matches!(len, 0 | 16) => Ok(()),
            CqlType::Uuid => Err(marshal(format!("UUID should be 16 or 0 bytes ({len})"))),
            CqlType::TimeUuid if !matches!(len, 0 | 16) => {
                Err(marshal(format!("TimeUUID should be 16 or 0 bytes ({len})")))
            }
            CqlType::TimeUuid if len == 16 && bytes[6] >> 4 != 1 => Err(marshal("Invalid version for TimeUUID type.")),
            CqlType::TimeUuid => Ok(()),
            CqlType::Duration => CqlDuration::from_bytes(bytes).map(drop),
            CqlType::Frozen(inner) => inner.validate(bytes),
            CqlType::List(element) => validate_elements(bytes, &[element], "list"),
            CqlType::Set(element) => validate_elements(bytes, &[element], "set"),
            CqlType::Map(key, value) => validate_elements(bytes, &[key, value], "map"),
            CqlType::Tuple(fields) => validate_fields(bytes, fields.len(), fields.iter()),
            CqlType::Udt(udt) => validate_fields(bytes, udt.fields.len(), udt.field_types()),
            CqlType::Vector(..) if bytes.is_empty() => Ok(()),
            CqlType::Vector(element, dimension) => {
                let elements = collection::vector_elements(bytes, element.fixed_len(), *dimension)?;
                elements.into_iter().try_for_each(|value| element.validate(value))
            }
        }
    }
}

fn validate_fields<'a>(bytes: &[u8], count: usize, types: impl Iterator<Item = &'a CqlType>) -> Result<(), Error> {
    for (field, ty) in collection::fields(bytes, count)?.into_iter().zip(types) {
        field.map_or(Ok(()), |value| ty.validate(value))?;
    }
    Ok(())
}

fn validate_elements(bytes: &[u8], types: &[&CqlType], what: &str) -> Result<(), Error> {
    let mut rest = bytes;
    for _ in 0..collection::read_count(&mut rest)? {
        for ty in types {
            match collection::read_value(&mut rest)? {
                Some(value) => ty.validate(value)?,
                None => return Err(marshal(format!("null is not supported inside collections ({what})"))),
            }
        }
    }
    if rest.is_empty() { Ok(()) } else { Err(marshal(format!("Unexpected extraneous bytes after {what} value"))) }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            out.push(char::from_digit(nibble as u32, 16).expect("a nibble is a hexadecimal digit"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_contents() {
        let refused = |ty: CqlType, bytes: &[u8], message: &str| {
            assert_eq!(ty.validate(bytes).unwrap_err().to_string(), message);
        };
        refused(CqlType::Int, &[1], "Expected 4 or 0 byte int (1)");
        refused(CqlType::SmallInt, &[], "Expected 2 bytes for a smallint (0)");
        refused(CqlType::Text, &[0xFF], "String didn't validate.");
        refused(CqlType::Ascii, &[0x80], "Invalid byte for ascii: 128");
        refused(CqlType::TimeUuid, &[0; 16], "Invalid version for TimeUUID type.");
        refused(CqlType::Inet, &[1, 2], "Expected 4 or 16 byte inetaddress; got 0102");
        let list = CqlType::list(CqlType::Int);
        refused(list.clone(), b"\0\0\0\x01\0\0\0\x01x", "Expected 4 or 0 byte int (1)");
        refused(list.clone(), b"\0\0\0\0x", "Unexpected extraneous bytes after list value");
        assert_eq!(list.validate(b"\0\0\0\x01\0\0\0\x04abcd"), Ok(()));
        assert_eq!(CqlType::Int.validate(&[]), Ok(()));
    }
}
