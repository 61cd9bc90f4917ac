//! `column_family`: which tables there are, their figures, and what is set for one.

use std::rc::Rc;
use std::sync::Arc;

use query::{Coordinated, Node};
use serde_json::{Value, json};
use storage::{Histogram, TableStats};
use types::TableDef;

use super::http::{Method, Request};
use super::{Answer, Refusal, keyspaces};

/// A table from `keyspace:table`.
pub(super) fn named(node: &Node, name: &str) -> Result<Arc<TableDef>, Refusal> {
    let (keyspace, table) = name
        .split_once(':')
        .ok_or_else(|| Refusal::Wrong(format!("Column family '{name}' is not fully qualified, use keyspace:name")))?;
    keyspaces::table(node, keyspace, table)
}

/// All tables: the node's own, and the users'.
fn every_table(node: &Node) -> Vec<Arc<TableDef>> {
    let schema = node.schema();
    let system: Vec<_> = node.system_keyspaces().cloned().collect();
    system.iter().chain(schema.keyspaces.values()).flat_map(|keyspace| keyspace.tables.values().cloned()).collect()
}

/// Of a table, or of all, over the shards.
pub(super) async fn stats(node: &Node, table: Option<&TableDef>) -> Result<Vec<TableStats>, Refusal> {
    let all = node.on_every_shard("stats", |node| async move { node.storage.stats() }).await?;
    let tables = all.into_iter().flat_map(|stats| stats.tables);
    Ok(tables.filter(|(id, _)| table.is_none_or(|table| table.id == *id)).map(|(_, stats)| stats).collect())
}

/// A number of `metrics/..` that is a sum over tables and shards.
fn sum_of(metric: &str) -> Option<fn(&TableStats) -> u64> {
    Some(match metric {
        "memtable_columns_count" => |t| t.memtable_partitions,
        "memtable_live_data_size" | "memtable_on_heap_size" => |t| t.memtable_bytes,
        "all_memtables_live_data_size" | "all_memtables_on_heap_size" => |t| t.memtable_bytes + t.flushing_bytes,
        "memtable_off_heap_size" | "all_memtables_off_heap_size" => |_| 0,
        "memtable_switch_count" => |t| t.flushes,
        "pending_flushes" => |t| u64::from(t.flushing_bytes > 0),
        "pending_compactions" => |t| t.pending_compactions,
        "live_ss_table_count" => |t| t.sstables,
        "live_disk_space_used" | "total_disk_space_used" => |t| t.disk_bytes,
        "read" => |t| t.reads,
        "write" => |t| t.writes,
        "estimated_row_count" => |t| t.sstable_partitions,
        "bloom_filter_false_positives" | "recent_bloom_filter_false_positives" => |t| t.bloom_false_positives,
        "bloom_filter_disk_space_used" | "bloom_filter_off_heap_memory_used" => |t| t.sstable_memory_bytes,
        "index_summary_off_heap_memory_used" | "compression_metadata_off_heap_memory_used" => |_| 0,
        "speculative_retries" | "row_cache_hit_out_of_range" | "snapshots_size" => |_| 0,
        _ => return None,
    })
}

/// A number of `metrics/..` that is no sum.
fn whole_of(metric: &str, all: &[TableStats]) -> Option<Value> {
    let sum = |count: fn(&TableStats) -> u64| all.iter().map(count).sum::<u64>();
    Some(match metric {
        "bloom_filter_false_ratio" | "recent_bloom_filter_false_ratio" => {
            let false_positives = sum(|t| t.bloom_false_positives);
            let asked = false_positives + sum(|t| t.bloom_negatives);
            json!(if asked == 0 { 0.0 } else { false_positives as f64 / asked as f64 })
        }
        "mean_row_size" => json!(sum(|t| t.disk_bytes).checked_div(sum(|t| t.sstable_partitions)).unwrap_or(0)),
        "compression_ratio" => json!(0.0),
        "sstables_per_read_histogram" => {
            let classes = all.iter().fold([0u64; 32], |mut classes, table| {
                classes.iter_mut().zip(table.sstables_per_read).for_each(|(sum, n)| *sum += n);
                classes
            });
            json!({ "buckets": classes, "bucket_offsets": (0..31).collect::<Vec<u64>>() })
        }
        "live_scanned_histogram" => histogram(all.iter().map(|table| &table.live_rows_per_read)),
        "tombstone_scanned_histogram" => histogram(all.iter().map(|table| &table.tombstones_per_read)),
        "read_latency_histogram" => histogram(all.iter().map(|table| &table.read_us)),
        "write_latency_histogram" => histogram(all.iter().map(|table| &table.write_us)),
        _ => return None,
    })
}

/// Counts by classes, as `utils::estimated_histogram` is written: the last count is of what is beyond the offsets.
pub(super) fn histogram<'a>(all: impl Iterator<Item = &'a Histogram>) -> Value {
    let sum = all.fold(Histogram::default(), |mut sum, one| {
        sum.merge(one);
        sum
    });
    json!({ "buckets": sum.counts(), "bucket_offsets": Histogram::offsets() })
}

/// Latencies of coordinators: `read`, `write` or `range`.
pub(super) async fn coordinated(node: &Node, what: &str) -> Answer {
    let what = Coordinated::ALL.into_iter().find(|one| one.name() == what).ok_or(Refusal::NotFound)?;
    let all = node.on_every_shard("latencies", |node| async move { node.counts.latencies() }).await?;
    Ok(histogram(all.iter().map(|latencies| &latencies[what as usize].classes)))
}

async fn metric(node: &Node, path: &[&str]) -> Answer {
    let (metric, table) = match path {
        [metric] => (*metric, None),
        [metric, table] => (*metric, Some(named(node, table)?)),
        [latency @ ("read_latency" | "write_latency"), "estimated_histogram" | "histogram", rest @ ..] => {
            let which = if *latency == "read_latency" { "read_latency_histogram" } else { "write_latency_histogram" };
            (which, rest.first().map(|table| named(node, table)).transpose()?)
        }
        _ => return Err(Refusal::NotFound),
    };
    let all = stats(node, table.as_deref()).await?;
    match (sum_of(metric), whole_of(metric, &all)) {
        (Some(count), _) => Ok(json!(all.iter().map(count).sum::<u64>())),
        (None, Some(value)) => Ok(value),
        (None, None) => Err(Refusal::NotFound),
    }
}

pub(super) async fn answer(node: &Rc<Node>, request: &Request, path: &[&str]) -> Answer {
    match (request.method, path) {
        (Method::Get, []) => Ok(every_table(node)
            .iter()
            .map(|def| json!({ "ks": def.keyspace, "cf": def.name, "type": "ColumnFamilies" }))
            .collect()),
        (Method::Get, ["name"]) => {
            Ok(every_table(node).iter().map(|def| json!(format!("{}:{}", def.keyspace, def.name))).collect())
        }
        (Method::Get, ["name", "keyspace"]) => {
            let system = node.system_keyspaces().map(|keyspace| json!(keyspace.name));
            Ok(system.chain(node.schema().keyspaces.keys().map(|name| json!(name))).collect())
        }
        (Method::Get, ["metrics", rest @ ..]) => metric(node, rest).await,
        (Method::Get, ["autocompaction", name]) => Ok(json!(node.storage.auto_compaction(named(node, name)?.id)?)),
        (Method::Post | Method::Delete, ["autocompaction", name]) => {
            let on = request.method == Method::Post;
            let table = named(node, name)?;
            let set = move |node: Rc<Node>, table| async move { node.storage.set_auto_compaction(table, on) };
            keyspaces::each(node, vec![table.id], set).await.map(|_| Value::Null)
        }
        (Method::Post, ["major_compaction", name]) => {
            let table = named(node, name)?;
            let compact = |node: Rc<Node>, table| async move { node.storage.compact(table).await };
            keyspaces::each(node, vec![table.id], compact).await.map(|_| Value::Null)
        }
        (Method::Get, ["compaction_strategy", name]) => {
            Ok(json!(named(node, name)?.options.compaction.get("class").cloned().unwrap_or_default()))
        }
        (Method::Get, ["sstables", "per_level", name]) => {
            let table = named(node, name)?.id;
            let levels = move |node: Rc<Node>| async move { node.storage.sstables_per_level(table) };
            let mut sum: Vec<u64> = Vec::new();
            for shard in node.on_every_shard("levels", levels).await? {
                let shard = shard?;
                sum.resize(sum.len().max(shard.len()), 0);
                sum.iter_mut().zip(shard).for_each(|(sum, n)| *sum += n);
            }
            Ok(json!(sum))
        }
        _ => Err(Refusal::NotFound),
    }
}
