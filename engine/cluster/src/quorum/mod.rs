//! How many answers a consistency level needs, and what each answer decides. Pure.
//!
//! A coordinator makes a [`Requirement`] per keyspace and level (it can be kept), checks with it that enough replicas
//! are alive, and gives every answer to a [`WriteDecision`] or [`ReadDecision`], which says when the request is done
//! or can no longer be.

mod decision;
mod requirement;

pub use decision::{Outcome, ReadDecision, Shortfall, WriteDecision};
pub use requirement::{Level, Requirement, Unavailable};

#[cfg(test)]
mod tests;
