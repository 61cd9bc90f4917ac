//! The kernel's page cache, for files that are not opened for direct I/O and for systems that never ask for it.
//!
//! Pages of 4 KiB, least recently used first out. It knows which pages of which file are in memory, or on their way
//! there; the bytes themselves lie with the file. A file that is read in order is read ahead of its reader, as Linux
//! does: a window that doubles up to a limit, begun when half of the last one has been used.

use types::hash::HashMap;

pub const PAGE_BYTES: u64 = 4096;
const NONE: u32 = u32::MAX;

/// How a host's kernel caches files.
#[derive(Clone, Copy, Debug)]
pub struct PageCacheModel {
    /// 0: what is not in the process is on the disk.
    pub bytes: u64,
    /// The most that is read ahead of an orderly reader: `read_ahead_kb` of the block device.
    pub readahead: u64,
    /// The least that is read from the disk at once: readahead around a page that was mapped and missed.
    pub floor: u64,
}

/// Linux's default, `VM_READAHEAD_PAGES`.
pub const READAHEAD_BYTES: u64 = 128 << 10;

impl PageCacheModel {
    pub fn of(bytes: u64) -> Self {
        Self { bytes, readahead: READAHEAD_BYTES, floor: PAGE_BYTES }
    }
}

struct Page {
    key: (u64, u64),
    newer: u32,
    older: u32,
    /// When its bytes have come.
    ready_at: u64,
}

/// An orderly reader of a file.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// The page that it wants next, and those that were read for it already.
    next: u64,
    ahead_until: u64,
    window: u64,
}

pub struct PageCache {
    model: PageCacheModel,
    capacity: usize,
    by_key: HashMap<(u64, u64), u32>,
    streams: HashMap<u64, Stream>,
    pages: Vec<Page>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

/// A range of a file to be read, and how long that is.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub file: u64,
    pub offset: u64,
    pub len: u64,
    pub file_len: u64,
}

impl PageCache {
    pub fn new(model: PageCacheModel) -> Self {
        Self {
            capacity: (model.bytes / PAGE_BYTES) as usize,
            model,
            by_key: HashMap::default(),
            streams: HashMap::default(),
            pages: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
        }
    }

    pub fn clear(&mut self) {
        *self = Self::new(self.model);
    }

    /// What was written is in memory.
    pub fn write(&mut self, file: u64, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        for page in offset / PAGE_BYTES..=(offset + len - 1) / PAGE_BYTES {
            self.bring((file, page), 0);
        }
    }

    /// When all of a range is in memory, if it is read at `at`. `fetch` reads from the disk: the offset and the number
    /// of bytes, to when they are there. Files are named by numbers never used again.
    pub fn read(&mut self, at: u64, wanted: Wanted, mut fetch: impl FnMut(u64, u64) -> u64) -> u64 {
        let Wanted { file, offset, len, file_len } = wanted;
        if len == 0 {
            return at;
        }
        let (first, last) = (offset / PAGE_BYTES, (offset + len - 1) / PAGE_BYTES);
        let file_pages = file_len.div_ceil(PAGE_BYTES).max(last + 1);
        let mut ready_at = at;
        let mut page = first;
        while page <= last {
            match self.by_key.get(&(file, page)).copied() {
                Some(index) => {
                    self.renew(index);
                    ready_at = ready_at.max(self.pages[index as usize].ready_at);
                    page += 1;
                }
                None => {
                    let end = (page..=last).find(|&page| self.by_key.contains_key(&(file, page))).unwrap_or(last + 1);
                    ready_at = ready_at.max(self.fetch_missing(file, page..end, file_pages, &mut fetch));
                    page = end;
                }
            }
        }
        self.read_ahead(file, first, last, file_pages, &mut fetch);
        ready_at
    }

    /// Reads missing pages, and their neighbours up to the floor.
    fn fetch_missing(
        &mut self,
        file: u64,
        pages: std::ops::Range<u64>,
        file_pages: u64,
        fetch: &mut impl FnMut(u64, u64) -> u64,
    ) -> u64 {
        let floor = (self.model.floor / PAGE_BYTES).max(1);
        let begin = pages.start / floor * floor;
        let end = pages.end.next_multiple_of(floor).min(file_pages);
        let ready_at = fetch(begin * PAGE_BYTES, (end - begin) * PAGE_BYTES);
        (begin..end).for_each(|page| self.bring((file, page), ready_at));
        ready_at
    }

    /// A reader that goes on where it was finds the next pages in memory, or on their way.
    fn read_ahead(
        &mut self,
        file: u64,
        first: u64,
        last: u64,
        file_pages: u64,
        fetch: &mut impl FnMut(u64, u64) -> u64,
    ) {
        let most = self.model.readahead / PAGE_BYTES;
        if most == 0 || self.capacity as u64 <= most {
            return;
        }
        let stream = self.streams.entry(file).or_default();
        // Reads that are no multiples of a page begin in the page where the last one ended.
        let goes_on = first == stream.next || (stream.next > 0 && first + 1 == stream.next);
        stream.next = last + 1;
        if !goes_on {
            (stream.window, stream.ahead_until) = (0, last + 1);
            return;
        }
        let ahead_until = stream.ahead_until.max(last + 1);
        if ahead_until - (last + 1) > stream.window / 2 {
            return;
        }
        let read = last + 1 - first;
        stream.window = (2 * stream.window).max(4 * read).min(most);
        let end = (ahead_until + stream.window).min(file_pages);
        stream.ahead_until = end.max(ahead_until);
        if end > ahead_until {
            let ready_at = fetch(ahead_until * PAGE_BYTES, (end - ahead_until) * PAGE_BYTES);
            (ahead_until..end).for_each(|page| self.bring((file, page), ready_at));
        }
    }

    /// A file is gone, and with it its pages.
    pub fn forget(&mut self, file: u64, len: u64) {
        self.streams.remove(&file);
        if self.by_key.is_empty() {
            return;
        }
        for page in 0..len.div_ceil(PAGE_BYTES) {
            if let Some(index) = self.by_key.remove(&(file, page)) {
                self.unlink(index);
                self.free.push(index);
            }
        }
    }

    fn renew(&mut self, index: u32) {
        if self.newest != index {
            self.unlink(index);
            self.link_newest(index);
        }
    }

    fn bring(&mut self, key: (u64, u64), ready_at: u64) {
        if let Some(index) = self.by_key.get(&key).copied() {
            return self.renew(index);
        }
        if self.capacity == 0 {
            return;
        }
        if self.by_key.len() >= self.capacity {
            let oldest = self.oldest;
            self.unlink(oldest);
            self.by_key.remove(&self.pages[oldest as usize].key);
            self.free.push(oldest);
        }
        let page = Page { key, newer: NONE, older: NONE, ready_at };
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

    const FETCH_NS: u64 = 1_000_000;

    /// Reads at `at`. Gives when it is done and what was fetched, in pages.
    fn read(cache: &mut PageCache, at: u64, file: u64, offset: u64, len: u64) -> (u64, Vec<(u64, u64)>) {
        let mut fetched = Vec::new();
        let wanted = Wanted { file, offset, len, file_len: 1 << 30 };
        let done_at = cache.read(at, wanted, |offset, len| {
            fetched.push((offset / PAGE_BYTES, len / PAGE_BYTES));
            at + FETCH_NS
        });
        (done_at, fetched)
    }

    fn random_only(pages: u64) -> PageCache {
        PageCache::new(PageCacheModel { readahead: 0, ..PageCacheModel::of(pages * PAGE_BYTES) })
    }

    fn misses(cache: &mut PageCache, file: u64, page: u64) -> u64 {
        read(cache, 0, file, page * PAGE_BYTES, 1).1.iter().map(|(_, pages)| pages).sum()
    }

    #[test]
    fn the_least_recently_used_page_goes_first() {
        let mut cache = random_only(3);
        assert_eq!(read(&mut cache, 0, 1, 0, 3 * PAGE_BYTES).1, [(0, 3)]);
        assert_eq!(misses(&mut cache, 1, 0), 0);
        assert_eq!(misses(&mut cache, 2, 0), 1); // page 1 of file 1 goes
        assert_eq!(misses(&mut cache, 1, 0), 0);
        assert_eq!(misses(&mut cache, 1, 2), 0);
        assert_eq!(misses(&mut cache, 1, 1), 1);
        assert_eq!(misses(&mut cache, 2, 0), 1);
    }

    #[test]
    fn a_range_touches_each_page_it_overlaps() {
        let mut cache = random_only(256);
        assert_eq!(read(&mut cache, 0, 1, 4095, 2).1, [(0, 2)]);
        assert_eq!(read(&mut cache, 0, 1, 0, 8192).1, []);
        assert_eq!(read(&mut cache, 0, 1, 8192, 0).1, []);
        cache.write(1, 5 * PAGE_BYTES, 1);
        assert_eq!(read(&mut cache, 0, 1, 4 * PAGE_BYTES, 3 * PAGE_BYTES).1, [(4, 1), (6, 1)]);
        let mut none = random_only(0);
        assert_eq!((misses(&mut none, 1, 0), misses(&mut none, 1, 0)), (1, 1));
    }

    #[test]
    fn a_second_reader_waits_for_what_is_on_its_way() {
        let mut cache = random_only(256);
        assert_eq!(read(&mut cache, 0, 1, 0, 100).0, FETCH_NS);
        assert_eq!(read(&mut cache, 400_000, 1, 0, 100), (FETCH_NS, vec![]));
        assert_eq!(read(&mut cache, 2 * FETCH_NS, 1, 0, 100), (2 * FETCH_NS, vec![]));
    }

    #[test]
    fn an_orderly_reader_is_read_ahead_of_and_a_random_one_is_not() {
        let mut cache = PageCache::new(PageCacheModel::of(1 << 20));
        let fetched: Vec<_> =
            (0..24).flat_map(|page| read(&mut cache, 0, 1, page * PAGE_BYTES, PAGE_BYTES).1).collect();
        assert_eq!(fetched, [(0, 1), (1, 4), (5, 8), (13, 16), (29, 32)]);
        assert_eq!(read(&mut cache, 0, 2, 900 * PAGE_BYTES, 100).1, [(900, 1)]);
        assert_eq!(read(&mut cache, 0, 2, 70 * PAGE_BYTES, 100).1, [(70, 1)]);
    }

    #[test]
    fn a_floor_reads_the_neighbours() {
        let mut cache = PageCache::new(PageCacheModel { floor: 16 << 10, readahead: 0, ..PageCacheModel::of(1 << 20) });
        assert_eq!(read(&mut cache, 0, 1, 6 * PAGE_BYTES, 10).1, [(4, 4)]);
    }

    #[test]
    fn a_forgotten_file_leaves_its_room() {
        let mut cache = random_only(4);
        assert_eq!(read(&mut cache, 0, 1, 0, 2 * PAGE_BYTES).1, [(0, 2)]);
        assert_eq!(read(&mut cache, 0, 2, 0, 2 * PAGE_BYTES).1, [(0, 2)]);
        cache.forget(1, 2 * PAGE_BYTES);
        assert_eq!(read(&mut cache, 0, 3, 0, 2 * PAGE_BYTES).1, [(0, 2)]);
        assert_eq!(read(&mut cache, 0, 2, 0, 2 * PAGE_BYTES).1, []);
        assert_eq!(read(&mut cache, 0, 1, 0, PAGE_BYTES).1, [(0, 1)]);
    }
}
