//! The bytes of a commit log segment.
//!
//! A segment is a row of chunks, each beginning at a multiple of 4 KiB and never rewritten. A chunk is a header and
//! records; what is left of its last block is padding. Checksums are salted with the segment's id and the position,
//! so what an earlier life of a recycled file left behind is never taken for new.
//!
//! A chunk also says how far the log was durable when it was written. So a replay that meets a damaged chunk knows
//! which it is: the end that a crash has torn, or damage to what had been acknowledged.
//!
//! ```text
//! chunk    magic u32 | crc u32 of the rest | segment u64 | offset u32 | used u32 (bytes with header, without padding)
//!          | durable up to: segment u64, offset u32
//! record   crc u32 of salt, length and payload | length u32 | payload
//! ```

use crate::commitlog::Position;

pub(super) const BLOCK: usize = 4096;
pub(super) const CHUNK_HEADER: usize = 36;
pub(super) const RECORD_HEADER: usize = 8;
/// "OCL2"
const MAGIC: u32 = 0x4F43_4C32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub at: Position,
    /// Bytes with the header, without padding.
    pub used: u32,
    /// Everything before it was on the disk, synced, when this chunk was written.
    pub durable: Position,
}

impl ChunkHeader {
    pub fn encode(&self) -> [u8; CHUNK_HEADER] {
        let mut header = [0; CHUNK_HEADER];
        header[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        header[8..16].copy_from_slice(&self.at.segment.to_be_bytes());
        header[16..20].copy_from_slice(&self.at.offset.to_be_bytes());
        header[20..24].copy_from_slice(&self.used.to_be_bytes());
        header[24..32].copy_from_slice(&self.durable.segment.to_be_bytes());
        header[32..36].copy_from_slice(&self.durable.offset.to_be_bytes());
        let mut hasher = crc32fast::Hasher::new_with_initial(MAGIC);
        hasher.update(&header[8..]);
        header[4..8].copy_from_slice(&hasher.finalize().to_be_bytes());
        header
    }

    /// Of the chunk that begins with `header` at `at`; `None` when none does.
    pub fn decode(header: &[u8; CHUNK_HEADER], at: Position) -> Option<Self> {
        let u32_at = |at: usize| header[at..at + 4].iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        let segment = u64::from(u32_at(24)) << 32 | u64::from(u32_at(28));
        let decoded = Self { at, used: u32_at(20), durable: Position { segment, offset: u32_at(32) } };
        (decoded.used as usize > CHUNK_HEADER && *header == decoded.encode()).then_some(decoded)
    }
}

/// Spreads segment and position over the checksum's start value.
fn salt(position: Position) -> u32 {
    let mixed = (position.segment.rotate_left(32) ^ u64::from(position.offset)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 32) as u32
}

pub(super) fn record_crc(position: Position, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(salt(position) ^ payload.len() as u32);
    hasher.update(payload);
    hasher.finalize()
}

/// The record at the front of `bytes`; `None` when it is torn.
pub(super) fn read_record(bytes: &[u8], position: Position) -> Option<&[u8]> {
    let (crc, rest) = bytes.split_first_chunk()?;
    let (len, rest) = rest.split_first_chunk()?;
    let payload = rest.get(..u32::from_be_bytes(*len) as usize)?;
    (u32::from_be_bytes(*crc) == record_crc(position, payload)).then_some(payload)
}

/// Segment files are named `commitlog-<shard>-<segment>.log`.
pub(super) fn file_name(shard: u32, segment: u64) -> String {
    format!("commitlog-{shard}-{segment:012}.log")
}

pub(super) fn parse_file_name(name: &str) -> Option<(u32, u64)> {
    let (shard, segment) = name.strip_prefix("commitlog-")?.strip_suffix(".log")?.split_once('-')?;
    Some((shard.parse().ok()?, segment.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_belong_to_their_place() {
        let at = |segment, offset| Position { segment, offset };
        let header = ChunkHeader { at: at(7, 8192), used: 100, durable: at(6, 4096) };
        let bytes = header.encode();
        assert_eq!(ChunkHeader::decode(&bytes, at(7, 8192)), Some(header));
        assert_eq!(ChunkHeader::decode(&bytes, at(8, 8192)), None);
        assert_eq!(ChunkHeader::decode(&bytes, at(7, 4096)), None);
        for byte in 0..CHUNK_HEADER {
            let mut damaged = bytes;
            damaged[byte] ^= 1;
            assert_eq!(ChunkHeader::decode(&damaged, at(7, 8192)), None, "byte {byte}");
        }
        assert_eq!(ChunkHeader::decode(&[0; CHUNK_HEADER], at(0, 0)), None);
    }

    #[test]
    fn records_belong_to_their_place() {
        let at = |segment, offset| Position { segment, offset };
        let mut bytes = record_crc(at(1, 24), b"payload").to_be_bytes().to_vec();
        bytes.extend_from_slice(&7u32.to_be_bytes());
        bytes.extend_from_slice(b"payload");
        assert_eq!(read_record(&bytes, at(1, 24)), Some(&b"payload"[..]));
        assert_eq!(read_record(&bytes, at(2, 24)), None);
        assert_eq!(read_record(&bytes, at(1, 25)), None);
        assert_eq!(read_record(&bytes[..14], at(1, 24)), None);
        bytes[10] ^= 1;
        assert_eq!(read_record(&bytes, at(1, 24)), None);
    }

    #[test]
    fn names() {
        assert_eq!(parse_file_name(&file_name(3, 17)), Some((3, 17)));
        assert_eq!(parse_file_name("commitlog-3-x.log"), None);
    }
}
