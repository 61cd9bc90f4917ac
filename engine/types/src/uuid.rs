//! UUIDs as text and by construction: from a name (version 3), from a time (version 1), from random bits (version 4).
//! The time and the random bits come from the caller.

use md5::{Digest, Md5};

use crate::error::{Error, marshal};

/// 1970-01-01 in 100 ns ticks since 1582-10-15, the epoch of version 1: RFC 4122, 4.1.4.
const UNIX_EPOCH_TICKS: i64 = 0x01B2_1DD2_1381_4000;

/// Clock sequence and node of the least and greatest UUID of a time in `TimeUUIDType`'s order, which takes these
/// bytes as signed: every byte -128, every byte 127.
const LEAST_TAIL: u64 = 0x8080_8080_8080_8080;
const GREATEST_TAIL: u64 = 0x7F7F_7F7F_7F7F_7F7F;

/// The five groups of 8, 4, 4, 4 and 12 hexadecimal digits.
pub fn parse(text: &str) -> Result<[u8; 16], Error> {
    let refuse = || marshal(format!("Unable to make UUID from '{text}'"));
    let bytes = text.as_bytes();
    if bytes.len() != 36 || [8, 13, 18, 23].iter().any(|&at| bytes[at] != b'-') {
        return Err(refuse());
    }
    let mut digits = bytes.iter().filter(|&&b| b != b'-').map(|&b| (b as char).to_digit(16));
    let mut out = [0; 16];
    for byte in &mut out {
        let high = digits.next().flatten().ok_or_else(refuse)?;
        let low = digits.next().flatten().ok_or_else(refuse)?;
        *byte = (high << 4 | low) as u8;
    }
    Ok(out)
}

pub fn to_text(uuid: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*uuid));
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

pub fn version(uuid: &[u8; 16]) -> u8 {
    uuid[6] >> 4
}

fn with_version(mut bytes: [u8; 16], version: u8) -> [u8; 16] {
    bytes[6] = (bytes[6] & 0x0F) | version << 4;
    bytes[8] = (bytes[8] & 0x3F) | 0x80;
    bytes
}

/// Version 3, as Java's `UUID.nameUUIDFromBytes`.
pub fn from_name(name: &[u8]) -> [u8; 16] {
    with_version(Md5::digest(name).into(), 3)
}

/// Version 4.
pub fn from_random(bits: u128) -> [u8; 16] {
    with_version(bits.to_be_bytes(), 4)
}

/// Version 1 of a time in microseconds since 1970, with `ticks` (0 to 9) of 100 ns more. `node_and_sequence` is
/// the last eight bytes; its top two bits become the variant.
pub fn from_time(unix_us: i64, ticks: u8, node_and_sequence: u64) -> [u8; 16] {
    let time = unix_us.wrapping_mul(10).wrapping_add(ticks as i64).wrapping_add(UNIX_EPOCH_TICKS);
    with_version(lay_out(time, node_and_sequence), 1)
}

fn lay_out(time: i64, tail: u64) -> [u8; 16] {
    let time = time as u64 & 0x0FFF_FFFF_FFFF_FFFF;
    let head = (time << 32) | ((time >> 16) & 0xFFFF_0000) | (time >> 48) | 0x1000;
    ((head as u128) << 64 | tail as u128).to_be_bytes()
}

/// `minTimeuuid`: before or equal to every time UUID of that millisecond.
pub fn least_of_ms(unix_ms: i64) -> [u8; 16] {
    lay_out(unix_ms.wrapping_mul(10_000).wrapping_add(UNIX_EPOCH_TICKS), LEAST_TAIL)
}

/// `maxTimeuuid`: after or equal to every time UUID of that millisecond.
pub fn greatest_of_ms(unix_ms: i64) -> [u8; 16] {
    lay_out(unix_ms.wrapping_mul(10_000).wrapping_add(UNIX_EPOCH_TICKS + 9_999), GREATEST_TAIL)
}

/// Ticks of 100 ns since 1970 of a version 1 UUID.
fn unix_ticks(uuid: &[u8; 16]) -> i64 {
    let head = u64::from_be_bytes(uuid[..8].try_into().expect("half of sixteen bytes"));
    let time = (head & 0x0FFF) << 48 | (head & 0xFFFF_0000) << 16 | head >> 32;
    time as i64 - UNIX_EPOCH_TICKS
}

/// Milliseconds since 1970 of a version 1 UUID.
pub fn unix_ms(uuid: &[u8; 16]) -> i64 {
    unix_ticks(uuid).div_euclid(10_000)
}

/// Microseconds since 1970 of a version 1 UUID.
pub fn unix_us(uuid: &[u8; 16]) -> i64 {
    unix_ticks(uuid).div_euclid(10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CqlType;
    use std::cmp::Ordering;

    #[test]
    fn texts() {
        let text = "37f71aca-7dc2-383b-a706-72528af04d4f";
        assert_eq!(to_text(&parse(text).unwrap()), text);
        for bad in ["", "37f71aca7dc2383ba70672528af04d4f", "37f71aca-7dc2-383b-a706-72528af04d4g", &text[1..]] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_as_java_makes_them() {
        // Cassandra's fixed ids of its own tables.
        assert_eq!(to_text(&from_name(b"systemlocal")), "7ad54392-bcdd-35a6-8417-4e047860b377");
        assert_eq!(to_text(&from_name(b"systempeers")), "37f71aca-7dc2-383b-a706-72528af04d4f");
    }

    #[test]
    fn times() {
        let uuid = from_time(1_296_705_900_250_123, 7, u64::MAX);
        assert_eq!((version(&uuid), unix_ms(&uuid), unix_us(&uuid)), (1, 1_296_705_900_250, 1_296_705_900_250_123));
        assert_eq!(uuid[8] >> 6, 0b10);
        // The first UUID in the RFC's own time scale.
        assert_eq!(to_text(&from_time(-12_219_292_800_000_000, 0, 0)), "00000000-0000-1000-8000-000000000000");
        let order = |a: &[u8; 16], b: &[u8; 16]| CqlType::TimeUuid.compare(a, b);
        assert_eq!(order(&least_of_ms(1_296_705_900_250), &uuid), Ordering::Less);
        assert_eq!(order(&greatest_of_ms(1_296_705_900_250), &uuid), Ordering::Greater);
        assert_eq!(order(&least_of_ms(1_296_705_900_251), &uuid), Ordering::Greater);
    }
}
