//! The event kernel: what happens next, in exact order, and the hash over all that happened.
//!
//! It knows no hosts, disks or networks: [`queue`] orders events by time and then by the order of scheduling,
//! [`event`] lists their kinds, [`trace`] hashes them so that two runs can be compared.

pub mod event;
pub mod queue;
pub mod trace;
