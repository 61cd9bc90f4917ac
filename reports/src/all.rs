//! All runs together: one table of what the published reports tell, how far off the predictions are, and who is faster.

use scenarios::Metric;
use scenarios::record::{Comparison, PhaseRecord, RunRecord, Timing};
use scenarios::reported::{Reported, reported};

use crate::number::{percent, plain, time};
use crate::seeds::{Seeds, Spread};
use crate::table::{columns, limit};

/// One value of the table: of several seeds the median.
struct Row<'a> {
    of: Reported,
    record: &'a RunRecord,
    phase: &'a PhaseRecord,
    /// What all seeds took together.
    wall_s: f64,
    value: f64,
    published: Option<Comparison>,
}

fn rows(records: &[(RunRecord, Timing)]) -> Vec<Row<'_>> {
    let systems = Seeds::of_each(records.iter().map(|(record, _)| record));
    let row = |of: Reported| {
        let of_report = systems.iter().filter(|seeds| {
            let record = seeds.first();
            record.bench.as_deref() == Some(of.bench) && record.system == of.system
        });
        let (seeds, record, phase) =
            of_report.into_iter().find_map(|seeds| Some((seeds, seeds.first(), seeds.first().phase(of.phase)?)))?;
        let value = seeds.value(of.phase, of.metric)?.median;
        let published = record.references.iter().find(|c| c.phase == of.phase && c.metric == of.metric);
        let published = published.map(|comparison| comparison.against(Some(value)));
        let same = records.iter().filter(|(r, _)| (&r.scenario, &r.system) == (&record.scenario, &record.system));
        let wall_s = same.map(|(_, timing)| timing.wall_s).sum();
        Some(Row { of, record, phase, wall_s, value, published })
    };
    reported().filter_map(row).collect()
}

/// The table, the errors of the predictions, and the ranking; ended by a newline.
pub fn all(records: &[(RunRecord, Timing)]) -> String {
    let rows = rows(records);
    format!("{}\n{}\n{}", table(&rows), errors(&rows), ranking(&rows))
}

fn table(rows: &[Row<'_>]) -> String {
    let titles =
        ["bench", "system", "phase", "metric", "simulated", "published", "error", "standing", "limited by", "took"];
    let mut text = vec![titles.map(str::to_string).to_vec()];
    for row in rows {
        let unit = row.of.metric.unit();
        let value = |v: f64| format!("{} {unit}", plain(v));
        let fitted = row.published.as_ref().is_some_and(|published| published.fitted);
        text.push(vec![
            row.of.bench.to_string(),
            row.record.system.clone(),
            row.phase.name.clone(),
            row.of.metric.to_string(),
            value(row.value),
            row.published.as_ref().map(|published| value(published.reference)).unwrap_or_default(),
            row.published.as_ref().and_then(|published| published.relative_error).map(percent).unwrap_or_default(),
            if fitted { "fitted" } else { "predicted" }.to_string(),
            limit(row.phase),
            time(row.wall_s * 1e9),
        ]);
    }
    columns(&text, &[0, 1, 2, 3, 7, 8])
}

/// Median and worst of the predicted ones that have a published value.
fn errors(rows: &[Row<'_>]) -> String {
    let predicted = rows.iter().filter(|row| row.published.as_ref().is_some_and(|published| !published.fitted));
    let mut errors: Vec<(f64, &Row<'_>)> =
        predicted.filter_map(|row| Some((row.published.as_ref()?.relative_error?.abs(), row))).collect();
    errors.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let spread = Spread::of(errors.iter().map(|(error, _)| *error).collect());
    let (Some((worst, row)), Some(Spread { median, .. })) = (errors.last(), spread) else {
        return "  nothing that was published was predicted\n".into();
    };
    let beyond = errors.iter().filter(|(error, _)| *error > 0.4).count();
    format!(
        "  {} predicted values were published: median error {:.1} %, worst {:.1} % ({} {} {}), {beyond} beyond 40 %\n",
        errors.len(),
        median * 100.0,
        worst * 100.0,
        row.of.system,
        row.of.phase,
        row.of.metric
    )
}

/// For each phase that several systems have: which is the faster one, and whether that is what was published.
fn ranking(rows: &[Row<'_>]) -> String {
    let mut text = String::from("  who is faster, by how much, and by what was published:\n");
    let mut lines = vec![];
    for (at, one) in rows.iter().enumerate() {
        let Some(more) = one.of.metric.more_is_better().filter(|_| is_speed(one.of.metric)) else { continue };
        let same = |other: &&Row<'_>| {
            (other.of.bench, other.of.phase, other.of.metric) == (one.of.bench, one.of.phase, one.of.metric)
        };
        for other in rows[at + 1..].iter().filter(same) {
            let faster = |a: f64, b: f64| (a > b) == more;
            let (first, second) = if faster(one.value, other.value) { (one, other) } else { (other, one) };
            let ratio = (first.value / second.value).max(second.value / first.value);
            let verdict = match (&one.published, &other.published) {
                (Some(a), Some(b)) if faster(a.reference, b.reference) == faster(one.value, other.value) => "agrees",
                (Some(_), Some(_)) => "DISAGREES",
                _ => "not given",
            };
            lines.push(vec![
                one.of.bench.to_string(),
                one.of.phase.to_string(),
                one.of.metric.to_string(),
                first.of.system.to_string(),
                format!("{ratio:.2} x"),
                verdict.to_string(),
            ]);
        }
    }
    text.push_str(&columns(&lines, &[0, 1, 2, 3, 5]));
    text
}

/// What a report compares systems by.
fn is_speed(metric: Metric) -> bool {
    matches!(metric, Metric::Throughput | Metric::MaxThroughput | Metric::Duration | Metric::LatencyP99)
}
