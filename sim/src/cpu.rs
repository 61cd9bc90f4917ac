//! Virtual CPU: what work costs on a host's processor.

use hwprofiles::{Instance, System};
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
    /// Bytes of garbage left behind.
    pub garbage: u64,
}

/// Costs of all kinds of work.
#[derive(Clone, Debug)]
pub struct CpuModel {
    pub(crate) costs: [Cost; Work::COUNT],
}

fn fraction(ns: f64) -> u64 {
    (ns * f64::from(1u32 << FRACTION_BITS)).round() as u64
}

impl CpuModel {
    /// Every poll takes `poll_ns`, all other work nothing.
    pub fn polls_only(poll_ns: u64) -> Self {
        let mut model = Self { costs: [Cost::default(); Work::COUNT] };
        model.set(Work::Poll, poll_ns as f64, 0.0);
        model
    }

    pub fn set(&mut self, work: Work, fixed_ns: f64, ns_per_byte: f64) {
        let cost = &mut self.costs[work as usize];
        (cost.fixed, cost.per_byte) = (fraction(fixed_ns), fraction(ns_per_byte));
    }

    /// `bytes` of garbage each time `work` is done.
    pub fn set_garbage(&mut self, work: Work, bytes: u64) {
        self.costs[work as usize].garbage = bytes;
    }

    pub fn from_profiles(instance: &Instance, system: &System) -> Self {
        let mut model = Self::polls_only(0);
        for &work in Work::ALL {
            let cost = system.costs.on(instance, work.name());
            model.set(work, cost.fixed_ns, cost.ns_per_byte);
        }
        let poll = system.costs.on(instance, Work::Poll.name()).fixed_ns.max(POLL_FLOOR_NS);
        model.set(Work::Poll, poll, 0.0);
        if let Some(pauses) = &system.pauses {
            // An operation at replication factor 3 is one coordination and about three accesses of a memtable.
            let share = pauses.allocated.u64() / 4;
            for work in [Work::CoordinateRead, Work::CoordinateWrite, Work::MemtableRead, Work::MemtableInsert] {
                model.set_garbage(work, share);
            }
        }
        model
    }
}
