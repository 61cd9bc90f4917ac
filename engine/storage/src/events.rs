//! What a storage tells whoever runs it, to be written down: compactions that have ended, and what is large in SSTables
//! that were written.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use types::{TableDef, TableId};

use crate::{Clustering, CompactionRecord, Row};

/// What is kept of one SSTable: more of the kind say nothing new.
const FOUND_MAX: usize = 1000;

#[derive(Clone, Debug)]
pub enum Event {
    Compacted(CompactionRecord),
    Large(Large),
}

/// From what size on something is told of, in bytes and counts; `u64::MAX`: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeThresholds {
    pub partition_bytes: u64,
    pub partition_rows: u64,
    pub row_bytes: u64,
    pub cell_bytes: u64,
    pub collection_elements: u64,
}

impl LargeThresholds {
    pub const NEVER: LargeThresholds = LargeThresholds {
        partition_bytes: u64::MAX,
        partition_rows: u64::MAX,
        row_bytes: u64::MAX,
        cell_bytes: u64::MAX,
        collection_elements: u64::MAX,
    };

    /// In a row up to this size nothing is large, save columns of several cells.
    pub(crate) fn small_row_bytes(&self) -> u64 {
        self.row_bytes.min(self.cell_bytes)
    }
}

impl Default for LargeThresholds {
    fn default() -> Self {
        Self::NEVER
    }
}

/// Something large in an SSTable, with its size on disk before compression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Large {
    pub table: TableId,
    /// Of the SSTable.
    pub generation: u64,
    pub key: Vec<u8>,
    pub bytes: u64,
    pub what: LargeKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LargeKind {
    Partition {
        rows: u64,
        range_tombstones: u64,
    },
    /// `None`: the static row.
    Row {
        clustering: Option<Clustering>,
    },
    Cell {
        clustering: Option<Clustering>,
        column: String,
        /// Of a column of several cells.
        elements: Option<u64>,
    },
}

/// One storage's. Nobody listens at first.
#[derive(Default)]
pub(crate) struct Events {
    listener: RefCell<Option<Rc<dyn Fn(Event)>>>,
    thresholds: Cell<LargeThresholds>,
}

impl Events {
    pub fn listen(&self, listener: Rc<dyn Fn(Event)>) {
        *self.listener.borrow_mut() = Some(listener);
    }

    pub fn set_thresholds(&self, thresholds: LargeThresholds) {
        self.thresholds.set(thresholds);
    }

    pub fn thresholds(&self) -> LargeThresholds {
        self.thresholds.get()
    }

    pub fn tell(&self, event: Event) {
        let listener = self.listener.borrow().clone();
        if let Some(listener) = listener {
            listener(event);
        }
    }

    /// For an SSTable that is about to be written; `None` when nobody wants to know.
    pub fn watch(self: &Rc<Self>) -> Option<Watch> {
        let thresholds = self.thresholds.get();
        if thresholds == LargeThresholds::NEVER || self.listener.borrow().is_none() {
            return None;
        }
        let (events, found) = (self.clone(), Vec::new());
        Some(Watch { events, thresholds, found, partition_from: 0, rows: 0, range_tombstones: 0 })
    }
}

/// One SSTable that is being written.
pub(crate) struct Watch {
    events: Rc<Events>,
    thresholds: LargeThresholds,
    found: Vec<(Vec<u8>, u64, LargeKind)>,
    /// Where those of the current partition begin, whose key is told at its end.
    partition_from: usize,
    rows: u64,
    range_tombstones: u64,
}

impl Watch {
    /// A row of so many bytes. Most are below every threshold.
    #[inline]
    pub fn row(&mut self, def: &TableDef, row: &Row, is_static: bool, bytes: u64) {
        self.rows += u64::from(!is_static);
        if bytes > self.thresholds.small_row_bytes() || !row.complex.is_empty() {
            self.look_at(def, row, is_static, bytes);
        }
    }

    /// One that is below every threshold, with no column of several cells.
    pub fn small_row(&mut self) {
        self.rows += 1;
    }

    pub fn range_tombstone(&mut self) {
        self.range_tombstones += 1;
    }

    fn look_at(&mut self, def: &TableDef, row: &Row, is_static: bool, bytes: u64) {
        let columns = if is_static { &def.statics } else { &def.regulars };
        let name = |column: u16| columns.get(usize::from(column)).map(|column| column.name.clone()).unwrap_or_default();
        let clustering = || (!is_static).then(|| row.clustering.clone());
        let thresholds = self.thresholds;
        if bytes > thresholds.row_bytes {
            self.add(bytes, LargeKind::Row { clustering: clustering() });
        }
        for (column, cell) in &row.cells {
            let bytes = cell.value.as_ref().map_or(0, |value| value.len()) as u64;
            if bytes > thresholds.cell_bytes {
                self.add(bytes, LargeKind::Cell { clustering: clustering(), column: name(*column), elements: None });
            }
        }
        for complex in row.complex.iter() {
            let elements = complex.cells.len() as u64;
            let of =
                |(path, cell): &(crate::Bytes, crate::Cell)| path.len() + cell.value.as_ref().map_or(0, |v| v.len());
            let bytes = complex.cells.iter().map(of).sum::<usize>() as u64;
            if bytes > thresholds.cell_bytes || elements > thresholds.collection_elements {
                let (column, elements) = (name(complex.column), Some(elements));
                self.add(bytes, LargeKind::Cell { clustering: clustering(), column, elements });
            }
        }
    }

    fn add(&mut self, bytes: u64, what: LargeKind) {
        if self.found.len() < FOUND_MAX {
            self.found.push((Vec::new(), bytes, what));
        }
    }

    /// The partition of `key` ends, with so many bytes.
    pub fn end(&mut self, key: &[u8], bytes: u64) {
        let (rows, range_tombstones) = (std::mem::take(&mut self.rows), std::mem::take(&mut self.range_tombstones));
        if bytes > self.thresholds.partition_bytes || rows > self.thresholds.partition_rows {
            self.add(bytes, LargeKind::Partition { rows, range_tombstones });
        }
        for (of, ..) in &mut self.found[self.partition_from..] {
            key.clone_into(of);
        }
        self.partition_from = self.found.len();
    }

    /// The SSTable is durable.
    pub fn finish(self, table: TableId, generation: u64) {
        for (key, bytes, what) in self.found {
            self.events.tell(Event::Large(Large { table, generation, key, bytes, what }));
        }
    }
}
