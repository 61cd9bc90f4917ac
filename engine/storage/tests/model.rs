//! Random operations against a model that knows nothing of how storage works: a list of everything that was written,
//! searched from end to end for each cell.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{clustering, config, encode, read_all, table};
use proptest::prelude::*;
use storage::{Bound, Cell, DeletionTime, Liveness, Partition, RangeTombstone, ReadCommand, Row, Slice, Storage};
use types::TableDef;

/// Far enough in the future that no tombstone is purged: a purged one could not be told from the model's.
const LOCAL_S: u32 = 2_000_000_000;

const KEYS: u8 = 4;
const ROWS: i32 = 40;

#[derive(Clone, Debug)]
enum Write {
    Row { row: i32, marker: bool, column: u16, value: u8 },
    Wide { from: i32, to: i32, value: u8 },
    DeleteCell { row: i32, column: u16 },
    DeleteRow { row: i32 },
    DeleteRange { start: i32, start_inclusive: bool, end: i32, end_inclusive: bool },
    DeletePartition,
    Static { value: u8 },
}

#[derive(Clone, Debug)]
enum Step {
    Write { key: u8, timestamp: i64, write: Write },
    Flush,
    Compact,
    Reopen,
}

fn write() -> impl Strategy<Value = Write> {
    let row = 0..ROWS;
    prop_oneof![
        6 => (row.clone(), any::<bool>(), 0..2u16, any::<u8>())
            .prop_map(|(row, marker, column, value)| Write::Row { row, marker, column, value }),
        1 => (row.clone(), row.clone(), any::<u8>())
            .prop_map(|(a, b, value)| Write::Wide { from: a.min(b), to: a.max(b), value }),
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
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

fn value(byte: u8) -> String {
    format!("{byte:03}").repeat(usize::from(byte) % 40 + 1)
}

fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime { timestamp, local_s: LOCAL_S }
}

fn to_partition(key: u8, timestamp: i64, write: &Write) -> Partition {
    let mut partition = Partition::new(&[key]);
    let live = |byte: u8| Cell::live(timestamp, value(byte).as_str());
    match write {
        Write::Row { row, marker, column, value } => partition.rows.push(Row {
            marker: marker.then(|| Liveness::live(timestamp)),
            cells: vec![(*column, live(*value))],
            ..Row::new(clustering(*row))
        }),
        Write::Wide { from, to, value } => partition
            .rows
            .extend((*from..=*to).map(|row| Row { cells: vec![(1, live(*value))], ..Row::new(clustering(row)) })),
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

    /// The winner's value: the latest; of equals the tombstone, then the larger value.
    fn winner(&self, key: u8, deleted: i64, pick: impl Fn(&Write) -> Option<Option<u8>>) -> Option<String> {
        let all = self.writes.iter().filter(|(k, timestamp, _)| *k == key && *timestamp > deleted);
        let candidates = all.filter_map(|(_, timestamp, write)| {
            let value = pick(write)?.map(value);
            Some((*timestamp, value.is_none(), value))
        });
        candidates.max().and_then(|(.., value)| value)
    }

    fn rows(&self, key: u8) -> Seen {
        let mut seen = Seen::new();
        for row in 0..ROWS {
            let deleted = self.deleted_upto(key, Some(row));
            let mut cells = BTreeMap::new();
            for column in 0..2 {
                let winner = self.winner(key, deleted, |write| match write {
                    Write::Row { row: r, column: c, value, .. } if (*r, *c) == (row, column) => Some(Some(*value)),
                    Write::Wide { from, to, value } if column == 1 && (*from..=*to).contains(&row) => {
                        Some(Some(*value))
                    }
                    Write::DeleteCell { row: r, column: c } if (*r, *c) == (row, column) => Some(None),
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
            Write::Static { value } => Some(Some(*value)),
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
    let rows = partition.live_rows(0).map(|row| {
        let cells = row.cells.iter().filter(|(_, cell)| cell.is_live(0)).map(|(column, cell)| (*column, text(cell)));
        (number(row), (row.marker.is_some(), cells.collect()))
    });
    let cell = partition.static_row.as_ref().and_then(|row| row.cell(0));
    (rows.collect(), cell.filter(|cell| cell.is_live(0)).map(text))
}

async fn compare(storage: &Storage, def: &TableDef, model: &Model) {
    let mut partitions = 0;
    for key in 0..KEYS {
        let expect = model.rows(key);
        let read = async |slices: Vec<Slice>, reverse: bool, limit_rows: usize| {
            let command = ReadCommand { table: def.id, key: (&[key]).into(), slices, reverse, limit_rows, now_s: 0 };
            storage.read(command).await.unwrap().unwrap_or_default()
        };
        let (rows, static_value) = seen(&read(vec![], false, usize::MAX).await);
        assert_eq!(rows, expect, "key {key}");
        assert_eq!(static_value, model.static_value(key), "static of key {key}");
        partitions += usize::from(!rows.is_empty() || static_value.is_some());

        for limit in [1, 3, 10] {
            let first: Seen = expect.iter().take(limit).map(|(k, v)| (*k, v.clone())).collect();
            assert_eq!(seen(&read(vec![], false, limit).await).0, first, "key {key}, first {limit}");
            let last: Seen = expect.iter().rev().take(limit).map(|(k, v)| (*k, v.clone())).collect();
            assert_eq!(seen(&read(vec![], true, limit).await).0, last, "key {key}, last {limit}");
        }
        let slices = vec![
            Slice { start: Bound::exclusive(clustering(3)), end: Bound::inclusive(clustering(9)) },
            Slice { start: Bound::inclusive(clustering(20)), end: Bound::exclusive(clustering(31)) },
        ];
        let inside = |row: &i32| (*row > 3 && *row <= 9) || (*row >= 20 && *row < 31);
        let expect: Seen = expect.into_iter().filter(|(row, _)| inside(row)).collect();
        assert_eq!(seen(&read(slices.clone(), false, usize::MAX).await).0, expect, "slices of key {key}");
        let last: Seen = expect.iter().rev().take(4).map(|(k, v)| (*k, v.clone())).collect();
        assert_eq!(seen(&read(slices, true, 4).await).0, last, "slices of key {key}, last 4");
    }
    let all = read_all(storage, def).await;
    assert_eq!(all.iter().filter(|partition| partition.is_live(0)).count(), partitions);
    for partition in all {
        assert_eq!(seen(&partition), (model.rows(partition.key[0]), model.static_value(partition.key[0])));
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
            Step::Flush => storage.flush(None).await.unwrap(),
            Step::Compact => storage.compact(def.id).await.unwrap(),
            Step::Reopen => {
                storage.close().await.unwrap();
                storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
            }
        }
    }
    compare(&storage, &def, &model).await;
    storage.flush(None).await.unwrap();
    compare(&storage, &def, &model).await;
    storage.compact(def.id).await.unwrap();
    compare(&storage, &def, &model).await;
    storage.close().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn reads_see_what_was_written(steps in prop::collection::vec(step(), 1..120)) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path(), common::PERIODIC);
        config.commitlog_segment_bytes = 128 << 10;
        reactor::uring::block_on(run(steps, config, table())).unwrap();
    }
}
