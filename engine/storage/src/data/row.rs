//! A row: marker, deletion, cells; how two versions of it become one.

use std::cmp::Ordering;

use types::{ColumnDef, TableDef};

use super::{Cell, Clustering, ComplexColumn, ComplexColumns, DeletionTime, Liveness, Purge, counter};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Empty for the static row.
    pub clustering: Clustering,
    /// Set by INSERT, not by UPDATE.
    pub marker: Option<Liveness>,
    /// Deletes everything of the row at or below its timestamp.
    pub deletion: Option<DeletionTime>,
    /// Sorted by column, at most one a column. The column is an index into `TableDef::regulars`, or `statics` for
    /// the static row.
    pub cells: Vec<(u16, Cell)>,
    /// Columns of several cells, sorted by column; none of them empty.
    pub complex: ComplexColumns,
}

impl Row {
    pub fn new(clustering: Clustering) -> Self {
        Self { clustering, ..Self::default() }
    }

    /// Whether nothing is left of it.
    pub fn is_empty(&self) -> bool {
        self.marker.is_none() && self.deletion.is_none() && self.cells.is_empty() && self.complex.is_empty()
    }

    /// Whether a reader sees the row: a live marker or at least one live cell. What deletions shadow must be gone
    /// already (`Partition::purge_shadowed`).
    pub fn is_live(&self, now_s: u32) -> bool {
        self.marker.is_some_and(|marker| marker.is_live(now_s))
            || self.cells.iter().any(|(_, c)| c.is_live(now_s))
            || self.complex.iter().any(|column| column.is_live(now_s))
    }

    /// As [`Row::is_live`], for a row of `table`: in some views only the marker counts.
    pub fn is_visible(&self, now_s: u32, table: &TableDef) -> bool {
        match table.is_strict() {
            true => self.marker.is_some_and(|marker| marker.is_live(now_s)),
            false => self.is_live(now_s),
        }
    }

    pub fn cell(&self, column: u16) -> Option<&Cell> {
        self.cells.binary_search_by_key(&column, |(column, _)| *column).ok().map(|at| &self.cells[at].1)
    }

    /// A column of several cells.
    pub fn complex_column(&self, column: u16) -> Option<&ComplexColumn> {
        self.complex.get(column)
    }

    /// Number of columns that it has anything of.
    pub fn columns(&self) -> usize {
        self.cells.len() + self.complex.len()
    }

    /// Adds or replaces, whatever the timestamps.
    pub fn set_cell(&mut self, column: u16, cell: Cell) {
        match self.cells.binary_search_by_key(&column, |(column, _)| *column) {
            Ok(at) => self.cells[at].1 = cell,
            Err(at) => self.cells.insert(at, (column, cell)),
        }
    }

    /// Takes in another version of the same row, cell by cell. `columns` are the table's `regulars`, or `statics` for
    /// static rows.
    pub fn merge(&mut self, other: Row, columns: &[ColumnDef]) {
        self.marker = match (self.marker, other.marker) {
            (Some(a), Some(b)) => Some(if b.supersedes(&a) { b } else { a }),
            (a, b) => a.or(b),
        };
        self.deletion = DeletionTime::latest(self.deletion, other.deletion);
        if self.cells.is_empty() {
            self.cells = other.cells;
        } else if !other.cells.is_empty() {
            self.cells = merge_cells(std::mem::take(&mut self.cells), other.cells, columns);
        }
        if !other.complex.is_empty() {
            self.complex.merge(other.complex, columns);
        }
        if let Some(deletion) = self.deletion {
            self.apply_to_contents(deletion);
        }
    }

    /// Drops what `deletion`, of the partition or of a range, shadows: also the row's own deletion when it says less.
    pub fn apply_deletion(&mut self, deletion: DeletionTime) {
        if self.deletion.is_some_and(|own| !own.supersedes(&deletion)) {
            self.deletion = None;
        }
        self.apply_to_contents(deletion);
    }

    /// Drops what the row's own deletion shadows.
    pub fn purge_shadowed(&mut self) {
        self.complex.iter_mut().for_each(ComplexColumn::purge_shadowed);
        if let Some(deletion) = self.deletion {
            self.apply_to_contents(deletion);
        }
    }

    fn apply_to_contents(&mut self, deletion: DeletionTime) {
        if self.marker.is_some_and(|marker| deletion.deletes(marker.timestamp)) {
            self.marker = None;
        }
        self.cells.retain(|(_, cell)| !deletion.deletes(cell.timestamp));
        self.complex.retain_mut(|column| {
            column.apply_deletion(deletion);
            !column.is_empty()
        });
    }

    /// Turns what has expired into tombstones and drops tombstones that no one needs any more.
    pub(crate) fn purge_tombstones(&mut self, purge: &Purge) {
        // An expired marker hides nothing, but another replica may still have it unexpired by its older version.
        if self.marker.is_some_and(|m| !m.is_live(purge.now_s) && purge.drops(m.timestamp, m.local_deletion_s)) {
            self.marker = None;
        }
        if self.deletion.is_some_and(|deletion| purge.drops(deletion.timestamp, deletion.local_s)) {
            self.deletion = None;
        }
        self.cells.retain_mut(|(_, cell)| purge.keeps_cell(cell));
        self.complex.retain_mut(|column| {
            column.purge_tombstones(purge);
            !column.is_empty()
        });
    }

    /// Whether there is anything that [`Row::purge_tombstones`] might change.
    pub(crate) fn has_tombstones(&self, now_s: u32) -> bool {
        self.deletion.is_some()
            || self.marker.is_some_and(|marker| !marker.is_live(now_s))
            || self.cells.iter().any(|(_, cell)| !cell.is_live(now_s))
            || self
                .complex
                .iter()
                .any(|column| column.deletion.is_some() || column.cells.iter().any(|(_, cell)| !cell.is_live(now_s)))
    }

    /// Deletions in it, and what has expired.
    pub(crate) fn tombstones(&self, now_s: u32) -> usize {
        let dead = self.cells.iter().filter(|(_, cell)| !cell.is_live(now_s)).count();
        let marker = self.marker.is_some_and(|marker| !marker.is_live(now_s));
        let complex = self.complex.iter().map(|column| {
            let dead = column.cells.iter().filter(|(_, cell)| !cell.is_live(now_s)).count();
            usize::from(column.deletion.is_some()) + dead
        });
        usize::from(self.deletion.is_some()) + usize::from(marker) + dead + complex.sum::<usize>()
    }

    /// Memory of a decoded row, about.
    pub fn memory_bytes(&self) -> usize {
        let values = self.cells.iter().map(|(_, cell)| cell.value.as_ref().map_or(0, |value| value.len()));
        let cells = self.cells.len() * size_of::<(u16, Cell)>();
        size_of::<Row>() + self.clustering.as_bytes().len() + cells + values.sum::<usize>() + self.complex.heap_bytes()
    }

    /// The least timestamp of anything in the row.
    pub fn min_timestamp(&self) -> Option<i64> {
        let marker = self.marker.iter().map(|marker| marker.timestamp);
        let deletion = self.deletion.iter().map(|deletion| deletion.timestamp);
        let simple = marker.chain(deletion).chain(self.cells.iter().map(|(_, cell)| cell.timestamp)).min();
        if self.complex.is_empty() {
            return simple;
        }
        simple.into_iter().chain(self.complex.iter().flat_map(ComplexColumn::timestamps)).min()
    }
}

fn merge_cells(ours: Vec<(u16, Cell)>, theirs: Vec<(u16, Cell)>, columns: &[ColumnDef]) -> Vec<(u16, Cell)> {
    let mut merged = Vec::with_capacity(ours.len().max(theirs.len()));
    let (mut ours, mut theirs) = (ours.into_iter().peekable(), theirs.into_iter().peekable());
    loop {
        let order = match (ours.peek(), theirs.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return merged,
        };
        match order {
            Ordering::Less => merged.extend(ours.next()),
            Ordering::Greater => merged.extend(theirs.next()),
            Ordering::Equal => {
                if let (Some(a), Some(b)) = (ours.next(), theirs.next()) {
                    let counter = columns.get(usize::from(a.0)).is_some_and(|column| column.ty.is_counter());
                    merged.push(match counter {
                        true => (a.0, counter::merge_cells(a.1, b.1)),
                        false if a.1.wins_over(&b.1) => a,
                        false => b,
                    });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(cells: &[(u16, i64, &str)]) -> Row {
        let cells = cells.iter().map(|&(column, ts, value)| (column, Cell::live(ts, value))).collect();
        Row { cells, ..Row::default() }
    }

    #[test]
    fn cells_merge_one_by_one() {
        let mut a = row(&[(0, 1, "a"), (2, 5, "c")]);
        a.merge(row(&[(0, 2, "A"), (1, 1, "b"), (2, 4, "x")]), &[]);
        assert_eq!(a, row(&[(0, 2, "A"), (1, 1, "b"), (2, 5, "c")]));
    }

    #[test]
    fn a_row_deletion_shadows_at_its_timestamp() {
        let mut a = row(&[(0, 1, "a"), (1, 3, "b")]);
        a.marker = Some(Liveness::live(2));
        let deletion = DeletionTime { timestamp: 2, local_s: 9 };
        a.merge(Row { deletion: Some(deletion), ..Row::default() }, &[]);
        assert_eq!(a, Row { deletion: Some(deletion), ..row(&[(1, 3, "b")]) });
        a.apply_deletion(DeletionTime { timestamp: 3, local_s: 9 });
        assert!(a.is_empty());
    }

    #[test]
    fn tombstones_stay_for_the_grace_and_for_what_they_shadow() {
        let dead =
            || Row { cells: vec![(0, Cell::tombstone(10, 100)), (1, Cell::expiring(10, 5, 95, b"x"))], ..row(&[]) };
        let purged = |gc_before_s, below| {
            let mut row = dead();
            row.purge_tombstones(&Purge { now_s: 200, gc_before_s, below });
            row.cells.iter().map(|(column, _)| *column).collect::<Vec<_>>()
        };
        assert_eq!(purged(95, i64::MAX), [0, 1]);
        assert_eq!(purged(96, i64::MAX), [0]);
        assert_eq!(purged(101, i64::MAX), [] as [u16; 0]);
        assert_eq!(purged(101, 10), [0, 1]);
    }
}
