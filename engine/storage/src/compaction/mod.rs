//! Compaction: fewer SSTables from many, without what is shadowed or no longer needed.
//!
//! A [`strategy`] decides purely from a [`picture`] of the SSTables; [`merge`] reads, merges and writes; [`task`] runs
//! what was decided, several jobs side by side.

pub(crate) mod controller;
pub(crate) mod expired;
pub(crate) mod merge;
mod operations;
pub(crate) mod picture;
pub(crate) mod running;
pub(crate) mod scrub;
mod shadow;
pub(crate) mod strategy;
pub(crate) mod task;
