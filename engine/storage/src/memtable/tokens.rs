//! A map from tokens, in token order: a B-tree whose leaves are long.
//!
//! Every level of a tree of small nodes costs a lookup a cache miss or two once the table is larger than the cache.
//! Here the tree only finds the leaf, so that it is small and stays in the cache; and as a hash spreads tokens evenly,
//! a token's place in its leaf is guessed from its value, and is a few entries away at most.

use std::collections::BTreeMap;

use types::Token;

/// Leaves split in two beyond this many entries: an insertion moves 4 KiB at most, for entries of 32 bytes.
const LEAF_MAX: usize = 128;

struct Leaf<V> {
    /// Sorted; empty only in the first leaf of an empty map.
    entries: Vec<(Token, V)>,
    /// The last token that belongs here.
    end: Token,
}

/// By the first token that belongs to the leaf; the first leaf begins at the ring's start.
pub(super) struct TokenMap<V>(BTreeMap<Token, Leaf<V>>);

impl<V> Leaf<V> {
    /// Where `token` is, or would be inserted.
    fn search(&self, first: Token, token: Token) -> Result<usize, usize> {
        let distance = |to: Token| to.0.wrapping_sub(first.0) as u64 as f64;
        let guess = distance(token) / distance(self.end).max(1.0) * self.entries.len() as f64;
        let mut at = (guess as usize).min(self.entries.len());
        while at > 0 && self.entries[at - 1].0 >= token {
            at -= 1;
        }
        while self.entries.get(at).is_some_and(|(other, _)| *other < token) {
            at += 1;
        }
        if self.entries.get(at).is_some_and(|(other, _)| *other == token) { Ok(at) } else { Err(at) }
    }
}

impl<V> TokenMap<V> {
    pub fn new() -> Self {
        let first = Leaf { entries: Vec::new(), end: Token(i64::MAX) };
        Self(BTreeMap::from([(Token(i64::MIN), first)]))
    }

    pub fn get(&self, token: Token) -> Option<&V> {
        let (first, leaf) = self.0.range(..=token).next_back()?;
        let at = leaf.search(*first, token).ok()?;
        Some(&leaf.entries[at].1)
    }

    pub fn get_mut(&mut self, token: Token) -> Option<&mut V> {
        let (first, leaf) = self.0.range_mut(..=token).next_back()?;
        let at = leaf.search(*first, token).ok()?;
        Some(&mut leaf.entries[at].1)
    }

    /// Adds a token that is not there yet; one that is keeps its value.
    pub fn insert(&mut self, token: Token, value: V) {
        let Some((first, leaf)) = self.0.range_mut(..=token).next_back() else { return };
        let Err(at) = leaf.search(*first, token) else { return };
        leaf.entries.insert(at, (token, value));
        if leaf.entries.len() > LEAF_MAX {
            let upper = leaf.entries.split_off(LEAF_MAX / 2);
            let first = upper[0].0;
            let upper = Leaf { entries: upper, end: leaf.end };
            leaf.end = Token(first.0 - 1);
            self.0.insert(first, upper);
        }
    }

    /// Removes the first leaf; whether another is left.
    pub fn pop_first(&mut self) -> bool {
        self.0.pop_first();
        !self.0.is_empty()
    }

    /// From `token` on.
    pub fn range_from(&self, token: Token) -> impl Iterator<Item = &(Token, V)> {
        let first = self.0.range(..=token).next_back().map_or(token, |(first, _)| *first);
        let mut leaves = self.0.range(first..).map(|(_, leaf)| leaf.entries.as_slice());
        let mut head = leaves.next().unwrap_or(&[]);
        if let Some(leaf) = self.0.get(&first) {
            head = &head[leaf.search(first, token).unwrap_or_else(|at| at)..];
        }
        head.iter().chain(leaves.flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(tokens: impl Iterator<Item = i64>) -> (TokenMap<i64>, BTreeMap<i64, i64>) {
        let (mut map, mut expect) = (TokenMap::new(), BTreeMap::new());
        for token in tokens {
            assert_eq!(map.get(Token(token)), expect.get(&token), "before {token}");
            map.insert(Token(token), token ^ 1);
            expect.entry(token).or_insert(token ^ 1);
        }
        (map, expect)
    }

    #[test]
    fn it_holds_what_a_plain_map_holds() {
        let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
        let spread = (0..5_000i64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as i64)).chain(ends);
        let close = (0..3_000).rev().chain(10_000..12_000).chain(ends);
        for tokens in [spread.collect::<Vec<_>>(), close.collect()] {
            let (mut map, expect) = filled(tokens.iter().copied());
            for token in tokens.iter().flat_map(|token| [*token, token.wrapping_add(1)]) {
                assert_eq!(map.get(Token(token)), expect.get(&token), "{token}");
                assert_eq!(map.get_mut(Token(token)).copied(), expect.get(&token).copied(), "{token}");
            }
            for start in [i64::MIN, tokens[7], tokens[7].wrapping_add(1), tokens[2_000], i64::MAX] {
                let got = map.range_from(Token(start)).map(|(token, value)| (token.0, *value));
                assert!(got.eq(expect.range(start..).map(|(token, value)| (*token, *value))), "from {start}");
            }
        }
    }

    #[test]
    fn a_token_that_is_there_keeps_its_value() {
        let (mut map, _) = filled(0..300);
        map.insert(Token(7), 99);
        assert_eq!(map.get(Token(7)), Some(&6));
        assert_eq!(map.range_from(Token(i64::MIN)).count(), 300);
    }
}
