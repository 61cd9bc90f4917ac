//! What the rows of virtual tables are made from beside the node's own view: gathered from every shard, for the one
//! table that is asked for.

use std::rc::Rc;

use storage::Stats;
use types::TableDef;

use crate::clients::ConnectedClient;
use crate::error::{QueryError, server};
use crate::node::Node;
use crate::settings::{self, Kind, Origin, Value};
use crate::snapshots::TableSnapshot;

/// Empty but for what the asked table needs.
#[derive(Default)]
pub struct Facts {
    pub settings: Vec<(&'static str, Kind, Value, Origin)>,
    /// Of each shard.
    pub stats: Vec<Stats>,
    pub clients: Vec<Vec<ConnectedClient>>,
    pub snapshots: Vec<TableSnapshot>,
    pub uptime_ms: u64,
}

impl Facts {
    pub async fn gather(node: &Rc<Node>, table: &TableDef) -> Result<Self, QueryError> {
        let mut facts = Facts { uptime_ms: node.uptime_ms(), ..Facts::default() };
        match (table.keyspace.as_str(), table.name.as_str()) {
            ("system", "config") => {
                let read = |d: &settings::Definition| {
                    let (value, origin) = node.settings.get(d.name)?;
                    Some((d.name, d.kind, value, origin))
                };
                facts.settings = settings::definitions().iter().filter_map(read).collect();
            }
            ("system", "runtime_info" | "size_estimates" | "cluster_status") => {
                let stats = |node: Rc<Node>| async move { node.storage.stats() };
                facts.stats = node.on_every_shard("stats", stats).await.map_err(server)?;
            }
            ("system", "clients") => {
                let clients = |node: Rc<Node>| async move { node.clients.all() };
                facts.clients = node.on_every_shard("clients", clients).await.map_err(server)?;
            }
            ("system", "snapshots") => facts.snapshots = node.snapshots().await?,
            _ => {}
        }
        Ok(facts)
    }
}
