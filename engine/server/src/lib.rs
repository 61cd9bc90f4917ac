//! A node: its shards booted, its listeners open, its clients served.
//!
//! [`run_shard`] is the whole of one shard's life, as one future. `orrery serve` runs it on io_uring, the simulator on
//! its own hosts; nothing here knows which.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin;
mod boot;
mod config;
mod housekeeping;
mod listeners;
mod session;
mod tls;

pub use boot::{BootError, compact_shard, drain_shard, quiesce_shard, read_latencies, run_shard, table_stats};
pub use config::{NodeConfig, Timeouts};
pub use tls::{OptionsError, QueriesError, TlsError};
