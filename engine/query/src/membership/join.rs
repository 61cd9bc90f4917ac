//! What a node does that joins.

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cluster::messaging::{AskError, ask};
use cluster::{NodeConfig, NodeState};
use reactor::{fs, time};

use super::{KEEPER, STEP_TIMEOUT, admission, record, stream};
use crate::node::Node;
use crate::replica::verb;
use crate::schema::agreement::{self, LoadError};

/// The nodes that the cluster started with, in the folder of a node that joined it.
const STARTING_FILE: &str = "starting-nodes";
/// Between two attempts at what another node has to be there for.
const AGAIN: Duration = Duration::from_secs(1);
/// How often to look whether the others are there and agree: short against a join.
const LOOK: Duration = Duration::from_millis(10);

/// Why a node cannot join.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    #[error("{0}; give --join the address of a node of the cluster that runs")]
    Member(AskError),
    #[error("the cluster does not let this node join: {0}")]
    Refused(String),
    #[error("{folder} has data of another cluster: a node joins with an empty folder")]
    HasData { folder: String },
    #[error("{path}: {cause}")]
    File { path: String, cause: std::io::Error },
    #[error(transparent)]
    Schema(#[from] LoadError),
    #[error("{0}")]
    Content(String),
    #[error("the data of this node's ranges could not be fetched: {0}; start the node again, it begins anew")]
    Stream(String),
    #[error("storage: {0}")]
    Storage(String),
}

/// The list of starting nodes that a node keeps which has joined, or begun to.
pub async fn starting_nodes(data_dir: &str) -> Result<Option<Vec<NodeConfig>>, JoinError> {
    let path = format!("{data_dir}/{STARTING_FILE}");
    let bytes = match fs::read(&path).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(JoinError::File { path, cause }),
    };
    let text = String::from_utf8_lossy(&bytes);
    let nodes: Result<Vec<_>, _> = text.lines().map(record::decode).collect();
    nodes.map(Some).map_err(|cause| JoinError::Content(format!("{path}: {cause}")))
}

/// Asks `member` to be let into its cluster, on shard 0 before anything else. What the cluster answers is in the folder
/// afterwards. Does nothing where the node was let in before.
pub async fn enter(
    data_dir: &str,
    cluster_name: &str,
    member: SocketAddr,
    config: &NodeConfig,
) -> Result<(), JoinError> {
    let (document, schema) = agreement::load(data_dir).await?;
    let starting = starting_nodes(data_dir).await?;
    let is_known = schema.joined.iter().any(|joined| joined.config.address == config.address);
    if starting.is_some() && is_known {
        return Ok(());
    }
    if starting.is_none() && !document.is_empty() {
        return Err(JoinError::HasData { folder: data_dir.to_string() });
    }
    let application = admission::encode_application(cluster_name, config);
    let answer = ask(member, Some(config.address), application.as_bytes(), STEP_TIMEOUT).await;
    let answer = answer.map_err(|error| match error {
        AskError::Refused(sentence) => JoinError::Refused(sentence),
        error => JoinError::Member(error),
    })?;
    let text = String::from_utf8_lossy(&answer);
    let (starting, document) = admission::decode_answer(&text).map_err(JoinError::Content)?;
    let starting: String = starting.iter().map(|config| record::encode(config) + "\n").collect();
    for (name, content) in [(STARTING_FILE, starting.as_str()), (agreement::FILE, document)] {
        let replaced = fs::replace(data_dir, name, content.as_bytes()).await;
        replaced.map_err(|cause| JoinError::File { path: format!("{data_dir}/{name}"), cause })?;
    }
    Ok(())
}

/// Takes the node from whichever state it is in to a normal member, on shard 0. Its messenger runs; clients are not
/// served.
pub async fn take_part(node: &Rc<Node>) -> Result<(), JoinError> {
    loop {
        let state = node.topology().local().state;
        match state {
            NodeState::Known => {
                agree(node).await;
                advance(node, NodeState::Joining).await;
            }
            NodeState::Joining => {
                agree(node).await;
                stream::fetch_all(node).await.map_err(JoinError::Stream)?;
                let flush = |node: Rc<Node>| async move { node.storage.flush(None).await };
                let flushed = node.on_every_shard("join-flush", flush).await;
                for shard in flushed.map_err(|error| JoinError::Storage(error.to_string()))? {
                    shard.map_err(|error| JoinError::Storage(error.to_string()))?;
                }
                advance(node, NodeState::Settling).await;
            }
            NodeState::Settling => advance(node, NodeState::Normal).await,
            NodeState::Normal => return Ok(()),
        }
    }
}

/// Waits until all members are there and have this node's document.
async fn agree(node: &Rc<Node>) {
    let Some(messenger) = node.messenger() else { return };
    let mut told_ns = reactor::now();
    loop {
        let topology = node.topology();
        let down = topology.members().find(|other| !node.is_alive(other.index));
        if down.is_none() && messenger.schema_agrees() {
            return;
        }
        if reactor::now() - told_ns > STEP_TIMEOUT.as_nanos() as u64 / 6 {
            told_ns = reactor::now();
            match down {
                Some(down) => tracing::warn!(address = %down.address, "to join, this node waits for one that is down"),
                None => tracing::warn!("to join, this node waits until all agree on the schema"),
            }
        }
        time::sleep(LOOK).await;
    }
}

/// Asks for the next state until all have taken it over, and it is known here.
async fn advance(node: &Rc<Node>, to: NodeState) {
    let payload = admission::encode_step(node.topology().local().host_id, to);
    let mut told = String::new();
    loop {
        let Some(messenger) = node.messenger() else { return };
        match messenger.call(KEEPER, verb::ADVANCE, &payload, 2 * STEP_TIMEOUT).await {
            Ok(_) if node.topology().local().state >= to => return,
            Ok(_) => {}
            Err(error) => {
                let cause = error.to_string();
                if told != cause {
                    tracing::warn!(state = ?to, cause, "this node cannot take its next step yet; it tries again");
                    told = cause;
                }
            }
        }
        time::sleep(AGAIN).await;
    }
}
