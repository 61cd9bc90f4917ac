//! What a node is told when it starts.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use storage::SyncMode;

pub use query::Timeouts;

#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub cluster_name: String,
    /// This node among `nodes`.
    pub address: IpAddr,
    /// All nodes of the cluster, the same list in the same order on each of them.
    pub nodes: Vec<cluster::NodeConfig>,
    /// Where a node of the cluster listens for others that this one is to join, if it has not yet; `nodes` is then this
    /// node alone.
    pub join: Option<SocketAddr>,
    /// Whether a node that is alone listens for others, which may then join it.
    pub listens_alone: bool,
    /// A further port, where the port that a client connects from chooses the shard. `None`: there is none.
    pub shard_aware_port: Option<u16>,
    /// The port for encrypted connections, if they have their own.
    pub encrypted_port: Option<u16>,
    pub encrypted_shard_aware_port: Option<u16>,
    /// Where the admin API listens; it has no authentication, so at a place that only operators reach. `None`: nowhere.
    pub api_address: Option<SocketAddr>,
    /// Where Prometheus reads the metrics. `None`: nowhere.
    pub prometheus_address: Option<SocketAddr>,
    pub data_dir: String,
    pub commitlog_dir: String,
    pub sync: SyncMode,
    /// Memory for memtables, of the whole node, in bytes.
    pub memtable_bytes: u64,
    /// The part of it that active memtables take when the largest is flushed.
    pub memtable_cleanup_threshold: f64,
    /// Memory for cached blocks of SSTables, of the whole node, in bytes.
    pub cache_bytes: u64,
    /// The part of that which index blocks may take.
    pub index_cache_fraction: f64,
    pub commitlog_segment_bytes: u64,
    /// Commit log on disk, of the whole node, in bytes.
    pub commitlog_bytes: u64,
    /// First bits of tokens that do not choose the shard; fixed once there is data.
    pub ignore_msb: u8,
    /// Limit of compaction's writes of the whole node, in MB/s. `None`: unlimited.
    pub compaction_mb_per_s: Option<f64>,
    pub compaction_small_bytes: u64,
    /// Shares of compactions and flushes that follow nothing; see `storage::Config`.
    pub compaction_static_shares: Option<u32>,
    pub flush_static_shares: Option<u32>,
    /// Of the whole node; see `storage::Config`.
    pub flush_dirty_bytes: Option<u64>,
    pub reads_every_place: bool,
    /// Of the whole node; see `storage::Config`.
    pub backlog_memory_bytes: Option<u64>,
    /// See `storage::Config`.
    pub backlog_counts_all: bool,
    pub backlog_every: Duration,
    pub timeouts: Timeouts,
    /// Part of the reads that ask all replicas of the data centre, of tables that have no `dclocal_read_repair_chance`.
    pub read_repair_chance: f64,
    /// How long messages to a node may wait for others to leave with. `None`: they do not.
    pub coalescing_window: Option<Duration>,
    /// Requests that one connection may have in flight before no more are read from it.
    pub requests_per_connection_max: usize,
    /// Further settings by name, as a configuration file has them.
    pub settings: Vec<(String, String)>,
    /// Memory for requests of clients and the answers to them, of the whole node, in bytes.
    pub client_bytes: u64,
    /// Fault injection for tests of the durability oracle; see `storage::Config`.
    pub fault_skip_commitlog_sync: bool,
}

impl NodeConfig {
    /// A node alone, with Cassandra's defaults where they mean the same.
    pub fn single(address: IpAddr, data_dir: &str) -> Self {
        let storage = storage::Config::new(data_dir, format!("{data_dir}/commitlog"));
        Self {
            cluster_name: "Orrery".into(),
            address,
            nodes: vec![cluster::NodeConfig::new(address)],
            join: None,
            listens_alone: true,
            shard_aware_port: None,
            encrypted_port: None,
            encrypted_shard_aware_port: None,
            api_address: None,
            prometheus_address: None,
            settings: Vec::new(),
            data_dir: storage.data_dir,
            commitlog_dir: storage.commitlog_dir,
            sync: storage.sync,
            memtable_bytes: storage.memtable_limit_bytes,
            memtable_cleanup_threshold: storage.memtable_cleanup_threshold,
            cache_bytes: storage.cache_bytes,
            index_cache_fraction: storage.index_cache_fraction,
            commitlog_segment_bytes: storage.commitlog_segment_bytes,
            commitlog_bytes: storage.commitlog_limit_bytes,
            ignore_msb: types::IGNORE_MSB,
            compaction_mb_per_s: None,
            compaction_small_bytes: storage.compaction_small_bytes,
            compaction_static_shares: None,
            flush_static_shares: None,
            flush_dirty_bytes: None,
            reads_every_place: false,
            backlog_memory_bytes: None,
            backlog_counts_all: false,
            backlog_every: Duration::from_millis(250),
            timeouts: Timeouts::default(),
            read_repair_chance: 0.0,
            coalescing_window: None,
            requests_per_connection_max: 1024,
            client_bytes: 256 << 20,
            fault_skip_commitlog_sync: false,
        }
    }

    /// The settings that this struct has fields for.
    pub fn names(&self) -> Vec<String> {
        let own = Self { settings: Vec::new(), ..self.clone() };
        own.settings().into_iter().map(|(name, _)| name).collect()
    }

    /// What `system.config` shows: this, by the names of a configuration file, and the further settings.
    pub(crate) fn settings(&self) -> Vec<(String, String)> {
        let list = |items: &[&str]| format!("[{}]", items.join(", "));
        let ms = |duration: Duration| duration.as_millis().to_string();
        let local = self.nodes.iter().find(|node| node.address == self.address);
        let mut settings = vec![
            ("cluster_name", self.cluster_name.clone()),
            ("listen_address", self.address.to_string()),
            ("rpc_address", self.address.to_string()),
            ("data_file_directories", list(&[&self.data_dir])),
            ("commitlog_directory", self.commitlog_dir.clone()),
            ("commitlog_segment_size_in_mb", (self.commitlog_segment_bytes >> 20).to_string()),
            ("commitlog_total_space_in_mb", (self.commitlog_bytes >> 20).to_string()),
            ("memtable_cleanup_threshold", self.memtable_cleanup_threshold.to_string()),
            ("compaction_throughput_mb_per_sec", self.compaction_mb_per_s.unwrap_or(0.0).to_string()),
            ("read_request_timeout_in_ms", ms(self.timeouts.read)),
            ("write_request_timeout_in_ms", ms(self.timeouts.write)),
            ("range_request_timeout_in_ms", ms(self.timeouts.range)),
            ("truncate_request_timeout_in_ms", ms(self.timeouts.truncate)),
            ("otc_coalescing_window_us", self.coalescing_window.unwrap_or_default().as_micros().to_string()),
        ];
        match self.sync {
            SyncMode::Batch => settings.push(("commitlog_sync", "batch".into())),
            SyncMode::Group { window } => {
                settings.push(("commitlog_sync", "group".into()));
                settings.push(("commitlog_sync_group_window_in_ms", ms(window)));
            }
            SyncMode::Periodic { every } => settings.push(("commitlog_sync_period_in_ms", ms(every))),
        }
        if let Some(local) = local {
            settings.push(("num_tokens", local.num_tokens.to_string()));
            settings.push(("native_transport_port", local.native_port.to_string()));
        }
        let further = [
            ("native_shard_aware_transport_port", self.shard_aware_port),
            ("native_transport_port_ssl", self.encrypted_port),
            ("native_shard_aware_transport_port_ssl", self.encrypted_shard_aware_port),
        ];
        settings.extend(further.into_iter().filter_map(|(name, port)| Some((name, port?.to_string()))));
        if let Some(api) = self.api_address {
            settings.push(("api_address", api.ip().to_string()));
            settings.push(("api_port", api.port().to_string()));
        }
        if let Some(prometheus) = self.prometheus_address {
            settings.push(("prometheus_address", prometheus.ip().to_string()));
            settings.push(("prometheus_port", prometheus.port().to_string()));
        }
        let settings = settings.into_iter().map(|(name, value)| (name.to_string(), value));
        settings.chain(self.settings.iter().cloned()).collect()
    }

    /// One shard's share of it.
    pub(crate) fn storage(&self, shard: usize, shards: usize) -> storage::Config {
        let share = |bytes: u64| bytes / shards as u64;
        storage::Config {
            shard: shard as u32,
            shards: shards as u32,
            sync: self.sync,
            memtable_limit_bytes: share(self.memtable_bytes),
            memtable_cleanup_threshold: self.memtable_cleanup_threshold,
            cache_bytes: share(self.cache_bytes),
            index_cache_fraction: self.index_cache_fraction,
            commitlog_segment_bytes: self.commitlog_segment_bytes,
            commitlog_limit_bytes: share(self.commitlog_bytes),
            compaction_mb_per_s: self.compaction_mb_per_s.map(|rate| rate / shards as f64),
            compaction_small_bytes: self.compaction_small_bytes,
            compaction_static_shares: self.compaction_static_shares,
            flush_static_shares: self.flush_static_shares,
            flush_dirty_bytes: self.flush_dirty_bytes.map(share),
            reads_every_place: self.reads_every_place,
            backlog_memory_bytes: self.backlog_memory_bytes.map(share),
            backlog_counts_all: self.backlog_counts_all,
            backlog_every: self.backlog_every,
            fault_skip_commitlog_sync: self.fault_skip_commitlog_sync,
            ..storage::Config::new(&self.data_dir, &self.commitlog_dir)
        }
    }
}
