//! The rows of the system tables.

use std::collections::BTreeMap;

use storage::{Clustering, Liveness, Partition, Row, Stamp};
use types::{
    AggregateDef, ColumnDef, ColumnKind, CqlType, FunctionDef, KeyspaceDef, TableDef, Token, UserType, collection,
    serialize_partition_key,
};

use super::facts::Facts;
use super::values::{Values, bigint, boolean, double, inet, int, map, set, text, uuid};
use super::{CQL_VERSION, NodeView, RELEASE_VERSION, View, virtual_rows};
use crate::{access, cdc};

fn list(items: &[String]) -> Vec<u8> {
    collection::write_collection(items.len(), items.iter().map(String::as_bytes))
}

pub(super) fn rows(table: &TableDef, view: &View<'_>, facts: &Facts) -> Vec<Values> {
    let keyspaces = || view.system.keyspaces().chain(view.schema.keyspaces.values());
    let tables = || keyspaces().flat_map(|keyspace| keyspace.tables.values());
    match (table.keyspace.as_str(), table.name.as_str()) {
        ("system", "local") => vec![local(view)],
        ("system", "peers") => view.peers.iter().map(peer).collect(),
        ("system", "peers_v2") => view.peers.iter().map(peer_v2).collect(),
        ("system_schema", "keyspaces") => keyspaces().map(|keyspace| keyspace_row(keyspace)).collect(),
        ("system_schema", "types") => {
            keyspaces().flat_map(|keyspace| keyspace.types.values()).map(|udt| type_row(udt)).collect()
        }
        ("system_schema", "tables") => tables().filter(|def| def.view.is_none()).map(|def| table_row(def)).collect(),
        ("system_schema", "functions") => {
            keyspaces().flat_map(|keyspace| keyspace.functions.values()).map(|def| function_row(def)).collect()
        }
        ("system_schema", "aggregates") => {
            let all = keyspaces()
                .flat_map(|keyspace| Vec::from_iter(keyspace.aggregates.values().map(|def| (keyspace, def))));
            all.map(|(keyspace, def)| aggregate_row(keyspace, def)).collect()
        }
        ("system_schema", "scylla_aggregates") => {
            let all = keyspaces().flat_map(|keyspace| keyspace.aggregates.values());
            all.filter_map(|def| scylla_aggregate_row(def)).collect()
        }
        ("system_schema", "columns") => {
            tables().flat_map(|def| def.columns().map(|column| column_row(def, column)).collect::<Vec<_>>()).collect()
        }
        ("system_schema", "dropped_columns") => tables().flat_map(|def| dropped_rows(def)).collect(),
        ("system_schema", "views" | "indexes")
        | ("system", "built_views" | "IndexInfo")
        | ("system_distributed", "view_build_status") => super::derived::rows(table, view),
        ("system_distributed", "cdc_generation_timestamps") => {
            vec![BTreeMap::from([("key", text("timestamps")), ("time", bigint(GENERATION_MS))])]
        }
        ("system_distributed", "cdc_streams_descriptions_v2") => {
            cdc::streams((view.starting_tokens)().into_iter()).map(|(end, id)| stream_row(end, id)).collect()
        }
        ("system_auth", name) => access::tables::rows(name, &view.schema.access),
        (
            "system",
            name @ ("roles" | "role_members" | "role_permissions" | "role_attributes" | "service_levels_v2"),
        ) => access::tables::rows(name, &view.schema.access),
        _ => virtual_rows::rows(table, view, facts),
    }
}

/// The streams are those of the nodes that the cluster started with, and stay: one generation, from before anything was
/// written.
const GENERATION_MS: i64 = 1;

fn stream_row(end: Token, id: [u8; 16]) -> Values {
    BTreeMap::from([
        ("time", bigint(GENERATION_MS)),
        ("range_end", bigint(end.0)),
        ("streams", collection::write_collection(1, [&id[..]])),
    ])
}

fn local(view: &View<'_>) -> Values {
    let node = &view.local;
    BTreeMap::from([
        ("key", text("local")),
        ("bootstrapped", text("COMPLETED")),
        ("broadcast_address", inet(node.address)),
        ("broadcast_port", int(node.internode_port.into())),
        ("cluster_name", text(view.cluster_name)),
        ("cql_version", text(CQL_VERSION)),
        ("data_center", text(&node.data_centre)),
        ("gossip_generation", int(1)),
        ("host_id", uuid(node.host_id)),
        ("listen_address", inet(node.address)),
        ("listen_port", int(node.internode_port.into())),
        ("native_protocol_version", text("4")),
        ("partitioner", text("org.apache.cassandra.dht.Murmur3Partitioner")),
        ("rack", text(&node.rack)),
        ("release_version", text(RELEASE_VERSION)),
        ("rpc_address", inet(node.address)),
        ("rpc_port", int(node.native_port.into())),
        ("schema_version", uuid(node.schema_version)),
        ("tokens", node.tokens.texts.clone()),
    ])
}

fn peer(node: &NodeView) -> Values {
    let mut values = BTreeMap::from([
        ("peer", inet(node.address)),
        ("data_center", text(&node.data_centre)),
        ("host_id", uuid(node.host_id)),
        ("rack", text(&node.rack)),
        ("release_version", text(RELEASE_VERSION)),
        ("rpc_address", inet(node.address)),
        ("tokens", node.tokens.texts.clone()),
    ]);
    if node.schema_version != 0 {
        values.insert("schema_version", uuid(node.schema_version));
    }
    values
}

fn peer_v2(node: &NodeView) -> Values {
    let mut values = peer(node);
    values.remove("rpc_address");
    values.insert("peer_port", int(node.internode_port.into()));
    values.insert("native_address", inet(node.address));
    values.insert("native_port", int(node.native_port.into()));
    values
}

fn keyspace_row(keyspace: &KeyspaceDef) -> Values {
    BTreeMap::from([
        ("keyspace_name", text(&keyspace.name)),
        ("durable_writes", boolean(keyspace.durable_writes)),
        ("replication", map(&keyspace.replication.to_options())),
    ])
}

fn flags(table: &TableDef) -> Vec<String> {
    let counter = table.is_counter().then_some("counter");
    ["compound"].into_iter().chain(counter).map(str::to_string).collect()
}

pub(super) fn table_row(table: &TableDef) -> Values {
    let options = &table.options;
    let other = |name: &str, default: &str| {
        let written = options.other.get(name).map(|value| value.trim_matches('\'').to_string());
        written.unwrap_or_else(|| default.to_string())
    };
    let number = |name: &str, default: i32| int(other(name, "").parse().unwrap_or(default));
    let fraction = |name: &str, default: f64| double(other(name, "").parse().unwrap_or(default));
    BTreeMap::from([
        ("keyspace_name", text(&table.keyspace)),
        ("table_name", text(&table.name)),
        ("bloom_filter_fp_chance", double(options.bloom_filter_fp_chance)),
        ("caching", map(&options.caching)),
        ("comment", text(&options.comment)),
        ("compaction", map(&options.compaction)),
        ("compression", map(&options.compression)),
        ("crc_check_chance", fraction("crc_check_chance", 1.0)),
        ("dclocal_read_repair_chance", fraction("dclocal_read_repair_chance", 0.0)),
        ("default_time_to_live", int(options.default_time_to_live_s as i32)),
        ("extensions", map(&BTreeMap::new())),
        ("flags", set(&flags(table))),
        ("gc_grace_seconds", int(options.gc_grace_seconds as i32)),
        ("id", uuid(table.id.0)),
        ("max_index_interval", number("max_index_interval", 2048)),
        ("memtable_flush_period_in_ms", number("memtable_flush_period_in_ms", 0)),
        ("min_index_interval", number("min_index_interval", 128)),
        ("read_repair_chance", fraction("read_repair_chance", 0.0)),
        ("speculative_retry", text(other("speculative_retry", "99PERCENTILE"))),
    ])
}

fn type_row(udt: &UserType) -> Values {
    let names: Vec<String> = udt.fields.iter().map(|(name, _)| name.clone()).collect();
    let types: Vec<String> = udt.field_types().map(ToString::to_string).collect();
    BTreeMap::from([
        ("keyspace_name", text(&udt.keyspace)),
        ("type_name", text(&udt.name)),
        ("field_names", list(&names)),
        ("field_types", list(&types)),
    ])
}

fn argument_types<'t>(types: impl IntoIterator<Item = &'t CqlType>) -> Vec<u8> {
    list(&types.into_iter().map(|ty| ty.without_frozen().to_string()).collect::<Vec<_>>())
}

fn function_row(def: &FunctionDef) -> Values {
    let names: Vec<String> = def.arguments.iter().map(|(name, _)| name.clone()).collect();
    BTreeMap::from([
        ("keyspace_name", text(&def.keyspace)),
        ("function_name", text(&def.name)),
        ("argument_types", argument_types(def.argument_types())),
        ("argument_names", list(&names)),
        ("body", text(&def.body)),
        ("called_on_null_input", boolean(def.called_on_null_input)),
        ("language", text(&def.language)),
        ("return_type", text(def.returns.to_string())),
    ])
}

fn aggregate_row(keyspace: &KeyspaceDef, def: &AggregateDef) -> Values {
    let finish = def.final_function.as_ref();
    let finished = finish.and_then(|name| keyspace.functions.get(&types::signature(name, [&def.state_type])));
    let returns = finished.map_or(&def.state_type, |function| &function.returns);
    let mut values = BTreeMap::from([
        ("keyspace_name", text(&def.keyspace)),
        ("aggregate_name", text(&def.name)),
        ("argument_types", argument_types(&def.arguments)),
        ("state_func", text(&def.state_function)),
        ("state_type", text(def.state_type.to_string())),
        ("return_type", text(returns.to_string())),
    ]);
    values.extend(finish.map(|name| ("final_func", text(name))));
    values.extend(def.initial.as_ref().map(|initial| ("initcond", text(initial))));
    values
}

fn scylla_aggregate_row(def: &AggregateDef) -> Option<Values> {
    let reduce = def.reduce_function.as_ref()?;
    Some(BTreeMap::from([
        ("keyspace_name", text(&def.keyspace)),
        ("aggregate_name", text(&def.name)),
        ("argument_types", argument_types(&def.arguments)),
        ("reduce_func", text(reduce)),
        ("state_type", text(def.state_type.to_string())),
    ]))
}

fn column_row(table: &TableDef, column: &ColumnDef) -> Values {
    let (kind, position) = match column.kind {
        ColumnKind::PartitionKey(position) => ("partition_key", i32::from(position)),
        ColumnKind::Clustering(position) => ("clustering", i32::from(position)),
        ColumnKind::Static => ("static", -1),
        ColumnKind::Regular => ("regular", -1),
    };
    let order = match (column.kind, column.descending) {
        (ColumnKind::Clustering(_), true) => "desc",
        (ColumnKind::Clustering(_), false) => "asc",
        _ => "none",
    };
    BTreeMap::from([
        ("keyspace_name", text(&table.keyspace)),
        ("table_name", text(&table.name)),
        ("column_name", text(&column.name)),
        ("clustering_order", text(order)),
        ("column_name_bytes", text(&column.name)),
        ("kind", text(kind)),
        ("position", int(position)),
        ("type", text(column.ty.to_string())),
    ])
}

fn dropped_rows(table: &TableDef) -> Vec<Values> {
    let row = |(name, dropped): (&String, &types::DroppedColumn)| {
        BTreeMap::from([
            ("keyspace_name", text(&table.keyspace)),
            ("table_name", text(&table.name)),
            ("column_name", text(name)),
            ("dropped_time", (dropped.dropped_us / 1000).to_be_bytes().to_vec()),
            ("kind", text(if dropped.is_static { "static" } else { "regular" })),
            ("type", text(&dropped.ty)),
        ])
    };
    table.dropped.iter().map(row).collect()
}

/// Groups rows by partition key, keys in order of first appearance, rows in clustering order.
pub(super) fn partitions(table: &TableDef, rows: Vec<Values>, stamp: &Stamp) -> Vec<Partition> {
    let mut order: Vec<Vec<u8>> = Vec::new();
    let mut by_key: BTreeMap<Vec<u8>, Vec<Row>> = BTreeMap::new();
    let take = |values: &Values, column: &ColumnDef| values.get(column.name.as_str()).cloned();
    for values in rows {
        let parts: Vec<Vec<u8>> =
            table.partition_key.iter().map(|column| take(&values, column).unwrap_or_default()).collect();
        let key = serialize_partition_key(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let clustering: Vec<Vec<u8>> =
            table.clustering.iter().map(|column| take(&values, column).unwrap_or_default()).collect();
        let cells = table.regulars.iter().enumerate().filter_map(|(index, column)| {
            let value = take(&values, column)?;
            Some((index as u16, stamp.cell(value.as_slice())))
        });
        let marker = match stamp.ttl_s {
            0 => Liveness::live(stamp.timestamp),
            ttl_s => Liveness::expiring(stamp.timestamp, ttl_s, stamp.now_s),
        };
        let row = Row { marker: Some(marker), cells: cells.collect(), ..Row::new(Clustering::new(&clustering)) };
        if !by_key.contains_key(&key) {
            order.push(key.clone());
        }
        by_key.entry(key).or_default().push(row);
    }
    let compare = |a: &Row, b: &Row| a.clustering.compare(&b.clustering, table);
    order
        .into_iter()
        .filter_map(|key| {
            let mut rows = by_key.remove(&key)?;
            rows.sort_by(compare);
            let mut partition = Partition::new(key);
            partition.rows = rows;
            Some(partition)
        })
        .collect()
}
