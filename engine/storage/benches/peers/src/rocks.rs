//! The other side: RocksDB, with what its tuning guide says for one core.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rocksdb::{
    BlockBasedOptions, Cache, ColumnFamilyDescriptor, DB, DBCompactionStyle, DBCompressionType, ReadOptions,
    UniversalCompactOptions, WriteOptions,
};

use crate::options::{KEY_BYTES, Meter, Options, Random, fill_value, key, number};
use crate::paced::Latencies;

const SYNC_EVERY: Duration = Duration::from_secs(10);

fn open(options: &Options, cache_mib: u64) -> DB {
    let mut table = BlockBasedOptions::default();
    // A full filter of 10 bits a key: 1 %.
    table.set_bloom_filter(10.0, false);
    table.set_block_size(4096);
    table.set_format_version(5);
    let cache = Cache::new_lru_cache((cache_mib << 20) as usize).expect("a cache");
    table.set_block_cache(&cache);
    let mut db = rocksdb::Options::default();
    db.create_if_missing(true);
    db.set_block_based_table_factory(&table);
    db.set_compression_type(if options.lz4 { DBCompressionType::Lz4 } else { DBCompressionType::None });
    db.set_compaction_style(DBCompactionStyle::Universal);
    db.set_universal_compaction_options(&UniversalCompactOptions::default());
    db.set_write_buffer_size((options.memtables_mib << 20) as usize / 4);
    db.set_max_write_buffer_number(4);
    db.set_max_background_jobs(2);
    db.set_use_direct_reads(true);
    db.set_use_direct_io_for_flush_and_compaction(true);
    db.set_manual_wal_flush(true);
    // Named, as batched reads want a handle of it.
    let family = ColumnFamilyDescriptor::new("default", db.clone());
    DB::open_cf_descriptors(&db, format!("{}/rocksdb", options.folder), [family]).expect("RocksDB opens")
}

struct Source {
    random: Random,
    value: Vec<u8>,
    half: bool,
    keys: u64,
    written: u64,
}

impl Source {
    fn new(options: &Options) -> Self {
        let value = vec![0; options.row_bytes - KEY_BYTES];
        Self { random: Random(88172645463325252), value, half: options.lz4, keys: options.keys, written: 0 }
    }

    fn put(&mut self, db: &DB, how: &WriteOptions) {
        let n = number(self.written, self.keys, &mut self.random);
        self.written += 1;
        fill_value(&mut self.value, self.half, &mut self.random);
        db.put_opt(key(n), &self.value, how).expect("RocksDB writes");
    }
}

pub fn run(options: &Options) {
    fill(options);
    reads(options);
}

fn property(db: &DB, name: &str) -> u64 {
    db.property_int_value(name).ok().flatten().unwrap_or(0)
}

/// Waits until nothing has run for a while. (`compaction-pending` stays set in the universal style.)
fn settle(db: &DB) {
    let mut idle = 0;
    while idle < 10 {
        let busy = ["num-running-compactions", "num-running-flushes", "mem-table-flush-pending"];
        let running = busy.iter().any(|name| property(db, &format!("rocksdb.{name}")) > 0);
        idle = if running { 0 } else { idle + 1 };
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Gigabytes that flushes and that flushes and compactions together have written.
fn written_gb(db: &DB) -> (f64, f64) {
    let text = db.property_value("rocksdb.stats").ok().flatten().unwrap_or_default();
    let field = |prefix: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(prefix))?;
        rest.trim_start().split([' ', ',']).next()?.parse::<f64>().ok()
    };
    (field("Flush(GB): cumulative").unwrap_or(0.0), field("Cumulative compaction:").unwrap_or(0.0))
}

fn fill(options: &Options) {
    let db = open(options, options.cache_mib);
    let how = WriteOptions::default();
    let mut source = Source::new(options);
    let compact_gb = 2.0 * options.memtables_mib as f64 / 1024.0;
    let meter = Meter::start();
    let mut synced = Instant::now();
    let mut writes = 0;
    loop {
        for _ in 0..10_000 {
            source.put(&db, &how);
        }
        writes += 10_000;
        if synced.elapsed() >= SYNC_EVERY {
            db.flush_wal(true).expect("RocksDB syncs");
            synced = Instant::now();
        }
        if writes >= options.writes {
            let (flushed, all) = written_gb(&db);
            if all - flushed >= compact_gb {
                break;
            }
        }
    }
    meter.report("fill", writes);
    println!("fill-writes {writes}");
    settle(&db);
    meter.report("settled", writes);
    let (flushed, all) = written_gb(&db);
    println!("write-amplification {:.2}", all / flushed);
    db.flush_wal(true).expect("RocksDB syncs");
    db.flush().expect("RocksDB flushes");
    settle(&db);
    db.compact_range::<&[u8], &[u8]>(None, None);
}

fn reads(options: &Options) {
    let seconds = options.read_seconds as f64;
    let db = open(options, options.cache_mib);
    read_threads(&db, options, options.keys, options.depth, 2.0);
    let meter = Meter::start();
    let reads = read_threads(&db, options, options.keys, options.depth, seconds);
    let by_threads = reads as f64 / meter.seconds();
    println!("threads-rate {by_threads:.0}");
    let batched = Meter::start();
    let batched_reads = read_batches(&db, options, seconds);
    let by_batches = batched_reads as f64 / batched.seconds();
    println!("batches-rate {by_batches:.0}");
    // Measured once more: a meter's readings go on while the other way is tried.
    let meter = Meter::start();
    let reads = if by_batches > by_threads {
        read_batches(&db, options, seconds)
    } else {
        read_threads(&db, options, options.keys, options.depth, seconds)
    };
    meter.report("cold", reads);
    drop(db);

    let db = open(options, options.hot_cache_mib);
    for n in 0..options.hot_keys {
        db.get_pinned(key(n)).expect("RocksDB reads");
    }
    let meter = Meter::start();
    let reads = read_threads(&db, options, options.hot_keys, 1, seconds);
    meter.report("hot", reads);
}

fn read_threads(db: &DB, options: &Options, keys: u64, threads: usize, seconds: f64) -> u64 {
    let done = AtomicU64::new(0);
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let value_bytes = options.row_bytes - KEY_BYTES;
    std::thread::scope(|scope| {
        for reader in 0..threads {
            let done = &done;
            scope.spawn(move || {
                let mut random = Random(0x9E37_79B9 + reader as u64);
                let how = ReadOptions::default();
                let mut mine = 0;
                while Instant::now() < until {
                    for _ in 0..16 {
                        let found = db.get_pinned_opt(key(random.next() % keys), &how).expect("RocksDB reads");
                        assert!(found.is_some_and(|value| value.len() == value_bytes));
                        mine += 1;
                    }
                }
                done.fetch_add(mine, Ordering::Relaxed);
            });
        }
    });
    done.into_inner()
}

fn read_batches(db: &DB, options: &Options, seconds: f64) -> u64 {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    let mut random = Random(0x9E37_79B9);
    let mut done = 0;
    let mut how = ReadOptions::default();
    how.set_verify_checksums(true);
    let family = db.cf_handle("default").expect("the default column family");
    while Instant::now() < until {
        let keys: Vec<_> = (0..options.depth).map(|_| key(random.next() % options.keys)).collect();
        for found in db.batched_multi_get_cf_opt(family, &keys, false, &how) {
            assert!(found.expect("RocksDB reads").is_some_and(|value| value.len() == options.row_bytes - KEY_BYTES));
        }
        done += keys.len() as u64;
    }
    done
}

pub fn paced(options: &Options) {
    let db = open(options, options.cache_mib);
    let how = WriteOptions::default();
    let mut source = Source::new(options);
    let mut latencies = Latencies::new();
    let interval_ns = 1e9 / options.rate as f64;
    let began = Instant::now();
    let mut synced = Instant::now();
    for n in 0..options.rate * options.seconds {
        let due = began + Duration::from_nanos((n as f64 * interval_ns) as u64);
        // Sleeping costs 60 us: short waits are left to pile up a little, as the other side's do.
        if due > Instant::now() + Duration::from_micros(100) {
            std::thread::sleep(due - Instant::now());
        }
        while due > Instant::now() {
            std::hint::spin_loop();
        }
        source.put(&db, &how);
        latencies.record(due.elapsed().as_nanos() as u64);
        if synced.elapsed() >= SYNC_EVERY {
            db.flush_wal(true).expect("RocksDB syncs");
            synced = Instant::now();
        }
    }
    latencies.report();
    println!("achieved-rate {:.0}", (options.rate * options.seconds) as f64 / began.elapsed().as_secs_f64());
}
