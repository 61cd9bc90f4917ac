//! A scenario's run in virtual time: its cluster booted, its phases driven, what they used measured.
//!
//! The hosts come from the profiles, the nodes are the server's own code, the loaders the loading client's. Nothing
//! here knows what was published: references are held against the record only after the run.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use hwprofiles::CommitlogSync;
use reactor::Group;
use reactor::sync::Notify;
use scenarios::client::{Client, ClientError, PhaseShare, Target, create_schema};
use scenarios::model::Quiesce;
use scenarios::{Kind, PhaseRecord, Recorder, Run, RunRecord};
use server::NodeConfig;

use crate::cluster::{self, Cluster, address};
use crate::usage::{self, Watch};
use crate::{HostCounters, HostId, HostModel, NetworkModel, Settings, World};

/// Default of cassandra-stress: `-mode native cql3 connectionsPerHost=8`.
const CONNECTIONS_PER_HOST: u32 = 8;
/// How long loaders try a node that does not answer, in virtual time.
const PATIENCE: Duration = Duration::from_secs(30);
/// No phase of a scaled run comes near; one that does has hung.
const PHASE_MAX_NS: u64 = 24 * 3600 * 1_000_000_000;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("phase {phase}: {cause}")]
    Client { phase: String, cause: ClientError },
    #[error("node {node} ended: {cause}")]
    Node { node: usize, cause: String },
    #[error("phase {phase} did not end within a day of virtual time")]
    Hung { phase: String },
}

/// Virtual time between two looks at how far the run is and what it uses.
const LOOK_NS: u64 = 50_000_000;

/// What a run gives beside its record.
#[derive(Clone, Debug, PartialEq)]
pub struct Ran {
    pub record: RunRecord,
    pub virtual_ns: u64,
    /// Client operations of all phases.
    pub operations: u64,
}

/// Told now and then how far a run is, in its phase: `(phase's name, part of 1)`.
pub type Progress = dyn Fn(&str, f64) + Send + Sync;

/// Runs one system of a scenario.
pub fn run(run: &Run, seed: u64, progress: &Progress) -> Result<Ran, RunError> {
    let settings = Settings { network: NetworkModel::from_profile(&run.network), ..Default::default() };
    let outcome = crate::run(seed, settings, |world| Simulation::new(world, run).go(progress));
    let (events, hash, virtual_ns) = (outcome.events, outcome.hash, outcome.virtual_ns);
    let phases = outcome.value?;
    let operations = phases.iter().map(|phase| phase.operations).sum();
    let mut record = RunRecord::new(Kind::Simulated, run, phases);
    record.seed = seed;
    record.kernel_events = events;
    record.event_hash = format!("{hash:016x}");
    Ok(Ran { record, virtual_ns, operations })
}

/// What the world and its loaders tell each other. One thread runs them all.
#[derive(Default)]
struct Board {
    /// Work for each loader shard, by loader and shard, taken when a phase begins.
    shares: RefCell<Vec<Vec<Option<PhaseShare>>>>,
    recorders: RefCell<Vec<Recorder>>,
    failed: RefCell<Option<ClientError>>,
    waiting: Cell<usize>,
    /// Loader shards, or server shards in a quiesce, that are through.
    done: Cell<usize>,
    begin: Notify,
    node_failed: RefCell<Option<(usize, String)>>,
}

struct Simulation<'a> {
    world: &'a Rc<World>,
    run: &'a Run,
    board: Rc<Board>,
    cluster: Rc<Cluster>,
    servers: Vec<HostId>,
    loaders: Vec<HostId>,
}

fn loader_ip(loader: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 1, loader as u8 + 1))
}

impl<'a> Simulation<'a> {
    fn new(world: &'a Rc<World>, run: &'a Run) -> Self {
        let commitlog = run.commitlog_disk.as_ref().unwrap_or(&run.data_disk);
        let disks = [("/", &run.data_disk), (cluster::COMMITLOG_DIR, commitlog)];
        let disks = &disks[..1 + usize::from(run.commitlog_disk.is_some())];
        let data = run.scale.data.f64();
        let models = (0..run.nodes).map(|node| {
            HostModel::from_profiles(&format!("node {}", node + 1), &run.instance, &run.system, disks).scaled(data)
        });
        let cluster = Cluster::boot(world, models.collect(), &node_config(run));
        let loaders = (0..run.loader_nodes).map(|loader| {
            let name = format!("loader {}", loader + 1);
            let model =
                HostModel::from_profiles(&name, &run.loader_instance, &run.loader_system, &[("/", &run.data_disk)]);
            world.add_host(loader_ip(loader), model.scaled(data))
        });
        let loaders = loaders.collect();
        Self { world, run, board: Rc::default(), servers: cluster.hosts(), cluster, loaders }
    }

    fn go(self, progress: &Progress) -> Result<Vec<PhaseRecord>, RunError> {
        self.boot_loaders();
        let shards = self.loaders.len() * self.run.shards().1 as usize;
        let board = self.board.clone();
        self.wait("start", || board.waiting.get() == shards)?;
        (0..self.run.phases.len()).map(|phase| self.phase(phase, progress)).collect()
    }

    fn boot_loaders(&self) {
        let target = Rc::new(Target {
            nodes: self.cluster.native_addrs(),
            table: self.run.table(),
            connections_per_host: CONNECTIONS_PER_HOST,
            patience: PATIENCE,
        });
        let schema_made = Rc::new(Cell::new(false));
        *self.board.shares.borrow_mut() = vec![vec![None; self.run.shards().1 as usize]; self.loaders.len()];
        for (loader, &host) in self.loaders.iter().enumerate() {
            let (board, target, made) = (self.board.clone(), target.clone(), schema_made.clone());
            self.world.boot(host, move |context| {
                let (board, target, made) = (board.clone(), target.clone(), made.clone());
                async move {
                    let work = drive(&board, &target, &made, loader, context.shard, context.shards);
                    let work = reactor::spawn(Group::Statement, "loader", {
                        let board = board.clone();
                        let result = work.await;
                        async move {
                            if let Err(error) = result {
                                board.failed.borrow_mut().get_or_insert(error);
                            }
                        }
                    });
                    work.await;
                }
            });
        }
    }

    /// Lets time pass until `ready`, or something has failed.
    fn wait(&self, phase: &str, ready: impl Fn() -> bool) -> Result<(), RunError> {
        self.wait_telling(phase, ready, || ())
    }

    fn wait_telling(&self, phase: &str, ready: impl Fn() -> bool, tell: impl Fn()) -> Result<(), RunError> {
        let end = self.world.now() + PHASE_MAX_NS;
        let board = &self.board;
        let stopped = || {
            board.failed.borrow().is_some()
                || board.node_failed.borrow().is_some()
                || !self.cluster.failures().is_empty()
        };
        while self.world.now() < end {
            let reached = self.world.run_until_true(self.world.now() + LOOK_NS, || ready() || stopped());
            tell();
            let failed = self.cluster.failures().into_iter().next().map(|failure| (failure.node + 1, failure.cause));
            if let Some((node, cause)) = failed.or_else(|| board.node_failed.borrow_mut().take()) {
                return Err(RunError::Node { node, cause });
            }
            if let Some(cause) = board.failed.borrow_mut().take() {
                return Err(RunError::Client { phase: phase.into(), cause });
            }
            if reached {
                return Ok(());
            }
        }
        Err(RunError::Hung { phase: phase.into() })
    }

    fn quiesce(&self, name: &str) -> Result<(), RunError> {
        self.board.done.set(0);
        let shards = self.run.shards().0 as usize;
        for (node, &host) in self.servers.iter().enumerate() {
            for shard in 0..shards {
                let board = self.board.clone();
                self.world.on_shard(host, shard, |shard| {
                    drop(shard.spawn(Group::Maintenance, "quiesce", async move {
                        if let Err(error) = server::quiesce_shard().await {
                            board.node_failed.borrow_mut().get_or_insert((node + 1, error.to_string()));
                        }
                        board.done.set(board.done.get() + 1);
                    }));
                });
            }
        }
        let all = shards * self.servers.len();
        self.wait(name, || self.board.done.get() == all)
    }

    fn phase(&self, index: usize, progress: &Progress) -> Result<PhaseRecord, RunError> {
        let plan = &self.run.phases[index];
        let name = plan.name.as_str();
        if plan.quiesce == Quiesce::Before {
            progress(&format!("{name}: quiesce"), 0.0);
            self.quiesce(name)?;
        }
        let board = &self.board;
        let mut parts = 0;
        let mut watched = None;
        for loader in 0..self.loaders.len() {
            let shares = self.run.shares(index, loader);
            parts += shares.len();
            watched = shares.first().map(|share| share.shared.clone()).or(watched);
            for (shard, share) in shares.into_iter().enumerate() {
                board.shares.borrow_mut()[loader][shard] = Some(share);
            }
        }
        board.done.set(0);
        let start = self.world.now();
        board.begin.notify_all();
        let watch = RefCell::new(Watch::new(start, LOOK_NS, self.counters()));
        let tell = || {
            watch.borrow_mut().look(self.world.now(), || self.counters());
            let part = match plan.workloads.first() {
                Some(workload) => match (workload.duration_ns, workload.operations, &watched) {
                    (Some(duration), ..) => (self.world.now() - start) as f64 / duration as f64,
                    (_, Some(all), Some(shared)) => 1.0 - shared.left().min(all) as f64 / all as f64,
                    _ => 0.0,
                },
                None => 1.0,
            };
            progress(name, part.min(1.0));
        };
        let measured_from = start + plan.warmup_ns;
        if plan.warmup_ns > 0 {
            self.wait_telling(name, || self.world.now() >= measured_from, tell)?;
        }
        let before = self.counters();
        let from = self.world.now();
        self.wait_telling(name, || board.done.get() == parts, tell)?;
        let mut recorders = std::mem::take(&mut *board.recorders.borrow_mut()).into_iter();
        let mut whole = recorders.next().unwrap_or_else(|| Recorder::new(start, 0, None));
        recorders.for_each(|recorder| whole.merge(recorder));
        let mut record = PhaseRecord::new(name, start, whole.finish());
        let (after, ns) = (self.counters(), self.world.now() - from);
        record.set_resources(usage::resources(self.run, &before, &after, ns));
        let waits = usage::waits(self.run, &before, &after, record.measured, record.latency.mean, ns);
        record.explanation = watch.into_inner().explain(self.run, waits);
        if plan.quiesce == Quiesce::After {
            self.quiesce(name)?;
            record.full_size_quiesce_s = Some(self.run.scale.full_size_s(self.world.now() - start));
        }
        Ok(record)
    }

    fn counters(&self) -> Vec<HostCounters> {
        self.servers.iter().chain(&self.loaders).map(|&host| self.world.host_counters(host)).collect()
    }
}

/// What all nodes have in common; the cluster gives addresses and folders.
fn node_config(run: &Run) -> NodeConfig {
    let memory = run.memory();
    let mut config = NodeConfig::single(address(0), cluster::DATA_DIR);
    config.cluster_name = run.scenario.clone();
    config.memtable_bytes = memory.memtable.max(MEMTABLE_MIN_BYTES * u64::from(run.shards().0));
    // The engine's block cache stands for the system's row cache and for the kernel's page cache.
    config.cache_bytes = memory.row_cache + memory.page_cache;
    config.compaction_small_bytes = run.scale.amount(config.compaction_small_bytes);
    if let Some(commitlog) = &run.system.commitlog {
        config.sync = match &commitlog.sync {
            CommitlogSync::Batch => storage::SyncMode::Batch,
            CommitlogSync::Periodic(every) => storage::SyncMode::Periodic { every: Duration::from_nanos(every.u64()) },
        };
        config.commitlog_segment_bytes = run.scale.amount(commitlog.segment.u64()).max(SEGMENT_MIN_BYTES);
        config.commitlog_bytes =
            run.scale.amount(commitlog.total.u64()).max(4 * SEGMENT_MIN_BYTES * u64::from(run.shards().0));
    }
    let throttle = run.system.throttles.compaction.as_ref();
    config.compaction_mb_per_s = throttle.map(|limit| limit.f64() / 1e6);
    config
}

/// Floors of what is scaled. A flush, and a new segment, take a number of disk operations whatever their size, at
/// latencies that are not scaled: below these sizes a scaled run would wait for those alone.
const SEGMENT_MIN_BYTES: u64 = 1 << 20;
const MEMTABLE_MIN_BYTES: u64 = 4 << 20;

/// One loader shard: connects, then runs its part of phase after phase.
async fn drive(
    board: &Rc<Board>,
    target: &Target,
    schema_made: &Cell<bool>,
    loader: usize,
    shard: usize,
    shards: usize,
) -> Result<(), ClientError> {
    if loader == 0 && shard == 0 {
        create_schema(target).await?;
        schema_made.set(true);
        board.begin.notify_all();
    }
    board.begin.wait_until(|| schema_made.get()).await;
    let client = Client::connect(target, shard as u32, shards as u32).await?;
    board.waiting.set(board.waiting.get() + 1);
    loop {
        let share = board.shares.borrow_mut()[loader][shard].take();
        let Some(share) = share else {
            board.begin.notified().await;
            continue;
        };
        let recorder = client.run(share).await?;
        board.recorders.borrow_mut().push(recorder);
        board.done.set(board.done.get() + 1);
    }
}
