//! The memory of memtables: when to flush, how hard, and how much writers may still add.
//!
//! A flush gives memory back only at its end. If writers went on until all is full they would stop then, and go, and
//! stop; so what is already written of a flushing memtable counts as given back while the flush goes on, as ScyllaDB's
//! `dirty_memory_manager` has it ("virtual dirty"). Writers then are slowed to the pace of the flush, and early enough
//! that there is memory left for all they may write until it ends.
//!
//! Everything here is a pure function of the counts.

use crate::curve::Curve;

/// Bytes of memtables of one shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    pub limit: u64,
    /// Of active ones, at which the largest is set aside.
    pub flush_at: u64,
    pub active: u64,
    /// Of memtables that are set aside, all of each until it is in an SSTable.
    pub flushing: u64,
    /// Of `flushing`, what has been written already.
    pub written: u64,
}

/// CPU and I/O shares of flushes by how much of what writers may add they have added; statements have 1000. Low as
/// long as there is room: a flush then takes what statements leave, and those that arrive are not kept waiting for
/// their half of a core. ScyllaDB's `flush_controller` has a curve of the same shape, over dirty memory. The least keeps
/// a flush from being starved, the most leaves statements a fifth of a saturated core.
const SHARES: Curve = Curve(&[(0.0, 50.0), (0.5, 200.0), (0.8, 1000.0), (1.0, 4000.0)]);

/// The same as ScyllaDB's `flush_controller` has it from 2.2 on: by virtually dirty memory over its limit.
const SHARES_BY_DIRTY: Curve = Curve(&[(0.0, 0.0), (0.6, 10.0), (0.8, 200.0), (1.0, 1000.0)]);

impl Memory {
    /// Whether the largest memtable is to be set aside: the rest of the memory is for what comes in meanwhile.
    pub fn wants_flush(&self) -> bool {
        self.active >= self.flush_at
    }

    /// Bytes that writers may add now.
    pub fn room(&self) -> u64 {
        self.allowed().saturating_sub(self.active)
    }

    /// Bytes that active memtables may have. While something is flushed that is half of the other memory at once, for
    /// a burst, and the rest in step with the flush.
    fn allowed(&self) -> u64 {
        let free = self.limit.saturating_sub(self.flushing);
        if self.flushing == 0 {
            return free;
        }
        let done = u128::from(free / 2) * u128::from(self.written.min(self.flushing)) / u128::from(self.flushing);
        free / 2 + done as u64
    }

    /// Shares at which flushes keep up with the writers.
    pub fn flush_shares(&self) -> u32 {
        SHARES.at(self.active as f64 / self.allowed().max(1) as f64) as u32
    }

    /// Shares that follow dirty memory alone, of which there may be `limit` bytes.
    pub fn flush_shares_by_dirty(&self, limit: u64) -> u32 {
        let dirty = self.active + self.flushing.saturating_sub(self.written);
        (SHARES_BY_DIRTY.at(dirty as f64 / limit.max(1) as f64) as u32).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(active: u64, flushing: u64, written: u64) -> Memory {
        Memory { limit: 1000, flush_at: 500, active, flushing, written }
    }

    #[test]
    fn half_full_is_flushed() {
        assert!(!memory(499, 0, 0).wants_flush());
        assert!(memory(500, 0, 0).wants_flush());
        assert!(!memory(0, 500, 100).wants_flush());
        let early = Memory { flush_at: 100, ..memory(100, 0, 0) };
        assert!(early.wants_flush());
        assert_eq!(early.room(), 900);
    }

    #[test]
    fn writers_get_a_part_at_once_and_the_rest_in_step_with_the_flush() {
        assert_eq!(memory(400, 0, 0).room(), 600);
        assert_eq!(memory(0, 500, 0).room(), 250);
        assert_eq!(memory(250, 500, 0).room(), 0);
        assert_eq!(memory(250, 500, 250).room(), 125);
        assert_eq!(memory(250, 500, 500).room(), 250);
        assert_eq!(memory(700, 500, 500).room(), 0);
        // Never beyond the memory that there is.
        for active in (0..1000).step_by(50) {
            for written in (0..=500).step_by(50) {
                let memory = memory(active, 500, written);
                assert!(memory.room() == 0 || active + 500 + memory.room() <= 1000, "{memory:?}");
            }
        }
    }

    /// Writers and a flush that share a core, each by its shares; flushing a byte costs `cost` times writing one. How
    /// many turns the writers had to wait in, the most in a row, and the most shares.
    fn run(cost: f64) -> (u32, u32, u32) {
        let mut memory = memory(0, 500_000, 0);
        memory.limit = 1_000_000;
        let (mut waits, mut in_a_row, mut most_in_a_row, mut most_shares) = (0, 0, 0, 0);
        while memory.written < memory.flushing {
            let shares = memory.flush_shares();
            most_shares = most_shares.max(shares);
            let flush = f64::from(shares) / f64::from(shares + 1000);
            memory.written += (1000.0 * flush / cost) as u64;
            let writes = (1000.0 * (1.0 - flush)) as u64;
            waits += u32::from(memory.room() < writes);
            in_a_row = if memory.room() == 0 { in_a_row + 1 } else { 0 };
            most_in_a_row = most_in_a_row.max(in_a_row);
            memory.active += writes.min(memory.room());
        }
        (waits, most_in_a_row, most_shares)
    }

    #[test]
    fn a_flush_ends_before_writers_wait_and_never_stops_them() {
        for cost in [0.25, 0.5, 1.0] {
            let (waits, _, shares) = run(cost);
            assert_eq!(waits, 0, "at a cost of {cost}");
            assert!(shares < 2500, "{shares} at a cost of {cost}");
        }
        // Beyond, they are slowed, and go on all the time.
        for cost in [2.0, 5.0, 20.0] {
            let (_, in_a_row, _) = run(cost);
            assert!(in_a_row <= 1, "{in_a_row} turns without a write at a cost of {cost}");
        }
    }

    #[test]
    fn writers_who_leave_time_for_it_do_not_wait_for_a_flush() {
        // Arrivals that take two thirds of a core, beside a flush that costs a quarter of what they do.
        let mut memory = memory(0, 500_000, 0);
        memory.limit = 1_000_000;
        let (mut waiting, mut most_waiting) = (0, 0);
        while memory.written < memory.flushing {
            let flush_part = memory.flush_shares() * 1000 / (memory.flush_shares() + 1000);
            waiting += 667;
            let done = waiting.min(1000 - u64::from(flush_part));
            waiting -= done;
            most_waiting = most_waiting.max(waiting);
            memory.active += done;
            memory.written += (1000 - done) * 4;
        }
        assert!(most_waiting < 2_000, "{most_waiting} of a turn's 1000");
    }

    #[test]
    fn shares_follow_dirty_memory() {
        let at = |active, flushing, written| memory(active, flushing, written).flush_shares_by_dirty(500);
        assert_eq!([at(0, 0, 0), at(0, 300, 0), at(100, 300, 0), at(100, 300, 100)], [1, 10, 200, 10]);
        assert_eq!([at(300, 300, 50), at(600, 300, 0)], [1000, 1000]);
    }

    #[test]
    fn shares_follow_the_room_that_is_left() {
        let at = |active, flushing, written| memory(active, flushing, written).flush_shares();
        assert_eq!(at(0, 0, 0), 50);
        assert_eq!(at(125, 500, 0), 200);
        assert!(at(125, 500, 250) < 200, "more may be added by now");
        // Many small tables: each flush is small, but there is much to flush.
        assert!(at(470, 20, 0) > at(400, 20, 0));
        assert_eq!(at(900, 100, 0), 4000);
    }
}
