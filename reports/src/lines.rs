//! Runs as JSON, one value a line: `bench, system, phase, metric, value, unit, standing`.

use scenarios::Metric;
use scenarios::record::{Kind, RunRecord};
use serde::Serialize;

use crate::seeds::Seeds;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line<'a> {
    /// The report that is reproduced, or the scenario's name.
    pub bench: &'a str,
    pub system: &'a str,
    pub phase: &'a str,
    pub metric: &'static str,
    pub value: f64,
    pub unit: &'static str,
    /// `predicted`, `fitted` (a profile was fitted to this very value) or `measured` (a real run).
    pub standing: &'static str,
}

/// Medians, where there are several seeds of a system.
pub fn lines<'a>(records: impl IntoIterator<Item = &'a RunRecord>) -> Vec<Line<'a>> {
    Seeds::of_each(records).iter().flat_map(of_system).collect()
}

fn of_system<'a>(seeds: &Seeds<'a>) -> Vec<Line<'a>> {
    let record = seeds.first();
    let standing = |phase: &str, metric: Metric| {
        let fitted = record.references.iter().any(|r| r.fitted && r.phase == phase && r.metric == metric);
        match record.kind {
            Kind::Real => "measured",
            Kind::Simulated if fitted => "fitted",
            Kind::Simulated => "predicted",
        }
    };
    let line = |phase: &'a str, name: &'static str, metric: Metric| {
        Some(Line {
            bench: record.bench.as_deref().unwrap_or(&record.scenario),
            system: &record.system,
            phase,
            metric: name,
            value: seeds.value(phase, metric)?.median,
            unit: metric.unit(),
            standing: standing(phase, metric),
        })
    };
    let of_phase = |phase: &'a str| Metric::ALL.iter().filter_map(move |(name, metric)| line(phase, name, *metric));
    record.phases.iter().flat_map(|phase| of_phase(&phase.name)).collect()
}

/// The same as text.
pub fn json_lines<'a>(records: impl IntoIterator<Item = &'a RunRecord>) -> String {
    let json = |line: &Line<'_>| serde_json::to_string(line).expect("a line has plain fields") + "\n";
    lines(records).iter().map(json).collect()
}
