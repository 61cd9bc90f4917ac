//! The world in virtual time: event kernel, hosts, CPUs, disks, NICs, faults.
//!
//! [`run`] makes a [`World`] from a seed. The experiment adds hosts from a [`HostModel`], boots them with a closure
//! whose future is each shard's first task, lets virtual time pass with [`World::run_until`], and crashes, cuts, pauses
//! and looks at what it likes in between. The shards are `reactor`'s own, on a backend whose completions come from
//! models that queue and saturate as hardware does.
//!
//! What it guarantees
//! 1. One seed, one run: the same events in the same order with the same effects, bit for bit ([`run_twice`] shows it).
//! 2. Nothing is faster than its limits: CPU, disk and network serve one thing after the other.
//! 3. A byte that was synced survives power loss; one that was not may be lost or torn by the sector, never invented.
//!
//! What it never does: read a clock or entropy of the machine it runs on, or use more than one thread per world.

#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(not(madsim))]
compile_error!(
    "the simulator needs `--cfg madsim`, which .cargo/config.toml sets for every build of this workspace; an environment \
     variable RUSTFLAGS replaces that setting silently: unset it, or add `--cfg madsim` to it"
);

pub mod cluster;
mod cpu;
pub mod disk;
pub mod faults;
mod heap;
pub mod history;
mod host;
pub mod kernel;
mod latency;
mod model;
mod nic;
pub mod oracles;
mod pool;
mod random;
pub mod scenario;
mod seat;
mod server;
mod shell;
mod slab;
mod usage;
mod world;

pub use self::cluster::Cluster;
pub use cpu::{ContentionModel, CpuModel, SiblingModel};
pub use host::{BootContext, Crash, HostCounters, HostId};
pub use latency::Latency;
pub use model::{
    CopyingModel, DozeModel, HostModel, INTERRUPT_WORK, IdleModel, InterruptModel, InterruptionModel, MomentsModel,
    NetworkModel, NicModel, OldModel, PauseModel,
};
pub use nic::links::LinkFault;
pub use random::{Generator, Stream};
pub use shell::{Divergence, Outcome, run, run_twice};
pub use world::{Settings, World};
