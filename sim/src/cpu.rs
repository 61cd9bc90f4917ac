//! Virtual CPU: what work costs on a host's processor.

use std::sync::Arc;

use hwprofiles::{Instance, System, Threading};
use reactor::Work;

/// Fractions of a nanosecond.
pub(crate) const FRACTION_BITS: u32 = 16;

/// Charged for a poll when the table has nothing: time must pass in a task that only yields.
const POLL_FLOOR_NS: f64 = 50.0;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// ns << FRACTION_BITS
    pub fixed: u64,
    pub per_byte: u64,
    /// Bytes allocated on a heap that is collected, and those of them that stay alive.
    pub garbage: u64,
    pub retained: u64,
}

/// Costs of all kinds of work.
#[derive(Clone, Debug)]
pub struct CpuModel {
    /// One table for all that have it: charging reads it all the time, and it stays in the processor's cache.
    pub(crate) costs: Arc<[Cost; Work::COUNT]>,
    /// Two threads to a core.
    pub siblings: Option<SiblingModel>,
    /// What the threads of a pool lose to each other.
    pub contention: Option<ContentionModel>,
}

/// Costs are those of a thread whose sibling is awake: that it polls for work is work to the other.
#[derive(Clone, Copy, Debug)]
pub struct SiblingModel {
    pub cores: usize,
    /// Threads that no shard has, for interrupts: the first ones, core by core.
    pub reserved: usize,
    /// What work takes of its cost while the sibling sleeps.
    pub alone: f64,
}

/// The universal scalability law, relative to where the costs were found.
#[derive(Clone, Copy, Debug)]
pub struct ContentionModel {
    pub serial: f64,
    pub crosstalk: f64,
    pub at: f64,
}

impl ContentionModel {
    /// What work takes of its cost while `busy` processors are at work.
    pub fn factor(&self, busy: usize) -> f64 {
        let law = |n: f64| 1.0 + (n - 1.0).max(0.0) * (self.serial + self.crosstalk * n);
        law(busy as f64) / law(self.at)
    }
}

/// Fractions of a pace.
const PACE_BITS: u32 = 10;

/// What work takes of its cost now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pace(u64);

impl Pace {
    pub const FULL_COST: Pace = Pace(1 << PACE_BITS);

    pub fn of(factor: f64) -> Self {
        Self((factor * f64::from(1u32 << PACE_BITS)).round() as u64)
    }

    /// The part of `ns` of CPU that a pool of `factor` lost to its threads' locks.
    pub fn lost_ns(ns: u64, factor: f64) -> u64 {
        if factor > 1.0 { (ns as f64 * (1.0 - 1.0 / factor)) as u64 } else { 0 }
    }

    /// ns << FRACTION_BITS; right up to four minutes at once.
    #[inline]
    pub fn apply(self, cost: u64) -> u64 {
        (cost * self.0) >> PACE_BITS
    }
}

fn fraction(ns: f64) -> u64 {
    (ns * f64::from(1u32 << FRACTION_BITS)).round() as u64
}

impl CpuModel {
    /// Every poll takes `poll_ns`, all other work nothing.
    pub fn polls_only(poll_ns: u64) -> Self {
        let costs = Arc::new([Cost::default(); Work::COUNT]);
        let mut model = Self { costs, siblings: None, contention: None };
        model.set(Work::Poll, poll_ns as f64, 0.0);
        model
    }

    pub fn set(&mut self, work: Work, fixed_ns: f64, ns_per_byte: f64) {
        let cost = &mut Arc::make_mut(&mut self.costs)[work as usize];
        (cost.fixed, cost.per_byte) = (fraction(fixed_ns), fraction(ns_per_byte));
    }

    /// Where memory holds the part `data` of what it would, a search in it is among as much more.
    pub fn scaled(&mut self, data: f64) {
        let cost = &mut Arc::make_mut(&mut self.costs)[Work::MemoryLookup as usize];
        cost.fixed += (cost.per_byte as f64 * -2.0 * libm::log2(data)).round() as u64;
    }

    /// `bytes` of a heap that is collected each time `work` is done, of which `retained` stay alive.
    pub fn set_garbage(&mut self, work: Work, bytes: u64, retained: u64) {
        let cost = &mut Arc::make_mut(&mut self.costs)[work as usize];
        (cost.garbage, cost.retained) = (bytes, retained);
    }

    pub fn from_profiles(instance: &Instance, system: &System) -> Self {
        let mut model = Self::polls_only(0);
        for &work in Work::ALL {
            let cost = system.costs.on(instance, work.name());
            model.set(work, cost.fixed_ns, cost.ns_per_byte);
        }
        model.siblings = instance.has_hyper_threads().then(|| SiblingModel {
            cores: instance.physical_cores.u64() as usize,
            reserved: match &system.threading {
                Threading::ShardPerCore { interrupt_cpus } => interrupt_cpus.u64() as usize,
                Threading::Pool { .. } => 0,
            },
            alone: instance.processor.hyper_thread_factor.f64(),
        });
        if let Threading::Pool { contention: Some(contention), .. } = &system.threading {
            model.contention = Some(ContentionModel {
                serial: contention.serial.f64(),
                crosstalk: contention.crosstalk.f64(),
                at: contention.at.f64(),
            });
        }
        let poll = system.costs.on(instance, Work::Poll.name()).fixed_ns.max(POLL_FLOOR_NS);
        model.set(Work::Poll, poll, 0.0);
        if let Some(pauses) = &system.pauses {
            let allocated = pauses.allocated.u64();
            for work in [
                Work::CoordinateRead,
                Work::CoordinateWrite,
                Work::MemtableRead,
                Work::RowCacheRead,
                Work::RowCachePiece,
            ] {
                model.set_garbage(work, allocated, 0);
            }
            let retained = pauses.survivors.as_ref().map_or(0, |survivors| survivors.retained.u64());
            model.set_garbage(Work::MemtableInsert, allocated, retained);
            model.set_garbage(Work::Compaction, pauses.compacted.as_ref().map_or(0, |compacted| compacted.u64()), 0);
        }
        model
    }
}
