//! Nodes that join a running cluster.
//!
//! Which nodes there are beside those that the cluster started with is part of the schema document, a record for each.
//! One node writes these records, the first of the starting list, so that there is one order of what happens; all
//! others merge them as they merge the schema. A node that joins goes through four states, and takes each step only
//! when all nodes have made the last one durable and have no request under way that began before it:
//!
//! 1. *Known*: the others connect to it. It has their document, and no part in the ring.
//! 2. *Joining*: what is written goes to the replicas as they are and to it, and needs an answer more. It fetches what
//!    was written before (`stream`), from the replica that leaves each range.
//! 3. *Settling*: it is read. What is written goes on to both, for some may still read as before.
//! 4. *Normal*: only the new ring counts. It serves clients, and they are told of it.
//!
//! So whatever a quorum has acknowledged, any quorum finds, by whichever ring it reads. A node that ends on the way
//! takes up again at the state that it was in; what it had fetched by then it fetches once more, which changes nothing.
//!
//! - `record`: a node as text. `admission`: what the members do. `join`: what the node does that joins.

pub(crate) mod admission;
pub mod join;
mod record;
pub(crate) mod stream;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use cluster::{NodeIndex, NodeState};

pub(crate) use record::Member;

use crate::error::{self, QueryError};
use crate::node::Node;

/// All requests that began before a step have their own timeouts, the longest of which is that of scans.
const STEP_TIMEOUT: Duration = Duration::from_secs(60);

/// Who writes the records.
const KEEPER: NodeIndex = NodeIndex(0);

/// Refuses a node that is to be written to and cannot be reached from here: writes would fail for want of its answer.
pub(crate) fn check_reachable(node: &Rc<Node>, members: &BTreeMap<u16, Member>) -> Result<(), QueryError> {
    let topology = node.topology();
    for member in members.values().filter(|member| member.joined.state == NodeState::Joining) {
        let Some(known) = topology.by_host_id(member.host_id()) else { continue };
        if known.state == NodeState::Known && !node.is_alive(known.index) {
            return Err(error::server(format!(
                "{} does not reach {} yet, which wants to join",
                topology.local().address,
                known.address
            )));
        }
    }
    Ok(())
}
