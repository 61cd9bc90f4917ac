//! The command line.

use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use hwprofiles::quantity::{Duration, Quantity, Ratio};
use scenarios::Scale;

/// A wide-column database and the clockwork model of it.
#[derive(Debug, Parser)]
#[command(version, propagate_version = true)]
pub struct Arguments {
    /// What is logged to stderr: off, error, warn, info, debug, trace. RUST_LOG takes precedence.
    #[arg(long, global = true, default_value = "warn", value_name = "LEVEL")]
    pub log: String,
    /// How a line of the log is written.
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormat,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Run),
    Sensitivity(Sensitivity),
    Check(Check),
    List(List),
    Validate(Validate),
    Serve(Serve),
    Nodetool(crate::nodetool::args::Nodetool),
    Bench(Bench),
    Probe(Probe),
    Calibrate(Calibrate),
    Schema(Schema),
    Completions(Completions),
}

/// Run a scenario in simulation and hold it against its references.
///
/// Writes record.json, plot.svg and report.html under OUT/<scenario>/<system>/<seed>/, and a picture and a page of all
/// systems and seeds under OUT/<scenario>/. Two runs with one seed give equal records.
#[derive(Debug, Args)]
pub struct Run {
    /// A name from `orrery list`, or a YAML file.
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "SCENARIO")]
    pub scenarios: Vec<String>,
    /// Every scenario that reproduces a published report, and one table of what was simulated and what was published.
    #[arg(long)]
    pub all: bool,
    /// Only this seed, instead of the scenario's own; with --seeds the first.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// So many seeds, of whose values the median is told, instead of as many as the scenario wants.
    #[arg(long, value_name = "N")]
    pub seeds: Option<NonZeroU32>,
    /// Only this system of the scenario.
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    #[command(flatten)]
    pub scale: Rescale,
    /// Folder of the records.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub out: PathBuf,
    /// Print one JSON object a line instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Systems simulated side by side [default: as many as there are processors].
    #[arg(long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    #[command(flatten)]
    pub profiles: ProfileFolder,
}

/// Move every assumed figure of a scenario's profiles, one at a time, and print how far the published values move.
///
/// Each figure costs a simulation: a smaller --scale, a shorter --window, one --system and --only make it affordable.
#[derive(Debug, Args)]
pub struct Sensitivity {
    /// Names from `orrery list`, or YAML files.
    #[arg(required = true, value_name = "SCENARIO")]
    pub scenarios: Vec<String>,
    /// By how much each figure is raised.
    #[arg(long, default_value = "20 %", value_name = "RATIO", value_parser = Quantity::<Ratio>::parse)]
    pub by: Quantity<Ratio>,
    #[command(flatten)]
    pub scale: Rescale,
    /// Only this system of the scenario.
    #[arg(long, value_name = "NAME")]
    pub system: Option<String>,
    /// Only the values of this phase; phases behind it are not run.
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
    /// Only figures whose name has this in it, such as `costs` or `data disk`.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Print one JSON object a line instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Simulations side by side [default: as many as there are processors].
    #[arg(long, value_name = "N")]
    pub jobs: Option<std::num::NonZeroUsize>,
    #[command(flatten)]
    pub profiles: ProfileFolder,
}

/// A smaller or larger experiment than the scenario's own.
#[derive(Debug, Args)]
pub struct Rescale {
    /// Simulated bytes over real ones, such as 1/2000, instead of the scenario's own scale. Less than a scenario's `least`
    /// is raised to that.
    #[arg(long, value_name = "RATIO", value_parser = Quantity::<Ratio>::parse)]
    scale: Option<Quantity<Ratio>>,
    /// What a timed phase measures at least, in virtual time, such as 300ms, instead of the scenario's own window.
    #[arg(long, value_name = "TIME", value_parser = Duration::parse)]
    window: Option<Duration>,
}

impl Rescale {
    /// Whether the scale is not the one that the scenario's author chose.
    pub fn is_chosen(&self) -> bool {
        self.scale.is_some()
    }

    pub fn apply(&self, scale: &mut Scale) {
        *scale = self.scale.map_or(*scale, |data| scale.with_data(data));
        scale.window = self.window.unwrap_or(scale.window);
    }
}

/// Read scenarios and say what is wrong with them, or nothing.
#[derive(Debug, Args)]
pub struct Check {
    /// Names from `orrery list`, or YAML files [default: all that the binary carries].
    #[arg(value_name = "SCENARIO")]
    pub scenarios: Vec<String>,
    #[command(flatten)]
    pub profiles: ProfileFolder,
}

/// List the scenarios and profiles that the binary carries.
#[derive(Debug, Args)]
pub struct List {
    /// Print one JSON object a line.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub profiles: ProfileFolder,
}

#[derive(Debug, Args)]
pub struct ProfileFolder {
    /// Folder with further profiles (instances/, disks/, networks/, processors/, systems/), which take precedence.
    #[arg(long = "profiles", value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// Run a scenario on real servers and in simulation, and hold one against the other.
///
/// Without --hosts, nodes of this program are started on this machine, each pinned to processors of its own, and loaded
/// from the others; the simulated hosts have the same bounds. Exits with 7 where they differ beyond the scenario's budget.
#[derive(Debug, Args)]
pub struct Validate {
    /// A name from `orrery list`, or a YAML file.
    #[arg(required_unless_present = "suite", conflicts_with = "suite", value_name = "SCENARIO")]
    pub scenario: Option<String>,
    /// All scenarios named validate/.., and one table of them.
    #[arg(long)]
    pub suite: bool,
    /// Of the suite, those whose name has this in it.
    #[arg(long, value_name = "NAME", requires = "suite")]
    pub only: Option<String>,
    /// Print the table as Markdown.
    #[arg(long)]
    pub markdown: bool,
    /// Print one JSON object a line instead of a table.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Nodes to start on this machine.
    #[arg(long, default_value_t = 1, value_name = "N", conflicts_with = "hosts")]
    pub local: usize,
    /// Servers that run already, of any make, in a YAML file: docs/validating.md says how.
    #[arg(long, value_name = "FILE")]
    pub hosts: Option<PathBuf>,
    /// How long to measure phases that time ends, instead of what the scenario says.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: Option<u32>,
    /// How often a real run is repeated whose measurement is doubtful; the least doubtful counts.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub again: u32,
    /// Instance, disk and network profiles of this machine, as `orrery probe` names them.
    #[arg(long, default_value = "local", value_name = "NAME")]
    pub machine: String,
    /// System profile of the nodes, as `orrery calibrate` names it.
    #[arg(long, default_value = "orrery", value_name = "NAME", conflicts_with = "hosts")]
    pub system: String,
    /// System profile of the loaders.
    #[arg(long, default_value = "orrery-bench", value_name = "NAME", conflicts_with = "hosts")]
    pub loader_system: String,
    /// Processors for nodes and loaders [default: all that this process may use].
    #[arg(long, value_delimiter = ',', value_name = "CPU,..")]
    pub cpus: Vec<usize>,
    /// Where a folder for the nodes' data is made, which goes with them [default: the system's for temporary files].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Instead of the scenario's own seed.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Folder of the records.
    #[arg(long, default_value = "out", value_name = "DIR")]
    pub out: PathBuf,
    #[command(flatten)]
    pub profiles: ProfileFolder,
}

/// Print the JSON schema of scenario files, for editors.
#[derive(Debug, Args)]
pub struct Schema {}

/// Print a completion script for a shell.
#[derive(Debug, Args)]
pub struct Completions {
    pub shell: clap_complete::Shell,
}

/// Run a database node that CQL drivers can connect to.
#[derive(Debug, Args)]
pub struct Serve {
    /// Settings in a YAML file, as scylla.yaml or cassandra.yaml name them; what is given here takes precedence.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address and port for clients. Other nodes connect to the same address, port 7000 [default: 127.0.0.1:9042].
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = address)]
    pub listen: Option<SocketAddr>,
    /// Port on which the port that a client connects from, modulo the number of shards, chooses the shard; 0: none
    /// [default: 10000 above the port of --listen].
    #[arg(long, value_name = "PORT")]
    pub shard_aware_port: Option<u16>,
    /// The node's certificate, PEM, with those that sign it behind it: connections of clients are encrypted. Files that
    /// change are read again.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_key: Option<PathBuf>,
    /// Certificates of those who sign clients' certificates, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    pub tls_truststore: Option<PathBuf>,
    /// Refuse clients without a certificate that the truststore trusts.
    #[arg(long, requires = "tls_truststore")]
    pub tls_require_client_auth: bool,
    /// Port for encrypted connections; those of --listen stay plain [default: the port of --listen is encrypted].
    #[arg(long, value_name = "PORT")]
    pub tls_port: Option<u16>,
    /// Port of the admin HTTP API, which `orrery nodetool` uses, on the address of --listen; 0: none
    /// [default: 10000].
    #[arg(long, value_name = "PORT")]
    pub api_port: Option<u16>,
    /// Port of the metrics for Prometheus, on the address of --listen; 0: none [default: 9180].
    #[arg(long, value_name = "PORT")]
    pub prometheus_port: Option<u16>,
    /// Folder of the node's data, made if it is missing [default: orrery-data].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Folder of the commit log [default: DATA/commitlog].
    #[arg(long, value_name = "DIR")]
    pub commitlog: Option<PathBuf>,
    /// Addresses of all nodes of the cluster, this one among them, in the same order on every node
    /// [default: this node alone].
    #[arg(long, value_delimiter = ',', value_name = "ADDRESS,..")]
    pub nodes: Vec<IpAddr>,
    /// Join the running cluster of the node at this address, where its port for nodes is meant [default port: 7000]: with an
    /// empty folder of data. The node serves clients once it has the data of its part of the ring. A node that has joined
    /// finds its cluster again by what is in its folder.
    #[arg(long, value_name = "ADDRESS[:PORT]", value_parser = member, conflicts_with = "nodes")]
    pub join: Option<SocketAddr>,
    /// Name that the nodes of a cluster share and clients see [default: Orrery].
    #[arg(long, value_name = "NAME")]
    pub cluster_name: Option<String>,
    /// Who may connect: AllowAllAuthenticator; PasswordAuthenticator, under which clients log in as roles, of which the
    /// first is `cassandra`, whose password, the same word, wants to be changed at once; or CertificateAuthenticator,
    /// under which a client's certificate names its role, as auth_certificate_role_queries of the configuration says
    /// [default: AllowAllAuthenticator].
    #[arg(long, value_name = "CLASS")]
    pub authenticator: Option<String>,
    /// What those who have logged in may do: all with AllowAllAuthorizer, what was granted with CassandraAuthorizer
    /// [default: AllowAllAuthorizer].
    #[arg(long, value_name = "CLASS")]
    pub authorizer: Option<String>,
    /// Number of shards; each is one thread with its own part of the data. Fixed once there is data.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub shards: usize,
    /// Processors to pin the shards to, one each [default: not pinned].
    #[arg(long, value_delimiter = ',', value_name = "CPU,..")]
    pub cpus: Vec<usize>,
    /// When an acknowledged write is on disk: before it is acknowledged (batch), before that and with all that come
    /// within a window (group), or within the period [default: periodic].
    #[arg(long, value_enum, value_name = "MODE")]
    pub commitlog_sync: Option<Sync>,
    /// The period of --commitlog-sync periodic [default: 10000], or the window of group [default: 1000], in milliseconds.
    #[arg(long, value_name = "MS")]
    pub commitlog_sync_period: Option<u64>,
    /// Memory for memtables of the whole node, in MiB [default: an eighth of the machine's].
    #[arg(long, value_name = "MIB")]
    pub memtable_mib: Option<f64>,
    /// Memory for cached SSTable blocks of the whole node, in MiB [default: an eighth of the machine's].
    #[arg(long, value_name = "MIB")]
    pub cache_mib: Option<f64>,
    /// Limit of compaction's writes of the whole node, in MB/s; 0 is no limit [default: 0].
    #[arg(long, value_name = "MB/S")]
    pub compaction_throughput: Option<f64>,
    /// What the disks can do, in a file as ScyllaDB's iotune writes it (io_properties.yaml) [default: not known, and
    /// only the number of operations in flight is bounded].
    #[arg(long, value_name = "FILE")]
    pub io_properties: Option<PathBuf>,
    /// How long an idle shard keeps looking for work before it sleeps, in microseconds: lower latency for more CPU.
    #[arg(long, default_value_t = 0, value_name = "US")]
    pub busy_poll: u64,
}

/// Drive a CQL server with a cassandra-stress command line and print what it did.
///
/// Creates the keyspace and the table where they are missing. Works against any server of protocol v4.
#[derive(Debug, Args)]
pub struct Bench {
    /// The command line, as for cassandra-stress: "write n=1000000 cl=ONE -rate threads=64".
    #[arg(value_name = "STRESS", required_unless_present = "memory")]
    pub stress: Option<String>,
    /// Measure the memory of a cached row and of a row in a memtable instead, in this process, without a server.
    #[arg(long, conflicts_with = "stress")]
    pub memory: bool,
    /// Of --memory: the measurements, each in a process of its own.
    #[arg(long, hide = true, value_name = "STAGE", requires = "memory")]
    pub memory_stage: Option<String>,
    /// Addresses and ports of the nodes to drive.
    #[arg(long = "node", default_value = "127.0.0.1:9042", value_delimiter = ',', value_name = "ADDRESS[:PORT],..", value_parser = address)]
    pub nodes: Vec<SocketAddr>,
    /// How long to drive, such as 60s, instead of the end that the command line names.
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// The beginning that is not measured.
    #[arg(long, default_value = "0s", value_name = "TIME")]
    pub warmup: String,
    /// How long a server that does not answer is tried again.
    #[arg(long, default_value = "2s", value_name = "TIME")]
    pub wait: String,
    /// Keyspace of the table `standard1`.
    #[arg(long, default_value = "keyspace1", value_name = "NAME")]
    pub keyspace: String,
    /// Threads of this machine that share the load [default: one for each of --cpus, or one].
    #[arg(long, value_name = "N")]
    pub shards: Option<usize>,
    /// Processors to pin them to [default: not pinned].
    #[arg(long, value_delimiter = ',', value_name = "CPU,..")]
    pub cpus: Vec<usize>,
    /// How long an idle shard keeps looking for answers before it sleeps, in microseconds.
    #[arg(long, default_value_t = 0, value_name = "US")]
    pub busy_poll: u64,
    /// Keep connections to each shard of a node and ask the one that owns the partition, as Scylla's drivers do.
    #[arg(long)]
    pub shard_aware: bool,
    /// Of the keys drawn at random.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Measure this machine's disk, processor and loopback, and write them as profiles that scenarios can name.
///
/// Takes as long as --seconds, and writes up to 64 GiB into a file in FOLDER that it removes. OUT gets a folder for each
/// kind of profile, for `orrery run --profiles OUT`, and io_properties.yaml for `orrery serve --io-properties`.
#[derive(Debug, Args)]
pub struct Probe {
    /// A folder on the disk to be measured.
    #[arg(default_value = ".", value_name = "FOLDER")]
    pub folder: PathBuf,
    /// Folder of the profiles.
    #[arg(long, default_value = "profiles", value_name = "DIR")]
    pub out: PathBuf,
    /// Name of the profiles.
    #[arg(long, default_value = "local", value_name = "NAME")]
    pub name: String,
    /// How long to measure, beside writing the file.
    #[arg(long, default_value_t = 150.0, value_name = "N")]
    pub seconds: f64,
    /// A few seconds and at most 2 GiB: to see that it works.
    #[arg(long, conflicts_with = "seconds")]
    pub quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// Find what the engine's work costs on this machine, and write it as a system profile.
///
/// Runs nodes on one processor and the loading client on another, through mixes that differ in what they ask for, for
/// about a quarter of an hour, and fits a price to each kind of work. OUT/systems gets one profile for the server and
/// one for the client; OUT/calibration.json keeps what was measured.
#[derive(Debug, Args)]
pub struct Calibrate {
    /// Folder of the profiles.
    #[arg(long, default_value = "profiles", value_name = "DIR")]
    pub out: PathBuf,
    /// Name of the server's profile; the client's ends with -bench.
    #[arg(long, default_value = "orrery", value_name = "NAME")]
    pub name: String,
    /// Fit prices to what was measured before instead of measuring.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Folder for the nodes' data [default: the system's for temporary files].
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Processors, of which the first serves and the last drives [default: all that this process may use].
    #[arg(long, value_delimiter = ',', value_name = "CPU,..")]
    pub cpus: Vec<usize>,
    /// How often all mixes are run, each time about six minutes: more find steadier prices on a shared machine.
    #[arg(long, default_value = "3", value_name = "N")]
    pub rounds: NonZeroU32,
    /// A few seconds: to see that it works.
    #[arg(long)]
    pub quick: bool,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

impl Bench {
    /// The command line; clap asks for it where it is needed.
    pub fn stress(&self) -> &str {
        self.stress.as_deref().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sync {
    Batch,
    Group,
    Periodic,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    address_or(text, 9042)
}

/// Where a node listens for others.
fn member(text: &str) -> Result<SocketAddr, String> {
    address_or(text, 7000)
}

fn address_or(text: &str, port: u16) -> Result<SocketAddr, String> {
    let plain = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, port));
    text.parse().or_else(|_| plain()).map_err(|_| format!("'{text}' is not an IP address, with or without :PORT"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        <Arguments as clap::CommandFactory>::command().debug_assert();
    }

    #[test]
    fn addresses() {
        assert_eq!(address("127.0.0.2").map(|a| a.port()), Ok(9042));
        assert_eq!(address("127.0.0.2:1").map(|a| a.port()), Ok(1));
        assert_eq!(member("127.0.0.2").map(|a| a.port()), Ok(7000));
        assert!(address("localhost").is_err());
    }
}
