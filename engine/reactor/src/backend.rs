//! The seam: what a world must do for a shard.

use std::io;
use std::net::SocketAddr;

use crate::{Buf, Fd, Op, Shard, SlotId, Work};

/// What one shard sends to another of the same host: code that runs there, in that shard's context.
pub type Message = Box<dyn FnOnce() + Send>;

/// A shard's world. One object per shard, called only from that shard's thread.
///
/// The world completes an operation by `Shard::complete` (the kernel has already written into the buffer) or
/// `Shard::complete_with` (the world writes into it now), exactly once for every `submit` that gave no result, cancelled or
/// not.
pub trait Backend {
    /// Nanoseconds. Hardware: the time-stamp counter. Simulation: the world's time plus the CPU charged in this run.
    fn now(&self) -> u64;

    /// Microseconds since the Unix epoch.
    fn wall_us(&self) -> u64;

    fn random(&self) -> u64;

    /// Begins `op`. `op` and `buf` stay at their heap addresses in the slot until completion. The world may complete
    /// it only after `submit` has returned, or does it in place and gives its result: for reads it has then appended to
    /// the buffer.
    fn submit(&self, shard: &Shard, slot: SlotId, op: &Op, buf: Option<&mut Buf>) -> Option<io::Result<u64>>;

    /// Asks to end an operation soon. It still completes, with its own result or `ECANCELED`.
    fn cancel(&self, shard: &Shard, slot: SlotId);

    /// CPU spent, in nanoseconds, on a scale of the backend's own: the difference around a poll is the poll's cost.
    fn cpu_ns(&self) -> u64;

    /// CPU that the shard has used so far, the kernel's work for it included, in nanoseconds. For accounts: asked rarely.
    fn used_cpu_ns(&self) -> u64 {
        self.cpu_ns()
    }

    /// `amount` units of `work` are done now.
    fn charge(&self, work: Work, amount: u64);

    /// Hands `message` to shard `to` of this host, in the order of sending.
    fn send_message(&self, shard: &Shard, to: usize, message: Message);

    /// The remote address of a connection.
    fn peer_addr(&self, fd: Fd) -> io::Result<SocketAddr>;

    /// How often the thread lost its processor so far; tells a stall of our own from the host's.
    fn preemptions(&self) -> u64 {
        0
    }

    /// A descriptor that an operation opened for nobody while the shard closes: close it, now.
    fn abandon(&self, _fd: Fd) {}

    /// The shard is going away: end every operation in flight, so that its buffers can be freed.
    fn close(&self, shard: &Shard);
}
