//! The kinds of events. Each is stored in the queue itself, without a box, in 16 bytes.

/// A seat is one boot of one shard; its number is never used again.
pub type SeatId = u32;
pub type ConnectionId = u32;

/// A side of a connection: the one that connected, or the one that accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    Connector = 0,
    Acceptor = 1,
}

impl Side {
    pub fn other(self) -> Self {
        match self {
            Side::Connector => Side::Acceptor,
            Side::Acceptor => Side::Connector,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A seat's CPU is free, or its next timer is due.
    Run { seat: SeatId },
    /// A file operation is done; its effect takes place now.
    Complete { seat: SeatId, slot: u32, generation: u32 },
    /// A message from another shard of the host.
    Message { index: u32 },
    /// Bytes reach the NIC of `side`'s host.
    Arrive { side: Side, connection: ConnectionId, bytes: u32 },
    /// Bytes have passed the NIC's inward queue, or its host's interrupt CPU.
    Deliver { side: Side, connection: ConnectionId, bytes: u32 },
    /// `side` learns that its peer has made room.
    Window { side: Side, connection: ConnectionId },
    /// The end of the peer's stream reaches `side`.
    Fin { side: Side, connection: ConnectionId },
    /// A reset reaches `side`.
    Reset { side: Side, connection: ConnectionId },
    /// A connection request reaches its listener's host.
    Syn { connection: ConnectionId, attempt: u32 },
    /// The answer reaches the connecting side.
    SynAck { connection: ConnectionId },
    /// `side` sends again what its peer has not confirmed.
    Retransmit { side: Side, connection: ConnectionId },
    /// A host that stood still goes on.
    Resume { host: u32 },
    /// A closure of the experiment: a fault, an oracle.
    Call { index: u32 },
    /// A task of the experiment wants to run.
    Driver { index: u32 },
}

const _: () = assert!(std::mem::size_of::<Event>() == 16);

impl Event {
    pub fn name(&self) -> &'static str {
        match self {
            Event::Run { .. } => "run",
            Event::Complete { .. } => "complete",
            Event::Message { .. } => "message",
            Event::Arrive { .. } => "arrive",
            Event::Deliver { .. } => "deliver",
            Event::Window { .. } => "window",
            Event::Fin { .. } => "fin",
            Event::Reset { .. } => "reset",
            Event::Syn { .. } => "syn",
            Event::SynAck { .. } => "syn-ack",
            Event::Retransmit { .. } => "retransmit",
            Event::Resume { .. } => "resume",
            Event::Call { .. } => "call",
            Event::Driver { .. } => "driver",
        }
    }

    /// The event as two words, for the hash.
    #[inline]
    pub(crate) fn words(&self) -> (u64, u64) {
        let pair = |high: u32, low: u32| (u64::from(high) << 32) | u64::from(low);
        match *self {
            Event::Run { seat } => (0, u64::from(seat)),
            Event::Complete { seat, slot, generation } => (pair(1, seat), pair(slot, generation)),
            Event::Message { index } => (2, u64::from(index)),
            Event::Arrive { side, connection, bytes } => (pair(3, side as u32), pair(connection, bytes)),
            Event::Deliver { side, connection, bytes } => (pair(4, side as u32), pair(connection, bytes)),
            Event::Window { side, connection } => (pair(5, side as u32), u64::from(connection)),
            Event::Fin { side, connection } => (pair(6, side as u32), u64::from(connection)),
            Event::Reset { side, connection } => (pair(7, side as u32), u64::from(connection)),
            Event::Syn { connection, attempt } => (8, pair(connection, attempt)),
            Event::SynAck { connection } => (9, u64::from(connection)),
            Event::Retransmit { side, connection } => (pair(10, side as u32), u64::from(connection)),
            Event::Resume { host } => (11, u64::from(host)),
            Event::Call { index } => (12, u64::from(index)),
            Event::Driver { index } => (13, u64::from(index)),
        }
    }
}
