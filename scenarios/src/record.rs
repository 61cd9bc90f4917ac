//! The record of a run: the one type that crosses from a run, simulated or real, to a report.
//!
//! For a simulated run it follows from the scenario, the seed and the code alone: fields have a fixed order, maps are
//! ordered, and nothing that the host's clock knows is in it. [`Timing`] is kept in a file of its own.

use std::collections::BTreeMap;

use hwprofiles::Standing;
use serde::{Deserialize, Serialize};

use crate::explanation::Explanation;
use crate::latency::{Interval, LatencySummary, Recorded};
use crate::metric::Metric;
use crate::model::{Reference, Slo};
use crate::run::Run;

pub const FORMAT: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Simulated,
    Real,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    pub format: u32,
    pub kind: Kind,
    pub scenario: String,
    pub about: String,
    pub bench: Option<String>,
    pub system: String,
    /// `3 x c3.2xlarge`, as a report's title says it.
    pub cluster: String,
    pub loaders: String,
    pub seed: u64,
    /// Simulated bytes over real bytes.
    pub scale: f64,
    pub phases: Vec<PhaseRecord>,
    pub references: Vec<Comparison>,
    pub checks: Vec<CheckResult>,
    /// Events that the simulator's kernel dispatched, and a hash over all of them in order. 0 for a real run.
    pub kernel_events: u64,
    pub event_hash: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhaseRecord {
    pub name: String,
    pub operations: u64,
    /// Operations inside the measured window.
    pub measured: u64,
    pub errors: BTreeMap<String, u64>,
    /// When the phase began on the run's clock.
    pub start_ns: u64,
    /// From the first operation to the last answer.
    pub duration_ns: u64,
    /// The beginning of that which is not measured.
    pub warmup_ns: u64,
    /// Of the phase at full size, where its end depends on the amount of data.
    pub full_size_duration_s: Option<f64>,
    /// From the first operation until compaction had ceased, at full size, where it was waited for.
    pub full_size_quiesce_s: Option<f64>,
    /// Operations a second.
    pub throughput: f64,
    /// From when an operation was due. The maximum is also that of the loading client's start.
    pub latency: LatencySummary,
    /// The start's own, where it is simulated (`hwprofiles::Start`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_latency: Option<LatencySummary>,
    /// From when it was begun, where that was later.
    pub latency_uncorrected: Option<LatencySummary>,
    pub interval_ns: u64,
    pub series: Vec<Interval>,
    /// Busiest first.
    pub resources: Vec<Resource>,
    /// Empty for a real run.
    #[serde(default)]
    pub explanation: Explanation,
    /// Microseconds of the servers' processors that each kind of work took, an operation.
    #[serde(default)]
    pub work_us: BTreeMap<String, f64>,
    /// Whatever else was measured.
    #[serde(default)]
    pub further: BTreeMap<Metric, f64>,
}

/// How much of a resource was used while the phase was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resource {
    /// What it is: `server CPU`, `data disk IOPS`, `loader CPU`, `server volumes`, `server NIC out`.
    pub name: String,
    /// The busiest one's, such as `node 2 shard 5`.
    pub place: String,
    /// 0 to 1: mean over all of its kind, and of the busiest single one.
    pub utilisation_mean: f64,
    pub utilisation_max: f64,
    /// Requests that waited, on average, at the busiest one.
    pub queue: f64,
}

impl Resource {
    /// From here on more load means more waiting, not more work.
    pub const SATURATED: f64 = 0.9;
}

impl PhaseRecord {
    pub fn new(name: &str, start_ns: u64, recorded: Recorded) -> Self {
        let mut further = BTreeMap::new();
        let [writes, reads] = recorded.sides;
        if let (Some((write_rate, write)), Some((read_rate, read))) = (writes, reads) {
            use Metric::*;
            let ms = |ns: u64| ns as f64 / 1e6;
            further.extend([(WriteThroughput, write_rate), (ReadThroughput, read_rate)]);
            further.extend([(WriteLatencyMean, ms(write.mean)), (ReadLatencyMean, ms(read.mean))]);
            further.extend([(WriteLatencyP50, ms(write.p50)), (ReadLatencyP50, ms(read.p50))]);
            further.extend([(WriteLatencyP90, ms(write.p90)), (ReadLatencyP90, ms(read.p90))]);
            further.extend([WriteLatencyP99, LatencyP99Write].map(|metric| (metric, ms(write.p99))));
            further.extend([ReadLatencyP99, LatencyP99Read].map(|metric| (metric, ms(read.p99))));
        }
        Self {
            name: name.to_string(),
            operations: recorded.operations,
            measured: recorded.measured,
            errors: recorded.errors,
            start_ns,
            duration_ns: recorded.duration_ns,
            warmup_ns: recorded.warmup_ns,
            full_size_duration_s: None,
            full_size_quiesce_s: None,
            throughput: recorded.throughput,
            latency: recorded.latency,
            start_latency: None,
            latency_uncorrected: recorded.latency_uncorrected,
            interval_ns: recorded.interval_ns,
            series: recorded.series,
            resources: Vec::new(),
            explanation: Explanation::default(),
            work_us: BTreeMap::new(),
            further,
        }
    }

    /// Sorts busiest first: by the mean over all of a kind, then by name.
    pub fn set_resources(&mut self, mut resources: Vec<Resource>) {
        resources.sort_by(|a, b| b.utilisation_mean.total_cmp(&a.utilisation_mean).then_with(|| a.name.cmp(&b.name)));
        self.resources = resources;
    }

    /// The busiest resource, if it is the limit.
    pub fn saturated(&self) -> Option<&Resource> {
        let busiest = self.resources.iter().max_by(|a, b| a.utilisation_mean.total_cmp(&b.utilisation_mean));
        busiest.filter(|r| r.utilisation_mean >= Resource::SATURATED)
    }

    /// In the metric's unit; `None` if the phase has no such value.
    pub fn value(&self, metric: Metric) -> Option<f64> {
        let ms = |ns: u64| Some(ns as f64 / 1e6).filter(|_| self.measured > 0);
        match metric {
            Metric::Throughput => Some(self.throughput).filter(|_| self.measured > 0),
            Metric::LatencyMean => ms(self.latency.mean),
            Metric::LatencyP50 => ms(self.latency.p50),
            Metric::LatencyP90 => ms(self.latency.p90),
            Metric::LatencyP95 => ms(self.latency.p95),
            Metric::LatencyP99 => ms(self.latency.p99),
            Metric::LatencyP999 => ms(self.latency.p99_9),
            Metric::LatencyMax => ms(self.latency.max),
            Metric::Duration => self.full_size_duration_s,
            Metric::QuiesceTotal => self.full_size_quiesce_s,
            Metric::CompactionAfterLoad => Some(self.full_size_quiesce_s? - self.full_size_duration_s?),
            further => self.further.get(&further).copied(),
        }
    }
}

/// A published or measured value beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    pub phase: String,
    pub metric: Metric,
    pub unit: String,
    pub reference: f64,
    pub ours: Option<f64>,
    /// (ours - reference) / reference.
    pub relative_error: Option<f64>,
    /// Where the reference comes from.
    pub source: Standing,
    /// A profile was fitted to this value: agreement proves nothing.
    pub fitted: bool,
}

impl Comparison {
    /// The same reference beside another value of ours.
    pub fn against(&self, ours: Option<f64>) -> Self {
        Self { ours, relative_error: relative_error(ours, self.reference), ..self.clone() }
    }
}

/// `None` without a value, and where the reference is 0.
pub fn relative_error(ours: Option<f64>, reference: f64) -> Option<f64> {
    ours.filter(|_| reference != 0.0).map(|ours| (ours - reference) / reference)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResult {
    /// `read-small latency_p99 <= 50 ms`
    pub check: String,
    pub ours: Option<f64>,
    pub met: bool,
}

/// What the host's clock says about a run; never part of the record.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    pub wall_s: f64,
    pub virtual_s: f64,
    pub events_per_s: f64,
    pub operations_per_s: f64,
}

impl RunRecord {
    /// Phases at full size, of which nothing is asked; what else is to be told of them comes on top.
    pub fn bare(kind: Kind, scenario: &str, system: &str, phases: Vec<PhaseRecord>) -> Self {
        Self {
            format: FORMAT,
            kind,
            scenario: scenario.to_string(),
            about: String::new(),
            bench: None,
            system: system.to_string(),
            cluster: String::new(),
            loaders: String::new(),
            seed: 1,
            scale: 1.0,
            phases,
            references: Vec::new(),
            checks: Vec::new(),
            kernel_events: 0,
            event_hash: String::new(),
        }
    }

    /// The record of one run of an experiment, references and checks already held against the phases.
    pub fn new(kind: Kind, run: &Run, mut phases: Vec<PhaseRecord>) -> Self {
        for phase in &mut phases {
            let Some(plan) = run.phases.iter().find(|plan| plan.name == phase.name) else { continue };
            if plan.workloads.iter().any(|w| w.operations.is_some()) {
                phase.full_size_duration_s = Some(run.scale.full_size_s(phase.duration_ns));
            }
        }
        let by_name = |name: &str| phases.iter().find(|p| p.name == name);
        let references = run.references.iter().filter_map(|r| compare(r, by_name(&r.phase))).collect();
        let checks = run.checks.slo.iter().flat_map(|slo| check(slo, by_name(&slo.phase))).collect();
        Self {
            about: run.about.clone(),
            bench: run.bench.clone(),
            cluster: format!("{} x {}", run.nodes, run.instance.name),
            loaders: format!("{} x {}", run.loader_nodes, run.loader_instance.name),
            seed: run.seed,
            scale: run.scale.data.f64(),
            references,
            checks,
            ..Self::bare(kind, &run.scenario, &run.reported_as, phases)
        }
    }

    pub fn phase(&self, name: &str) -> Option<&PhaseRecord> {
        self.phases.iter().find(|p| p.name == name)
    }

    /// Byte-equal for equal records.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a record has string keys and finite numbers");
        text.push('\n');
        text
    }
}

fn compare(reference: &Reference, phase: Option<&PhaseRecord>) -> Option<Comparison> {
    // The loader has checked the value; one that cannot be read is left out rather than invented.
    let value = reference.metric.parse_value(&reference.value).ok()?;
    let ours = phase.and_then(|p| p.value(reference.metric));
    Some(Comparison {
        phase: reference.phase.clone(),
        metric: reference.metric,
        unit: reference.metric.unit().to_string(),
        reference: value,
        ours,
        relative_error: relative_error(ours, value),
        source: reference.source,
        fitted: reference.fitted,
    })
}

fn check(slo: &Slo, phase: Option<&PhaseRecord>) -> Vec<CheckResult> {
    let ours = phase.and_then(|p| p.value(slo.metric));
    let side = |bound: &Option<String>, sign: &str, holds: fn(f64, f64) -> bool| {
        let text = bound.as_ref()?;
        let limit = slo.metric.parse_value(text).ok()?;
        let met = ours.is_some_and(|value| holds(value, limit));
        Some(CheckResult { check: format!("{} {} {sign} {text}", slo.phase, slo.metric), ours, met })
    };
    [side(&slo.max, "<=", |a, b| a <= b), side(&slo.min, ">=", |a, b| a >= b)].into_iter().flatten().collect()
}
