//! What the end-to-end tests share: real server processes, real clients, and the checkout they come from.
//!
//! A [`node::Server`] is the `orrery` binary of this checkout on a loopback address of its own, with its data in a
//! folder of its own, so tests do not meet, whatever else runs on the machine. [`python`] makes the environment for
//! clients written in Python, [`sources`] reads the project's own text for `tidy.rs`.

#![allow(clippy::disallowed_methods, reason = "processes and sockets of the real world have its clock")]

pub mod binary;
pub mod installed;
pub mod node;
pub mod python;
pub mod sources;
