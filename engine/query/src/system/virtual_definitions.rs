//! Tables of keyspace `system` that show the node at work, and those that Scylla has beside the schema's.
//!
//! Names, types and keys follow Scylla's `docs/dev/system_keyspace.md`, `db/virtual_tables.cc` and
//! `db/schema_tables.cc`.

pub(super) const TABLES: &[&str] = &[
    "CREATE TABLE system.scylla_local (key text PRIMARY KEY, value text)",
    "CREATE TABLE system.config (name text PRIMARY KEY, source text, type text, value text)",
    "CREATE TABLE system.versions (key text PRIMARY KEY, build_id text, build_mode text, version text)",
    "CREATE TABLE system.protocol_servers (name text PRIMARY KEY, listen_addresses frozen<list<text>>, \
     protocol text, protocol_version text)",
    "CREATE TABLE system.runtime_info (group text, item text, value text, PRIMARY KEY (group, item))",
    "CREATE TABLE system.token_ring (keyspace_name text, table_name text, start_token text, endpoint inet, dc text, \
     end_token text, rack text, PRIMARY KEY (keyspace_name, table_name, start_token, endpoint))",
    "CREATE TABLE system.cluster_status (peer inet PRIMARY KEY, dc text, host_id uuid, load text, owns float, \
     status text, tokens int, up boolean)",
    "CREATE TABLE system.snapshots (keyspace_name text, table_name text, snapshot_name text, live bigint, \
     total bigint, PRIMARY KEY (keyspace_name, table_name, snapshot_name))",
    "CREATE TABLE system.clients (address inet, port int, client_type text, client_options frozen<map<text, text>>, \
     connection_stage text, driver_name text, driver_version text, hostname text, protocol_version int, \
     shard_id int, ssl_cipher_suite text, ssl_enabled boolean, ssl_protocol text, username text, \
     PRIMARY KEY (address, port, client_type))",
    "CREATE TABLE system.one_row (\"system$dummy\" text PRIMARY KEY)",
    "CREATE TABLE system_schema.scylla_tables (keyspace_name text, table_name text, \
     cdc frozen<map<text, text>>, partitioner text, version uuid, PRIMARY KEY (keyspace_name, table_name))",
    "CREATE TABLE system_schema.scylla_keyspaces (keyspace_name text PRIMARY KEY, initial_tablets int, \
     storage_options frozen<map<text, text>>, storage_type text)",
    "CREATE TABLE system_schema.scylla_aggregates (keyspace_name text, aggregate_name text, \
     argument_types frozen<list<text>>, reduce_func text, state_type text, \
     PRIMARY KEY (keyspace_name, aggregate_name, argument_types))",
];
