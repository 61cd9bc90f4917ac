//! Metrics in Prometheus' text format, version 0.0.4, with Scylla's names where they mean the same: each value with the
//! shard that it is of.

use std::fmt::Write;
use std::rc::Rc;

use query::{Coordinated, CountsView, DRIFT_CLASSES_US, Node};
use reactor::Work;
use storage::{CacheStats, Histogram, Stats, TableStats};

use super::http::{Method, Request, Response};
use super::{Refusal, refused};

/// What one shard counts.
struct Shard {
    stats: Stats,
    counts: CountsView,
    work: Vec<(&'static str, reactor::WorkCount)>,
    used_cpu_ns: u64,
    stalls: u64,
    cached_statements: u64,
    uptime_ms: u64,
}

/// Text, metric by metric.
#[derive(Default)]
struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP scylla_{name} {help}\n# TYPE scylla_{name} {kind}");
    }

    fn line(&mut self, name: &str, shard: usize, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let _ = write!(self.0, "scylla_{name}{{");
        // In the order of names, as Scylla has them.
        let shard = shard.to_string();
        let mut all: Vec<(&str, &str)> = labels.iter().copied().chain([("shard", shard.as_str())]).collect();
        all.sort();
        for (at, (key, value)) in all.iter().enumerate() {
            let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = write!(self.0, "{}{key}=\"{escaped}\"", if at == 0 { "" } else { "," });
        }
        let _ = writeln!(self.0, "}} {value}");
    }

    fn each(&mut self, shards: &[Shard], (name, kind, help): (&str, &str, &str), value: impl Fn(&Shard) -> u64) {
        self.head(name, kind, help);
        for (at, shard) in shards.iter().enumerate() {
            self.line(name, at, &[], value(shard));
        }
    }

    fn cache(&mut self, shards: &[Shard], names: [&str; 3], pick: fn(&Stats) -> CacheStats) {
        let [hits, misses, bytes] = names;
        self.each(shards, (hits, "counter", "what was found in the cache"), |s| pick(&s.stats).hits);
        self.each(shards, (misses, "counter", "what was not"), |s| pick(&s.stats).misses);
        self.each(shards, (bytes, "gauge", "bytes in the cache"), |s| pick(&s.stats).bytes);
    }
}

const TABLE_METRICS: [(&str, &str, &str, fn(&TableStats) -> u64); 12] = [
    ("column_family_live_disk_space", "gauge", "bytes of SSTables", |t| t.disk_bytes),
    ("column_family_total_disk_space", "gauge", "bytes of SSTables", |t| t.disk_bytes),
    ("column_family_live_sstable", "gauge", "SSTables", |t| t.sstables),
    ("column_family_memtable_switch", "counter", "memtables that were flushed", |t| t.flushes),
    ("column_family_memtable_partition_writes", "counter", "writes to memtables", |t| t.writes),
    ("column_family_pending_compaction", "gauge", "compactions running or wanted", |t| t.pending_compactions),
    ("column_family_read_latency_count", "counter", "reads", |t| t.reads),
    ("column_family_write_latency_count", "counter", "writes", |t| t.writes),
    ("column_family_memtable_bytes", "gauge", "bytes of the active memtable", |t| t.memtable_bytes),
    ("sstables_bloom_filter_false_positives", "counter", "SSTables asked in vain", |t| t.bloom_false_positives),
    ("sstables_bloom_filter_negatives", "counter", "SSTables not asked", |t| t.bloom_negatives),
    ("column_family_quarantined_sstable", "gauge", "damaged SSTables", |t| t.quarantined_sstables),
];

fn requests(page: &mut Page, shards: &[Shard]) {
    let names: Vec<&str> =
        shards.iter().take(1).flat_map(|shard| shard.counts.plain.iter().map(|(name, _)| *name)).collect();
    for (at, name) in names.into_iter().enumerate() {
        page.each(shards, (name, "counter", "since the start"), |shard| shard.counts.plain[at].1);
    }
    let open = ("transport_current_connections", "gauge", "clients connected now");
    page.each(shards, open, |shard| shard.counts.connections_open);
    let cached = ("cql_prepared_cache_size", "gauge", "prepared statements kept");
    page.each(shards, cached, |shard| shard.cached_statements);
    page.head("transport_cql_errors_total", "counter", "errors answered, by type");
    for (at, shard) in shards.iter().enumerate() {
        // A type that never occurred is told too, so that its rate is known from the start.
        let always = ["protocol_error", "invalid", "syntax_error", "unavailable", "read_timeout", "write_timeout"];
        let all = always.into_iter().chain(shard.counts.errors.keys().copied().filter(|kind| !always.contains(kind)));
        for kind in all {
            let count = shard.counts.errors.get(kind).copied().unwrap_or(0);
            page.line("transport_cql_errors_total", at, &[("type", kind)], count);
        }
    }
    let named: std::collections::BTreeSet<&str> =
        shards.iter().flat_map(|shard| shard.counts.named.keys().copied()).collect();
    for name in named {
        let count = |shard: &Shard| shard.counts.named.get(name).copied().unwrap_or(0);
        page.each(shards, (name, "counter", "since the start"), count);
    }
    page.head("cql_writes_per_consistency_level", "counter", "statements and batches that write");
    for (at, shard) in shards.iter().enumerate() {
        for (level, count) in &shard.counts.writes {
            page.line("cql_writes_per_consistency_level", at, &[("consistency_level", level.name())], count);
        }
    }
    let drift = "transport_cql_client_timestamp_drift_histogram";
    page.head(drift, "histogram", "microseconds between clients' timestamps and the clock here");
    for (at, shard) in shards.iter().enumerate() {
        let (counts, mut upto) = (shard.counts.drift, 0);
        for (class, upper) in counts.classes.iter().zip(DRIFT_CLASSES_US) {
            upto += class;
            page.line(&format!("{drift}_bucket"), at, &[("le", &upper.to_string())], upto);
        }
        page.line(&format!("{drift}_bucket"), at, &[("le", "+Inf")], counts.count);
        page.line(&format!("{drift}_sum"), at, &[], counts.sum_us);
        page.line(&format!("{drift}_count"), at, &[], counts.count);
    }
}

/// Of the classes every fourth, each about twice the one before.
fn latencies(page: &mut Page, shards: &[Shard]) {
    for what in Coordinated::ALL {
        let name = format!("storage_proxy_coordinator_{}_latency", what.name());
        page.head(&name, "histogram", "microseconds until enough replicas had answered");
        for (at, shard) in shards.iter().enumerate() {
            let latency = &shard.counts.latencies[what as usize];
            let mut upto = 0;
            for (class, (count, upper)) in latency.classes.counts().iter().zip(Histogram::offsets()).enumerate() {
                upto += count;
                if class % 4 == 0 {
                    page.line(&format!("{name}_bucket"), at, &[("le", &upper.to_string())], upto);
                }
            }
            page.line(&format!("{name}_bucket"), at, &[("le", "+Inf")], latency.classes.count());
            page.line(&format!("{name}_sum"), at, &[], latency.sum_us);
            page.line(&format!("{name}_count"), at, &[], latency.classes.count());
        }
    }
}

fn storage(page: &mut Page, node: &Node, shards: &[Shard]) {
    let log = |shard: &Shard| shard.stats.commitlog;
    page.each(shards, ("commitlog_alloc", "counter", "records appended"), |s| log(s).appended_records);
    page.each(shards, ("commitlog_bytes_written", "counter", "bytes written"), |s| log(s).written_bytes);
    page.each(shards, ("commitlog_flush", "counter", "syncs"), |s| log(s).syncs);
    page.each(shards, ("commitlog_segments", "gauge", "segments in use"), |s| log(s).live_segments);
    page.each(shards, ("commitlog_unused_segments", "gauge", "segments to be used again"), |s| log(s).free_segments);
    page.each(shards, ("memory_dirty_bytes", "gauge", "bytes of memtables"), |s| s.stats.memtable_bytes);
    page.each(shards, ("database_requests_blocked_memory", "counter", "writes that waited for memory"), |s| {
        s.stats.writes_blocked
    });
    page.each(shards, ("compaction_manager_backlog", "gauge", "bytes compaction has yet to write"), |s| {
        s.stats.compaction_backlog_bytes
    });
    page.each(shards, ("compaction_manager_pending_compactions", "gauge", "compactions running or wanted"), |s| {
        s.stats.tables.values().map(|table| table.pending_compactions).sum()
    });
    page.each(shards, ("compaction_manager_completed_compactions", "counter", "compactions done"), |s| {
        s.stats.tables.values().map(|table| table.compactions).sum()
    });
    page.cache(shards, ["cache_row_hits", "cache_row_misses", "cache_bytes_used"], |stats| stats.rows);
    let index =
        ["sstables_index_page_cache_hits", "sstables_index_page_cache_misses", "sstables_index_page_cache_bytes"];
    page.cache(shards, index, |stats| stats.index_cache);
    let data = ["sstables_data_page_cache_hits", "sstables_data_page_cache_misses", "sstables_data_page_cache_bytes"];
    page.cache(shards, data, |stats| stats.cache);
    let schema = node.schema();
    for (name, kind, help, value) in TABLE_METRICS {
        page.head(name, kind, help);
        for (at, shard) in shards.iter().enumerate() {
            for (id, table) in &shard.stats.tables {
                let Some(def) = schema.table_by_id(*id) else { continue };
                page.line(name, at, &[("ks", &def.keyspace), ("cf", &def.name)], value(table));
            }
        }
    }
}

async fn page(node: &Rc<Node>) -> Result<String, Refusal> {
    let shard = |node: Rc<Node>| async move {
        Shard {
            stats: node.storage.stats(),
            counts: node.counts.view(),
            work: reactor::with_counters(|counters| {
                Work::ALL.iter().map(|work| (work.name(), counters.work(*work))).collect()
            }),
            used_cpu_ns: reactor::used_cpu_ns(),
            stalls: reactor::with_counters(|counters| counters.stalls.get()),
            cached_statements: node.prepared_statements() as u64,
            uptime_ms: node.uptime_ms(),
        }
    };
    let shards = node.on_every_shard("metrics", shard).await?;
    let mut page = Page::default();
    page.head("node_operation_mode", "gauge", "3: normal, 8: drained");
    page.line("node_operation_mode", 0, &[], if node.drained.get() { 8 } else { 3 });
    page.each(&shards, ("reactor_uptime_ms", "gauge", "milliseconds since the start"), |s| s.uptime_ms);
    page.each(&shards, ("reactor_stalls_count", "counter", "polls that held the shard too long"), |s| s.stalls);
    page.each(&shards, ("reactor_cpp_exceptions", "counter", "none: errors are values here"), |_| 0);
    page.head("reactor_work_total", "counter", "how often a kind of work was done");
    for (at, shard) in shards.iter().enumerate() {
        for (work, count) in &shard.work {
            page.line("reactor_work_total", at, &[("work", work)], count.times);
        }
    }
    page.head("reactor_work_amount_total", "counter", "how much of it: bytes, for most kinds");
    for (at, shard) in shards.iter().enumerate() {
        for (work, count) in &shard.work {
            page.line("reactor_work_amount_total", at, &[("work", work)], count.amount);
        }
    }
    page.head("reactor_cpu_used_time_ms", "counter", "milliseconds of CPU of the shard's thread");
    for (at, shard) in shards.iter().enumerate() {
        page.line("reactor_cpu_used_time_ms", at, &[], shard.used_cpu_ns as f64 / 1e6);
    }
    requests(&mut page, &shards);
    latencies(&mut page, &shards);
    storage(&mut page, node, &shards);
    Ok(page.0)
}

pub(super) async fn answer(node: &Rc<Node>, request: &Request, path: &[&str]) -> Response {
    if (request.method, path) != (Method::Get, &["metrics"]) {
        return refused(&Refusal::NotFound);
    }
    match page(node).await {
        Ok(text) => Response { status: 200, content_type: "text/plain; version=0.0.4", body: text.into_bytes() },
        Err(refusal) => refused(&refusal),
    }
}
