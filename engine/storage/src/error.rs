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
    /// The commit log or a flush failed before; nothing more can be acknowledged.
    #[error("storage has stopped after an earlier failure: {0}")]
    Stopped(String),
}

impl Error {
    pub(crate) fn io(path: &str, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_string();
        move |source| Error::Io { path, action, source }
    }

    pub(crate) fn corrupt(path: &str, offset: u64, what: impl Into<String>) -> Error {
        Error::Corrupt { path: path.to_string(), offset, what: what.into() }
    }
}
