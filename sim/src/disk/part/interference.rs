//! What writes take from reads on one drive: a share of their rates, and time from single ones.
//!
//! How much is written is the share of the write maximum that was asked for over the last milliseconds. The family's
//! curve says what is left of the read rates then. Beside that a read may meet a cell that is being written or erased,
//! and waits for it: rarely when little is written, for up to a few ms when much is.

use crate::latency::Latency;
use crate::random::Generator;

/// Over how long writes are remembered: a leaky integral.
const MEMORY_NS: f64 = 10e6;

/// A read meets a busy cell with the probability that writes use their maximum, but at least with this one.
const MEETING_MIN: f64 = 0.1;

#[derive(Default)]
struct WriteShare {
    seen_at: u64,
    /// Time of the writes remembered at the device's write maximum.
    busy_ns: f64,
}

impl WriteShare {
    fn decay(&mut self, at: u64) {
        if at > self.seen_at {
            self.busy_ns *= (1.0 - (at - self.seen_at) as f64 / MEMORY_NS).max(0.0);
            self.seen_at = at;
        }
    }
}

/// Straight lines between points `(x, y)` of rising x.
#[derive(Clone, Debug)]
struct Curve(Vec<(f64, f64)>);

impl Curve {
    fn at(&self, x: f64) -> f64 {
        let (mut x0, mut y0) = self.0[0];
        for &(x1, y1) in &self.0[1..] {
            if x <= x1 {
                return if x1 > x0 { y0 + (y1 - y0) * (x - x0) / (x1 - x0) } else { y1 };
            }
            (x0, y0) = (x1, y1);
        }
        y0
    }
}

pub(crate) struct Interference {
    writes: WriteShare,
    /// Share of the write maximum in use -> share of the read maximum left.
    reads_left: Option<Curve>,
    /// Share of the write maximum in use -> longest wait for a cell, ns.
    wait: Option<Curve>,
}

impl Interference {
    /// `reads_left`: points behind (0, 1). `read_p95`: `(share of writes, ns)`, with reads otherwise as `service`.
    pub fn new(reads_left: &[(f64, f64)], read_p95: &[(f64, f64)], service: &Latency) -> Self {
        let behind = |first: (f64, f64), points: Vec<(f64, f64)>| {
            (!points.is_empty()).then(|| Curve(std::iter::once(first).chain(points).collect()))
        };
        let waits = read_p95.iter().map(|&(writes, p95)| (writes, longest_wait(service, writes, p95)));
        Self {
            writes: WriteShare::default(),
            reads_left: behind((0.0, 1.0), reads_left.to_vec()),
            wait: behind((0.0, 0.0), waits.collect()),
        }
    }

    pub fn write(&mut self, at: u64, cost_ns: f64) {
        if self.reads_left.is_some() || self.wait.is_some() {
            self.writes.decay(at);
            self.writes.busy_ns += cost_ns;
        }
    }

    fn share(&mut self, at: u64) -> f64 {
        self.writes.decay(at);
        (self.writes.busy_ns / MEMORY_NS).min(1.0)
    }

    /// Share of the read rates left.
    #[inline]
    pub fn reads_left(&mut self, at: u64) -> f64 {
        if self.writes.busy_ns <= 0.0 {
            return 1.0;
        }
        let share = self.share(at);
        self.reads_left.as_ref().map_or(1.0, |curve| curve.at(share))
    }

    /// How long a read waits for a cell that is being written.
    #[inline]
    pub fn wait_ns(&mut self, at: u64, random: &mut Generator) -> u64 {
        if self.wait.is_none() || self.writes.busy_ns <= 0.0 {
            return 0;
        }
        let share = self.share(at);
        let Some(wait) = &self.wait else { return 0 };
        let place = (random.next_u64() >> 32) as f64 / f64::from(u32::MAX);
        let meeting = share.max(MEETING_MIN);
        // The part of the random number that says whether, spread, says how long.
        if place < meeting { (wait.at(share) * place / meeting) as u64 } else { 0 }
    }
}

/// The wait, evenly from 0 to it and met as [`MEETING_MIN`] has it, that lifts the 95th percentile of `service` to
/// `p95` ns. Halving the interval: the percentile rises with the wait.
fn longest_wait(service: &Latency, writes: f64, p95: f64) -> f64 {
    let meeting = writes.max(MEETING_MIN);
    let beyond = |wait: f64| {
        let of_one = |ns: u64| match p95 - ns as f64 {
            room if room < 0.0 => 1.0,
            room => meeting * (1.0 - room / wait).max(0.0),
        };
        service.points().map(of_one).sum::<f64>() / service.points().len() as f64
    };
    let (mut low, mut high) = (0.0, 1e9);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if beyond(middle) < 0.05 { low = middle } else { high = middle }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_join_the_points() {
        let curve = Curve(vec![(0.0, 1.0), (0.5, 0.5), (1.0, 0.25)]);
        let near = |x: f64, y: f64| assert!((curve.at(x) - y).abs() < 1e-9, "{x} {}", curve.at(x));
        near(0.0, 1.0);
        near(0.25, 0.75);
        near(0.5, 0.5);
        near(0.75, 0.375);
        near(2.0, 0.25);
    }

    #[test]
    fn the_wait_lifts_the_percentile_to_where_it_should_be() {
        let service = Latency::constant(100_000);
        let mut interference = Interference::new(&[], &[(0.5, 1e6)], &service);
        // Half of the reads wait for up to T: 0.5 (1 - 0.9 ms / T) = 0.05, so T = 1 ms.
        assert!((longest_wait(&service, 0.5, 1e6) - 1e6).abs() < 1e3);
        interference.write(1_000, MEMORY_NS / 2.0);
        let mut random = Generator::new(1);
        let mut waits: Vec<u64> = (0..20_000).map(|_| interference.wait_ns(1_000, &mut random)).collect();
        waits.sort_unstable();
        assert!(waits[19_000].abs_diff(900_000) < 20_000, "{}", waits[19_000]);
    }
}
