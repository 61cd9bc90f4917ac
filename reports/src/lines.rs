//! A run as JSON, one value a line: `bench, system, phase, metric, value, unit, standing`.

use scenarios::Metric;
use scenarios::record::{Kind, RunRecord};
use serde::Serialize;

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

pub fn lines(record: &RunRecord) -> Vec<Line<'_>> {
    let bench = record.bench.as_deref().unwrap_or(&record.scenario);
    let standing = |phase: &str, metric: Metric| {
        let fitted = record.references.iter().any(|r| r.fitted && r.phase == phase && r.metric == metric);
        match record.kind {
            Kind::Real => "measured",
            Kind::Simulated if fitted => "fitted",
            Kind::Simulated => "predicted",
        }
    };
    let phases = record.phases.iter();
    phases
        .flat_map(|phase| {
            Metric::ALL.iter().filter_map(move |(name, metric)| {
                Some(Line {
                    bench,
                    system: &record.system,
                    phase: &phase.name,
                    metric: name,
                    value: phase.value(*metric)?,
                    unit: metric.unit(),
                    standing: standing(&phase.name, *metric),
                })
            })
        })
        .collect()
}

/// The same as text.
pub fn json_lines(record: &RunRecord) -> String {
    let json = |line: &Line<'_>| serde_json::to_string(line).expect("a line has plain fields") + "\n";
    lines(record).iter().map(json).collect()
}
