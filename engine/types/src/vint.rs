//! Cassandra's variable-length integers: the count of leading one bits of the first byte is the count of further
//! bytes; signed values are zigzag-coded. As `org.apache.cassandra.utils.vint.VIntCoding`.

/// Longest form: one byte of ones and eight of value.
pub const MAX_LEN: usize = 9;

pub fn unsigned_len(value: u64) -> usize {
    // Seven bits of value per byte, and a ninth byte carries a whole eight.
    let bits = 64 - (value | 1).leading_zeros() as usize;
    bits.div_ceil(7).min(MAX_LEN)
}

#[inline]
pub fn write_unsigned(value: u64, out: &mut Vec<u8>) {
    // One byte is by far the most frequent form.
    match value {
        0..=127 => out.push(value as u8),
        _ => write_long(value, out),
    }
}

fn write_long(value: u64, out: &mut Vec<u8>) {
    let extra = unsigned_len(value) - 1;
    if extra == 8 {
        out.push(0xFF);
        out.extend_from_slice(&value.to_be_bytes());
        return;
    }
    let bytes = value.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(&bytes[7 - extra..]);
    // The length bits sit above the value bits of the first byte.
    out[start] |= !(0xFFu16 >> extra) as u8;
}

/// Takes a value off the front of `input`; `None` when it ends too early.
pub fn read_unsigned(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    let extra = first.leading_ones() as usize;
    let tail = rest.get(..extra)?;
    let mut value = if extra >= 8 { 0 } else { (first & (0xFF >> extra)) as u64 };
    for &byte in tail {
        value = (value << 8) | byte as u64;
    }
    *input = &rest[extra..];
    Some(value)
}

pub fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

pub fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

pub fn write_signed(value: i64, out: &mut Vec<u8>) {
    write_unsigned(zigzag(value), out);
}

pub fn read_signed(input: &mut &[u8]) -> Option<i64> {
    read_unsigned(input).map(unzigzag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_forms() {
        let check = |value: u64, expect: &[u8]| {
            let mut out = Vec::new();
            write_unsigned(value, &mut out);
            assert_eq!(out, expect, "{value}");
            assert_eq!(out.len(), unsigned_len(value));
            assert_eq!(read_unsigned(&mut &out[..]), Some(value));
        };
        check(0, &[0]);
        check(127, &[0x7F]);
        check(128, &[0x80, 0x80]);
        check(16_383, &[0xBF, 0xFF]);
        check(16_384, &[0xC0, 0x40, 0x00]);
        check((1 << 56) - 1, &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
        check(1 << 56, &[0xFF, 1, 0, 0, 0, 0, 0, 0, 0]);
        check(u64::MAX, &[0xFF; 9]);
    }

    #[test]
    fn signed_and_truncated() {
        for value in [0, -1, 1, i64::MIN, i64::MAX, 12_345, -98_765] {
            let mut out = Vec::new();
            write_signed(value, &mut out);
            assert_eq!(read_signed(&mut &out[..]), Some(value));
            assert_eq!(read_signed(&mut &out[..out.len() - 1]), None);
        }
    }
}
