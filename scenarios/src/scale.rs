//! Scale: a smaller experiment that saturates the same resources at the same rates.
//!
//! `scale: {data: 1/1000}` divides what is counted in bytes or partitions (data, RAM, memtables, files, segments, key
//! ranges, `n=`) and the durations that depend on them. Rates and latencies stay. Results are told in full-size units.
//! Credits for bursts last for the same part of the longest timed phase as in full size.
//!
//! Three floors keep a scaled run meaningful, each a stated rule:
//! 1. A timed phase measures at least `window` (1 s of virtual time unless the scenario says otherwise), after a warm-up
//!    of at least `warmup` (3 s), so that queues settle, caches fill (rule 2 leaves more hot partitions than the scale
//!    says) and percentiles have samples. A warm-up's floor is taken from what is measured as long as that keeps its own:
//!    the phase writes no more than its scale says. For phases that write, or that compactions of what was written run
//!    beside, a scenario should name floors no longer than their scaled durations: else they write and compact more than
//!    in full size, and leave another number of SSTables to what follows. `time` divides the duration of timed phases by
//!    another number than `data`, where what they load has settled long before a quotient of theirs.
//! 2. A Gaussian keeps a standard deviation of at least 100 partitions for each shard of a server (or its own, if
//!    smaller): with fewer hot partitions than that, single shards would run hot in a way that the full-size experiment
//!    does not. A system without shards keeps few, so that its scaled page cache holds them as the real one does.
//! 3. A range keeps at least 1,000 partitions, or its own number.
//!
//! What clients have under way is not scaled. Where a scaled memtable holds no more than that, as of 2,400 threads at
//! 1/2000 on servers with 15 GiB, its flushes are as large as the clients' bursts, and writes are not those of full size.
//! `orrery check` tells where that is, and where a floor of rule 1 makes a phase write more; so does a run whose scale was
//! chosen for it.
//!
//! What takes as long at any scale, such as a disk's queue filling up, is not seen where a scaled flush or compaction is over
//! before it. How small is too small depends on the phase and was tried: `least` of a scenario says, with its reason beside
//! it, and a smaller scale is raised to it.

use hwprofiles::quantity::{Duration, Quantity, Ratio};
use serde::{Deserialize, Serialize};

use crate::generate::Keys;
use crate::workload::Workload;

const WARMUP_MIN_NS: u64 = 3_000_000_000;
const WINDOW_MIN_NS: u64 = 1_000_000_000;
const STDEV_MIN_PER_SHARD: f64 = 100.0;
const RANGE_MIN: u64 = 1_000;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Simulated bytes over real bytes, at most 1.
    #[schemars(with = "String")]
    pub data: Quantity<Ratio>,
    /// Least measuring window of a timed phase.
    #[serde(default = "default_window")]
    #[schemars(with = "Option<String>")]
    pub window: Duration,
    /// Least warm-up of a timed phase.
    #[serde(default = "default_warmup")]
    #[schemars(with = "Option<String>")]
    pub warmup: Duration,
    /// Simulated time over real time of timed phases; `data` if absent.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub time: Option<Quantity<Ratio>>,
    /// Smallest `data` at which the scenario's results are still those of larger ones, as was seen: less is raised to it.
    /// Any if absent.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub least: Option<Quantity<Ratio>>,
}

fn default_warmup() -> Duration {
    Quantity::new(WARMUP_MIN_NS as f64)
}

fn default_window() -> Duration {
    Quantity::new(WINDOW_MIN_NS as f64)
}

/// `ratio` of `full`, rounded down, at least 1 unless that was 0.
fn part(ratio: f64, full: u64) -> u64 {
    // The reciprocal first: 1/1000 of 270,258,064,000 must not depend on how 0.001 rounds.
    let divisor = 1.0 / ratio;
    let exact = if (divisor - divisor.round()).abs() < 1e-9 {
        full / divisor.round() as u64
    } else {
        (full as f64 * ratio) as u64
    };
    exact.max(u64::from(full > 0))
}

/// As many partitions in a row on one shard as at full size, where there are `divisor` times as many: scans visit as few
/// shards.
pub(crate) fn ignore_msb(full: u8, divisor: u64) -> u8 {
    full.saturating_sub(divisor.max(1).ilog2() as u8)
}

impl Default for Scale {
    fn default() -> Self {
        Self::FULL
    }
}

impl Scale {
    pub const FULL: Scale = Scale {
        data: Quantity::new(1.0),
        window: Quantity::new(WINDOW_MIN_NS as f64),
        warmup: Quantity::new(WARMUP_MIN_NS as f64),
        time: None,
        least: None,
    };

    /// With other `data`. A `time` of its own keeps its proportion to them.
    pub fn with_data(self, data: Quantity<Ratio>) -> Scale {
        let time = self.time.map(|time| Quantity::new(time.f64() * data.f64() / self.data.f64()));
        Scale { data, time, ..self }
    }

    /// At `least` as large: what is too small to tell anything of full size is not simulated.
    pub fn raised(self) -> Scale {
        match self.least {
            Some(least) if self.data.f64() > 0.0 && self.data.f64() < least.f64() => self.with_data(least),
            _ => self,
        }
    }

    /// A capacity or a number of partitions, rounded down, at least 1 unless it was 0.
    pub fn amount(&self, full: u64) -> u64 {
        part(self.data.f64(), full)
    }

    fn time(&self, full_ns: u64) -> u64 {
        part(self.time.unwrap_or(self.data).f64(), full_ns)
    }

    pub fn is_full(&self) -> bool {
        self.data.f64() >= 1.0
    }

    /// A warm-up and a whole timed phase (warm-up included), in ns.
    pub fn timed(&self, warmup_ns: u64, duration_ns: u64) -> (u64, u64) {
        if self.is_full() {
            return (warmup_ns, duration_ns);
        }
        let warmup = self.time(warmup_ns).max(self.warmup.u64());
        let measured = self.time(duration_ns).saturating_sub(warmup).max(self.window.u64());
        (warmup, warmup + measured)
    }

    /// `shards`: of one server.
    pub fn keys(&self, keys: Keys, shards: u32) -> Keys {
        if self.is_full() {
            return keys;
        }
        let begin = |from: u64| if from <= 1 { from } else { self.amount(from - 1) + 1 };
        // Where a range of the full size ends, the next one begins: so do these.
        let end = |from: u64, to: u64| self.amount(to).max(begin(from) + RANGE_MIN.min(to - from + 1) - 1);
        match keys {
            Keys::Sequence { from, to } => Keys::Sequence { from: begin(from), to: end(from, to) },
            Keys::Uniform { from, to } => Keys::Uniform { from: begin(from), to: end(from, to) },
            Keys::Exponential { from, to } => Keys::Exponential { from: begin(from), to: end(from, to) },
            Keys::Zipfian { from, to, of, scanned_shards } => {
                Keys::Zipfian { from: begin(from), to: end(from, to), of: of.max(keys.count()), scanned_shards }
            }
            Keys::Latest { from, to, of } => {
                Keys::Latest { from: begin(from), to: end(from, to), of: of.max(keys.count()) }
            }
            Keys::Gaussian { from, to, mean, stdev } => {
                let (low, high) = (begin(from), end(from, to));
                let place = (mean - from as f64) / (to - from).max(1) as f64;
                Keys::Gaussian {
                    from: low,
                    to: high,
                    mean: low as f64 + place * (high - low) as f64,
                    stdev: (stdev * self.data.f64()).max((STDEV_MIN_PER_SHARD * f64::from(shards)).min(stdev)),
                }
            }
        }
    }

    pub fn workload(&self, full: &Workload, warmup_ns: u64, shards: u32) -> (u64, Workload) {
        let mut scaled = full.clone();
        scaled.keys = self.keys(full.keys, shards);
        if let Keys::Zipfian { scanned_shards, .. } = &mut scaled.keys {
            *scanned_shards = if full.mix.scan > 0 { shards } else { 0 };
        }
        // Who goes through a range once does so in any size.
        let is_once = matches!(full.keys, Keys::Sequence { .. }) && full.operations == Some(full.keys.count());
        scaled.operations = match is_once {
            true => Some(scaled.keys.count()),
            false => full.operations.map(|n| self.amount(n)),
        };
        let mut warmup = if self.is_full() { warmup_ns } else { self.amount(warmup_ns) };
        if let Some(duration) = full.duration_ns {
            let (warmup_scaled, whole) = self.timed(warmup_ns, duration);
            warmup = warmup_scaled;
            scaled.duration_ns = Some(whole);
        }
        (warmup, scaled)
    }

    /// First bits of tokens that do not choose the shard, `full` at full size.
    pub fn ignore_msb(&self, full: u8) -> u8 {
        ignore_msb(full, (1.0 / self.data.f64()) as u64)
    }

    /// A duration that depends on data, told in full size.
    pub fn full_size_s(&self, simulated_ns: u64) -> f64 {
        simulated_ns as f64 / 1e9 / self.data.f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Arrival, Consistency, Mix, Row};

    fn thousandth() -> Scale {
        Scale { data: Quantity::parse("1/1000").unwrap(), ..Scale::default() }
    }

    #[test]
    fn amounts_divide_exactly() {
        assert_eq!(thousandth().amount(270_258_064), 270_258);
        assert_eq!(thousandth().amount(810_774_192), 3 * 270_258);
        assert_eq!((thousandth().amount(5), thousandth().amount(0)), (1, 0));
        assert_eq!(Scale::FULL.amount(7), 7);
    }

    #[test]
    fn a_scale_is_raised_to_the_least_that_its_scenario_names() {
        let ratio = |text: &str| Some(Quantity::parse(text).unwrap());
        let scale = Scale { time: ratio("1/3000"), ..thousandth() };
        assert_eq!(scale.raised(), scale);
        assert_eq!(Scale { least: ratio("1/1000"), ..scale }.raised().data.f64(), 1e-3);
        let raised = Scale { least: ratio("1/500"), ..scale }.raised();
        assert_eq!((raised.data.f64(), raised.time.unwrap().f64()), (1.0 / 500.0, 1.0 / 1500.0));
    }

    #[test]
    fn a_timed_phase_keeps_its_least_window() {
        let minute = 60_000_000_000;
        assert_eq!(thousandth().timed(2 * minute, 20 * minute), (3_000_000_000, 4_000_000_000));
        assert_eq!(thousandth().timed(4 * minute, 200 * minute), (3_000_000_000, 12_000_000_000));
        assert_eq!(thousandth().timed(0, 5 * minute), (3_000_000_000, 4_000_000_000));
        assert_eq!(Scale::FULL.timed(1, 10), (1, 10));
        let short = |time: &str| Quantity::<hwprofiles::quantity::Time>::parse(time).unwrap();
        let time = Some(Quantity::parse("1/3000").unwrap());
        let fast = Scale { time, window: short("200 ms"), warmup: short("100 ms"), ..thousandth() };
        assert_eq!(fast.timed(0, 15 * minute), (100_000_000, 300_000_000));
    }

    #[test]
    fn key_ranges_shrink_around_the_same_place() {
        let full = Keys::Gaussian { from: 1, to: 810_774_192, mean: 405_387_096.0, stdev: 10_000.0 };
        let Keys::Gaussian { from, to, mean, stdev } = thousandth().keys(full, 7) else { panic!("still a Gaussian") };
        assert_eq!((from, to), (1, 810_774));
        assert!((mean - 405_387.5).abs() < 1.0, "{mean}");
        assert_eq!(stdev, 700.0);
        let disjoint = Keys::Sequence { from: 270_258_065, to: 540_516_128 };
        assert_eq!(thousandth().keys(disjoint, 7), Keys::Sequence { from: 270_259, to: 540_516 });
    }

    #[test]
    fn ranges_side_by_side_leave_no_gap() {
        let scale = Scale { data: Quantity::parse("1/5000").unwrap(), ..thousandth() };
        let mut next = 1;
        for loader in 0..3 {
            let (from, to) = (loader * 333_333_333 + 1, (loader + 1) * 333_333_333);
            let full = Workload {
                mix: Mix::WRITE,
                keys: Keys::Sequence { from, to },
                arrival: Arrival::Closed { threads: 1 },
                consistency: Consistency::One,
                operations: Some(333_333_333),
                duration_ns: None,
                row: Row { columns: 1, column_bytes: 1, rows: 1 },
                connections_per_host: 1,
            };
            let (_, scaled) = scale.workload(&full, 0, 7);
            let Keys::Sequence { from, to } = scaled.keys else { panic!("still a sequence") };
            assert_eq!((from, scaled.operations), (next, Some(to - from + 1)));
            next = to + 1;
        }
        assert_eq!(next, 200_000);
    }
}
