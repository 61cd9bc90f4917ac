//! The architecture's invariants.
