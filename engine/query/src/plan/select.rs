//! SELECT: which rows, and what of them.

use std::sync::Arc;

use cql::ast::{self, Direction, Operator, Relation};
use cql::response::{ColumnSpec, EncodedMetadata};
use types::{ColumnKind, CqlType, TableDef};

use super::index::{self, IndexSearch};
use super::mask::{self, Masked};
use super::restrictions::{Restrictions, analyse, column, filtering, out_of_order};
use super::selection::{self, Aggregation, Expression, Output};
use super::{Filter, Markers, PartitionPlan, SlicePlan, Source, TupleFilter};
use crate::error::{QueryError, invalid};

#[derive(Clone, Debug)]
pub(crate) struct Select {
    pub table: Arc<TableDef>,
    pub partition: PartitionPlan,
    pub slices: SlicePlan,
    pub filters: Vec<Filter>,
    pub tuples: Vec<TupleFilter>,
    pub outputs: Vec<Output>,
    /// What the outputs gather over rows; empty where each row is one of the result.
    pub aggregations: Vec<Aggregation>,
    /// Of a table with masks: what those see who may not see behind them.
    pub masked: Option<Box<Masked>>,
    pub grouping: Grouping,
    pub metadata: EncodedMetadata,
    pub reverse: bool,
    /// ORDER BY, which several partitions share.
    pub is_ordered: bool,
    pub distinct: bool,
    pub limit: Option<Source>,
    pub per_partition_limit: Option<Source>,
    pub bypass_cache: bool,
    /// Finds the rows.
    pub index: Option<IndexSearch>,
    /// `USING TIMEOUT`
    pub timeout: Option<Source>,
    /// Whose timeout applies in place of the role's.
    pub service_level: Option<String>,
}

/// Which rows make one row of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Each for itself.
    Rows,
    /// All of them together.
    All,
    /// Those of a partition that agree in so many clustering columns.
    By { clustering: usize },
}

/// `views` finds the views of the table's indexes.
pub(super) fn plan(
    table: Arc<TableDef>,
    select: &ast::Select,
    views: impl Fn(&str) -> Option<Arc<TableDef>>,
    markers: &mut Markers,
) -> Result<Select, QueryError> {
    let group_by = group_by(&table, select)?;
    let selection = selection::resolve(&table, &select.selection, group_by.is_some(), markers)?;
    let outputs = selection.outputs;
    let masked = match table.masks.is_empty() {
        true => None,
        false => Some(Box::new(masked(&table, select, group_by.is_some(), &outputs, markers)?)),
    };
    let selected: Vec<String> = select_names(&select.selection);
    let grouping = match group_by {
        Some(clustering) => Grouping::By { clustering },
        None if selection.has_aggregates => Grouping::All,
        None => Grouping::Rows,
    };
    if select.distinct {
        let allowed =
            |output: &Output| matches!(output.expression, Expression::PartitionKey(_) | Expression::Static(_));
        if let Some(output) = outputs.iter().find(|output| grouping == Grouping::Rows && !allowed(output)) {
            return Err(invalid!(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
                output.name
            ));
        }
    }
    let outputs = if select.json { vec![selection::as_json(outputs)] } else { outputs };
    if select.distinct && select.per_partition_limit.is_some() {
        return Err(invalid!("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"));
    }
    if grouping == Grouping::All && select.per_partition_limit.is_some() {
        return Err(invalid!("PER PARTITION LIMIT is not allowed with aggregate queries."));
    }
    let restrictions = analyse(&table, &select.filter, markers)?;
    if select.distinct {
        check_distinct(&table, &select.filter, &restrictions, &selected)?;
    }
    let slow = restrictions.is_slow
        || (matches!(restrictions.partition, PartitionPlan::Tokens { .. }) && !restrictions.slices.is_all());
    let found = if slow { index::choose(&table, &restrictions, views) } else { None };
    let throws_away = found.as_ref().map_or(slow, |choice| choice.filters);
    if throws_away && !select.allow_filtering {
        let wrong = out_of_order(&table, &select.filter).filter(|_| found.is_none());
        return Err(wrong.unwrap_or_else(filtering));
    }
    let index = found.map(|choice| choice.search);
    if index.is_some() && !select.order_by.is_empty() {
        return Err(invalid!("ORDER BY with 2ndary indexes is not supported."));
    }
    let reverse = reverse(&table, select, &restrictions.partition)?;
    let mut limit = |term: &Option<ast::Term>, name: &str| {
        term.as_ref().map(|term| Source::resolve(term, &CqlType::Int, name, markers)).transpose()
    };
    let per_partition_limit = limit(&select.per_partition_limit, "[per_partition_limit]")?;
    let limit = limit(&select.limit, "[limit]")?;
    let timeout = super::timeout_source(select.timeout.as_ref(), markers)?;
    let specs: Vec<ColumnSpec> = outputs
        .iter()
        .map(|output| ColumnSpec::new(&table.keyspace, &table.name, &output.name, output.ty.clone()))
        .collect();
    Ok(Select {
        metadata: EncodedMetadata::new(&specs),
        outputs,
        aggregations: selection.aggregations,
        masked,
        grouping,
        partition: restrictions.partition,
        slices: restrictions.slices,
        filters: restrictions.filters,
        tuples: restrictions.tuples,
        reverse,
        is_ordered: !select.order_by.is_empty(),
        distinct: select.distinct,
        limit,
        per_partition_limit,
        bypass_cache: select.bypass_cache,
        index,
        timeout,
        service_level: select.service_level.clone(),
        table,
    })
}

/// The same selection in masks, under the same names.
fn masked(
    table: &TableDef,
    select: &ast::Select,
    is_grouped: bool,
    outputs: &[Output],
    markers: &mut Markers,
) -> Result<Masked, QueryError> {
    let selection = mask::selection(table, &select.selection)?;
    let mut masked = selection::resolve(table, &selection, is_grouped, markers)?;
    for (masked, plain) in masked.outputs.iter_mut().zip(outputs) {
        masked.name.clone_from(&plain.name);
    }
    let outputs = if select.json { vec![selection::as_json(masked.outputs)] } else { masked.outputs };
    let restricted = mask::restricted(table, &select.filter);
    Ok(Masked { outputs, aggregations: masked.aggregations, restricted })
}

/// The columns that a selection names by themselves.
fn select_names(selection: &ast::Selection) -> Vec<String> {
    let ast::Selection::Items(items) = selection else { return Vec::new() };
    let name = |item: &ast::SelectItem| match &item.selector {
        ast::Selector::Column(name) => Some(name.clone()),
        _ => None,
    };
    items.iter().filter_map(name).collect()
}

/// Partitions are distinct: neither parts of their key tell them apart, nor may rows choose among them.
fn check_distinct(
    table: &TableDef,
    filter: &[Relation],
    restrictions: &Restrictions,
    selected: &[String],
) -> Result<(), QueryError> {
    let of_rows = |name: &String| {
        table.column(name).is_some_and(|def| matches!(def.kind, ColumnKind::Clustering(_) | ColumnKind::Regular))
    };
    let by_rows = filter.iter().any(|relation| match relation {
        Relation::Column { column, .. }
        | Relation::In { column, .. }
        | Relation::Contains { column, .. }
        | Relation::Element { column, .. }
        | Relation::Like { column, .. }
        | Relation::IsNotNull { column } => of_rows(column),
        Relation::Tuple { .. } | Relation::TupleIn { .. } => true,
        Relation::Token { .. } => false,
    });
    if by_rows {
        return Err(invalid!(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns."
        ));
    }
    let missing = table.partition_key.iter().find(|key| !selected.contains(&key.name));
    match (&restrictions.partition, missing) {
        (PartitionPlan::Tokens { .. }, Some(key)) => {
            Err(invalid!("SELECT DISTINCT queries must request all the partition key columns (missing {})", key.name))
        }
        _ => Ok(()),
    }
}

/// Whether `=` restricts the column.
fn is_fixed(select: &ast::Select, name: &str) -> bool {
    let fixes = |relation: &Relation| matches!(relation, Relation::Column { column, operator: Operator::Equal, .. } if column == name);
    select.filter.iter().any(fixes)
}

/// How many clustering columns a GROUP BY takes in beside the partition key; the columns of the primary key in their
/// order, of which those that `=` fixes may be left out. As Cassandra's `SelectStatement.getAggregationSpecFactory`.
fn group_by(table: &TableDef, select: &ast::Select) -> Result<Option<usize>, QueryError> {
    if select.group_by.is_empty() {
        return Ok(None);
    }
    let order = || {
        invalid!("Group by currently only support groups of columns following their declared order in the PRIMARY KEY")
    };
    let mut key = table.partition_key.iter().chain(&table.clustering);
    for name in &select.group_by {
        let def = column(table, name)?;
        if !matches!(def.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering(_)) {
            return Err(invalid!("Group by is currently only supported on the columns of the PRIMARY KEY, got {name}"));
        }
        loop {
            match key.next() {
                Some(next) if next.name == *name => break,
                Some(next) if is_fixed(select, &next.name) => {}
                _ => return Err(order()),
            }
        }
    }
    let left = key.count();
    let clustering = table.clustering.len().checked_sub(left);
    let clustering =
        clustering.ok_or_else(|| invalid!("Group by is not supported on only a part of the partition key"))?;
    if clustering > 0 && select.distinct {
        return Err(invalid!("Grouping on clustering columns is not allowed for SELECT DISTINCT queries"));
    }
    Ok(Some(clustering))
}

/// ORDER BY may follow the clustering order or its exact reverse; columns that `=` fixes may be left out.
fn reverse(table: &TableDef, select: &ast::Select, partition: &PartitionPlan) -> Result<bool, QueryError> {
    let mut reversed = None;
    let mut next = 0;
    for (name, direction) in &select.order_by {
        if matches!(partition, PartitionPlan::Tokens { .. }) {
            return Err(invalid!("ORDER BY is only supported when the partition key is restricted by an EQ or an IN."));
        }
        let def = column(table, name)?;
        let ColumnKind::Clustering(position) = def.kind else {
            return Err(invalid!(
                "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {name}"
            ));
        };
        while next < usize::from(position) && is_fixed(select, &table.clustering[next].name) {
            next += 1;
        }
        if usize::from(position) != next {
            return Err(invalid!(
                "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY"
            ));
        }
        next += 1;
        let this = (*direction == Direction::Descending) != def.descending;
        if *reversed.get_or_insert(this) != this {
            return Err(invalid!("Unsupported order by relation"));
        }
    }
    Ok(reversed.unwrap_or(false))
}
