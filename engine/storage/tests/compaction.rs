//! Each strategy, with compactions side by side, against a plain map: over io_uring and real files.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use common::{PERIODIC, config, encode, read_all, row, table};
use storage::{Config, DeletionTime, Partition, Storage};
use types::TableDef;

/// A table with compaction options; sizes are a thousandth of what the options say.
fn with_options(options: &str) -> Arc<TableDef> {
    let mut def = (*table()).clone();
    let pairs = options.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    def.options.compaction = pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    def.options.gc_grace_seconds = 0;
    storage::validate_compaction(&def.options.compaction).unwrap();
    Arc::new(def)
}

fn small(dir: &std::path::Path) -> Config {
    Config { compaction_small_bytes: 50 << 10, ..config(dir, PERIODIC) }
}

/// The same numbers in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

type Model = BTreeMap<String, (i64, String)>;

async fn fill(storage: &Storage, def: &TableDef, model: &mut Model, numbers: &mut Numbers, timestamp: &mut i64) {
    for _ in 0..200 {
        *timestamp += 1;
        let key = format!("key-{}", numbers.below(1000));
        if numbers.below(10) == 0 {
            let deletion = Some(DeletionTime { timestamp: *timestamp, local_s: 1 });
            storage.apply(&encode(def, Partition { deletion, ..Partition::new(key.as_str()) })).await.unwrap();
            model.remove(&key);
        } else {
            let value = format!("{timestamp}-").repeat(20 + numbers.below(20) as usize);
            let rows = vec![row(0, *timestamp, &value)];
            storage.apply(&encode(def, Partition { rows, ..Partition::new(key.as_str()) })).await.unwrap();
            model.insert(key, (*timestamp, value));
        }
    }
    storage.flush(Some(def.id)).await.unwrap();
}

async fn check(storage: &Storage, def: &TableDef, model: &Model) {
    let mut all = Model::new();
    for mut partition in read_all(storage, def).await {
        partition.purge_shadowed(def);
        for row in partition.live_rows(1) {
            let (_, cell) = &row.cells[0];
            let value = String::from_utf8(cell.value.as_ref().unwrap().to_vec()).unwrap();
            all.insert(String::from_utf8(partition.key.to_vec()).unwrap(), (cell.timestamp, value));
        }
    }
    assert_eq!(all, *model);
}

/// The estimate of how many keys there are, in the Statistics of each SSTable, however small: HyperLogLog++ with
/// 2^13 registers of 6 bits.
const ESTIMATE_BYTES: u64 = (1 << 13) * 6 / 8;

async fn quiet(storage: &Rc<Storage>) {
    while storage.stats().tables.values().any(|table| table.pending_compactions > 0) {
        reactor::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

/// With `parts`, outputs are split, and inputs given back before the end.
fn run(options: &'static str, rounds: u32, parts: bool) {
    let dir = tempfile::tempdir().unwrap();
    let config = small(dir.path());
    reactor::uring::block_on(async move {
        let def = with_options(options);
        let mut storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
        let (mut model, mut numbers, mut timestamp) = (Model::new(), Numbers(7), 0);
        for round in 0..rounds {
            fill(&storage, &def, &mut model, &mut numbers, &mut timestamp).await;
            check(&storage, &def, &model).await;
            if round % 10 == 5 {
                // In the middle of whatever compacts.
                storage.close().await.unwrap();
                storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
                check(&storage, &def, &model).await;
            }
        }
        quiet(&storage).await;
        check(&storage, &def, &model).await;
        let before = storage.stats().tables[&def.id].clone();
        assert!(before.compactions > 0, "{before:?}");
        assert_eq!(before.compaction_steps > before.compactions, parts, "{before:?}");
        let history = storage.compaction_history();
        assert!(history.iter().any(|record| record.inputs.len() > 1 && record.bytes_out > 0), "{history:?}");
        storage.compact(def.id).await.unwrap();
        check(&storage, &def, &model).await;
        // Nothing that was deleted or overwritten is left: the files hold what the model holds, and little more.
        let payload: usize = model.iter().map(|(key, (_, value))| key.len() + value.len()).sum();
        let after = storage.stats().tables[&def.id].clone();
        let by_window = options.starts_with("class=TimeWindow");
        let most = payload as u64 * 3 / 2 + after.sstables * ESTIMATE_BYTES;
        assert!(by_window || after.disk_bytes < most, "{payload} {after:?}");
        storage.close().await.unwrap();
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        check(&storage, &def, &model).await;
    })
    .unwrap();
}

#[test]
fn size_tiered() {
    run("class=SizeTieredCompactionStrategy", 40, false);
}

#[test]
fn leveled() {
    run("class=LeveledCompactionStrategy sstable_size_in_mb=40 fanout_size=4", 60, true);
}

#[test]
fn incremental() {
    run("class=IncrementalCompactionStrategy sstable_size_in_mb=30 space_amplification_goal=1.5", 60, true);
}

#[test]
fn time_window() {
    run("class=TimeWindowCompactionStrategy timestamp_resolution=SECONDS compaction_window_unit=HOURS", 40, false);
}

/// A partition that is too wide to be held, with range tombstones over the edges of the parts it is merged in.
#[test]
fn wide_partitions_are_merged_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { auto_compaction: false, ..small(dir.path()) };
    reactor::uring::block_on(async move {
        let def = with_options("class=SizeTieredCompactionStrategy");
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        let mut model: BTreeMap<i32, i64> = BTreeMap::new();
        let mut numbers = Numbers(3);
        for timestamp in 1..=6i64 {
            let mut partition = Partition::new("wide");
            for _ in 0..1500 {
                let n = numbers.below(4000) as i32;
                partition.rows.push(row(n, timestamp, "value"));
            }
            for _ in 0..20 {
                let start = numbers.below(4000) as i32;
                let end = start + numbers.below(300) as i32;
                partition.range_tombstones.push(storage::RangeTombstone {
                    start: storage::Bound::inclusive(common::clustering(start)),
                    end: storage::Bound::exclusive(common::clustering(end)),
                    deletion: DeletionTime { timestamp: timestamp - 1, local_s: 1 },
                });
                model.retain(|n, written| !(start..end).contains(n) || *written >= timestamp);
            }
            if timestamp == 3 {
                partition.deletion = Some(DeletionTime { timestamp: 1, local_s: 1 });
                model.retain(|_, written| *written > 1);
            }
            partition.rows.iter().for_each(|row| {
                let n = i32::from_be_bytes(row.clustering.components().next().unwrap().try_into().unwrap());
                model.insert(n, timestamp);
            });
            partition.sort(&def);
            storage.apply(&encode(&def, partition)).await.unwrap();
            storage.flush(Some(def.id)).await.unwrap();
        }
        let rows = async || {
            let mut rows = BTreeMap::new();
            for mut partition in read_all(&storage, &def).await {
                partition.purge_shadowed(&def);
                for row in partition.live_rows(1) {
                    let n = i32::from_be_bytes(row.clustering.components().next().unwrap().try_into().unwrap());
                    rows.insert(n, row.cells[0].1.timestamp);
                }
            }
            rows
        };
        assert_eq!(rows().await, model);
        storage.compact(def.id).await.unwrap();
        assert_eq!(rows().await, model);
        let history = storage.compaction_history();
        assert_eq!((history[0].inputs.len(), history[0].outputs.len()), (6, 1));
        assert_eq!(history[0].rows_merged, BTreeMap::from([(6, 1)]));
    })
    .unwrap();
}
