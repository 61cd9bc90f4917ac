//! Definitions as the CQL statements that create them.

use std::fmt::Write;

use cql::lexer::quote_identifier as identifier;
use types::{ColumnDef, KeyspaceDef, TableDef, TableId, UserType};

pub fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn map<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let entries: Vec<String> = pairs.into_iter().map(|(k, v)| format!("{}: {}", string(k), string(v))).collect();
    format!("{{{}}}", entries.join(", "))
}

pub fn keyspace(keyspace: &KeyspaceDef) -> String {
    let options = keyspace.replication.to_options();
    format!(
        "CREATE KEYSPACE {} WITH replication = {} AND durable_writes = {}",
        identifier(&keyspace.name),
        map(options.iter().map(|(k, v)| (k.as_str(), v.as_str()))),
        keyspace.durable_writes
    )
}

pub fn user_type(udt: &UserType) -> String {
    let fields = udt.fields.iter().map(|(name, ty)| format!("    {} {ty}", identifier(name)));
    let fields = fields.collect::<Vec<_>>().join(",\n");
    format!("CREATE TYPE {}.{} (\n{fields}\n)", identifier(&udt.keyspace), identifier(&udt.name))
}

pub fn table(table: &TableDef) -> String {
    let mut text = format!("CREATE TABLE {}.{} (\n", identifier(&table.keyspace), identifier(&table.name));
    let columns = |list: &[ColumnDef], suffix: &str| -> String {
        list.iter().map(|c| format!("    {} {}{suffix},\n", identifier(&c.name), c.ty)).collect()
    };
    text += &columns(&table.partition_key, "");
    text += &columns(&table.clustering, "");
    text += &columns(&table.statics, " static");
    text += &columns(&table.regulars, "");
    let names = |list: &[ColumnDef]| list.iter().map(|c| identifier(&c.name)).collect::<Vec<_>>().join(", ");
    let partition = names(&table.partition_key);
    let partition = if table.partition_key.len() > 1 { format!("({partition})") } else { partition };
    let separator = if table.clustering.is_empty() { "" } else { ", " };
    let _ = write!(text, "    PRIMARY KEY ({partition}{separator}{})\n)", names(&table.clustering));
    text += " WITH ";
    if !table.clustering.is_empty() {
        let order = |c: &ColumnDef| format!("{} {}", identifier(&c.name), if c.descending { "DESC" } else { "ASC" });
        let order = table.clustering.iter().map(order).collect::<Vec<_>>().join(", ");
        let _ = write!(text, "CLUSTERING ORDER BY ({order})\n    AND ");
    }
    let options = &table.options;
    let maps = |m: &std::collections::BTreeMap<String, String>| map(m.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    let _ = write!(text, "bloom_filter_fp_chance = {:?}", options.bloom_filter_fp_chance);
    let _ = write!(text, "\n    AND caching = {}", maps(&options.caching));
    let _ = write!(text, "\n    AND comment = {}", string(&options.comment));
    let _ = write!(text, "\n    AND compaction = {}", maps(&options.compaction));
    let _ = write!(text, "\n    AND compression = {}", maps(&options.compression));
    let _ = write!(text, "\n    AND default_time_to_live = {}", options.default_time_to_live_s);
    let _ = write!(text, "\n    AND gc_grace_seconds = {}", options.gc_grace_seconds);
    for (name, value) in &options.other {
        let _ = write!(text, "\n    AND {name} = {value}");
    }
    text
}

/// The table's statement with its id, so that the table keeps its identity when the statement is read again.
pub fn table_with_id(def: &TableDef) -> String {
    let TableId(id) = def.id;
    format!("{} AND id = {}", table(def), string(&types::uuid::to_text(&id.to_be_bytes())))
}
