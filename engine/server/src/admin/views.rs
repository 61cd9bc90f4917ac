//! How far views and indexes are built: `storage_service/view_build_statuses`, `column_family/built_indexes`.

use std::rc::Rc;

use query::Node;
use serde_json::json;

use super::{Answer, Refusal};

/// Of this node alone: each node tells of itself.
pub(super) fn build_statuses(node: &Rc<Node>, keyspace: &str, view: &str) -> Answer {
    let status = match node.table(keyspace, view) {
        Ok(table) if table.view.is_none() => return Err(Refusal::NotFound),
        Ok(table) if node.is_view_built(table.id) => "SUCCESS",
        Ok(_) => "STARTED",
        Err(_) => "UNKNOWN",
    };
    let host = node.topology().local().address.to_string();
    Ok(json!([{ "key": host, "value": status }]))
}

/// Names of the indexes of `keyspace:table` that have all of its rows.
pub(super) fn built_indexes(node: &Rc<Node>, table: &str) -> Answer {
    let (keyspace, name) = table.split_once(':').ok_or(Refusal::NotFound)?;
    let table = node.table(keyspace, name).map_err(|_| Refusal::NotFound)?;
    let is_built = |view: &String| node.table(keyspace, view).is_ok_and(|view| node.is_view_built(view.id));
    let built = table.indexes.iter().filter(|index| index.view.as_ref().is_some_and(is_built));
    Ok(json!(built.map(|index| index.name.as_str()).collect::<Vec<_>>()))
}
