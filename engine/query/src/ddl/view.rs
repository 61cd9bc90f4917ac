//! Materialized views: what may be one, and its table. Refusals in the words of Cassandra's `CreateViewStatement`, or
//! of Scylla's where Cassandra has no such rule.

use cql::ast::{self, CreateView, Direction, Relation, Selection, Selector};
use types::{ColumnDef, ColumnKind, CqlType, TableDef, TableId, ViewDef};

use super::{inherited_masks, options};
use crate::error::{QueryError, invalid};
use crate::view::Condition;

/// The view's table, and whether the statement gave its id.
pub(crate) fn table(create: &CreateView, base: &TableDef) -> Result<(TableDef, bool), QueryError> {
    let name = &create.name.name;
    super::check_name("Materialized view", name)?;
    if create.compact_storage {
        return Err(invalid!("Cannot use 'COMPACT STORAGE' when defining a materialized view"));
    }
    if base.view.is_some() {
        return Err(invalid!("Materialized views cannot be created against other materialized views"));
    }
    if base.is_counter() {
        return Err(invalid!("Materialized views are not supported on counter tables"));
    }
    let selected = selected(create, base)?;
    let key = key_columns(create, base)?;
    let regulars_in_key: Vec<&ColumnDef> = key.iter().filter(|column| !column.is_primary_key()).copied().collect();
    if let [_, second, ..] = regulars_in_key.as_slice() {
        return Err(invalid!(
            "Cannot include more than one non-primary key column '{}' in materialized view primary key",
            second.name
        ));
    }
    check_filter(create, base, &key)?;
    let mut builder = TableDef::builder(&base.keyspace, name);
    let (partition, clustering) = key.split_at(create.partition_key.len());
    for column in partition {
        builder = builder.partition_key(&column.name, column.ty.clone());
    }
    let order = &create.clustering_order;
    let matches = order.len() == clustering.len() && order.iter().zip(clustering).all(|((o, _), c)| *o == c.name);
    if !order.is_empty() && !matches {
        return Err(invalid!("Clustering key columns must exactly match columns in CLUSTERING ORDER BY directive"));
    }
    for (at, column) in clustering.iter().enumerate() {
        // As the base has it, unless the view says otherwise.
        let descending = order.get(at).map_or(column.descending, |(_, way)| *way == Direction::Descending);
        builder = builder.clustering_ordered(&column.name, column.ty.clone(), descending);
    }
    let is_strict = !regulars_in_key.is_empty();
    let mut hidden = Vec::new();
    for column in &base.regulars {
        if key.iter().any(|part| part.name == column.name) {
            continue;
        }
        if selected.as_ref().is_none_or(|selected| selected.contains(&column.name)) {
            builder = builder.regular(&column.name, column.ty.clone());
        } else if !is_strict {
            hidden.push(column.name.clone());
            builder = builder.regular(&column.name, CqlType::Blob);
        }
    }
    let mut def = builder.build();
    def.masks = inherited_masks(base, &def, &hidden);
    let id = options::apply_to_new_table(&mut def.options, &create.properties)?;
    check_options(&def)?;
    if let Some(id) = id {
        def.id = id;
    }
    def.view = Some(Box::new(ViewDef {
        base_id: base.id,
        base_name: base.name.clone(),
        include_all_columns: selected.is_none(),
        where_clause: create.filter_text.clone(),
        hidden,
        is_strict,
        index: None,
    }));
    Ok((def, id.is_some()))
}

/// What a view's options may not be.
pub(crate) fn check_options(view: &TableDef) -> Result<(), QueryError> {
    if view.options.default_time_to_live_s != 0 {
        return Err(invalid!(
            "Cannot set or alter default_time_to_live for a materialized view. Data in a materialized view always expire at \
             the same time than the corresponding data in the parent table."
        ));
    }
    if !view.options.cdc.is_empty() || view.options.other.get("cdc").is_some_and(|cdc| cdc.contains("true")) {
        return Err(invalid!("Cannot enable CDC for a materialized view"));
    }
    Ok(())
}

/// The columns that the SELECT names; `None` for all.
fn selected(create: &CreateView, base: &TableDef) -> Result<Option<Vec<String>>, QueryError> {
    let Selection::Items(items) = &create.selection else {
        return match base.statics.first() {
            None => Ok(None),
            Some(column) => Err(invalid!(
                "Unable to include static column '{}' which would be included by Materialized View SELECT * statement",
                column.name
            )),
        };
    };
    let mut names = Vec::new();
    for item in items {
        let name = match &item.selector {
            Selector::Column(name) if item.alias.is_none() => name,
            Selector::Column(_) => return Err(invalid!("Cannot use alias when defining a materialized view")),
            _ => return Err(invalid!("Can only select columns by name when defining a materialized view")),
        };
        let column = find(base, name)?;
        if column.kind == ColumnKind::Static {
            return Err(invalid!("Unable to include static column '{name}' in Materialized View SELECT statement"));
        }
        names.push(name.clone());
    }
    Ok(Some(names))
}

fn find<'a>(base: &'a TableDef, name: &str) -> Result<&'a ColumnDef, QueryError> {
    base.column(name).ok_or_else(|| invalid!("Undefined column name {name} in table {}.{}", base.keyspace, base.name))
}

/// The columns of the view's key in order.
fn key_columns<'a>(create: &CreateView, base: &'a TableDef) -> Result<Vec<&'a ColumnDef>, QueryError> {
    let mut key: Vec<&ColumnDef> = Vec::new();
    for name in create.partition_key.iter().chain(&create.clustering) {
        let column = base.column(name);
        let column = column
            .ok_or_else(|| invalid!("Unknown column name detected in CREATE MATERIALIZED VIEW statement : {name}"))?;
        if key.iter().any(|known| known.name == *name) {
            return Err(invalid!("Duplicate entry found in PRIMARY KEY: {name}"));
        }
        let what = match &column.ty {
            _ if column.kind == ColumnKind::Static => "Static",
            ty if ty.is_multi_cell() => "MultiCell",
            CqlType::Duration => "Duration",
            _ => {
                key.push(column);
                continue;
            }
        };
        return Err(invalid!(
            "Cannot use {what} column '{name}' in PRIMARY KEY of materialized view{}",
            if what == "Static" { " (a static column)" } else { "" }
        ));
    }
    let base_key = base.partition_key.iter().chain(&base.clustering);
    let missing: Vec<&str> =
        base_key.map(|column| column.name.as_str()).filter(|name| !key.iter().any(|part| part.name == *name)).collect();
    if !missing.is_empty() {
        return Err(invalid!(
            "Cannot create Materialized View {} without primary key columns from base {} ({})",
            create.name.name,
            base.name,
            missing.join(", ")
        ));
    }
    Ok(key)
}

/// Each column of the key is restricted, by IS NOT NULL if by nothing else, and no other column is.
fn check_filter(create: &CreateView, base: &TableDef, key: &[&ColumnDef]) -> Result<(), QueryError> {
    let mut restricted: Vec<&str> = Vec::new();
    for relation in &create.filter {
        for name in relation_columns(relation) {
            find(base, name)?;
            if !key.iter().any(|column| column.name == *name) {
                return Err(invalid!(
                    "Non-primary key columns cannot be restricted in the SELECT statement used for materialized view \
                     creation (got restrictions on: {name})"
                ));
            }
            restricted.push(name);
        }
        Condition::of(relation, base)?;
    }
    match key.iter().find(|column| !restricted.contains(&column.name.as_str())) {
        Some(column) => {
            Err(invalid!("Primary key column '{}' is required to be filtered by 'IS NOT NULL'", column.name))
        }
        None => Ok(()),
    }
}

fn relation_columns(relation: &Relation) -> Vec<&String> {
    match relation {
        Relation::Column { column, .. }
        | Relation::In { column, .. }
        | Relation::Contains { column, .. }
        | Relation::Element { column, .. }
        | Relation::IsNotNull { column }
        | Relation::Like { column, .. } => vec![column],
        Relation::Tuple { columns, .. } | Relation::TupleIn { columns, .. } | Relation::Token { columns, .. } => {
            columns.iter().collect()
        }
    }
}

/// Reads a `CREATE MATERIALIZED VIEW` that [`crate::schema::describe::view_with_id`] wrote; `base` finds its table.
pub(crate) fn read<'a>(
    text: &str,
    base: impl FnOnce(&str) -> Option<&'a TableDef>,
) -> Result<Option<TableDef>, QueryError> {
    let ast::Statement::CreateView(create) = super::parse(text)? else {
        return Err(invalid!("not a CREATE MATERIALIZED VIEW"));
    };
    match base(&create.base.name) {
        Some(base) => table(&create, base).map(|(def, _)| Some(def)),
        None => Ok(None),
    }
}

/// A new id, or a refusal when the given one is taken.
pub(crate) fn settle_id(
    def: &mut TableDef,
    given: bool,
    schema: &crate::schema::Schema,
    now_us: i64,
) -> Result<(), QueryError> {
    if !given {
        def.id = TableId::from_creation(&def.keyspace, &def.name, now_us as u64);
    }
    match schema.table_by_id(def.id) {
        Some(known) => Err(invalid!("Table with ID {} already exists: {}.{}", known.id, known.keyspace, known.name)),
        None => Ok(()),
    }
}
