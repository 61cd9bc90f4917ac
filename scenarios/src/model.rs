//! A scenario file as it is written. What it means is checked by [`crate::load`].

use std::num::NonZeroU32;

use hwprofiles::Standing;
use hwprofiles::quantity::{Duration, Quantity, Rate, Ratio, Size};
use schemars::JsonSchema;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use crate::generate::Keys;
use crate::metric::Metric;
use crate::scale::Scale;
use crate::workload::{Arrival, Consistency, Mix, Row};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Folder and file name without `.yaml`, such as `lowend/read-small`.
    pub name: String,
    #[serde(default)]
    pub about: String,
    /// The report that it reproduces, as its results are filed; absent for an experiment of one's own.
    #[serde(default)]
    pub bench: Option<String>,
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Simulated with so many seeds, from `seed` on, whose median is the prediction: where few events, such as
    /// compactions, decide.
    #[serde(default = "default_seeds")]
    pub seeds: NonZeroU32,
    pub cluster: Cluster,
    pub loaders: Loaders,
    pub schema: Schema,
    #[serde(default)]
    pub scale: Scale,
    pub phases: Vec<Phase>,
    #[serde(default)]
    pub faults: Vec<Fault>,
    #[serde(default)]
    pub checks: Checks,
    /// How far the simulation may be off when `orrery validate` holds it against real servers.
    #[serde(default)]
    pub budget: Budget,
    /// Published results to hold the run against. Never feeds calibration, unless `fitted` says that it did.
    #[serde(default)]
    pub reference: Vec<Reference>,
}

fn default_seed() -> u64 {
    1
}

fn default_seeds() -> NonZeroU32 {
    NonZeroU32::MIN
}

/// The shape of a scenario file as JSON Schema, for editors; quantities appear as text.
pub fn json_schema() -> String {
    let schema = schemars::schema_for!(Scenario);
    let mut text = serde_json::to_string_pretty(&schema).expect("a schema has string keys");
    text.push('\n');
    text
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// One system, or `systems` for one run each.
    #[serde(default)]
    pub system: Option<String>,
    #[serde(default)]
    pub systems: Vec<String>,
    pub instance: String,
    pub nodes: u32,
    pub data_disk: String,
    /// The data disk if absent.
    #[serde(default)]
    pub commitlog_disk: Option<String>,
    pub network: String,
    /// Compaction is not throttled, whatever the system's profile says.
    #[serde(default)]
    pub unthrottled: bool,
    /// The system's name in results, where it is not the profile's.
    #[serde(default)]
    pub reported_as: Option<String>,
    #[serde(default)]
    pub settings: Settings,
}

/// What each node is told, where it is not what follows from the instance and the system's profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Memory for memtables.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub memtable: Option<Size>,
    /// Memory for cached rows and blocks of SSTables.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub cache: Option<Size>,
    /// `{batch: {}}`, or `{periodic: TIME}`.
    #[serde(default)]
    pub commitlog_sync: Option<CommitlogSync>,
    /// How long an idle shard looks for work before it sleeps.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub busy_poll: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum CommitlogSync {
    /// A write waits until it is durable.
    Batch {},
    /// A write waits for nothing; at most this much is lost.
    Periodic(#[schemars(with = "String")] Duration),
}

impl Cluster {
    pub fn system_names(&self) -> impl Iterator<Item = &String> {
        self.system.iter().chain(&self.systems)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Loaders {
    pub instance: String,
    pub nodes: u32,
    /// Costs and threading of the loading client.
    #[serde(default = "default_loader_system")]
    pub system: String,
}

fn default_loader_system() -> String {
    "cassandra-stress".to_string()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Schema {
    pub keyspace: Keyspace,
    #[serde(default)]
    pub table: Table,
    /// Shape of the rows, where it is not the table's own.
    #[serde(default)]
    pub row: Option<Row>,
    /// A class such as `LeveledCompactionStrategy`.
    #[serde(default)]
    pub compaction: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Keyspace {
    #[serde(default = "default_keyspace")]
    pub name: String,
    pub replication_factor: u32,
}

fn default_keyspace() -> String {
    "keyspace1".to_string()
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Table {
    /// `standard1`: blob key, blob columns C0 to C4.
    #[default]
    CassandraStressDefault,
}

/// One phase: a cassandra-stress command line, a YCSB workload, or native keys (`mix`, `keys`, `arrival`, ..).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    pub name: String,
    #[serde(default)]
    pub stress: Option<String>,
    /// One of YCSB's core workloads over `records` keys; with `arrival`, and `duration` or `operations`.
    #[serde(default)]
    pub ycsb: Option<Ycsb>,
    #[serde(default)]
    pub records: Option<u64>,
    /// No load: counts the items that memory holds before the first has to go.
    #[serde(default)]
    pub footprint: Option<Footprint>,
    #[serde(default)]
    pub mix: Option<Mix>,
    #[serde(default)]
    pub keys: Option<Keys>,
    #[serde(default)]
    pub arrival: Option<NativeArrival>,
    #[serde(default)]
    pub consistency: Option<Consistency>,
    #[serde(default)]
    pub operations: Option<u64>,
    /// A run does up to so much more operations than the phase says, by its seed: where in the cycle of compactions the
    /// next phase begins is not known, and decides.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub vary: Option<Quantity<Ratio>>,
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub duration: Option<Duration>,
    /// A command line that another loader runs for as long; what it does is not part of the phase's results.
    #[serde(default)]
    pub background: Option<String>,
    #[serde(default)]
    pub per_loader: PerLoader,
    /// How many of the loaders take part; all if absent.
    #[serde(default)]
    pub loaders: Option<u32>,
    /// Part of the phase's own time that is not measured.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub warmup: Option<Duration>,
    /// Least measuring window of this phase, instead of the scale's.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub window: Option<Duration>,
    #[serde(default)]
    #[schemars(with = "serde_json::Value")]
    pub quiesce: Quiesce,
    /// Raises the rate in steps, instead of the load's own rate, and reports the highest that keeps a bound. A load of
    /// writes and reads has two results, `NAME-write-slo` and `NAME-read-slo`.
    #[serde(default)]
    pub search: Option<Search>,
    /// Begins with the measured part of the phase, which ends with it, and with `duration` at the latest.
    #[serde(default)]
    pub meanwhile: Option<Meanwhile>,
    /// Compacts everything behind the phase, and measures the disk space again.
    #[serde(default)]
    pub major_compaction_after: bool,
}

/// YCSB's core workloads (`workloads/workload[a-f]` of brianfrankcooper/YCSB).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Ycsb {
    /// Half reads, half updates, zipfian.
    A,
    /// 95 % reads, 5 % updates, zipfian.
    B,
    /// Reads, zipfian.
    C,
    /// 95 % reads of the latest, 5 % inserts.
    D,
    /// 95 % scans from zipfian starts, 5 % inserts.
    E,
    /// Half reads, half reads with updates behind them, zipfian.
    F,
}

impl Ycsb {
    pub fn mix(self) -> Mix {
        let mix = Mix { read: 95, ..Mix::NOTHING };
        match self {
            Ycsb::A => Mix { read: 50, update: 50, ..mix },
            Ycsb::B => Mix { update: 5, ..mix },
            Ycsb::C => Mix { read: 100, ..mix },
            Ycsb::D => Mix { insert: 5, ..mix },
            Ycsb::E => Mix { read: 0, scan: 95, insert: 5, ..mix },
            Ycsb::F => Mix { read: 50, read_modify_write: 50, ..mix },
        }
    }

    pub fn keys(self, records: u64) -> Keys {
        match self {
            Ycsb::D => Keys::Latest { from: 1, to: records, of: 0 },
            _ => Keys::Zipfian { from: 1, to: records, of: 0, scanned_shards: 0 },
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Footprint {
    #[schemars(with = "String")]
    pub key: Size,
    #[schemars(with = "String")]
    pub value: Size,
}

/// Rates of all loaders together: from one step to the next higher one, until two in a row break the bound. While p99 is
/// below half of it, steps up to a quarter above the last are left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    #[schemars(with = "String")]
    pub from: Quantity<Rate>,
    #[schemars(with = "String")]
    pub to: Quantity<Rate>,
    #[schemars(with = "String")]
    pub step: Quantity<Rate>,
    /// Of writes, or of reads.
    #[schemars(with = "String")]
    pub p99_under: Duration,
}

impl Search {
    /// How many there are at most.
    pub fn steps(&self) -> u64 {
        ((self.to.f64() - self.from.f64()) / self.step.f64() + 1e-9) as u64 + 1
    }

    /// Of a step from 0 on, or of what lies between two.
    pub fn rate(&self, step: f64) -> f64 {
        self.from.f64() + step * self.step.f64()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Meanwhile {
    /// Of everything on one node, counted from 1.
    MajorCompaction { node: u32 },
    /// One more node joins the cluster and takes its part of the data.
    AddNode {},
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum NativeArrival {
    /// Operations a second of one loader; as many in flight as it takes, up to 4,096.
    Open(#[schemars(with = "String")] Quantity<Rate>),
    /// Operations in flight of one loader.
    Closed(u32),
    /// Operations in flight of one loader, held below its rate all together.
    Throttled {
        threads: u32,
        #[schemars(with = "String")]
        rate: Quantity<Rate>,
    },
}

impl NativeArrival {
    pub fn arrival(self) -> Arrival {
        match self {
            // Enough to keep an open arrival open, few enough to fit a connection's stream ids.
            NativeArrival::Open(rate) => Arrival::Open { threads: 4096, rate },
            NativeArrival::Closed(threads) => Arrival::Closed { threads },
            NativeArrival::Throttled { threads, rate } => Arrival::Throttled { threads, rate },
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PerLoader {
    /// Every loader runs the same line.
    #[default]
    Same,
    /// The line is the first loader's; each next one's sequence begins where the last one's ends.
    Disjoint,
}

/// Whether flushes and compactions are waited for, without load, before or after the phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Quiesce {
    #[default]
    No,
    Before,
    /// Written `true`.
    After,
}

impl Serialize for Quiesce {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Quiesce::No => serializer.serialize_bool(false),
            Quiesce::Before => serializer.serialize_str("before"),
            Quiesce::After => serializer.serialize_bool(true),
        }
    }
}

impl<'de> Deserialize<'de> for Quiesce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quiesce;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("`true`, `false` or `before`")
            }
            fn visit_bool<E: de::Error>(self, after: bool) -> Result<Quiesce, E> {
                Ok(if after { Quiesce::After } else { Quiesce::No })
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quiesce, E> {
                match text {
                    "before" => Ok(Quiesce::Before),
                    "after" => Ok(Quiesce::After),
                    _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
                }
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Something that goes wrong at a moment. Exactly one of `kill`, `partition` and `pause` is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    #[schemars(with = "String")]
    pub at: Moment,
    #[serde(default)]
    pub kill: Option<Kill>,
    #[serde(default)]
    pub partition: Option<Partition>,
    #[serde(default)]
    pub pause: Option<Pause>,
    /// After a kill; absent: the node stays down.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub restart_after: Option<Duration>,
    /// After a partition; absent: it stays.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub heal_after: Option<Duration>,
}

/// `PHASE+TIME`: this long after the phase's first operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Moment {
    pub phase: String,
    pub after: Duration,
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}+{}", self.phase, self.after))
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Moment;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a moment such as `read-small+5m`")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Moment, E> {
                let (phase, after) = text.rsplit_once('+').ok_or_else(|| {
                    E::custom(format!("`{text}` is not a moment; write `PHASE+TIME`, such as `read-small+5m`"))
                })?;
                let after = Duration::parse(after).map_err(E::custom)?;
                Ok(Moment { phase: phase.trim().to_string(), after })
            }
        }
        deserializer.deserialize_str(Text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// Counted from 1.
    pub node: u32,
    /// Unsynced data is lost, too.
    #[serde(default)]
    pub power_loss: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Partition {
    /// These nodes cannot talk to the others. Counted from 1.
    pub nodes: Vec<u32>,
    /// They can still be heard.
    #[serde(default)]
    pub one_way: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Pause {
    /// Counted from 1.
    pub node: u32,
    #[schemars(with = "String")]
    pub duration: Duration,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Checks {
    #[serde(default)]
    pub slo: Vec<Slo>,
}

/// Relative errors, of the measured value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    #[schemars(with = "String")]
    pub throughput: Quantity<Ratio>,
    /// Of the median latency.
    #[schemars(with = "String")]
    pub p50: Quantity<Ratio>,
    #[schemars(with = "String")]
    pub p99: Quantity<Ratio>,
}

impl Default for Budget {
    fn default() -> Self {
        Self { throughput: Quantity::new(0.10), p50: Quantity::new(0.15), p99: Quantity::new(0.25) }
    }
}

impl Budget {
    /// What it grants a metric; `None` where it names none.
    pub fn of(&self, metric: Metric) -> Option<f64> {
        match metric {
            Metric::Throughput => Some(self.throughput.f64()),
            Metric::LatencyP50 => Some(self.p50.f64()),
            Metric::LatencyP99 => Some(self.p99.f64()),
            _ => None,
        }
    }
}

/// A bound that the run has to keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    pub phase: String,
    #[schemars(with = "String")]
    pub metric: Metric,
    #[serde(default)]
    pub max: Option<String>,
    #[serde(default)]
    pub min: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    pub phase: String,
    /// Which system's result; may be absent where the scenario has one.
    #[serde(default)]
    pub system: Option<String>,
    #[schemars(with = "String")]
    pub metric: Metric,
    /// With its unit: `124958 op/s`, `3.6 ms`.
    pub value: String,
    /// How the value came to be: `published` for a report's, `measured` for one's own.
    #[schemars(with = "String")]
    pub source: Standing,
    /// A profile's figures were chosen to meet this value, so meeting it proves nothing.
    #[serde(default)]
    pub fitted: bool,
}
