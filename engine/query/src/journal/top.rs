//! Which partitions are read and written most, while somebody samples them: the space-saving sketch of Metwally,
//! Agrawal and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams" (2005).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use types::{TableId, Token};

/// Distinct partitions that are counted exactly; of more it is only known that there are so many.
const DISTINCT_MAX: usize = 1 << 17;

type Key = (TableId, Vec<u8>);

/// One that was counted: at most `error` too often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopPartition {
    pub table: TableId,
    pub key: Vec<u8>,
    pub count: u64,
    pub error: u64,
}

/// The most frequent of a stream, as far as `capacity` counters tell.
#[derive(Clone, Debug, Default)]
struct Sketch {
    counters: BTreeMap<Key, (u64, u64)>,
    distinct: BTreeSet<(TableId, Token)>,
}

impl Sketch {
    fn add(&mut self, table: TableId, key: &[u8], capacity: usize) {
        if self.distinct.len() < DISTINCT_MAX {
            self.distinct.insert((table, Token::of_key(key)));
        }
        let key = (table, key.to_vec());
        if let Some((count, _)) = self.counters.get_mut(&key) {
            *count += 1;
            return;
        }
        let mut inherited = 0;
        if self.counters.len() >= capacity {
            let least = self.counters.iter().min_by_key(|(_, (count, _))| *count);
            let Some((evicted, (count, _))) = least.map(|(key, counter)| (key.clone(), *counter)) else { return };
            self.counters.remove(&evicted);
            inherited = count;
        }
        self.counters.insert(key, (inherited + 1, inherited));
    }

    fn top(&self) -> Vec<TopPartition> {
        let one = |((table, key), (count, error)): (&Key, &(u64, u64))| TopPartition {
            table: *table,
            key: key.clone(),
            count: *count,
            error: *error,
        };
        let mut all: Vec<TopPartition> = self.counters.iter().map(one).collect();
        all.sort_by_key(|one| std::cmp::Reverse(one.count));
        all
    }
}

/// What a shard has seen.
#[derive(Clone, Debug, Default)]
pub struct Sampled {
    pub reads: Vec<TopPartition>,
    pub writes: Vec<TopPartition>,
    pub distinct_read: u64,
    pub distinct_written: u64,
}

/// One shard's. Off, it costs a look at a flag.
#[derive(Default)]
pub struct Sampling {
    is_on: Cell<bool>,
    capacity: Cell<usize>,
    reads: RefCell<Sketch>,
    writes: RefCell<Sketch>,
}

impl Sampling {
    /// Begins. False when it has begun already.
    pub fn start(&self, capacity: usize) -> bool {
        if self.is_on.replace(true) {
            return false;
        }
        self.capacity.set(capacity.max(1));
        self.reads.take();
        self.writes.take();
        true
    }

    pub fn stop(&self) -> Sampled {
        self.is_on.set(false);
        let (reads, writes) = (self.reads.take(), self.writes.take());
        Sampled {
            reads: reads.top(),
            writes: writes.top(),
            distinct_read: reads.distinct.len() as u64,
            distinct_written: writes.distinct.len() as u64,
        }
    }

    #[inline]
    pub(crate) fn read(&self, table: TableId, key: &[u8]) {
        if self.is_on.get() {
            self.reads.borrow_mut().add(table, key, self.capacity.get());
        }
    }

    #[inline]
    pub(crate) fn wrote(&self, table: TableId, key: &[u8]) {
        if self.is_on.get() {
            self.writes.borrow_mut().add(table, key, self.capacity.get());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frequent_stay_and_errors_are_bounded() {
        let sampling = Sampling::default();
        sampling.wrote(TableId(1), b"before");
        assert!(sampling.start(4) && !sampling.start(4));
        for n in 0u32..1000 {
            sampling.wrote(TableId(1), b"often");
            sampling.wrote(TableId(1), &(n % 50).to_be_bytes());
        }
        let sampled = sampling.stop();
        let first = &sampled.writes[0];
        assert_eq!((&*first.key, first.error), (&b"often"[..], 0));
        assert_eq!(first.count, 1000);
        assert_eq!((sampled.writes.len(), sampled.distinct_written, sampled.reads.len()), (4, 51, 0));
        assert!(sampled.writes.iter().all(|one| one.error <= 2000 / 4));
    }
}
