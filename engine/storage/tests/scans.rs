//! Scans among writes, flushes, compactions and reads, through row caches of several sizes: all must give what a map of
//! what was written gives, and what a scan has come by is not looked up again.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::rc::Rc;

use common::{PERIODIC, config, encode, row, table, update};
use proptest::prelude::*;
use reactor::Group;
use storage::{DeletionTime, Partition, ReadCommand, ScanCommand, Storage};
use types::Token;

const KEYS: u8 = 60;

#[derive(Clone, Debug)]
enum Step {
    Write(u8),
    Delete(u8),
    Read(u8),
    /// So many partitions behind a key or, when `from_start`, from it on.
    Scan {
        from: u8,
        from_start: bool,
        limit: usize,
        bypass: bool,
    },
    /// Scans go on meanwhile.
    Flush(Vec<u8>),
    Compact,
}

fn step() -> impl Strategy<Value = Step> {
    let key = || 0..KEYS;
    prop_oneof![
        20 => key().prop_map(Step::Write),
        4 => key().prop_map(Step::Delete),
        6 => key().prop_map(Step::Read),
        20 => (key(), any::<bool>(), 1..12usize, prop::bool::weighted(0.1))
            .prop_map(|(from, from_start, limit, bypass)| Step::Scan { from, from_start, limit, bypass }),
        3 => prop::collection::vec(key(), 0..6).prop_map(Step::Flush),
        1 => Just(Step::Compact),
    ]
}

/// By token and key, when it was written last.
type Model = BTreeMap<(Token, u8), i64>;

fn token(key: u8) -> Token {
    Token::of_key(&[key])
}

async fn check_scan(storage: &Storage, model: &Model, from: u8, from_start: bool, scan: ScanCommand) {
    let tokens = (if from_start { Token(token(from).0 - 1) } else { Token::MIN }, Token::MIN);
    let after = (!from_start).then(|| ([from].as_slice().into(), None));
    let (page, _) = storage.scan(ScanCommand { tokens, after, ..scan.clone() }).await.unwrap();
    let found: Vec<(u8, i64)> = page
        .iter()
        .filter(|partition| partition.is_live(1))
        .map(|partition| (partition.key[0], partition.rows[0].cells[0].1.timestamp))
        .collect();
    let first = (token(from), from);
    let start = if from_start { Included(first) } else { Excluded(first) };
    let expected = model.range((start, Unbounded)).map(|((_, key), at)| (*key, *at)).take(scan.limit_rows);
    assert_eq!(found, expected.collect::<Vec<_>>(), "from {from}, {from_start}, {scan:?}");
}

async fn run(steps: Vec<Step>, config: storage::Config) {
    let def = table();
    let storage = Rc::new(Storage::open(config, vec![def.clone()]).await.unwrap());
    let mut model = Model::new();
    let all = ScanCommand::all(def.id, 1);
    for (step, timestamp) in steps.into_iter().zip(1..) {
        match step {
            Step::Write(key) => {
                let partition = Partition { rows: vec![row(1, timestamp, "value")], ..Partition::new(&[key]) };
                storage.apply(&encode(&def, partition)).await.unwrap();
                model.insert((token(key), key), timestamp);
            }
            Step::Delete(key) => {
                let deletion = Some(DeletionTime { timestamp, local_s: 2_000_000_000 });
                storage.apply(&encode(&def, Partition { deletion, ..Partition::new(&[key]) })).await.unwrap();
                model.remove(&(token(key), key));
            }
            Step::Read(key) => {
                let found = storage.read(ReadCommand::partition(def.id, &[key], 1)).await.unwrap();
                let found = found.filter(|partition| partition.is_live(1)).is_some();
                assert_eq!(found, model.contains_key(&(token(key), key)));
            }
            Step::Scan { from, from_start, limit, bypass } => {
                let scan = ScanCommand { limit_rows: limit, bypass_cache: bypass, ..all.clone() };
                check_scan(&storage, &model, from, from_start, scan).await;
            }
            Step::Flush(scans) => {
                let flushed = storage.clone();
                let flush = reactor::spawn(Group::Flush, "flush", async move { flushed.flush(None).await.unwrap() });
                for from in scans {
                    let scan = ScanCommand { limit_rows: 9, bypass_cache: false, ..all.clone() };
                    check_scan(&storage, &model, from, true, scan).await;
                }
                flush.await;
            }
            Step::Compact => storage.compact(def.id).await.unwrap(),
        }
    }
    for bypass_cache in [false, true, false] {
        let found = common::scan_all(&storage, &def, ScanCommand { bypass_cache, ..all.clone() }).await;
        let found = found.iter().filter(|partition| partition.is_live(1)).map(|partition| partition.key[0]);
        assert_eq!(found.collect::<Vec<_>>(), model.keys().map(|(_, key)| *key).collect::<Vec<_>>());
    }
    storage.close().await.unwrap();
}

fn cases() -> u32 {
    std::env::var("ORRERY_MODEL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn scans_see_what_was_written(
        steps in prop::collection::vec(step(), 1..300),
        cache_bytes in prop::sample::select(vec![0u64, 12 << 10, 20 << 10, 64 << 20]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let config = storage::Config { cache_bytes, ..config(dir.path(), PERIODIC) };
        reactor::uring::block_on(run(steps, config)).unwrap();
    }
}

#[test]
fn what_a_scan_has_come_by_is_not_looked_up_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), PERIODIC);
    reactor::uring::block_on(async move {
        let def = table();
        let storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
        for n in 0..300 {
            storage.apply(&update(&def, &format!("key-{n}"), 1, 1, "value")).await.unwrap();
        }
        storage.flush(None).await.unwrap();
        storage.close().await.unwrap();
        drop(storage);

        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        let scan = async |bypass_cache| {
            let before = storage.stats();
            let command = ScanCommand { bypass_cache, ..ScanCommand::all(def.id, 1) };
            assert_eq!(common::scan_all(&storage, &def, command).await.len(), 300);
            let after = storage.stats();
            (after.rows.hits - before.rows.hits, after.rows.misses - before.rows.misses)
        };
        assert_eq!(scan(true).await, (0, 0));
        assert_eq!(scan(false).await, (0, 300));
        assert_eq!(scan(false).await, (300, 0));
        // A partition that is written and flushed is found between the others.
        storage.apply(&update(&def, "key-300", 1, 1, "value")).await.unwrap();
        storage.flush(None).await.unwrap();
        let command = ScanCommand { bypass_cache: false, ..ScanCommand::all(def.id, 1) };
        assert_eq!(common::scan_all(&storage, &def, command).await.len(), 301);
        storage.close().await.unwrap();
    })
    .unwrap();
}
