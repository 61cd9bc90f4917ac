//! Which partitions are busiest: sampled on every shard for a while, as Scylla's `toppartitions`.

use std::rc::Rc;
use std::time::Duration;

use query::{Node, Sampled, TopPartition};
use reactor::time;
use serde_json::{Value, json};
use types::TableId;

use super::http::Request;
use super::{Answer, Refusal, tables};

/// Of Cassandra's nodetool.
const CAPACITY: usize = 256;
const LIST_SIZE: usize = 10;
const DURATION_MS: u64 = 5000;
/// Whoever asks waits, and holds a connection.
const DURATION_MAX_MS: u64 = 10 * 60 * 1000;

fn number<T: std::str::FromStr + PartialOrd>(request: &Request, name: &str, usual: T, max: T) -> Result<T, Refusal> {
    let Some(text) = request.parameter(name) else { return Ok(usual) };
    let found = text.parse().ok().filter(|number| *number <= max);
    found.ok_or_else(|| Refusal::Wrong(format!("{text:?} is no {name}")))
}

fn listed(node: &Node, sampled: Vec<TopPartition>, of: Option<TableId>, size: usize) -> Value {
    let mut all: Vec<TopPartition> =
        sampled.into_iter().filter(|one| of.is_none_or(|table| table == one.table)).collect();
    all.sort_by_key(|one| std::cmp::Reverse(one.count));
    let entry = |one: TopPartition| {
        let (keyspace, table, key) = node.partition_name(one.table, &one.key)?;
        let partition = if of.is_some() { key } else { format!("({keyspace}:{table}) {key}") };
        Some(json!({ "partition": partition, "count": one.count, "error": one.error }))
    };
    all.into_iter().filter_map(entry).take(size).collect()
}

/// Of one table, from `keyspace:table`.
pub(super) async fn of_table(node: &Rc<Node>, request: &Request, name: &str) -> Answer {
    let table = tables::named(node, name)?.id;
    answer(node, request, Some(table)).await
}

/// Of one table, or of all.
pub(super) async fn answer(node: &Rc<Node>, request: &Request, of: Option<TableId>) -> Answer {
    let duration_ms = number(request, "duration", DURATION_MS, DURATION_MAX_MS)?;
    let capacity = number(request, "capacity", CAPACITY, 1 << 16)?;
    let size = number(request, "list_size", LIST_SIZE, capacity)?;
    let start = move |node: Rc<Node>| async move { node.journal.sampling.start(capacity) };
    if node.on_every_shard("sample", start).await?.contains(&false) {
        return Err(Refusal::Failed("partitions are being sampled already; try again later".into()));
    }
    time::sleep(Duration::from_millis(duration_ms)).await;
    let stop = |node: Rc<Node>| async move { node.journal.sampling.stop() };
    let shards: Vec<Sampled> = node.on_every_shard("sample", stop).await?;
    // A partition belongs to one shard: nothing is counted twice.
    let distinct = |count: fn(&Sampled) -> u64| shards.iter().map(count).sum::<u64>();
    let (read, written) = (distinct(|one| one.distinct_read), distinct(|one| one.distinct_written));
    let (reads, writes): (Vec<_>, Vec<_>) = shards.into_iter().map(|one| (one.reads, one.writes)).unzip();
    let list = |sampled: Vec<Vec<TopPartition>>| listed(node, sampled.into_iter().flatten().collect(), of, size);
    Ok(json!({
        "read_cardinality": read, "read": list(reads), "write_cardinality": written, "write": list(writes),
    }))
}
