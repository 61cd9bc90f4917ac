//! What is derived from a table and kept consistent with it: materialized views, and indexes, whose contents are views
//! too. A view is a [`TableDef`](crate::TableDef) with a [`ViewDef`].

use std::collections::BTreeMap;

use crate::TableId;

/// What makes a table a view of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct ViewDef {
    pub base_id: TableId,
    /// A table of the same keyspace.
    pub base_name: String,
    /// `SELECT *`: columns that the base table gets, the view gets too.
    pub include_all_columns: bool,
    /// CQL, without WHERE.
    pub where_clause: String,
    /// Regular columns that no reader sees: they hold how long an unselected column of the base row lives, for as long
    /// as any of its columns lives the base row exists. Sorted.
    pub hidden: Vec<String>,
    /// A row exists as long as its marker lives, whatever its cells: the marker is as old as the base's regular
    /// column that is part of the view's key.
    pub is_strict: bool,
    /// The index that it holds the contents of, and what of its key is not a column of the base.
    pub index: Option<IndexView>,
}

/// Columns of an index's view that are computed from the base row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexView {
    /// Of the index.
    pub name: String,
    /// The name of the column with what is indexed: the base's own column, unless it is a part of a collection.
    pub value: String,
    /// The column with the token of the base's partition key, which a global index sorts by first.
    pub token: Option<String>,
    /// The column with the key or the position of an element among equal ones.
    pub element: Option<String>,
    pub target: IndexTarget,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexTarget {
    pub column: String,
    pub part: IndexPart,
}

/// What of a column's value an index looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexPart {
    /// All of it.
    Whole,
    /// All of a frozen collection.
    Full,
    Keys,
    /// Elements of a set or a list, values of a map.
    Values,
    Entries,
}

impl IndexPart {
    pub fn is_collection_part(self) -> bool {
        matches!(self, IndexPart::Keys | IndexPart::Values | IndexPart::Entries)
    }

    /// As in `system_schema.indexes`.
    pub fn name(self) -> &'static str {
        match self {
            IndexPart::Whole => "",
            IndexPart::Full => "full",
            IndexPart::Keys => "keys",
            IndexPart::Values => "values",
            IndexPart::Entries => "entries",
        }
    }
}

/// An index of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct IndexDef {
    pub name: String,
    pub target: IndexTarget,
    /// An index of this table's partition key lies in the same partitions as the rows.
    pub is_local: bool,
    /// `USING 'class'`
    pub class: Option<String>,
    pub options: BTreeMap<String, String>,
    /// The view with its contents; an index by another class has none.
    pub view: Option<String>,
}
