//! Rows about views and indexes.

use std::collections::BTreeMap;
use std::sync::Arc;

use types::{IndexDef, TableDef, ViewDef};

use super::View;
use super::rows::table_row;
use super::values::{Values, boolean, map, text, uuid};
use crate::schema::describe;

pub(super) fn rows(table: &TableDef, view: &View<'_>) -> Vec<Values> {
    let tables = || view.schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values());
    let views = || tables().filter_map(|def| def.view.as_ref().map(|view| (def, &**view)));
    let built = || views().filter(|(def, _)| (view.is_built)(def.id));
    match (table.keyspace.as_str(), table.name.as_str()) {
        ("system_schema", "views") => views().map(|(def, view)| view_row(def, view)).collect(),
        ("system_schema", "indexes") => {
            tables().flat_map(|def| def.indexes.iter().map(|index| index_row(def, index))).collect()
        }
        ("system", "built_views") => built()
            .map(|(def, _)| {
                BTreeMap::from([
                    ("keyspace_name", text(&def.keyspace)),
                    ("view_name", text(&def.name)),
                    ("status_replicated", boolean(true)),
                ])
            })
            .collect(),
        ("system", "IndexInfo") => built()
            .filter_map(|(def, view)| {
                let index = view.index.as_ref()?;
                // Cassandra puts the keyspace into the column of the table.
                Some(BTreeMap::from([("table_name", text(&def.keyspace)), ("index_name", text(&index.name))]))
            })
            .collect(),
        ("system_distributed", "view_build_status") => views()
            .map(|(def, _)| {
                let status = if (view.is_built)(def.id) { "SUCCESS" } else { "STARTED" };
                BTreeMap::from([
                    ("keyspace_name", text(&def.keyspace)),
                    ("view_name", text(&def.name)),
                    ("host_id", uuid(view.local.host_id)),
                    ("status", text(status)),
                ])
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn view_row(table: &Arc<TableDef>, view: &ViewDef) -> Values {
    let mut values = table_row(table);
    values.remove("table_name");
    values.remove("flags");
    values.insert("view_name", text(&table.name));
    values.insert("base_table_id", uuid(view.base_id.0));
    values.insert("base_table_name", text(&view.base_name));
    values.insert("include_all_columns", boolean(view.include_all_columns));
    values.insert("where_clause", text(&view.where_clause));
    values
}

fn index_row(base: &TableDef, index: &IndexDef) -> Values {
    let mut options = index.options.clone();
    options.insert("target".to_string(), describe::index_option_target(base, index));
    let kind = match &index.class {
        Some(class) => {
            options.insert("class_name".to_string(), class.clone());
            "CUSTOM"
        }
        None => "COMPOSITES",
    };
    BTreeMap::from([
        ("keyspace_name", text(&base.keyspace)),
        ("table_name", text(&base.name)),
        ("index_name", text(&index.name)),
        ("kind", text(kind)),
        ("options", map(&options)),
    ])
}
