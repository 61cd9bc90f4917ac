//! Blocks of files, kept in memory as long as there is room: the least recently used go first.
//!
//! The byte limit is exact. A hit does no disk operation and no copy: blocks are shared.

use std::cell::RefCell;
use std::sync::Arc;

use types::hash::HashMap;

use crate::CacheStats;

/// The unit of caching and of checksums; what direct I/O is aligned to.
pub(crate) const BLOCK: usize = 4096;

/// Of a slot without neighbour.
const NONE: u32 = u32::MAX;

/// Key, links and the allocation's header of one block; the map's share of an entry.
const OVERHEAD: u64 = 64;

pub(crate) struct BlockCache {
    limit: u64,
    inner: RefCell<Inner>,
}

#[derive(Default)]
struct Inner {
    slots: HashMap<(u64, u64), u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    next_file: u64,
    stats: CacheStats,
}

struct Entry {
    key: (u64, u64),
    block: Arc<[u8]>,
    newer: u32,
    older: u32,
}

impl BlockCache {
    pub fn new(limit: u64) -> Self {
        Self { limit, inner: RefCell::new(Inner { newest: NONE, oldest: NONE, ..Inner::default() }) }
    }

    /// A name for a file's blocks, never given twice.
    pub fn name_file(&self) -> u64 {
        let inner = &mut *self.inner.borrow_mut();
        inner.next_file += 1;
        inner.next_file
    }

    pub fn get(&self, file: u64, block: u64) -> Option<Arc<[u8]>> {
        let inner = &mut *self.inner.borrow_mut();
        let Some(&slot) = inner.slots.get(&(file, block)) else {
            inner.stats.misses += 1;
            return None;
        };
        inner.stats.hits += 1;
        if inner.newest != slot {
            inner.unlink(slot);
            inner.link_newest(slot);
        }
        Some(inner.entries[slot as usize].block.clone())
    }

    /// Whether it is there, without calling it used.
    pub fn contains(&self, file: u64, block: u64) -> bool {
        self.inner.borrow().slots.contains_key(&(file, block))
    }

    pub fn insert(&self, file: u64, block: u64, bytes: Arc<[u8]>) {
        let size = bytes.len() as u64 + OVERHEAD;
        let inner = &mut *self.inner.borrow_mut();
        if size > self.limit || inner.slots.contains_key(&(file, block)) {
            return;
        }
        while inner.stats.bytes + size > self.limit {
            let oldest = inner.oldest;
            inner.remove(oldest);
            inner.stats.evictions += 1;
        }
        let entry = Entry { key: (file, block), block: bytes, newer: NONE, older: NONE };
        let slot = match inner.free.pop() {
            Some(slot) => {
                inner.entries[slot as usize] = entry;
                slot
            }
            None => {
                inner.entries.push(entry);
                (inner.entries.len() - 1) as u32
            }
        };
        inner.slots.insert((file, block), slot);
        inner.link_newest(slot);
        inner.stats.bytes += size;
    }

    /// Forgets the first `blocks` blocks of a file that is going away.
    pub fn forget(&self, file: u64, blocks: u64) {
        let inner = &mut *self.inner.borrow_mut();
        for block in 0..blocks {
            if let Some(&slot) = inner.slots.get(&(file, block)) {
                inner.remove(slot);
            }
        }
    }

    pub fn stats(&self) -> CacheStats {
        self.inner.borrow().stats
    }
}

impl Inner {
    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.entries[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let older = self.newest;
        let entry = &mut self.entries[slot as usize];
        (entry.newer, entry.older) = (NONE, older);
        match older {
            NONE => self.oldest = slot,
            older => self.entries[older as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn remove(&mut self, slot: u32) {
        self.unlink(slot);
        let entry = &mut self.entries[slot as usize];
        self.stats.bytes -= entry.block.len() as u64 + OVERHEAD;
        self.slots.remove(&entry.key);
        entry.block = Arc::default();
        self.free.push(slot);
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
