//! The schema of the cluster as one node knows it.
//!
//! [`Document`] is the truth: one entry per keyspace and table, each with the time of its last change, dropped ones
//! included. Documents merge by taking the newer entry, so nodes that exchange them in any order agree in the end;
//! `version` names the agreed content. [`Schema`] is the read-only view that statements are planned against.
//!
//! Entries hold the `CREATE` statements themselves: the file on disk, the message between nodes and the answer to
//! `DESCRIBE` are the same text.

pub mod agreement;
pub mod describe;
mod document;

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{KeyspaceDef, TableDef, TableId, UserType};

#[cfg(test)]
pub use document::Document;
pub use document::{Change, ChangeKind, Target};

use crate::access::{self, Access, Resource};

/// A snapshot that every shard of a node shares.
#[derive(Debug, Default)]
pub struct Schema {
    pub version: u128,
    pub keyspaces: BTreeMap<String, Arc<KeyspaceDef>>,
    by_id: BTreeMap<TableId, Arc<TableDef>>,
    /// Who may do what.
    pub(crate) access: Access,
}

impl Schema {
    pub(crate) fn new(version: u128, keyspaces: BTreeMap<String, Arc<KeyspaceDef>>, access: Access) -> Self {
        let by_id = keyspaces
            .values()
            .flat_map(|keyspace| keyspace.tables.values())
            .map(|table| (table.id, table.clone()))
            .collect();
        Self { version, keyspaces, by_id, access }
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

    /// Every table that keeps its rows in storage.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.by_id.values()
    }
}
