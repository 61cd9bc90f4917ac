//! Plans: statements with every name and type resolved, ready to be executed with values.
//!
//! A plan is made once per prepared statement and schema version. Making one is pure.

mod change;
mod condition;
mod filter;
mod functions;
mod index;
mod mask;
mod modify;
mod prune;
mod restrictions;
mod select;
mod selection;
mod source;
mod tuple;

use std::sync::Arc;

use cql::Consistency;
use cql::ast::{self, Statement};
use cql::response::ColumnSpec;
use types::{CqlType, TableDef};

pub(crate) use change::Change;
pub(crate) use condition::{Answer, Conditions, Wanted};
pub(crate) use filter::{BoundFilter, Filter, Nulls};
pub(crate) use functions::{Function, UserAggregate};
pub(crate) use index::{IndexSearch, Sought};
pub(crate) use modify::{ClusteringTarget, Modify, ModifyKind, check_batch};
pub(crate) use prune::Prune;
pub(crate) use restrictions::{KeyPlan, PartitionPlan, SlicePlan};
pub(crate) use select::{Grouping, Select};
pub(crate) use selection::{Aggregate, Aggregation, Expression, Output, Part};
pub(crate) use source::{Bound, Context, JsonMember, Source, Values};
pub(crate) use tuple::{BoundTuples, TupleFilter};

use crate::access::{self, AccessPlan, Need, Permission, Resource};
use crate::ddl::{self, Ddl};
use crate::error::{QueryError, invalid};
use crate::node::Node;
use crate::schema::Schema;

pub(crate) enum Plan {
    Select(Select),
    Modify(Modify),
    /// A write to a table that shows the node's own state.
    ModifyVirtual(Modify),
    Batch(Batch),
    Schema(Ddl),
    Truncate {
        table: Arc<TableDef>,
        timeout: Option<Source>,
    },
    Prune(Box<Prune>),
    Use(String),
    Describe(crate::describe::Describe),
    /// About roles, grants or service levels.
    Access(AccessPlan),
}

/// A batch written as one statement.
pub(crate) struct Batch {
    pub kind: cql::request::BatchKind,
    pub statements: Vec<Modify>,
    pub timestamp: Option<Source>,
    pub timeout: Option<Source>,
    /// Of a batch with conditions.
    pub answer: Option<Answer>,
}

/// What the bind markers of a statement want, found while planning.
pub(crate) struct Markers {
    specs: Vec<Option<ColumnSpec>>,
    names: Vec<Option<String>>,
    /// Where user types and functions are found.
    schema: Arc<Schema>,
    /// Where functions are found when the statement's table is the system's.
    session_keyspace: Option<String>,
    /// For whom the markers are: the statement's table.
    keyspace: String,
    table: String,
    /// How the operator is written in the names of lists.
    uppercase_in: bool,
    /// That users' functions may be called.
    needs: std::cell::RefCell<Vec<Need>>,
}

impl Markers {
    /// The statement calls a user's function.
    fn executes(&self, keyspace: &str, name: &str, arguments: &[CqlType]) {
        let function = Resource::function(keyspace, name, arguments);
        self.needs.borrow_mut().push(Need::new(Permission::Execute, &function));
    }

    pub fn want(&mut self, marker: u16, name: &str, ty: &CqlType) {
        let name = self.names[marker as usize].as_deref().unwrap_or(name);
        let spec = ColumnSpec::new(&self.keyspace, &self.table, name, ty.clone());
        self.specs[marker as usize] = Some(spec);
    }

    /// What the marker of `column IN ?` is called.
    fn name_of_list(&self, column: &str, negated: bool) -> String {
        let operator = match (negated, self.uppercase_in) {
            (false, false) => "in",
            (false, true) => "IN",
            (true, false) => "not in",
            (true, true) => "NOT IN",
        };
        format!("{operator}({column})")
    }

    /// A type that the statement names, with its user types looked up.
    fn find_type(&self, ty: &CqlType) -> Result<CqlType, QueryError> {
        let known = self.schema.types_of(&self.keyspace);
        ddl::lookup_type(ty, &self.keyspace, &known)
    }

    fn for_table(&mut self, table: &TableDef) {
        self.keyspace.clone_from(&table.keyspace);
        self.table.clone_from(&table.name);
    }
}

/// A planned statement.
pub(crate) struct Planned {
    pub plan: Plan,
    pub markers: Vec<ColumnSpec>,
    /// For each component of the partition key the marker that gives it; empty when markers do not give them all.
    pub partition_key: Vec<u16>,
    /// What a role must have been granted to execute it.
    pub needs: Vec<Need>,
}

/// Plans `parsed`. `keyspace` is the session's.
pub(crate) fn plan(node: &Node, parsed: &cql::Parsed, keyspace: Option<&str>) -> Result<Planned, QueryError> {
    let names: Vec<Option<String>> = parsed.markers.clone();
    let mut markers = Markers {
        specs: vec![None; names.len()],
        schema: node.schema(),
        session_keyspace: keyspace.map(str::to_string),
        keyspace: String::new(),
        table: String::new(),
        uppercase_in: !names.is_empty() && node.settings.flag("cql_in_bind_variable_name_uses_uppercase_operator"),
        needs: Default::default(),
        names,
    };
    check_relations(node, &parsed.statement)?;
    let mut partition_key = Vec::new();
    let plan = match &parsed.statement {
        Statement::Select(statement) => {
            let table = find_table(node, &statement.table, keyspace)?;
            markers.for_table(&table);
            let keyspace = node.keyspace(&table.keyspace);
            let views = |name: &str| keyspace.as_ref()?.tables.get(name).cloned();
            let select = select::plan(table, statement, views, &mut markers)?;
            partition_key = select.partition.key_markers();
            Plan::Select(select)
        }
        Statement::Insert(_) | Statement::InsertJson(_) | Statement::Update(_) | Statement::Delete(_) => {
            let modify = plan_modify(node, &parsed.statement, keyspace, &mut markers)?;
            partition_key = modify.key.markers();
            match crate::system::is_virtual(&modify.table.keyspace) {
                true => Plan::ModifyVirtual(modify),
                false => Plan::Modify(modify),
            }
        }
        Statement::Batch(batch) => plan_batch(node, batch, keyspace, &mut markers, &mut partition_key)?,
        Statement::Use(name) => Plan::Use(name.clone()),
        Statement::Truncate { table: name, timeout } => {
            let table = find_table(node, name, keyspace)?;
            let timeout = timeout_source(timeout.as_ref(), &mut markers)?;
            if crate::system::is_virtual(&table.keyspace) {
                return Err(invalid!("Cannot truncate system table {}.{}", table.keyspace, table.name));
            }
            if table.view.is_some() {
                return Err(invalid!("Cannot TRUNCATE materialized view directly; must truncate base table instead"));
            }
            Plan::Truncate { table, timeout }
        }
        Statement::PruneView(statement) => {
            let view = find_table(node, &statement.name, keyspace)?;
            markers.for_table(&view);
            let schema = markers.schema.clone();
            Plan::Prune(Box::new(prune::plan(view, statement, &schema, &mut markers)?))
        }
        Statement::Access(statement) => Plan::Access(AccessPlan::new(node, statement, keyspace)?),
        other => match ddl::resolve(other, keyspace, &markers.schema)? {
            Some(ddl) => {
                mask::check(&ddl, &mut markers)?;
                Plan::Schema(ddl)
            }
            None => return Err(invalid!("This statement is not supported yet")),
        },
    };
    let mut needs = access::needs_of(&plan, &markers.schema);
    needs.append(&mut markers.needs.borrow_mut());
    let markers: Option<Vec<ColumnSpec>> = markers.specs.into_iter().collect();
    let markers = markers.ok_or_else(|| invalid!("Bind variables cannot be used here"))?;
    Ok(Planned { plan, markers, partition_key, needs })
}

/// In Scylla's words.
fn check_relations(node: &Node, statement: &Statement) -> Result<(), QueryError> {
    let count = match statement {
        Statement::Select(select) => select.filter.len(),
        Statement::Update(update) => update.filter.len(),
        Statement::Delete(delete) => delete.filter.len(),
        _ => return Ok(()),
    };
    // Few statements have as many as would have to be looked up.
    if count > 8 && count > node.settings.number("max_relations_in_where_clause") as usize {
        return Err(QueryError::syntax("Too many relations in the WHERE clause (max_relations_in_where_clause)"));
    }
    Ok(())
}

fn plan_batch(
    node: &Node,
    batch: &ast::Batch,
    keyspace: Option<&str>,
    markers: &mut Markers,
    partition_key: &mut Vec<u16>,
) -> Result<Plan, QueryError> {
    let mut statements = Vec::new();
    for statement in &batch.statements {
        let modify = plan_modify(node, statement, keyspace, markers)?;
        if crate::system::is_virtual(&modify.table.keyspace) {
            return Err(invalid!("Batches cannot write to virtual table {}", modify.table.name));
        }
        if statements.is_empty() {
            *partition_key = modify.key.markers();
        }
        if batch.using.timestamp.is_some() && modify.timestamp.is_some() {
            return Err(invalid!("Timestamp must be set either on BATCH or individual statements"));
        }
        statements.push(modify);
    }
    check_batch(batch.kind, statements.iter(), batch.using.timestamp.is_some())?;
    let timestamp = batch.using.timestamp.as_ref();
    let timestamp =
        timestamp.map(|term| Source::resolve(term, &CqlType::BigInt, "[timestamp]", markers)).transpose()?;
    if batch.using.ttl.is_some() {
        return Err(invalid!("Global TTL on the BATCH statement is not supported."));
    }
    let timeout = timeout_source(batch.using.timeout.as_ref(), markers)?;
    let answer = batch_answer(&statements);
    if answer.is_some() && timestamp.is_some() {
        return Err(invalid!("Cannot provide custom timestamp for conditional BATCH"));
    }
    Ok(Plan::Batch(Batch { kind: batch.kind, statements, timestamp, timeout, answer }))
}

/// What a batch answers when any of its statements has conditions.
pub(crate) fn batch_answer<'a>(statements: impl IntoIterator<Item = &'a Modify, IntoIter: Clone>) -> Option<Answer> {
    let conditions = statements.into_iter().filter_map(|modify| Some((&modify.table, modify.condition.as_deref()?)));
    let (table, _) = conditions.clone().next()?;
    Some(Answer::together(table, conditions.map(|(_, conditions)| conditions)))
}

/// `USING TIMEOUT`: a duration.
fn timeout_source(term: Option<&ast::Term>, markers: &mut Markers) -> Result<Option<Source>, QueryError> {
    term.map(|term| Source::resolve(term, &CqlType::Duration, "[timeout]", markers)).transpose()
}

fn plan_modify(
    node: &Node,
    statement: &Statement,
    keyspace: Option<&str>,
    markers: &mut Markers,
) -> Result<Modify, QueryError> {
    let name = match statement {
        Statement::Insert(insert) => &insert.table,
        Statement::InsertJson(insert) => &insert.table,
        Statement::Update(update) => &update.table,
        Statement::Delete(delete) => &delete.table,
        _ => return Err(invalid!("Only UPDATE, INSERT and DELETE statements are allowed in a BATCH")),
    };
    let table = find_table(node, name, keyspace)?;
    if crate::system::is_virtual(&table.keyspace) && !crate::system::is_writable(&table) {
        let text = format!("{} keyspace is not user-modifiable.", table.keyspace);
        return Err(QueryError::new(cql::response::ErrorKind::Unauthorized, text));
    }
    if table.view.is_some() {
        return Err(invalid!("Cannot directly modify a materialized view"));
    }
    markers.for_table(&table);
    match statement {
        Statement::Insert(insert) => modify::insert(table, insert, markers),
        Statement::InsertJson(insert) => modify::insert_json(table, insert, markers),
        Statement::Update(update) => modify::update(table, update, markers),
        Statement::Delete(delete) => modify::delete(table, delete, markers),
        _ => Err(invalid!("Only UPDATE, INSERT and DELETE statements are allowed in a BATCH")),
    }
}

fn find_table(node: &Node, name: &ast::QualifiedName, keyspace: Option<&str>) -> Result<Arc<TableDef>, QueryError> {
    let keyspace = name.keyspace.as_deref().or(keyspace).ok_or_else(ddl::no_keyspace)?;
    node.table(keyspace, &name.name)
}

/// Levels that a write cannot have.
pub(crate) fn check_write_consistency(consistency: Consistency) -> Result<(), QueryError> {
    match consistency.is_serial() {
        true => Err(invalid!("You must use conditional updates for serializable writes")),
        false => Ok(()),
    }
}

/// Levels that a read cannot have.
pub(crate) fn check_read_consistency(consistency: Consistency) -> Result<(), QueryError> {
    match consistency {
        Consistency::Any => Err(invalid!("ANY ConsistencyLevel is only supported for writes")),
        Consistency::EachQuorum => Err(invalid!("EACH_QUORUM ConsistencyLevel is only supported for writes")),
        _ => Ok(()),
    }
}
