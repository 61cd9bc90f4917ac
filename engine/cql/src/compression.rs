//! Compressed bodies: a big-endian u32 of the uncompressed length, then one LZ4 block, as v4 and older have it.

use crate::frame::{FLAG_COMPRESSED, FrameError, HEADER_LEN};

/// Smaller bodies go as they are: the frame's flag says so for each frame, and compression would not shrink them.
const COMPRESS_FROM: usize = 512;

/// What STARTUP's `COMPRESSION` chose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    #[default]
    None,
    Lz4,
}

impl Compression {
    /// The name in STARTUP and SUPPORTED.
    pub fn from_name(name: &str) -> Option<Compression> {
        name.eq_ignore_ascii_case("lz4").then_some(Compression::Lz4)
    }
}

/// Replaces `out` by the uncompressed body, which may be at most `body_max` bytes.
pub fn decompress(body: &[u8], body_max: usize, out: &mut Vec<u8>) -> Result<(), FrameError> {
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
pub(crate) fn compress_frame(out: &mut Vec<u8>, start: usize) {
    let body_at = start + HEADER_LEN;
    let len = out.len() - body_at;
    if len < COMPRESS_FROM {
        return;
    }
    // The compressed form is written behind the plain one, then moved over it.
    let scratch_at = out.len();
    out.resize(scratch_at + lz4_flex::block::get_maximum_output_size(len), 0);
    let (plain, scratch) = out.split_at_mut(scratch_at);
    let written = lz4_flex::block::compress_into(&plain[body_at..], scratch).unwrap_or(usize::MAX);
    if written.saturating_add(4) >= len {
        out.truncate(scratch_at);
        return;
    }
    out[body_at..body_at + 4].copy_from_slice(&(len as u32).to_be_bytes());
    out.copy_within(scratch_at..scratch_at + written, body_at + 4);
    out.truncate(body_at + 4 + written);
    out[start + 1] |= FLAG_COMPRESSED;
    out[start + 5..body_at].copy_from_slice(&(written as u32 + 4).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;
    use proptest::prelude::*;

    #[test]
    fn shrinks_and_comes_back() {
        let body = b"cassandra".repeat(1_000);
        let mut out = b"before".to_vec();
        let start = frame::begin(&mut out, frame::Opcode::Query, 7);
        out.extend_from_slice(&body);
        frame::finish(&mut out, start, Compression::Lz4).unwrap();
        assert!(out.len() < 500);
        let (header, sent) = frame::decode(&out[6..], frame::Direction::Request, 1 << 20).unwrap().unwrap();
        assert!(header.is_compressed());
        assert_eq!(sent.len(), out.len() - 6 - HEADER_LEN);
        let mut back = Vec::new();
        decompress(sent, 1 << 20, &mut back).unwrap();
        assert_eq!(back, body);
        assert_eq!(decompress(sent, 100, &mut back), Err(FrameError::BadCompression));
    }

    proptest! {
        #[test]
        fn never_panics(body: Vec<u8>) {
            let _ = decompress(&body, 1 << 16, &mut Vec::new());
        }
    }
}
