//! The vocabulary of the engine: CQL types and their binary forms and order, tokens, schema.
//!
//! Storage orders clustering keys by it, the SSTable header and the protocol name types by it, the ring and the
//! loading client compute tokens by it. Everything here is pure: no I/O, no clock, no randomness. Nothing here
//! panics on malformed bytes: ordering falls back to unsigned bytes, reading gives an [`Error`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assign;
pub mod calendar;
mod canonical;
mod cast;
pub mod collection;
mod cql_type;
pub mod decimal;
mod derived;
pub mod duration;
mod error;
mod function;
pub mod hash;
pub mod json;
mod literal;
pub mod multi_cell;
mod order;
mod partition_key;
mod schema;
mod table;
pub mod token;
mod type_name;
mod user_type;
pub mod uuid;
mod validate;
pub mod vint;

pub use assign::Fit;
pub use cql_type::{CqlType, UserType};
pub use derived::{IndexDef, IndexPart, IndexTarget, IndexView, ViewDef};
pub use error::Error;
pub use function::{AggregateDef, FunctionDef, signature};
pub use literal::quote_identifier;
pub use partition_key::{partition_key_components, serialize_partition_key, serialize_partition_key_into};
pub use schema::{ColumnDef, ColumnKind, DroppedColumn, KeyspaceDef, Replication, TableDef, TableId, TableOptions};
pub use table::TableBuilder;
pub use token::{IGNORE_MSB, Token, last_of_run, shard_of, turn_of};
pub use type_name::UserTypes;
