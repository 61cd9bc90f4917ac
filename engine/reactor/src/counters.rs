//! What a shard counts: work by kind, stalls.

use std::cell::Cell;

use crate::Work;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkCount {
    /// How often the work was charged.
    pub times: u64,
    /// Sum of the amounts.
    pub amount: u64,
}

pub struct Counters {
    work: [Cell<WorkCount>; Work::COUNT],
    /// Polls that held the shard beyond the limit.
    pub stalls: Cell<u64>,
    /// Long polls during which the host took the processor away.
    pub host_stalls: Cell<u64>,
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self {
            work: [const { Cell::new(WorkCount { times: 0, amount: 0 }) }; Work::COUNT],
            stalls: Cell::new(0),
            host_stalls: Cell::new(0),
        }
    }

    #[inline]
    pub(crate) fn count(&self, work: Work, amount: u64) {
        let cell = &self.work[work as usize];
        let count = cell.get();
        cell.set(WorkCount { times: count.times + 1, amount: count.amount + amount });
    }

    pub fn work(&self, work: Work) -> WorkCount {
        self.work[work as usize].get()
    }
}
