//! What the answers so far decide about one request.
//!
//! Each replica is counted once, by its first answer. A request is *done* as soon as its requirement is met, *failed*
//! as soon as the replicas that have not failed cannot meet it any more, or when its time runs out.

use super::{Requirement, Unavailable};
use crate::snitch::Snitch;
use crate::topology::{DcIndex, MAX_REPLICAS, NodeIndex, ReplicaSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Pending,
    /// Met. Said once and on every later answer.
    Done,
    Failed(Shortfall),
}

/// What a WriteTimeout, WriteFailure, ReadTimeout or ReadFailure tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub received: u32,
    pub required: u32,
    /// Replicas that answered with an error or could not be reached.
    pub failures: u32,
    /// Reads: a replica with the data answered.
    pub data_present: bool,
    /// Time ran out; otherwise too many replicas failed.
    pub timed_out: bool,
}

#[derive(Clone, Copy, Debug)]
struct Tally {
    requirement: Requirement,
    replicas: ReplicaSet,
    /// Masks of positions in `replicas`.
    received: u16,
    failed: u16,
    /// Those that may still be asked or answer: everything that is not in it cannot help any more.
    possible: u16,
    timed_out: bool,
}

impl Tally {
    fn record(&mut self, node: NodeIndex, ok: bool) {
        let Some(position) = self.replicas.position(node) else { return };
        let bit = 1 << position;
        if (self.received | self.failed) & bit != 0 {
            return;
        }
        if ok {
            self.received |= bit;
        } else {
            self.failed |= bit;
            self.possible &= !bit;
        }
    }

    fn outcome(&self, data_present: bool) -> Outcome {
        if self.requirement.satisfied_by(&self.replicas, self.received) {
            return Outcome::Done;
        }
        if !self.timed_out && self.requirement.satisfied_by(&self.replicas, self.received | self.possible) {
            return Outcome::Pending;
        }
        Outcome::Failed(Shortfall {
            received: self.requirement.counted(&self.replicas, self.received),
            required: self.requirement.required(),
            failures: self.failed.count_ones(),
            data_present,
            timed_out: self.timed_out,
        })
    }
}

/// A bit for each of the replicas' nodes, or of their data centres, that `is` is true of.
fn mask_of<T: Copy>(replicas: &[T], mut is: impl FnMut(T) -> bool) -> u16 {
    replicas.iter().enumerate().filter(|(_, one)| is(**one)).fold(0, |mask, (at, _)| mask | 1 << at)
}

/// A write goes to every replica that is alive; the others get hints.
#[derive(Clone, Copy, Debug)]
pub struct WriteDecision {
    tally: Tally,
}

impl WriteDecision {
    /// Decides first whether enough replicas are alive.
    pub fn begin(
        requirement: Requirement,
        replicas: ReplicaSet,
        is_alive: impl FnMut(NodeIndex) -> bool,
    ) -> Result<Self, Unavailable> {
        let alive = mask_of(replicas.nodes(), is_alive);
        requirement.check_alive(&replicas, alive)?;
        let tally = Tally { requirement, replicas, received: 0, failed: 0, possible: alive, timed_out: false };
        Ok(Self { tally })
    }

    /// Replicas to send the write to.
    pub fn targets(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        let Tally { replicas, received, possible, .. } = self.tally;
        (0..replicas.len()).filter(move |at| (received | possible) & 1 << at != 0).map(move |at| replicas.nodes()[at])
    }

    /// Replicas that were not alive, or have failed: who should get a hint.
    pub fn missed(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        let Tally { replicas, received, possible, .. } = self.tally;
        (0..replicas.len()).filter(move |at| (received | possible) & 1 << at == 0).map(move |at| replicas.nodes()[at])
    }

    pub fn on_ack(&mut self, node: NodeIndex) -> Outcome {
        self.tally.record(node, true);
        self.outcome()
    }

    pub fn on_failure(&mut self, node: NodeIndex) -> Outcome {
        self.tally.record(node, false);
        self.outcome()
    }

    pub fn on_timeout(&mut self) -> Outcome {
        self.tally.timed_out = true;
        self.outcome()
    }

    pub fn outcome(&self) -> Outcome {
        self.tally.outcome(false)
    }

    /// Every replica that was sent to has answered, one way or the other.
    pub fn is_complete(&self) -> bool {
        self.tally.possible & !self.tally.received == 0
    }
}

/// A read goes to just enough replicas, nearest first; the rest are spare, for retries and speculation.
#[derive(Clone, Copy, Debug)]
pub struct ReadDecision {
    tally: Tally,
    asked: u16,
    data_present: bool,
    /// Positions in the replicas, nearest first.
    order: [u8; MAX_REPLICAS],
}

impl ReadDecision {
    /// Chooses whom to ask: this node before its data centre before the others, unless the snitch knows better. Of those as
    /// near, in ring order, `turn` says with whom it begins: with a number from the token all are asked as often, and for
    /// the same partition the same, which then have it in their caches.
    pub fn begin(
        requirement: Requirement,
        replicas: ReplicaSet,
        local: (NodeIndex, DcIndex),
        turn: u64,
        snitch: Option<&Snitch>,
        is_alive: impl FnMut(NodeIndex) -> bool,
    ) -> Result<Self, Unavailable> {
        let alive = mask_of(replicas.nodes(), is_alive);
        requirement.check_alive(&replicas, alive)?;
        // What cannot count towards the level is not worth asking.
        let useful = mask_of(replicas.dcs(), |dc| requirement.counts(dc)) & alive;
        let tally = Tally { requirement, replicas, received: 0, failed: 0, possible: useful, timed_out: false };
        let order = nearest_first(&replicas, local, turn, snitch);
        let mut decision = Self { tally, asked: 0, data_present: false, order };
        while !requirement.satisfied_by(&replicas, decision.asked) {
            let before = requirement.counted(&replicas, decision.asked);
            let Some(bit) = decision.nearest(|bit| requirement.counted(&replicas, decision.asked | bit) > before)
            else {
                break;
            };
            decision.asked |= bit;
        }
        Ok(decision)
    }

    fn nearest(&self, fits: impl Fn(u16) -> bool) -> Option<u16> {
        let Tally { replicas, possible, .. } = &self.tally;
        let bits = self.order[..replicas.len()].iter().map(|at| 1u16 << at);
        bits.filter(|bit| possible & !self.asked & bit != 0).find(|bit| fits(*bit))
    }

    /// All that are alive in a data centre are asked, more than the requirement needs: `dclocal_read_repair_chance`.
    pub fn ask_all_of(&mut self, dc: DcIndex) {
        self.asked |= self.tally.possible & mask_of(self.tally.replicas.dcs(), |of| of == dc);
    }

    /// Replicas to ask at the start.
    pub fn targets(&self) -> impl Iterator<Item = NodeIndex> + use<> {
        let (replicas, asked) = (self.tally.replicas, self.asked);
        (0..replicas.len()).filter(move |at| asked & 1 << at != 0).map(move |at| replicas.nodes()[at])
    }

    /// One more replica to ask, after a failure or because an answer is slow. It counts as asked from now on.
    pub fn next_spare(&mut self) -> Option<NodeIndex> {
        let bit = self.nearest(|_| true)?;
        self.asked |= bit;
        Some(self.tally.replicas.nodes()[bit.trailing_zeros() as usize])
    }

    /// `data`: the answer carries rows, not only a digest of them.
    pub fn on_ack(&mut self, node: NodeIndex, data: bool) -> Outcome {
        self.tally.record(node, true);
        self.data_present |= data;
        self.outcome()
    }

    /// Pending afterwards means that either enough of those asked can still answer, or a spare must be asked:
    /// see [`wants_spare`](Self::wants_spare).
    pub fn on_failure(&mut self, node: NodeIndex) -> Outcome {
        self.tally.record(node, false);
        self.outcome()
    }

    pub fn on_timeout(&mut self) -> Outcome {
        self.tally.timed_out = true;
        self.outcome()
    }

    pub fn outcome(&self) -> Outcome {
        self.tally.outcome(self.data_present)
    }

    /// Those asked cannot meet the requirement any more, but a spare could.
    pub fn wants_spare(&self) -> bool {
        let Tally { requirement, replicas, received, possible, .. } = &self.tally;
        self.outcome() == Outcome::Pending && !requirement.satisfied_by(replicas, *received | possible & self.asked)
    }
}

/// Positions in `replicas`.
fn nearest_first(
    replicas: &ReplicaSet,
    local: (NodeIndex, DcIndex),
    turn: u64,
    snitch: Option<&Snitch>,
) -> [u8; MAX_REPLICAS] {
    let (len, nodes, dcs) = (replicas.len(), replicas.nodes(), replicas.dcs());
    let mut order = std::array::from_fn(|at| at as u8);
    let turn = (turn % len.max(1) as u64) as usize;
    let place = |at: usize| (nodes[at] != local.0, dcs[at] != local.1, (at + len - turn) % len);
    order[..len].sort_unstable_by_key(|at| place(usize::from(*at)));
    if let Some(snitch) = snitch {
        snitch.sort(&mut order[..len], |at| nodes[usize::from(at)]);
    }
    order
}
