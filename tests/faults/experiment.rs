//! Three nodes, RF 3, everything at QUORUM, the commit log in batch mode; while sessions write and read, one node
//! after the other loses power (or its process) and comes back, and beside that one is cut off (or stands still).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use server::NodeConfig;
use sim::faults::{Fault, Kind, Lane, Plan, PowerLoss, Schedule, Window};
use sim::history::{History, Outcome};
use sim::{Cluster, Generator, HostModel, Stream, World};

use super::client::{Link, Trouble};
use super::session::{Load, SCHEMA, Session};
use super::small;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const NODES: usize = 3;
/// On two hosts of their own.
const SESSIONS: u32 = 8;

/// The experiment's parts of the world's streams.
const SESSION_PART: u64 = 7;
const ARCHITECT_PART: u64 = 8;
const BLACKOUT_PART: u64 = 9;

/// What is done to the cluster.
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    /// The engine claims to have synced its commit log without doing so.
    pub skip_sync: bool,
    /// All nodes lose power at once, twice, in place of the usual faults.
    pub blackouts: bool,
    /// Tables are created, altered and dropped meanwhile.
    pub schema_changes: bool,
}

/// What a seed's world leaves. Equal for equal seeds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub history: History,
    pub schedule: String,
    /// What should have worked, and did not, though nothing was wrong any more.
    pub complaints: Vec<String>,
    pub schema_versions: Vec<Vec<u8>>,
}

/// Calls by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub calls: usize,
    pub done: usize,
    pub refused: usize,
    pub failed: usize,
    pub unanswered: usize,
}

impl Record {
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for call in self.history.calls() {
            tally.calls += 1;
            match call.outcome() {
                Some(Outcome::Written | Outcome::Read(_)) => tally.done += 1,
                Some(Outcome::Refused(_)) => tally.refused += 1,
                Some(Outcome::Failed(_)) => tally.failed += 1,
                Some(Outcome::Unanswered(_)) | None => tally.unanswered += 1,
            }
        }
        tally
    }
}

fn template(skip_sync: bool) -> NodeConfig {
    NodeConfig { fault_skip_commitlog_sync: skip_sync, ..small::node(256 << 10) }
}

fn plan(cluster: &Cluster, clients: Vec<sim::HostId>) -> Plan {
    let lane = |kinds: &[Kind]| Lane { kinds: kinds.to_vec(), gap_ns: 200 * MS..2500 * MS, lasts_ns: 50 * MS..4 * S };
    Plan {
        lanes: vec![
            lane(&[Kind::PowerLoss, Kind::PowerLoss, Kind::PowerLoss, Kind::Kill]),
            lane(&[Kind::Partition, Kind::Partition, Kind::Partition, Kind::Pause]),
        ],
        within_ns: 2 * S..18 * S,
        nodes: cluster.hosts(),
        clients,
    }
}

/// Every node without power, twice; they come back one by one.
fn blackouts(world: &World, cluster: &Cluster) -> Schedule {
    let mut random = world.random(Stream::Faults, &[BLACKOUT_PART]);
    let mut windows = Vec::new();
    for begin in [4 * S, 11 * S] {
        let at_ns = begin + random.below(3 * S);
        for node in cluster.hosts() {
            let fault: Box<dyn Fault> = Box::new(PowerLoss { node });
            windows.push(Window { at_ns, until_ns: at_ns + 100 * MS + random.below(3 * S), fault });
        }
    }
    Schedule::new(windows)
}

/// Runs the experiment in `world`.
pub fn run(world: &Rc<World>, setup: Setup) -> Record {
    let models = (0..NODES).map(|_| HostModel::plain("node", 2)).collect();
    let cluster = Cluster::boot(world, models, &template(setup.skip_sync));
    let clients: Vec<_> =
        (101..=102u8).map(|last| world.add_host([10, 0, 0, last].into(), HostModel::plain("client", 1))).collect();
    let mut complaints = Vec::new();
    if !cluster.await_ready(world, S) {
        complaints.push(format!("the nodes are not ready: {:?}", cluster.failures()));
    }

    let history = Rc::new(RefCell::new(History::default()));
    let schedule = match setup.blackouts {
        true => blackouts(world, &cluster),
        false => Schedule::draw(world, &plan(&cluster, clients.clone())),
    };
    let told = schedule.to_string();
    let noted = history.clone();
    schedule.install(world, move |at, text| noted.borrow_mut().note(at, text));

    let load = Load {
        registers: 16,
        sessions: SESSIONS,
        think_ns: 25 * MS,
        until_ns: 20 * S,
        verify_ns: 24 * S,
        patience_until_ns: 60 * S,
    };
    let results: Rc<RefCell<Vec<Result<(), String>>>> = Rc::default();
    let versions: Rc<RefCell<Vec<Vec<u8>>>> = Rc::default();
    let is_created = Rc::new(Cell::new(false));
    for (index, &host) in clients.iter().enumerate() {
        let addrs = cluster.native_addrs();
        let (history, results, created) = (history.clone(), results.clone(), is_created.clone());
        let versions = versions.clone();
        let world_of = world.clone();
        world.boot(host, move |_| {
            let (addrs, history, results) = (addrs.clone(), history.clone(), results.clone());
            let (created, versions, world) = (created.clone(), versions.clone(), world_of.clone());
            async move {
                if index == 0 {
                    create_schema(addrs[0]).await;
                    created.set(true);
                } else {
                    while !created.get() {
                        reactor::time::sleep(Duration::from_millis(10)).await;
                    }
                }
                for number in (0..SESSIONS).filter(|number| *number as usize % 2 == index) {
                    let random = world.random(Stream::Workload, &[SESSION_PART, u64::from(number)]);
                    let mut session = Session::new(number, load, addrs.clone(), random, history.clone());
                    let results = results.clone();
                    drop(reactor::spawn(reactor::Group::Statement, "session", async move {
                        session.run().await;
                        let result = session.verify().await;
                        results.borrow_mut().push(result);
                    }));
                }
                if index == 0 {
                    if setup.schema_changes {
                        let random = world.random(Stream::Workload, &[ARCHITECT_PART]);
                        change_schema(random, &addrs, load.until_ns, &history).await;
                    }
                    reactor::time::sleep(Duration::from_nanos(load.verify_ns - reactor::now())).await;
                    for addr in addrs {
                        let version = schema_version(addr).await;
                        versions.borrow_mut().push(version);
                    }
                }
            }
        });
    }
    let is_over = || results.borrow().len() == SESSIONS as usize && versions.borrow().len() == NODES;
    if !world.run_until_true(load.patience_until_ns + 60 * S, is_over) {
        complaints.push("the sessions did not come to an end".into());
    }
    complaints.extend(results.borrow().iter().filter_map(|result| result.clone().err()));
    complaints.extend(cluster.failures().iter().map(ToString::to_string));
    let versions = versions.borrow().clone();
    if versions.iter().any(|version| version.is_empty() || *version != versions[0]) {
        complaints.push(format!("the nodes do not agree on the schema: {versions:x?}"));
    }
    let history = history.borrow().clone();
    Record { history, schedule: told, complaints, schema_versions: versions }
}

async fn create_schema(addr: std::net::SocketAddr) {
    for statement in SCHEMA {
        loop {
            let attempt = async { Link::open(addr, &[]).await?.query(statement, |_| ()).await };
            match attempt.await {
                Ok(()) => break,
                // Created by an attempt whose answer was lost.
                Err(Trouble::Answered(error)) if error.message.contains("existing") => break,
                Err(_) => reactor::time::sleep(Duration::from_millis(100)).await,
            }
        }
    }
}

/// Changes the schema now and then, through any node, whether that works or not.
async fn change_schema(
    mut random: Generator,
    nodes: &[std::net::SocketAddr],
    until_ns: u64,
    history: &RefCell<History>,
) {
    let mut columns = 0;
    while reactor::now() < until_ns {
        reactor::time::sleep(Duration::from_nanos(random.below(2 * S))).await;
        let addr = nodes[random.below(nodes.len() as u64) as usize];
        let table = random.below(3);
        let statement = match random.below(4) {
            0 => format!("CREATE TABLE IF NOT EXISTS faults.extra{table} (key bigint PRIMARY KEY, value blob)"),
            1 => format!("DROP TABLE IF EXISTS faults.extra{table}"),
            _ => {
                columns += 1;
                // Sorts before the column that the sessions write.
                format!("ALTER TABLE faults.registers ADD added{columns} int")
            }
        };
        let attempt = async { Link::open(addr, &[]).await?.query(&statement, |_| ()).await };
        let told = match attempt.await {
            Ok(()) => "done".into(),
            Err(trouble) => trouble.to_string(),
        };
        history.borrow_mut().note(reactor::now(), format!("{addr}: {statement}: {told}"));
    }
}

/// The node's schema version, or nothing when it does not say.
async fn schema_version(addr: std::net::SocketAddr) -> Vec<u8> {
    let attempt = async {
        Link::open(addr, &[])
            .await?
            .query("SELECT schema_version FROM system.local", |response| match response {
                cql::Response::Rows(rows) => {
                    rows.iter().next().and_then(Result::ok).and_then(|r| r.cell(0).map(<[u8]>::to_vec))
                }
                _ => None,
            })
            .await
    };
    attempt.await.ok().flatten().unwrap_or_default()
}
