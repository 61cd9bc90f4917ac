//! Which nodes hold a partition, as a token-aware driver knows it: the owners of the next tokens on the ring.
//!
//! SimpleStrategy only. Without tokens (a server that does not tell them) every node counts as a replica.

use types::Token;

#[derive(Clone, Debug, Default)]
pub struct Ring {
    tokens: Vec<Token>,
    /// `width` nodes for each token, in ring order.
    replicas: Vec<u16>,
    width: usize,
    nodes: u16,
}

impl Ring {
    /// `tokens[n]` are node n's.
    pub fn new(tokens: &[Vec<Token>], replication_factor: usize) -> Self {
        let nodes = tokens.len();
        let mut owned: Vec<(Token, u16)> =
            tokens.iter().enumerate().flat_map(|(node, list)| list.iter().map(move |t| (*t, node as u16))).collect();
        owned.sort();
        if tokens.iter().any(Vec::is_empty) {
            owned.clear();
        }
        let width = replication_factor.clamp(1, nodes.max(1));
        let mut replicas = Vec::with_capacity(owned.len() * width);
        for start in 0..owned.len() {
            let begin = replicas.len();
            for (_, node) in owned.iter().cycle().skip(start).take(owned.len()) {
                if replicas.len() - begin == width {
                    break;
                }
                if !replicas[begin..].contains(node) {
                    replicas.push(*node);
                }
            }
        }
        Self { tokens: owned.into_iter().map(|(token, _)| token).collect(), replicas, width, nodes: nodes as u16 }
    }

    /// How many nodes hold each partition.
    pub fn width(&self) -> usize {
        if self.tokens.is_empty() { self.nodes as usize } else { self.width }
    }

    /// The `choice`-th replica (below [`Self::width`]) of the partition with this token.
    pub fn replica(&self, token: Token, choice: usize) -> usize {
        if self.tokens.is_empty() {
            return choice;
        }
        // A token's range ends at itself, inclusively; behind the last one it wraps.
        let position = self.tokens.partition_point(|t| *t < token) % self.tokens.len();
        self.replicas[position * self.width + choice] as usize
    }
}

/// How a node deals its partitions out to its shards, as it tells in SUPPORTED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharding {
    pub shards: u32,
    pub ignore_msb: u8,
}

impl Sharding {
    pub fn owner(&self, token: Token) -> u32 {
        types::token::shard_of(token, self.shards, self.ignore_msb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_the_next_distinct_owners() {
        let tokens = [vec![Token(i64::MIN + 1), Token(10)], vec![Token(0)], vec![Token(i64::MAX)]];
        let ring = Ring::new(&tokens, 2);
        assert_eq!(ring.width(), 2);
        let at = |position: usize| &ring.replicas[position * 2..position * 2 + 2];
        assert_eq!([at(0), at(1), at(2), at(3)], [[0, 1], [1, 0], [0, 2], [2, 0]]);
    }

    #[test]
    fn every_node_gets_its_part() {
        let tokens: Vec<Vec<Token>> = (0..4u64)
            .map(|node| (0..64).map(|i| Token(crate::generate::mix64(node * 1000 + i) as i64)).collect())
            .collect();
        let ring = Ring::new(&tokens, 3);
        let mut counts = [0; 4];
        for key in 0..10_000u64 {
            let nodes: Vec<usize> =
                (0..3).map(|choice| ring.replica(Token::of_key(&key.to_be_bytes()), choice)).collect();
            assert!(nodes[0] != nodes[1] && nodes[1] != nodes[2] && nodes[0] != nodes[2]);
            counts[nodes[0]] += 1;
        }
        assert!(counts.iter().all(|n| (1500..3500).contains(n)), "{counts:?}");
    }

    #[test]
    fn without_tokens_everybody_is_a_replica() {
        let ring = Ring::new(&[vec![Token(1)], vec![]], 1);
        assert_eq!((ring.width(), ring.replica(Token::of_key(b"k"), 1)), (2, 1));
    }
}
