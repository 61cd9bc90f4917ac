//! What holds the simulation against the machine: `probe` describes its devices, `calibrate` prices the engine's work on
//! it, and `compare` runs a scenario on real servers and in simulation.
//!
//! - [`local`] starts nodes of this binary on this machine, within the bounds of [`machine`]; [`hosts`] names servers that
//!   run already.
//! - [`real`] runs a scenario's phases on servers, by [`load`], its client on pinned threads, and looks at [`usage`].
//! - [`speed`] tells how fast the processors are as time goes by, by [`bound`] when others have them, and [`control`] how
//!   fast the engine is on them.
//! - [`compare`] holds a simulated record against a real one.
//! - [`metrics`] reads what a node counts of itself, over [`http`].

#![allow(clippy::disallowed_methods, reason = "what is measured here is the real world")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

use std::cmp::Ordering;

mod bound;
pub mod calibrate;
pub mod compare;
pub mod control;
pub mod hosts;
pub mod http;
pub mod load;
pub mod local;
pub mod machine;
pub mod metrics;
pub mod probe;
pub mod real;
pub mod speed;
pub mod usage;

/// The middle one, the upper of two; `None` of nothing.
pub(crate) fn median<T: Copy>(mut values: Vec<T>, order: impl FnMut(&T, &T) -> Ordering) -> Option<T> {
    values.sort_unstable_by(order);
    values.get(values.len() / 2).copied()
}
