//! Dirty pages: what was written into a host's page cache and not yet handed to the disk.
//!
//! As Linux has it, a file's pages go to the disk when they are old, when all dirty pages together are many, or when
//! somebody syncs the file; a system may also let them trickle, a piece whenever that much of a file has gathered.

use std::collections::VecDeque;

use super::tree::InodeId;

/// `vm.dirty_background_ratio` and `vm.dirty_ratio` of the memory for the page cache, and what a host without a page
/// cache worth the name has.
const BACKGROUND_PART: f64 = 0.1;
const BLOCKING_PART: f64 = 0.2;
const BLOCKING_BYTES_MIN: f64 = (16 << 20) as f64;
/// `vm.dirty_expire_centisecs`.
const EXPIRES_NS: u64 = 30_000_000_000;

struct DirtyFile {
    inode: InodeId,
    /// The file's number, which is never used again.
    number: u64,
    since: u64,
    bytes: u64,
}

pub(crate) struct Dirty {
    /// Oldest first.
    files: VecDeque<DirtyFile>,
    bytes: u64,
    background_bytes: u64,
    blocking_bytes: f64,
    trickle_bytes: u64,
}

impl Dirty {
    /// `trickle_bytes`: of one file, handed over whenever so much has gathered.
    pub fn new(page_cache_bytes: u64, trickle_bytes: Option<u64>) -> Self {
        let blocking_bytes = (page_cache_bytes as f64 * BLOCKING_PART).max(BLOCKING_BYTES_MIN);
        Self {
            files: VecDeque::new(),
            bytes: 0,
            background_bytes: (blocking_bytes * BACKGROUND_PART / BLOCKING_PART) as u64,
            blocking_bytes,
            trickle_bytes: trickle_bytes.unwrap_or(u64::MAX),
        }
    }

    /// A writer waits while the disk is behind by more than this, in ns of its write bandwidth.
    pub fn blocking_ns(&self, bandwidth: f64) -> u64 {
        (self.blocking_bytes / bandwidth * 1e9) as u64
    }

    pub fn add(&mut self, at: u64, inode: InodeId, number: u64, bytes: u64) {
        self.bytes += bytes;
        match self.files.iter_mut().find(|file| file.number == number) {
            Some(file) => file.bytes += bytes,
            None => self.files.push_back(DirtyFile { inode, number, since: at, bytes }),
        }
    }

    /// A file whose pages are to be handed over now, one after the other: its inode, number and dirty bytes.
    pub fn take_due(&mut self, at: u64) -> Option<(InodeId, u64, u64)> {
        let is_full = self.bytes > self.background_bytes;
        let due = |file: &DirtyFile| {
            is_full || file.since.saturating_add(EXPIRES_NS) <= at || file.bytes >= self.trickle_bytes
        };
        let index = self.files.iter().position(due)?;
        let file = self.files.remove(index)?;
        self.bytes -= file.bytes;
        Some((file.inode, file.number, file.bytes))
    }

    /// The file's pages are handed over, or gone with it. Gives their bytes.
    pub fn take(&mut self, number: u64) -> u64 {
        let Some(index) = self.files.iter().position(|file| file.number == number) else { return 0 };
        let bytes = self.files.remove(index).map_or(0, |file| file.bytes);
        self.bytes -= bytes;
        bytes
    }

    /// Memory is lost.
    pub fn clear(&mut self) {
        self.files.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_when_they_are_old_or_many_or_trickle() {
        let mut dirty = Dirty::new(1 << 30, None);
        dirty.add(0, 1, 1, 4096);
        dirty.add(1_000, 2, 2, 4096);
        dirty.add(2_000, 1, 1, 4096);
        assert_eq!(dirty.take_due(EXPIRES_NS - 1), None);
        assert_eq!(dirty.take_due(EXPIRES_NS), Some((1, 1, 8192)));
        assert_eq!(dirty.take_due(EXPIRES_NS), None);
        dirty.add(3_000, 3, 3, 200 << 20);
        assert_eq!((dirty.take_due(4_000), dirty.take_due(4_000)), (Some((2, 2, 4096)), Some((3, 3, 200 << 20))));
        assert_eq!(dirty.bytes, 0);
        let mut trickling = Dirty::new(1 << 30, Some(1 << 20));
        trickling.add(0, 1, 1, 1 << 19);
        assert_eq!(trickling.take_due(0), None);
        trickling.add(0, 1, 1, 1 << 19);
        assert_eq!(trickling.take_due(0), Some((1, 1, 1 << 20)));
    }
}
