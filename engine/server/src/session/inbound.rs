//! Bytes of a connection to frames: plain ones until STARTUP, then, in v5, out of segments.
//!
//! After an error nothing more can be read from the connection; [`InboundError::reply`] tells the client why.

use cql::frame::{self, FrameStart};
use cql::response::Error;
use cql::segment::{SegmentBuffer, SegmentError};
use cql::{Compression, Direction, FrameBuffer, FrameError, Header, Opcode, Version};

#[derive(Debug, thiserror::Error)]
pub(super) enum InboundError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Segment(#[from] SegmentError),
    #[error("Invalid message version. Got {got} but previous messages on this connection had version {before}")]
    OtherVersion { got: u8, before: u8, stream: i16 },
}

impl InboundError {
    /// Appends the ERROR frame that tells the peer, who speaks `version` as far as it is known.
    pub fn reply(&self, version: Option<Version>, out: &mut Vec<u8>) {
        let stream = match (self, version) {
            (InboundError::Frame(error), None) => return error.reply(out),
            (InboundError::OtherVersion { stream, .. }, _) => *stream,
            _ => 0,
        };
        let start: FrameStart = frame::begin_version(out, version.unwrap_or_default(), Opcode::Error, stream, 0);
        Error::protocol(self.to_string()).encode(out);
        frame::finish(out, start, Compression::None).expect("an error's message fits a frame");
    }
}

pub(super) struct Inbound {
    frames: FrameBuffer,
    segments: Option<SegmentBuffer>,
    payload: Vec<u8>,
    /// What STARTUP spoke.
    version: Option<Version>,
}

impl Inbound {
    pub fn new(body_max: usize) -> Self {
        let frames = FrameBuffer::new(Direction::Request, body_max);
        Self { frames, segments: None, payload: Vec::new(), version: None }
    }

    /// Bytes of a frame that has not arrived whole.
    pub fn pending(&self) -> usize {
        self.frames.pending()
    }

    pub fn version(&self) -> Option<Version> {
        self.version
    }

    pub fn extend(&mut self, received: &[u8]) -> Result<(), InboundError> {
        let Some(segments) = &mut self.segments else {
            self.frames.extend(received);
            return Ok(());
        };
        segments.extend(received);
        self.payload.clear();
        while segments.next_payload(&mut self.payload)? {}
        self.frames.extend(&self.payload);
        Ok(())
    }

    /// The next whole frame, if there is one.
    pub fn next_frame(&mut self) -> Result<Option<(Header, &[u8])>, InboundError> {
        match self.frames.next_frame()? {
            Some((header, _)) if self.version.is_some_and(|version| version != header.version) => {
                let before = self.version.unwrap_or_default() as u8;
                Err(InboundError::OtherVersion { got: header.version as u8, before, stream: header.stream })
            }
            other => Ok(other),
        }
    }

    /// STARTUP has been answered: no other version from now on, and segments if they are part of it.
    pub fn started(&mut self, version: Version, compression: Compression) -> Result<(), InboundError> {
        self.version = Some(version);
        if version < Version::V5 {
            return Ok(());
        }
        let rest = self.frames.take_rest();
        self.segments = Some(SegmentBuffer::new(compression == Compression::Lz4));
        self.extend(&rest)
    }
}
