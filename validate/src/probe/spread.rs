//! A latency distribution as a probe keeps it: the points that a profile's `Quantiles` have.

use hdrhistogram::Histogram;
use hwprofiles::{Figure, Quantiles, Standing};
use serde::{Deserialize, Serialize};

/// All in ns. `max` is at 1 in 10,240, where the profiles' tails end; of few samples the last points are the longest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub samples: u64,
    pub min: u64,
    pub p05: u64,
    pub p50: u64,
    pub p95: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl Spread {
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            samples: histogram.len(),
            min: histogram.min(),
            p05: at(0.05),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0 - 1.0 / 10_240.0),
        }
    }

    /// `source` says how it was measured.
    pub fn quantiles(&self, source: &str) -> Quantiles {
        let figure = |ns: u64| Figure::new(ns as f64, Standing::Measured, source);
        Quantiles {
            min: figure(self.min),
            low: figure(self.p05),
            mid: figure(self.p50),
            high: figure(self.p95),
            p99: Some(figure(self.p99)),
            p999: Some(figure(self.p999)),
            max: figure(self.max),
        }
    }

    /// Point by point.
    pub fn mean(all: &[Spread]) -> Self {
        let mean = |point: fn(&Spread) -> u64| all.iter().map(point).sum::<u64>() / (all.len() as u64).max(1);
        Self {
            samples: all.iter().map(|spread| spread.samples).sum(),
            min: mean(|spread| spread.min),
            p05: mean(|spread| spread.p05),
            p50: mean(|spread| spread.p50),
            p95: mean(|spread| spread.p95),
            p99: mean(|spread| spread.p99),
            p999: mean(|spread| spread.p999),
            max: mean(|spread| spread.max),
        }
    }

    /// What is left of each point without `ns`, at least `floor`.
    pub fn less(self, ns: u64, floor: u64) -> Self {
        let less = |point: u64| point.saturating_sub(ns).max(floor);
        Self {
            samples: self.samples,
            min: less(self.min),
            p05: less(self.p05),
            p50: less(self.p50),
            p95: less(self.p95),
            p99: less(self.p99),
            p999: less(self.p999),
            max: less(self.max),
        }
    }
}
