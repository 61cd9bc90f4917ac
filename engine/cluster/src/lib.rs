//! Ring, replication, messages between nodes, schema agreement.
//!
//! - [`topology`]: who the nodes are and which of them replicate a token; pure, the same on every node that knows the
//!   same nodes.
//! - [`quorum`]: how many answers a consistency level needs and what each answer decides; pure.
//! - [`snitch`]: which replicas answered reads sooner, and are asked first.
//! - [`messaging`]: requests between nodes, who is alive, which schema each node has.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod messaging;
pub mod quorum;
pub mod snitch;
pub mod topology;

pub use messaging::{CallError, Handler, Incoming, Messenger, MessengerConfig, Payload, Reply, Response, Verb};
pub use quorum::{Level, Outcome, ReadDecision, Requirement, Shortfall, Unavailable, WriteDecision};
pub use snitch::{Snitch, SnitchConfig};
pub use topology::{
    DcIndex, Joined, MAX_REPLICAS, Node, NodeConfig, NodeIndex, NodeState, ReplicaSet, ReplicationMap, Takeover,
    TokenRange, Topology, TopologyError, fraction, host_id_of, takeovers,
};
