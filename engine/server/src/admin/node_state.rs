//! `storage_service`: the node itself and its place in the cluster.

use std::rc::Rc;

use cluster::NodeState;
use query::Node;
use serde_json::{Value, json};
use types::Token;

use super::http::{Method, Request};
use super::{Answer, Refusal, tables};

fn uuid(id: u128) -> String {
    types::uuid::to_text(&id.to_be_bytes())
}

fn pairs(pairs: impl Iterator<Item = (String, Value)>) -> Value {
    pairs.map(|(key, value)| json!({ "key": key, "value": value })).collect()
}

async fn load(node: &Node) -> Result<u64, Refusal> {
    Ok(tables::stats(node, None).await?.iter().map(|table| table.disk_bytes).sum())
}

fn tokens_of(node: &Node, host: &str) -> Result<Vec<String>, Refusal> {
    let topology = node.topology();
    let found = host.parse().ok().and_then(|address| topology.by_address(address));
    let found = found.ok_or_else(|| Refusal::Wrong(format!("{host} is not a node of this cluster")))?;
    Ok(found.tokens.iter().map(|token| token.0.to_string()).collect())
}

/// The part of the ring of each node, as its first replica or, with a keyspace, as any replica.
fn ownership(node: &Node, keyspace: Option<&str>) -> Answer {
    let topology = node.topology();
    let mut owned = vec![0.0; topology.len()];
    match keyspace {
        None => {
            for other in topology.nodes() {
                owned[other.index.as_usize()] = cluster::fraction(&topology.primary_ranges(other.index));
            }
        }
        Some(name) => {
            let def = node.keyspace(name);
            let def = def.ok_or_else(|| Refusal::Wrong(format!("Keyspace {name} Does not exist")))?;
            let map = topology.replication_map(&def.replication);
            for (range, replicas) in map.map_err(|error| Refusal::Failed(error.to_string()))?.describe() {
                for replica in replicas.nodes() {
                    owned[replica.as_usize()] += cluster::fraction(&[range]);
                }
            }
        }
    }
    Ok(pairs(topology.members().map(|other| (other.address.to_string(), json!(owned[other.index.as_usize()])))))
}

/// Each token range of a keyspace with its replicas.
fn describe_ring(node: &Node, keyspace: &str) -> Answer {
    let def = node.keyspace(keyspace);
    let def = def.ok_or_else(|| Refusal::Wrong(format!("Keyspace {keyspace} Does not exist")))?;
    let topology = node.topology();
    let map = topology.replication_map(&def.replication).map_err(|error| Refusal::Failed(error.to_string()))?;
    let text = |token: Token| token.0.to_string();
    let range = |(range, replicas): (cluster::TokenRange, cluster::ReplicaSet)| {
        let nodes: Vec<_> = replicas.nodes().iter().map(|index| topology.node(*index)).collect();
        let addresses: Vec<String> = nodes.iter().map(|node| node.address.to_string()).collect();
        let details: Vec<Value> = nodes
            .iter()
            .map(|node| json!({ "host": node.address.to_string(), "datacenter": node.data_center, "rack": node.rack }))
            .collect();
        json!({
            "start_token": text(range.start), "end_token": text(range.end), "endpoints": addresses,
            "rpc_endpoints": addresses, "endpoint_details": details,
        })
    };
    Ok(map.describe().map(range).collect())
}

fn schema_versions(node: &Node) -> Value {
    let mut by_version: std::collections::BTreeMap<String, Vec<String>> = Default::default();
    for other in node.topology().members() {
        let known = node.schema_version_of(other.index).filter(|_| node.sees_alive(other.index));
        let version = known.map_or("UNREACHABLE".to_string(), uuid);
        by_version.entry(version).or_default().push(other.address.to_string());
    }
    pairs(by_version.into_iter().map(|(version, nodes)| (version, json!(nodes))))
}

fn probability(request: &Request) -> Result<f64, Refusal> {
    let text = request.parameter("probability").unwrap_or("");
    let wrong = || Refusal::Wrong(format!("{text:?} is not a probability: give a number from 0 to 1"));
    text.parse().ok().filter(|p| (0.0..=1.0).contains(p)).ok_or_else(wrong)
}

/// All that is in memory goes to disk, and clients are not served any more.
async fn drain(node: &Rc<Node>) -> Answer {
    set_accepting(node, false).await?;
    let flush = |node: Rc<Node>| async move { node.storage.flush(None).await.map_err(|error| error.to_string()) };
    for shard in node.on_every_shard("drain", flush).await? {
        shard.map_err(Refusal::Failed)?;
    }
    node.drained.set(true);
    Ok(Value::Null)
}

async fn set_accepting(node: &Rc<Node>, accepts: bool) -> Result<(), Refusal> {
    let set = move |node: Rc<Node>| async move { node.accepts_clients.set(accepts) };
    node.on_every_shard("native-transport", set).await?;
    Ok(())
}

pub(super) async fn answer(node: &Rc<Node>, request: &Request, path: &[&str]) -> Answer {
    let topology = node.topology();
    let local = topology.local();
    let nodes = || topology.members();
    match (request.method, path) {
        (Method::Get, ["cluster_name"]) => Ok(json!(node.config.cluster_name)),
        (Method::Get, ["partitioner_name"]) => Ok(json!("org.apache.cassandra.dht.Murmur3Partitioner")),
        (Method::Get, ["release_version" | "scylla_release_version"]) => Ok(json!(query::RELEASE_VERSION)),
        (Method::Get, ["hostid", "local"]) => Ok(json!(uuid(local.host_id))),
        (Method::Get, ["host_id"]) => {
            Ok(pairs(nodes().map(|node| (node.address.to_string(), json!(uuid(node.host_id))))))
        }
        (Method::Get, ["tokens"]) => tokens_of(node, &local.address.to_string()).map(|tokens| json!(tokens)),
        (Method::Get, ["tokens", host]) => tokens_of(node, host).map(|tokens| json!(tokens)),
        (Method::Get, ["tokens_endpoint"]) => {
            let ring = topology.ring().iter();
            let address = |index| topology.node(index).address.to_string();
            Ok(pairs(ring.map(|(token, index)| (token.0.to_string(), json!(address(*index))))))
        }
        (Method::Get, ["ownership"]) => ownership(node, None),
        (Method::Get, ["ownership", keyspace]) => ownership(node, Some(keyspace)),
        (Method::Get, ["describe_ring", keyspace]) => describe_ring(node, keyspace),
        (Method::Get, ["schema_version"]) => Ok(json!(uuid(node.schema().version))),
        (Method::Get, ["schema_versions"]) => Ok(schema_versions(node)),
        (Method::Get, ["load"]) => load(node).await.map(|bytes| json!(bytes)),
        (Method::Get, ["load_map"]) => {
            let bytes = load(node).await?;
            Ok(pairs([(local.address.to_string(), json!(bytes as f64))].into_iter()))
        }
        (Method::Get, ["nodes", "joining"]) => {
            Ok(topology.joining().map(|joining| json!(joining.address.to_string())).into_iter().collect())
        }
        (Method::Get, ["nodes", "leaving" | "moving"]) => Ok(json!([])),
        (Method::Get, ["operation_mode"]) => Ok(json!(match (node.drained.get(), local.state) {
            (true, _) => "DRAINED",
            (false, NodeState::Normal) => "NORMAL",
            (false, _) => "JOINING",
        })),
        (Method::Get, [which @ ("is_initialized" | "is_starting")]) => {
            Ok(json!((*which == "is_initialized") == (local.state == NodeState::Normal)))
        }
        (Method::Get, ["gossiping"]) => Ok(json!(true)),
        (Method::Get, ["native_transport"]) => Ok(json!(node.accepts_clients.get())),
        (Method::Post, ["native_transport"]) => set_accepting(node, true).await.map(|()| Value::Null),
        (Method::Delete, ["native_transport"]) => set_accepting(node, false).await.map(|()| Value::Null),
        (Method::Get, ["rpc_server"]) => Ok(json!(false)),
        (Method::Get, ["trace_probability"]) => Ok(json!(node.journal.trace_probability())),
        (Method::Post, ["trace_probability"]) => {
            let probability = probability(request)?;
            let set = move |node: Rc<Node>| async move { node.journal.set_trace_probability(probability) };
            node.on_every_shard("trace-probability", set).await?;
            Ok(Value::Null)
        }
        (Method::Get, ["slow_query"]) => Ok(json!({
            "enable": node.settings.flag("slow_query_tracing"),
            "ttl": node.settings.number("slow_query_record_ttl_in_seconds"),
            "threshold": node.settings.number("slow_query_threshold_in_us"),
            "fast": false,
        })),
        (Method::Post, ["slow_query"]) => {
            let names = [
                ("enable", "slow_query_tracing"),
                ("ttl", "slow_query_record_ttl_in_seconds"),
                ("threshold", "slow_query_threshold_in_us"),
            ];
            for (parameter, setting) in names {
                if let Some(value) = request.parameter(parameter) {
                    node.set_setting(setting, value).await?;
                }
            }
            Ok(Value::Null)
        }
        (Method::Post, ["reload_ssl"]) => {
            let changed = crate::tls::reload(node).await.map_err(Refusal::Failed)?;
            Ok(json!(changed))
        }
        (Method::Post, ["drain"]) => drain(node).await,
        _ => Err(Refusal::NotFound),
    }
}
