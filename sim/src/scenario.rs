//! A scenario's run in virtual time: its cluster booted, its phases driven, what they used measured.
//!
//! The hosts come from the profiles, the nodes are the server's own code, the loaders the loading client's. Nothing
//! here knows what was published: references are held against the record only after the run.

mod measures;
mod node_config;
mod search;
mod start;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use reactor::sync::Notify;
use reactor::{Group, Work};
use scenarios::client::{Client, ClientError, PhaseShare, SharedPhase, Target, create_schema};
use scenarios::model::{Meanwhile, Quiesce};
use scenarios::{Kind, Metric, PhaseRecord, Recorder, Run, RunRecord, Side};

use self::measures::{Measures, of_resources};
pub use self::node_config::{node_config, scale_notes};
use self::search::{Climb, Search};
use crate::cluster::{self, Cluster};
use crate::usage::{self, Watch};
use crate::{HostCounters, HostId, HostModel, NetworkModel, Settings, World};

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
pub fn run(run: &Run, progress: &Progress) -> Result<Ran, RunError> {
    let settings = Settings { network: NetworkModel::from_profile(&run.network), ..Default::default() };
    let outcome = crate::run(run.seed, settings, |world| Simulation::new(world, run).go(progress));
    let (events, hash, virtual_ns) = (outcome.events, outcome.hash, outcome.virtual_ns);
    let phases = outcome.value?;
    let operations = phases.iter().map(|phase| phase.operations).sum();
    let mut record = RunRecord::new(Kind::Simulated, run, phases);
    record.kernel_events = events;
    record.event_hash = format!("{hash:016x}");
    Ok(Ran { record, virtual_ns, operations })
}

/// What the world and its loaders tell each other. One thread runs them all.
#[derive(Default)]
struct Board {
    /// Work for each loader shard, by loader and shard, taken when a phase begins.
    shares: RefCell<Vec<Vec<Option<PhaseShare>>>>,
    /// By loader.
    recorders: RefCell<Vec<(usize, Recorder)>>,
    failed: RefCell<Option<ClientError>>,
    waiting: Cell<usize>,
    /// Loader shards, or server shards in a quiesce, that are through.
    done: Cell<usize>,
    /// Server shards whose major compaction is through.
    compacted: Cell<usize>,
    begin: Notify,
    node_failed: RefCell<Option<(usize, String)>>,
}

struct Simulation<'a> {
    world: &'a Rc<World>,
    run: &'a Run,
    board: Rc<Board>,
    cluster: Rc<Cluster>,
    /// Those that the cluster starts with: what is used of a node is told of these.
    servers: Vec<HostId>,
    loaders: Vec<HostId>,
}

/// What a node runs on, counted from 0.
fn server_model(run: &Run, node: usize) -> HostModel {
    let commitlog = run.commitlog_disk.as_ref().unwrap_or(&run.data_disk);
    let disks = [("/", &run.data_disk), (cluster::COMMITLOG_DIR, commitlog)];
    let disks = &disks[..1 + usize::from(run.commitlog_disk.is_some())];
    let name = format!("node {}", node + 1);
    let mut model = HostModel::from_profiles(&name, &run.instance, &run.system, disks);
    model.log_folder = Some(cluster::COMMITLOG_DIR.into());
    model.scaled(run.scale.data.f64(), run.burst_part())
}

fn loader_ip(loader: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 1, loader as u8 + 1))
}

impl<'a> Simulation<'a> {
    fn new(world: &'a Rc<World>, run: &'a Run) -> Self {
        let (data, burst) = (run.scale.data.f64(), run.burst_part());
        let models = (0..run.nodes).map(|node| server_model(run, node as usize));
        let cluster = Cluster::boot(world, models.collect(), &node_config(run));
        let loaders = (0..run.loader_nodes).map(|loader| {
            let name = format!("loader {}", loader + 1);
            let model =
                HostModel::from_profiles(&name, &run.loader_instance, &run.loader_system, &[("/", &run.data_disk)]);
            world.add_host(loader_ip(loader), model.scaled(data, burst))
        });
        let loaders = loaders.collect();
        Self { world, run, board: Rc::default(), servers: cluster.hosts(), cluster, loaders }
    }

    fn go(self, progress: &Progress) -> Result<Vec<PhaseRecord>, RunError> {
        self.boot_loaders();
        let shards = self.loaders.len() * self.run.shards().1 as usize;
        let board = self.board.clone();
        self.wait("start", || board.waiting.get() == shards)?;
        let mut phases = Vec::new();
        for phase in 0..self.run.phases.len() {
            phases.extend(self.phase(phase, progress)?);
        }
        Ok(phases)
    }

    fn boot_loaders(&self) {
        let target = Rc::new(self.run.target(self.cluster.native_addrs(), PATIENCE));
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
        let hosts = self.cluster.hosts();
        for (node, &host) in hosts.iter().enumerate() {
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
        let all = shards * hosts.len();
        self.wait(name, || self.board.done.get() == all)
    }

    /// What a phase reports: one record, or one for each side of a search.
    fn phase(&self, index: usize, progress: &Progress) -> Result<Vec<PhaseRecord>, RunError> {
        let plan = &self.run.phases[index];
        let name = plan.name.as_str();
        if let Some(footprint) = &plan.footprint {
            return Ok(self.footprint(name, footprint).into_iter().collect());
        }
        if plan.quiesce == Quiesce::Before {
            progress(&format!("{name}: quiesce"), 0.0);
            self.quiesce(name)?;
        }
        if let Some(search) = &plan.search {
            return self.search(index, search, progress);
        }
        let mut record = self.drive(index, 0, None, progress)?;
        if plan.quiesce == Quiesce::After {
            self.quiesce(name)?;
            record.full_size_quiesce_s = Some(self.run.scale.full_size_s(self.world.now() - record.start_ns));
        }
        if plan.quiesce == Quiesce::After || plan.major_compaction_after {
            record.further.insert(Metric::ClusterBytes, self.cluster_bytes());
        }
        if plan.major_compaction_after {
            self.wait(name, self.begin_compaction(0..self.servers.len()))?;
            record.further.insert(Metric::ClusterBytesAfterMajor, self.cluster_bytes());
        }
        self.start(index, &mut record)?;
        Ok(vec![record])
    }

    /// Drives one phase's load once, `rate` instead of its own where given, and measures.
    fn drive(&self, index: usize, step: u64, rate: Option<f64>, progress: &Progress) -> Result<PhaseRecord, RunError> {
        let plan = &self.run.phases[index];
        let name = plan.name.as_str();
        let board = &self.board;
        let (parts, shared) = self.deal(|loader| self.run.shares_at(index, loader, step, rate));
        let start = self.world.now();
        board.begin.notify_all();
        let watch = RefCell::new(Watch::new(start, LOOK_NS, self.counters()));
        let tell = || {
            watch.borrow_mut().look(self.world.now(), || self.counters());
            let part = shared.first().map_or(1.0, |shared| shared.part_done(self.world.now() - start));
            progress(name, part);
        };
        let measured_from = start + plan.warmup_ns;
        if plan.warmup_ns > 0 {
            self.wait_telling(name, || self.world.now() >= measured_from, tell)?;
        }
        let before = self.counters();
        let measures = self.measures();
        let from = self.world.now();
        let meanwhile: Option<Box<dyn Fn() -> bool + '_>> = match plan.meanwhile {
            Some(Meanwhile::MajorCompaction { node }) => {
                Some(Box::new(self.begin_compaction(node as usize - 1..node as usize)))
            }
            Some(Meanwhile::AddNode {}) => Some(Box::new(self.begin_joining())),
            None => None,
        };
        if let Some(is_over) = &meanwhile {
            self.wait_telling(name, || is_over() || board.done.get() == parts, tell)?;
            shared.iter().for_each(SharedPhase::end);
        }
        self.wait_telling(name, || board.done.get() == parts, tell)?;
        let mut record = PhaseRecord::new(name, start, self.recorded(start, plan.workloads.len()).finish());
        let (after, ns) = (self.counters(), self.world.now() - from);
        record.set_resources(usage::resources(self.run, &before, &after, ns));
        let waits = usage::waits(self.run, &before, &after, record.measured, record.latency.mean, ns);
        record.explanation = watch.into_inner().explain(self.run, waits);
        record.work_us = self.work(&before, &after, record.measured);
        record.further.extend(self.measures().since(&measures));
        record.further.extend(of_resources(&record.resources));
        if let Some(is_over) = meanwhile {
            // What the load was too short for is not to go on in the next phase.
            self.wait(name, is_over)?;
        }
        Ok(record)
    }

    /// Gives the loaders' shards their work. Tells how many have some, and what those of one loader share.
    fn deal(&self, shares: impl Fn(usize) -> Vec<PhaseShare>) -> (usize, Vec<SharedPhase>) {
        let mut parts = 0;
        let mut shared = Vec::new();
        for loader in 0..self.loaders.len() {
            let shares = shares(loader);
            parts += shares.len();
            shared.extend(shares.first().map(|share| share.shared.clone()));
            for (shard, share) in shares.into_iter().enumerate() {
                self.board.shares.borrow_mut()[loader][shard] = Some(share);
            }
        }
        self.board.done.set(0);
        (parts, shared)
    }

    /// What the first `loaders` have recorded; the others' is forgotten.
    fn recorded(&self, start: u64, loaders: usize) -> Recorder {
        let recorders = std::mem::take(&mut *self.board.recorders.borrow_mut()).into_iter();
        let mut measured = recorders.filter(|(loader, _)| *loader < loaders).map(|(_, recorder)| recorder);
        let mut whole = measured.next().unwrap_or_else(|| Recorder::new(start, 0, None));
        measured.for_each(|recorder| whole.merge(recorder));
        whole
    }

    /// Raises the rate until the latency of each side that the load has breaks the bound.
    fn search(
        &self,
        index: usize,
        bound: &scenarios::model::Search,
        progress: &Progress,
    ) -> Result<Vec<PhaseRecord>, RunError> {
        let search = || Search::below(bound.p99_under.f64() / 1e6);
        let mut sides: Vec<_> = self.run.phases[index].reported().into_iter().map(|side| (side, search())).collect();
        // The record of the highest step so far that kept the bound, of each side.
        let mut found: Vec<Option<PhaseRecord>> = vec![None; sides.len()];
        let mut climb = Climb::new(*bound);
        while let Some(step) = climb.next() {
            let rate = bound.rate(step as f64);
            let record = self.drive(index, step + 1, Some(rate), progress)?;
            let p99 = |side: &Option<Side>| {
                let of_side = match side {
                    Some(Side::Write) => Metric::WriteLatencyP99,
                    _ => Metric::ReadLatencyP99,
                };
                record.value(of_side).or_else(|| record.value(Metric::LatencyP99))
            };
            let asked = sides.iter().filter(|(_, search)| !search.is_over()).map(|((_, side), _)| p99(side));
            let worst = asked.reduce(|one, other| Some(one?.max(other?))).flatten();
            tracing::info!(phase = self.run.phases[index].name, rate, ?worst, "tried");
            if !climb.tell(worst) {
                continue;
            }
            for (((name, side), search), found) in sides.iter_mut().zip(&mut found) {
                search.tell(step, p99(side));
                if search.best() == Some(step) {
                    let mut record = record.clone();
                    record.name = name.clone();
                    record.further.insert(Metric::MaxThroughput, rate);
                    *found = Some(record);
                }
                if let (Some(record), Some(crossing)) = (found, search.crossing()) {
                    record.further.insert(Metric::ThroughputAtBound, bound.rate(crossing));
                }
            }
            if sides.iter().all(|(_, search)| search.is_over()) {
                break;
            }
        }
        Ok(found.into_iter().flatten().collect())
    }

    /// Items that the servers' memory for cached rows and memtables holds, by what the system keeps beside each.
    fn footprint(&self, name: &str, footprint: &scenarios::model::Footprint) -> Option<PhaseRecord> {
        let memory = self.run.system.memory.as_ref()?;
        let item = memory.overhead.as_ref()?.of(1, 1) + footprint.key.u64() + footprint.value.u64();
        let plan = memory.plan(self.run.instance.ram.u64());
        let items = ((plan.row_cache + plan.memtable) / item) * u64::from(self.run.nodes);
        let mut record = PhaseRecord::new(name, self.world.now(), Recorder::new(0, 0, None).finish());
        record.further.insert(Metric::Items, items as f64);
        Some(record)
    }

    fn measures(&self) -> Measures {
        Measures::take(self.world, &self.cluster.hosts(), self.run.shards().0 as usize, &self.run.keyspace)
    }

    /// Told in full size.
    fn cluster_bytes(&self) -> f64 {
        (self.measures().disk_bytes() as f64 / self.run.scale.data.f64()).round()
    }

    /// Begins a major compaction on all shards of some nodes. Tells whether it is over.
    fn begin_compaction(&self, nodes: Range<usize>) -> impl Fn() -> bool + '_ {
        let shards = self.run.shards().0 as usize;
        let all = shards * nodes.len();
        self.board.compacted.set(0);
        for (node, shard) in nodes.flat_map(|node| (0..shards).map(move |shard| (node, shard))) {
            let (board, keyspace) = (self.board.clone(), self.run.keyspace.clone());
            self.world.on_shard(self.servers[node], shard, |shard| {
                drop(shard.spawn(Group::Compaction, "major compaction", async move {
                    if let Err(error) = server::compact_shard(&keyspace).await {
                        board.node_failed.borrow_mut().get_or_insert((node + 1, error.to_string()));
                    }
                    board.compacted.set(board.compacted.get() + 1);
                }));
            });
        }
        move || self.board.compacted.get() == all
    }

    /// Boots one more node like the others, which joins. Tells whether it serves clients.
    fn begin_joining(&self) -> impl Fn() -> bool + '_ {
        let node = self.cluster.join(self.world, server_model(self.run, self.cluster.len()));
        move || self.cluster.is_ready(self.world, node)
    }

    /// Of the servers, in microseconds an operation.
    fn work(&self, before: &[HostCounters], after: &[HostCounters], operations: u64) -> BTreeMap<String, f64> {
        let spent = |kind: Work| {
            let of_host =
                |(old, new): (&HostCounters, &HostCounters)| new.work_ns[kind as usize] - old.work_ns[kind as usize];
            let hosts = before.iter().zip(after).take(self.servers.len());
            hosts.map(of_host).sum::<u64>() as f64 / 1e3 / operations.max(1) as f64
        };
        let each = Work::ALL.iter().map(|kind| (kind.name().to_string(), (spent(*kind) * 1e3).round() / 1e3));
        each.filter(|(_, us)| *us > 0.0).collect()
    }

    fn counters(&self) -> Vec<HostCounters> {
        self.servers.iter().chain(&self.loaders).map(|&host| self.world.host_counters(host)).collect()
    }
}

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
        board.recorders.borrow_mut().push((loader, recorder));
        board.done.set(board.done.get() + 1);
    }
}
