//! Who is alive, and which schema each node has.
//!
//! Shard 0 sends every peer a heartbeat on the control connection; request and answer carry the sender's schema
//! version. A peer comes up with an answered heartbeat and goes down when its connection is refused, or when no
//! heartbeat was answered for `down_after`. Then its connections are closed: a peer that lost power would otherwise
//! keep them half open, and with them every request that waits.

use std::rc::Rc;

use reactor::Group;

use super::inbound::Reply;
use super::link::LinkError;
use super::messenger::{CONTROL, Messenger, messenger_of};
use super::{CallError, Verb};
use crate::topology::NodeIndex;

/// What the other shards learn from shard 0 about one peer.
#[derive(Clone, Copy)]
struct News {
    node: NodeIndex,
    alive: bool,
    schema_version: Option<u128>,
}

impl Messenger {
    /// The task of one peer, on shard 0.
    pub(super) async fn heartbeat(self: Rc<Self>, to: NodeIndex) {
        let interval_ns = self.config().heartbeat_interval.as_nanos() as u64;
        let down_after_ns = self.config().down_after.as_nanos() as u64;
        let peer = self.peer(to);
        while !self.is_stopping() {
            let sent_ns = reactor::now();
            let messenger = Rc::downgrade(&self);
            let payload = self.schema_version().to_be_bytes();
            self.call_with(to, Verb::HEARTBEAT, &payload, self.config().down_after, move |result| {
                if let (Some(messenger), Ok(answer)) = (messenger.upgrade(), result) {
                    messenger.heartbeat_answered(to, answer);
                }
            });
            let next_ns = sent_ns + interval_ns;
            let until_ns = if peer.alive.get() { next_ns.min(peer.answered_ns.get() + down_after_ns) } else { next_ns };
            let sleep = reactor::time::sleep_until(until_ns.max(sent_ns + 1_000_000));
            peer.poked.set(false);
            peer.poke.wait_or(sleep, || peer.poked.get()).await;
            let now = reactor::now();
            if now > until_ns + interval_ns {
                // This shard itself was held up: the answers may be waiting in our own socket.
                peer.answered_ns.set(peer.answered_ns.get().max(now - interval_ns));
            } else if peer.alive.get() && now >= peer.answered_ns.get() + down_after_ns {
                self.set_alive(to, false);
            }
        }
    }

    fn heartbeat_answered(&self, node: NodeIndex, answer: &[u8]) {
        self.peer(node).answered_ns.set(reactor::now());
        self.set_alive(node, true);
        if let Ok(version) = answer.try_into() {
            self.learn_schema_version(node, u128::from_be_bytes(version));
        }
    }

    pub(super) fn answer_heartbeat(&self, from: NodeIndex, payload: &[u8], reply: Reply) {
        reply.send(&self.schema_version().to_be_bytes());
        if !self.peer(from).alive.get() {
            // It is there: find out at once whether it answers.
            self.poke_heartbeat(from, true);
        }
        if let Ok(version) = payload.try_into() {
            self.learn_schema_version(from, u128::from_be_bytes(version));
        }
    }

    /// Sends the next heartbeat now; `forgive` also ends the wait before the next attempt to connect.
    pub(super) fn poke_heartbeat(&self, node: NodeIndex, forgive: bool) {
        let peer = self.peer(node);
        if forgive {
            peer.lanes[CONTROL].forgive();
        }
        peer.poked.set(true);
        peer.poke.notify_all();
    }

    /// The control connection to a peer ended.
    pub(super) fn control_ended(&self, node: NodeIndex, refused: bool) {
        if self.shard() != 0 || !self.peer(node).alive.get() {
            return;
        }
        if refused {
            self.set_alive(node, false);
        } else {
            self.poke_heartbeat(node, true);
        }
    }

    fn set_alive(&self, node: NodeIndex, alive: bool) {
        let peer = self.peer(node);
        if peer.alive.replace(alive) == alive {
            return;
        }
        let address = self.topology().node(node).address;
        if self.shard() == 0 {
            tracing::info!(node = self.local().0, peer = %address, alive, "a node changed its state");
        }
        for lane in 0..peer.lanes.len() {
            if alive {
                peer.lanes[lane].forgive();
            } else {
                let link = peer.lanes[lane].link.borrow().clone();
                if let Some(link) = link {
                    link.close(LinkError::Down);
                }
                // Not left to the connection's task: nobody should wait for a node that is known to be down.
                self.fail_outstanding(node, lane, CallError::Disconnected);
            }
        }
        self.spread(node);
        let callbacks = self.on_liveness.borrow().clone();
        for callback in callbacks {
            callback(node, alive);
        }
    }

    fn learn_schema_version(&self, node: NodeIndex, version: u128) {
        if self.peer(node).schema_version.replace(Some(version)) != Some(version) {
            self.spread(node);
        }
        if version != self.schema_version() {
            let callbacks = self.on_schema_difference.borrow().clone();
            for callback in callbacks {
                callback(node, version);
            }
        }
    }

    fn news(&self, node: NodeIndex) -> News {
        let peer = self.peer(node);
        News { node, alive: peer.alive.get(), schema_version: peer.schema_version.get() }
    }

    /// Shard 0 tells the others.
    fn spread(&self, node: NodeIndex) {
        if self.shard() != 0 {
            return;
        }
        let (local, news) = (self.local(), self.news(node));
        for shard in 1..self.shards() {
            drop(reactor::submit_to_with(shard, Group::Maintenance, "internode-liveness", move || async move {
                if let Some(messenger) = messenger_of(local) {
                    messenger.follow(news);
                }
            }));
        }
    }

    fn follow(&self, news: News) {
        // One that came about meanwhile; its news will be told again.
        if news.node.as_usize() >= self.topology().len() {
            return;
        }
        let peer = self.peer(news.node);
        peer.schema_version.set(news.schema_version);
        self.set_alive(news.node, news.alive);
    }

    /// A shard that starts later than shard 0 asks what it missed.
    pub(super) async fn ask_shard_0(self: Rc<Self>) {
        let local = self.local();
        let news = reactor::submit_to_with(0, Group::Maintenance, "internode-liveness", move || async move {
            let messenger = messenger_of(local)?;
            let topology = messenger.topology();
            Some(topology.peers().map(|peer| messenger.news(peer.index)).collect::<Vec<_>>())
        })
        .await;
        for news in news.into_iter().flatten() {
            self.follow(news);
        }
    }
}
