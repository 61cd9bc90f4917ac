//! Popular keys, as YCSB draws them, and the same on a range that a scale made smaller.

use std::sync::Arc;

use types::{Token, shard_of, turn_of};

use crate::generate::keys::key_bytes;
use crate::generate::random::Random;
use crate::scale;
use crate::workload::Row;

/// Draws offsets into a range of keys, zipfian with YCSB's constant.
#[derive(Clone, Debug)]
pub struct Popularity {
    zipfian: Zipfian,
    squeeze: Squeeze,
    /// By rank, where the most popular keys of a squeezed range are.
    places: Arc<[u64]>,
    count: u64,
    is_scrambled: bool,
}

impl Popularity {
    /// YCSB's `ScrambledZipfianGenerator` over `full` keys on the `count` of them that begin at number `from`. With
    /// `scanned_shards` the most popular of a squeezed range lie side by side on each shard, and scans from them visit few.
    pub fn scrambled(from: u64, full: u64, count: u64, scanned_shards: u32) -> Self {
        let squeeze = Squeeze::new(full, count);
        let places = squeeze.places(from, full, count, scanned_shards).into();
        Self { zipfian: Zipfian::ycsb(), squeeze, places, count, is_scrambled: true }
    }

    /// The most popular is 0, then come 1, 2 and so on; `full` keys on `count` of them.
    pub fn by_rank(full: u64, count: u64) -> Self {
        let (zipfian, squeeze) = (Zipfian::over(full as f64), Squeeze::new(full, count));
        Self { zipfian, squeeze, places: Arc::default(), count, is_scrambled: false }
    }

    pub fn draw(&self, random: &mut Random) -> u64 {
        let rank = self.squeeze.rank(self.zipfian.draw(random));
        match self.places.get(rank as usize) {
            Some(place) => *place,
            None if self.is_scrambled => fnv64(rank) % self.count,
            None => rank,
        }
    }
}

/// Popularity ranks of a large range on a small one that keeps what a cache sees: the most popular keys stay single
/// and as popular as they were, and the part of all draws that falls on the more popular so many per cent of keys is
/// the same from the second step on. What lies between is spread over as many keys as are single, evenly.
#[derive(Clone, Copy, Debug)]
struct Squeeze {
    /// Ranks below stay as they are.
    single: f64,
    /// Ranks above are divided by the scale.
    linear_from: f64,
    scale: f64,
}

impl Squeeze {
    /// Most keys that stay single, and the part of the small range that they may be.
    const SINGLE_MAX: u64 = 1000;
    const SINGLE_PART: u64 = 20;

    fn new(full: u64, small: u64) -> Self {
        let scale = small as f64 / full as f64;
        let single = (small / Self::SINGLE_PART).clamp(1, Self::SINGLE_MAX) as f64;
        Self { single, linear_from: 2.0 * single / scale, scale }
    }

    fn is_whole(&self) -> bool {
        self.scale >= 0.5
    }

    /// Of a rank that lies between whole ones too: they are as far apart as keys just above the single ones.
    fn rank(&self, rank: f64) -> u64 {
        if self.is_whole() || rank < self.single {
            rank as u64
        } else if rank >= self.linear_from {
            (rank * self.scale) as u64
        } else {
            // Popularity falls with the rank's reciprocal, so each of these has the same part of the draws.
            let part = libm::log(rank / self.single) / libm::log(self.linear_from / self.single);
            (self.single * (1.0 + part)) as u64
        }
    }

    /// Which of the `small` keys from number `from` on the most popular ranks of `full` are. The single ones are on the
    /// shards that have YCSB's own keys at full size: which of them share one decides how busy the busiest is. Those
    /// between have a third of all draws, and each stands for thousands of keys, of which every shard has as many as
    /// another: they are at even distances.
    fn places(&self, from: u64, full: u64, small: u64, scanned_shards: u32) -> Vec<u64> {
        if self.is_whole() {
            return Vec::new();
        }
        let single = self.single as u64;
        let ignore_msb = scale::ignore_msb(types::IGNORE_MSB, full / small);
        let token = |number: u64| Token::of_key(&key_bytes::<{ Row::KEY_BYTES }>(from + number));
        let among = small.min(SINGLE_AMONG);
        let popular = (0..single).map(|rank| ycsb_token(rank, full));
        let mut places = match scanned_shards {
            0 => {
                let turns = (0..among).map(|number| turn_of(token(number), ignore_msb));
                at_turns(turns.collect(), popular.map(|token| turn_of(token, types::IGNORE_MSB)))
            }
            shards => {
                let owners = popular.map(|token| shard_of(token, shards, types::IGNORE_MSB));
                let tokens = (0..small).map(token);
                side_by_side(tokens.collect(), owners, |token| shard_of(token, shards, ignore_msb))
            }
        };
        let mut is_taken = vec![false; single as usize];
        let between = (among..small).chain(0..among).filter(|number| {
            let slot = shard_of(token(*number), single as u32, ignore_msb);
            !std::mem::replace(&mut is_taken[slot as usize], true)
        });
        places.extend(between.take(single as usize));
        places
    }
}

/// For each of `wanted` the number of the key that has the next turn, of keys with `turns`.
fn at_turns(turns: Vec<u64>, wanted: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut keys: Vec<(u64, u64)> = turns.into_iter().zip(0..).collect();
    keys.sort_unstable();
    wanted.map(|turn| keys[keys.partition_point(|key| key.0 < turn) % keys.len()].1).collect()
}

/// For each shard that is wanted the number of the next key that it has, of keys with `tokens`, from the lowest token on.
/// What scans from single keys visit is nothing of a full range, and would be a tenth of one at 1/2000 if they began
/// anywhere.
fn side_by_side(tokens: Vec<Token>, wanted: impl Iterator<Item = u32>, shard: impl Fn(Token) -> u32) -> Vec<u64> {
    let mut keys: Vec<(Token, u64)> = tokens.into_iter().zip(0..).collect();
    keys.sort_unstable();
    let next = |shard_wanted: u32, after: &mut usize| {
        let found = keys.iter().skip(*after).position(|key| shard(key.0) == shard_wanted)?;
        *after += found + 1;
        Some(keys[*after - 1].1)
    };
    let mut after = std::collections::BTreeMap::new();
    wanted.filter_map(|shard| next(shard, after.entry(shard).or_insert(0))).collect()
}

/// Single keys are looked for among so many.
const SINGLE_AMONG: u64 = 1 << 16;

/// The token of the key that has popularity `rank` among YCSB's `records` ones: `user` and the hash of its number, which
/// is the hash of its rank (`ScrambledZipfianGenerator.nextValue`, `CoreWorkload.buildKeyName`).
fn ycsb_token(rank: u64, records: u64) -> Token {
    Token::of_key(format!("user{}", fnv64(fnv64(rank) % records)).as_bytes())
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

    /// A rank from 0 on, to be rounded down.
    fn draw(&self, random: &mut Random) -> f64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0.0;
        }
        if uz < 1.0 + libm::pow(0.5, self.theta) {
            return 1.0;
        }
        self.items * libm::pow(self.eta * u - self.eta + 1.0, self.alpha)
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
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: u64 = 1_000_000_000;
    const SHARDS: u32 = 14;

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
            let (full, small) = (mass(FULL, FULL, part), mass(FULL, 200_000, part));
            assert!((full - small).abs() < 0.01, "{part}: {full} {small}");
        }
        // Without it, half of what hits would miss.
        assert!(mass(200_000, 200_000, 0.05) < mass(FULL, 200_000, 0.05) - 0.2);
    }

    fn shard(key: &[u8], ignore_msb: u8) -> u32 {
        shard_of(Token::of_key(key), SHARDS, ignore_msb)
    }

    #[test]
    fn popular_keys_are_on_the_shards_that_have_them_at_full_size() {
        for (small, scanned) in [(200_000, 0), (500_000, 0), (2_000_000, 0), (500_000, SHARDS)] {
            let popularity = Popularity::scrambled(1, FULL, small, scanned);
            let ignore_msb = scale::ignore_msb(12, FULL / small);
            let is_alike = |rank: u64| {
                let ycsb = format!("user{}", fnv64(fnv64(rank) % FULL));
                let own: [u8; Row::KEY_BYTES] = key_bytes(1 + popularity.places[rank as usize]);
                shard(ycsb.as_bytes(), 12) == shard(&own, ignore_msb)
            };
            assert!((0..100).all(is_alike), "of {small}");
        }
    }

    #[test]
    fn scans_from_single_keys_visit_few_others() {
        let small = 500_000;
        let mut tokens: Vec<Token> =
            (1..=small).map(|number| Token::of_key(&key_bytes::<{ Row::KEY_BYTES }>(number))).collect();
        tokens.sort_unstable();
        let visited = |scanned| {
            let popularity = Popularity::scrambled(1, FULL, small, scanned);
            let visited: std::collections::BTreeSet<usize> = popularity.places[..1000]
                .iter()
                .map(|place| tokens.binary_search(&Token::of_key(&key_bytes::<{ Row::KEY_BYTES }>(1 + place))).unwrap())
                .flat_map(|begin| begin..begin + 50)
                .collect();
            visited.len()
        };
        assert!(visited(0) > 40_000 && visited(SHARDS) < 3_000, "{} {}", visited(0), visited(SHARDS));
    }

    #[test]
    fn squeezed_keys_are_spread_evenly_over_shards() {
        let (small, random) = (200_000, &mut Random::new(11, 0));
        let popularity = Popularity::scrambled(1, FULL, small, 0);
        let between: std::collections::BTreeSet<u64> = popularity.places[1000..].iter().copied().collect();
        assert_eq!(between.len(), 1000);
        let mut draws = [0u32; SHARDS as usize];
        for key in (0..1_000_000).map(|_| popularity.draw(random)).filter(|key| between.contains(key)) {
            let key: [u8; Row::KEY_BYTES] = key_bytes(1 + key);
            draws[shard(&key, scale::ignore_msb(12, FULL / small)) as usize] += 1;
        }
        let (least, most) = (*draws.iter().min().unwrap(), *draws.iter().max().unwrap());
        assert!(least > 20_000 && f64::from(most) < 1.05 * f64::from(least), "{draws:?}");
    }
}
