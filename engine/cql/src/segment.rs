//! Segments of the native protocol v5: what carries frames once STARTUP has been answered.
//!
//! A segment is a header with a CRC24, a payload of at most 128 KiB, and the payload's CRC32. A self-contained segment
//! has whole frames; a frame that is too long for one is spread over segments of its own. With LZ4 agreed, a segment's
//! payload is compressed, or marked as not by an uncompressed length of zero.
//!
//! After an error a connection cannot go on: nobody knows where the next segment begins.
//!
//! Source: Apache Cassandra's `doc/native_protocol_v5.spec`, section 2, and `net/Crc.java` for the CRCs.

use crate::frame::{Direction, HEADER_LEN, decode_header};

/// Seventeen bits of length.
pub const PAYLOAD_MAX: usize = (1 << 17) - 1;

const CRC24_LEN: usize = 3;
const CRC32_LEN: usize = 4;
const CRC24_INIT: u32 = 0x0087_5060;
const CRC24_POLYNOMIAL: u32 = 0x0197_4F0B;
/// Fed to the CRC32 before a payload, so that zeros do not check as themselves.
const CRC32_INIT: [u8; 4] = [0xFA, 0x2D, 0x55, 0xCA];

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    #[error("The header of a segment fails its CRC24")]
    HeaderCrc,
    #[error("The payload of a segment fails its CRC32")]
    PayloadCrc,
    #[error("The payload of a segment is not a valid LZ4 block of its stated length")]
    BadCompression,
}

fn crc24(bytes: &[u8]) -> u32 {
    let mut crc = CRC24_INIT;
    for &byte in bytes {
        crc ^= u32::from(byte) << 16;
        for _ in 0..8 {
            crc <<= 1;
            if crc & 0x0100_0000 != 0 {
                crc ^= CRC24_POLYNOMIAL;
            }
        }
    }
    crc & 0x00FF_FFFF
}

fn crc32(payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&CRC32_INIT);
    hasher.update(payload);
    hasher.finalize()
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Appends one segment.
fn put(out: &mut Vec<u8>, payload: &[u8], self_contained: bool, lz4: bool) {
    let header_at = out.len();
    let header_len = header_len(lz4);
    out.resize(header_at + header_len + CRC24_LEN, 0);
    let payload_at = out.len();
    let mut fields = 0;
    if lz4 {
        out.resize(payload_at + lz4_flex::block::get_maximum_output_size(payload.len()), 0);
        let written = lz4_flex::block::compress_into(payload, &mut out[payload_at..]).unwrap_or(usize::MAX);
        if written < payload.len() {
            out.truncate(payload_at + written);
            fields = written as u64 | (payload.len() as u64) << 17 | u64::from(self_contained) << 34;
        } else {
            out.truncate(payload_at);
            out.extend_from_slice(payload);
            fields |= payload.len() as u64 | u64::from(self_contained) << 34;
        }
    } else {
        out.extend_from_slice(payload);
        fields |= payload.len() as u64 | u64::from(self_contained) << 17;
    }
    out[header_at..header_at + header_len].copy_from_slice(&fields.to_le_bytes()[..header_len]);
    let crc = crc24(&out[header_at..header_at + header_len]);
    out[header_at + header_len..payload_at].copy_from_slice(&crc.to_le_bytes()[..CRC24_LEN]);
    let crc = crc32(&out[payload_at..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

fn header_len(lz4: bool) -> usize {
    if lz4 { 5 } else { 3 }
}

/// Appends `frames`, whole ones back to back that go in one direction, as segments.
pub fn encode(out: &mut Vec<u8>, frames: &[u8], from: Direction, lz4: bool) {
    let frame_len = |at: usize| match decode_header(&frames[at..], from, usize::MAX) {
        Ok(Some(header)) => HEADER_LEN + header.body_len as usize,
        _ => frames.len() - at,
    };
    let (mut begin, mut end) = (0, 0);
    while end < frames.len() {
        let len = frame_len(end);
        if end + len - begin <= PAYLOAD_MAX {
            end += len;
            continue;
        }
        if end > begin {
            put(out, &frames[begin..end], true, lz4);
            begin = end;
        }
        if len > PAYLOAD_MAX {
            for part in frames[end..end + len].chunks(PAYLOAD_MAX) {
                put(out, part, false, lz4);
            }
            end += len;
            begin = end;
        }
    }
    if end > begin {
        put(out, &frames[begin..end], true, lz4);
    }
}

/// Bytes as they arrive, payloads as their segments are whole. Holds one segment and one read at most.
#[derive(Debug)]
pub struct SegmentBuffer {
    bytes: Vec<u8>,
    consumed: usize,
    lz4: bool,
}

impl SegmentBuffer {
    pub fn new(lz4: bool) -> SegmentBuffer {
        SegmentBuffer { bytes: Vec::new(), consumed: 0, lz4 }
    }

    pub fn extend(&mut self, received: &[u8]) {
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        self.bytes.extend_from_slice(received);
    }

    /// Appends the payload of the next whole segment to `out`; `false` when there is none yet.
    pub fn next_payload(&mut self, out: &mut Vec<u8>) -> Result<bool, SegmentError> {
        let bytes = &self.bytes[self.consumed..];
        let header_len = header_len(self.lz4);
        let payload_at = header_len + CRC24_LEN;
        if bytes.len() < payload_at {
            return Ok(false);
        }
        if u64::from(crc24(&bytes[..header_len])) != little_endian(&bytes[header_len..payload_at]) {
            return Err(SegmentError::HeaderCrc);
        }
        let fields = little_endian(&bytes[..header_len]);
        let len = fields as usize & PAYLOAD_MAX;
        let plain_len = if self.lz4 { (fields >> 17) as usize & PAYLOAD_MAX } else { 0 };
        let end = payload_at + len + CRC32_LEN;
        if bytes.len() < end {
            return Ok(false);
        }
        let payload = &bytes[payload_at..payload_at + len];
        if u64::from(crc32(payload)) != little_endian(&bytes[payload_at + len..end]) {
            return Err(SegmentError::PayloadCrc);
        }
        if plain_len == 0 {
            out.extend_from_slice(payload);
        } else {
            let at = out.len();
            out.resize(at + plain_len, 0);
            match lz4_flex::block::decompress_into(payload, &mut out[at..]) {
                Ok(written) if written == plain_len => {}
                _ => return Err(SegmentError::BadCompression),
            }
        }
        self.consumed += end;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, Opcode, Version};
    use proptest::prelude::*;

    fn frames(lengths: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, &len) in lengths.iter().enumerate() {
            let start = frame::begin_version(&mut out, Version::V5, Opcode::Query, at as i16, 0);
            out.extend((0..len).map(|byte| (byte % 251) as u8));
            frame::finish(&mut out, start, crate::Compression::None).unwrap();
        }
        out
    }

    #[test]
    fn golden() {
        // As the Python driver 3.29 encodes it.
        let mut out = Vec::new();
        put(&mut out, b"orrery", true, false);
        assert_eq!(out, b"\x06\x00\x02\x31\x39\x22orrery\xa5\x91\xbb\x23");
    }

    #[test]
    fn a_flipped_bit_is_found() {
        let mut sent = Vec::new();
        encode(&mut sent, &frames(&[100]), Direction::Request, true);
        for bit in 0..sent.len() * 8 {
            let mut broken = sent.clone();
            broken[bit / 8] ^= 1 << (bit % 8);
            let mut buffer = SegmentBuffer::new(true);
            buffer.extend(&broken);
            assert!(!matches!(buffer.next_payload(&mut Vec::new()), Ok(true)), "bit {bit}");
        }
    }

    proptest! {
        #[test]
        fn frames_come_back(lengths in proptest::collection::vec(prop_oneof![0..300usize, 130_000..300_000usize], 0..6),
                            lz4: bool, cut in 1..200_000usize) {
            let frames = frames(&lengths);
            let mut sent = Vec::new();
            encode(&mut sent, &frames, Direction::Request, lz4);
            let mut buffer = SegmentBuffer::new(lz4);
            let mut got = Vec::new();
            for part in sent.chunks(cut) {
                buffer.extend(part);
                while buffer.next_payload(&mut got).unwrap() {}
            }
            prop_assert!(got == frames);
            prop_assert!(buffer.bytes[buffer.consumed..].is_empty());
        }

        #[test]
        fn never_panics(bytes: Vec<u8>, lz4: bool) {
            let mut buffer = SegmentBuffer::new(lz4);
            buffer.extend(&bytes);
            let _ = buffer.next_payload(&mut Vec::new());
        }
    }
}
