//! Writes: to every live replica, answered as soon as enough have it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use cluster::{NodeIndex, Outcome, Shortfall, WriteDecision};
use cql::Consistency;
use cql::response::WriteType;
use reactor::sync::Once;
use reactor::{Group, Work, time};
use types::Token;

use super::unavailable;
use crate::counts::Coordinated;
use crate::error::{ONE_FAILED, QueryError, write_shortfall};
use crate::node::Node;
use crate::replica::{self, verb};

/// One write under way: the answers so far, and who waits for them.
struct Pending {
    decision: RefCell<WriteDecision>,
    decided: Rc<Once<Result<(), Shortfall>>>,
    done: Cell<bool>,
    /// The last cause that a replica gave, for the error's text.
    cause: RefCell<String>,
    _ring: Rc<()>,
}

impl Pending {
    fn record(&self, node: NodeIndex, result: Result<(), String>) {
        let mut decision = self.decision.borrow_mut();
        let outcome = match result {
            Ok(()) => decision.on_ack(node),
            Err(cause) => {
                *self.cause.borrow_mut() = cause;
                decision.on_failure(node)
            }
        };
        self.settle(outcome);
    }

    fn settle(&self, outcome: Outcome) {
        let result = match outcome {
            Outcome::Pending => return,
            Outcome::Done => Ok(()),
            Outcome::Failed(shortfall) => Err(shortfall),
        };
        if !self.done.replace(true) {
            self.decided.set(result);
        }
    }
}

impl Node {
    /// Writes an encoded mutation whose partition has `token`. `timeout` in place of the configured one.
    pub(crate) async fn write(
        self: &Rc<Self>,
        keyspace: &str,
        token: Token,
        mutation: Vec<u8>,
        consistency: Consistency,
        kind: WriteType,
        timeout: Option<Duration>,
    ) -> Result<(), QueryError> {
        let begun_ns = reactor::now();
        let result = async {
            reactor::charge(Work::CoordinateWrite, 0);
            let ring = self.hold_ring();
            let (replicas, requirement) = self.write_plan(keyspace, token, consistency)?;
            if timeout.is_some_and(|timeout| timeout.is_zero()) {
                return Err(QueryError::write_timeout(consistency, 0, requirement.required(), kind));
            }
            if replicas.nodes() == [self.me()] && requirement.required() <= 1 && timeout.is_none() {
                self.trace(|| format!("Executing a mutation locally for token {}", token.0));
                // The only replica is here: nothing to count, nobody to time out.
                let applied = replica::apply(self, token, mutation).await;
                self.trace(|| "Mutation finished".to_string());
                return applied.map_err(|cause| write_shortfall(ONE_FAILED, consistency, kind, &cause));
            }
            let decision = WriteDecision::begin(requirement, replicas, |node| self.is_alive(node))
                .map_err(|why| unavailable(consistency, why))?;
            let pending = Rc::new(Pending {
                decided: Once::new(),
                done: Cell::new(false),
                cause: RefCell::new(String::new()),
                decision: RefCell::new(decision),
                _ring: ring,
            });
            self.trace(|| {
                let targets = self.addresses(decision.targets());
                format!("Sending a mutation for token {} to [{targets}], for consistency {consistency}", token.0)
            });
            self.send_to_replicas(&pending, decision, token, mutation);
            let timeout = timeout.unwrap_or(self.config.timeouts.write);
            let answer = time::timeout(timeout, pending.decided.take()).await;
            let answer = answer.unwrap_or_else(|_| match pending.decision.borrow_mut().on_timeout() {
                Outcome::Failed(shortfall) => Err(shortfall),
                _ => Ok(()),
            });
            self.trace(|| format!("Mutation {}", if answer.is_ok() { "finished" } else { "failed" }));
            answer.map_err(|shortfall| write_shortfall(shortfall, consistency, kind, &pending.cause.take()))
        }
        .await;
        self.counts.took(Coordinated::Write, begun_ns);
        result
    }

    /// Refuses a write that too few replicas are alive for, before anything of it is done.
    pub(crate) fn assure_alive(
        &self,
        keyspace: &str,
        token: Token,
        consistency: Consistency,
    ) -> Result<(), QueryError> {
        let (replicas, requirement) = self.write_plan(keyspace, token, consistency)?;
        let begun = WriteDecision::begin(requirement, replicas, |node| self.is_alive(node));
        begun.map(drop).map_err(|why| unavailable(consistency, why))
    }

    fn send_to_replicas(
        self: &Rc<Self>,
        pending: &Rc<Pending>,
        decision: WriteDecision,
        token: Token,
        mutation: Vec<u8>,
    ) {
        let messenger = self.messenger();
        let mut local = false;
        let mut payload = Vec::new();
        for target in decision.targets() {
            if target == self.me() {
                local = true;
                continue;
            }
            let Some(messenger) = &messenger else { continue };
            if payload.is_empty() {
                payload = replica::encode_mutate(token, &mutation);
            }
            let pending = pending.clone();
            messenger.call_with(target, verb::MUTATE, &payload, self.config.timeouts.write, move |answer| {
                pending.record(target, answer.map(drop).map_err(|error| error.to_string()));
            });
        }
        if local {
            let (node, pending) = (self.clone(), pending.clone());
            reactor::run_or_spawn(Group::Statement, "write-local", async move {
                let result = replica::apply(&node, token, mutation).await;
                pending.record(node.me(), result);
            });
        }
    }
}
