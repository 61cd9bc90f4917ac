//! A run as text: what each phase did and what limited it, and every reference beside our value.

use std::fmt::Write;

use hwprofiles::Standing;
use scenarios::record::{Kind, PhaseRecord, RunRecord, Timing};

use crate::number::{grouped, percent, plain, scale, time};
use crate::seeds::{Seeds, Spread};

/// Columns as wide as their content; the first `left` ones flush left, the others flush right.
pub fn columns(rows: &[Vec<String>], left: &[usize]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(i, cell)| {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            if left.contains(&i) { format!("{cell}{pad}") } else { format!("{pad}{cell}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        text.push_str("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// What a phase was limited by, in words.
pub fn limit(phase: &PhaseRecord) -> String {
    let used = |share: f64| format!("{:.0} %", share * 100.0);
    match (phase.saturated(), phase.resources.first()) {
        (Some(r), _) => format!("{} {}", r.name, used(r.utilisation_mean)),
        (None, Some(r)) => format!("nothing ({} {})", r.name, used(r.utilisation_mean)),
        (None, None) => String::new(),
    }
}

fn phases(record: &RunRecord) -> String {
    let titles = ["phase", "ops", "op/s", "mean", "p50", "p95", "p99", "p99.9", "max", "errors", "limited by"];
    let mut rows = vec![titles.map(str::to_string).to_vec()];
    for phase in &record.phases {
        let l = &phase.latency;
        let mut row = vec![phase.name.clone(), grouped(phase.operations), grouped(phase.throughput.round() as u64)];
        row.extend([l.mean, l.p50, l.p95, l.p99, l.p99_9, l.max].map(|ns| time(ns as f64)));
        row.push(grouped(phase.errors.values().sum()));
        row.push(limit(phase));
        rows.push(row);
    }
    columns(&rows, &[0, 10])
}

/// How the values that a record is held against came to be: somebody's report, unless all were measured.
pub(crate) fn references_are(record: &RunRecord) -> &'static str {
    let measured = record.references.iter().all(|reference| reference.source == Standing::Measured);
    if measured { "measured" } else { "published" }
}

fn references(record: &RunRecord) -> String {
    let ours = match record.kind {
        Kind::Simulated => "simulated",
        Kind::Real => "measured here",
    };
    let theirs = references_are(record);
    let mut rows = vec![["phase", "metric", theirs, ours, "error", ""].map(str::to_string).to_vec()];
    for r in &record.references {
        let value = |v: f64| format!("{} {}", plain(v), r.unit);
        rows.push(vec![
            r.phase.clone(),
            r.metric.to_string(),
            value(r.reference),
            r.ours.map_or("none".to_string(), value),
            r.relative_error.map_or(String::new(), percent),
            if r.fitted { "fitted".to_string() } else { String::new() },
        ]);
    }
    columns(&rows, &[0, 1, 5])
}

/// What several seeds of each system are held against the references with: their median. Empty where no system has
/// several; ended by a newline.
pub fn seeds<'a>(records: impl IntoIterator<Item = &'a RunRecord>) -> String {
    let mut text = String::new();
    for seeds in Seeds::of_each(records).iter().filter(|seeds| seeds.count() > 1) {
        let record = seeds.first();
        let titles = ["phase", "metric", references_are(record), "median", "least", "most", "error", ""];
        let mut rows = vec![titles.map(str::to_string).to_vec()];
        for (r, spread) in seeds.references() {
            let value = |v: f64| format!("{} {}", plain(v), r.unit);
            let mut row = vec![r.phase.clone(), r.metric.to_string(), value(r.reference)];
            row.extend(match spread {
                Some(Spread { median, least, most }) => [median, least, most].map(value),
                None => ["none", "", ""].map(str::to_string),
            });
            row.push(r.relative_error.map_or(String::new(), percent));
            row.push(if r.fitted { "fitted".to_string() } else { String::new() });
            rows.push(row);
        }
        text += &format!("{}: {}, {} seeds\n\n", record.scenario, record.system, seeds.count());
        text += &columns(&rows, &[0, 1, 7]);
        text.push('\n');
    }
    text
}

/// The whole text, ended by a newline.
pub fn run(record: &RunRecord, timing: Option<&Timing>) -> String {
    let mut text = String::new();
    let kind = match record.kind {
        Kind::Simulated => format!("simulated, {}, seed {}", scale(record.scale), record.seed),
        Kind::Real => format!("real, {}", scale(record.scale)),
    };
    let mut line = |args: std::fmt::Arguments<'_>| {
        text.write_fmt(args).expect("writing to a string");
        text.push('\n');
    };
    line(format_args!(
        "{}: {} on {}, loaded by {} ({kind})",
        record.scenario, record.system, record.cluster, record.loaders
    ));
    line(format_args!(""));
    line(format_args!("{}", phases(record)));
    let several: Vec<String> = record
        .phases
        .iter()
        .filter(|p| !p.errors.is_empty())
        .map(|p| {
            let kinds: Vec<String> = p.errors.iter().map(|(kind, n)| format!("{} {kind}", grouped(*n))).collect();
            format!("  errors in {}: {}", p.name, kinds.join(", "))
        })
        .collect();
    if !several.is_empty() {
        line(format_args!("{}\n", several.join("\n")));
    }
    if !record.references.is_empty() {
        line(format_args!("{}", references(record)));
    }
    for check in &record.checks {
        let ours = check.ours.map_or("no value".to_string(), plain);
        let verdict = if check.met { "met" } else { "MISSED" };
        line(format_args!("  {verdict}: {} (ours: {ours})", check.check));
    }
    if !record.checks.is_empty() {
        line(format_args!(""));
    }
    if let Some(t) = timing {
        let speed = if record.kind == Kind::Simulated {
            format!(
                " for {} of virtual time: {} events/s, {} op/s",
                time(t.virtual_s * 1e9),
                grouped(t.events_per_s.round() as u64),
                grouped(t.operations_per_s.round() as u64)
            )
        } else {
            String::new()
        };
        line(format_args!("  took {}{speed}", time(t.wall_s * 1e9)));
    }
    text
}
