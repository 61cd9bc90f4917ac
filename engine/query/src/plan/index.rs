//! Which index finds a SELECT's rows, if its WHERE alone would have to look at all of them.

use std::sync::Arc;

use cql::ast::Operator;
use types::{ColumnKind, IndexDef, IndexPart, IndexTarget, TableDef};

use super::filter::Test;
use super::restrictions::Restrictions;
use super::{Filter, PartitionPlan, Source};

/// The search of an index for one value.
#[derive(Clone, Debug)]
pub(crate) struct IndexSearch {
    /// The view with the index's contents.
    pub view: Arc<TableDef>,
    pub is_local: bool,
    /// The rows found are whole partitions: the index is of a static column.
    pub finds_partitions: bool,
    pub wanted: Sought,
}

#[derive(Clone, Debug)]
pub(crate) enum Sought {
    Value(Source),
    /// A map's key with its value.
    Entry(Source, Source),
}

/// An index with what is left to be filtered by.
pub(crate) struct Choice {
    pub search: IndexSearch,
    /// Whether rows that the index finds may have to be thrown away.
    pub filters: bool,
}

/// The first of the restrictions, as they were written, that an index answers, local ones before global ones. `views`
/// finds the tables of views.
pub(super) fn choose(
    table: &TableDef,
    restrictions: &Restrictions,
    views: impl Fn(&str) -> Option<Arc<TableDef>>,
) -> Option<Choice> {
    let by_key = matches!(restrictions.partition, PartitionPlan::Keys(_));
    let usable = |target: &IndexTarget| -> Option<(&IndexDef, Arc<TableDef>)> {
        let fits = |index: &&IndexDef| index.target == *target && (!index.is_local || by_key);
        // A local index asks one partition, a global one all of them.
        let index = table.indexes.iter().filter(fits).max_by_key(|index| index.is_local)?;
        Some((index, views(index.view.as_deref()?)?))
    };
    // What stands in the clustering prefix is a filter to an index that finds something else.
    let prefix = if by_key { None } else { restrictions.slices.first_equal() };
    let mut candidates: Vec<(IndexTarget, Sought, bool)> = Vec::new();
    if let (Some(source), Some(column)) = (prefix, table.clustering.first()) {
        for part in [IndexPart::Whole, IndexPart::Full] {
            let target = IndexTarget { column: column.name.clone(), part };
            candidates.push((target, Sought::Value(source.clone()), true));
        }
    }
    for filter in &restrictions.filters {
        candidates.extend(targets(filter).into_iter().map(|(target, wanted)| (target, wanted, false)));
    }
    let mut answered: Vec<_> = candidates
        .into_iter()
        .filter_map(|(target, wanted, in_prefix)| {
            let (index, view) = usable(&target)?;
            Some((target, wanted, in_prefix, index, view))
        })
        .collect();
    // Any of them before all that would ask other partitions.
    answered.sort_by_key(|(.., index, _)| !index.is_local);
    let (target, wanted, in_prefix, index, view) = answered.into_iter().next()?;
    let column = table.column(&target.column)?;
    let others = restrictions.filters.len() - usize::from(!in_prefix);
    let of_prefix = in_prefix && restrictions.slices.is_one_equal();
    let slices_filter = !(by_key || of_prefix || restrictions.slices.is_all());
    let search =
        IndexSearch { view, is_local: index.is_local, finds_partitions: column.kind == ColumnKind::Static, wanted };
    Some(Choice { search, filters: others > 0 || !restrictions.tuples.is_empty() || slices_filter })
}

/// What a filter looks for, as indexes name it.
fn targets(filter: &Filter) -> Vec<(IndexTarget, Sought)> {
    let column = filter.column.name.clone();
    let target = |part| IndexTarget { column: column.clone(), part };
    match (&filter.test, &filter.element) {
        (Test::Compare(Operator::Equal, value), None) => [IndexPart::Whole, IndexPart::Full]
            .map(|part| (target(part), Sought::Value(value.clone())))
            .into_iter()
            .collect(),
        (Test::Compare(Operator::Equal, value), Some(key)) => {
            vec![(target(IndexPart::Entries), Sought::Entry(key.clone(), value.clone()))]
        }
        (Test::Contains { key: true, value }, _) => vec![(target(IndexPart::Keys), Sought::Value(value.clone()))],
        (Test::Contains { key: false, value }, _) => vec![(target(IndexPart::Values), Sought::Value(value.clone()))],
        _ => Vec::new(),
    }
}
