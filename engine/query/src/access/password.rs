//! Passwords as bcrypt keeps them: `$2b$COST$SALT HASH`, readable by Cassandra and by every other bcrypt.
//!
//! A hash is slow by intention. It is worked out in steps between which the shard does other things, and one at a time
//! on a shard, so that neither one login nor a flood of them holds up requests.
//!
//! Source: Provos and Mazières, "A Future-Adaptable Password Scheme", 1999.

use blowfish::Blowfish;
use reactor::sync::Semaphore;
use std::rc::Rc;

/// Rounds are two to the power of it; Cassandra's `auth_bcrypt_gensalt_log2_rounds`.
const COST: u32 = 10;
const COST_MAX: u32 = 31;
/// Rounds between two chances for others, some hundred microseconds of work.
const ROUNDS_PER_STEP: u32 = 4;
/// Longer passwords are cut: bcrypt's own limit.
const PASSWORD_MAX: usize = 72;

const ALPHABET: &[u8; 64] = b"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/// The hash that stands for no role: to verify against it takes as long as against any.
pub const NOBODY: &str = "$2b$10$OrreryOrreryOrreryOrreAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Lets one hash be worked out at a time.
pub struct Hasher {
    turns: Rc<Semaphore>,
}

impl Hasher {
    pub fn new() -> Self {
        Self { turns: Semaphore::new(1) }
    }

    /// Hashes with a salt of `random` bits.
    pub async fn hash(&self, password: &str, random: u128) -> String {
        let _turn = self.turns.acquire(1).await;
        let salt = random.to_be_bytes();
        let hash = digest(COST, &salt, password).await;
        format!("$2b${COST:02}${}{}", encode(&salt), encode(&hash[..23]))
    }

    /// Whether `hash` is of `password`.
    pub async fn verify(&self, password: &str, hash: &str) -> bool {
        let Some((cost, salt, expect)) = parse(hash) else { return false };
        let _turn = self.turns.acquire(1).await;
        let got = digest(cost, &salt, password).await;
        // In a time that does not depend on where they differ.
        expect.iter().zip(&got[..23]).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
    }
}

/// Whether a text is a hash that [`Hasher::verify`] can read.
pub fn is_hash(text: &str) -> bool {
    parse(text).is_some()
}

fn parse(hash: &str) -> Option<(u32, [u8; 16], [u8; 23])> {
    let mut parts = hash.strip_prefix('$')?.split('$');
    let (version, cost, rest, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
    if !matches!(version, "2a" | "2b" | "2y") || rest.len() != 53 || !rest.is_ascii() {
        return None;
    }
    let cost = cost.parse().ok().filter(|cost| (4..=COST_MAX).contains(cost))?;
    Some((cost, decode(&rest[..22])?.try_into().ok()?, decode(&rest[22..])?.try_into().ok()?))
}

async fn digest(cost: u32, salt: &[u8; 16], password: &str) -> [u8; 24] {
    let mut key = password.as_bytes().to_vec();
    key.push(0);
    key.truncate(PASSWORD_MAX);
    let mut state: Blowfish = Blowfish::bc_init_state();
    state.salted_expand_key(salt, &key);
    for round in 0..1u32 << cost {
        if round % ROUNDS_PER_STEP == 0 {
            reactor::time::yield_now().await;
        }
        state.bc_expand_key(&key);
        state.bc_expand_key(salt);
    }
    // "OrpheanBeholderScryDoubt", encrypted 64 times.
    let mut text: [u32; 6] = [0x4f72_7068, 0x6561_6e42, 0x6568_6f6c, 0x6465_7253, 0x6372_7944, 0x6f75_6274];
    let mut out = [0; 24];
    for (pair, out) in text.chunks_exact_mut(2).zip(out.chunks_exact_mut(8)) {
        for _ in 0..64 {
            let [left, right] = state.bc_encrypt([pair[0], pair[1]]);
            (pair[0], pair[1]) = (left, right);
        }
        out[..4].copy_from_slice(&pair[0].to_be_bytes());
        out[4..].copy_from_slice(&pair[1].to_be_bytes());
    }
    out
}

/// bcrypt's own base 64, without padding.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().enumerate().fold(0u32, |word, (at, &byte)| word | u32::from(byte) << (16 - 8 * at));
        for at in 0..=chunk.len() {
            out.push(ALPHABET[(word >> (18 - 6 * at) & 63) as usize] as char);
        }
    }
    out
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for chunk in text.as_bytes().chunks(4) {
        let mut word = 0;
        for (at, byte) in chunk.iter().enumerate() {
            word |= (ALPHABET.iter().position(|known| known == byte)? as u32) << (18 - 6 * at);
        }
        out.extend_from_slice(&word.to_be_bytes()[1..chunk.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing but the steps of a hash waits here, and these are ready at once.
    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut future = std::pin::pin!(future);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        loop {
            if let std::task::Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
        }
    }

    #[test]
    fn hashes_are_those_of_others() {
        let hasher = Hasher::new();
        // As the C library's crypt(3) makes it.
        let hash = super::super::snapshot::DEFAULT_PASSWORD_HASH;
        assert!(run(hasher.verify("cassandra", hash)));
        assert!(!run(hasher.verify("Cassandra", hash)));
        let hash = run(hasher.hash("secret", 7));
        assert!(run(hasher.verify("secret", &hash)) && !run(hasher.verify("secre", &hash)), "{hash}");
    }

    #[test]
    fn hashes_read_back() {
        let salt = [7; 16];
        assert_eq!(encode(&salt).len(), 22);
        assert_eq!(decode(&encode(&salt)).unwrap(), salt);
        assert!(is_hash(NOBODY) && is_hash(super::super::snapshot::DEFAULT_PASSWORD_HASH));
        assert!(!is_hash("$2b$10$short") && !is_hash("plain") && !is_hash("$5$10$x"));
    }
}
