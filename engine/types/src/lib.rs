//! The vocabulary of the engine: CQL types and their binary forms and order, tokens, schema.
//!
//! Storage orders clustering keys by it, the SSTable header and the protocol name types by it, the ring and the
//! loading client compute tokens by it. Everything here is pure: no I/O, no clock, no randomness.

mod cql_type;
pub mod hash;
mod schema;
pub mod token;

pub use cql_type::CqlType;
pub use schema::{ColumnDef, ColumnKind, KeyspaceDef, Replication, TableDef, TableId, TableOptions};
pub use token::Token;
