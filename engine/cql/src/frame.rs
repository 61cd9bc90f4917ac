//! Frames of the native protocol v3, v4 and v5: nine bytes of header (version, flags, stream, opcode, length) and a
//! body. In v5 they travel in segments: see [`crate::segment`].
//!
//! A frame is decoded in place: the body is a slice of the buffer that holds it. No body is longer than the limit
//! given. A peer that speaks another version gets, from [`FrameError::reply`], an ERROR frame of version 4 whose
//! words ("unsupported protocol version") make the Python, Java and Rust drivers try a lower one by themselves.

use crate::compression::{self, Compression};
use crate::response;

/// A version of the protocol that is spoken here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Version {
    V3 = 3,
    #[default]
    V4 = 4,
    V5 = 5,
}

impl Version {
    /// As SUPPORTED lists them.
    pub const NAMES: [&'static str; 3] = ["3/v3", "4/v4", "5/v5"];

    pub fn from_byte(byte: u8) -> Option<Version> {
        match byte {
            3 => Some(Version::V3),
            4 => Some(Version::V4),
            5 => Some(Version::V5),
            _ => None,
        }
    }
}

pub const HEADER_LEN: usize = 9;
/// Cassandra's default `native_transport_max_frame_size` was 256 MiB up to 4.0.
pub const BODY_MAX: usize = 256 << 20;

pub const FLAG_COMPRESSED: u8 = 0x01;
pub const FLAG_TRACING: u8 = 0x02;
pub const FLAG_CUSTOM_PAYLOAD: u8 = 0x04;
pub const FLAG_WARNING: u8 = 0x08;
/// v5 clients that accept a beta version set it; harmless.
pub const FLAG_USE_BETA: u8 = 0x10;

/// The stream of messages that answer no request: events.
pub const EVENT_STREAM: i16 = -1;

const RESPONSE_BIT: u8 = 0x80;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Request,
    Response,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Opcode {
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0A,
    Register = 0x0B,
    Event = 0x0C,
    Batch = 0x0D,
    AuthChallenge = 0x0E,
    AuthResponse = 0x0F,
    AuthSuccess = 0x10,
}

impl Opcode {
    pub fn from_code(code: u8) -> Option<Opcode> {
        Some(match code {
            0x00 => Opcode::Error,
            0x01 => Opcode::Startup,
            0x02 => Opcode::Ready,
            0x03 => Opcode::Authenticate,
            0x05 => Opcode::Options,
            0x06 => Opcode::Supported,
            0x07 => Opcode::Query,
            0x08 => Opcode::Result,
            0x09 => Opcode::Prepare,
            0x0A => Opcode::Execute,
            0x0B => Opcode::Register,
            0x0C => Opcode::Event,
            0x0D => Opcode::Batch,
            0x0E => Opcode::AuthChallenge,
            0x0F => Opcode::AuthResponse,
            0x10 => Opcode::AuthSuccess,
            _ => return None,
        })
    }

    /// As the specification writes it.
    pub fn name(self) -> &'static str {
        match self {
            Opcode::Error => "ERROR",
            Opcode::Startup => "STARTUP",
            Opcode::Ready => "READY",
            Opcode::Authenticate => "AUTHENTICATE",
            Opcode::Options => "OPTIONS",
            Opcode::Supported => "SUPPORTED",
            Opcode::Query => "QUERY",
            Opcode::Result => "RESULT",
            Opcode::Prepare => "PREPARE",
            Opcode::Execute => "EXECUTE",
            Opcode::Register => "REGISTER",
            Opcode::Event => "EVENT",
            Opcode::Batch => "BATCH",
            Opcode::AuthChallenge => "AUTH_CHALLENGE",
            Opcode::AuthResponse => "AUTH_RESPONSE",
            Opcode::AuthSuccess => "AUTH_SUCCESS",
        }
    }

    pub fn direction(self) -> Direction {
        match self {
            Opcode::Startup
            | Opcode::Options
            | Opcode::Query
            | Opcode::Prepare
            | Opcode::Execute
            | Opcode::Register
            | Opcode::Batch
            | Opcode::AuthResponse => Direction::Request,
            _ => Direction::Response,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub version: Version,
    pub flags: u8,
    pub stream: i16,
    pub opcode: Opcode,
    /// Bytes of body as sent, compressed or not.
    pub body_len: u32,
}

impl Header {
    /// In v5 segments are compressed, and the flag means nothing; the Java driver sets it.
    pub fn is_compressed(&self) -> bool {
        self.version < Version::V5 && self.flags & FLAG_COMPRESSED != 0
    }

    pub fn wants_tracing(&self) -> bool {
        self.flags & FLAG_TRACING != 0
    }
}

/// After any of these the connection cannot go on: answer with [`FrameError::reply`] and close it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    #[error("Invalid or unsupported protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5)")]
    UnsupportedVersion { version: u8, stream: i16 },
    #[error("Unknown or misdirected opcode {opcode:#04x}")]
    Opcode { opcode: u8, stream: i16 },
    #[error("Request is too big: length {len} exceeds maximum allowed length {max}.")]
    TooLong { len: u32, max: usize, stream: i16 },
    #[error("The body is not a valid compressed block of its stated length")]
    BadCompression,
    /// Only when encoding.
    #[error("A body of {0} bytes does not fit a frame")]
    BodyTooLong(usize),
}

impl FrameError {
    /// Appends the ERROR frame that tells the peer.
    pub fn reply(&self, out: &mut Vec<u8>) {
        let stream = match self {
            FrameError::UnsupportedVersion { stream, .. }
            | FrameError::Opcode { stream, .. }
            | FrameError::TooLong { stream, .. } => *stream,
            FrameError::BadCompression | FrameError::BodyTooLong(_) => 0,
        };
        let start = begin(out, Opcode::Error, stream);
        response::Error::protocol(self.to_string()).encode(out);
        finish(out, start, Compression::None).expect("an error's message fits a frame");
    }
}

/// The first frame of `buffer`: its header and body, `HEADER_LEN + body.len()` bytes in all; `None` when it has not
/// arrived whole.
pub fn decode(buffer: &[u8], from: Direction, body_max: usize) -> Result<Option<(Header, &[u8])>, FrameError> {
    let Some(header) = decode_header(buffer, from, body_max)? else {
        return Ok(None);
    };
    Ok(buffer[HEADER_LEN..].get(..header.body_len as usize).map(|body| (header, body)))
}

/// As [`decode`], the header alone, so that a reader can size its buffer for the body.
pub fn decode_header(buffer: &[u8], from: Direction, body_max: usize) -> Result<Option<Header>, FrameError> {
    let Some(&first) = buffer.first() else {
        return Ok(None);
    };
    let byte = first & !RESPONSE_BIT;
    let Some(version) = Version::from_byte(byte) else {
        let version = byte;
        // v1 and v2 have one byte of stream, in a header of eight; wait for it to echo the stream.
        return match (buffer, version) {
            ([_, _, stream, ..], 0..=2) => {
                Err(FrameError::UnsupportedVersion { version, stream: *stream as i8 as i16 })
            }
            ([_, _, high, low, ..], _) => {
                Err(FrameError::UnsupportedVersion { version, stream: i16::from_be_bytes([*high, *low]) })
            }
            _ => Ok(None),
        };
    };
    let Some(&[first, flags, high, low, opcode, a, b, c, d]) = buffer.first_chunk::<HEADER_LEN>() else {
        return Ok(None);
    };
    let stream = i16::from_be_bytes([high, low]);
    let direction = if first & RESPONSE_BIT != 0 { Direction::Response } else { Direction::Request };
    let known = Opcode::from_code(opcode).filter(|known| direction == from && known.direction() == from);
    let opcode = known.ok_or(FrameError::Opcode { opcode, stream })?;
    let body_len = u32::from_be_bytes([a, b, c, d]);
    if body_len as usize > body_max {
        return Err(FrameError::TooLong { len: body_len, max: body_max, stream });
    }
    Ok(Some(Header { version, flags, stream, opcode, body_len }))
}

/// Where a frame under construction begins in its buffer.
#[derive(Debug)]
#[must_use = "a frame has no length until it is finished"]
pub struct FrameStart(usize);

/// Appends a header; the body is then appended by the caller, and [`finish`] sets its length.
pub fn begin(out: &mut Vec<u8>, opcode: Opcode, stream: i16) -> FrameStart {
    begin_flagged(out, opcode, stream, 0)
}

pub fn begin_flagged(out: &mut Vec<u8>, opcode: Opcode, stream: i16, flags: u8) -> FrameStart {
    begin_version(out, Version::V4, opcode, stream, flags)
}

pub fn begin_version(out: &mut Vec<u8>, version: Version, opcode: Opcode, stream: i16, flags: u8) -> FrameStart {
    let start = out.len();
    let direction = if opcode.direction() == Direction::Response { RESPONSE_BIT } else { 0 };
    let [high, low] = stream.to_be_bytes();
    out.extend_from_slice(&[version as u8 | direction, flags, high, low, opcode as u8, 0, 0, 0, 0]);
    FrameStart(start)
}

/// Sets the length and compresses the body if that was agreed and is worth it.
pub fn finish(out: &mut Vec<u8>, start: FrameStart, compression: Compression) -> Result<(), FrameError> {
    let FrameStart(start) = start;
    let body_at = start + HEADER_LEN;
    let len = out.len() - body_at;
    if len > i32::MAX as usize {
        out.truncate(start);
        return Err(FrameError::BodyTooLong(len));
    }
    out[start + 5..body_at].copy_from_slice(&(len as u32).to_be_bytes());
    compression::compress_frame(out, start, compression);
    Ok(())
}

/// Drops a frame under construction, when its answer turns out to be another.
pub fn abandon(out: &mut Vec<u8>, start: FrameStart) {
    out.truncate(start.0);
}

/// Memory that a connection keeps between frames: many ordinary requests, and not one rare huge one.
const CAPACITY_KEPT: usize = 1 << 20;

/// Bytes as they arrive, frames as they are whole. Consumed bytes are reclaimed when more arrive, so the buffer
/// does not grow beyond the longest frame and one read.
#[derive(Debug)]
pub struct FrameBuffer {
    bytes: Vec<u8>,
    consumed: usize,
    from: Direction,
    body_max: usize,
}

impl FrameBuffer {
    pub fn new(from: Direction, body_max: usize) -> FrameBuffer {
        FrameBuffer { bytes: Vec::new(), consumed: 0, from, body_max }
    }

    pub fn extend(&mut self, received: &[u8]) {
        if self.consumed == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(CAPACITY_KEPT);
            self.consumed = 0;
        } else if self.consumed > 0 {
            self.bytes.drain(..self.consumed);
            self.consumed = 0;
        }
        self.bytes.extend_from_slice(received);
    }

    /// The next whole frame, if there is one. It is consumed when this is called again or more bytes arrive.
    pub fn next_frame(&mut self) -> Result<Option<(Header, &[u8])>, FrameError> {
        let begin = self.consumed;
        let Some(header) = decode_header(&self.bytes[begin..], self.from, self.body_max)? else {
            return Ok(None);
        };
        let body_at = begin + HEADER_LEN;
        let end = body_at + header.body_len as usize;
        // No room is made for the body before its bytes arrive: a header alone must not cost memory.
        if self.bytes.len() < end {
            return Ok(None);
        }
        self.consumed = end;
        Ok(Some((header, &self.bytes[body_at..end])))
    }

    /// What has arrived and was not given out.
    pub fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.bytes.split_off(std::mem::take(&mut self.consumed).min(self.bytes.len()));
        self.bytes.clear();
        rest
    }

    /// Bytes received and not yet consumed.
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.consumed
    }

    /// Capacity held, for memory accounting.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

/// The body as its opcode means it: decompressed into `scratch` if the header says so.
pub fn plain_body<'a>(
    header: &Header,
    body: &'a [u8],
    compression: Compression,
    body_max: usize,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], FrameError> {
    if !header.is_compressed() {
        return Ok(body);
    }
    compression::decompress(compression, body, body_max, scratch)?;
    Ok(scratch)
}

/// Appends a whole frame whose body is ready.
pub fn write(out: &mut Vec<u8>, opcode: Opcode, stream: i16, body: &[u8]) {
    let start = begin(out, opcode, stream);
    out.extend_from_slice(body);
    debug_assert!(body.len() <= i32::MAX as usize);
    let length_at = start.0 + 5;
    out[length_at..length_at + 4].copy_from_slice(&(body.len() as u32).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out, Opcode::Query, 258, body);
        out
    }

    #[test]
    fn layout() {
        assert_eq!(frame(b"abc"), b"\x04\x00\x01\x02\x07\x00\x00\x00\x03abc");
        let (header, body) =
            decode(&frame(b"abc"), Direction::Request, 10).unwrap().map(|(h, b)| (h, b.to_vec())).unwrap();
        assert_eq!(header, Header { version: Version::V4, flags: 0, stream: 258, opcode: Opcode::Query, body_len: 3 });
        assert_eq!(body, b"abc");
    }

    #[test]
    fn frames_of_v5_are_not_compressed() {
        let flags = FLAG_COMPRESSED | FLAG_TRACING;
        let header = |version| Header { version, flags, stream: 0, opcode: Opcode::Query, body_len: 0 };
        assert!(header(Version::V4).is_compressed() && !header(Version::V5).is_compressed());
    }

    #[test]
    fn what_was_given_out_is_not_of_the_rest() {
        let mut buffer = FrameBuffer::new(Direction::Request, BODY_MAX);
        buffer.extend(&[frame(b"abc"), b"rest".to_vec()].concat());
        assert_eq!(buffer.next_frame().unwrap().unwrap().1, b"abc");
        assert_eq!(buffer.take_rest(), b"rest");
        buffer.extend(&frame(b"def"));
        assert_eq!(buffer.next_frame().unwrap().unwrap().1, b"def");
    }

    #[test]
    fn other_versions_are_told_so() {
        let check = |bytes: &[u8], version: u8, stream: i16| {
            let error = decode(bytes, Direction::Request, BODY_MAX).unwrap_err();
            assert_eq!(error, FrameError::UnsupportedVersion { version, stream });
            let mut reply = Vec::new();
            error.reply(&mut reply);
            let (header, body) = decode(&reply, Direction::Response, BODY_MAX).unwrap().unwrap();
            assert_eq!((reply[0], header.opcode, header.stream), (0x84, Opcode::Error, stream));
            let crate::Response::Error(error) = crate::Response::decode(&header, body).unwrap() else {
                panic!("not an ERROR");
            };
            assert_eq!(error.code(), 0x000A);
            assert_eq!(
                error.message,
                format!(
                    "Invalid or unsupported protocol version ({version}); supported versions are (3/v3, 4/v4, 5/v5)"
                )
            );
        };
        check(&[6, 0, 0, 9, 5, 0, 0, 0, 0], 6, 9);
        check(&[7, 0, 0x01, 0, 5, 0, 0, 0, 0], 7, 256);
        check(&[0x42, 0, 0, 1, 5, 0, 0, 0, 0], 0x42, 1);
        check(&[2, 0, 7, 5, 0, 0, 0, 0], 2, 7);
        assert_eq!(decode(&[6, 0, 0], Direction::Request, 0), Ok(None));
    }

    #[test]
    fn bounds_and_directions() {
        assert_eq!(
            decode(&frame(b"abc"), Direction::Request, 2),
            Err(FrameError::TooLong { len: 3, max: 2, stream: 258 })
        );
        assert_eq!(decode(&frame(b""), Direction::Response, 2), Err(FrameError::Opcode { opcode: 7, stream: 258 }));
        assert_eq!(
            decode(&[4, 0, 0, 1, 0x55, 0, 0, 0, 0], Direction::Request, 2),
            Err(FrameError::Opcode { opcode: 0x55, stream: 1 })
        );
    }

    proptest! {
        #[test]
        fn frames_survive_any_cut(bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..10),
                                  cuts in proptest::collection::vec(1..20usize, 1..60)) {
            let stream: Vec<u8> = bodies.iter().flat_map(|body| frame(body)).collect();
            let mut buffer = FrameBuffer::new(Direction::Request, 100);
            let mut got = Vec::new();
            let mut at = 0;
            let mut cuts = cuts.iter().cycle();
            while at < stream.len() {
                let end = (at + cuts.next().unwrap()).min(stream.len());
                buffer.extend(&stream[at..end]);
                at = end;
                while let Some((_, body)) = buffer.next_frame().unwrap() {
                    got.push(body.to_vec());
                }
            }
            prop_assert_eq!(got, bodies);
            prop_assert_eq!(buffer.pending(), 0);
        }

        #[test]
        fn never_panics(bytes: Vec<u8>) {
            let _ = decode(&bytes, Direction::Request, 1_000);
            let _ = decode(&bytes, Direction::Response, 1_000);
        }
    }
}
