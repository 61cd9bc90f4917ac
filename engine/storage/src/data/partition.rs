//! A partition, or a part of one: both what a mutation brings and what a read answers.

use std::cmp::Ordering;

use types::TableDef;

use super::{
    Bound, Bytes, Clustering, DeletionTime, Liveness, Position, Purge, RangeTombstone, Row, Slice, compare_positions,
    normalise,
};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition {
    /// The serialised partition key.
    pub key: Bytes,
    pub deletion: Option<DeletionTime>,
    pub static_row: Option<Row>,
    /// In the table's clustering order, each clustering once.
    pub rows: Vec<Row>,
    /// In an update in any order; in a read's answer in normal form (sorted, apart from one another).
    pub range_tombstones: Vec<RangeTombstone>,
}

impl Partition {
    pub fn new(key: impl Into<Bytes>) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// Whether it says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.deletion.is_none() && self.static_row.is_none() && self.rows.is_empty() && self.range_tombstones.is_empty()
    }

    /// Puts rows into clustering order and merges those with one clustering; for who builds an update row by row.
    pub fn sort(&mut self, table: &TableDef) {
        self.rows.sort_by(|a, b| a.clustering.compare(&b.clustering, table));
        self.rows.dedup_by(|later, first| {
            let same = later.clustering == first.clustering;
            if same {
                first.merge(std::mem::take(later), &table.regulars);
            }
            same
        });
    }

    /// Takes in another version of the same partition, cell by cell. Commutative and idempotent. What deletions
    /// shadow stays until [`Partition::purge_shadowed`].
    pub fn merge(&mut self, other: Partition, table: &TableDef) {
        self.deletion = DeletionTime::latest(self.deletion, other.deletion);
        match (&mut self.static_row, other.static_row) {
            (Some(ours), Some(theirs)) => ours.merge(theirs, &table.statics),
            (ours @ None, theirs) => *ours = theirs,
            (Some(_), None) => {}
        }
        merge_rows(&mut self.rows, other.rows, table);
        if !other.range_tombstones.is_empty() {
            self.range_tombstones.extend(other.range_tombstones);
            normalise(&mut self.range_tombstones, table);
        }
    }

    /// Drops what the partition's, the ranges' and the rows' own deletions shadow. Tombstones that still matter to
    /// other replicas stay.
    pub fn purge_shadowed(&mut self, table: &TableDef) {
        normalise(&mut self.range_tombstones, table);
        if let Some(deletion) = self.deletion {
            self.range_tombstones.retain(|tombstone| tombstone.deletion.supersedes(&deletion));
        }
        let deletion = self.deletion;
        if let Some(row) = &mut self.static_row {
            row.purge_shadowed();
            if let Some(deletion) = deletion {
                row.apply_deletion(deletion);
            }
        }
        self.static_row.take_if(|row| row.is_empty());
        let plain = |row: &Row| row.deletion.is_none() && row.complex.is_empty();
        if deletion.is_none() && self.range_tombstones.is_empty() && self.rows.iter().all(plain) {
            self.rows.retain(|row| !row.is_empty());
            return;
        }
        let tombstones = &self.range_tombstones;
        let mut next = 0;
        self.rows.retain_mut(|row| {
            let position = Position::row(row.clustering.as_bytes());
            while next < tombstones.len() && compare_positions(table, tombstones[next].end.as_end(), position).is_lt() {
                next += 1;
            }
            let covered = |range: &&RangeTombstone| compare_positions(table, range.start.as_start(), position).is_lt();
            let range = tombstones.get(next).filter(covered).map(|range| range.deletion);
            row.purge_shadowed();
            if let Some(deletion) = DeletionTime::latest(deletion, range) {
                row.apply_deletion(deletion);
            }
            !row.is_empty()
        });
    }

    /// The rows that a reader sees, after [`Partition::purge_shadowed`].
    pub fn live_rows(&self, now_s: u32) -> impl DoubleEndedIterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.is_live(now_s))
    }

    /// As [`Partition::live_rows`], of a table where maybe only markers count.
    pub fn visible_rows(&self, now_s: u32, table: &TableDef) -> impl DoubleEndedIterator<Item = &Row> {
        let is_strict = table.is_strict();
        let has_marker = move |row: &&Row| !is_strict || row.marker.is_some_and(|marker| marker.is_live(now_s));
        self.live_rows(now_s).filter(has_marker)
    }

    /// Rows that a reader sees, and tombstones that stand in his way: deletions of rows and ranges, cells and markers
    /// that are deleted or expired. After [`Partition::purge_shadowed`].
    pub fn count(&self, now_s: u32) -> (usize, usize) {
        let mut tombstones = usize::from(self.deletion.is_some()) + self.range_tombstones.len();
        let mut live_rows = 0;
        for row in &self.rows {
            let dead = row.tombstones(now_s);
            tombstones += dead;
            live_rows += usize::from(dead == 0 || row.is_live(now_s));
        }
        (live_rows, tombstones + self.static_row.as_ref().map_or(0, |row| row.tombstones(now_s)))
    }

    /// Whether a reader sees the static row, after [`Partition::purge_shadowed`].
    pub fn has_live_static(&self, now_s: u32) -> bool {
        self.static_row.as_ref().is_some_and(|row| row.is_live(now_s))
    }

    /// Whether a reader sees anything of it.
    pub fn is_live(&self, now_s: u32) -> bool {
        self.has_live_static(now_s) || self.live_rows(now_s).next().is_some()
    }

    /// Leaves only the rows and ranges inside `slices` (none: all), and of those no more than what holds the first
    /// `limit_rows` live rows, or the last when `reverse`. Shadowed things must be gone.
    pub fn restrict(&mut self, slices: &[Slice], reverse: bool, limit_rows: usize, now_s: u32, table: &TableDef) {
        if !slices.is_empty() && !slices.iter().any(Slice::is_all) {
            let mut at = 0;
            self.rows.retain(|row| {
                let position = Position::row(row.clustering.as_bytes());
                while at < slices.len() && compare_positions(table, slices[at].end.as_end(), position).is_lt() {
                    at += 1;
                }
                slices.get(at).is_some_and(|s| compare_positions(table, s.start.as_start(), position).is_lt())
            });
            let clip = |tombstone: &RangeTombstone| slices.iter().filter_map(|s| tombstone.clip(s, table)).collect();
            self.range_tombstones = self.range_tombstones.iter().flat_map::<Vec<_>, _>(clip).collect();
        }
        if self.rows.len() <= limit_rows {
            return;
        }
        // A limit of zero still tells the static row.
        let mut live = 0;
        let mut enough = |row: &Row| {
            live += usize::from(row.is_visible(now_s, table));
            live >= limit_rows
        };
        let whole = Slice::all();
        let kept = if reverse {
            let first = self.rows.iter().rposition(&mut enough).unwrap_or(0);
            self.rows.drain(..first);
            Slice { start: Bound::inclusive(self.rows[0].clustering.clone()), ..whole }
        } else {
            let last = self.rows.iter().position(&mut enough).unwrap_or(self.rows.len() - 1);
            self.rows.truncate(last + 1);
            Slice { end: Bound::inclusive(self.rows[last].clustering.clone()), ..whole }
        };
        let clipped = self.range_tombstones.iter().filter_map(|tombstone| tombstone.clip(&kept, table));
        self.range_tombstones = clipped.collect();
    }

    /// Takes off the rows and ranges behind `row`.
    pub(crate) fn split_behind(&mut self, row: &Clustering, table: &TableDef) -> Partition {
        let mut rest = Partition::new(self.key.clone());
        let cut = self.rows.partition_point(|other| other.clustering.compare(row, table).is_le());
        rest.rows = self.rows.split_off(cut);
        let upto = Slice { end: Bound::inclusive(row.clone()), ..Slice::all() };
        let behind = Slice { start: Bound::exclusive(row.clone()), ..Slice::all() };
        let ranges = std::mem::take(&mut self.range_tombstones);
        rest.range_tombstones = ranges.iter().filter_map(|range| range.clip(&behind, table)).collect();
        self.range_tombstones = ranges.iter().filter_map(|range| range.clip(&upto, table)).collect();
        rest
    }

    /// For compaction, after [`Partition::purge_shadowed`]: turns what has expired into tombstones and drops those
    /// tombstones that were made before `gc_before_s` and have a timestamp below `purgeable_below`, the least one of
    /// anything that they might still shadow elsewhere.
    pub(crate) fn purge_tombstones(&mut self, now_s: u32, gc_before_s: u32, purgeable_below: i64) {
        let purge = Purge { now_s, gc_before_s, below: purgeable_below };
        let purgeable = |d: &DeletionTime| purge.drops(d.timestamp, d.local_s);
        self.deletion.take_if(|deletion| purgeable(deletion));
        self.range_tombstones.retain(|tombstone| !purgeable(&tombstone.deletion));
        if let Some(row) = &mut self.static_row {
            row.purge_tombstones(&purge);
        }
        self.static_row.take_if(|row| row.is_empty());
        self.rows.retain_mut(|row| {
            row.purge_tombstones(&purge);
            !row.is_empty()
        });
    }

    /// Whether there is anything that [`Partition::purge_tombstones`] might change.
    pub(crate) fn has_tombstones(&self, now_s: u32) -> bool {
        self.deletion.is_some()
            || !self.range_tombstones.is_empty()
            || self.static_row.iter().chain(&self.rows).any(|row| row.has_tombstones(now_s))
    }

    /// Sets the timestamp of everything that has `from`: for statements whose time is only known when they run. The
    /// deletions with which they replace collections stay one microsecond before.
    pub fn set_timestamps(&mut self, from: i64, to: i64) {
        let set = |timestamp: &mut i64| {
            if *timestamp == from {
                *timestamp = to;
            }
        };
        let set_deletion = |deletion: &mut Option<DeletionTime>| {
            if let Some(deletion) = deletion {
                set(&mut deletion.timestamp);
            }
        };
        set_deletion(&mut self.deletion);
        for row in self.static_row.iter_mut().chain(&mut self.rows) {
            set_deletion(&mut row.deletion);
            if let Some(Liveness { timestamp, .. }) = &mut row.marker {
                set(timestamp);
            }
            row.cells.iter_mut().for_each(|(_, cell)| set(&mut cell.timestamp));
            for column in row.complex.iter_mut() {
                column.cells.iter_mut().for_each(|(_, cell)| set(&mut cell.timestamp));
                match &mut column.deletion {
                    Some(deletion) if from.checked_sub(1) == Some(deletion.timestamp) => {
                        deletion.timestamp = to.saturating_sub(1);
                    }
                    deletion => set_deletion(deletion),
                }
            }
        }
        self.range_tombstones.iter_mut().for_each(|tombstone| set(&mut tombstone.deletion.timestamp));
    }
}

/// `slices` (none: all) as far as they lie behind the row.
pub(crate) fn behind(slices: &[Slice], row: &Clustering, table: &TableDef) -> Vec<Slice> {
    let rest = Bound::exclusive(row.clone());
    let all = [Slice::all()];
    let slices = if slices.is_empty() { &all } else { slices };
    let cut = slices.iter().filter_map(|slice| {
        let start = if compare_positions(table, slice.start.as_start(), rest.as_start()).is_lt() {
            &rest
        } else {
            &slice.start
        };
        compare_positions(table, start.as_start(), slice.end.as_end())
            .is_lt()
            .then(|| Slice { start: start.clone(), end: slice.end.clone() })
    });
    let cut: Vec<_> = cut.collect();
    // No slice at all would mean every row: leave one that holds none.
    if cut.is_empty() { vec![Slice { start: rest.clone(), end: rest }] } else { cut }
}

/// Merges two sorted lists; rows with one clustering become one.
pub(crate) fn merge_rows(ours: &mut Vec<Row>, mut theirs: Vec<Row>, table: &TableDef) {
    let (Some(their_first), Some(their_last)) = (theirs.first(), theirs.last()) else { return };
    let (Some(first), Some(last)) = (ours.first(), ours.last()) else {
        *ours = theirs;
        return;
    };
    if last.clustering.compare(&their_first.clustering, table).is_lt() {
        ours.append(&mut theirs);
        return;
    }
    if their_last.clustering.compare(&first.clustering, table).is_lt() {
        theirs.append(ours);
        *ours = theirs;
        return;
    }
    let mut merged = Vec::with_capacity(ours.len() + theirs.len());
    let (mut left, mut right) = (std::mem::take(ours).into_iter().peekable(), theirs.into_iter().peekable());
    loop {
        let order = match (left.peek(), right.peek()) {
            (Some(a), Some(b)) => a.clustering.compare(&b.clustering, table),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        match order {
            Ordering::Less => merged.extend(left.next()),
            Ordering::Greater => merged.extend(right.next()),
            Ordering::Equal => {
                if let (Some(mut row), Some(other)) = (left.next(), right.next()) {
                    row.merge(other, &table.regulars);
                    merged.push(row);
                }
            }
        }
    }
    *ours = merged;
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use super::*;
    use crate::data::Cell;

    fn table() -> TableDef {
        TableDef::builder("k", "t")
            .partition_key("p", CqlType::Int)
            .clustering("c", CqlType::Int)
            .static_column("s", CqlType::Text)
            .regular("v", CqlType::Text)
            .build()
    }

    fn row(n: i32, timestamp: i64) -> Row {
        let clustering = Clustering::new([n.to_be_bytes()]);
        Row { cells: vec![(0, Cell::live(timestamp, b"v"))], ..Row::new(clustering) }
    }

    fn partition(rows: Vec<Row>) -> Partition {
        Partition { rows, ..Partition::new(b"k") }
    }

    #[test]
    fn merging_is_commutative_and_idempotent() {
        let mut a = partition(vec![row(1, 1), row(2, 2), row(5, 1)]);
        a.range_tombstones.push(RangeTombstone {
            start: Bound::unbounded(),
            end: Bound::inclusive(Clustering::new([2i32.to_be_bytes()])),
            deletion: DeletionTime { timestamp: 1, local_s: 1 },
        });
        a.static_row = Some(Row { cells: vec![(0, Cell::live(3, b"s"))], ..Row::default() });
        let mut b = partition(vec![row(0, 9), row(2, 1), row(5, 2)]);
        b.deletion = Some(DeletionTime { timestamp: 1, local_s: 7 });
        let merged = |x: &Partition, y: &Partition| {
            let mut x = x.clone();
            x.merge(y.clone(), &table());
            x
        };
        let both = merged(&a, &b);
        assert_eq!(both, merged(&b, &a));
        assert_eq!(both, merged(&both, &a));
        assert_eq!(both.rows.len(), 4);
        let mut seen = both;
        seen.purge_shadowed(&table());
        assert_eq!(seen.rows, [row(0, 9), row(2, 2), row(5, 2)]);
        assert!(seen.range_tombstones.is_empty(), "the partition's deletion says more");
        assert!(seen.has_live_static(0));
    }

    #[test]
    fn range_tombstones_shadow_their_rows_only() {
        let mut p = partition((0..6).map(|n| row(n, 5)).collect());
        let at = |n: i32| Clustering::new([n.to_be_bytes()]);
        p.range_tombstones = vec![
            RangeTombstone {
                start: Bound::exclusive(at(3)),
                end: Bound::exclusive(at(5)),
                deletion: DeletionTime { timestamp: 5, local_s: 1 },
            },
            RangeTombstone {
                start: Bound::inclusive(at(0)),
                end: Bound::inclusive(at(1)),
                deletion: DeletionTime { timestamp: 4, local_s: 1 },
            },
        ];
        p.purge_shadowed(&table());
        let left: Vec<_> = p.rows.iter().map(|row| row.clustering.component(0).unwrap()[3]).collect();
        assert_eq!(left, [0, 1, 2, 3, 5]);
    }

    #[test]
    fn sort_merges_equal_clusterings() {
        let mut p = partition(vec![row(2, 1), row(1, 1), row(2, 3)]);
        p.sort(&table());
        assert_eq!(p.rows, [row(1, 1), row(2, 3)]);
    }
}
