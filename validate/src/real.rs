//! A scenario on real servers: the same phases, driven by the same client, measured as a [`RunRecord`].
//!
//! Servers are nodes started here or anybody's that speak CQL. What they cannot be made to do (faults, flushing a
//! server without an admin API, a node that joins) is left out and told.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use reactor::uring::Awake;
use scenarios::client::{PhaseShare, SharedPhase, Target};
use scenarios::model::{Meanwhile, Quiesce};
use scenarios::{Kind, PhasePlan, PhaseRecord, Run, RunRecord};

use crate::compare::PREPARES;
use crate::control::{self, Control, ControlError};
use crate::load::{self, LoadError, LoaderConfig, Loaders};
use crate::local::{Compacting, LocalCluster, LocalError, Place};
use crate::probe::ProbeError;
use crate::probe::interruptions::{self, Interruptions, Seen};
use crate::probe::network::{self, Places, Wakes};
use crate::speed::{Sight, Speedometer};
use crate::usage::{Look, STOLEN_MAX, Watched};

#[derive(Debug, thiserror::Error)]
pub enum RealError {
    #[error("phase {phase}: {cause}")]
    Load { phase: String, cause: LoadError },
    #[error("{0}")]
    Connect(LoadError),
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error("what interrupts the processors: {0}")]
    Watch(ProbeError),
    #[error("the control beside it: {0}")]
    Control(#[from] ControlError),
}

/// Told now and then how far a run is, in its phase: `(phase's name, part of 1)`.
pub type Progress<'a> = dyn FnMut(&str, f64) + 'a;

pub struct Ran {
    pub record: RunRecord,
    /// What could not be done here, and why.
    pub skipped: Vec<String>,
    /// What makes the measurement doubtful.
    pub doubts: Vec<String>,
    /// How much: what part of the machine's time was others', at worst.
    pub doubt: f64,
    /// Of nodes of this machine only.
    pub conditions: Option<Conditions>,
}

/// What the machine was like beside a run.
pub struct Conditions {
    /// Of the nodes' processors and of the loaders', as [`Speedometer::seen`] gives them.
    pub nodes: Vec<Vec<Sight>>,
    pub loaders: Vec<Vec<Sight>>,
    /// But for those by other threads, which the sights have.
    pub interruptions: Vec<Interruptions>,
    /// Before and behind each phase.
    pub wakes: Vec<Wakes>,
    /// As [`Control::measure`] gives them, then too.
    pub controls: Vec<[f64; 2]>,
}

impl Conditions {
    /// Operations of the control a second of CPU, on one side; where that was measured.
    pub fn control(&self, side: usize) -> Option<f64> {
        let sum: f64 = self.controls.iter().map(|control| control[side]).sum();
        (sum > 0.0).then(|| sum / self.controls.len() as f64)
    }
}

/// Servers that run.
pub enum Servers<'a> {
    Local(&'a LocalCluster),
    /// Only addresses are known.
    Elsewhere(&'a [SocketAddr]),
}

impl<'a> Servers<'a> {
    /// Where more than addresses is known.
    fn local(&self) -> Option<&'a LocalCluster> {
        match self {
            Servers::Local(cluster) => Some(cluster),
            Servers::Elsewhere(_) => None,
        }
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Servers::Local(cluster) => cluster.addresses(),
            Servers::Elsewhere(addresses) => addresses.to_vec(),
        }
    }
}

/// What a phase gave.
struct Driven {
    record: PhaseRecord,
    stolen: f64,
}

/// What the processors are like beside the phases that are compared.
struct Watch<'a> {
    nodes: &'a [usize],
    loaders: &'a [usize],
    /// Processes whose threads work: the nodes' and this one, which loads them.
    processes: Vec<u32>,
    speedometer: Speedometer,
    control: Control,
    interruptions: Seen,
    /// How long the phases were, and what part of it the host had of the processors.
    lasted: Duration,
    stolen: Duration,
    conditions: Conditions,
}

struct Real<'a> {
    run: &'a Run,
    servers: &'a Servers<'a>,
    watched: &'a Watched,
    loaders: Loaders,
    began: Instant,
    skipped: Vec<String>,
    doubts: Vec<String>,
    doubt: f64,
    /// Of this machine's processors.
    watch: Option<Watch<'a>>,
}

/// How long what takes the processors is watched before a phase, and behind it: what lasts milliseconds comes a few times a
/// second. And how long they are woken.
const WATCH: Duration = Duration::from_secs(2);
const WAKE: Duration = Duration::from_millis(500);
/// How long a server that does not answer is tried again.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs all phases. Loaders are threads of this process on `loader_cpus`.
pub fn run(
    run: &Run,
    servers: &Servers<'_>,
    watched: &Watched,
    loader_cpus: &[usize],
    progress: &mut Progress<'_>,
) -> Result<Ran, RealError> {
    let target = run.target(servers.addresses(), PATIENCE);
    let config = LoaderConfig {
        loaders: run.loader_nodes as usize,
        shards: run.shards().1 as usize,
        cpus: loader_cpus.to_vec(),
        busy_poll: Duration::from_nanos(run.loader_system.busy_poll.as_ref().map_or(0, |time| time.u64())),
    };
    let loaders = connect(&target, &config)?;
    let watch = servers.local().map(|cluster| Watch::new(cluster, watched, loader_cpus)).transpose()?;
    let _awake = Awake::keep(&watched.cpus).map_err(|cause| RealError::Watch(ProbeError::Asleep(cause)))?;
    let mut real = Real {
        run,
        servers,
        watched,
        loaders,
        began: Instant::now(),
        skipped: Vec::new(),
        doubts: Vec::new(),
        doubt: 0.0,
        watch,
    };
    let mut phases = Vec::new();
    for index in 0..run.phases.len() {
        phases.extend(real.phase(index, progress)?);
    }
    real.skipped.extend(run.faults.iter().map(|fault| {
        format!("the fault at {}+{}: faults are injected into simulated nodes only", fault.at.phase, fault.at.after)
    }));
    let Real { loaders, skipped, doubts, doubt, watch, .. } = real;
    loaders.stop().map_err(RealError::Connect)?;
    let conditions = watch.map(Watch::over).transpose()?;
    Ok(Ran { record: RunRecord::new(Kind::Real, run, phases), skipped, doubts, doubt, conditions })
}

fn connect(target: &Target, config: &LoaderConfig) -> Result<Loaders, RealError> {
    load::create_schema(target).map_err(RealError::Connect)?;
    Loaders::connect(config, target).map_err(RealError::Connect)
}

impl Real<'_> {
    fn phase(&mut self, index: usize, progress: &mut Progress<'_>) -> Result<Option<PhaseRecord>, RealError> {
        let run = self.run;
        let plan = &run.phases[index];
        let name = plan.name.as_str();
        if let Some(cause) = impossible(plan) {
            self.skipped.push(format!("{name}: {cause}"));
            return Ok(None);
        }
        if plan.quiesce == Quiesce::Before {
            progress(&format!("{name}: quiesce"), 0.0);
            self.quiesce(name)?;
        }
        self.watch(name)?;
        let mut driven = self.drive(index, progress)?;
        if plan.quiesce == Quiesce::After {
            let since = Instant::now();
            if self.quiesce(name)? {
                let ns = driven.record.duration_ns + since.elapsed().as_nanos() as u64;
                driven.record.full_size_quiesce_s = Some(run.scale.full_size_s(ns));
            }
        }
        if plan.major_compaction_after {
            self.skipped.push(format!("{name}: the major compaction behind it"));
        }
        // What compaction still does would be taken for interruptions; only where the nodes are to rest anyway are they
        // let.
        let next = run.phases.get(index + 1);
        let rests = next.is_none_or(|next| next.quiesce == Quiesce::Before);
        if rests && self.watch.is_some() && !name.starts_with(PREPARES) {
            self.quiesce(name)?;
            self.watch(name)?;
        }
        if driven.stolen > STOLEN_MAX && !name.starts_with(PREPARES) {
            self.doubt = self.doubt.max(driven.stolen);
            let percent = driven.stolen * 100.0;
            self.doubts.push(format!("{name}: the host of this virtual machine had {percent:.0} % of its processors"));
        }
        Ok(Some(driven.record))
    }

    /// Notes what takes the processors, and what it takes to wake them, beside a phase that is compared.
    fn watch(&mut self, phase: &str) -> Result<(), RealError> {
        let Some(watch) = self.watch.as_mut().filter(|_| !phase.starts_with(PREPARES)) else { return Ok(()) };
        let seen = interruptions::measure(&self.watched.cpus, WATCH).map_err(RealError::Watch)?;
        watch.interruptions.add(&seen).map_err(RealError::Watch)?;
        let places = Places { server: watch.nodes.first().copied(), client: watch.loaders.first().copied() };
        let wakes = network::measure_wakes(places, WAKE).map_err(RealError::Watch)?;
        watch.conditions.wakes.push(wakes);
        watch.conditions.controls.push(watch.control.measure(control::LASTS)?);
        Ok(())
    }

    /// Whether the servers could be asked to.
    fn quiesce(&mut self, phase: &str) -> Result<bool, RealError> {
        let Some(cluster) = self.servers.local() else {
            self.skipped.push(format!("{phase}: waiting until flushes and compactions have ended"));
            return Ok(false);
        };
        cluster.quiesce()?;
        Ok(true)
    }

    fn drive(&mut self, index: usize, progress: &mut Progress<'_>) -> Result<Driven, RealError> {
        let run = self.run;
        let plan = &run.phases[index];
        let of_loader = run.shards().1 as usize;
        let mut shares: Vec<(usize, PhaseShare)> = Vec::new();
        for loader in 0..run.loader_nodes as usize {
            let own = run.shares(index, loader).into_iter().enumerate();
            shares.extend(own.map(|(shard, share)| (loader * of_loader + shard, share)));
        }
        let shared: Vec<SharedPhase> = shares.iter().map(|(_, share)| share.shared.clone()).collect();
        let start_ns = self.began.elapsed().as_nanos() as u64;
        let (start, warmup) = (Instant::now(), Duration::from_nanos(plan.warmup_ns));
        let mut meanwhile = Beside::new(plan, self.servers);
        // Taken again when the warm-up is over.
        let mut before: Look = self.watched.look();
        let mut is_warm = warmup.is_zero();
        let watch = self.watch.as_ref();
        let begin = |watch: &Watch<'_>| watch.speedometer.begin(&watch.processes);
        watch.inspect(|watch| begin(watch));
        if is_warm {
            meanwhile.begin(&run.keyspace);
        }
        let tick = || {
            if !is_warm && start.elapsed() >= warmup {
                (is_warm, before) = (true, self.watched.look());
                watch.inspect(|watch| begin(watch));
                meanwhile.begin(&run.keyspace);
            }
            if meanwhile.is_over() {
                shared.iter().for_each(SharedPhase::end);
            }
            let elapsed_ns = start.elapsed().as_nanos() as u64;
            progress(&plan.name, shared.first().map_or(1.0, |shared| shared.part_done(elapsed_ns)));
        };
        let ran = self.loaders.run(shares, tick);
        let ran = ran.map_err(|cause| RealError::Load { phase: plan.name.clone(), cause })?;
        let resources = self.watched.since(run, &before);
        let stolen = self.watched.stolen_since(&before);
        if let Some(watch) = self.watch.as_mut().filter(|_| !plan.name.starts_with(PREPARES)) {
            watch.keep(before.at.elapsed(), stolen);
        }
        let measured = ran.into_iter().filter(|(thread, _)| thread / of_loader < plan.workloads.len());
        let Some(whole) = load::merged(measured.map(|(_, recorder)| recorder)) else {
            return Err(RealError::Load { phase: plan.name.clone(), cause: LoadError::Silent });
        };
        let mut record = PhaseRecord::new(&plan.name, start_ns, whole.finish());
        record.set_resources(resources);
        self.skipped.extend(meanwhile.end(&plan.name)?);
        Ok(Driven { record, stolen })
    }
}

impl<'a> Watch<'a> {
    fn new(cluster: &'a LocalCluster, watched: &Watched, loaders: &'a [usize]) -> Result<Self, RealError> {
        let nodes = cluster.cpus();
        let processes = watched.processes.iter().copied().chain([std::process::id()]).collect();
        let unwatched = |cause| RealError::Watch(ProbeError::Unwatched(cause));
        let speedometer = Speedometer::on(&watched.cpus).map_err(unwatched)?;
        let place = Place {
            program: cluster.program().to_path_buf(),
            server_cpu: nodes.first().copied(),
            loader_cpu: loaders.first().copied(),
            folder: cluster.folder().parent().map(Path::to_path_buf),
        };
        let conditions =
            Conditions { nodes: vec![], loaders: vec![], interruptions: vec![], wakes: vec![], controls: vec![] };
        Ok(Self {
            nodes,
            loaders,
            processes,
            speedometer,
            control: Control::start(&place)?,
            interruptions: Seen::nothing(),
            lasted: Duration::ZERO,
            stolen: Duration::ZERO,
            conditions,
        })
    }

    /// What was seen of a phase that is compared, of whose time the host had the part `stolen`.
    fn keep(&mut self, lasted: Duration, stolen: f64) {
        self.lasted += lasted;
        self.stolen += lasted.mul_f64(stolen);
        self.conditions.nodes.extend(self.speedometer.seen(self.nodes));
        self.conditions.loaders.extend(self.speedometer.seen(self.loaders));
    }

    fn over(self) -> Result<Conditions, RealError> {
        self.control.stop()?;
        let stolen = self.stolen.as_secs_f64() / self.lasted.as_secs_f64().max(1e-9);
        Ok(Conditions { interruptions: self.interruptions.but_preempted(stolen), ..self.conditions })
    }
}

/// Why a phase cannot be measured on real servers.
fn impossible(plan: &PhasePlan) -> Option<&'static str> {
    if plan.footprint.is_some() {
        return Some("a footprint is counted without load, from the profile");
    }
    if plan.search.is_some() {
        return Some("a search for the highest rate takes too many steps; validate its rate as a phase of its own");
    }
    (plan.meanwhile == Some(Meanwhile::AddNode {}))
        .then_some("no node is started on a machine beside those that are measured")
}

/// A major compaction that goes on beside the load.
struct Beside<'a> {
    cluster: Option<&'a LocalCluster>,
    node: Option<usize>,
    compacting: Option<Compacting>,
}

impl<'a> Beside<'a> {
    fn new(plan: &PhasePlan, servers: &Servers<'a>) -> Self {
        let node = match plan.meanwhile {
            Some(Meanwhile::MajorCompaction { node }) => Some(node as usize - 1),
            _ => None,
        };
        Self { cluster: servers.local(), node, compacting: None }
    }

    fn begin(&mut self, keyspace: &str) {
        self.compacting = self.cluster.zip(self.node).and_then(|(cluster, node)| cluster.compact(node, keyspace));
    }

    fn is_over(&self) -> bool {
        self.compacting.as_ref().is_some_and(Compacting::is_over)
    }

    /// What was left out.
    fn end(self, phase: &str) -> Result<Option<String>, LocalError> {
        match self.compacting {
            Some(compacting) => compacting.end().map(|()| None),
            None => Ok(self.node.map(|_| format!("{phase}: the major compaction beside it"))),
        }
    }
}
