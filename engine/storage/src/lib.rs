//! One shard's LSM: commit log, memtable, SSTables, cache, compaction.
//!
//! [`Storage`] keeps the partitions that one shard owns. What it guarantees:
//! 1. A mutation that [`Storage::apply`] has acknowledged survives a crash (`SyncMode::Batch`), or is lost only when
//!    it is younger than the sync period (`SyncMode::Periodic`). None is ever invented or torn.
//! 2. A read sees every acknowledged mutation, merged cell by cell by timestamp, wherever it lies.
//! 3. Bytes that the disk gave back wrong are an error that names file and place, never data.
//! 4. Memory stays within the limits of its [`Config`].
//!
//! It runs on a `reactor` shard and knows no clock, randomness or I/O but the shard's.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admission;
mod cache;
mod command;
mod commitlog;
mod compaction;
mod config;
mod curve;
mod data;
mod error;
mod events;
mod flush;
mod folders;
mod histogram;
mod lookup;
mod lru;
mod manifest;
mod memory;
mod memtable;
mod quarantine;
mod read;
mod refresh;
mod reshard;
mod row_cache;
mod scan;
mod snapshot;
mod sstable;
mod stats;
mod storage;
mod table;

pub use command::{ReadCommand, ScanCommand};
pub use compaction::picture::Kind as CompactionKind;
pub use compaction::running::{CompactionProgress, CompactionRecord};
pub use compaction::scrub::{ScrubReport, VerifyReport};
pub use compaction::strategy::options::validate as validate_compaction;
pub use config::{Config, SyncMode};
pub use data::{
    Bound, Bytes, Cell, Clustering, ComplexColumn, ComplexColumns, Components, DeletionTime, ListPaths, Liveness,
    Malformed, Mutation, NEVER_S, Partition, RangeTombstone, Row, Slice, Stamp, counter, expiry_s,
};
pub use error::Error;
pub use events::{Event, Large, LargeKind, LargeThresholds};
pub use histogram::Histogram;
pub use read::Page;
pub use refresh::RefreshReport;
pub use reshard::{reshard, wait_for_layout};
pub use snapshot::Snapshot;
pub use sstable::{Compression, Compressor, data_file_name};
pub use stats::{CacheStats, CommitlogStats, Stats, TableStats};
pub use storage::Storage;
