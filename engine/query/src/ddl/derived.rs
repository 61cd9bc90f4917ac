//! Statements about views and indexes decided, and what other statements mean for the views and indexes of a table.
//! Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use cql::ast::{self, TableChange};
use types::{IndexDef, KeyspaceDef, TableDef};

use super::{Ddl, Decision, absent, index, options, view};
use crate::error::{QueryError, invalid};
use crate::schema::{Change, ChangeKind, Schema, Target, describe};

/// Views whose rows come from `table`, those of indexes among them.
fn views_of<'a>(schema: &'a Schema, table: &'a TableDef) -> impl Iterator<Item = &'a Arc<TableDef>> {
    let keyspace = schema.keyspace(&table.keyspace);
    let all = keyspace.into_iter().flat_map(|keyspace| keyspace.tables.values());
    all.filter(move |other| other.view.as_ref().is_some_and(|view| view.base_id == table.id))
}

fn is_user_view(table: &TableDef) -> bool {
    table.view.as_ref().is_some_and(|view| view.index.is_none())
}

fn find_index<'a>(keyspace: &'a KeyspaceDef, name: &str) -> Option<(&'a Arc<TableDef>, &'a IndexDef)> {
    let find =
        |table: &'a Arc<TableDef>| table.indexes.iter().find(|index| index.name == name).map(|index| (table, index));
    keyspace.tables.values().find_map(find)
}

/// Refuses statements on tables that views or indexes stand in the way of.
pub(super) fn check(ddl: &Ddl, schema: &Schema) -> Result<(), QueryError> {
    match ddl {
        Ddl::DropTable { keyspace, name, .. } => {
            let Some(table) = schema.table(keyspace, name) else { return Ok(()) };
            if table.view.is_some() {
                return Err(invalid!("Cannot use DROP TABLE on Materialized View"));
            }
            let views: Vec<&str> =
                views_of(schema, table).filter(|view| is_user_view(view)).map(|view| view.name.as_str()).collect();
            if !views.is_empty() {
                return Err(invalid!(
                    "Cannot drop a table when materialized views still depend on it ({})",
                    views.join(", ")
                ));
            }
        }
        Ddl::AlterTable { keyspace, name, change, .. } => {
            let Some(table) = schema.table(keyspace, name) else { return Ok(()) };
            if table.view.is_some() {
                return Err(invalid!("Cannot use ALTER TABLE on Materialized View"));
            }
            if let TableChange::Drop { columns, .. } = change {
                columns.iter().try_for_each(|column| check_drop(schema, table, column))?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn check_drop(schema: &Schema, table: &TableDef, column: &str) -> Result<(), QueryError> {
    let dependent: Vec<&str> =
        table.indexes.iter().filter(|index| index.target.column == column).map(|index| index.name.as_str()).collect();
    if !dependent.is_empty() {
        return Err(invalid!(
            "Cannot drop column {column} because it has dependent secondary indexes ({})",
            dependent.join(", ")
        ));
    }
    let has =
        |def: &TableDef| def.regulars.iter().chain(&def.partition_key).chain(&def.clustering).any(|c| c.name == column);
    match views_of(schema, table).find(|view| is_user_view(view) && has(view)) {
        Some(view) => Err(invalid!(
            "Cannot drop column {column} from base table {}.{}: materialized view {} needs this column.",
            table.keyspace,
            table.name,
            view.name
        )),
        None => Ok(()),
    }
}

/// Adds what happens to the views and indexes of a table.
pub(super) fn follow(ddl: &Ddl, schema: &Schema, decision: &mut Decision) {
    match ddl {
        Ddl::DropTable { keyspace, name, .. } => {
            let Some(table) = schema.table(keyspace, name) else { return };
            let dropped = |index: &IndexDef| (Target::Index(keyspace.clone(), name.clone(), index.name.clone()), None);
            decision.entries.extend(table.indexes.iter().map(dropped));
        }
        Ddl::DropKeyspace { name, .. } => {
            let Some(keyspace) = schema.keyspace(name) else { return };
            for table in keyspace.tables.values() {
                let dropped =
                    |index: &IndexDef| (Target::Index(name.clone(), table.name.clone(), index.name.clone()), None);
                decision.entries.extend(table.indexes.iter().map(dropped));
            }
        }
        Ddl::AlterTable { keyspace, name, change, .. } => {
            let Some(table) = schema.table(keyspace, name) else { return };
            if matches!(change, TableChange::Properties(_)) {
                return;
            }
            let renames: &[(String, String)] = match change {
                TableChange::Rename { columns, .. } => columns,
                _ => &[],
            };
            decision.entries.extend(retold(schema, table, renames));
        }
        Ddl::Type(_) => {
            // The definitions of views are not those of tables.
            let is_view = |target: &Target| match target {
                Target::Table(keyspace, name) => schema.table(keyspace, name).is_some_and(|table| table.view.is_some()),
                _ => false,
            };
            decision.entries.retain(|(target, _)| !is_view(target));
            let tables = decision.entries.iter().filter_map(|(target, _)| match target {
                Target::Table(keyspace, name) => schema.table(keyspace, name),
                _ => None,
            });
            let retold: Vec<_> = tables.flat_map(|table| retold(schema, table, &[])).collect();
            decision.entries.extend(retold);
        }
        _ => {}
    }
}

/// The definitions of a table's views and indexes, told again, so that their columns are found anew from the base's.
fn retold(schema: &Schema, table: &TableDef, renames: &[(String, String)]) -> Vec<(Target, Option<String>)> {
    let keyspace = &table.keyspace;
    let mut entries = Vec::new();
    for view in views_of(schema, table) {
        let Some(def) = view.view.as_ref().filter(|def| def.index.is_none()) else { continue };
        let mut view = (**view).clone();
        rename_columns(&mut view, renames);
        let mut def = def.clone();
        def.where_clause = renamed(&def.where_clause, renames);
        let text = describe::view_with_id(&view, &def);
        entries.push((Target::Table(keyspace.clone(), view.name.clone()), Some(text)));
    }
    let mut base = table.clone();
    rename_columns(&mut base, renames);
    for index in &table.indexes {
        let Some(view) = index.view.as_ref().and_then(|view| schema.table(keyspace, view)) else { continue };
        let mut index = index.clone();
        rename(&mut index.target.column, renames);
        let text = describe::index_with_id(&base, &index, view);
        let target = Target::Index(keyspace.clone(), table.name.clone(), index.name.clone());
        entries.push((target, Some(text)));
    }
    entries
}

fn rename(name: &mut String, renames: &[(String, String)]) {
    if let Some((_, to)) = renames.iter().find(|(from, _)| from == name) {
        name.clone_from(to);
    }
}

fn rename_columns(table: &mut TableDef, renames: &[(String, String)]) {
    let lists = [&mut table.partition_key, &mut table.clustering, &mut table.statics, &mut table.regulars];
    lists.into_iter().flatten().for_each(|column| rename(&mut column.name, renames));
}

/// A filter with columns renamed.
fn renamed(text: &str, renames: &[(String, String)]) -> String {
    let Ok(tokens) = cql::lexer::tokens(text) else { return text.to_string() };
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for token in &tokens {
        let raw = &text[token.start..token.end];
        let name = match token.kind {
            cql::lexer::TokenKind::Word => raw.to_ascii_lowercase(),
            cql::lexer::TokenKind::QuotedName => cql::lexer::quoted_name_value(text, token).into_owned(),
            _ => continue,
        };
        if let Some((_, to)) = renames.iter().find(|(from, _)| *from == name) {
            out.push_str(&text[copied..token.start]);
            out.push_str(&cql::lexer::quote_identifier(to));
            copied = token.end;
        }
    }
    out.push_str(&text[copied..]);
    out
}

pub(super) fn decide(ddl: &Ddl, schema: &Schema, now_us: i64) -> Result<Option<Decision>, QueryError> {
    match ddl {
        Ddl::CreateView { keyspace, create } => create_view(keyspace, create, schema, now_us),
        Ddl::AlterView { keyspace, name, properties, if_exists } => {
            let Some(known) = schema.table(keyspace, name) else {
                return absent(*if_exists, || invalid!("Materialized view '{keyspace}.{name}' doesn't exist"));
            };
            let mut def = (**known).clone();
            let Some(known_view) = known.view.as_ref().filter(|view| view.index.is_none()) else {
                return Err(invalid!("Cannot use ALTER MATERIALIZED VIEW on Table"));
            };
            options::apply_to_table(&mut def.options, properties)?;
            view::check_options(&def)?;
            if def.options.gc_grace_seconds == 0 {
                return Err(invalid!(
                    "Cannot alter gc_grace_seconds of a materialized view to 0, since this value is used to TTL \
                     undelivered updates. Setting gc_grace_seconds too low might cause undelivered updates to expire \
                     before being replayed."
                ));
            }
            let text = describe::view_with_id(&def, known_view);
            Ok(Some(table_change(keyspace, name, ChangeKind::Updated, Some(text))))
        }
        Ddl::DropView { keyspace, name, if_exists } => {
            match schema.table(keyspace, name).map(|table| (table.view.is_some(), is_user_view(table))) {
                None => absent(*if_exists, || invalid!("Materialized view '{keyspace}.{name}' doesn't exist")),
                Some((_, true)) => Ok(Some(table_change(keyspace, name, ChangeKind::Dropped, None))),
                Some((true, false)) => Err(invalid!("Cannot drop {name}: it holds an index; use DROP INDEX")),
                Some((false, _)) => Err(invalid!("Cannot use DROP MATERIALIZED VIEW on Table")),
            }
        }
        Ddl::CreateIndex { keyspace, create } => create_index(keyspace, create, schema, now_us),
        Ddl::DropIndex { keyspace, name, if_exists } => {
            let found = schema.keyspace(keyspace).and_then(|keyspace| find_index(keyspace, name));
            let Some((table, _)) = found else {
                return absent(*if_exists, || invalid!("Index '{keyspace}.{name}' doesn't exist"));
            };
            let target = Target::Index(keyspace.clone(), table.name.clone(), name.clone());
            let changed = Target::Table(keyspace.clone(), table.name.clone());
            let change = Change { kind: ChangeKind::Updated, target: changed };
            Ok(Some(Decision { entries: vec![(target, None)], change }))
        }
        _ => Ok(None),
    }
}

fn table_change(keyspace: &str, name: &str, kind: ChangeKind, text: Option<String>) -> Decision {
    let target = Target::Table(keyspace.to_string(), name.to_string());
    Decision { entries: vec![(target.clone(), text)], change: Change { kind, target } }
}

fn create_view(
    keyspace: &str,
    create: &ast::CreateView,
    schema: &Schema,
    now_us: i64,
) -> Result<Option<Decision>, QueryError> {
    let Some(known) = schema.keyspace(keyspace) else {
        return Err(invalid!("Keyspace '{keyspace}' doesn't exist"));
    };
    if create.base.keyspace.as_deref().is_some_and(|base| base != keyspace) {
        return Err(invalid!("Cannot create a materialized view on a table in a separate keyspace"));
    }
    if known.tables.contains_key(&create.name.name) {
        let exists = || QueryError::already_exists(keyspace, &create.name.name);
        return if create.if_not_exists { Ok(None) } else { Err(exists()) };
    }
    let base = known.table(&create.base.name);
    let base = base.ok_or_else(|| invalid!("Base table '{keyspace}.{}' doesn't exist", create.base.name))?;
    let (mut def, has_id) = view::table(create, base)?;
    view::settle_id(&mut def, has_id, schema, now_us)?;
    let text = def.view.as_ref().map(|view| describe::view_with_id(&def, view));
    Ok(Some(table_change(keyspace, &def.name, ChangeKind::Created, text)))
}

fn create_index(
    keyspace: &str,
    create: &ast::CreateIndex,
    schema: &Schema,
    now_us: i64,
) -> Result<Option<Decision>, QueryError> {
    let Some(known) = schema.keyspace(keyspace) else {
        return Err(invalid!("Keyspace '{keyspace}' doesn't exist"));
    };
    let table = &create.table.name;
    let base = known.table(table).ok_or_else(|| invalid!("Table '{keyspace}.{table}' doesn't exist"))?;
    let taken = |name: &str| find_index(known, name).is_some() || known.tables.contains_key(&format!("{name}_index"));
    let name = match &create.name {
        Some(name) => {
            if name.keyspace.as_deref().is_some_and(|given| given != keyspace) {
                return Err(invalid!("Keyspace name '{}' doesn't match index name '{}'", keyspace, name.name));
            }
            name.name.clone()
        }
        None => {
            let column = create.targets.first().map_or("", |target| target.column.as_str());
            index::default_name(table, column, taken)
        }
    };
    let is_new = |create: &ast::CreateIndex| !matches!(index::index(create, &name, base), Err(error) if error.message.contains("duplicate"));
    if create.name.is_some() && find_index(known, &name).is_some() {
        // An index of the same name on something else is in the way all the same.
        return match create.if_not_exists && !is_new(create) {
            true => Ok(None),
            false => Err(invalid!("Index '{name}' already exists")),
        };
    }
    if known.tables.contains_key(&format!("{name}_index")) {
        return Err(invalid!("Index '{name}' cannot be created: table {name}_index already exists"));
    }
    let new = match index::index(create, &name, base) {
        Err(error) if create.if_not_exists && error.message.contains("duplicate") => return Ok(None),
        new => new?,
    };
    let Some(mut view) = new.view else { return Ok(None) };
    view::settle_id(&mut view, new.has_id, schema, now_us)?;
    let text = describe::index_with_id(base, &new.def, &view);
    let target = Target::Index(keyspace.to_string(), table.clone(), name);
    let changed = Target::Table(keyspace.to_string(), table.clone());
    let change = Change { kind: ChangeKind::Updated, target: changed };
    Ok(Some(Decision { entries: vec![(target, Some(text))], change }))
}

/// Definitions that can only be read once the tables are.
#[derive(Default)]
pub(crate) struct Definitions<'a> {
    /// Keyspace, whose entry it is, statement, version.
    pub views: Vec<(&'a str, &'a Target, &'a str, u64)>,
    /// And the table.
    pub indexes: Vec<(&'a str, &'a str, &'a Target, &'a str, u64)>,
}

impl Definitions<'_> {
    pub fn is_view(&self, statement: &str) -> bool {
        statement.starts_with("CREATE MATERIALIZED VIEW")
    }

    pub fn build(self, keyspaces: &mut BTreeMap<String, KeyspaceDef>) -> Result<(), (Target, String)> {
        for (keyspace, table, target, statement, version) in self.indexes {
            let Some(keyspace) = keyspaces.get_mut(keyspace) else { continue };
            let Some(base) = keyspace.tables.get_mut(table) else { continue };
            let new = index::read(statement, base).map_err(|error| (target.clone(), error.to_string()))?;
            let base = Arc::make_mut(base);
            let at = base.indexes.partition_point(|known| known.name < new.def.name);
            base.indexes.insert(at, new.def);
            if let Some(mut view) = new.view {
                view.version = version;
                keyspace.tables.insert(view.name.clone(), Arc::new(view));
            }
        }
        for (keyspace, target, statement, version) in self.views {
            let Some(keyspace) = keyspaces.get_mut(keyspace) else { continue };
            let base = |name: &str| keyspace.tables.get(name).map(|table| &**table);
            let Some(mut view) = view::read(statement, base).map_err(|error| (target.clone(), error.to_string()))?
            else {
                continue;
            };
            view.version = version;
            keyspace.tables.insert(view.name.clone(), Arc::new(view));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ddl;

    /// A schema that statements have made one by one.
    struct Made {
        document: crate::schema::Document,
        now_us: i64,
    }

    impl Made {
        fn new() -> Self {
            let mut made = Self { document: Default::default(), now_us: 1 };
            made.run("CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
                .unwrap();
            made.run("CREATE TABLE ks.t (p int, c int, v int, w int, m map<text, int>, PRIMARY KEY (p, c))").unwrap();
            made
        }

        fn schema(&self) -> Schema {
            self.document.build().unwrap()
        }

        fn run(&mut self, text: &str) -> Result<(), QueryError> {
            self.now_us += 1;
            let schema = self.schema();
            let statement = cql::parse(text)?.statement;
            let ddl = ddl::resolve(&statement, Some("ks"), &schema)?.unwrap();
            if let Some(decision) = ddl::decide(&ddl, &schema, &[], self.now_us)? {
                for (target, statement) in decision.entries {
                    self.document.set(target, statement, self.now_us);
                }
            }
            Ok(())
        }

        fn refuses(&mut self, text: &str, expect: &str) {
            let message = self.run(text).unwrap_err().message;
            assert!(message.contains(expect), "{text}: {message}");
        }
    }

    fn names(columns: &[types::ColumnDef]) -> Vec<&str> {
        columns.iter().map(|column| column.name.as_str()).collect()
    }

    #[test]
    fn views_follow_their_table() {
        let mut made = Made::new();
        let filter = "WHERE v IS NOT NULL AND p IS NOT NULL AND c IS NOT NULL";
        made.run(&format!("CREATE MATERIALIZED VIEW a AS SELECT * FROM t {filter} PRIMARY KEY (v, p, c)")).unwrap();
        made.run("CREATE MATERIALIZED VIEW b AS SELECT v FROM t WHERE p > 3 AND c IS NOT NULL PRIMARY KEY (c, p)")
            .unwrap();
        let schema = made.schema();
        let (a, b) = (schema.table("ks", "a").unwrap(), schema.table("ks", "b").unwrap());
        assert!(a.is_strict() && names(&a.regulars) == ["m", "w"]);
        assert!(!b.is_strict() && names(&b.regulars) == ["m", "v", "w"] && b.columns().count() == 3);
        assert_eq!(b.view.as_ref().unwrap().where_clause, "p > 3 AND c IS NOT NULL");
        let version = a.version;
        made.run("ALTER TABLE t ADD x int").unwrap();
        let schema = made.schema();
        let a = schema.table("ks", "a").unwrap();
        assert!(names(&a.regulars) == ["m", "w", "x"] && a.version > version);
        made.refuses("DROP TABLE t", "materialized views still depend on it (a, b)");
        made.run("DROP MATERIALIZED VIEW a").unwrap();
        made.run("DROP MATERIALIZED VIEW b").unwrap();
        made.run("DROP TABLE t").unwrap();
        assert_eq!(made.schema().tables().count(), 0);
    }

    #[test]
    fn filters_take_new_names() {
        let renames = [("v".to_string(), "order".to_string()), ("w".to_string(), "x".to_string())];
        assert_eq!(
            renamed("v > 3 AND \"w\" IS NOT NULL AND vv = 'v'", &renames),
            "\"order\" > 3 AND x IS NOT NULL AND vv = 'v'"
        );
    }

    #[test]
    fn indexes_bring_their_views() {
        let mut made = Made::new();
        made.run("CREATE INDEX ON t (v)").unwrap();
        made.run("CREATE INDEX i ON t (values(m))").unwrap();
        made.run("CREATE INDEX l ON t ((p), w) ").unwrap();
        let schema = made.schema();
        let table = schema.table("ks", "t").unwrap();
        let indexes: Vec<&str> = table.indexes.iter().map(|index| index.name.as_str()).collect();
        assert_eq!(indexes, ["i", "l", "t_v_idx"]);
        let key = |name: &str| {
            let view = schema.table("ks", name).unwrap();
            [names(&view.partition_key).join(" "), names(&view.clustering).join(" ")].join(" | ")
        };
        assert_eq!(key("t_v_idx_index"), "v | idx_token p c");
        assert_eq!(key("i_index"), "coll_value | idx_token p c coll_keys_for_values_index");
        assert_eq!(key("l_index"), "p | w c");
        made.refuses("CREATE INDEX z ON t (v)", "duplicate");
        made.refuses("CREATE INDEX i ON t (w)", "already exists");
        made.refuses("CREATE INDEX ON t (keys(v))", "keys()");
        made.run("DROP INDEX i").unwrap();
        assert!(made.schema().table("ks", "i_index").is_none());
        made.run("DROP TABLE t").unwrap();
        assert_eq!(made.schema().tables().count(), 0);
    }
}
