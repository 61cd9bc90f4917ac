//! Compressed bodies, as v4 and older have them: for LZ4 a big-endian u32 of the uncompressed length, then one block;
//! for Snappy its raw format, which begins with a length of its own.

use crate::frame::{FLAG_COMPRESSED, FrameError, HEADER_LEN};

/// Smaller bodies go as they are: the frame's flag says so for each frame, and compression would not shrink them.
const COMPRESS_FROM: usize = 512;

/// What STARTUP's `COMPRESSION` chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    Lz4,
    /// Not in v5.
    Snappy,
}

impl Compression {
    /// The name in STARTUP and SUPPORTED.
    pub fn from_name(name: &str) -> Option<Compression> {
        match name.to_ascii_lowercase().as_str() {
            "lz4" => Some(Compression::Lz4),
            "snappy" => Some(Compression::Snappy),
            _ => None,
        }
    }
}

/// Replaces `out` by the uncompressed body, which may be at most `body_max` bytes.
pub fn decompress(compression: Compression, body: &[u8], body_max: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    match compression {
        Compression::None => Err(FrameError::BadCompression),
        Compression::Lz4 => decompress_lz4(body, body_max, out),
        Compression::Snappy => decompress_snappy(body, body_max, out),
    }
}

fn decompress_snappy(body: &[u8], body_max: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let len = snap::raw::decompress_len(body).map_err(|_| FrameError::BadCompression)?;
    // A copy of 64 bytes takes three: a longer claim is a lie that would only cost memory.
    if len > body_max || len / 64 > body.len() {
        return Err(FrameError::BadCompression);
    }
    out.clear();
    out.resize(len, 0);
    match snap::raw::Decoder::new().decompress(body, out) {
        Ok(written) if written == len => Ok(()),
        _ => Err(FrameError::BadCompression),
    }
}

fn decompress_lz4(body: &[u8], body_max: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let (len, block) = body.split_first_chunk::<4>().ok_or(FrameError::BadCompression)?;
    let len = u32::from_be_bytes(*len) as usize;
    // LZ4 cannot expand more than 255 times: a longer claim is a lie that would only cost memory.
    if len > body_max || len / 255 > block.len() {
        return Err(FrameError::BadCompression);
    }
    out.clear();
    out.resize(len, 0);
    if len == 0 {
        return Ok(());
    }
    match lz4_flex::block::decompress_into(block, out) {
        Ok(written) if written == len => Ok(()),
        _ => Err(FrameError::BadCompression),
    }
}

/// Compresses the body of the finished frame that begins at `start` of `out`, in place, if that makes it smaller.
pub(crate) fn compress_frame(out: &mut Vec<u8>, start: usize, compression: Compression) {
    let body_at = start + HEADER_LEN;
    let len = out.len() - body_at;
    if len < COMPRESS_FROM || compression == Compression::None {
        return;
    }
    // The compressed form is written behind the plain one, then moved over it.
    let scratch_at = out.len();
    let (prefix, room) = match compression {
        Compression::Snappy => (0, snap::raw::max_compress_len(len)),
        _ => (4, lz4_flex::block::get_maximum_output_size(len)),
    };
    out.resize(scratch_at + room, 0);
    let (plain, scratch) = out.split_at_mut(scratch_at);
    let plain = &plain[body_at..];
    let written = match compression {
        Compression::Snappy => snap::raw::Encoder::new().compress(plain, scratch).ok(),
        _ => lz4_flex::block::compress_into(plain, scratch).ok(),
    };
    let Some(written) = written.filter(|written| written + prefix < len) else {
        out.truncate(scratch_at);
        return;
    };
    if prefix > 0 {
        out[body_at..body_at + prefix].copy_from_slice(&(len as u32).to_be_bytes());
    }
    out.copy_within(scratch_at..scratch_at + written, body_at + prefix);
    out.truncate(body_at + prefix + written);
    out[start + 1] |= FLAG_COMPRESSED;
    out[start + 5..body_at].copy_from_slice(&((written + prefix) as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use proptest::prelude::*;

    #[test]
    fn shrinks_and_comes_back() {
        check(Compression::Lz4);
        check(Compression::Snappy);
    }

    fn check(compression: Compression) {
        let body = b"cassandra".repeat(1_000);
        let mut out = b"before".to_vec();
        let start = frame::begin(&mut out, frame::Opcode::Query, 7);
        out.extend_from_slice(&body);
        frame::finish(&mut out, start, compression).unwrap();
        assert!(out.len() < 1_000);
        let (header, sent) = frame::decode(&out[6..], frame::Direction::Request, 1 << 20).unwrap().unwrap();
        assert!(header.is_compressed());
        assert_eq!(sent.len(), out.len() - 6 - HEADER_LEN);
        let mut back = Vec::new();
        decompress(compression, sent, 1 << 20, &mut back).unwrap();
        assert_eq!(back, body);
        assert_eq!(decompress(compression, sent, 100, &mut back), Err(FrameError::BadCompression));
    }

    proptest! {
        #[test]
        fn never_panics(body: Vec<u8>) {
            let _ = decompress(Compression::Lz4, &body, 1 << 16, &mut Vec::new());
            let _ = decompress(Compression::Snappy, &body, 1 << 16, &mut Vec::new());
        }
    }
}
