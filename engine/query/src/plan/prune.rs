//! PRUNE MATERIALIZED VIEW: which rows of a view are to be looked up in its table.

use std::sync::Arc;

use cql::ast;
use types::{CqlType, TableDef};

use super::restrictions::analyse;
use super::{Markers, PartitionPlan, SlicePlan, Source};
use crate::error::{QueryError, invalid};
use crate::schema::Schema;

#[derive(Clone, Debug)]
pub(crate) struct Prune {
    pub view: Arc<TableDef>,
    pub base: Arc<TableDef>,
    pub partition: PartitionPlan,
    pub slices: SlicePlan,
    pub timeout: Option<Source>,
    pub concurrency: Option<Source>,
}

pub(super) fn plan(
    view: Arc<TableDef>,
    prune: &ast::PruneView,
    schema: &Schema,
    markers: &mut Markers,
) -> Result<Prune, QueryError> {
    let base = view.view.as_ref().and_then(|def| schema.table_by_id(def.base_id)).cloned();
    let Some(base) = base else {
        return Err(invalid!("{}.{} is not a materialized view", view.keyspace, view.name));
    };
    let restrictions = analyse(&view, &prune.filter, markers)?;
    if !restrictions.filters.is_empty() || !restrictions.tuples.is_empty() {
        return Err(invalid!("PRUNE MATERIALIZED VIEW can only be restricted by partitions and slices of them"));
    }
    let mut option = |term: &Option<ast::Term>, ty, name| {
        term.as_ref().map(|term| Source::resolve(term, &ty, name, markers)).transpose()
    };
    let timeout = option(&prune.timeout, CqlType::Duration, "[timeout]")?;
    let concurrency = option(&prune.concurrency, CqlType::Int, "[concurrency]")?;
    let (partition, slices) = (restrictions.partition, restrictions.slices);
    Ok(Prune { view, base, partition, slices, timeout, concurrency })
}
