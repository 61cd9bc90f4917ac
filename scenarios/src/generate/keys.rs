//! Which partition the next operation is about.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use crate::generate::random::{Random, mix64};

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
    popular: Option<(Zipfian, Squeeze)>,
}

impl KeyGenerator {
    pub fn new(keys: Keys) -> Self {
        let popular = match keys {
            Keys::Zipfian { of, .. } => Some((Zipfian::ycsb(), Squeeze::new(of.max(keys.count()), keys.count()))),
            Keys::Latest { of, .. } => {
                let of = of.max(keys.count());
                Some((Zipfian::over(of as f64), Squeeze::new(of, keys.count())))
            }
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
            Keys::Zipfian { from, to, .. } => from + fnv64(self.rank(random)) % (to - from + 1),
            Keys::Latest { from, to, .. } => {
                let last = to + self.inserted.load(Ordering::Relaxed) * self.loaders;
                last.saturating_sub(self.rank(random)).max(from)
            }
        }
    }

    fn rank(&self, random: &mut Random) -> u64 {
        self.popular.as_ref().map_or(0, |(zipfian, squeeze)| squeeze.rank(zipfian.draw(random)))
    }
}

/// Popularity ranks of a large range on a small one that keeps what a cache sees: the most popular keys stay single
/// and as popular as they were, and the part of all draws that falls on the more popular so many per cent of keys is
/// the same from the second step on. Between the two, ranks are squeezed by a power.
#[derive(Clone, Copy, Debug)]
struct Squeeze {
    /// Ranks below stay as they are.
    single: f64,
    /// Ranks above are divided by the scale.
    linear_from: f64,
    scale: f64,
    power: f64,
}

impl Squeeze {
    /// Most keys that stay single, and the part of the small range that they may be.
    const SINGLE_MAX: u64 = 1000;
    const SINGLE_PART: u64 = 20;

    fn new(full: u64, small: u64) -> Self {
        let scale = small as f64 / full as f64;
        let single = (small / Self::SINGLE_PART).clamp(1, Self::SINGLE_MAX) as f64;
        let linear_from = 2.0 * single / scale;
        let power = core::f64::consts::LN_2 / libm::log(linear_from / single);
        Self { single, linear_from, scale, power }
    }

    fn rank(&self, rank: u64) -> u64 {
        let full = rank as f64;
        if self.scale >= 0.5 || full < self.single {
            rank
        } else if full >= self.linear_from {
            (full * self.scale) as u64
        } else {
            (self.single * libm::pow(full / self.single, self.power)) as u64
        }
    }
}

/// Zipfian ranks after Gray et al., "Quickly generating billion-record synthetic databases", as YCSB uses it.
#[derive(Clone, Debug)]
struct Zipfian {
    items: f64,
    theta: f64,
    zeta: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// YCSB's `ScrambledZipfianGenerator`: 10^10 items, constant 0.99, whose zeta it has written out.
    fn ycsb() -> Self {
        Self::new(1e10, 0.99, 26.469_028_201_783_02)
    }

    /// The same popularity over fewer items: by Euler and Maclaurin the sum of i^-0.99 up to n is n^0.01 / 0.01 plus the
    /// zeta function at 0.99, which is -99.4235.
    fn over(items: f64) -> Self {
        Self::new(items, 0.99, libm::pow(items, 0.01) * 100.0 - 99.4235)
    }

    fn new(items: f64, theta: f64, zeta: f64) -> Self {
        let zeta2 = 1.0 + libm::pow(0.5, theta);
        let eta = (1.0 - libm::pow(2.0 / items, 1.0 - theta)) / (1.0 - zeta2 / zeta);
        Self { items, theta, zeta, alpha: 1.0 / (1.0 - theta), eta }
    }

    fn draw(&self, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < 1.0 + libm::pow(0.5, self.theta) {
            return 1;
        }
        (self.items * libm::pow(self.eta * u - self.eta + 1.0, self.alpha)) as u64
    }
}

/// FNV-1 over the eight bytes, lowest first, as YCSB's `Utils.fnvhash64` scrambles ranks.
fn fnv64(mut n: u64) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for _ in 0..8 {
        hash ^= n & 0xff;
        hash = hash.wrapping_mul(1_099_511_628_211);
        n >>= 8;
    }
    hash & (i64::MAX as u64)
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
            Keys::Zipfian { from: 1, to: 1000, of: 0 },
            Keys::Zipfian { from: 1, to: 1000, of: 1_000_000 },
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
        let draws = draws(Keys::Zipfian { from: 1, to: 100_000, of: 0 }, 200_000);
        let mut counts = std::collections::BTreeMap::new();
        draws.iter().for_each(|k| *counts.entry(*k).or_insert(0u32) += 1);
        let hottest = *counts.values().max().unwrap() as f64 / 200_000.0;
        assert!((hottest - 1.0 / 26.469).abs() < 0.002, "{hottest}");
    }

    /// Of all draws, those on the `part` most popular ranks.
    fn mass(full: u64, small: u64, part: f64) -> f64 {
        let (zipfian, squeeze) = (Zipfian::ycsb(), Squeeze::new(full, small));
        let mut random = Random::new(11, 0);
        let limit = (small as f64 * part) as u64;
        (0..100_000).filter(|_| squeeze.rank(zipfian.draw(&mut random)) < limit).count() as f64 / 1e5
    }

    #[test]
    fn a_squeezed_zipfian_fills_a_cache_as_the_full_one_does() {
        for part in [0.05, 0.1, 0.3] {
            let (full, small) = (mass(1_000_000_000, 1_000_000_000, part), mass(1_000_000_000, 200_000, part));
            assert!((full - small).abs() < 0.01, "{part}: {full} {small}");
        }
        // Without it, half of what hits would miss.
        assert!(mass(200_000, 200_000, 0.05) < mass(1_000_000_000, 200_000, 0.05) - 0.2);
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
