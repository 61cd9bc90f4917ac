//! The binary form of collections and tuples, as the native protocol v3 and later and frozen values have it: an
//! i32 count (entries of a map count once), then each element as an i32 length and its bytes. A tuple has no count
//! and may end early; its missing fields are null.

use crate::error::{Error, marshal};
use crate::vint;

/// A negative length is null.
pub fn write_value(value: Option<&[u8]>, out: &mut Vec<u8>) {
    match value {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// A list, set, or (with keys and values in turn) the inside of a map whose entry count is `count`.
pub fn write_collection<'a>(count: usize, values: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&(count as i32).to_be_bytes());
    for value in values {
        write_value(Some(value), &mut out);
    }
    out
}

pub fn write_tuple<'a>(fields: impl IntoIterator<Item = Option<&'a [u8]>>) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        write_value(field, &mut out);
    }
    out
}

/// Takes the count off the front of a collection.
pub fn read_count(input: &mut &[u8]) -> Result<usize, Error> {
    let (count, rest) =
        input.split_first_chunk::<4>().ok_or_else(|| marshal("Not enough bytes to read the size of a collection"))?;
    let count = i32::from_be_bytes(*count);
    // Every element has at least its length, so a larger count is a lie that must not size a buffer.
    if count < 0 || count as usize > rest.len() / 4 {
        return Err(marshal(format!("The collection claims {count} elements but has {} bytes", rest.len())));
    }
    *input = rest;
    Ok(count as usize)
}

/// Takes one element off the front; `None` is null.
pub fn read_value<'a>(input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Error> {
    let short = || marshal("Not enough bytes to read an element of a collection");
    let (len, rest) = input.split_first_chunk::<4>().ok_or_else(short)?;
    let len = i32::from_be_bytes(*len);
    if len < 0 {
        *input = rest;
        return Ok(None);
    }
    let (value, rest) = rest.split_at_checked(len as usize).ok_or_else(short)?;
    *input = rest;
    Ok(Some(value))
}

/// The elements of a list or set.
pub fn elements(bytes: &[u8]) -> Result<Vec<Option<&[u8]>>, Error> {
    let mut rest = bytes;
    let count = read_count(&mut rest)?;
    (0..count).map(|_| read_value(&mut rest)).collect()
}

/// The entries of a map.
#[allow(clippy::type_complexity)]
pub fn entries(bytes: &[u8]) -> Result<Vec<(Option<&[u8]>, Option<&[u8]>)>, Error> {
    let mut rest = bytes;
    let count = read_count(&mut rest)?;
    (0..count).map(|_| Ok((read_value(&mut rest)?, read_value(&mut rest)?))).collect()
}

/// The fields of a tuple; those missing at its end are null.
pub fn fields(bytes: &[u8], count: usize) -> Result<Vec<Option<&[u8]>>, Error> {
    let mut rest = bytes;
    let mut list = Vec::with_capacity(count);
    for _ in 0..count {
        list.push(if rest.is_empty() { None } else { read_value(&mut rest)? });
    }
    if !rest.is_empty() {
        return Err(marshal(format!("Invalid remaining data after end of tuple value: expected {count} fields")));
    }
    Ok(list)
}

/// The elements of a vector: side by side when their type fixes the length, else each behind its length as an unsigned
/// vint (`VectorType` of Apache Cassandra 5).
pub fn vector_elements(bytes: &[u8], fixed_len: Option<usize>, dimension: u32) -> Result<Vec<&[u8]>, Error> {
    let short = || marshal("Not enough bytes to read a vector");
    // Even empty elements have their length: the dimension, which comes from a type's name, must not size a buffer.
    let needed = fixed_len.unwrap_or(1).checked_mul(dimension as usize).ok_or_else(short)?;
    if bytes.len() < needed {
        return Err(short());
    }
    let mut rest = bytes;
    let mut list = Vec::with_capacity(dimension as usize);
    for _ in 0..dimension {
        let len = match fixed_len {
            Some(len) => len,
            None => vint::read_unsigned(&mut rest).and_then(|len| usize::try_from(len).ok()).ok_or_else(short)?,
        };
        let (element, behind) = rest.split_at_checked(len).ok_or_else(short)?;
        list.push(element);
        rest = behind;
    }
    if rest.is_empty() { Ok(list) } else { Err(marshal("Unexpected extraneous bytes after vector value")) }
}

/// What [`vector_elements`] reads.
pub fn write_vector<'a>(fixed_len: Option<usize>, elements: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for element in elements {
        if fixed_len.is_none() {
            vint::write_unsigned(element.len() as u64, &mut out);
        }
        out.extend_from_slice(element);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let list = write_collection(2, [&b"ab"[..], b""]);
        assert_eq!(list, b"\0\0\0\x02\0\0\0\x02ab\0\0\0\0");
        assert_eq!(elements(&list).unwrap(), [Some(&b"ab"[..]), Some(b"")]);
        let map = write_collection(1, [&b"k"[..], b"v"]);
        assert_eq!(entries(&map).unwrap(), [(Some(&b"k"[..]), Some(&b"v"[..]))]);
        let tuple = write_tuple([Some(&b"x"[..]), None]);
        assert_eq!(fields(&tuple, 3).unwrap(), [Some(&b"x"[..]), None, None]);
        for (fixed_len, bytes) in [(Some(2), &b"abcd"[..]), (None, b"\x02ab\x02cd")] {
            assert_eq!(write_vector(fixed_len, [&b"ab"[..], b"cd"]), bytes);
            assert_eq!(vector_elements(bytes, fixed_len, 2).unwrap(), [b"ab", b"cd"]);
        }
    }

    #[test]
    fn lies_are_refused() {
        assert!(elements(b"\x7f\xff\xff\xff").is_err());
        assert!(elements(b"\xff\xff\xff\xff").is_err());
        assert!(elements(b"\0\0\0\x01\0\0\0\x05ab").is_err());
        assert!(elements(b"\0\0").is_err());
        assert!(fields(b"\0\0\0\x01x\0", 1).is_err());
        assert!(vector_elements(b"ab", Some(2), u32::MAX).is_err());
        assert!(vector_elements(b"\x01a\x02b", None, 2).is_err());
        assert!(vector_elements(b"\x01ab", None, 1).is_err());
    }
}
