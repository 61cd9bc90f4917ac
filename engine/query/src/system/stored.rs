//! System tables whose rows are stored as a user's are: those of `system` on this node alone, those of replicated
//! keyspaces on their replicas.
//!
//! Storage opens them beside the schema's tables. Whoever writes one of `system` applies mutations to the shard that
//! owns the partition's token; statements may only read them. Names, types and keys are those of Apache Cassandra
//! (`SystemKeyspace`, `TraceKeyspace`) and Scylla (`db/system_keyspace.cc`, `tracing/trace_keyspace_helper.cc`,
//! `audit/audit_cf_storage_helper.cc`).

use std::sync::Arc;

use types::TableDef;

use crate::ddl;

/// What this node has promised, accepted and committed of conditional writes: Cassandra's `system.paxos`.
pub const PAXOS: &str = "paxos";

/// Logged batches under way: Cassandra's `system.batches`.
pub const BATCHES: &str = "batches";

const TABLES: &[&str] = &[
    "CREATE TABLE system.batches (id timeuuid PRIMARY KEY, mutations frozen<list<blob>>, version int) \
     WITH gc_grace_seconds = 0",
    "CREATE TABLE system.paxos (row_key blob, cf_id uuid, in_progress_ballot timeuuid, \
     most_recent_commit blob, most_recent_commit_at timeuuid, most_recent_commit_version int, proposal blob, \
     proposal_ballot timeuuid, proposal_version int, PRIMARY KEY (row_key, cf_id)) WITH gc_grace_seconds = 0",
    "CREATE TABLE system.compaction_history (id uuid PRIMARY KEY, bytes_in bigint, bytes_out bigint, \
     columnfamily_name text, compacted_at timestamp, compaction_type text, keyspace_name text, \
     rows_merged frozen<map<int, bigint>>, shard_id int, started_at timestamp) WITH gc_grace_seconds = 0",
    "CREATE TABLE system.large_partitions (keyspace_name text, table_name text, sstable_name text, \
     partition_size bigint, partition_key text, compaction_time timestamp, range_tombstones bigint, rows bigint, \
     PRIMARY KEY ((keyspace_name, table_name), sstable_name, partition_size, partition_key)) \
     WITH CLUSTERING ORDER BY (sstable_name ASC, partition_size DESC, partition_key ASC)",
    "CREATE TABLE system.large_rows (keyspace_name text, table_name text, sstable_name text, row_size bigint, \
     partition_key text, clustering_key text, compaction_time timestamp, \
     PRIMARY KEY ((keyspace_name, table_name), sstable_name, row_size, partition_key, clustering_key)) \
     WITH CLUSTERING ORDER BY (sstable_name ASC, row_size DESC, partition_key ASC, clustering_key ASC)",
    "CREATE TABLE system.large_cells (keyspace_name text, table_name text, sstable_name text, cell_size bigint, \
     partition_key text, clustering_key text, column_name text, collection_elements bigint, \
     compaction_time timestamp, PRIMARY KEY ((keyspace_name, table_name), sstable_name, cell_size, partition_key, \
     clustering_key, column_name)) WITH CLUSTERING ORDER BY (sstable_name ASC, cell_size DESC, partition_key ASC, \
     clustering_key ASC, column_name ASC)",
    "CREATE TABLE system_traces.sessions (session_id uuid PRIMARY KEY, client inet, command text, coordinator inet, \
     coordinator_port int, duration int, parameters frozen<map<text, text>>, request text, request_size int, \
     response_size int, started_at timestamp, username text) WITH gc_grace_seconds = 0",
    "CREATE TABLE system_traces.events (session_id uuid, event_id timeuuid, activity text, scylla_parent_id bigint, \
     scylla_span_id bigint, source inet, source_elapsed int, source_port int, thread text, \
     PRIMARY KEY (session_id, event_id)) WITH gc_grace_seconds = 0",
    "CREATE TABLE system_traces.sessions_time_idx (minute timestamp, started_at timestamp, session_id uuid, \
     PRIMARY KEY (minute, started_at, session_id)) WITH gc_grace_seconds = 0",
    "CREATE TABLE system_traces.node_slow_log (start_time timeuuid, node_ip inet, shard int, command text, \
     date timestamp, duration int, parameters frozen<map<text, text>>, session_id uuid, source_ip inet, \
     table_names frozen<set<text>>, username text, PRIMARY KEY (start_time, node_ip, shard)) \
     WITH gc_grace_seconds = 0",
    "CREATE TABLE system_traces.node_slow_log_time_idx (minute timestamp, started_at timestamp, session_id uuid, \
     node_ip inet, shard int, start_time timeuuid, PRIMARY KEY (minute, started_at, session_id)) \
     WITH gc_grace_seconds = 0",
    "CREATE TABLE audit.audit_log (date timestamp, node inet, event_time timeuuid, category text, consistency text, \
     error boolean, keyspace_name text, operation text, source inet, table_name text, username text, \
     PRIMARY KEY ((date, node), event_time))",
];

/// The definitions, for storage to open.
pub fn stored_tables() -> Vec<Arc<TableDef>> {
    let read = |text: &&str| {
        Arc::new(ddl::read_table(text, &Default::default()).expect("the definitions are constant and tested"))
    };
    TABLES.iter().map(read).collect()
}

/// Whether the rows of a system table are stored, and not made when they are read.
pub fn is_stored(table: &TableDef) -> bool {
    TABLES.iter().any(|text| {
        let name = text.strip_prefix("CREATE TABLE ").and_then(|rest| rest.split_once(' ')).map(|(name, _)| name);
        name.and_then(|name| name.split_once('.')) == Some((&table.keyspace, &table.name))
    })
}
