//! What is read again comes from memory, and what need not be read is not: counted by the SSTables that reads ask.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{PERIODIC, clustering, config, encode, table, update};
use storage::{Bound, Cell, Liveness, Partition, ReadCommand, Row, Slice, Storage};
use types::{CqlType, TableDef};

/// How many SSTables all reads so far have asked.
fn asked(storage: &Storage, def: &TableDef) -> u64 {
    let stats = storage.stats();
    stats.tables[&def.id].sstables_per_read.iter().zip(0..).map(|(count, n)| count * n).sum()
}

async fn rows(storage: &Storage, def: &TableDef, from: i32, to: i32, reverse: bool) -> Vec<i32> {
    let slice = Slice { start: Bound::inclusive(clustering(from)), end: Bound::inclusive(clustering(to)) };
    let command = ReadCommand { slices: vec![slice], reverse, ..ReadCommand::partition(def.id, "wide", 1) };
    let partition = storage.read(command).await.unwrap().unwrap_or_default();
    let number = |row: &Row| i32::from_be_bytes(row.clustering.component(0).unwrap().try_into().unwrap());
    partition.rows.iter().map(number).collect()
}

#[test]
fn a_flush_leaves_no_misses() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), PERIODIC);
    reactor::uring::block_on(async move {
        let def = table();
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        for round in 1..4i64 {
            for n in 0..300 {
                let key = format!("key-{n}");
                storage.apply(&update(&def, &key, round as i32, round, &key)).await.unwrap();
            }
            storage.flush(None).await.unwrap();
            for n in 0..300 {
                let command = ReadCommand::partition(def.id, &*format!("key-{n}"), 1);
                let partition = storage.read(command).await.unwrap().unwrap();
                assert_eq!(partition.rows.len() as i64, round);
            }
        }
        assert_eq!(asked(&storage, &def), 0);
        let absent = ReadCommand { bypass_cache: true, ..ReadCommand::partition(def.id, "key-7", 1) };
        assert_eq!(storage.read(absent).await.unwrap().unwrap().rows.len(), 3);
        assert_eq!(asked(&storage, &def), 3, "past the cache all three are asked");
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn stretches_of_a_large_partition_stay() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), PERIODIC);
    reactor::uring::block_on(async move {
        let def = table();
        let storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
        for n in 0..2000 {
            storage.apply(&update(&def, "wide", n, 1, &"x".repeat(100))).await.unwrap();
        }
        storage.flush(None).await.unwrap();
        storage.close().await.unwrap();
        drop(storage);

        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        assert_eq!(rows(&storage, &def, 100, 199, false).await, (100..200).collect::<Vec<_>>());
        assert_eq!(asked(&storage, &def), 1);
        for reverse in [false, true] {
            assert_eq!(rows(&storage, &def, 120, 150, reverse).await, (120..151).collect::<Vec<_>>());
        }
        assert_eq!(asked(&storage, &def), 1, "inside what was read");
        // A gap lies between two stretches; only it is read.
        assert_eq!(rows(&storage, &def, 300, 320, true).await, (300..321).collect::<Vec<_>>());
        assert_eq!(asked(&storage, &def), 2);
        assert_eq!(rows(&storage, &def, 150, 310, false).await, (150..311).collect::<Vec<_>>());
        assert_eq!(asked(&storage, &def), 3);
        assert_eq!(rows(&storage, &def, 100, 320, true).await, (100..321).collect::<Vec<_>>());
        assert_eq!(asked(&storage, &def), 3, "all of it is known now");

        // What is flushed is merged into the stretches.
        let deletion = storage::DeletionTime { timestamp: 2, local_s: 2_000_000_000 };
        let gone = Row { deletion: Some(deletion), ..Row::new(clustering(130)) };
        let partition = Partition { rows: vec![gone], ..Partition::new("wide") };
        storage.apply(&encode(&def, partition)).await.unwrap();
        storage.flush(None).await.unwrap();
        let slice = Slice { start: Bound::inclusive(clustering(129)), end: Bound::inclusive(clustering(131)) };
        let command = ReadCommand { slices: vec![slice], ..ReadCommand::partition(def.id, "wide", 1) };
        let page = storage.read_page(command).await.unwrap();
        assert_eq!((page.live_rows, page.tombstones), (2, 1));
        assert_eq!(asked(&storage, &def), 3);
        storage.close().await.unwrap();
    })
    .unwrap();
}

#[test]
fn an_sstable_that_cannot_matter_is_not_asked() {
    count_asked(false, [1, 4, 0]);
}

/// As ScyllaDB's reads, where a table's node is told so.
#[test]
fn every_place_is_asked_where_that_is_wanted() {
    count_asked(true, [3, 4, 4]);
}

/// SSTables asked by reads of a row that three have, a fourth has in part, and the memtable has.
fn count_asked(reads_every_place: bool, expected: [u64; 3]) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), PERIODIC);
    config.reads_every_place = reads_every_place;
    config.cache_bytes = 0;
    config.auto_compaction = false;
    reactor::uring::block_on(async move {
        let def = TableDef::builder("ks", "simple").partition_key("p", CqlType::Text);
        let def = Arc::new(def.regular("v", CqlType::Text).regular("w", CqlType::Text).build());
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        let write = async |timestamp: i64, columns: &[u16]| {
            let cells = columns.iter().map(|column| (*column, Cell::live(timestamp, "v"))).collect();
            let row = Row { marker: Some(Liveness::live(timestamp)), cells, ..Row::default() };
            let partition = Partition { rows: vec![row], ..Partition::new("key") };
            storage.apply(&encode(&def, partition)).await.unwrap();
        };
        let read = async || {
            let before = asked(&storage, &def);
            let partition = storage.read(ReadCommand::partition(def.id, "key", 1)).await.unwrap().unwrap();
            let times: Vec<i64> = partition.rows[0].cells.iter().map(|(_, cell)| cell.timestamp).collect();
            (times, asked(&storage, &def) - before)
        };
        for timestamp in 1..4 {
            write(timestamp, &[0, 1]).await;
            storage.flush(None).await.unwrap();
        }
        assert_eq!(read().await, (vec![3, 3], expected[0]));
        write(4, &[1]).await;
        storage.flush(None).await.unwrap();
        assert_eq!(read().await, (vec![3, 4], expected[1]), "the newest does not have all columns");
        write(5, &[0, 1]).await;
        assert_eq!(read().await, (vec![5, 5], expected[2]), "the memtable does");
        storage.close().await.unwrap();
    })
    .unwrap();
}

/// What a user who sizes a cache may count on: key, 64 bytes, and 1.4 times the values.
#[test]
fn a_cached_row_takes_little_more_than_its_values() {
    const ROWS: u64 = 20_000;
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), PERIODIC);
    reactor::uring::block_on(async move {
        let columns = ["C0", "C1", "C2", "C3", "C4"];
        let def = TableDef::builder("ks", "standard1").partition_key("key", CqlType::Blob);
        let def = Arc::new(columns.into_iter().fold(def, |def, column| def.regular(column, CqlType::Blob)).build());
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        for n in 0..ROWS {
            let timestamp = 1_700_000_000_000_000 + n as i64;
            let cells = (0..5).map(|column| (column, Cell::live(timestamp, &[n as u8; 34]))).collect();
            let row = Row { marker: Some(Liveness::live(timestamp)), cells, ..Row::default() };
            let key = format!("{n:010}");
            let partition = Partition { rows: vec![row], ..Partition::new(&*key) };
            storage.apply(&encode(&def, partition)).await.unwrap();
        }
        storage.flush(None).await.unwrap();
        let bytes = storage.stats().rows.bytes;
        assert!(bytes / ROWS <= 10 + 64 + 170 * 14 / 10, "{} bytes a row", bytes as f64 / ROWS as f64);
        storage.close().await.unwrap();
    })
    .unwrap();
}
