//! Our side: `storage::Storage` on one reactor shard.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use reactor::Group;
use storage::{Clustering, Config, Liveness, Mutation, Partition, ReadCommand, Row, Storage, SyncMode};
use types::{CqlType, TableDef, TableOptions};

use crate::options::{KEY_BYTES, Meter, Options, Random, fill_value, key, number};
use crate::paced::Latencies;

type Outcome = Result<(), storage::Error>;

fn table(options: &Options) -> Arc<TableDef> {
    let lz4 = [("class", "LZ4Compressor"), ("chunk_length_in_kb", "4")];
    let compression = lz4.iter().filter(|_| options.lz4).map(|(name, value)| (name.to_string(), value.to_string()));
    let table_options = TableOptions { compression: compression.collect(), ..Default::default() };
    let table = TableDef::builder("ks", "t").partition_key("k", CqlType::Blob).regular("v", CqlType::Blob);
    Arc::new(table.options(table_options).build())
}

fn config(options: &Options, cache_mib: u64) -> Config {
    let mut config = Config::new(format!("{}/data", options.folder), format!("{}/commitlog", options.folder));
    config.sync = SyncMode::Periodic { every: Duration::from_secs(10) };
    config.memtable_limit_bytes = options.memtables_mib << 20;
    config.cache_bytes = cache_mib << 20;
    config.compaction_small_bytes = 1 << 20;
    config
}

fn on_shard<F: Future<Output = Outcome> + 'static>(
    options: &Options,
    main: impl FnOnce(Options) -> F + Send + 'static,
) {
    let uring = reactor::uring::Config { cpus: Some(vec![options.cpu]), ..Default::default() };
    let options = options.clone();
    // What a server's requests run as: under the shares that flushes and compaction have to leave them.
    let statements = move || reactor::spawn(Group::Statement, "main", main(options));
    let done = reactor::uring::block_on_with(uring, statements).expect("a shard starts");
    done.expect("storage works");
}

pub fn run(options: &Options) {
    on_shard(options, |options| async move {
        fill(&options).await?;
        reads(&options).await
    });
}

/// Makes mutations of random keys.
struct Source {
    def: Arc<TableDef>,
    random: Random,
    value: Vec<u8>,
    half: bool,
    bytes: Vec<u8>,
    keys: u64,
}

impl Source {
    fn new(def: &Arc<TableDef>, options: &Options) -> Self {
        let value = vec![0; options.row_bytes - KEY_BYTES];
        let (half, keys) = (options.lz4, options.keys);
        Self { def: def.clone(), random: Random(88172645463325252), value, half, bytes: Vec::new(), keys }
    }

    fn next(&mut self, timestamp: i64) -> &[u8] {
        let n = number(timestamp as u64 - 1, self.keys, &mut self.random);
        fill_value(&mut self.value, self.half, &mut self.random);
        self.of(n, timestamp)
    }

    fn of(&mut self, n: u64, timestamp: i64) -> &[u8] {
        let row = Row {
            marker: Some(Liveness::live(timestamp)),
            cells: vec![(0, storage::Cell::live(timestamp, self.value.as_slice()))],
            ..Row::new(Clustering::empty())
        };
        let partition = Partition { rows: vec![row], ..Partition::new(&key(n)) };
        self.bytes.clear();
        Mutation { table: self.def.id, schema_version: self.def.version, partition }.encode(&mut self.bytes);
        &self.bytes
    }
}

async fn settle(storage: &Storage, def: &TableDef) {
    while storage.stats().tables[&def.id].pending_compactions > 0 {
        reactor::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn fill(options: &Options) -> Outcome {
    let def = table(options);
    let storage = Storage::open(config(options, options.cache_mib), vec![def.clone()]).await?;
    let mut source = Source::new(&def, options);
    let compact_bytes = 2 * (options.memtables_mib << 20);
    let meter = Meter::start();
    let mut writes = 0;
    loop {
        for _ in 0..10_000 {
            writes += 1;
            storage.apply(source.next(writes as i64)).await?;
            if writes % 16 == 0 {
                reactor::time::yield_now().await;
            }
        }
        if writes >= options.writes && storage.stats().tables[&def.id].compacted_bytes >= compact_bytes {
            break;
        }
    }
    meter.report("fill", writes);
    println!("fill-writes {writes}");
    settle(&storage, &def).await;
    meter.report("settled", writes);
    let stats = storage.stats();
    let counts = &stats.tables[&def.id];
    println!(
        "write-amplification {:.2}",
        (counts.flushed_bytes + counts.compacted_bytes) as f64 / counts.flushed_bytes as f64
    );
    storage.flush(None).await?;
    settle(&storage, &def).await;
    storage.compact(def.id).await?;
    storage.close().await
}

async fn reads(options: &Options) -> Outcome {
    let def = table(options);
    let storage = Storage::open(config(options, options.cache_mib), vec![def.clone()]).await?;
    // Warms the cache as far as it goes.
    read_random(&storage, &def, options, options.keys, options.depth, 2.0).await?;
    let meter = Meter::start();
    let reads = read_random(&storage, &def, options, options.keys, options.depth, options.read_seconds as f64).await?;
    meter.report("cold", reads);
    storage.close().await?;
    drop(storage);

    let storage = Storage::open(config(options, options.hot_cache_mib), vec![def.clone()]).await?;
    for n in 0..options.hot_keys {
        storage.read(ReadCommand::partition(def.id, &key(n), 0)).await?;
    }
    let meter = Meter::start();
    let reads = read_random(&storage, &def, options, options.hot_keys, 1, options.read_seconds as f64).await?;
    meter.report("hot", reads);
    storage.close().await
}

/// How many reads were done.
async fn read_random(
    storage: &Rc<Storage>,
    def: &Arc<TableDef>,
    options: &Options,
    keys: u64,
    depth: usize,
    seconds: f64,
) -> Result<u64, storage::Error> {
    let done = Rc::new(Cell::new(0));
    let until = reactor::now() + (seconds * 1e9) as u64;
    let value_bytes = options.row_bytes - KEY_BYTES;
    let readers: Vec<_> = (0..depth)
        .map(|reader| {
            let (storage, id, done) = (storage.clone(), def.id, done.clone());
            let mut random = Random(0x9E37_79B9 + reader as u64);
            reactor::spawn(Group::Statement, "reader", async move {
                while reactor::now() < until {
                    for _ in 0..16 {
                        let n = random.next() % keys;
                        let found = storage.read(ReadCommand::partition(id, &key(n), 0)).await?;
                        let partition = found.expect("every key was written");
                        let (_, cell) = &partition.rows[0].cells[0];
                        assert_eq!(cell.value.as_ref().map(|value| value.len()), Some(value_bytes));
                        done.set(done.get() + 1);
                    }
                    reactor::time::yield_now().await;
                }
                Ok::<_, storage::Error>(())
            })
        })
        .collect();
    for reader in readers {
        reader.await?;
    }
    Ok(done.get())
}

pub fn paced(options: &Options) {
    on_shard(options, |options| async move {
        let def = table(&options);
        let storage = Storage::open(config(&options, options.cache_mib), vec![def.clone()]).await?;
        let mut source = Source::new(&def, &options);
        let latencies = Rc::new(RefCell::new(Latencies::new()));
        let interval_ns = 1e9 / options.rate as f64;
        let total = options.rate * options.seconds;
        let began = reactor::now();
        let finished = Rc::new(Cell::new(0u64));
        let mut issued = 0;
        while issued < total {
            let due = (((reactor::now() - began) as f64 / interval_ns) as u64).min(total);
            // A few at a time: behind a pause, the others go on between the writes that have piled up.
            let until = due.min(issued + 32);
            while issued < until {
                let due_ns = began + (issued as f64 * interval_ns) as u64;
                issued += 1;
                let mutation = source.next(issued as i64).to_vec();
                let (storage, latencies, finished) = (storage.clone(), latencies.clone(), finished.clone());
                reactor::run_or_spawn(Group::Statement, "write", async move {
                    storage.apply(&mutation).await.expect("storage works");
                    latencies.borrow_mut().record(reactor::now() - due_ns);
                    finished.set(finished.get() + 1);
                });
            }
            if issued < due {
                reactor::time::yield_now().await;
            } else {
                reactor::time::sleep(Duration::from_micros(100)).await;
            }
        }
        while finished.get() < total {
            reactor::time::sleep(Duration::from_millis(1)).await;
        }
        latencies.borrow().report();
        let stats = storage.stats();
        println!("achieved-rate {:.0}", total as f64 * 1e9 / (reactor::now() - began) as f64);
        println!("compactions {}", stats.tables[&def.id].compactions);
        println!("writes-blocked {}", stats.writes_blocked);
        storage.close().await
    });
}
