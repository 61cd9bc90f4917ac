//! SELECT: which rows, and what of them.

use std::sync::Arc;

use cql::ast::{self, Direction, Operator, Selection, Selector};
use cql::response::{ColumnSpec, EncodedMetadata};
use types::{ColumnDef, ColumnKind, CqlType, TableDef};

use super::functions::find;
use super::restrictions::{analyse, column, filtering};
use super::{Function, Markers, PartitionPlan, SlicePlan, Source};
use crate::error::{QueryError, invalid};

/// A condition on rows that the storage cannot find by itself.
#[derive(Clone, Debug)]
pub(crate) struct Filter {
    pub column: ColumnDef,
    pub operator: Operator,
    pub value: Source,
}

/// What one column of the result is made of.
#[derive(Clone, Debug)]
pub(crate) enum Expression {
    PartitionKey(u16),
    Clustering(u16),
    Static(u16),
    Regular(u16),
    WriteTime {
        is_static: bool,
        index: u16,
    },
    Ttl {
        is_static: bool,
        index: u16,
    },
    /// Of the whole partition key.
    Token,
    Term(Source),
    Call(Function, Vec<Expression>),
    Aggregate(Aggregate, Option<Box<Expression>>),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Aggregate {
    /// Rows, or values that are not null.
    Count,
    Min(CqlType),
    Max(CqlType),
}

#[derive(Clone, Debug)]
pub(crate) struct Output {
    pub name: String,
    pub ty: CqlType,
    pub expression: Expression,
}

#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub table: Arc<TableDef>,
    pub partition: PartitionPlan,
    pub slices: SlicePlan,
    pub filters: Vec<Filter>,
    pub outputs: Vec<Output>,
    pub metadata: EncodedMetadata,
    pub reverse: bool,
    pub distinct: bool,
    pub limit: Option<Source>,
    pub per_partition_limit: Option<Source>,
}

impl Select {
    /// The result is one row for all rows.
    pub fn is_aggregate(&self) -> bool {
        self.outputs.iter().any(|output| matches!(output.expression, Expression::Aggregate(..)))
    }
}

pub(super) fn plan(table: Arc<TableDef>, select: &ast::Select, markers: &mut Markers) -> Result<Select, QueryError> {
    for (used, what) in [(select.json, "SELECT JSON"), (!select.group_by.is_empty(), "GROUP BY")] {
        if used {
            return Err(invalid!("{what} is not supported yet"));
        }
    }
    let outputs = outputs(&table, &select.selection, markers)?;
    if select.distinct {
        let allowed =
            |output: &Output| matches!(output.expression, Expression::PartitionKey(_) | Expression::Static(_));
        if let Some(output) = outputs.iter().find(|output| !allowed(output)) {
            return Err(invalid!(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
                output.name
            ));
        }
    }
    let aggregates = outputs.iter().filter(|output| matches!(output.expression, Expression::Aggregate(..))).count();
    if aggregates > 0 && aggregates < outputs.len() {
        return Err(invalid!("Columns beside aggregates need GROUP BY, which is not supported yet"));
    }
    let restrictions = analyse(&table, &select.filter, markers)?;
    let slow = !restrictions.filters.is_empty()
        || (matches!(restrictions.partition, PartitionPlan::Tokens { .. }) && !restrictions.slices.is_all());
    if slow && !select.allow_filtering {
        return Err(filtering());
    }
    let reverse = reverse(&table, select, &restrictions.partition)?;
    let mut limit = |term: &Option<ast::Term>, name: &str| {
        term.as_ref().map(|term| Source::resolve(term, &CqlType::Int, name, markers)).transpose()
    };
    let per_partition_limit = limit(&select.per_partition_limit, "[per_partition_limit]")?;
    let limit = limit(&select.limit, "[limit]")?;
    let specs: Vec<ColumnSpec> = outputs
        .iter()
        .map(|output| ColumnSpec::new(&table.keyspace, &table.name, &output.name, output.ty.clone()))
        .collect();
    Ok(Select {
        metadata: EncodedMetadata::new(&specs),
        outputs,
        partition: restrictions.partition,
        slices: restrictions.slices,
        filters: restrictions.filters,
        reverse,
        distinct: select.distinct,
        limit,
        per_partition_limit,
        table,
    })
}

/// ORDER BY may follow the clustering order or its exact reverse.
fn reverse(table: &TableDef, select: &ast::Select, partition: &PartitionPlan) -> Result<bool, QueryError> {
    let mut reversed = None;
    for (at, (name, direction)) in select.order_by.iter().enumerate() {
        if matches!(partition, PartitionPlan::Tokens { .. }) {
            return Err(invalid!("ORDER BY is only supported when the partition key is restricted by an EQ or an IN."));
        }
        let def = column(table, name)?;
        let ColumnKind::Clustering(position) = def.kind else {
            return Err(invalid!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
            ));
        };
        if usize::from(position) != at {
            return Err(invalid!(
                "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
            ));
        }
        let this = (*direction == Direction::Descending) != def.descending;
        if *reversed.get_or_insert(this) != this {
            return Err(invalid!("Unsupported order by relation"));
        }
    }
    Ok(reversed.unwrap_or(false))
}

fn outputs(table: &TableDef, selection: &Selection, markers: &mut Markers) -> Result<Vec<Output>, QueryError> {
    match selection {
        Selection::All => table
            .columns()
            .map(|def| Ok(Output { name: def.name.clone(), ty: def.ty.clone(), expression: place(table, def)? }))
            .collect(),
        Selection::Items(items) => items
            .iter()
            .map(|item| {
                let (expression, ty) = resolve(table, &item.selector, markers)?;
                let name = item.alias.clone().unwrap_or_else(|| name_of(&item.selector, &expression));
                Ok(Output { name, ty, expression })
            })
            .collect(),
    }
}

/// Native functions show their keyspace, `count(*)` and the special ones do not.
fn name_of(selector: &Selector, expression: &Expression) -> String {
    match expression {
        Expression::Call(function, _) => match selector.to_string().split_once('(') {
            Some((_, rest)) => format!("{}({rest}", function.name()),
            None => function.name(),
        },
        Expression::Aggregate(Aggregate::Min(_) | Aggregate::Max(_), _) => format!("system.{selector}"),
        Expression::Aggregate(Aggregate::Count, Some(_)) => format!("system.{selector}"),
        Expression::Token => format!("system.{selector}"),
        _ => selector.to_string(),
    }
}

fn place(table: &TableDef, def: &ColumnDef) -> Result<Expression, QueryError> {
    let missing = || invalid!("Undefined column name {}", def.name);
    Ok(match def.kind {
        ColumnKind::PartitionKey(at) => Expression::PartitionKey(at),
        ColumnKind::Clustering(at) => Expression::Clustering(at),
        ColumnKind::Static => Expression::Static(table.static_index(&def.name).ok_or_else(missing)? as u16),
        ColumnKind::Regular => Expression::Regular(table.regular_index(&def.name).ok_or_else(missing)? as u16),
    })
}

fn resolve(table: &TableDef, selector: &Selector, markers: &mut Markers) -> Result<(Expression, CqlType), QueryError> {
    match selector {
        Selector::Column(name) => {
            let def = column(table, name)?;
            Ok((place(table, def)?, def.ty.clone()))
        }
        Selector::CountRows => Ok((Expression::Aggregate(Aggregate::Count, None), CqlType::BigInt)),
        Selector::WriteTime(name) | Selector::MaxWriteTime(name) => {
            let (is_static, index) = cell_of(table, name, "writeTime")?;
            Ok((Expression::WriteTime { is_static, index }, CqlType::BigInt))
        }
        Selector::Ttl(name) => {
            let (is_static, index) = cell_of(table, name, "ttl")?;
            Ok((Expression::Ttl { is_static, index }, CqlType::Int))
        }
        Selector::Function { name, arguments } => call(table, &name.name, arguments, markers),
        Selector::Cast { .. } => Err(invalid!("CAST in a selection is not supported yet")),
        Selector::Term(term) => {
            let ty = match term {
                ast::Term::Cast { ty, .. } => ty.clone(),
                ast::Term::Constant { kind: ast::ConstantKind::Integer, .. } => CqlType::Int,
                ast::Term::Constant { kind: ast::ConstantKind::Boolean, .. } => CqlType::Boolean,
                ast::Term::Constant { kind: ast::ConstantKind::Float, .. } => CqlType::Double,
                ast::Term::Constant { kind: ast::ConstantKind::String, .. } => CqlType::Text,
                other => return Err(invalid!("Cannot infer type for term {other} in selection clause")),
            };
            Ok((Expression::Term(Source::resolve(term, &ty, "[selection]", markers)?), ty))
        }
    }
}

fn cell_of(table: &TableDef, name: &str, function: &str) -> Result<(bool, u16), QueryError> {
    let def = column(table, name)?;
    match place(table, def)? {
        Expression::Static(index) => Ok((true, index)),
        Expression::Regular(index) => Ok((false, index)),
        _ => Err(invalid!("Cannot use selection function {function} on PRIMARY KEY part {name}")),
    }
}

fn call(
    table: &TableDef,
    name: &str,
    arguments: &[Selector],
    markers: &mut Markers,
) -> Result<(Expression, CqlType), QueryError> {
    let lower = name.to_ascii_lowercase();
    if lower == "token" {
        let names = arguments.iter().map(ToString::to_string);
        if !names.eq(table.partition_key.iter().map(|column| column.name.clone())) {
            return Err(invalid!("The token function takes the partition key's columns in their order"));
        }
        return Ok((Expression::Token, CqlType::BigInt));
    }
    if let ("count" | "min" | "max", [argument]) = (lower.as_str(), arguments) {
        let (argument, ty) = resolve(table, argument, markers)?;
        let (aggregate, ty) = match lower.as_str() {
            "count" => (Aggregate::Count, CqlType::BigInt),
            "min" => (Aggregate::Min(ty.clone()), ty),
            _ => (Aggregate::Max(ty.clone()), ty),
        };
        return Ok((Expression::Aggregate(aggregate, Some(Box::new(argument))), ty));
    }
    if matches!(lower.as_str(), "sum" | "avg") {
        return Err(invalid!("The aggregate {lower} is not supported yet"));
    }
    let (mut function, _) = find(&lower, arguments.len())?;
    let mut resolved = Vec::new();
    for argument in arguments {
        let (expression, ty) = resolve(table, argument, markers)?;
        function = function.with_argument(&ty)?;
        resolved.push(expression);
    }
    let ty = function.result();
    Ok((Expression::Call(function, resolved), ty))
}
