//! A node as text: what the document holds, what a node that wants to join says of itself, and the list of nodes that a
//! cluster started with as one that joined keeps it.

use std::fmt::Write;

use cluster::{Joined, NodeConfig, NodeState};
use types::Token;

use crate::schema::{unescape, word};

/// A node that joined, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// From 0 in the order of joining.
    pub number: u16,
    pub joined: Joined,
}

const STATES: [(NodeState, &str); 4] = [
    (NodeState::Known, "known"),
    (NodeState::Joining, "joining"),
    (NodeState::Settling, "settling"),
    (NodeState::Normal, "normal"),
];

/// A state as a byte of a message.
pub(crate) fn state_of(byte: u8) -> Option<NodeState> {
    STATES.get(usize::from(byte)).map(|(state, _)| *state)
}

impl Member {
    pub fn host_id(&self) -> u128 {
        host_id(&self.joined.config)
    }

    pub fn encode(&self) -> String {
        let state = STATES.iter().find(|(state, _)| *state == self.joined.state).map_or("", |(_, name)| name);
        format!("number={} state={state} {}", self.number, encode(&self.joined.config))
    }

    pub fn decode(text: &str) -> Result<Self, String> {
        let fields = Fields(text);
        let state = fields.value("state")?;
        let state = STATES.iter().find(|(_, name)| *name == state).map(|(state, _)| *state);
        let state = state.ok_or_else(|| format!("a node's record has an unknown state: {text}"))?;
        Ok(Self { number: fields.number("number")?, joined: Joined { state, config: decode(text)? } })
    }
}

/// The id that the node has, told or made of its address.
pub(crate) fn host_id(config: &NodeConfig) -> u128 {
    config.host_id.unwrap_or_else(|| cluster::host_id_of(config.address))
}

pub(crate) fn encode(config: &NodeConfig) -> String {
    let mut text = format!(
        "address={} host_id={:032x} native_port={} internode_port={} dc={} rack={} num_tokens={} shards={}",
        config.address,
        host_id(config),
        config.native_port,
        config.internode_port,
        word(&config.data_center),
        word(&config.rack),
        config.num_tokens,
        config.shards,
    );
    if let Some(tokens) = &config.tokens {
        let tokens: Vec<String> = tokens.iter().map(|token| token.0.to_string()).collect();
        let _ = write!(text, " tokens={}", tokens.join(","));
    }
    text
}

pub(crate) fn decode(text: &str) -> Result<NodeConfig, String> {
    let fields = Fields(text);
    let wrong = |name: &str| format!("a node's record has no proper {name}: {text}");
    let tokens = fields.find("tokens").map(|list| {
        let tokens = list.split(',').map(|token| token.parse().map(Token));
        tokens.collect::<Result<Vec<_>, _>>().map_err(|_| wrong("tokens"))
    });
    Ok(NodeConfig {
        address: fields.value("address")?.parse().map_err(|_| wrong("address"))?,
        host_id: Some(u128::from_str_radix(fields.value("host_id")?, 16).map_err(|_| wrong("host_id"))?),
        native_port: fields.number("native_port")?,
        internode_port: fields.number("internode_port")?,
        data_center: unescape(fields.value("dc")?),
        rack: unescape(fields.value("rack")?),
        num_tokens: fields.number("num_tokens")?,
        shards: fields.number("shards")?,
        tokens: tokens.transpose()?,
    })
}

/// `name=value`, apart by spaces.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn find(&self, name: &str) -> Option<&'a str> {
        self.0
            .split(' ')
            .filter_map(|field| field.split_once('='))
            .find(|(key, _)| *key == name)
            .map(|(_, value)| value)
    }

    fn value(&self, name: &str) -> Result<&'a str, String> {
        self.find(name).ok_or_else(|| format!("a node's record has no {name}: {}", self.0))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T, String> {
        self.value(name)?.parse().map_err(|_| format!("a node's record has no proper {name}: {}", self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back() {
        let config = NodeConfig {
            host_id: Some(77),
            data_center: "north east".into(),
            rack: "r=1\\".into(),
            tokens: Some(vec![Token(-5), Token(9)]),
            ..NodeConfig::new([10, 0, 0, 4].into())
        };
        for (state, _) in STATES {
            let member = Member { number: 3, joined: Joined { state, config: config.clone() } };
            assert_eq!(Member::decode(&member.encode()), Ok(member));
        }
        let plain = NodeConfig::new([10, 0, 0, 4].into());
        assert_eq!(decode(&encode(&plain)).map(|config| config.host_id), Ok(Some(host_id(&plain))));
        assert!(Member::decode("number=1 state=gone").is_err_and(|error| error.contains("unknown state")));
        assert!(decode("address=nowhere").is_err());
    }
}
