//! A cluster of the real server on simulated hosts.
//!
//! Node `n` has the address `10.0.0.n`, counted from 1, its data in `/data` and its commit log in `/commitlog`, which
//! lie on whatever disks its host's model mounts there. Every boot of a host, the first and each restart, runs
//! [`server::run_shard`] on all of its shards. A shard that cannot go on leaves its error in [`Cluster::failures`].

use std::cell::{Cell, RefCell};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;

use server::NodeConfig;

use crate::host::HostId;
use crate::model::HostModel;
use crate::world::World;

pub(crate) const DATA_DIR: &str = "/data";
pub(crate) const COMMITLOG_DIR: &str = "/commitlog";

/// A shard whose server gave up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub at_ns: u64,
    /// Counted from 0.
    pub node: usize,
    pub shard: usize,
    pub cause: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at_ns, node, shard, cause } = self;
        write!(f, "{} gave up on shard {shard} at {at_ns} ns: {cause}", address(*node))
    }
}

struct Node {
    host: HostId,
    /// Shards of the latest boot that accept clients, and that boot's number.
    ready: Rc<Cell<(u32, usize)>>,
    shards: usize,
}

impl Node {
    fn new(world: &Rc<World>, index: usize, model: HostModel) -> Self {
        let shards = model.shards;
        Self { shards, host: world.add_host(address(index), model), ready: Rc::new(Cell::new((0, 0))) }
    }
}

pub struct Cluster {
    /// Those that the cluster started with, then those that joined.
    nodes: RefCell<Vec<Node>>,
    config: NodeConfig,
    failures: Rc<RefCell<Vec<Failure>>>,
}

/// The address of a node, counted from 0.
pub fn address(node: usize) -> IpAddr {
    let [_, _, high, low] = (node as u32 + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low).into()
}

impl Cluster {
    /// Adds one host for each of `models` and boots them all. `template` gives every setting but addresses and
    /// folders; the first of its nodes says what all nodes are like (tokens, rack, ports).
    pub fn boot(world: &Rc<World>, models: Vec<HostModel>, template: &NodeConfig) -> Rc<Self> {
        let mut config = template.clone();
        config.data_dir = DATA_DIR.into();
        config.commitlog_dir = COMMITLOG_DIR.into();
        let like = config.nodes.first().cloned();
        config.nodes = (0..models.len())
            .flat_map(|node| match &like {
                Some(like) => vec![cluster::NodeConfig { address: address(node), ..like.clone() }],
                None => NodeConfig::single(address(node), DATA_DIR).nodes,
            })
            .collect();
        let failures = Rc::new(RefCell::new(Vec::new()));
        let nodes = models.into_iter().enumerate().map(|(node, model)| Node::new(world, node, model)).collect();
        let cluster = Rc::new(Self { nodes: RefCell::new(nodes), config, failures });
        for node in 0..cluster.len() {
            cluster.boot_node(world, node, cluster.config.clone());
        }
        cluster
    }

    /// Adds a host and boots a node on it that joins the cluster. Gives its number.
    pub fn join(&self, world: &Rc<World>, model: HostModel) -> usize {
        let index = self.len();
        self.nodes.borrow_mut().push(Node::new(world, index, model));
        let mut config = self.config.clone();
        let like = config.nodes[0].clone();
        config.join = Some((like.address, like.internode_port).into());
        config.nodes = vec![cluster::NodeConfig { address: address(index), ..like }];
        self.boot_node(world, index, config);
        index
    }

    fn boot_node(&self, world: &Rc<World>, index: usize, config: NodeConfig) {
        let config = Arc::new(NodeConfig { address: address(index), ..config });
        let (host, ready) = {
            let node = &self.nodes.borrow()[index];
            (node.host, node.ready.clone())
        };
        let failures = self.failures.clone();
        world.boot(host, move |boot| {
            let (config, ready, failures) = (config.clone(), ready.clone(), failures.clone());
            async move {
                let is_ready = || {
                    let (number, shards) = ready.get();
                    let before = if number == boot.boots_before { shards } else { 0 };
                    ready.set((boot.boots_before, before + 1));
                };
                if let Err(error) = server::run_shard(config, is_ready).await {
                    failures.borrow_mut().push(Failure {
                        at_ns: reactor::now(),
                        node: index,
                        shard: boot.shard,
                        cause: error.to_string(),
                    });
                }
            }
        });
    }

    pub fn len(&self) -> usize {
        self.nodes.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.borrow().is_empty()
    }

    pub fn host(&self, node: usize) -> HostId {
        self.nodes.borrow()[node].host
    }

    pub fn hosts(&self) -> Vec<HostId> {
        self.nodes.borrow().iter().map(|node| node.host).collect()
    }

    /// Where the nodes that the cluster started with accept clients.
    pub fn native_addrs(&self) -> Vec<SocketAddr> {
        self.config.nodes.iter().map(|node| (node.address, node.native_port).into()).collect()
    }

    /// Whether all shards of a node accept clients.
    pub fn is_ready(&self, world: &World, node: usize) -> bool {
        let nodes = self.nodes.borrow();
        let Node { host, ready, shards } = &nodes[node];
        let (boot, ready) = ready.get();
        world.is_running(*host) && boot + 1 == world.boots(*host) && ready == *shards
    }

    pub fn all_ready(&self, world: &World) -> bool {
        (0..self.len()).all(|node| self.is_ready(world, node))
    }

    /// Lets time pass until every node accepts clients; gives whether they all do before `limit_ns`.
    pub fn await_ready(&self, world: &Rc<World>, limit_ns: u64) -> bool {
        world.run_until_true(limit_ns, || self.all_ready(world) || !self.failures.borrow().is_empty())
            && self.failures.borrow().is_empty()
    }

    /// Every shard that gave up since the start.
    pub fn failures(&self) -> Vec<Failure> {
        self.failures.borrow().clone()
    }
}
