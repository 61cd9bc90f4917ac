//! What storage tells of, written down: `system.compaction_history`, as Cassandra's, and `large_partitions`,
//! `large_rows` and `large_cells`, as Scylla's. Entries of SSTables that were compacted go with them; those of before a
//! restart go when they expire.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use reactor::Group;
use storage::{
    Clustering, CompactionRecord, DeletionTime, Event, Large, LargeKind, LargeThresholds, Mutation, Partition,
    RangeTombstone, ScanCommand, Slice,
};
use types::{ColumnDef, TableDef, TableId, Token, collection, serialize_partition_key, uuid};

use crate::error::{QueryError, server};
use crate::node::Node;
use crate::replica;
use crate::settings::Settings;
use crate::system::Values;
use crate::system::values::{bigint, int, text};

const HISTORY: &str = "compaction_history";
const LARGE: [&str; 3] = ["large_partitions", "large_rows", "large_cells"];
/// A week: Cassandra's `COMPACTION_HISTORY` has it as its default time to live.
const HISTORY_TTL_S: u32 = 7 * 24 * 60 * 60;
/// Thirty days: Scylla's `cql_table_large_data_handler`.
const LARGE_TTL_S: u32 = 30 * 24 * 60 * 60;

/// A shard's SSTables that have entries in the tables of what is large.
pub(super) type WithEntries = BTreeSet<(TableId, u64)>;

/// A row of `system.compaction_history`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionEntry {
    pub id: [u8; 16],
    pub keyspace: String,
    pub table: String,
    pub kind: String,
    pub shard: i32,
    pub started_ms: i64,
    pub compacted_ms: i64,
    pub bytes_in: i64,
    pub bytes_out: i64,
    /// How many partitions were merged from how many SSTables.
    pub rows_merged: Vec<(i32, i64)>,
}

/// The settings with Scylla's names.
pub(crate) fn thresholds(settings: &Settings) -> LargeThresholds {
    let number = |name: &str| settings.number(name).max(0.0);
    let bytes = |name: &str| (number(name) * f64::from(1 << 20)) as u64;
    LargeThresholds {
        partition_bytes: bytes("compaction_large_partition_warning_threshold_mb"),
        partition_rows: number("compaction_rows_count_warning_threshold") as u64,
        row_bytes: bytes("compaction_large_row_warning_threshold_mb"),
        cell_bytes: bytes("compaction_large_cell_warning_threshold_mb"),
        collection_elements: number("compaction_collection_elements_count_warning_threshold") as u64,
    }
}

/// Writes down what the node's storage tells, while there is a node.
pub(crate) fn start(node: &Rc<Node>) {
    node.storage.set_large_thresholds(thresholds(&node.settings));
    let weak = Rc::downgrade(node);
    node.storage.listen(Rc::new(move |event| {
        let Some(node) = weak.upgrade() else { return };
        let id = match &event {
            Event::Compacted(record) => record.table,
            Event::Large(large) => large.table,
        };
        // Of users' tables: what is written here would be told of again.
        let Some(table) = node.schema().table_by_id(id).cloned() else { return };
        drop(reactor::spawn(Group::Maintenance, "storage-journal", async move {
            let written = match event {
                Event::Compacted(record) => node.record_compaction(&table, &record).await,
                Event::Large(large) => node.record_large(&table, large).await,
            };
            if let Err(error) = written {
                tracing::debug!(error = error.message, "storage's journal could not be written");
            }
        }));
    }));
}

/// A key's or clustering's values, as JSON without the quotes of texts, with colons between them.
fn readable<'a>(columns: &[ColumnDef], values: impl Iterator<Item = &'a [u8]>) -> String {
    let one = |(column, value): (&ColumnDef, &[u8])| {
        let json = column.ty.to_json(value).unwrap_or_default();
        match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(text) => text.to_string(),
            None => json,
        }
    };
    columns.iter().zip(values).map(one).collect::<Vec<_>>().join(":")
}

impl Node {
    /// Keyspace, table and readable key of a partition of a user's table.
    pub fn partition_name(&self, table: TableId, key: &[u8]) -> Option<(String, String, String)> {
        let schema = self.schema();
        let table = schema.table_by_id(table)?;
        let key = types::partition_key_components(key, table.partition_key.len()).ok()?;
        let key = readable(&table.partition_key, key.into_iter());
        Some((table.keyspace.clone(), table.name.clone(), key))
    }

    async fn record_compaction(self: &Rc<Self>, table: &TableDef, record: &CompactionRecord) -> Result<(), QueryError> {
        let ended_ms = (record.ended_us / 1000) as i64;
        let merged: Vec<[Vec<u8>; 2]> =
            record.rows_merged.iter().map(|(n, count)| [int(*n as i32), bigint(*count as i64)]).collect();
        let values = BTreeMap::from([
            ("id", uuid::from_time(record.ended_us as i64, 0, reactor::random()).to_vec()),
            ("keyspace_name", text(&table.keyspace)),
            ("columnfamily_name", text(&table.name)),
            ("compacted_at", bigint(ended_ms)),
            ("started_at", bigint(ended_ms - (record.duration_ns / 1_000_000) as i64)),
            ("compaction_type", text(record.kind.name())),
            ("bytes_in", bigint(record.bytes_in as i64)),
            ("bytes_out", bigint(record.bytes_out as i64)),
            ("shard_id", int(self.shard as i32)),
            ("rows_merged", collection::write_collection(merged.len(), merged.iter().flatten().map(Vec::as_slice))),
        ]);
        self.record("system", HISTORY, values, HISTORY_TTL_S).await?;
        for generation in &record.inputs {
            if self.journal.with_entries.borrow_mut().remove(&(table.id, *generation)) {
                self.forget_large(table, &storage::data_file_name(*generation)).await?;
            }
        }
        Ok(())
    }

    async fn record_large(self: &Rc<Self>, table: &TableDef, large: Large) -> Result<(), QueryError> {
        self.journal.with_entries.borrow_mut().insert((table.id, large.generation));
        let key = types::partition_key_components(&large.key, table.partition_key.len()).unwrap_or_default();
        let clustering = |clustering: &Option<Clustering>| match clustering {
            Some(clustering) => text(readable(&table.clustering, clustering.components())),
            None => text("static"),
        };
        let mut values: Values = BTreeMap::from([
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("sstable_name", text(storage::data_file_name(large.generation))),
            ("partition_key", text(readable(&table.partition_key, key.into_iter()))),
            ("compaction_time", bigint((reactor::wall_us() / 1000) as i64)),
        ]);
        let size = bigint(large.bytes as i64);
        let name = match &large.what {
            LargeKind::Partition { rows, range_tombstones } => {
                values.extend([
                    ("partition_size", size),
                    ("rows", bigint(*rows as i64)),
                    ("range_tombstones", bigint(*range_tombstones as i64)),
                ]);
                LARGE[0]
            }
            LargeKind::Row { clustering: at } => {
                values.extend([("row_size", size), ("clustering_key", clustering(at))]);
                LARGE[1]
            }
            LargeKind::Cell { clustering: at, column, elements } => {
                values.extend([("cell_size", size), ("clustering_key", clustering(at)), ("column_name", text(column))]);
                values.extend(elements.map(|elements| ("collection_elements", bigint(elements as i64))));
                LARGE[2]
            }
        };
        tracing::warn!(
            keyspace = table.keyspace,
            table = table.name,
            sstable = large.generation,
            bytes = large.bytes,
            "something large is in an SSTable: see system.{name}"
        );
        self.record("system", name, values, LARGE_TTL_S).await
    }

    /// The SSTable is gone, and what was large in it.
    async fn forget_large(self: &Rc<Self>, of: &TableDef, sstable: &str) -> Result<(), QueryError> {
        for name in LARGE {
            let table = self.table("system", name)?;
            let key = serialize_partition_key(&[of.keyspace.as_bytes(), of.name.as_bytes()]);
            let token = Token::of_key(&key);
            let now_s = reactor::wall_s();
            let deletion = DeletionTime { timestamp: self.next_timestamp(), local_s: now_s };
            let Slice { start, end } = Slice::prefix(Clustering::new([sstable]));
            let mut partition = Partition::new(key);
            partition.range_tombstones.push(RangeTombstone { start, end, deletion });
            let bytes = Mutation::bytes(&table, partition);
            replica::apply_plain(self, token, bytes).await.map_err(server)?;
        }
        Ok(())
    }

    /// The rows of `system.compaction_history`, the oldest first.
    pub async fn compaction_history(self: &Rc<Self>) -> Result<Vec<CompactionEntry>, QueryError> {
        let table = self.table("system", HISTORY)?;
        let now_s = reactor::wall_s();
        let all = ScanCommand::all(table.id, now_s);
        let (partitions, _) = replica::scan(self, table.version, all).await.map_err(server)?;
        let entry = |partition: &Partition| {
            let row = partition.live_rows(now_s).next()?;
            let value = |name: &str| {
                let cell = row.cell(table.regular_index(name)? as u16)?;
                cell.value.as_deref()
            };
            let text = |name: &str| String::from_utf8_lossy(value(name).unwrap_or_default()).into_owned();
            let long = |name: &str| value(name).and_then(|bytes| bytes.try_into().ok()).map_or(0, i64::from_be_bytes);
            let merged = collection::entries(value("rows_merged").unwrap_or_default()).unwrap_or_default();
            let pair = |(of, count): (Option<&[u8]>, Option<&[u8]>)| {
                Some((i32::from_be_bytes(of?.try_into().ok()?), i64::from_be_bytes(count?.try_into().ok()?)))
            };
            Some(CompactionEntry {
                id: (*partition.key).try_into().ok()?,
                keyspace: text("keyspace_name"),
                table: text("columnfamily_name"),
                kind: text("compaction_type"),
                shard: value("shard_id").and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes),
                started_ms: long("started_at"),
                compacted_ms: long("compacted_at"),
                bytes_in: long("bytes_in"),
                bytes_out: long("bytes_out"),
                rows_merged: merged.into_iter().filter_map(pair).collect(),
            })
        };
        let mut entries: Vec<CompactionEntry> = partitions.iter().filter_map(entry).collect();
        entries.sort_by_key(|entry| (entry.compacted_ms, entry.id));
        Ok(entries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_have_scyllas_defaults() {
        let mib = 1 << 20;
        let expected = LargeThresholds {
            partition_bytes: 1000 * mib,
            partition_rows: 100_000,
            row_bytes: 10 * mib,
            cell_bytes: mib,
            collection_elements: 10_000,
        };
        assert_eq!(thresholds(&Settings::new(&[]).unwrap()), expected);
    }
}
