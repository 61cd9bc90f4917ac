//! The paths of a list's elements: time UUIDs, so that those appended later stand behind and those prepended later
//! stand before.
//!
//! As `Lists.Appender` and `Lists.Prepender` of Apache Cassandra: an appended element has the time of its write, a
//! prepended one that time mirrored at the beginning of 2010. One of these makes all paths of a shard, so that elements
//! of one microsecond keep their order too. No clock: callers say what time it is.

use types::uuid;

/// 2010-01-01 00:00 UTC: `Lists.Prepender`'s `PrecisionTime.REFERENCE_TIME`.
const MIRROR_US: i64 = 1_262_304_000_000_000;
/// UUIDs count in 100 ns.
const TICKS_PER_US: i64 = 10;

#[derive(Clone, Debug)]
pub struct ListPaths {
    node_and_sequence: u64,
    last_appended: i64,
    last_prepended: i64,
}

impl ListPaths {
    /// `node_and_sequence`: what tells this shard from all others that may write at the same time.
    pub fn new(node_and_sequence: u64) -> Self {
        Self { node_and_sequence, last_appended: i64::MIN, last_prepended: i64::MAX }
    }

    fn path(&self, ticks: i64) -> [u8; 16] {
        let (us, rest) = (ticks.div_euclid(TICKS_PER_US), ticks.rem_euclid(TICKS_PER_US));
        uuid::from_time(us, rest as u8, self.node_and_sequence)
    }

    /// Behind every path made before.
    pub fn append(&mut self, now_us: i64) -> [u8; 16] {
        self.last_appended = now_us.saturating_mul(TICKS_PER_US).max(self.last_appended.saturating_add(1));
        self.path(self.last_appended)
    }

    /// Before every path made before; in the order of the elements.
    pub fn prepend(&mut self, now_us: i64, count: usize) -> Vec<[u8; 16]> {
        let mirrored = MIRROR_US.saturating_sub(now_us.saturating_sub(MIRROR_US)).saturating_mul(TICKS_PER_US);
        let end = mirrored.min(self.last_prepended);
        let start = end.saturating_sub(i64::try_from(count).unwrap_or(i64::MAX));
        self.last_prepended = start;
        (start..end).map(|ticks| self.path(ticks)).collect()
    }
}
