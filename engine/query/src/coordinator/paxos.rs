//! Conditional writes and serial reads: Paxos over a partition's replicas, a ballot for each.
//!
//! 1. *Prepare*: a quorum promises the ballot and tells what it has accepted and committed before.
//! 2. What a quorum may have accepted and nobody committed is finished first, under our ballot; what some have not
//!    heard to be committed, they are told.
//! 3. *Read* the partition from a quorum and decide.
//! 4. *Propose* the mutation to a quorum; *commit* it at the statement's own consistency level.
//!
//! A ballot that a replica refuses is given up for a later one after a random pause. As Cassandra's `StorageProxy.cas`.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeIndex, Outcome, WriteDecision};
use cql::response::WriteType;
use cql::{Consistency, SerialConsistency};
use reactor::sync::Queue;
use reactor::{Group, Work, time};
use storage::{Partition, ReadCommand};
use types::{TableDef, Token};

use super::unavailable;
use crate::error::{QueryError, write_shortfall};
use crate::node::Node;
use crate::replica::paxos::{self, Answer, Ballot, Proposal, Step, Subject};
use crate::replica::verb;

/// The longest pause after the first refusal, in microseconds; it doubles with each further one, to 64 times.
/// Cassandra pauses up to 100 ms from the start, which costs more than the round trip that it avoids.
const PAUSE_US: u64 = 2_000;

/// What the replicas made of one step.
enum Round {
    Done(Vec<Answer>),
    /// The newest ballot that a replica has promised.
    Refused(Ballot),
}

/// What a conditional statement comes to, once it has seen the partition.
pub(crate) struct Verdict<T> {
    pub value: T,
    /// The encoded mutation; `None` writes nothing.
    pub mutation: Option<Vec<u8>>,
}

/// One conditional write or serial read.
pub(crate) struct Attempt<'a> {
    pub table: &'a Arc<TableDef>,
    pub read: ReadCommand,
    pub serial: SerialConsistency,
    /// Of the commit.
    pub consistency: Consistency,
    pub timeout: Option<Duration>,
}

impl Node {
    /// Runs `decide` on the partition as it is between all other conditional writes, with the timestamp that its
    /// mutation has to carry. It may be called several times; the last call counts.
    pub(crate) async fn compare_and_set<T>(
        self: &Rc<Self>,
        attempt: Attempt<'_>,
        mut decide: impl FnMut(Option<&Partition>, i64) -> Result<Verdict<T>, QueryError>,
    ) -> Result<T, QueryError> {
        let Attempt { table, read, serial, consistency, timeout } = attempt;
        let token = Token::of_key(&read.key);
        let subject = Subject { token, table: table.id, key: read.key.clone() };
        let contention = timeout.unwrap_or(self.config.timeouts.cas);
        // For all steps: what one quorum promised, the next has to know of.
        let _ring = self.hold_ring();
        let level = serial.level();
        let required = self.requirement(&table.keyspace, level)?.required();
        let alone = self.write_plan(&table.keyspace, token, level)?.0.len() <= 1;
        // What a quorum has seen: reads at this level see every commit.
        let read_level = match serial {
            SerialConsistency::Serial => Consistency::Quorum,
            SerialConsistency::LocalSerial => Consistency::LocalQuorum,
        };
        let run = async {
            // Those of one shard take turns instead of refusing one another.
            let _turn = self.paxos_turns.lock(table.id, &read.key).await;
            let mut seen = Ballot::NONE;
            let mut pause_us = PAUSE_US;
            'ballots: loop {
                let time_us = self.next_timestamp().max(seen.time_us().saturating_add(1));
                let ballot = Ballot::at(time_us, reactor::random());
                let refused = 'refused: {
                    let answers = match self.paxos_round(table, &subject, Step::Prepare(ballot), level, timeout).await?
                    {
                        Round::Done(answers) => answers,
                        Round::Refused(newest) => break 'refused newest,
                    };
                    if self.finish_earlier(table, &subject, ballot, &answers, level, timeout).await? {
                        continue 'ballots;
                    }
                    let partition = self.read(table, token, read.clone(), read_level, timeout).await?;
                    let Verdict { value, mutation } = decide(partition.as_ref(), ballot.time_us())?;
                    if mutation.is_none() && alone {
                        return Ok(value);
                    }
                    // Proposing nothing settles that no earlier proposal can still come to pass.
                    let proposal = Proposal { ballot, mutation: mutation.unwrap_or_default() };
                    let propose = Step::Propose(proposal.clone());
                    if let Round::Refused(newest) = self.paxos_round(table, &subject, propose, level, timeout).await? {
                        break 'refused newest;
                    }
                    if !proposal.mutation.is_empty() {
                        self.paxos_round(table, &subject, Step::Commit(proposal), consistency, timeout).await?;
                    }
                    return Ok(value);
                };
                seen = seen.max(refused);
                time::sleep(Duration::from_micros(reactor::random() % pause_us)).await;
                pause_us = (pause_us * 2).min(PAUSE_US * 64);
            }
        };
        match time::timeout(contention, run).await {
            Ok(result) => result,
            Err(_) => Err(QueryError::write_timeout(level, 0, required, WriteType::Cas)),
        }
    }

    /// Reads a partition as it is between all conditional writes.
    pub(crate) async fn read_serial(
        self: &Rc<Self>,
        table: &Arc<TableDef>,
        read: ReadCommand,
        serial: SerialConsistency,
        timeout: Option<Duration>,
    ) -> Result<Option<Partition>, QueryError> {
        let attempt = Attempt { table, read, serial, consistency: Consistency::Any, timeout };
        self.compare_and_set(attempt, |partition, _| Ok(Verdict { value: partition.cloned(), mutation: None })).await
    }

    /// Completes a proposal that was left behind (then true: a new ballot is needed), and tells replicas of the newest
    /// commit if some have not heard of it.
    async fn finish_earlier(
        self: &Rc<Self>,
        table: &Arc<TableDef>,
        subject: &Subject,
        ballot: Ballot,
        answers: &[Answer],
        level: Consistency,
        timeout: Option<Duration>,
    ) -> Result<bool, QueryError> {
        let committed = answers.iter().filter_map(|answer| answer.state.committed.as_ref());
        let newest = committed.max_by_key(|proposal| proposal.ballot);
        let newest_ballot = newest.map_or(Ballot::NONE, |newest| newest.ballot);
        let left = answers.iter().filter_map(|answer| answer.state.accepted.as_ref());
        let left = left.filter(|left| left.ballot > newest_ballot).max_by_key(|left| left.ballot);
        if let Some(left) = left.filter(|left| !left.mutation.is_empty()) {
            let proposal = Proposal { ballot, mutation: left.mutation.clone() };
            let propose = Step::Propose(proposal.clone());
            if let Round::Done(_) = self.paxos_round(table, subject, propose, level, timeout).await? {
                self.paxos_round(table, subject, Step::Commit(proposal), level, timeout).await?;
            }
            return Ok(true);
        }
        let heard = |answer: &Answer| {
            answer.state.committed.as_ref().map_or(Ballot::NONE, |committed| committed.ballot) == newest_ballot
        };
        if let Some(newest) = newest.filter(|_| !answers.iter().all(heard)) {
            self.paxos_round(table, subject, Step::Commit(newest.clone()), level, timeout).await?;
        }
        Ok(false)
    }

    /// Sends a step to every live replica and waits until `level` is met, or a replica refuses.
    async fn paxos_round(
        self: &Rc<Self>,
        table: &Arc<TableDef>,
        subject: &Subject,
        step: Step,
        level: Consistency,
        timeout: Option<Duration>,
    ) -> Result<Round, QueryError> {
        reactor::charge(Work::CoordinateWrite, 0);
        let timeout = timeout.unwrap_or(self.config.timeouts.write);
        let _ring = self.hold_ring();
        let (replicas, requirement) = self.write_plan(&table.keyspace, subject.token, level)?;
        let mut decision = WriteDecision::begin(requirement, replicas, |node| self.is_alive(node))
            .map_err(|why| unavailable(level, why))?;
        self.trace(|| {
            let what = match &step {
                Step::Prepare(_) => "a ballot",
                Step::Propose(_) => "a proposal",
                Step::Commit(_) => "a commit",
            };
            format!("Sending {what} of Paxos to [{}]", self.addresses(decision.targets()))
        });
        let answers: Rc<Queue<(NodeIndex, Result<Answer, String>)>> = Queue::new();
        let mut payload = Vec::new();
        for target in decision.targets() {
            let answers = answers.clone();
            if target == self.me() {
                let (node, subject, step) = (self.clone(), subject.clone(), step.clone());
                reactor::run_or_spawn(Group::Statement, "paxos-local", async move {
                    let answer = paxos::step(&node, subject, step).await;
                    answers.push((target, answer));
                });
            } else if let Some(messenger) = self.messenger() {
                if payload.is_empty() {
                    payload = paxos::encode_step(subject, &step);
                }
                messenger.call_with(target, verb::PAXOS, &payload, timeout, move |answer| {
                    let answer = answer.map_err(|error| error.to_string());
                    answers.push((target, answer.and_then(paxos::decode_answer)));
                });
            }
        }
        let mut done = Vec::new();
        let mut cause = String::new();
        let collect = async {
            if decision.outcome() == Outcome::Done {
                return Ok(None);
            }
            loop {
                let Some((node, answer)) = answers.pop().await else { return Ok(None) };
                let outcome = match answer {
                    Ok(answer) if !answer.done => return Ok(Some(answer.state.promised)),
                    Ok(answer) => {
                        done.push(answer);
                        decision.on_ack(node)
                    }
                    Err(error) => {
                        cause = error;
                        decision.on_failure(node)
                    }
                };
                match outcome {
                    Outcome::Pending => {}
                    Outcome::Done => return Ok(None),
                    Outcome::Failed(shortfall) => return Err(shortfall),
                }
            }
        };
        let result = match time::timeout(timeout, collect).await {
            Ok(result) => result,
            Err(_) => match decision.on_timeout() {
                Outcome::Failed(shortfall) => Err(shortfall),
                _ => Ok(None),
            },
        };
        match result {
            Ok(Some(newest)) => Ok(Round::Refused(newest)),
            Ok(None) => Ok(Round::Done(done)),
            Err(shortfall) => Err(write_shortfall(shortfall, level, WriteType::Cas, &cause)),
        }
    }
}
