//! A latency distribution given by five to seven points, sampled with integer arithmetic only.
//!
//! `low`, `mid` and `high` are the 5th, 50th and 95th percentile, straight lines between them. Above `high` the tail is
//! exponential: each halving of the remaining probability adds the same time, until `max` at 1 in 10,240; where `p99`
//! or `p999` is known, it bends there. No function of the C library is involved, so every machine draws the same
//! latencies from the same bits.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::quantity::Time;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    pub min: Figure<Time>,
    pub low: Figure<Time>,
    pub mid: Figure<Time>,
    pub high: Figure<Time>,
    /// The 99th percentile.
    pub p99: Option<Figure<Time>>,
    /// The 99.9th.
    pub p999: Option<Figure<Time>>,
    pub max: Figure<Time>,
}

impl Quantiles {
    /// `None` if the points do not rise.
    pub fn sampler(&self) -> Option<Sampler> {
        let points = [&self.min, &self.low, &self.mid, &self.high, &self.max].map(|point| point.u64());
        let bends = [&self.p99, &self.p999].map(|point| point.as_ref().map(|point| point.u64()));
        let (body, max) = points.split_at(4);
        let rises = body.iter().chain(bends.iter().flatten()).chain(max).is_sorted();
        rises.then_some(Sampler { points, bends })
    }
}

/// The points in ns; cheap to copy, for the simulator's hot path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    points: [u64; 5],
    /// The 99th and the 99.9th percentile.
    bends: [Option<u64>; 2],
}

/// Probabilities are fractions of 2^32.
const P05: u64 = (1 << 32) / 20;
const P50: u64 = (1 << 32) / 2;
const P95: u64 = (1 << 32) - P05;
/// The tail reaches `max` after this many halvings of 5 %: 0.05 / 2^9 is about 1 in 10,000.
const TAIL_HALVINGS: u64 = 9;
/// Halvings of 5 % until 1 % and until 0.1 %, as `sample` counts them (2.4 and 5.72 where logarithms would give 2.32 and
/// 5.64), with 16 fractional bits.
const BENDS: [u64; 2] = [(24 << 16) / 10, (572 << 16) / 100];

impl Sampler {
    /// A distribution that always gives `ns`.
    pub fn constant(ns: u64) -> Self {
        Self { points: [ns; 5], bends: [None; 2] }
    }

    /// The times between events that come independently, by the points of an exponential distribution. Straight lines
    /// between them have a mean that is 1.21 times its, which is taken back.
    pub fn exponential(mean_ns: u64) -> Self {
        let point = |times: f64| (mean_ns as f64 / 1.21 * times) as u64;
        let median = std::f64::consts::LN_2;
        Self { points: [0.0, 0.0513, median, 2.9957, 9.2340].map(point), bends: [Some(point(4.6052)), None] }
    }

    /// ns for 32 random bits (the high half of `random` is used).
    pub fn sample(&self, random: u64) -> u64 {
        let p = random >> 32;
        let [min, low, mid, high, max] = self.points;
        let line = |from: u64, to: u64, begin: u64, end: u64| line_of(from, to, p, begin, end);
        if p < P05 {
            line(min, low, 0, P05)
        } else if p < P50 {
            line(low, mid, P05, P50)
        } else if p < P95 {
            line(mid, high, P50, P95)
        } else {
            // Halvings of the tail with 16 fractional bits; the fraction of the logarithm is taken as linear.
            let rest = ((1u64 << 32) - p).max(1);
            let shift = (P05 / rest).ilog2() as u64;
            let within = (rest << shift) as u128; // in (P05/2, P05]
            let fraction = ((P05 as u128 - within.min(P05 as u128)) << 17) / P05 as u128;
            let halvings = ((shift << 16) + fraction as u64).min(TAIL_HALVINGS << 16);
            let (mut begin, mut from) = (0, high);
            for (end, to) in BENDS.into_iter().zip(self.bends) {
                let Some(to) = to else { continue };
                if halvings < end {
                    return line_of(from, to, halvings, begin, end);
                }
                (begin, from) = (end, to);
            }
            line_of(from, max, halvings, begin, TAIL_HALVINGS << 16)
        }
    }

    /// Mean in ns by sampling evenly; for reports and checks.
    pub fn mean_ns(&self) -> f64 {
        const STEPS: u64 = 100_000;
        (0..STEPS).map(|i| self.sample((2 * i + 1) * (u64::MAX / (2 * STEPS))) as f64).sum::<f64>() / STEPS as f64
    }

    pub fn max_ns(&self) -> u64 {
        self.points[4]
    }
}

/// Where the line from `(begin, from)` to `(end, to)` is at `at`.
fn line_of(from: u64, to: u64, at: u64, begin: u64, end: u64) -> u64 {
    from + ((to - from) as u128 * (at - begin) as u128 / (end - begin) as u128) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampler() -> Sampler {
        Sampler { points: [50_000, 100_000, 125_000, 170_000, 2_000_000], bends: [None; 2] }
    }

    fn at(probability: f64) -> u64 {
        sampler().sample((probability * 4_294_967_296.0) as u64 * (1 << 32))
    }

    #[test]
    fn the_points_are_met_and_the_curve_rises() {
        assert_eq!(at(0.0), 50_000);
        assert!(at(0.05).abs_diff(100_000) < 5);
        assert!(at(0.5).abs_diff(125_000) < 5);
        assert!(at(0.95).abs_diff(170_000) < 5);
        assert_eq!(sampler().sample(u64::MAX), 2_000_000);
        let values: Vec<u64> = (0..100_000u64).map(|i| sampler().sample(i * (u64::MAX / 100_000))).collect();
        assert!(values.is_sorted());
    }

    #[test]
    fn the_tail_is_exponential() {
        // Each halving of the tail adds a ninth of the way to the maximum.
        let step = (2_000_000 - 170_000) / 9;
        assert!(at(0.975).abs_diff(170_000 + step) < 2_000);
        assert!(at(0.9875).abs_diff(170_000 + 2 * step) < 2_000);
        assert!((125_000.0..165_000.0).contains(&sampler().mean_ns()));
    }
    #[test]
    fn known_points_bend_the_tail() {
        for bends in [[Some(300_000), None], [Some(300_000), Some(500_000)], [None, Some(500_000)]] {
            let bent = Sampler { bends, ..sampler() };
            let at = |probability: f64| bent.sample((probability * 4_294_967_296.0) as u64 * (1 << 32));
            assert!(at(0.95).abs_diff(170_000) < 100, "{}", at(0.95));
            for (probability, bend) in [0.99, 0.999].into_iter().zip(bends) {
                assert!(bend.is_none_or(|bend| at(probability).abs_diff(bend) < 500), "{bends:?} {}", at(probability));
            }
            assert_eq!(bent.sample(u64::MAX), 2_000_000);
            let values: Vec<u64> = (0..100_000u64).map(|i| bent.sample(i * (u64::MAX / 100_000))).collect();
            assert!(values.is_sorted());
        }
    }
}
