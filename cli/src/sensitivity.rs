//! `orrery sensitivity`: how far a scenario's published values move when what was assumed moves.

use std::collections::BTreeMap;
use std::time::Duration;

use hwprofiles::Assumed;
use indicatif::{ProgressBar, ProgressStyle};
use scenarios::{Comparison, Metric, Part, Run, RunRecord};
use serde::Serialize;

use crate::exit::{Code, Failure};
use crate::{args, run};

/// A change below this is not worth a line.
const WORTH_A_LINE: f64 = 0.01;

/// One simulation: a run as it is, or with one figure moved.
struct Job {
    run: Run,
    /// Index of the run it belongs to.
    of: usize,
    moved: Moved,
}

#[derive(Clone)]
enum Moved {
    Nothing,
    /// What chance alone does.
    Seed,
    Figure(Part, Assumed),
}

/// How far one value moves.
#[derive(Serialize)]
struct Change {
    scenario: String,
    system: String,
    phase: String,
    metric: Metric,
    /// Simulated, with everything as the profiles have it.
    value: f64,
    unit: String,
    moved: String,
    assumed: String,
    /// Of `value`.
    change: f64,
}

pub fn run(args: &args::Sensitivity) -> Result<(), Failure> {
    let profiles = run::profiles(&args.profiles)?;
    let mut jobs = Vec::new();
    for name in &args.scenarios {
        let experiment = run::read(name, &profiles, |scale| args.scale.apply(scale))?;
        let wanted = |run: &Run| args.system.as_ref().is_none_or(|system| run.system.name == *system);
        for run in experiment.runs.into_iter().filter(wanted) {
            let run = run.up_to_references(args.phase.as_deref());
            if !run.phases.is_empty() {
                add_jobs(&mut jobs, run, args);
            }
        }
    }
    if jobs.is_empty() {
        let help = "add `reference:` to the scenario, or choose others with --system and --phase";
        return Err(Failure::with_help(Code::Usage, "nothing was published about these runs", help));
    }
    let bar = progress(jobs.len());
    let simulate = |job: &Job| {
        let ran = sim::scenario::run(&job.run, &|_, _| ());
        bar.inc(1);
        ran
    };
    let done = run::side_by_side(&jobs, args.jobs, |_| 0, simulate);
    bar.finish_and_clear();
    let mut values: Vec<Option<Vec<Comparison>>> = Vec::new();
    for (job, ran) in jobs.iter().zip(done) {
        match (ran, &job.moved) {
            (Ok(ran), _) => values.push(Some(finest(&ran.record))),
            // A figure may be moved to where nothing works any more: that says how much rests on it.
            (Err(error), Moved::Figure(part, figure)) => {
                eprintln!("{}: {} {}: {error}", job.run.scenario, part.name(), figure.path);
                values.push(None);
            }
            (Err(error), _) => return Err(Failure::unexpected(error)),
        }
    }
    let changes = changes(&jobs, &values);
    if args.json {
        for change in &changes {
            println!("{}", serde_json::to_string(change).map_err(Failure::unexpected)?);
        }
        return Ok(());
    }
    print!("{}", tables(&changes, args.by.f64()));
    Ok(())
}

/// What a run has beside the published values: of searches the rate between two steps, for most figures move it by less
/// than a step.
fn finest(record: &RunRecord) -> Vec<Comparison> {
    let mut values = record.references.clone();
    for value in values.iter_mut().filter(|value| value.metric == Metric::MaxThroughput) {
        let phase = record.phases.iter().find(|phase| phase.name == value.phase);
        if let Some(between) = phase.and_then(|phase| phase.value(Metric::ThroughputAtBound)) {
            (value.metric, value.ours) = (Metric::ThroughputAtBound, Some(between));
        }
    }
    values
}

/// Hidden where nobody looks at a terminal.
fn progress(simulations: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} simulations, {eta} left");
    let bar = ProgressBar::new(simulations as u64);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

fn add_jobs(jobs: &mut Vec<Job>, run: Run, args: &args::Sensitivity) {
    let of = jobs.len();
    let wanted = |name: &str| args.only.as_ref().is_none_or(|part| name.contains(part.as_str()));
    let moved = run.assumed().into_iter().filter(|(part, figure)| wanted(&name_of(*part, figure)));
    let moved: Vec<_> = moved
        .filter_map(|(part, figure)| {
            Some((run.with_moved(part, &figure.path, 1.0 + args.by.f64())?, Moved::Figure(part, figure)))
        })
        .collect();
    let seed = run.seed;
    let mut add = |run: Run, seed, moved| jobs.push(Job { run: run.with_seed(seed), of, moved });
    add(run.clone(), seed, Moved::Nothing);
    add(run, seed + 1, Moved::Seed);
    moved.into_iter().for_each(|(run, moved)| add(run, seed, moved));
}

fn name_of(part: Part, figure: &Assumed) -> String {
    format!("{} {}", part.name(), figure.path)
}

/// Of every value and every figure, in the order of the jobs.
fn changes(jobs: &[Job], values: &[Option<Vec<Comparison>>]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (job, moved) in jobs.iter().zip(values) {
        let (Some(before), Some(after)) = (&values[job.of], moved) else { continue };
        let (moved, assumed) = match &job.moved {
            Moved::Nothing => continue,
            Moved::Seed => ("another seed".to_string(), String::new()),
            Moved::Figure(part, figure) => (name_of(*part, figure), figure.value.clone()),
        };
        for (before, after) in before.iter().zip(after) {
            let (Some(value), Some(new)) = (before.ours, after.ours) else { continue };
            changes.push(Change {
                scenario: job.run.scenario.clone(),
                system: job.run.reported_as.clone(),
                phase: before.phase.clone(),
                metric: before.metric,
                value,
                unit: before.unit.clone(),
                moved: moved.clone(),
                assumed: assumed.clone(),
                change: new / value - 1.0,
            });
        }
    }
    changes
}

/// A table for each value, the figure that moves it most first.
fn tables(changes: &[Change], by: f64) -> String {
    let mut by_value: BTreeMap<(&str, &str, &str, String), Vec<&Change>> = BTreeMap::new();
    for change in changes {
        let value = (&*change.scenario, &*change.system, &*change.phase, change.metric.to_string());
        by_value.entry(value).or_default().push(change);
    }
    let mut text = String::new();
    for ((scenario, system, phase, metric), mut changes) in by_value {
        changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
        let unit = &changes[0].unit;
        let value = reports::plain(changes[0].value);
        text += &format!("{scenario}, {system}, {phase}, {metric}: {value} {unit}\n");
        let (told, silent): (Vec<&Change>, Vec<&Change>) =
            changes.into_iter().partition(|c| c.change.abs() >= WORTH_A_LINE || c.assumed.is_empty());
        let rows = told.iter().map(|c| {
            let assumed =
                if c.assumed.is_empty() { String::new() } else { format!("{} {:+.0} %", c.assumed, by * 100.0) };
            vec![c.moved.clone(), assumed, reports::percent(c.change)]
        });
        text += &reports::columns(&rows.collect::<Vec<_>>(), &[0, 1]);
        text += &format!("  {} others move it by less than {:.0} %\n\n", silent.len(), WORTH_A_LINE * 100.0);
    }
    text
}
