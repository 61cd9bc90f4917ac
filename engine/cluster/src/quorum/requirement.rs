//! Consistency levels and the answers that they need.

use types::Replication;

use crate::topology::{DcIndex, MAX_DATA_CENTERS, ReplicaSet, Topology};

/// Consistency levels, apart from their numbers in any protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Any,
    One,
    Two,
    Three,
    Quorum,
    All,
    LocalQuorum,
    EachQuorum,
    LocalOne,
    Serial,
    LocalSerial,
}

/// Whose answers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Everywhere,
    /// Replicas of one data centre.
    Within(DcIndex),
    /// So many in each data centre.
    Each([u8; MAX_DATA_CENTERS]),
}

/// The answers that one level needs under one replication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requirement {
    required: u32,
    scope: Scope,
    /// A hint kept by the coordinator is as good as an answer (level ANY).
    hint_suffices: bool,
}

/// Too few replicas are alive to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{required} replicas are required and {alive} are alive")]
pub struct Unavailable {
    pub required: u32,
    pub alive: u32,
}

fn quorum(replicas: u32) -> u32 {
    replicas / 2 + 1
}

impl Requirement {
    /// As Cassandra's `ConsistencyLevel.blockFor`: the counts come from the replication factor, not from the nodes
    /// that there are. The local levels under a replication without data centres count all replicas.
    pub fn new(level: Level, replication: &Replication, topology: &Topology) -> Self {
        let local = topology.local();
        let everywhere = |required| Self { required, scope: Scope::Everywhere, hint_suffices: false };
        let total = match replication {
            Replication::Local => 1,
            Replication::Simple { replication_factor } => *replication_factor,
            Replication::NetworkTopology(factors) => factors.values().sum(),
        };
        match (level, replication) {
            (Level::Any, _) => Self { required: 1, scope: Scope::Everywhere, hint_suffices: true },
            (Level::One, _) => everywhere(1),
            (Level::Two, _) => everywhere(2),
            (Level::Three, _) => everywhere(3),
            (Level::All, _) => everywhere(total),
            (Level::Quorum | Level::Serial, _) => everywhere(quorum(total)),
            (Level::LocalOne, _) => Self { required: 1, scope: Scope::Within(local.dc), hint_suffices: false },
            (Level::LocalQuorum | Level::LocalSerial, Replication::NetworkTopology(factors)) => Self {
                required: quorum(factors.get(&local.data_center).copied().unwrap_or(0)),
                scope: Scope::Within(local.dc),
                hint_suffices: false,
            },
            (Level::EachQuorum, Replication::NetworkTopology(factors)) => {
                let mut each = [0; MAX_DATA_CENTERS];
                let mut required = 0;
                for (name, factor) in factors.iter().filter(|(_, factor)| **factor > 0) {
                    required += quorum(*factor);
                    if let Some(dc) = topology.dc_index(name) {
                        each[usize::from(dc.0)] = quorum(*factor).min(u32::from(u8::MAX)) as u8;
                    }
                }
                Self { required, scope: Scope::Each(each), hint_suffices: false }
            }
            (Level::LocalQuorum | Level::LocalSerial | Level::EachQuorum, _) => everywhere(quorum(total)),
        }
    }

    /// With an answer more for each of `further`, replicas in the ring that is not read while a node joins: then what is
    /// written is where reads look for it, before the node is read from and afterwards. As Cassandra's
    /// `ConsistencyLevel.blockForWrite`.
    pub fn with_further(mut self, further: &ReplicaSet) -> Self {
        for dc in further.dcs() {
            match &mut self.scope {
                Scope::Within(only) if only != dc => continue,
                Scope::Each(each) => match &mut each[usize::from(dc.0)] {
                    0 => continue,
                    share => *share += 1,
                },
                Scope::Everywhere | Scope::Within(_) => {}
            }
            self.required += 1;
        }
        self
    }

    /// The number that errors name.
    pub fn required(&self) -> u32 {
        self.required
    }

    /// Whether a hint may stand in for every replica (ANY).
    pub fn hint_suffices(&self) -> bool {
        self.hint_suffices
    }

    /// Whether an answer from this data centre counts.
    pub fn counts(&self, dc: DcIndex) -> bool {
        match self.scope {
            Scope::Everywhere => true,
            Scope::Within(only) => dc == only,
            Scope::Each(each) => each[usize::from(dc.0)] > 0,
        }
    }

    /// The replicas of `mask` (by position in `set`) that count towards `required`: of a data centre that has its
    /// share, no more than the share.
    pub fn counted(&self, set: &ReplicaSet, mask: u16) -> u32 {
        match self.scope {
            Scope::Everywhere => mask.count_ones(),
            Scope::Within(only) => within(set, mask, only),
            Scope::Each(each) => each
                .iter()
                .enumerate()
                .filter(|(_, share)| **share > 0)
                .map(|(dc, share)| within(set, mask, DcIndex(dc as u8)).min(u32::from(*share)))
                .sum(),
        }
    }

    pub fn satisfied_by(&self, set: &ReplicaSet, mask: u16) -> bool {
        self.counted(set, mask) >= self.required
    }

    /// Whether enough of `set` is alive; `alive` is a mask of positions in the set.
    pub fn check_alive(&self, set: &ReplicaSet, alive: u16) -> Result<(), Unavailable> {
        if self.hint_suffices || self.satisfied_by(set, alive) {
            return Ok(());
        }
        Err(Unavailable { required: self.required, alive: self.counted(set, alive) })
    }
}

fn within(set: &ReplicaSet, mask: u16, dc: DcIndex) -> u32 {
    set.dcs().iter().enumerate().filter(|(position, at)| mask & 1 << position != 0 && **at == dc).count() as u32
}
