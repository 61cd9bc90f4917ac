//! What a reader must see: everything that was written, searched from end to end for each cell.

use std::collections::BTreeMap;

use storage::{Bound, Cell, Clustering, DeletionTime, Liveness, Mutation, Partition, RangeTombstone, Row};
use types::TableDef;

pub const TABLES: u8 = 2;
pub const KEYS: u8 = 5;
pub const ROWS: i32 = 6;
/// Columns from the beginning on; each change of the schema adds one.
pub const COLUMNS: u16 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Cell {
        row: i32,
        marker: bool,
        column: u16,
        value: u8,
    },
    /// The same value in column 1 of several rows: a mutation that must not come apart.
    Wide {
        value: u8,
    },
    DeleteCell {
        row: i32,
        column: u16,
    },
    DeleteRow {
        row: i32,
    },
    /// Both ends belong to it.
    DeleteRange {
        from: i32,
        to: i32,
    },
    DeletePartition,
}

/// One mutation. Timestamps are all different.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    pub table: u8,
    pub key: u8,
    pub timestamp: i64,
    pub change: Change,
}

/// By row: whether it has a marker, and the values of its columns.
pub type View = BTreeMap<i32, (bool, BTreeMap<u16, u8>)>;

/// When tombstones were written, for those who purge them.
#[derive(Clone, Copy, Debug)]
pub struct Era {
    pub local_s: u32,
}

pub fn value(byte: u8) -> Vec<u8> {
    [byte].repeat(usize::from(byte) % 90 + 1)
}

impl Write {
    pub fn encode(&self, def: &TableDef, era: Era) -> Vec<u8> {
        let mut partition = Partition::new(&[self.key]);
        let deletion = DeletionTime { timestamp: self.timestamp, local_s: era.local_s };
        let live = |byte: u8| Cell::live(self.timestamp, value(byte));
        match self.change {
            Change::Cell { row, marker, column, value } => partition.rows.push(Row {
                marker: marker.then(|| Liveness::live(self.timestamp)),
                cells: vec![(column, live(value))],
                ..Row::new(clustering(row))
            }),
            Change::Wide { value } => partition
                .rows
                .extend((0..ROWS).map(|row| Row { cells: vec![(1, live(value))], ..Row::new(clustering(row)) })),
            Change::DeleteCell { row, column } => partition.rows.push(Row {
                cells: vec![(column, Cell::tombstone(self.timestamp, era.local_s))],
                ..Row::new(clustering(row))
            }),
            Change::DeleteRow { row } => {
                partition.rows.push(Row { deletion: Some(deletion), ..Row::new(clustering(row)) });
            }
            Change::DeleteRange { from, to } => partition.range_tombstones.push(RangeTombstone {
                start: Bound::inclusive(clustering(from)),
                end: Bound::inclusive(clustering(to)),
                deletion,
            }),
            Change::DeletePartition => partition.deletion = Some(deletion),
        }
        let mut bytes = Vec::new();
        Mutation { table: def.id, schema_version: def.version, partition }.encode(&mut bytes);
        bytes
    }

    fn deletes(&self, row: i32) -> bool {
        match self.change {
            Change::DeleteRow { row: deleted } => deleted == row,
            Change::DeleteRange { from, to } => (from..=to).contains(&row),
            Change::DeletePartition => true,
            _ => false,
        }
    }

    /// What it makes of a cell, if it says anything of it: a value, or its deletion.
    fn sets(&self, row: i32, column: u16) -> Option<Option<u8>> {
        match self.change {
            Change::Cell { row: r, column: c, value, .. } if (r, c) == (row, column) => Some(Some(value)),
            Change::Wide { value } if column == 1 => Some(Some(value)),
            Change::DeleteCell { row: r, column: c } if (r, c) == (row, column) => Some(None),
            _ => None,
        }
    }
}

pub fn clustering(row: i32) -> Clustering {
    Clustering::new([row.to_be_bytes()])
}

/// What these writes, all of one partition, come to.
pub fn view<'a>(writes: impl Iterator<Item = &'a Write> + Clone) -> View {
    let mut view = View::new();
    for row in 0..ROWS {
        let deleted = writes.clone().filter(|w| w.deletes(row)).map(|w| w.timestamp).max().unwrap_or(i64::MIN);
        let after = writes.clone().filter(|w| w.timestamp > deleted);
        let marker = after.clone().any(|w| matches!(w.change, Change::Cell { row: r, marker: true, .. } if r == row));
        let mut cells = BTreeMap::new();
        for column in 0..COLUMNS + 4 {
            let winner = after.clone().filter_map(|w| Some((w.timestamp, w.sets(row, column)?))).max();
            if let Some((_, Some(value))) = winner {
                cells.insert(column, value);
            }
        }
        if marker || !cells.is_empty() {
            view.insert(row, (marker, cells));
        }
    }
    view
}

/// What a reader sees of a partition.
pub fn seen(partition: &Partition) -> View {
    let mut view = View::new();
    for row in partition.live_rows(0) {
        let number = row.clustering.component(0).and_then(|bytes| bytes.try_into().ok()).map_or(-1, i32::from_be_bytes);
        let mut cells = BTreeMap::new();
        for (column, cell) in row.cells.iter().filter(|(_, cell)| cell.is_live(0)) {
            let bytes = cell.value.as_deref().unwrap_or_default();
            let byte = bytes.first().copied().unwrap_or_default();
            assert_eq!(bytes, value(byte), "a value that nobody has written");
            cells.insert(*column, byte);
        }
        view.insert(number, (row.marker.is_some(), cells));
    }
    view
}
