//! One shard's view of its node: what a statement needs to be planned and executed.
//!
//! Every shard has its own `Node`; they share nothing but immutable snapshots (the schema) that shard 0 sends round.
//! Messages from other shards find the node as the shard's local `Node`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use cluster::{
    Messenger, NodeConfig, NodeIndex, NodeState, ReplicaSet, ReplicationMap, Snitch, SnitchConfig, Topology,
    TopologyError,
};
use cql::response::Event;
use reactor::Group;
use reactor::sync::Semaphore;
use storage::{ListPaths, Storage};
use types::{KeyspaceDef, TableDef, TableId, Token, shard_of};

use crate::access::{Authenticator, Authorizer, Hasher};
use crate::clients::Clients;
use crate::coordinator::batch_log;
use crate::counts::Counts;
use crate::error::{QueryError, invalid, server};
use crate::expiration;
use crate::journal::{self, Journal};
use crate::prepared::PreparedCache;
use crate::replica::CounterTurns;
use crate::replica::paxos::Locks;
use crate::schema::{Change, Schema, agreement};
use crate::settings::{Origin, SettingError, Settings};
use crate::system::{self, NodeView, SystemTables};
use crate::view::{self, Viewed};

/// How long a coordinator waits for replicas. Defaults are Cassandra's.
#[derive(Clone, Debug)]
pub struct Timeouts {
    pub read: Duration,
    pub write: Duration,
    pub range: Duration,
    pub truncate: Duration,
    /// For conditional writes of one partition to get past one another.
    pub cas: Duration,
    /// For the other nodes to take over a schema change.
    pub schema: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self {
            read: ms(5000),
            write: ms(2000),
            range: ms(10_000),
            truncate: ms(60_000),
            cas: ms(1000),
            schema: ms(10_000),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Config {
    pub cluster_name: String,
    /// Where `schema.cql` lives.
    pub data_dir: String,
    pub timeouts: Timeouts,
    /// Prepared statements kept per shard; the least recently prepared go first.
    pub prepared_max: usize,
    /// By name, as a configuration file has them.
    pub settings: Vec<(String, String)>,
    /// First bits of the token that do not choose the shard: each shard owns two to the power of this slices of the
    /// ring, so that any range of some size touches all of them.
    pub ignore_msb: u8,
    /// Part of the reads that ask all replicas of the data centre, of tables that have no `dclocal_read_repair_chance`.
    pub read_repair_chance: f64,
}

/// Who wants to hear of changes of the schema and of nodes: one per connection that registered for events.
pub type Listener = Rc<dyn Fn(&Event)>;

/// Parts of scans that this shard's coordinator has in memory at once.
const SCANS_MAX: usize = 16;

pub struct Node {
    pub config: Config,
    /// The nodes that the cluster started with.
    pub(crate) starting: Arc<[NodeConfig]>,
    topology: RefCell<Arc<Topology>>,
    /// Held by every request as long as it asks or tells replicas by the ring as it is now.
    ring_in_use: RefCell<Rc<()>>,
    /// Of the rings before it.
    rings_before: RefCell<Vec<Weak<()>>>,
    pub storage: Rc<Storage>,
    pub(crate) messenger: RefCell<Option<Rc<Messenger>>>,
    /// With `dynamic_snitch`.
    pub(crate) snitch: Option<Rc<RefCell<Snitch>>>,
    schema: RefCell<Arc<Schema>>,
    replication: RefCell<BTreeMap<String, Rc<ReplicationMap>>>,
    pub(crate) system: SystemTables,
    /// By node.
    tokens: RefCell<Vec<Rc<system::Tokens>>>,
    pub settings: Settings,
    pub counts: Counts,
    pub authenticator: Authenticator,
    pub(crate) authorizer: Authorizer,
    pub(crate) hasher: Hasher,
    pub clients: Clients,
    pub(crate) prepared: RefCell<PreparedCache>,
    /// Partitions of which this shard's replica takes a step of Paxos now.
    pub(crate) paxos_locks: Locks,
    /// Partitions that this shard's coordinator writes conditionally now.
    pub(crate) paxos_turns: Locks,
    pub(crate) shard: usize,
    pub(crate) shards: usize,
    last_timestamp: Cell<i64>,
    /// Of the elements that lists get.
    pub(crate) list_paths: RefCell<ListPaths>,
    pub(crate) counters: CounterTurns,
    /// Taken for each part of a scan: what many at once have read would fill the memory.
    pub(crate) scans: Rc<Semaphore>,
    /// What of requests is written down.
    pub journal: Journal,
    started_ns: u64,
    /// Whether new connections are served.
    pub accepts_clients: Cell<bool>,
    /// All that was in memory is on disk, and the node is about to end.
    pub drained: Cell<bool>,
    listeners: RefCell<BTreeMap<u64, Listener>>,
    next_listener: Cell<u64>,
    /// Tables with views, by id.
    pub(crate) viewed: RefCell<BTreeMap<TableId, Rc<Viewed>>>,
    pub(crate) view_locks: view::Locks,
    pub(crate) view_progress: view::build::Progress,
    /// Whether a task of this shard deletes rows that have expired.
    pub(crate) expires_rows: Cell<bool>,
    /// Whether a task of this shard replays the batch log.
    pub(crate) replays_batches: Cell<bool>,
}

impl Node {
    pub fn new(
        config: Config,
        starting: Arc<[NodeConfig]>,
        topology: Arc<Topology>,
        storage: Rc<Storage>,
        schema: Arc<Schema>,
    ) -> Result<Rc<Self>, SettingError> {
        let (shard, shards) = reactor::shard_index();
        let settings = Settings::new(&config.settings)?;
        let snitch = settings.flag("dynamic_snitch").then(|| {
            let ns = |name: &str| (settings.number(name).max(0.0) * 1e6) as u64;
            let config = SnitchConfig {
                update_every_ns: ns("dynamic_snitch_update_interval_in_ms"),
                reset_every_ns: ns("dynamic_snitch_reset_interval_in_ms"),
                badness_threshold: settings.number("dynamic_snitch_badness_threshold"),
            };
            Rc::new(RefCell::new(Snitch::new(config, reactor::now())))
        });
        let tokens: Vec<_> = topology.nodes().iter().map(|node| Rc::new(system::Tokens::of(node))).collect();
        let node = Rc::new(Self {
            prepared: RefCell::new(PreparedCache::new(config.prepared_max)),
            paxos_locks: Locks::default(),
            paxos_turns: Locks::default(),
            counts: Counts::default(),
            authenticator: settings.class("authenticator", "a known authenticator", Authenticator::from_name)?,
            authorizer: settings.class("authorizer", "a known authorizer", Authorizer::from_name)?,
            hasher: Hasher::new(),
            journal: Journal::new(&settings),
            settings,
            clients: Clients::default(),
            config,
            starting,
            topology: RefCell::new(topology),
            ring_in_use: RefCell::default(),
            rings_before: RefCell::default(),
            storage,
            messenger: RefCell::new(None),
            snitch,
            schema: RefCell::new(Arc::new(Schema::default())),
            replication: RefCell::new(BTreeMap::new()),
            system: SystemTables::new(),
            tokens: RefCell::new(tokens),
            shard,
            shards,
            last_timestamp: Cell::new(0),
            list_paths: RefCell::new(ListPaths::new(reactor::random())),
            counters: CounterTurns::new(),
            scans: Semaphore::new(SCANS_MAX),
            started_ns: reactor::now(),
            accepts_clients: Cell::new(true),
            drained: Cell::new(false),
            listeners: RefCell::new(BTreeMap::new()),
            next_listener: Cell::new(0),
            viewed: RefCell::default(),
            view_locks: view::Locks::default(),
            view_progress: view::build::Progress::default(),
            expires_rows: Cell::new(false),
            replays_batches: Cell::new(false),
        });
        node.take_schema(schema);
        view::build::start(&node);
        journal::storage::start(&node);
        batch_log::start(&node);
        expiration::start(&node);
        Ok(node)
    }

    /// Changes a setting on every shard.
    pub async fn set_setting(&self, name: &str, value: &str) -> Result<(), QueryError> {
        // Here first: what is wrong is wrong everywhere.
        self.settings.set(name, value, Origin::Cql).map_err(|error| invalid!("{error}"))?;
        let (name, value) = (name.to_string(), value.to_string());
        let set = move |node: Rc<Node>| {
            let result = node.settings.set(&name, &value, Origin::Cql);
            node.journal.settings_changed(&node.settings);
            node.storage.set_large_thresholds(journal::storage::thresholds(&node.settings));
            async move { result }
        };
        self.on_every_shard("set-setting", set).await.map(drop).map_err(server)
    }

    /// Messages to other nodes go through it; a node without one is alone.
    pub fn use_messenger(self: &Rc<Self>, messenger: Rc<Messenger>) {
        messenger.set_schema_version(self.schema().version);
        let node = Rc::downgrade(self);
        messenger.on_schema_difference(move |peer, _| {
            if let Some(node) = node.upgrade() {
                drop(reactor::spawn(Group::Maintenance, "schema-pull", async move {
                    agreement::pull(&node, peer).await;
                }));
            }
        });
        let node = Rc::downgrade(self);
        messenger.on_liveness_change(move |peer, alive| {
            let Some(node) = node.upgrade() else { return };
            let topology = node.topology();
            let other = topology.node(peer);
            // Clients do not know of one that joins.
            if other.state == NodeState::Normal {
                let address = other.native_addr();
                node.announce(&if alive { Event::Up(address) } else { Event::Down(address) });
            }
        });
        *self.messenger.borrow_mut() = Some(messenger);
    }

    pub(crate) fn messenger(&self) -> Option<Rc<Messenger>> {
        self.messenger.borrow().clone()
    }

    pub fn schema(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    /// Makes `schema` the one that statements are planned against. Prepared statements are planned anew.
    fn take_schema(&self, schema: Arc<Schema>) {
        self.replicate(&schema);
        *self.viewed.borrow_mut() = view::all(&schema);
        *self.schema.borrow_mut() = schema;
        self.prepared.borrow_mut().schema_changed();
    }

    /// Finds the replicas of all keyspaces.
    fn replicate(&self, schema: &Schema) {
        let topology = self.topology();
        let mut maps = BTreeMap::new();
        for (name, replication) in schema.replications() {
            match topology.replication_map(replication) {
                Ok(map) => drop(maps.insert(name.to_string(), Rc::new(map))),
                Err(error) => tracing::error!(keyspace = name, %error, "the keyspace has no replicas here"),
            }
        }
        *self.replication.borrow_mut() = maps;
    }

    /// The nodes and the ring as `schema` tells them.
    pub(crate) fn topology_of(&self, schema: &Schema) -> Result<Topology, TopologyError> {
        schema.topology(&self.starting, self.topology().local().address)
    }

    /// The nodes are those of `schema`; requests from now on find their replicas in the new ring. Those under way do not,
    /// see [`rings_left`](Self::rings_left).
    pub(crate) fn take_topology(self: &Rc<Self>, schema: &Schema) -> Result<(), TopologyError> {
        let new = Arc::new(self.topology_of(schema)?);
        let old = std::mem::replace(&mut *self.topology.borrow_mut(), new.clone());
        let further = new.nodes().iter().skip(old.len()).map(|node| Rc::new(system::Tokens::of(node)));
        self.tokens.borrow_mut().extend(further);
        self.replicate(&self.schema());
        let ring = self.ring_in_use.take();
        self.rings_before.borrow_mut().push(Rc::downgrade(&ring));
        if let Some(messenger) = self.messenger() {
            messenger.use_topology(new.clone());
        }
        batch_log::start(self);
        let was_normal =
            |index: NodeIndex| old.nodes().get(index.as_usize()).is_some_and(|node| node.state == NodeState::Normal);
        for node in new.normal().filter(|node| !was_normal(node.index) && node.index != self.me()) {
            self.announce(&Event::NewNode(node.native_addr()));
            if self.is_alive(node.index) {
                self.announce(&Event::Up(node.native_addr()));
            }
        }
        Ok(())
    }

    /// The nodes and the ring as they are now.
    #[inline]
    pub fn topology(&self) -> Arc<Topology> {
        self.topology.borrow().clone()
    }

    /// To be held while replicas are asked or told by the ring as it is now.
    #[inline]
    pub(crate) fn hold_ring(&self) -> Rc<()> {
        self.ring_in_use.borrow().clone()
    }

    /// Waits for the requests of this shard that began under an earlier ring. Each has its timeout.
    pub(crate) async fn rings_left(&self) {
        /// How often to look: short against a request's timeout.
        const LOOK: Duration = Duration::from_millis(1);
        while self.rings_before.borrow().iter().any(|ring| ring.strong_count() > 0) {
            reactor::time::sleep(LOOK).await;
        }
        self.rings_before.borrow_mut().retain(|ring| ring.strong_count() > 0);
    }

    /// Before `schema` is durable: storage makes ready for tables whose columns change.
    pub(crate) async fn prepare_schema(&self, schema: &Schema) -> Result<(), QueryError> {
        for table in self.tables_that_change(schema) {
            self.storage.prepare_update(&table).await.map_err(server)?;
        }
        Ok(())
    }

    /// `schema` will not come after [`prepare_schema`](Self::prepare_schema).
    pub(crate) fn forget_schema(&self, schema: &Schema) {
        for table in self.tables_that_change(schema) {
            self.storage.cancel_update(table.id);
        }
    }

    fn tables_that_change(&self, schema: &Schema) -> Vec<Arc<TableDef>> {
        let ours = self.schema();
        let changes =
            |table: &&Arc<TableDef>| ours.table_by_id(table.id).is_some_and(|old| old.version != table.version);
        schema.tables().filter(changes).cloned().collect()
    }

    /// [`take_schema`](Self::take_schema), and the storage and the listeners follow.
    pub(crate) async fn install_schema(
        self: &Rc<Self>,
        schema: Arc<Schema>,
        changes: &[Change],
    ) -> Result<(), QueryError> {
        let old = self.schema();
        for table in schema.tables() {
            match old.table_by_id(table.id) {
                None => self.storage.add_table(table.clone()).await.map_err(server)?,
                Some(known) if known.version != table.version => {
                    self.storage.update_table(table.clone()).await.map_err(server)?
                }
                Some(_) => {}
            }
        }
        // A change of roles and grants alone changes no plan.
        if changes.is_empty() {
            *self.schema.borrow_mut() = schema.clone();
        } else {
            self.take_schema(schema.clone());
        }
        for table in old.tables() {
            if schema.table_by_id(table.id).is_none() {
                self.storage.drop_table(table.id).await.map_err(server)?;
            }
        }
        if let Some(messenger) = self.messenger() {
            messenger.set_schema_version(schema.version);
        }
        view::build::start(self);
        expiration::start(self);
        changes.iter().for_each(|change| self.announce(&Event::Schema(change.to_protocol())));
        Ok(())
    }

    /// Tells every listener on this shard.
    fn announce(&self, event: &Event) {
        let listeners: Vec<Listener> = self.listeners.borrow().values().cloned().collect();
        listeners.iter().for_each(|listener| listener(event));
    }

    /// Calls `listener` after every change of the schema or of a node's state until [`unlisten`](Self::unlisten).
    pub fn listen(&self, listener: Listener) -> u64 {
        let id = self.next_listener.get();
        self.next_listener.set(id + 1);
        self.listeners.borrow_mut().insert(id, listener);
        id
    }

    pub fn unlisten(&self, id: u64) {
        self.listeners.borrow_mut().remove(&id);
    }

    /// The views of a table; `None` without any.
    #[inline]
    pub(crate) fn viewed(&self, table: TableId) -> Option<Rc<Viewed>> {
        let viewed = self.viewed.borrow();
        if viewed.is_empty() { None } else { viewed.get(&table).cloned() }
    }

    /// Whether all rows that the node has of a table are in its view.
    pub fn is_view_built(&self, view: TableId) -> bool {
        self.view_progress.is_built(view, self.shards)
    }

    /// A user's or a system keyspace.
    pub fn keyspace(&self, name: &str) -> Option<Arc<KeyspaceDef>> {
        self.system.keyspace(name).cloned().or_else(|| self.schema.borrow().keyspace(name).cloned())
    }

    pub fn table(&self, keyspace: &str, name: &str) -> Result<Arc<TableDef>, QueryError> {
        let Some(def) = self.keyspace(keyspace) else {
            return Err(invalid!("keyspace {keyspace} does not exist"));
        };
        def.tables.get(name).cloned().ok_or_else(|| invalid!("table {name} does not exist"))
    }

    pub(crate) fn replication(&self, keyspace: &str) -> Result<Rc<ReplicationMap>, QueryError> {
        let map = self.replication.borrow().get(keyspace).cloned();
        map.ok_or_else(|| invalid!("keyspace {keyspace} does not exist"))
    }

    pub(crate) fn replicas(&self, keyspace: &str, token: Token) -> Result<ReplicaSet, QueryError> {
        match self.replication.borrow().get(keyspace) {
            Some(map) => Ok(map.replicas(token)),
            None => Err(invalid!("keyspace {keyspace} does not exist")),
        }
    }

    /// Who is written to beside the replicas, while a node joins.
    pub(crate) fn further(&self, keyspace: &str, token: Token) -> ReplicaSet {
        self.replication.borrow().get(keyspace).map_or(ReplicaSet::EMPTY, |map| map.further(token))
    }

    /// Whether the current shard keeps the partitions of a table at `token`.
    pub fn owns_on_this_shard(&self, table: TableId, token: Token) -> bool {
        let keyspace = self.schema().table_by_id(table).map(|def| def.keyspace.clone());
        let replicas = keyspace.and_then(|keyspace| {
            let replicas = self.replicas(&keyspace, token).ok()?;
            Some(replicas.with(&self.further(&keyspace, token)))
        });
        self.owner_shard(token) == self.shard && replicas.is_some_and(|replicas| replicas.nodes().contains(&self.me()))
    }

    /// How many prepared statements this shard keeps.
    pub fn prepared_statements(&self) -> usize {
        self.prepared.borrow().len()
    }

    pub fn uptime_ms(&self) -> u64 {
        (reactor::now() - self.started_ns) / 1_000_000
    }

    /// What nodes see as the state of another, or of themselves.
    pub fn sees_alive(&self, node: NodeIndex) -> bool {
        self.is_alive(node)
    }

    pub fn schema_version_of(&self, node: NodeIndex) -> Option<u128> {
        match node == self.me() {
            true => Some(self.schema().version),
            false => self.messenger().and_then(|messenger| messenger.schema_version_of(node)),
        }
    }

    /// Definitions of the system keyspaces.
    pub fn system_keyspaces(&self) -> impl Iterator<Item = &Arc<KeyspaceDef>> {
        self.system.keyspaces()
    }

    pub fn me(&self) -> NodeIndex {
        self.topology().local_index()
    }

    pub(crate) fn is_alive(&self, node: NodeIndex) -> bool {
        node == self.me() || self.messenger.borrow().as_ref().is_some_and(|messenger| messenger.is_alive(node))
    }

    pub(crate) fn owner_shard(&self, token: Token) -> usize {
        if self.shards == 1 { 0 } else { shard_of(token, self.shards as u32, self.config.ignore_msb) as usize }
    }

    /// A write timestamp in microseconds, larger than any given before on this shard.
    pub(crate) fn next_timestamp(&self) -> i64 {
        let now = (reactor::wall_us() as i64).max(self.last_timestamp.get() + 1);
        self.last_timestamp.set(now);
        now
    }

    pub(crate) fn system_view<T>(&self, read: impl FnOnce(&system::View<'_>) -> T) -> T {
        let schema = self.schema();
        let messenger = self.messenger();
        let view_of = |node: &cluster::Node, schema_version: u128| NodeView {
            host_id: node.host_id,
            address: node.address,
            native_port: node.native_port,
            internode_port: node.internode_port,
            data_centre: node.data_center.clone(),
            rack: node.rack.clone(),
            tokens: self.tokens.borrow()[node.index.as_usize()].clone(),
            schema_version,
            is_alive: self.is_alive(node.index),
        };
        let version_of = |index| messenger.as_ref().and_then(|messenger| messenger.schema_version_of(index));
        let topology = self.topology();
        let peers = topology.normal().filter(|peer| peer.index != topology.local_index());
        let peers = peers.map(|peer| view_of(peer, version_of(peer.index).unwrap_or(0))).collect();
        read(&system::View {
            cluster_name: &self.config.cluster_name,
            local: view_of(topology.local(), schema.version),
            peers,
            schema: &schema,
            system: &self.system,
            primary_ranges: &|| topology.primary_ranges(topology.local_index()),
            starting_tokens: &|| topology.starting_tokens(),
            trace_probability: self.journal.trace_probability(),
            is_built: &|view| self.view_progress.is_built(view, self.shards),
        })
    }
}
