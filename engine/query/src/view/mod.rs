//! Views kept consistent with their base tables, those that hold the contents of indexes among them.
//!
//! A replica that applies a write to a table with views reads what was there first, under a lock on the partition, and
//! tells the views what changed before it applies the write: a row that is not in the base any more leaves a view, one
//! that came about enters it, one that stayed takes over the cells that differ. When a write fails on the way, the
//! views are ahead of the base, and the same write repeated brings both to the same state.
//!
//! - `entry`: from a base row to rows of a view, and from two versions of a base row to a view's update. Pure.
//! - `condition`: the WHERE of a view. Pure.
//! - `prune`: rows that are left in a view without one in the base. Pure.
//! - `update`: the write path. `build`: rows that were there before the view.
//!
//! Timestamps are the base's own, so that updates of a view commute as those of the base do. Where the base's key
//! columns alone make the view's key, a view row lives as long as any column of the base row: unselected columns have
//! hidden ones in the view that say how long. Where a regular column is part of the key, the view row's marker is as
//! old as that column, and rows exist by their markers alone (`TableDef::is_strict`); what leaves the view gets a
//! marker that expired at once, as Cassandra's `ViewUpdateGenerator` does.

pub(crate) mod build;
mod condition;
mod entry;
pub(crate) mod prune;
mod update;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use storage::Partition;
use types::{ColumnKind, TableDef, TableId};

pub(crate) use condition::Condition;
pub(crate) use update::{Locks, apply};

use crate::error::{QueryError, invalid};
use crate::schema::Schema;

/// A base table with its views, ready to be kept.
pub(crate) struct Viewed {
    pub base: Arc<TableDef>,
    pub views: Vec<Maintained>,
}

/// Where a column of a view's key comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    PartitionKey(usize),
    Clustering(usize),
    Regular(u16),
    /// What an index looks up.
    Value,
    /// The token of the base's partition key.
    Token,
    /// The path of an element of a collection.
    Element,
}

/// How one view is made of its base table.
pub(crate) struct Maintained {
    pub table: Arc<TableDef>,
    partition_key: Vec<Origin>,
    clustering: Vec<Origin>,
    /// Regular columns: place in the view, place in the base.
    cells: Vec<(u16, u16)>,
    hidden: Vec<(u16, u16)>,
    /// The base's regular column in the view's key.
    key_regular: Option<u16>,
    conditions: Vec<Condition>,
    /// What an index is about.
    indexed: Option<Indexed>,
}

#[derive(Clone, Debug)]
struct Indexed {
    place: ColumnKind,
    /// Among the regular or the static columns.
    index: u16,
    part: types::IndexPart,
}

impl Viewed {
    /// Refuses values that are too long to be part of a view's key.
    pub fn check(&self, update: &Partition) -> Result<(), QueryError> {
        for view in &self.views {
            let indexed = view.indexed.as_ref().filter(|indexed| !indexed.part.is_collection_part());
            let (row_index, static_index) = match indexed {
                Some(Indexed { place: ColumnKind::Regular, index, .. }) => (Some(*index), None),
                Some(Indexed { place: ColumnKind::Static, index, .. }) => (None, Some(*index)),
                _ => (view.key_regular, None),
            };
            let regular = row_index.map(|index| update.rows.iter().filter_map(move |row| row.cell(index)));
            let fixed = static_index.and_then(|index| update.static_row.as_ref()?.cell(index));
            let sizes = regular.into_iter().flatten().chain(fixed).filter_map(|cell| cell.value.as_ref());
            if let Some(value) = sizes.into_iter().find(|value| value.len() > usize::from(u16::MAX)) {
                return Err(invalid!(
                    "Cannot index value of size {} for {} on {}.{} (maximum allowed size={})",
                    value.len(),
                    view.table.name,
                    self.base.keyspace,
                    self.base.name,
                    u16::MAX
                ));
            }
        }
        Ok(())
    }
}

impl Maintained {
    fn new(base: &TableDef, table: &Arc<TableDef>) -> Option<Self> {
        let def = table.view.as_ref()?;
        let origin = |name: &str| -> Option<Origin> {
            if let Some(index) = &def.index {
                match name {
                    name if index.token.as_deref() == Some(name) => return Some(Origin::Token),
                    name if index.element.as_deref() == Some(name) => return Some(Origin::Element),
                    name if index.value == name => return Some(Origin::Value),
                    _ => {}
                }
            }
            Some(match base.column(name)?.kind {
                ColumnKind::PartitionKey(at) => Origin::PartitionKey(usize::from(at)),
                ColumnKind::Clustering(at) => Origin::Clustering(usize::from(at)),
                _ => Origin::Regular(base.regular_index(name)? as u16),
            })
        };
        let origins =
            |columns: &[types::ColumnDef]| columns.iter().map(|c| origin(&c.name)).collect::<Option<Vec<_>>>();
        let (partition_key, clustering) = (origins(&table.partition_key)?, origins(&table.clustering)?);
        let (mut cells, mut hidden) = (Vec::new(), Vec::new());
        for (at, column) in (0..).zip(&table.regulars) {
            let from = (at, base.regular_index(&column.name)? as u16);
            if def.hidden.contains(&column.name) { hidden.push(from) } else { cells.push(from) }
        }
        let key_regular = partition_key.iter().chain(&clustering).find_map(|origin| match origin {
            Origin::Regular(index) => Some(*index),
            _ => None,
        });
        let indexed = match &def.index {
            None => None,
            Some(index) => {
                let column = base.column(&index.target.column)?;
                let index_of = match column.kind {
                    ColumnKind::Static => base.static_index(&column.name)? as u16,
                    ColumnKind::Regular => base.regular_index(&column.name)? as u16,
                    ColumnKind::PartitionKey(at) | ColumnKind::Clustering(at) => at,
                };
                Some(Indexed { place: column.kind, index: index_of, part: index.target.part })
            }
        };
        let conditions = match def.where_clause.is_empty() {
            true => Vec::new(),
            false => Condition::all(&def.where_clause, base)?,
        };
        let table = table.clone();
        Some(Self { table, partition_key, clustering, cells, hidden, key_regular, conditions, indexed })
    }

    /// Whether it is made of static rows.
    fn is_static(&self) -> bool {
        self.indexed.as_ref().is_some_and(|indexed| indexed.place == ColumnKind::Static)
    }
}

/// What is to be kept under a schema, by base table.
pub(crate) fn all(schema: &Schema) -> BTreeMap<TableId, Rc<Viewed>> {
    let mut all: BTreeMap<TableId, Viewed> = BTreeMap::new();
    for table in schema.tables() {
        let Some(base) = table.view.as_ref().and_then(|view| schema.table_by_id(view.base_id)) else { continue };
        match Maintained::new(base, table) {
            Some(view) => {
                let viewed = all.entry(base.id).or_insert_with(|| Viewed { base: base.clone(), views: Vec::new() });
                viewed.views.push(view);
            }
            None => tracing::error!(keyspace = table.keyspace, view = table.name, "the view does not fit its table"),
        }
    }
    all.into_iter().map(|(id, viewed)| (id, Rc::new(viewed))).collect()
}
