//! Secondary indexes: what may be indexed, and the view that holds an index's contents. Refusals in the words of
//! Cassandra's `CreateIndexStatement` and Scylla's.
//!
//! A global index is a view whose partitions are the indexed values, its rows sorted by the token of the base's
//! partition key first, so that a search through the index goes through the base in the order of the ring. A local
//! index has the base's own partitions, sorted by value.

use cql::ast::{self, CreateIndex, Properties, PropertyValue};
use types::{ColumnDef, ColumnKind, CqlType, IndexDef, IndexPart, IndexTarget, IndexView, TableDef, ViewDef};

use super::{MASK_ALL, inherited_masks, options};
use crate::error::{QueryError, invalid};

/// Classes that make an ordinary index.
const NATIVE: [&str; 2] = ["legacy_local_table", "secondary_index"];
/// Storage-attached indexes are asked in the same way, and answered by ours.
const ATTACHED: [&str; 3] = ["storageattachedindex", "org.apache.cassandra.index.sai.storageattachedindex", "sai"];

/// The index with its view; `None` for the view's id means that the statement gave none.
pub(crate) struct NewIndex {
    pub def: IndexDef,
    pub view: Option<TableDef>,
    pub has_id: bool,
}

pub(crate) fn index(create: &CreateIndex, name: &str, base: &TableDef) -> Result<NewIndex, QueryError> {
    super::check_name("Index", name)?;
    if base.view.is_some() {
        return Err(invalid!("Secondary indexes are not supported on materialized views"));
    }
    if base.is_counter() {
        return Err(invalid!("Secondary indexes on counter tables aren't supported"));
    }
    if create.compact_storage {
        return Err(invalid!("Cannot use 'COMPACT STORAGE' when defining a materialized view"));
    }
    if !create.clustering_order.is_empty() {
        return Err(invalid!("Indexes do not allow for specifying the clustering order"));
    }
    let target = match create.targets.as_slice() {
        [target] => target,
        [] => return Err(invalid!("Only CUSTOM indexes can be created without specifying a target column")),
        _ => return Err(invalid!("Only CUSTOM indexes support multiple columns")),
    };
    if !create.is_custom && !create.options.is_empty() {
        return Err(invalid!("Cannot specify options for a non-CUSTOM index"));
    }
    if create.is_custom && create.class.is_none() {
        return Err(invalid!("CUSTOM index requires specifying the index class"));
    }
    if let Some(class) = create.class.as_deref() {
        check_class(class, base, target)?;
    }
    let is_local = !create.local_key.is_empty();
    if is_local && !create.local_key.iter().eq(base.partition_key.iter().map(|column| &column.name)) {
        return Err(invalid!(
            "Local index definition must contain full partition key only. Redundant column: {}",
            create.local_key.join(", ")
        ));
    }
    let column = base.column(&target.column);
    let column = column.ok_or_else(|| invalid!("No column definition found for column {}", target.column))?;
    let part = part(target, column, base)?;
    if is_local && column.kind == ColumnKind::Static {
        return Err(invalid!("Local indexes containing static columns are not supported."));
    }
    if is_local && part.is_collection_part() {
        return Err(invalid!("Local secondary indexes on collection columns are not implemented yet."));
    }
    let target = IndexTarget { column: column.name.clone(), part };
    if base.indexes.iter().any(|known| known.target == target && known.is_local == is_local) {
        let known = base.indexes.iter().find(|known| known.target == target).map_or("", |known| &known.name);
        return Err(invalid!("Index {name} is a duplicate of existing index {known}"));
    }
    let (view, has_id) = view(base, column, &target, is_local, name, &create.properties)?;
    let def = IndexDef {
        name: name.to_string(),
        target,
        is_local,
        class: create.class.clone(),
        options: create.options.clone(),
        view: Some(view.name.clone()),
    };
    Ok(NewIndex { def, view: Some(view), has_id })
}

fn check_class(class: &str, base: &TableDef, target: &ast::IndexTarget) -> Result<(), QueryError> {
    let lower = class.to_ascii_lowercase();
    if NATIVE.contains(&lower.as_str()) || ATTACHED.contains(&lower.as_str()) {
        let column = base.column(&target.column);
        if column.is_some_and(|column| matches!(column.ty.unfrozen(), CqlType::Vector(..))) {
            return Err(invalid!("Vector indexes are not supported: column {} cannot be indexed", target.column));
        }
        return Ok(());
    }
    if lower == "vector_index" {
        return Err(invalid!("Vector indexes are not supported by this server"));
    }
    Err(invalid!("Non-supported custom class '{class}' provided"))
}

fn part(target: &ast::IndexTarget, column: &ColumnDef, base: &TableDef) -> Result<IndexPart, QueryError> {
    let name = &column.name;
    let ty = &column.ty;
    let is_collection = matches!(ty.unfrozen(), CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..));
    let is_map = matches!(ty.unfrozen(), CqlType::Map(..));
    if !ty.is_comparable() {
        let what = if is_collection { "collections containing durations" } else { "duration columns" };
        return Err(invalid!("Secondary indexes are not supported on {what}"));
    }
    if matches!(ty, CqlType::Udt(_)) {
        return Err(invalid!("Cannot create index on non-frozen UDT column {name}"));
    }
    if matches!(column.kind, ColumnKind::PartitionKey(_)) && base.partition_key.len() == 1 {
        return Err(invalid!("Cannot create secondary index on partition key column {name}"));
    }
    let simple = |part: &str| {
        invalid!("Cannot create {part}() index on {name}. Non-collection columns only support simple indexes")
    };
    if !is_collection {
        return match target.part {
            ast::IndexPart::Plain => Ok(IndexPart::Whole),
            ast::IndexPart::Keys => Err(simple("keys")),
            ast::IndexPart::Values => Err(simple("values")),
            ast::IndexPart::Entries => Err(simple("entries")),
            ast::IndexPart::Full => Err(invalid!("full() indexes can only be created on frozen collections")),
        };
    }
    if !ty.is_multi_cell() {
        return match target.part {
            ast::IndexPart::Full => Ok(IndexPart::Full),
            // A key is compared as a whole anyway.
            ast::IndexPart::Plain if column.is_primary_key() => Ok(IndexPart::Whole),
            _ => Err(invalid!(
                "Cannot create {}() index on frozen column {name}. Frozen collections only support full() indexes",
                match target.part {
                    ast::IndexPart::Keys => "keys",
                    ast::IndexPart::Entries => "entries",
                    _ => "values",
                }
            )),
        };
    }
    match target.part {
        ast::IndexPart::Full => Err(invalid!("full() indexes can only be created on frozen collections")),
        ast::IndexPart::Plain | ast::IndexPart::Values => Ok(IndexPart::Values),
        ast::IndexPart::Keys if is_map => Ok(IndexPart::Keys),
        ast::IndexPart::Entries if is_map => Ok(IndexPart::Entries),
        ast::IndexPart::Keys => Err(invalid!("Cannot create index on keys() of column {name} with non-map type")),
        ast::IndexPart::Entries => Err(invalid!("Cannot create index on entries() of column {name} with non-map type")),
    }
}

/// The type of what is looked up: a value, an element, a key, or a pair.
pub(crate) fn value_type(ty: &CqlType, part: IndexPart) -> CqlType {
    match (ty.unfrozen(), part) {
        (CqlType::List(element) | CqlType::Set(element), IndexPart::Values) => (**element).clone(),
        (CqlType::Map(_, value), IndexPart::Values) => (**value).clone(),
        (CqlType::Map(key, _), IndexPart::Keys) => (**key).clone(),
        (CqlType::Map(key, value), IndexPart::Entries) => CqlType::Tuple(vec![(**key).clone(), (**value).clone()]),
        _ => ty.clone(),
    }
}

fn view(
    base: &TableDef,
    column: &ColumnDef,
    target: &IndexTarget,
    is_local: bool,
    name: &str,
    properties: &Properties,
) -> Result<(TableDef, bool), QueryError> {
    let fresh = |wanted: &str| {
        let mut name = wanted.to_string();
        while base.column(&name).is_some() {
            name.push('_');
        }
        name
    };
    let part = target.part;
    let value = if part.is_collection_part() { fresh("coll_value") } else { column.name.clone() };
    let mut builder = TableDef::builder(&base.keyspace, &format!("{name}_index"));
    let mut token = None;
    let others = |columns: &'_ [ColumnDef]| -> Vec<ColumnDef> {
        columns.iter().filter(|other| other.name != value).cloned().collect()
    };
    if is_local {
        for key in &base.partition_key {
            builder = builder.partition_key(&key.name, key.ty.clone());
        }
        builder = builder.clustering(&value, column.ty.clone());
    } else {
        builder = builder.partition_key(&value, value_type(&column.ty, part));
        let token_name = fresh("idx_token");
        builder = builder.clustering(&token_name, CqlType::BigInt);
        token = Some(token_name);
        for key in others(&base.partition_key) {
            builder = builder.clustering(&key.name, key.ty.clone());
        }
    }
    if column.kind != ColumnKind::Static {
        for key in others(&base.clustering) {
            builder = builder.clustering_ordered(&key.name, key.ty.clone(), key.descending);
        }
    }
    let mut element = None;
    if part == IndexPart::Values && !matches!(column.ty.unfrozen(), CqlType::Set(_)) {
        let name = fresh("coll_keys_for_values_index");
        builder = builder.clustering(&name, column.ty.path_type().cloned().unwrap_or(CqlType::Blob));
        element = Some(name);
    }
    let is_strict = !column.is_primary_key();
    let mut hidden = Vec::new();
    if !is_strict {
        for regular in &base.regulars {
            hidden.push(regular.name.clone());
            builder = builder.regular(&regular.name, CqlType::Blob);
        }
    }
    let mut def = builder.build();
    // Whole values under their own names, and elements under others.
    def.masks = inherited_masks(base, &def, &hidden);
    if base.masks.contains_key(&column.name) {
        def.masks.extend(element.iter().chain([&value]).map(|name| (name.clone(), MASK_ALL.to_string())));
    }
    let mut properties = properties.clone();
    properties.entry("comment".to_string()).or_insert(PropertyValue::Text(String::new()));
    let id = options::apply_to_new_table(&mut def.options, &properties)?;
    super::view::check_options(&def)?;
    if let Some(id) = id {
        def.id = id;
    }
    def.view = Some(Box::new(ViewDef {
        base_id: base.id,
        base_name: base.name.clone(),
        include_all_columns: false,
        where_clause: String::new(),
        hidden,
        is_strict,
        index: Some(IndexView { name: name.to_string(), value, token, element, target: target.clone() }),
    }));
    Ok((def, id.is_some()))
}

/// Reads a `CREATE INDEX` that [`crate::schema::describe::index_with_id`] wrote.
pub(crate) fn read(text: &str, base: &TableDef) -> Result<NewIndex, QueryError> {
    match super::parse(text)? {
        ast::Statement::CreateIndex(create) => {
            let name = create.name.as_ref().map(|name| name.name.clone());
            index(&create, &name.ok_or_else(|| invalid!("an index without a name"))?, base)
        }
        _ => Err(invalid!("not a CREATE INDEX")),
    }
}

/// `table_column_idx`, with a number behind it if that name is taken.
pub(crate) fn default_name(table: &str, column: &str, taken: impl Fn(&str) -> bool) -> String {
    let word: String = column.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    let name = format!("{table}_{word}_idx");
    if !taken(&name) {
        return name;
    }
    (1..).map(|number| format!("{name}_{number}")).find(|name| !taken(name)).unwrap_or(name)
}
