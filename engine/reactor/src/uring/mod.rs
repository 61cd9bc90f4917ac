//! The real world: one io_uring per shard, a thread each.
//!
//! What it guarantees
//! 1. A turn of a shard's loop ends with at most one `io_uring_enter`: it submits everything and takes what is
//!    complete. It waits only when nothing is runnable, until the next timer at the latest, and then uses no CPU.
//!    (Bursts of disk operations are handed over in parts before, so that the device does not wait for the last.)
//! 2. Wakes and messages from other threads end the wait through an eventfd whose read is armed in the ring; a shard
//!    that is awake costs its wakers no system call.
//! 3. When a shard closes, everything in flight is cancelled and its completions awaited before buffers are freed.
//! 4. A panic in a task ends the process, after the panic's own report and the task's name are on stderr; or, under
//!    [`OnPanic::Stop`], the host, whose `join` then says so. It never leaves a host with a missing shard.
//!
//! What it never does: handle signals, or run a task on two threads. Operations that io_uring lacks, or that are rare
//! and quick (listing a folder, opening a listener, asking for a size), are done in place on the shard's thread.

mod awake;
mod clock;
mod host;
mod ops;
mod ring;
mod socket;

use std::io;
use std::time::Duration;

pub use awake::Awake;
pub use clock::{counter_hz, process_cpu_ns};
pub use host::{Host, bind, block_on, block_on_with};

/// What a panic in a task (or message) does to the process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// Report and abort. A shard's state is of no use after a panic half-way, and restart with replay is the path
    /// that is tested.
    #[default]
    Abort,
    /// Stop all shards; `join` gives [`Error::Panicked`]. For tests and tools.
    Stop,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub shards: usize,
    /// Shard `i` is pinned to `cpus[i % len]`; `None` leaves the placement to the kernel.
    pub cpus: Option<Vec<usize>>,
    /// How long an idle shard looks for work before it sleeps. Saves the 30-75 us that waking a sleeping thread costs
    /// on a virtual machine, and burns the CPU meanwhile.
    pub busy_poll: Duration,
    /// Size of the submission queue; the completion queue is four times as large. Not a limit on what is in flight.
    pub ring_entries: u32,
    /// Whether the process may have transparent huge pages. The first touch of one clears 2 MiB at once, which holds
    /// the shard for up to 5 ms on a virtual machine whose memory the host has yet to provide.
    pub huge_pages: bool,
    pub on_panic: OnPanic,
    pub task_quota: Duration,
    pub stall: Duration,
    /// The node's disks; each shard has an equal part of them.
    pub io: crate::IoConfig,
}

impl Default for Config {
    fn default() -> Self {
        let shard = crate::ShardConfig::new(0, 1);
        Self {
            shards: 1,
            cpus: None,
            busy_poll: Duration::ZERO,
            ring_entries: 1024,
            huge_pages: false,
            on_panic: OnPanic::default(),
            task_quota: Duration::from_nanos(shard.task_quota_ns),
            stall: Duration::from_nanos(shard.stall_ns),
            io: shard.io,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "shard {shard}: the ring does not fit under RLIMIT_MEMLOCK ({limit_bytes} bytes). \
         Raise it (`ulimit -l`, or LimitMEMLOCK= of the service) or run fewer shards"
    )]
    LockedMemory { shard: usize, limit_bytes: u64 },
    #[error(
        "io_uring is not permitted here (kernel.io_uring_disabled is {sysctl}). \
         Set it to 0, or, in a container, allow io_uring in its seccomp profile"
    )]
    Disabled { sysctl: String },
    #[error("Linux {release} cannot make the rings that shards need: run Linux 6.1 or newer ({source})")]
    KernelTooOld { release: String, source: io::Error },
    #[error("shard {shard} cannot be pinned to CPU {cpu}: {source}. Name only CPUs that this process may use")]
    Pin { shard: usize, cpu: usize, source: io::Error },
    #[error("shard {shard} cannot be set up: {source}")]
    Setup { shard: usize, source: io::Error },
    #[error("shard {shard}'s ring failed: {source}")]
    Ring { shard: usize, source: io::Error },
    #[error("shard {shard}: task `{task}` panicked: {message}")]
    Panicked { shard: usize, task: &'static str, message: String },
    #[error("a host needs at least one shard")]
    NoShards,
}
