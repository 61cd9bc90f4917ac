//! Latency distributions as tables: drawn in a few nanoseconds, by integer arithmetic.

use std::sync::Arc;

use hwprofiles::Sampler;

/// Quantiles at multiples of 1/4096, straight lines between them.
#[derive(Clone, Debug)]
pub struct Latency {
    quantiles_ns: Arc<[u64]>,
}

const STEPS: usize = 4096;

impl Latency {
    pub fn constant(ns: u64) -> Self {
        Self { quantiles_ns: vec![ns; STEPS + 1].into() }
    }

    /// The distribution that gives `1/divisor` of `sampler`'s latencies (2 for one way of a round trip).
    pub fn from_sampler(sampler: &Sampler, divisor: u64) -> Self {
        let mut quantiles: Vec<u64> = (0..STEPS as u64).map(|i| sampler.sample(i << 52) / divisor).collect();
        quantiles.push(sampler.max_ns() / divisor);
        Self { quantiles_ns: quantiles.into() }
    }

    /// ns for 64 random bits.
    #[inline]
    pub fn sample(&self, random: u64) -> u64 {
        let index = (random >> 52) as usize;
        let (low, high) = (self.quantiles_ns[index], self.quantiles_ns[index + 1]);
        // Distances above 4 s would overflow; no latency here comes near it.
        low + (((high - low) * (random >> 20 & 0xFFFF_FFFF)) >> 32)
    }

    /// Quantiles at equal distances.
    pub fn points(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.quantiles_ns.iter().copied()
    }

    pub fn mean_ns(&self) -> f64 {
        self.points().map(|ns| ns as f64).sum::<f64>() / self.points().len() as f64
    }

    pub fn median_ns(&self) -> u64 {
        self.quantiles_ns[STEPS / 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_and_the_middle_are_met() {
        let latency = Latency { quantiles_ns: (0..=STEPS as u64).map(|i| i * 1000).collect() };
        assert_eq!(latency.sample(0), 0);
        assert_eq!(latency.sample(1 << 63), 2_048_000);
        assert_eq!(latency.sample(u64::MAX), 4_095_999);
        assert_eq!(Latency::constant(7).sample(12345 << 40), 7);
    }
}
