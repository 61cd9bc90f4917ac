//! `storage_service`: what is done to a keyspace's tables, or to all.

use std::rc::Rc;
use std::sync::Arc;

use ::cluster::TokenRange;
use query::Node;
use serde_json::json;
use types::{TableDef, TableId, Token};

use super::http::{Method, Request};
use super::{Answer, Refusal};

/// First segments that [`answer`] knows.
pub(super) fn is_about(segment: &str) -> bool {
    matches!(segment, "flush" | "compact" | "cleanup_all" | "auto_compaction" | "sstables" | "keyspaces" | "truncate")
        || segment.starts_with("keyspace_")
}

/// A user's table by names.
pub(super) fn table(node: &Node, keyspace: &str, name: &str) -> Result<Arc<TableDef>, Refusal> {
    let found = node.keyspace(keyspace).and_then(|def| def.tables.get(name).cloned());
    found.ok_or_else(|| Refusal::Wrong(format!("Can't find a column family {name} in keyspace {keyspace}")))
}

/// Those named, or all of the keyspace. System tables keep nothing, so there is nothing to do with them.
pub(super) fn tables(node: &Node, keyspace: &str, names: &[String]) -> Result<Vec<Arc<TableDef>>, Refusal> {
    let def = node.keyspace(keyspace);
    let def = def.ok_or_else(|| Refusal::Wrong(format!("Keyspace {keyspace} Does not exist")))?;
    let chosen: Vec<Arc<TableDef>> = match names {
        [] => def.tables.values().cloned().collect(),
        names => names.iter().map(|name| table(node, keyspace, name)).collect::<Result<_, _>>()?,
    };
    let schema = node.schema();
    Ok(chosen.into_iter().filter(|table| schema.table_by_id(table.id).is_some()).collect())
}

fn ids(tables: &[Arc<TableDef>]) -> Vec<TableId> {
    tables.iter().map(|table| table.id).collect()
}

fn all(node: &Node) -> Vec<TableId> {
    node.schema().tables().map(|table| table.id).collect()
}

/// Does `work` to each table on every shard, one table after the other on each.
pub(super) async fn each<T: Send + 'static, Fut: Future<Output = Result<T, storage::Error>> + 'static>(
    node: &Node,
    tables: Vec<TableId>,
    work: impl Fn(Rc<Node>, TableId) -> Fut + Clone + Send + 'static,
) -> Result<Vec<T>, Refusal> {
    let on_shard = move |node: Rc<Node>| {
        let (tables, work) = (tables.clone(), work.clone());
        async move {
            let mut done = Vec::with_capacity(tables.len());
            for table in tables {
                match work(node.clone(), table).await {
                    Ok(one) => done.push(one),
                    // Dropped meanwhile.
                    Err(storage::Error::UnknownTable(_)) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
            Ok(done)
        }
    };
    let mut done = Vec::new();
    for shard in node.on_every_shard("admin-work", on_shard).await? {
        done.extend(shard.map_err(Refusal::Failed)?);
    }
    Ok(done)
}

async fn flush(node: &Node, tables: Vec<TableId>) -> Result<(), Refusal> {
    each(node, tables, |node, table| async move { node.storage.flush(Some(table)).await }).await.map(drop)
}

async fn compact(node: &Node, tables: Vec<TableId>, request: &Request) -> Result<(), Refusal> {
    if request.flag("flush_memtables", true) {
        flush(node, tables.clone()).await?;
    }
    let split = request.flag("split_output", false);
    each(node, tables, move |node, table| async move { node.storage.compact_all(table, split).await }).await.map(drop)
}

/// The parts of the ring whose data belong here.
fn owned(node: &Node, keyspace: &str) -> Result<Vec<(Token, Token)>, Refusal> {
    let def = node.keyspace(keyspace);
    let def = def.ok_or_else(|| Refusal::Wrong(format!("Keyspace {keyspace} Does not exist")))?;
    let map = node.topology().replication_map(&def.replication).map_err(|error| Refusal::Failed(error.to_string()))?;
    // While a node joins, of both rings.
    let all = std::iter::once(&map).chain(map.other()).flat_map(|map| map.describe());
    let ours = all.filter(|(_, replicas)| replicas.nodes().contains(&node.me()));
    Ok(ours.map(|(TokenRange { start, end }, _)| (start, end)).collect())
}

async fn cleanup(node: &Node, keyspace: &str, tables: Vec<TableId>) -> Result<(), Refusal> {
    let owned = owned(node, keyspace)?;
    let clean = move |node: Rc<Node>, table| {
        let owned = owned.clone();
        async move { node.storage.cleanup(table, &owned).await }
    };
    each(node, tables, clean).await.map(drop)
}

async fn scrub(node: &Node, tables: Vec<TableId>) -> Answer {
    let reports = each(node, tables, |node, table| async move { node.storage.scrub(table).await }).await?;
    for problem in reports.iter().flat_map(|report| &report.problems) {
        tracing::warn!(problem, "found while scrubbing");
    }
    Ok(json!(0))
}

/// Takes in what lies in `upload/`.
async fn refresh(node: &Node, table: &TableDef) -> Result<(), Refusal> {
    let id = table.id;
    each(node, vec![id], |node, table| async move {
        let owns = |token| node.owns_on_this_shard(table, token);
        node.storage.refresh(table, owns).await
    })
    .await?;
    node.storage.clear_upload(id).await?;
    Ok(())
}

pub(super) async fn answer(node: &Rc<Node>, request: &Request, path: &[&str]) -> Answer {
    let named = request.list("cf");
    match (request.method, path) {
        (Method::Get, ["keyspaces"]) => {
            let schema = node.schema();
            let user = schema.keyspaces.keys().cloned();
            let system = node.system_keyspaces().map(|keyspace| keyspace.name.clone());
            match request.parameter("type") {
                Some("user" | "non_local_strategy") => Ok(json!(user.collect::<Vec<_>>())),
                _ => Ok(json!(user.chain(system).collect::<Vec<_>>())),
            }
        }
        (Method::Post, ["flush"]) => flush(node, all(node)).await.map(|()| json!(null)),
        (Method::Post, ["compact"]) => compact(node, all(node), request).await.map(|()| json!(null)),
        (Method::Post, ["cleanup_all"]) => {
            for keyspace in node.schema().keyspaces.keys() {
                cleanup(node, keyspace, ids(&tables(node, keyspace, &[])?)).await?;
            }
            Ok(json!(0))
        }
        (Method::Post, ["keyspace_flush", keyspace]) => {
            flush(node, ids(&tables(node, keyspace, &named)?)).await.map(|()| json!(null))
        }
        (Method::Post, ["keyspace_compaction", keyspace]) => {
            compact(node, ids(&tables(node, keyspace, &named)?), request).await.map(|()| json!(null))
        }
        (Method::Post, ["keyspace_cleanup", keyspace]) => {
            cleanup(node, keyspace, ids(&tables(node, keyspace, &named)?)).await.map(|()| json!(0))
        }
        (Method::Get | Method::Post, ["keyspace_scrub", keyspace]) => {
            scrub(node, ids(&tables(node, keyspace, &named)?)).await
        }
        // Every SSTable is written anew by the current version.
        (Method::Get | Method::Post, ["keyspace_upgrade_sstables", keyspace]) => {
            cleanup(node, keyspace, ids(&tables(node, keyspace, &named)?)).await.map(|()| json!(0))
        }
        (Method::Post, ["keyspace_garbage_collect", keyspace]) => {
            let tables = ids(&tables(node, keyspace, &named)?);
            let collect = |node: Rc<Node>, table| async move { node.storage.garbage_collect(table).await };
            each(node, tables, collect).await.map(|_| json!(0))
        }
        (Method::Post | Method::Delete, ["auto_compaction", keyspace]) => {
            let on = request.method == Method::Post;
            let tables = ids(&tables(node, keyspace, &named)?);
            let set = move |node: Rc<Node>, table| async move { node.storage.set_auto_compaction(table, on) };
            each(node, tables, set).await.map(|_| json!(null))
        }
        (Method::Post, ["sstables", keyspace]) => match named.as_slice() {
            [name] => refresh(node, &*table(node, keyspace, name)?).await.map(|()| json!(null)),
            _ => Err(Refusal::Wrong("column family name must be specified".into())),
        },
        _ => Err(Refusal::NotFound),
    }
}
