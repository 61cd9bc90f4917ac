//! A simulated run beside a real one: the relative error of every value that both have.

use hwprofiles::Standing;
use scenarios::model::Budget;
use scenarios::record::{Comparison, relative_error};
use scenarios::{Metric, PhaseRecord, Run, RunRecord};

/// What is held against each other.
pub const METRICS: [Metric; 3] = [Metric::Throughput, Metric::LatencyP50, Metric::LatencyP99];
/// A phase whose name begins so only prepares what others measure.
pub const PREPARES: &str = "populate";
/// A load at a fixed rate that both worlds keep to this part has no throughput to be compared.
const KEPT: f64 = 0.98;

/// Gives the simulated record the real one's values as its references.
pub fn hold(simulated: &mut RunRecord, real: &RunRecord, run: &Run) {
    let mut references = Vec::new();
    for phase in real.phases.iter().filter(|phase| !phase.name.starts_with(PREPARES)) {
        let Some(ours) = simulated.phase(&phase.name) else { continue };
        let rate = offered(run, &phase.name);
        let kept = |phase: &PhaseRecord| rate.is_some_and(|rate| phase.throughput >= KEPT * rate);
        let is_told = |metric: &&Metric| **metric != Metric::Throughput || !(kept(phase) && kept(ours));
        references.extend(METRICS.iter().filter(is_told).filter_map(|metric| compare(phase, ours, *metric)));
    }
    simulated.references = references;
}

/// Operations a second that all loaders of a phase are told to do together, where they are.
fn offered(run: &Run, phase: &str) -> Option<f64> {
    let plan = run.phases.iter().find(|plan| plan.name == phase)?;
    plan.workloads.iter().map(|workload| workload.arrival.rate()).sum()
}

fn compare(real: &PhaseRecord, simulated: &PhaseRecord, metric: Metric) -> Option<Comparison> {
    let reference = real.value(metric)?;
    let ours = simulated.value(metric);
    Some(Comparison {
        phase: real.name.clone(),
        metric,
        unit: metric.unit().to_string(),
        reference,
        ours,
        relative_error: relative_error(ours, reference),
        source: Standing::Measured,
        fitted: false,
    })
}

/// Whether a value is further off than the budget grants, or is missing.
pub fn is_beyond(budget: &Budget, comparison: &Comparison) -> bool {
    let Some(granted) = budget.of(comparison.metric) else { return false };
    comparison.relative_error.is_none_or(|error| error.abs() > granted)
}

#[cfg(test)]
mod tests {
    use hwprofiles::Profiles;
    use scenarios::record::Kind;
    use scenarios::{LatencySummary, Recorder, load};

    use super::*;

    fn record(throughput: f64, p50_us: u64, p99_us: u64) -> RunRecord {
        let phase = |name: &str| {
            let mut phase = PhaseRecord::new(name, 0, Recorder::new(0, 0, None).finish());
            (phase.throughput, phase.measured) = (throughput, 1000);
            phase.latency = LatencySummary { p50: p50_us * 1000, p99: p99_us * 1000, ..Default::default() };
            phase
        };
        RunRecord::bare(Kind::Real, "tiny", "orrery", ["populate", "closed", "open"].map(phase).into())
    }

    fn run() -> Run {
        let text = "name: tiny\ncluster: {system: orrery, instance: local, nodes: 1, data_disk: local, network: local}\n\
                    loaders: {instance: local, nodes: 1, system: orrery-bench}\n\
                    schema: {keyspace: {replication_factor: 1}}\nphases:\n  \
                    - {name: populate, stress: \"write n=1000 -rate threads=2\"}\n  \
                    - {name: closed, stress: \"read n=1000 -rate threads=2\"}\n  \
                    - {name: open, stress: \"read n=1000 -rate threads=2 fixed=1000/s\"}\n";
        let document = hwprofiles::document::Document::new("tiny.yaml", text);
        load::read(&document, &Profiles::embedded()).unwrap().runs.remove(0)
    }

    #[test]
    fn errors_are_of_the_measured_value_and_kept_rates_are_none() {
        let mut simulated = record(990.0, 110, 500);
        hold(&mut simulated, &record(1000.0, 100, 1000), &run());
        let all: Vec<(&str, Metric, f64)> = simulated
            .references
            .iter()
            .map(|c| (c.phase.as_str(), c.metric, (c.relative_error.unwrap() * 1000.0).round() / 1000.0))
            .collect();
        use Metric::*;
        assert_eq!(
            all,
            [
                ("closed", Throughput, -0.01),
                ("closed", LatencyP50, 0.1),
                ("closed", LatencyP99, -0.5),
                ("open", LatencyP50, 0.1),
                ("open", LatencyP99, -0.5),
            ]
        );
        let budget = Budget::default();
        let beyond: Vec<bool> = simulated.references.iter().map(|c| is_beyond(&budget, c)).collect();
        assert_eq!(beyond, [false, false, true, false, true]);
    }

    #[test]
    fn a_rate_that_one_world_does_not_keep_is_told() {
        let mut simulated = record(700.0, 100, 1000);
        hold(&mut simulated, &record(1000.0, 100, 1000), &run());
        let open: Vec<_> = simulated.references.iter().filter(|c| c.phase == "open").collect();
        assert_eq!((open.len(), open[0].metric), (3, Metric::Throughput));
        assert!(is_beyond(&Budget::default(), open[0]));
    }
}
