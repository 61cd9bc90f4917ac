//! `orrery run` and `orrery check`: scenarios in simulation.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::num::{NonZeroU32, NonZeroUsize};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use hwprofiles::Profiles;
use hwprofiles::quantity::{Quantity, Ratio};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use scenarios::{Experiment, RunRecord, Scale, Timing, load};

use crate::args;
use crate::exit::{Code, Failure, with_causes};

pub fn profiles(folder: &args::ProfileFolder) -> Result<Profiles, Failure> {
    match &folder.folder {
        None => Ok(Profiles::embedded()),
        Some(folder) => Profiles::with_folder(folder).map_err(|error| Failure::new(Code::Invalid, error)),
    }
}

pub fn read(name: &str, profiles: &Profiles, rescale: impl FnOnce(&mut Scale)) -> Result<Experiment, Failure> {
    let experiment = load::find(name).and_then(|document| load::read_at(&document, profiles, rescale));
    let experiment = experiment.map_err(|error| Failure { code: Code::Invalid, report: error })?;
    if let Some(asked) = experiment.raised_from {
        let one_in = |ratio: Quantity<Ratio>| (1.0 / ratio.f64()).round();
        tracing::warn!(
            "{name} is simulated at 1/{}, not at 1/{}: with less, its results are not those of full size. Its file says why, \
             at `least`; a copy of it without that line can be made smaller",
            one_in(experiment.scenario.scale.data),
            one_in(asked),
        );
    }
    Ok(experiment)
}

pub fn check(args: &args::Check) -> Result<(), Failure> {
    let profiles = profiles(&args.profiles)?;
    let all: Vec<String> = load::names().map(str::to_string).collect();
    let names = if args.scenarios.is_empty() { &all } else { &args.scenarios };
    for name in names {
        let experiment = read(name, &profiles, |_| ())?;
        println!("{name}: {} phases, {} systems, valid", experiment.scenario.phases.len(), experiment.runs.len());
        for note in experiment.runs.iter().flat_map(sim::scenario::scale_notes) {
            println!("  {note}");
        }
    }
    Ok(())
}

/// One system of one scenario, to be run.
struct Job {
    run: scenarios::Run,
    bar: ProgressBar,
}

pub fn run(args: &args::Run) -> Result<(), Failure> {
    let profiles = profiles(&args.profiles)?;
    let bars = MultiProgress::new();
    if !std::io::IsTerminal::is_terminal(&std::io::stderr()) {
        bars.set_draw_target(ProgressDrawTarget::hidden());
    }
    let mut jobs = Vec::new();
    let every: Vec<String> = load::names().map(str::to_string).collect();
    for name in if args.all { &every } else { &args.scenarios } {
        let experiment = read(name, &profiles, |scale| args.scale.apply(scale))?;
        if args.all && experiment.scenario.bench.is_none() {
            continue;
        }
        let wanted = |run: &scenarios::Run| args.system.as_ref().is_none_or(|system| run.system.name == *system);
        if !args.all && !experiment.runs.iter().any(wanted) {
            let known: Vec<&str> = experiment.runs.iter().map(|run| run.system.name.as_str()).collect();
            return Err(Failure::with_help(
                Code::Usage,
                format!("{name} does not run {}", args.system.as_deref().unwrap_or_default()),
                format!("its systems are {}", known.join(", ")),
            ));
        }
        for run in experiment.runs.into_iter().filter(wanted) {
            if args.scale.is_chosen() {
                sim::scenario::scale_notes(&run).iter().for_each(|note| tracing::warn!("{note}"));
            }
            for seed in seeds(&run, args) {
                let bar = bars.add(ProgressBar::new(1000));
                bar.set_style(
                    ProgressStyle::with_template("{prefix:38} {bar:30} {msg}")
                        .unwrap_or_else(|_| ProgressStyle::default_bar()),
                );
                bar.set_prefix(format!("{} {} {seed}", run.scenario, run.system.name));
                jobs.push(Job { run: run.clone().with_seed(seed), bar });
            }
        }
    }
    make_folder(&args.out)?;
    let (records, failed) = run_all(&jobs, args);
    let _ = bars.clear();
    report(&records, args)?;
    match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::unexpected(failed.join("\n"))),
    }
}

/// Those that the command line asks for, or the scenario.
fn seeds(run: &scenarios::Run, args: &args::Run) -> Range<u64> {
    let wanted = args.seed.map_or(run.seeds, |_| NonZeroU32::MIN);
    let first = args.seed.unwrap_or(run.seed);
    first..first.saturating_add(args.seeds.unwrap_or(wanted).get().into())
}

/// For records: made before there are any, so that none is lost for want of a place.
pub fn make_folder(out: &Path) -> Result<(), Failure> {
    fs::create_dir_all(out).map_err(|error| {
        let message = format!("the folder {} cannot be made: {error}", out.display());
        Failure::with_help(Code::Usage, message, "name another one with --out")
    })
}

/// Runs the jobs side by side; records and failures come in the jobs' order.
fn run_all(jobs: &[Job], args: &args::Run) -> (Vec<(RunRecord, Timing)>, Vec<String>) {
    let (mut records, mut failed) = (Vec::new(), Vec::new());
    let done = side_by_side(jobs, args.jobs, |job| work(&job.run), |job| run_one(job, &args.out));
    for (Job { run, .. }, result) in jobs.iter().zip(done) {
        match result {
            Ok(record) => records.push(record),
            Err(error) => {
                let cause = with_causes(error.as_ref());
                failed.push(format!("{} on {}, seed {}: {cause}", run.scenario, run.system.name, run.seed));
            }
        }
    }
    (records, failed)
}

/// Does `work` for each of `items` on several threads [default: as many as there are processors]; results are in the
/// items' order.
pub fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    threads: Option<NonZeroUsize>,
    cost: impl Fn(&T) -> u64,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    // The long ones first, so that none is left alone at the end.
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(cost(&items[*index])));
    let processors = thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.map_or(processors, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<BTreeMap<usize, R>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = work(&items[index]);
                    done.lock().unwrap_or_else(PoisonError::into_inner).insert(index, result);
                }
            });
        }
    });
    done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
}

/// How long a run takes, compared with others: its operations, those of timed phases as far as threads tell.
pub fn work(run: &scenarios::Run) -> u64 {
    /// Of one thread, about.
    const PER_SECOND: u64 = 200;
    let of = |w: &scenarios::Workload| {
        let timed = w.duration_ns.unwrap_or(0) / 1_000_000 * u64::from(w.arrival.threads()) * PER_SECOND / 1000;
        w.operations.unwrap_or(timed)
    };
    run.phases.iter().flat_map(|phase| &phase.workloads).map(of).sum()
}

/// Its files are there when it is done, whatever becomes of the others.
fn run_one(job: &Job, out: &Path) -> Result<(RunRecord, Timing), Box<dyn Error + Send + Sync>> {
    let began = Instant::now();
    let bar = job.bar.clone();
    let ran = sim::scenario::run(&job.run, &move |phase, part| {
        bar.set_position((part * 1000.0) as u64);
        bar.set_message(phase.to_string());
    })?;
    job.bar.finish_with_message("done");
    let wall_s = began.elapsed().as_secs_f64();
    let timing = Timing {
        wall_s,
        virtual_s: ran.virtual_ns as f64 / 1e9,
        events_per_s: ran.record.kernel_events as f64 / wall_s,
        operations_per_s: ran.operations as f64 / wall_s,
    };
    reports::write(out, &ran.record, Some(&timing))?;
    Ok((ran.record, timing))
}

fn report(records: &[(RunRecord, Timing)], args: &args::Run) -> Result<(), Failure> {
    let mut by_scenario: BTreeMap<&str, Vec<&RunRecord>> = BTreeMap::new();
    for (record, timing) in records {
        by_scenario.entry(&record.scenario).or_default().push(record);
        if !args.all && !args.json {
            println!("{}", reports::run_table(record, Some(timing)));
            println!("record: {}\n", reports::folder(&args.out, record).join("record.json").display());
        }
    }
    for records in by_scenario.values() {
        let plot = reports::write_comparison(&args.out, records).map_err(Failure::unexpected)?;
        let page = reports::write_page(&args.out, records).map_err(Failure::unexpected)?;
        if !args.all && !args.json {
            print!("{}", reports::seeds_table(records.iter().copied()));
            println!("plot: {}\nreport: {}", plot.display(), page.display());
        }
    }
    if args.json {
        print!("{}", reports::json_lines(records.iter().map(|(record, _)| record)));
    }
    if args.all && !args.json {
        print!("{}", reports::all_table(records));
    }
    let missed: Vec<String> = records
        .iter()
        .flat_map(|(record, _)| {
            let missed = record.checks.iter().filter(|check| !check.met);
            missed.map(|check| format!("{}: {}", record.system, check.check))
        })
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::with_help(
        Code::SloMissed,
        format!("service levels missed: {}", missed.join("; ")),
        "the table above shows what was reached, and which resource was the limit",
    ))
}
