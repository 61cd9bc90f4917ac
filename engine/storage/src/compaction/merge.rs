//! Reads several SSTables in order, merges them partition by partition, drops what no one needs, writes one.

use std::rc::Rc;
use std::time::Duration;

use reactor::Work;
use types::Token;

use crate::sstable::{EncodingStats, KeyHash, Sequential, Sstable, Writer};
use crate::table::Table;
use crate::{Error, Partition};

/// Between looks at the clock and at the other tasks.
const YIELD_BYTES: u64 = 64 << 10;

/// Merged, written and durable, but not yet in the manifest.
pub(crate) struct Merged {
    /// `None` when nothing was left.
    pub generation: Option<u64>,
    pub bytes: u64,
}

pub(crate) async fn merge(
    table: &Table,
    inputs: &[Rc<Sstable>],
    generation: u64,
    mb_per_s: Option<f64>,
) -> Result<Merged, Error> {
    let def = table.def();
    let mut stats = EncodingStats::NONE;
    inputs.iter().for_each(|input| stats.merge(&input.encoding_stats()));
    let keys = inputs.iter().map(|input| input.figures.partitions).sum();
    let mut writer = Writer::create(&table.folder, generation, def.clone(), stats, keys).await?;
    let now_s = (reactor::wall_us() / 1_000_000) as u32;
    let gc_before_s = now_s.saturating_sub(def.options.gc_grace_seconds);
    let started_ns = reactor::now();
    let mut yielded = 0;
    let mut written = false;

    let mut readers = Vec::new();
    let mut heads: Vec<Option<(Token, Partition)>> = Vec::new();
    for input in inputs {
        let mut reader = Sequential::new(input.clone());
        heads.push(reader.next().await?);
        readers.push(reader);
    }
    loop {
        let least = heads.iter().flatten().map(|(token, partition)| (*token, &partition.key)).min();
        let Some((token, key)) = least else { break };
        let key = key.clone();
        let mut merged: Option<Partition> = None;
        for (head, reader) in heads.iter_mut().zip(&mut readers) {
            if let Some((_, partition)) = head.take_if(|(at, partition)| *at == token && partition.key == key) {
                match &mut merged {
                    Some(merged) => merged.merge(partition, &def),
                    None => merged = Some(partition),
                }
                *head = reader.next().await?;
            }
        }
        let Some(mut merged) = merged else { break };
        merged.purge_shadowed(&def);
        if merged.has_tombstones(now_s) {
            let below = purgeable_below(table, inputs, token, &key);
            merged.purge_tombstones(now_s, gc_before_s, below);
        }
        if !merged.is_empty() {
            written = true;
            let before = writer.data_bytes();
            writer.add(token, &merged).await?;
            reactor::charge(Work::Compaction, writer.data_bytes() - before);
        }
        if writer.data_bytes() - yielded >= YIELD_BYTES {
            yielded = writer.data_bytes();
            pause(mb_per_s, yielded, started_ns).await;
            if table.dropped.get() {
                break;
            }
        }
    }
    if !written || table.dropped.get() {
        drop(writer);
        crate::sstable::remove_files(&table.folder, generation).await?;
        return Ok(Merged { generation: None, bytes: 0 });
    }
    let bytes = writer.finish().await?;
    Ok(Merged { generation: Some(generation), bytes })
}

/// Lets the others run; and sleeps while more has been written than the rate allows.
async fn pause(mb_per_s: Option<f64>, bytes: u64, started_ns: u64) {
    if let Some(rate) = mb_per_s.filter(|rate| *rate > 0.0) {
        let due_ns = started_ns.saturating_add((bytes as f64 * 1000.0 / rate) as u64);
        if due_ns > reactor::now() {
            return reactor::time::sleep(Duration::from_nanos(due_ns - reactor::now())).await;
        }
    }
    reactor::time::yield_now().await;
}

/// The least timestamp of anything with this key outside of the compaction: a tombstone at or above it may still be
/// needed. Memtables count whole, as they know only one least timestamp.
fn purgeable_below(table: &Table, inputs: &[Rc<Sstable>], token: Token, key: &[u8]) -> i64 {
    let hash = KeyHash::of(key);
    let mut below = i64::MAX;
    for sstable in table.sstables.borrow().iter() {
        let is_input = inputs.iter().any(|input| input.generation == sstable.generation);
        if !is_input && sstable.may_contain(token, hash) {
            below = below.min(sstable.figures.min_timestamp);
        }
    }
    for memtable in table.memtables() {
        let memtable = memtable.borrow();
        if memtable.get(token, key).is_some() {
            below = below.min(memtable.min_timestamp());
        }
    }
    below
}
