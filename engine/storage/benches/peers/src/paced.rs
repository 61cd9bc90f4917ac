//! Latencies of writes that arrive when they arrive, whether the last one is done or not.

use hdrhistogram::Histogram;

pub struct Latencies(Histogram<u64>);

impl Latencies {
    pub fn new() -> Self {
        Self(Histogram::new_with_bounds(1, 600_000_000_000, 3).expect("constant bounds are valid"))
    }

    pub fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    pub fn report(&self) {
        for (name, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)] {
            println!("write-{name}-ms {:.3}", self.0.value_at_quantile(quantile) as f64 / 1e6);
        }
        println!("write-max-ms {:.3}", self.0.max() as f64 / 1e6);
        println!("writes {}", self.0.len());
    }
}
