//! Bound values of QUERY, EXECUTE and BATCH: iterated where they lie, written without a vector per value.

use crate::wire::{self, DecodeError, Reader};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Null,
    /// v4: leaves the column as it is.
    Unset,
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Value<'a>, DecodeError> {
        match reader.i32("length of a value")? {
            -1 => Ok(Value::Null),
            -2 => Ok(Value::Unset),
            len if len < 0 => Err(DecodeError::Invalid(format!("Invalid ByteBuf length {len}"))),
            len => reader.take(len as usize, "value").map(Value::Bytes),
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Value::Null => wire::put_i32(out, -1),
            Value::Unset => wire::put_i32(out, -2),
            Value::Bytes(bytes) => wire::put_bytes(out, Some(bytes)),
        }
    }

    /// The bytes, if it is neither null nor unset.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

impl<'a> From<Option<&'a [u8]>> for Value<'a> {
    fn from(bytes: Option<&'a [u8]>) -> Value<'a> {
        bytes.map_or(Value::Null, Value::Bytes)
    }
}

/// The values of one statement, checked when they were decoded. Copying it copies a slice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Values<'a> {
    count: u16,
    named: bool,
    bytes: &'a [u8],
}

impl<'a> Values<'a> {
    pub const NONE: Values<'static> = Values { count: 0, named: false, bytes: &[] };

    pub(crate) fn decode(reader: &mut Reader<'a>, named: bool) -> Result<Values<'a>, DecodeError> {
        let count = reader.u16("count of values")?;
        let begin = reader.rest();
        for _ in 0..count {
            if named {
                reader.string("name of a value")?;
            }
            Value::read(reader)?;
        }
        Ok(Values { count, named, bytes: &begin[..begin.len() - reader.rest().len()] })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        wire::put_u16(out, self.count);
        out.extend_from_slice(self.bytes);
    }

    pub fn len(&self) -> usize {
        self.count as usize
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn are_named(&self) -> bool {
        self.named
    }

    /// In the order sent.
    pub fn iter(&self) -> ValuesIter<'a> {
        ValuesIter { reader: Reader::new(self.bytes), named: self.named, left: self.count }
    }

    /// Name and value of each; empty when they are positional.
    pub fn named(&self) -> impl Iterator<Item = (&'a str, Value<'a>)> {
        let mut reader = Reader::new(self.bytes);
        let left = if self.named { self.count } else { 0 };
        (0..left).map_while(move |_| Some((reader.string("name").ok()?, Value::read(&mut reader).ok()?)))
    }

    /// Bytes as sent, for memory accounting.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }
}

#[derive(Clone, Debug)]
pub struct ValuesIter<'a> {
    reader: Reader<'a>,
    named: bool,
    left: u16,
}

impl<'a> Iterator for ValuesIter<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        if self.named {
            self.reader.string("name").ok()?;
        }
        Value::read(&mut self.reader).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for ValuesIter<'_> {}

/// Values in the making, on the client's side; `clear` keeps its memory for the next request.
#[derive(Clone, Debug, Default)]
pub struct ValuesBuffer {
    count: u16,
    bytes: Vec<u8>,
}

impl ValuesBuffer {
    pub fn clear(&mut self) {
        self.count = 0;
        self.bytes.clear();
    }

    pub fn push(&mut self, value: Value<'_>) -> &mut Self {
        self.count += 1;
        value.write(&mut self.bytes);
        self
    }

    pub fn push_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.push(Value::Bytes(bytes))
    }

    pub fn values(&self) -> Values<'_> {
        Values { count: self.count, named: false, bytes: &self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positional_and_named() {
        let mut buffer = ValuesBuffer::default();
        buffer.push_bytes(b"ab").push(Value::Null).push(Value::Unset);
        let mut out = Vec::new();
        buffer.values().encode(&mut out);
        let mut reader = Reader::new(&out);
        let values = Values::decode(&mut reader, false).unwrap();
        assert!(reader.is_empty());
        assert_eq!(values.iter().collect::<Vec<_>>(), [Value::Bytes(b"ab"), Value::Null, Value::Unset]);

        let named = b"\0\x01\0\x01k\0\0\0\x01v";
        let values = Values::decode(&mut Reader::new(named), true).unwrap();
        assert_eq!(values.named().collect::<Vec<_>>(), [("k", Value::Bytes(b"v"))]);
        assert_eq!(values.iter().collect::<Vec<_>>(), [Value::Bytes(b"v")]);
        assert!(Values::decode(&mut Reader::new(b"\0\x01\xff\xff\xff\xfd"), false).is_err());
    }
}
