//! `orrery bench`: drives any CQL server with the loading client that scenarios use, and prints what it measured.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::validate::load::{self, LoadError, LoaderConfig, Loaders};
use hwprofiles::quantity::{Quantity, Time};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use miette::{Diagnostic, SourceSpan};
use scenarios::client::{ClientError, PhaseShare, SharedPhase, TableSpec, Target};
use scenarios::record::{Kind, PhaseRecord};
use scenarios::stress::{self, StressError};
use scenarios::{Recorder, RunRecord, Timing, Workload};

use crate::args::Bench;
use crate::exit::{Code, Failure, with_causes};

/// A mistake in the stress line, shown where it is.
#[derive(Debug, thiserror::Error, Diagnostic)]
#[error("{message}")]
struct BadLine {
    message: String,
    #[source_code]
    line: String,
    #[label("here")]
    at: SourceSpan,
    #[help]
    help: Option<String>,
}

pub fn run(args: &Bench) -> Result<(), Failure> {
    if args.memory {
        return crate::memory::run(args);
    }
    let duration = args.duration.as_deref().map(|text| read_time("--duration", text)).transpose()?;
    let (workload, replication_factor) = workload(args.stress(), duration)?;
    let target = Target {
        nodes: args.nodes.clone(),
        table: TableSpec::new(&args.keyspace, replication_factor, workload.row),
        connections_per_host: workload.connections_per_host,
        shard_aware: args.shard_aware,
        patience: Duration::from_nanos(read_time("--wait", &args.wait)?),
    };
    let warmup_ns = read_time("--warmup", &args.warmup)?;
    load::create_schema(&target).map_err(failure)?;
    let began = Instant::now();
    let recorder = drive(args, &target, &workload, warmup_ns)?;
    let timing = Timing { wall_s: began.elapsed().as_secs_f64(), ..Timing::default() };
    report(args, &workload, &recorder, &timing)
}

fn read_time(option: &str, text: &str) -> Result<u64, Failure> {
    Quantity::<Time>::parse(text).map(Quantity::u64).map_err(|error| {
        Failure::with_help(Code::Usage, format!("{option} {text}: {error}"), "write a number and its unit: 60s, 500ms")
    })
}

/// The line's workload and replication factor; a duration takes the place of the line's own end.
fn workload(line: &str, duration_ns: Option<u64>) -> Result<(Workload, u32), Failure> {
    let ends = |word: &str| word.starts_with("n=") || word.starts_with("duration=");
    let whole = match (line.split_once(' '), duration_ns) {
        (Some((command, rest)), Some(ns)) if !line.split(' ').any(ends) => format!("{command} duration={ns}ns {rest}"),
        _ => line.to_string(),
    };
    let command = stress::parse(&whole).map_err(|StressError { message, at, help }| {
        Failure::new(Code::Usage, BadLine { message, line: whole.clone(), at: at.into(), help })
    })?;
    let mut workload = command.workload;
    if duration_ns.is_some() {
        workload.duration_ns = duration_ns;
        workload.operations = None;
    }
    Ok((workload, command.replication_factor.unwrap_or(1)))
}

/// Runs the workload on all shards and gives what they recorded together.
fn drive(args: &Bench, target: &Target, workload: &Workload, warmup_ns: u64) -> Result<Recorder, Failure> {
    let shards = args.shards.unwrap_or(args.cpus.len().max(1));
    let busy_poll = Duration::from_micros(args.busy_poll);
    let config = LoaderConfig { loaders: 1, shards, cpus: args.cpus.clone(), busy_poll };
    let loaders = Loaders::connect(&config, target).map_err(failure)?;
    let shared = SharedPhase::new(workload.clone());
    let share = |shard: usize| {
        let (index, count, seed) = (shard as u32, shards as u32, args.seed);
        let shared = shared.clone();
        (shard, PhaseShare { shared, shard: index, shards: count, seed, stream: u64::from(index), warmup_ns })
    };
    let progress = Progress::begin(&shared);
    let ran = loaders.run((0..shards).map(share).collect(), || progress.draw(&shared)).map_err(failure)?;
    progress.bar.finish_and_clear();
    loaders.stop().map_err(failure)?;
    load::merged(ran.into_iter().map(|(_, recorder)| recorder))
        .ok_or_else(|| Failure::unexpected("no shard measured anything"))
}

/// A bar on stderr, if that is a terminal.
struct Progress {
    bar: ProgressBar,
    began: Instant,
}

impl Progress {
    fn begin(shared: &SharedPhase) -> Self {
        let by_time = shared.workload.duration_ns.map(|ns| ns / 1_000_000);
        let bar = ProgressBar::new(shared.workload.operations.or(by_time).unwrap_or(1));
        let hidden = !std::io::stderr().is_terminal();
        bar.set_draw_target(if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() });
        let template = "{bar:40} {percent:>3} % {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("a constant template"));
        Self { bar, began: Instant::now() }
    }

    fn draw(&self, shared: &SharedPhase) {
        let begun = shared.begun();
        let elapsed = self.began.elapsed();
        let by_count = shared.workload.operations.is_some();
        self.bar.set_position(if by_count { begun } else { elapsed.as_millis() as u64 });
        self.bar.set_message(format!("{begun} operations, {:.0}/s", begun as f64 / elapsed.as_secs_f64()));
    }
}

fn report(args: &Bench, workload: &Workload, recorder: &Recorder, timing: &Timing) -> Result<(), Failure> {
    let name = match workload.mix.has_sides() {
        [true, false] => "write",
        [false, true] => "read",
        _ => "mixed",
    };
    let nodes: Vec<String> = args.nodes.iter().map(SocketAddr::to_string).collect();
    let phases = vec![PhaseRecord::new(name, 0, recorder.finish())];
    let record = RunRecord {
        about: args.stress().to_string(),
        cluster: nodes.join(", "),
        loaders: format!("{} threads", workload.arrival.threads()),
        seed: args.seed,
        ..RunRecord::bare(Kind::Real, "bench", "a CQL server", phases)
    };
    if args.json {
        let text = serde_json::to_string(&record).map_err(Failure::unexpected)?;
        println!("{text}");
    } else {
        print!("{}", reports::run_table(&record, Some(timing)));
    }
    Ok(())
}

/// A client's failure, with the next step to take.
pub fn failure(error: LoadError) -> Failure {
    let text = with_causes(&error);
    let LoadError::Client(error) = error else { return Failure::unexpected(text) };
    match error {
        ClientError::Unreachable { addr, .. } => {
            let help = format!("`orrery serve --listen {addr}` starts a server there; `--node` names another one");
            Failure::with_help(Code::Unreachable, text, help)
        }
        ClientError::Lost { .. } | ClientError::AllLost => {
            Failure::with_help(Code::Unreachable, text, "the server's own log says why it ended the connection")
        }
        ClientError::Refused { .. } | ClientError::NothingSucceeds { .. } => {
            let help = "reads need a table that was written before: `orrery bench \"write n=..\"` with the same range";
            Failure::with_help(Code::Unexpected, text, help)
        }
        _ => Failure::unexpected(text),
    }
}

#[cfg(test)]
mod tests {
    use super::workload;

    #[test]
    fn a_duration_replaces_the_end_and_leaves_the_keys() {
        let second = Some(1_000_000_000);
        for (line, duration, operations) in [
            ("write n=5000 -rate threads=4", None, Some(5000)),
            ("write n=5000 -rate threads=4", second, None),
            ("write -rate threads=4 -pop seq=1..5000", second, None),
        ] {
            let (workload, rf) = workload(line, duration).map_err(|failure| failure.report).unwrap();
            assert_eq!((workload.operations, workload.duration_ns, rf), (operations, duration, 1), "{line}");
            assert_eq!(workload.keys.range(), (1, 5000), "{line}");
        }
        assert!(workload("write -rate threads=4", None).is_err());
        assert!(workload("wrote n=1 -rate threads=4", None).is_err());
    }
}
