//! Keyspaces, tables and columns as every room of the engine sees them.

use std::sync::Arc;

use crate::{AggregateDef, CqlType, FunctionDef, UserType};

/// A table's UUID; SSTable folders and the inter-node protocol name tables by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u128);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnKind {
    /// Component of the partition key, by position.
    PartitionKey(u16),
    /// Component of the clustering key, by position.
    Clustering(u16),
    Static,
    Regular,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDef {
    pub name: String,
    pub ty: CqlType,
    pub kind: ColumnKind,
    /// Only for clustering columns: `CLUSTERING ORDER BY (c DESC)`.
    pub descending: bool,
}

/// Options of a table, with Cassandra's names and defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct TableOptions {
    pub comment: String,
    pub default_time_to_live_s: u32,
    pub gc_grace_seconds: u32,
    pub bloom_filter_fp_chance: f64,
    /// `compaction = {'class': .., ..}` as written, class under the key `class`.
    pub compaction: std::collections::BTreeMap<String, String>,
    /// `compression = {..}` as written; empty means uncompressed.
    pub compression: std::collections::BTreeMap<String, String>,
    pub caching: std::collections::BTreeMap<String, String>,
    /// `cdc = {'enabled': true, ..}` as written, with what was left out: ScyllaDB's change data capture. Empty: never.
    pub cdc: std::collections::BTreeMap<String, String>,
    /// The regular column that says when its row expires: ScyllaDB's per-row TTL.
    pub row_ttl: Option<String>,
    /// Options that are kept as they are written, by name; most have no effect yet.
    pub other: std::collections::BTreeMap<String, String>,
}

impl Default for TableOptions {
    fn default() -> Self {
        let pairs = |list: &[(&str, &str)]| list.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        Self {
            comment: String::new(),
            default_time_to_live_s: 0,
            gc_grace_seconds: 864_000,
            bloom_filter_fp_chance: 0.01,
            compaction: pairs(&[("class", "SizeTieredCompactionStrategy")]),
            compression: Default::default(),
            caching: pairs(&[("keys", "ALL"), ("rows_per_partition", "ALL")]),
            cdc: Default::default(),
            row_ttl: None,
            other: Default::default(),
        }
    }
}

/// What is remembered of a column that was dropped, so that its name can come again without its old values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedColumn {
    pub ty: String,
    pub is_static: bool,
    /// Microseconds: cells up to this time stay hidden.
    pub dropped_us: i64,
}

/// One table. Immutable: an ALTER makes a new one under the same id with a higher `version`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableDef {
    pub id: TableId,
    pub keyspace: String,
    pub name: String,
    pub version: u64,
    /// Partition key components in position order.
    pub partition_key: Vec<ColumnDef>,
    /// Clustering key components in position order.
    pub clustering: Vec<ColumnDef>,
    /// Static columns, sorted by name as Cassandra's serialisation header wants them.
    pub statics: Vec<ColumnDef>,
    /// Regular columns, sorted by name.
    pub regulars: Vec<ColumnDef>,
    pub options: TableOptions,
    /// By name.
    pub dropped: std::collections::BTreeMap<String, DroppedColumn>,
    /// By the names of columns that are shown masked: the call of a function, without the column.
    pub masks: std::collections::BTreeMap<String, String>,
    /// The table is a view of another one.
    pub view: Option<Box<crate::ViewDef>>,
    /// Sorted by name.
    pub indexes: Vec<crate::IndexDef>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    Local,
    Simple {
        replication_factor: u32,
    },
    /// Replication factor by data centre.
    NetworkTopology(std::collections::BTreeMap<String, u32>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct KeyspaceDef {
    pub name: String,
    pub replication: Replication,
    pub durable_writes: bool,
    pub types: std::collections::BTreeMap<String, Arc<UserType>>,
    /// By their signatures.
    pub functions: std::collections::BTreeMap<String, Arc<FunctionDef>>,
    pub aggregates: std::collections::BTreeMap<String, Arc<AggregateDef>>,
    pub tables: std::collections::BTreeMap<String, Arc<TableDef>>,
}
