//! Files that an Apache Cassandra server wrote of tables with columns of every shape: `tests/golden/sstables` has them
//! and the CQL. What is read of them is compared with a text; and rows written again must
//! give the same bytes.

use std::rc::Rc;
use std::sync::Arc;

use types::{CqlType, TableDef, UserType};

use super::golden::find;
use crate::cache::BlockCache;
use crate::data::codec::Reader;
use crate::sstable::header::Header;
use crate::sstable::unfiltered::Head;
use crate::sstable::{Sequential, Sstable, unfiltered};
use crate::{Bytes, Cell, Partition, Row, counter};

fn user_type(_keyspace: Option<&str>, name: &str) -> Option<Arc<UserType>> {
    let fields: &[(&str, &str)] = match name {
        "point" => &[("x", "int"), ("y", "text")],
        "place" => &[("name", "text"), ("at", "frozen<point>"), ("tags", "frozen<set<text>>")],
        _ => return None,
    };
    let fields = fields.iter().map(|(name, ty)| (name.to_string(), parse(ty))).collect();
    Some(Arc::new(UserType { keyspace: "golden".into(), name: name.into(), fields }))
}

fn parse(ty: &str) -> CqlType {
    CqlType::parse_with(ty, &user_type).unwrap()
}

fn shapes() -> TableDef {
    let mut def = TableDef::builder("golden", "shapes")
        .partition_key("p", CqlType::Int)
        .clustering("c", CqlType::Int)
        .static_column("sl", parse("list<int>"))
        .static_column("st", CqlType::Text);
    for (name, ty) in [
        ("a", "list<text>"),
        ("b", "set<int>"),
        ("k", "text"),
        ("m", "map<text, frozen<list<int>>>"),
        ("q", "place"),
        ("t", "tuple<int, frozen<list<int>>>"),
        ("u", "point"),
        ("v", "vector<float, 3>"),
        ("w", "frozen<place>"),
        ("x", "vector<text, 2>"),
    ] {
        def = def.regular(name, parse(ty));
    }
    def.build()
}

fn counts() -> TableDef {
    TableDef::builder("golden", "counts")
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .static_column("s", CqlType::Counter)
        .regular("hits", CqlType::Counter)
        .regular("misses", CqlType::Counter)
        .build()
}

/// Maps whose keys are of every type that can be compared.
fn orders() -> TableDef {
    let mut def = TableDef::builder("golden", "orders").partition_key("p", CqlType::Int);
    for ty in CqlType::SCALARS.iter().filter(|ty| ty.is_comparable() && **ty != CqlType::VarInt) {
        def = def.regular(&format!("o_{ty}"), CqlType::map(ty.clone(), CqlType::Int));
    }
    for (name, ty) in [
        ("list", "frozen<list<int>>"),
        ("map", "frozen<map<int, text>>"),
        ("set", "frozen<set<int>>"),
        ("tuple", "tuple<int, text>"),
        ("type", "frozen<point>"),
        ("varint", "varint"),
        ("vector", "vector<float, 2>"),
    ] {
        def = def.regular(&format!("o_{name}"), CqlType::map(parse(ty), CqlType::Int));
    }
    def.build()
}

async fn read(def: TableDef) -> (Rc<Sstable>, Vec<Partition>) {
    let (folder, data) = find("nb", &def.name.clone());
    let cache = Rc::new(BlockCache::new(1 << 20, 0.5));
    let sstable = Sstable::open_foreign(&folder, &data, Arc::new(def), &cache).await.unwrap();
    let mut all = Sequential::new(sstable.clone());
    let mut partitions = Vec::new();
    while let Some((_, partition)) = all.next().await.unwrap() {
        partitions.push(partition);
    }
    (sstable, partitions)
}

/// `value @ timestamp`, and what there is of time to live and deletion.
fn show_cell(cell: &Cell, ty: Option<&CqlType>) -> String {
    let value = match (&cell.value, ty) {
        (None, _) => "deleted".to_string(),
        (Some(value), Some(CqlType::Counter)) => {
            assert!(!counter::has_legacy_shards(value));
            counter::total(value).unwrap().to_string()
        }
        (Some(value), Some(ty)) => ty.to_cql_literal(value).unwrap(),
        (Some(value), None) => {
            assert!(value.is_empty());
            "present".to_string()
        }
    };
    let ttl = if cell.ttl_s == 0 { String::new() } else { format!(" ttl {} s", cell.ttl_s) };
    format!("{value} @ {}{ttl}", cell.timestamp)
}

fn show_row(row: &Row, columns: &[types::ColumnDef], times: bool) -> String {
    let mut lines = Vec::new();
    lines.extend(row.marker.map(|marker| format!("  marker @ {}", marker.timestamp)));
    for (index, cell) in &row.cells {
        let column = &columns[usize::from(*index)];
        let shown = show_cell(cell, Some(&column.ty));
        let shown = if times { shown } else { shown.split(" @").next().unwrap_or_default().to_string() };
        lines.push(format!("  {} = {shown}", column.name));
    }
    for complex in row.complex.iter() {
        let column = &columns[usize::from(complex.column)];
        lines.extend(complex.deletion.map(|deletion| format!("  {}: deleted @ {}", column.name, deletion.timestamp)));
        for (path, cell) in &complex.cells {
            // The paths of lists are times: only their order can be told.
            let path_type = column.ty.path_type().unwrap();
            let shown = match &column.ty {
                CqlType::List(_) => "[..]".to_string(),
                _ => path_type.to_cql_literal(path).unwrap(),
            };
            lines.push(format!("  {}: {shown} = {}", column.name, show_cell(cell, column.ty.element_type(path))));
        }
    }
    lines.join("\n")
}

fn show(partitions: &[Partition], def: &TableDef, times: bool) -> String {
    let mut lines = Vec::new();
    for partition in partitions {
        let key = def.partition_key[0].ty.to_cql_literal(&partition.key).unwrap();
        lines.push(format!("partition {key}"));
        if let Some(row) = &partition.static_row {
            lines.push(format!(" static\n{}", show_row(row, &def.statics, times)));
        }
        for row in &partition.rows {
            let clustering = row.clustering.components().zip(&def.clustering);
            let clustering: Vec<String> = clustering.map(|(c, column)| column.ty.to_cql_literal(c).unwrap()).collect();
            lines.push(format!(" row {}\n{}", clustering.join(" "), show_row(row, &def.regulars, times)));
        }
    }
    lines.join("\n")
}

/// Reads the file's bytes one by one and writes each thing again.
fn writes_the_same(header: &Header, bytes: &[u8]) {
    let whole = Bytes::copy_from(bytes);
    let mut reader = Reader::new(&whole);
    let mut body = Vec::new();
    let mut same = 0;
    while !reader.rest.is_empty() {
        let (start, mut out) = (reader.rest, Vec::new());
        let (key, deletion) = unfiltered::read_partition_head(&mut reader).unwrap();
        unfiltered::write_partition_head(key, deletion, &mut out);
        assert!(start.starts_with(&out));
        loop {
            let (start, mut out) = (reader.rest, Vec::new());
            match unfiltered::read_head(header, &mut reader).unwrap() {
                (Head::End, _) => break,
                (Head::Marker { .. }, _) => panic!("there are no range tombstones"),
                (Head::Row { flags, clustering, is_static }, size) => {
                    let bytes = reader.bytes(size, "row").unwrap();
                    let row = unfiltered::read_row_body(header, flags, is_static, clustering, bytes, &whole).unwrap();
                    let previous = Reader::new(bytes).vint("previous size").unwrap();
                    unfiltered::write_row(header, &row, is_static, previous, &mut body, &mut out);
                    // Where some columns have a deletion and some do not, Cassandra 5 has another number for none.
                    let some = row.complex.iter().any(|column| column.deletion.is_some());
                    if !some || row.complex.iter().all(|column| column.deletion.is_some()) {
                        assert!(start.starts_with(&out), "{row:?}");
                        same += 1;
                    }
                }
            }
        }
    }
    assert!(same > 0);
}

fn check(def: TableDef, times: bool, name: &'static str) {
    let (folder, data) = find("nb", &def.name);
    let bytes = std::fs::read(format!("{folder}/{data}")).unwrap();
    reactor::uring::block_on(async move {
        let (sstable, partitions) = read(def.clone()).await;
        insta::assert_snapshot!(name, show(&partitions, &def, times));
        writes_the_same(&sstable.header, &bytes);
        for partition in &partitions {
            let mut merged = partition.clone();
            merged.merge(partition.clone(), &def);
            merged.purge_shadowed(&def);
            assert_eq!(&merged, partition, "what a server writes is in normal form");
        }
    })
    .unwrap();
}

#[test]
fn columns_of_every_shape() {
    check(shapes(), true, "shapes");
}

#[test]
fn counters() {
    check(counts(), false, "counts");
}

#[test]
fn keys_of_every_type_are_in_our_order() {
    check(orders(), true, "orders");
}
