//! Blocks of files, kept in memory as long as there is room: the least recently used go first.
//!
//! A hit does no disk operation and no copy: blocks are shared.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::CacheStats;
use crate::lru::Lru;

/// The unit of caching and of checksums; what direct I/O is aligned to.
pub(crate) const BLOCK: usize = 4096;

/// Key, links and the allocation's header of one block; the map's share of an entry.
const OVERHEAD: u64 = 64;

pub(crate) struct BlockCache {
    blocks: RefCell<Lru<(u64, u64), Arc<[u8]>>>,
    next_file: Cell<u64>,
}

impl BlockCache {
    pub fn new(limit_bytes: u64) -> Self {
        Self { blocks: RefCell::new(Lru::new(limit_bytes)), next_file: Cell::new(0) }
    }

    /// A name for a file's blocks, never given twice.
    pub fn name_file(&self) -> u64 {
        self.next_file.set(self.next_file.get() + 1);
        self.next_file.get()
    }

    pub fn get(&self, file: u64, block: u64) -> Option<Arc<[u8]>> {
        self.blocks.borrow_mut().get(&(file, block))
    }

    /// Whether it is there, without calling it used.
    pub fn contains(&self, file: u64, block: u64) -> bool {
        self.blocks.borrow().contains(&(file, block))
    }

    pub fn insert(&self, file: u64, block: u64, bytes: Arc<[u8]>) {
        let size = bytes.len() as u64 + OVERHEAD;
        self.blocks.borrow_mut().insert((file, block), bytes, size);
    }

    /// Forgets the first `blocks` blocks of a file that is going away.
    pub fn forget(&self, file: u64, blocks: u64) {
        let cache = &mut *self.blocks.borrow_mut();
        (0..blocks).for_each(|block| cache.remove(&(file, block)));
    }

    pub fn stats(&self) -> CacheStats {
        self.blocks.borrow().stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(byte: u8) -> Arc<[u8]> {
        Arc::from([byte; 100])
    }

    #[test]
    fn the_least_recently_used_goes() {
        let cache = BlockCache::new(3 * (100 + OVERHEAD));
        let file = cache.name_file();
        for n in 0..3 {
            cache.insert(file, n, block(n as u8));
        }
        assert_eq!(cache.get(file, 0).unwrap()[0], 0);
        cache.insert(file, 3, block(3));
        let there: Vec<_> = (0..4).map(|n| cache.contains(file, n)).collect();
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(cache.stats(), CacheStats { bytes: 3 * 164, hits: 1, misses: 0, evictions: 1 });
        cache.forget(file, 4);
        assert_eq!(cache.stats().bytes, 0);
        cache.insert(file, 9, block(9));
        assert_eq!(cache.get(file, 9).unwrap()[0], 9);
    }

    #[test]
    fn nothing_above_the_limit() {
        let cache = BlockCache::new(100);
        cache.insert(1, 1, block(1));
        assert!(cache.get(1, 1).is_none());
    }
}
