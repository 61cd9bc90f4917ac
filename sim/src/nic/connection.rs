//! One connection: two ends, and in each what is on its way to it or waits to be read.

use std::collections::VecDeque;
use std::net::SocketAddr;

use reactor::Buf;

use crate::kernel::event::Side;
use crate::seat::Waiter;
use crate::server::RateServer;

/// Bytes sent and not yet read, of one direction: the sender's and the receiver's socket buffers together, as Linux
/// tunes them for a busy connection inside of a data centre (assumed).
pub(crate) const WINDOW_BYTES: usize = 512 << 10;

/// Bytes in order. Memory that a burst needed is given back when it has been read.
#[derive(Default)]
pub(crate) struct ByteQueue {
    bytes: Vec<u8>,
    head: usize,
}

const KEPT_CAPACITY: usize = 16 << 10;

impl ByteQueue {
    pub fn len(&self) -> usize {
        self.bytes.len() - self.head
    }

    pub fn push(&mut self, bytes: &[u8]) {
        if self.head > 0 && self.bytes.len() + bytes.len() > self.bytes.capacity() {
            self.bytes.drain(..self.head);
            self.head = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Moves the first `len` bytes behind the buffer's.
    pub fn pop_into(&mut self, len: usize, buf: &mut Buf) {
        buf.extend_from_slice(&self.bytes[self.head..self.head + len]);
        self.head += len;
        if self.head == self.bytes.len() {
            self.clear();
        }
    }

    pub fn clear(&mut self) {
        self.head = 0;
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_CAPACITY {
            self.bytes = Vec::new();
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The connecting side waits for an answer.
    Opening,
    /// The end is open.
    Open,
    /// Its descriptor is closed; the kernel still delivers what was sent.
    Closed,
    /// Its host lost power: nothing is known of it any more.
    Gone,
}

pub(crate) struct End {
    pub host: u32,
    pub addr: SocketAddr,
    pub phase: Phase,
    /// Bytes that the other end sent; the first `arrived` of them can be read.
    pub incoming: ByteQueue,
    pub arrived: usize,
    /// The other end's stream has ended here.
    pub fin: bool,
    pub reset: bool,
    pub read_shut: bool,
    pub write_shut: bool,
    pub receivers: VecDeque<Waiter>,
    pub senders: VecDeque<Waiter>,
    /// When the latest bytes sent by this end arrive: later ones arrive later.
    pub last_arrival_at: u64,
    /// When the latest bytes for this end were delivered.
    pub last_delivery_at: u64,
    pub flow: RateServer,
    /// Bytes sent by this end that were lost on the way, to be sent again.
    pub lost_bytes: u32,
    pub lost_fin: bool,
    /// Attempts to send again so far; an event is scheduled when above 0.
    pub attempts: u32,
    /// A window's opening is on its way to this end.
    pub window_coming: bool,
    /// Bytes that this end sent, and how many of them it knows to be read.
    pub sent: u64,
    pub known_read: u64,
}

impl End {
    fn new(host: u32, addr: SocketAddr, phase: Phase, per_flow: f64) -> Self {
        Self {
            host,
            addr,
            phase,
            incoming: ByteQueue::default(),
            arrived: 0,
            fin: false,
            reset: false,
            read_shut: false,
            write_shut: false,
            receivers: VecDeque::new(),
            senders: VecDeque::new(),
            last_arrival_at: 0,
            last_delivery_at: 0,
            flow: RateServer::new(per_flow),
            lost_bytes: 0,
            lost_fin: false,
            attempts: 0,
            window_coming: false,
            sent: 0,
            known_read: 0,
        }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Closed | Phase::Gone)
    }
}

pub(crate) struct Connection {
    ends: [End; 2],
    /// Who waits for the connection to be made.
    pub connector: Option<Waiter>,
    /// Scheduled events that name it: it is forgotten after the last.
    pub scheduled: u32,
    pub is_local: bool,
    /// How long a bare acknowledgement or reset takes: the median of the link.
    pub reply_ns: u64,
}

impl Connection {
    pub fn new(from: (u32, SocketAddr), to: (u32, SocketAddr), per_flow: f64, reply_ns: u64) -> Self {
        Self {
            reply_ns,
            ends: [End::new(from.0, from.1, Phase::Opening, per_flow), End::new(to.0, to.1, Phase::Opening, per_flow)],
            connector: None,
            scheduled: 0,
            is_local: from.0 == to.0,
        }
    }

    pub fn end(&mut self, side: Side) -> &mut End {
        &mut self.ends[side as usize]
    }

    pub fn peek(&self, side: Side) -> &End {
        &self.ends[side as usize]
    }

    /// `side` learns what its peer has read.
    pub fn hear_of_reading(&mut self, side: Side) {
        let unread = self.peek(side.other()).incoming.len() as u64;
        let end = self.end(side);
        end.known_read = end.sent - unread;
    }

    pub fn is_over(&self) -> bool {
        self.scheduled == 0 && self.ends.iter().all(End::is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_order() {
        let mut queue = ByteQueue::default();
        let mut buf = Buf::with_capacity(64);
        queue.push(b"hello ");
        queue.push(b"world");
        queue.pop_into(7, &mut buf);
        queue.push(b"!");
        queue.pop_into(5, &mut buf);
        assert_eq!(&*buf, b"hello world!");
        assert_eq!(queue.len(), 0);
    }
}
