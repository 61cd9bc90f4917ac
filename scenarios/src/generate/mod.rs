//! What a workload writes and asks for: random numbers, partition numbers, key and value bytes.
//!
//! Deterministic by seed on every machine: no clock, no entropy, no floating-point function of the C library.

mod keys;
mod random;
mod values;
mod zipfian;

pub use keys::{KeyGenerator, Keys, key_bytes};
pub use random::{Random, mix64};
pub use values::fill_value;
