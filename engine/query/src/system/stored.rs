//! System tables whose rows are stored as a user's are, on this node alone.
//!
//! Storage opens them beside the schema's tables. Whoever writes one of them applies mutations to the shard that owns
//! the partition's token; statements may only read them.

use std::sync::Arc;

use types::TableDef;

use crate::ddl;

/// What this node has promised, accepted and committed of conditional writes: Cassandra's `system.paxos`.
pub const PAXOS: &str = "paxos";

const TABLES: &[&str] = &["CREATE TABLE system.paxos (row_key blob, cf_id uuid, in_progress_ballot timeuuid, \
     most_recent_commit blob, most_recent_commit_at timeuuid, most_recent_commit_version int, proposal blob, \
     proposal_ballot timeuuid, proposal_version int, PRIMARY KEY (row_key, cf_id)) WITH gc_grace_seconds = 0"];

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
