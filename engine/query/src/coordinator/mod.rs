//! The coordinator: sends a statement's work to the replicas and answers when its consistency level is met.

pub(crate) mod batch_log;
mod count;
mod paxos;
mod read;
mod truncate;
mod write;

use cluster::{Level, NodeIndex, ReplicaSet, Requirement};
use cql::Consistency;
use types::Token;

use crate::error::QueryError;
use crate::node::Node;

pub(crate) use paxos::{Attempt, Verdict};
pub(crate) use read::ScanPosition;

/// The decider's name of a protocol level.
fn level(consistency: Consistency) -> Level {
    match consistency {
        Consistency::Any => Level::Any,
        Consistency::One => Level::One,
        Consistency::Two => Level::Two,
        Consistency::Three => Level::Three,
        Consistency::Quorum => Level::Quorum,
        Consistency::All => Level::All,
        Consistency::LocalQuorum => Level::LocalQuorum,
        Consistency::EachQuorum => Level::EachQuorum,
        Consistency::Serial => Level::Serial,
        Consistency::LocalSerial => Level::LocalSerial,
        Consistency::LocalOne => Level::LocalOne,
    }
}

fn unavailable(consistency: Consistency, why: cluster::Unavailable) -> QueryError {
    QueryError::unavailable(consistency, why.required, why.alive)
}

impl Node {
    /// Of nodes, as a trace tells them.
    fn addresses(&self, nodes: impl Iterator<Item = NodeIndex>) -> String {
        nodes.map(|node| self.topology().node(node).address.to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Who is written to, and how many of them have to answer: while a node joins, replicas of both rings.
    fn write_plan(
        &self,
        keyspace: &str,
        token: Token,
        consistency: Consistency,
    ) -> Result<(ReplicaSet, Requirement), QueryError> {
        let map = self.replication(keyspace)?;
        let replicas = map.replicas(token);
        let requirement = Requirement::new(level(consistency), map.replication(), &self.topology());
        let further = map.further(token);
        if further.is_empty() {
            return Ok((replicas, requirement));
        }
        Ok((replicas.with(&further), requirement.with_further(&further)))
    }

    fn requirement(&self, keyspace: &str, consistency: Consistency) -> Result<Requirement, QueryError> {
        let replication = self.replication(keyspace)?;
        Ok(Requirement::new(level(consistency), replication.replication(), &self.topology()))
    }
}
