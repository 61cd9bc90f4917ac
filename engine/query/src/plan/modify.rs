//! INSERT, UPDATE and DELETE: which cells of which rows get which values.

use std::sync::Arc;

use cql::ast::{self, DeleteTarget, Operator, Relation, Term};
use cql::request::BatchKind;
use types::{ColumnDef, ColumnKind, CqlType, TableDef};

use super::restrictions::{analyse, column, out_of_order};
use super::{Change, Conditions, JsonMember, KeyPlan, Markers, PartitionPlan, SlicePlan, Source};
use crate::cdc::Log;
use crate::error::{QueryError, invalid};
use crate::guardrails::large;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ModifyKind {
    Insert,
    Update,
    Delete,
}

impl ModifyKind {
    pub fn name(self) -> &'static str {
        match self {
            ModifyKind::Insert => "INSERT",
            ModifyKind::Update => "UPDATE",
            ModifyKind::Delete => "DELETE",
        }
    }
}

/// What part of a partition the statement is about.
#[derive(Clone, Debug)]
pub(crate) enum ClusteringTarget {
    /// The partition as a whole, or its static row alone.
    Partition,
    /// Whole clusterings.
    Rows(SlicePlan),
    /// A deletion of all rows in slices.
    Range(SlicePlan),
}

#[derive(Clone, Debug)]
pub(crate) struct Modify {
    pub table: Arc<TableDef>,
    pub kind: ModifyKind,
    pub key: KeyPlan,
    pub target: ClusteringTarget,
    /// By index in `TableDef::regulars`, in its order; those of one column in the order of the text.
    pub cells: Vec<(u16, Change)>,
    /// By index in `TableDef::statics`.
    pub statics: Vec<(u16, Change)>,
    pub timestamp: Option<Source>,
    pub ttl: Option<Source>,
    /// `USING TIMEOUT`
    pub timeout: Option<Source>,
    /// `IF ..`
    pub condition: Option<Box<Conditions>>,
    /// Where changes are logged.
    pub log: Option<Box<Log>>,
    /// Whether the table asks for its writes to be held against the limits of what is large.
    pub guards_large_data: bool,
}

impl Modify {
    /// Whether it adds to counters, which their leader turns into values.
    pub fn counts(&self) -> bool {
        let mut changes = self.cells.iter().chain(&self.statics);
        changes.any(|(_, change)| matches!(change, Change::Count { .. }))
    }

    /// Whether what it writes depends on what is there.
    pub fn needs_current(&self) -> bool {
        self.cells.iter().chain(&self.statics).any(|(_, change)| change.needs_current())
    }
}

/// Whether a batch of this kind may have these statements.
pub(crate) fn check_batch<'a>(
    kind: BatchKind,
    statements: impl Iterator<Item = &'a Modify> + Clone,
    has_timestamp: bool,
) -> Result<(), QueryError> {
    let counts = statements.clone().any(|modify| modify.table.is_counter());
    let sets = statements.clone().any(|modify| !modify.table.is_counter());
    match kind {
        BatchKind::Counter if has_timestamp => Err(invalid!("Cannot provide custom timestamp for counter BATCH")),
        _ if has_timestamp && counts => {
            Err(invalid!("Cannot provide custom timestamp for a BATCH containing counters"))
        }
        BatchKind::Counter if sets => Err(invalid!("Cannot include non-counter statement in a counter batch")),
        _ if counts && sets => Err(invalid!("Counter and non-counter mutations cannot exist in the same batch")),
        BatchKind::Logged if counts => Err(invalid!("Cannot include a counter statement in a logged batch")),
        _ => Ok(()),
    }
}

/// What `USING` says.
struct Attributes {
    timestamp: Option<Source>,
    ttl: Option<Source>,
    timeout: Option<Source>,
}

fn using(using: &ast::Using, markers: &mut Markers) -> Result<Attributes, QueryError> {
    let mut resolve = |term: &Option<Term>, ty: CqlType, name: &str| {
        term.as_ref().map(|term| Source::resolve(term, &ty, name, markers)).transpose()
    };
    Ok(Attributes {
        timestamp: resolve(&using.timestamp, CqlType::BigInt, "[timestamp]")?,
        ttl: resolve(&using.ttl, CqlType::Int, "[ttl]")?,
        timeout: super::timeout_source(using.timeout.as_ref(), markers)?,
    })
}

fn refuse_counters(table: &TableDef) -> Result<(), QueryError> {
    match table.is_counter() {
        true => Err(invalid!("INSERT statements are not allowed on counter tables, use UPDATE instead")),
        false => Ok(()),
    }
}

pub(super) fn insert(table: Arc<TableDef>, insert: &ast::Insert, markers: &mut Markers) -> Result<Modify, QueryError> {
    refuse_counters(&table)?;
    if insert.columns.len() != insert.values.len() {
        return Err(invalid!("Unmatched column names/values"));
    }
    let mut relations = Vec::new();
    let mut assigned = Vec::new();
    for (at, (name, value)) in insert.columns.iter().zip(&insert.values).enumerate() {
        if insert.columns[..at].contains(name) {
            return Err(invalid!("The column names contains duplicates"));
        }
        if column(&table, name)?.is_primary_key() {
            relations.push(Relation::Column { column: name.clone(), operator: Operator::Equal, value: value.clone() });
        } else {
            assigned.push((name.as_str(), value));
        }
    }
    for key in &table.partition_key {
        if !insert.columns.contains(&key.name) {
            return Err(invalid!("Some partition key parts are missing: {}", key.name));
        }
    }
    let attributes = using(&insert.using, markers)?;
    let mut modify = base(table, ModifyKind::Insert, &relations, markers)?;
    modify.take_attributes(attributes)?;
    for (name, value) in assigned {
        let def = assignable(&modify, name)?;
        let change = Change::set(&def, Source::resolve(value, &def.ty, name, markers)?)?;
        assign(&mut modify, &def, change)?;
    }
    let condition = insert.if_not_exists.then(|| Conditions::exists(&modify.table, false));
    settle_target(modify, None)?.with_condition(condition)
}

/// `INSERT .. JSON`: every column of the table gets its member of the object.
pub(super) fn insert_json(
    table: Arc<TableDef>,
    insert: &ast::InsertJson,
    markers: &mut Markers,
) -> Result<Modify, QueryError> {
    refuse_counters(&table)?;
    let json = Source::resolve(&insert.json, &CqlType::Text, "[json]", markers)?;
    let known: Arc<[String]> = table.columns().map(|column| column.name.clone()).collect();
    let Attributes { timestamp, ttl, timeout } = using(&insert.using, markers)?;
    let member = |def: &ColumnDef| {
        let (column, ty) = (def.name.clone(), def.ty.clone());
        let default_unset = insert.default_unset;
        Source::JsonMember(Box::new(JsonMember { json: json.clone(), column, ty, known: known.clone(), default_unset }))
    };
    let names = |columns: &[ColumnDef]| columns.iter().map(|column| column.name.clone()).collect();
    let changes = |columns: &[ColumnDef]| -> Result<Vec<(u16, Change)>, QueryError> {
        let change = |(at, column): (u16, &ColumnDef)| Ok((at, Change::set(column, member(column))?));
        (0..).zip(columns).map(change).collect()
    };
    let target = match table.clustering.as_slice() {
        [] => ClusteringTarget::Partition,
        columns => ClusteringTarget::Rows(SlicePlan::row(columns.iter().map(member).collect())),
    };
    let condition = insert.if_not_exists.then(|| Conditions::exists(&table, false));
    Modify {
        kind: ModifyKind::Insert,
        key: KeyPlan::of(table.partition_key.iter().map(member).collect(), names(&table.partition_key)),
        target,
        cells: changes(&table.regulars)?,
        statics: changes(&table.statics)?,
        timestamp,
        ttl,
        timeout,
        condition: None,
        guards_large_data: large::guards(&table),
        log: Log::of(&table, &markers.schema),
        table,
    }
    .with_condition(condition)
}

pub(super) fn update(table: Arc<TableDef>, update: &ast::Update, markers: &mut Markers) -> Result<Modify, QueryError> {
    // Markers are resolved in the order of the text, which clients rely on only through their positions.
    let attributes = using(&update.using, markers)?;
    let mut modify = base(table, ModifyKind::Update, &update.filter, markers)?;
    modify.take_attributes(attributes)?;
    for assignment in &update.assignments {
        let def = assignable(&modify, &assignment.column)?;
        let change = Change::resolve(&def, &assignment.operation, markers)?;
        assign(&mut modify, &def, change)?;
    }
    let condition = Conditions::resolve(&modify.table, &update.condition, markers)?;
    settle_target(modify, condition.as_ref())?.with_condition(condition)
}

pub(super) fn delete(table: Arc<TableDef>, delete: &ast::Delete, markers: &mut Markers) -> Result<Modify, QueryError> {
    let attributes = ast::Using { timestamp: delete.timestamp.clone(), ttl: None, timeout: delete.timeout.clone() };
    let attributes = using(&attributes, markers)?;
    let mut modify = base(table, ModifyKind::Delete, &delete.filter, markers)?;
    modify.take_attributes(attributes)?;
    for (at, target) in delete.targets.iter().enumerate() {
        if delete.targets[..at].contains(target) {
            continue;
        }
        let (DeleteTarget::Column(name)
        | DeleteTarget::Element { column: name, .. }
        | DeleteTarget::Field { column: name, .. }) = target;
        let def = column(&modify.table, name)?.clone();
        if def.is_primary_key() {
            return Err(invalid!("Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)"));
        }
        let change = Change::delete_part(&def, target, markers)?;
        assign(&mut modify, &def, change)?;
    }
    let condition = Conditions::resolve(&modify.table, &delete.condition, markers)?;
    if delete.targets.is_empty() {
        return modify.with_condition(condition);
    }
    settle_target(modify, condition.as_ref())?.with_condition(condition)
}

impl Modify {
    /// A conditional statement is about one row, and its time is the one at which it is decided.
    fn with_condition(mut self, condition: Option<Conditions>) -> Result<Modify, QueryError> {
        let Some(condition) = condition else {
            let mut all = self.cells.iter().map(|of| (of, &self.table.regulars));
            let mut statics = self.statics.iter().map(|of| (of, &self.table.statics));
            let sum = all.find(|((_, change), _)| matches!(change, Change::Sum { .. }));
            let sum = sum.or_else(|| statics.find(|((_, change), _)| matches!(change, Change::Sum { .. })));
            if let Some(((index, _), columns)) = sum {
                let name = &columns[usize::from(*index)].name;
                return Err(invalid!("Invalid operation ({name} = {name} + ..) for non counter column {name}"));
            }
            return Ok(self);
        };
        if self.table.is_counter() {
            return Err(invalid!("Conditional updates are not supported on counter tables"));
        }
        if self.timestamp.is_some() {
            return Err(invalid!("Cannot provide custom timestamp for conditional updates"));
        }
        let done = if self.kind == ModifyKind::Delete { "deletions" } else { "updates" };
        if self.key.has_in() {
            return Err(invalid!("IN on the partition key is not supported with conditional {done}"));
        }
        let names = || self.table.clustering.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        let only_static = self.cells.is_empty() && !self.statics.is_empty();
        match &self.target {
            ClusteringTarget::Rows(slices) if slices.has_in() => {
                return Err(invalid!("IN on the clustering key columns is not supported with conditional {done}"));
            }
            ClusteringTarget::Rows(_) => {}
            ClusteringTarget::Partition if self.table.clustering.is_empty() => {}
            ClusteringTarget::Partition if only_static && !condition.is_about_rows() => {}
            _ if only_static => return Err(invalid!("Some clustering keys are missing: {}", names())),
            _ => {
                return Err(invalid!(
                    "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete \
                     non static columns; some clustering keys are missing: {}",
                    names()
                ));
            }
        }
        self.condition = Some(Box::new(condition));
        Ok(self)
    }

    fn take_attributes(&mut self, attributes: Attributes) -> Result<(), QueryError> {
        if self.table.is_counter() && attributes.timestamp.is_some() {
            return Err(invalid!("Cannot provide custom timestamp for counter updates"));
        }
        if self.table.is_counter() && attributes.ttl.is_some() {
            return Err(invalid!("Cannot provide custom TTL for counter updates"));
        }
        (self.timestamp, self.ttl, self.timeout) = (attributes.timestamp, attributes.ttl, attributes.timeout);
        Ok(())
    }
}

/// Key, target and table; no cells yet.
fn base(
    table: Arc<TableDef>,
    kind: ModifyKind,
    relations: &[Relation],
    markers: &mut Markers,
) -> Result<Modify, QueryError> {
    let statement = kind.name();
    for relation in relations {
        match relation {
            Relation::Token { .. } => {
                return Err(invalid!("The token function cannot be used in WHERE clauses for {statement} statements"));
            }
            Relation::Contains { key, .. } => {
                return Err(invalid!("Cannot use {statement} with CONTAINS{}", if *key { " KEY" } else { "" }));
            }
            _ => {}
        }
    }
    let restrictions = analyse(&table, relations, markers)?;
    if kind == ModifyKind::Update && restrictions.slices.has_range() {
        return Err(invalid!(
            "Slice restrictions are not supported on the clustering columns in {statement} statements"
        ));
    }
    if let Some(tuple) = restrictions.tuples.first() {
        let name = &table.clustering[tuple.first].name;
        return Err(invalid!("PRIMARY KEY column \"{name}\" cannot be restricted by these relations together"));
    }
    if let Some(filter) = restrictions.filters.first() {
        let name = &filter.column.name;
        if table.clustering.iter().chain(&table.partition_key).any(|column| column.name == *name)
            && !restrictions.is_slow
        {
            return Err(invalid!("{name} cannot be restricted by more than one relation if it includes an Equal"));
        }
        return Err(match filter.column.kind {
            ColumnKind::Clustering(_) => out_of_order(&table, relations).unwrap_or_else(|| {
                invalid!("PRIMARY KEY column \"{name}\" cannot be restricted by these relations together")
            }),
            ColumnKind::PartitionKey(_) => match missing(&table, relations) {
                names if names.is_empty() => invalid!(
                    "Only EQ and IN relation are supported on the partition key (unless you use the token() function) \
                     for {statement} statements"
                ),
                names => invalid!("Some partition key parts are missing: {names}"),
            },
            _ => invalid!("Non PRIMARY KEY columns found in where clause: {name}"),
        });
    }
    let PartitionPlan::Keys(key) = restrictions.partition else {
        return Err(invalid!("Some partition key parts are missing: {}", missing(&table, relations)));
    };
    let slices = restrictions.slices;
    let target = if slices.is_rows(&table) && !table.clustering.is_empty() {
        ClusteringTarget::Rows(slices)
    } else if slices.is_all() {
        ClusteringTarget::Partition
    } else {
        ClusteringTarget::Range(slices)
    };
    let (timestamp, ttl, timeout) = (None, None, None);
    let (cells, statics, condition) = (Vec::new(), Vec::new(), None);
    let (guards_large_data, log) = (large::guards(&table), Log::of(&table, &markers.schema));
    Ok(Modify { table, kind, key, target, cells, statics, timestamp, ttl, timeout, condition, log, guards_large_data })
}

fn missing(table: &TableDef, relations: &[Relation]) -> String {
    let restricted = |name: &str| {
        relations.iter().any(|relation| match relation {
            Relation::Column { column, .. } | Relation::In { column, .. } => column == name,
            _ => false,
        })
    };
    let names = table.partition_key.iter().map(|column| column.name.as_str()).filter(|name| !restricted(name));
    names.collect::<Vec<_>>().join(", ")
}

/// The column of an assignment.
fn assignable(modify: &Modify, name: &str) -> Result<ColumnDef, QueryError> {
    let def = column(&modify.table, name)?;
    if def.is_primary_key() {
        return Err(invalid!("PRIMARY KEY part {name} found in SET part"));
    }
    Ok(def.clone())
}

fn assign(modify: &mut Modify, def: &ColumnDef, change: Change) -> Result<(), QueryError> {
    let name = &def.name;
    let (list, index) = match def.kind {
        ColumnKind::Static => (&mut modify.statics, modify.table.static_index(name)),
        _ => (&mut modify.cells, modify.table.regular_index(name)),
    };
    let index = index.ok_or_else(|| invalid!("Undefined column name {name}"))? as u16;
    let mut others = list.iter().filter(|(other, _)| *other == index);
    if others.any(|(_, other)| change.is_whole() || other.is_whole()) {
        return Err(QueryError::syntax(format!("Multiple incompatible setting of column {name}")));
    }
    list.push((index, change));
    list.sort_by_key(|(index, _)| *index);
    Ok(())
}

/// Rows that get values need a whole clustering; static values alone need none.
fn settle_target(modify: Modify, condition: Option<&Conditions>) -> Result<Modify, QueryError> {
    let table = &modify.table;
    let only_static = modify.cells.is_empty() && !modify.statics.is_empty();
    let may_name_rows = modify.kind == ModifyKind::Insert || condition.is_some_and(Conditions::may_be_of_a_row);
    match &modify.target {
        ClusteringTarget::Partition if table.clustering.is_empty() || only_static => Ok(modify),
        ClusteringTarget::Rows(_) if !only_static || may_name_rows => Ok(modify),
        _ if only_static => Err(invalid!(
            "Invalid restrictions on clustering columns since the {} statement modifies only static columns",
            modify.kind.name()
        )),
        _ if modify.kind == ModifyKind::Delete => {
            Err(invalid!("Range deletions are not supported for specific columns"))
        }
        target => {
            let named = if let ClusteringTarget::Range(slices) = target { slices.columns() } else { 0 };
            let names: Vec<&str> = table.clustering.iter().skip(named).map(|column| column.name.as_str()).collect();
            Err(invalid!("Some clustering keys are missing: {}", names.join(", ")))
        }
    }
}
