//! A partition of many rows in a memtable.

use types::TableDef;

use super::Part;
use super::rows::Rows;
use crate::data::normalise;
use crate::{Bytes, DeletionTime, Malformed, Partition, RangeTombstone, Row, Slice};

pub(crate) struct Wide {
    pub key: Bytes,
    deletion: Option<DeletionTime>,
    static_row: Option<Row>,
    rows: Rows,
    /// Brought into normal form each time it has doubled, so that many small deletions cost n log n in all.
    ranges: Vec<RangeTombstone>,
    normal_ranges: usize,
    /// Of the static row and the ranges.
    rest_bytes: usize,
}

impl Wide {
    pub fn new(key: Bytes) -> Self {
        Self {
            key,
            deletion: None,
            static_row: None,
            rows: Rows::default(),
            ranges: Vec::new(),
            normal_ranges: 0,
            rest_bytes: 0,
        }
    }

    pub fn bytes(&self) -> usize {
        size_of::<Wide>() + self.key.len() + 2 * super::ALLOCATION_OVERHEAD + self.rows.bytes() + self.rest_bytes
    }

    pub fn merge(&mut self, other: Partition, table: &TableDef) -> Result<(), Malformed> {
        self.deletion = DeletionTime::latest(self.deletion, other.deletion);
        if let Some(row) = other.static_row {
            let ours = self.static_row.get_or_insert_default();
            self.rest_bytes -= cell_bytes(ours);
            ours.merge(row, &table.statics);
            self.rest_bytes += cell_bytes(ours);
        }
        for row in other.rows {
            self.rows.merge(row, table)?;
        }
        if !other.range_tombstones.is_empty() {
            self.rest_bytes += other.range_tombstones.iter().map(range_bytes).sum::<usize>();
            self.ranges.extend(other.range_tombstones);
            if self.ranges.len() >= 2 * self.normal_ranges.max(4) {
                self.rest_bytes -= self.ranges.iter().map(range_bytes).sum::<usize>();
                normalise(&mut self.ranges, table);
                self.rest_bytes += self.ranges.iter().map(range_bytes).sum::<usize>();
                self.normal_ranges = self.ranges.len();
            }
        }
        Ok(())
    }

    fn without_rows(&self) -> Partition {
        Partition {
            key: self.key.clone(),
            deletion: self.deletion,
            static_row: self.static_row.clone(),
            rows: Vec::new(),
            range_tombstones: self.ranges.clone(),
        }
    }

    pub fn decode(&self) -> Result<Partition, Malformed> {
        let mut partition = self.without_rows();
        partition.rows = self.rows.iter().map(|row| row.decode()).collect::<Result<_, _>>()?;
        Ok(partition)
    }

    pub fn read(&self, slices: &[Slice], reverse: bool, max_rows: usize, table: &TableDef) -> Result<Part, Malformed> {
        let mut partition = self.without_rows();
        let all = [Slice::all()];
        let slices = if slices.is_empty() { &all } else { slices };
        let between = |slice: &Slice| self.rows.between(slice.start.as_start(), slice.end.as_end(), table);
        let mut more_after = None;
        if reverse {
            let mut rows = slices.iter().rev().flat_map(|slice| between(slice).rev());
            for row in rows.by_ref().take(max_rows) {
                partition.rows.push(row.decode()?);
            }
            partition.rows.reverse();
            if rows.next().is_some() {
                more_after = partition.rows.first().map(|row| row.clustering.clone());
            }
        } else {
            let mut rows = slices.iter().flat_map(between);
            for row in rows.by_ref().take(max_rows) {
                partition.rows.push(row.decode()?);
            }
            if rows.next().is_some() {
                more_after = partition.rows.last().map(|row| row.clustering.clone());
            }
        }
        Ok(Part { partition, more_after })
    }
}

fn cell_bytes(row: &Row) -> usize {
    let values = row.cells.iter().map(|(_, cell)| cell.value.as_ref().map_or(0, |value| value.len()));
    let simple: usize = values.map(|len| len + size_of::<(u16, crate::Cell)>() + super::ALLOCATION_OVERHEAD).sum();
    simple + row.complex.heap_bytes()
}

fn range_bytes(range: &RangeTombstone) -> usize {
    let prefixes = range.start.prefix.as_bytes().len() + range.end.prefix.as_bytes().len();
    size_of::<RangeTombstone>() + prefixes + 2 * super::ALLOCATION_OVERHEAD
}
