//! Reports: run records into text, JSON lines, pictures and files.
//!
//! A report never measures and never runs anything: it sees a [`scenarios::RunRecord`], simulated or real, and what it
//! prints follows from that record alone, byte for byte.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod files;
mod lines;
mod number;
pub mod plot;
mod table;

pub use files::{FilesError, folder, write, write_comparison, write_histogram};
pub use lines::{Line, json_lines, lines};
pub use plot::PlotError;
pub use table::{limit, run as run_table};
