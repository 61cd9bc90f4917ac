//! A large partition of which parts are known.
//!
//! Known parts are segments: stretches between two positions of which everything is known, rows and ranges. Where no
//! segment is, nothing is known. Segments never overlap.

use std::sync::Arc;

use types::TableDef;

use crate::data::codec::Reader;
use crate::data::{Position, compare_positions};
use crate::{Bound, Malformed, Partition, Slice};

/// Segments are cut when they grow beyond this: what a read of one row in them decodes, and what an update of one row
/// in them encodes.
pub(super) const SEGMENT_MAX_BYTES: usize = 4 << 10;

pub(super) struct Wide {
    /// Key, deletion and static row: a partition without rows, encoded.
    pub head: Arc<[u8]>,
    /// Their places, in the order of their rows.
    pub segments: Vec<u32>,
}

pub(super) struct Segment {
    /// The place of its `Wide`.
    pub owner: u32,
    pub slice: Slice,
    /// Rows and ranges inside the slice: an encoded partition without key.
    pub rows: Arc<[u8]>,
}

pub(super) fn encode(partition: &Partition) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(256);
    partition.encode(&mut bytes);
    Arc::from(bytes)
}

pub(super) fn decode(bytes: &Arc<[u8]>) -> Result<Partition, Malformed> {
    Partition::decode_shared(&bytes.clone().into())
}

/// The key of an encoded partition; what is kept here was encoded here.
#[inline]
pub(super) fn key_of(encoded: &[u8]) -> &[u8] {
    Reader::new(encoded).head().map_or(&[], |head| head.key)
}

/// Whether anything can lie between the two.
pub(super) fn is_some(start: Position<'_>, end: Position<'_>, table: &TableDef) -> bool {
    compare_positions(table, start, end).is_lt()
}

/// Cuts what is known of `slice` into parts that fit into segments. `part` has no key, deletion or static row.
pub(super) fn cut(slice: Slice, mut part: Partition, table: &TableDef) -> Vec<(Slice, Arc<[u8]>)> {
    let whole = encode(&part);
    if whole.len() <= SEGMENT_MAX_BYTES || part.rows.len() < 2 {
        return vec![(slice, whole)];
    }
    let middle = part.rows[part.rows.len() / 2 - 1].clustering.clone();
    let first = Slice { start: slice.start, end: Bound::inclusive(middle.clone()) };
    let second = Slice { start: Bound::exclusive(middle), end: slice.end };
    let rows = part.rows.split_off(part.rows.len() / 2);
    let ranges = std::mem::take(&mut part.range_tombstones);
    let clipped = |slice: &Slice| ranges.iter().filter_map(|range| range.clip(slice, table)).collect();
    part.range_tombstones = clipped(&first);
    let rest = Partition { rows, range_tombstones: clipped(&second), ..Partition::default() };
    let mut parts = cut(first, part, table);
    parts.append(&mut cut(second, rest, table));
    parts
}
