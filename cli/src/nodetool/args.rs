//! The commands of `orrery nodetool`, named as Cassandra's and Scylla's.

use std::net::IpAddr;

use clap::{ArgAction, Args, Subcommand};

/// Look after a running node, with the commands of Cassandra's nodetool, over its admin API.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub struct Nodetool {
    /// Print help: `-h` is the host, as everywhere where there is a nodetool.
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// The node's address.
    #[arg(short = 'h', long, default_value = "127.0.0.1", value_name = "ADDRESS")]
    pub host: IpAddr,
    /// Port of its admin API.
    #[arg(short, long, default_value_t = 10_000, value_name = "PORT")]
    pub port: u16,
    #[command(subcommand)]
    pub command: Command,
}

/// A keyspace and tables of it; without them, all.
#[derive(Debug, Args)]
pub struct Tables {
    #[arg(value_name = "KEYSPACE")]
    pub keyspace: Option<String>,
    #[arg(value_name = "TABLE")]
    pub tables: Vec<String>,
}

/// One table.
#[derive(Debug, Args)]
pub struct Table {
    #[arg(value_name = "KEYSPACE")]
    pub keyspace: String,
    #[arg(value_name = "TABLE")]
    pub table: String,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Write memtables to disk.
    Flush(Tables),
    /// Compact all SSTables of tables together.
    Compact(Tables),
    /// Remove data that does not belong to this node.
    Cleanup(Tables),
    /// Save what can be read of damaged SSTables.
    Scrub(Tables),
    /// Write SSTables anew in the current format.
    Upgradesstables(Tables),
    /// Rewrite SSTables without what others of the table delete.
    Garbagecollect(Tables),
    /// Let tables be compacted when their strategies want it.
    Enableautocompaction(Tables),
    /// Let tables be compacted only when asked.
    Disableautocompaction(Tables),
    /// Figures of tables.
    #[command(alias = "cfstats")]
    Tablestats(Tables),
    /// Percentiles of a table's latencies and reads.
    #[command(alias = "cfhistograms")]
    Tablehistograms(Table),
    /// Percentiles of how long statements took on this node as coordinator.
    Proxyhistograms,
    /// The partitions that are read and written most, sampled for a while.
    Toppartitions {
        #[arg(value_name = "KEYSPACE", requires = "table")]
        keyspace: Option<String>,
        #[arg(value_name = "TABLE")]
        table: Option<String>,
        /// In milliseconds.
        #[arg(value_name = "DURATION", default_value_t = 5000)]
        duration: u64,
        /// How many to list.
        #[arg(short = 'k', default_value_t = 10, value_name = "N")]
        count: usize,
        /// How many counters to keep: more are more exact.
        #[arg(short = 's', long, default_value_t = 256, value_name = "N")]
        capacity: usize,
    },
    /// What compacts now.
    Compactionstats,
    /// What was compacted within a week.
    Compactionhistory,
    /// End the compactions that are going on.
    Stop,
    /// State, load and part of the ring of each node.
    Status {
        #[arg(value_name = "KEYSPACE")]
        keyspace: Option<String>,
    },
    /// This node.
    Info,
    /// The cluster's name, partitioner and schema versions.
    Describecluster,
    /// Each token with its node.
    Ring,
    /// What nodes tell each other.
    Gossipinfo,
    /// Link the SSTables of now under a name.
    Snapshot {
        #[arg(value_name = "KEYSPACE")]
        keyspaces: Vec<String>,
        /// Name of the snapshot [default: the time].
        #[arg(short, long, value_name = "NAME")]
        tag: Option<String>,
        /// Only these tables, of one keyspace.
        #[arg(long = "table", visible_alias = "column-family", value_delimiter = ',', value_name = "TABLE,..")]
        tables: Vec<String>,
        /// Leave out what is in memory.
        #[arg(long)]
        skip_flush: bool,
        /// Remove it by itself after this time, such as 60s, 5m, 2h or 1d.
        #[arg(long, value_name = "TIME")]
        ttl: Option<String>,
    },
    /// Snapshots that there are.
    Listsnapshots,
    /// Remove snapshots.
    Clearsnapshot {
        #[arg(value_name = "KEYSPACE")]
        keyspaces: Vec<String>,
        #[arg(short, long, value_name = "NAME", required_unless_present = "all")]
        tag: Option<String>,
        /// Those of every name.
        #[arg(long, conflicts_with = "tag")]
        all: bool,
    },
    /// Take in SSTables that lie in a table's upload folder.
    Refresh(Table),
    /// Write everything to disk and serve no more clients, before the node is stopped.
    Drain,
    /// Trace a part of all requests, 0 to 1.
    Settraceprobability {
        probability: f64,
    },
    Gettraceprobability,
    /// Forget permissions, which this node does not cache: each statement sees them as they are.
    #[command(visible_aliases = ["invalidaterolescache", "invalidatecredentialscache"])]
    Invalidatepermissionscache,
    /// Take the certificates for clients' connections as the files are now.
    Reloadssl,
    /// Serve CQL clients.
    Enablebinary,
    /// Serve no new CQL clients.
    Disablebinary,
    Statusbinary,
    Version,
}
