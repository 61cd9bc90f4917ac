//! The loading client: drives a CQL cluster with a workload, on the reactor, in either world.
//!
//! One [`Client`] a shard. It opens its part of `connections_per_host` to every node, prepares the workload's
//! statements, and sends each operation to a replica of its partition, where it is `shard_aware` to the shard that owns
//! it. [`create_schema`] is called once before.
//!
//! It spends one allocation a batch at most, none an operation; errors are counted by kind in the recording, and a
//! phase in which nothing succeeds, or that has no connection left for too long, ends with an error that says so.

mod drive;
mod error;
mod link;
mod pace;
mod ring;
mod statements;
mod wire;

use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

pub use drive::{Observer, Outcome, PhaseShare, SharedPhase};
pub use error::ClientError;
pub use statements::TableSpec;

use crate::latency::Recorder;
use drive::{Driver, NodeLinks, Reach};
use link::{Link, StatementIds};
use ring::{Ring, Sharding};
use wire::Dialogue;

/// What a client connects to.
#[derive(Clone, Debug)]
pub struct Target {
    pub nodes: Vec<SocketAddr>,
    pub table: TableSpec,
    /// Of one loader, all its shards together.
    pub connections_per_host: u32,
    /// As Scylla's drivers: each of a node's shards has connections, and what it owns is asked of it. A node that does
    /// not tell its shards is treated like any other.
    pub shard_aware: bool,
    /// How long a node that does not answer is tried again, and how long a run goes on without any connection.
    pub patience: Duration,
}

/// Opens a connection to `addr`, trying again until `patience` is over.
async fn open(addr: SocketAddr, patience: Duration) -> Result<Dialogue, ClientError> {
    const PAUSE: Duration = Duration::from_millis(100);
    let until = reactor::now().saturating_add(patience.as_nanos() as u64);
    loop {
        match Dialogue::open(addr).await {
            Err(ClientError::Unreachable { .. } | ClientError::Lost { .. }) if reactor::now() < until => {
                reactor::time::sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}

/// Creates the keyspace and the table where they do not exist, through the first node.
pub async fn create_schema(target: &Target) -> Result<(), ClientError> {
    let Some(addr) = target.nodes.first() else { return Err(ClientError::AllLost) };
    let mut dialogue = open(*addr, target.patience).await?;
    dialogue.execute(&target.table.create_keyspace()).await?;
    dialogue.execute(&target.table.create_table()).await?;
    Ok(())
}

/// `count` connections to a node, or so many of each of its shards as come to that together, with the shard that serves
/// each and how the node deals out partitions.
async fn open_all(
    addr: SocketAddr,
    target: &Target,
    count: u32,
) -> Result<(Vec<(u32, Dialogue)>, Option<Sharding>), ClientError> {
    /// Connections tried for each that is wanted: which shard takes one is the kernel's or the server's choice.
    const TRIES: u32 = 16;
    let mut opened = Vec::new();
    let mut first = open(addr, target.patience).await?;
    let told = if target.shard_aware { first.sharding().await? } else { None };
    let Some((shard, sharding)) = told else {
        opened.push((0, first));
        while opened.len() < count as usize {
            opened.push((0, open(addr, target.patience).await?));
        }
        return Ok((opened, None));
    };
    let each = count.div_ceil(sharding.shards);
    let wanted = each * sharding.shards;
    opened.push((shard, first));
    for _ in 0..wanted * TRIES {
        if opened.len() == wanted as usize {
            break;
        }
        let mut dialogue = open(addr, target.patience).await?;
        let Some((shard, _)) = dialogue.sharding().await? else { continue };
        if opened.iter().filter(|(other, _)| *other == shard).count() < each as usize {
            opened.push((shard, dialogue));
        }
    }
    Ok((opened, Some(sharding)))
}

/// One shard's connections. Dropping it closes them.
pub struct Client(Reach);

impl Client {
    /// Connects shard `shard` of `shards` to every node; at least one connection each.
    pub async fn connect(target: &Target, shard: u32, shards: u32) -> Result<Self, ClientError> {
        let own = target.connections_per_host / shards + u32::from(shard < target.connections_per_host % shards);
        let texts = Rc::new(target.table.statements());
        let (mut links, mut nodes, mut tokens) = (Vec::new(), Vec::new(), Vec::new());
        for addr in &target.nodes {
            let (dialogues, sharding) = open_all(*addr, target, own.max(1)).await?;
            let mut node = NodeLinks::new(sharding);
            for (served_by, mut dialogue) in dialogues {
                if node.all.is_empty() {
                    tokens.push(dialogue.tokens().await?);
                }
                // Schema agreement takes a moment: a node that does not know the table yet is asked again.
                let mut ids = StatementIds::new();
                for text in texts.iter() {
                    ids.push(prepare(&mut dialogue, text, target.patience).await?);
                }
                let link = Link::start(dialogue, texts.clone(), ids);
                node.add(link.clone(), served_by);
                links.push(link);
            }
            nodes.push(node);
        }
        let ring = Ring::new(&tokens, target.table.replication_factor as usize);
        let (links, nodes, ring) = (Rc::new(links), Rc::new(nodes), Rc::new(ring));
        Ok(Self(Reach { links, nodes, ring, patience: target.patience }))
    }

    /// Runs this shard's part of a phase. Ends when its last operation has been answered.
    pub async fn run(&self, share: PhaseShare) -> Result<Recorder, ClientError> {
        self.run_part(share, None).await
    }

    /// The same, telling `observer` of every operation.
    pub async fn run_observed(&self, share: PhaseShare, observer: Rc<dyn Observer>) -> Result<Recorder, ClientError> {
        self.run_part(share, Some(observer)).await
    }

    async fn run_part(&self, share: PhaseShare, observer: Option<Rc<dyn Observer>>) -> Result<Recorder, ClientError> {
        Driver::run(share, observer, &self.0).await
    }
}

async fn prepare(dialogue: &mut Dialogue, text: &str, patience: Duration) -> Result<Vec<u8>, ClientError> {
    const PAUSE: Duration = Duration::from_millis(50);
    let until = reactor::now().saturating_add(patience.as_nanos() as u64);
    loop {
        match dialogue.prepare(text).await {
            Err(ClientError::Refused { .. }) if reactor::now() < until => reactor::time::sleep(PAUSE).await,
            other => return other,
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.0.links.iter().for_each(|link| link.close());
    }
}
