//! The kernel's page cache, for files that are not opened for direct I/O and for systems that never ask for it.
//!
//! Pages of 4 KiB, least recently used first out. It knows which pages of which file are in memory; the bytes
//! themselves lie with the file. What is written goes to the device behind the writer's back.

use types::hash::HashMap;

pub const PAGE_BYTES: u64 = 4096;
const NONE: u32 = u32::MAX;

struct Page {
    key: (u64, u64),
    newer: u32,
    older: u32,
}

pub struct PageCache {
    capacity: usize,
    by_key: HashMap<(u64, u64), u32>,
    pages: Vec<Page>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl PageCache {
    pub fn new(bytes: u64) -> Self {
        Self {
            capacity: (bytes / PAGE_BYTES) as usize,
            by_key: HashMap::default(),
            pages: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.capacity as u64 * PAGE_BYTES);
    }

    /// Touches the pages of a range of a file, which is named by a number never used again, and brings the missing
    /// ones in. Gives how many were missing.
    pub fn touch(&mut self, file: u64, offset: u64, len: u64) -> u64 {
        if len == 0 {
            return 0;
        }
        let mut missing = 0;
        for page in offset / PAGE_BYTES..=(offset + len - 1) / PAGE_BYTES {
            match self.by_key.get(&(file, page)).copied() {
                Some(index) => {
                    self.unlink(index);
                    self.link_newest(index);
                }
                None => {
                    missing += 1;
                    self.insert((file, page));
                }
            }
        }
        missing
    }

    fn insert(&mut self, key: (u64, u64)) {
        if self.capacity == 0 {
            return;
        }
        if self.by_key.len() >= self.capacity {
            let oldest = self.oldest;
            self.unlink(oldest);
            self.by_key.remove(&self.pages[oldest as usize].key);
            self.free.push(oldest);
        }
        let page = Page { key, newer: NONE, older: NONE };
        let index = match self.free.pop() {
            Some(index) => {
                self.pages[index as usize] = page;
                index
            }
            None => {
                self.pages.push(page);
                (self.pages.len() - 1) as u32
            }
        };
        self.by_key.insert(key, index);
        self.link_newest(index);
    }

    fn unlink(&mut self, index: u32) {
        let Page { newer, older, .. } = self.pages[index as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.pages[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.pages[older as usize].newer = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let second = self.newest;
        let page = &mut self.pages[index as usize];
        (page.newer, page.older) = (NONE, second);
        match second {
            NONE => self.oldest = index,
            second => self.pages[second as usize].newer = index,
        }
        self.newest = index;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_page_goes_first() {
        let mut cache = PageCache::new(3 * PAGE_BYTES);
        assert_eq!(cache.touch(1, 0, 3 * PAGE_BYTES), 3);
        assert_eq!(cache.touch(1, 10, 1), 0);
        assert_eq!(cache.touch(2, 0, 1), 1); // page 1 of file 1 goes
        assert_eq!(cache.touch(1, 0, 1), 0);
        assert_eq!(cache.touch(1, 2 * PAGE_BYTES, 1), 0);
        assert_eq!(cache.touch(1, PAGE_BYTES, 1), 1);
        assert_eq!(cache.touch(2, 0, 1), 1);
    }

    #[test]
    fn a_range_touches_each_page_it_overlaps() {
        let mut cache = PageCache::new(1 << 20);
        assert_eq!(cache.touch(1, 4095, 2), 2);
        assert_eq!(cache.touch(1, 0, 8192), 0);
        assert_eq!(cache.touch(1, 8192, 0), 0);
        let mut none = PageCache::new(0);
        assert_eq!((none.touch(1, 0, 1), none.touch(1, 0, 1)), (1, 1));
    }
}
