//! The system keyspaces: what drivers, `cqlsh` and tools read to learn of the node, its peers and the schema.
//!
//! Their rows are not stored, but for those in [`stored`]. They are made from the node's live state whenever they are read, so they cannot disagree
//! with it; a `SELECT` then treats them as it treats any partition.

mod definitions;
mod derived;
mod facts;
mod rows;
mod stored;
pub(crate) mod values;
mod virtual_definitions;
mod virtual_rows;

pub use stored::{BATCHES, PAXOS, is_stored, stored_tables};

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use cluster::TokenRange;
use storage::{Partition, Stamp};
use types::{KeyspaceDef, Replication, TableDef, Token};

pub use facts::Facts;
pub(crate) use values::Values;

use crate::access::tables;
use crate::ddl;
use crate::schema::Schema;

/// The release whose system tables and statement forms we follow; clients choose their dialect by it.
pub const RELEASE_VERSION: &str = "4.1.0";
/// The version of the language, as in Cassandra 4.0.
pub const CQL_VERSION: &str = "3.4.5";

pub const KEYSPACES: [&str; 7] =
    ["audit", "system", "system_auth", "system_distributed", "system_schema", "system_traces", "system_virtual_schema"];

/// The replication of those whose rows nodes keep for each other, by Cassandra's and Scylla's defaults.
pub const REPLICATED: [(&str, Replication); 2] = [
    ("audit", Replication::Simple { replication_factor: 3 }),
    ("system_traces", Replication::Simple { replication_factor: 2 }),
];

/// Whether statements must not change the keyspace.
pub fn is_system(keyspace: &str) -> bool {
    KEYSPACES.contains(&keyspace)
}

/// Whether the keyspace's rows show the node itself, and are not kept by replicas as a user's are.
pub fn is_virtual(keyspace: &str) -> bool {
    is_system(keyspace) && REPLICATED.iter().all(|(name, _)| *name != keyspace)
}

/// Whether statements may name the table as the one to write to: what they write changes the node itself.
pub fn is_writable(table: &TableDef) -> bool {
    table.keyspace == "system" && ["config", "one_row"].contains(&table.name.as_str())
}

/// The tokens of one node, which stay what they are.
#[derive(Debug)]
pub struct Tokens {
    pub values: Vec<i64>,
    /// What the columns `tokens` hold: hundreds of texts, which every driver asks for.
    texts: Vec<u8>,
}

impl Tokens {
    pub(crate) fn of(node: &cluster::Node) -> Self {
        let values: Vec<i64> = node.tokens.iter().map(|token| token.0).collect();
        let mut texts: Vec<String> = values.iter().map(i64::to_string).collect();
        texts.sort();
        Self { texts: values::set(&texts), values }
    }
}

/// One node as the system tables show it.
#[derive(Clone, Debug)]
pub struct NodeView {
    pub host_id: u128,
    pub address: IpAddr,
    pub native_port: u16,
    pub internode_port: u16,
    pub data_centre: String,
    pub rack: String,
    pub tokens: Rc<Tokens>,
    /// Zero: not known.
    pub schema_version: u128,
    /// Of a peer, as seen from here.
    pub is_alive: bool,
}

/// Everything that the rows are made from.
pub struct View<'a> {
    pub cluster_name: &'a str,
    pub local: NodeView,
    pub peers: Vec<NodeView>,
    pub schema: &'a Schema,
    pub system: &'a SystemTables,
    pub primary_ranges: &'a dyn Fn() -> Vec<TokenRange>,
    /// Of the nodes that the cluster started with, ascending.
    pub starting_tokens: &'a dyn Fn() -> Vec<Token>,
    pub trace_probability: f64,
    /// Whether all rows of the node are in a view.
    pub is_built: &'a dyn Fn(types::TableId) -> bool,
}

impl View<'_> {
    pub fn nodes(&self) -> impl Iterator<Item = &NodeView> {
        std::iter::once(&self.local).chain(&self.peers)
    }
}

/// Definitions of all system tables.
pub struct SystemTables {
    keyspaces: BTreeMap<String, Arc<KeyspaceDef>>,
}

impl SystemTables {
    pub fn new() -> Self {
        let mut keyspaces: BTreeMap<String, KeyspaceDef> = BTreeMap::new();
        for name in KEYSPACES {
            let own = REPLICATED.iter().find(|(replicated, _)| *replicated == name);
            let replication = own.map_or(Replication::Local, |(_, replication)| replication.clone());
            keyspaces.insert(name.to_string(), KeyspaceDef::new(name, replication));
        }
        for text in definitions::TABLES.iter().chain(virtual_definitions::TABLES).chain(&tables::TABLES) {
            let table = ddl::read_table(text, &BTreeMap::new()).expect("the definitions are constant and tested");
            if let Some(keyspace) = keyspaces.get_mut(&table.keyspace) {
                keyspace.tables.insert(table.name.clone(), Arc::new(table));
            }
        }
        for table in stored_tables() {
            if let Some(keyspace) = keyspaces.get_mut(&table.keyspace) {
                keyspace.tables.insert(table.name.clone(), table);
            }
        }
        Self { keyspaces: keyspaces.into_iter().map(|(name, def)| (name, Arc::new(def))).collect() }
    }

    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceDef>> {
        self.keyspaces.get(name)
    }

    pub fn keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceDef>> {
        self.keyspaces.values()
    }
}

impl Default for SystemTables {
    fn default() -> Self {
        Self::new()
    }
}

/// All partitions of a system table, in the order in which its rows were made.
pub fn partitions(table: &TableDef, view: &View<'_>, facts: &Facts) -> Vec<Partition> {
    let always = Stamp { timestamp: 0, ttl_s: 0, now_s: 0 };
    rows::partitions(table, rows::rows(table, view, facts), &always)
}

/// Partitions of rows that are to be stored.
pub(crate) fn stamped_partitions(table: &TableDef, rows: Vec<Values>, stamp: &Stamp) -> Vec<Partition> {
    rows::partitions(table, rows, stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_definition_is_read() {
        let system = SystemTables::new();
        let count: usize = system.keyspaces().map(|keyspace| keyspace.tables.len()).sum();
        let made = definitions::TABLES.len() + virtual_definitions::TABLES.len() + tables::TABLES.len();
        assert_eq!(count, made + stored_tables().len());
        assert!(stored_tables().iter().all(|table| is_stored(table)));
        assert!(system.keyspace("system").is_some_and(|keyspace| keyspace.tables.contains_key("local")));
    }
}
