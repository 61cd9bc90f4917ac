//! The tables of the system keyspaces, as the statements that would create them.
//!
//! Names, types and keys are those of Apache Cassandra 3.11 (`SystemKeyspace`, `SchemaKeyspace`), which every driver
//! reads at connection; `peers_v2` and `system_virtual_schema` are those of 4.x, which newer clients ask for first.

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE system.local (key text PRIMARY KEY, bootstrapped text, broadcast_address inet, broadcast_port int, \
     cluster_name text, cql_version text, data_center text, gossip_generation int, host_id uuid, listen_address inet, \
     listen_port int, native_protocol_version text, partitioner text, rack text, release_version text, \
     rpc_address inet, rpc_port int, schema_version uuid, tokens frozen<set<text>>, \
     truncated_at frozen<map<uuid, blob>>)",
    "CREATE TABLE system.peers (peer inet PRIMARY KEY, data_center text, host_id uuid, preferred_ip inet, rack text, \
     release_version text, rpc_address inet, schema_version uuid, tokens frozen<set<text>>)",
    "CREATE TABLE system.peers_v2 (peer inet, peer_port int, data_center text, host_id uuid, native_address inet, \
     native_port int, preferred_ip inet, preferred_port int, rack text, release_version text, schema_version uuid, \
     tokens frozen<set<text>>, PRIMARY KEY (peer, peer_port))",
    "CREATE TABLE system.size_estimates (keyspace_name text, table_name text, range_start text, range_end text, \
     mean_partition_size bigint, partitions_count bigint, \
     PRIMARY KEY (keyspace_name, table_name, range_start, range_end))",
    "CREATE TABLE system_schema.keyspaces (keyspace_name text PRIMARY KEY, durable_writes boolean, \
     replication frozen<map<text, text>>)",
    "CREATE TABLE system_schema.tables (keyspace_name text, table_name text, additional_write_policy text, \
     bloom_filter_fp_chance double, caching frozen<map<text, text>>, cdc boolean, comment text, \
     compaction frozen<map<text, text>>, compression frozen<map<text, text>>, crc_check_chance double, \
     dclocal_read_repair_chance double, default_time_to_live int, extensions frozen<map<text, blob>>, \
     flags frozen<set<text>>, gc_grace_seconds int, id uuid, max_index_interval int, \
     memtable_flush_period_in_ms int, min_index_interval int, read_repair text, read_repair_chance double, \
     speculative_retry text, PRIMARY KEY (keyspace_name, table_name))",
    "CREATE TABLE system_schema.columns (keyspace_name text, table_name text, column_name text, \
     clustering_order text, column_name_bytes blob, kind text, position int, type text, \
     PRIMARY KEY (keyspace_name, table_name, column_name))",
    "CREATE TABLE system_schema.dropped_columns (keyspace_name text, table_name text, column_name text, \
     dropped_time timestamp, kind text, type text, PRIMARY KEY (keyspace_name, table_name, column_name))",
    "CREATE TABLE system_schema.types (keyspace_name text, type_name text, field_names frozen<list<text>>, \
     field_types frozen<list<text>>, PRIMARY KEY (keyspace_name, type_name))",
    "CREATE TABLE system_schema.functions (keyspace_name text, function_name text, \
     argument_types frozen<list<text>>, argument_names frozen<list<text>>, body text, called_on_null_input boolean, \
     language text, return_type text, PRIMARY KEY (keyspace_name, function_name, argument_types))",
    "CREATE TABLE system_schema.aggregates (keyspace_name text, aggregate_name text, \
     argument_types frozen<list<text>>, final_func text, initcond text, return_type text, state_func text, \
     state_type text, PRIMARY KEY (keyspace_name, aggregate_name, argument_types))",
    "CREATE TABLE system_schema.triggers (keyspace_name text, table_name text, trigger_name text, \
     options frozen<map<text, text>>, PRIMARY KEY (keyspace_name, table_name, trigger_name))",
    "CREATE TABLE system_schema.indexes (keyspace_name text, table_name text, index_name text, kind text, \
     options frozen<map<text, text>>, PRIMARY KEY (keyspace_name, table_name, index_name))",
    "CREATE TABLE system_schema.views (keyspace_name text, view_name text, base_table_id uuid, base_table_name text, \
     bloom_filter_fp_chance double, caching frozen<map<text, text>>, cdc boolean, comment text, \
     compaction frozen<map<text, text>>, compression frozen<map<text, text>>, crc_check_chance double, \
     dclocal_read_repair_chance double, default_time_to_live int, extensions frozen<map<text, blob>>, \
     gc_grace_seconds int, id uuid, include_all_columns boolean, max_index_interval int, \
     memtable_flush_period_in_ms int, min_index_interval int, read_repair_chance double, speculative_retry text, \
     where_clause text, PRIMARY KEY (keyspace_name, view_name))",
    "CREATE TABLE system.built_views (keyspace_name text, view_name text, status_replicated boolean, \
     PRIMARY KEY (keyspace_name, view_name))",
    "CREATE TABLE system.\"IndexInfo\" (table_name text, index_name text, value blob, \
     PRIMARY KEY (table_name, index_name))",
    "CREATE TABLE system_distributed.view_build_status (keyspace_name text, view_name text, host_id uuid, \
     status text, PRIMARY KEY ((keyspace_name, view_name), host_id))",
    "CREATE TABLE system_distributed.cdc_generation_timestamps (key text, time timestamp, expired timestamp, \
     PRIMARY KEY (key, time)) WITH CLUSTERING ORDER BY (time DESC)",
    "CREATE TABLE system_distributed.cdc_streams_descriptions_v2 (time timestamp, range_end bigint, \
     streams frozen<set<blob>>, PRIMARY KEY (time, range_end))",
    "CREATE TABLE system_virtual_schema.keyspaces (keyspace_name text PRIMARY KEY)",
    "CREATE TABLE system_virtual_schema.tables (keyspace_name text, table_name text, comment text, \
     PRIMARY KEY (keyspace_name, table_name))",
    "CREATE TABLE system_virtual_schema.columns (keyspace_name text, table_name text, column_name text, \
     clustering_order text, column_name_bytes blob, kind text, position int, type text, \
     PRIMARY KEY (keyspace_name, table_name, column_name))",
];
