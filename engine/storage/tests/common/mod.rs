//! A small table and shorthand for its updates.

#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use storage::{Cell, Clustering, Config, Liveness, Mutation, Partition, Row, ScanCommand, Storage, SyncMode};
use types::{CqlType, TableDef};

pub const PERIODIC: SyncMode = SyncMode::Periodic { every: Duration::from_secs(10) };

pub fn table() -> Arc<TableDef> {
    let def = TableDef::builder("ks", "t").partition_key("p", CqlType::Text).clustering("c", CqlType::Int);
    Arc::new(def.static_column("s", CqlType::Text).regular("v", CqlType::Text).regular("w", CqlType::Text).build())
}

/// Small segments and memtables, so that little data goes a long way.
pub fn config(dir: &Path, sync: SyncMode) -> Config {
    let dir = dir.to_str().unwrap();
    Config {
        sync,
        commitlog_segment_bytes: 1 << 20,
        memtable_limit_bytes: 16 << 20,
        ..Config::new(format!("{dir}/data"), format!("{dir}/commitlog"))
    }
}

pub fn clustering(n: i32) -> Clustering {
    Clustering::new([n.to_be_bytes()])
}

pub fn row(n: i32, timestamp: i64, value: &str) -> Row {
    Row {
        marker: Some(Liveness::live(timestamp)),
        cells: vec![(0, Cell::live(timestamp, value))],
        ..Row::new(clustering(n))
    }
}

pub fn encode(def: &TableDef, partition: Partition) -> Vec<u8> {
    let mut bytes = Vec::new();
    Mutation { table: def.id, schema_version: def.version, partition }.encode(&mut bytes);
    bytes
}

pub fn update(def: &TableDef, key: &str, n: i32, timestamp: i64, value: &str) -> Vec<u8> {
    encode(def, Partition { rows: vec![row(n, timestamp, value)], ..Partition::new(key) })
}

/// Every partition, page by page.
pub async fn read_all(storage: &Storage, def: &TableDef) -> Vec<Partition> {
    scan_all(storage, def, ScanCommand::all(def.id, 1)).await
}

/// Every partition of the scan's range, in pages of few rows.
pub async fn scan_all(storage: &Storage, def: &TableDef, scan: ScanCommand) -> Vec<Partition> {
    let mut all: Vec<Partition> = Vec::new();
    let mut after = None;
    loop {
        let command = ScanCommand { after: after.clone(), limit_rows: 37, ..scan.clone() };
        let (page, more) = storage.scan(command).await.unwrap();
        for partition in page {
            match all.last_mut() {
                Some(last) if last.key == partition.key => last.merge(partition, def),
                _ => all.push(partition),
            }
        }
        if !more {
            return all;
        }
        let last = all.last().unwrap();
        after = Some((last.key.clone(), last.rows.last().map(|row| row.clustering.clone())));
    }
}
