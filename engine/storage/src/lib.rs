//! One shard's LSM: commit log, memtable, SSTables, compaction, manifest.
