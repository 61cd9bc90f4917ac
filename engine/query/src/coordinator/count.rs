//! Counter updates: sent to one replica, which leads them and writes to the others.

use std::rc::Rc;

use cluster::NodeIndex;
use cql::Consistency;
use cql::response::WriteType;
use reactor::Work;
use storage::{Mutation, Partition};
use types::{TableDef, Token};

use crate::error::{ONE_FAILED, QueryError, write_shortfall};
use crate::node::Node;
use crate::replica::{self, verb};

impl Node {
    /// Adds to the counters of `partitions`, whose cells say how much. One partition after the other: an update that
    /// failed may have been counted or not, so that the fewer are under way the better.
    pub(crate) async fn count(
        self: &Rc<Self>,
        table: &TableDef,
        partitions: Vec<Partition>,
        consistency: Consistency,
    ) -> Result<(), QueryError> {
        for partition in partitions.into_iter().filter(|partition| !partition.is_empty()) {
            reactor::charge(Work::CoordinateWrite, 0);
            let token = Token::of_key(&partition.key);
            let bytes = Mutation::bytes(table, partition);
            let leader = self.leader(&table.keyspace, token, consistency)?;
            let failed = |cause: String| write_shortfall(ONE_FAILED, consistency, WriteType::Counter, &cause);
            if leader == self.me() {
                replica::count(self, token, bytes, consistency).await.map_err(failed)?;
                continue;
            }
            let Some(messenger) = self.messenger() else { return Err(failed("no connections yet".to_string())) };
            let payload = replica::encode_count(token, consistency, &bytes);
            let call = messenger.call(leader, verb::COUNT, &payload, self.config.timeouts.write);
            call.await.map_err(|error| failed(error.to_string()))?;
        }
        Ok(())
    }

    /// This node if it has the partition, else the first replica that is up.
    fn leader(&self, keyspace: &str, token: Token, consistency: Consistency) -> Result<NodeIndex, QueryError> {
        let replicas = self.replicas(keyspace, token)?;
        let nodes = replicas.nodes();
        let leader = nodes.iter().copied().find(|&node| node == self.me());
        let leader = leader.or_else(|| nodes.iter().copied().find(|&node| self.is_alive(node)));
        leader.ok_or_else(|| QueryError::unavailable(consistency, 1, 0))
    }
}
