//! Nodes of `orrery serve` on this machine, within bounds of processors and memory: started, awaited, looked at, stopped.
//!
//! 1. A cluster has loopback addresses that nobody listens on and a folder of its own, which goes with it.
//! 2. Nodes run exactly what their [`NodeConfig`] says, which is what simulated ones are told: memory for memtables and
//!    cache, the commit log's mode and sizes, tokens, compaction's limit.
//! 3. No process outlives its cluster: a dropped cluster kills its nodes, whatever failed before; [`stop_all`] is for
//!    the end of this process by a signal.

use std::fs::{self, File};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use scenarios::client::{TableSpec, Target};
use server::NodeConfig;
use storage::SyncMode;

use crate::http;
use crate::metrics::Metrics;

/// How long a node may take until it is ready, to replay a commit log, and to end.
const START_MAX: Duration = Duration::from_secs(60);
const STOP_MAX: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(10);
/// How long a client tries a node that has just said that it is ready.
const PATIENCE: Duration = Duration::from_secs(10);

const CQL_PORT: u16 = 9042;
/// The defaults of `orrery serve`, which hold as every node has an address of its own.
const API_PORT: u16 = 10_000;
const METRICS_PORT: u16 = 9180;

#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    #[error("cannot make a folder for the nodes' data in {path}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("no loopback address is free")]
    NoAddress,
    #[error("cannot start {program}")]
    Program { program: PathBuf, source: io::Error },
    #[error("node {node} ended with {status} before it was ready; its log ends with\n{log}")]
    Ended { node: usize, status: ExitStatus, log: String },
    #[error("node {node} was not ready within {START_MAX:?}; its log ends with\n{log}")]
    NotReady { node: usize, log: String },
    #[error("node {node} does not answer on {address}")]
    Silent { node: usize, address: SocketAddr, source: io::Error },
    #[error("node {node} answers {status} to {request}: {body}")]
    Refused { node: usize, request: String, status: String, body: String },
    #[error("node {node} ended with {status} when it was stopped; its log ends with\n{log}")]
    Stop { node: usize, status: String, log: String },
}

/// What to start.
#[derive(Clone, Debug)]
pub struct Nodes {
    /// An `orrery`; [`this_program`] is the usual one.
    pub program: PathBuf,
    /// What every node has in common. Addresses and folders are given here.
    pub config: NodeConfig,
    pub shards: usize,
    /// For each node, the processors of its shards; an empty list pins nothing.
    pub cpus: Vec<Vec<usize>>,
    pub busy_poll: Duration,
    /// Where the folder for the data is made; the system's folder for temporary files if absent.
    pub data: Option<PathBuf>,
}

impl Nodes {
    /// One node with one shard.
    pub fn one(place: &Place, config: NodeConfig) -> Self {
        Self {
            program: place.program.clone(),
            config,
            shards: 1,
            cpus: vec![place.server_cpu.into_iter().collect()],
            busy_poll: Duration::ZERO,
            data: place.folder.clone(),
        }
    }
}

/// Where a node and its client run, each on a processor of its own; `None` pins nothing.
#[derive(Clone, Debug)]
pub struct Place {
    /// The `orrery` to start.
    pub program: PathBuf,
    pub server_cpu: Option<usize>,
    pub loader_cpu: Option<usize>,
    /// Folder for the node's data; the system's folder for temporary files if absent.
    pub folder: Option<PathBuf>,
}

/// The program that runs now.
pub fn this_program() -> Result<PathBuf, LocalError> {
    std::env::current_exe().map_err(|source| LocalError::Program { program: "orrery".into(), source })
}

fn asked(node: usize, address: SocketAddr, method: &str, target: &str) -> Result<String, LocalError> {
    let silent = |source| LocalError::Silent { node: node + 1, address, source };
    let answer = http::ask(address, method, target).map_err(silent)?;
    if answer.status != "200" {
        let request = format!("{method} {target}");
        return Err(LocalError::Refused { node: node + 1, request, status: answer.status, body: answer.body });
    }
    Ok(answer.body)
}

/// A major compaction that a node was asked for.
pub struct Compacting {
    asked: JoinHandle<Result<(), LocalError>>,
}

impl Compacting {
    pub fn is_over(&self) -> bool {
        self.asked.is_finished()
    }

    /// Waits for its end.
    pub fn end(self) -> Result<(), LocalError> {
        self.asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Processes of all clusters, by number, so that a signal's handler finds them.
static PROCESSES: Mutex<Vec<(u64, Child)>> = Mutex::new(Vec::new());
static FOLDERS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn processes() -> MutexGuard<'static, Vec<(u64, Child)>> {
    PROCESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folders() -> MutexGuard<'static, Vec<PathBuf>> {
    FOLDERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Kills every node of every cluster of this process and removes their data: before it ends by a signal.
pub fn stop_all() {
    for (_, mut process) in processes().drain(..) {
        // Fails only if it ended already, which `wait` then finds.
        let _ = process.kill();
        let _ = process.wait();
    }
    for folder in folders().drain(..) {
        let _ = fs::remove_dir_all(folder);
    }
}

struct Node {
    address: IpAddr,
    log: PathBuf,
    /// In [`PROCESSES`].
    process: u64,
}

/// Running nodes, ready for clients.
pub struct LocalCluster {
    program: PathBuf,
    nodes: Vec<Node>,
    folder: Option<tempfile::TempDir>,
    cpus: Vec<usize>,
}

impl LocalCluster {
    /// Starts the nodes and waits until all of them serve clients.
    pub fn start(nodes: &Nodes) -> Result<Self, LocalError> {
        let parent = nodes.data.clone().unwrap_or_else(std::env::temp_dir);
        let made = fs::create_dir_all(&parent)
            .and_then(|()| tempfile::Builder::new().prefix("orrery-nodes-").tempdir_in(&parent));
        let folder = made.map_err(|source| LocalError::Folder { path: parent, source })?;
        folders().push(folder.path().to_path_buf());
        let network = free_network(nodes.cpus.len()).ok_or(LocalError::NoAddress)?;
        let addresses: Vec<IpAddr> = (0..nodes.cpus.len()).map(|node| network(node).into()).collect();
        let (program, cpus) = (nodes.program.clone(), nodes.cpus.concat());
        let mut cluster = Self { program, nodes: Vec::new(), folder: Some(folder), cpus };
        for node in 0..addresses.len() {
            let started = cluster.spawn(nodes, node, &addresses)?;
            cluster.nodes.push(started);
        }
        for node in 0..addresses.len() {
            cluster.await_ready(node)?;
        }
        Ok(cluster)
    }

    /// What was started.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The processors that nodes are pinned to; several may have the same.
    pub fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    /// Where the data lies.
    pub fn folder(&self) -> &Path {
        self.folder.as_ref().expect("the folder goes with the cluster").path()
    }

    fn spawn(&self, nodes: &Nodes, node: usize, addresses: &[IpAddr]) -> Result<Node, LocalError> {
        let folder = self.folder().join(format!("node-{}", node + 1));
        let in_folder = |source| LocalError::Folder { path: folder.clone(), source };
        fs::create_dir(&folder).map_err(in_folder)?;
        fs::write(folder.join("orrery.yaml"), settings(&nodes.config)).map_err(in_folder)?;
        let log = folder.join("log");
        let output = File::create(&log).map_err(in_folder)?;
        let mut command = Command::new(&nodes.program);
        command.args(arguments(nodes, node, addresses, &folder));
        command.stdin(Stdio::null()).stdout(output.try_clone().map_err(in_folder)?).stderr(output);
        let process =
            command.spawn().map_err(|source| LocalError::Program { program: nodes.program.clone(), source })?;
        let id = u64::from(process.id());
        processes().push((id, process));
        Ok(Node { address: addresses[node], log, process: id })
    }

    fn await_ready(&self, node: usize) -> Result<(), LocalError> {
        let Node { log, process, .. } = &self.nodes[node];
        let until = Instant::now() + START_MAX;
        loop {
            // The server says so once clients are served on all its shards.
            let text = fs::read_to_string(log).unwrap_or_default();
            if text.lines().any(|line| line.starts_with("ready: ")) {
                return Ok(());
            }
            if let Some(status) = ended(*process) {
                return Err(LocalError::Ended { node: node + 1, status, log: tail(log) });
            }
            if Instant::now() > until {
                return Err(LocalError::NotReady { node: node + 1, log: tail(log) });
            }
            thread::sleep(LOOK);
        }
    }

    /// Where clients connect.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().map(|node| SocketAddr::new(node.address, CQL_PORT)).collect()
    }

    /// A table of a node that has just said that it is ready, for one client.
    pub fn target(&self, table: TableSpec, connections_per_host: u32) -> Target {
        Target { nodes: self.addresses(), table, connections_per_host, shard_aware: false, patience: PATIENCE }
    }

    pub fn process_ids(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.process as u32).collect()
    }

    /// What every node counts of itself, in the nodes' order.
    pub fn metrics(&self) -> Result<Vec<Metrics>, LocalError> {
        let page = |node: usize| self.ask(node, METRICS_PORT, "GET", "/metrics").map(|page| Metrics::parse(&page));
        (0..self.nodes.len()).map(page).collect()
    }

    /// Asks a node's admin API.
    pub fn api(&self, node: usize, method: &str, target: &str) -> Result<String, LocalError> {
        self.ask(node, API_PORT, method, target)
    }

    fn ask(&self, node: usize, port: u16, method: &str, target: &str) -> Result<String, LocalError> {
        asked(node, SocketAddr::new(self.nodes[node].address, port), method, target)
    }

    /// Writes all memtables to disk and waits until compaction has nothing left to do.
    pub fn quiesce(&self) -> Result<(), LocalError> {
        for node in 0..self.nodes.len() {
            self.api(node, "POST", "/storage_service/flush")?;
        }
        self.rest()
    }

    /// Waits until compaction has nothing left to do.
    pub fn rest(&self) -> Result<(), LocalError> {
        while self.metrics()?.iter().any(|node| node.sum("column_family_pending_compaction") > 0.0) {
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Has a node compact all that is on disk of a keyspace's tables, and does not wait for it. `None`: there is no such
    /// node.
    pub fn compact(&self, node: usize, keyspace: &str) -> Option<Compacting> {
        let address = SocketAddr::new(self.nodes.get(node)?.address, API_PORT);
        let request = format!("/storage_service/keyspace_compaction/{keyspace}?flush_memtables=false");
        Some(Compacting { asked: thread::spawn(move || asked(node, address, "POST", &request).map(drop)) })
    }

    /// Ends all nodes as a service manager does, and removes their data.
    pub fn stop(mut self) -> Result<(), LocalError> {
        for node in &self.nodes {
            // Nodes that have ended by themselves are found below.
            let _ = Command::new("kill").arg("-TERM").arg(node.process.to_string()).stderr(Stdio::null()).status();
        }
        let until = Instant::now() + STOP_MAX;
        let nodes = std::mem::take(&mut self.nodes);
        let mut first = Ok(());
        for (number, node) in nodes.iter().enumerate() {
            let failed = loop {
                match ended(node.process) {
                    Some(status) if status.success() => break None,
                    Some(status) => break Some(status.to_string()),
                    None if Instant::now() > until => break Some(format!("no end within {STOP_MAX:?}")),
                    None => thread::sleep(LOOK),
                }
            };
            if let Some(status) = failed.filter(|_| first.is_ok()) {
                first = Err(LocalError::Stop { node: number + 1, status, log: tail(&node.log) });
            }
        }
        self.kill(&nodes);
        first
    }

    fn kill(&mut self, nodes: &[Node]) {
        let mut processes = processes();
        for node in nodes {
            let Some(index) = processes.iter().position(|(id, _)| *id == node.process) else { continue };
            let (_, mut process) = processes.swap_remove(index);
            // Fails only if it ended already, which `wait` then finds.
            let _ = process.kill();
            let _ = process.wait();
        }
        drop(processes);
        if let Some(folder) = self.folder.take() {
            folders().retain(|path| path != folder.path());
        }
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        let nodes = std::mem::take(&mut self.nodes);
        self.kill(&nodes);
    }
}

/// How a process ended, if it has.
fn ended(process: u64) -> Option<ExitStatus> {
    let mut processes = processes();
    let (_, child) = processes.iter_mut().find(|(id, _)| *id == process)?;
    child.try_wait().ok().flatten()
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}

/// A loopback network on whose first addresses nobody listens. 127.0.0.x is left to people.
fn free_network(nodes: usize) -> Option<impl Fn(usize) -> Ipv4Addr> {
    const NETWORKS: u32 = 1 << 12;
    let first = std::process::id() % NETWORKS;
    let address = |network: u32, node: usize| {
        let [_, _, high, low] = network.to_be_bytes();
        Ipv4Addr::new(127, 128 + high, low, node as u8 + 1)
    };
    let is_free = |network: u32| {
        let mut all = (0..nodes).flat_map(|node| [CQL_PORT, METRICS_PORT, API_PORT].map(|port| (node, port)));
        all.all(|(node, port)| TcpListener::bind((address(network, node), port)).is_ok())
    };
    let network = (0..64).map(|step| (first + step) % NETWORKS).find(|network| is_free(*network))?;
    Some(move |node| address(network, node))
}

/// The command line of one node.
fn arguments(nodes: &Nodes, node: usize, addresses: &[IpAddr], folder: &Path) -> Vec<String> {
    let config = &nodes.config;
    let mut all: Vec<String> = vec!["serve".into()];
    let mut add = |option: &str, value: String| all.extend([option.to_string(), value]);
    let list = |items: &[usize]| items.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mib = |bytes: u64| (bytes as f64 / f64::from(1 << 20)).to_string();
    add("--config", folder.join("orrery.yaml").display().to_string());
    add("--data", folder.join("data").display().to_string());
    add("--listen", SocketAddr::new(addresses[node], CQL_PORT).to_string());
    add("--nodes", addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(","));
    add("--shards", nodes.shards.to_string());
    if !nodes.cpus[node].is_empty() {
        add("--cpus", list(&nodes.cpus[node]));
    }
    add("--memtable-mib", mib(config.memtable_bytes));
    add("--cache-mib", mib(config.cache_bytes));
    add("--busy-poll", nodes.busy_poll.as_micros().to_string());
    let (mode, period) = match config.sync {
        SyncMode::Batch => ("batch", None),
        SyncMode::Group { window } => ("group", Some(window)),
        SyncMode::Periodic { every } => ("periodic", Some(every)),
    };
    add("--commitlog-sync", mode.into());
    if let Some(period) = period {
        add("--commitlog-sync-period", period.as_millis().to_string());
    }
    if let Some(rate) = config.compaction_mb_per_s {
        add("--compaction-throughput", rate.to_string());
    }
    all
}

/// What the command line has no option for, by the names of a configuration file.
fn settings(config: &NodeConfig) -> String {
    let mib = |bytes: u64| (bytes >> 20).max(1);
    let mut text = format!(
        "commitlog_segment_size_in_mb: {}\ncommitlog_total_space_in_mb: {}\nmemtable_cleanup_threshold: {}\n",
        mib(config.commitlog_segment_bytes),
        mib(config.commitlog_bytes),
        config.memtable_cleanup_threshold
    );
    if let Some(window) = config.coalescing_window {
        text += &format!("otc_coalescing_window_us: {}\n", window.as_micros());
    }
    if let Some(node) = config.nodes.first() {
        text += &format!("num_tokens: {}\n", node.num_tokens);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_told_what_its_configuration_says() {
        let mut config = NodeConfig::single(Ipv4Addr::LOCALHOST.into(), "anywhere");
        (config.memtable_bytes, config.cache_bytes) = (3 << 19, 64 << 20);
        config.sync = SyncMode::Periodic { every: Duration::from_secs(3) };
        let nodes = Nodes {
            program: "orrery".into(),
            config,
            shards: 2,
            cpus: vec![vec![0, 1], Vec::new()],
            busy_poll: Duration::from_micros(50),
            data: None,
        };
        let addresses: Vec<IpAddr> = [1, 2].map(|n| Ipv4Addr::new(127, 130, 0, n).into()).into();
        let line = |node| arguments(&nodes, node, &addresses, Path::new("f")).join(" ");
        let first = line(0);
        for part in [
            "--data f/data",
            "--listen 127.130.0.1:9042 --nodes 127.130.0.1,127.130.0.2 --shards 2 --cpus 0,1",
            "--memtable-mib 1.5 --cache-mib 64 --busy-poll 50",
            "--commitlog-sync periodic --commitlog-sync-period 3000",
        ] {
            assert!(first.contains(part), "{part}: {first}");
        }
        assert!(!line(1).contains("--cpus"));
        assert!(settings(&nodes.config).starts_with("commitlog_segment_size_in_mb: 32\n"));
    }

    #[test]
    fn a_program_that_is_no_node_is_told_of() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = |program: &str| Nodes {
            program: program.into(),
            config: NodeConfig::single(Ipv4Addr::LOCALHOST.into(), "anywhere"),
            shards: 1,
            cpus: vec![Vec::new()],
            busy_poll: Duration::ZERO,
            data: Some(folder.path().to_path_buf()),
        };
        let refused = |program| LocalCluster::start(&nodes(program)).err().map(|error| error.to_string()).unwrap();
        assert!(refused("false").contains("before it was ready"));
        assert!(refused("no-such-program").contains("cannot start no-such-program"));
        // Neither left anything behind.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
