//! Plans and executes CQL statements; coordinates replicas.
