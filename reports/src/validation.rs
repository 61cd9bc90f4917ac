//! Simulated runs beside real ones: each value with its error, what is usual, and the worst with what was the limit.
//!
//! A simulated record's references are the real one's values, as `validate` puts them there.

use scenarios::model::Budget;
use scenarios::record::{Comparison, RunRecord};
use serde::Serialize;

use crate::number::{percent, plain};
use crate::seeds::Spread;
use crate::table::{columns, limit};

/// One workload, in both worlds.
pub struct Validated<'a> {
    pub real: &'a RunRecord,
    pub simulated: &'a RunRecord,
    pub budget: Budget,
}

/// One value of both worlds, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Line<'a> {
    workload: &'a str,
    phase: &'a str,
    metric: &'static str,
    unit: &'a str,
    real: f64,
    simulated: Option<f64>,
    error: Option<f64>,
    budget: Option<f64>,
    within_budget: bool,
    real_limit: String,
    simulated_limit: String,
}

fn workload(record: &RunRecord) -> &str {
    record.scenario.strip_prefix("validate/").unwrap_or(&record.scenario)
}

fn within(budget: &Budget, comparison: &Comparison) -> bool {
    budget.of(comparison.metric).is_none_or(|granted| comparison.relative_error.is_some_and(|e| e.abs() <= granted))
}

/// What each world's phase was limited by.
fn limits(of: &Validated<'_>, phase: &str) -> [String; 2] {
    [of.real, of.simulated].map(|record| record.phase(phase).map(limit).unwrap_or_default())
}

/// One JSON object for each value, a line each.
pub fn json(all: &[Validated<'_>]) -> String {
    let mut text = String::new();
    for of in all {
        for comparison in &of.simulated.references {
            let [real_limit, simulated_limit] = limits(of, &comparison.phase);
            let line = Line {
                workload: workload(of.simulated),
                phase: &comparison.phase,
                metric: comparison.metric.name(),
                unit: &comparison.unit,
                real: comparison.reference,
                simulated: comparison.ours,
                error: comparison.relative_error,
                budget: of.budget.of(comparison.metric),
                within_budget: within(&of.budget, comparison),
                real_limit,
                simulated_limit,
            };
            text += &serde_json::to_string(&line).expect("a line has plain fields");
            text.push('\n');
        }
    }
    text
}

const TITLES: [&str; 7] = ["workload", "phase", "metric", "real", "simulated", "error", ""];

/// One table, and below it the medians of the errors and the worst one; ended by a newline.
pub fn table(all: &[Validated<'_>], markdown: bool) -> String {
    let mut rows = vec![TITLES.map(str::to_string).to_vec()];
    for of in all {
        for comparison in &of.simulated.references {
            let value = |v: f64| format!("{} {}", plain(v), comparison.unit);
            rows.push(vec![
                workload(of.simulated).to_string(),
                comparison.phase.clone(),
                comparison.metric.to_string(),
                value(comparison.reference),
                comparison.ours.map_or("none".to_string(), value),
                comparison.relative_error.map_or(String::new(), percent),
                if within(&of.budget, comparison) { "" } else { "beyond the budget" }.to_string(),
            ]);
        }
    }
    let table = if markdown { pipes(&rows) } else { columns(&rows, &[0, 1, 2, 6]) };
    format!("{table}\n{}{}", medians(all), worst(all))
}

fn pipes(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
    let Some((titles, values)) = rows.split_first() else { return String::new() };
    let rule = vec!["---".to_string(); titles.len()];
    let lines = [titles, &rule].into_iter().chain(values);
    lines.map(line).collect()
}

fn references<'a>(all: &'a [Validated<'_>]) -> impl Iterator<Item = (&'a Validated<'a>, &'a Comparison)> {
    all.iter().flat_map(|of| of.simulated.references.iter().map(move |comparison| (of, comparison)))
}

/// Of the absolute errors of each metric.
fn medians(all: &[Validated<'_>]) -> String {
    let mut metrics: Vec<_> = references(all).map(|(_, comparison)| comparison.metric).collect();
    metrics.sort();
    metrics.dedup();
    let mut text = String::new();
    for metric in metrics {
        let of_metric = references(all).filter(|(_, comparison)| comparison.metric == metric);
        let errors: Vec<f64> = of_metric.filter_map(|(_, c)| c.relative_error.map(f64::abs)).collect();
        let count = errors.len();
        let Some(Spread { median, .. }) = Spread::of(errors) else { continue };
        text += &format!("  median error of {}: {:.1} % over {count} values\n", metric.name(), median * 100.0);
    }
    text
}

fn worst(all: &[Validated<'_>]) -> String {
    let size = |comparison: &Comparison| comparison.relative_error.map_or(f64::INFINITY, f64::abs);
    let Some((of, comparison)) = references(all).max_by(|(_, a), (_, b)| size(a).total_cmp(&size(b))) else {
        return "  nothing was measured in both worlds\n".to_string();
    };
    let error = comparison.relative_error.map_or("no value".to_string(), percent);
    let [real, simulated] = limits(of, &comparison.phase);
    let (name, phase, metric) = (workload(of.simulated), &comparison.phase, comparison.metric);
    format!("  worst: {name} {phase} {metric}, {error}; the limit is {real} really, {simulated} in simulation\n")
}

#[cfg(test)]
mod tests {
    use hwprofiles::Standing;
    use scenarios::record::{Kind, PhaseRecord, Resource};
    use scenarios::{Metric, Recorder};

    use super::*;

    fn record(kind: Kind, cpu: f64) -> RunRecord {
        let mut phase = PhaseRecord::new("closed", 0, Recorder::new(0, 0, None).finish());
        phase.set_resources(vec![Resource {
            name: "server CPU".into(),
            place: "node 1".into(),
            utilisation_mean: cpu,
            utilisation_max: cpu,
            queue: 0.0,
        }]);
        RunRecord::bare(kind, "validate/reads", "orrery", vec![phase])
    }

    fn comparison(metric: Metric, reference: f64, ours: f64) -> Comparison {
        Comparison {
            phase: "closed".into(),
            metric,
            unit: metric.unit().into(),
            reference,
            ours: Some(ours),
            relative_error: Some((ours - reference) / reference),
            source: Standing::Measured,
            fitted: false,
        }
    }

    #[test]
    fn a_table_ends_with_the_medians_and_the_worst() {
        let (real, mut simulated) = (record(Kind::Real, 0.99), record(Kind::Simulated, 0.5));
        simulated.references = vec![
            comparison(Metric::Throughput, 1000.0, 1050.0),
            comparison(Metric::LatencyP50, 0.2, 0.21),
            comparison(Metric::LatencyP99, 1.0, 1.6),
        ];
        let all = [Validated { real: &real, simulated: &simulated, budget: Budget::default() }];
        let text = table(&all, false);
        for part in [
            "reads     closed  throughput   1,000 op/s  1,050 op/s   +5.0 %\n",
            "+60.0 %  beyond the budget\n",
            "median error of latency_p50: 5.0 % over 1 values",
            "worst: reads closed latency_p99, +60.0 %; the limit is server CPU 99 % really, nothing (server CPU 50 %) in",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(table(&all, true).contains("| reads | closed | throughput | 1,000 op/s | 1,050 op/s | +5.0 % |  |\n"));
        let lines = json(&all);
        assert_eq!(lines.lines().count(), 3);
        assert!(lines.lines().last().is_some_and(|line| line.contains("\"within_budget\":false")), "{lines}");
    }

    #[test]
    fn several_workloads_have_one_median() {
        let real = record(Kind::Real, 0.9);
        let simulated = [0.9, 1.2].map(|ours| {
            let mut record = record(Kind::Simulated, 0.9);
            record.references = vec![comparison(Metric::Throughput, 1.0, ours)];
            record
        });
        let of = |simulated| Validated { real: &real, simulated, budget: Budget::default() };
        let text = table(&simulated.each_ref().map(of), false);
        assert!(text.contains("median error of throughput: 15.0 % over 2 values"), "{text}");
    }
}
