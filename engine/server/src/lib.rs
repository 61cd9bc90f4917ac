//! Boots shards, listeners and the node.
