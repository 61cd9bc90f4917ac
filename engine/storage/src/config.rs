//! What a shard's storage is told when it opens.

use std::time::Duration;

/// When an acknowledged write is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Before it is acknowledged. Writes that wait at the same time share a sync.
    Batch,
    /// Before it is acknowledged, by a sync each `window` at most (Cassandra's `commitlog_sync: group`): writes wait
    /// longer, and more of them share a sync.
    Group { window: Duration },
    /// At most about `every` later. Writers wait when syncs fall behind by more than half of it.
    Periodic { every: Duration },
}

#[derive(Clone, Debug)]
pub struct Config {
    /// Holds `<keyspace>/<table>-<id>/` folders, shared by the node's shards.
    pub data_dir: String,
    /// Holds the shards' segments; may be on another disk.
    pub commitlog_dir: String,
    /// This shard, and how many the node has. The data of a node cannot be opened with another number of shards.
    pub shard: u32,
    pub shards: u32,
    pub sync: SyncMode,
    /// Bytes of memtables, active and being flushed. Writers are held to the pace of the flush, so that it is never
    /// exceeded by more than a mutation.
    pub memtable_limit_bytes: u64,
    /// The part of it that active memtables take when the largest is flushed (Cassandra's option of this name).
    pub memtable_cleanup_threshold: f64,
    /// Size of a commit log segment; a mutation may have half of it.
    pub commitlog_segment_bytes: u64,
    /// Bytes of live segments beyond which the tables that hold the oldest are flushed. A quarter above it writers wait.
    pub commitlog_limit_bytes: u64,
    /// Compaction's writes in MB (10^6 bytes) a second, of all its tasks together. `None`: no fixed limit, but shares
    /// that follow the backlog.
    pub compaction_mb_per_s: Option<f64>,
    /// Shares of compactions and of flushes that stay as they are, instead of following the backlog and the memory
    /// (ScyllaDB's `compaction_static_shares` and `memtable_flush_static_shares`); statements have 1000.
    pub compaction_static_shares: Option<u32>,
    pub flush_static_shares: Option<u32>,
    /// Dirty memory, what flushes have written left out, at which these have as many shares as statements: they follow it
    /// alone, as ScyllaDB's. `None`: they follow the room that is left to writers, and have no less than compactions.
    pub flush_dirty_bytes: Option<u64>,
    /// What compaction's backlog is held against for its shares; `None`: memtables and cache together.
    pub backlog_memory_bytes: Option<u64>,
    /// The backlog counts every SSTable of a table, and not only those of tiers that are ripe for compaction, as
    /// ScyllaDB's did before 5.1.
    pub backlog_counts_all: bool,
    /// Between two looks at the backlog; ScyllaDB's `compaction_controller` looks every 250 ms.
    pub backlog_every: Duration,
    /// Bytes of rows for which a wide partition's own index has an entry (Cassandra's `column_index_size`).
    pub column_index_bytes: u64,
    /// Bytes of all that is cached of SSTables: partitions, index blocks, data blocks.
    pub cache_bytes: u64,
    /// The part of `cache_bytes` that index blocks may take. What they leave is for partitions.
    pub index_cache_fraction: f64,
    /// Reads look into every place that may have a part of the partition, as ScyllaDB's do; otherwise the newest places
    /// come first and what they hide is left out, as in Cassandra.
    pub reads_every_place: bool,
    /// Whether compaction runs by itself.
    pub auto_compaction: bool,
    /// What stands for the default `min_sstable_size` of 50 MiB; the other sizes that compaction strategies have in MiB
    /// are scaled with it, as scaled runs need them smaller.
    pub compaction_small_bytes: u64,
    /// Disk space that compactions may take for a while besides their inputs; `None` is unlimited. What does not fit is
    /// compacted in smaller steps, or waits.
    pub compaction_space_bytes: Option<u64>,
    /// Whether a table's data is kept in a snapshot when it is truncated or dropped.
    pub auto_snapshot: bool,
    /// Compactions side by side.
    pub compaction_jobs_max: usize,
    /// Start although the commit log lacks writes that were acknowledged, without them (Cassandra's
    /// `cassandra.commitlog.ignorereplayerrors`). Otherwise opening fails and names the place.
    pub ignore_commitlog_damage: bool,
    /// Fault injection for the test of the durability oracle: the commit log claims to have synced without syncing.
    /// An engine run with this must lose acknowledged writes at a power loss.
    pub fault_skip_commitlog_sync: bool,
}

impl Config {
    /// Defaults after Cassandra's (32 MiB segments, periodic sync each 10 s, 50 MiB small SSTables); no throttle.
    pub fn new(data_dir: impl Into<String>, commitlog_dir: impl Into<String>) -> Self {
        Self {
            data_dir: data_dir.into(),
            commitlog_dir: commitlog_dir.into(),
            shard: 0,
            shards: 1,
            sync: SyncMode::Periodic { every: Duration::from_secs(10) },
            memtable_limit_bytes: 512 << 20,
            memtable_cleanup_threshold: 0.5,
            commitlog_segment_bytes: 32 << 20,
            commitlog_limit_bytes: 8 << 30,
            compaction_mb_per_s: None,
            compaction_static_shares: None,
            flush_static_shares: None,
            flush_dirty_bytes: None,
            backlog_memory_bytes: None,
            backlog_counts_all: false,
            backlog_every: Duration::from_millis(250),
            column_index_bytes: 64 << 10,
            cache_bytes: 256 << 20,
            index_cache_fraction: 0.5,
            reads_every_place: false,
            auto_compaction: true,
            compaction_small_bytes: 50 << 20,
            compaction_space_bytes: None,
            auto_snapshot: false,
            compaction_jobs_max: 4,
            ignore_commitlog_damage: false,
            fault_skip_commitlog_sync: false,
        }
    }
}
