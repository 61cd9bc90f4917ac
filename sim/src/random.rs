//! Random numbers: one generator, many streams, all derived from the run's seed.
//!
//! Streams are independent: drawing more from one leaves the others as they were, so that changing, say, the disk
//! model does not change the workload. No floating-point function of the C library is involved.

/// What a stream is for. Each also takes numbers (host, disk, ..) that split it further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Anything drawn while a world is put together.
    Config,
    Workload,
    Disk,
    Network,
    /// What a shard's own `reactor::random()` draws, pauses, tie-breaks.
    Scheduling,
    /// When faults strike, and what power loss leaves on disks.
    Faults,
}

/// xoshiro256++ of Blackman and Vigna.
#[derive(Clone, Debug)]
pub struct Generator {
    state: [u64; 4],
}

/// splitmix64, which xoshiro's authors recommend for seeding.
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Generator {
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self { state: std::array::from_fn(|_| split_mix(&mut state)) }
    }

    /// The stream `stream` of `seed`, split by `parts`.
    pub fn stream(seed: u64, stream: Stream, parts: &[u64]) -> Self {
        let mut state = seed;
        let mut mixed = split_mix(&mut state) ^ (stream as u64 + 1);
        for &part in parts {
            mixed = split_mix(&mut mixed) ^ part;
        }
        Self::new(split_mix(&mut mixed))
    }

    /// A generator of its own, for a part of what this one is for.
    pub fn split(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let t = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= t;
        *d = d.rotate_left(45);
        result
    }

    /// Below `bound`, which must not be 0. Multiply-shift: the bias is below 2^-32 for any bound met here.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// True `numerator` times out of `denominator`.
    #[inline]
    pub fn chance(&mut self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |seed, stream, parts: &[u64]| Generator::stream(seed, stream, parts).next_u64();
        let first = draw(1, Stream::Disk, &[0, 1]);
        assert_eq!(first, draw(1, Stream::Disk, &[0, 1]));
        for other in [
            draw(2, Stream::Disk, &[0, 1]),
            draw(1, Stream::Network, &[0, 1]),
            draw(1, Stream::Disk, &[1, 0]),
            draw(1, Stream::Disk, &[0]),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut generator = Generator::new(7);
        let mut counts = [0u32; 10];
        (0..100_000).for_each(|_| counts[generator.below(10) as usize] += 1);
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }
}
