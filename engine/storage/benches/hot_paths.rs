//! Nanoseconds a write and a read take on one core, with cassandra-stress's default row (10-byte key, 5 cells of 34
//! bytes): `cargo bench -p orrery-storage [-- ROWS [FOLDER]]`. CPU time of the shard's thread, so that a busy machine
//! disturbs little; what the kernel does for it included.
//!
//! `count WHAT TIMES` does one thing so many times and prints nothing, for `cargo xtask instructions`, which runs it
//! under valgrind: with different times, so that what is beside the thing itself falls out.

use std::sync::Arc;

use storage::{Cell, Clustering, Config, Liveness, Mutation, Partition, ReadCommand, Row, Storage};
use types::{CqlType, TableDef};

fn table() -> TableDef {
    let mut def = TableDef::builder("keyspace1", "standard1").partition_key("key", CqlType::Blob);
    for column in ["C0", "C1", "C2", "C3", "C4"] {
        def = def.regular(column, CqlType::Blob);
    }
    def.build()
}

/// The same for the same number, and in no order of their tokens.
fn key(n: u64) -> [u8; 10] {
    let mut key = [b'x'; 10];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

/// Partitions of rows of one column.
fn wide_table() -> TableDef {
    let def = TableDef::builder("keyspace1", "wide").partition_key("key", CqlType::Blob);
    def.clustering("row", CqlType::Int).regular("C0", CqlType::Blob).build()
}

/// 17 rows of 1 KiB, which the row cache keeps in pieces.
fn wide_mutation(def: &TableDef, n: u64) -> Vec<u8> {
    let row = |at: i32| Row {
        marker: Some(Liveness::live(1)),
        cells: vec![(0, Cell::live(1, &[n as u8; 1024]))],
        ..Row::new(Clustering::new([at.to_be_bytes()]))
    };
    let mut bytes = Vec::new();
    let partition = Partition { rows: (0..17).map(row).collect(), ..Partition::new(&key(n)) };
    Mutation { table: def.id, schema_version: def.version, partition }.encode(&mut bytes);
    bytes
}

fn mutation(def: &TableDef, n: u64, timestamp: i64) -> Vec<u8> {
    let row = Row {
        marker: Some(Liveness::live(timestamp)),
        cells: (0..5).map(|column| (column, Cell::live(timestamp, &[n as u8; 34]))).collect(),
        ..Row::new(Clustering::empty())
    };
    let mut bytes = Vec::new();
    let partition = Partition { rows: vec![row], ..Partition::new(&key(n)) };
    Mutation { table: def.id, schema_version: def.version, partition }.encode(&mut bytes);
    bytes
}

struct Timer(u64);

/// The scheduler's count of the nanoseconds that this thread has run.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

impl Timer {
    fn start() -> Self {
        Self(cpu_ns())
    }

    fn report(self, what: &str, times: u64) {
        let ns = (cpu_ns() - self.0) as f64;
        println!("{what:<44} {:>9.0} ns  {:>10.0} /s", ns / times as f64, times as f64 * 1e9 / ns);
    }
}

async fn run(rows: u64, folder: String) -> Result<(), storage::Error> {
    let def = Arc::new(table());
    let mut config = Config::new(format!("{folder}/data"), format!("{folder}/commitlog"));
    config.memtable_limit_bytes = 4 << 30;
    config.cache_bytes = 2 << 30;
    let storage = Storage::open(config.clone(), vec![def.clone()]).await?;
    let mutations: Vec<Vec<u8>> = (0..rows).map(|n| mutation(&def, n, 1)).collect();
    println!("{} rows, mutations of {} bytes", rows, mutations[0].len());

    for (round, what) in [(0, "apply, new rows"), (1, "apply, overwrites")] {
        let overwrites: Vec<Vec<u8>>;
        let list = if round == 0 {
            &mutations
        } else {
            overwrites = (0..rows).map(|n| mutation(&def, n, 2)).collect();
            &overwrites
        };
        // The log's writer and its segments are part of it.
        let timer = Timer::start();
        for (at, bytes) in list.iter().enumerate() {
            storage.apply(bytes).await?;
            if at % 64 == 0 {
                reactor::time::yield_now().await;
            }
        }
        timer.report(what, rows);
    }
    let memory = storage.stats().memtable_bytes;
    println!("memtable: {} bytes a row", memory / rows);

    let read = async |what: &str| {
        let timer = Timer::start();
        for n in 0..rows {
            let n = n.wrapping_mul(7919) % rows;
            let found = storage.read(ReadCommand::partition(def.id, &key(n), 0)).await?;
            assert!(found.is_some());
        }
        timer.report(what, rows);
        Ok::<_, storage::Error>(())
    };
    read("read, memtable").await?;
    let timer = Timer::start();
    storage.flush(None).await?;
    timer.report("flush, each row", rows);
    read("read, SSTable, first time").await?;
    read("read, SSTable, cached").await?;
    let timer = Timer::start();
    storage.compact(def.id).await?;
    timer.report("compaction of one SSTable, each row", rows);
    for bytes in &mutations {
        storage.apply(bytes).await?;
    }
    storage.close().await?;
    drop(storage);
    let timer = Timer::start();
    let storage = Storage::open(config, vec![def.clone()]).await?;
    timer.report("replay, each row", storage.stats().commitlog.replayed_records);
    println!("{:?}", storage.stats().commitlog);
    storage.close().await
}

/// What `count` knows.
const COUNTED: [&str; 5] = ["insert", "cached-read", "pieces-read", "sstable-read", "compaction"];

/// Rows that are there, whatever is counted.
const COUNTED_ROWS: u64 = 8000;

/// Rows of the SSTable that is compacted again and again.
const COMPACTED_ROWS: u64 = 2000;

async fn count(what: String, times: u64, folder: String) -> Result<(), storage::Error> {
    let is_wide = what == "pieces-read";
    let def = Arc::new(if is_wide { wide_table() } else { table() });
    let counted_rows = match what.as_str() {
        "compaction" => COMPACTED_ROWS,
        _ if is_wide => COUNTED_ROWS / 20,
        _ => COUNTED_ROWS,
    };
    let mut config = Config::new(format!("{folder}/data"), format!("{folder}/commitlog"));
    config.commitlog_segment_bytes = 1 << 20;
    // Whole files' blocks fit, or nothing does.
    config.cache_bytes = if what == "sstable-read" { 0 } else { 256 << 20 };
    let storage = Storage::open(config, vec![def.clone()]).await?;
    let make = |n| if is_wide { wide_mutation(&def, n) } else { mutation(&def, n, 1) };
    let mutations: Vec<Vec<u8>> = (0..2 * counted_rows).map(make).collect();
    let (there, fresh) = mutations.split_at(counted_rows as usize);
    for bytes in there {
        storage.apply(bytes).await?;
    }
    let read = async |n: u64| {
        let found = storage.read(ReadCommand::partition(def.id, &key(n.wrapping_mul(7919) % counted_rows), 0)).await;
        found.map(|partition| assert!(partition.is_some()))
    };
    if what == "insert" {
        for bytes in &fresh[..times as usize] {
            storage.apply(bytes).await?;
        }
        return storage.close().await;
    }
    storage.flush(None).await?;
    if what == "compaction" {
        for _ in 0..times / COMPACTED_ROWS {
            storage.compact(def.id).await?;
        }
        return storage.close().await;
    }
    if what != "sstable-read" {
        for n in 0..counted_rows {
            read(n).await?;
        }
    }
    for n in 0..times {
        read(n).await?;
    }
    storage.close().await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let own = tempfile::tempdir()?;
    let own_folder = own.path().display().to_string();
    let first = arguments.next();
    if first.as_deref() == Some("count") {
        let what = arguments.next().unwrap_or_default();
        if !COUNTED.contains(&what.as_str()) {
            return Err(format!("count one of {COUNTED:?}").into());
        }
        let times = arguments.next().map_or(Ok(1000), |text| text.parse())?;
        reactor::uring::block_on(count(what, times, own_folder))??;
        return Ok(());
    }
    let rows = first.map_or(Ok(500_000), |text| text.parse())?;
    let folder = arguments.next().unwrap_or(own_folder);
    reactor::uring::block_on(run(rows, folder))??;
    Ok(())
}
