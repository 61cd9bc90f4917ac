//! Which replicas answer sooner: a dynamic snitch, as Apache Cassandra has over its other snitches.
//!
//! Every so often each node gets a score, the median of what its reads took lately over the greatest such median. The usual
//! order of replicas holds as long as no place in it has a score much worse than the same place in the order of scores.
//!
//! Of each node's reads a hundred are kept, by chance, newer ones more likely (`ExponentiallyDecayingReservoir` there).

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::topology::{MAX_REPLICAS, NodeIndex};

/// `DynamicEndpointSnitch.WINDOW_SIZE` of Cassandra.
const SAMPLES: usize = 100;

/// How much likelier a second makes a read to be kept, as a logarithm (`DynamicEndpointSnitch.ALPHA`).
const GROWTH_PER_S: f64 = 0.75;

const MS: u64 = 1_000_000;

/// The samples with the greatest keys, which are weights divided by random numbers in (0, 1], as logarithms in millionths:
/// forward decay (Cormode et al., ICDE 2009), as there.
#[derive(Default)]
struct Reservoir(BinaryHeap<Reverse<(i64, u64)>>);

impl Reservoir {
    fn add(&mut self, now_ns: u64, latency_ms: u64, random: u64) {
        let uniform = ((random >> 11) + 1) as f64 / (1u64 << 53) as f64;
        let key = GROWTH_PER_S * now_ns as f64 / 1e9 - libm::log(uniform);
        self.0.push(Reverse(((key * 1e6) as i64, latency_ms)));
        if self.0.len() > SAMPLES {
            self.0.pop();
        }
    }

    /// 0 without any.
    fn median_ms(&self) -> u64 {
        let mut latencies: Vec<u64> = self.0.iter().map(|Reverse((_, latency_ms))| *latency_ms).collect();
        latencies.sort_unstable();
        latencies.get(latencies.len() / 2).copied().unwrap_or(0)
    }
}

/// How often scores are told, when all is forgotten, and how much worse than the best a replica may be before another one
/// is asked: `dynamic_snitch_update_interval_in_ms`, `.._reset_interval_in_ms` and `.._badness_threshold`.
#[derive(Clone, Copy, Debug)]
pub struct SnitchConfig {
    pub update_every_ns: u64,
    pub reset_every_ns: u64,
    pub badness_threshold: f64,
}

/// Of one shard's reads.
pub struct Snitch {
    config: SnitchConfig,
    /// By node, as those behind it.
    samples: Vec<Reservoir>,
    scores: Vec<f64>,
    updated_ns: u64,
    reset_ns: u64,
}

impl Snitch {
    pub fn new(config: SnitchConfig, now_ns: u64) -> Self {
        Self { config, samples: Vec::new(), scores: Vec::new(), updated_ns: now_ns, reset_ns: now_ns }
    }

    /// A read of `node` was answered, or its time ran out. In whole milliseconds: less is not worth a read of another replica
    /// than the one that has the partition in its cache.
    pub fn record(&mut self, node: NodeIndex, now_ns: u64, latency_ns: u64, random: u64) {
        let at = node.as_usize();
        if self.samples.len() <= at {
            self.samples.resize_with(at + 1, Reservoir::default);
        }
        self.samples[at].add(now_ns, latency_ns / MS, random);
    }

    /// Brings the scores up to date. Reads do it: without any there is nothing new.
    pub fn update(&mut self, now_ns: u64) {
        if now_ns - self.updated_ns < self.config.update_every_ns {
            return;
        }
        self.updated_ns = now_ns;
        let medians: Vec<u64> = self.samples.iter().map(Reservoir::median_ms).collect();
        let worst = medians.iter().copied().max().unwrap_or(0).max(1);
        self.scores = medians.into_iter().map(|median| median as f64 / worst as f64).collect();
        if now_ns - self.reset_ns >= self.config.reset_every_ns {
            // Else one that was slow once would never be asked again.
            self.reset_ns = now_ns;
            self.samples.clear();
        }
    }

    /// The less the sooner it answers; 0 for one that nothing is known of.
    pub fn score(&self, node: NodeIndex) -> f64 {
        self.scores.get(node.as_usize()).copied().unwrap_or(0.0)
    }

    /// Puts `nodes`, of which `node` tells, into the order of their scores, unless the order that they have does nearly as
    /// well.
    pub(crate) fn sort<T: Copy>(&self, nodes: &mut [T], node: impl Fn(T) -> NodeIndex) {
        let score = |at: &T| self.score(node(*at));
        let mut scores = [0.0; MAX_REPLICAS];
        let scores = &mut scores[..nodes.len()];
        nodes.iter().zip(scores.iter_mut()).for_each(|(node, into)| *into = score(node));
        scores.sort_unstable_by(f64::total_cmp);
        let bound = 1.0 + self.config.badness_threshold;
        if nodes.iter().zip(scores.iter()).any(|(node, best)| score(node) > best * bound) {
            nodes.sort_by(|a, b| score(a).total_cmp(&score(b)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: SnitchConfig =
        SnitchConfig { update_every_ns: 100 * MS, reset_every_ns: 600_000 * MS, badness_threshold: 0.1 };

    fn sorted(snitch: &Snitch) -> Vec<u16> {
        let mut nodes: Vec<NodeIndex> = (0..3).map(NodeIndex).collect();
        snitch.sort(&mut nodes, |node| node);
        nodes.into_iter().map(|node| node.0).collect()
    }

    /// Ten reads, at `at_ms`, that took so long.
    fn record_one(snitch: &mut Snitch, at_ms: u64, node: u16, latency_ms: u64) {
        for n in 1..11 {
            snitch.record(NodeIndex(node), at_ms * MS, latency_ms * MS, n * (u64::MAX / 11));
        }
    }

    fn record(snitch: &mut Snitch, at_ms: u64, latencies_ms: [u64; 3]) {
        (0..).zip(latencies_ms).for_each(|(node, ms)| record_one(snitch, at_ms, node, ms));
    }

    #[test]
    fn replicas_that_answer_much_later_come_last() {
        let mut snitch = Snitch::new(CONFIG, 0);
        record(&mut snitch, 0, [40, 20, 10]);
        snitch.update(99 * MS);
        assert_eq!(sorted(&snitch), [0, 1, 2], "scores are told every 100 ms");
        snitch.update(100 * MS);
        assert_eq!(sorted(&snitch), [2, 1, 0]);
        // Of the one that is asked there is much to tell, of the others what there was.
        for at_ms in (100..10_000).step_by(100) {
            record_one(&mut snitch, at_ms, 2, 10);
            snitch.update(at_ms * MS);
        }
        assert_eq!(sorted(&snitch), [2, 1, 0]);
        // What all take now outweighs it within seconds.
        for at_ms in (10_000..14_000).step_by(100) {
            record(&mut snitch, at_ms, [10, 20, 20]);
            snitch.update(at_ms * MS);
        }
        assert_eq!(sorted(&snitch), [0, 1, 2]);
    }

    #[test]
    fn a_hundred_samples_are_kept_and_newer_ones_rather() {
        let mut reservoir = Reservoir::default();
        for n in 0..1000u64 {
            reservoir.add(n * 10 * MS, n, n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
        assert_eq!(reservoir.0.len(), SAMPLES);
        // Half of the weight of 10 s is in the last one, as ln 2 / 0.75 is 0.92 s.
        assert!((880..930).contains(&reservoir.median_ms()), "{}", reservoir.median_ms());
    }

    #[test]
    fn a_little_is_not_worth_another_order() {
        for latencies_ms in [[20, 20, 19], [0, 0, 0]] {
            let mut snitch = Snitch::new(CONFIG, 0);
            record(&mut snitch, 0, latencies_ms);
            snitch.update(100 * MS);
            assert_eq!(sorted(&snitch), [0, 1, 2], "{latencies_ms:?}");
        }
    }

    #[test]
    fn all_is_forgotten_in_the_end() {
        let mut snitch = Snitch::new(CONFIG, 0);
        record(&mut snitch, 0, [40, 20, 10]);
        snitch.update(600_000 * MS);
        assert_eq!(sorted(&snitch), [2, 1, 0]);
        snitch.update(600_100 * MS);
        assert_eq!(sorted(&snitch), [0, 1, 2]);
    }
}
