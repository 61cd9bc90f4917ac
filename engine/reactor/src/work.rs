//! The kinds of CPU work that the engine and the loading client declare with `charge`.

/// A sleeping processor is interrupted by its kernel's tick as often as this or less (Linux: `CONFIG_HZ` of 100 to 1000):
/// a timer that is due sooner needs an interrupt of its own.
pub const TICK_NS: u64 = 1_000_000;

/// Defines the enum, its list and its names together so that they cannot drift apart.
macro_rules! works {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// One kind of work. The unit of `amount` is bytes unless said otherwise.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Work { $($(#[$doc])* $name,)* }

        impl Work {
            pub const ALL: &[Work] = &[$(Work::$name,)*];
            pub const COUNT: usize = Self::ALL.len();

            /// The name in cost tables and reports.
            pub fn name(self) -> &'static str {
                match self { $(Work::$name => $text,)* }
            }

            pub fn from_name(name: &str) -> Option<Work> {
                match name { $($text => Some(Work::$name),)* _ => None }
            }
        }
    };
}

works! {
    /// One poll of a task, whatever it does. Amount 0.
    Poll = "poll",
    /// One handing over of operations to the kernel and taking of what is complete, whatever they are. Amount 0.
    Turn = "turn",
    /// Telling the drives that operations wait for them, once for all that are handed over together. Amount 0.
    Doorbell = "doorbell",
    /// One sleep of a shard without anything to do, and its wake-up. Amount 0.
    Wake = "wake",
    /// Setting the processor's clock: before a sleep for a timer that is due within [`TICK_NS`], and back where something
    /// else ends that sleep. Amount 0.
    Timer = "timer",
    /// One receive from a socket: system call, interrupt, protocol stack.
    NetReceive = "net-receive",
    /// One send to a socket.
    NetSend = "net-send",
    /// One disk operation handed to the kernel and completed.
    DiskSubmit = "disk-submit",
    /// Having the kernel make a file durable: one of its threads waits for that, on the shard's processor. Amount 0.
    DiskSync = "disk-sync",
    /// One message to another shard of the host, sender's and receiver's side together.
    CrossShard = "cross-shard",
    /// Decoding a CQL request frame.
    FrameDecode = "frame-decode",
    /// Encoding a CQL response frame.
    FrameEncode = "frame-encode",
    /// Parsing and preparing a statement's text.
    StatementParse = "statement-parse",
    /// Binding and planning an already prepared statement. Amount in values.
    StatementExecute = "statement-execute",
    /// A coordinator's bookkeeping for one write, whatever the number of replicas.
    CoordinateWrite = "coordinate-write",
    /// A coordinator's bookkeeping for one read.
    CoordinateRead = "coordinate-read",
    /// Encoding a message to another node.
    MessageEncode = "message-encode",
    /// Decoding a message from another node.
    MessageDecode = "message-decode",
    /// Merging the replicas' answers to a read.
    Reconcile = "reconcile",
    /// Encoding and appending a record to the commit log's buffer.
    CommitlogAppend = "commitlog-append",
    /// Finding one partition among those in a memtable or in the row cache. Amount in half doublings of all that lies
    /// there, from a MiB on.
    MemoryLookup = "memory-lookup",
    /// Applying one mutation to a memtable.
    MemtableInsert = "memtable-insert",
    /// Reading one partition or slice from a memtable.
    MemtableRead = "memtable-read",
    /// Reading one partition from the row cache.
    RowCacheRead = "row-cache-read",
    /// Reading one piece of a partition that the row cache has in pieces.
    RowCachePiece = "row-cache-piece",
    /// Taking one row through a read, from wherever it lies into the answer. Amount in cells.
    RowRead = "row-read",
    /// Asking one SSTable's bloom filter.
    BloomProbe = "bloom-probe",
    /// Finding a partition through one SSTable's summary and index. Amount in entries parsed that were not in the cache.
    SstableIndex = "sstable-index",
    /// Decoding rows from one SSTable's data.
    SstableRead = "sstable-read",
    /// Uncompressing a chunk of an SSTable's data. Amount in bytes uncompressed.
    Decompress = "decompress",
    /// Compressing a chunk of an SSTable's data. Amount in bytes uncompressed.
    Compress = "compress",
    /// Writing a memtable's rows to an SSTable.
    Flush = "flush",
    /// Taking one partition of a flushed memtable into the row cache.
    CacheUpdate = "cache-update",
    /// Reading, merging and rewriting rows in compaction. Amount in bytes read.
    Compaction = "compaction",
    /// A loading client's work to make and send one request.
    ClientRequest = "client-request",
    /// A loading client's work to take one response.
    ClientResponse = "client-response",
}
