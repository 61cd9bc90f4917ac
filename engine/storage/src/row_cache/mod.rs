//! What the SSTables have of partitions, merged and encoded: a read of what is here does no disk operation.
//!
//! 1. What is cached is what the *files* say; memtables are merged over it by each read, so writes leave the cache as
//!    it is. Before a flushed memtable is let go, it is merged into the entries here (see [`RowCache::update`]); until
//!    then reads see both, and merging twice changes nothing.
//! 2. Small partitions are kept whole, also those that the files do not have; of large ones the stretches that were
//!    read, each with all that lies in it. A gap between them is read from the files when it is asked for.
//! 3. A read that began with an older set of SSTables must not put its answer here: it compares the table's version
//!    (see [`Table::version`](crate::table::Table)).
//! 4. Scans find here which partition comes next, as far as other scans have seen it (see [`Order`]).
//! 5. Bytes are those that the allocator gives: contents rounded up to its size classes, places and the map itself.
//!    When they exceed the limit, the least recently used partitions and stretches go.

mod order;
mod slots;
mod update;
mod wide;

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use hashbrown::HashTable;
use types::{TableDef, Token};

pub(crate) use self::order::Behind;
use self::order::Order;
use self::slots::{Content, Large, NONE, Slots};
use self::wide::{SEGMENT_MAX_BYTES, Segment, Wide, cut, decode, encode, is_some, key_of};
use crate::data::compare_positions;
use crate::{Bytes, CacheStats, Malformed, Partition, Slice, lookup};

/// Larger partitions are kept in stretches: reading one row of them should not decode all.
pub(crate) const PARTITION_MAX_BYTES: u64 = 16 << 10;

/// In front of shared bytes.
const COUNTS_BYTES: usize = 16;

pub(crate) struct RowCache {
    inner: RefCell<Inner>,
    next_table: Cell<u32>,
}

struct Inner {
    limit_bytes: u64,
    map: HashTable<u32>,
    slots: Slots,
    order: Order,
    /// Of contents, without places, map and order.
    content_bytes: u64,
    stats: CacheStats,
}

/// What there is of a partition.
pub(crate) enum Found {
    Nothing,
    Whole(Arc<[u8]>),
    /// Ask for pieces.
    Wide,
}

/// What is known at the beginning of a slice, in reading order.
pub(crate) enum Stretch {
    /// All that lies in this part of the slice: its pieces were given.
    Known(Slice),
    /// Nothing of this part.
    Gap(Slice),
}

/// Of a stretch that is known.
pub(crate) struct Piece<'a> {
    /// The partition's deletion and static row.
    pub head: &'a Arc<[u8]>,
    pub rows: &'a Arc<[u8]>,
    /// Whether some of these may lie outside the slice.
    pub exceeds: bool,
}

/// What an allocator gives for so many bytes: four sizes to each doubling, as mimalloc's `_mi_bin` and jemalloc's size
/// classes have.
fn allocated(bytes: usize) -> u64 {
    let bytes = bytes.next_multiple_of(16) as u64;
    if bytes <= 64 {
        return bytes;
    }
    let step = (bytes.next_power_of_two() / 8).max(16);
    bytes.next_multiple_of(step)
}

/// A hash whose all bits depend on table and token.
#[inline]
fn hash_of(table: u32, token: Token) -> u32 {
    ((token.0 as u64 ^ u64::from(table).rotate_left(40)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
}

#[inline]
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Content {
    fn bytes(&self) -> u64 {
        let shared = |bytes: &Arc<[u8]>| allocated(COUNTS_BYTES + bytes.len());
        match self {
            Content::Whole(bytes) => shared(bytes),
            Content::Large(None) => 0,
            Content::Large(Some(large)) => {
                let inside = match &**large {
                    Large::Wide(wide) => shared(&wide.head) + allocated(4 * wide.segments.capacity()),
                    Large::Segment(segment) => {
                        let bound = |prefix: &[u8]| allocated(COUNTS_BYTES + prefix.len());
                        let (start, end) = (&segment.slice.start.prefix, &segment.slice.end.prefix);
                        shared(&segment.rows) + bound(start.as_bytes()) + bound(end.as_bytes())
                    }
                };
                allocated(size_of::<Large>()) + inside
            }
        }
    }
}

impl RowCache {
    pub fn new(limit_bytes: u64) -> Self {
        let inner = Inner {
            limit_bytes,
            map: HashTable::new(),
            slots: Slots::new(),
            order: Order::default(),
            content_bytes: 0,
            stats: CacheStats::default(),
        };
        Self { inner: RefCell::new(inner), next_table: Cell::new(0) }
    }

    /// A name for a table's partitions, never given twice. A truncated table gets a new one.
    pub fn name_table(&self) -> u32 {
        self.next_table.set(self.next_table.get() + 1);
        self.next_table.get()
    }

    /// What others leave of the memory for caches.
    pub fn set_limit(&self, limit_bytes: u64) {
        let inner = &mut *self.inner.borrow_mut();
        inner.limit_bytes = limit_bytes;
        inner.make_room();
    }

    /// Forgets everything.
    pub fn clear(&self) {
        let inner = &mut *self.inner.borrow_mut();
        let limit_bytes = std::mem::take(&mut inner.limit_bytes);
        inner.make_room();
        inner.limit_bytes = limit_bytes;
    }

    /// Whether there is any room at all.
    pub fn is_on(&self) -> bool {
        self.inner.borrow().limit_bytes > 0
    }

    #[inline]
    pub fn find(&self, table: u32, token: Token, key: &[u8]) -> Found {
        let inner = &mut *self.inner.borrow_mut();
        lookup::charge(inner.content_bytes);
        let Some(slot) = inner.slot(table, token, key) else {
            inner.stats.misses += 1;
            return Found::Nothing;
        };
        let Content::Whole(bytes) = &inner.slots.at(slot).content else { return Found::Wide };
        let bytes = bytes.clone();
        inner.stats.hits += 1;
        inner.slots.touch(slot);
        Found::Whole(bytes)
    }

    /// What is known at the beginning of `slice`, at its end when `reverse`: gives it to `take`, piece by piece in reading
    /// order, for as long as that asks for more.
    pub fn walk<E>(
        &self,
        (table, token, key): (u32, Token, &[u8]),
        slice: &Slice,
        reverse: bool,
        def: &TableDef,
        mut take: impl FnMut(Piece<'_>) -> Result<bool, E>,
    ) -> Result<Stretch, E> {
        let inner = &mut *self.inner.borrow_mut();
        lookup::charge(inner.content_bytes);
        let Some(owner) = inner.slot(table, token, key) else {
            inner.stats.misses += 1;
            return Ok(Stretch::Gap(slice.clone()));
        };
        if let Content::Whole(bytes) = &inner.slots.at(owner).content {
            inner.stats.hits += 1;
            take(Piece { head: bytes, rows: bytes, exceeds: true })?;
            return Ok(Stretch::Known(slice.clone()));
        }
        let mut next = inner.nearest(owner, slice, reverse, def).map(|(at, ..)| at);
        let mut rest = slice.clone();
        let mut is_known = false;
        while let Some((slot, segment)) = next.and_then(|at| inner.segment(owner, at)) {
            let held = &segment.slice;
            let start = compare_positions(def, held.start.as_start(), rest.start.as_start());
            let end = compare_positions(def, rest.end.as_end(), held.end.as_end());
            let (near, far) = if reverse { (end, start) } else { (start, end) };
            if near.is_gt() {
                // It only comes later: what is left lies before it.
                rest.advance(held, !reverse);
                break;
            }
            rest.advance(held, reverse);
            let Some(head) = inner.slots.at(owner).content.wide().map(|wide| &wide.head) else { break };
            let asks_more = take(Piece { head, rows: &segment.rows, exceeds: start.is_lt() || end.is_lt() })?;
            inner.stats.hits += 1;
            inner.slots.touch(slot);
            if far.is_le() {
                return Ok(Stretch::Known(slice.clone()));
            }
            is_known = true;
            if !asks_more {
                break;
            }
            next = next.and_then(|at| if reverse { at.checked_sub(1) } else { Some(at + 1) });
        }
        if !is_known {
            inner.stats.misses += 1;
            return Ok(Stretch::Gap(rest));
        }
        let mut known = slice.clone();
        known.advance(&rest, !reverse);
        Ok(Stretch::Known(known))
    }

    /// Keeps a whole partition that was read from the files; an empty one when they do not have it. What is here stays.
    pub fn insert_whole(
        &self,
        table: u32,
        token: Token,
        partition: &Partition,
        def: &TableDef,
    ) -> Result<(), Malformed> {
        let inner = &mut *self.inner.borrow_mut();
        inner.insert_any(table, token, partition, def)?;
        inner.make_room();
        Ok(())
    }

    /// Keeps what was read of a large partition: all that lies in `slice`, with deletion and static row.
    pub fn insert_piece(
        &self,
        table: u32,
        token: Token,
        slice: &Slice,
        partition: &Partition,
        def: &TableDef,
    ) -> Result<(), Malformed> {
        let inner = &mut *self.inner.borrow_mut();
        inner.insert_piece(table, token, slice, partition, def)?;
        inner.make_room();
        Ok(())
    }

    /// The partition that comes next in the files behind the place; it is here as a whole. `None` when that is not known.
    pub fn next(&self, table: u32, place: &Behind) -> Option<(Token, Bytes)> {
        self.inner.borrow().order.next(table, place)
    }

    /// A scan found that the files have nothing between the place and the partition. Of no use for what is not here.
    pub fn follows(&self, table: u32, place: &Behind, token: Token, key: &[u8]) {
        let inner = &mut *self.inner.borrow_mut();
        let slot = inner.slot(table, token, key);
        if slot.is_some_and(|slot| matches!(inner.slots.at(slot).content, Content::Whole(_))) {
            inner.order.follows(table, place, token, key);
            inner.make_room();
        }
    }

    pub fn stats(&self) -> CacheStats {
        let inner = self.inner.borrow();
        CacheStats { bytes: inner.bytes(), ..inner.stats }
    }
}

impl Inner {
    fn bytes(&self) -> u64 {
        self.content_bytes + self.slots.bytes() + self.map.allocation_size() as u64 + self.order.bytes()
    }

    #[inline]
    fn slot(&self, table: u32, token: Token, key: &[u8]) -> Option<u32> {
        let hash = hash_of(table, token);
        let is_it = |slot: &u32| {
            let slot = self.slots.at(*slot);
            slot.hash == hash
                && slot.table == table
                && match &slot.content {
                    Content::Whole(bytes) => key_of(bytes) == key,
                    large => large.wide().is_some_and(|wide| key_of(&wide.head) == key),
                }
        };
        self.map.find(spread(hash), is_it).copied()
    }

    /// A partition's segment, by its number in their order, and its place.
    fn segment(&self, owner: u32, number: usize) -> Option<(u32, &Segment)> {
        let slot = *self.slots.at(owner).content.wide()?.segments.get(number)?;
        Some((slot, self.slots.at(slot).content.segment()?))
    }

    /// The segment that holds the slice's beginning, or else the first behind it, with its number and place; none when it
    /// is behind the slice.
    fn nearest(&self, owner: u32, slice: &Slice, reverse: bool, def: &TableDef) -> Option<(usize, u32, &Segment)> {
        let list = &self.slots.at(owner).content.wide()?.segments;
        let held = |slot: &u32| self.slots.at(*slot).content.segment().map(|segment| &segment.slice);
        let begins = |held: &Slice| is_some(held.start.as_start(), slice.end.as_end(), def);
        let goes_on = |held: &Slice| is_some(slice.start.as_start(), held.end.as_end(), def);
        let at = if reverse {
            list.partition_point(|slot| held(slot).is_some_and(begins)).checked_sub(1)?
        } else {
            list.partition_point(|slot| held(slot).is_some_and(|held| !goes_on(held)))
        };
        let (slot, segment) = self.segment(owner, at)?;
        (begins(&segment.slice) && goes_on(&segment.slice)).then_some((at, slot, segment))
    }

    /// Puts a new entry into map and, save for `Wide`, into the order of use.
    fn add(&mut self, table: u32, hash: u32, content: Content) -> u32 {
        self.content_bytes += content.bytes();
        let in_map = content.segment().is_none();
        let in_order = content.wide().is_none();
        let slot = self.slots.add(table, hash, content);
        if in_map {
            let slots = &self.slots;
            self.map.insert_unique(spread(hash), slot, |slot| spread(slots.at(*slot).hash));
        }
        if in_order {
            self.slots.link(slot);
        }
        slot
    }

    /// Puts another content of the same kind, or of the other kind in the map, in its place.
    fn replace(&mut self, slot: u32, content: Content) {
        self.content_bytes += content.bytes();
        let entry = self.slots.at_mut(slot);
        let old = std::mem::replace(&mut entry.content, content);
        self.content_bytes -= old.bytes();
    }

    fn insert_whole(&mut self, table: u32, token: Token, bytes: Arc<[u8]>) {
        if self.limit_bytes == 0 || self.slot(table, token, key_of(&bytes)).is_some() {
            return;
        }
        self.add(table, hash_of(table, token), Content::Whole(bytes));
        self.make_room();
    }

    fn insert_piece(
        &mut self,
        table: u32,
        token: Token,
        slice: &Slice,
        partition: &Partition,
        def: &TableDef,
    ) -> Result<(), Malformed> {
        // An empty stretch would stand in the way of those that are found by their ends.
        if self.limit_bytes == 0 || !is_some(slice.start.as_start(), slice.end.as_end(), def) {
            return Ok(());
        }
        let owner = match self.slot(table, token, &partition.key) {
            Some(slot) if matches!(self.slots.at(slot).content, Content::Whole(_)) => return Ok(()),
            Some(slot) => slot,
            None => {
                let head = Partition {
                    key: partition.key.clone(),
                    deletion: partition.deletion,
                    static_row: partition.static_row.clone(),
                    ..Partition::default()
                };
                let wide = Wide { head: encode(&head), segments: Vec::new() };
                self.add(table, hash_of(table, token), Content::from_wide(wide))
            }
        };
        for slice in self.uncovered(owner, slice, def) {
            let part = inside(partition, &slice, def);
            for (slice, rows) in cut(slice, part, def) {
                self.insert_segment(owner, slice, rows, def)?;
            }
        }
        Ok(())
    }

    /// The parts of `slice` that no segment holds.
    fn uncovered(&self, owner: u32, slice: &Slice, def: &TableDef) -> Vec<Slice> {
        let mut uncovered = Vec::new();
        let mut rest = slice.clone();
        while let Some((_, _, segment)) = self.nearest(owner, &rest, false, def) {
            let held = &segment.slice;
            if is_some(rest.start.as_start(), held.start.as_start(), def) {
                uncovered.push(Slice { start: rest.start.clone(), end: held.start.turned() });
            }
            rest.advance(held, false);
            if !is_some(rest.start.as_start(), rest.end.as_end(), def) {
                return uncovered;
            }
        }
        uncovered.push(rest);
        uncovered
    }

    /// Adds a segment that overlaps no other; joins it to the one before when both are small.
    fn insert_segment(&mut self, owner: u32, slice: Slice, rows: Arc<[u8]>, def: &TableDef) -> Result<(), Malformed> {
        let Some(wide) = self.slots.at(owner).content.wide() else { return Ok(()) };
        let before = |slot: &u32| {
            let segment = self.slots.at(*slot).content.segment();
            segment.is_some_and(|segment| is_some(segment.slice.start.as_start(), slice.start.as_start(), def))
        };
        let at = wide.segments.partition_point(before);
        if let Some(&slot) = at.checked_sub(1).and_then(|at| wide.segments.get(at))
            && let Some(previous) = self.slots.at(slot).content.segment()
            && compare_positions(def, previous.slice.end.as_end(), slice.start.as_start()).is_eq()
            && previous.rows.len() + rows.len() <= SEGMENT_MAX_BYTES
        {
            let mut joined = decode(&previous.rows)?;
            joined.merge(decode(&rows)?, def);
            let slice = Slice { start: previous.slice.start.clone(), end: slice.end };
            let segment = Segment { owner, slice: compact(slice), rows: encode(&joined) };
            self.replace(slot, Content::from_segment(segment));
            self.slots.touch(slot);
            return Ok(());
        }
        let segment = Segment { owner, slice: compact(slice), rows };
        let slot = self.add(0, 0, Content::from_segment(segment));
        self.change_segments(owner, |segments| segments.insert(at, slot));
        Ok(())
    }

    fn change_segments(&mut self, owner: u32, change: impl FnOnce(&mut Vec<u32>)) {
        if let Some(wide) = self.slots.at_mut(owner).content.wide_mut() {
            let before = allocated(4 * wide.segments.capacity());
            change(&mut wide.segments);
            self.content_bytes = self.content_bytes + allocated(4 * wide.segments.capacity()) - before;
        }
    }

    /// Takes an entry out, with all that belongs to it.
    fn remove(&mut self, slot: u32) {
        let content = &self.slots.at(slot).content;
        if let Some(segment) = content.segment() {
            let owner = segment.owner;
            self.drop_linked(slot);
            self.change_segments(owner, |segments| segments.retain(|other| *other != slot));
            if self.slots.at(owner).content.wide().is_some_and(|wide| wide.segments.is_empty()) {
                self.remove(owner);
            }
        } else if let Some(wide) = content.wide() {
            let segments = wide.segments.clone();
            segments.into_iter().for_each(|segment| self.drop_linked(segment));
            self.unmap(slot);
            let content = self.slots.take(slot);
            self.content_bytes -= content.bytes();
        } else if let Content::Whole(bytes) = content {
            if !self.order.is_empty() {
                let (table, key) = (self.slots.at(slot).table, key_of(bytes));
                self.order.forget(table, Token::of_key(key), key);
            }
            self.unmap(slot);
            self.drop_linked(slot);
        }
    }

    fn drop_linked(&mut self, slot: u32) {
        self.slots.unlink(slot);
        let content = self.slots.take(slot);
        self.content_bytes -= content.bytes();
    }

    fn unmap(&mut self, slot: u32) {
        let hash = spread(self.slots.at(slot).hash);
        if let Ok(entry) = self.map.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
    }

    fn make_room(&mut self) {
        while self.bytes() > self.limit_bytes {
            let Some(oldest) = self.slots.oldest().filter(|oldest| *oldest != NONE) else { return };
            self.remove(oldest);
            self.stats.evictions += 1;
        }
    }
}

/// Rows and ranges of `partition` inside `slice`, without the rest of it.
fn inside(partition: &Partition, slice: &Slice, def: &TableDef) -> Partition {
    let mut part = Partition {
        rows: partition.rows.clone(),
        range_tombstones: partition.range_tombstones.clone(),
        ..Partition::default()
    };
    part.restrict(std::slice::from_ref(slice), false, usize::MAX, 0, def);
    part
}

/// With bounds that hold no larger allocation than their own.
fn compact(slice: Slice) -> Slice {
    let own = |bound: crate::Bound| crate::Bound {
        prefix: if bound.prefix.is_empty() {
            crate::Clustering::empty()
        } else {
            crate::Clustering(crate::Bytes::copy_from(bound.prefix.as_bytes()))
        },
        ..bound
    };
    Slice { start: own(slice.start), end: own(slice.end) }
}
