//! Runs the design: the real engine as a process of its own on one processor, the loading client on another.

use std::thread;
use std::time::Duration;

use reactor::Work;
use reactor::uring::Awake;
use scenarios::client::TableSpec;
use serde::{Deserialize, Serialize};
use server::NodeConfig;

use super::design::{Group, groups};
use super::fit::{Count, Mix};
use super::{CalibrateError, Progress};
use crate::control::{self, Control};
use crate::load::{Counted, LoaderConfig, Loaders, create_schema};
use crate::local::{Compacting, LocalCluster, Nodes, Place};
use crate::probe;
use crate::probe::interruptions;
use crate::speed::{self, Speedometer};
use crate::usage;

const KEYSPACE: &str = "calibrate";
/// For interruptions to be seen, beside each round.
const WATCH: Duration = Duration::from_secs(2);

#[derive(Clone, Debug)]
pub struct Options {
    pub place: Place,
    /// Each mix, and before that what settles it.
    pub mix: Duration,
    pub warmup: Duration,
    /// Of the full amount of rows.
    pub data: f64,
    /// How often all mixes are run: what others do on a shared machine averages out.
    pub rounds: u32,
}

/// Everything measured: what prices can be fitted to again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurements {
    pub date: String,
    pub host: probe::host::Host,
    /// Each round of each mix, as the kernel's accounts have its CPU.
    pub server: Vec<Mix>,
    pub loader: Vec<Mix>,
    /// Operations a second of the same, and the part of the time that each side's processor was busy.
    pub rates: Vec<Rates>,
    /// Part of the processors' time that went into interrupts, beside the mixes. The kernel's accounts have it as the
    /// threads' CPU, and the simulator interrupts by itself.
    #[serde(default)]
    pub interrupted: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rates {
    pub mix: String,
    pub operations_per_s: f64,
    pub server_busy: f64,
    pub loader_busy: f64,
    /// Pieces of [`speed`]'s work a second, on the server's and on the loader's processor; 0 where they were not known.
    #[serde(default)]
    pub yardstick: [f64; 2],
    /// Operations of the [`control`](crate::control) a second of CPU, the node's and the client's, before and behind; 0
    /// where they were not known.
    #[serde(default)]
    pub control: [f64; 2],
}

/// What one side has counted at a moment.
struct Looked {
    cpu_ns: f64,
    work: Vec<(&'static str, Count)>,
}

impl Looked {
    fn server(cluster: &LocalCluster) -> Result<Self, CalibrateError> {
        let (metrics, cpu_ns) = (cluster.metrics()?, usage::cpu_ns(&cluster.process_ids()));
        let by_work = |name: &str| {
            let mut sums = std::collections::BTreeMap::<String, f64>::new();
            for node in &metrics {
                node.by_label(name, "work").into_iter().for_each(|(work, n)| *sums.entry(work).or_default() += n);
            }
            sums
        };
        let (times, amounts) = (by_work("reactor_work_total"), by_work("reactor_work_amount_total"));
        let count = |work: &Work| {
            let of = |all: &std::collections::BTreeMap<String, f64>| all.get(work.name()).copied().unwrap_or(0.0);
            (work.name(), Count { times: of(&times), amount: of(&amounts) })
        };
        Ok(Self { cpu_ns, work: Work::ALL.iter().map(count).collect() })
    }

    fn loader(counted: &Counted) -> Self {
        let count = |(work, count): &(Work, reactor::WorkCount)| {
            (work.name(), Count { times: count.times as f64, amount: count.amount as f64 })
        };
        Self { cpu_ns: counted.cpu_ns as f64, work: counted.work.iter().map(count).collect() }
    }

    /// What came since `before`, as a mix.
    fn since(&self, before: &Looked, name: &str) -> Mix {
        let kinds = self.work.iter().zip(&before.work).map(|((kind, now), (_, then))| {
            let count = Count { times: now.times - then.times, amount: now.amount - then.amount };
            (kind.to_string(), count)
        });
        let work = kinds.filter(|(_, count)| count.times > 0.0).collect();
        Mix { name: name.to_string(), cpu_ns: self.cpu_ns - before.cpu_ns, work }
    }
}

pub fn run(options: &Options, progress: &Progress) -> Result<Measurements, CalibrateError> {
    let host = probe::host::describe(Duration::from_millis(50))?;
    let date = probe::date::today();
    let mut all = Measurements { date, host, server: vec![], loader: vec![], rates: vec![], interrupted: 0.0 };
    let groups = groups(options.data);
    let place = &options.place;
    let cpus: Vec<usize> = place.server_cpu.into_iter().chain(place.loader_cpu).collect();
    let _awake = Awake::keep(&cpus).map_err(probe::ProbeError::Asleep)?;
    let speedometer = Speedometer::on(&cpus).map_err(probe::ProbeError::Unwatched)?;
    let machine = Machine { speedometer, control: Control::start(place)? };
    let steps = groups.iter().map(|group| group.steps.len()).sum::<usize>() * options.rounds as usize;
    let mut seen = interruptions::measure(&cpus, WATCH)?;
    for _ in 0..options.rounds {
        for group in &groups {
            measure(options, group, &machine, &mut all, &|name, done| progress(name, done as f64 / steps as f64))?;
        }
        seen.add(&interruptions::measure(&cpus, WATCH)?)?;
    }
    machine.control.stop()?;
    all.interrupted = seen.interrupted();
    Ok(all)
}

/// What tells how fast the machine is.
struct Machine {
    speedometer: Speedometer,
    control: Control,
}

/// All mixes of one group, on a node of its own.
fn measure(
    options: &Options,
    group: &Group,
    machine: &Machine,
    all: &mut Measurements,
    progress: &dyn Fn(&str, usize),
) -> Result<(), CalibrateError> {
    let mut config = NodeConfig::single(std::net::Ipv4Addr::LOCALHOST.into(), "data");
    (config.memtable_bytes, config.cache_bytes) = (group.memtable_mib << 20, group.cache_mib << 20);
    if group.durable {
        config.sync = storage::SyncMode::Batch;
    }
    let place = &options.place;
    progress(&format!("{}: filling", group.name), all.rates.len());
    let cluster = LocalCluster::start(&Nodes::one(place, config))?;
    let mut table = TableSpec::new(KEYSPACE, 1, group.row);
    table.compression = group.compression.map(str::to_string);
    let target = |connections| cluster.target(table.clone(), connections);
    create_schema(&target(1))?;
    let client = LoaderConfig::one(place.loader_cpu);
    let filler = Loaders::connect(&client, &target(8))?;
    filler.run_alone(group.fill(), 0)?;
    filler.stop()?;
    if group.settled {
        cluster.quiesce()?;
    }
    let control = || machine.control.measure(control::LASTS.min(options.mix));
    let mut control_before = control()?;
    for (number, step) in group.steps.iter().enumerate() {
        let name = format!("{}: {}", group.name, step.name);
        progress(&name, all.rates.len());
        let loaders = Loaders::connect(&client, &target(step.connections))?;
        let workload =
            |time: Duration| group.workload(step.mix, step.arrival, step.connections, time.as_nanos() as u64);
        loaders.run_alone(workload(options.warmup), 2 * number as u64 + 1)?;
        let look = || -> Result<(Looked, Looked), CalibrateError> {
            Ok((Looked::server(&cluster)?, Looked::loader(&loaders.counted(0)?)))
        };
        let before = look()?;
        let compacting = step.compacts.then(|| cluster.compact(0, KEYSPACE)).flatten();
        machine.speedometer.begin(&[]);
        let operations = loaders.run_alone(workload(options.mix), 2 * number as u64 + 2)?;
        let yardstick =
            [place.server_cpu, place.loader_cpu].map(|cpu| speed::mean(&machine.speedometer.seen(cpu.as_slice())));
        let after = look()?;
        loaders.stop()?;
        compacting.map_or(Ok(()), Compacting::end)?;
        // What compaction still does is not the next mix's.
        cluster.rest()?;
        let control_behind = control()?;
        let (server, loader) = (after.0.since(&before.0, &name), after.1.since(&before.1, &name));
        let time_ns = options.mix.as_nanos() as f64;
        all.rates.push(Rates {
            mix: name,
            operations_per_s: operations as f64 / time_ns * 1e9,
            server_busy: server.cpu_ns / time_ns,
            loader_busy: loader.cpu_ns / time_ns,
            yardstick,
            control: [0, 1].map(|side| (control_before[side] + control_behind[side]) / 2.0),
        });
        control_before = control_behind;
        all.server.push(server);
        all.loader.push(loader);
    }
    cluster.stop()?;
    // What the kernel still does for the node's files is not the next one's.
    thread::sleep(options.warmup.min(Duration::from_millis(500)));
    Ok(())
}
