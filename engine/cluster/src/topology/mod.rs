//! The nodes and the ring, computed from the list of nodes that a cluster starts with and of those that joined it.
//!
//! Every node that is given the same lists computes the same tokens and the same replicas. Pure: no I/O, no clock, no
//! randomness.
//!
//! 1. A token belongs to the first node token at or after it, around the ring (ranges are `(previous, token]`).
//! 2. Tokens that are not configured are hashed from the node's address and the token's number.
//! 3. Replicas are distinct nodes in ring order, the first is the primary.
//! 4. Nodes that join are numbered behind all others, so that an index means the same node for ever. The digest, which
//!    nodes compare before they talk to each other, is of the list that the cluster started with.
//! 5. While a node joins there are two rings, with it and without it: one that is read, and [`Topology::other`]. What
//!    is written goes to the replicas of both.

mod replication;
mod takeover;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use md5::{Digest, Md5};
use types::{Replication, Token};

pub use replication::{MAX_REPLICAS, ReplicaSet, ReplicationMap};
pub use takeover::{Takeover, takeovers};

/// Cassandra's and Scylla's ports.
pub const NATIVE_PORT: u16 = 9042;
pub const INTERNODE_PORT: u16 = 7000;
/// Cassandra 3's and Scylla's default number of tokens of a node.
pub const DEFAULT_NUM_TOKENS: u32 = 256;

/// A node by its position in the configured list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u16);

impl NodeIndex {
    pub fn as_usize(self) -> usize {
        usize::from(self.0)
    }
}

/// A data centre by its position in the sorted list of their names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DcIndex(pub u8);

/// What configuration says about one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeConfig {
    pub address: IpAddr,
    /// Derived from the address unless given.
    pub host_id: Option<u128>,
    pub native_port: u16,
    pub internode_port: u16,
    pub data_center: String,
    pub rack: String,
    pub num_tokens: u32,
    /// Takes the place of the hashed tokens.
    pub tokens: Option<Vec<Token>>,
    /// Shards of the node as far as known; shown, and not part of the digest.
    pub shards: u16,
}

impl NodeConfig {
    /// A node with the defaults that Cassandra gives a fresh installation: `datacenter1`, `rack1`.
    pub fn new(address: IpAddr) -> Self {
        Self {
            address,
            host_id: None,
            native_port: NATIVE_PORT,
            internode_port: INTERNODE_PORT,
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            num_tokens: DEFAULT_NUM_TOKENS,
            tokens: None,
            shards: 1,
        }
    }
}

/// What a node has to do with the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NodeState {
    /// The others know of it, and it has no part yet.
    Known,
    /// It takes over its ranges: it is written to beside the nodes that have them, and is not read.
    Joining,
    /// It has its ranges and is read. The nodes that had them are written to as well, for there may be some that still
    /// read from those.
    Settling,
    Normal,
}

/// A node that is not of those that the cluster started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub state: NodeState,
    pub config: NodeConfig,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub index: NodeIndex,
    pub state: NodeState,
    pub host_id: u128,
    pub address: IpAddr,
    pub native_port: u16,
    pub internode_port: u16,
    pub data_center: String,
    pub dc: DcIndex,
    pub rack: String,
    pub shards: u16,
    /// In ascending order.
    pub tokens: Vec<Token>,
    /// Of everything on which the nodes must agree about this one.
    pub digest: u64,
}

impl Node {
    pub fn internode_addr(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.internode_port)
    }

    pub fn native_addr(&self) -> SocketAddr {
        SocketAddr::new(self.address, self.native_port)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    #[error("a cluster needs at least one node")]
    Empty,
    #[error("{0} nodes are more than the {max} that node indexes can name", max = u16::MAX)]
    TooManyNodes(usize),
    #[error("{0} data centres are more than the {max} supported", max = MAX_DATA_CENTERS)]
    TooManyDataCenters(usize),
    #[error("this node ({0}) is not in the list of nodes")]
    NotListed(IpAddr),
    #[error("the address {0} is given to two nodes")]
    DuplicateAddress(IpAddr),
    #[error("{first} and {second} have the same host id")]
    DuplicateHostId { first: IpAddr, second: IpAddr },
    #[error("{first} and {second} both have the token {}", .token.0)]
    DuplicateToken { token: Token, first: IpAddr, second: IpAddr },
    #[error("{0} has no tokens")]
    NoTokens(IpAddr),
    #[error("{asked} replicas are more than the {max} supported", max = MAX_REPLICAS)]
    TooManyReplicas { asked: u32 },
}

/// Bounds the per-centre counts that travel with each consistency requirement.
pub const MAX_DATA_CENTERS: usize = 8;

/// A range of tokens `(start, end]`. `start >= end` wraps around; equal ends mean the whole ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenRange {
    pub start: Token,
    pub end: Token,
}

impl TokenRange {
    pub fn contains(&self, token: Token) -> bool {
        if self.start < self.end {
            self.start < token && token <= self.end
        } else {
            self.start < token || token <= self.end
        }
    }

    /// Tokens in the range; 2^64 for the whole ring.
    pub fn width(&self) -> u128 {
        match self.end.0.wrapping_sub(self.start.0) as u64 {
            0 => 1 << 64,
            width => u128::from(width),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Vec<Node>,
    /// How many of them the cluster started with.
    starting: usize,
    local: NodeIndex,
    data_centers: Vec<String>,
    /// That is read; ascending by token.
    ring: Vec<(Token, NodeIndex)>,
    /// By node, whether it is in the ring.
    has_part: Vec<bool>,
    digest: u64,
    other: Option<Box<Topology>>,
}

impl Topology {
    /// `local` is this node's address, one of the list.
    pub fn new(configs: &[NodeConfig], local: IpAddr) -> Result<Self, TopologyError> {
        Self::with_joined(configs, &[], local)
    }

    /// With those that joined since the start, in the order in which they did.
    pub fn with_joined(starting: &[NodeConfig], joined: &[Joined], local: IpAddr) -> Result<Self, TopologyError> {
        if starting.is_empty() {
            return Err(TopologyError::Empty);
        }
        let configs: Vec<&NodeConfig> = starting.iter().chain(joined.iter().map(|joined| &joined.config)).collect();
        if configs.len() > usize::from(u16::MAX) {
            return Err(TopologyError::TooManyNodes(configs.len()));
        }
        let mut data_centers: Vec<String> = configs.iter().map(|config| config.data_center.clone()).collect();
        data_centers.sort();
        data_centers.dedup();
        if data_centers.len() > MAX_DATA_CENTERS {
            return Err(TopologyError::TooManyDataCenters(data_centers.len()));
        }
        let mut nodes = Vec::with_capacity(configs.len());
        for (index, config) in configs.iter().enumerate() {
            let dc = data_centers.binary_search(&config.data_center).expect("the list was made of all names");
            let joined = index.checked_sub(starting.len()).map(|at| joined[at].state);
            let state = joined.unwrap_or(NodeState::Normal);
            nodes.push(node(NodeIndex(index as u16), DcIndex(dc as u8), state, config)?);
        }
        check_distinct(&nodes)?;
        let local = nodes.iter().find(|node| node.address == local).ok_or(TopologyError::NotListed(local))?.index;
        let starting = starting.len();
        let digest = nodes[..starting].iter().fold(0, |digest, node| mix(digest ^ node.digest));
        let (ring, has_part) = ring_of(&nodes, |state| state >= NodeState::Settling)?;
        let mut topology = Self { nodes, starting, local, data_centers, ring, has_part, digest, other: None };
        let changes = |node: &Node| [NodeState::Joining, NodeState::Settling].contains(&node.state);
        if topology.nodes.iter().any(changes) {
            let mut other = topology.clone();
            let has_part = |state| state == NodeState::Normal || state == NodeState::Joining;
            (other.ring, other.has_part) = ring_of(&topology.nodes, has_part)?;
            topology.other = Some(Box::new(other));
        }
        Ok(topology)
    }

    /// The ring that is not read and still written to, while a node joins: first the one with it, then the one without.
    pub fn other(&self) -> Option<&Topology> {
        self.other.as_deref()
    }

    /// The node that joins now.
    pub fn joining(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| [NodeState::Joining, NodeState::Settling].contains(&node.state))
    }

    /// Those that have a part in the cluster, or will soon.
    pub fn members(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.state != NodeState::Known)
    }

    /// Those that have come to be full members.
    pub fn normal(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.state == NodeState::Normal)
    }

    /// Tokens of the nodes that the cluster started with, ascending: they stay what they are.
    pub fn starting_tokens(&self) -> Vec<Token> {
        let mut tokens: Vec<Token> =
            self.nodes[..self.starting].iter().flat_map(|node| node.tokens.iter().copied()).collect();
        tokens.sort_unstable();
        tokens
    }

    /// How many nodes the cluster started with; they come first.
    pub fn starting(&self) -> usize {
        self.starting
    }

    /// A cluster of one node.
    pub fn single(config: NodeConfig) -> Result<Self, TopologyError> {
        let address = config.address;
        Self::new(&[config], address)
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// # Panics
    /// When the index is of another topology.
    pub fn node(&self, index: NodeIndex) -> &Node {
        &self.nodes[index.as_usize()]
    }

    pub fn local(&self) -> &Node {
        self.node(self.local)
    }

    pub fn local_index(&self) -> NodeIndex {
        self.local
    }

    pub fn peers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.index != self.local)
    }

    pub fn by_address(&self, address: IpAddr) -> Option<&Node> {
        self.nodes.iter().find(|node| node.address == address)
    }

    pub fn by_host_id(&self, host_id: u128) -> Option<&Node> {
        self.nodes.iter().find(|node| node.host_id == host_id)
    }

    /// Names of the data centres, ascending; `DcIndex` is the position.
    pub fn data_centers(&self) -> &[String] {
        &self.data_centers
    }

    pub fn dc_index(&self, name: &str) -> Option<DcIndex> {
        self.data_centers.iter().position(|dc| dc == name).map(|index| DcIndex(index as u8))
    }

    /// Nodes of a data centre that are in the ring.
    pub fn nodes_in(&self, dc: DcIndex) -> usize {
        self.in_ring().filter(|node| node.dc == dc).count()
    }

    /// Nodes that are in the ring.
    fn in_ring(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| self.has_part[node.index.as_usize()])
    }

    /// All tokens with their owners, ascending.
    pub fn ring(&self) -> &[(Token, NodeIndex)] {
        &self.ring
    }

    /// Of all that the nodes must agree on when they start.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Position in the ring of the entry that owns `token`.
    fn position(&self, token: Token) -> usize {
        let position = self.ring.partition_point(|(at, _)| *at < token);
        if position == self.ring.len() { 0 } else { position }
    }

    pub fn primary(&self, token: Token) -> NodeIndex {
        self.ring[self.position(token)].1
    }

    /// Walks the ring; for a lookup per request build a [`ReplicationMap`].
    pub fn replicas(&self, replication: &Replication, token: Token) -> Result<ReplicaSet, TopologyError> {
        replication::replicas_at(self, replication, self.position(token))
    }

    pub fn replication_map(&self, replication: &Replication) -> Result<ReplicationMap, TopologyError> {
        ReplicationMap::new(self, replication)
    }

    /// Ranges of which the node is the primary replica under every strategy that walks the whole ring, ascending.
    pub fn primary_ranges(&self, node: NodeIndex) -> Vec<TokenRange> {
        self.ranges_where(|position| self.ring[position].1 == node)
    }

    /// Ring ranges whose entry `belongs`, neighbours joined.
    fn ranges_where(&self, belongs: impl Fn(usize) -> bool) -> Vec<TokenRange> {
        let count = self.ring.len();
        let mut ranges: Vec<TokenRange> = Vec::new();
        for position in (0..count).filter(|position| belongs(*position)) {
            let start = self.ring[(position + count - 1) % count].0;
            let end = self.ring[position].0;
            match ranges.last_mut() {
                Some(last) if last.end == start && last.start != end => last.end = end,
                _ => ranges.push(TokenRange { start, end }),
            }
        }
        // The first range wraps around; when the last one touches it, they are one.
        if ranges.len() > 1 && ranges[ranges.len() - 1].end == ranges[0].start {
            let last = ranges.pop().expect("there are at least two");
            ranges[0].start = last.start;
        }
        ranges
    }
}

/// Fraction of the ring that the ranges cover.
pub fn fraction(ranges: &[TokenRange]) -> f64 {
    ranges.iter().map(TokenRange::width).sum::<u128>() as f64 / 2f64.powi(64)
}

fn node(index: NodeIndex, dc: DcIndex, state: NodeState, config: &NodeConfig) -> Result<Node, TopologyError> {
    let mut tokens = match &config.tokens {
        Some(tokens) => tokens.clone(),
        None => hashed_tokens(config.address, config.num_tokens),
    };
    tokens.sort_unstable();
    if tokens.is_empty() {
        return Err(TopologyError::NoTokens(config.address));
    }
    let host_id = config.host_id.unwrap_or_else(|| host_id_of(config.address));
    let mut digest = mix(host_id as u64) ^ (host_id >> 64) as u64;
    let mut take = |bytes: &[u8]| {
        digest = mix(digest ^ bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            digest = mix(digest ^ u64::from_le_bytes(word));
        }
    };
    take(config.address.to_string().as_bytes());
    take(config.data_center.as_bytes());
    take(config.rack.as_bytes());
    for token in &tokens {
        take(&token.0.to_le_bytes());
    }
    Ok(Node {
        index,
        state,
        host_id,
        address: config.address,
        native_port: config.native_port,
        internode_port: config.internode_port,
        data_center: config.data_center.clone(),
        dc,
        rack: config.rack.clone(),
        shards: config.shards,
        tokens,
        digest,
    })
}

fn check_distinct(nodes: &[Node]) -> Result<(), TopologyError> {
    let mut addresses = BTreeMap::new();
    let mut host_ids = BTreeMap::new();
    for node in nodes {
        if addresses.insert(node.address, ()).is_some() {
            return Err(TopologyError::DuplicateAddress(node.address));
        }
        if let Some(first) = host_ids.insert(node.host_id, node.address) {
            return Err(TopologyError::DuplicateHostId { first, second: node.address });
        }
    }
    ring_of(nodes, |_| true).map(drop)
}

type Ring = Vec<(Token, NodeIndex)>;

/// The ring of those that have a part in it, and by node whether it has.
fn ring_of(nodes: &[Node], has_part: impl Fn(NodeState) -> bool) -> Result<(Ring, Vec<bool>), TopologyError> {
    let parts: Vec<bool> = nodes.iter().map(|node| has_part(node.state)).collect();
    let inside = nodes.iter().filter(|node| parts[node.index.as_usize()]);
    let mut ring: Ring = inside.flat_map(|node| node.tokens.iter().map(|token| (*token, node.index))).collect();
    ring.sort_unstable();
    if let Some(pair) = ring.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let address = |index: NodeIndex| nodes[index.as_usize()].address;
        return Err(TopologyError::DuplicateToken {
            token: pair[0].0,
            first: address(pair[0].1),
            second: address(pair[1].1),
        });
    }
    Ok((ring, parts))
}

/// A name-based UUID (version 3, RFC 4122 section 4.3) of the address, in this project's own name space.
pub fn host_id_of(address: IpAddr) -> u128 {
    let mut md5 = Md5::new();
    md5.update(b"orrery node ");
    md5.update(address.to_string().as_bytes());
    let digest: [u8; 16] = md5.finalize().into();
    let bits = u128::from_be_bytes(digest);
    (bits & !(0xF << 76) & !(0x3 << 62)) | (3 << 76) | (2 << 62)
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection whose output bits all depend on all input bits.
fn mix(word: u64) -> u64 {
    let mut word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

fn hashed_tokens(address: IpAddr, count: u32) -> Vec<Token> {
    let host_id = host_id_of(address);
    let seed = mix(host_id as u64) ^ (host_id >> 64) as u64;
    // i64::MIN stands for "before everything" and owns nothing.
    (0..u64::from(count))
        .map(|number| Token(mix(seed ^ mix(number)) as i64))
        .filter(|token| token.0 != i64::MIN)
        .collect()
}

#[cfg(test)]
mod tests;
