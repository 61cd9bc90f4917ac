//! `gossiper`, `failure_detector` and `snitch`: the other nodes, as this one sees them.

use std::net::IpAddr;
use std::rc::Rc;

use query::Node;
use serde_json::{Value, json};

use super::http::{Method, Request};
use super::{Answer, Refusal};

fn addresses(node: &Node, alive: bool) -> Value {
    let topology = node.topology();
    let chosen = topology.members().filter(|other| node.sees_alive(other.index) == alive);
    chosen.map(|other| json!(other.address.to_string())).collect()
}

/// The node that `host` names; this one without it.
fn meant(node: &Node, host: Option<&str>) -> Result<::cluster::Node, Refusal> {
    let topology = node.topology();
    let Some(host) = host else { return Ok(topology.local().clone()) };
    let address = host.parse::<IpAddr>().ok();
    let found = address.and_then(|address| topology.by_address(address)).cloned();
    found.ok_or_else(|| Refusal::Wrong(format!("{host} is not a node of this cluster")))
}

/// What nodes tell each other, as `nodetool gossipinfo` shows it.
fn endpoints(node: &Node) -> Value {
    let schema = |index| node.schema_version_of(index).unwrap_or(0);
    let state = |(at, value): (u8, String)| json!({ "application_state": at, "value": value, "version": 1 });
    let of = |other: &::cluster::Node| {
        // Numbers as in `gms::application_state`.
        let states = [
            (0, if other.state == ::cluster::NodeState::Normal { "NORMAL" } else { "BOOT" }.to_string()),
            (3, types::uuid::to_text(&schema(other.index).to_be_bytes())),
            (4, other.data_center.clone()),
            (5, other.rack.clone()),
            (6, query::RELEASE_VERSION.to_string()),
            (8, other.address.to_string()),
            (12, types::uuid::to_text(&other.host_id.to_be_bytes())),
        ];
        json!({
            "addrs": other.address.to_string(),
            "generation": 1,
            "version": 1,
            "update_time": 0,
            "is_alive": node.sees_alive(other.index),
            "application_state": states.into_iter().map(state).collect::<Vec<_>>(),
        })
    };
    node.topology().members().map(of).collect()
}

pub(super) fn answer(node: &Rc<Node>, path: &[&str], request: &Request) -> Answer {
    if request.method != Method::Get {
        return Err(Refusal::NotFound);
    }
    let simple_state = |other: &::cluster::Node| {
        let state = if node.sees_alive(other.index) { "UP" } else { "DOWN" };
        json!({ "key": other.address.to_string(), "value": state })
    };
    match path {
        ["gossiper", "endpoint", "live"] => Ok(addresses(node, true)),
        ["gossiper", "endpoint", "down"] => Ok(addresses(node, false)),
        ["gossiper", "generation_number", host] => meant(node, Some(host)).map(|_| json!(1)),
        ["gossiper", "downtime", host] => meant(node, Some(host)).map(|_| json!(0)),
        ["failure_detector", "endpoints"] => Ok(endpoints(node)),
        ["failure_detector", "simple_states"] => Ok(node.topology().members().map(simple_state).collect()),
        ["failure_detector", "count", "endpoint", which @ ("up" | "down")] => {
            let is_up = *which == "up";
            Ok(json!(node.topology().members().filter(|other| node.sees_alive(other.index) == is_up).count()))
        }
        ["snitch", "name"] => Ok(json!("org.apache.cassandra.locator.SimpleSnitch")),
        ["snitch", "datacenter"] => meant(node, request.parameter("host")).map(|node| json!(node.data_center)),
        ["snitch", "rack"] => meant(node, request.parameter("host")).map(|node| json!(node.rack)),
        _ => Err(Refusal::NotFound),
    }
}
