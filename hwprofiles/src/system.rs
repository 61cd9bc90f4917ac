//! Systems: which software runs on an instance, as settings and costs of the one engine.

use serde::{Deserialize, Serialize};

use crate::cost::{CostFile, CostTable};
use crate::figure::Figure;
use crate::quantiles::Quantiles;
use crate::quantity::{Bandwidth, Bytes, BytesPerOp, Count, Ratio, Time};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System<C = CostTable> {
    pub name: String,
    pub about: String,
    pub software: String,
    pub version: String,
    pub threading: Threading,
    /// Absent for a loading client.
    pub memory: Option<Memory>,
    pub io: IoMode,
    /// How the kernel caches this system's files; absent: Linux's defaults, and no file that it keeps from syncing late.
    pub page_cache: Option<PageCache>,
    /// Absent for a loading client.
    pub commitlog: Option<Commitlog>,
    pub throttles: Throttles,
    /// How long messages between nodes may wait for others to leave with; absent: they do not.
    pub coalescing_window: Option<Figure<Time>>,
    pub pauses: Option<Pauses>,
    /// Absent where controllers set them.
    #[serde(default)]
    pub shares: Shares,
    /// Tasks wait for the CPU in one queue: shares are those of the disks alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_queue: bool,
    /// How long a task may run before it lets others go first; absent: as long as the engine's own.
    pub task_quota: Option<Figure<Time>>,
    /// How long a connection's requests, or another task that may give way, have the processor at once; absent: as long
    /// as the engine lets them.
    pub task_turn: Option<Figure<Time>>,
    /// How long an idle shard looks for work before it sleeps, which its core's other thread feels as work; absent: not at
    /// all.
    pub busy_poll: Option<Figure<Time>>,
    /// How long a shard runs tasks before it hands over what they sent and takes what came, if there are so many that
    /// are ready; absent: sends leave, and receives end, at once.
    pub turn: Option<Figure<Time>>,
    /// Reads look into every place that may have a part of a partition, whatever newer parts hide.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reads_every_place: bool,
    /// Part of the reads that ask all replicas of the data centre, more than their consistency needs; absent: none.
    pub read_repair_chance: Option<Figure<Ratio>>,
    /// Flushes have the shares that dirty memory calls for, whatever compactions have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub flush_follows_dirty: bool,
    /// Compaction's backlog counts every SSTable, and not only those of tiers that are ripe.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub backlog_counts_all: bool,
    /// Of a loading client: its driver knows which shard of a server owns a partition, and asks that one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shard_aware: bool,
    /// Of a loading client: how the beginning of its runs differs from all that follows; absent: it does not.
    pub start: Option<Start>,
    pub costs: C,
}

impl System<CostFile> {
    pub(crate) fn with_costs(self, costs: CostTable) -> System {
        let Self { name, about, software, version, threading, memory, io, page_cache, commitlog, .. } = self;
        let Self { throttles, coalescing_window, pauses, shares, task_quota, task_turn, busy_poll, turn, .. } = self;
        let Self { one_queue, reads_every_place, read_repair_chance, .. } = self;
        let Self { flush_follows_dirty, backlog_counts_all, shard_aware, start, .. } = self;
        System {
            name,
            about,
            software,
            version,
            threading,
            memory,
            io,
            page_cache,
            commitlog,
            throttles,
            coalescing_window,
            pauses,
            shares,
            one_queue,
            task_quota,
            task_turn,
            busy_poll,
            turn,
            reads_every_place,
            read_repair_chance,
            flush_follows_dirty,
            backlog_counts_all,
            shard_aware,
            start,
            costs,
        }
    }
}

/// A loading client stands still once as its run begins: a virtual machine that collects the first garbage. Every run has
/// that, however long it is, so a scaled one does not have it in its window; it shows in the maximum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// Operations before it.
    pub after: Figure<Count>,
    pub stop: Quantiles,
}

/// Fixed shares of scheduling groups, where a system has no controllers for them; statements have 1000.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shares {
    pub compaction: Option<Figure<Count>>,
    pub flush: Option<Figure<Count>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Threading {
    /// One shard a vCPU, except those left to interrupts.
    ShardPerCore { interrupt_cpus: Figure<Count> },
    /// Threads of one process share all vCPUs; stages limit how many work at once.
    Pool {
        concurrent_reads: Figure<Count>,
        concurrent_writes: Figure<Count>,
        /// Threads that take clients' requests.
        native_transport: Figure<Count>,
        concurrent_compactors: Figure<Count>,
        /// From a thread's being given something to do, on a processor that idles, to its doing it; absent: what the
        /// instance says.
        wake: Option<Quantiles>,
        /// What threads lose to each other's locks; absent: the costs say it all.
        contention: Option<Contention>,
    },
}

/// The universal scalability law (N. Gunther): with `n` processors at work each piece of work takes
/// `1 + serial (n - 1) + crosstalk n (n - 1)` times as long as alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contention {
    /// Part of the work that one thread at a time does.
    pub serial: Figure<Ratio>,
    /// Part of the work spent on keeping two threads in agreement.
    pub crosstalk: Figure<Ratio>,
    /// Processors at work when the costs were found: there they are as the table has them.
    pub at: Figure<Count>,
}

impl Threading {
    /// Shards of the engine on an instance with `vcpus`. A pool is one shard, on all of them.
    pub fn shards(&self, vcpus: u64) -> u64 {
        match self {
            Threading::ShardPerCore { interrupt_cpus, .. } => vcpus.saturating_sub(interrupt_cpus.u64()).max(1),
            Threading::Pool { .. } => 1,
        }
    }

    /// Processors that each shard may use at once: the kernel's scheduler spreads a pool's threads over all.
    pub fn cpus_per_shard(&self, vcpus: u64) -> u64 {
        match self {
            Threading::ShardPerCore { .. } => 1,
            Threading::Pool { .. } => vcpus.max(1),
        }
    }
}

/// How RAM is shared out. `engine = min(limit, ram - max(reserve, reserve_fraction x ram))`, the rest by fractions of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// RAM left to the operating system, at least.
    pub reserve: Figure<Bytes>,
    pub reserve_fraction: Figure<Ratio>,
    /// Fraction of the engine's memory for memtables.
    pub memtable_fraction: Figure<Ratio>,
    /// Fraction of that at which a flush begins; absent: as in this engine.
    pub flush_at: Option<Figure<Ratio>>,
    /// Fraction of the engine's memory for what is cached of SSTables: rows, and blocks of their indexes.
    pub row_cache_fraction: Figure<Ratio>,
    /// The part of that which index blocks may take; the rows have what they leave.
    pub index_cache_fraction: Figure<Ratio>,
    /// What a row in memory takes beside its key and values; absent: as much as in this engine.
    pub overhead: Option<RowOverhead>,
    /// Fraction of the engine's memory that the kernel's page cache gets: 0 with direct I/O.
    pub page_cache_fraction: Figure<Ratio>,
}

/// Bytes of memory, in memtables and the cache alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowOverhead {
    pub partition: Figure<Bytes>,
    /// Of each row in it.
    pub row: Figure<Bytes>,
    /// Of each cell in a row.
    pub cell: Figure<Bytes>,
}

impl RowOverhead {
    /// A partition of `rows` rows with `cells` cells each.
    pub fn of(&self, rows: u64, cells: u64) -> u64 {
        self.partition.u64() + rows * (self.row.u64() + cells * self.cell.u64())
    }
}

/// Bytes of one host, from [`Memory::plan`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryPlan {
    pub engine: u64,
    pub memtable: u64,
    pub row_cache: u64,
    pub page_cache: u64,
}

impl Memory {
    pub fn plan(&self, ram: u64) -> MemoryPlan {
        let part = |of: u64, fraction: &Figure<Ratio>| (of as f64 * fraction.f64()) as u64;
        let engine = ram.saturating_sub(self.reserve.u64().max(part(ram, &self.reserve_fraction)));
        MemoryPlan {
            engine,
            memtable: part(engine, &self.memtable_fraction),
            row_cache: part(engine, &self.row_cache_fraction),
            page_cache: part(engine, &self.page_cache_fraction),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IoMode {
    /// Past the kernel's page cache.
    Direct,
    /// Through the kernel's page cache.
    Buffered,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PageCache {
    /// The most that is read ahead of a file's orderly reader.
    pub readahead: Figure<Bytes>,
    /// The least that is read at once: what surrounds a page that was mapped and missed. 4 KiB for `read` calls.
    pub floor: Figure<Bytes>,
    /// The system syncs a file while it writes it, whenever this much has gathered (Cassandra's `trickle_fsync`).
    pub trickle: Option<Figure<Bytes>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commitlog {
    pub sync: CommitlogSync,
    pub segment: Figure<Bytes>,
    /// Segments that may exist before memtables are flushed to free them.
    pub total: Figure<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CommitlogSync {
    /// A write waits until it is durable.
    Batch,
    /// A write waits for nothing; at most this much is lost.
    Periodic(Figure<Time>),
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttles {
    /// Bytes that compaction may write a second on one node; absent: as fast as shares allow.
    pub compaction: Option<Figure<Bandwidth>>,
}

/// Stop-the-world collections of a young generation: one each time it is full, as long as copying what is alive in it
/// takes. What nothing refers to any more costs nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pauses {
    /// What the young generation may grow to: eden, and what survived earlier collections.
    pub young: Figure<Bytes>,
    /// Allocated by one node for its part of an operation: coordinating it, or a replica's write or read.
    pub allocated: Figure<BytesPerOp>,
    /// The same for a partition that a compaction reads and writes; absent: nothing.
    pub compacted: Option<Figure<BytesPerOp>>,
    /// Of every collection, beside copying: threads come to a stop, stacks and other roots are scanned.
    pub pause: Quantiles,
    /// What copying adds; absent: all that was allocated is dead.
    pub survivors: Option<Survivors>,
}

/// What survives a young collection is copied: into a survivor space, again at each later one, at last into the old
/// generation. The age at which that is, the tenuring threshold, sinks until the younger ones fill `desired` at most
/// (HotSpot, `AgeTable::compute_tenuring_threshold`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Survivors {
    /// Of what a replica's write allocates, what its memtable refers to until it is flushed.
    pub retained: Figure<BytesPerOp>,
    /// All collecting threads together, of what was allocated since the last collection.
    pub copying: Figure<Bandwidth>,
    /// The same of what an earlier collection has copied, and so laid together; absent: as fast.
    pub copying_again: Option<Figure<Bandwidth>>,
    /// The largest tenuring threshold.
    pub tenuring: Figure<Count>,
    /// Of a young generation of `young`; in proportion of a smaller one.
    pub desired: Figure<Bytes>,
    /// A collector that aims at this pause collects earlier where it expects a longer one.
    pub target: Option<Figure<Time>>,
    /// And yet not before so much is young.
    pub least: Option<Figure<Bytes>>,
    /// Of a collector that takes the old generation's room from the young one's; absent: each has its own.
    pub shared_heap: Option<SharedHeap>,
}

/// A heap whose young generation has what the old one leaves (HotSpot's G1,
/// `G1CollectorPolicy::calculate_young_list_target_length`). When that has grown to `marking` of it, it is marked; that
/// frees `dead_regions` of its garbage at once, and `mixed` collections, as early as can be, the rest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SharedHeap {
    pub size: Figure<Bytes>,
    /// Part of it that is kept free to copy to.
    pub reserve: Figure<Ratio>,
    pub marking: Figure<Ratio>,
    /// What the old generation has when it was cleared.
    pub live: Figure<Bytes>,
    /// Of its garbage, what lies in regions with nothing else.
    pub dead_regions: Figure<Ratio>,
    pub mixed: Figure<Count>,
}
