//! What we write, Apache Cassandra's own classes read: `sstableverify` (extended), `sstabledump` and `sstablemetadata`
//! of 4.1 look at SSTables of every compressor, with everything that rows can hold, and the dumps are compared with
//! what was written.
//!
//! Needs Java 17 or later and Maven, once the network for `cassandra-all`; it stays under `target/peers`.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "processes of the real world")]

mod tools;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use storage::{
    Bound, Cell, Clustering, ComplexColumn, Config, DeletionTime, Liveness, Mutation, NEVER_S, Partition,
    RangeTombstone, Row, Storage, SyncMode,
};
use types::{CqlType, TableDef, TableOptions};

/// Far enough in the future that nothing has expired.
const LOCAL_S: u32 = 2_000_000_000;

const COMPRESSORS: [&str; 5] = ["", "LZ4Compressor", "SnappyCompressor", "DeflateCompressor", "ZstdCompressor"];

fn table(class: &str) -> TableDef {
    let compression = [("class", class), ("chunk_length_in_kb", "4")];
    let options = TableOptions {
        compression: compression.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        ..TableOptions::default()
    };
    let name = if class.is_empty() { "plain".to_string() } else { class.to_lowercase() };
    TableDef::builder("ks", &name)
        .partition_key("p", CqlType::Int)
        .clustering_ordered("a", CqlType::Int, true)
        .clustering("b", CqlType::Text)
        .static_column("s", CqlType::Text)
        .regular("m", CqlType::Map(Box::new(CqlType::Text), Box::new(CqlType::Int)))
        .regular("v", CqlType::Text)
        .regular("w", CqlType::Int)
        .options(options)
        .build()
}

/// The same table in CQL.
fn create(def: &TableDef) -> String {
    format!(
        "CREATE TABLE ks.{} (p int, a int, b text, s text static, m map<text, int>, v text, w int, \
         PRIMARY KEY (p, a, b)) WITH CLUSTERING ORDER BY (a DESC, b ASC)",
        def.name
    )
}

fn at(a: i32, b: &str) -> Clustering {
    Clustering::new([&a.to_be_bytes()[..], b.as_bytes()])
}

fn deletion(timestamp: i64) -> DeletionTime {
    DeletionTime { timestamp, local_s: LOCAL_S + timestamp as u32 }
}

/// Columns by name: m v w.
const MAP: u16 = 0;
const TEXT: u16 = 1;
const INT: u16 = 2;

fn row(a: i32, b: &str) -> Row {
    let cells = vec![
        (TEXT, Cell::live(100, format!("value {a} {b}").as_str())),
        (INT, Cell::live(101, &(a * 3).to_be_bytes())),
    ];
    Row { marker: Some(Liveness::live(100)), cells, ..Row::new(at(a, b)) }
}

/// A partition with a little of everything, a wide one, one that is deleted, one that is only static.
fn partitions() -> Vec<Partition> {
    let key = |p: i32| p.to_be_bytes();
    let mut all = Vec::new();
    let mut mixed = Partition::new(&key(1));
    mixed.static_row = Some(Row { cells: vec![(0, Cell::live(90, "fixed"))], ..Row::default() });
    let expires = |ttl_s| LOCAL_S + ttl_s;
    let mut expiring = row(9, "x");
    expiring.marker = Some(Liveness { timestamp: 100, ttl_s: 60, local_deletion_s: expires(60) });
    let cell = |timestamp, ttl_s, value: &str| Cell {
        local_deletion_s: expires(ttl_s),
        ..Cell::expiring(timestamp, ttl_s, 0, value)
    };
    expiring.cells[0].1 = cell(100, 60, "with the row");
    expiring.cells[1].1 = Cell { value: Some(7i32.to_be_bytes().to_vec().into()), ..cell(103, 90, "") };
    let mut holes = Row::new(at(8, ""));
    holes.cells = vec![(TEXT, Cell::tombstone(110, LOCAL_S + 5))];
    let mut deleted = Row::new(at(7, "gone"));
    deleted.deletion = Some(deletion(120));
    let mut map = row(6, "map");
    map.complex = [ComplexColumn {
        column: MAP,
        deletion: Some(deletion(99)),
        cells: vec![
            (b"k1".into(), Cell::live(100, &5i32.to_be_bytes())),
            (b"k2".into(), Cell::tombstone(130, LOCAL_S + 9)),
        ],
    }]
    .into_iter()
    .collect();
    mixed.rows = vec![expiring, holes, deleted, map, row(-4, "ü")];
    let bound = |prefix: Clustering, inclusive| Bound { prefix, inclusive };
    let prefix = |a: i32| Clustering::new([a.to_be_bytes()]);
    mixed.range_tombstones = vec![
        // Two that meet: one marker is written for both.
        RangeTombstone { start: bound(prefix(5), true), end: bound(prefix(3), false), deletion: deletion(50) },
        RangeTombstone { start: bound(prefix(3), true), end: bound(at(1, "c"), true), deletion: deletion(60) },
        RangeTombstone { start: bound(prefix(-9), false), end: Bound::unbounded(), deletion: deletion(70) },
    ];
    all.push(mixed);
    let mut wide = Partition::new(&key(2));
    wide.rows = (0..900).rev().map(|a| row(a, "wide")).collect();
    wide.range_tombstones =
        vec![RangeTombstone { start: bound(prefix(700), true), end: bound(prefix(200), true), deletion: deletion(40) }];
    all.push(wide);
    all.push(Partition { deletion: Some(deletion(80)), ..Partition::new(&key(3)) });
    let fixed = Row { cells: vec![(0, Cell::live(90, "alone"))], ..Row::default() };
    all.push(Partition { static_row: Some(fixed), ..Partition::new(&key(4)) });
    all.extend((10..60).map(|p| Partition { rows: vec![row(p, "one")], ..Partition::new(&key(p)) }));
    all
}

/// Writes a table with the engine; the paths of its SSTables' data.
fn write(folder: &Path, def: &Arc<TableDef>, partitions: &[Partition]) -> Vec<PathBuf> {
    let text = folder.to_str().unwrap();
    let config = Config {
        sync: SyncMode::Batch,
        commitlog_segment_bytes: 4 << 20,
        column_index_bytes: 4 << 10,
        auto_compaction: false,
        ..Config::new(format!("{text}/data"), format!("{text}/commitlog-{}", def.name))
    };
    let (table, partitions) = (def.clone(), partitions.to_vec());
    reactor::uring::block_on(async move {
        let storage = Storage::open(config, vec![table.clone()]).await.unwrap();
        for partition in partitions {
            let mut bytes = Vec::new();
            Mutation { table: table.id, schema_version: table.version, partition }.encode(&mut bytes);
            storage.apply(&bytes).await.unwrap();
        }
        storage.flush(None).await.unwrap();
        storage.close().await.unwrap();
    })
    .unwrap();
    let mut found = Vec::new();
    for table in std::fs::read_dir(folder.join("data/ks")).unwrap() {
        let table = table.unwrap().path();
        if table.file_name().unwrap().to_str().unwrap().starts_with(&format!("{}-", def.name)) {
            let files = std::fs::read_dir(table).unwrap().map(|file| file.unwrap().path());
            found.extend(files.filter(|file| file.to_str().unwrap().ends_with("-Data.db")));
        }
    }
    found
}

/// One line for everything that a partition holds, from what was written.
fn told(def: &TableDef, partition: &Partition) -> String {
    let mut out = String::new();
    let number = |bytes: &[u8]| i32::from_be_bytes(bytes.try_into().unwrap());
    let text = |ty: &CqlType, bytes: &[u8]| match ty {
        CqlType::Int => number(bytes).to_string(),
        _ => format!("{:?}", std::str::from_utf8(bytes).unwrap()),
    };
    let position = |clustering: &Clustering| {
        let parts = clustering.components().zip(&def.clustering).map(|(bytes, column)| text(&column.ty, bytes));
        parts.collect::<Vec<_>>().join(",")
    };
    let deleted = |d: &DeletionTime| format!("deleted {} {}", d.timestamp, d.local_s);
    let _ = writeln!(out, "partition {}", number(&partition.key));
    if let Some(deletion) = &partition.deletion {
        let _ = writeln!(out, "{}", deleted(deletion));
    }
    let cell = |out: &mut String, name: &str, cell: &Cell, ty: &CqlType, marker: Option<Liveness>| {
        let value = cell.value.as_ref().map_or("gone".to_string(), |value| text(ty, value));
        let _ = write!(out, "  {name} = {value} @{}", cell.timestamp);
        if cell.value.is_none() {
            let _ = write!(out, " local {}", cell.local_deletion_s);
        } else if cell.ttl_s != 0 && marker.is_none_or(|marker| marker.ttl_s != cell.ttl_s) {
            let _ = write!(out, " ttl {} until {}", cell.ttl_s, cell.local_deletion_s);
        }
        out.push('\n');
    };
    if let Some(row) = &partition.static_row {
        let _ = writeln!(out, "static");
        row.cells.iter().for_each(|(column, c)| {
            cell(&mut out, &def.statics[usize::from(*column)].name, c, &CqlType::Text, None);
        });
    }
    let mut things: Vec<(Clustering, i8, String)> = Vec::new();
    for row in &partition.rows {
        let mut text = format!("row [{}]", position(&row.clustering));
        if let Some(marker) = &row.marker {
            let _ = write!(text, " live {}", marker.timestamp);
            if marker.local_deletion_s != NEVER_S {
                let _ = write!(text, " ttl {} until {}", marker.ttl_s, marker.local_deletion_s);
            }
        }
        row.deletion.iter().for_each(|d| {
            let _ = write!(text, " {}", deleted(d));
        });
        text.push('\n');
        for (column, c) in &row.cells {
            let column = &def.regulars[usize::from(*column)];
            cell(&mut text, &column.name, c, &column.ty, row.marker);
        }
        for complex in row.complex.iter() {
            let name = &def.regulars[usize::from(complex.column)].name;
            complex.deletion.iter().for_each(|d| {
                let _ = writeln!(text, "  {name} {}", deleted(d));
            });
            for (path, c) in &complex.cells {
                let path = std::str::from_utf8(path).unwrap();
                cell(&mut text, &format!("{name}[{path}]"), c, &CqlType::Int, row.marker);
            }
        }
        things.push((row.clustering.clone(), 0, text));
    }
    for range in &partition.range_tombstones {
        let kind = |bound: &Bound| if bound.inclusive { "inclusive" } else { "exclusive" };
        let side = |before: bool| if before { -1 } else { 1 };
        for (name, bound, side) in [
            ("start", &range.start, side(range.start.inclusive)),
            ("end", &range.end, if range.end.prefix.is_empty() { 2 } else { side(!range.end.inclusive) }),
        ] {
            let at = position(&bound.prefix);
            let line = format!("{name} {} [{at}] {}\n", kind(bound), deleted(&range.deletion));
            things.push((bound.prefix.clone(), side, line));
        }
    }
    // Ends before starts at the same place: the list is stable, and a range's end comes before the next one's start.
    things.sort_by(|(a, x, _), (b, y, _)| {
        let behind_all = |side: &i8| *side == 2;
        behind_all(x).cmp(&behind_all(y)).then_with(|| order(def, a, b, *x, *y))
    });
    things.iter().for_each(|(_, _, text)| out.push_str(text));
    out
}

/// Component by component; where one is a prefix of the other, the shorter one's side decides.
fn order(def: &TableDef, a: &Clustering, b: &Clustering, x: i8, y: i8) -> std::cmp::Ordering {
    let (mut left, mut right) = (a.components(), b.components());
    for position in 0.. {
        match (left.next(), right.next()) {
            (Some(l), Some(r)) => match def.compare_clustering(position, l, r) {
                std::cmp::Ordering::Equal => {}
                order => return order,
            },
            (None, None) => return x.cmp(&y),
            (None, Some(_)) => return x.cmp(&0),
            (Some(_), None) => return 0.cmp(&y),
        }
    }
    std::cmp::Ordering::Equal
}

/// The same lines, from a dump.
fn dumped(partition: &Value) -> String {
    let mut out = String::new();
    let plain = |value: &Value| value.as_str().map_or(value.to_string(), str::to_string);
    // A bound names a component that it leaves open with a star.
    let position = |value: &Value| {
        let parts = value.as_array().into_iter().flatten().filter(|part| part.as_str() != Some("*"));
        parts.map(Value::to_string).collect::<Vec<_>>().join(",")
    };
    let deleted = |value: &Value| {
        let info = &value["deletion_info"];
        let at = plain(&info["marked_deleted"]);
        (at != "null").then(|| format!("deleted {at} {}", plain(&info["local_delete_time"])))
    };
    let until = |value: &Value| match &value["ttl"] {
        Value::Null => String::new(),
        ttl => format!(" ttl {ttl} until {}", plain(&value["expires_at"])),
    };
    let _ = writeln!(out, "partition {}", plain(&partition["partition"]["key"][0]));
    if let Some(deletion) = deleted(&partition["partition"]) {
        let _ = writeln!(out, "{deletion}");
    }
    for thing in partition["rows"].as_array().into_iter().flatten() {
        match thing["type"].as_str().unwrap() {
            kind @ ("row" | "static_block") => {
                let live = plain(&thing["liveness_info"]["tstamp"]);
                if kind == "row" {
                    let _ = write!(out, "row [{}]", position(&thing["clustering"]));
                    if live != "null" {
                        let _ = write!(out, " live {live}{}", until(&thing["liveness_info"]));
                    }
                    deleted(thing).iter().for_each(|d| {
                        let _ = write!(out, " {d}");
                    });
                } else {
                    out.push_str("static");
                }
                out.push('\n');
                let mut last = String::new();
                for cell in thing["cells"].as_array().into_iter().flatten() {
                    let mut name = plain(&cell["name"]);
                    if let Some(deletion) = deleted(cell) {
                        let _ = writeln!(last, "  {name} {deletion}");
                        continue;
                    }
                    let is_complex = cell["path"].is_array();
                    if is_complex {
                        name = format!("{name}[{}]", plain(&cell["path"][0]));
                    }
                    let timestamp = if cell["tstamp"].is_null() { live.clone() } else { plain(&cell["tstamp"]) };
                    let gone = plain(&cell["deletion_info"]["local_delete_time"]);
                    let line = match gone != "null" {
                        true => format!("  {name} = gone @{timestamp} local {gone}\n"),
                        false => format!("  {name} = {} @{timestamp}{}\n", cell["value"], until(cell)),
                    };
                    if is_complex { last.push_str(&line) } else { out.push_str(&line) }
                }
                out.push_str(&last);
            }
            _ => {
                for name in ["end", "start"] {
                    let bound = &thing[name];
                    if bound.is_object() {
                        let (kind, at) = (plain(&bound["type"]), position(&bound["clustering"]));
                        let _ = writeln!(out, "{name} {kind} [{at}] {}", deleted(bound).unwrap_or_default());
                    }
                }
            }
        }
    }
    out
}

#[test]
fn cassandra_reads_what_we_write() {
    let folder = tempfile::tempdir().unwrap();
    let tools = tools::Tools::install(folder.path());
    let partitions = partitions();
    let mut arguments = vec![folder.path().to_str().unwrap().to_string(), "ks".to_string()];
    let mut files = Vec::new();
    for (number, class) in COMPRESSORS.iter().enumerate() {
        let mut def = table(class);
        def.id = types::TableId(number as u128 + 1);
        let def = Arc::new(def);
        let written = write(folder.path(), &def, &partitions);
        assert_eq!(written.len(), 1, "one flush");
        let file = written[0].to_str().unwrap().to_string();
        let insert = format!("INSERT INTO ks.{} (p, a, b) VALUES (?, ?, ?)", def.name);
        arguments.extend([def.name.clone(), create(&def), insert, file.clone()]);
        files.push((def, file));
    }
    let output = tools.run("Inspect", &arguments);
    for (def, file) in &files {
        assert!(output.contains(&format!("verified {file}")), "{}\n{output}", def.name);
        let dump: Value = serde_json::from_str(&std::fs::read_to_string(format!("{file}.json")).unwrap()).unwrap();
        let dump = dump.as_array().unwrap();
        assert_eq!(dump.len(), partitions.len(), "{}", def.name);
        for partition in &partitions {
            let key = i32::from_be_bytes((*partition.key).try_into().unwrap()).to_string();
            let found = dump.iter().find(|other| other["partition"]["key"][0] == *key.as_str()).unwrap();
            assert_eq!(dumped(found), told(def, partition), "{}", def.name);
        }
    }

    // The tools themselves, as one would call them.
    let (_, file) = &files[1];
    let metadata = tools.run("org.apache.cassandra.tools.SSTableMetadataViewer", std::slice::from_ref(file));
    for line in [
        "Partitioner: org.apache.cassandra.dht.Murmur3Partitioner",
        "Bloom Filter FP chance: 0.01",
        "Minimum timestamp: 40",
        "Maximum timestamp: 130",
        "Compressor: org.apache.cassandra.io.compress.LZ4Compressor",
        "TTL max: 90",
        "totalRows: 957",
        "Estimated cardinality: 54",
        "Repaired at: 0",
        "SSTable Level: 0",
        "KeyType: org.apache.cassandra.db.marshal.Int32Type",
        "StaticColumns: s:org.apache.cassandra.db.marshal.UTF8Type",
    ] {
        assert!(metadata.contains(line), "no '{line}' in\n{metadata}");
    }
    let dump = tools.run("org.apache.cassandra.tools.SSTableExport", &[file.clone(), "-e".to_string()]);
    assert_eq!(dump.matches("[ \"").count(), partitions.len(), "{dump}");
}
