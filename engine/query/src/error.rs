//! Why a statement did not succeed: the protocol's own errors, made here in Cassandra's words.

use cluster::Shortfall;
use cql::Consistency;
use cql::response::{ErrorKind, WriteType};

pub use cql::response::Error as QueryError;

/// An Invalid error with formatted text.
macro_rules! invalid {
    ($($arg:tt)*) => { $crate::QueryError::invalid(format!($($arg)*)) };
}
pub(crate) use invalid;

/// A failure of the server itself; its cause is the text.
pub(crate) fn server(cause: impl std::fmt::Display) -> QueryError {
    QueryError::server(cause.to_string())
}

fn failed_message(received: u32, failures: u32, cause: &str) -> String {
    format!("Operation failed - received {received} responses and {failures} failures: {cause}")
}

/// A write that too few replicas acknowledged.
pub(crate) fn write_shortfall(
    shortfall: Shortfall,
    consistency: Consistency,
    write_type: WriteType,
    cause: &str,
) -> QueryError {
    let Shortfall { received, required: block_for, failures, timed_out, .. } = shortfall;
    if timed_out {
        return QueryError::write_timeout(consistency, received, block_for, write_type);
    }
    let kind = ErrorKind::WriteFailure { consistency, received, block_for, failures, write_type };
    QueryError::new(kind, failed_message(received, failures, cause))
}

/// A read that too few replicas answered.
pub(crate) fn read_shortfall(shortfall: Shortfall, consistency: Consistency, cause: &str) -> QueryError {
    let Shortfall { received, required: block_for, failures, data_present, timed_out } = shortfall;
    if timed_out {
        return QueryError::read_timeout(consistency, received, block_for, data_present);
    }
    let kind = ErrorKind::ReadFailure { consistency, received, block_for, failures, data_present };
    QueryError::new(kind, failed_message(received, failures, cause))
}

/// What the only replica's own failure amounts to.
pub(crate) const ONE_FAILED: Shortfall =
    Shortfall { received: 0, required: 1, failures: 1, data_present: false, timed_out: false };
