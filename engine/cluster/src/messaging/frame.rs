//! Frames between nodes. Pure.
//!
//! ```text
//! 0  payload length u32 | 4  payload CRC32 u32 | 8  request id u64 | 16 verb u8 | 17 flags u8 | 18 code u16 | 20 header check u32
//! ```
//! Little-endian. The header check covers the 20 bytes before it, so that a damaged length is noticed before anything
//! is waited for; the CRC covers the payload. The code is the error's, zero otherwise.

use reactor::Buf;

pub(crate) const HEADER_LEN: usize = 24;

pub(crate) const RESPONSE: u8 = 1;
/// With RESPONSE: the payload is the error's text.
pub(crate) const ERROR: u8 = 2;
/// A request that wants no response.
pub(crate) const ONE_WAY: u8 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub len: u32,
    pub payload_crc: u32,
    pub id: u64,
    pub verb: u8,
    pub flags: u8,
    pub code: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FrameError {
    #[error("a frame header does not match its check")]
    HeaderCheck,
    #[error("a frame's payload does not match its CRC (verb {verb}, {len} bytes)")]
    PayloadCrc { verb: u8, len: u32 },
    #[error("a frame of {len} bytes is over the limit of {max}")]
    TooLarge { len: u32, max: u32 },
}

/// Multiply-xorshift over the three words: a few nanoseconds, every input bit reaches the result.
fn header_check(bytes: &[u8; 20]) -> u32 {
    const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let last = u64::from(u32::from_le_bytes(bytes[16..20].try_into().expect("four bytes")));
    let mut check = (word(0) ^ MULTIPLIER).wrapping_mul(MULTIPLIER);
    check = (check ^ (check >> 32) ^ word(8)).wrapping_mul(MULTIPLIER);
    check = (check ^ (check >> 32) ^ last).wrapping_mul(MULTIPLIER);
    (check >> 32) as u32 ^ check as u32
}

/// Appends a frame.
pub(crate) fn encode(out: &mut Buf, id: u64, verb: u8, flags: u8, code: u16, payload: &[u8]) {
    let mut header = [0; HEADER_LEN];
    header[0..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..8].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    header[8..16].copy_from_slice(&id.to_le_bytes());
    header[16] = verb;
    header[17] = flags;
    header[18..20].copy_from_slice(&code.to_le_bytes());
    let check = header_check(header[..20].try_into().expect("twenty bytes"));
    header[20..24].copy_from_slice(&check.to_le_bytes());
    out.reserve(HEADER_LEN + payload.len());
    out.extend_from_slice(&header);
    out.extend_from_slice(payload);
}

/// The header at the start of `bytes`; `None` when there are too few bytes for one.
pub(crate) fn decode_header(bytes: &[u8], max_payload: u32) -> Result<Option<Header>, FrameError> {
    let Some((bytes, _)) = bytes.split_first_chunk::<HEADER_LEN>() else { return Ok(None) };
    let check = u32::from_le_bytes(bytes[20..24].try_into().expect("four bytes"));
    if check != header_check(bytes[..20].try_into().expect("twenty bytes")) {
        return Err(FrameError::HeaderCheck);
    }
    let len = u32::from_le_bytes(bytes[0..4].try_into().expect("four bytes"));
    if len > max_payload {
        return Err(FrameError::TooLarge { len, max: max_payload });
    }
    Ok(Some(Header {
        len,
        payload_crc: u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes")),
        id: u64::from_le_bytes(bytes[8..16].try_into().expect("eight bytes")),
        verb: bytes[16],
        flags: bytes[17],
        code: u16::from_le_bytes(bytes[18..20].try_into().expect("two bytes")),
    }))
}

/// The frame at the start of `bytes`; `Err(Ok(n))` when at least `n` bytes in all are needed to see it whole.
pub(crate) fn decode(bytes: &[u8], max_payload: u32) -> Result<(Header, &[u8]), Result<usize, FrameError>> {
    let header = match decode_header(bytes, max_payload) {
        Ok(Some(header)) => header,
        Ok(None) => return Err(Ok(HEADER_LEN)),
        Err(error) => return Err(Err(error)),
    };
    let end = HEADER_LEN + header.len as usize;
    let Some(payload) = bytes.get(HEADER_LEN..end) else { return Err(Ok(end)) };
    if crc32fast::hash(payload) != header.payload_crc {
        return Err(Err(FrameError::PayloadCrc { verb: header.verb, len: header.len }));
    }
    Ok((header, payload))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn round_trips(id: u64, verb: u8, flags: u8, code: u16, payload: Vec<u8>) {
            let mut out = Buf::new();
            out.push(1);
            encode(&mut out, id, verb, flags, code, &payload);
            let bytes = &out[1..];
            let (header, decoded) = decode(bytes, 1 << 20).unwrap();
            prop_assert_eq!(decoded, &payload[..]);
            prop_assert_eq!((header.id, header.verb, header.flags, header.code), (id, verb, flags, code));
            for cut in [0, 1, HEADER_LEN - 1] {
                prop_assert_eq!(decode(&bytes[..cut], 1 << 20), Err(Ok(HEADER_LEN)));
            }
            if !payload.is_empty() {
                prop_assert_eq!(decode(&bytes[..bytes.len() - 1], 1 << 20), Err(Ok(bytes.len())));
            }
        }

        #[test]
        fn one_changed_bit_is_noticed(id: u64, verb: u8, payload in proptest::collection::vec(any::<u8>(), 0..80), bit: prop::sample::Index) {
            let mut out = Buf::new();
            encode(&mut out, id, verb, 0, 0, &payload);
            let bit = bit.index(out.len() * 8);
            out[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(matches!(decode(&out, 1 << 20), Err(Err(_))));
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_by_its_header() {
        let mut out = Buf::new();
        encode(&mut out, 1, 2, 0, 0, &[0; 101]);
        assert_eq!(decode(&out[..HEADER_LEN], 100), Err(Err(FrameError::TooLarge { len: 101, max: 100 })));
        assert_eq!(decode(&out[..HEADER_LEN], 101), Err(Ok(HEADER_LEN + 101)));
    }
}
