//! Memory for what is read again: partitions (see [`RowCache`]), and blocks of files.
//!
//! One number of bytes for all. Index blocks may take a fraction of it: one of them serves the reads of some hundred
//! partitions. Data blocks may take a sixteenth: a point read keeps its partition and not the block around it. What
//! both leave is for partitions. Within each, the least recently used go first. A hit does no disk operation and no
//! copy: blocks are shared.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use crate::CacheStats;
use crate::lru::Lru;
use crate::row_cache::RowCache;

/// The unit of caching and of checksums; what direct I/O is aligned to.
pub(crate) const BLOCK: usize = 4096;

/// Key, links and the allocation's header of one block; the map's share of an entry.
const OVERHEAD: u64 = 64;

/// Of all memory for caches, the part of data blocks.
const DATA_SHARE: u64 = 16;

/// What a file's blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Data,
    Index,
}

type Blocks = RefCell<Lru<(u64, u64), Arc<[u8]>>>;

pub(crate) struct BlockCache {
    limit_bytes: u64,
    data: Blocks,
    index: Blocks,
    pub rows: Rc<RowCache>,
    next_file: Cell<u64>,
}

impl BlockCache {
    pub fn new(limit_bytes: u64, index_fraction: f64) -> Self {
        let index = (limit_bytes as f64 * index_fraction.clamp(0.0, 1.0)) as u64;
        let data = (limit_bytes / DATA_SHARE).min(limit_bytes - index);
        Self {
            limit_bytes,
            data: RefCell::new(Lru::new(data)),
            index: RefCell::new(Lru::new(index)),
            rows: Rc::new(RowCache::new(limit_bytes)),
            next_file: Cell::new(0),
        }
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.data.borrow_mut().clear();
        self.index.borrow_mut().clear();
        self.rows.clear();
    }

    /// A name for a file's blocks, never given twice.
    pub fn name_file(&self) -> u64 {
        self.next_file.set(self.next_file.get() + 1);
        self.next_file.get()
    }

    fn blocks(&self, kind: BlockKind) -> &Blocks {
        match kind {
            BlockKind::Data => &self.data,
            BlockKind::Index => &self.index,
        }
    }

    pub fn get(&self, kind: BlockKind, file: u64, block: u64) -> Option<Arc<[u8]>> {
        self.blocks(kind).borrow_mut().get(&(file, block))
    }

    /// Whether it is there, without calling it used.
    pub fn contains(&self, kind: BlockKind, file: u64, block: u64) -> bool {
        self.blocks(kind).borrow().contains(&(file, block))
    }

    pub fn insert(&self, kind: BlockKind, file: u64, block: u64, bytes: Arc<[u8]>) {
        let size = bytes.len() as u64 + OVERHEAD;
        self.blocks(kind).borrow_mut().insert((file, block), bytes, size);
        self.share();
    }

    /// Forgets the first `blocks` blocks of a file that is going away.
    pub fn forget(&self, kind: BlockKind, file: u64, blocks: u64) {
        {
            let cache = &mut *self.blocks(kind).borrow_mut();
            (0..blocks).for_each(|block| cache.remove(&(file, block)));
        }
        self.share();
    }

    /// Partitions get what the blocks leave.
    fn share(&self) {
        let blocks = self.stats().bytes + self.index_stats().bytes;
        self.rows.set_limit(self.limit_bytes.saturating_sub(blocks));
    }

    pub fn stats(&self) -> CacheStats {
        self.data.borrow().stats()
    }

    pub fn index_stats(&self) -> CacheStats {
        self.index.borrow().stats()
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
        let cache = BlockCache::new(6 * (100 + OVERHEAD), 0.5);
        let file = cache.name_file();
        for n in 0..3 {
            cache.insert(BlockKind::Index, file, n, block(n as u8));
        }
        assert_eq!(cache.get(BlockKind::Index, file, 0).unwrap()[0], 0);
        cache.insert(BlockKind::Index, file, 3, block(3));
        let there: Vec<_> = (0..4).map(|n| cache.contains(BlockKind::Index, file, n)).collect();
        assert_eq!(there, [true, false, true, true]);
        assert_eq!(cache.index_stats(), CacheStats { bytes: 3 * 164, hits: 1, misses: 0, evictions: 1 });
        cache.forget(BlockKind::Index, file, 4);
        assert_eq!(cache.index_stats().bytes, 0);
        cache.insert(BlockKind::Index, file, 9, block(9));
        assert_eq!(cache.get(BlockKind::Index, file, 9).unwrap()[0], 9);
    }

    #[test]
    fn nothing_above_the_limit() {
        let cache = BlockCache::new(100, 1.0);
        cache.insert(BlockKind::Index, 1, 1, block(1));
        assert!(cache.get(BlockKind::Index, 1, 1).is_none());
    }
}
