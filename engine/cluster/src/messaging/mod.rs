//! Requests and answers between the nodes, one [`Messenger`] per shard.
//!
//! 1. A shard has connections of its own to every peer, made when they are first needed: one for statements, one for
//!    control (verbs with the high bit), so that heartbeats never wait behind data, and one for bulk, so that statements
//!    do not either. The peer's shard that serves them is `our shard % its shards`.
//! 2. Many requests share a connection. What is sent in one turn leaves in one `Send`; answers come in any order.
//! 3. Every request ends exactly once: with its answer, its timeout, or the end of its connection. A callback never
//!    runs inside the call that registered it.
//! 4. Frames carry checks; a connection with a damaged frame is closed and the reason logged.
//! 5. Two nodes talk only when their cluster has started with the same nodes; otherwise the refusal names those that
//!    differ. Who is not of the cluster yet may ask one question, [`ask`], which its nodes answer as they see fit.
//! 6. A node is alive while it answers shard 0's heartbeats; the other shards follow shard 0. It is down when nothing
//!    was answered for a while (power loss, partition), or as soon as a connection is refused (process gone).
//!
//! Nothing here retries a request: that is for whoever knows whether it may be repeated.

mod call;
mod coalescing;
mod frame;
mod handshake;
mod inbound;
mod lane;
mod link;
mod liveness;
mod messenger;
mod outstanding;
mod stranger;
mod sweep;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use reactor::Buf;

pub use call::Call;
pub use inbound::{Incoming, Reply};
pub use messenger::{Messenger, MessengerCounters};
pub use stranger::{AskError, ask};

use crate::topology::NodeIndex;

/// What a request asks for. The numbers below [`Verb::INTERNAL`] belong to the messenger's users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Verb(pub u8);

impl Verb {
    /// Verbs from here on travel on the connection for bulk.
    pub const BULK: u8 = 0x40;
    /// Verbs from here on travel on the control connection.
    pub const CONTROL: u8 = 0x80;
    /// Verbs from here on are the messenger's own.
    pub const INTERNAL: u8 = 0xF0;
    pub(crate) const HELLO: Verb = Verb(0xFF);
    pub(crate) const HEARTBEAT: Verb = Verb(0xFE);
    /// A question of somebody who is not of the cluster.
    pub(crate) const ASK: Verb = Verb(0xFD);

    fn lane(self) -> usize {
        match self.0 {
            Self::CONTROL.. => messenger::CONTROL,
            Self::BULK.. => messenger::BULK,
            _ => 0,
        }
    }
}

/// Codes of [`CallError::Remote`] that the messenger itself sends; a handler's codes are below them.
pub mod remote_code {
    /// The handler let the request go without an answer.
    pub const NO_ANSWER: u16 = 0xFFFF;
    /// The answer was over the frame limit.
    pub const ANSWER_TOO_LARGE: u16 = 0xFFFE;
    /// The node is stopping.
    pub const STOPPING: u16 = 0xFFFD;
    pub(crate) const REFUSED: u16 = 0xFFFC;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    #[error("no answer in time")]
    Timeout,
    /// The request was not sent.
    #[error("the node cannot be reached")]
    Unreachable,
    /// The request may or may not have been carried out.
    #[error("the connection ended before the answer came")]
    Disconnected,
    /// The request was not sent: too many are waiting for this node.
    #[error("too many requests wait for the node")]
    Overloaded,
    #[error("{bytes} bytes are over the limit of {max} for a message between nodes")]
    TooLarge { bytes: usize, max: u32 },
    #[error("the node answered with error {code}: {text}")]
    Remote { code: u16, text: String },
}

/// Serves what other nodes ask.
pub trait Handler {
    /// Called in the connection's task: short work may be done here, longer work in a task of its own. Answers may
    /// come later and in any order.
    fn handle(self: Rc<Self>, request: Incoming);

    /// Answers who is not of the cluster, on shard 0; the error is a sentence for them.
    fn answer_stranger(self: Rc<Self>, question: Payload) -> Pin<Box<dyn Future<Output = Result<Vec<u8>, String>>>> {
        drop(question);
        Box::pin(async { Err("this node answers its cluster alone".into()) })
    }
}

/// The bytes of one message: a piece of the receive buffer, kept as long as the payload is.
#[derive(Clone, Default)]
pub struct Payload {
    chunk: Rc<Buf>,
    start: u32,
    end: u32,
}

/// What a node answered.
pub type Response = Payload;

impl Payload {
    fn new(chunk: &Rc<Buf>, start: usize, len: usize) -> Self {
        Self { chunk: chunk.clone(), start: start as u32, end: (start + len) as u32 }
    }
}

impl From<&[u8]> for Payload {
    fn from(bytes: &[u8]) -> Self {
        Self { end: bytes.len() as u32, start: 0, chunk: Rc::new(Buf::from(bytes)) }
    }
}

impl Deref for Payload {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.chunk[self.start as usize..self.end as usize]
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Payload({} bytes)", self.len())
    }
}

#[derive(Clone, Debug)]
pub struct MessengerConfig {
    /// Where shard 0 listens, instead of this node's address in the topology.
    pub listen: Option<SocketAddr>,
    /// Connect from this node's address, so that the peer and the network see who it is.
    pub bind_source: bool,
    pub heartbeat_interval: Duration,
    /// A node that has answered no heartbeat for so long is down.
    pub down_after: Duration,
    pub connect_timeout: Duration,
    /// Waits between attempts to connect double from the first to the second of these.
    pub reconnect_min: Duration,
    pub reconnect_max: Duration,
    /// Of a payload. Twice the largest mutation that Cassandra takes by default (half of a 32 MiB segment).
    pub frame_max_bytes: u32,
    /// Requests that may wait for one node: at a million answers a second, those of 65 ms.
    pub outstanding_max: usize,
    /// Bytes that may wait to be sent to one node: two frames of the largest size.
    pub queue_max_bytes: usize,
    /// Messages may wait so long for others to leave with; `None`: each leaves at once.
    pub coalescing_window: Option<Duration>,
}

impl Default for MessengerConfig {
    fn default() -> Self {
        Self {
            listen: None,
            bind_source: true,
            heartbeat_interval: Duration::from_millis(500),
            down_after: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            reconnect_min: Duration::from_millis(50),
            reconnect_max: Duration::from_secs(1),
            frame_max_bytes: 32 << 20,
            outstanding_max: 65_536,
            queue_max_bytes: 64 << 20,
            coalescing_window: None,
        }
    }
}

/// A node came up or went down.
type LivenessCallback = Rc<dyn Fn(NodeIndex, bool)>;
/// A node has a schema version other than ours.
type SchemaCallback = Rc<dyn Fn(NodeIndex, u128)>;
