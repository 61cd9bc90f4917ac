//! Files that Apache Cassandra wrote, of every format that is read: `tests/golden/sstables` says by which version and
//! with which CQL.

use std::rc::Rc;
use std::sync::Arc;

use types::{CqlType, TableDef, Token};

use super::*;
use crate::cache::BlockCache;
use crate::{Bound, Bytes, Cell, Clustering, Partition, Row, Slice};

pub(super) const TABLES: &[(&str, &str)] = &[
    ("mc", "lz4"),
    ("mc", "wide"),
    ("md", "lz4"),
    ("me", "none"),
    ("me", "snappy"),
    ("me", "deflate"),
    ("nb", "none"),
    ("nb", "lz4"),
    ("nb", "snappy"),
    ("nb", "deflate"),
    ("nb", "zstd"),
    ("nb", "ranges"),
    ("nb", "wide"),
];

pub(super) fn definition() -> Arc<TableDef> {
    let list = |ty: CqlType| CqlType::List(Box::new(ty));
    let def = TableDef::builder("golden", "t")
        .partition_key("p", CqlType::Int)
        .clustering_ordered("c", CqlType::Int, true)
        .clustering("d", CqlType::Text)
        .static_column("s", CqlType::Text)
        .regular("v", CqlType::Text)
        .regular("n", CqlType::BigInt)
        .regular("f", CqlType::Frozen(Box::new(list(CqlType::Int))))
        .regular("m", CqlType::Map(Box::new(CqlType::Text), Box::new(CqlType::Int)))
        .regular("e", CqlType::Set(Box::new(CqlType::Int)));
    Arc::new(def.build())
}

/// The folder, and the name of the data's file.
pub(super) fn find(version: &str, table: &str) -> (String, String) {
    let folder = format!("{}/../../tests/golden/sstables/{version}/{table}", env!("CARGO_MANIFEST_DIR"));
    let mut names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let data = names.find(|name| name.ends_with("-Data.db")).unwrap();
    (folder, data)
}

async fn open(version: &str, table: &str) -> Rc<Sstable> {
    let (folder, data) = find(version, table);
    Sstable::open_foreign(&folder, &data, definition(), &Rc::new(BlockCache::new(1 << 20, 0.5))).await.unwrap()
}

fn number(bytes: &[u8]) -> i64 {
    bytes.iter().fold(0, |number, byte| number << 8 | i64::from(*byte))
}

fn cell(row: &Row, column: u16) -> Option<&Cell> {
    row.cells.iter().find(|(index, _)| *index == column).map(|(_, cell)| cell)
}

/// A row of the tables that are named after compressors. Columns are numbered by name: e f m n v.
fn check_row(p: i64, row: &Row) {
    let c = number(row.clustering.component(0).unwrap());
    let expires = c % 7 == 6;
    let timestamp = 1_000_000 + c;
    let marker = row.marker.unwrap();
    assert_eq!((marker.timestamp, marker.ttl_s), (timestamp, if expires { 100_000_000 } else { 0 }));
    assert_eq!(row.clustering.component(1).unwrap(), format!("d{}", c % 3).as_bytes());
    let v = cell(row, 4).unwrap();
    let expect = (c % 5 != 0).then(|| Bytes::from(&*format!("value {c}")));
    assert_eq!((v.timestamp, &v.value), (timestamp, &expect));
    assert_eq!(number(cell(row, 3).unwrap().value.as_ref().unwrap()), c * 1_000_000_007);
    let list: Vec<u8> = [2, 4, p as i32, 4, c as i32].iter().flat_map(|n| n.to_be_bytes()).collect();
    assert_eq!(**cell(row, 1).unwrap().value.as_ref().unwrap(), *list);
    let set = row.complex_column(0).unwrap();
    assert_eq!(set.deletion.unwrap().timestamp, timestamp - 1, "a collection that is set is deleted first");
    assert_eq!(set.cells.iter().map(|(path, _)| number(path)).collect::<Vec<_>>(), [c, c + 1]);
    let map = row.complex_column(2).unwrap();
    let entries: Vec<_> =
        map.cells.iter().map(|(path, cell)| (&**path, number(cell.value.as_ref().unwrap()))).collect();
    let expect: Vec<(&[u8], i64)> = [(&b"key 0"[..], 0), (b"key 1", p)][..c as usize % 3].to_vec();
    assert_eq!(entries, expect);
}

#[test]
fn rows_of_every_format_and_compressor() {
    reactor::uring::block_on(async {
        for (version, table) in TABLES.iter().filter(|(_, table)| !["wide", "ranges"].contains(table)) {
            let sstable = open(version, table).await;
            let mut all = Sequential::new(sstable.clone());
            let mut rows = 0;
            while let Some((token, partition)) = all.next().await.unwrap() {
                let p = number(&partition.key);
                assert_eq!(
                    **partition.static_row.as_ref().unwrap().cells[0].1.value.as_ref().unwrap(),
                    *format!("static {p}").as_bytes()
                );
                assert_eq!(partition.rows.len() as i64, 1 + (p % 4) * 8, "{version} {table}, partition {p}");
                partition.rows.iter().for_each(|row| check_row(p, row));
                rows += partition.rows.len() as u64;
                let place = sstable.find(token, &partition.key).await.unwrap().unwrap();
                let mut cursor = PartitionCursor::new(sstable.clone(), partition.key.clone(), place);
                assert_eq!(cursor.next_part(&[], false, usize::MAX).await.unwrap().partition, partition);
            }
            assert_eq!(
                (rows, sstable.figures.rows, sstable.figures.partitions),
                (156, 156 + 12, 12),
                "{version} {table}"
            );
            assert_eq!((sstable.figures.min_timestamp, sstable.figures.max_timestamp), (999_999, 1_000_024));
        }
    })
    .unwrap();
}

#[test]
fn range_tombstones() {
    reactor::uring::block_on(async {
        let sstable = open("nb", "ranges").await;
        let mut all = Sequential::new(sstable);
        let mut partitions = 0;
        while let Some((_, partition)) = all.next().await.unwrap() {
            partitions += 1;
            // Written as c > 3i and c <= 3i + 1 + i % 3, and told in the table's order, which is descending.
            let ranges: Vec<_> = partition
                .range_tombstones
                .iter()
                .map(|range| {
                    let at = |bound: &Bound| (number(bound.prefix.component(0).unwrap()), bound.inclusive);
                    (at(&range.start), at(&range.end), range.deletion.timestamp)
                })
                .collect();
            let one = |i: i64| ((i * 3 + 1 + i % 3, true), (i * 3, false), 5_000_000 + i);
            assert_eq!(ranges, [4, 3, 2, 1, 0].map(one));
        }
        assert_eq!(partitions, 10);
    })
    .unwrap();
}

#[test]
fn slices_of_wide_partitions() {
    reactor::uring::block_on(async {
        for version in ["mc", "nb"] {
            let sstable = open(version, "wide").await;
            for p in 0..2i32 {
                let key = Bytes::from(&p.to_be_bytes());
                let place = sstable.find(Token::of_key(&key), &key).await.unwrap().unwrap();
                assert!(place.promoted.as_ref().is_some_and(|promoted| promoted.count == 4), "{:?}", place.promoted);
                let at = |c: i32| Clustering::new([c.to_be_bytes()]);
                // The order is descending.
                let slices = [
                    Slice { start: Bound::inclusive(at(1400)), end: Bound::exclusive(at(1390)) },
                    Slice { start: Bound::exclusive(at(30)), end: Bound::inclusive(at(7)) },
                ];
                let expect: Vec<i64> = (1391..=1400).rev().chain((7..30).rev()).collect();
                for (reverse, rows_max) in [(false, 1000), (false, 3), (true, 1000), (true, 3)] {
                    let mut cursor = PartitionCursor::new(sstable.clone(), key.clone(), place.clone());
                    let mut whole: Option<Partition> = None;
                    loop {
                        let part = cursor.next_part(&slices, reverse, rows_max).await.unwrap();
                        match &mut whole {
                            Some(whole) => whole.merge(part.partition, &sstable.def),
                            None => whole = Some(part.partition),
                        }
                        if part.more_after.is_none() {
                            break;
                        }
                    }
                    let rows = whole.unwrap().rows;
                    let found: Vec<_> = rows.iter().map(|r| number(r.clustering.component(0).unwrap())).collect();
                    assert_eq!(found, expect, "{version}, reverse {reverse}, {rows_max} rows at once");
                }
            }
        }
    })
    .unwrap();
}

#[test]
fn another_table_does_not_fit() {
    reactor::uring::block_on(async {
        let (folder, data) = find("nb", "lz4");
        let cache = Rc::new(BlockCache::new(1 << 20, 0.5));
        for (def, expect) in [
            (TableDef::builder("k", "t").partition_key("p", CqlType::Text), "partition key"),
            (TableDef::builder("k", "t").partition_key("p", CqlType::Int), "clustering"),
        ] {
            let opened = Sstable::open_foreign(&folder, &data, Arc::new(def.build()), &cache).await;
            let error = opened.err().unwrap().to_string();
            assert!(error.contains(expect), "{error}");
        }
    })
    .unwrap();
}
