//! What a shard's storage counts.

use std::collections::BTreeMap;

use types::TableId;

use crate::histogram::Histogram;

/// Snapshot of one shard's storage.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub tables: BTreeMap<TableId, TableStats>,
    pub commitlog: CommitlogStats,
    /// Blocks of data.
    pub cache: CacheStats,
    /// Blocks of indexes.
    pub index_cache: CacheStats,
    /// Merged partitions.
    pub rows: CacheStats,
    /// Bytes of all memtables, those being flushed included.
    pub memtable_bytes: u64,
    /// Bytes that compaction has yet to write until all strategies are content, and the shares that it has for it; 0
    /// before the first look, and with a fixed rate.
    pub compaction_backlog_bytes: u64,
    pub compaction_shares: u32,
    /// Bytes of compactions' outputs whose inputs are still on disk, and the most there ever were.
    pub compaction_temporary_bytes: u64,
    pub compaction_temporary_peak_bytes: u64,
    /// Compactions that were put off because the space for them is limited.
    pub compactions_out_of_space: u64,
    /// Writes that had to wait for memory.
    pub writes_blocked: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableStats {
    /// Of the active memtable.
    pub memtable_bytes: u64,
    pub memtable_partitions: u64,
    pub flushing_bytes: u64,
    pub sstables: u64,
    /// Damaged ones, those that cannot even be opened included.
    pub quarantined_sstables: u64,
    pub disk_bytes: u64,
    /// Partitions of all SSTables; one that lies in several counts for each.
    pub sstable_partitions: u64,
    /// Summaries, bloom filters and checksums.
    pub sstable_memory_bytes: u64,
    pub flushes: u64,
    pub flushed_bytes: u64,
    pub compactions: u64,
    pub compacted_bytes: u64,
    /// Times that outputs took the place of inputs, or of parts of them: several in a compaction that gives its inputs
    /// back one by one.
    pub compaction_steps: u64,
    /// Compactions running or wanted now.
    pub pending_compactions: u64,
    pub writes: u64,
    pub reads: u64,
    /// Microseconds: of reads of one partition, and of writes until they are as durable as they have to be.
    pub read_us: Histogram,
    pub write_us: Histogram,
    /// Index: how many SSTables a read of a partition looked into (behind the bloom filter); the last counts more.
    pub sstables_per_read: [u64; 32],
    /// Of answers to reads of one partition.
    pub live_rows_per_read: Histogram,
    pub tombstones_per_read: Histogram,
    pub bloom_negatives: u64,
    pub bloom_false_positives: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitlogStats {
    pub appended_records: u64,
    pub appended_bytes: u64,
    pub written_bytes: u64,
    pub syncs: u64,
    pub live_segments: u64,
    pub free_segments: u64,
    /// Records that the last replay applied, and those it skipped because they were flushed before.
    pub replayed_records: u64,
    pub skipped_records: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub bytes: u64,
    pub hits: u64,
    pub misses: u64,
    pub evictions: u64,
}

impl TableStats {
    /// How many SSTables no more than `fraction` of the reads looked into. The last class counts more.
    pub fn sstables_per_read_percentile(&self, fraction: f64) -> u64 {
        let reads: u64 = self.sstables_per_read.iter().sum();
        let wanted = (reads as f64 * fraction).ceil() as u64;
        let mut seen = 0;
        let at = self.sstables_per_read.iter().position(|count| {
            seen += count;
            seen >= wanted.max(1)
        });
        at.unwrap_or(0) as u64
    }
}
