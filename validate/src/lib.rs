//! What holds the simulation against the machine: `probe` describes its devices, `calibrate` prices the engine's work on
//! it, and `compare` runs a scenario on real servers and in simulation.

#![allow(clippy::disallowed_methods, reason = "what is measured here is the real world")]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod probe;
