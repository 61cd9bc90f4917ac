//! Snapshots of the whole node: every shard links its own files, and one of them describes what all have linked.

use std::rc::Rc;
use std::sync::Arc;

use types::TableDef;

use crate::error::{QueryError, invalid, server};
use crate::node::Node;
use crate::schema::describe;

/// One snapshot of one table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableSnapshot {
    pub tag: String,
    pub keyspace: String,
    pub table: String,
    /// Bytes of files that are the snapshot's alone, and of all its files.
    pub live_bytes: u64,
    pub total_bytes: u64,
    pub created_s: Option<u64>,
    pub expires_s: Option<u64>,
}

impl Node {
    /// Takes a snapshot of `tables` under one tag, of what is in memory too unless `skip_flush`. A tag that one of
    /// them has already is refused before anything is done. After `ttl_s` it is removed by itself.
    pub async fn take_snapshot(
        self: &Rc<Self>,
        tables: &[Arc<TableDef>],
        tag: &str,
        skip_flush: bool,
        ttl_s: Option<u64>,
    ) -> Result<(), QueryError> {
        let known = self.storage.snapshots().await.map_err(server)?;
        for table in tables {
            if known.iter().any(|snapshot| snapshot.table == table.id && snapshot.tag == tag) {
                return Err(invalid!("Keyspace {}: snapshot {tag} already exists.", table.keyspace));
            }
        }
        let now_s = reactor::wall_us() / 1_000_000;
        for table in tables {
            let (id, tag) = (table.id, tag.to_string());
            let link = move |node: Rc<Node>| {
                let tag = tag.clone();
                async move {
                    let linked = match skip_flush {
                        true => node.storage.snapshot_on_disk(id, &tag).await,
                        false => node.storage.snapshot(id, &tag).await,
                    };
                    linked.map_err(|error| error.to_string())
                }
            };
            for linked in self.on_every_shard("snapshot", link).await.map_err(server)? {
                linked.map_err(server)?;
            }
        }
        for table in tables {
            let schema = describe::table_with_id(table);
            let times = (now_s, ttl_s.filter(|ttl| *ttl > 0).map(|ttl| now_s + ttl));
            self.storage.describe_snapshot(table.id, tag, &schema, times).await.map_err(server)?;
        }
        Ok(())
    }

    /// All snapshots of tables that there are, by tag.
    pub async fn snapshots(&self) -> Result<Vec<TableSnapshot>, QueryError> {
        let schema = self.schema();
        let mut all = Vec::new();
        for snapshot in self.storage.snapshots().await.map_err(server)? {
            let Some(table) = schema.table_by_id(snapshot.table) else { continue };
            all.push(TableSnapshot {
                tag: snapshot.tag,
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
                live_bytes: snapshot.live_bytes,
                total_bytes: snapshot.total_bytes,
                created_s: snapshot.created_s,
                expires_s: snapshot.expires_s,
            });
        }
        all.sort();
        Ok(all)
    }

    /// Removes snapshots: of one tag or of all, in some keyspaces or in all (`&[]`), of one table or of all.
    pub async fn clear_snapshots(
        &self,
        tag: Option<&str>,
        keyspaces: &[String],
        table: Option<&str>,
    ) -> Result<usize, QueryError> {
        let mut cleared = 0;
        for def in self.schema().tables() {
            let is_meant = keyspaces.is_empty() || keyspaces.contains(&def.keyspace);
            if is_meant && table.is_none_or(|table| table == def.name) {
                cleared += self.storage.clear_snapshots(def.id, tag).await.map_err(server)?;
            }
        }
        Ok(cleared)
    }

    /// Removes what has outlived its time.
    pub async fn clear_expired_snapshots(&self) -> Result<usize, QueryError> {
        let now_s = reactor::wall_us() / 1_000_000;
        let mut cleared = 0;
        for snapshot in self.storage.snapshots().await.map_err(server)? {
            if snapshot.expires_s.is_some_and(|at| at <= now_s) {
                cleared += self.storage.clear_snapshots(snapshot.table, Some(&snapshot.tag)).await.map_err(server)?;
            }
        }
        Ok(cleared)
    }
}
