use proptest::prelude::*;
use types::{CqlType, TableDef};

use super::*;
use crate::Stamp;
use crate::data::tests::arbitrary;
use crate::data::tests::properties::damage;

fn table(columns: usize) -> TableDef {
    let mut def = TableDef::builder("k", "t")
        .partition_key("p", CqlType::Int)
        .clustering("a", CqlType::Int)
        .clustering("b", CqlType::Text)
        .static_column("s", CqlType::Text);
    for n in 0..columns {
        def = def.regular(&format!("c{n:03}"), if n % 2 == 0 { CqlType::Blob } else { CqlType::Int });
    }
    def.build()
}

fn header(table: &TableDef) -> Header {
    Header::of(table, EncodingStats { min_timestamp: 10, min_local_deletion_s: 1_700_000_000, min_ttl_s: 5 })
}

fn check_row(columns: usize, row: &Row, is_static: bool) {
    let header = header(&table(columns));
    let (mut body, mut out) = (Vec::new(), Vec::new());
    write_row(&header, row, is_static, 300, &mut body, &mut out);
    let whole = Bytes::copy_from(&out);
    let mut reader = Reader::new(&whole);
    let (Head::Row { flags, clustering, is_static: found }, size) = read_head(&header, &mut reader).unwrap() else {
        panic!("not a row");
    };
    assert_eq!((found, size), (is_static, reader.rest.len()));
    let read = read_row_body(&header, flags, is_static, clustering, reader.rest, &whole).unwrap();
    assert_eq!(&read, row);
    for len in 0..out.len() - size {
        assert_eq!(read_head(&header, &mut Reader::new(&out[..len])).err(), Some(Parse::Incomplete), "cut at {len}");
    }
}

fn sample(columns: &[u16]) -> Row {
    let cell = |index: &u16| {
        let value: &[u8] = if index.is_multiple_of(2) { b"blob" } else { &[0, 0, 0, 7] };
        let cell = match index % 5 {
            0 => Cell::live(20, value),
            1 => Cell::live(11, value),
            2 => Cell { local_deletion_s: 1_700_000_060, ..Cell::expiring(20, 60, 0, value) },
            3 => Cell { local_deletion_s: 1_700_000_099, ..Cell::expiring(3, 7, 0, value) },
            _ => Cell::tombstone(20, 1_600_000_000),
        };
        (*index, cell)
    };
    Row { cells: columns.iter().map(cell).collect(), ..Row::new(Clustering::new([&[0, 0, 0, 1][..], b"text"])) }
}

#[test]
fn rows_come_back() {
    check_row(3, &sample(&[]), false);
    check_row(3, &sample(&[0, 2]), false);
    let mut row = sample(&[0, 1, 2]);
    row.marker = Some(Liveness { timestamp: 20, ttl_s: 60, local_deletion_s: 1_700_000_060 });
    row.deletion = Some(DeletionTime { timestamp: -4, local_s: 1_700_000_001 });
    check_row(3, &row, false);
    row.clustering = Clustering::new([&[][..], b""]);
    check_row(3, &row, false);
    check_row(0, &Row { cells: vec![(0, Cell::live(12, b""))], ..Row::default() }, true);
}

#[test]
fn many_columns_are_listed() {
    for columns in [63, 64, 70] {
        let all: Vec<u16> = (0..columns as u16).collect();
        check_row(columns, &sample(&all), false);
        check_row(columns, &sample(&all[1..]), false);
        check_row(columns, &sample(&[1, 5, 62]), false);
        check_row(columns, &sample(&all[..columns / 2]), false);
    }
}

#[test]
fn markers_come_back() {
    let header = header(&table(1));
    let prefix = Clustering::new([[0, 0, 0, 9]]);
    let deletion = |timestamp| DeletionTime { timestamp, local_s: 1_700_000_007 };
    let bound = |inclusive| Bound { prefix: prefix.clone(), inclusive };
    for inclusive in [false, true] {
        for marker in [
            Marker { closes: Some((bound(inclusive), deletion(20))), opens: None },
            Marker { closes: None, opens: Some((bound(inclusive), deletion(21))) },
            Marker { closes: Some((bound(inclusive), deletion(22))), opens: Some((bound(!inclusive), deletion(23))) },
            Marker { closes: None, opens: Some((Bound::unbounded(), deletion(21))) },
        ] {
            let (mut body, mut out) = (Vec::new(), Vec::new());
            write_marker(&header, &marker, 7, &mut body, &mut out);
            let mut reader = Reader::new(&out);
            let (Head::Marker { kind, prefix }, size) = read_head(&header, &mut reader).unwrap() else {
                panic!("not a marker");
            };
            assert_eq!(size, reader.rest.len());
            assert_eq!(read_marker_body(&header, kind, prefix, reader.rest).unwrap(), marker);
        }
    }
}

#[test]
fn damaged_rows_do_not_panic() {
    let header = header(&table(3));
    let (mut body, mut out) = (Vec::new(), Vec::new());
    write_row(&header, &sample(&[0, 1, 2]), false, 0, &mut body, &mut out);
    for at in 0..out.len() {
        for bit in 0..8 {
            let mut damaged = out.clone();
            damaged[at] ^= 1 << bit;
            let whole = Bytes::copy_from(&damaged);
            let mut reader = Reader::new(&whole);
            if let Ok((Head::Row { flags, clustering, is_static }, size)) = read_head(&header, &mut reader)
                && let Some(body) = reader.rest.get(..size)
            {
                let _ = read_row_body(&header, flags, is_static, clustering, body, &whole);
            }
        }
    }
}

/// A row's bytes, and what they are read as.
fn read_back(header: &Header, bytes: &[u8]) -> Result<Row, Parse> {
    let whole = Bytes::copy_from(bytes);
    let mut reader = Reader::new(&whole);
    match read_head(header, &mut reader)? {
        (Head::Row { flags, clustering, is_static }, size) => {
            let body = reader.bytes(size, "row")?;
            read_row_body(header, flags, is_static, clustering, body, &whole)
        }
        _ => Err(Parse::Malformed("not a row")),
    }
}

/// Values of the lengths that types fix may be empty, and then are read so.
fn written(header: &Header, row: &Row) -> Vec<u8> {
    let (mut body, mut out) = (Vec::new(), Vec::new());
    write_row(header, row, false, 7, &mut body, &mut out);
    out
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_row_comes_back(mut row in arbitrary::row(&arbitrary::table())) {
        row.complex.iter_mut().for_each(|column| {
            // What the format cannot say: the deletion that stands for none.
            column.deletion.take_if(|deletion| deletion.timestamp == i64::MIN);
        });
        let header = header(&arbitrary::table());
        let bytes = written(&header, &row);
        prop_assert_eq!(read_back(&header, &bytes).unwrap(), row);
    }

    #[test]
    fn damaged_rows_are_refused_or_read(
        row in arbitrary::row(&arbitrary::table()),
        edits in prop::collection::vec(any::<(u16, u8, u8)>(), 1..6),
    ) {
        let header = header(&arbitrary::table());
        let mut bytes = written(&header, &row);
        damage(&mut bytes, &edits);
        let _ = read_back(&header, &bytes);
    }
}

#[test]
fn the_bytes_of_columns_of_several_cells() {
    // As `UnfilteredSerializer.writeComplexColumn` and `Cell.Serializer`: two sets, one of them replaced.
    let table = TableDef::builder("k", "t")
        .partition_key("p", CqlType::Text)
        .regular("a", CqlType::set(CqlType::Int))
        .regular("b", CqlType::map(CqlType::Text, CqlType::Int))
        .regular("c", CqlType::Text)
        .build();
    let header =
        Header::of(&table, EncodingStats { min_timestamp: 10, min_local_deletion_s: 1_600_000_000, min_ttl_s: 0 });
    let mut row = Row { cells: vec![(2, Cell::live(12, b"x"))], ..Row::default() };
    let at = |timestamp| Stamp { timestamp, ttl_s: 0, now_s: 1_600_000_001 };
    row.complex.get_or_insert(0).set(&[0, 0, 0, 9], &[], at(12));
    let map = row.complex.get_or_insert(1);
    map.replace(at(12));
    map.set(b"k", &[0, 0, 0, 5], at(12));
    let live = {
        // `DeletionTime.LIVE`, as differences to the least times.
        let mut live = Vec::new();
        vint::write_unsigned(i64::MIN.wrapping_sub(10) as u64, &mut live);
        vint::write_unsigned((i64::from(i32::MAX) - 1_600_000_000) as u64, &mut live);
        live
    };
    let body = [
        &[7][..],         // size of what stands before
        &[0, 2, 1, b'x'], // c: no flags, timestamp, length, value
        &live,
        &[1, CELL_EMPTY, 2, 4, 0, 0, 0, 9], // a: deletion, one cell: flags, timestamp, path
        &[1, 1, 1, 0, 2, 1, b'k', 4, 0, 0, 0, 5], // b: deletion, one cell: flags, timestamp, path, length, value
    ]
    .concat();
    let expect = [&[HAS_ALL_COLUMNS | HAS_COMPLEX_DELETION, body.len() as u8][..], &body].concat();
    assert_eq!(written(&header, &row), expect);
}
