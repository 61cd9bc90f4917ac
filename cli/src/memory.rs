//! `orrery bench --memory`: what a row takes in memory, cached or in a memtable, with cassandra-stress's default row.
//!
//! Measured as the growth of the process's resident memory, so the allocator's own share is in it. Each stage runs in
//! a process of its own: memory that was freed before would hide what is taken now.

use std::process::Command;
use std::sync::Arc;

use reactor::uring;
use storage::{Cell, Clustering, Config, Liveness, Mutation, Partition, ReadCommand, Row, Storage};
use types::{CqlType, TableDef};

use crate::args::Bench;
use crate::exit::{Code, Failure};

const ROWS: u64 = 500_000;
/// Read and written before the first measurement.
const WARM_UP: u64 = 5_000;
const KEY_BYTES: usize = 10;
const COLUMNS: [&str; 5] = ["C0", "C1", "C2", "C3", "C4"];
const VALUE_BYTES: usize = 34;
const PAYLOAD_BYTES: usize = COLUMNS.len() * VALUE_BYTES;

const STAGES: [&str; 3] = ["fill", "cached", "memtable"];

pub fn run(args: &Bench) -> Result<(), Failure> {
    if let Some(stage) = args.memory_stage.as_deref() {
        let (stage, folder) = stage.split_once(':').ok_or_else(|| Failure::unexpected("a stage without a folder"))?;
        let bytes = uring::block_on(measure(stage.to_string(), folder.to_string()))
            .map_err(Failure::unexpected)?
            .map_err(Failure::unexpected)?;
        println!("{bytes}");
        return Ok(());
    }
    let folder = tempfile::tempdir().map_err(Failure::unexpected)?;
    let program = std::env::current_exe().map_err(Failure::unexpected)?;
    let mut bytes = Vec::new();
    for stage in STAGES {
        let stage = format!("{stage}:{}", folder.path().display());
        let output = Command::new(&program).args(["bench", "--memory", "--memory-stage", &stage]).output();
        let output = output.map_err(Failure::unexpected)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let number = text.trim().parse::<f64>().map_err(|_| {
            let message = String::from_utf8_lossy(&output.stderr);
            Failure::with_help(Code::Unexpected, message, "the folder for temporary files needs 400 MB: set TMPDIR")
        })?;
        bytes.push(number);
    }
    let (cached, memtable) = (bytes[1], bytes[2]);
    if args.json {
        println!(
            "{{\"rows\":{ROWS},\"key_bytes\":{KEY_BYTES},\"payload_bytes\":{PAYLOAD_BYTES},\
             \"cached_row_bytes\":{cached:.1},\"memtable_row_bytes\":{memtable:.1}}}"
        );
        return Ok(());
    }
    let times = (cached - 64.0 - KEY_BYTES as f64) / PAYLOAD_BYTES as f64;
    println!("{ROWS} rows, key {KEY_BYTES} bytes, {} columns of {VALUE_BYTES} bytes", COLUMNS.len());
    println!("cached row       {cached:>7.1} bytes: key + 64 + {times:.2} times the payload");
    println!("row in memtable  {memtable:>7.1} bytes");
    Ok(())
}

/// Bytes a row; 0 for the stage that only writes.
async fn measure(stage: String, folder: String) -> Result<f64, storage::Error> {
    let def = Arc::new(table());
    let mut config = Config::new(format!("{folder}/{stage}/data"), format!("{folder}/{stage}/commitlog"));
    match stage.as_str() {
        "fill" => (config.memtable_limit_bytes, config.cache_bytes) = (64 << 20, 0),
        "cached" => {
            config = Config::new(format!("{folder}/fill/data"), format!("{folder}/fill/commitlog"));
            (config.cache_bytes, config.index_cache_fraction) = (8 << 30, 0.0);
        }
        _ => config.memtable_limit_bytes = 8 << 30,
    }
    let storage = Storage::open(config, vec![def.clone()]).await?;
    let mut before = 0;
    for n in 0..ROWS {
        if n == WARM_UP {
            before = resident_bytes();
        }
        if stage == "cached" {
            let found = storage.read(ReadCommand::partition(def.id, &key(n), 0)).await?;
            assert!(found.is_some(), "row {n} was written by the stage before");
        } else {
            storage.apply(&mutation(&def, n)).await?;
        }
        if n % 64 == 0 {
            reactor::time::yield_now().await;
        }
    }
    let grown = resident_bytes().saturating_sub(before);
    if stage == "fill" {
        storage.flush(None).await?;
        storage.compact(def.id).await?;
    }
    storage.close().await?;
    Ok(if stage == "fill" { 0.0 } else { grown as f64 / (ROWS - WARM_UP) as f64 })
}

/// Of this process.
fn resident_bytes() -> u64 {
    const PAGE_BYTES: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES
}

fn table() -> TableDef {
    let def = TableDef::builder("keyspace1", "standard1").partition_key("key", CqlType::Blob);
    COLUMNS.into_iter().fold(def, |def, column| def.regular(column, CqlType::Blob)).build()
}

/// The same for the same number, and in no order of their tokens.
fn key(n: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'x'; KEY_BYTES];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

fn mutation(def: &TableDef, n: u64) -> Vec<u8> {
    // Microseconds that a client would send.
    let timestamp = 1_700_000_000_000_000 + n as i64;
    let cell = |column| (column as u16, Cell::live(timestamp, &[n as u8; VALUE_BYTES]));
    let row = Row {
        marker: Some(Liveness::live(timestamp)),
        cells: (0..COLUMNS.len()).map(cell).collect(),
        ..Row::new(Clustering::empty())
    };
    let mut bytes = Vec::new();
    let partition = Partition { rows: vec![row], ..Partition::new(&key(n)) };
    Mutation { table: def.id, schema_version: def.version, partition }.encode(&mut bytes);
    bytes
}
