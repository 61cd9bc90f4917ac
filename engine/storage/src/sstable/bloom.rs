//! The bloom filter of `Filter.db`: which keys an SSTable does not have.
//!
//! Bits and hashes as `BloomFilter` of Apache Cassandra since 3.0; the file in the form before `na`, words of eight
//! bytes with the highest byte first (`OffHeapBitSet.serializeOldBfFormat`). Newer ones are read, byte by byte.

use types::token::murmur3_x64_128;

use crate::data::codec::Reader;

/// Cassandra adds this many bits to every filter (`FilterFactory.BITSET_EXCESS`).
const EXCESS_BITS: u64 = 20;
/// More bits a key gain nothing that is worth their memory (`BloomCalculations` stops there too).
const BITS_PER_KEY_MAX: u64 = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BloomFilter {
    hashes: u32,
    /// As in the file: the bytes of each word of eight from the highest to the lowest.
    bits: Vec<u8>,
    modulus: Modulus,
}

/// Where in the file the byte `n` of the bits stands.
#[inline]
fn place(n: usize) -> usize {
    n ^ 7
}

/// The hash of a key, to be computed once for all filters.
#[derive(Clone, Copy)]
pub(crate) struct KeyHash(i64, i64);

impl KeyHash {
    pub fn of(key: &[u8]) -> Self {
        let (first, second) = murmur3_x64_128(key);
        Self(first, second)
    }
}

/// Bits a key and hashes for a false positive chance: with b bits a key and the best number of hashes, b ln 2, the
/// chance is 0.6185^b. By multiplication alone, so that it is the same on every processor.
fn shape(false_positives: f64) -> (u64, u32) {
    let (mut bits, mut chance) = (1, 0.6185);
    while chance > false_positives && bits < BITS_PER_KEY_MAX {
        bits += 1;
        chance *= 0.6185;
    }
    (bits, ((bits * 69_315 + 50_000) / 100_000).max(1) as u32)
}

impl BloomFilter {
    pub fn new(keys: u64, false_positives: f64) -> Self {
        let (bits, hashes) = shape(false_positives);
        let words = (keys * bits + EXCESS_BITS).div_ceil(64);
        Self::of(hashes, vec![0; words as usize * 8])
    }

    /// `bits` must not be empty.
    fn of(hashes: u32, bits: Vec<u8>) -> Self {
        Self { hashes, modulus: Modulus::new(bits.len() as u64 * 8), bits }
    }

    fn indices(&self, hash: KeyHash) -> impl Iterator<Item = usize> + use<> {
        let modulus = self.modulus;
        let mut base = hash.1;
        (0..self.hashes).map(move |_| {
            let index = modulus.remainder(base.unsigned_abs()) as usize;
            base = base.wrapping_add(hash.0);
            index
        })
    }

    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.indices(hash).all(|index| self.bits[place(index / 8)] & (1 << (index % 8)) != 0)
    }

    pub fn len_bytes(&self) -> usize {
        self.bits.len()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(8 + self.bits.len());
        out.extend_from_slice(&self.hashes.to_be_bytes());
        out.extend_from_slice(&(self.bits.len() as u32 / 8).to_be_bytes());
        out.extend_from_slice(&self.bits);
        out
    }

    /// `reversed`: whether it is in the form before `na`.
    pub fn decode(bytes: &[u8], reversed: bool) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let hashes = reader.u32("hashes").ok()?;
        let words = reader.u32("words").ok()? as usize;
        let sound = (1..=64).contains(&hashes) && words > 0 && reader.rest.len() == words.checked_mul(8)?;
        let bits = || match reversed {
            true => reader.rest.to_vec(),
            false => reader.rest.chunks_exact(8).flat_map(|word| word.iter().rev().copied()).collect(),
        };
        sound.then(|| Self::of(hashes, bits()))
    }
}

/// A filter that keys are still added to. Where the next bit is set is anywhere in some megabytes: bits of many keys, set
/// in one go, wait for memory at the same time, where those of each key would hold up whoever writes the SSTable.
pub(crate) struct Filling {
    filter: BloomFilter,
    /// Bits to be set.
    waiting: Vec<usize>,
}

/// Some seventy keys of seven bits each.
const WAITING_MAX: usize = 512;

impl Filling {
    pub fn new(keys: u64, false_positives: f64) -> Self {
        Self { filter: BloomFilter::new(keys, false_positives), waiting: Vec::new() }
    }

    pub fn insert(&mut self, hash: KeyHash) {
        self.waiting.extend(self.filter.indices(hash));
        if self.waiting.len() >= WAITING_MAX {
            self.set();
        }
    }

    fn set(&mut self) {
        for index in self.waiting.drain(..) {
            self.filter.bits[place(index / 8)] |= 1 << (index % 8);
        }
    }

    pub fn finish(mut self) -> BloomFilter {
        self.set();
        self.filter
    }
}

/// What is divided by. Remainders take two multiplications, where a division takes some 40 cycles of older processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modulus {
    of: u64,
    /// 2^64 / `of`, rounded down: its product with any n is short of n / `of` by less than one.
    reciprocal: u64,
}

impl Modulus {
    /// Two or more.
    fn new(of: u64) -> Self {
        Self { of, reciprocal: ((1 << 64) / u128::from(of)) as u64 }
    }

    #[inline]
    fn remainder(self, n: u64) -> u64 {
        let quotient = ((u128::from(n) * u128::from(self.reciprocal)) >> 64) as u64;
        let rest = n - quotient * self.of;
        if rest >= self.of { rest - self.of } else { rest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(shape(0.01), (10, 7));
        assert_eq!(shape(0.1), (5, 3));
        assert_eq!(shape(0.0), (20, 14));
        assert_eq!(shape(1.0), (1, 1));
    }

    #[test]
    fn remainders() {
        let edges = |of: u64| {
            [0, 1, of - 1, of, of.saturating_add(1), u64::MAX / of * of - 1, u64::MAX / of * of, u64::MAX, 1 << 63]
        };
        for of in [2, 3, 64, 128, 192, 640_064, (1 << 36) - 64, 1 << 36, u64::MAX] {
            let modulus = Modulus::new(of);
            // Some in between, of which neighbours have nothing in common.
            let scattered = (1..1_000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            for n in edges(of).into_iter().chain(scattered) {
                assert_eq!(modulus.remainder(n), n % of, "{n} % {of}");
            }
        }
    }

    #[test]
    fn no_false_negatives_and_few_false_positives() {
        let hash = |n: u64| KeyHash::of(&n.to_be_bytes());
        let mut filling = Filling::new(10_000, 0.01);
        (0..10_000).for_each(|n| filling.insert(hash(n)));
        let filter = BloomFilter::decode(&filling.finish().encode(), true).unwrap();
        assert!((0..10_000).all(|n| filter.may_contain(hash(n))));
        let wrong = (10_000..110_000).filter(|n| filter.may_contain(hash(*n))).count();
        assert!((500..1500).contains(&wrong), "{wrong} of 100000");
        assert_eq!(BloomFilter::decode(&filter.encode()[..20], true), None);
    }
}
