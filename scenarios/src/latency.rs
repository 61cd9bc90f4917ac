//! Recording of a phase: latencies, counts and errors, over the whole measured window and along time.
//!
//! Two histograms of three significant digits: from the moment an operation was due (what a client sees; corrected for
//! coordinated omission where arrival is open) and from the moment it was begun. Under closed arrival they are equal.
//! The series along time is coarser (one digit and a half) and halves its resolution whenever it grows too long.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Longest latency that is told apart, in ns; longer ones count as this.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Intervals of a series before neighbours are merged; what a plot of a screen's width can show.
const INTERVALS_MAX: usize = 240;
const FIRST_INTERVAL_NS: u64 = 10_000_000;

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1_000, LONGEST_NS, 3).expect("constant bounds")
}

fn coarse_histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1_000, LONGEST_NS, 1).expect("constant bounds")
}

/// All in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    pub mean: u64,
    pub p50: u64,
    pub p90: u64,
    pub p95: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    pub max: u64,
}

impl LatencySummary {
    fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            mean: histogram.mean().round() as u64,
            p50: at(0.5),
            p90: at(0.9),
            p95: at(0.95),
            p99: at(0.99),
            p99_9: at(0.999),
            max: histogram.max(),
        }
    }
}

/// One step of the series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Since the phase's start.
    pub begin_ns: u64,
    pub throughput: f64,
    pub p50: u64,
    pub p99: u64,
}

/// When an operation was due, begun and answered, on the recording shard's clock.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub due_ns: u64,
    pub begun_ns: u64,
    pub ended_ns: u64,
}

/// What an operation did, as far as latencies are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Write,
    Read,
}

#[derive(Clone, Debug)]
pub struct Recorder {
    start_ns: u64,
    warmup_ns: u64,
    /// What answers after this, since the start, is not measured; `u64::MAX` where the number of operations ends it.
    window_end_ns: u64,
    from_due: Histogram<u64>,
    from_begun: Histogram<u64>,
    /// From when they were due: writes, reads.
    sides: [Histogram<u64>; 2],
    /// Whether an operation ever began later than it was due.
    late: bool,
    measured: u64,
    operations: u64,
    errors: BTreeMap<String, u64>,
    last_ns: u64,
    interval_ns: u64,
    series: Vec<Histogram<u32>>,
}

impl Recorder {
    /// `duration_ns`: of the whole phase, warm-up included, where time ends it.
    pub fn new(start_ns: u64, warmup_ns: u64, duration_ns: Option<u64>) -> Self {
        Self {
            start_ns,
            warmup_ns,
            window_end_ns: duration_ns.unwrap_or(u64::MAX),
            from_due: histogram(),
            from_begun: histogram(),
            sides: [histogram(), histogram()],
            late: false,
            measured: 0,
            operations: 0,
            errors: BTreeMap::new(),
            last_ns: 0,
            interval_ns: FIRST_INTERVAL_NS,
            series: Vec::new(),
        }
    }

    /// Records one that is told apart from those of the other side, too.
    #[inline]
    pub fn record_side(&mut self, side: Side, timing: Timing) {
        let before = self.measured;
        self.record(timing);
        if self.measured > before {
            self.sides[side as usize].saturating_record(timing.ended_ns.saturating_sub(timing.due_ns));
        }
    }

    #[inline]
    pub fn record(&mut self, timing: Timing) {
        let ended = timing.ended_ns.saturating_sub(self.start_ns);
        let latency = timing.ended_ns.saturating_sub(timing.due_ns);
        self.operations += 1;
        self.last_ns = self.last_ns.max(ended);
        let mut slot = (ended / self.interval_ns) as usize;
        while slot >= INTERVALS_MAX {
            self.coarsen();
            slot = (ended / self.interval_ns) as usize;
        }
        while self.series.len() <= slot {
            self.series.push(coarse_histogram());
        }
        self.series[slot].saturating_record(latency);
        if ended >= self.warmup_ns && ended < self.window_end_ns {
            self.measured += 1;
            self.from_due.saturating_record(latency);
            if timing.begun_ns > timing.due_ns {
                self.late = true;
            }
            self.from_begun.saturating_record(timing.ended_ns.saturating_sub(timing.begun_ns));
        }
    }

    pub fn error(&mut self, kind: &str) {
        match self.errors.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.errors.insert(kind.to_string(), 1)),
        }
    }

    pub fn operations(&self) -> u64 {
        self.operations
    }

    pub fn errors(&self) -> u64 {
        self.errors.values().sum()
    }

    fn coarsen(&mut self) {
        self.interval_ns *= 2;
        let mut merged: Vec<Histogram<u32>> = Vec::with_capacity(INTERVALS_MAX);
        for (i, part) in self.series.drain(..).enumerate() {
            match merged.last_mut().filter(|_| i % 2 == 1) {
                Some(whole) => whole.add(part).expect("equal bounds"),
                None => merged.push(part),
            }
        }
        self.series = merged;
    }

    /// Adds another driver's recording of the same phase. Order does not matter.
    pub fn merge(&mut self, mut other: Recorder) {
        while self.interval_ns < other.interval_ns {
            self.coarsen();
        }
        while other.interval_ns < self.interval_ns {
            other.coarsen();
        }
        for (i, part) in other.series.into_iter().enumerate() {
            match self.series.get_mut(i) {
                Some(whole) => whole.add(part).expect("equal bounds"),
                None => self.series.push(part),
            }
        }
        self.from_due.add(other.from_due).expect("equal bounds");
        self.from_begun.add(other.from_begun).expect("equal bounds");
        for (side, others) in self.sides.iter_mut().zip(other.sides) {
            side.add(others).expect("equal bounds");
        }
        self.late |= other.late;
        self.measured += other.measured;
        self.operations += other.operations;
        self.last_ns = self.last_ns.max(other.last_ns);
        for (kind, count) in other.errors {
            *self.errors.entry(kind).or_default() += count;
        }
    }

    pub fn finish(&self) -> Recorded {
        let end = self.window_end_ns.min(self.last_ns.max(self.warmup_ns + 1));
        let window_ns = end.saturating_sub(self.warmup_ns).max(1);
        let interval_s = self.interval_ns as f64 / 1e9;
        // The last interval is rarely whole: its rate counts only the part that has passed.
        let length_s = |i: usize| match (self.last_ns.saturating_sub(i as u64 * self.interval_ns)) as f64 / 1e9 {
            rest if i + 1 == self.series.len() && rest < interval_s => rest.max(interval_s / 100.0),
            _ => interval_s,
        };
        let series = self.series.iter().enumerate().map(|(i, h)| Interval {
            begin_ns: i as u64 * self.interval_ns,
            throughput: h.len() as f64 / length_s(i),
            p50: h.value_at_quantile(0.5),
            p99: h.value_at_quantile(0.99),
        });
        Recorded {
            operations: self.operations,
            measured: self.measured,
            errors: self.errors.clone(),
            duration_ns: self.last_ns,
            warmup_ns: self.warmup_ns,
            throughput: self.measured as f64 / (window_ns as f64 / 1e9),
            sides: self.sides.each_ref().map(|side| {
                let rate = side.len() as f64 / (window_ns as f64 / 1e9);
                (!side.is_empty()).then(|| (rate, LatencySummary::of(side)))
            }),
            latency: LatencySummary::of(&self.from_due),
            latency_uncorrected: self.late.then(|| LatencySummary::of(&self.from_begun)),
            interval_ns: self.interval_ns,
            series: series.collect(),
        }
    }

    /// `(latency in ns, operations at most that late)` at every bucket that holds something: the raw histogram.
    pub fn distribution(&self) -> Vec<(u64, u64)> {
        let mut total = 0;
        self.from_due
            .iter_recorded()
            .map(|step| {
                total += step.count_since_last_iteration();
                (step.value_iterated_to(), total)
            })
            .collect()
    }
}

/// What a [`Recorder`] gives to the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    pub operations: u64,
    pub measured: u64,
    pub errors: BTreeMap<String, u64>,
    pub duration_ns: u64,
    pub warmup_ns: u64,
    pub throughput: f64,
    /// Rate and latencies of writes and of reads, where there were any.
    pub sides: [Option<(f64, LatencySummary)>; 2],
    pub latency: LatencySummary,
    /// Present where operations began later than they were due.
    pub latency_uncorrected: Option<LatencySummary>,
    pub interval_ns: u64,
    pub series: Vec<Interval>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn op(recorder: &mut Recorder, due_ms: u64, begun_ms: u64, ended_ms: u64) {
        recorder.record(Timing { due_ns: due_ms * MS, begun_ns: begun_ms * MS, ended_ns: ended_ms * MS });
    }

    #[test]
    fn the_warm_up_and_the_rest_are_not_measured() {
        let mut recorder = Recorder::new(0, 100 * MS, Some(1100 * MS));
        for i in 0..1200 {
            op(&mut recorder, i, i, i + 1);
        }
        let recorded = recorder.finish();
        assert_eq!((recorded.operations, recorded.measured), (1200, 1000));
        assert!((recorded.throughput - 1000.0).abs() < 1e-6, "{}", recorded.throughput);
        assert_eq!(recorded.latency_uncorrected, None);
    }

    #[test]
    fn waiting_for_a_stalled_client_counts() {
        // Due every ms; the client stalls from 100 to 200 ms and then catches up at once.
        let mut recorder = Recorder::new(0, 0, Some(1000 * MS));
        for i in 0..999 {
            let begun = if (100..200).contains(&i) { 200 } else { i };
            op(&mut recorder, i, begun, begun + 1);
        }
        let recorded = recorder.finish();
        let raw = recorded.latency_uncorrected.unwrap();
        assert!(recorded.latency.p95 > 40 * MS && raw.p95 < 2 * MS, "{recorded:?}");
    }

    #[test]
    fn merging_equals_recording_together() {
        let (mut a, mut b, mut both) =
            (Recorder::new(0, 0, None), Recorder::new(0, 0, None), Recorder::new(0, 0, None));
        for i in 0..5000 {
            let half = if i % 3 == 0 { &mut a } else { &mut b };
            op(half, i, i, i + i % 17);
            op(&mut both, i, i, i + i % 17);
        }
        a.error("timeout");
        both.error("timeout");
        a.merge(b);
        assert_eq!(a.finish(), both.finish());
        assert!(both.finish().series.len() <= INTERVALS_MAX);
    }
}
