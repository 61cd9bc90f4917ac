//! The data model: what mutations, memtables, SSTables and answers are made of. Pure.

mod bytes;
mod cell;
mod clustering;
pub(crate) mod codec;
mod complex;
pub mod counter;
mod list_paths;
mod mutation;
mod partition;
mod range_tombstone;
mod row;
#[cfg(test)]
pub(crate) mod tests;

pub use bytes::Bytes;
pub(crate) use cell::Purge;
pub use cell::{Cell, DeletionTime, Liveness, NEVER_S, Stamp, expiry_s};
pub use clustering::{Bound, Clustering, Components, Slice};
pub(crate) use clustering::{Position, compare_positions, write_component};
pub use codec::Malformed;
pub(crate) use codec::check as check_partition;
pub use complex::{ComplexColumn, ComplexColumns};
pub use list_paths::ListPaths;
pub use mutation::Mutation;
pub(crate) use mutation::MutationHead;
pub use partition::Partition;
pub(crate) use partition::behind;
pub use range_tombstone::RangeTombstone;
pub(crate) use range_tombstone::normalise;
pub use row::Row;
