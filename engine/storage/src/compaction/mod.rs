//! Compaction: fewer SSTables from many, without what is shadowed or no longer needed.
//!
//! A strategy decides purely from sizes ([`size_tiered`]); [`merge`] reads, merges and writes.

pub(crate) mod merge;
pub(crate) mod size_tiered;
pub(crate) mod task;
