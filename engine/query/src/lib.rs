//! From statements to replicas and back.
//!
//! - [`schema`]: what tables there are, and how the nodes agree on it; [`system`]: the tables that show it.
//! - `ddl`, `plan`: statements with names and types resolved. Pure.
//! - `execute`: plans with values, page by page; `coordinator`: to as many replicas as the consistency level asks for;
//!   `replica`: what this node does when it is asked.
//! - [`settings`]: what a node can be told by name; `system.config` shows it.
//! - `journal`: what is written down of requests: traces, slow queries, the audit log.
//! - `cdc`: changes as rows of a table's log.
//! - `expiration`: rows deleted when their TTL column says so.
//! - `view`: views and indexes kept consistent with their tables.
//! - [`membership`]: nodes that join a running cluster.
//! - [`Node`]: one shard's view of all that.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod access;
mod cdc;
mod clients;
mod coordinator;
mod counts;
mod ddl;
mod describe;
mod error;
mod execute;
mod expiration;
mod guardrails;
mod journal;
pub mod membership;
mod node;
mod plan;
mod prepared;
mod replica;
mod schema;
mod script;
pub mod settings;
mod shards;
mod snapshots;
mod system;
mod view;

pub use access::Authenticator;
pub use clients::{Clients, ConnectedClient, Encryption};
pub use counts::{Coordinated, Counts, CountsView, DRIFT_CLASSES_US, Latency};
pub use error::QueryError;
pub use execute::{Client, Outcome};
pub use journal::{CompactionEntry, Journal, Sampled, TopPartition, Watched};
pub use node::{Config, Node, Timeouts};
pub use prepared::LWT_MARK_OPTION;
pub use replica::ReplicaHandler;
pub use schema::Change;
pub use schema::agreement::{Agreement, LoadError, load as load_schema};
pub use shards::{Starting, all_have};
pub use snapshots::TableSnapshot;
pub use system::{CQL_VERSION, RELEASE_VERSION, stored_tables};
