//! What the members do for a node that joins: they let it in, and take each of its steps.

use std::rc::Rc;

use cluster::{CallError, Joined, MAX_REPLICAS, NodeConfig, NodeIndex, NodeState, Topology};

use super::{KEEPER, Member, STEP_TIMEOUT, check_reachable, record};
use crate::node::Node;
use crate::replica::verb;
use crate::schema::agreement;

/// What a node says that wants to join.
pub(super) struct Application<'a> {
    pub cluster_name: &'a str,
    pub config: NodeConfig,
}

const APPLIES: &str = "orrery join 1";

pub(super) fn encode_application(cluster_name: &str, config: &NodeConfig) -> String {
    format!("{APPLIES}\n{}\n{cluster_name}", record::encode(config))
}

fn decode_application(text: &str) -> Result<Application<'_>, String> {
    let wrong = || "this is no application to join: both nodes have to be of the same release".to_string();
    let mut parts = text.splitn(3, '\n');
    let (Some(APPLIES), Some(config), Some(cluster_name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(wrong());
    };
    Ok(Application { cluster_name, config: record::decode(config)? })
}

/// The nodes that the cluster started with, and the document.
pub(super) fn encode_answer(starting: &[NodeConfig], document: &str) -> String {
    let nodes: Vec<String> = starting.iter().map(|config| record::encode(config) + "\n").collect();
    format!("{}\n{}{document}", nodes.len(), nodes.concat())
}

pub(super) fn decode_answer(text: &str) -> Result<(Vec<NodeConfig>, &str), String> {
    let wrong = || "the answer of the cluster's node is cut short".to_string();
    let (count, mut rest) = text.split_once('\n').ok_or_else(wrong)?;
    let mut starting = Vec::new();
    for _ in 0..count.parse().map_err(|_| wrong())? {
        let (line, behind) = rest.split_once('\n').ok_or_else(wrong)?;
        starting.push(record::decode(line)?);
        rest = behind;
    }
    Ok((starting, rest))
}

pub(super) fn encode_step(host_id: u128, state: NodeState) -> Vec<u8> {
    let mut bytes = host_id.to_be_bytes().to_vec();
    bytes.push(state as u8);
    bytes
}

pub(crate) fn decode_step(bytes: &[u8]) -> Option<(u128, NodeState)> {
    let (id, state) = bytes.split_first_chunk::<16>()?;
    match state {
        [state] => Some((u128::from_be_bytes(*id), record::state_of(*state)?)),
        _ => None,
    }
}

/// Brings an application to the node that keeps the list, from whichever was asked.
pub(crate) async fn forward(node: &Rc<Node>, application: &[u8]) -> Result<Vec<u8>, String> {
    if node.me() == KEEPER {
        return admit(node, application).await;
    }
    let topology = node.topology();
    let keeper = topology.node(KEEPER).address;
    let down = || format!("{keeper} is down, which keeps the list of nodes: start it, then this node again");
    let messenger = node.messenger().ok_or_else(down)?;
    let answer = messenger.call(KEEPER, verb::ADMIT, application, STEP_TIMEOUT).await;
    match answer {
        Ok(answer) => Ok(answer.to_vec()),
        Err(CallError::Remote { text, .. }) => Err(text),
        Err(CallError::Unreachable) => Err(down()),
        Err(error) => Err(format!("{keeper}, which keeps the list of nodes: {error}; start this node again")),
    }
}

/// Lets a node in, or says why not; on shard 0 of the keeper. Everybody has to know of it before it gets an answer.
pub(crate) async fn admit(node: &Rc<Node>, application: &[u8]) -> Result<Vec<u8>, String> {
    let text = String::from_utf8_lossy(application).into_owned();
    let Application { cluster_name, config } = decode_application(&text)?;
    let ours = &node.config.cluster_name;
    if cluster_name != ours {
        return Err(format!(
            "this cluster is called {ours}, and the node wants to join {cluster_name}: give both the same cluster name"
        ));
    }
    let members = agreement::members().map_err(|error| error.message)?;
    let known = check_admissible(&node.topology(), &config)?;
    check_all_up(node, None)?;
    if !known {
        let number = members.keys().last().map_or(0, |last| last + 1);
        let member = Member { number, joined: Joined { state: NodeState::Known, config } };
        check_ring(node, &members.values().cloned().chain([member.clone()]).collect::<Vec<_>>())?;
        agreement::record_member(node, &member).await.map_err(|error| error.message)?;
        tracing::info!(address = %member.joined.config.address, "a node is let in, to join");
    }
    tell_all(node, None).await?;
    let document = agreement::render().map_err(|error| error.message)?;
    Ok(encode_answer(&node.starting, &document).into_bytes())
}

/// Whether the node is known already, and may try again.
fn check_admissible(topology: &Topology, config: &NodeConfig) -> Result<bool, String> {
    let (address, host_id) = (config.address, record::host_id(config));
    if let Some(joining) = topology.joining().filter(|joining| joining.host_id != host_id) {
        return Err(format!(
            "{} is joining already, and one node joins at a time: start this one when that has joined",
            joining.address
        ));
    }
    if let Some(known) = topology.by_host_id(host_id) {
        let may_try_again = [NodeState::Known, NodeState::Joining].contains(&known.state) && known.address == address;
        return match may_try_again {
            true => Ok(true),
            false => Err(format!(
                "the cluster has a node with the host id {host_id:032x} already, {}: a member is started without --join, on \
                 its own data",
                known.address
            )),
        };
    }
    match topology.by_address(address) {
        Some(known) => Err(format!(
            "the cluster has a node at {address} already, with the host id {:032x}: give the new one another address",
            known.host_id
        )),
        None => Ok(false),
    }
}

/// Whether the ring can be as it will be.
fn check_ring(node: &Node, members: &[Member]) -> Result<(), String> {
    let to_come: Vec<Joined> = members
        .iter()
        .map(|member| match member.joined.state {
            NodeState::Known => Joined { state: NodeState::Joining, ..member.joined.clone() },
            _ => member.joined.clone(),
        })
        .collect();
    let local = node.topology().local().address;
    let topology = Topology::with_joined(&node.starting, &to_come, local)
        .map_err(|error| format!("there is no ring with the node: {error}; give it another address"))?;
    for (keyspace, replication) in node.schema().replications() {
        let map = topology.replication_map(replication);
        let map = map.map_err(|error| format!("keyspace {keyspace}: {error}; lower its replication factor first"))?;
        let ranges = map.other().into_iter().flat_map(|other| other.describe());
        if ranges.into_iter().any(|(range, set)| map.replicas(range.end).len() + set.len().min(1) > MAX_REPLICAS) {
            return Err(format!(
                "keyspace {keyspace} has {MAX_REPLICAS} replicas, and there cannot be one more while a node joins: lower its \
                 replication factor first"
            ));
        }
    }
    Ok(())
}

/// Whom a step concerns beside this node: full members, and with a node that joins all that are on the way, and that.
fn others(node: &Node, joining: Option<u128>) -> Vec<NodeIndex> {
    let topology = node.topology();
    let others = topology.nodes().iter().filter(|other| match joining {
        None => other.state == NodeState::Normal,
        Some(host_id) => other.state != NodeState::Known || other.host_id == host_id,
    });
    others.map(|other| other.index).filter(|&index| index != node.me()).collect()
}

fn check_all_up(node: &Node, joining: Option<u128>) -> Result<(), String> {
    let topology = node.topology();
    // Whom an application is about may be starting again, and is not among them.
    match others(node, joining).into_iter().find(|&other| !node.is_alive(other)) {
        None => Ok(()),
        Some(down) => Err(format!(
            "{} is down, and every node has to hear of one that joins: start it, then the new node again",
            topology.node(down).address
        )),
    }
}

/// Sends our document to all, who have to answer that they have taken it over.
async fn tell_all(node: &Rc<Node>, joining: Option<u128>) -> Result<(), String> {
    let Some(messenger) = node.messenger() else { return Ok(()) };
    let topology = node.topology();
    let document = agreement::render().map_err(|error| error.message)?;
    let calls: Vec<_> = others(node, joining)
        .into_iter()
        .map(|index| (index, messenger.call(index, verb::SCHEMA_PUSH, document.as_bytes(), STEP_TIMEOUT)))
        .collect();
    for (index, call) in calls {
        call.await.map_err(|error| {
            let address = topology.node(index).address;
            format!("{address} has not taken over the list of nodes: {error}; start the new node again")
        })?;
    }
    Ok(())
}

/// Takes the next step of a node that joins, on shard 0 of the keeper. Done again, it does nothing new.
pub(crate) async fn advance(node: &Rc<Node>, host_id: u128, to: NodeState) -> Result<(), String> {
    if node.me() != KEEPER {
        return Err(format!("{} does not keep the list of nodes", node.topology().local().address));
    }
    let members = agreement::members().map_err(|error| error.message)?;
    let member = members.into_values().find(|member| member.host_id() == host_id);
    let mut member = member.ok_or("the node is not known here: start it anew, on an empty folder")?;
    check_all_up(node, Some(host_id))?;
    let from = member.joined.state;
    if from != to {
        let follows = from as u8 + 1 == to as u8;
        if !follows {
            return Err(format!("a node that is {from:?} cannot become {to:?}: start it again"));
        }
        if let Some(joining) = node.topology().joining().filter(|joining| joining.host_id != host_id) {
            return Err(format!("{} is joining, and one node joins at a time", joining.address));
        }
        member.joined.state = to;
        check_reachable(node, &[(member.number, member.clone())].into()).map_err(|error| error.message)?;
        agreement::record_member(node, &member).await.map_err(|error| error.message)?;
        tracing::info!(address = %member.joined.config.address, state = ?to, "a node that joins is a step further");
    }
    tell_all(node, Some(host_id)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(last: u8) -> NodeConfig {
        NodeConfig { num_tokens: 4, ..NodeConfig::new([10, 0, 0, last].into()) }
    }

    fn topology(joined: &[(u8, NodeState)]) -> Topology {
        let joined: Vec<Joined> =
            joined.iter().map(|(last, state)| Joined { state: *state, config: config(*last) }).collect();
        Topology::with_joined(&[config(1), config(2)], &joined, [10, 0, 0, 1].into()).unwrap()
    }

    #[test]
    fn who_may_join() {
        let check = |joined: &[(u8, NodeState)], config: &NodeConfig, expect: Result<bool, &str>| {
            let result = check_admissible(&topology(joined), config);
            match expect {
                Ok(known) => assert_eq!(result, Ok(known)),
                Err(text) => assert!(result.clone().is_err_and(|error| error.contains(text)), "{result:?}"),
            }
        };
        check(&[], &config(3), Ok(false));
        check(&[(3, NodeState::Known)], &config(3), Ok(true));
        check(&[(3, NodeState::Joining)], &config(3), Ok(true));
        check(&[(3, NodeState::Known)], &config(4), Ok(false));
        check(&[(3, NodeState::Joining)], &config(4), Err("10.0.0.3 is joining already"));
        check(&[(3, NodeState::Settling)], &config(4), Err("one node joins at a time"));
        check(&[(3, NodeState::Normal)], &config(3), Err("without --join"));
        check(&[], &config(2), Err("10.0.0.2"));
        check(&[], &NodeConfig { host_id: Some(5), ..config(2) }, Err("another address"));
        let twin = NodeConfig { host_id: Some(cluster::host_id_of(config(2).address)), ..config(9) };
        check(&[], &twin, Err("has a node with the host id"));
    }

    #[test]
    fn messages_come_back() {
        let text = encode_application("A b\nc", &config(3));
        let application = decode_application(&text).unwrap();
        assert_eq!((application.cluster_name, application.config.address), ("A b\nc", config(3).address));
        assert!(decode_application("GET / HTTP/1.1").is_err());
        let answer = encode_answer(&[config(1), config(2)], "1 keyspace ks x\n");
        let (starting, document) = decode_answer(&answer).unwrap();
        assert_eq!((starting.len(), document), (2, "1 keyspace ks x\n"));
        assert!(decode_answer("2\nrubbish").is_err());
        assert_eq!(decode_step(&encode_step(7, NodeState::Settling)), Some((7, NodeState::Settling)));
        assert_eq!(decode_step(&[0; 16]), None);
    }
}
