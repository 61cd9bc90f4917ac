//! The bytes of a commit log segment.
//!
//! A segment is a row of chunks, each beginning at a multiple of 4 KiB and never rewritten. A chunk is a header and
//! records; what is left of its last block is padding. Checksums are salted with the segment's id and the position,
//! so what an earlier life of a recycled file left behind is never taken for new.
//!
//! ```text
//! chunk    magic u32 | crc u32 of the rest | segment u64 | offset u32 | used u32 (bytes with header, without padding)
//! record   crc u32 of salt, length and payload | length u32 | payload
//! ```

use crate::commitlog::Position;

pub(super) const BLOCK: usize = 4096;
pub(super) const CHUNK_HEADER: usize = 24;
pub(super) const RECORD_HEADER: usize = 8;
/// "OCL1"
const MAGIC: u32 = 0x4F43_4C31;

fn chunk_crc(segment: u64, offset: u32, used: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(MAGIC);
    hasher.update(&segment.to_be_bytes());
    hasher.update(&offset.to_be_bytes());
    hasher.update(&used.to_be_bytes());
    hasher.finalize()
}

pub(super) fn chunk_header(segment: u64, offset: u32, used: u32) -> [u8; CHUNK_HEADER] {
    let mut header = [0; CHUNK_HEADER];
    header[0..4].copy_from_slice(&MAGIC.to_be_bytes());
    header[4..8].copy_from_slice(&chunk_crc(segment, offset, used).to_be_bytes());
    header[8..16].copy_from_slice(&segment.to_be_bytes());
    header[16..20].copy_from_slice(&offset.to_be_bytes());
    header[20..24].copy_from_slice(&used.to_be_bytes());
    header
}

/// The bytes used by the chunk that begins with `header` at `offset` of `segment`; `None` when none does.
pub(super) fn chunk_used(header: &[u8; CHUNK_HEADER], segment: u64, offset: u32) -> Option<u32> {
    let used = u32::from_be_bytes([header[20], header[21], header[22], header[23]]);
    let fits = used as usize > CHUNK_HEADER;
    (fits && *header == chunk_header(segment, offset, used)).then_some(used)
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
        let header = chunk_header(7, 8192, 100);
        assert_eq!(chunk_used(&header, 7, 8192), Some(100));
        assert_eq!(chunk_used(&header, 8, 8192), None);
        assert_eq!(chunk_used(&header, 7, 4096), None);
        for at in 0..CHUNK_HEADER {
            let mut damaged = header;
            damaged[at] ^= 1;
            assert_eq!(chunk_used(&damaged, 7, 8192), None, "byte {at}");
        }
        assert_eq!(chunk_used(&[0; CHUNK_HEADER], 0, 0), None);
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
