//! `DESCRIBE`, executed by the server as since Cassandra 4.0: rows of `system.describe`.

use std::collections::BTreeMap;

use cql::response::{ColumnSpec, EncodedMetadata, RowsWriter};
use types::{CqlType, KeyspaceDef};

use crate::error::{QueryError, invalid};
use crate::node::Node;
use crate::schema::describe;
use crate::system;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Describe {
    Cluster,
    Keyspaces,
    Tables,
    /// All of the schema, with the system keyspaces if `FULL`.
    Schema {
        full: bool,
    },
    Keyspace(Option<String>),
    Table(Option<String>, String),
    View(Option<String>, String),
    Index(Option<String>, String),
    /// `DESCRIBE name`: a keyspace, or a table of the session's keyspace.
    Any(String),
}

impl Describe {
    /// `None` when the text is not a DESCRIBE at all.
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().trim_end_matches(';').trim();
        let mut words = text.split_ascii_whitespace();
        let first = words.next()?.to_ascii_lowercase();
        if first != "describe" && first != "desc" {
            return None;
        }
        let words: Vec<&str> = words.collect();
        let lower: Vec<String> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
        let name = |word: &str| match word.strip_prefix('"').and_then(|word| word.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => word.to_ascii_lowercase(),
        };
        let lower: Vec<&str> = lower.iter().map(String::as_str).collect();
        Some(match (lower.as_slice(), words.as_slice()) {
            (["cluster"], _) => Describe::Cluster,
            (["keyspaces"], _) => Describe::Keyspaces,
            (["tables"], _) => Describe::Tables,
            (["schema"], _) => Describe::Schema { full: false },
            (["full", "schema"], _) => Describe::Schema { full: true },
            (["keyspace"], _) => Describe::Keyspace(None),
            (["keyspace", _], [_, keyspace]) => Describe::Keyspace(Some(name(keyspace))),
            (["table" | "columnfamily", _], [_, table]) => match table.split_once('.') {
                Some((keyspace, table)) => Describe::Table(Some(name(keyspace)), name(table)),
                None => Describe::Table(None, name(table)),
            },
            (["materialized", "view", _], [_, _, view]) => match view.split_once('.') {
                Some((keyspace, view)) => Describe::View(Some(name(keyspace)), name(view)),
                None => Describe::View(None, name(view)),
            },
            (["index", _], [_, index]) => match index.split_once('.') {
                Some((keyspace, index)) => Describe::Index(Some(name(keyspace)), name(index)),
                None => Describe::Index(None, name(index)),
            },
            (_, [any]) => match any.split_once('.') {
                Some((keyspace, table)) => Describe::Table(Some(name(keyspace)), name(table)),
                None => Describe::Any(name(any)),
            },
            _ => return None,
        })
    }

    /// Body of the answer.
    pub fn execute(&self, node: &Node, current: Option<&str>) -> Result<Vec<u8>, QueryError> {
        let mut all: BTreeMap<String, std::sync::Arc<KeyspaceDef>> = node.schema().keyspaces.clone();
        all.extend(node.system.keyspaces().map(|keyspace| (keyspace.name.clone(), keyspace.clone())));
        let find = |name: &str| all.get(name).ok_or_else(|| invalid!("'{name}' not found in keyspaces"));
        let current = || current.ok_or_else(|| invalid!("No keyspace specified and no current keyspace"));
        let element = |keyspace: &str, kind: &str, name: &str| vec![keyspace.into(), kind.into(), name.into()];
        let created = |keyspace: &str, kind: &str, name: &str, text: String| {
            let mut row: Vec<String> = element(keyspace, kind, name);
            row.push(text + ";");
            row
        };
        let with_indexes = |keyspace: &str, table: &types::TableDef| {
            let mut rows = vec![created(keyspace, "table", &table.name, describe::table(table))];
            let index =
                |index: &types::IndexDef| created(keyspace, "index", &index.name, describe::index(table, index));
            rows.extend(table.indexes.iter().map(index));
            rows
        };
        let view_row = |keyspace: &str, table: &types::TableDef| {
            let view = table.view.as_ref().filter(|view| view.index.is_none())?;
            Some(created(keyspace, "materialized_view", &table.name, describe::view(table, view)))
        };
        let whole = |def: &KeyspaceDef| {
            let mut rows = vec![created(&def.name, "keyspace", &def.name, describe::keyspace(def))];
            let user_type =
                |udt: &std::sync::Arc<types::UserType>| created(&def.name, "type", &udt.name, describe::user_type(udt));
            rows.extend(def.types.values().map(user_type));
            let functions = def.functions.iter();
            rows.extend(functions.map(|(name, one)| created(&def.name, "function", name, describe::function(one))));
            let aggregates = def.aggregates.iter();
            rows.extend(aggregates.map(|(name, one)| created(&def.name, "aggregate", name, describe::aggregate(one))));
            // Views behind the tables that they are of.
            let bases = def.tables.values().filter(|table| table.view.is_none());
            rows.extend(bases.flat_map(|table| with_indexes(&def.name, table)));
            rows.extend(def.tables.values().filter_map(|view| view_row(&def.name, view)));
            rows
        };
        let listed = ["keyspace_name", "type", "name"];
        let statements = ["keyspace_name", "type", "name", "create_statement"];
        Ok(match self {
            Describe::Cluster => rows(
                &["cluster", "partitioner", "snitch"],
                vec![vec![node.config.cluster_name.clone(), "Murmur3Partitioner".into(), "SimpleSnitch".into()]],
            ),
            Describe::Keyspaces => rows(&listed, all.keys().map(|name| element(name, "keyspace", name)).collect()),
            Describe::Tables => {
                let shown: Vec<_> = match current() {
                    Ok(keyspace) => vec![find(keyspace)?],
                    Err(_) => all.values().collect(),
                };
                let tables = |def: &&std::sync::Arc<KeyspaceDef>| -> Vec<Vec<String>> {
                    let tables = def.tables.values().filter(|table| table.view.is_none());
                    tables.map(|table| element(&def.name, "table", &table.name)).collect()
                };
                rows(&listed, shown.iter().flat_map(tables).collect())
            }
            Describe::Schema { full } => {
                let shown = all.values().filter(|def| *full || !system::is_system(&def.name));
                rows(&statements, shown.flat_map(|def| whole(def)).collect())
            }
            Describe::Keyspace(name) => {
                let name = name.as_deref().map_or_else(current, Ok)?;
                rows(&statements, whole(find(name)?))
            }
            Describe::Table(keyspace, table) => {
                let keyspace = keyspace.as_deref().map_or_else(current, Ok)?;
                let def = find(keyspace)?;
                let Some(found) = def.tables.get(table).filter(|found| found.view.is_none()) else {
                    return Err(invalid!("Table '{table}' not found in keyspace '{keyspace}'"));
                };
                let mut all = with_indexes(keyspace, found);
                let views =
                    def.tables.values().filter(|view| view.view.as_ref().is_some_and(|v| v.base_id == found.id));
                all.extend(views.filter_map(|view| view_row(keyspace, view)));
                rows(&statements, all)
            }
            Describe::View(keyspace, view) => {
                let keyspace = keyspace.as_deref().map_or_else(current, Ok)?;
                let found = find(keyspace)?.tables.get(view).and_then(|found| view_row(keyspace, found));
                let missing = || invalid!("Materialized view '{view}' not found in keyspace '{keyspace}'");
                rows(&statements, vec![found.ok_or_else(missing)?])
            }
            Describe::Index(keyspace, index) => {
                let keyspace = keyspace.as_deref().map_or_else(current, Ok)?;
                let indexed = |table: &&std::sync::Arc<types::TableDef>| table.indexes.iter().any(|i| i.name == *index);
                let Some(table) = find(keyspace)?.tables.values().find(indexed) else {
                    return Err(invalid!("Table for existing index '{index}' not found in '{keyspace}'"));
                };
                let found =
                    with_indexes(keyspace, table).into_iter().filter(|row| row[1] == "index" && row[2] == *index);
                rows(&statements, found.collect())
            }
            Describe::Any(name) if all.contains_key(name) => rows(&statements, whole(find(name)?)),
            Describe::Any(name) => {
                let keyspace = current().map_err(|_| invalid!("'{name}' not found in keyspaces"))?;
                let Some(table) = find(keyspace)?.tables.get(name) else {
                    return Err(invalid!("'{name}' not found in keyspace '{keyspace}'"));
                };
                let single = view_row(keyspace, table);
                rows(&statements, single.map_or_else(|| with_indexes(keyspace, table), |row| vec![row]))
            }
        })
    }
}

fn rows(columns: &[&str], rows: Vec<Vec<String>>) -> Vec<u8> {
    let specs: Vec<ColumnSpec> =
        columns.iter().map(|name| ColumnSpec::new("system", "describe", name, CqlType::Text)).collect();
    let mut out = Vec::new();
    let mut writer = RowsWriter::begin(&mut out, &EncodedMetadata::new(&specs), false, None);
    for row in rows {
        for cell in &row {
            writer.cell(&mut out, Some(cell.as_bytes()));
        }
        writer.end_row();
    }
    writer.finish(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let check = |text: &str, expect: Option<Describe>| assert_eq!(Describe::parse(text), expect, "{text}");
        check("DESCRIBE KEYSPACES;", Some(Describe::Keyspaces));
        check("desc table Ks.\"T\" ;", Some(Describe::Table(Some("ks".into()), "T".into())));
        check("describe keyspace", Some(Describe::Keyspace(None)));
        check("DESC x", Some(Describe::Any("x".into())));
        check("SELECT 1", None);
        check("described", None);
    }
}
