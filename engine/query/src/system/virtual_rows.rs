//! The rows of the virtual tables, and of the schema tables that only Scylla has.

use std::collections::BTreeMap;

use types::{Replication, TableDef, collection};

use super::facts::Facts;
use super::values::{Values, bigint, boolean, inet, int, map, text, uuid};
use super::{RELEASE_VERSION, View};

pub(super) fn rows(table: &TableDef, view: &View<'_>, facts: &Facts) -> Vec<Values> {
    match (table.keyspace.as_str(), table.name.as_str()) {
        ("system", "scylla_local") => scylla_local(view),
        ("system", "config") => config(facts),
        ("system", "versions") => vec![versions()],
        ("system", "protocol_servers") => vec![cql_server(view)],
        ("system", "runtime_info") => runtime_info(view, facts),
        ("system", "token_ring") => token_ring(view),
        ("system", "cluster_status") => cluster_status(view, facts),
        ("system", "clients") => clients(facts),
        ("system", "snapshots") => snapshots(facts),
        ("system", "one_row") => vec![BTreeMap::from([("system$dummy", text(""))])],
        ("system", "size_estimates") => size_estimates(view, facts),
        ("system_schema", "scylla_tables") => scylla_tables(view),
        _ => Vec::new(),
    }
}

fn scylla_local(view: &View<'_>) -> Vec<Values> {
    let row = |key: &str, value: String| BTreeMap::from([("key", text(key)), ("value", text(value))]);
    vec![
        row("group0_schema_version", types::uuid::to_text(&view.local.schema_version.to_be_bytes())),
        row("host_id", types::uuid::to_text(&view.local.host_id.to_be_bytes())),
    ]
}

fn config(facts: &Facts) -> Vec<Values> {
    let row = |(name, kind, value, origin): &(&str, crate::settings::Kind, crate::settings::Value, _)| {
        let origin: &crate::settings::Origin = origin;
        BTreeMap::from([
            ("name", text(name)),
            ("source", text(origin.name())),
            ("type", text(kind.name())),
            ("value", text(value.to_string())),
        ])
    };
    facts.settings.iter().map(row).collect()
}

fn versions() -> Values {
    BTreeMap::from([
        ("key", text("local")),
        ("build_id", text(env!("CARGO_PKG_VERSION"))),
        ("build_mode", text(if cfg!(debug_assertions) { "dev" } else { "release" })),
        ("version", text(RELEASE_VERSION)),
    ])
}

fn cql_server(view: &View<'_>) -> Values {
    let address = std::net::SocketAddr::new(view.local.address, view.local.native_port).to_string();
    BTreeMap::from([
        ("name", text("native")),
        ("listen_addresses", collection::write_collection(1, [address.as_bytes()])),
        ("protocol", text("cql")),
        ("protocol_version", text(super::CQL_VERSION)),
    ])
}

fn runtime_info(view: &View<'_>, facts: &Facts) -> Vec<Values> {
    let sum = |count: fn(&storage::Stats) -> u64| facts.stats.iter().map(count).sum::<u64>();
    let tables = |count: fn(&storage::TableStats) -> u64| {
        facts.stats.iter().flat_map(|stats| stats.tables.values()).map(count).sum::<u64>()
    };
    let memtable = sum(|stats| stats.memtable_bytes);
    let rows = &facts.stats;
    let cache = |pick: fn(&storage::Stats) -> storage::CacheStats, name: &'static str| {
        let sum = |count: fn(&storage::CacheStats) -> u64| rows.iter().map(|stats| count(&pick(stats))).sum::<u64>();
        let (hits, misses) = (sum(|cache| cache.hits), sum(|cache| cache.misses));
        let rate = if hits + misses == 0 { 0.0 } else { hits as f64 / (hits + misses) as f64 };
        vec![
            (name, "size", sum(|cache| cache.bytes).to_string()),
            (name, "hits", hits.to_string()),
            (name, "misses", misses.to_string()),
            (name, "requests", (hits + misses).to_string()),
            (name, "hit_rate_total", format!("{rate:.3}")),
        ]
    };
    let mut items = vec![
        ("generic", "cql_active", "true".to_string()),
        ("generic", "load", tables(|table| table.disk_bytes).to_string()),
        ("generic", "uptime", format!("{} seconds", facts.uptime_ms / 1000)),
        ("generic", "trace_probability", view.trace_probability.to_string()),
        ("memtable", "entries", tables(|table| table.memtable_partitions).to_string()),
        ("memtable", "memory_free", "0".to_string()),
        ("memtable", "memory_total", memtable.to_string()),
        ("memtable", "memory_used", memtable.to_string()),
    ];
    items.extend(cache(|stats| stats.rows, "cache"));
    items.extend(cache(|stats| stats.cache, "block_cache"));
    let row = |(group, item, value): (&str, &str, String)| {
        BTreeMap::from([("group", text(group)), ("item", text(item)), ("value", text(value))])
    };
    items.into_iter().map(row).collect()
}

fn token_ring(view: &View<'_>) -> Vec<Values> {
    let mut ring: Vec<(i64, &super::NodeView)> =
        view.nodes().flat_map(|node| node.tokens.values.iter().map(move |token| (*token, node))).collect();
    ring.sort_by_key(|(token, _)| *token);
    let keyspaces = view.schema.keyspaces.values().filter(|keyspace| keyspace.replication != Replication::Local);
    let mut rows = Vec::new();
    for keyspace in keyspaces {
        for (at, (start, _)) in ring.iter().enumerate() {
            // A range ends at the token of the node that it belongs to.
            let (end, node) = ring[(at + 1) % ring.len()];
            rows.push(BTreeMap::from([
                ("keyspace_name", text(&keyspace.name)),
                ("table_name", text("<ALL>")),
                ("start_token", text(start.to_string())),
                ("end_token", text(end.to_string())),
                ("endpoint", inet(node.address)),
                ("dc", text(&node.data_centre)),
                ("rack", text(&node.rack)),
            ]));
        }
    }
    rows
}

fn cluster_status(view: &View<'_>, facts: &Facts) -> Vec<Values> {
    let tokens: usize = view.nodes().map(|node| node.tokens.values.len()).sum();
    let load: u64 = facts.stats.iter().flat_map(|stats| stats.tables.values()).map(|table| table.disk_bytes).sum();
    let row = |node: &super::NodeView| {
        let mut values = BTreeMap::from([
            ("peer", inet(node.address)),
            ("dc", text(&node.data_centre)),
            ("host_id", uuid(node.host_id)),
            ("owns", (node.tokens.values.len() as f32 / tokens.max(1) as f32).to_be_bytes().to_vec()),
            ("status", text("NORMAL")),
            ("tokens", int(node.tokens.values.len() as i32)),
            ("up", boolean(node.address == view.local.address || node.is_alive)),
        ]);
        if node.address == view.local.address {
            values.insert("load", text(load.to_string()));
        }
        values
    };
    view.nodes().map(row).collect()
}

fn clients(facts: &Facts) -> Vec<Values> {
    let mut rows = Vec::new();
    for (shard, clients) in facts.clients.iter().enumerate() {
        for client in clients {
            let options = client.options.clone().unwrap_or_default();
            let stage = if client.options.is_some() { "READY" } else { "ESTABLISHED" };
            let mut row = BTreeMap::from([
                ("address", inet(client.address.ip())),
                ("port", int(client.address.port().into())),
                ("client_type", text("cql")),
                ("client_options", map(&options)),
                ("connection_stage", text(stage)),
                ("protocol_version", int(client.protocol_version.into())),
                ("shard_id", int(shard as i32)),
                ("ssl_enabled", boolean(client.encryption.is_some())),
                ("username", text(client.user.as_deref().unwrap_or("anonymous"))),
            ]);
            if let Some(encryption) = &client.encryption {
                row.insert("ssl_protocol", text(&encryption.protocol));
                row.insert("ssl_cipher_suite", text(&encryption.cipher_suite));
            }
            for (column, option) in [("driver_name", "DRIVER_NAME"), ("driver_version", "DRIVER_VERSION")] {
                if let Some(value) = options.get(option) {
                    row.insert(column, text(value));
                }
            }
            rows.push(row);
        }
    }
    rows
}

fn snapshots(facts: &Facts) -> Vec<Values> {
    let row = |snapshot: &crate::snapshots::TableSnapshot| {
        BTreeMap::from([
            ("keyspace_name", text(&snapshot.keyspace)),
            ("table_name", text(&snapshot.table)),
            ("snapshot_name", text(&snapshot.tag)),
            ("live", bigint(snapshot.live_bytes as i64)),
            ("total", bigint(snapshot.total_bytes as i64)),
        ])
    };
    facts.snapshots.iter().map(row).collect()
}

/// A row for each range that this node is the first replica of; keys are taken to lie evenly on the ring.
fn size_estimates(view: &View<'_>, facts: &Facts) -> Vec<Values> {
    let mut rows = Vec::new();
    let primary_ranges = (view.primary_ranges)();
    for table in view.schema.tables() {
        let of_shards = || facts.stats.iter().filter_map(|stats| stats.tables.get(&table.id));
        let partitions: u64 = of_shards().map(|stats| stats.sstable_partitions).sum();
        let bytes: u64 = of_shards().map(|stats| stats.disk_bytes).sum();
        let mean = bytes.checked_div(partitions).unwrap_or(0);
        let width: u128 = primary_ranges.iter().map(|range| range.width()).sum();
        let (mut passed, mut told) = (0, 0);
        for range in &primary_ranges {
            passed += range.width();
            // Told as the difference of sums, so that what is rounded adds up.
            let upto = (u128::from(partitions) as f64 * (passed as f64 / width.max(1) as f64)).round() as u64;
            rows.push(BTreeMap::from([
                ("keyspace_name", text(&table.keyspace)),
                ("table_name", text(&table.name)),
                ("range_start", text(range.start.0.to_string())),
                ("range_end", text(range.end.0.to_string())),
                ("mean_partition_size", bigint(mean as i64)),
                ("partitions_count", bigint((upto - told) as i64)),
            ]));
            told = upto;
        }
    }
    rows
}

fn scylla_tables(view: &View<'_>) -> Vec<Values> {
    let row = |table: &std::sync::Arc<TableDef>| {
        BTreeMap::from([
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("version", uuid(table.id.0 ^ u128::from(table.version))),
        ])
    };
    view.schema.tables().map(row).collect()
}
