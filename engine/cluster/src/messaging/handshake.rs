//! The first frame of a connection: who calls, and what it believes the cluster to have been at its start. Pure.

use std::net::{IpAddr, Ipv6Addr};

use reactor::Buf;

use super::messenger::LANES;
use crate::topology::{NodeIndex, Topology};

/// "ORRY", the protocol between nodes.
const MAGIC: u32 = 0x4F52_5259;
pub(super) const VERSION: u16 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub from: NodeIndex,
    pub from_host_id: u128,
    pub to_host_id: u128,
    /// The shard that calls; its number chooses the shard that serves.
    pub shard: u16,
    pub lane: u8,
    digest: u64,
    nodes: Vec<Claim>,
}

/// A node in the caller's topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Claim {
    address: IpAddr,
    digest: u64,
}

impl Hello {
    pub fn new(topology: &Topology, to: NodeIndex, shard: u16, lane: u8) -> Self {
        Self {
            from: topology.local_index(),
            from_host_id: topology.local().host_id,
            to_host_id: topology.node(to).host_id,
            shard,
            lane,
            digest: topology.digest(),
            nodes: topology.nodes()[..topology.starting()]
                .iter()
                .map(|node| Claim { address: node.address, digest: node.digest })
                .collect(),
        }
    }

    /// A lane that there is.
    pub fn lane(&self) -> usize {
        usize::from(self.lane).min(LANES - 1)
    }

    pub fn encode(&self) -> Buf {
        let mut out = Buf::with_capacity(64 + self.nodes.len() * 24);
        out.extend_from_slice(&MAGIC.to_be_bytes());
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.from.0.to_be_bytes());
        out.extend_from_slice(&self.from_host_id.to_be_bytes());
        out.extend_from_slice(&self.to_host_id.to_be_bytes());
        out.extend_from_slice(&self.shard.to_be_bytes());
        out.push(self.lane);
        out.extend_from_slice(&self.digest.to_be_bytes());
        out.extend_from_slice(&(self.nodes.len() as u16).to_be_bytes());
        for node in &self.nodes {
            let address = match node.address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            out.extend_from_slice(&address.octets());
            out.extend_from_slice(&node.digest.to_be_bytes());
        }
        out
    }

    /// The error is a sentence for the caller.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        let cut = || "the greeting is cut short".to_owned();
        if reader.take().map(u32::from_be_bytes) != Some(MAGIC) {
            return Err("the greeting is not of this protocol".into());
        }
        let version = reader.take().map(u16::from_be_bytes).ok_or_else(cut)?;
        if version != VERSION {
            return Err(format!("the caller speaks version {version} of the protocol, this node version {VERSION}"));
        }
        let mut read = || {
            let from = NodeIndex(u16::from_be_bytes(reader.take()?));
            let from_host_id = u128::from_be_bytes(reader.take()?);
            let to_host_id = u128::from_be_bytes(reader.take()?);
            let shard = u16::from_be_bytes(reader.take()?);
            let [lane] = reader.take()?;
            let digest = u64::from_be_bytes(reader.take()?);
            let count = u16::from_be_bytes(reader.take()?);
            let mut nodes = Vec::new();
            for _ in 0..count {
                let address = Ipv6Addr::from(reader.take::<16>()?).to_canonical();
                nodes.push(Claim { address, digest: u64::from_be_bytes(reader.take()?) });
            }
            Some(Self { from, from_host_id, to_host_id, shard, lane, digest, nodes })
        };
        read().ok_or_else(cut)
    }

    /// Why the caller cannot be talked to, as a sentence; `None` when it can.
    pub fn objection(&self, topology: &Topology) -> Option<String> {
        let local = topology.local();
        if self.to_host_id != local.host_id {
            return Some(format!(
                "the caller looks for host {:032x}, this is {} with host id {:032x}",
                self.to_host_id, local.address, local.host_id
            ));
        }
        if self.digest != topology.digest() {
            return Some(format!(
                "the caller's list of nodes differs from that of {}: {}",
                local.address,
                self.differences(topology)
            ));
        }
        let known = topology.nodes().get(self.from.as_usize());
        if self.from == local.index || known.is_none_or(|known| known.host_id != self.from_host_id) {
            return Some(format!("the caller says that it is node {}, which it cannot be", self.from.0));
        }
        None
    }

    fn differences(&self, topology: &Topology) -> String {
        let mut differences = Vec::new();
        let starting = &topology.nodes()[..topology.starting()];
        for node in starting {
            match self.nodes.iter().find(|claim| claim.address == node.address) {
                None => differences.push(format!("the caller does not list {}", node.address)),
                Some(claim) if claim.digest != node.digest => {
                    differences.push(format!("{} has another host id, data centre, rack or other tokens", node.address))
                }
                Some(_) => {}
            }
        }
        for claim in &self.nodes {
            if starting.iter().all(|node| node.address != claim.address) {
                differences.push(format!("only the caller lists {}", claim.address));
            }
        }
        if differences.is_empty() {
            differences.push("the same nodes are in another order".into());
        }
        differences.join("; ")
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::NodeConfig;

    fn address(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }

    fn topology(configs: &[NodeConfig], local: u8) -> Topology {
        Topology::new(configs, address(local)).unwrap()
    }

    fn three() -> Vec<NodeConfig> {
        (1..=3).map(|n| NodeConfig { num_tokens: 4, ..NodeConfig::new(address(n)) }).collect()
    }

    #[test]
    fn round_trips_and_agrees() {
        let caller = topology(&three(), 1);
        let hello = Hello::new(&caller, NodeIndex(1), 5, 1);
        let decoded = Hello::decode(&hello.encode()).unwrap();
        assert_eq!(decoded, hello);
        assert_eq!(decoded.objection(&topology(&three(), 2)), None);
        for cut in 0..hello.encode().len() {
            assert!(Hello::decode(&hello.encode()[..cut]).is_err());
        }
    }

    fn check(configs: &[NodeConfig], expect: &str) {
        let hello = Hello::new(&topology(configs, 1), NodeIndex(1), 0, 0);
        let objection = hello.objection(&topology(&three(), 2)).unwrap();
        assert!(objection.contains(expect), "{objection}");
    }

    #[test]
    fn refusals_name_what_differs() {
        let mut other = three();
        other[2].rack = "elsewhere".into();
        check(&other, "10.0.0.3 has another");
        check(&three()[..2], "the caller does not list 10.0.0.3");
        let mut more = three();
        more.push(NodeConfig::new(address(4)));
        check(&more, "only the caller lists 10.0.0.4");
        let mut swapped = three();
        swapped.swap(0, 2);
        check(&swapped, "another order");
        let mut moved = three();
        moved.remove(1);
        check(&moved, "the caller looks for host");
        let mut old = Hello::new(&topology(&three(), 1), NodeIndex(1), 0, 0).encode();
        old[5] = 9;
        assert!(Hello::decode(&old).unwrap_err().contains("version 9"));
        assert!(Hello::decode(b"GET / HTTP/1.1\r\n").unwrap_err().contains("not of this protocol"));
    }
}
