//! About how many keys an SSTable has, in a form that can be merged with others': HyperLogLog++ with 2^13 registers,
//! as `MetadataCollector` of Apache Cassandra keeps it and `HyperLogLogPlus` of stream-lib writes it in its normal form.

/// Bits of the hash that choose a register (`new HyperLogLogPlus(13, 25)`).
const P: u32 = 13;
const SPARSE_P: u8 = 25;
/// Registers of five bits, six of them in a word of 32 (`RegisterSet`).
const REGISTERS_PER_WORD: usize = 6;
const REGISTER_BITS: usize = 5;
/// `RegisterSet.getSizeForCount`: 8192 / 6 is no multiple of 32, so one more.
const WORDS: usize = (1 << P) / REGISTERS_PER_WORD + 1;

pub(super) struct Cardinality(Vec<u32>);

impl Cardinality {
    pub fn new() -> Self {
        Self(vec![0; WORDS])
    }

    pub fn add(&mut self, key: &[u8]) {
        let hash = murmur2_64(key);
        let register = (hash >> (64 - P)) as usize;
        let run = ((hash << P) | (1 << (P - 1))).leading_zeros() + 1;
        let word = &mut self.0[register / REGISTERS_PER_WORD];
        let shift = register % REGISTERS_PER_WORD * REGISTER_BITS;
        let mask = (1 << REGISTER_BITS) - 1;
        if (*word >> shift) & mask < run.min(mask) {
            *word = (*word & !(mask << shift)) | run.min(mask) << shift;
        }
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(-2i32).to_be_bytes());
        // p, sp, the normal form, bytes: numbers of seven bits a byte, the lowest first.
        out.extend_from_slice(&[P as u8, SPARSE_P, 0]);
        let bytes = self.0.len() * 4;
        out.extend_from_slice(&[(bytes & 0x7F) as u8 | 0x80, (bytes >> 7) as u8]);
        self.0.iter().for_each(|word| out.extend_from_slice(&word.to_be_bytes()));
    }
}

/// `MurmurHash.hash2_64` with seed 0.
fn murmur2_64(key: &[u8]) -> u64 {
    const M: u64 = 0xC6A4_A793_5BD1_E995;
    const R: u32 = 47;
    let mut hash = M.wrapping_mul(key.len() as u64);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        let mut k = u64::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> R;
        hash = (hash ^ k.wrapping_mul(M)).wrapping_mul(M);
    }
    if !rest.is_empty() {
        // As there, the last bytes are taken with their signs.
        let tail =
            rest.iter().enumerate().fold(0, |tail, (at, byte)| tail ^ (i64::from(*byte as i8) << (8 * at)) as u64);
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> R
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_say_about_how_many() {
        let mut cardinality = Cardinality::new();
        (0..100_000u32).for_each(|n| cardinality.add(&n.to_be_bytes()));
        // HyperLogLog's raw estimate: alpha m^2 / sum of 2^-register.
        let m = f64::from(1 << P);
        let mut sum = 0.0;
        for register in 0..1usize << P {
            let word = cardinality.0[register / REGISTERS_PER_WORD];
            sum += 1.0 / f64::from(1u32 << ((word >> (register % REGISTERS_PER_WORD * REGISTER_BITS)) & 31));
        }
        let estimate = 0.7213 / (1.0 + 1.079 / m) * m * m / sum;
        // The standard error is 1.15 %; numbers in a row are no good keys for this hash.
        assert!((94_000.0..106_000.0).contains(&estimate), "{estimate}");
        let mut bytes = Vec::new();
        cardinality.encode(&mut bytes);
        assert_eq!((bytes.len(), &bytes[..9]), (9 + 1366 * 4, &[255, 255, 255, 254, 13, 25, 0, 0xD8, 42][..]));
    }
}
