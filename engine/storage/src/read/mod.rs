//! One partition out of all the places that hold parts of it.
//!
//! Each source gives its rows in order, some at a time. What has come from all sources is merged, and is complete up
//! to the nearest end of a source that has more; when enough live rows, or enough bytes, lie there, the rest is never
//! read. Sources that have to read files do so at the same time.

mod cached;
mod complete;
mod sources;
mod together;

use std::cmp::Ordering;

use reactor::Work;
use types::{TableDef, Token};

pub(crate) use self::cached::CacheCursor;
pub(crate) use self::sources::{Found, Snapshot};
pub(crate) use self::together::together;
use crate::data::{behind, compare_positions};
use crate::memtable::{Memtable, Part};
use crate::row_cache;
use crate::sstable::PartitionCursor;
use crate::table::{SharedMemtable, Table};
use crate::{Bound, Bytes, Clustering, Error, Partition, Slice, lookup};

/// Rows asked of each source at first; twice as many each time that was not enough.
const ROWS_FIRST: usize = 128;

/// A place that may hold a part of the partition.
pub(crate) enum Source {
    Memtable(SharedMemtable),
    Sstable(Box<PartitionCursor>),
    /// All that the SSTables have of it.
    Files(Partition),
    /// The same, as far as the read comes.
    Cache(Box<CacheCursor>),
}

#[derive(Clone, Copy)]
pub(crate) struct PartitionRead<'a> {
    pub def: &'a TableDef,
    pub token: Token,
    pub key: &'a Bytes,
    pub slices: &'a [Slice],
    pub reverse: bool,
    pub limit_rows: usize,
    /// Of rows in memory: about when to stop.
    pub limit_bytes: usize,
    pub now_s: u32,
    /// Neither look into the row cache nor put anything there.
    pub bypass_cache: bool,
}

/// The part of a partition that was asked, and whether it was cut short with more behind it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub partition: Option<Partition>,
    pub more: bool,
    /// Rows of the partition that a reader sees.
    pub live_rows: usize,
    /// Deletions and expired things in it: what CQL servers warn of, and refuse to answer, beyond some thousands.
    pub tombstones: usize,
}

struct Progress {
    source: Source,
    /// Where it stopped; `None` before the first answer.
    stopped_at: Option<Clustering>,
    done: bool,
}

impl PartitionRead<'_> {
    /// The answer, when memtables and row cache have it in one piece: the usual read, without a wait or a list of
    /// sources. `None` when files or wide partitions must be looked into.
    pub fn in_memory(&self, table: &Table) -> Result<Option<Page>, Error> {
        let no_files = table.sstables.borrow().is_empty();
        let mut merged: Option<Partition> = None;
        {
            let flushing = table.flushing.borrow();
            for memtable in std::iter::once(&*table.active.borrow()).chain(flushing.iter().rev()) {
                let memtable = memtable.borrow();
                lookup::charge(memtable.bytes() as u64);
                let Some(stored) = memtable.get(self.token, self.key) else { continue };
                if !stored.is_packed() {
                    return Ok(None);
                }
                reactor::charge(Work::MemtableRead, stored.len_bytes() as u64);
                self.merge_into(&mut merged, stored.decode()?);
            }
        }
        if !no_files && !self.is_complete_in_memory(table, merged.as_ref()) {
            if self.bypass_cache {
                return Ok(None);
            }
            let row_cache::Found::Whole(cached) = table.rows.find(table.rows_name.get(), self.token, self.key) else {
                return Ok(None);
            };
            reactor::charge(Work::RowCacheRead, cached.len() as u64);
            self.merge_into(&mut merged, Partition::decode_shared(&Bytes::from(cached))?);
        }
        let Some(mut merged) = merged else { return Ok(Some(Page::default())) };
        merged.purge_shadowed(self.def);
        Ok(Some(self.finish(merged, None)))
    }

    fn merge_into(&self, merged: &mut Option<Partition>, partition: Partition) {
        match merged {
            Some(merged) => merged.merge(partition, self.def),
            None => *merged = Some(partition),
        }
    }

    /// The merged, restricted partition; none when no source knows anything of it.
    pub async fn page(&self, sources: Vec<Source>) -> Result<Page, Error> {
        let new = |source| Progress { source, stopped_at: None, done: false };
        let mut sources: Vec<Progress> = sources.into_iter().map(new).collect();
        let mut merged: Option<Partition> = None;
        let mut rows_max = ROWS_FIRST.max(self.limit_rows.saturating_add(1));
        let mut nearest: Option<Clustering> = None;
        loop {
            // Those that the others need not wait for: the ones that stopped first.
            let behind = |progress: &Progress| match (&progress.stopped_at, &nearest) {
                (Some(at), Some(nearest)) => self.order(at, nearest).is_gt(),
                _ => false,
            };
            let asked: Vec<&mut Progress> = sources.iter_mut().filter(|p| !p.done && !behind(p)).collect();
            for part in together(asked.into_iter().map(|progress| self.ask(progress, rows_max))).await {
                if let Some(part) = part? {
                    self.merge_into(&mut merged, part);
                }
            }
            let Some(merged) = &mut merged else { return Ok(Page::default()) };
            merged.purge_shadowed(self.def);
            let unfinished = sources.iter().filter_map(|p| if p.done { None } else { p.stopped_at.as_ref() });
            nearest = unfinished.reduce(|a, b| if self.order(a, b).is_lt() { a } else { b }).cloned();
            if nearest.as_ref().is_none_or(|end| self.is_enough(merged, end)) {
                break;
            }
            rows_max = rows_max.saturating_mul(2);
        }
        let Some(merged) = merged else { return Ok(Page::default()) };
        Ok(self.finish(merged, nearest))
    }

    /// Restricts the answer to what was asked. It is complete up to `end`; `None` as all of it is.
    fn finish(&self, mut merged: Partition, end: Option<Clustering>) -> Page {
        merged.restrict(self.slices, self.reverse, usize::MAX, self.now_s, self.def);
        let mut more = end.is_some();
        if more || self.limit_rows < merged.rows.len() || self.limit_bytes != usize::MAX {
            more |= self.cut(&mut merged, end.as_ref());
        }
        merged.rows.iter().for_each(|row| reactor::charge(Work::RowRead, row.cells.len() as u64));
        let (live_rows, tombstones) = merged.count(self.now_s);
        Page { partition: Some(merged).filter(|merged| !merged.is_empty()), more, live_rows, tombstones }
    }

    /// Drops the rows behind `end` and those that are more than asked. Says whether there were any.
    fn cut(&self, merged: &mut Partition, end: Option<&Clustering>) -> bool {
        let beyond = |row: &crate::Row| end.is_some_and(|end| self.order(&row.clustering, end).is_gt());
        let (mut live, mut bytes, mut kept) = (0, 0, 0);
        let count = merged.rows.len();
        for at in 0..count {
            let row = &merged.rows[if self.reverse { count - 1 - at } else { at }];
            if beyond(row) {
                break;
            }
            kept += 1;
            live += usize::from(row.is_visible(self.now_s, self.def));
            bytes += row.memory_bytes();
            if live >= self.limit_rows || bytes >= self.limit_bytes {
                break;
            }
        }
        let whole = Slice::all();
        let edge = |row: &crate::Row| Bound::inclusive(row.clustering.clone());
        let known = if self.reverse {
            merged.rows.drain(..count - kept);
            merged.rows.first().map(|row| Slice { start: edge(row), ..whole })
        } else {
            merged.rows.truncate(kept);
            merged.rows.last().map(|row| Slice { end: edge(row), ..whole })
        };
        let dropped = kept < count;
        if let Some(known) = known.filter(|_| dropped || end.is_some()) {
            let clipped = merged.range_tombstones.iter().filter_map(|tombstone| tombstone.clip(&known, self.def));
            merged.range_tombstones = clipped.collect();
        }
        dropped
    }

    /// In the direction of the read.
    fn order(&self, a: &Clustering, b: &Clustering) -> Ordering {
        let order = a.compare(b, self.def);
        if self.reverse { order.reverse() } else { order }
    }

    /// Whether what is complete, the rows up to `end`, suffices.
    fn is_enough(&self, merged: &Partition, end: &Clustering) -> bool {
        let (mut live, mut bytes) = (0, 0);
        for row in &merged.rows {
            let inside = || self.slices.is_empty() || self.slices.iter().any(|s| s.contains(&row.clustering, self.def));
            if self.order(&row.clustering, end).is_le() && inside() {
                live += usize::from(row.is_visible(self.now_s, self.def));
                bytes += row.memory_bytes();
            }
        }
        live >= self.limit_rows || bytes >= self.limit_bytes
    }

    async fn ask(&self, progress: &mut Progress, rows_max: usize) -> Result<Option<Partition>, Error> {
        let part = match &mut progress.source {
            Source::Files(partition) => Some(Part { partition: std::mem::take(partition), more_after: None }),
            Source::Cache(cursor) => Some(cursor.next_part(self, rows_max).await?),
            Source::Memtable(memtable) => {
                self.ask_memtable(&memtable.borrow(), progress.stopped_at.as_ref(), rows_max)?
            }
            Source::Sstable(cursor) => Some(cursor.next_part(self.slices, self.reverse, rows_max).await?),
        };
        let Some(part) = part else {
            progress.done = true;
            return Ok(None);
        };
        progress.done = part.more_after.is_none();
        progress.stopped_at = part.more_after;
        Ok(Some(part.partition))
    }

    fn ask_memtable(
        &self,
        memtable: &Memtable,
        stopped_at: Option<&Clustering>,
        rows_max: usize,
    ) -> Result<Option<Part>, Error> {
        lookup::charge(memtable.bytes() as u64);
        let Some(stored) = memtable.get(self.token, self.key) else { return Ok(None) };
        reactor::charge(Work::MemtableRead, stored.len_bytes() as u64);
        let part = match stopped_at {
            None => stored.read(self.slices, self.reverse, rows_max, self.def)?,
            Some(last) => stored.read(&self.rest(last), self.reverse, rows_max, self.def)?,
        };
        Ok(Some(part))
    }

    /// The slices as far as they lie beyond `last`.
    fn rest(&self, last: &Clustering) -> Vec<Slice> {
        if self.reverse { before(self.slices, last, self.def) } else { behind(self.slices, last, self.def) }
    }
}

/// `slices` (none: all) as far as they lie before the row.
fn before(slices: &[Slice], row: &Clustering, table: &TableDef) -> Vec<Slice> {
    let all = [Slice::all()];
    let slices = if slices.is_empty() { &all } else { slices };
    let rest = Bound::exclusive(row.clone());
    let cut = slices.iter().filter_map(|slice| {
        let end = if compare_positions(table, slice.end.as_end(), rest.as_end()).is_gt() { &rest } else { &slice.end };
        compare_positions(table, slice.start.as_start(), end.as_end())
            .is_lt()
            .then(|| Slice { start: slice.start.clone(), end: end.clone() })
    });
    let cut: Vec<_> = cut.collect();
    if cut.is_empty() { vec![Slice { start: rest.clone(), end: rest }] } else { cut }
}
