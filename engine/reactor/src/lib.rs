//! Shard executor, scheduling groups, operations and completions.
