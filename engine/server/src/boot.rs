//! How a shard comes up, and what it does until its host stops it.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Messenger, MessengerConfig, NodeState, TopologyError};
use query::membership::join::{self, JoinError};
use query::{Agreement, Node, ReplicaHandler};
use reactor::{Group, fs, net, time};
use storage::Storage;

use crate::config::NodeConfig;
use crate::listeners::{self, Serving};
use crate::session::Budget;
use crate::tls::{self, Acceptor, ClientEncryption, Identities, TlsError};
use crate::{admin, housekeeping};

/// Each variant says what could not be done, and with what.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error("the folder {path} cannot be made: {cause}")]
    Folder { path: String, cause: io::Error },
    #[error(transparent)]
    Schema(#[from] query::LoadError),
    #[error("the list of nodes: {0}")]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Settings(#[from] query::settings::SettingError),
    #[error(transparent)]
    Join(#[from] JoinError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("storage: {0}")]
    Storage(#[from] storage::Error),
    #[error("cannot listen on {addr}: {cause}; is another server running there?")]
    Listen { addr: SocketAddr, cause: io::Error },
}

/// How often a shard looks for what another does, short against a start.
const LOOK: Duration = Duration::from_millis(5);

/// Boots the current shard of the node and serves clients. Returns only when it cannot go on; `ready` is called once
/// clients can connect to this shard.
pub async fn run_shard(config: Arc<NodeConfig>, ready: impl FnOnce()) -> Result<(), BootError> {
    let (shard, shards) = reactor::shard_index();
    for folder in [&config.data_dir, &config.commitlog_dir] {
        create_folders(folder).await?;
    }
    if let Some(member) = config.join {
        enter(&config, member).await?;
    }
    let (document, schema) = query::load_schema(&config.data_dir).await?;
    let joined_before = join::starting_nodes(&config.data_dir).await?;
    let starting: Arc<[cluster::NodeConfig]> = joined_before.unwrap_or_else(|| config.nodes.clone()).into();
    let topology = Arc::new(schema.topology(&starting, config.address)?);
    let tables: Vec<_> = schema.tables().cloned().chain(query::stored_tables()).collect();
    let storage_config = config.storage(shard, shards);
    if shard == 0 {
        let ignore_msb = config.ignore_msb;
        let owner = move |token, shards| types::shard_of(token, shards, ignore_msb);
        storage::reshard(&storage_config, &tables, owner).await?;
    } else {
        storage::wait_for_layout(&storage_config).await?;
    }
    let storage = Storage::open(storage_config, tables).await?;
    let node = Node::new(
        query::Config {
            cluster_name: config.cluster_name.clone(),
            data_dir: config.data_dir.clone(),
            timeouts: config.timeouts.clone(),
            prepared_max: 10_000,
            settings: config.settings(),
            ignore_msb: config.ignore_msb,
            read_repair_chance: config.read_repair_chance,
        },
        starting,
        topology.clone(),
        storage,
        schema,
    )?;
    reactor::set_local(node.clone());
    if shard == 0 {
        Agreement::install(document);
    }
    // A shard is not heard of before all are up: its clients and peers would be refused by those that are not.
    query::all_have::<Node>().await;
    if topology.len() > 1 || config.listens_alone {
        let addr = topology.local().internode_addr();
        let handler = Rc::new(ReplicaHandler);
        let messages = MessengerConfig { coalescing_window: config.coalescing_window, ..MessengerConfig::default() };
        let messenger = Messenger::start(messages, topology.clone(), handler)
            .await
            .map_err(|cause| BootError::Listen { addr, cause })?;
        node.use_messenger(messenger);
    }
    let is_member = topology.local().state == NodeState::Normal;
    if !is_member {
        if shard == 0 {
            serve_operators(&config, &node).await?;
            join::take_part(&node).await?;
        }
        joined(&node).await;
    }
    let serving = serving(&config, &node, shards).await?;
    query::all_have::<Serving>().await;
    let mut clients = Vec::new();
    for port in &serving.ports {
        clients.push((listen(port.address).await?, *port));
    }
    if shard == 0 && is_member {
        serve_operators(&config, &node).await?;
    }
    ready();
    let mut clients = clients.into_iter();
    let Some((first, port)) = clients.next() else { return Ok(()) };
    for (listener, port) in clients {
        drop(reactor::spawn(Group::Statement, "listener", serving.clone().accept(listener, port)));
    }
    serving.accept(first, port).await;
    Ok(())
}

/// Lets the node into the cluster of `member`; shard 0 asks, the others wait for it.
async fn enter(config: &NodeConfig, member: SocketAddr) -> Result<(), BootError> {
    struct Entered;
    if reactor::shard_index().0 == 0 {
        let own = config.nodes.iter().find(|node| node.address == config.address);
        let own = own.ok_or(TopologyError::NotListed(config.address))?;
        join::enter(&config.data_dir, &config.cluster_name, member, own).await?;
        reactor::set_local(Rc::new(Entered));
        return Ok(());
    }
    reactor::submit_to_with(0, Group::Maintenance, "join", || async {
        while reactor::local::<Entered>().is_none() {
            time::sleep(LOOK).await;
        }
    })
    .await;
    Ok(())
}

/// Waits until the node is a member that clients may know.
async fn joined(node: &Node) {
    while node.topology().local().state != NodeState::Normal {
        time::sleep(LOOK).await;
    }
}

/// The admin API and the metrics, on shard 0.
async fn serve_operators(config: &NodeConfig, node: &Rc<Node>) -> Result<(), BootError> {
    if let Some(address) = config.api_address {
        let listener = listen(address).await?;
        let serve = admin::serve(node.clone(), listener, admin::Service::Api);
        drop(reactor::spawn(Group::Maintenance, "admin-listener", serve));
        housekeeping::spawn(node);
    }
    if let Some(address) = config.prometheus_address {
        let listener = listen(address).await?;
        let serve = admin::serve(node.clone(), listener, admin::Service::Metrics);
        drop(reactor::spawn(Group::Maintenance, "metrics-listener", serve));
    }
    Ok(())
}

/// What this shard serves clients with, found by its other shards as its local [`Serving`].
async fn serving(config: &NodeConfig, node: &Rc<Node>, shards: usize) -> Result<Rc<Serving>, BootError> {
    let encryption = ClientEncryption::from_settings(&node.settings).map_err(TlsError::from)?;
    let acceptor = match encryption {
        Some(options) => Some(Acceptor::new(options).await?),
        None => None,
    };
    if let Some(acceptor) = &acceptor {
        reactor::set_local(acceptor.clone());
        if reactor::shard_index().0 == 0 {
            tls::watch(node);
        }
    }
    let serving = Rc::new(Serving {
        node: node.clone(),
        budget: Budget::new((config.client_bytes / shards as u64) as usize),
        requests_max: config.requests_per_connection_max,
        in_flight: std::cell::Cell::new(0),
        ports: listeners::ports(config, node.topology().local().native_addr(), acceptor.is_some()),
        acceptor,
        identities: Identities::from_settings(&node.settings).map_err(TlsError::from)?,
    });
    reactor::set_local(serving.clone());
    Ok(serving)
}

async fn listen(addr: SocketAddr) -> Result<net::Listener, BootError> {
    net::listen(addr).await.map_err(|cause| BootError::Listen { addr, cause })
}

async fn create_folders(path: &str) -> Result<(), BootError> {
    let ends = path.match_indices('/').map(|(at, _)| at).filter(|&at| at > 0).chain([path.len()]);
    for end in ends {
        let folder = &path[..end];
        fs::create_dir(folder).await.map_err(|cause| BootError::Folder { path: folder.into(), cause })?;
    }
    Ok(())
}

/// Writes the current shard's memtables to SSTables, and waits until its compaction has nothing left to do.
pub async fn quiesce_shard() -> Result<(), storage::Error> {
    /// How often to look: short against any compaction, long against the look itself.
    const LOOK: Duration = Duration::from_millis(5);
    let Some(node) = reactor::local::<Node>() else { return Ok(()) };
    node.storage.flush(None).await?;
    while node.storage.stats().tables.values().any(|table| table.pending_compactions > 0) {
        time::sleep(LOOK).await;
    }
    Ok(())
}

/// What the current shard's storage has counted of a table; `None` while there is no such table.
pub fn table_stats(keyspace: &str, table: &str) -> Option<storage::TableStats> {
    let node = reactor::local::<Node>()?;
    let id = node.table(keyspace, table).ok()?.id;
    node.storage.stats().tables.remove(&id)
}

/// How long the current shard's coordinator took for reads of one partition.
pub fn read_latencies() -> Option<storage::Histogram> {
    let node = reactor::local::<Node>()?;
    let [read, ..] = node.counts.latencies();
    Some(read.classes)
}

/// Rewrites all SSTables of the current shard's tables of `keyspace` into one each: a major compaction.
pub async fn compact_shard(keyspace: &str) -> Result<(), storage::Error> {
    let Some(node) = reactor::local::<Node>() else { return Ok(()) };
    let schema = node.schema();
    let tables: Vec<_> = schema.tables().filter(|table| table.keyspace == keyspace).map(|table| table.id).collect();
    for table in tables {
        node.storage.compact(table).await?;
    }
    Ok(())
}

/// Makes everything acknowledged on the current shard durable, before a shutdown.
pub async fn drain_shard() {
    if let Some(node) = reactor::local::<Node>()
        && let Err(error) = node.storage.close().await
    {
        tracing::error!(%error, "storage did not close cleanly");
    }
}
