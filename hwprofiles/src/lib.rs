//! Profiles of processors, instances, disks, networks and systems: YAML in, typed figures out.
//!
//! Every number of a profile is a [`Figure`]: it has a unit, a standing (published, measured, assumed, fitted) and a
//! source, or it cannot be read. The profiles under this crate's folders are part of the binary; a folder of the
//! user's overrides them by name. This crate computes nothing about a run and never guesses a missing figure.
//!
//! [`document`] is the one reader of YAML, for scenarios too: its errors carry file, line, column and a suggestion.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod assumed;
mod catalogue;
mod cost;
mod disk;
pub mod document;
mod figure;
mod instance;
mod nearest;
mod network;
mod processor;
pub mod quantiles;
pub mod quantity;
mod system;

pub use assumed::{Assumed, assumed, moved};
pub use catalogue::{ProfileError, Profiles, UnknownProfile};
pub use cost::{Cost, CostTable, Reference, WorkCost};
pub use disk::{
    Credits, Direction, Disk, Episode, Family, Filled, Interference, InterferencePoint, Raid0, ReadP95, Total,
    WriteBackCache,
};
pub use figure::{Figure, FigureError, Standing};
pub use instance::{Doze, Ebs, EbsBurst, Instance, Interruptions, Moment, Moments, Nic};
pub use nearest::nearest;
pub use network::{Network, Zones};
pub use processor::Processor;
pub use quantiles::{Quantiles, Sampler};
pub use system::{
    Commitlog, CommitlogSync, Contention, IoMode, Memory, MemoryPlan, PageCache, Pauses, RowOverhead, Shares, Start,
    System, Threading, Throttles,
};

/// Paths of the numbers in a YAML text that are written without unit, standing and source. Empty for a good profile.
pub fn bare_numbers(yaml: &str) -> Vec<String> {
    fn walk(value: &serde_yaml::Value, path: &str, found: &mut Vec<String>) {
        match value {
            serde_yaml::Value::Number(_) => found.push(path.to_string()),
            serde_yaml::Value::Sequence(items) => {
                items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{path}[{i}]"), found));
            }
            serde_yaml::Value::Mapping(map) => {
                map.iter()
                    .for_each(|(key, item)| walk(item, &format!("{path}.{}", key.as_str().unwrap_or("?")), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    match serde_yaml::from_str(yaml) {
        Ok(value) => walk(&value, "", &mut found),
        Err(error) => found.push(error.to_string()),
    }
    found
}
