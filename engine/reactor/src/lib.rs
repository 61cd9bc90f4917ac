//! The shard executor and the seam under it.
//!
//! A **shard** is one thread's worth of database: tasks in scheduling groups, timers, operations in flight, messages
//! to other shards. Its tasks never call the operating system; they submit an [`Op`] and await its completion.
//! Whoever completes it is the world, plugged in as a [`Backend`]: the kernel through io_uring ([`uring`]), or a
//! simulator. Everything above the backend is concrete and the same in both.
//!
//! What it guarantees
//! 1. A buffer given to an operation stays owned by the operation's slot until the world has completed it, even when
//!    the future that awaited it is dropped.
//! 2. Tasks of a group run in the order in which they were woken; groups share the CPU by their shares.
//! 3. With a deterministic backend a shard is deterministic: it reads no clock, entropy or address of its own.
//!
//! What it never does: block, spawn threads (except [`uring`]), or allocate per operation once its tables have grown.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod backend;
mod buf;
mod counters;
mod eager;
pub mod fs;
mod group;
pub mod io;
mod message;
pub mod net;
mod op;
mod shard;
mod slot;
pub mod sync;
mod task;
pub mod time;
#[cfg(target_os = "linux")]
pub mod uring;
mod work;

pub use backend::{Backend, Message};
pub use buf::Buf;
pub use counters::{Counters, WorkCount};
pub use eager::{processors, run_or_spawn};
pub use group::Group;
pub use io::{IoClassStats, IoConfig, IoStats};
pub use message::{submit_to, submit_to_with};
pub use op::{DiskBurst, Fd, Op, OpenFlags};
pub use shard::{Ran, Remote, Shard, ShardConfig};
pub use slot::SlotId;
pub use task::JoinHandle;
pub use work::{TICK_NS, Work};

use std::future::Future;
use std::rc::Rc;

/// Spawns a task on the current shard. `name` is what a stall report calls it.
pub fn spawn<T: 'static>(group: Group, name: &'static str, future: impl Future<Output = T> + 'static) -> JoinHandle<T> {
    Shard::with(|shard| shard.spawn(group, name, future))
}

/// The shard's clock in nanoseconds since some fixed start. Monotonic; differs between shards by their own CPU use.
pub fn now() -> u64 {
    Shard::with(|shard| shard.now())
}

/// Microseconds since the Unix epoch, for timestamps and TTLs. May jump, as wall clocks do.
pub fn wall_us() -> u64 {
    Shard::with(|shard| shard.backend().wall_us())
}

/// [`wall_us`] in whole seconds, as expirations and deletions have it.
pub fn wall_s() -> u32 {
    (wall_us() / 1_000_000) as u32
}

/// 64 random bits from the world's entropy (seeded in simulation). Not for secrets.
pub fn random() -> u64 {
    Shard::with(|shard| shard.backend().random())
}

/// Whether this is one of the cases that are to happen with `probability`: never at 0, where nothing is drawn, always at 1.
pub fn chance(probability: f64) -> bool {
    probability > 0.0 && (random() >> 11) as f64 / ((1u64 << 53) as f64) < probability
}

/// Says that `amount` units (usually bytes) of `work` are being done now. Counted on hardware; spends virtual CPU in
/// simulation.
#[inline]
pub fn charge(work: Work, amount: u64) {
    Shard::with(|shard| shard.charge(work, amount));
}

/// Looks at what the current shard has counted.
pub fn with_counters<T>(look: impl FnOnce(&Counters) -> T) -> T {
    Shard::with(|shard| look(shard.counters()))
}

/// CPU that the current shard has used so far, the kernel's work for it included, in nanoseconds.
pub fn used_cpu_ns() -> u64 {
    Shard::with(|shard| shard.backend().used_cpu_ns())
}

/// Index of the current shard on its host, and how many shards the host has.
pub fn shard_index() -> (usize, usize) {
    Shard::with(|shard| (shard.config().index, shard.config().count))
}

/// The group of the task being polled; what a helper task that works on its behalf should be spawned in.
pub fn current_group() -> Group {
    Shard::with(|shard| shard.current_group())
}

/// The task being polled has had the CPU for a task quota, and should let others go first.
pub fn has_used_quota() -> bool {
    Shard::with(|shard| shard.has_used_quota())
}

/// Changes a scheduling group's part of the shard's CPU and of its disks, from now on.
pub fn set_shares(group: Group, shares: u32) {
    Shard::with(|shard| shard.set_shares(group, shares));
}

/// Registers `value` as the current shard's only `T`; messages from other shards find it again with [`local`].
pub fn set_local<T: 'static>(value: Rc<T>) {
    Shard::with(|shard| shard.set_local(value));
}

/// The current shard's `T`, if one was registered.
pub fn local<T: 'static>() -> Option<Rc<T>> {
    Shard::with(|shard| shard.local::<T>())
}

/// Whether this code runs on a shard at all.
pub fn on_shard() -> bool {
    Shard::is_current()
}
