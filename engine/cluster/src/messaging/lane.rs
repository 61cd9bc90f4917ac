//! The calling side: one connection per peer and lane, made when needed, with growing waits after failures.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use reactor::Buf;
use reactor::net::connect_from;

use super::frame::{self, ERROR, Header};
use super::handshake::Hello;
use super::inbound::answer_of;
use super::link::{Link, LinkError};
use super::messenger::{CONTROL, LANE_GROUPS, Messenger};
use super::{CallError, Payload, Verb};
use crate::topology::NodeIndex;

#[derive(Default)]
pub(super) struct Lane {
    /// Present from the first attempt to connect until the end; requests queue in it meanwhile.
    pub link: RefCell<Option<Rc<Link>>>,
    /// No attempt before this.
    retry_at_ns: Cell<u64>,
    /// The last wait; zero after a connection that held.
    wait_ns: Cell<u64>,
}

impl Lane {
    /// The next request may connect at once.
    pub fn forgive(&self) {
        self.retry_at_ns.set(0);
        self.wait_ns.set(0);
    }
}

impl Messenger {
    /// The lane's link, if there is one or may be one now.
    pub(super) fn link_to(&self, to: NodeIndex, lane: usize) -> Option<Rc<Link>> {
        let peer = self.peer(to);
        if lane != CONTROL && !peer.alive.get() {
            return None;
        }
        let state = &peer.lanes[lane];
        if let Some(link) = &*state.link.borrow() {
            return Some(link.clone());
        }
        if self.is_stopping() || reactor::now() < state.retry_at_ns.get() {
            return None;
        }
        let link = Link::new();
        *state.link.borrow_mut() = Some(link.clone());
        let (messenger, running) = (self.rc()?, link.clone());
        drop(reactor::spawn(LANE_GROUPS[lane], "internode-call", async move {
            let began_ns = reactor::now();
            let mut greeted = false;
            let reason = messenger.run_lane(to, lane, &running, &mut greeted).await;
            messenger.lane_ended(to, lane, &running, reason, greeted, began_ns);
        }));
        Some(link)
    }

    /// Connects, greets, and takes responses until the connection ends.
    async fn run_lane(self: &Rc<Self>, to: NodeIndex, lane: usize, link: &Rc<Link>, greeted: &mut bool) -> LinkError {
        let config = self.config();
        let begin = async {
            let from = config.bind_source.then(|| (self.topology().local().address, 0).into());
            let connection = connect_from(self.topology().node(to).internode_addr(), from).await?;
            let hello = Hello::new(&self.topology(), to, self.shard() as u16, lane as u8).encode();
            let mut out = Buf::new();
            frame::encode(&mut out, 0, Verb::HELLO.0, 0, 0, &hello);
            link.send_first(&connection, out).await?;
            let (header, payload, rest) = link.receive_first(&connection, config.frame_max_bytes).await?;
            if header.flags & ERROR != 0 {
                return Err(LinkError::Refused(String::from_utf8_lossy(&payload).into_owned()));
            }
            Ok((connection, rest))
        };
        let (connection, rest) = match reactor::time::timeout(config.connect_timeout, begin).await {
            Ok(Ok(begun)) => begun,
            Ok(Err(error)) => return error,
            Err(_) => return LinkError::ConnectTimeout,
        };
        *greeted = true;
        self.counters.connects.set(self.counters.connects.get() + 1);
        let write = link.clone().write(connection.clone(), self.coalescing(to, lane));
        drop(reactor::spawn(LANE_GROUPS[lane], "internode-send", write));
        link.read(&connection, rest, config.frame_max_bytes, |header, payload| self.take_response(header, payload))
            .await
    }

    fn take_response(&self, header: Header, payload: Payload) {
        if let Some(waiter) = self.take_outstanding(header.id) {
            waiter.finish(answer_of(header.flags, header.code, payload));
        }
    }

    fn lane_ended(&self, to: NodeIndex, lane: usize, link: &Rc<Link>, reason: LinkError, greeted: bool, began_ns: u64) {
        let peer = self.peer(to);
        let state = &peer.lanes[lane];
        let current = state.link.borrow().as_ref().is_some_and(|current| Rc::ptr_eq(current, link));
        if current {
            *state.link.borrow_mut() = None;
            let now = reactor::now();
            let (min, max) =
                (self.config().reconnect_min.as_nanos() as u64, self.config().reconnect_max.as_nanos() as u64);
            // Only a connection that held for a while earns an attempt at once.
            if greeted && now - began_ns >= max {
                state.forgive();
            } else {
                let wait = (state.wait_ns.get() * 2).clamp(min, max);
                state.wait_ns.set(wait);
                state.retry_at_ns.set(now + wait / 2 + reactor::random() % (wait / 2).max(1));
            }
        }
        self.log_end(to, "outgoing", &reason);
        let refusal = reason.is_refusal();
        link.close(reason);
        if current {
            self.fail_outstanding(to, lane, if greeted { CallError::Disconnected } else { CallError::Unreachable });
            if lane == CONTROL {
                self.control_ended(to, refusal);
            }
        }
    }
}
