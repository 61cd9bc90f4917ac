//! For tests: a table with columns of every shape, and partitions of it in which everything may occur.

use std::sync::Arc;

use proptest::prelude::*;
use types::{ColumnDef, CqlType, TableDef, UserType, multi_cell};

use crate::data::{
    Bound, Cell, Clustering, ComplexColumn, ComplexColumns, DeletionTime, Liveness, NEVER_S, Partition, RangeTombstone,
    Row,
};

pub(crate) fn table() -> TableDef {
    let fields = vec![("x".to_string(), CqlType::Int), ("y".to_string(), CqlType::Text)];
    let udt = CqlType::Udt(Arc::new(UserType { keyspace: "k".into(), name: "u".into(), fields }));
    TableDef::builder("k", "t")
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .clustering_ordered("d", CqlType::Text, true)
        .static_column("sm", CqlType::map(CqlType::Int, CqlType::Text))
        .static_column("st", CqlType::Text)
        .regular("a", CqlType::list(CqlType::Int))
        .regular("b", CqlType::Text)
        .regular("c", CqlType::map(CqlType::Text, CqlType::BigInt))
        .regular("d", CqlType::set(CqlType::Int))
        .regular("e", CqlType::Int)
        .regular("f", udt)
        .regular("g", CqlType::vector(CqlType::Float, 2))
        .regular("h", CqlType::list(CqlType::Text).frozen())
        .build()
}

/// Few, so that ties are frequent.
fn timestamp() -> impl Strategy<Value = i64> {
    prop_oneof![20 => 1..8i64, 1 => Just(i64::MIN + 1), 1 => Just(i64::MAX)]
}

fn local_s() -> impl Strategy<Value = u32> {
    1_500_000_000..1_500_000_003u32
}

pub(crate) fn deletion() -> impl Strategy<Value = DeletionTime> {
    (timestamp(), local_s()).prop_map(|(timestamp, local_s)| DeletionTime { timestamp, local_s })
}

fn value(ty: &CqlType) -> BoxedStrategy<Vec<u8>> {
    match ty.fixed_len() {
        Some(len) => prop_oneof![4 => prop::collection::vec(0..3u8, len), 1 => Just(Vec::new())].boxed(),
        None => prop::collection::vec(0..3u8, 0..4).boxed(),
    }
}

fn cell(ty: Option<&CqlType>) -> impl Strategy<Value = Cell> + use<> {
    let value = ty.map_or_else(|| Just(Vec::new()).boxed(), value);
    (timestamp(), local_s(), 0..4u8, 1..3u32, value).prop_map(|(timestamp, local_s, kind, ttl_s, value)| match kind {
        0 => Cell::tombstone(timestamp, local_s),
        1 => Cell { timestamp, ttl_s, local_deletion_s: local_s, value: Some(value.into()) },
        _ => Cell { timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value: Some(value.into()) },
    })
}

fn path(ty: &CqlType) -> BoxedStrategy<Vec<u8>> {
    match ty {
        CqlType::List(_) => (0..4u8).prop_map(|n| vec![n; 16]).boxed(),
        CqlType::Udt(_) => (0..2u16).prop_map(|n| multi_cell::path_of_field(n).to_vec()).boxed(),
        _ => value(ty.path_type().expect("of several cells")),
    }
}

fn complex(index: u16, ty: &CqlType) -> BoxedStrategy<ComplexColumn> {
    let ty = ty.clone();
    let of_path = ty.clone();
    let element = path(&ty).prop_flat_map(move |path| (Just(path.clone()), cell(of_path.element_type(&path))));
    (prop::option::of(deletion()), prop::collection::vec(element, 0..5))
        .prop_map(move |(deletion, cells)| {
            let cells = cells.into_iter().map(|(path, cell)| (path.into(), cell)).collect();
            let mut column = ComplexColumn { column: index, deletion, cells };
            column.sort(&ty);
            column
        })
        .boxed()
}

/// Some of the columns.
fn contents(columns: &[ColumnDef]) -> impl Strategy<Value = (Vec<(u16, Cell)>, ComplexColumns)> + use<> {
    let (mut simple, mut multi) = (Vec::new(), Vec::new());
    for (index, column) in (0u16..).zip(columns) {
        match column.ty.is_multi_cell() {
            true => multi.push(prop::option::weighted(0.3, complex(index, &column.ty)).boxed()),
            false => simple.push(prop::option::of((Just(index), cell(Some(&column.ty)))).boxed()),
        }
    }
    (simple, multi).prop_map(|(simple, multi)| {
        (simple.into_iter().flatten().collect(), multi.into_iter().flatten().collect::<ComplexColumns>())
    })
}

fn marker() -> impl Strategy<Value = Liveness> {
    (timestamp(), local_s(), 0..3u32).prop_map(|(timestamp, local_s, ttl_s)| Liveness {
        timestamp,
        ttl_s,
        local_deletion_s: if ttl_s == 0 { NEVER_S } else { local_s },
    })
}

pub(crate) fn row(table: &TableDef) -> impl Strategy<Value = Row> + use<> {
    let key = (-1..2i32, prop::sample::select(vec!["", "a", "b"]));
    let clustering = key.prop_map(|(c, d)| Clustering::new([&c.to_be_bytes()[..], d.as_bytes()]));
    let parts = (clustering, prop::option::of(marker()), prop::option::weighted(0.2, deletion()));
    (parts, contents(&table.regulars)).prop_map(|((clustering, marker, deletion), (cells, complex))| Row {
        clustering,
        marker,
        deletion,
        cells,
        complex,
    })
}

fn bound() -> impl Strategy<Value = Bound> {
    let prefix = prop_oneof![
        1 => Just(Clustering::empty()),
        2 => (-1..2i32).prop_map(|c| Clustering::new([c.to_be_bytes()])),
        2 => (-1..2i32, prop::sample::select(vec!["", "a"]))
            .prop_map(|(c, d)| Clustering::new([&c.to_be_bytes()[..], d.as_bytes()])),
    ];
    (prefix, any::<bool>()).prop_map(|(prefix, inclusive)| Bound { inclusive: inclusive || prefix.is_empty(), prefix })
}

pub(crate) fn partition(table: &TableDef) -> impl Strategy<Value = Partition> + use<> {
    let range =
        (bound(), bound(), deletion()).prop_map(|(start, end, deletion)| RangeTombstone { start, end, deletion });
    let fixed = contents(&table.statics).prop_map(|(cells, complex)| Row { cells, complex, ..Row::default() });
    let parts = (
        prop::option::weighted(0.1, deletion()),
        prop::option::of(fixed),
        prop::collection::vec(row(table), 0..4),
        prop::collection::vec(range, 0..3),
    );
    let table = table.clone();
    parts.prop_map(move |(deletion, static_row, rows, range_tombstones)| {
        let mut partition = Partition { deletion, static_row, rows, range_tombstones, ..Partition::new("key") };
        partition.sort(&table);
        partition
    })
}
