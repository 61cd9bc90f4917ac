//! A scenario on real servers: the same phases, driven by the same client, measured as a [`RunRecord`].
//!
//! Servers are nodes started here or anybody's that speak CQL. What they cannot be made to do (faults, flushing a
//! server without an admin API, a node that joins) is left out and told.

use std::net::SocketAddr;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use reactor::uring::Awake;
use scenarios::client::{PhaseShare, Target};
use scenarios::model::{Meanwhile, Quiesce};
use scenarios::{Kind, PhasePlan, PhaseRecord, Run, RunRecord};

use crate::compare::PREPARES;
use crate::http;
use crate::load::{self, LoadError, LoaderConfig, Loaders};
use crate::local::{LocalCluster, LocalError};
use crate::probe::ProbeError;
use crate::probe::interruptions::{self, Interruptions, Seen};
use crate::usage::{Look, STOLEN_MAX, Watched};
use crate::yardstick::{DRIFT_MAX, Yardstick};

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
}

/// Told now and then how far a run is, in its phase: `(phase's name, part of 1)`.
pub type Progress<'a> = dyn FnMut(&str, f64) + 'a;

pub struct Ran {
    pub record: RunRecord,
    /// What could not be done here, and why.
    pub skipped: Vec<String>,
    /// What makes the measurement doubtful.
    pub doubts: Vec<String>,
    /// How much: by what part the machine's time or speed was off, at worst.
    pub doubt: f64,
    /// Of nodes of this machine only.
    pub conditions: Option<Conditions>,
}

/// What the machine was like beside a run.
pub struct Conditions {
    /// By the yardstick, operations a second.
    pub speed: f64,
    pub interruptions: Option<Interruptions>,
}

/// Servers that run.
pub enum Servers<'a> {
    Local(&'a LocalCluster),
    /// Only addresses are known.
    Elsewhere(&'a [SocketAddr]),
}

impl Servers<'_> {
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

struct Real<'a> {
    run: &'a Run,
    servers: &'a Servers<'a>,
    watched: &'a Watched,
    loaders: Loaders,
    began: Instant,
    skipped: Vec<String>,
    doubts: Vec<String>,
    doubt: f64,
    yardstick: Option<Yardstick>,
    speeds: Vec<f64>,
    interruptions: Seen,
    /// Of nodes and loaders.
    cpus: Vec<usize>,
}

/// How long the processors are watched before a phase, and behind it.
const WATCH: Duration = Duration::from_millis(500);
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
    let yardstick = match servers {
        Servers::Local(_) => Some(Yardstick::new(&target, &config).map_err(RealError::Connect)?),
        Servers::Elsewhere(_) => None,
    };
    let mut cpus = loader_cpus.to_vec();
    if let Servers::Local(cluster) = servers {
        cpus.extend(cluster.cpus());
        cpus.sort_unstable();
        cpus.dedup();
    }
    let _awake = Awake::keep(&cpus).map_err(|cause| RealError::Watch(ProbeError::Asleep(cause)))?;
    let mut real = Real {
        run,
        servers,
        watched,
        loaders,
        began: Instant::now(),
        skipped: Vec::new(),
        doubts: Vec::new(),
        doubt: 0.0,
        yardstick,
        speeds: Vec::new(),
        interruptions: Seen::nothing(),
        cpus,
    };
    let mut phases = Vec::new();
    for index in 0..run.phases.len() {
        phases.extend(real.phase(index, progress)?);
    }
    real.skipped.extend(run.faults.iter().map(|fault| {
        format!("the fault at {}+{}: faults are injected into simulated nodes only", fault.at.phase, fault.at.after)
    }));
    let Real { loaders, skipped, doubts, doubt, speeds, interruptions, .. } = real;
    loaders.stop().map_err(RealError::Connect)?;
    let conditions = (!speeds.is_empty()).then(|| Conditions {
        speed: speeds.iter().sum::<f64>() / speeds.len() as f64,
        interruptions: interruptions.found(),
    });
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
        let before = self.speed(name)?;
        self.speeds.extend(before);
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
        // What compaction still does would be taken for the machine's slowness; only where the nodes are to rest anyway
        // are they let.
        let next = run.phases.get(index + 1);
        if let Some(before) = before
            && next.is_none_or(|next| next.quiesce == Quiesce::Before)
        {
            self.quiesce(name)?;
            let after = self.speed(name)?.unwrap_or(before);
            self.speeds.push(after);
            let drift = (after - before).abs() / before;
            if drift > DRIFT_MAX {
                self.doubt = self.doubt.max(drift);
                self.doubts.push(format!("{name}: the machine's speed changed by {:.0} %", drift * 100.0));
            }
        }
        if driven.stolen > STOLEN_MAX && !name.starts_with(PREPARES) {
            self.doubt = self.doubt.max(driven.stolen);
            let percent = driven.stolen * 100.0;
            self.doubts.push(format!("{name}: the host of this virtual machine had {percent:.0} % of its processors"));
        }
        Ok(Some(driven.record))
    }

    /// How fast the machine is, beside a phase that is compared. What takes the processors meanwhile is noted.
    fn speed(&mut self, phase: &str) -> Result<Option<f64>, RealError> {
        let Some(yardstick) = self.yardstick.as_ref().filter(|_| !phase.starts_with(PREPARES)) else { return Ok(None) };
        let failed = |cause| RealError::Load { phase: phase.to_string(), cause };
        let speed = yardstick.measure().map_err(failed)?;
        let seen = interruptions::measure(&self.cpus, WATCH).map_err(RealError::Watch)?;
        self.interruptions.add(&seen).map_err(RealError::Watch)?;
        Ok(Some(speed))
    }

    /// Whether the servers could be asked to.
    fn quiesce(&mut self, phase: &str) -> Result<bool, RealError> {
        match self.servers {
            Servers::Local(cluster) => cluster.quiesce()?,
            Servers::Elsewhere(_) => {
                self.skipped.push(format!("{phase}: waiting until flushes and compactions have ended"));
                return Ok(false);
            }
        }
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
        let watched = shares.first().map(|(_, share)| share.shared.clone());
        let start_ns = self.began.elapsed().as_nanos() as u64;
        let (start, warmup) = (Instant::now(), Duration::from_nanos(plan.warmup_ns));
        let mut meanwhile = Beside::new(plan, self.servers);
        // Taken again when the warm-up is over.
        let mut before: Look = self.watched.look();
        let mut is_warm = warmup.is_zero();
        if is_warm {
            meanwhile.begin(&run.keyspace);
        }
        let tick = || {
            if !is_warm && start.elapsed() >= warmup {
                (is_warm, before) = (true, self.watched.look());
                meanwhile.begin(&run.keyspace);
            }
            let part = match plan.workloads.first() {
                Some(workload) => match (workload.duration_ns, workload.operations, &watched) {
                    (Some(duration), ..) => start.elapsed().as_nanos() as f64 / duration as f64,
                    (_, Some(all), Some(shared)) => 1.0 - shared.left().min(all) as f64 / all as f64,
                    _ => 0.0,
                },
                None => 1.0,
            };
            progress(&plan.name, part.min(1.0));
        };
        let ran = self.loaders.run(shares, tick);
        let ran = ran.map_err(|cause| RealError::Load { phase: plan.name.clone(), cause })?;
        let resources = self.watched.since(run, &before);
        let stolen = self.watched.stolen_since(&before);
        let measured = ran.into_iter().filter(|(thread, _)| thread / of_loader < plan.workloads.len());
        let Some(whole) = load::merged(measured.map(|(_, recorder)| recorder)) else {
            return Err(RealError::Load { phase: plan.name.clone(), cause: LoadError::Silent });
        };
        let mut record = PhaseRecord::new(&plan.name, start_ns, whole.finish());
        record.set_resources(resources);
        self.skipped.extend(meanwhile.end(&plan.name));
        Ok(Driven { record, stolen })
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
    (plan.meanwhile == Some(Meanwhile::AddNode {})).then_some("a node cannot join a running cluster yet")
}

/// A major compaction that goes on beside the load.
struct Beside {
    api: Option<SocketAddr>,
    wanted: bool,
    asked: Option<JoinHandle<std::io::Result<http::Answer>>>,
}

impl Beside {
    fn new(plan: &PhasePlan, servers: &Servers<'_>) -> Self {
        let node = match plan.meanwhile {
            Some(Meanwhile::MajorCompaction { node }) => Some(node as usize - 1),
            _ => None,
        };
        let api = match (node, servers) {
            (Some(node), Servers::Local(cluster)) => cluster.api_address(node),
            _ => None,
        };
        Self { api, wanted: node.is_some(), asked: None }
    }

    fn begin(&mut self, keyspace: &str) {
        let Some(api) = self.api else { return };
        let target = format!("/storage_service/keyspace_compaction/{keyspace}?flush_memtables=false");
        self.asked = Some(thread::spawn(move || http::ask(api, "POST", &target)));
    }

    /// What was left out.
    fn end(self, phase: &str) -> Option<String> {
        let answered = self.asked.map(JoinHandle::join);
        match answered {
            Some(Ok(Ok(answer))) if answer.status == "200" => None,
            None if !self.wanted => None,
            _ => Some(format!("{phase}: the major compaction beside it")),
        }
    }
}
