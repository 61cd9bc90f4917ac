//! When what is known of a partition cannot be changed by anything older.
//!
//! As `SinglePartitionReadCommand.queryMemtableAndSSTablesInTimestampOrder` of Apache Cassandra: a row that has its
//! marker and all its columns, each later than all that an SSTable holds, does not need that SSTable. Only where one
//! row is all there is, and only for columns whose newest value is all that counts: no collections, no counters.

use types::TableDef;

use super::PartitionRead;
use crate::Partition;
use crate::table::Table;

/// Whether the table's partitions are single rows of simple columns.
fn is_simple(def: &TableDef) -> bool {
    def.clustering.is_empty()
        && def.statics.is_empty()
        && !def.regulars.is_empty()
        && def.regulars.iter().all(|column| !column.ty.is_multi_cell() && !column.ty.is_counter())
}

/// Whether nothing at or below `timestamp` can show beside `known`, in a table that is simple. Where timestamps are
/// equal the values decide, so each must be later.
pub(super) fn hides(known: &Partition, timestamp: i64, def: &TableDef) -> bool {
    if known.deletion.is_some_and(|deletion| deletion.deletes(timestamp)) {
        return true;
    }
    let [row] = &known.rows[..] else { return false };
    row.deletion.is_some_and(|deletion| deletion.deletes(timestamp))
        || (row.marker.is_some_and(|marker| marker.timestamp > timestamp)
            && row.cells.len() == def.regulars.len()
            && row.cells.iter().all(|(_, cell)| cell.timestamp > timestamp))
}

impl PartitionRead<'_> {
    /// Whether a part of the partition may be found to be all that matters of it.
    pub(super) fn may_end_early(&self, table: &Table) -> bool {
        !table.reads_every_place && is_simple(self.def)
    }

    /// Whether memtables alone answer the read.
    pub(super) fn is_complete_in_memory(&self, table: &Table, known: Option<&Partition>) -> bool {
        known.is_some_and(|known| {
            self.may_end_early(table)
                && hides(known, i64::MIN, self.def)
                && table.sstables.borrow().iter().all(|sstable| hides(known, sstable.figures.max_timestamp, self.def))
        })
    }
}
