//! Columns of several cells and counters, written in any order with any timestamps, against a list of everything that
//! was written: in memtables, SSTables, after compaction and after a restart.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use common::{clustering, config, encode};
use proptest::prelude::*;
use storage::{Cell, ComplexColumn, DeletionTime, Partition, ReadCommand, Row, Stamp, Storage, counter};
use types::{CqlType, TableDef, collection};

/// Far enough in the future that no tombstone is purged.
const LOCAL_S: u32 = 2_000_000_000;

/// Rows of one partition. The last one stands for the static row.
const ROWS: i32 = 3;

#[derive(Clone, Debug)]
enum Write {
    Set { element: i32, value: u8 },
    Remove { element: i32 },
    Replace { elements: Vec<(i32, u8)> },
    DeleteColumn,
    DeleteRow,
    Simple { value: u8 },
}

#[derive(Clone, Debug)]
enum Step {
    Write { row: i32, timestamp: i64, write: Write },
    Flush,
    Compact,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let element = -3..3i32;
    let write = prop_oneof![
        8 => (element.clone(), any::<u8>()).prop_map(|(element, value)| Write::Set { element, value }),
        3 => element.clone().prop_map(|element| Write::Remove { element }),
        2 => prop::collection::vec((element, any::<u8>()), 0..4).prop_map(|elements| Write::Replace { elements }),
        1 => Just(Write::DeleteColumn),
        1 => Just(Write::DeleteRow),
        1 => any::<u8>().prop_map(|value| Write::Simple { value }),
    ];
    prop_oneof![
        16 => (0..ROWS, 1..30i64, write).prop_map(|(row, timestamp, write)| Step::Write { row, timestamp, write }),
        2 => Just(Step::Flush),
        1 => Just(Step::Compact),
        1 => Just(Step::Reopen),
    ]
}

fn map_type() -> CqlType {
    CqlType::map(CqlType::Int, CqlType::Text)
}

fn table() -> Arc<TableDef> {
    let def = TableDef::builder("ks", "t").partition_key("p", CqlType::Text).clustering("c", CqlType::Int);
    let def = def.static_column("sm", map_type()).static_column("st", CqlType::Text);
    Arc::new(def.regular("m", map_type()).regular("t", CqlType::Text).build())
}

/// Columns of the map and of the text, of rows and of the static row alike.
const MAP: u16 = 0;
const TEXT: u16 = 1;

fn value(byte: u8) -> String {
    format!("{byte:03}").repeat(usize::from(byte) % 5 + 1)
}

fn is_static(row: i32) -> bool {
    row == ROWS - 1
}

fn to_partition(row: i32, timestamp: i64, write: &Write) -> Partition {
    let stamp = Stamp { timestamp, ttl_s: 0, now_s: LOCAL_S };
    let mut written = if is_static(row) { Row::default() } else { Row::new(clustering(row)) };
    let mut partition = Partition::new("key");
    match write {
        Write::Set { element, value: byte } => {
            written.complex.get_or_insert(MAP).set(&element.to_be_bytes(), value(*byte).as_str(), stamp);
        }
        Write::Remove { element } => written.complex.get_or_insert(MAP).remove(&element.to_be_bytes(), stamp),
        Write::Replace { elements } => {
            let mut map = ComplexColumn::new(MAP);
            map.replace(stamp);
            let elements: BTreeMap<i32, u8> = elements.iter().copied().collect();
            let parts: Vec<Vec<u8>> =
                elements.iter().flat_map(|(k, v)| [k.to_be_bytes().to_vec(), value(*v).into_bytes()]).collect();
            let bytes = collection::write_collection(elements.len(), parts.iter().map(Vec::as_slice));
            map.set_all(&map_type(), &bytes, stamp, || [0; 16]).unwrap();
            written.complex.push(map);
        }
        Write::DeleteColumn => written.complex.get_or_insert(MAP).delete(stamp),
        // A static row is deleted with its partition.
        Write::DeleteRow if is_static(row) => {
            partition.deletion = Some(DeletionTime { timestamp, local_s: LOCAL_S });
            return partition;
        }
        Write::DeleteRow => written.deletion = Some(DeletionTime { timestamp, local_s: LOCAL_S }),
        Write::Simple { value: byte } => written.set_cell(TEXT, stamp.cell(value(*byte).as_str())),
    }
    if is_static(row) {
        partition.static_row = Some(written);
    } else {
        partition.rows.push(written);
    }
    partition
}

/// What the write says of one element: nothing, that it is gone, or its value.
fn says(write: &Write, element: i32) -> Option<Option<u8>> {
    match write {
        Write::Set { element: of, value } if *of == element => Some(Some(*value)),
        Write::Remove { element: of } if *of == element => Some(None),
        Write::Replace { elements } => {
            elements.iter().rev().find(|(of, _)| *of == element).map(|(_, value)| Some(*value))
        }
        _ => None,
    }
}

type Log = Vec<(i32, i64, Write)>;

fn expected(log: &Log, row: i32) -> BTreeMap<i32, String> {
    let of_row = || log.iter().filter(move |(of, ..)| *of == row);
    let deleted = log.iter().filter_map(|(of, timestamp, write)| match write {
        Write::DeleteRow if *of == row || is_static(*of) => Some(*timestamp),
        Write::DeleteColumn if *of == row => Some(*timestamp),
        Write::Replace { .. } if *of == row => Some(*timestamp - 1),
        _ => None,
    });
    let deleted = deleted.max().unwrap_or(0);
    let winner = |element: i32| {
        let said = of_row().filter(|(_, timestamp, _)| *timestamp > deleted);
        let said = said.filter_map(|(_, timestamp, write)| Some((*timestamp, says(write, element)?)));
        // The latest; of equals the tombstone, then the larger value.
        let best = said.map(|(timestamp, says)| (timestamp, says.is_none(), says.map(value))).max()?;
        best.2.map(|value| (element, value))
    };
    (-3..3).filter_map(winner).collect()
}

fn seen(row: Option<&Row>) -> BTreeMap<i32, String> {
    let Some(map) = row.and_then(|row| row.complex_column(MAP)) else { return BTreeMap::new() };
    let cells: Vec<_> = map.live_cells(0).collect();
    assert!(cells.is_sorted_by(|(a, _), (b, _)| CqlType::Int.compare(a, b).is_lt()), "in the order of their keys");
    let text = |cell: &Cell| String::from_utf8(cell.value.as_deref().unwrap().to_vec()).unwrap();
    cells.iter().map(|(path, cell)| (i32::from_be_bytes((*path).try_into().unwrap()), text(cell))).collect()
}

async fn compare(storage: &Storage, def: &TableDef, log: &Log) {
    let found = storage.read(ReadCommand::partition(def.id, b"key", 0)).await.unwrap().unwrap_or_default();
    for row in 0..ROWS {
        let stored = match is_static(row) {
            true => found.static_row.as_ref(),
            false => found.rows.iter().find(|stored| stored.clustering == clustering(row)),
        };
        assert_eq!(seen(stored), expected(log, row), "row {row}");
    }
}

async fn run(steps: Vec<Step>, config: storage::Config) {
    let def = table();
    let mut log = Log::new();
    let mut storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
    for step in steps {
        match step {
            Step::Write { row, timestamp, write } => {
                storage.apply(&encode(&def, to_partition(row, timestamp, &write))).await.unwrap();
                log.push((row, timestamp, write));
            }
            Step::Flush => storage.flush(None).await.unwrap(),
            Step::Compact => storage.compact(def.id).await.unwrap(),
            Step::Reopen => {
                storage.close().await.unwrap();
                storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
            }
        }
    }
    compare(&storage, &def, &log).await;
    storage.flush(None).await.unwrap();
    compare(&storage, &def, &log).await;
    storage.compact(def.id).await.unwrap();
    compare(&storage, &def, &log).await;
    storage.close().await.unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn elements_are_read_as_written(steps in prop::collection::vec(step(), 1..60)) {
        let dir = tempfile::tempdir().unwrap();
        let mut config = config(dir.path(), common::PERIODIC);
        config.commitlog_segment_bytes = 128 << 10;
        reactor::uring::block_on(run(steps, config)).unwrap();
    }
}

#[test]
fn counters_count_whatever_arrives_twice() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path(), common::PERIODIC);
    let def = TableDef::builder("ks", "counts").partition_key("p", CqlType::Text);
    let def = Arc::new(def.regular("n", CqlType::Counter).build());
    reactor::uring::block_on(async move {
        let storage = Storage::open(config.clone(), vec![def.clone()]).await.unwrap();
        let mut known: [Option<Vec<u8>>; 2] = [None, None];
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for n in 0..40i64 {
            let leader = (n % 2) as usize;
            let context = counter::increment(known[leader].as_deref(), [leader as u8; 16], n, n).unwrap();
            known[leader] = Some(context.clone());
            let row = Row { cells: vec![(0, Cell::live(100 - n, context))], ..Row::default() };
            sent.push(encode(&def, Partition { rows: vec![row], ..Partition::new("key") }));
            storage.apply(&sent[n as usize]).await.unwrap();
            // An older one comes once more, and late.
            storage.apply(&sent[(n / 2) as usize]).await.unwrap();
            if n % 7 == 0 {
                storage.flush(None).await.unwrap();
            }
        }
        let total = async |storage: &Storage| {
            let found = storage.read(ReadCommand::partition(def.id, b"key", 0)).await.unwrap().unwrap();
            counter::total(found.rows[0].cell(0).unwrap().value.as_deref().unwrap()).unwrap()
        };
        let expect: i64 = (0..40).sum();
        assert_eq!(total(&storage).await, expect);
        storage.flush(None).await.unwrap();
        storage.compact(def.id).await.unwrap();
        assert_eq!(total(&storage).await, expect);
        let gone = Row { cells: vec![(0, Cell::tombstone(1, LOCAL_S))], ..Row::default() };
        storage.apply(&encode(&def, Partition { rows: vec![gone], ..Partition::new("key") })).await.unwrap();
        storage.apply(&sent[39]).await.unwrap();
        let found = storage.read(ReadCommand::partition(def.id, b"key", 0)).await.unwrap().unwrap();
        assert!(found.rows[0].cell(0).unwrap().is_tombstone(), "a deleted counter stays so");
        storage.close().await.unwrap();
    })
    .unwrap();
}
