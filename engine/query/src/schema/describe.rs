//! Definitions as the CQL statements that create them.

use std::collections::BTreeMap;
use std::fmt::Write;

use cql::lexer::quote_identifier as identifier;
use types::{
    AggregateDef, ColumnDef, ColumnKind, CqlType, DroppedColumn, FunctionDef, IndexDef, IndexPart, KeyspaceDef,
    TableDef, TableId, TableOptions, UserType, ViewDef,
};

use crate::error::{QueryError, invalid};

pub fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn map<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let entries: Vec<String> = pairs.into_iter().map(|(k, v)| format!("{}: {}", string(k), string(v))).collect();
    format!("{{{}}}", entries.join(", "))
}

pub fn map_of(entries: &BTreeMap<String, String>) -> String {
    map(entries.iter().map(|(key, value)| (key.as_str(), value.as_str())))
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

/// A tuple without the `frozen` that is said of it by itself.
fn plain(ty: &CqlType) -> String {
    let text = ty.to_string();
    match text.strip_prefix("frozen<").and_then(|rest| rest.strip_suffix('>')) {
        Some(tuple) if matches!(ty.unfrozen(), CqlType::Tuple(_)) => tuple.to_string(),
        _ => text,
    }
}

pub fn function(def: &FunctionDef) -> String {
    let arguments = def.arguments.iter().map(|(name, ty)| format!("{} {}", identifier(name), plain(ty)));
    let on_null = if def.called_on_null_input { "CALLED" } else { "RETURNS NULL" };
    let is_plain = !def.body.contains("$$") && !def.body.ends_with('$');
    let body = if is_plain { format!("$${}$$", def.body) } else { string(&def.body) };
    format!(
        "CREATE FUNCTION {}.{}({})\n{on_null} ON NULL INPUT\nRETURNS {}\nLANGUAGE {}\nAS {body}",
        identifier(&def.keyspace),
        identifier(&def.name),
        arguments.collect::<Vec<_>>().join(", "),
        plain(&def.returns),
        def.language
    )
}

pub fn aggregate(def: &AggregateDef) -> String {
    let arguments: Vec<String> = def.arguments.iter().map(ToString::to_string).collect();
    let mut text = format!(
        "CREATE AGGREGATE {}.{} ({})\n    SFUNC {}\n    STYPE {}",
        identifier(&def.keyspace),
        identifier(&def.name),
        arguments.join(", "),
        identifier(&def.state_function),
        def.state_type
    );
    for (word, name) in [("REDUCEFUNC", &def.reduce_function), ("FINALFUNC", &def.final_function)] {
        if let Some(name) = name {
            let _ = write!(text, "\n    {word} {}", identifier(name));
        }
    }
    if let Some(initial) = &def.initial {
        let _ = write!(text, "\n    INITCOND {initial}");
    }
    text
}

pub fn table(table: &TableDef) -> String {
    let mut text = format!("CREATE TABLE {}.{} (\n", identifier(&table.keyspace), identifier(&table.name));
    let columns = |list: &[ColumnDef], suffix: &str| -> String {
        let ttl = |c: &ColumnDef| if table.options.row_ttl.as_ref() == Some(&c.name) { " TTL" } else { "" };
        let mask = |c: &ColumnDef| table.masks.get(&c.name).map(|mask| format!(" MASKED WITH {mask}"));
        let column = |c: &ColumnDef| {
            format!("    {} {}{suffix}{}{},\n", identifier(&c.name), c.ty, ttl(c), mask(c).unwrap_or_default())
        };
        list.iter().map(column).collect()
    };
    text += &columns(&table.partition_key, "");
    text += &columns(&table.clustering, "");
    text += &columns(&table.statics, " static");
    text += &columns(&table.regulars, "");
    text += &format!("    {}\n) WITH ", primary_key(table));
    text += &options(table);
    text
}

fn primary_key(table: &TableDef) -> String {
    let names = |list: &[ColumnDef]| list.iter().map(|c| identifier(&c.name)).collect::<Vec<_>>().join(", ");
    let partition = names(&table.partition_key);
    let partition = if table.partition_key.len() > 1 { format!("({partition})") } else { partition };
    let separator = if table.clustering.is_empty() { "" } else { ", " };
    format!("PRIMARY KEY ({partition}{separator}{})", names(&table.clustering))
}

/// What stands behind WITH.
fn options(table: &TableDef) -> String {
    let mut text = String::new();
    if !table.clustering.is_empty() {
        let order = |c: &ColumnDef| format!("{} {}", identifier(&c.name), if c.descending { "DESC" } else { "ASC" });
        let order = table.clustering.iter().map(order).collect::<Vec<_>>().join(", ");
        let _ = write!(text, "CLUSTERING ORDER BY ({order})\n    AND ");
    }
    text + &properties(table)
}

/// What stands between properties.
const AND: &str = "\n    AND ";

fn properties(table: &TableDef) -> String {
    property_list(&table.options).join(AND)
}

fn property_list(options: &TableOptions) -> Vec<String> {
    let mut list = vec![
        format!("bloom_filter_fp_chance = {:?}", options.bloom_filter_fp_chance),
        format!("caching = {}", map_of(&options.caching)),
        format!("comment = {}", string(&options.comment)),
        format!("compaction = {}", map_of(&options.compaction)),
        format!("compression = {}", map_of(&options.compression)),
        format!("default_time_to_live = {}", options.default_time_to_live_s),
        format!("gc_grace_seconds = {}", options.gc_grace_seconds),
    ];
    if !options.cdc.is_empty() {
        list.push(format!("cdc = {}", map_of(&options.cdc)));
    }
    list.extend(options.other.iter().map(|(name, value)| format!("{name} = {value}")));
    list
}

/// What is to be done to a log of changes, which is made with its table.
pub fn properties_of_log(log: &TableDef) -> String {
    format!("ALTER TABLE {}.{} WITH {}", identifier(&log.keyspace), identifier(&log.name), properties(log))
}

/// The statement of a log of changes, which nobody executes.
pub fn log_for_reading(statement: &str) -> String {
    format!(
        "/* Do NOT execute this statement! It's only for informational purposes.\n   A CDC log table is created \
         automatically when creating the base with CDC\n   enabled option or creating the vector index on the base \
         table's vector column.\n\n{statement};\n*/"
    )
}

/// A view's statement.
pub fn view(table: &TableDef, view: &ViewDef) -> String {
    let selected = match view.include_all_columns {
        true => "*".to_string(),
        false => table.columns().map(|column| identifier(&column.name)).collect::<Vec<_>>().join(", "),
    };
    let key = table.partition_key.iter().chain(&table.clustering);
    let filter = match view.where_clause.as_str() {
        "" => key.map(|column| format!("{} IS NOT NULL", identifier(&column.name))).collect::<Vec<_>>().join(" AND "),
        filter => filter.to_string(),
    };
    let (keyspace, name, base) = (identifier(&table.keyspace), identifier(&table.name), identifier(&view.base_name));
    format!(
        "CREATE MATERIALIZED VIEW {keyspace}.{name} AS\n    SELECT {selected}\n    FROM {keyspace}.{base}\n    \
         WHERE {}\n    {}\n WITH {}",
        filter,
        primary_key(table),
        options(table)
    )
}

pub fn view_with_id(table: &TableDef, def: &ViewDef) -> String {
    format!("{} AND id = {}", view(table, def), string(&table.id.to_string()))
}

/// What an index is on, as in its statement: `v`, `keys(m)`, `(p, q), v`.
pub fn index_target(base: &TableDef, index: &IndexDef) -> String {
    let column = identifier(&index.target.column);
    let target = match index.target.part {
        IndexPart::Whole => column,
        part => format!("{}({column})", part.name()),
    };
    if !index.is_local {
        return target;
    }
    let key: Vec<String> = base.partition_key.iter().map(|column| identifier(&column.name)).collect();
    format!("({}), {target}", key.join(", "))
}

/// As `system_schema.indexes` has it: of a local index as JSON, of a full one the bare column, as Scylla.
pub fn index_option_target(base: &TableDef, index: &IndexDef) -> String {
    if index.is_local {
        let key: Vec<String> = base.partition_key.iter().map(|column| format!("{:?}", column.name)).collect();
        return format!("{{\"pk\":[{}],\"ck\":[{:?}]}}", key.join(","), index.target.column);
    }
    match index.target.part {
        IndexPart::Full => identifier(&index.target.column),
        _ => index_target(base, index),
    }
}

/// An index's statement.
pub fn index(base: &TableDef, index: &IndexDef) -> String {
    let custom = if index.class.is_some() { "CUSTOM " } else { "" };
    let mut text = format!(
        "CREATE {custom}INDEX {} ON {}.{}({})",
        identifier(&index.name),
        identifier(&base.keyspace),
        identifier(&base.name),
        index_target(base, index)
    );
    if let Some(class) = &index.class {
        let _ = write!(text, " USING {}", string(class));
    }
    if !index.options.is_empty() {
        let options = index.options.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let _ = write!(text, " WITH OPTIONS = {}", map(options));
    }
    text
}

/// With the properties of the view that holds the index's contents.
pub fn index_with_properties(base: &TableDef, def: &IndexDef, view: &TableDef) -> String {
    format!("{} {} {}", index(base, def), with_or_and(def), properties(view))
}

/// With the view's id and all of its properties.
pub fn index_with_internals(base: &TableDef, def: &IndexDef, view: &TableDef) -> String {
    let (id, properties) = (types::uuid::to_text(&view.id.0.to_be_bytes()), properties(view));
    format!("{} {} ID = {id}{AND}{properties}", index(base, def), with_or_and(def))
}

fn with_or_and(def: &IndexDef) -> &'static str {
    if def.options.is_empty() { "WITH" } else { "AND" }
}

/// The view that holds an index's contents, which nobody makes.
pub fn index_view(table: &TableDef, def: &ViewDef) -> String {
    format!(
        "/* Do NOT execute this statement! It's only for informational purposes.\n   This materialized view is the \
         underlying materialized view of a secondary\n   index. It can be restored via restoring the index.\n\n{};\n*/",
        view(table, def)
    )
}

/// With the options and the id of the view that holds the index's contents.
pub fn index_with_id(base: &TableDef, def: &IndexDef, view: &TableDef) -> String {
    let (with, id) = (with_or_and(def), string(&view.id.to_string()));
    format!("{} {with} {} AND id = {id}", index(base, def), properties(view))
}

/// The table's statement with its id, so that the table keeps its identity when the statement is read again.
pub fn table_with_id(def: &TableDef) -> String {
    let TableId(id) = def.id;
    let mut text = format!("{} AND id = {}", table(def), string(&types::uuid::to_text(&id.to_be_bytes())));
    if !def.dropped.is_empty() {
        let told = |(name, dropped): (&String, &DroppedColumn)| {
            let kind = if dropped.is_static { "static" } else { "regular" };
            format!("{}: {}", string(name), string(&format!("{} {kind} {}", dropped.dropped_us, dropped.ty)))
        };
        let all: Vec<String> = def.dropped.iter().map(told).collect();
        let _ = write!(text, " AND dropped_columns = {{{}}}", all.join(", "));
    }
    text
}

/// What CREATE TABLE and ALTER TABLE made of the table, dropped columns included, so that SSTables of it can be read.
pub fn table_with_internals(def: &TableDef) -> String {
    let mut before = def.clone();
    for (name, dropped) in &def.dropped {
        let Ok(ty) = CqlType::parse(&dropped.ty) else { continue };
        if def.column(name).is_none() {
            let kind = if dropped.is_static { ColumnKind::Static } else { ColumnKind::Regular };
            let list = if dropped.is_static { &mut before.statics } else { &mut before.regulars };
            list.push(ColumnDef { name: name.clone(), ty, kind, descending: false });
            list.sort_by(|a, b| a.name.cmp(&b.name));
        }
    }
    let TableId(id) = def.id;
    let mut text = format!("{} AND id = {}", table(&before), types::uuid::to_text(&id.to_be_bytes()));
    let name = format!("{}.{}", identifier(&def.keyspace), identifier(&def.name));
    for (column, dropped) in &def.dropped {
        let (quoted, at_us) = (identifier(column), dropped.dropped_us);
        let _ = write!(text, ";\nALTER TABLE {name} DROP {quoted} USING TIMESTAMP {at_us}");
        if def.column(column).is_some() {
            let is_static = if dropped.is_static { " static" } else { "" };
            let _ = write!(text, ";\nALTER TABLE {name} ADD {quoted} {}{is_static}", dropped.ty);
        }
    }
    text
}

/// The `dropped_columns` of [`table_with_id`]: `'name': 'microseconds kind type'`.
pub fn read_dropped(told: &BTreeMap<String, String>) -> Result<BTreeMap<String, DroppedColumn>, QueryError> {
    let read = |(name, text): (&String, &String)| {
        let mut parts = text.splitn(3, ' ');
        let dropped_us = parts.next().and_then(|time| time.parse().ok());
        let (Some(dropped_us), Some(kind), Some(ty)) = (dropped_us, parts.next(), parts.next()) else {
            return Err(invalid!("dropped column {name}: {text}"));
        };
        Ok((name.clone(), DroppedColumn { ty: ty.to_string(), is_static: kind == "static", dropped_us }))
    };
    told.iter().map(read).collect()
}
