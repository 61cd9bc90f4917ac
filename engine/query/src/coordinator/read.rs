//! Reads: from just enough replicas, this node first or those that answer sooner; their answers are merged cell by cell.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeIndex, Outcome, ReadDecision, ReplicaSet, Requirement};
use cql::Consistency;
use reactor::sync::Queue;
use reactor::{Group, Work, time};
use storage::{Partition, ReadCommand, ScanCommand};
use types::{TableDef, Token};

use super::unavailable;
use crate::counts::Coordinated;
use crate::error::{ONE_FAILED, QueryError, read_shortfall};
use crate::node::Node;
use crate::replica::{self, verb};

/// Where a scan of the whole ring has got to: behind this partition, or behind this row of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScanPosition {
    pub key: storage::Bytes,
    pub clustering: Option<storage::Clustering>,
}

/// A replica's answer to one read or scan, still encoded when it came from elsewhere.
type Answer<T> = (NodeIndex, Result<T, String>);

impl Node {
    /// Reads one partition. `None`: no replica has anything of it. `timeout` in place of the configured one.
    pub(crate) async fn read(
        self: &Rc<Self>,
        table: &Arc<TableDef>,
        token: Token,
        command: ReadCommand,
        consistency: Consistency,
        timeout: Option<Duration>,
    ) -> Result<Option<Partition>, QueryError> {
        let begun_ns = reactor::now();
        let result = async {
            reactor::charge(Work::CoordinateRead, 0);
            let _ring = self.hold_ring();
            let replicas = self.replicas(&table.keyspace, token)?;
            let requirement = self.requirement(&table.keyspace, consistency)?;
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                return Err(QueryError::read_timeout(consistency, 0, requirement.required(), false));
            }
            let mut decision = self.begin_read(requirement, replicas, token, consistency)?;
            if self.repairs_by_chance(table) {
                decision.ask_all_of(self.topology().local().dc);
            }
            self.trace(|| {
                let targets = self.addresses(decision.targets());
                format!("Reading {}.{} at token {} from [{targets}]", table.keyspace, table.name, token.0)
            });
            if requirement.required() <= 1 && timeout.is_none() && decision.targets().eq([self.me()]) {
                let read = replica::read(self, token, table.version, command).await;
                self.trace(|| "Read finished".to_string());
                return read.map_err(|cause| read_shortfall(ONE_FAILED, consistency, &cause));
            }
            let timeout = timeout.unwrap_or(self.config.timeouts.read);
            let payload = Rc::new(replica::encode_read(token, table.version, &command));
            let ask = |node: &Rc<Node>, target: NodeIndex, answers: &Rc<Queue<Answer<Option<Partition>>>>| {
                let answers = answers.clone();
                let timing = node.timing(target);
                if target == node.me() {
                    let (node, version, command) = (node.clone(), table.version, command.clone());
                    reactor::run_or_spawn(Group::Statement, "read-local", async move {
                        let answer = replica::read(&node, token, version, command).await;
                        timing();
                        answers.push((target, answer));
                    });
                } else if let Some(messenger) = node.messenger() {
                    messenger.call_with(target, verb::READ, &payload, timeout, move |answer| {
                        timing();
                        let answer = answer.map_err(|error| error.to_string()).and_then(replica::decode_answer);
                        answers.push((target, answer));
                    });
                }
            };
            let mut merged: Option<Partition> = None;
            self.gather(decision, consistency, timeout, ask, |partition, first| {
                let Some(partition) = partition else { return };
                if !first {
                    reactor::charge(Work::Reconcile, 0);
                }
                match &mut merged {
                    None => merged = Some(partition),
                    Some(merged) => merged.merge(partition, table),
                }
            })
            .await?;
            if let Some(merged) = &mut merged {
                merged.purge_shadowed(table);
            }
            Ok(merged)
        }
        .await;
        self.counts.took(Coordinated::Read, begun_ns);
        result
    }

    /// Reads partitions of a range of tokens in token order, merged over the replicas that hold the range.
    ///
    /// Gives at most about `command.limit_rows` rows, and whether there may be more behind the last of them.
    pub(crate) async fn scan_range(
        self: &Rc<Self>,
        table: &Arc<TableDef>,
        command: ScanCommand,
        consistency: Consistency,
        timeout: Option<Duration>,
    ) -> Result<(Vec<Partition>, bool), QueryError> {
        let begun_ns = reactor::now();
        let result = async {
            reactor::charge(Work::CoordinateRead, 0);
            let _ring = self.hold_ring();
            let replicas = self.replicas(&table.keyspace, command.tokens.1)?;
            let requirement: Requirement = self.requirement(&table.keyspace, consistency)?;
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                return Err(QueryError::read_timeout(consistency, 0, requirement.required(), false));
            }
            let decision = self.begin_read(requirement, replicas, command.tokens.1, consistency)?;
            self.trace(|| {
                let targets = self.addresses(decision.targets());
                format!("Scanning a range of {}.{} from [{targets}]", table.keyspace, table.name)
            });
            let timeout = timeout.unwrap_or(self.config.timeouts.range);
            let payload = Rc::new(replica::encode_scan(table.version, &command));
            let ask = |node: &Rc<Node>, target: NodeIndex, answers: &Rc<Queue<Answer<(Vec<Partition>, bool)>>>| {
                let answers = answers.clone();
                if target == node.me() {
                    let (node, version, command) = (node.clone(), table.version, command.clone());
                    reactor::run_or_spawn(Group::Statement, "scan-local", async move {
                        let answer = replica::scan(&node, version, command).await;
                        answers.push((target, answer));
                    });
                } else if let Some(messenger) = node.messenger() {
                    messenger.call_with(target, verb::SCAN, &payload, timeout, move |answer| {
                        let answer = answer.map_err(|error| error.to_string()).and_then(replica::decode_scanned);
                        answers.push((target, answer));
                    });
                }
            };
            let mut answers: Vec<(Vec<Partition>, bool)> = Vec::new();
            self.gather(decision, consistency, timeout, ask, |answer, _| answers.push(answer)).await?;
            Ok(merge_scans(answers, table))
        }
        .await;
        self.counts.took(Coordinated::Scan, begun_ns);
        result
    }

    fn begin_read(
        &self,
        requirement: Requirement,
        replicas: ReplicaSet,
        token: Token,
        consistency: Consistency,
    ) -> Result<ReadDecision, QueryError> {
        let local = (self.me(), self.topology().local().dc);
        let mut snitch = self.snitch.as_ref().map(|snitch| snitch.borrow_mut());
        if let Some(snitch) = &mut snitch {
            snitch.update(reactor::now());
        }
        ReadDecision::begin(requirement, replicas, local, token.0 as u64, snitch.as_deref(), |node| self.is_alive(node))
            .map_err(|why| unavailable(consistency, why))
    }

    /// Whether this read of the table is one of those that ask more replicas than they need.
    fn repairs_by_chance(&self, table: &TableDef) -> bool {
        let chance = table.options.other.get("dclocal_read_repair_chance").and_then(|chance| chance.parse().ok());
        reactor::chance(chance.unwrap_or(self.config.read_repair_chance))
    }

    /// To be called when `target` has answered what it is about to be asked: the snitch learns how long it took.
    fn timing(&self, target: NodeIndex) -> impl FnOnce() + use<> {
        let begun = self.snitch.clone().map(|snitch| (snitch, reactor::now()));
        move || {
            if let Some((snitch, asked_ns)) = begun {
                let now_ns = reactor::now();
                snitch.borrow_mut().record(target, now_ns, now_ns - asked_ns, reactor::random());
            }
        }
    }

    /// Asks the decision's targets, and spares when some fail, until the level is met; gives every answer to `take`.
    async fn gather<T>(
        self: &Rc<Self>,
        decision: ReadDecision,
        consistency: Consistency,
        timeout: Duration,
        ask: impl Fn(&Rc<Node>, NodeIndex, &Rc<Queue<Answer<T>>>),
        mut take: impl FnMut(T, bool),
    ) -> Result<(), QueryError> {
        let answers: Rc<Queue<Answer<T>>> = Queue::new();
        for target in decision.targets() {
            ask(self, target, &answers);
        }
        let state = RefCell::new((decision, String::new()));
        let collect = async {
            let mut first = true;
            loop {
                let Some((node, answer)) = answers.pop().await else { return Outcome::Pending };
                self.trace(|| {
                    let what = if answer.is_ok() { "a response" } else { "a failure" };
                    format!("Got {what} from {}", self.topology().node(node).address)
                });
                let (decision, cause) = &mut *state.borrow_mut();
                let outcome = match answer {
                    Ok(answer) => {
                        take(answer, first);
                        first = false;
                        decision.on_ack(node, true)
                    }
                    Err(error) => {
                        *cause = error;
                        let outcome = decision.on_failure(node);
                        if decision.wants_spare()
                            && let Some(spare) = decision.next_spare()
                        {
                            ask(self, spare, &answers);
                        }
                        outcome
                    }
                };
                if outcome != Outcome::Pending {
                    return outcome;
                }
            }
        };
        let outcome = match time::timeout(timeout, collect).await {
            Ok(outcome) => outcome,
            Err(_) => state.borrow_mut().0.on_timeout(),
        };
        match outcome {
            Outcome::Failed(shortfall) => Err(read_shortfall(shortfall, consistency, &state.into_inner().1)),
            _ => Ok(()),
        }
    }
}

/// Merges the replicas' answers to one scan. An answer that was cut short says nothing of what lies behind its last
/// row, so everything behind the earliest such cut is left for the next page.
fn merge_scans(mut answers: Vec<(Vec<Partition>, bool)>, table: &TableDef) -> (Vec<Partition>, bool) {
    if answers.len() < 2 {
        return answers.pop().unwrap_or_default();
    }
    let order = |p: &Partition| (Token::of_key(&p.key), p.key.clone());
    let cut = answers
        .iter()
        .filter(|(_, more)| *more)
        .filter_map(|(partitions, _)| {
            let last = partitions.last()?;
            Some((order(last), last.rows.last().map(|row| row.clustering.clone())))
        })
        .min_by(|(a, a_row), (b, b_row)| {
            a.cmp(b).then_with(|| match (a_row, b_row) {
                (Some(a), Some(b)) => a.compare(b, table),
                (a, b) => a.is_some().cmp(&b.is_some()),
            })
        });
    let mut all: Vec<((Token, storage::Bytes), Partition)> =
        answers.into_iter().flat_map(|(partitions, _)| partitions).map(|p| (order(&p), p)).collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    let mut merged: Vec<Partition> = Vec::new();
    for (at, mut partition) in all {
        if let Some((cut_at, cut_row)) = &cut {
            if at > *cut_at {
                break;
            }
            if at == *cut_at
                && let Some(cut_row) = cut_row
            {
                partition.rows.retain(|row| row.clustering.compare(cut_row, table).is_le());
            }
        }
        match merged.last_mut().filter(|last| last.key == partition.key) {
            Some(last) => last.merge(partition, table),
            None => merged.push(partition),
        }
    }
    for partition in &mut merged {
        partition.purge_shadowed(table);
    }
    (merged, cut.is_some())
}
