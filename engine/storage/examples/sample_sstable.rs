//! Writes one SSTable that has everything the format can say, for other tools to read:
//! `cargo run -p orrery-storage --example sample_sstable -- FOLDER` prints the path of its `Data.db`.

use std::sync::Arc;

use storage::{
    Bound, Cell, Clustering, Config, DeletionTime, Liveness, Mutation, Partition, RangeTombstone, Row, Storage,
};
use types::{CqlType, TableDef};

const NOW_S: u32 = 1_790_000_000;
const NOW_US: i64 = NOW_S as i64 * 1_000_000;

fn table() -> TableDef {
    TableDef::builder("ks", "sample")
        .partition_key("p", CqlType::Text)
        .clustering("c", CqlType::Int)
        .clustering_ordered("d", CqlType::Text, true)
        .static_column("s", CqlType::Text)
        .regular("blob", CqlType::Blob)
        .regular("list", CqlType::List(Box::new(CqlType::Int)))
        .regular("number", CqlType::BigInt)
        .regular("small", CqlType::SmallInt)
        .build()
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
            (0, Cell::live(NOW_US, b"blob")),
            (1, Cell::live(NOW_US + 5, list)),
            (2, Cell::live(NOW_US, &7i64.to_be_bytes())),
            (3, Cell::live(NOW_US, &9i16.to_be_bytes())),
        ],
        ..Row::new(key(1, "z"))
    };
    let expiring = Row {
        marker: Some(Liveness::expiring(NOW_US, 3600, NOW_S)),
        cells: vec![(0, Cell::expiring(NOW_US, 3600, NOW_S, b"")), (2, Cell::tombstone(NOW_US, NOW_S))],
        ..Row::new(key(1, "a"))
    };
    let deleted = Row { deletion: Some(deletion(1)), ..Row::new(key(2, "")) };
    let range = |start: Bound, end: Bound, ago| RangeTombstone { start, end, deletion: deletion(ago) };
    let prefix = |c: i32| Clustering::new([c.to_be_bytes()]);
    let mut all = vec![
        Partition {
            static_row: Some(Row { cells: vec![(0, Cell::live(NOW_US, b"static"))], ..Row::default() }),
            rows: vec![full, expiring, deleted],
            range_tombstones: vec![
                range(Bound::exclusive(prefix(2)), Bound::exclusive(prefix(5)), 10),
                range(Bound::inclusive(prefix(5)), Bound::inclusive(prefix(6)), 20),
                range(Bound::exclusive(prefix(100)), Bound::unbounded(), 30),
            ],
            ..Partition::new(b"everything")
        },
        Partition { deletion: Some(deletion(3)), ..Partition::new(b"deleted") },
    ];
    for n in 0..1000 {
        let row = |c| Row {
            marker: Some(Liveness::live(NOW_US + n)),
            cells: vec![(2, Cell::live(NOW_US + n, &n.to_be_bytes()))],
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
        let def = Arc::new(table());
        let storage = Storage::open(config, vec![def.clone()]).await?;
        for partition in partitions() {
            let mut bytes = Vec::new();
            Mutation { table: def.id, schema_version: def.version, partition }.encode(&mut bytes);
            storage.apply(&bytes).await?;
        }
        storage.flush(None).await?;
        storage.close().await?;
        println!("{folder}/data/ks/sample-{:032x}/me-1-big-Data.db", def.id.0);
        Ok::<_, storage::Error>(())
    })??;
    Ok(())
}
