//! Murmur3 tokens exactly as Cassandra's `Murmur3Partitioner` computes them, and Scylla's split of the ring over
//! a node's shards.

/// A position on the ring: the first half of murmur3_x64_128 of the serialised partition key, with
/// `i64::MIN` (reserved for "before everything") mapped to `i64::MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

impl Token {
    /// Before every key; no key has it.
    pub const MIN: Token = Token(i64::MIN);
    pub const MAX: Token = Token(i64::MAX);

    /// The token of a serialised partition key (see [`crate::serialize_partition_key`]). The empty key has
    /// [`Token::MIN`], as in Cassandra, which never stores one.
    pub fn of_key(key: &[u8]) -> Token {
        if key.is_empty() {
            return Token::MIN;
        }
        match murmur3_x64_128(key).0 {
            i64::MIN => Token::MAX,
            hash => Token(hash),
        }
    }
}

impl std::fmt::Display for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Scylla's default `murmur3_partitioner_ignore_msb_bits`.
pub const IGNORE_MSB: u8 = 12;

/// Scylla's biased-token sharding: drop `ignore_msb` top bits of the unsigned position (so that one node's ranges
/// spread over all its shards), and scale what is left to `shards`. Source: Scylla's
/// `docs/dev/protocol-extensions.md`, "sharding algorithm".
pub fn shard_of(token: Token, shards: u32, ignore_msb: u8) -> u32 {
    ((turn_of(token, ignore_msb) as u128 * shards as u128) >> 64) as u32
}

/// How far a token lies in its turn through all shards: the part of the whole turn, times 2^64.
pub fn turn_of(token: Token, ignore_msb: u8) -> u64 {
    biased(token).checked_shl(ignore_msb.into()).unwrap_or(0)
}

/// The position on the ring as an unsigned number.
fn biased(token: Token) -> u64 {
    (token.0 as u64).wrapping_add(1 << 63)
}

/// The last token of those in a row, from `token` on, that are one shard's.
pub fn last_of_run(token: Token, shards: u32, ignore_msb: u8) -> Token {
    let low_bits = 64u32.saturating_sub(ignore_msb.into());
    let shard = u128::from(shard_of(token, shards, ignore_msb));
    let shards = u128::from(shards);
    // Where the next shard begins, or this turn through all of them ends: in what is left of the position, then in all.
    let next = ((shard + 1) << 64).div_ceil(shards).div_ceil(1 << (64 - low_bits));
    let turn = u128::from(biased(token)) >> low_bits << low_bits;
    Token(((turn + next - 1) as u64).wrapping_sub(1 << 63) as i64)
}

const C1: u64 = 0x87c3_7b91_1142_53d5;
const C2: u64 = 0x4cf5_ad43_2745_937f;

/// MurmurHash3 x64 128 with seed 0, with the quirk of Cassandra's `MurmurHash.hash3_x64_128`: the bytes of the
/// tail are taken as signed, so each negative one sets all the bits above it.
pub fn murmur3_x64_128(data: &[u8]) -> (i64, i64) {
    let mut h1 = 0u64;
    let mut h2 = 0u64;
    let mut blocks = data.chunks_exact(16);
    for block in &mut blocks {
        let k1 = u64::from_le_bytes(block[..8].try_into().expect("half of a block of sixteen"));
        let k2 = u64::from_le_bytes(block[8..].try_into().expect("half of a block of sixteen"));
        h1 ^= mix_k1(k1);
        h1 = h1.rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 ^= mix_k2(k2);
        h2 = h2.rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }

    let tail = blocks.remainder();
    let signed = |byte: u8, at: usize| ((byte as i8 as i64) << (8 * at)) as u64;
    if tail.len() > 8 {
        let k2 = tail[8..].iter().enumerate().fold(0, |k, (at, &byte)| k ^ signed(byte, at));
        h2 ^= mix_k2(k2);
    }
    if !tail.is_empty() {
        let k1 = tail.iter().take(8).enumerate().fold(0, |k, (at, &byte)| k ^ signed(byte, at));
        h1 ^= mix_k1(k1);
    }

    h1 ^= data.len() as u64;
    h2 ^= data.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    h1 = finalise(h1);
    h2 = finalise(h2);
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    (h1 as i64, h2 as i64)
}

fn mix_k1(k: u64) -> u64 {
    k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2)
}

fn mix_k2(k: u64) -> u64 {
    k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1)
}

fn finalise(mut k: u64) -> u64 {
    k ^= k >> 33;
    k = k.wrapping_mul(0xff51_afd7_ed55_8ccd);
    k ^= k >> 33;
    k = k.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    k ^ (k >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_where_the_shard_changes() {
        for (shards, ignore_msb) in [(2, 0), (3, 12), (7, 12), (14, 0), (14, 12), (48, 5)] {
            let mut token = Token::MIN;
            for _ in 0..1000 {
                let shard = shard_of(token, shards, ignore_msb);
                let last = last_of_run(token, shards, ignore_msb);
                assert!(last >= token && shard_of(last, shards, ignore_msb) == shard, "{token} to {last}");
                assert_eq!(last_of_run(last, shards, ignore_msb), last);
                if last == Token::MAX {
                    break;
                }
                token = Token(last.0 + 1);
                assert_ne!(shard_of(token, shards, ignore_msb), shard, "{last} of {shards} shards");
            }
        }
        assert_eq!(last_of_run(Token(5), 1, 0), Token::MAX);
        assert_eq!(last_of_run(Token::MAX, 14, 12), Token::MAX);
    }

    #[test]
    fn known_tokens() {
        // From the tests of the Rust and Python drivers.
        let check = |key: &[u8], expect: i64| assert_eq!(Token::of_key(key), Token(expect), "{key:?}");
        check(b"test", -6017608668500074083);
        check(b"xd", 4507812186440344727);
        check(b"primary_key", -1632642444691073360);
        check("kremówki".as_bytes(), 4354931215268080151);
        check(b"123", -7468325962851647638);
        check(&b"\x00\xff\x10\xfa\x99".repeat(10), 5837342703291459765);
        check(&[0xfe; 8], -8927430733708461935);
        check(&[0x10; 8], 1446172840243228796);
        check(b"9223372036854775807", 7162290910810015547);
        check(b"", i64::MIN);
    }

    #[test]
    fn shards_as_the_drivers_compute_them() {
        // From gocql's tests.
        assert_eq!(shard_of(Token(-9219783007514621794), 4, 12), 3);
        assert_eq!(shard_of(Token(9222582454147032830), 4, 12), 3);
        assert_eq!(shard_of(Token::MIN, 7, 0), 0);
        assert_eq!(shard_of(Token::MAX, 7, 0), 6);
        assert_eq!(shard_of(Token::MAX, 1, 12), 0);
    }
}
