//! A replica's part in Paxos: what it has promised, accepted and committed for one partition, kept in `system.paxos`.
//!
//! 1. It never promises a ballot, nor accepts a proposal, older than one that it has promised.
//! 2. An answer leaves only after what it says is in the commit log.
//! 3. A commit is applied to the table before the state forgets the proposal.
//!
//! Steps for one partition are taken one at a time, on the shard that owns it. The protocol is that of Cassandra's
//! `PaxosState`; the state's columns are Cassandra's too.

use std::collections::BTreeMap;
use std::rc::Rc;

use reactor::sync::Semaphore;
use storage::{Bytes, Cell, Clustering, Mutation, Partition, ReadCommand, Row, Slice};
use types::{TableId, Token, uuid};

use super::codec::{self, MALFORMED};
use crate::node::Node;
use crate::system;

/// States outlive any proposer by far, and then expire: Cassandra's `paxos_ttl_seconds` is the table's grace, three
/// hours at least.
const STATE_TTL_S: u32 = 3 * 60 * 60;

/// A version 1 UUID: unique to its proposer, and ordered by its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ballot(pub [u8; 16]);

impl Ballot {
    pub const NONE: Ballot = Ballot([0; 16]);

    pub fn at(time_us: i64, random: u64) -> Ballot {
        Ballot(uuid::from_time(time_us, (random % 10) as u8, random))
    }

    pub fn time_us(self) -> i64 {
        if self == Self::NONE { i64::MIN } else { uuid::unix_us(&self.0) }
    }
}

impl Ord for Ballot {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.time_us().cmp(&other.time_us()).then_with(|| self.0.cmp(&other.0))
    }
}

impl PartialOrd for Ballot {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// An encoded mutation under the ballot that proposed it; no bytes propose nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub ballot: Ballot,
    pub mutation: Vec<u8>,
}

/// What a replica knows of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub promised: Ballot,
    pub accepted: Option<Proposal>,
    pub committed: Option<Proposal>,
}

/// One step that a proposer asks a replica for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Prepare(Ballot),
    Propose(Proposal),
    Commit(Proposal),
}

/// Which partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub token: Token,
    pub table: TableId,
    pub key: Bytes,
}

/// Whether the replica did it, and its state before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub done: bool,
    pub state: State,
}

/// The partitions of a shard that are at a step now, with who waits for them.
#[derive(Default)]
pub(crate) struct Locks(std::cell::RefCell<BTreeMap<(TableId, Bytes), Rc<Semaphore>>>);

/// Held while a step is taken.
pub(crate) struct Lock<'a> {
    locks: &'a Locks,
    of: (TableId, Bytes),
    turn: Option<reactor::sync::Permit>,
}

impl Locks {
    pub async fn lock(&self, table: TableId, key: &Bytes) -> Lock<'_> {
        let of = (table, key.clone());
        let turns = self.0.borrow_mut().entry(of.clone()).or_insert_with(|| Semaphore::new(1)).clone();
        let turn = turns.acquire(1).await;
        Lock { locks: self, of, turn: Some(turn) }
    }
}

impl Drop for Lock<'_> {
    fn drop(&mut self) {
        self.turn = None;
        let mut locks = self.locks.0.borrow_mut();
        // The map's own and no other: nobody waits.
        if locks.get(&self.of).is_some_and(|turns| Rc::strong_count(turns) == 1) {
            locks.remove(&self.of);
        }
    }
}

/// Takes a step on the shard that owns the partition.
pub(crate) async fn step(node: &Rc<Node>, subject: Subject, step: Step) -> Result<Answer, String> {
    let owner = node.owner_shard(subject.token);
    if owner == node.shard {
        return step_here(node, &subject, step).await;
    }
    reactor::submit_to(owner, "paxos", move || async move {
        let node = reactor::local::<Node>().ok_or(super::STARTING)?;
        step_here(&node, &subject, step).await
    })
    .await
}

async fn step_here(node: &Rc<Node>, subject: &Subject, step: Step) -> Result<Answer, String> {
    let _turn = node.paxos_locks.lock(subject.table, &subject.key).await;
    let table = Stored::of(node)?;
    let state = table.read(node, subject).await?;
    let (done, written) = match step {
        Step::Prepare(ballot) if ballot > state.promised => {
            (true, table.write(ballot, &[(table.promised, Some(&ballot.0))]))
        }
        Step::Propose(Proposal { ballot, mutation }) if ballot >= state.promised => {
            let cells = [
                (table.promised, Some(&ballot.0[..])),
                (table.proposal_ballot, Some(&ballot.0)),
                (table.proposal, Some(&mutation)),
            ];
            (true, table.write(ballot, &cells))
        }
        Step::Commit(Proposal { ballot, mutation }) => {
            if !mutation.is_empty() {
                super::apply(node, subject.token, mutation.clone()).await?;
            }
            let known = state.committed.as_ref().map_or(Ballot::NONE, |committed| committed.ballot);
            if ballot <= known {
                return Ok(Answer { done: true, state });
            }
            let mut cells = vec![(table.commit_at, Some(&ballot.0[..])), (table.commit, Some(&mutation[..]))];
            if state.accepted.as_ref().is_some_and(|accepted| accepted.ballot <= ballot) {
                cells.extend([(table.proposal_ballot, None), (table.proposal, None)]);
            }
            (true, table.write(ballot, &cells))
        }
        _ => (false, Row::default()),
    };
    if done {
        let mut partition = Partition::new(subject.key.to_vec());
        partition.rows.push(Row { clustering: clustering(subject), ..written });
        let mut bytes = Vec::with_capacity(256);
        Mutation { table: table.id, schema_version: table.version, partition }.encode(&mut bytes);
        node.storage.apply(&bytes).await.map_err(|error| error.to_string())?;
    }
    Ok(Answer { done, state })
}

fn clustering(subject: &Subject) -> Clustering {
    Clustering::new([subject.table.to_bytes()])
}

/// `system.paxos` and where its columns are.
struct Stored {
    id: TableId,
    version: u64,
    promised: u16,
    proposal: u16,
    proposal_ballot: u16,
    commit: u16,
    commit_at: u16,
    now_s: u32,
}

impl Stored {
    fn of(node: &Node) -> Result<Stored, String> {
        let table = node.table("system", system::PAXOS).map_err(|error| error.to_string())?;
        let place = |name: &str| table.regular_index(name).map(|at| at as u16).ok_or_else(|| format!("no {name}"));
        Ok(Stored {
            id: table.id,
            version: table.version,
            promised: place("in_progress_ballot")?,
            proposal: place("proposal")?,
            proposal_ballot: place("proposal_ballot")?,
            commit: place("most_recent_commit")?,
            commit_at: place("most_recent_commit_at")?,
            now_s: reactor::wall_s(),
        })
    }

    /// A row of these cells, with the ballot's time as their timestamp.
    fn write(&self, ballot: Ballot, cells: &[(u16, Option<&[u8]>)]) -> Row {
        let mut row = Row::default();
        for (column, value) in cells {
            let cell = match value {
                Some(value) => Cell::expiring(ballot.time_us(), STATE_TTL_S, self.now_s, *value),
                None => Cell::tombstone(ballot.time_us(), self.now_s),
            };
            row.set_cell(*column, cell);
        }
        row
    }

    async fn read(&self, node: &Node, subject: &Subject) -> Result<State, String> {
        let command = ReadCommand {
            slices: vec![Slice::prefix(clustering(subject))],
            ..ReadCommand::partition(self.id, subject.key.clone(), self.now_s)
        };
        let partition = node.storage.read(command).await.map_err(|error| error.to_string())?;
        let row = partition.as_ref().and_then(|partition| partition.live_rows(self.now_s).next());
        let value = |column: u16| -> Option<&[u8]> {
            row?.cell(column).filter(|cell| cell.is_live(self.now_s))?.value.as_deref()
        };
        let ballot = |column| value(column).and_then(|bytes| bytes.try_into().ok()).map(Ballot);
        let proposal = |at, mutation| {
            let mutation = value(mutation).unwrap_or_default().to_vec();
            ballot(at).map(|ballot| Proposal { ballot, mutation })
        };
        Ok(State {
            promised: ballot(self.promised).unwrap_or(Ballot::NONE),
            accepted: proposal(self.proposal_ballot, self.proposal),
            committed: proposal(self.commit_at, self.commit),
        })
    }
}

// --- As messages ---

/// Token, table, key, kind of the step, ballot, mutation.
pub(crate) fn encode_step(subject: &Subject, step: &Step) -> Vec<u8> {
    let (kind, ballot, mutation): (u8, Ballot, &[u8]) = match step {
        Step::Prepare(ballot) => (0, *ballot, &[]),
        Step::Propose(proposal) => (1, proposal.ballot, &proposal.mutation),
        Step::Commit(proposal) => (2, proposal.ballot, &proposal.mutation),
    };
    let mut out = Vec::with_capacity(64 + subject.key.len() + mutation.len());
    out.extend_from_slice(&subject.token.0.to_be_bytes());
    out.extend_from_slice(&subject.table.to_bytes());
    codec::put_bytes(&subject.key, &mut out);
    out.push(kind);
    out.extend_from_slice(&ballot.0);
    codec::put_bytes(mutation, &mut out);
    out
}

pub(crate) fn decode_step(bytes: &[u8]) -> Result<(Subject, Step), String> {
    let (token, rest) = codec::decode_token(bytes)?;
    let mut reader = codec::Reader(rest);
    let table = TableId(u128::from_be_bytes(reader.array()?));
    let key = Bytes::copy_from(reader.bytes()?);
    let [kind] = reader.array()?;
    let (ballot, mutation) = (Ballot(reader.array()?), reader.bytes()?.to_vec());
    let step = match kind {
        0 => Step::Prepare(ballot),
        1 => Step::Propose(Proposal { ballot, mutation }),
        2 => Step::Commit(Proposal { ballot, mutation }),
        _ => return Err(MALFORMED.into()),
    };
    Ok((Subject { token, table, key }, step))
}

pub(crate) fn encode_answer(answer: &Answer) -> Vec<u8> {
    let mut out = vec![u8::from(answer.done)];
    out.extend_from_slice(&answer.state.promised.0);
    for proposal in [&answer.state.accepted, &answer.state.committed] {
        out.push(u8::from(proposal.is_some()));
        if let Some(Proposal { ballot, mutation }) = proposal {
            out.extend_from_slice(&ballot.0);
            codec::put_bytes(mutation, &mut out);
        }
    }
    out
}

pub(crate) fn decode_answer(bytes: &[u8]) -> Result<Answer, String> {
    let mut reader = codec::Reader(bytes);
    let done = reader.flag()?;
    let promised = Ballot(reader.array()?);
    let mut proposal = || -> Result<Option<Proposal>, String> {
        if !reader.flag()? {
            return Ok(None);
        }
        Ok(Some(Proposal { ballot: Ballot(reader.array()?), mutation: reader.bytes()?.to_vec() }))
    };
    Ok(Answer { done, state: State { promised, accepted: proposal()?, committed: proposal()? } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ballots_are_ordered_by_time() {
        let (a, b) = (Ballot::at(1_700_000_000_000_000, 3), Ballot::at(1_700_000_000_000_001, 1));
        assert!(Ballot::NONE < a && a < b);
        assert_eq!(b.time_us(), 1_700_000_000_000_001);
    }

    #[test]
    fn messages_come_back() {
        let ballot = Ballot::at(5, 6);
        let subject = Subject { token: Token(-4), table: TableId(9), key: Bytes::from(b"key") };
        let proposal = Proposal { ballot, mutation: b"mutation".to_vec() };
        for step in [Step::Prepare(ballot), Step::Propose(proposal.clone()), Step::Commit(proposal.clone())] {
            let bytes = encode_step(&subject, &step);
            assert_eq!(decode_step(&bytes), Ok((subject.clone(), step)));
            assert!((0..bytes.len()).all(|len| decode_step(&bytes[..len]).is_err()));
        }
        for accepted in [None, Some(proposal)] {
            let answer = Answer { done: true, state: State { promised: ballot, accepted, committed: None } };
            assert_eq!(decode_answer(&encode_answer(&answer)), Ok(answer));
        }
    }
}
