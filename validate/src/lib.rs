//! The same scenario on real servers.
