//! TRUNCATE: every node must do it, so every node must be alive, as in Cassandra.

use std::rc::Rc;
use std::time::Duration;

use cql::response::ErrorKind;
use types::TableDef;

use crate::error::QueryError;
use crate::node::Node;
use crate::replica::{self, verb};

fn failed(cause: String) -> QueryError {
    QueryError::new(ErrorKind::Truncate, cause)
}

impl Node {
    /// The table's views too.
    pub(crate) async fn truncate(self: &Rc<Self>, table: &TableDef, timeout: Duration) -> Result<(), QueryError> {
        self.truncate_alone(table, timeout).await?;
        if let Some(viewed) = self.viewed(table.id) {
            for view in &viewed.views {
                self.truncate_alone(&view.table, timeout).await?;
            }
        }
        Ok(())
    }

    async fn truncate_alone(self: &Rc<Self>, table: &TableDef, timeout: Duration) -> Result<(), QueryError> {
        if timeout.is_zero() {
            return Err(failed("Truncate timed out before it began".to_string()));
        }
        if let Some(joining) = self.topology().joining() {
            // What it has fetched already would come back.
            return Err(failed(format!(
                "Cannot truncate {}.{}: {} is joining the cluster; truncate it when that has joined",
                table.keyspace, table.name, joining.address
            )));
        }
        let peers: Vec<_> = self.topology().normal().map(|peer| peer.index).filter(|&peer| peer != self.me()).collect();
        if let Some(down) = peers.iter().find(|&&peer| !self.is_alive(peer)) {
            return Err(failed(format!(
                "Cannot truncate {}.{}: node {} is down and must take part",
                table.keyspace,
                table.name,
                self.topology().node(*down).address
            )));
        }
        let mut calls = Vec::new();
        if let Some(messenger) = self.messenger() {
            let payload = table.id.to_bytes();
            for &peer in &peers {
                calls.push((peer, messenger.call(peer, verb::TRUNCATE, &payload, timeout)));
            }
        }
        replica::truncate(self, table.id).await.map_err(failed)?;
        for (peer, call) in calls {
            call.await.map_err(|error| failed(format!("{}: {error}", self.topology().node(peer).address)))?;
        }
        Ok(())
    }
}
