//! Reports: run records into text, JSON lines, pictures and files.
//!
//! A report never measures and never runs anything: it sees a [`scenarios::RunRecord`], simulated or real, and what it
//! prints follows from that record alone, byte for byte.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod all;
mod canvas;
mod files;
mod lines;
mod number;
mod page;
pub mod plot;
mod references;
mod seeds;
mod table;
mod timeline;
pub mod validation;

pub use all::all as all_table;
pub use canvas::PlotError;
pub use files::{FilesError, folder, write, write_comparison, write_histogram, write_page};
pub use lines::{Line, json_lines, lines};
pub use number::{percent, plain};
pub use page::html;
pub use table::{columns, limit, run as run_table, seeds as seeds_table};
