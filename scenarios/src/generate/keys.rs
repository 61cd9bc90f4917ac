//! Which partition the next operation is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::generate::random::{Random, mix64};
use crate::generate::zipfian::Popularity;

/// A distribution over partition numbers; ranges include both ends and begin at 1 as cassandra-stress numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Keys {
    /// Every number once, in order, then from the start again.
    Sequence {
        from: u64,
        to: u64,
    },
    Uniform {
        from: u64,
        to: u64,
    },
    /// Normal, drawn again while outside the range.
    Gaussian {
        from: u64,
        to: u64,
        mean: f64,
        stdev: f64,
    },
    /// Exponentially fewer from `from` on; 99.9 % of draws lie within the range, others are drawn again.
    Exponential {
        from: u64,
        to: u64,
    },
    /// YCSB's scrambled zipfian: popularity of constant 0.99 over 10^10 items, spread over the range by a hash.
    Zipfian {
        from: u64,
        to: u64,
        /// The number of keys that the range stands for, where it is a scaled one; 0: its own.
        #[serde(default)]
        of: u64,
        /// Shards of a server, where the keys are those that scans begin at; 0: nothing scans.
        #[serde(default)]
        scanned_shards: u32,
    },
    /// YCSB's latest: the last key inserted is the most popular, those before it as a zipfian of constant 0.99 has it.
    Latest {
        from: u64,
        to: u64,
        /// As of a zipfian.
        #[serde(default)]
        of: u64,
    },
}

impl Keys {
    pub fn range(&self) -> (u64, u64) {
        match *self {
            Keys::Sequence { from, to }
            | Keys::Uniform { from, to }
            | Keys::Gaussian { from, to, .. }
            | Keys::Exponential { from, to }
            | Keys::Zipfian { from, to, .. }
            | Keys::Latest { from, to, .. } => (from, to),
        }
    }

    pub fn count(&self) -> u64 {
        let (from, to) = self.range();
        to - from + 1
    }
}

/// Draws from [`Keys`]. Shards of one loader share the sequence's counter and draw from streams of their own.
#[derive(Clone, Debug)]
pub struct KeyGenerator {
    keys: Keys,
    next: Arc<AtomicU64>,
    /// Keys inserted behind the range by this loader; those of `loaders` loaders take turns.
    inserted: Arc<AtomicU64>,
    loader: u64,
    loaders: u64,
    popular: Option<Popularity>,
}

impl KeyGenerator {
    pub fn new(keys: Keys) -> Self {
        let count = keys.count();
        let popular = match keys {
            Keys::Zipfian { from, of, scanned_shards, .. } => {
                Some(Popularity::scrambled(from, of.max(count), count, scanned_shards))
            }
            Keys::Latest { of, .. } => Some(Popularity::by_rank(of.max(count), count)),
            _ => None,
        };
        Self { keys, next: Arc::default(), inserted: Arc::default(), loader: 0, loaders: 1, popular }
    }

    /// For loader `loader` (from 0) of `loaders` that insert beside each other.
    pub fn of_loader(mut self, loader: u64, loaders: u64) -> Self {
        (self.loader, self.loaders) = (loader, loaders);
        self
    }

    /// A key behind all that this loader had before.
    pub fn insert(&self) -> u64 {
        let (_, to) = self.keys.range();
        to + 1 + self.loader + self.inserted.fetch_add(1, Ordering::Relaxed) * self.loaders
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        match self.keys {
            Keys::Sequence { from, to } => from + self.next.fetch_add(1, Ordering::Relaxed) % (to - from + 1),
            Keys::Uniform { from, to } => from + random.below(to - from + 1),
            Keys::Gaussian { from, to, mean, stdev } => loop {
                let key = libm::round(mean + stdev * random.normal());
                if key >= from as f64 && key <= to as f64 {
                    break key as u64;
                }
            },
            Keys::Exponential { from, to } => loop {
                // The rate for which the last 0.1 % fall outside: ln(1000) over the range.
                let scale = (to - from + 1) as f64 / 6.907_755_278_982_137;
                let offset = -libm::log(1.0 - random.unit()) * scale;
                if offset < (to - from + 1) as f64 {
                    break from + offset as u64;
                }
            },
            Keys::Zipfian { from, .. } => from + self.popular(random),
            Keys::Latest { from, to, .. } => {
                let last = to + self.inserted.load(Ordering::Relaxed) * self.loaders;
                last.saturating_sub(self.popular(random)).max(from)
            }
        }
    }

    fn popular(&self, random: &mut Random) -> u64 {
        self.popular.as_ref().map_or(0, |popularity| popularity.draw(random))
    }
}

/// The blob that partition `number` has as its key: `LEN` bytes, different for every number.
pub fn key_bytes<const LEN: usize>(number: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    let mut word = number;
    for chunk in bytes.chunks_mut(8) {
        // The first eight bytes are a bijection of the number, so keys of eight bytes or more never collide.
        word = mix64(word);
        chunk.copy_from_slice(&word.to_be_bytes()[..chunk.len()]);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(keys: Keys, n: usize) -> Vec<u64> {
        let generator = KeyGenerator::new(keys);
        let mut random = Random::new(3, 0);
        (0..n).map(|_| generator.draw(&mut random)).collect()
    }

    #[test]
    fn a_sequence_is_shared_and_wraps() {
        let generator = KeyGenerator::new(Keys::Sequence { from: 5, to: 7 });
        let other = generator.clone();
        let mut random = Random::new(1, 0);
        let keys = [
            generator.draw(&mut random),
            other.draw(&mut random),
            generator.draw(&mut random),
            other.draw(&mut random),
        ];
        assert_eq!(keys, [5, 6, 7, 5]);
    }

    #[test]
    fn every_draw_lies_in_the_range() {
        for keys in [
            Keys::Uniform { from: 10, to: 12 },
            Keys::Gaussian { from: 1, to: 100, mean: 95.0, stdev: 20.0 },
            Keys::Exponential { from: 1, to: 50 },
            Keys::Zipfian { from: 1, to: 1000, of: 0, scanned_shards: 0 },
            Keys::Zipfian { from: 1, to: 1000, of: 1_000_000, scanned_shards: 0 },
            Keys::Latest { from: 1, to: 1000, of: 0 },
        ] {
            let (from, to) = keys.range();
            let draws = draws(keys, 20_000);
            assert!(draws.iter().all(|k| (from..=to).contains(k)), "{keys:?}");
            assert!(draws.iter().max() > draws.iter().min(), "{keys:?}");
        }
    }

    #[test]
    fn a_gaussian_has_its_width() {
        let draws = draws(Keys::Gaussian { from: 1, to: 810_774_192, mean: 405_387_096.0, stdev: 10_000.0 }, 50_000);
        let within = draws.iter().filter(|k| k.abs_diff(405_387_096) <= 10_000).count() as f64 / 50_000.0;
        assert!((within - 0.6827).abs() < 0.01, "{within}");
    }

    #[test]
    fn the_hottest_zipfian_key_has_its_share() {
        let draws = draws(Keys::Zipfian { from: 1, to: 100_000, of: 0, scanned_shards: 0 }, 200_000);
        let mut counts = std::collections::BTreeMap::new();
        draws.iter().for_each(|k| *counts.entry(*k).or_insert(0u32) += 1);
        let hottest = *counts.values().max().unwrap() as f64 / 200_000.0;
        assert!((hottest - 1.0 / 26.469).abs() < 0.002, "{hottest}");
    }

    #[test]
    fn the_latest_are_popular_and_move() {
        let generator = KeyGenerator::new(Keys::Latest { from: 1, to: 10_000, of: 0 }).of_loader(1, 2);
        assert_eq!([generator.insert(), generator.insert()], [10_002, 10_004]);
        let mut random = Random::new(5, 0);
        let draws: Vec<u64> = (0..20_000).map(|_| generator.draw(&mut random)).collect();
        let hottest = draws.iter().filter(|key| **key == 10_004).count() as f64 / 20_000.0;
        // 1 / zeta of 10,000 items.
        assert!((hottest - 1.0 / 10.22).abs() < 0.01, "{hottest}");
    }

    #[test]
    fn keys_differ_and_repeat() {
        let all: std::collections::BTreeSet<[u8; 10]> = (1..=10_000).map(key_bytes).collect();
        assert_eq!(all.len(), 10_000);
        assert_eq!(key_bytes::<10>(1), key_bytes::<10>(1));
    }
}
