//! Numbered places for the cache's entries, in order of use.
//!
//! Places lie in blocks that never move, so growing copies nothing and wastes at most one block. A place costs
//! [`SLOT_BYTES`], links included.

use std::sync::Arc;

use super::wide::{Segment, Wide};

/// Of an entry without neighbour.
pub(super) const NONE: u32 = u32::MAX;
pub(super) const SLOT_BYTES: u64 = size_of::<Slot>() as u64;
/// Places that are made at a time: 4 KiB.
const CHUNK: usize = 128;

/// 16 bytes: `Large` lies where the length of `Whole` is, and is told by the pointer that is not there.
pub(super) enum Content {
    /// All that the files have of a partition, encoded. An empty partition says that they have nothing.
    Whole(Arc<[u8]>),
    /// Of a partition that is too large for that. Nothing in a free place.
    Large(Option<Box<Large>>),
}

pub(super) enum Large {
    /// The parts of the partition that are known. Not in the order of use: it goes with its last segment.
    Wide(Wide),
    Segment(Segment),
}

impl Content {
    pub fn from_wide(wide: Wide) -> Self {
        Content::Large(Some(Box::new(Large::Wide(wide))))
    }

    pub fn from_segment(segment: Segment) -> Self {
        Content::Large(Some(Box::new(Large::Segment(segment))))
    }

    pub fn wide(&self) -> Option<&Wide> {
        match self {
            Content::Large(Some(large)) => match &**large {
                Large::Wide(wide) => Some(wide),
                Large::Segment(_) => None,
            },
            _ => None,
        }
    }

    pub fn wide_mut(&mut self) -> Option<&mut Wide> {
        match self {
            Content::Large(Some(large)) => match &mut **large {
                Large::Wide(wide) => Some(wide),
                Large::Segment(_) => None,
            },
            _ => None,
        }
    }

    pub fn segment(&self) -> Option<&Segment> {
        match self {
            Content::Large(Some(large)) => match &**large {
                Large::Wide(_) => None,
                Large::Segment(segment) => Some(segment),
            },
            _ => None,
        }
    }
}

pub(super) struct Slot {
    pub table: u32,
    /// Of table and token; none in segments.
    pub hash: u32,
    newer: u32,
    /// Of a free place, the next one.
    older: u32,
    pub content: Content,
}

pub(super) struct Slots {
    chunks: Vec<Vec<Slot>>,
    len: u32,
    free: u32,
    newest: u32,
    oldest: u32,
}

impl Slots {
    pub fn new() -> Self {
        Self { chunks: Vec::new(), len: 0, free: NONE, newest: NONE, oldest: NONE }
    }

    /// Memory of all places, used or not.
    pub fn bytes(&self) -> u64 {
        self.chunks.len() as u64 * (CHUNK as u64 * SLOT_BYTES + size_of::<Vec<Slot>>() as u64)
    }

    /// The least recently used one.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }

    #[inline]
    pub fn at(&self, slot: u32) -> &Slot {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    #[inline]
    pub fn at_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// A place outside the order of use.
    pub fn add(&mut self, table: u32, hash: u32, content: Content) -> u32 {
        let fresh = Slot { table, hash, newer: NONE, older: NONE, content };
        if self.free != NONE {
            let slot = self.free;
            self.free = self.at(slot).older;
            *self.at_mut(slot) = fresh;
            return slot;
        }
        if self.len as usize == self.chunks.len() * CHUNK {
            self.chunks.push(Vec::with_capacity(CHUNK));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(fresh);
        }
        self.len += 1;
        self.len - 1
    }

    /// Gives back a place that is not in the order of use (any more), and what was in it.
    pub fn take(&mut self, slot: u32) -> Content {
        let next = std::mem::replace(&mut self.free, slot);
        let place = self.at_mut(slot);
        place.older = next;
        std::mem::replace(&mut place.content, Content::Large(None))
    }

    /// Makes it the most recently used one.
    #[inline]
    pub fn touch(&mut self, slot: u32) {
        if self.newest != slot {
            self.unlink(slot);
            self.link(slot);
        }
    }

    /// Puts it into the order of use, as the newest.
    pub fn link(&mut self, slot: u32) {
        let second = self.newest;
        let entry = self.at_mut(slot);
        (entry.newer, entry.older) = (NONE, second);
        if second == NONE {
            self.oldest = slot;
        } else {
            self.at_mut(second).newer = slot;
        }
        self.newest = slot;
    }

    pub fn unlink(&mut self, slot: u32) {
        let (newer, older) = (self.at(slot).newer, self.at(slot).older);
        if newer == NONE {
            self.newest = older;
        } else {
            self.at_mut(newer).older = older;
        }
        if older == NONE {
            self.oldest = newer;
        } else {
            self.at_mut(older).newer = newer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_used_again_and_keep_their_order() {
        let mut slots = Slots::new();
        let whole = |n: u8| Content::Whole(Arc::from([n]));
        let numbers: Vec<u32> = (0..1200).map(|n| slots.add(1, n, whole(n as u8))).collect();
        numbers.iter().for_each(|slot| slots.link(*slot));
        slots.touch(0);
        assert_eq!(slots.oldest(), Some(1));
        for slot in [1, 3, 1199] {
            slots.unlink(slot);
            slots.take(slot);
        }
        assert_eq!(slots.oldest(), Some(2));
        let again: Vec<u32> = (0..4).map(|n| slots.add(1, n, whole(0))).collect();
        assert_eq!(again, [1199, 3, 1, 1200]);
        let mut left = Vec::new();
        while let Some(slot) = slots.oldest() {
            slots.unlink(slot);
            left.push(slot);
        }
        assert_eq!((left.len(), left[0], left[1], left[1196]), (1197, 2, 4, 0));
    }

    #[test]
    fn a_place_is_small() {
        assert_eq!(SLOT_BYTES, 32);
    }
}
