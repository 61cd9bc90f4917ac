//! One engine thread against another: Orrery's storage and RocksDB under the same workload, on one core.
//!
//!     storage-peers compare|orrery|rocksdb|paced-orrery|paced-rocksdb FOLDER [name=value..]
//!
//! `compare` runs both sides alternately, each in a process of its own that `taskset` keeps on one core, and prints
//! every round, the medians and their ratios. One side alone prints `name value` lines:
//!
//! - `fill`: random keys until compaction has written twice the memtables' total, and at least `writes` of them. Wall
//!   time counts what the caller sees, stalls included; CPU time is that of all the process's threads.
//! - `settle`: seconds until no compaction is left to do.
//! - `cold`: point reads of a data set eight times the cache, `depth` at once.
//! - `hot`: point reads of a small set that the cache holds.
//!
//! `paced-*` writes at a fixed rate with open arrival: a write's latency counts from when it was due.
//!
//! On both sides: rows of `row_bytes` (16 of them the key), a write-ahead log synced every 10 seconds and not at each
//! write, bloom filters of 1 %, no compression (or `lz4=1`: LZ4 over 4 KiB), direct I/O, the same memory for memtables and for caches. RocksDB
//! compacts in the universal style, which is the size-tiered one; it buffers its log as ours does
//! (`manual_wal_flush`), has one thread each for flush and compaction, on the same core, and reads with the better of
//! 64 threads and batches of 64 keys.
//!
//! Wall times mean little while the machine has other work: CPU time per operation and ratios do.

mod options;
mod orrery;
mod paced;
mod report;
mod rocks;

use std::process::ExitCode;

use options::Options;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let side = arguments.next().unwrap_or_default();
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("storage-peers: {error}");
            return ExitCode::from(2);
        }
    };
    match side.as_str() {
        "compare" => report::compare(&options),
        "orrery" => orrery::run(&options),
        "rocksdb" => rocks::run(&options),
        "paced-orrery" => orrery::paced(&options),
        "paced-rocksdb" => rocks::paced(&options),
        _ => {
            eprintln!("storage-peers: compare|orrery|rocksdb|paced-orrery|paced-rocksdb FOLDER [name=value..]");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}
