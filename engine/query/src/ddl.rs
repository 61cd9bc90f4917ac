//! Schema statements: from text to definitions, and what each of them changes. Pure.

mod alter;
pub(crate) mod cdc;
mod column_type;
pub(crate) mod derived;
mod function;
pub(crate) mod index;
mod options;
mod row_ttl;
mod user_type;
pub(crate) mod view;

use std::collections::BTreeMap;

use cql::ast::{self, ColumnDefinition, Direction, Statement, TableChange};
use types::{AggregateDef, FunctionDef, KeyspaceDef, Replication, TableDef, TableId, UserType};

use column_type::UserTypesByName;
pub(crate) use column_type::lookup as lookup_type;
pub(crate) use function::{FunctionDdl, initial_state};
pub(crate) use options::apply_to_keyspace;
pub(crate) use user_type::TypeDdl;

use crate::error::{QueryError, invalid};
use crate::schema::{Change, ChangeKind, Schema, Target, describe};
use crate::system;

/// A schema statement with its names resolved. `Send`, because shard 0 executes it.
#[derive(Clone, Debug)]
pub(crate) enum Ddl {
    CreateKeyspace { def: KeyspaceDef, if_not_exists: bool },
    AlterKeyspace { name: String, properties: ast::Properties, if_exists: bool },
    DropKeyspace { name: String, if_exists: bool },
    CreateTable { def: TableDef, if_not_exists: bool, with_id: bool },
    AlterTable { keyspace: String, name: String, change: TableChange, if_exists: bool },
    DropTable { keyspace: String, name: String, if_exists: bool },
    Type(user_type::TypeDdl),
    CreateView { keyspace: String, create: Box<ast::CreateView> },
    AlterView { keyspace: String, name: String, properties: ast::Properties, if_exists: bool },
    DropView { keyspace: String, name: String, if_exists: bool },
    CreateIndex { keyspace: String, create: Box<ast::CreateIndex> },
    DropIndex { keyspace: String, name: String, if_exists: bool },
    Function(function::FunctionDdl),
}

impl Ddl {
    /// The keyspace that it is about and, if it is about one, the table.
    pub fn subject(&self) -> (&str, Option<&str>) {
        match self {
            Ddl::CreateKeyspace { def, .. } => (&def.name, None),
            Ddl::AlterKeyspace { name, .. } | Ddl::DropKeyspace { name, .. } => (name, None),
            Ddl::CreateTable { def, .. } => (&def.keyspace, Some(&def.name)),
            Ddl::AlterTable { keyspace, name, .. }
            | Ddl::DropTable { keyspace, name, .. }
            | Ddl::AlterView { keyspace, name, .. }
            | Ddl::DropView { keyspace, name, .. } => (keyspace, Some(name)),
            Ddl::CreateView { keyspace, create } => (keyspace, Some(&create.base.name)),
            Ddl::CreateIndex { keyspace, create } => (keyspace, Some(&create.table.name)),
            Ddl::DropIndex { keyspace, .. } => (keyspace, None),
            Ddl::Type(
                TypeDdl::Create { keyspace, .. } | TypeDdl::Alter { keyspace, .. } | TypeDdl::Drop { keyspace, .. },
            ) => (keyspace, None),
            Ddl::Function(
                FunctionDdl::Create { keyspace, .. }
                | FunctionDdl::CreateAggregate { keyspace, .. }
                | FunctionDdl::Drop { keyspace, .. }
                | FunctionDdl::DropAggregate { keyspace, .. },
            ) => (keyspace, None),
        }
    }
}

/// What a statement does to the schema document.
#[derive(Debug)]
pub(crate) struct Decision {
    pub entries: Vec<(Target, Option<String>)>,
    pub change: Change,
}

/// Reads a `CREATE KEYSPACE` that [`describe::keyspace`] wrote.
pub(crate) fn read_keyspace(text: &str) -> Result<KeyspaceDef, QueryError> {
    match parse(text)? {
        Statement::CreateKeyspace(create) => keyspace(&create),
        _ => Err(invalid!("not a CREATE KEYSPACE")),
    }
}

/// Reads a `CREATE TABLE` with its keyspace, and its id if it has one.
pub(crate) fn read_table(text: &str, known: &UserTypesByName) -> Result<TableDef, QueryError> {
    match parse(text)? {
        Statement::CreateTable(create) => table(&create, "", known).map(|(def, _)| def),
        _ => Err(invalid!("not a CREATE TABLE")),
    }
}

/// Reads a `CREATE TYPE` with its keyspace.
pub(crate) fn read_type(text: &str, known: &UserTypesByName) -> Result<UserType, QueryError> {
    match parse(text)? {
        Statement::CreateType(create) => user_type::definition(&create, "", known),
        _ => Err(invalid!("not a CREATE TYPE")),
    }
}

/// Reads a `CREATE FUNCTION` with its keyspace.
pub(crate) fn read_function(text: &str, known: &UserTypesByName) -> Result<FunctionDef, QueryError> {
    match parse(text)? {
        Statement::CreateFunction(create) => function::function(&create, "", known),
        _ => Err(invalid!("not a CREATE FUNCTION")),
    }
}

/// Reads a `CREATE AGGREGATE` with its keyspace.
pub(crate) fn read_aggregate(text: &str, known: &UserTypesByName) -> Result<AggregateDef, QueryError> {
    match parse(text)? {
        Statement::CreateAggregate(create) => function::aggregate(&create, "", known),
        _ => Err(invalid!("not a CREATE AGGREGATE")),
    }
}

fn parse(text: &str) -> Result<Statement, QueryError> {
    Ok(cql::parse(text)?.statement)
}

/// Resolves a parsed schema statement; `None` when it is another kind of statement.
pub(crate) fn resolve(
    statement: &Statement,
    current_keyspace: Option<&str>,
    schema: &Schema,
) -> Result<Option<Ddl>, QueryError> {
    let qualify = |name: &ast::QualifiedName| -> Result<(String, String), QueryError> {
        let keyspace = name.keyspace.as_deref().or(current_keyspace).ok_or_else(no_keyspace)?;
        Ok((modifiable(keyspace)?.to_string(), name.name.clone()))
    };
    Ok(Some(match statement {
        Statement::CreateKeyspace(create) => {
            modifiable(&create.name)?;
            Ddl::CreateKeyspace { def: keyspace(create)?, if_not_exists: create.if_not_exists }
        }
        Statement::AlterKeyspace(alter) => Ddl::AlterKeyspace {
            name: modifiable(&alter.name)?.to_string(),
            properties: alter.properties.clone(),
            if_exists: alter.if_exists,
        },
        Statement::DropKeyspace { name, if_exists } => {
            Ddl::DropKeyspace { name: modifiable(name)?.to_string(), if_exists: *if_exists }
        }
        Statement::CreateTable(create) => {
            let (keyspace, _) = qualify(&create.name)?;
            let (def, with_id) = table(create, &keyspace, &schema.types_of(&keyspace))?;
            Ddl::CreateTable { def, with_id, if_not_exists: create.if_not_exists }
        }
        Statement::AlterTable(alter) => {
            let (keyspace, name) = qualify(&alter.name)?;
            let change = column_type::resolve_change(&alter.change, &keyspace, &schema.types_of(&keyspace))?;
            Ddl::AlterTable { keyspace, name, change, if_exists: alter.if_exists }
        }
        Statement::DropTable { name, if_exists } => {
            let (keyspace, name) = qualify(name)?;
            Ddl::DropTable { keyspace, name, if_exists: *if_exists }
        }
        Statement::CreateView(create) => {
            let (keyspace, _) = qualify(&create.name)?;
            Ddl::CreateView { keyspace, create: Box::new(create.clone()) }
        }
        Statement::AlterView { name, if_exists, properties } => {
            let (keyspace, name) = qualify(name)?;
            Ddl::AlterView { keyspace, name, properties: properties.clone(), if_exists: *if_exists }
        }
        Statement::DropView { name, if_exists } => {
            let (keyspace, name) = qualify(name)?;
            Ddl::DropView { keyspace, name, if_exists: *if_exists }
        }
        Statement::CreateIndex(create) => {
            let (keyspace, _) = qualify(&create.table)?;
            Ddl::CreateIndex { keyspace, create: Box::new(create.clone()) }
        }
        Statement::DropIndex { name, if_exists } => {
            let (keyspace, name) = qualify(name)?;
            Ddl::DropIndex { keyspace, name, if_exists: *if_exists }
        }
        other => match user_type::resolve(other, &qualify)? {
            Some(ddl) => Ddl::Type(ddl),
            None => match function::resolve(other, &qualify)? {
                Some(ddl) => Ddl::Function(ddl),
                None => return Ok(None),
            },
        },
    }))
}

pub(crate) fn no_keyspace() -> QueryError {
    invalid!("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
}

fn modifiable(keyspace: &str) -> Result<&str, QueryError> {
    if system::is_system(keyspace) {
        return Err(QueryError::new(
            cql::response::ErrorKind::Unauthorized,
            format!("{keyspace} keyspace is not user-modifiable."),
        ));
    }
    Ok(keyspace)
}

/// Scylla's limit; Cassandra's was 48 before 5.0. With the id behind it a table's name still fits a folder's.
const NAME_LEN_MAX: usize = 192;

/// What stands for a masked column's value where no mask of its own fits.
const MASK_ALL: &str = "system.mask_null()";

/// The masks that the columns of `base` have in a table derived from it, but for those that nobody sees there.
fn inherited_masks(base: &TableDef, derived: &TableDef, hidden: &[String]) -> BTreeMap<String, String> {
    let shown = |name: &String| derived.column(name).is_some() && !hidden.contains(name);
    base.masks.iter().filter(|(name, _)| shown(name)).map(|(name, mask)| (name.clone(), mask.clone())).collect()
}

/// A log of changes is called as its table is, with a suffix.
fn check_table_name(name: &str) -> Result<(), QueryError> {
    check_name("Table", name.strip_suffix(cdc::SUFFIX).filter(|base| !base.is_empty()).unwrap_or(name))
}

/// Names become folders and parts of messages: word characters alone.
fn check_name(what: &str, name: &str) -> Result<(), QueryError> {
    let word = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if word && name.len() <= NAME_LEN_MAX {
        return Ok(());
    }
    Err(invalid!(
        "{what} name must not be empty, more than {NAME_LEN_MAX} characters long, or contain \
         non-alphanumeric-underscore characters (got \"{name}\")"
    ))
}

fn keyspace(create: &ast::CreateKeyspace) -> Result<KeyspaceDef, QueryError> {
    check_name("Keyspace", &create.name)?;
    let mut def = KeyspaceDef::new(&create.name, Replication::Local);
    options::apply_to_keyspace(&mut def, &create.properties)?;
    if !create.properties.contains_key("replication") {
        def.replication = options::replication(Default::default())?;
    }
    Ok(def)
}

/// The table, and whether the statement gave its id.
fn table(create: &ast::CreateTable, keyspace: &str, known: &UserTypesByName) -> Result<(TableDef, bool), QueryError> {
    let keyspace = create.name.keyspace.as_deref().unwrap_or(keyspace);
    let columns = column_type::resolve_columns(&create.columns, keyspace, known)?;
    check_table_name(&create.name.name)?;
    if create.partition_key.is_empty() {
        // Cassandra's own spelling, which its users match.
        return Err(invalid!("No PRIMARY KEY specifed for table '{}' (exactly one required)", create.name.name));
    }
    if create.has_several_keys {
        return Err(invalid!("Multiple PRIMARY KEYs specifed for table '{}' (exactly one required)", create.name.name));
    }
    let mut seen = std::collections::BTreeSet::new();
    for column in &columns {
        if !seen.insert(&column.name) {
            return Err(invalid!("Duplicate column '{}' declaration for table '{}'", column.name, create.name.name));
        }
    }
    let find = |name: &String| -> Result<&ColumnDefinition, QueryError> {
        let column = columns.iter().find(|column| column.name == *name);
        column.ok_or_else(|| {
            invalid!("Unknown column '{name}' referenced in PRIMARY KEY for table '{}'", create.name.name)
        })
    };
    let key_column = |name: &String| -> Result<&ColumnDefinition, QueryError> {
        let column = find(name)?;
        match &column.ty {
            _ if column.is_static => Err(invalid!("Static column '{name}' cannot be part of the PRIMARY KEY")),
            ty => column_type::check_key(name, ty).map(|()| column),
        }
    };
    let key: Vec<&String> = create.partition_key.iter().chain(&create.clustering).collect();
    if let Some((_, name)) = key.iter().enumerate().find(|(at, name)| key[..*at].contains(name)) {
        return Err(invalid!("Duplicate column '{name}' in PRIMARY KEY clause for table '{}'", create.name.name));
    }
    check_clustering_order(create)?;
    let mut builder = TableDef::builder(keyspace, &create.name.name);
    for name in &create.partition_key {
        builder = builder.partition_key(name, key_column(name)?.ty.clone());
    }
    for (at, name) in create.clustering.iter().enumerate() {
        let descending = match create.clustering_order.get(at) {
            None if create.clustering_order.is_empty() => false,
            Some((ordered, direction)) if ordered == name => *direction == Direction::Descending,
            _ => return Err(invalid!("Missing CLUSTERING ORDER for column {name}")),
        };
        builder = builder.clustering_ordered(name, key_column(name)?.ty.clone(), descending);
    }
    for column in &columns {
        if create.partition_key.contains(&column.name) || create.clustering.contains(&column.name) {
            continue;
        }
        if column.is_static && create.clustering.is_empty() {
            return Err(invalid!(
                "Static columns are only useful (and thus allowed) if the table has at least one clustering column"
            ));
        }
        builder = match column.is_static {
            true => builder.static_column(&column.name, column.ty.clone()),
            false => builder.regular(&column.name, column.ty.clone()),
        };
    }
    let mut def = builder.build();
    column_type::check_counters(&def)?;
    row_ttl::create(&mut def, &columns)?;
    def.masks = columns.iter().filter_map(|column| Some((column.name.clone(), column.mask.clone()?))).collect();
    let mut properties = create.properties.clone();
    // What only a definition that is read again may say.
    if properties.contains_key("id")
        && let Some(ast::PropertyValue::Map(dropped)) = properties.remove("dropped_columns")
    {
        def.dropped = describe::read_dropped(&dropped)?;
    }
    let id = options::apply_to_new_table(&mut def.options, &properties)?;
    if def.is_counter() && def.options.default_time_to_live_s > 0 {
        return Err(invalid!("Cannot set default_time_to_live on a table with counters"));
    }
    if let Some(id) = id {
        def.id = id;
    }
    Ok((def, id.is_some()))
}

/// CLUSTERING ORDER names clustering columns in their order.
fn check_clustering_order(create: &ast::CreateTable) -> Result<(), QueryError> {
    let ordered: Vec<&String> = create.clustering_order.iter().map(|(name, _)| name).collect();
    let strange: Vec<&str> =
        ordered.iter().filter(|name| !create.clustering.contains(name)).map(|n| n.as_str()).collect();
    if !strange.is_empty() {
        return Err(invalid!(
            "Only clustering key columns can be defined in CLUSTERING ORDER directive: [{}] are not clustering columns",
            strange.join(", ")
        ));
    }
    for (at, name) in create.clustering.iter().enumerate() {
        match ordered.get(at) {
            Some(found) if *found != name && ordered.contains(&name) => {
                return Err(invalid!(
                    "The order of columns in the CLUSTERING ORDER directive must match that of the clustering columns \
                     ({name} must appear before {found})"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// What `ddl` changes in `schema`, or `None` when it has nothing to do (`IF [NOT] EXISTS`).
pub(crate) fn decide(
    ddl: &Ddl,
    schema: &Schema,
    data_centres: &[String],
    now_us: i64,
) -> Result<Option<Decision>, QueryError> {
    derived::check(ddl, schema)?;
    cdc::check(ddl, schema)?;
    let mut decision = decide_alone(ddl, schema, data_centres, now_us)?;
    if let Some(decision) = &mut decision {
        derived::follow(ddl, schema, decision);
        cdc::follow(ddl, schema, now_us, decision)?;
    }
    Ok(decision)
}

/// [`decide`], without what becomes of the views and indexes of a table.
fn decide_alone(
    ddl: &Ddl,
    schema: &Schema,
    data_centres: &[String],
    now_us: i64,
) -> Result<Option<Decision>, QueryError> {
    match ddl {
        Ddl::CreateView { .. }
        | Ddl::AlterView { .. }
        | Ddl::DropView { .. }
        | Ddl::CreateIndex { .. }
        | Ddl::DropIndex { .. } => derived::decide(ddl, schema, now_us),
        Ddl::CreateKeyspace { def, if_not_exists } => {
            if schema.keyspace(&def.name).is_some() {
                return if *if_not_exists { Ok(None) } else { Err(QueryError::already_exists(&def.name, "")) };
            }
            let mut def = def.clone();
            options::resolve_data_centres(&mut def.replication, data_centres)?;
            Ok(Some(keyspace_decision(&def, ChangeKind::Created)))
        }
        Ddl::AlterKeyspace { name, properties, if_exists } => {
            let Some(known) = schema.keyspace(name) else {
                return absent(*if_exists, || invalid!("Keyspace '{name}' doesn't exist"));
            };
            let mut def = KeyspaceDef {
                durable_writes: known.durable_writes,
                ..KeyspaceDef::new(name, known.replication.clone())
            };
            options::apply_to_keyspace(&mut def, properties)?;
            options::resolve_data_centres(&mut def.replication, data_centres)?;
            Ok(Some(keyspace_decision(&def, ChangeKind::Updated)))
        }
        Ddl::DropKeyspace { name, if_exists } => {
            let Some(known) = schema.keyspace(name) else {
                return absent(*if_exists, || QueryError::invalid(format!("Keyspace '{name}' doesn't exist")));
            };
            let target = Target::Keyspace(name.clone());
            let tables = known.tables.keys().map(|table| (Target::Table(name.clone(), table.clone()), None));
            let types = known.types.keys().map(|ty| (Target::Type(name.clone(), ty.clone()), None));
            let functions = known.functions.keys().map(|one| (Target::Function(name.clone(), one.clone()), None));
            let aggregates = known.aggregates.keys().map(|one| (Target::Aggregate(name.clone(), one.clone()), None));
            let inside = tables.chain(types).chain(functions).chain(aggregates);
            let entries = inside.chain([(target.clone(), None)]).collect();
            Ok(Some(Decision { entries, change: Change { kind: ChangeKind::Dropped, target } }))
        }
        Ddl::CreateTable { def, if_not_exists, with_id } => {
            let Some(keyspace) = schema.keyspace(&def.keyspace) else {
                return Err(invalid!("Keyspace '{}' doesn't exist", def.keyspace));
            };
            if keyspace.tables.contains_key(&def.name) {
                let exists = || QueryError::already_exists(&def.keyspace, &def.name);
                return if *if_not_exists { Ok(None) } else { Err(exists()) };
            }
            let mut def = def.clone();
            if !with_id {
                def.id = TableId::from_creation(&def.keyspace, &def.name, now_us as u64);
            }
            Ok(Some(table_decision(&def, ChangeKind::Created)))
        }
        Ddl::AlterTable { keyspace, name, change, if_exists } => {
            let Some(known) = schema.table(keyspace, name) else {
                return absent(*if_exists, || invalid!("Table '{keyspace}.{name}' doesn't exist"));
            };
            let def = alter::alter(known, change, now_us)?;
            Ok(Some(table_decision(&def, ChangeKind::Updated)))
        }
        Ddl::Type(ddl) => user_type::decide(ddl, schema),
        Ddl::Function(ddl) => function::decide(ddl, schema),
        Ddl::DropTable { keyspace, name, if_exists } => {
            if schema.table(keyspace, name).is_none() {
                return absent(*if_exists, || invalid!("Table '{keyspace}.{name}' doesn't exist"));
            }
            let target = Target::Table(keyspace.clone(), name.clone());
            let change = Change { kind: ChangeKind::Dropped, target: target.clone() };
            Ok(Some(Decision { entries: vec![(target, None)], change }))
        }
    }
}

fn absent(if_exists: bool, error: impl FnOnce() -> QueryError) -> Result<Option<Decision>, QueryError> {
    if if_exists { Ok(None) } else { Err(error()) }
}

fn keyspace_decision(def: &KeyspaceDef, kind: ChangeKind) -> Decision {
    let target = Target::Keyspace(def.name.clone());
    let entries = vec![(target.clone(), Some(describe::keyspace(def)))];
    Decision { entries, change: Change { kind, target } }
}

fn table_decision(def: &TableDef, kind: ChangeKind) -> Decision {
    let target = Target::Table(def.keyspace.clone(), def.name.clone());
    let entries = vec![(target.clone(), Some(describe::table_with_id(def)))];
    Decision { entries, change: Change { kind, target } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> TableDef {
        let def = read_table(text, &UserTypesByName::new()).unwrap();
        let again = read_table(&describe::table_with_id(&def), &UserTypesByName::new()).unwrap();
        assert_eq!(again, def, "{}", describe::table_with_id(&def));
        def
    }

    #[test]
    fn a_described_table_reads_back_the_same() {
        check("CREATE TABLE ks.t (k int PRIMARY KEY, v text, l list<int>, m map<text, frozen<set<int>>>)");
        check("CREATE TABLE ks.c (k int PRIMARY KEY, n counter)");
        let def = check(
            "CREATE TABLE ks.t (a int, b text, c timeuuid, d int, s text static, \"Odd Name\" frozen<list<int>>, \
             PRIMARY KEY ((a, b), c, d)) WITH CLUSTERING ORDER BY (c DESC, d ASC) AND comment = 'it''s' \
             AND gc_grace_seconds = 5 AND compaction = {'class': 'SizeTieredCompactionStrategy', 'min_threshold': 6}",
        );
        assert_eq!((def.partition_key.len(), def.clustering.len(), def.statics.len()), (2, 2, 1));
        assert!(def.clustering[0].descending && !def.clustering[1].descending);
        assert_eq!((def.options.gc_grace_seconds, def.options.comment.as_str()), (5, "it's"));
    }

    #[test]
    fn a_described_keyspace_reads_back_the_same() {
        for replication in
            ["{'class': 'SimpleStrategy', 'replication_factor': 3}", "{'class': 'NetworkTopologyStrategy', 'dc1': 2}"]
        {
            let def = read_keyspace(&format!("CREATE KEYSPACE ks WITH replication = {replication}")).unwrap();
            assert_eq!(read_keyspace(&describe::keyspace(&def)).unwrap(), def);
        }
    }

    #[test]
    fn wrong_statements_are_refused() {
        let check = |text: &str, expect: &str| {
            let message = read_table(text, &UserTypesByName::new()).unwrap_err().message;
            assert!(message.contains(expect), "{text}: {message}");
        };
        check("CREATE TABLE ks.t (k int, v int)", "No PRIMARY KEY");
        check("CREATE TABLE ks.t (k int PRIMARY KEY, k int)", "Duplicate");
        check("CREATE TABLE ks.t (k int, PRIMARY KEY (z))", "Unknown column 'z'");
        check("CREATE TABLE ks.t (k int PRIMARY KEY, v int PRIMARY KEY)", "Multiple PRIMARY KEYs");
        check("CREATE TABLE ks.t (k int, c int, PRIMARY KEY (k, c, c))", "Duplicate column 'c' in PRIMARY KEY");
        let ordered = |order| format!("CREATE TABLE ks.t (k int, a int, b int, PRIMARY KEY (k, a, b)) WITH {order}");
        check(&ordered("CLUSTERING ORDER BY (k DESC)"), "Only clustering key columns");
        check(&ordered("CLUSTERING ORDER BY (b DESC, a ASC)"), "(a must appear before b)");
        check(&ordered("default_time_to_live = -1"), "must be greater than or equal to 0");
        check(&ordered("default_time_to_live = 630720001"), "must be less than or equal to 630720000");
        check("CREATE TABLE ks.t (k int PRIMARY KEY, s int static)", "Static columns are only useful");
        check("CREATE TABLE ks.t (k counter PRIMARY KEY)", "ounter");
        check("CREATE TABLE ks.t (k list<int> PRIMARY KEY)", "non-frozen collection");
        check("CREATE TABLE ks.t (k int PRIMARY KEY) WITH nonsense = 1", "Unknown property 'nonsense'");
    }
}
