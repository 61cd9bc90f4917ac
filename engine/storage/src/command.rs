//! What reads ask for.

use types::{TableId, Token};

use crate::{Bytes, Clustering, Slice};

/// Rows of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadCommand {
    pub table: TableId,
    /// The serialised partition key.
    pub key: Bytes,
    /// The rows wanted, ascending and apart from one another; none means all of them. The static row and the
    /// partition's deletion come along in any case.
    pub slices: Vec<Slice>,
    /// Rows from the last to the first; the answer's rows are in clustering order all the same.
    pub reverse: bool,
    /// How many live rows are enough; what lies between them comes along.
    pub limit_rows: usize,
    /// Memory of rows beyond which the answer is cut short, after one row at least. See `Storage::read_page`.
    pub limit_bytes: usize,
    pub now_s: u32,
    /// Neither look into the row cache nor put anything there: CQL's `BYPASS CACHE`.
    pub bypass_cache: bool,
}

impl ReadCommand {
    /// All of a partition.
    pub fn partition(table: TableId, key: impl Into<Bytes>, now_s: u32) -> Self {
        Self {
            table,
            key: key.into(),
            slices: Vec::new(),
            reverse: false,
            limit_rows: usize::MAX,
            limit_bytes: usize::MAX,
            now_s,
            bypass_cache: false,
        }
    }
}

/// Rows of the partitions in a range of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanCommand {
    pub table: TableId,
    /// `(start, end]`. `start >= end` wraps around the ring; `i64::MIN` as the start is before every key, as the end
    /// behind every key.
    pub tokens: (Token, Token),
    /// Go on behind this partition, or behind this row in it.
    pub after: Option<(Bytes, Option<Clustering>)>,
    /// As in [`ReadCommand`], for each partition.
    pub slices: Vec<Slice>,
    /// How many live rows over all partitions are enough; a partition with only a live static row counts as one.
    pub limit_rows: usize,
    /// Memory of rows beyond which the answer ends, in the middle of a partition if need be.
    pub limit_bytes: usize,
    /// Deletions gone through beyond which the answer ends, be it without a row, once the partition is through.
    pub limit_tombstones: usize,
    pub now_s: u32,
    /// As in [`ReadCommand`]. Scans for many rows, or for parts of partitions, do so in any case.
    pub bypass_cache: bool,
}

impl ScanCommand {
    /// All of a table, past the row cache.
    pub fn all(table: TableId, now_s: u32) -> Self {
        Self {
            table,
            tokens: (Token(i64::MIN), Token(i64::MIN)),
            after: None,
            slices: Vec::new(),
            limit_rows: usize::MAX,
            limit_bytes: usize::MAX,
            limit_tombstones: usize::MAX,
            now_s,
            bypass_cache: true,
        }
    }
}
