//! The serving side: accepts connections, greets, hands requests to the handler.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::task::Poll;

use reactor::net::{Connection, Listener};
use reactor::{Buf, Group};

use super::frame::{ERROR, HEADER_LEN, Header, ONE_WAY, RESPONSE};
use super::handshake::Hello;
use super::link::{Link, LinkError};
use super::messenger::{LANE_GROUPS, Messenger, messenger_once_started};
use super::{CallError, Payload, Verb, frame, remote_code};
use crate::topology::NodeIndex;

/// A request of another node.
pub struct Incoming {
    pub from: NodeIndex,
    pub verb: Verb,
    pub payload: Payload,
    pub reply: Reply,
}

/// Where the answer goes. Dropped without one, the caller gets an error at once.
pub struct Reply {
    way: Way,
    verb: u8,
    id: u64,
}

enum Way {
    Link(Rc<Link>, Limits),
    /// The caller is this shard's own messenger.
    Local(Weak<Messenger>),
    /// Answered, or no answer is wanted.
    Nowhere,
}

#[derive(Clone, Copy)]
struct Limits {
    frame_max_bytes: u32,
    queue_max_bytes: usize,
}

impl Reply {
    pub(super) fn local(messenger: Weak<Messenger>, verb: Verb, id: u64) -> Self {
        Self { way: Way::Local(messenger), verb: verb.0, id }
    }

    pub(super) fn unwanted(verb: Verb) -> Self {
        Self { way: Way::Nowhere, verb: verb.0, id: 0 }
    }

    pub fn send(mut self, payload: &[u8]) {
        self.answer(RESPONSE, 0, payload);
    }

    /// `code` is below the codes of [`remote_code`]; it and the text reach the caller as `CallError::Remote`.
    pub fn error(mut self, code: u16, text: &str) {
        self.answer(RESPONSE | ERROR, code, text.as_bytes());
    }

    /// The caller is not waiting: a request sent one way.
    pub fn is_unwanted(&self) -> bool {
        matches!(self.way, Way::Nowhere)
    }

    fn answer(&mut self, flags: u8, code: u16, payload: &[u8]) {
        match std::mem::replace(&mut self.way, Way::Nowhere) {
            Way::Link(link, limits) => {
                if payload.len() > limits.frame_max_bytes as usize {
                    let text = format!("an answer of {} bytes is over the limit", payload.len());
                    link.push(self.id, self.verb, RESPONSE | ERROR, remote_code::ANSWER_TOO_LARGE, text.as_bytes());
                } else {
                    link.push(self.id, self.verb, flags, code, payload);
                }
                let queued = link.queued_bytes();
                if queued > limits.queue_max_bytes {
                    link.close(LinkError::Stuck(queued));
                }
            }
            Way::Local(messenger) => {
                if let Some(messenger) = messenger.upgrade() {
                    messenger.finish_later(self.id, answer_of(flags, code, payload.into()));
                }
            }
            Way::Nowhere => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        // A shard that is being torn down sends nothing.
        if !self.is_unwanted() && reactor::on_shard() {
            self.answer(RESPONSE | ERROR, remote_code::NO_ANSWER, b"the request was let go without an answer");
        }
    }
}

/// The meaning of a response frame.
pub(super) fn answer_of(flags: u8, code: u16, payload: Payload) -> Result<Payload, CallError> {
    if flags & ERROR == 0 {
        return Ok(payload);
    }
    Err(CallError::Remote { code, text: String::from_utf8_lossy(&payload).into_owned() })
}

impl Messenger {
    /// Accepts until the messenger stops.
    pub(super) async fn accept(self: Rc<Self>, listener: Listener) {
        let mut failures = 0u32;
        loop {
            let accepted = {
                let mut accepting = pin!(listener.accept());
                let mut stopped = pin!(self.stopped.notified());
                poll_fn(|cx| {
                    if self.is_stopping() || stopped.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(None);
                    }
                    accepting.as_mut().poll(cx).map(Some)
                })
                .await
            };
            match accepted {
                None => return,
                Some(Ok(connection)) => {
                    failures = 0;
                    drop(reactor::spawn(Group::Maintenance, "internode-greet", self.clone().greet(connection)));
                }
                Some(Err(error)) => {
                    // Out of descriptors or memory: others may free some.
                    failures += 1;
                    tracing::warn!(node = self.local().0, %error, failures, "cannot accept a connection between nodes");
                    reactor::time::sleep(self.config().reconnect_min).await;
                }
            }
        }
    }

    /// Reads the greeting and gives the connection to the shard that is to serve it.
    async fn greet(self: Rc<Self>, connection: Connection) {
        let link = Link::new();
        let first = link.receive_first(&connection, self.config().frame_max_bytes);
        let (header, payload, rest) = match reactor::time::timeout(self.config().connect_timeout, first).await {
            Ok(Ok(first)) => first,
            Ok(Err(LinkError::PeerClosed)) => return,
            Ok(Err(error)) => return self.log_bad_greeting(&connection, &error.to_string()),
            Err(_) => return self.log_bad_greeting(&connection, "no greeting in time"),
        };
        if Verb(header.verb) == Verb::ASK {
            return self.answer_stranger(&connection, header.id, payload).await;
        }
        if Verb(header.verb) != Verb::HELLO {
            return self.log_bad_greeting(&connection, "the first frame is not a greeting");
        }
        let hello = match Hello::decode(&payload) {
            Ok(hello) => hello,
            Err(objection) => return self.refuse(&connection, header.id, &objection).await,
        };
        if let Some(objection) = hello.objection(&self.topology()) {
            return self.refuse(&connection, header.id, &objection).await;
        }
        let shard = usize::from(hello.shard) % self.shards();
        let (node, group) = (self.local(), LANE_GROUPS[hello.lane()]);
        if shard == self.shard() {
            drop(reactor::spawn(group, "internode-serve", self.serve(connection, hello, header.id, rest)));
            return;
        }
        let Ok(fd) = connection.into_fd() else { return };
        drop(reactor::submit_to_with(shard, group, "internode-serve", move || async move {
            let connection = Connection::adopt(fd);
            if let Some(messenger) = messenger_once_started(node).await {
                messenger.serve(connection, hello, header.id, rest).await;
            }
        }));
    }

    fn log_bad_greeting(&self, connection: &Connection, reason: &str) {
        let peer = connection.peer_addr().map(|addr| addr.to_string()).unwrap_or_default();
        tracing::warn!(node = self.local().0, peer, reason, "a connection between nodes did not begin properly");
    }

    async fn refuse(&self, connection: &Connection, id: u64, objection: &str) {
        self.log_bad_greeting(connection, objection);
        let mut out = Buf::new();
        frame::encode(&mut out, id, Verb::HELLO.0, RESPONSE | ERROR, remote_code::REFUSED, objection.as_bytes());
        let _ = reactor::time::timeout(self.config().connect_timeout, connection.send_all(out)).await;
        let _ = connection.shutdown().await;
    }

    /// Serves one connection until it ends.
    async fn serve(self: Rc<Self>, connection: Connection, hello: Hello, id: u64, rest: Buf) {
        if self.is_stopping() {
            return;
        }
        let link = Link::new();
        let from = hello.from;
        let key = (from, hello.shard, hello.lane);
        if let Some(old) = self.inbound.borrow_mut().insert(key, link.clone()) {
            old.close(LinkError::Replaced);
        }
        let mut version = Buf::with_capacity(HEADER_LEN);
        version.extend_from_slice(&super::handshake::VERSION.to_be_bytes());
        link.push(id, Verb::HELLO.0, RESPONSE, 0, &version);
        let lane = hello.lane();
        let write = link.clone().write(connection.clone(), self.coalescing(from, lane));
        drop(reactor::spawn(LANE_GROUPS[lane], "internode-answer", write));
        let read = link.read(&connection, rest, self.config().frame_max_bytes, |header, payload| {
            self.take_request(&link, from, header, payload);
        });
        let reason = read.await;
        let mut inbound = self.inbound.borrow_mut();
        if inbound.get(&key).is_some_and(|current| Rc::ptr_eq(current, &link)) {
            inbound.remove(&key);
        }
        drop(inbound);
        self.log_end(from, "incoming", &reason);
        link.close(reason);
    }

    fn take_request(&self, link: &Rc<Link>, from: NodeIndex, header: Header, payload: Payload) {
        self.counters.requests_received.set(self.counters.requests_received.get() + 1);
        let verb = Verb(header.verb);
        let limits =
            Limits { frame_max_bytes: self.config().frame_max_bytes, queue_max_bytes: self.config().queue_max_bytes };
        let reply = match header.flags & ONE_WAY {
            0 => Reply { way: Way::Link(link.clone(), limits), verb: header.verb, id: header.id },
            _ => Reply::unwanted(verb),
        };
        if verb == Verb::HEARTBEAT {
            return self.answer_heartbeat(from, &payload, reply);
        }
        match self.handler() {
            Some(handler) => handler.handle(Incoming { from, verb, payload, reply }),
            None => {
                let mut reply = reply;
                reply.answer(RESPONSE | ERROR, remote_code::STOPPING, b"the node is stopping");
            }
        }
    }
}
