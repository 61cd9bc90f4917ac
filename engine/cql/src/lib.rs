//! CQL as bytes and as text: frames, requests and responses of the native protocol v3 to v5, and lexer, parser and AST.
//!
//! Pure: no I/O, no clock, no randomness. Decoders take any bytes and answer with an error, never a panic; they
//! borrow from the frame's body. Encoders append to a `Vec<u8>` that the caller reuses. Names and types in the AST
//! are not resolved: that is `query`'s work, which knows the schema.
//!
//! Source of the format: Apache Cassandra's `doc/native_protocol_v3.spec` to `_v5.spec`; of the grammar: its `Lexer.g`
//! and `Parser.g`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ast;
pub mod compression;
pub mod consistency;
pub mod frame;
pub mod lexer;
pub mod parser;
pub mod request;
pub mod response;
pub mod segment;
pub mod term;
pub mod values;
pub mod wire;

pub use compression::Compression;
pub use consistency::{Consistency, SerialConsistency};
pub use frame::{Direction, FrameBuffer, FrameError, Header, Opcode, Version};
pub use parser::{ParseError, Parsed, parse, parse_with};
pub use request::Request;
pub use response::Response;
pub use values::{Value, Values, ValuesBuffer};
pub use wire::DecodeError;
