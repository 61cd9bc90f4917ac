//! What can be run: one system under one scenario, with its phases scaled and dealt out to loaders.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::time::Duration;

use hwprofiles::quantity::{Quantity, Size};
use hwprofiles::{Disk, Instance, MemoryPlan, Network, System};

use crate::client::{PhaseShare, SharedPhase, TableSpec, Target};
use crate::latency::Side;
use crate::model::{Checks, Fault, Footprint, Meanwhile, Quiesce, Reference, Search, Settings};
use crate::scale::Scale;
use crate::workload::{Arrival, CONNECTIONS_PER_HOST, Mix, Row, Workload};

/// One system under one scenario, all names resolved.
#[derive(Clone, Debug)]
pub struct Run {
    pub scenario: String,
    pub about: String,
    pub bench: Option<String>,
    pub system: System,
    /// The system's name in results.
    pub reported_as: String,
    pub instance: Instance,
    pub nodes: u32,
    /// What the scenario tells the nodes itself. All but the memory is in `system` already.
    pub settings: Settings,
    pub data_disk: Disk,
    /// `None`: on the data disk.
    pub commitlog_disk: Option<Disk>,
    pub network: Network,
    pub loader_system: System,
    pub loader_instance: Instance,
    pub loader_nodes: u32,
    pub keyspace: String,
    pub replication_factor: u32,
    pub row: Row,
    /// A class; the server's default if absent.
    pub compaction: Option<String>,
    pub seed: u64,
    /// How many seeds from there on its scenario wants.
    pub seeds: NonZeroU32,
    pub scale: Scale,
    pub phases: Vec<PhasePlan>,
    pub faults: Vec<Fault>,
    pub checks: Checks,
    /// Those of this system.
    pub references: Vec<Reference>,
}

impl Run {
    /// The run that a seed makes of it: phases that vary have as many operations as it says.
    pub fn with_seed(mut self, seed: u64) -> Run {
        self.seed = seed;
        for phase in &mut self.phases {
            let times = 1.0 + phase.vary * spread(seed);
            for operations in phase.workloads.iter_mut().filter_map(|workload| workload.operations.as_mut()) {
                *operations = (*operations as f64 * times).round() as u64;
            }
        }
        self
    }

    /// Shards of one server and of one loader.
    pub fn shards(&self) -> (u32, u32) {
        let on = |system: &System, instance: &Instance| system.threading.shards(instance.vcpus.u64()) as u32;
        (on(&self.system, &self.instance), on(&self.loader_system, &self.loader_instance))
    }

    pub fn table(&self) -> TableSpec {
        let row = self.phases.iter().find_map(|p| p.workloads.first()).map_or(self.row, |w| w.row);
        let mixes = self.phases.iter().flat_map(|p| &p.workloads).map(|w| w.mix);
        TableSpec {
            compaction: self.compaction.clone(),
            has_parts: mixes.into_iter().any(|mix| mix.update + mix.scan + mix.read_modify_write > 0),
            ..TableSpec::new(&self.keyspace, self.replication_factor, row)
        }
    }

    /// Lets phases that time ends be measured for `measured_ns`, behind their warm-up.
    pub fn measure_for(&mut self, measured_ns: u64) {
        for plan in &mut self.phases {
            let whole_ns = plan.warmup_ns + measured_ns;
            let timed = plan.workloads.iter_mut().chain(&mut plan.background).map(|load| &mut load.duration_ns);
            timed.filter(|duration| duration.is_some()).for_each(|duration| *duration = Some(whole_ns));
        }
    }

    /// By what bursts of time are divided, such as credits: as the data is, but by no more than a timed phase is, lest
    /// they end within one whose floors make it longer than the data's part.
    pub fn burst_part(&self) -> f64 {
        self.phases.iter().filter_map(|phase| phase.time_part).fold(self.scale.data.f64(), f64::max).min(1.0)
    }

    /// What its loaders connect to.
    pub fn target(&self, nodes: Vec<SocketAddr>, patience: Duration) -> Target {
        let first = self.phases.iter().find_map(|phase| phase.workloads.first());
        let connections_per_host = first.map_or(CONNECTIONS_PER_HOST, |workload| workload.connections_per_host);
        let shard_aware = self.loader_system.shard_aware;
        Target { nodes, table: self.table(), connections_per_host, shard_aware, patience }
    }

    /// Bytes of this engine's memory for the rows that the system has in a byte of its own.
    fn rows_alike(&self) -> f64 {
        let Some(overhead) = self.system.memory.as_ref().and_then(|memory| memory.overhead.as_ref()) else {
            return 1.0;
        };
        let row = self.table().row;
        let (rows, cells) = (u64::from(row.rows.max(1)), u64::from(row.columns));
        let content = Row::KEY_BYTES as u64 + rows * cells * u64::from(row.column_bytes);
        row.memory_bytes() as f64 / (content + overhead.of(rows, cells)) as f64
    }

    fn index_fraction(&self) -> f64 {
        self.system.memory.as_ref().map_or(0.0, |memory| memory.index_cache_fraction.f64())
    }

    /// The part of the memory for the cache that blocks of indexes may take: those are as large as the system's own.
    pub fn index_cache_fraction(&self) -> f64 {
        let (index, rows) = (self.index_fraction(), 1.0 - self.index_fraction());
        index / (index + rows * self.rows_alike())
    }

    /// Memory of one server, scaled. Of rows it holds as many as the system's own would.
    pub fn memory(&self) -> MemoryPlan {
        let full = match &self.system.memory {
            Some(memory) => memory.plan(self.instance.ram.u64()),
            None => MemoryPlan::default(),
        };
        let told = |size: Option<Size>, full: u64| size.map_or(full, |size| size.u64());
        let part = |bytes| self.scale.amount(bytes);
        let of_rows = |bytes: u64| (bytes as f64 * self.rows_alike()) as u64;
        let cache = told(self.settings.cache, full.row_cache);
        let index = (cache as f64 * self.index_fraction()) as u64;
        MemoryPlan {
            engine: part(full.engine),
            memtable: part(of_rows(told(self.settings.memtable, full.memtable))),
            row_cache: part(index + of_rows(cache - index)),
            page_cache: part(full.page_cache),
        }
    }

    /// The parts of phase `phase` that the shards of loader `loader` (from 0) run; empty if it takes no part.
    pub fn shares(&self, phase: usize, loader: usize) -> Vec<PhaseShare> {
        self.shares_at(phase, loader, 0, None)
    }

    /// The part of one shard of loader `loader` in the beginning of phase `phase`, which lasts for `lasts_ns`, as the
    /// phase's load does; empty if it takes no part.
    pub fn start_shares(&self, phase: usize, loader: usize, lasts_ns: u64) -> Vec<PhaseShare> {
        let mut shares = self.shares_at(phase, loader, 1, None);
        for share in &mut shares {
            share.shared.workload.duration_ns = Some(lasts_ns);
            share.warmup_ns = 0;
        }
        shares
    }

    /// The same for step `step` of a search: at `rate` operations a second of all loaders together.
    pub fn shares_at(&self, phase: usize, loader: usize, step: u64, rate: Option<f64>) -> Vec<PhaseShare> {
        let plan = &self.phases[phase];
        let Some(workload) = plan.workloads.iter().chain(&plan.background).nth(loader) else { return Vec::new() };
        let mut workload = workload.clone();
        if let Some(rate) = rate {
            let rate = Quantity::new(rate / plan.workloads.len() as f64);
            workload.arrival = Arrival::Open { threads: workload.arrival.threads(), rate };
        }
        let shared = SharedPhase::new(workload).of_loader(loader as u64, plan.workloads.len() as u64);
        let shards = self.shards().1;
        let place = step * self.phases.len() as u64 + phase as u64;
        let of_loader = (place * u64::from(self.loader_nodes) + loader as u64) * u64::from(shards);
        (0..shards)
            .map(|shard| PhaseShare {
                shared: shared.clone(),
                shard,
                shards,
                seed: self.seed,
                stream: of_loader + u64::from(shard),
                warmup_ns: plan.warmup_ns,
            })
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct PhasePlan {
    pub name: String,
    /// One for each loader that takes part, already scaled.
    pub workloads: Vec<Workload>,
    /// What the next loader does meanwhile, unmeasured.
    pub background: Option<Workload>,
    /// By how much more operations a seed may make it, over its own.
    pub vary: f64,
    /// Beginning of the phase that is not measured.
    pub warmup_ns: u64,
    /// Simulated over full-size duration, where time ends the phase.
    pub time_part: Option<f64>,
    pub quiesce: Quiesce,
    pub search: Option<Search>,
    pub footprint: Option<Footprint>,
    pub meanwhile: Option<Meanwhile>,
    pub major_compaction_after: bool,
}

impl PhasePlan {
    /// The names under which the phase reports: its own, or one for each side of a search, and that side.
    pub fn reported(&self) -> Vec<(String, Option<Side>)> {
        let Some(mix) = self.search.and(self.workloads.first()).map(|workload| workload.mix) else {
            return vec![(self.name.clone(), None)];
        };
        reported(&self.name, mix)
    }
}

/// From 0 to 1: multiples of the golden ratio, of which any few in a row are far from each other.
fn spread(seed: u64) -> f64 {
    (seed % 1_000_000) as f64 * 0.618_033_988_749_895 % 1.0
}

fn reported(name: &str, mix: Mix) -> Vec<(String, Option<Side>)> {
    match mix.has_sides() {
        [true, true] => [("write", Side::Write), ("read", Side::Read)]
            .map(|(side, s)| (format!("{name}-{side}-slo"), Some(s)))
            .into(),
        [true, false] => vec![(name.to_string(), Some(Side::Write))],
        _ => vec![(name.to_string(), Some(Side::Read))],
    }
}
