//! Statements about what is derived from a table: materialized views and indexes.

use std::collections::BTreeMap;

use super::{Direction, Properties, QualifiedName, Relation, Selection, Term};

#[derive(Clone, Debug, PartialEq)]
pub struct CreateView {
    pub name: QualifiedName,
    pub if_not_exists: bool,
    pub selection: Selection,
    pub base: QualifiedName,
    pub filter: Vec<Relation>,
    /// The filter as it was written, without WHERE.
    pub filter_text: String,
    pub partition_key: Vec<String>,
    pub clustering: Vec<String>,
    pub clustering_order: Vec<(String, Direction)>,
    pub compact_storage: bool,
    pub properties: Properties,
}

/// Deletes rows of a view that its table has no row for.
#[derive(Clone, Debug, PartialEq)]
pub struct PruneView {
    pub name: QualifiedName,
    pub filter: Vec<Relation>,
    pub timeout: Option<Term>,
    /// Rows that are looked up at once.
    pub concurrency: Option<Term>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct CreateIndex {
    /// `None`: the table's and the column's names make one.
    pub name: Option<QualifiedName>,
    pub if_not_exists: bool,
    pub table: QualifiedName,
    /// `((p, q), c)`: the partition key of an index that lies where its rows lie. Empty for a global one.
    pub local_key: Vec<String>,
    pub targets: Vec<IndexTarget>,
    pub is_custom: bool,
    /// `USING 'class'`
    pub class: Option<String>,
    /// `WITH OPTIONS = {..}`
    pub options: BTreeMap<String, String>,
    pub clustering_order: Vec<(String, Direction)>,
    pub compact_storage: bool,
    pub properties: Properties,
}

/// What of a column an index is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPart {
    /// The column's value, or the elements of a collection.
    Plain,
    Keys,
    Values,
    Entries,
    Full,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    pub column: String,
    pub part: IndexPart,
}
