//! A running `orrery serve`: started, awaited, killed.
//!
//! - Each [`Site`] is a loopback network (127.a.b.0/24) and a data folder of its own; node `n` listens on 127.a.b.n,
//!   on the default ports. Two sites never share an address, even between test processes.
//! - [`Server::start`] returns once the node has said that it is ready. A node that dies first fails the test with
//!   the end of its log.
//! - Dropping a server kills it (SIGKILL), so no test leaves a process behind. The log is printed if the test fails.
//!
//! With `ORRERY_TEST_SERVER=ADDRESS:PORT` the tests of clients use that server instead of starting one: that is how
//! the tests themselves are checked against Apache Cassandra. Tests that kill servers say so and do not run then.

use std::fs::{self, File};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::binary;

/// CQL's native protocol port.
pub const CQL_PORT: u16 = 9042;
/// How long a node may take to answer, or to end: far beyond what either takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The one place that knows the command line of a node.
fn command(node: &Node) -> Command {
    let mut command = Command::new(binary::orrery());
    command.arg("serve").arg("--data").arg(&node.data);
    command.arg("--listen").arg(SocketAddr::from((node.address, CQL_PORT)).to_string());
    command.arg("--commitlog-sync").arg(node.settings.commitlog_sync);
    command.arg("--shards").arg(node.settings.shards.to_string());
    command.arg("--memtable-mib").arg(node.settings.memtable_mib.to_string()).args(["--cache-mib", "64"]);
    if node.settings.secured {
        command.args(["--authenticator", "PasswordAuthenticator", "--authorizer", "CassandraAuthorizer"]);
    }
    let cluster: Vec<String> = node.cluster.iter().map(Ipv4Addr::to_string).collect();
    match node.joins {
        Some(member) => command.arg("--join").arg(member.to_string()),
        None => command.arg("--nodes").arg(cluster.join(",")),
    };
    command.args(&node.arguments);
    command
}

/// What a test may choose about its nodes.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    pub shards: u32,
    /// `batch`: a write is acknowledged once it is on the disk. `periodic`: within the sync period.
    pub commitlog_sync: &'static str,
    /// Small ones make a test flush.
    pub memtable_mib: u32,
    /// Clients log in, and may do what was granted to them.
    pub secured: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { shards: 2, commitlog_sync: "periodic", memtable_mib: 64, secured: false }
    }
}

/// A loopback network and a folder, of one test.
pub struct Site {
    network: [u8; 2],
    folder: tempfile::TempDir,
}

impl Default for Site {
    fn default() -> Site {
        Site::new()
    }
}

impl Site {
    /// A new site. Its network comes from the process id and from how many the process had before it: a runner gives each
    /// test a process, which has four at most, or runs all of a file's in one, beside no other.
    pub fn new() -> Site {
        static SITES: AtomicU32 = AtomicU32::new(0);
        // 127.64.0.0/10 leaves 127.0.0.x to people. Process ids wrap at 2^22 on Linux; 2^12 of them differ here, and
        // those that meet after a wrap are not alive together.
        let site = (std::process::id() << 2).wrapping_add(SITES.fetch_add(1, Ordering::Relaxed));
        let network = [64 + ((site >> 8) & 0x3f) as u8, site as u8];
        let folder = tempfile::Builder::new()
            .prefix("orrery-")
            .tempdir_in(fs::create_dir_all(binary::cache()).map(|()| binary::cache()).expect("target/ is writable"))
            .expect("target/ is writable");
        Site { network, folder }
    }

    /// Node `n`'s address.
    pub fn address(&self, n: u8) -> Ipv4Addr {
        Ipv4Addr::new(127, self.network[0], self.network[1], n)
    }

    /// A node that does not run yet. `of` is how many nodes its cluster has.
    pub fn node(&self, n: u8, of: u8, settings: Settings) -> Node {
        Node {
            address: self.address(n),
            cluster: (1..=of).map(|n| self.address(n)).collect(),
            data: self.folder.path().join(format!("n{n}")),
            log: self.folder.path().join(format!("n{n}.log")),
            settings,
            joins: None,
            arguments: Vec::new(),
        }
    }

    /// Node `n`, which joins the cluster of node `member`.
    pub fn joining(&self, n: u8, member: u8, settings: Settings) -> Node {
        Node { joins: Some(self.address(member)), ..self.node(n, 0, settings) }
    }

    /// Where a test may put files of its own.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// A node's place: it can be started, killed and started again on the same data.
#[derive(Clone, Debug)]
pub struct Node {
    pub address: Ipv4Addr,
    /// All nodes of the cluster, this one among them.
    pub cluster: Vec<Ipv4Addr>,
    pub data: PathBuf,
    pub log: PathBuf,
    pub settings: Settings,
    /// A member of the cluster that it joins.
    pub joins: Option<Ipv4Addr>,
    /// Further words of its command line.
    pub arguments: Vec<String>,
}

/// A running node.
pub struct Server {
    process: Option<Child>,
    address: SocketAddr,
    log: PathBuf,
    /// Where this process began to write into the log, which a node's processes share.
    log_begin: usize,
    /// Kept so that the folder lives as long as the process that writes into it.
    _site: Option<Site>,
}

impl Server {
    /// One node with the default settings and a site of its own, or the server that `ORRERY_TEST_SERVER` names.
    pub fn start() -> Server {
        Server::start_with(Settings::default())
    }

    pub fn start_with(settings: Settings) -> Server {
        if let Some(address) = foreign() {
            return Server { process: None, address, log: PathBuf::new(), log_begin: 0, _site: None };
        }
        let site = Site::new();
        let mut server = Server::spawn(&site.node(1, 1, settings));
        server._site = Some(site);
        server.await_ready();
        server
    }

    /// Starts a node and waits until it answers.
    pub fn start_node(node: &Node) -> Server {
        let mut server = Server::spawn(node);
        server.await_ready();
        server
    }

    /// Starts a node and does not wait: nodes of a cluster may need each other before they answer.
    pub fn spawn(node: &Node) -> Server {
        fs::create_dir_all(&node.data).expect("the site's folder is writable");
        let log = File::options().create(true).append(true).open(&node.log).expect("the site's folder is writable");
        let log_begin = log.metadata().expect("an open file").len() as usize;
        let process = command(node)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a descriptor is left"))
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", binary::orrery().display()));
        let address = SocketAddr::from((node.address, CQL_PORT));
        Server { process: Some(process), address, log: node.log.clone(), log_begin, _site: None }
    }

    /// Waits until the node says that it is ready, which it does once clients are served on all its shards.
    pub fn await_ready(&mut self) {
        let end = Instant::now() + PATIENCE;
        while !self.says_ready() {
            if let Some(process) = &mut self.process
                && let Some(status) = process.try_wait().expect("the child is ours")
            {
                panic!("the server ended with {status} before it was ready");
            }
            assert!(Instant::now() < end, "the server on {} was not ready within {PATIENCE:?}", self.address);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the node gives up; what it has said then.
    pub fn await_failure(mut self) -> String {
        let end = Instant::now() + PATIENCE;
        let Some(mut process) = self.process.take() else { return String::new() };
        while Instant::now() < end {
            if let Some(status) = process.try_wait().expect("the child is ours") {
                assert!(!status.success(), "the server ended well");
                let log = fs::read_to_string(&self.log).expect("the log was made before the process");
                return log[self.log_begin..].to_string();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        process.kill().and_then(|()| process.wait()).expect("the child is ours");
        panic!("the server did not give up within {PATIENCE:?}");
    }

    fn says_ready(&self) -> bool {
        let log = fs::read_to_string(&self.log).expect("the log was made before the process");
        log[self.log_begin..].lines().any(|line| line.starts_with("ready: "))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Child::id)
    }

    /// `kill -9`: the process gets no chance to write anything more. What it gave to the kernel stays.
    pub fn kill(mut self) {
        self.end();
    }

    /// SIGTERM, as a service manager does; returns once the process ended by itself, which must be with success.
    pub fn stop(mut self) {
        let Some(mut process) = self.process.take() else { return };
        let signalled = Command::new("kill").arg("-TERM").arg(process.id().to_string()).status();
        assert!(signalled.is_ok_and(|status| status.success()), "SIGTERM reaches a live child");
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = process.try_wait().expect("the child is ours") {
                assert!(status.success(), "the server ended with {status} after SIGTERM\n{}", tail(&self.log));
                return;
            }
            if Instant::now() > end {
                // Not left behind even when it fails.
                process.kill().and_then(|()| process.wait()).expect("the child is ours");
                panic!("the server did not end within {PATIENCE:?} after SIGTERM\n{}", tail(&self.log));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn end(&mut self) {
        if let Some(mut process) = self.process.take() {
            // Fails only if it ended already, which `wait` then reports.
            process.kill().ok();
            process.wait().expect("the child is ours");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
        if std::thread::panicking() && self.log.exists() {
            eprintln!("--- the end of the log of {}:\n{}", self.address, tail(&self.log));
        }
    }
}

/// The server of `ORRERY_TEST_SERVER`, if set.
pub fn foreign() -> Option<SocketAddr> {
    let address = std::env::var("ORRERY_TEST_SERVER").ok()?;
    Some(address.parse().unwrap_or_else(|error| panic!("ORRERY_TEST_SERVER={address}: {error}")))
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(60)..].join("\n")
}
