//! The real world: one io_uring per shard, a pinned thread each.
