//! The one byte string that stands for a partition key on the ring, on disk and between nodes.
//!
//! A key of one component is that component raw. A key of several is Cassandra's `CompositeType`: for each, a
//! big-endian u16 length, the bytes, and a zero byte.

use crate::error::{Error, marshal};

/// The longest component: lengths are 16 bits.
pub const COMPONENT_MAX: usize = u16::MAX as usize;

/// Appends to `out`. The caller has checked that no component is longer than [`COMPONENT_MAX`].
pub fn serialize_partition_key_into(components: &[&[u8]], out: &mut Vec<u8>) {
    if let [one] = components {
        out.extend_from_slice(one);
        return;
    }
    for component in components {
        debug_assert!(component.len() <= COMPONENT_MAX);
        out.extend_from_slice(&(component.len() as u16).to_be_bytes());
        out.extend_from_slice(component);
        out.push(0);
    }
}

pub fn serialize_partition_key(components: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(components.iter().map(|c| c.len() + 3).sum());
    serialize_partition_key_into(components, &mut out);
    out
}

/// The inverse for a key of `count` components.
pub fn partition_key_components(key: &[u8], count: usize) -> Result<Vec<&[u8]>, Error> {
    if count == 1 {
        return Ok(vec![key]);
    }
    let mut rest = key;
    let mut components = Vec::with_capacity(count);
    while let Some((len, tail)) = rest.split_first_chunk::<2>() {
        let len = u16::from_be_bytes(*len) as usize;
        let (Some(component), Some(0)) = (tail.get(..len), tail.get(len)) else {
            return Err(marshal("Not enough bytes to read a component of a composite partition key"));
        };
        components.push(component);
        rest = &tail[len + 1..];
    }
    if !rest.is_empty() || components.len() != count {
        return Err(marshal(format!("Expected {count} components in a composite partition key")));
    }
    Ok(components)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_component_is_raw() {
        assert_eq!(serialize_partition_key(&[b"abc"]), b"abc");
        assert_eq!(partition_key_components(b"abc", 1).unwrap(), [b"abc"]);
    }

    #[test]
    fn several_are_a_composite() {
        let key = serialize_partition_key(&[b"ab", b"", b"c"]);
        assert_eq!(key, b"\x00\x02ab\x00\x00\x00\x00\x00\x01c\x00");
        assert_eq!(partition_key_components(&key, 3).unwrap(), [&b"ab"[..], b"", b"c"]);
        assert!(partition_key_components(&key, 2).is_err());
        assert!(partition_key_components(&key[..key.len() - 1], 3).is_err());
    }
}
