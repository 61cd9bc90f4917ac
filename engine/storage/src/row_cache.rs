//! Whole small partitions as the SSTables have them, merged: a read of one that is here does no disk operation and
//! decodes nothing.
//!
//! What is cached is what the *files* say; memtables are merged over it by each read, so writes leave the cache as it
//! is. Only a flush moves data into the files: it removes the partitions that it wrote, in the same turn in which the
//! new file becomes visible. A read that began before that must not put its older answer back: it compares the
//! table's version (see [`Table::version`](crate::table::Table)).

use std::cell::RefCell;
use std::rc::Rc;

use crate::lru::Lru;
use crate::{Bytes, CacheStats, Cell, Partition, Row};

/// Larger partitions are read by the slice, which whole-partition caching would only slow down.
pub(crate) const PARTITION_MAX_BYTES: u64 = 16 << 10;

/// Key, links, the map's share of an entry, the partition's own fields.
const OVERHEAD: u64 = 64 + size_of::<Partition>() as u64;

pub(crate) struct RowCache(RefCell<Lru<(u64, Bytes), Rc<Partition>>>);

impl RowCache {
    pub fn new(limit_bytes: u64) -> Self {
        Self(RefCell::new(Lru::new(limit_bytes)))
    }

    /// `table` is the name under which the table's partitions are kept; a truncated table gets a new one.
    pub fn get(&self, table: u64, key: &Bytes) -> Option<Rc<Partition>> {
        self.0.borrow_mut().get(&(table, key.clone()))
    }

    /// Keeps a copy with an allocation of its own: the values of what was just read share whole blocks of files, and
    /// would keep them in memory.
    pub fn insert(&self, table: u64, partition: &Partition) {
        let bytes = bytes_of(partition);
        if let Some(copy) = partition.detached() {
            self.0.borrow_mut().insert((table, copy.key.clone()), Rc::new(copy), bytes);
        }
    }

    pub fn remove(&self, table: u64, key: &Bytes) {
        self.0.borrow_mut().remove(&(table, key.clone()));
    }

    pub fn stats(&self) -> CacheStats {
        self.0.borrow().stats()
    }
}

/// Memory of a partition and its key in the cache.
fn bytes_of(partition: &Partition) -> u64 {
    let row = |row: &Row| {
        let values: usize = row.cells.iter().map(|(_, cell)| cell.value.as_ref().map_or(0, |value| value.len())).sum();
        let complex = row.complex.heap_bytes();
        size_of::<Row>()
            + row.clustering.as_bytes().len()
            + row.cells.len() * size_of::<(u16, Cell)>()
            + values
            + complex
    };
    let rows: usize = partition.rows.iter().chain(&partition.static_row).map(row).sum();
    let ranges = partition.range_tombstones.len() * size_of::<crate::RangeTombstone>();
    OVERHEAD + (partition.key.len() + rows + ranges) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clustering;

    fn partition(key: &str, len: usize) -> Rc<Partition> {
        let mut partition = Partition::new(Bytes::from(key));
        let mut row = Row::new(Clustering::empty());
        row.cells.push((0, Cell::live(1, vec![7; len])));
        partition.rows.push(row);
        Rc::new(partition)
    }

    #[test]
    fn counts_what_it_holds() {
        let one = bytes_of(&partition("a", 100));
        let cache = RowCache::new(2 * one);
        for key in ["a", "b", "c"] {
            cache.insert(1, &partition(key, 100));
        }
        assert!(cache.get(1, &Bytes::from("a")).is_none());
        assert_eq!(cache.get(1, &Bytes::from("c")), Some(partition("c", 100)));
        assert!(cache.get(2, &Bytes::from("c")).is_none(), "another table's");
        cache.remove(1, &Bytes::from("c"));
        assert_eq!(cache.stats().bytes, one);
        assert_eq!(bytes_of(&partition("a", 150)), one + 50);
    }
}
