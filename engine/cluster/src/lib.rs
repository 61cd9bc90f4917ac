//! Ring, replication, messages between nodes, schema agreement.
