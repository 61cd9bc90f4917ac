//! `compaction_manager`: what compacts, what did, and what is to.

use std::collections::BTreeMap;
use std::rc::Rc;

use query::Node;
use serde_json::{Value, json};
use types::TableId;

use super::http::{Method, Request};
use super::{Answer, Refusal};

/// Names of a table that is still there.
fn names(node: &Node, table: TableId) -> Option<(String, String)> {
    node.schema().table_by_id(table).map(|def| (def.keyspace.clone(), def.name.clone()))
}

async fn pending(node: &Node) -> Result<BTreeMap<TableId, u64>, Refusal> {
    let stats = node.on_every_shard("stats", |node| async move { node.storage.stats() }).await?;
    let mut by_table = BTreeMap::new();
    for (id, table) in stats.into_iter().flat_map(|stats| stats.tables) {
        *by_table.entry(id).or_default() += table.pending_compactions;
    }
    Ok(by_table)
}

async fn running(node: &Node) -> Answer {
    let all = node.on_every_shard("compactions", |node| async move { node.storage.compactions() }).await?;
    let entry = |one: storage::CompactionProgress| {
        let (keyspace, table) = names(node, one.table)?;
        Some(json!({
            "id": one.id.to_string(), "task_type": one.kind.name(), "ks": keyspace, "cf": table,
            "completed": one.bytes_read, "total": one.bytes_total, "unit": "bytes",
        }))
    };
    Ok(all.into_iter().flatten().filter_map(entry).collect())
}

async fn history(node: &Rc<Node>) -> Answer {
    let entry = |one: query::CompactionEntry| {
        let merged: Vec<Value> =
            one.rows_merged.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect();
        json!({
            "id": types::uuid::to_text(&one.id), "shard_id": one.shard, "ks": one.keyspace, "cf": one.table,
            "compaction_type": one.kind, "started_at": one.started_ms, "compacted_at": one.compacted_ms,
            "bytes_in": one.bytes_in, "bytes_out": one.bytes_out, "rows_merged": merged,
        })
    };
    Ok(node.compaction_history().await?.into_iter().map(entry).collect())
}

async fn sum(node: &Node, count: fn(&storage::TableStats) -> u64) -> Answer {
    let stats = node.on_every_shard("stats", |node| async move { node.storage.stats() }).await?;
    Ok(json!(stats.iter().flat_map(|stats| stats.tables.values()).map(count).sum::<u64>()))
}

pub(super) async fn answer(node: &Rc<Node>, request: &Request, path: &[&str]) -> Answer {
    match (request.method, path) {
        (Method::Get, ["compactions"]) => running(node).await,
        (Method::Get, ["compaction_history"]) => history(node).await,
        (Method::Get, ["compaction_info"]) => running(node).await,
        (Method::Post, ["stop_compaction"]) => {
            let stop = |node: Rc<Node>| async move { node.storage.stop_compactions(None) };
            node.on_every_shard("stop-compactions", stop).await?;
            Ok(Value::Null)
        }
        (Method::Post, ["stop_keyspace_compaction", keyspace]) => {
            let named = request.list("tables");
            let tables: Vec<TableId> =
                super::keyspaces::tables(node, keyspace, &named)?.iter().map(|table| table.id).collect();
            super::keyspaces::each(node, tables, |node, table| async move {
                Ok(node.storage.stop_compactions(Some(table)))
            })
            .await?;
            Ok(Value::Null)
        }
        (Method::Get, ["metrics", "pending_tasks"]) => Ok(json!(pending(node).await?.values().sum::<u64>())),
        (Method::Get, ["metrics", "pending_tasks_by_table"]) => {
            let entry = |(id, task): (TableId, u64)| {
                let (keyspace, table) = names(node, id).filter(|_| task > 0)?;
                Some(json!({ "ks": keyspace, "cf": table, "task": task }))
            };
            Ok(pending(node).await?.into_iter().filter_map(entry).collect())
        }
        (Method::Get, ["metrics", "completed_tasks"]) => sum(node, |table| table.compactions).await,
        (Method::Get, ["metrics", "total_compactions_completed"]) => sum(node, |table| table.compactions).await,
        (Method::Get, ["metrics", "bytes_compacted"]) => sum(node, |table| table.compacted_bytes).await,
        _ => Err(Refusal::NotFound),
    }
}
