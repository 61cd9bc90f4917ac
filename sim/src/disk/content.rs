//! One file's bytes, live and durable at once.
//!
//! The live bytes are kept, once. What is not durable yet is kept as a list of undo records: what lay there before, or
//! nothing where nothing lay. Syncing drops records; losing power walks them backwards and decides for every 512-byte
//! sector on its own whether the newer bytes had reached the medium.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::random::Generator;

/// What a device writes in one piece.
pub const SECTOR: u64 = 512;
/// Bytes are kept in chunks that grow as they are written: holes and zeros cost nothing.
const CHUNK: usize = 64 << 10;
const PAGE: u64 = 4096;
/// Unsynced bytes of a file that a device holds back at most: the size of a large drive's cache. Older ones have been
/// written by then.
const HELD_BACK_BYTES_MAX: usize = 64 << 20;

#[derive(Clone, Default)]
pub struct Content {
    /// Shared between the copies of a disk until one of them is written to.
    chunks: Vec<Arc<Vec<u8>>>,
    size: u64,
    durable_size: u64,
    undo: VecDeque<Undo>,
    /// Bytes kept in them.
    undo_bytes: usize,
    /// Number of the next undo record.
    next: u64,
    /// The size, or where bytes lie, has changed since the last sync: a sync must write the file system's journal.
    layout_changed: bool,
    /// Up to where space is reserved.
    allocated: u64,
    /// When the device will have finished those that were handed to it.
    written_back_at: u64,
}

/// What to restore when a write does not survive.
#[derive(Clone)]
struct Undo {
    number: u64,
    offset: u64,
    len: u64,
    /// `None`: zeros or nothing.
    old: Option<Arc<[u8]>>,
    /// All or nothing, and this was the size before.
    truncated_from: Option<u64>,
    /// A sync of it has failed: later ones no longer know of it, and it never becomes durable.
    is_stuck: bool,
}

impl Undo {
    fn bytes(&self) -> usize {
        self.old.as_ref().map_or(0, |old| old.len())
    }
}

/// A point between a file's writes, up to which a sync makes them durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncPoint {
    next: u64,
    size: u64,
}

impl Content {
    pub fn size(&self) -> u64 {
        self.size
    }

    pub fn layout_changed(&self) -> bool {
        self.layout_changed
    }

    pub fn written_back_at(&mut self) -> &mut u64 {
        &mut self.written_back_at
    }

    /// Bytes of memory in use.
    pub fn memory(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity()).sum::<usize>() + self.undo_bytes
    }

    /// Calls `take` with the bytes of `offset..offset + len` in pieces, at most up to the end of the file. Gives the
    /// number of bytes.
    pub fn read(&self, offset: u64, len: u64, mut take: impl FnMut(&[u8])) -> u64 {
        static ZEROS: [u8; CHUNK] = [0; CHUNK];
        let end = offset.saturating_add(len).min(self.size);
        let mut at = offset;
        while at < end {
            let (index, within) = ((at / CHUNK as u64) as usize, (at % CHUNK as u64) as usize);
            let wanted = (CHUNK - within).min((end - at) as usize);
            let chunk = self.chunks.get(index).map_or(&[][..], |chunk| chunk.as_slice());
            let present = chunk.len().saturating_sub(within).min(wanted);
            if present > 0 {
                take(&chunk[within..within + present]);
            }
            if present < wanted {
                take(&ZEROS[..wanted - present]);
            }
            at += wanted as u64;
        }
        end.saturating_sub(offset)
    }

    fn read_vec(&self, offset: u64, len: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len.min(self.size.saturating_sub(offset)) as usize);
        self.read(offset, len, |piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// Whether no byte of the range is kept: then it reads as zeros.
    fn is_absent(&self, offset: u64, len: u64) -> bool {
        let (first, last) = ((offset / CHUNK as u64) as usize, ((offset + len - 1) / CHUNK as u64) as usize);
        (first..=last.min(self.chunks.len().saturating_sub(1))).all(|index| {
            let begin = offset.saturating_sub(index as u64 * CHUNK as u64) as usize;
            self.chunks.get(index).is_none_or(|chunk| chunk.len() <= begin)
        })
    }

    /// Puts bytes in place without an undo record and without changing the size.
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let (mut at, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let (index, within) = ((at / CHUNK as u64) as usize, (at % CHUNK as u64) as usize);
            let (piece, later) = rest.split_at(rest.len().min(CHUNK - within));
            if self.chunks.len() <= index {
                self.chunks.resize_with(index + 1, Arc::default);
            }
            let chunk = &mut self.chunks[index];
            if chunk.len() <= within && is_zero(piece) {
                // Zeros behind the kept part are what is read there anyway.
            } else if within == 0 && piece.len() == CHUNK {
                *chunk = Arc::new(piece.to_vec());
            } else {
                let chunk = Arc::make_mut(chunk);
                if chunk.len() < within {
                    chunk.resize(within, 0);
                }
                let (over, behind) = piece.split_at(piece.len().min(chunk.len() - within));
                chunk[within..within + over.len()].copy_from_slice(over);
                chunk.extend_from_slice(behind);
            }
            at += piece.len() as u64;
            rest = later;
        }
    }

    /// Writes; `durable_in_place`: the device keeps completed writes through power loss, so that overwriting what the
    /// file durably has needs no sync.
    pub fn write(&mut self, offset: u64, bytes: &[u8], durable_in_place: bool) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len() as u64;
        let end = offset + len;
        if !(durable_in_place && end <= self.durable_size) {
            self.push_undo(offset, len);
        }
        self.put(offset, bytes);
        if end > self.size {
            self.size = end;
            self.layout_changed = true;
        }
    }

    fn push_undo(&mut self, offset: u64, len: u64) {
        let absent = self.is_absent(offset, len);
        let number = self.next;
        // Appends after appends become one record, unless a sync point lies between.
        if absent
            && let Some(last) = self.undo.back_mut()
            && last.old.is_none()
            && last.truncated_from.is_none()
            && !last.is_stuck
            && last.offset + last.len == offset
            && last.number == number
        {
            last.len += len;
            return;
        }
        let old = (!absent).then(|| self.read_vec(offset, len).into());
        self.keep(Undo { number, offset, len, old, truncated_from: None, is_stuck: false });
    }

    fn keep(&mut self, undo: Undo) {
        self.undo_bytes += undo.bytes();
        self.undo.push_back(undo);
        while self.undo_bytes > HELD_BACK_BYTES_MAX {
            let Some(oldest) = self.undo.pop_front() else { return };
            self.undo_bytes -= oldest.bytes();
        }
    }

    pub fn allocate(&mut self, offset: u64, len: u64) {
        if offset + len > self.allocated {
            self.allocated = offset + len;
            self.layout_changed = true;
        }
    }

    pub fn truncate(&mut self, size: u64) {
        if size < self.size {
            let old = Some(self.read_vec(size, self.size - size).into());
            let (len, truncated_from) = (self.size - size, Some(self.size));
            self.keep(Undo { number: self.next, offset: size, len, old, truncated_from, is_stuck: false });
            self.cut(size);
        }
        if size != self.size {
            self.layout_changed = true;
        }
        self.size = size;
    }

    /// Forgets the bytes behind `size`.
    fn cut(&mut self, size: u64) {
        let (index, within) = ((size / CHUNK as u64) as usize, (size % CHUNK as u64) as usize);
        if let Some(chunk) = self.chunks.get_mut(index) {
            if chunk.len() > within {
                Arc::make_mut(chunk).truncate(within);
            }
            self.chunks.truncate(index + 1);
        }
    }

    /// What is written by now; a sync that begins now makes it durable when it ends.
    pub fn sync_point(&mut self) -> SyncPoint {
        self.next += 1;
        SyncPoint { next: self.next, size: self.size }
    }

    pub fn sync(&mut self, point: SyncPoint) {
        // In the order of their numbers, so that those before the point are the first ones; stuck ones stay before them.
        let mut stuck = Vec::new();
        while let Some(undo) = self.undo.pop_front_if(|undo| undo.number < point.next) {
            if undo.is_stuck {
                stuck.push(undo);
            } else {
                self.undo_bytes -= undo.bytes();
            }
        }
        stuck.into_iter().rev().for_each(|undo| self.undo.push_front(undo));
        self.durable_size = point.size;
        if self.undo.is_empty() && self.size == self.durable_size {
            self.layout_changed = false;
        }
    }

    /// A sync fails. As after `fsync` on Linux, what it was to write counts as clean from now on: it is read back, and
    /// no later sync makes it durable.
    pub fn fail_sync(&mut self, point: SyncPoint) {
        self.undo.iter_mut().filter(|undo| undo.number < point.next).for_each(|undo| undo.is_stuck = true);
    }

    /// The medium changes without being asked: durable at once, within the file's size.
    pub fn scribble(&mut self, offset: u64, bytes: &[u8]) {
        let len = (bytes.len() as u64).min(self.size.saturating_sub(offset));
        self.put(offset, &bytes[..len as usize]);
    }

    /// A write that changes the file's size and nothing else.
    pub fn extend(&mut self, end: u64) {
        if end > self.size {
            self.size = end;
            self.layout_changed = true;
        }
    }

    /// Bytes of the disk that the file takes.
    pub fn occupied(&self) -> u64 {
        self.size.max(self.allocated).next_multiple_of(PAGE)
    }

    /// Whether power loss may change anything.
    pub fn is_durable(&self) -> bool {
        self.undo.is_empty() && self.size == self.durable_size
    }

    /// The power fails: each sector written since the last sync has either reached the medium or not. The size is the
    /// durable one, the latest one, or one between in whole pages.
    pub fn lose_power(&mut self, random: &mut Generator) {
        if self.is_durable() {
            return;
        }
        // How much of the device's cache was written back; both ends are likely enough to be met.
        let kept_in_8 = [0, 1, 4, 7, 8][random.below(5) as usize];
        let mut settled: BTreeSet<u64> = BTreeSet::new();
        self.undo_bytes = 0;
        let mut truncation_lost = None;
        let mut low = self.durable_size;
        for undo in std::mem::take(&mut self.undo).into_iter().rev() {
            if let Some(size) = undo.truncated_from {
                let lost = random.chance(1, 2);
                if lost {
                    truncation_lost = Some(size);
                } else {
                    low = low.min(undo.offset);
                }
                self.restore(&undo, &mut settled, |_| !lost);
            } else {
                self.restore(&undo, &mut settled, |_| random.chance(kept_in_8, 8));
            }
        }
        let high = self.size;
        let low = low.min(high);
        let size = match (truncation_lost, random.below(3)) {
            (Some(size), _) => size,
            (None, 0) => low,
            (None, 1) => high,
            (None, _) => low + random.below((high - low).max(1)) / PAGE * PAGE,
        };
        self.cut(size);
        (self.size, self.durable_size) = (size, size);
        self.layout_changed = false;
    }

    /// Puts back what lay under a lost write, sector by sector, except where a later write has survived.
    fn restore(&mut self, undo: &Undo, settled: &mut BTreeSet<u64>, mut kept: impl FnMut(u64) -> bool) {
        for sector in undo.offset / SECTOR..(undo.offset + undo.len).div_ceil(SECTOR) {
            if settled.contains(&sector) {
                continue;
            }
            if kept(sector) {
                settled.insert(sector);
                continue;
            }
            let begin = (sector * SECTOR).max(undo.offset);
            let end = ((sector + 1) * SECTOR).min(undo.offset + undo.len);
            let within = (begin - undo.offset) as usize..(end - undo.offset) as usize;
            match &undo.old {
                Some(old) => {
                    let old = &old[within.start.min(old.len())..within.end.min(old.len())];
                    let mut bytes = old.to_vec();
                    bytes.resize(within.len(), 0);
                    self.put(begin, &bytes);
                }
                None => self.put(begin, &[0; SECTOR as usize][..within.len()]),
            }
        }
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(content: &Content) -> Vec<u8> {
        content.read_vec(0, u64::MAX / 2)
    }

    #[test]
    fn reads_what_was_written_and_zeros_between() {
        let mut content = Content::default();
        content.write(100_000, &[7; 100_000], false);
        content.write(3, b"abc", false);
        let mut expect = vec![0; 200_000];
        expect[100_000..].fill(7);
        expect[3..6].copy_from_slice(b"abc");
        assert_eq!(all(&content), expect);
        assert_eq!(content.read_vec(199_999, 10), [7]);
        content.truncate(150_000);
        content.truncate(160_000);
        expect.truncate(150_000);
        expect.resize(160_000, 0);
        assert_eq!(all(&content), expect);
    }

    #[test]
    fn zeros_take_no_memory() {
        let mut content = Content::default();
        (0..1000u64).for_each(|i| content.write(i * 4096, &[0; 4096], false));
        assert_eq!(content.size(), 4_096_000);
        assert_eq!(content.memory(), 0);
    }

    /// Whatever is lost, a synced byte is what it was, or, where it was overwritten since, one of the newer values of
    /// its sector's place.
    #[test]
    fn power_loss_keeps_what_was_synced_and_invents_nothing() {
        let (mut lost, mut kept, mut torn) = (0, 0, 0);
        for seed in 0..300 {
            let mut random = Generator::new(seed);
            let mut content = Content::default();
            content.write(0, &[1; 8192], false);
            let point = content.sync_point();
            content.write(0, &[2; 4096], false); // after the sync began: not covered
            content.sync(point);
            content.write(1024, &[3; 2048], false);
            content.write(8192, &[4; 8192], false);
            content.lose_power(&mut random);
            let bytes = all(&content);
            assert!(bytes.len() >= 8192 && bytes.len() <= 16384);
            for (sector, bytes) in bytes.chunks(512).enumerate() {
                let allowed: &[u8] = match sector {
                    2..6 => &[1, 2, 3],
                    0..8 => &[1, 2],
                    8..16 => &[1],
                    _ => &[0, 4],
                };
                assert!(bytes.iter().all(|&byte| byte == bytes[0]) && allowed.contains(&bytes[0]), "sector {sector}");
            }
            match bytes[1024..3072].iter().filter(|&&byte| byte == 3).count() {
                0 => lost += 1,
                2048 => kept += 1,
                _ => torn += 1,
            }
            assert!(content.is_durable());
        }
        assert!(lost > 50 && kept > 50 && torn > 50, "{lost} {kept} {torn}");
    }

    #[test]
    fn a_protected_device_keeps_overwrites_but_not_growth() {
        for seed in 0..50 {
            let mut content = Content::default();
            content.write(0, &[1; 4096], true);
            let point = content.sync_point();
            content.sync(point);
            content.write(0, &[2; 4096], true);
            assert!(content.is_durable());
            content.write(4096, &[3; 4096], true);
            content.lose_power(&mut Generator::new(seed));
            assert!(all(&content)[..4096].iter().all(|&byte| byte == 2));
        }
    }

    #[test]
    fn a_lost_truncation_brings_everything_back() {
        let outcomes: Vec<_> = (0..50)
            .map(|seed| {
                let mut content = Content::default();
                content.write(0, &[5; 5000], false);
                let point = content.sync_point();
                content.sync(point);
                content.truncate(0);
                content.lose_power(&mut Generator::new(seed));
                all(&content)
            })
            .collect();
        assert!(outcomes.iter().all(|bytes| bytes.is_empty() || *bytes == [5; 5000]));
        assert!(outcomes.iter().any(Vec::is_empty) && outcomes.iter().any(|bytes| !bytes.is_empty()));
    }
}
