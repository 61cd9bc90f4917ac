//! What it takes to find a partition among those in memory, for the shard's accounts.
//!
//! The more there is, the fewer of the places that a search comes by are in the processor's caches, and the fewer of their
//! pages in its tables of addresses. One core did 404,000 reads a second of rows of 100 B among 50,000, 353,000 among
//! 300,000, and 322,000 among 1.5 million.

use reactor::Work;

/// About what a core's own caches hold.
const NEAR_BYTES: u64 = 1 << 20;

/// A search among `bytes` of partitions.
#[inline]
pub(crate) fn charge(bytes: u64) {
    if bytes > 0 {
        reactor::charge(Work::MemoryLookup, half_doublings(bytes));
    }
}

#[inline]
fn half_doublings(bytes: u64) -> u64 {
    let times = u128::from(bytes.max(NEAR_BYTES) / (NEAR_BYTES >> 10));
    u64::from((times * times).ilog2()) - 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_doublings_count_from_a_mib() {
        let mib = [0, 1, 2, 3, 4, 1 << 20];
        assert_eq!(mib.map(|mib| half_doublings(mib << 20)), [0, 0, 2, 3, 4, 40]);
        assert_eq!([1_500_000, u64::MAX].map(half_doublings), [1, 87]);
    }
}
