//! Scenarios: what is run, what drives it, and what comes out.
//!
//! - [`load`] reads a YAML file ([`model`]), finds what it names and refuses what cannot be; every mistake has a place.
//! - [`stress`] reads cassandra-stress command lines; both forms of a phase become a [`Workload`].
//! - [`scale`] makes an experiment smaller without changing what saturates.
//! - [`Run::assumed`] lists what of a run's profiles nobody published, to see what its results owe to that.
//! - [`generate`] draws keys and values, the same on every machine.
//! - [`client`] is the loading client, on the reactor: the same code loads simulated and real clusters.
//! - [`RunRecord`] is the one type that goes from a run to a report.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod client;
pub mod explanation;
pub mod generate;
pub mod latency;
pub mod load;
mod metric;
pub mod model;
pub mod record;
pub mod reported;
mod run;
pub mod scale;
mod sensitivity;
pub mod stress;
mod workload;

pub use explanation::{Explanation, On, Timeline, Wait};
pub use latency::{Interval, LatencySummary, Recorder, Side};
pub use load::Experiment;
pub use metric::Metric;
pub use record::{CheckResult, Comparison, Kind, PhaseRecord, Resource, RunRecord, Timing};
pub use run::{PhasePlan, Run};
pub use scale::Scale;
pub use sensitivity::Part;
pub use workload::{Arrival, Consistency, Mix, Operation, Row, Workload};
