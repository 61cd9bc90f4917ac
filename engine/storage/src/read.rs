//! One partition out of all the places that hold parts of it.
//!
//! Each source gives its rows in order, some at a time. What has come from all sources is merged, and is complete up
//! to the nearest end of a source that has more; when enough live rows lie there, the rest is never read.

use std::cmp::Ordering;
use std::rc::Rc;

use reactor::Work;
use types::{TableDef, Token};

use crate::data::{Position, behind, compare_positions};
use crate::memtable::{Memtable, Part};
use crate::row_cache::{PARTITION_MAX_BYTES, RowCache};
use crate::sstable::{KeyHash, PartitionCursor};
use crate::table::{SharedMemtable, Table, add};
use crate::{Bound, Bytes, Clustering, Error, Partition, Slice};

/// Rows asked of each source at first; twice as many each time that was not enough.
const ROWS_FIRST: usize = 128;

/// A place that may hold a part of the partition.
pub(crate) enum Source {
    Memtable(SharedMemtable),
    Sstable(Box<PartitionCursor>),
    /// All that the SSTables have of it.
    Cached(Rc<Partition>),
}

pub(crate) struct PartitionRead<'a> {
    pub def: &'a TableDef,
    pub token: Token,
    pub key: &'a Bytes,
    pub slices: &'a [Slice],
    pub reverse: bool,
    pub limit_rows: usize,
    pub now_s: u32,
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
    pub fn in_memory(&self, table: &Table, rows: &RowCache) -> Result<Option<Option<Partition>>, Error> {
        let mut cached = None;
        if !table.sstables.borrow().is_empty() {
            cached = rows.get(table.rows_name.get(), self.key);
            if cached.is_none() {
                return Ok(None);
            }
        }
        let mut merged: Option<Partition> = None;
        let flushing = table.flushing.borrow();
        for memtable in std::iter::once(&*table.active.borrow()).chain(flushing.iter().rev()) {
            let memtable = memtable.borrow();
            let Some(stored) = memtable.get(self.token, self.key) else { continue };
            if !stored.is_packed() {
                return Ok(None);
            }
            reactor::charge(Work::MemtableRead, stored.len_bytes() as u64);
            let partition = stored.decode()?;
            match &mut merged {
                Some(merged) => merged.merge(partition, self.def),
                None => merged = Some(partition),
            }
        }
        if let Some(cached) = cached {
            reactor::charge(Work::MemtableRead, 0);
            match &mut merged {
                Some(merged) => merged.merge((*cached).clone(), self.def),
                None => merged = Some((*cached).clone()),
            }
        }
        let Some(mut merged) = merged else { return Ok(Some(None)) };
        merged.purge_shadowed(self.def);
        merged.restrict(self.slices, self.reverse, self.limit_rows, self.now_s, self.def);
        Ok(Some(Some(merged).filter(|merged| !merged.is_empty())))
    }

    /// The memtables, and those SSTables that have the partition.
    ///
    /// With a row cache, which [`PartitionRead::in_memory`] has asked before, a small partition is read from the files
    /// whole, and kept there. Scans go without: they would only push out what is read again.
    pub async fn sources(&self, table: &Table, rows: Option<&RowCache>) -> Result<Vec<Source>, Error> {
        // A snapshot: what is flushed or compacted meanwhile stays readable in its old place.
        let mut sources: Vec<Source> = table.memtables().into_iter().map(Source::Memtable).collect();
        let sstables = table.sstables.borrow().clone();
        if sstables.is_empty() {
            return Ok(sources);
        }
        let (name, version) = (table.rows_name.get(), table.version.get());
        let hash = KeyHash::of(self.key);
        let mut asked = 0;
        let mut cursors = Vec::new();
        let mut bytes = 0;
        for sstable in sstables.into_iter().rev() {
            reactor::charge(Work::BloomProbe, 1);
            if !sstable.may_contain(self.token, hash) {
                add(&table.counts.bloom_negatives, 1);
                continue;
            }
            asked += 1;
            match sstable.find(self.token, self.key).await? {
                Some(place) => {
                    bytes += place.bytes_at_most(&sstable);
                    let cursor = PartitionCursor::new(sstable, self.key.clone(), place);
                    cursors.push(Source::Sstable(Box::new(cursor)));
                }
                None => add(&table.counts.bloom_false_positives, 1),
            }
        }
        table.counts.count_sstables(asked);
        let Some(rows) = rows.filter(|_| !cursors.is_empty() && bytes <= PARTITION_MAX_BYTES) else {
            sources.append(&mut cursors);
            return Ok(sources);
        };
        let whole = PartitionRead { slices: &[], reverse: false, limit_rows: usize::MAX, ..*self };
        if let Some(partition) = Box::pin(whole.run(cursors)).await? {
            let partition = Rc::new(partition);
            if table.version.get() == version {
                rows.insert(name, &partition);
            }
            sources.push(Source::Cached(partition));
        }
        Ok(sources)
    }

    /// The merged, restricted partition; `None` when no source knows anything of it.
    pub async fn run(&self, sources: Vec<Source>) -> Result<Option<Partition>, Error> {
        let new = |source| Progress { source, stopped_at: None, done: false };
        let mut sources: Vec<Progress> = sources.into_iter().map(new).collect();
        let mut merged: Option<Partition> = None;
        let mut rows_max = ROWS_FIRST.max(self.limit_rows.saturating_add(1));
        loop {
            for progress in sources.iter_mut().filter(|progress| !progress.done) {
                let Some(part) = self.ask(progress, rows_max).await? else {
                    progress.done = true;
                    continue;
                };
                progress.done = part.more_after.is_none();
                progress.stopped_at = part.more_after;
                match &mut merged {
                    Some(merged) => merged.merge(part.partition, self.def),
                    None => merged = Some(part.partition),
                }
            }
            let Some(merged) = &mut merged else { return Ok(None) };
            merged.purge_shadowed(self.def);
            let unfinished = sources.iter().filter_map(|p| if p.done { None } else { p.stopped_at.as_ref() });
            let nearest = unfinished.reduce(|a, b| if self.order(a, b).is_lt() { a } else { b });
            if nearest.is_none_or(|end| self.live_rows_until(merged, end) >= self.limit_rows) {
                break;
            }
            rows_max = rows_max.saturating_mul(2);
        }
        let Some(mut merged) = merged else { return Ok(None) };
        merged.restrict(self.slices, self.reverse, self.limit_rows, self.now_s, self.def);
        Ok(Some(merged).filter(|merged| !merged.is_empty()))
    }

    /// In the direction of the read.
    fn order(&self, a: &Clustering, b: &Clustering) -> Ordering {
        let order = a.compare(b, self.def);
        if self.reverse { order.reverse() } else { order }
    }

    fn live_rows_until(&self, merged: &Partition, end: &Clustering) -> usize {
        let counted = merged.live_rows(self.now_s).filter(|row| {
            let position = Position::row(row.clustering.as_bytes());
            let inside = |slice: &Slice| {
                compare_positions(self.def, slice.start.as_start(), position).is_lt()
                    && compare_positions(self.def, position, slice.end.as_end()).is_lt()
            };
            self.order(&row.clustering, end).is_le() && (self.slices.is_empty() || self.slices.iter().any(inside))
        });
        counted.count()
    }

    async fn ask(&self, progress: &mut Progress, rows_max: usize) -> Result<Option<Part>, Error> {
        match &mut progress.source {
            Source::Cached(partition) => {
                reactor::charge(Work::MemtableRead, 0);
                Ok(Some(Part { partition: (**partition).clone(), more_after: None }))
            }
            Source::Memtable(memtable) => self.ask_memtable(&memtable.borrow(), progress.stopped_at.as_ref(), rows_max),
            Source::Sstable(cursor) => cursor.next_part(self.slices, self.reverse, rows_max).await.map(Some),
        }
    }

    fn ask_memtable(
        &self,
        memtable: &Memtable,
        stopped_at: Option<&Clustering>,
        rows_max: usize,
    ) -> Result<Option<Part>, Error> {
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
