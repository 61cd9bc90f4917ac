//! Writes SSTables that have everything the format can say, for other tools to read: one of all shapes and types, one
//! of counters. `cargo run -p orrery-storage --example sample_sstable -- FOLDER` prints the paths of their `Data.db`.

use std::sync::Arc;

use storage::{
    Bound, Cell, Clustering, ComplexColumn, Config, DeletionTime, ListPaths, Liveness, Mutation, Partition,
    RangeTombstone, Row, Stamp, Storage, counter,
};
use types::{CqlType, TableDef, UserType, collection};

const NOW_S: u32 = 1_790_000_000;
const NOW_US: i64 = NOW_S as i64 * 1_000_000;

fn address() -> CqlType {
    let fields = vec![("street".to_string(), CqlType::Text), ("number".to_string(), CqlType::Int)];
    CqlType::Udt(Arc::new(UserType { keyspace: "ks".into(), name: "address".into(), fields }))
}

/// A column of each type that has a name alone.
fn scalar_columns() -> impl Iterator<Item = (String, CqlType)> {
    let types = CqlType::SCALARS.into_iter().filter(|ty| !ty.is_counter());
    types.map(|ty| (format!("scalar_{ty}"), ty))
}

fn table() -> TableDef {
    let mut table = TableDef::builder("ks", "sample")
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .clustering_ordered("d", CqlType::Text, true)
        .static_column("s", CqlType::Text)
        .static_column("sm", CqlType::map(CqlType::Int, CqlType::Text))
        .regular("address", address())
        .regular("blob", CqlType::Blob)
        .regular("frozen_address", address().frozen())
        .regular("frozen_list", CqlType::list(CqlType::Int).frozen())
        .regular("list", CqlType::list(CqlType::Int))
        .regular("map", CqlType::map(CqlType::Text, CqlType::list(CqlType::Int).frozen()))
        .regular("number", CqlType::BigInt)
        .regular("set", CqlType::set(CqlType::Uuid))
        .regular("small", CqlType::SmallInt)
        .regular("tuple", CqlType::Tuple(vec![CqlType::Int, CqlType::Text]));
    for (name, ty) in scalar_columns() {
        table = table.regular(&name, ty);
    }
    table.build()
}

fn counters() -> TableDef {
    TableDef::builder("ks", "counts")
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .static_column("s", CqlType::Counter)
        .regular("hits", CqlType::Counter)
        .regular("misses", CqlType::Counter)
        .build()
}

fn index(name: &str) -> u16 {
    table().regular_index(name).expect("a column of the table") as u16
}

/// A column with the elements of a literal's bytes, replaced as an assignment does.
fn assigned(name: &str, value: &[u8], stamp: Stamp) -> ComplexColumn {
    let table = table();
    let mut column = ComplexColumn::new(index(name));
    let mut paths = ListPaths::new(7);
    column.replace(stamp);
    let ty = &table.regulars[usize::from(column.column)].ty;
    column.set_all(ty, value, stamp, || paths.append(stamp.timestamp)).expect("values of these types");
    column
}

fn several_cells() -> Row {
    let stamp = Stamp { timestamp: NOW_US, ttl_s: 0, now_s: NOW_S };
    let int = |n: i32| n.to_be_bytes();
    let ints = collection::write_collection(2, [&int(1)[..], &int(-2)]);
    let street = collection::write_tuple([Some(&b"Main"[..]), Some(&int(12))]);
    let mut row = Row { marker: Some(Liveness::live(NOW_US)), ..Row::new(key(3, "all")) };
    row.complex.push(assigned("address", &street, stamp));
    row.complex.push(assigned("list", &ints, stamp));
    let map = collection::write_collection(2, [&b"a"[..], &ints, b"b", &ints]);
    row.complex.push(assigned("map", &map, stamp));
    let set = collection::write_collection(2, [&[1; 16][..], &[2; 16]]);
    row.complex.push(assigned("set", &set, Stamp { ttl_s: 86_400 * 365, ..stamp }));
    row
}

/// Elements set and removed one by one, no deletion of whole columns.
fn single_elements() -> Row {
    let stamp = Stamp { timestamp: NOW_US + 3, ttl_s: 0, now_s: NOW_S };
    let mut row = Row::new(key(3, "elements"));
    row.complex.get_or_insert(index("address")).set(&types::multi_cell::path_of_field(1), &7i32.to_be_bytes(), stamp);
    row.complex.get_or_insert(index("set")).remove(&[3; 16], stamp);
    row.complex.get_or_insert(index("set")).set(&[4; 16], &[], stamp);
    row
}

/// One column deleted, another one with an element.
fn deleted_column() -> Row {
    let stamp = Stamp { timestamp: NOW_US + 3, ttl_s: 0, now_s: NOW_S };
    let mut row = Row::new(key(3, "column"));
    row.complex.get_or_insert(index("list")).delete(stamp);
    row.complex.get_or_insert(index("set")).set(&[5; 16], &[], stamp);
    row
}

fn scalars() -> Row {
    let text = |ty: &CqlType| match ty {
        CqlType::Boolean => "true",
        CqlType::Date => "2026-02-28",
        CqlType::Time => "13:05:00.25",
        CqlType::Timestamp => "2026-02-28T13:05:00Z",
        CqlType::Duration => "1mo2d3h",
        CqlType::Inet => "127.0.0.1",
        CqlType::Uuid => "37f71aca-7dc2-383b-a706-72528af04d4f",
        CqlType::TimeUuid => "37f71aca-7dc2-183b-a706-72528af04d4f",
        CqlType::Blob => "cafe",
        _ => "42",
    };
    let mut row = Row { marker: Some(Liveness::live(NOW_US)), ..Row::new(key(3, "scalars")) };
    for (name, ty) in scalar_columns() {
        row.set_cell(index(&name), Cell::live(NOW_US, ty.from_text(text(&ty)).expect("a value")));
    }
    let street = collection::write_tuple([Some(&b"Main"[..]), None]);
    row.set_cell(index("frozen_address"), Cell::live(NOW_US, street));
    let tuple = collection::write_tuple([Some(&7i32.to_be_bytes()[..]), Some(b"seven")]);
    row.set_cell(index("tuple"), Cell::live(NOW_US, tuple));
    row
}

fn counted() -> Partition {
    let (ours, theirs) = ([0x11; 16], [0x22; 16]);
    let add = |known: Option<&[u8]>, id, delta| counter::increment(known, id, NOW_US, delta).expect("a context");
    let first = add(None, ours, 5);
    let both = counter::merge(&first, &add(None, theirs, 10)).expect("a context");
    let row = |c: i32, cells| Row { cells, ..Row::new(Clustering::new([c.to_be_bytes()])) };
    Partition {
        static_row: Some(Row { cells: vec![(0, Cell::live(NOW_US, add(Some(&first), ours, -7)))], ..Row::default() }),
        rows: vec![
            row(1, vec![(0, Cell::live(NOW_US, both)), (1, Cell::tombstone(NOW_US, NOW_S))]),
            row(2, vec![(1, Cell::live(NOW_US, first))]),
        ],
        ..Partition::new(b"page")
    }
}

fn key(c: i32, d: &str) -> Clustering {
    Clustering::new([&c.to_be_bytes()[..], d.as_bytes()])
}

fn partitions() -> Vec<Partition> {
    let deletion = |ago: u32| DeletionTime { timestamp: NOW_US - i64::from(ago), local_s: NOW_S - ago };
    let list = types::collection::write_collection(2, [&1i32.to_be_bytes()[..], &2i32.to_be_bytes()]);
    let full = Row {
        marker: Some(Liveness::live(NOW_US)),
        cells: vec![
            (index("blob"), Cell::live(NOW_US, b"blob")),
            (index("frozen_list"), Cell::live(NOW_US + 5, list)),
            (index("number"), Cell::live(NOW_US, &7i64.to_be_bytes())),
            (index("small"), Cell::live(NOW_US, &9i16.to_be_bytes())),
        ],
        ..Row::new(key(1, "z"))
    };
    let expiring = Row {
        marker: Some(Liveness::expiring(NOW_US, 3600, NOW_S)),
        cells: vec![
            (index("blob"), Cell::expiring(NOW_US, 3600, NOW_S, b"")),
            (index("number"), Cell::tombstone(NOW_US, NOW_S)),
        ],
        ..Row::new(key(1, "a"))
    };
    let deleted = Row { deletion: Some(deletion(1)), ..Row::new(key(2, "")) };
    let mut static_row = Row { cells: vec![(0, Cell::live(NOW_US, b"static"))], ..Row::default() };
    let stamp = Stamp { timestamp: NOW_US, ttl_s: 0, now_s: NOW_S };
    static_row.complex.get_or_insert(1).set(&(-1i32).to_be_bytes(), "minus one", stamp);
    let range = |start: Bound, end: Bound, ago| RangeTombstone { start, end, deletion: deletion(ago) };
    let prefix = |c: i32| Clustering::new([c.to_be_bytes()]);
    let mut all = vec![
        Partition {
            static_row: Some(static_row),
            rows: vec![full, expiring, deleted, several_cells(), single_elements(), deleted_column(), scalars()],
            range_tombstones: vec![
                range(Bound::exclusive(prefix(3)), Bound::exclusive(prefix(5)), 10),
                range(Bound::inclusive(prefix(5)), Bound::inclusive(prefix(6)), 20),
                range(Bound::exclusive(prefix(100)), Bound::unbounded(), 30),
            ],
            ..Partition::new(b"everything")
        },
        Partition { deletion: Some(deletion(3)), ..Partition::new(b"deleted") },
    ];
    let number = index("number");
    for n in 0..1000 {
        let row = |c| Row {
            marker: Some(Liveness::live(NOW_US + n)),
            cells: vec![(number, Cell::live(NOW_US + n, &n.to_be_bytes()))],
            ..Row::new(key(c, "d"))
        };
        let rows = (0..if n == 500 { 2000 } else { 3 }).map(row).collect();
        all.push(Partition { rows, ..Partition::new(format!("key-{n:04}").as_str()) });
    }
    all
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).ok_or("a folder to write to is needed")?;
    let config = Config::new(format!("{folder}/data"), format!("{folder}/commitlog"));
    reactor::uring::block_on(async move {
        let (def, counters) = (Arc::new(table()), Arc::new(counters()));
        let storage = Storage::open(config, vec![def.clone(), counters.clone()]).await?;
        let written = partitions().into_iter().map(|mut partition| {
            partition.sort(&def);
            (&def, partition)
        });
        for (def, partition) in written.chain([(&counters, counted())]) {
            let mut bytes = Vec::new();
            Mutation { table: def.id, schema_version: def.version, partition }.encode(&mut bytes);
            storage.apply(&bytes).await?;
        }
        storage.flush(None).await?;
        storage.close().await?;
        for def in [def, counters] {
            println!("{folder}/data/ks/{}-{:032x}/me-1-big-Data.db", def.name, def.id.0);
        }
        Ok::<_, storage::Error>(())
    })??;
    Ok(())
}
