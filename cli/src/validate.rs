//! `orrery validate`: scenarios on real servers and in simulation, side by side.
//!
//! Real runs come first, one after the other, with nothing beside them; simulations then share the processors.

use std::io::IsTerminal;
use std::path::Path;

use ::validate::compare;
use ::validate::control::ControlError;
use ::validate::hosts::Hosts;
use ::validate::local::{self, LocalCluster, LocalError, Nodes};
use ::validate::machine::{Bounds, Machine};
use ::validate::probe::host::usable_cpus;
use ::validate::real::{self, RealError, Servers};
use ::validate::usage::Watched;
use hwprofiles::Profiles;
use hwprofiles::document::Document;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use reports::validation::{self, Validated};
use scenarios::model::Budget;
use scenarios::{Run, RunRecord, load};

use crate::args::Validate;
use crate::exit::{Code, Failure, with_causes};
use crate::{bench, run, signal};

/// The scenarios of the suite are those whose names begin so.
const SUITE: &str = "validate/";

/// One scenario, in its place.
struct Job {
    run: Run,
    budget: Budget,
}

struct Measured {
    job: Job,
    real: RunRecord,
}

/// Where a scenario really runs.
enum Place {
    Local { machine: Box<Machine>, bounds: Bounds },
    Hosts { hosts: Hosts, document: Document },
}

pub fn run(args: &Validate) -> Result<(), Failure> {
    let profiles = run::profiles(&args.profiles)?;
    let place = place(args, &profiles)?;
    let mut jobs = Vec::new();
    for name in names(args)? {
        let mut experiment = run::read(&name, &profiles, |_| ())?;
        // Which of several systems a report compares does not matter: it is the place's that runs.
        let run = experiment.runs.remove(0);
        let mut run = match &place {
            Place::Local { machine, bounds } => machine.host(&run, bounds),
            Place::Hosts { hosts, document } => {
                hosts.host(&run, document, &profiles).map_err(|error| Failure { code: Code::Invalid, report: error })?
            }
        };
        let seed = args.seed.unwrap_or(run.seed);
        run = run.with_seed(seed);
        if let Some(seconds) = args.seconds {
            run.measure_for(u64::from(seconds) * 1_000_000_000);
        }
        jobs.push(Job { run, budget: experiment.scenario.budget });
    }
    run::make_folder(&args.out)?;
    signal::on_stop(|| {
        local::stop_all();
        std::process::exit(130); // as a shell reports a process that SIGINT ended
    })
    .map_err(Failure::unexpected)?;
    let alone = jobs.len() == 1;
    let (mut measured, mut failed) = (Vec::new(), Vec::new());
    for mut job in jobs {
        match measure(&mut job, &place, args) {
            Ok(real) => measured.push(Measured { job, real }),
            Err(failure) => {
                if !alone {
                    eprintln!("{}: failed, {}", job.run.scenario, failure.report);
                }
                failed.push(failure);
            }
        }
    }
    let simulated = run::side_by_side(&measured, None, |of| run::work(&of.job.run), |of| simulate(of, &args.out));
    let mut done = Vec::new();
    for (of, simulated) in measured.iter().zip(simulated) {
        match simulated {
            Ok(simulated) => done.push((of, simulated)),
            Err(failure) => failed.push(failure),
        }
    }
    // What one of them failed at is told when the others have been.
    let reported = report(args, &done);
    failed.into_iter().next().map_or(reported, Err)
}

/// The real run of a scenario, again where it is doubtful. Its files are there when it is done.
fn measure(job: &mut Job, place: &Place, args: &Validate) -> Result<RunRecord, Failure> {
    let bar = bar(&job.run.scenario, "real");
    let mut ran = really(&job.run, place, args, &bar)?;
    for _ in 0..args.again {
        if ran.doubt == 0.0 {
            break;
        }
        eprintln!("{}: again, for {}", job.run.scenario, ran.doubts.join(", "));
        let again = really(&job.run, place, args, &bar)?;
        if again.doubt < ran.doubt {
            ran = again;
        }
    }
    bar.finish_and_clear();
    for skipped in &ran.skipped {
        eprintln!("{}: left out {skipped}", job.run.scenario);
    }
    for doubt in &ran.doubts {
        eprintln!("{}: doubtful, {doubt}", job.run.scenario);
    }
    if let (Place::Local { machine, .. }, Some(conditions)) = (place, &ran.conditions) {
        let against = machine.under(&mut job.run, conditions);
        let [nodes, loaders] = against.taken.map(|part| part * 100.0);
        eprint!(
            "{}: others took {nodes:.1} % of the nodes' processors and {loaders:.1} % of the loaders'",
            job.run.scenario
        );
        match against.speed {
            [Some(nodes), Some(loaders)] => {
                eprintln!(", which were {nodes:.2} and {loaders:.2} times as fast as when calibrated");
            }
            _ => eprintln!(),
        }
    }
    // Beside each other in the folders of the records: what really ran is another system there.
    let real = RunRecord { system: format!("{}-real", ran.record.system), ..ran.record };
    reports::write(&args.out, &real, None).map_err(Failure::unexpected)?;
    Ok(real)
}

fn names(args: &Validate) -> Result<Vec<String>, Failure> {
    if !args.suite {
        return Ok(args.scenario.iter().cloned().collect());
    }
    let suite = || load::names().filter(|name| name.starts_with(SUITE));
    let only = args.only.as_deref().unwrap_or_default();
    let names: Vec<String> = suite().filter(|name| name.contains(only)).map(str::to_string).collect();
    if names.is_empty() {
        let known = suite().map(|name| &name[SUITE.len()..]).collect::<Vec<_>>().join(", ");
        let text = format!("no workload of the suite has `{only}` in its name");
        return Err(Failure::with_help(Code::Usage, text, format!("they are {known}")));
    }
    Ok(names)
}

fn place(args: &Validate, profiles: &Profiles) -> Result<Place, Failure> {
    if let Some(file) = &args.hosts {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let text = format!("--hosts {}: {error}", file.display());
            Failure::with_help(Code::Usage, text, "docs/validating.md says what the file holds")
        })?;
        let document = Document::new(file.display().to_string(), text);
        let hosts = Hosts::read(&document).map_err(|error| Failure { code: Code::Invalid, report: error })?;
        return Ok(Place::Hosts { hosts, document });
    }
    let unknown = |error: hwprofiles::UnknownProfile| Failure::with_help(Code::Usage, &error, error.help());
    let machine = Machine::find(profiles, &args.machine, &args.system, &args.loader_system).map_err(unknown)?;
    if machine.system.memory.is_none() {
        let text = format!("--system {}: a loading client, not a server", args.system);
        return Err(Failure::with_help(Code::Usage, text, "`orrery` is the nodes' own"));
    }
    let cpus = if args.cpus.is_empty() { usable_cpus() } else { args.cpus.clone() };
    let bounds = Bounds::deal(args.local, &cpus).map_err(|error| {
        Failure::with_help(Code::Usage, error, "--local names a number of nodes, --cpus processors")
    })?;
    if bounds.nodes_sharing > 1 {
        let sharing = bounds.nodes_sharing;
        eprintln!("{sharing} nodes share a processor here; the simulated ones have parts of it: latencies will differ");
    }
    Ok(Place::Local { machine: Box::new(machine), bounds })
}

fn really(run: &Run, place: &Place, args: &Validate, bar: &ProgressBar) -> Result<real::Ran, Failure> {
    let mut progress = |phase: &str, part: f64| {
        bar.set_position((part * 1000.0) as u64);
        bar.set_message(phase.to_string());
    };
    match place {
        Place::Hosts { hosts, .. } => {
            let watched = Watched::new(Vec::new(), &[], &hosts.loader_cpus, None);
            real::run(run, &Servers::Elsewhere(&hosts.nodes), &watched, &hosts.loader_cpus, &mut progress)
                .map_err(failure)
        }
        Place::Local { bounds, .. } => {
            let nodes = Nodes {
                program: local::this_program().map_err(of_nodes)?,
                config: sim::scenario::node_config(run),
                shards: bounds.shards(),
                cpus: bounds.nodes.clone(),
                busy_poll: std::time::Duration::from_nanos(run.system.busy_poll.as_ref().map_or(0, |time| time.u64())),
                data: args.data.clone(),
            };
            let cluster = LocalCluster::start(&nodes).map_err(of_nodes)?;
            let watched = Watched::new(cluster.process_ids(), cluster.cpus(), &bounds.loaders, Some(cluster.folder()));
            let ran = real::run(run, &Servers::Local(&cluster), &watched, &bounds.loaders, &mut progress);
            let ran = ran.map_err(failure)?;
            cluster.stop().map_err(of_nodes)?;
            Ok(ran)
        }
    }
}

fn of_nodes(error: LocalError) -> Failure {
    Failure::with_help(Code::Unexpected, with_causes(&error), "--data names another folder for the nodes' data")
}

fn failure(error: RealError) -> Failure {
    match error {
        RealError::Load { cause, .. } | RealError::Connect(cause) | RealError::Control(ControlError::Load(cause)) => {
            bench::failure(cause)
        }
        RealError::Local(error) | RealError::Control(ControlError::Node(error)) => of_nodes(error),
        RealError::Watch(error) => Failure::unexpected(error),
    }
}

/// The same scenario in simulation, held against what was measured. Its files are there when it is done.
fn simulate(of: &Measured, out: &Path) -> Result<RunRecord, Failure> {
    let run = &of.job.run;
    let bar = bar(&run.scenario, "simulated");
    let told = bar.clone();
    let ran = sim::scenario::run(run, &move |phase, part| {
        told.set_position((part * 1000.0) as u64);
        told.set_message(phase.to_string());
    });
    bar.finish_and_clear();
    let ran = ran.map_err(|error| {
        let cause = with_causes(&error);
        Failure::unexpected(format!("{}, in simulation, seed {}: {cause}", run.scenario, run.seed))
    })?;
    let mut record = ran.record;
    compare::hold(&mut record, &of.real, run);
    reports::write(out, &record, None).map_err(Failure::unexpected)?;
    Ok(record)
}

fn bar(scenario: &str, world: &str) -> ProgressBar {
    let bar = ProgressBar::new(1000);
    let hidden = !std::io::stderr().is_terminal();
    bar.set_draw_target(if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
    let template = ProgressStyle::with_template("{prefix:40} {bar:30} {msg}");
    bar.set_style(template.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(format!("{scenario} {world}"));
    if hidden {
        eprintln!("{scenario} {world}");
    }
    bar
}

fn report(args: &Validate, done: &[(&Measured, RunRecord)]) -> Result<(), Failure> {
    let mut all = Vec::new();
    for (Measured { job, real }, simulated) in done {
        let page = reports::write_page(&args.out, &[simulated, real]).map_err(Failure::unexpected)?;
        if !args.suite && !args.json {
            println!("{}", reports::run_table(real, None));
            println!("{}", reports::run_table(simulated, None));
            println!("report: {}\n", page.display());
        }
        all.push(Validated { real, simulated, budget: job.budget });
    }
    if all.is_empty() {
        return Ok(());
    }
    match args.json {
        true => print!("{}", validation::json(&all)),
        false => print!("{}", validation::table(&all, args.markdown)),
    }
    let beyond = |of: &&Validated<'_>| of.simulated.references.iter().any(|c| compare::is_beyond(&of.budget, c));
    let names: Vec<&str> = all.iter().filter(beyond).map(|of| of.simulated.scenario.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::with_help(
        Code::BeyondBudget,
        format!("simulation and hardware differ beyond the budget in {}", names.join(", ")),
        "`orrery probe` and `orrery calibrate` describe this machine to the simulator; a scenario's `budget:` says how \
         much it may be off",
    ))
}
