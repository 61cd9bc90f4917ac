//! Write amplification of each strategy beside its theory, on real files: `-- --nocapture` prints the table, and
//! `FLUSHES=256` makes it longer.
//!
//! Unique keys in no order come in flushes of one size F; after each, compaction runs until the strategy is content. So
//! the theory can be exact about what is compacted when, and is about bytes only:
//! - size-tiered, and incremental, which differs in the size of files alone: of n flushes, floor(n / 4^k) times 4^k F
//!   are written into tier k.
//! - time windows of m flushes: the same within a window, and once more when it has passed with more than one left.
//! - leveled, SSTables of S < F, levels of 10^k S: each flush meets all of level 1. What is too much in level 1 goes one
//!   SSTable at a time, around the ring: it meets its part of level 2, and at the edges one more. In the first round
//!   level 2 has nothing there, and it goes down as it is.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;

use common::{PERIODIC, config, encode, row, table};
use storage::{Config, Partition, Storage};
use types::TableDef;

const ROWS: u64 = 512;
const WINDOW_FLUSHES: u64 = 8;
/// S over F of the leveled table: 112 KiB over what a flush is measured to be.
const SSTABLE_KIB: u64 = 112;

fn with_options(options: &str) -> Arc<TableDef> {
    let mut def = (*table()).clone();
    let pairs = options.split_whitespace().map(|pair| pair.split_once('=').unwrap());
    def.options.compaction = pairs.map(|(name, value)| (name.to_string(), value.to_string())).collect();
    Arc::new(def)
}

/// Bytes written over bytes flushed, and the mean size of a flush.
fn measure(options: &'static str, flushes: u64) -> (f64, f64) {
    let dir = tempfile::tempdir().unwrap();
    let config = Config { compaction_small_bytes: 50 << 10, ..config(dir.path(), PERIODIC) };
    reactor::uring::block_on(async move {
        let def = with_options(options);
        let storage = Storage::open(config, vec![def.clone()]).await.unwrap();
        for flush in 0..flushes {
            for n in flush * ROWS..(flush + 1) * ROWS {
                let key = format!("{:016x}", n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                // A window of time is a minute.
                let timestamp = (flush / WINDOW_FLUSHES * 60) as i64;
                let rows = vec![row(0, timestamp, &"v".repeat(400))];
                storage.apply(&encode(&def, Partition { rows, ..Partition::new(key.as_str()) })).await.unwrap();
            }
            storage.flush(Some(def.id)).await.unwrap();
            while storage.stats().tables[&def.id].pending_compactions > 0 {
                reactor::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
        let stats = storage.stats().tables[&def.id].clone();
        storage.close().await.unwrap();
        let flushed = stats.flushed_bytes as f64;
        ((flushed + stats.compacted_bytes as f64) / flushed, flushed / flushes as f64)
    })
    .unwrap()
}

fn tiers(flushes: u64) -> f64 {
    let tier = |k: u32| (flushes / 4u64.pow(k) * 4u64.pow(k)) as f64;
    1.0 + (1..).map(tier).take_while(|written| *written > 0.0).sum::<f64>() / flushes as f64
}

fn windows(flushes: u64) -> f64 {
    let (mut left, mut rest) = (0, WINDOW_FLUSHES);
    while rest > 0 {
        (left, rest) = (left + rest % 4, rest / 4);
    }
    let passed = (flushes / WINDOW_FLUSHES - 1) as f64 * WINDOW_FLUSHES as f64 / flushes as f64;
    tiers(WINDOW_FLUSHES) + if left > 1 { passed } else { 0.0 }
}

fn levels(flushes: u64, flush_bytes: f64, sstable_bytes: f64) -> f64 {
    let (mut one, mut two, mut written) = (0.0, 0.0, 0.0);
    // Of the ring, how much level 1 has given; it goes around.
    let mut given = 0.0;
    let mut waiting = 0.0;
    for _ in 0..flushes {
        written += flush_bytes;
        waiting += flush_bytes;
        // The first has nothing to be compacted with.
        if one == 0.0 && waiting == flush_bytes {
            continue;
        }
        one += waiting;
        written += one;
        waiting = 0.0;
        while one > 10.0 * sstable_bytes * 1.001 {
            let share = sstable_bytes / one;
            if given >= 1.0 {
                written += sstable_bytes + share * two + sstable_bytes * (1.0 - share);
            }
            given += share;
            one -= sstable_bytes;
            two += sstable_bytes;
        }
    }
    written / (flushes as f64 * flush_bytes)
}

#[test]
fn write_amplification_is_that_of_the_theory() {
    let flushes = std::env::var("FLUSHES").ok().and_then(|text| text.parse().ok()).unwrap_or(32);
    let cases = [
        ("size-tiered", "class=SizeTieredCompactionStrategy min_sstable_size=0"),
        ("incremental", "class=IncrementalCompactionStrategy min_sstable_size=0 sstable_size_in_mb=300"),
        (
            "time-window",
            "class=TimeWindowCompactionStrategy min_sstable_size=0 timestamp_resolution=SECONDS \
             compaction_window_unit=MINUTES",
        ),
        ("leveled", "class=LeveledCompactionStrategy sstable_size_in_mb=112"),
    ];
    let mut wrong = Vec::new();
    println!("{:<12} {:>9} {:>9}", "strategy", "measured", "theory");
    for (name, options) in cases {
        let (measured, flush_bytes) = measure(options, flushes);
        let theory = match name {
            "time-window" => windows(flushes),
            "leveled" => levels(flushes, flush_bytes, (SSTABLE_KIB << 10) as f64),
            _ => tiers(flushes),
        };
        println!("{name:<12} {measured:>9.2} {theory:>9.2}");
        if (measured / theory - 1.0).abs() > 0.1 {
            wrong.push(format!("{name}: measured {measured:.2}, theory {theory:.2}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
