//! Which nodes replicate a token.

use std::collections::BTreeMap;

use types::{Replication, Token};

use super::{DcIndex, NodeIndex, TokenRange, Topology, TopologyError, fraction};

/// Five replicas in each of three data centres, rounded up. A set stays small enough to copy.
pub const MAX_REPLICAS: usize = 16;

/// Distinct nodes, the primary first, each with its data centre.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaSet {
    len: u8,
    nodes: [NodeIndex; MAX_REPLICAS],
    dcs: [DcIndex; MAX_REPLICAS],
}

impl ReplicaSet {
    pub const EMPTY: Self = Self { len: 0, nodes: [NodeIndex(0); MAX_REPLICAS], dcs: [DcIndex(0); MAX_REPLICAS] };

    pub fn one(node: NodeIndex, dc: DcIndex) -> Self {
        let mut set = Self::EMPTY;
        set.push(node, dc);
        set
    }

    /// # Panics
    /// Beyond `MAX_REPLICAS`; maps with more are refused when they are made.
    pub fn push(&mut self, node: NodeIndex, dc: DcIndex) {
        self.nodes[usize::from(self.len)] = node;
        self.dcs[usize::from(self.len)] = dc;
        self.len += 1;
    }

    pub fn len(&self) -> usize {
        usize::from(self.len)
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn nodes(&self) -> &[NodeIndex] {
        &self.nodes[..self.len()]
    }

    pub fn dcs(&self) -> &[DcIndex] {
        &self.dcs[..self.len()]
    }

    pub fn primary(&self) -> Option<NodeIndex> {
        self.nodes().first().copied()
    }

    pub fn position(&self, node: NodeIndex) -> Option<usize> {
        self.nodes().iter().position(|replica| *replica == node)
    }

    pub fn contains(&self, node: NodeIndex) -> bool {
        self.position(node).is_some()
    }

    /// With those of `further` behind; what is more than a set can have is left out.
    pub fn with(mut self, further: &ReplicaSet) -> ReplicaSet {
        let fitting = MAX_REPLICAS - self.len();
        further.iter().take(fitting).for_each(|(node, dc)| self.push(node, dc));
        self
    }

    /// Those that are not in `other`, in their order.
    pub fn without(&self, other: &ReplicaSet) -> ReplicaSet {
        let mut rest = Self::EMPTY;
        self.iter().filter(|(node, _)| !other.contains(*node)).for_each(|(node, dc)| rest.push(node, dc));
        rest
    }

    pub fn iter(&self) -> impl Iterator<Item = (NodeIndex, DcIndex)> + '_ {
        self.nodes().iter().copied().zip(self.dcs().iter().copied())
    }
}

impl std::fmt::Debug for ReplicaSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.nodes().iter().map(|node| node.0)).finish()
    }
}

/// Replicas of the range that the ring entry at `position` ends.
pub(super) fn replicas_at(
    topology: &Topology,
    replication: &Replication,
    position: usize,
) -> Result<ReplicaSet, TopologyError> {
    let asked = match replication {
        Replication::Local => 1,
        Replication::Simple { replication_factor } => (*replication_factor).min(topology.in_ring().count() as u32),
        Replication::NetworkTopology(factors) => known(topology, factors)
            .map(|(dc, factor)| factor.min(topology.nodes_in(dc) as u32))
            .fold(0, u32::saturating_add),
    };
    if asked as usize > MAX_REPLICAS {
        return Err(TopologyError::TooManyReplicas { asked });
    }
    Ok(match replication {
        Replication::Local => ReplicaSet::one(topology.local, topology.local().dc),
        Replication::Simple { .. } => simple(topology, asked as usize, position),
        Replication::NetworkTopology(factors) => network_topology(topology, factors, position),
    })
}

/// The data centres of a replication that exist.
fn known<'a>(topology: &'a Topology, factors: &'a BTreeMap<String, u32>) -> impl Iterator<Item = (DcIndex, u32)> + 'a {
    factors.iter().filter_map(|(name, factor)| topology.dc_index(name).map(|dc| (dc, *factor)))
}

fn from_position(topology: &Topology, position: usize) -> impl Iterator<Item = NodeIndex> + '_ {
    let (before, from) = topology.ring.split_at(position);
    from.iter().chain(before).map(|(_, node)| *node)
}

fn simple(topology: &Topology, asked: usize, position: usize) -> ReplicaSet {
    let mut set = ReplicaSet::EMPTY;
    for node in from_position(topology, position) {
        if set.len() == asked {
            break;
        }
        if !set.contains(node) {
            set.push(node, topology.node(node).dc);
        }
    }
    set
}

/// What one data centre still wants.
struct Wanted<'a> {
    left: u32,
    racks_seen: Vec<&'a str>,
    /// How many more nodes may come from racks that have a replica already: only as many as there are too few racks.
    repeats_left: u32,
}

/// The rule of Cassandra's `NetworkTopologyStrategy.calculateNaturalReplicas`: walk the ring; a data centre takes a
/// node of a new rack always, and one of a seen rack as long as the remaining racks could not fill the factor.
fn network_topology(topology: &Topology, factors: &BTreeMap<String, u32>, position: usize) -> ReplicaSet {
    let mut wanted: BTreeMap<DcIndex, Wanted> = known(topology, factors)
        .filter(|(_, factor)| *factor > 0)
        .map(|(dc, factor)| {
            let mut racks: Vec<&str> =
                topology.in_ring().filter(|node| node.dc == dc).map(|node| node.rack.as_str()).collect();
            let nodes = racks.len() as u32;
            racks.sort_unstable();
            racks.dedup();
            let repeats_left = factor.saturating_sub(racks.len() as u32);
            (dc, Wanted { left: factor.min(nodes), racks_seen: Vec::new(), repeats_left })
        })
        .collect();
    let mut unfilled = wanted.values().filter(|wanted| wanted.left > 0).count();
    let mut set = ReplicaSet::EMPTY;
    for index in from_position(topology, position) {
        if unfilled == 0 {
            break;
        }
        let node = topology.node(index);
        let Some(dc) = wanted.get_mut(&node.dc).filter(|dc| dc.left > 0) else { continue };
        if set.contains(index) {
            continue;
        }
        if dc.racks_seen.contains(&node.rack.as_str()) {
            if dc.repeats_left == 0 {
                continue;
            }
            dc.repeats_left -= 1;
        } else {
            dc.racks_seen.push(&node.rack);
        }
        set.push(index, node.dc);
        dc.left -= 1;
        if dc.left == 0 {
            unfilled -= 1;
        }
    }
    set
}

/// The replicas of every range under one replication: a lookup is a binary search and a copy.
#[derive(Clone, Debug)]
pub struct ReplicationMap {
    replication: Replication,
    tokens: Vec<Token>,
    /// Which of `sets` belongs to the token at the same position.
    set_at: Vec<u32>,
    /// Every different set once: a small cluster has few.
    sets: Vec<ReplicaSet>,
    /// Of the ring that is only written to, while a node joins.
    other: Option<Box<ReplicationMap>>,
}

impl ReplicationMap {
    pub fn new(topology: &Topology, replication: &Replication) -> Result<Self, TopologyError> {
        let mut sets = Vec::new();
        let mut seen: BTreeMap<ReplicaSet, u32> = BTreeMap::new();
        let mut set_at = Vec::with_capacity(topology.ring.len());
        for position in 0..topology.ring.len() {
            let set = replicas_at(topology, replication, position)?;
            set_at.push(*seen.entry(set).or_insert_with(|| {
                sets.push(set);
                sets.len() as u32 - 1
            }));
        }
        let tokens = topology.ring.iter().map(|(token, _)| *token).collect();
        let other = topology.other().map(|other| Self::new(other, replication)).transpose()?.map(Box::new);
        Ok(Self { replication: replication.clone(), tokens, set_at, sets, other })
    }

    pub fn replication(&self) -> &Replication {
        &self.replication
    }

    #[inline]
    pub fn replicas(&self, token: Token) -> ReplicaSet {
        if let [only] = &self.sets[..] {
            return *only;
        }
        let position = self.tokens.partition_point(|at| *at < token);
        let position = if position == self.tokens.len() { 0 } else { position };
        self.sets[self.set_at[position] as usize]
    }

    /// The map of the other ring, while a node joins.
    pub fn other(&self) -> Option<&ReplicationMap> {
        self.other.as_deref()
    }

    /// Who is written to beside [`replicas`](Self::replicas): replicas of the other ring alone, while a node joins.
    #[inline]
    pub fn further(&self, token: Token) -> ReplicaSet {
        match &self.other {
            None => ReplicaSet::EMPTY,
            Some(other) => other.replicas(token).without(&self.replicas(token)),
        }
    }

    /// Ranges that `node` replicates, ascending, neighbours joined.
    pub fn ranges(&self, topology: &Topology, node: NodeIndex) -> Vec<TokenRange> {
        topology.ranges_where(|position| self.sets[self.set_at[position] as usize].contains(node))
    }

    /// Fraction of all data that `node` holds; the fractions of all nodes sum to the number of replicas.
    pub fn ownership(&self, topology: &Topology, node: NodeIndex) -> f64 {
        fraction(&self.ranges(topology, node))
    }

    /// Ranges between neighbouring tokens with their replicas, ascending by end; what `describe_ring` shows.
    pub fn describe(&self) -> impl Iterator<Item = (TokenRange, ReplicaSet)> + '_ {
        let count = self.tokens.len();
        (0..count).map(move |position| {
            let range = TokenRange { start: self.tokens[(position + count - 1) % count], end: self.tokens[position] };
            (range, self.sets[self.set_at[position] as usize])
        })
    }
}
