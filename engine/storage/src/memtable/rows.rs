//! The rows of one wide partition: a sorted list of sorted lists, each row one allocation.

use std::cmp::Ordering;
use std::sync::Arc;

use types::TableDef;

use crate::data::codec::{Reader, write_row};
use crate::data::{Position, compare_positions};
use crate::{Bytes, Malformed, Row};

/// Lists split in two beyond this many rows: 16 bytes a row, so an insertion moves 1 KiB at most.
const LIST_MAX: usize = 128;

/// A row's bytes: its base timestamp, then the row as `codec` writes it.
#[derive(Clone)]
pub(crate) struct PackedRow(Arc<[u8]>);

impl PackedRow {
    fn new(row: &Row) -> Self {
        let base = row.min_timestamp().unwrap_or(0);
        let mut bytes = Vec::with_capacity(64);
        bytes.extend_from_slice(&base.to_be_bytes());
        write_row(row, base, &mut bytes);
        Self(Arc::from(bytes))
    }

    /// What is stored was encoded here, so the errors never happen; they are passed on all the same.
    fn clustering(&self) -> &[u8] {
        Reader { rest: self.0.get(8..).unwrap_or(&[]) }.raw_row(0).map_or(&[], |row| row.clustering)
    }

    pub fn decode(&self) -> Result<Row, Malformed> {
        let mut reader = Reader::new(&self.0);
        let base = i64::from_be_bytes(reader.array("base timestamp")?);
        reader.row(base, &Bytes::from(self.0.clone()))
    }

    fn bytes(&self) -> usize {
        super::ALLOCATION_OVERHEAD + self.0.len()
    }
}

#[derive(Default)]
pub(crate) struct Rows {
    /// None of them empty.
    lists: Vec<Vec<PackedRow>>,
    bytes: usize,
}

impl Rows {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn merge(&mut self, row: Row, table: &TableDef) -> Result<(), Malformed> {
        let position = Position::row(row.clustering.as_bytes());
        let list =
            self.lists.partition_point(|list| list.last().is_some_and(|last| compare(table, last, position).is_lt()));
        // Behind the last row: the usual place of a time series.
        let list = list.min(self.lists.len().saturating_sub(1));
        if self.lists.is_empty() {
            self.lists.push(Vec::new());
        }
        let rows = &mut self.lists[list];
        match rows.binary_search_by(|stored| compare(table, stored, position)) {
            Ok(at) => {
                self.bytes -= rows[at].bytes();
                let mut merged = rows[at].decode()?;
                merged.merge(row, &table.regulars);
                rows[at] = PackedRow::new(&merged);
                self.bytes += rows[at].bytes();
            }
            Err(at) => {
                let packed = PackedRow::new(&row);
                self.bytes += packed.bytes();
                let before = slot_bytes(rows);
                rows.insert(at, packed);
                if rows.len() > LIST_MAX {
                    // Appending splits off a nearly empty list and leaves a full one behind.
                    let half = if at + 1 == rows.len() { LIST_MAX } else { LIST_MAX / 2 };
                    let rest = rows.split_off(half);
                    rows.shrink_to(LIST_MAX);
                    self.bytes += slot_bytes(&rest) + size_of::<Vec<PackedRow>>();
                    self.bytes = self.bytes + slot_bytes(rows) - before;
                    self.lists.insert(list + 1, rest);
                } else {
                    self.bytes = self.bytes + slot_bytes(rows) - before;
                }
            }
        }
        Ok(())
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &PackedRow> {
        self.lists.iter().flatten()
    }

    /// Rows between two positions that no row is equal to.
    pub fn between<'a>(
        &'a self,
        start: Position<'_>,
        end: Position<'_>,
        table: &TableDef,
    ) -> impl DoubleEndedIterator<Item = &'a PackedRow> + use<'a> {
        let (first_list, first) = self.seek(start, table);
        let (last_list, last) = self.seek(end, table);
        let empty = (first_list, first) >= (last_list, last);
        let lists = if empty { 0..0 } else { first_list..(last_list + 1).min(self.lists.len()) };
        lists.flat_map(move |index| {
            let list = &self.lists[index];
            let from = if index == first_list { first } else { 0 };
            let to = if index == last_list { last } else { list.len() };
            list[from..to].iter()
        })
    }

    /// Where the first row behind `position` is.
    fn seek(&self, position: Position<'_>, table: &TableDef) -> (usize, usize) {
        let before = |row: &PackedRow| compare(table, row, position).is_lt();
        let list = self.lists.partition_point(|list| list.last().is_some_and(before));
        (list, self.lists.get(list).map_or(0, |rows| rows.partition_point(before)))
    }
}

/// Memory of a list itself.
fn slot_bytes(list: &Vec<PackedRow>) -> usize {
    list.capacity() * size_of::<PackedRow>()
}

fn compare(table: &TableDef, row: &PackedRow, position: Position<'_>) -> Ordering {
    compare_positions(table, Position::row(row.clustering()), position)
}
