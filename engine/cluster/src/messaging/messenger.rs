//! The messenger of one shard: its parts and what its users call.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use reactor::Group;
use reactor::sync::Notify;

use super::call::{Call, CallState};
use super::coalescing::Coalescing;
use super::frame::ONE_WAY;
use super::inbound::Reply;
use super::lane::Lane;
use super::link::{Link, LinkError};
use super::outstanding::{Outstanding, Waiter};
use super::sweep::{Deferred, Sweeper};
use super::{CallError, Handler, LivenessCallback, MessengerConfig, Payload, SchemaCallback, Verb};
use crate::topology::{NodeIndex, Topology};

pub(super) const CONTROL: usize = 1;
pub(super) const BULK: usize = 2;
pub(super) const LANES: usize = 3;
/// The scheduling group of each lane's tasks.
pub(super) const LANE_GROUPS: [Group; LANES] = [Group::Statement, Group::Maintenance, Group::Streaming];

#[derive(Default)]
pub(super) struct Peer {
    pub lanes: [Lane; LANES],
    /// Of all messages of statements to the node, requests and answers.
    coalescing: Option<Rc<RefCell<Coalescing>>>,
    pub alive: Cell<bool>,
    pub schema_version: Cell<Option<u128>>,
    /// When a heartbeat was answered last.
    pub answered_ns: Cell<u64>,
    pub poke: Poke,
    pub poked: Cell<bool>,
    outstanding: Cell<usize>,
    /// Why the last connection, either way, ended.
    last_end: RefCell<Option<String>>,
}

impl Peer {
    fn new(window: Option<Duration>) -> Rc<Self> {
        let coalescing = window.map(|window| Rc::new(RefCell::new(Coalescing::new(window))));
        Rc::new(Self { coalescing, ..Self::default() })
    }
}

/// Wakes a task that otherwise sleeps.
#[derive(Default)]
pub(super) struct Poke(Notify);

impl Poke {
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    pub async fn wait_or(&self, sleep: impl Future<Output = ()>, is_set: impl Fn() -> bool) {
        let mut sleep = pin!(sleep);
        let mut notified = pin!(self.0.notified());
        poll_fn(|cx| {
            if is_set() || notified.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(cx)
        })
        .await;
    }
}

/// What a messenger counted since it started.
#[derive(Debug, Default)]
pub struct MessengerCounters {
    pub requests_sent: Cell<u64>,
    pub requests_received: Cell<u64>,
    /// Connections made to peers.
    pub connects: Cell<u64>,
    pub timeouts: Cell<u64>,
    pub overloads: Cell<u64>,
    /// Connections ended for damaged frames, refusals or peers that take no answers.
    pub faults: Cell<u64>,
}

pub struct Messenger {
    me: Weak<Messenger>,
    config: MessengerConfig,
    local: NodeIndex,
    topology: RefCell<Arc<Topology>>,
    handler: RefCell<Option<Rc<dyn Handler>>>,
    shard: usize,
    shards: usize,
    /// By node index; the local one's is unused.
    peers: RefCell<Vec<Rc<Peer>>>,
    outstanding: RefCell<Outstanding>,
    pub(super) sweeper: Sweeper,
    /// Connections served, by peer, its shard and lane.
    pub(super) inbound: RefCell<BTreeMap<(NodeIndex, u16, u8), Rc<Link>>>,
    schema_version: Cell<u128>,
    pub(super) on_liveness: RefCell<Vec<LivenessCallback>>,
    pub(super) on_schema_difference: RefCell<Vec<SchemaCallback>>,
    stopping: Cell<bool>,
    dismantled: Cell<bool>,
    pub(super) stopped: Notify,
    pub(super) counters: MessengerCounters,
}

/// The shard's messengers by node: one, except where a test runs several nodes on one shard.
#[derive(Default)]
struct Registry {
    messengers: RefCell<BTreeMap<NodeIndex, Weak<Messenger>>>,
    registered: Notify,
}

impl Registry {
    fn of_shard() -> Rc<Registry> {
        reactor::local().unwrap_or_else(|| {
            let registry = Rc::new(Registry::default());
            reactor::set_local(registry.clone());
            registry
        })
    }
}

pub(super) fn messenger_of(node: NodeIndex) -> Option<Rc<Messenger>> {
    reactor::local::<Registry>()?.messengers.borrow().get(&node)?.upgrade()
}

/// The same, but waits for it: shard 0 listens before every other shard has started. `None` when it has ended.
pub(super) async fn messenger_once_started(node: NodeIndex) -> Option<Rc<Messenger>> {
    let registry = Registry::of_shard();
    loop {
        let registered = registry.registered.notified();
        if let Some(messenger) = registry.messengers.borrow().get(&node) {
            return messenger.upgrade();
        }
        registered.await;
    }
}

impl Messenger {
    /// Starts the shard's messenger; shard 0 listens for all shards and sends the heartbeats. A peer counts as down
    /// until it has answered one.
    pub async fn start(
        config: MessengerConfig,
        topology: Arc<Topology>,
        handler: Rc<dyn Handler>,
    ) -> io::Result<Rc<Messenger>> {
        let (shard, shards) = reactor::shard_index();
        let listener = match shard {
            0 => Some(reactor::net::listen(config.listen.unwrap_or(topology.local().internode_addr())).await?),
            _ => None,
        };
        let window = config.coalescing_window;
        let messenger = Rc::new_cyclic(|me| Messenger {
            me: me.clone(),
            config,
            handler: RefCell::new(Some(handler)),
            shard,
            shards,
            peers: RefCell::new(topology.nodes().iter().map(|_| Peer::new(window)).collect()),
            local: topology.local_index(),
            topology: RefCell::new(topology.clone()),
            outstanding: RefCell::default(),
            sweeper: Sweeper::default(),
            inbound: RefCell::default(),
            schema_version: Cell::new(0),
            on_liveness: RefCell::default(),
            on_schema_difference: RefCell::default(),
            stopping: Cell::new(false),
            dismantled: Cell::new(false),
            stopped: Notify::new(),
            counters: MessengerCounters::default(),
        });
        let registry = Registry::of_shard();
        registry.messengers.borrow_mut().insert(messenger.local(), Rc::downgrade(&messenger));
        registry.registered.notify_all();
        drop(reactor::spawn(Group::Statement, "internode-sweep", messenger.clone().sweep()));
        if let Some(listener) = listener {
            drop(reactor::spawn(Group::Maintenance, "internode-accept", messenger.clone().accept(listener)));
            topology.peers().for_each(|peer| messenger.begin_heartbeat(peer.index));
        } else {
            drop(reactor::spawn(Group::Maintenance, "internode-liveness", messenger.clone().ask_shard_0()));
        }
        Ok(messenger)
    }

    fn begin_heartbeat(&self, to: NodeIndex) {
        if let Some(messenger) = self.rc() {
            drop(reactor::spawn(Group::Maintenance, "internode-heartbeat", messenger.heartbeat(to)));
        }
    }

    /// The nodes are others: more, or of other states. Those that were known keep their indexes and their connections.
    /// Shard 0 comes last: it dials a new node, and hands over to the others what that sends.
    pub fn use_topology(&self, topology: Arc<Topology>) {
        let known = self.peers.borrow().len();
        let new: Vec<NodeIndex> = topology.nodes().iter().skip(known).map(|node| node.index).collect();
        let window = self.config.coalescing_window;
        self.peers.borrow_mut().extend(new.iter().map(|_| Peer::new(window)));
        *self.topology.borrow_mut() = topology;
        if self.shard == 0 {
            new.into_iter().for_each(|index| self.begin_heartbeat(index));
        }
    }

    /// Asks `to` and waits for the answer. The request is sent even if the future is never polled.
    pub fn call(&self, to: NodeIndex, verb: Verb, payload: &[u8], timeout: Duration) -> Call {
        let state = Rc::new(CallState::default());
        let id = self.begin(to, verb, payload, timeout, Waiter::Call(state.clone()));
        state.id.set(id);
        Call { state, messenger: self.me.clone() }
    }

    /// Asks `to`; `on_done` gets the answer, in the connection's task, never within this call.
    pub fn call_with(
        &self,
        to: NodeIndex,
        verb: Verb,
        payload: &[u8],
        timeout: Duration,
        on_done: impl FnOnce(Result<&[u8], CallError>) + 'static,
    ) {
        self.begin(to, verb, payload, timeout, Waiter::Callback(Box::new(on_done)));
    }

    /// Sends a request that wants no answer. It is lost when the node cannot be reached now.
    pub fn send(&self, to: NodeIndex, verb: Verb, payload: &[u8]) {
        if payload.len() > self.config.frame_max_bytes as usize || self.stopping.get() {
            return;
        }
        if to == self.local() {
            self.defer(Deferred::Loopback { verb, payload: payload.into(), reply: Reply::unwanted(verb) });
        } else if let Some(link) = self.link_to(to, verb.lane())
            && link.queued_bytes() <= self.config.queue_max_bytes
        {
            link.push(0, verb.0, ONE_WAY, 0, payload);
        }
    }

    fn begin(&self, to: NodeIndex, verb: Verb, payload: &[u8], timeout: Duration, waiter: Waiter) -> Option<u64> {
        let peer = self.peer(to);
        let lane = verb.lane();
        let max = self.config.frame_max_bytes;
        let link = if payload.len() > max as usize {
            Err(CallError::TooLarge { bytes: payload.len(), max })
        } else if peer.outstanding.get() >= self.config.outstanding_max {
            Err(CallError::Overloaded)
        } else if self.stopping.get() {
            Err(CallError::Unreachable)
        } else if to == self.local() {
            Ok(None)
        } else {
            match self.link_to(to, lane) {
                None => Err(CallError::Unreachable),
                Some(link) if link.queued_bytes() > self.config.queue_max_bytes => Err(CallError::Overloaded),
                Some(link) => Ok(Some(link)),
            }
        };
        let link = match link {
            Ok(link) => link,
            Err(error) => {
                if error == CallError::Overloaded {
                    self.counters.overloads.set(self.counters.overloads.get() + 1);
                }
                self.defer(Deferred::Finish(waiter, Err(error)));
                return None;
            }
        };
        let (id, deadline_ns) = self.outstanding.borrow_mut().insert(to, lane as u8, reactor::now(), timeout, waiter);
        peer.outstanding.set(peer.outstanding.get() + 1);
        self.counters.requests_sent.set(self.counters.requests_sent.get() + 1);
        match link {
            Some(link) => link.push(id, verb.0, 0, 0, payload),
            None => {
                let reply = Reply::local(self.me.clone(), verb, id);
                self.defer(Deferred::Loopback { verb, payload: payload.into(), reply });
            }
        }
        self.sweeper.watch(deadline_ns);
        Some(id)
    }

    /// Whether the node answers; this node always does.
    pub fn is_alive(&self, node: NodeIndex) -> bool {
        node == self.local() || self.peer(node).alive.get()
    }

    /// `callback(node, alive)` is called on this shard at every change from now on.
    pub fn on_liveness_change(&self, callback: impl Fn(NodeIndex, bool) + 'static) {
        self.on_liveness.borrow_mut().push(Rc::new(callback));
    }

    /// The version that this node tells the others. Shard 0's is the one that is told, to all of them at once.
    pub fn set_schema_version(&self, version: u128) {
        if self.schema_version.replace(version) == version || self.shard != 0 {
            return;
        }
        for peer in self.topology().peers() {
            self.poke_heartbeat(peer.index, false);
        }
    }

    pub fn schema_version(&self) -> u128 {
        self.schema_version.get()
    }

    /// What the node said last, if it ever did.
    pub fn schema_version_of(&self, node: NodeIndex) -> Option<u128> {
        if node == self.local() { Some(self.schema_version()) } else { self.peer(node).schema_version.get() }
    }

    /// Every node that is alive has this node's schema version.
    pub fn schema_agrees(&self) -> bool {
        let ours = Some(self.schema_version());
        self.topology().peers().all(|node| !self.is_alive(node.index) || self.schema_version_of(node.index) == ours)
    }

    /// `callback(node, its version)` is called on shard 0 whenever a heartbeat, either way, shows a version other than
    /// ours: again at every heartbeat until they agree.
    pub fn on_schema_difference(&self, callback: impl Fn(NodeIndex, u128) + 'static) {
        self.on_schema_difference.borrow_mut().push(Rc::new(callback));
    }

    pub fn counters(&self) -> &MessengerCounters {
        &self.counters
    }

    /// Requests of this shard that wait for an answer.
    pub fn outstanding(&self) -> usize {
        self.outstanding.borrow().len()
    }

    /// Why the last connection to or from the node ended, if one did.
    pub fn last_end(&self, node: NodeIndex) -> Option<String> {
        self.peer(node).last_end.borrow().clone()
    }

    /// Closes every connection and lets the handler go; waiting requests end with an error.
    pub fn stop(&self) {
        if self.stopping.replace(true) {
            return;
        }
        self.stopped.notify_all();
        let inbound = self.inbound.take();
        for link in inbound.values() {
            link.close(LinkError::Stopping);
        }
        let peers = self.peers.borrow().clone();
        for (index, peer) in peers.iter().enumerate() {
            for (lane, state) in peer.lanes.iter().enumerate() {
                let link = state.link.take();
                if let Some(link) = link {
                    link.close(LinkError::Stopping);
                }
                self.fail_outstanding(NodeIndex(index as u16), lane, CallError::Disconnected);
            }
            self.poke_heartbeat(NodeIndex(index as u16), false);
        }
        drop(self.handler.take());
        self.sweeper.poke();
    }

    pub fn topology(&self) -> Arc<Topology> {
        self.topology.borrow().clone()
    }

    pub fn config(&self) -> &MessengerConfig {
        &self.config
    }

    pub(super) fn local(&self) -> NodeIndex {
        self.local
    }

    pub(super) fn shard(&self) -> usize {
        self.shard
    }

    pub(super) fn shards(&self) -> usize {
        self.shards
    }

    pub(super) fn rc(&self) -> Option<Rc<Self>> {
        self.me.upgrade()
    }

    /// # Panics
    /// For a node that the messenger has not been told of.
    pub(super) fn peer(&self, node: NodeIndex) -> Rc<Peer> {
        self.peers.borrow()[node.as_usize()].clone()
    }

    /// What the writers of a lane's connections with the node share.
    pub(super) fn coalescing(&self, node: NodeIndex, lane: usize) -> Option<Rc<RefCell<Coalescing>>> {
        self.peer(node).coalescing.clone().filter(|_| lane != CONTROL && lane != BULK)
    }

    pub(super) fn handler(&self) -> Option<Rc<dyn Handler>> {
        self.handler.borrow().clone()
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.get()
    }

    /// Runs `deferred` in a turn of its own.
    fn defer(&self, deferred: Deferred) {
        match deferred {
            // The sweeper has gone.
            Deferred::Finish(waiter, result) if self.dismantled.get() => {
                drop(reactor::spawn(Group::Statement, "internode-sweep", async move { waiter.finish(result) }));
            }
            deferred => self.sweeper.defer(deferred),
        }
    }

    pub(super) fn take_outstanding(&self, id: u64) -> Option<Waiter> {
        let taken = self.outstanding.borrow_mut().take(id)?;
        self.forget_one(taken.to);
        Some(taken.waiter)
    }

    pub(super) fn take_expired(&self, now_ns: u64) -> Option<Waiter> {
        let taken = self.outstanding.borrow_mut().expired(now_ns)?;
        self.forget_one(taken.to);
        Some(taken.waiter)
    }

    fn forget_one(&self, to: NodeIndex) {
        let peer = self.peer(to);
        peer.outstanding.set(peer.outstanding.get() - 1);
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.outstanding.borrow().next_deadline()
    }

    pub(super) fn fail_outstanding(&self, to: NodeIndex, lane: usize, error: CallError) {
        let ids = self.outstanding.borrow().ids_of(to, lane as u8);
        for id in ids {
            if let Some(waiter) = self.take_outstanding(id) {
                self.defer(Deferred::Finish(waiter, Err(error.clone())));
            }
        }
    }

    /// Ends a request in a turn of its own.
    pub(super) fn finish_later(&self, id: u64, result: Result<Payload, CallError>) {
        if let Some(waiter) = self.take_outstanding(id) {
            self.defer(Deferred::Finish(waiter, result));
        }
    }

    /// Notes why a connection ended; says it aloud where it is a fault, once per reason.
    pub(super) fn log_end(&self, node: NodeIndex, direction: &str, reason: &LinkError) {
        let text = reason.to_string();
        let known = self.peer(node);
        let mut last = known.last_end.borrow_mut();
        if reason.is_fault() {
            self.counters.faults.set(self.counters.faults.get() + 1);
            if last.as_ref() != Some(&text) {
                let peer = self.topology().node(node).address;
                tracing::warn!(node = self.local().0, %peer, direction, reason = text, "closed a connection between nodes");
            }
        }
        *last = Some(text);
    }

    /// Lets go of everything that may point back here. Callbacks are dropped uncalled: their shard is closing.
    pub(super) fn dismantle(&self) {
        self.stopping.set(true);
        self.dismantled.set(true);
        drop(self.handler.take());
        let waiters = self.outstanding.borrow_mut().clear();
        drop(waiters);
        drop(self.on_liveness.take());
        drop(self.on_schema_difference.take());
    }
}
