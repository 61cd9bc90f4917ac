//! What a node that joins has to fetch, and from whom. Pure.

use super::{NodeIndex, ReplicaSet, ReplicationMap, TokenRange};

/// A range that a node comes to replicate.
///
/// Whoever leaves it is the one to ask: what a quorum has acknowledged is then still on a quorum afterwards, for the new
/// replica has what the leaver had. All that stay, together, are as good: a quorum of them has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Takeover {
    pub range: TokenRange,
    /// Who has it and will not have it any more. `None`: the range gets a replica more.
    pub leaver: Option<NodeIndex>,
    /// Who has it and keeps it.
    pub stayers: ReplicaSet,
}

/// The ranges that `node` has in the other ring and not in the one that is read; neighbours with the same replicas are
/// joined. Ascending by end.
pub fn takeovers(map: &ReplicationMap, node: NodeIndex) -> Vec<Takeover> {
    let Some(other) = map.other() else { return Vec::new() };
    let mut all: Vec<Takeover> = Vec::new();
    for (range, new) in other.describe().filter(|(_, new)| new.contains(node)) {
        // The other ring has all tokens of both.
        let old = map.replicas(range.end);
        if old.contains(node) {
            continue;
        }
        let leaver = old.without(&new).primary();
        let mut stayers = ReplicaSet::EMPTY;
        old.iter().filter(|(node, _)| Some(*node) != leaver).for_each(|(node, dc)| stayers.push(node, dc));
        // Never the whole ring: its ends would look like those of an empty range.
        if let Some(last) = all.last_mut()
            && last.range.end == range.start
            && last.range.start != range.end
            && (last.leaver, last.stayers) == (leaver, stayers)
        {
            last.range.end = range.end;
            continue;
        }
        all.push(Takeover { range, leaver, stayers });
    }
    all
}
