//! Random operations against a model that knows nothing of how storage works: a list of everything that was written,
//! searched from end to end for each cell. Each history runs with caches of several sizes, and each read is done with
//! the row cache, past it and in pages: all must give what the model says.
//!
//! `ORRERY_MODEL_CASES=100000` is the long form.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{clustering, config, encode, table};
use proptest::prelude::*;
use storage::{
    Bound, Cell, DeletionTime, Liveness, Partition, RangeTombstone, ReadCommand, Row, ScanCommand, Slice, Storage,
};
use types::TableDef;

/// Far enough in the future that no tombstone is purged: a purged one could not be told from the model's.
const LOCAL_S: u32 = 2_000_000_000;
/// When it is read.
const NOW_S: u32 = LOCAL_S + 10;

const KEYS: u8 = 4;
const ROWS: i32 = 40;

#[derive(Clone, Debug)]
enum Write {
    Row {
        row: i32,
        marker: bool,
        column: u16,
        value: u8,
    },
    Wide {
        from: i32,
        to: i32,
        value: u8,
    },
    /// Expired when it is read, or not.
    Expiring {
        row: i32,
        column: u16,
        value: u8,
        expired: bool,
    },
    DeleteCell {
        row: i32,
        column: u16,
    },
    DeleteRow {
        row: i32,
    },
    DeleteRange {
        start: i32,
        start_inclusive: bool,
        end: i32,
        end_inclusive: bool,
    },
    DeletePartition,
    Static {
        value: u8,
    },
}

#[derive(Clone, Debug)]
enum Step {
    Write { key: u8, timestamp: i64, write: Write },
    Read { key: u8, read: Read },
    Flush,
    Compact,
    Reopen,
}

#[derive(Clone, Debug)]
struct Read {
    /// Rows from and to, both with; none is all.
    slices: Vec<(i32, i32)>,
    reverse: bool,
    limit: usize,
    bypass: bool,
}

fn write() -> impl Strategy<Value = Write> {
    let row = 0..ROWS;
    prop_oneof![
        6 => (row.clone(), any::<bool>(), 0..2u16, any::<u8>())
            .prop_map(|(row, marker, column, value)| Write::Row { row, marker, column, value }),
        1 => (row.clone(), row.clone(), any::<u8>())
            .prop_map(|(a, b, value)| Write::Wide { from: a.min(b), to: a.max(b), value }),
        2 => (row.clone(), 0..2u16, any::<u8>(), any::<bool>())
            .prop_map(|(row, column, value, expired)| Write::Expiring { row, column, value, expired }),
        1 => (row.clone(), 0..2u16).prop_map(|(row, column)| Write::DeleteCell { row, column }),
        1 => row.clone().prop_map(|row| Write::DeleteRow { row }),
        2 => (row.clone(), any::<bool>(), row, any::<bool>()).prop_map(|(a, start_inclusive, b, end_inclusive)| {
            Write::DeleteRange { start: a.min(b), start_inclusive, end: a.max(b), end_inclusive }
        }),
        1 => Just(Write::DeletePartition),
        1 => any::<u8>().prop_map(|value| Write::Static { value }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..KEYS, 0..30i64, write()).prop_map(|(key, timestamp, write)| Step::Write { key, timestamp, write }),
        12 => (0..KEYS, read()).prop_map(|(key, read)| Step::Read { key, read }),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

fn read() -> impl Strategy<Value = Read> {
    let slices = prop_oneof![
        2 => Just(Vec::new()),
        1 => prop::collection::btree_set(0..ROWS, 1..6).prop_map(|rows| rows.into_iter().map(|row| (row, row)).collect()),
        2 => prop::collection::btree_set(0..ROWS, 2..7).prop_map(|ends| {
            let ends: Vec<i32> = ends.into_iter().collect();
            ends.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
        }),
    ];
    let limit = prop_oneof![Just(usize::MAX), 1..6usize];
    (slices, any::<bool>(), limit, prop::bool::weighted(0.2)).prop_map(|(slices, reverse, limit, bypass)| Read {
        slices,
        reverse,
        limit,
        bypass,
    })
}

/// Half of the partitions are small enough to be cached whole, half are cached in parts.
fn value(key: u8, byte: u8) -> String {
    format!("{byte:03}").repeat((usize::from(byte) % 40 + 1) * if key < KEYS / 2 { 1 } else { 12 })
}

fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime { timestamp, local_s: LOCAL_S }
}

fn to_partition(key: u8, timestamp: i64, write: &Write) -> Partition {
    let mut partition = Partition::new(&[key]);
    let live = |byte: u8| Cell::live(timestamp, value(key, byte).as_str());
    match write {
        Write::Row { row, marker, column, value } => partition.rows.push(Row {
            marker: marker.then(|| Liveness::live(timestamp)),
            cells: vec![(*column, live(*value))],
            ..Row::new(clustering(*row))
        }),
        Write::Wide { from, to, value } => partition
            .rows
            .extend((*from..=*to).map(|row| Row { cells: vec![(1, live(*value))], ..Row::new(clustering(row)) })),
        Write::Expiring { row, column, value: byte, expired } => partition.rows.push(Row {
            cells: vec![(
                *column,
                Cell {
                    ttl_s: 60,
                    local_deletion_s: expiry(*expired),
                    ..Cell::live(timestamp, value(key, *byte).as_str())
                },
            )],
            ..Row::new(clustering(*row))
        }),
        Write::DeleteCell { row, column } => partition
            .rows
            .push(Row { cells: vec![(*column, Cell::tombstone(timestamp, LOCAL_S))], ..Row::new(clustering(*row)) }),
        Write::DeleteRow { row } => {
            partition.rows.push(Row { deletion: Some(deletion(timestamp)), ..Row::new(clustering(*row)) });
        }
        Write::DeleteRange { start, start_inclusive, end, end_inclusive } => {
            partition.range_tombstones.push(RangeTombstone {
                start: Bound { prefix: clustering(*start), inclusive: *start_inclusive },
                end: Bound { prefix: clustering(*end), inclusive: *end_inclusive },
                deletion: deletion(timestamp),
            });
        }
        Write::DeletePartition => partition.deletion = Some(deletion(timestamp)),
        Write::Static { value } => {
            partition.static_row = Some(Row { cells: vec![(0, live(*value))], ..Row::default() });
        }
    }
    partition
}

enum Version {
    Live(u8),
    Expiring(u8, u32),
    Tombstone,
}

fn expiry(expired: bool) -> u32 {
    if expired { NOW_S - 5 } else { NOW_S + 100 }
}

/// What a reader sees of a row: whether it has a marker, its values.
type Seen = BTreeMap<i32, (bool, BTreeMap<u16, String>)>;

#[derive(Default)]
struct Model {
    writes: Vec<(u8, i64, Write)>,
}

impl Model {
    fn deleted_upto(&self, key: u8, row: Option<i32>) -> i64 {
        let deletes = |(k, timestamp, write): &(u8, i64, Write)| {
            let hit = *k == key
                && match (write, row) {
                    (Write::DeletePartition, _) => true,
                    (Write::DeleteRow { row: deleted }, Some(row)) => *deleted == row,
                    (Write::DeleteRange { start, start_inclusive, end, end_inclusive }, Some(row)) => {
                        (row > *start || (row == *start && *start_inclusive))
                            && (row < *end || (row == *end && *end_inclusive))
                    }
                    _ => false,
                };
            hit.then_some(*timestamp)
        };
        self.writes.iter().filter_map(deletes).max().unwrap_or(i64::MIN)
    }

    /// The winner's value: the latest; of equals the tombstone, then what expires, later first, then the larger value.
    fn winner(&self, key: u8, deleted: i64, pick: impl Fn(&Write) -> Option<Version>) -> Option<String> {
        let all = self.writes.iter().filter(|(k, timestamp, _)| *k == key && *timestamp > deleted);
        let candidates = all.filter_map(|(_, timestamp, write)| {
            Some(match pick(write)? {
                Version::Live(byte) => (*timestamp, 0, 0, Some(value(key, byte))),
                Version::Expiring(byte, local_s) => (*timestamp, 1, local_s, Some(value(key, byte))),
                Version::Tombstone => (*timestamp, 2, LOCAL_S, None),
            })
        });
        let (_, rank, local_s, value) = candidates.max()?;
        value.filter(|_| rank == 0 || local_s > NOW_S)
    }

    fn rows(&self, key: u8) -> Seen {
        let mut seen = Seen::new();
        for row in 0..ROWS {
            let deleted = self.deleted_upto(key, Some(row));
            let mut cells = BTreeMap::new();
            for column in 0..2 {
                let winner = self.winner(key, deleted, |write| match write {
                    Write::Row { row: r, column: c, value, .. } if (*r, *c) == (row, column) => {
                        Some(Version::Live(*value))
                    }
                    Write::Expiring { row: r, column: c, value, expired } if (*r, *c) == (row, column) => {
                        Some(Version::Expiring(*value, expiry(*expired)))
                    }
                    Write::Wide { from, to, value } if column == 1 && (*from..=*to).contains(&row) => {
                        Some(Version::Live(*value))
                    }
                    Write::DeleteCell { row: r, column: c } if (*r, *c) == (row, column) => Some(Version::Tombstone),
                    _ => None,
                });
                cells.extend(winner.map(|value| (column, value)));
            }
            let marker = self.writes.iter().any(|(k, timestamp, write)| {
                let of_row = matches!(write, Write::Row { row: r, marker: true, .. } if *r == row);
                *k == key && *timestamp > deleted && of_row
            });
            if marker || !cells.is_empty() {
                seen.insert(row, (marker, cells));
            }
        }
        seen
    }

    fn static_value(&self, key: u8) -> Option<String> {
        let deleted = self.deleted_upto(key, None);
        self.winner(key, deleted, |write| match write {
            Write::Static { value } => Some(Version::Live(*value)),
            _ => None,
        })
    }
}

fn number(row: &Row) -> i32 {
    i32::from_be_bytes(row.clustering.component(0).unwrap().try_into().unwrap())
}

fn text(cell: &Cell) -> String {
    String::from_utf8(cell.value.as_deref().unwrap().to_vec()).unwrap()
}

fn seen(partition: &Partition) -> (Seen, Option<String>) {
    let rows = partition.live_rows(NOW_S).map(|row| {
        let cells = row.cells.iter().filter(|(_, cell)| cell.is_live(NOW_S));
        (number(row), (row.marker.is_some(), cells.map(|(column, cell)| (*column, text(cell))).collect()))
    });
    let cell = partition.static_row.as_ref().and_then(|row| row.cell(0));
    (rows.collect(), cell.filter(|cell| cell.is_live(NOW_S)).map(text))
}

/// Every other end excludes its row, and lies one further out.
fn slices(read: &Read) -> Vec<Slice> {
    let slice = |(at, (from, to)): (usize, &(i32, i32))| {
        if at % 2 == 0 {
            Slice { start: Bound::inclusive(clustering(*from)), end: Bound::inclusive(clustering(*to)) }
        } else {
            Slice { start: Bound::exclusive(clustering(*from - 1)), end: Bound::exclusive(clustering(*to + 1)) }
        }
    };
    read.slices.iter().enumerate().map(slice).collect()
}

fn expected(model: &Model, key: u8, read: &Read) -> Seen {
    let inside = |row: &i32| read.slices.is_empty() || read.slices.iter().any(|(a, b)| (a..=b).contains(&row));
    let rows = model.rows(key).into_iter().filter(|(row, _)| inside(row));
    if read.reverse { rows.rev().take(read.limit).collect() } else { rows.take(read.limit).collect() }
}

async fn check_read(storage: &Storage, def: &TableDef, model: &Model, key: u8, read: &Read) {
    let command = ReadCommand {
        slices: slices(read),
        reverse: read.reverse,
        limit_rows: read.limit,
        bypass_cache: read.bypass,
        ..ReadCommand::partition(def.id, &[key], NOW_S)
    };
    let answer = storage.read(command.clone()).await.unwrap().unwrap_or_default();
    let (rows, static_value) = seen(&answer);
    assert_eq!(rows, expected(model, key, read), "key {key}, {read:?}");
    assert_eq!(static_value, model.static_value(key), "static of key {key}");

    // In pages of few bytes.
    let mut paged = Seen::new();
    let mut command = ReadCommand { limit_bytes: 1500, ..command };
    loop {
        let page = storage.read_page(command.clone()).await.unwrap();
        let partition = page.partition.unwrap_or_default();
        let bytes: usize = partition.rows.iter().flat_map(|row| &row.cells).map(|(_, cell)| text_len(cell)).sum();
        assert!(bytes < 1500 + 2 * 1440, "a page of {bytes} bytes");
        let (rows, _) = seen(&partition);
        command.limit_rows -= if command.limit_rows == usize::MAX { 0 } else { rows.len() };
        paged.extend(rows);
        if !page.more || command.limit_rows == 0 {
            break;
        }
        let last = if read.reverse { partition.rows.first() } else { partition.rows.last() };
        let last = last.expect("a page with more behind it has rows").clustering.clone();
        let all = if command.slices.is_empty() { vec![Slice::all()] } else { command.slices };
        command.slices = all.iter().filter_map(|slice| slice.behind(&last, read.reverse, def)).collect();
        if command.slices.is_empty() {
            break;
        }
    }
    assert_eq!(paged, expected(model, key, read), "key {key}, paged, {read:?}");
}

fn text_len(cell: &Cell) -> usize {
    cell.value.as_ref().map_or(0, |value| value.len())
}

async fn compare(storage: &Storage, def: &TableDef, model: &Model) {
    let mut partitions = 0;
    for key in 0..KEYS {
        let all = |reverse, limit, bypass| Read { slices: Vec::new(), reverse, limit, bypass };
        for bypass in [true, false] {
            for limit in [1, 3, 10, usize::MAX] {
                check_read(storage, def, model, key, &all(false, limit, bypass)).await;
                check_read(storage, def, model, key, &all(true, limit, bypass)).await;
            }
            for reverse in [false, true] {
                let read = Read { slices: vec![(4, 9), (20, 30)], ..all(reverse, 4, bypass) };
                check_read(storage, def, model, key, &read).await;
            }
        }
        partitions += usize::from(!model.rows(key).is_empty() || model.static_value(key).is_some());
    }
    for (limit_bytes, bypass_cache) in [(2000, true), (usize::MAX, true), (2000, false), (usize::MAX, false)] {
        let scan = ScanCommand { limit_bytes, bypass_cache, ..ScanCommand::all(def.id, NOW_S) };
        let all = common::scan_all(storage, def, scan).await;
        assert_eq!(all.iter().filter(|partition| partition.is_live(NOW_S)).count(), partitions);
        for partition in all {
            assert_eq!(seen(&partition), (model.rows(partition.key[0]), model.static_value(partition.key[0])));
        }
    }
}

async fn run(steps: Vec<Step>, config: storage::Config, def: Arc<TableDef>) {
    let mut model = Model::default();
    let mut storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
    for step in steps {
        match step {
            Step::Write { key, timestamp, write } => {
                let bytes = encode(&def, to_partition(key, timestamp, &write));
                storage.apply(&bytes).await.unwrap();
                model.writes.push((key, timestamp, write));
            }
            Step::Read { key, read } => check_read(&storage, &def, &model, key, &read).await,
            Step::Flush => storage.flush(None).await.unwrap(),
            Step::Compact => storage.compact(def.id).await.unwrap(),
            Step::Reopen => {
                storage.close().await.unwrap();
                storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
            }
        }
        let stats = storage.stats();
        let cached = stats.rows.bytes + stats.cache.bytes + stats.index_cache.bytes;
        assert!(cached <= config.cache_bytes.max(SMALLEST_BYTES), "{stats:?}");
    }
    compare(&storage, &def, &model).await;
    storage.flush(None).await.unwrap();
    compare(&storage, &def, &model).await;
    storage.compact(def.id).await.unwrap();
    compare(&storage, &def, &model).await;
    storage.close().await.unwrap();
}

/// Places and map of a row cache that holds nothing.
const SMALLEST_BYTES: u64 = 6 << 10;

fn cases() -> u32 {
    std::env::var("ORRERY_MODEL_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_see_what_was_written(
        steps in prop::collection::vec(step(), 1..160),
        cache_bytes in prop::sample::select(vec![0u64, 30 << 10, 90 << 10, 64 << 20]),
        column_index_bytes in prop::sample::select(vec![1u64 << 10, 8 << 10, 64 << 10]),
        compressor in prop::sample::select(vec!["", "LZ4Compressor", "ZstdCompressor"]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path(), common::PERIODIC);
        config.commitlog_segment_bytes = 128 << 10;
        config.cache_bytes = cache_bytes;
        config.column_index_bytes = column_index_bytes;
        let mut def = TableDef::clone(&table());
        if !compressor.is_empty() {
            let options = [("class", compressor), ("chunk_length_in_kb", "4")];
            def.options.compression = options.map(|(key, value)| (key.to_string(), value.to_string())).into();
        }
        // A storage that is opened again while the old one still compacts would lose files under its feet.
        config.auto_compaction = !steps.iter().any(|step| matches!(step, Step::Reopen));
        reactor::uring::block_on(run(steps, config, Arc::new(def))).unwrap();
    }
}

/// A history that once read a stale stretch: found by the long form.
#[test]
fn a_small_write_into_a_stretch_of_a_large_partition() {
    let row =
        |key, row, value| Step::Write { key, timestamp: 0, write: Write::Row { row, marker: false, column: 0, value } };
    let steps = vec![
        row(0, 0, 0),
        Step::Write { key: 3, timestamp: 0, write: Write::Wide { from: 0, to: 35, value: 56 } },
        row(3, 29, 18),
        Step::Write {
            key: 3,
            timestamp: 0,
            write: Write::DeleteRange { start: 0, start_inclusive: false, end: 5, end_inclusive: false },
        },
        Step::Flush,
        Step::Read {
            key: 3,
            read: Read { slices: vec![(0, 1), (4, 5), (27, 28)], reverse: true, limit: usize::MAX, bypass: false },
        },
        Step::Write { key: 3, timestamp: 0, write: Write::Expiring { row: 27, column: 1, value: 0, expired: false } },
    ];
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(dir.path(), common::PERIODIC);
    config.cache_bytes = 30 << 10;
    config.column_index_bytes = 1 << 10;
    reactor::uring::block_on(run(steps, config, table())).unwrap();
}
