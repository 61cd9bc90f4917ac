//! Murmur3 tokens exactly as Cassandra's `Murmur3Partitioner` computes them.

/// A position on the ring: the first half of murmur3_x64_128 of the serialised partition key, with
/// `i64::MIN` (reserved for "before everything") mapped to `i64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);
