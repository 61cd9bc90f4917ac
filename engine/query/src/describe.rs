//! `DESCRIBE`, executed by the server as since Cassandra 4.0: rows of `system.describe`.
//!
//! Names are shown as CQL writes them, in quotes where they need some; a statement that is shown creates its element
//! again as it is.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use cql::lexer::{self, TokenKind, quote_identifier as identifier};
use cql::response::{ColumnSpec, EncodedMetadata, RowsWriter};
use types::{CqlType, KeyspaceDef, TableDef, collection};

use crate::ddl::cdc;
use crate::error::{QueryError, invalid};
use crate::execute::Client;
use crate::node::Node;
use crate::schema::describe;
use crate::system;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Table,
    Type,
    Function,
    Aggregate,
    View,
    Index,
}

impl Kind {
    /// In the order in which `DESCRIBE name` looks for one.
    const ALL: [Kind; 6] = [Kind::Table, Kind::View, Kind::Index, Kind::Type, Kind::Function, Kind::Aggregate];

    fn name(self) -> &'static str {
        match self {
            Kind::Table => "table",
            Kind::Type => "type",
            Kind::Function => "function",
            Kind::Aggregate => "aggregate",
            Kind::View => "view",
            Kind::Index => "index",
        }
    }

    fn missing(self, keyspace: &str, name: &str) -> QueryError {
        match self {
            Kind::Table => invalid!("Table '{name}' not found in keyspace '{keyspace}'"),
            Kind::View => invalid!("Materialized view '{name}' not found in keyspace '{keyspace}'"),
            Kind::Index => invalid!("Table for existing index '{name}' not found in '{keyspace}'"),
            kind => invalid!("User defined {} '{name}' not found in '{keyspace}'", kind.name()),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Cluster,
    Keyspaces,
    /// `DESCRIBE TABLES` and its like: of the session's keyspace if there is one.
    List(Kind),
    /// All of the schema, with the system keyspaces if `FULL`.
    Schema {
        full: bool,
    },
    /// With its elements unless `ONLY`; without a name the session's.
    Keyspace {
        name: Option<String>,
        only: bool,
    },
    Element(Kind, Option<String>, String),
    /// `DESCRIBE name`: a keyspace, or whatever in a keyspace has the name.
    Any(Option<String>, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Describe {
    what: What,
    /// `WITH INTERNALS`: ids, and columns that were dropped.
    internals: bool,
    /// `AND PASSWORDS`: hashed.
    passwords: bool,
}

/// Keyspace, kind, name, statement; without a keyspace null.
type Row = Vec<Option<String>>;

/// Words of the statement: lower case, or as they are in quotes.
struct Words {
    words: Vec<(String, bool)>,
    at: usize,
}

impl Words {
    fn take(&mut self, keyword: &str) -> bool {
        let found = self.words.get(self.at).is_some_and(|(word, quoted)| !quoted && word == keyword);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Option<String> {
        let (word, quoted) = self.words.get(self.at)?;
        if word == "." && !quoted {
            return None;
        }
        self.at += 1;
        Some(word.clone())
    }

    /// `name` or `keyspace.name`.
    fn qualified(&mut self) -> Option<(Option<String>, String)> {
        let first = self.name()?;
        match self.take(".") {
            true => Some((Some(first), self.name()?)),
            false => Some((None, first)),
        }
    }

    fn is_at_end(&self) -> bool {
        self.at == self.words.len() || (self.words[self.at].0 == "with" && !self.words[self.at].1)
    }
}

impl Describe {
    /// `None` when the text is not a DESCRIBE at all.
    pub fn parse(text: &str) -> Option<Self> {
        let start = text.trim_start();
        if !start.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("desc")) {
            return None;
        }
        let tokens = lexer::tokens(text).ok()?;
        let word = |token: &lexer::Token| match token.kind {
            TokenKind::QuotedName => (lexer::quoted_name_value(text, token).into_owned(), true),
            _ => (text[token.start..token.end].to_ascii_lowercase(), false),
        };
        let words = tokens.iter().filter(|token| token.kind != TokenKind::End).map(word);
        let mut words: Vec<(String, bool)> = words.collect();
        while words.last().is_some_and(|(word, _)| word == ";") {
            words.pop();
        }
        let mut words = Words { words, at: 0 };
        if !words.take("describe") && !words.take("desc") {
            return None;
        }
        let what = what(&mut words)?;
        let internals = words.take("with") && words.take("internals");
        let passwords = internals && words.take("and");
        if passwords && !words.take("passwords") {
            return None;
        }
        (words.at == words.words.len()).then_some(Describe { what, internals, passwords })
    }

    /// Body of the answer.
    pub fn execute(&self, node: &Rc<Node>, client: &Client) -> Result<Vec<u8>, QueryError> {
        if self.passwords {
            node.must_be_superuser(client, "describe passwords")?;
        }
        let current = client.keyspace();
        let current = current.as_deref();
        let schema = node.schema();
        let mut all: BTreeMap<&str, &Arc<KeyspaceDef>> =
            schema.keyspaces.iter().map(|(name, def)| (name.as_str(), def)).collect();
        all.extend(node.system.keyspaces().map(|keyspace| (keyspace.name.as_str(), keyspace)));
        let find = |name: &str| all.get(name).copied().ok_or_else(|| invalid!("'{name}' not found in keyspaces"));
        let in_use = || current.ok_or_else(|| invalid!("No keyspace specified and no current keyspace"));
        let listed = ["keyspace_name", "type", "name"];
        let statements = ["keyspace_name", "type", "name", "create_statement"];
        Ok(match &self.what {
            What::Cluster => return cluster(node, current),
            What::Keyspaces => rows(&listed, all.keys().map(|name| element(name, "keyspace", name)).collect()),
            What::List(kind) => {
                let shown = match current {
                    Some(keyspace) => vec![find(keyspace)?],
                    None => all.values().copied().collect(),
                };
                let names = |def: &&Arc<KeyspaceDef>| -> Vec<Row> {
                    names(def, *kind).iter().map(|name| element(&def.name, kind.name(), name)).collect()
                };
                rows(&listed, shown.iter().flat_map(names).collect())
            }
            What::Schema { full } => {
                let shown = all.values().filter(|def| *full || !system::is_system(&def.name));
                let mut all: Vec<Row> = shown.flat_map(|def| self.whole(def)).collect();
                if self.internals {
                    let described = schema.access.describe(self.passwords).into_iter();
                    all.extend(
                        described
                            .map(|one| vec![None, Some(one.kind.to_string()), Some(one.name), Some(one.statement)]),
                    );
                }
                rows(&statements, all)
            }
            What::Keyspace { name, only } => {
                let name = name.as_deref().map_or_else(in_use, Ok)?;
                let mut whole = self.whole(find(name)?);
                whole.truncate(if *only { 1 } else { usize::MAX });
                rows(&statements, whole)
            }
            What::Element(kind, keyspace, name) => {
                let keyspace = keyspace.as_deref().map_or_else(in_use, Ok)?;
                let found = self.found(find(keyspace)?, *kind, name);
                rows(&statements, found.ok_or_else(|| kind.missing(keyspace, name))?)
            }
            What::Any(None, name) if all.contains_key(name.as_str()) => rows(&statements, self.whole(find(name)?)),
            What::Any(keyspace, name) => {
                let missing = |_| invalid!("'{name}' not found in keyspaces");
                let keyspace = keyspace.as_deref().map_or_else(|| in_use().map_err(missing), Ok)?;
                let def = find(keyspace)?;
                let found = Kind::ALL.into_iter().find_map(|kind| self.found(def, kind, name));
                rows(&statements, found.ok_or_else(|| invalid!("'{name}' not found in keyspace '{keyspace}'"))?)
            }
        })
    }

    /// A keyspace and everything in it, each element behind those that it needs.
    fn whole(&self, def: &KeyspaceDef) -> Vec<Row> {
        let mut rows = vec![created(&def.name, "keyspace", &def.name, describe::keyspace(def))];
        for udt in in_order(def) {
            rows.push(created(&def.name, "type", &udt.name, describe::user_type(udt)));
        }
        for kind in [Kind::Function, Kind::Aggregate] {
            let names: std::collections::BTreeSet<String> = names(def, kind).into_iter().collect();
            rows.extend(names.iter().filter_map(|name| self.found(def, kind, name)).flatten());
        }
        let bases = def.tables.values().filter(|table| table.view.is_none() && cdc::base_name(table).is_none());
        rows.extend(bases.flat_map(|table| self.table(def, table)));
        rows.extend(def.tables.values().filter_map(|view| view_row(def, view)));
        rows
    }

    /// The element of this kind and name, and what belongs to it.
    fn found(&self, def: &KeyspaceDef, kind: Kind, name: &str) -> Option<Vec<Row>> {
        let some = |rows: Vec<Row>| (!rows.is_empty()).then_some(rows);
        match kind {
            Kind::Table => {
                let table = def.tables.get(name).filter(|table| table.view.is_none())?;
                let mut rows = self.table(def, table);
                let of = |view: &&Arc<TableDef>| view.view.as_ref().is_some_and(|view| view.base_id == table.id);
                rows.extend(def.tables.values().filter(of).filter_map(|view| view_row(def, view)));
                Some(rows)
            }
            Kind::View => {
                let table = def.tables.get(name)?;
                let view = table.view.as_ref()?;
                let of_index = |mut row: Row| {
                    row.push(Some(describe::index_view(table, view)));
                    row
                };
                let row = view_row(def, table).unwrap_or_else(|| of_index(element(&def.name, "view", name)));
                Some(vec![row])
            }
            Kind::Index => {
                let table = def.tables.values().find(|table| table.indexes.iter().any(|index| index.name == name))?;
                let index = table.indexes.iter().find(|index| index.name == name)?;
                Some(vec![self.index(def, table, index)])
            }
            Kind::Type => {
                let udt = def.types.get(name)?;
                Some(vec![created(&def.name, "type", name, describe::user_type(udt))])
            }
            Kind::Function => {
                let overloads = def.functions.values().filter(|one| one.name == name);
                some(overloads.map(|one| created(&def.name, "function", name, describe::function(one))).collect())
            }
            Kind::Aggregate => {
                let overloads = def.aggregates.values().filter(|one| one.name == name);
                some(overloads.map(|one| created(&def.name, "aggregate", name, describe::aggregate(one))).collect())
            }
        }
    }

    /// A table and its indexes.
    fn table(&self, def: &KeyspaceDef, table: &TableDef) -> Vec<Row> {
        let text = if self.internals { describe::table_with_internals(table) } else { describe::table(table) };
        if cdc::base_name(table).is_some() {
            let mut row = element(&def.name, "table", &table.name);
            row.push(Some(describe::log_for_reading(&text)));
            return vec![row];
        }
        let mut rows = vec![created(&def.name, "table", &table.name, text)];
        rows.extend(table.indexes.iter().map(|index| self.index(def, table, index)));
        // The log is made with the table; what of it can be altered follows.
        let log = def.tables.get(&cdc::log_name(&table.name)).filter(|_| cdc::Capture::of(table).is_some());
        rows.extend(log.map(|log| created(&def.name, "table", &log.name, describe::properties_of_log(log))));
        rows
    }

    fn index(&self, def: &KeyspaceDef, table: &TableDef, index: &types::IndexDef) -> Row {
        let text = match index.view.as_ref().and_then(|name| def.tables.get(name)) {
            Some(view) if self.internals => describe::index_with_internals(table, index, view),
            Some(view) => describe::index_with_properties(table, index, view),
            None => describe::index(table, index),
        };
        created(&def.name, "index", &index.name, text)
    }
}

fn what(words: &mut Words) -> Option<What> {
    let lists = [
        ("tables", Kind::Table),
        ("types", Kind::Type),
        ("functions", Kind::Function),
        ("aggregates", Kind::Aggregate),
    ];
    for (word, kind) in lists {
        if words.take(word) {
            return Some(What::List(kind));
        }
    }
    if words.take("cluster") {
        return Some(What::Cluster);
    }
    if words.take("keyspaces") {
        return Some(What::Keyspaces);
    }
    if words.take("schema") {
        return Some(What::Schema { full: false });
    }
    if words.take("full") {
        return words.take("schema").then_some(What::Schema { full: true });
    }
    let only = words.take("only");
    if words.take("keyspace") {
        let name = if words.is_at_end() { None } else { Some(words.name()?) };
        return Some(What::Keyspace { name, only });
    }
    if only {
        return None;
    }
    let kind = if words.take("table") || words.take("columnfamily") {
        Kind::Table
    } else if words.take("type") {
        Kind::Type
    } else if words.take("function") {
        Kind::Function
    } else if words.take("aggregate") {
        Kind::Aggregate
    } else if words.take("index") {
        Kind::Index
    } else if words.take("materialized") {
        words.take("view").then_some(Kind::View)?
    } else {
        let (keyspace, name) = words.qualified()?;
        return Some(What::Any(keyspace, name));
    };
    let (keyspace, name) = words.qualified()?;
    Some(What::Element(kind, keyspace, name))
}

fn names(def: &KeyspaceDef, kind: Kind) -> Vec<String> {
    match kind {
        Kind::Table => {
            let own = |table: &&Arc<TableDef>| table.view.is_none() && cdc::base_name(table).is_none();
            def.tables.values().filter(own).map(|one| one.name.clone()).collect()
        }
        Kind::View => def.tables.values().filter(|table| table.view.is_some()).map(|one| one.name.clone()).collect(),
        Kind::Index => def.tables.values().flat_map(|table| &table.indexes).map(|index| index.name.clone()).collect(),
        Kind::Type => def.types.keys().cloned().collect(),
        Kind::Function => def.functions.values().map(|one| one.name.clone()).collect(),
        Kind::Aggregate => def.aggregates.values().map(|one| one.name.clone()).collect(),
    }
}

/// Types behind those that their fields have.
fn in_order(def: &KeyspaceDef) -> Vec<&Arc<types::UserType>> {
    let mut left: Vec<&Arc<types::UserType>> = def.types.values().collect();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let waits = |udt: &Arc<types::UserType>| {
            left.iter().any(|other| other.name != udt.name && udt.field_types().any(|ty| names_type(ty, &other.name)))
        };
        let (waiting, ready): (Vec<_>, Vec<_>) = left.iter().copied().partition(|udt| waits(udt));
        if ready.is_empty() {
            ordered.extend(waiting);
            break;
        }
        ordered.extend(ready);
        left = waiting;
    }
    ordered
}

fn names_type(ty: &CqlType, name: &str) -> bool {
    match ty.unfrozen() {
        CqlType::Udt(udt) => udt.name == name,
        CqlType::List(ty) | CqlType::Set(ty) | CqlType::Vector(ty, _) => names_type(ty, name),
        CqlType::Map(key, value) => names_type(key, name) || names_type(value, name),
        CqlType::Tuple(types) => types.iter().any(|ty| names_type(ty, name)),
        _ => false,
    }
}

fn view_row(def: &KeyspaceDef, table: &TableDef) -> Option<Row> {
    let view = table.view.as_ref().filter(|view| view.index.is_none())?;
    Some(created(&def.name, "view", &table.name, describe::view(table, view)))
}

fn element(keyspace: &str, kind: &str, name: &str) -> Row {
    vec![Some(identifier(keyspace)), Some(kind.to_string()), Some(identifier(name))]
}

fn created(keyspace: &str, kind: &str, name: &str, statement: String) -> Row {
    let mut row = element(keyspace, kind, name);
    row.push(Some(statement + ";"));
    row
}

/// Name, partitioner, snitch, and for the keyspace in use who has which range, by the range's last token.
fn cluster(node: &Node, current: Option<&str>) -> Result<Vec<u8>, QueryError> {
    let text = |name: &str| ColumnSpec::new("system", "describe", name, CqlType::Text);
    let mut specs = vec![text("cluster"), text("partitioner"), text("snitch")];
    let mut cells: Vec<Vec<u8>> =
        vec![node.config.cluster_name.clone().into_bytes(), b"Murmur3Partitioner".to_vec(), b"SimpleSnitch".to_vec()];
    if let Some(keyspace) = current.filter(|keyspace| !system::is_system(keyspace)) {
        let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (range, replicas) in node.replication(keyspace)?.describe() {
            let addresses = replicas.nodes().iter().map(|&index| node.topology().node(index).address.to_string());
            owners.insert(range.end.0.to_string(), addresses.collect());
        }
        let list = |items: &Vec<String>| collection::write_collection(items.len(), items.iter().map(String::as_bytes));
        let entries: Vec<(&String, Vec<u8>)> = owners.iter().map(|(token, list_of)| (token, list(list_of))).collect();
        let parts = entries.iter().flat_map(|(token, list)| [token.as_bytes(), list.as_slice()]);
        cells.push(collection::write_collection(entries.len(), parts));
        let ty = CqlType::map(CqlType::Text, CqlType::list(CqlType::Text).frozen()).frozen();
        specs.push(ColumnSpec::new("system", "describe", "range_ownership", ty));
    }
    let mut out = Vec::new();
    let mut writer = RowsWriter::begin(&mut out, &EncodedMetadata::new(&specs), false, None);
    for cell in &cells {
        writer.cell(&mut out, Some(cell));
    }
    writer.end_row();
    writer.finish(&mut out);
    Ok(out)
}

fn rows(columns: &[&str], rows: Vec<Row>) -> Vec<u8> {
    let specs: Vec<ColumnSpec> =
        columns.iter().map(|name| ColumnSpec::new("system", "describe", name, CqlType::Text)).collect();
    let mut out = Vec::new();
    let mut writer = RowsWriter::begin(&mut out, &EncodedMetadata::new(&specs), false, None);
    for row in rows {
        for cell in &row {
            writer.cell(&mut out, cell.as_ref().map(String::as_bytes));
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
        let check = |text: &str, expect: Option<What>| {
            assert_eq!(Describe::parse(text).map(|describe| describe.what), expect, "{text}");
        };
        let element = |kind, keyspace: Option<&str>, name: &str| {
            Some(What::Element(kind, keyspace.map(str::to_string), name.to_string()))
        };
        check("DESCRIBE KEYSPACES;", Some(What::Keyspaces));
        check("desc table Ks.\"T. x\" ;", element(Kind::Table, Some("ks"), "T. x"));
        check("describe keyspace", Some(What::Keyspace { name: None, only: false }));
        check("DESC ONLY KEYSPACE k", Some(What::Keyspace { name: Some("k".into()), only: true }));
        check("DESC MATERIALIZED VIEW v WITH INTERNALS", element(Kind::View, None, "v"));
        check("DESC TYPES", Some(What::List(Kind::Type)));
        check("DESC x", Some(What::Any(None, "x".into())));
        check("DESC \"tables\"", Some(What::Any(None, "tables".into())));
        check("DESC a.b", Some(What::Any(Some("a".into()), "b".into())));
        check("DESC FULL SCHEMA WITH INTERNALS AND PASSWORDS", Some(What::Schema { full: true }));
        check("SELECT 1", None);
        check("described", None);
        check("DESC", None);
        check("DESC TABLE a b", None);
        assert!(Describe::parse("DESC TABLE t WITH INTERNALS").is_some_and(|describe| describe.internals));
    }
}
