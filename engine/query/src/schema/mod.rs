//! The schema of the cluster as one node knows it.
//!
//! [`Document`] is the truth: one entry per keyspace and table, each with the time of its last change, dropped ones
//! included. Documents merge by taking the newer entry, so nodes that exchange them in any order agree in the end;
//! `version` names the agreed content. [`Schema`] is the read-only view that statements are planned against.
//!
//! The nodes that joined since the cluster started are entries too: what is agreed on the schema is agreed on them.
//!
//! Entries hold the `CREATE` statements themselves: the file on disk, the message between nodes and the answer to
//! `DESCRIBE` are the same text.

pub mod agreement;
pub mod describe;
mod document;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use cluster::{Joined, NodeConfig, Topology, TopologyError};
use types::{KeyspaceDef, Replication, TableDef, TableId, UserType};

#[cfg(test)]
pub use document::Document;
pub use document::{Change, ChangeKind, Target};
pub(crate) use document::{unescape, word};

use crate::access::{self, Access, Resource};
use crate::system;

/// A snapshot that every shard of a node shares.
#[derive(Debug, Default)]
pub struct Schema {
    pub version: u128,
    pub keyspaces: BTreeMap<String, Arc<KeyspaceDef>>,
    by_id: BTreeMap<TableId, Arc<TableDef>>,
    /// Who may do what.
    pub(crate) access: Access,
    /// Nodes that joined, in their order.
    pub(crate) joined: Vec<Joined>,
}

impl Schema {
    pub(crate) fn new(
        version: u128,
        keyspaces: BTreeMap<String, Arc<KeyspaceDef>>,
        access: Access,
        joined: Vec<Joined>,
    ) -> Self {
        let by_id = keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
            .map(|table| (table.id, table.clone()))
            .collect();
        Self { version, keyspaces, by_id, access, joined }
    }

    pub fn keyspace(&self, name: &str) -> Option<&Arc<KeyspaceDef>> {
        self.keyspaces.get(name)
    }

    pub fn table(&self, keyspace: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.keyspaces.get(keyspace)?.tables.get(name)
    }

    /// The user types of a keyspace.
    pub fn types_of(&self, keyspace: &str) -> BTreeMap<String, Arc<UserType>> {
        self.keyspaces.get(keyspace).map(|keyspace| keyspace.types.clone()).unwrap_or_default()
    }

    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableDef>> {
        self.by_id.get(&id)
    }

    /// Whether the function or aggregate exists.
    pub(crate) fn has_function(&self, function: &Resource) -> bool {
        let Resource::Function(keyspace, ..) = function else { return false };
        let Some(known) = self.keyspaces.get(keyspace) else { return false };
        let mut signatures = known.functions.keys().chain(known.aggregates.keys());
        signatures.any(|signature| access::function_of(self, keyspace, signature).as_ref() == Some(function))
    }

    /// The nodes of a cluster that started with `starting`, as the node at `local` sees them.
    pub fn topology(&self, starting: &[NodeConfig], local: IpAddr) -> Result<Topology, TopologyError> {
        Topology::with_joined(starting, &self.joined, local)
    }

    /// How keyspaces are replicated, those of the system among them.
    pub(crate) fn replications(&self) -> impl Iterator<Item = (&str, &Replication)> {
        let of_users = self.keyspaces.iter().map(|(name, keyspace)| (name.as_str(), &keyspace.replication));
        of_users.chain(system::REPLICATED.iter().map(|(name, replication)| (*name, replication)))
    }

    /// Every table that keeps its rows in storage.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.by_id.values()
    }
}
