//! SSTables written and read back, on a real disk: names, wide partitions by the slice, compression.

mod fuzz;
mod golden;
mod golden_shapes;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use proptest::prelude::*;
use types::{CqlType, TableDef, TableOptions, Token};

use super::*;
use crate::cache::BlockCache;
use crate::{Bound, Cell, Clustering, DeletionTime, Liveness, Partition, RangeTombstone, Row, Slice};

#[test]
fn names() {
    let path = Descriptor::own("f", 12).path("Data.db");
    assert_eq!(path, "f/me-12-big-Data.db");
    assert_eq!(parse_name(path.strip_prefix("f/").unwrap()), Some(12));
    assert_eq!(parse_name("mc-12-big-Data.db"), None);
    assert_eq!(Descriptor::parse("f", "me-12-big-Data.db"), Ok(Descriptor::own("f", 12)));
    let uuid = Descriptor::parse("f", "nb-3gt_15qk_2a9xc26e5ptp7o1wd2-big-Index.db").unwrap();
    assert_eq!((uuid.version, &*uuid.prefix), (Version::Nb, "nb-3gt_15qk_2a9xc26e5ptp7o1wd2-big"));
    for wrong in ["oa-1-big-Data.db", "da-1-bti-Data.db", "nb-1-bti-Data.db", "nb--big-Data.db", "manifest-0", ""] {
        assert!(Descriptor::parse("f", wrong).is_err(), "{wrong}");
    }
}

pub(super) fn table(compression: &[(&str, &str)], with_static: bool) -> Arc<TableDef> {
    let compression: BTreeMap<String, String> =
        compression.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let mut def = TableDef::builder("ks", "t")
        .partition_key("p", CqlType::Int)
        .clustering("a", CqlType::Int)
        .clustering_ordered("b", CqlType::Int, true)
        .regular("v", CqlType::Text)
        .regular("w", CqlType::Int)
        .options(TableOptions { compression, ..TableOptions::default() });
    if with_static {
        def = def.static_column("s", CqlType::Text);
    }
    Arc::new(def.build())
}

fn at(parts: &[i32]) -> Clustering {
    Clustering::new(parts.iter().map(|part| part.to_be_bytes()))
}

/// Writes the partitions and opens the SSTable.
pub(super) async fn write(
    folder: &str,
    def: &Arc<TableDef>,
    block_bytes: u64,
    partitions: &[Partition],
) -> Rc<Sstable> {
    let stats = EncodingStats { min_timestamp: 0, min_local_deletion_s: 1_600_000_000, min_ttl_s: 1 };
    write_from(folder, def, block_bytes, stats, partitions).await
}

/// As [`write`], with times relative to `stats`.
async fn write_from(
    folder: &str,
    def: &Arc<TableDef>,
    block_bytes: u64,
    stats: EncodingStats,
    partitions: &[Partition],
) -> Rc<Sstable> {
    let mut sorted: Vec<(Token, &Partition)> = partitions.iter().map(|p| (Token::of_key(&p.key), p)).collect();
    sorted.sort_by(|a, b| (a.0, &a.1.key).cmp(&(b.0, &b.1.key)));
    let writer = Writer::create(folder, 1, def.clone(), stats, partitions.len() as u64).await.unwrap();
    let mut writer = writer.column_index_bytes(block_bytes);
    for (token, partition) in sorted {
        writer.add(token, partition).await.unwrap();
    }
    writer.finish().await.unwrap();
    Sstable::open(folder, 1, def.clone(), &Rc::new(BlockCache::new(1 << 20, 0.5))).await.unwrap()
}

/// Reads slices of a partition, a few rows at a time. What has come of it must be complete up to where it stopped.
async fn read(sstable: &Rc<Sstable>, key: &[u8], slices: &[Slice], reverse: bool, rows_max: usize, expect: &Partition) {
    let def = sstable.def.clone();
    let place = sstable.find(Token::of_key(key), key).await.unwrap().expect("it is there");
    let mut cursor = PartitionCursor::new(sstable.clone(), key.into(), place);
    let mut expect = expect.clone();
    expect.restrict(slices, false, usize::MAX, 0, &def);
    let mut got: Option<Partition> = None;
    loop {
        let part = cursor.next_part(slices, reverse, rows_max).await.unwrap();
        let got = match &mut got {
            Some(got) => {
                got.merge(part.partition, &def);
                got
            }
            None => got.insert(part.partition),
        };
        got.purge_shadowed(&def);
        let told = match &part.more_after {
            None => Slice::all(),
            Some(row) if reverse => Slice { start: Bound::inclusive(row.clone()), ..Slice::all() },
            Some(row) => Slice { end: Bound::inclusive(row.clone()), ..Slice::all() },
        };
        let (mut got, mut expect) = (got.clone(), expect.clone());
        for partition in [&mut got, &mut expect] {
            partition.restrict(slices, false, usize::MAX, 0, &def);
            partition.restrict(std::slice::from_ref(&told), false, usize::MAX, 0, &def);
        }
        assert_eq!(got, expect, "reverse {reverse}, {rows_max} rows at once, told {told:?}");
        if part.more_after.is_none() {
            return;
        }
    }
}

#[derive(Clone, Debug)]
struct Range {
    start: Vec<i32>,
    end: Vec<i32>,
    inclusive: (bool, bool),
    timestamp: i64,
}

fn prefix() -> impl Strategy<Value = Vec<i32>> {
    prop_oneof![
        1 => Just(Vec::new()),
        3 => (0..12i32).prop_map(|a| vec![a]),
        3 => (0..12i32, 0..8i32).prop_map(|(a, b)| vec![a, b]),
    ]
}

fn range() -> impl Strategy<Value = Range> {
    (prefix(), prefix(), any::<(bool, bool)>(), 0..9i64).prop_map(|(start, end, inclusive, timestamp)| Range {
        start,
        end,
        inclusive,
        timestamp,
    })
}

impl Range {
    fn slice(&self) -> Slice {
        Slice {
            start: Bound { prefix: at(&self.start), inclusive: self.inclusive.0 || self.start.is_empty() },
            end: Bound { prefix: at(&self.end), inclusive: self.inclusive.1 || self.end.is_empty() },
        }
    }

    fn is_sound(&self, def: &TableDef) -> bool {
        let slice = self.slice();
        crate::data::compare_positions(def, slice.start.as_start(), slice.end.as_end()).is_lt()
    }
}

/// Sorted, and apart from one another.
fn apart(ranges: Vec<Range>, def: &TableDef) -> Vec<Slice> {
    let mut slices: Vec<Slice> = ranges.iter().filter(|range| range.is_sound(def)).map(Range::slice).collect();
    slices.sort_by(|a, b| a.start.compare_start(&b.start, def));
    let mut kept: Vec<Slice> = Vec::new();
    for slice in slices {
        let behind =
            |last: &Slice| crate::data::compare_positions(def, last.end.as_end(), slice.start.as_start()).is_lt();
        if kept.last().is_none_or(behind) {
            kept.push(slice);
        }
    }
    kept
}

fn partition(rows: Vec<(i32, i32, u8)>, ranges: Vec<Range>, deleted: bool, stat: bool, def: &TableDef) -> Partition {
    let mut partition = Partition::new(&7i32.to_be_bytes());
    partition.deletion = deleted.then_some(DeletionTime { timestamp: 2, local_s: 1_700_000_000 });
    if stat && !def.statics.is_empty() {
        partition.static_row = Some(Row { cells: vec![(0, Cell::live(5, "fixed"))], ..Row::default() });
    }
    for (a, b, len) in rows {
        partition.rows.push(Row {
            marker: Some(Liveness::live(5)),
            cells: vec![(0, Cell::live(5, "x".repeat(usize::from(len)).as_str()))],
            ..Row::new(at(&[a, b]))
        });
    }
    partition.sort(def);
    for range in ranges.into_iter().filter(|range| range.is_sound(def)) {
        let Slice { start, end } = range.slice();
        let deletion = DeletionTime { timestamp: range.timestamp, local_s: 1_700_000_000 + range.timestamp as u32 };
        partition.range_tombstones.push(RangeTombstone { start, end, deletion });
    }
    partition.purge_shadowed(def);
    partition
}

/// One with rows and ranges of more than one block, and small ones.
pub(super) fn some_partitions(def: &TableDef) -> Vec<Partition> {
    let rows = (0..12).flat_map(|a| (0..8).map(move |b| (a, b, 40))).collect();
    let range = Range { start: vec![2], end: vec![9], inclusive: (true, true), timestamp: 1 };
    let small = |n: i32| Partition {
        rows: vec![Row { marker: Some(Liveness::live(1)), ..Row::new(at(&[n, 1])) }],
        ..Partition::new(&n.to_be_bytes())
    };
    (100..110).map(small).chain([partition(rows, vec![range], true, true, def)]).collect()
}

fn any_cell() -> impl Strategy<Value = Cell> {
    prop_oneof![
        6 => (3..6i64, ".{0,20}").prop_map(|(timestamp, value)| Cell::live(timestamp, value.as_str())),
        1 => (3..6i64).prop_map(|timestamp| Cell::expiring(timestamp, 60, 1_700_000_000, b"1234")),
        1 => (3..6i64).prop_map(|timestamp| Cell::tombstone(timestamp, 1_700_000_000)),
    ]
}

/// Most are plain.
fn any_row() -> impl Strategy<Value = Row> {
    let marker = prop_oneof![
        1 => Just(None),
        5 => (3..6i64).prop_map(|timestamp| Some(Liveness::live(timestamp))),
        1 => Just(Some(Liveness::expiring(4, 60, 1_700_000_000))),
    ];
    let deletion = prop_oneof![9 => Just(None), 1 => Just(Some(DeletionTime { timestamp: 4, local_s: 1_700_000_000 }))];
    let cells = (proptest::option::of(any_cell()), proptest::option::of(3..6i64));
    (0..12i32, 0..8i32, marker, deletion, cells).prop_map(|(a, b, marker, deletion, (text, int))| {
        let int = int.map(|timestamp| Cell::live(timestamp, b"1234"));
        let cells = (0..).zip([text, int]).filter_map(|(column, cell)| Some((column, cell?))).collect();
        Row { marker, deletion, cells, ..Row::new(at(&[a, b])) }
    })
}

fn is_plain_row(row: &Row) -> bool {
    row.deletion.is_none()
        && row.marker.is_none_or(|marker| marker.ttl_s == 0)
        && row.cells.iter().all(|(_, cell)| cell.value.is_some() && cell.ttl_s == 0)
}

fn has_rows_alone(partition: &Partition) -> bool {
    partition.deletion.is_none() && partition.static_row.is_none() && partition.range_tombstones.is_empty()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn wide_partitions_by_the_slice(
        rows in proptest::collection::vec((0..12i32, 0..8i32, any::<u8>()), 0..90),
        ranges in proptest::collection::vec(range(), 0..6),
        slices in proptest::collection::vec(range(), 0..4),
        (deleted, stat) in any::<(bool, bool)>(),
        block_bytes in prop_oneof![Just(1u64), Just(100), Just(400), Just(64 << 10)],
        compressed in any::<bool>(),
        rows_max in prop_oneof![Just(1usize), Just(7), Just(1000)],
    ) {
        let lz4 = [("class", "LZ4Compressor"), ("chunk_length_in_kb", "1")];
        let def = table(if compressed { &lz4 } else { &[] }, stat);
        let partition = partition(rows, ranges, deleted, stat, &def);
        prop_assume!(!partition.is_empty());
        let slices = apart(slices, &def);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_string();
        reactor::uring::block_on(async move {
            // Neighbours, so that the partition ends before the file does.
            let neighbour = |n: i32| Partition {
                rows: vec![Row { marker: Some(Liveness::live(1)), ..Row::new(at(&[1, 1])) }],
                ..Partition::new(&n.to_be_bytes())
            };
            let all: Vec<_> = (100..110).map(neighbour).chain([partition.clone()]).collect();
            let sstable = write(&path, &def, block_bytes, &all).await;
            for reverse in [false, true] {
                read(&sstable, &partition.key, &slices, reverse, rows_max, &partition).await;
            }
            // All of it, whole and in parts.
            for rows_max in [usize::MAX, rows_max] {
                let mut sequential = Sequential::new(sstable.clone());
                let mut found = 0;
                while let Some((_, key)) = sequential.next_key().await.unwrap() {
                    let mut whole: Option<Partition> = None;
                    while let Some(part) = sequential.next_part(rows_max).await.unwrap() {
                        match &mut whole {
                            Some(whole) => whole.merge(part.partition, &def),
                            None => whole = Some(part.partition),
                        }
                    }
                    let whole = whole.unwrap();
                    prop_assert_eq!(&whole, all.iter().find(|p| p.key == key).unwrap());
                    found += 1;
                }
                prop_assert_eq!(found, 11);
            }
            Ok(())
        }).unwrap()?;
    }

    /// Copied or decoded and encoded again, rows come to the same file.
    #[test]
    fn plain_rows_copied_are_what_would_be_written(
        partitions in proptest::collection::vec(proptest::collection::vec(any_row(), 0..6), 1..40),
        ranges in proptest::collection::vec(range(), 0..2),
        (deleted, stat) in any::<(bool, bool)>(),
        rows_max in prop_oneof![Just(1usize), Just(3), Just(1000)],
        row_bytes_max in prop_oneof![Just(60u64), Just(u64::MAX)],
        (from_us, to_us) in (0..3i64, 0..3i64),
    ) {
        let def = table(&[], stat);
        // One with deletions, among others without.
        let mut all = vec![partition(vec![(1, 2, 3), (4, 5, 6)], ranges, deleted, stat, &def)];
        for (n, rows) in (100i32..).zip(partitions) {
            let mut partition = Partition { rows, ..Partition::new(&n.to_be_bytes()) };
            partition.sort(&def);
            partition.purge_shadowed(&def);
            all.push(partition);
        }
        all.retain(|partition| !partition.is_empty());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap().to_string();
        reactor::uring::block_on(async move {
            let stats = |min_timestamp| EncodingStats { min_timestamp, min_local_deletion_s: 1_600_000_000, min_ttl_s: 1 };
            let sstable = write_from(&path, &def, 500, stats(from_us), &all).await;
            let mut copied = 0;
            for generation in [2, 3] {
                let writer = Writer::create(&path, generation, def.clone(), stats(to_us), 40).await.unwrap();
                let mut writer = writer.column_index_bytes(500);
                let mut plain = PlainRows::new(&def, stats(to_us), row_bytes_max);
                prop_assert!(plain.fit(&sstable));
                let mut sequential = Sequential::new(sstable.clone());
                while let Some((token, key)) = sequential.next_key().await.unwrap() {
                    if generation == 2 {
                        sequential.copy_partition(token, &key, &mut writer).await.unwrap();
                        continue;
                    }
                    plain.clear();
                    if sequential.take_plain(rows_max, &mut plain) {
                        copied += plain.len();
                        writer.add_plain(token, &key, &plain).await.unwrap();
                        continue;
                    }
                    let mut begun = false;
                    while let Some(part) = sequential.next_plain(rows_max, &mut plain).await.unwrap() {
                        let part = part.partition;
                        if !begun {
                            writer.begin(token, &key, part.deletion, part.static_row.as_ref()).await.unwrap();
                            begun = true;
                        }
                        copied += plain.len();
                        writer.plain(&plain).await.unwrap();
                        writer.part(&part.rows, &part.range_tombstones).await.unwrap();
                        plain.clear();
                    }
                    writer.end().await.unwrap();
                }
                writer.finish().await.unwrap();
            }
            let components = ["Data.db", "Index.db", "Statistics.db", "Digest.crc32", "Filter.db", "Summary.db"];
            for component in components {
                let read = |n| std::fs::read(Descriptor::own(&path, n).path(component)).unwrap();
                prop_assert_eq!(read(2), read(3), "{}", component);
            }
            // The same of rows as memtables keep them.
            let writer = Writer::create(&path, 4, def.clone(), stats(from_us), all.len() as u64).await.unwrap();
            let mut writer = writer.column_index_bytes(500);
            let mut plain = PlainRows::new(&def, stats(from_us), row_bytes_max);
            all.sort_by_key(|partition| Token::of_key(&partition.key));
            for partition in &all {
                let (token, mut packed) = (Token::of_key(&partition.key), Vec::new());
                partition.encode(&mut packed);
                let is_plain = plain.encode(&packed.into());
                let of_plain_rows = has_rows_alone(partition) && partition.rows.iter().all(is_plain_row);
                // Larger ones than wanted are not taken.
                prop_assert!(is_plain == of_plain_rows || !is_plain && row_bytes_max < u64::MAX);
                match is_plain {
                    true => writer.add_plain(token, &partition.key, &plain).await.unwrap(),
                    false => writer.add(token, partition).await.unwrap(),
                }
            }
            writer.finish().await.unwrap();
            for component in components {
                let read = |n| std::fs::read(Descriptor::own(&path, n).path(component)).unwrap();
                prop_assert_eq!(read(1), read(4), "{}", component);
            }
            // Of partitions that begin with plain rows, those were copied.
            let first_is_plain =
                |partition: &&Partition| has_rows_alone(partition) && partition.rows.first().is_some_and(is_plain_row);
            let least = if row_bytes_max == u64::MAX { all.iter().filter(first_is_plain).count() } else { 0 };
            prop_assert!(copied >= least, "{} of {}", copied, least);
            Ok(())
        }).unwrap()?;
    }
}

/// Parts written one after the other are the file that the whole partition is.
#[test]
fn parts_make_the_same_file() {
    let def = table(&[], true);
    let rows: Vec<_> = (0..12).flat_map(|a| (0..8).map(move |b| (a, b, 40))).collect();
    let range = |start: &[i32], end: &[i32], timestamp| Range {
        start: start.to_vec(),
        end: end.to_vec(),
        inclusive: (true, true),
        timestamp,
    };
    let ranges = vec![range(&[2], &[9], 1), range(&[3, 3], &[5], 3), range(&[10], &[], 2)];
    let partition = partition(rows, ranges, true, true, &def);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_string();
    reactor::uring::block_on(async move {
        let sstable = write(&path, &def, 500, std::slice::from_ref(&partition)).await;
        let stats = sstable.encoding_stats();
        for rows_max in [1, 5, 1000] {
            let mut writer = Writer::create(&path, 2, def.clone(), stats, 1).await.unwrap().column_index_bytes(500);
            let mut sequential = Sequential::new(sstable.clone());
            let (token, key) = sequential.next_key().await.unwrap().unwrap();
            let mut begun = false;
            while let Some(part) = sequential.next_part(rows_max).await.unwrap() {
                let part = part.partition;
                if !begun {
                    writer.begin(token, &key, part.deletion, part.static_row.as_ref()).await.unwrap();
                    begun = true;
                }
                writer.part(&part.rows, &part.range_tombstones).await.unwrap();
            }
            writer.end().await.unwrap();
            writer.finish().await.unwrap();
            for component in ["Data.db", "Index.db", "Statistics.db", "Digest.crc32"] {
                let read = |n| std::fs::read(Descriptor::own(&path, n).path(component)).unwrap();
                assert_eq!(read(1), read(2), "{component}, {rows_max} rows at once");
            }
        }
    })
    .unwrap();
}

#[test]
fn a_compressed_sstable_is_checked_as_such_whatever_lies_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_string();
    reactor::uring::block_on(async move {
        let def = table(&[("class", "LZ4Compressor"), ("chunk_length_in_kb", "1")], false);
        let row = Row { marker: Some(Liveness::live(1)), ..Row::new(at(&[1, 1])) };
        let partition = Partition { rows: vec![row], ..Partition::new(&1i32.to_be_bytes()) };
        write(&path, &def, 500, std::slice::from_ref(&partition)).await;
        std::fs::write(Descriptor::own(&path, 1).path("CRC.db"), b"of another").unwrap();
        let cache = Rc::new(BlockCache::new(1 << 20, 0.5));
        let opened = Sstable::open(&path, 1, def, &cache).await.unwrap();
        assert!(opened.find(Token::of_key(&partition.key), &partition.key).await.unwrap().is_some());
    })
    .unwrap();
}

#[test]
fn every_compressor_and_chunk_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_string();
    reactor::uring::block_on(async move {
        let mut sizes = Vec::new();
        for class in ["", "LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor", "NoopCompressor"]
        {
            for chunk_kb in ["1", "16", "64"] {
                let def = table(&[("class", class), ("chunk_length_in_kb", chunk_kb)], false);
                let partitions: Vec<Partition> = (0..300i32)
                    .map(|n| {
                        let row = Row {
                            cells: vec![(0, Cell::live(i64::from(n), format!("value {n}").repeat(40).as_str()))],
                            ..Row::new(at(&[n, -n]))
                        };
                        Partition { rows: vec![row], ..Partition::new(&n.to_be_bytes()) }
                    })
                    .collect();
                let folder = format!("{path}/{class}-{chunk_kb}");
                std::fs::create_dir(&folder).unwrap();
                let sstable = write(&folder, &def, 64 << 10, &partitions).await;
                sizes.push(sstable.data.stored_len);
                for partition in &partitions {
                    read(&sstable, &partition.key, &[], false, 100, partition).await;
                }
                // A flipped bit anywhere in the data is seen by whoever reads there.
                let data = sstable.descriptor.path("Data.db");
                drop(sstable);
                let mut bytes = std::fs::read(&data).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 4;
                std::fs::write(&data, bytes).unwrap();
                let cache = Rc::new(BlockCache::new(1 << 20, 0.5));
                let sstable = Sstable::open(&folder, 1, def.clone(), &cache).await.unwrap();
                let mut sequential = Sequential::new(sstable);
                let error = loop {
                    match sequential.next().await {
                        Ok(Some(_)) => {}
                        Ok(None) => panic!("{class} {chunk_kb}: damage was read"),
                        Err(error) => break error,
                    }
                };
                assert!(error.to_string().contains("checksum"), "{error}");
            }
        }
        let (plain, compressed) = sizes.split_at(3);
        assert!(compressed[..12].iter().all(|size| *size < plain[0] / 2), "{sizes:?}");
    })
    .unwrap();
}

#[test]
fn tells_what_the_cache_has() {
    let def = table(&[], true);
    let partitions = some_partitions(&def);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_string();
    reactor::uring::block_on(async move {
        let sstable = write(&path, &def, 500, &partitions).await;
        let index = &sstable.index;
        let len = index.len as usize;
        assert!(!index.is_cached(0, len + 1000));
        assert!(!index.is_cached(10, 5));
        assert!(index.is_cached(index.len + 10, 5), "nothing is there");
        index.read(0, 1).await.unwrap();
        assert!(index.is_cached(0, 1));
        assert_eq!(index.is_cached(0, len), len <= crate::cache::BLOCK);
    })
    .unwrap();
}

/// For counting instructions: `ORRERY_READS=N`, run by callgrind with two N, says what a read of one SSTable costs whose
/// blocks are in the cache. `ORRERY_CLASS` is the compressor.
#[test]
#[ignore = "a measurement, not a check"]
fn reads_of_one_sstable() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let (reads, class) = (number("ORRERY_READS").unwrap_or(1000u64), std::env::var("ORRERY_CLASS").unwrap_or_default());
    let mut def = TableDef::builder("ks", "standard1").partition_key("key", CqlType::Blob);
    for column in ["C0", "C1", "C2", "C3", "C4"] {
        def = def.regular(column, CqlType::Blob);
    }
    let compression = [("class".to_string(), class)].into_iter().collect();
    let def = Arc::new(def.options(TableOptions { compression, ..TableOptions::default() }).build());
    let mut noise = 1u64;
    let mut value = || {
        let byte = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (noise >> 56) as u8
        };
        std::iter::repeat_with(byte).take(34).collect::<Vec<u8>>()
    };
    let rows = 3000u64;
    let key = |n: u64| [&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[..], b"xx"].concat();
    let partitions: Vec<Partition> = (0..rows)
        .map(|n| {
            let cells = (0..5).map(|column| (column, Cell::live(1000 + n as i64, value()))).collect();
            let marker = Some(Liveness::live(1000 + n as i64));
            Partition { rows: vec![Row { marker, cells, ..Row::default() }], ..Partition::new(key(n)) }
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap().to_string();
    reactor::uring::block_on(async move {
        drop(write(&path, &def, 64 << 10, &partitions).await);
        let cache = Rc::new(BlockCache::new(256 << 20, 0.5));
        let sstable = Sstable::open(&path, 1, def, &cache).await.unwrap();
        let per_row = |bytes: u64| bytes as f64 / rows as f64;
        println!(
            "a row of 5 x 34 B and its key of 10 B: data {:.1} B, index {:.1} B, all files {:.1} B",
            per_row(sstable.data.stored_len),
            per_row(sstable.index.len),
            per_row(sstable.disk_bytes)
        );
        // Once through, so that every block is there; then what is counted.
        for n in (0..rows).chain(0..reads) {
            let key = key(n * 7 % rows);
            let token = Token::of_key(&key);
            assert!(sstable.may_contain(token, KeyHash::of(&key)));
            let place = sstable.find(token, &key).await.unwrap().unwrap();
            let mut cursor = PartitionCursor::new(sstable.clone(), key.into(), place);
            let part = cursor.next_part(&[], false, 100).await.unwrap();
            assert_eq!(part.partition.rows.len(), 1);
        }
    })
    .unwrap();
}
