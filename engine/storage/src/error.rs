//! What can go wrong, with the file and the cause.

use std::io;

use types::TableId;

use crate::Malformed;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {action}: {source}")]
    Io { path: String, action: &'static str, source: io::Error },
    /// Bytes on disk that are not what was written.
    #[error("{path}: corrupt at byte {offset}: {what}")]
    Corrupt { path: String, offset: u64, what: String },
    #[error("a mutation that cannot be applied: {0}")]
    Mutation(#[from] Malformed),
    #[error("a mutation of {bytes} bytes is above the limit of {limit} (half a commit log segment)")]
    TooLarge { bytes: usize, limit: usize },
    #[error("no table with id {0} on this shard")]
    UnknownTable(TableId),
    #[error("a mutation with schema version {got} of table {table}, which has version {have}")]
    SchemaVersion { table: TableId, got: u64, have: u64 },
    #[error(
        "{path} was written with {found} shards and cannot be opened with {wanted}; start with as many shards as before"
    )]
    ShardCount { path: String, found: u32, wanted: u32 },
    #[error("a compaction was stopped because somebody asked")]
    Cancelled,
    #[error("a setting cannot work: {0}")]
    Config(String),
    /// An SSTable that a read may need cannot be opened.
    #[error(
        "{path}: {what}; reads that may need this SSTable fail until its files are put back or the table is truncated"
    )]
    Quarantined { path: String, what: String },
    /// Nothing is written until there is room; that is noticed without a restart.
    #[error("{path}: no space is left on the disk; writes are refused until there is, reads go on")]
    NoSpace { path: String },
    /// The commit log or a flush failed before; nothing more can be acknowledged.
    #[error("storage has stopped after an earlier failure: {0}")]
    Stopped(String),
}

impl Error {
    pub(crate) fn io(path: &str, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_string();
        move |source| Error::Io { path, action, source }
    }

    /// The path of what did not fit on its disk.
    pub(crate) fn no_space(&self) -> Option<&str> {
        match self {
            Error::Io { path, source, .. } if source.kind() == io::ErrorKind::StorageFull => Some(path),
            Error::NoSpace { path } => Some(path),
            _ => None,
        }
    }

    /// A file is not what was written, or not there: trying again gives nothing else.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Error::Corrupt { .. } => true,
            Error::Io { source, .. } => source.kind() == io::ErrorKind::NotFound,
            _ => false,
        }
    }

    /// What was to be written may be written again, elsewhere. After a failed write or sync it may not: what the disk
    /// has of it is unknown.
    pub(crate) fn may_be_retried(&self) -> bool {
        let reads = ["read", "open", "size", "list"];
        match self {
            Error::Corrupt { .. } => true,
            Error::Io { action, .. } => reads.contains(action) || self.no_space().is_some(),
            _ => false,
        }
    }

    pub(crate) fn corrupt(path: &str, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt { path: path.to_string(), offset, what: what.into() }
    }
}
