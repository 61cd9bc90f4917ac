//! A flushed memtable goes into the cache.
//!
//! What is cached of a partition takes in what the memtable has of it. A partition that is not cached is added, when
//! no other SSTable can have it: what was just written is there to be read, without a miss on the first read of each.
//! All of this is done partition by partition with other tasks in between; the memtable stays readable until the end.

use types::{TableDef, Token};

use super::wide::{Segment, cut, decode, encode};
use super::{Behind, Content, Inner, PARTITION_MAX_BYTES, RowCache, compact, inside};
use crate::memtable::Stored;
use crate::{Bytes, Malformed, Partition, Slice};

/// Larger partitions of a memtable are not added: their rows come one by one when they are asked for.
const ADDED_MAX_BYTES: usize = 1 << 20;

impl RowCache {
    /// Says whether there was anything to do. `may_add` says whether the partition may be added if it is not here: no SSTable but the flushed one has it.
    pub fn update(
        &self,
        table: u32,
        token: Token,
        flushed: &Stored,
        def: &TableDef,
        may_add: impl FnOnce() -> bool,
    ) -> Result<bool, Malformed> {
        let inner = &mut *self.inner.borrow_mut();
        if inner.limit_bytes == 0 {
            return Ok(false);
        }
        if !inner.order.is_empty() {
            inner.order.cut(table, &Behind::key(token, Bytes::copy_from(flushed.key())));
        }
        match inner.slot(table, token, flushed.key()) {
            None if may_add() => inner.add_flushed(table, token, flushed, def)?,
            None => return Ok(false),
            Some(slot) => {
                // An entry that cannot take it in must go: it would be stale.
                if let Err(error) = inner.merge_flushed(slot, table, token, flushed, def) {
                    if let Some(slot) = inner.slot(table, token, flushed.key()) {
                        inner.remove(slot);
                    }
                    return Err(error);
                }
            }
        }
        inner.make_room();
        Ok(true)
    }

    /// Bytes that a flush may take for partitions that are not here yet: half of all, so that a burst of writes does
    /// not push out everything that is read.
    pub fn room_for_new(&self) -> u64 {
        self.inner.borrow().limit_bytes / 2
    }
}

impl Inner {
    fn add_flushed(&mut self, table: u32, token: Token, flushed: &Stored, def: &TableDef) -> Result<(), Malformed> {
        if flushed.len_bytes() > ADDED_MAX_BYTES {
            return Ok(());
        }
        let mut partition = flushed.decode()?;
        let plain = partition.deletion.is_none()
            && partition.range_tombstones.is_empty()
            && partition.rows.iter().chain(&partition.static_row).all(|row| row.deletion.is_none());
        if let (true, Stored::Packed(bytes)) = (plain, flushed) {
            self.insert_whole(table, token, bytes.clone());
            return Ok(());
        }
        partition.purge_shadowed(def);
        self.insert_any(table, token, &partition, def)
    }

    /// Whole when it is small, else all of it in segments.
    pub(super) fn insert_any(
        &mut self,
        table: u32,
        token: Token,
        partition: &Partition,
        def: &TableDef,
    ) -> Result<(), Malformed> {
        let bytes = encode(partition);
        if bytes.len() as u64 <= PARTITION_MAX_BYTES {
            self.insert_whole(table, token, bytes);
            Ok(())
        } else {
            self.insert_piece(table, token, &Slice::all(), partition, def)
        }
    }

    fn merge_flushed(
        &mut self,
        slot: u32,
        table: u32,
        token: Token,
        flushed: &Stored,
        def: &TableDef,
    ) -> Result<(), Malformed> {
        if let Content::Whole(bytes) = &self.slots.at(slot).content {
            let mut merged = decode(bytes)?;
            merged.merge(flushed.decode()?, def);
            merged.purge_shadowed(def);
            let bytes = encode(&merged);
            if bytes.len() as u64 <= PARTITION_MAX_BYTES {
                self.replace(slot, Content::Whole(bytes));
            } else {
                self.remove(slot);
                self.insert_piece(table, token, &Slice::all(), &merged, def)?;
            }
            return Ok(());
        }
        let small = match flushed {
            Stored::Packed(_) => Some(flushed.decode()?),
            Stored::Wide(_) => None,
        };
        let Some(wide) = self.slots.at_mut(slot).content.wide_mut() else { return Ok(()) };
        let mut head = decode(&wide.head)?;
        let news = match &small {
            Some(partition) => Partition { rows: Vec::new(), ..partition.clone() },
            None => flushed.read(&[], false, 0, def)?.partition,
        };
        if news.deletion.is_some() || news.static_row.is_some() {
            let before = super::allocated(super::COUNTS_BYTES + wide.head.len());
            head.merge(Partition { range_tombstones: Vec::new(), ..news.clone() }, def);
            head.purge_shadowed(def);
            wide.head = encode(&head);
            let after = super::allocated(super::COUNTS_BYTES + wide.head.len());
            self.content_bytes = self.content_bytes + after - before;
        }
        for segment in self.touched_segments(slot, small.as_ref(), def) {
            let Some(old) = self.slots.at(segment).content.segment() else { continue };
            let slice = old.slice.clone();
            let part = match &small {
                Some(partition) => inside(partition, &slice, def),
                None => {
                    inside(&flushed.read(std::slice::from_ref(&slice), false, usize::MAX, def)?.partition, &slice, def)
                }
            };
            if part.rows.is_empty() && part.range_tombstones.is_empty() {
                continue;
            }
            let mut merged = decode(&old.rows)?;
            merged.merge(part, def);
            merged.purge_shadowed(def);
            self.replace_segment(slot, segment, slice, merged, def);
        }
        Ok(())
    }

    /// Those that may hold something of the partition; all, when it is large.
    fn touched_segments(&self, owner: u32, small: Option<&Partition>, def: &TableDef) -> Vec<u32> {
        let Some(wide) = self.slots.at(owner).content.wide() else { return Vec::new() };
        let Some(partition) = small else { return wide.segments.clone() };
        let mut touched = Vec::new();
        for row in &partition.rows {
            let point = Slice::prefix(row.clustering.clone());
            touched.extend(self.nearest(owner, &point, false, def).map(|(_, slot, _)| slot));
        }
        for range in &partition.range_tombstones {
            let mut rest = Slice { start: range.start.clone(), end: range.end.clone() };
            while let Some((_, slot, segment)) = self.nearest(owner, &rest, false, def) {
                touched.push(slot);
                rest.advance(&segment.slice, false);
                if !super::is_some(rest.start.as_start(), rest.end.as_end(), def) {
                    break;
                }
            }
        }
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    /// A segment that has grown may become several.
    fn replace_segment(&mut self, owner: u32, slot: u32, slice: Slice, rows: Partition, def: &TableDef) {
        let mut parts = cut(slice, rows, def).into_iter();
        let new = |(slice, rows)| Content::from_segment(Segment { owner, slice: compact(slice), rows });
        if let Some(first) = parts.next() {
            self.replace(slot, new(first));
        }
        let place = |inner: &Self, slot: u32| {
            inner.slots.at(owner).content.wide()?.segments.iter().position(|other| *other == slot)
        };
        let mut last = slot;
        for part in parts {
            let added = self.add(0, 0, new(part));
            if let Some(at) = place(self, last) {
                self.change_segments(owner, |segments| segments.insert(at + 1, added));
            }
            last = added;
        }
    }
}
