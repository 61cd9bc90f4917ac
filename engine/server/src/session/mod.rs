//! One client connection: frames in, requests executed side by side, answers out in the order they are ready.
//!
//! A request is executed in place when it needs no wait, and becomes a task only when it does. A connection with too
//! many requests in flight, or whose client does not read, is not read from until that has passed; a request that does
//! not fit the shard's memory for clients is refused as OVERLOADED. Whatever arrives, the node goes on: a client that
//! breaks the protocol is told so and, where nobody knows any more where the next frame begins, disconnected.

mod budget;
mod handshake;
mod inbound;
mod outbox;
mod transport;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use cql::frame::{self, FLAG_TRACING, FLAG_WARNING};
use cql::response::{Error, encode_warnings};
use cql::{Compression, FrameError, Header, Opcode, Request, Version};
use query::{Client, Node, Outcome, Watched};
use reactor::sync::Notify;
use reactor::{Buf, Group, Work};

pub(crate) use budget::{Budget, Claim};
pub(crate) use transport::Transport;

use crate::listeners::Serving;

use handshake::Stage;
use inbound::{Inbound, InboundError};
use outbox::Outbox;

/// Cassandra's `native_transport_max_frame_size` since 4.0.
const BODY_MAX: usize = 16 << 20;
/// What one receive may bring. Most connections never need more, and there can be tens of thousands.
const RECEIVE_BYTES: usize = 4 << 10;
/// The same once that was not enough.
const RECEIVE_BYTES_MAX: usize = 64 << 10;
/// What an answer is taken to need before the first has been given.
const ANSWER_BYTES_AT_FIRST: usize = 64 << 10;
/// An answer of more is not copied, and is not kept for a client that does not read.
const LARGE_ANSWER_BYTES: usize = 64 << 10;
/// Half a frame of more than this counts against the shard's memory for clients.
const PARTIAL_FREE_BYTES: usize = 64 << 10;

struct Session {
    node: Rc<Node>,
    client: Rc<Client>,
    outbox: Rc<Outbox>,
    budget: Rc<Budget>,
    stage: Cell<Stage>,
    /// Of frames, which v5 does not compress.
    compression: Cell<Compression>,
    in_flight: Cell<usize>,
    /// What an answer takes, in bytes: the largest of late, sinking by an eighth with each that is smaller.
    answer_bytes: Cell<usize>,
    /// A request has ended, or answers have left.
    progress: Notify,
    listeners: RefCell<Vec<u64>>,
    /// The connection among the node's clients, if its other end is known.
    registered: Option<u64>,
    /// The role that the client's certificate names.
    certified: Option<String>,
    serving: Rc<Serving>,
}

/// Serves one connection until its client ends it or breaks the protocol.
pub(crate) async fn serve(serving: Rc<Serving>, transport: Transport) {
    let (node, budget, in_flight_max) = (serving.node.clone(), serving.budget.clone(), serving.requests_max);
    node.counts.connection(true);
    let client = Client::new();
    let registered = transport.peer_addr().ok().map(|address| {
        client.set_address(address);
        node.clients.add(address, transport.encryption())
    });
    let session = Rc::new(Session {
        client,
        outbox: Outbox::new(budget.clone()),
        budget,
        stage: Cell::default(),
        compression: Cell::default(),
        in_flight: Cell::new(0),
        answer_bytes: Cell::new(ANSWER_BYTES_AT_FIRST),
        progress: Notify::new(),
        listeners: RefCell::default(),
        registered,
        certified: transport.certificate_names().and_then(|names| serving.identities.role_of(&names)),
        serving,
        node,
    });
    let writer = {
        let (session, transport) = (session.clone(), transport.clone());
        reactor::spawn(Group::Statement, "session-write", async move {
            let sent = session.outbox.send_to(&transport, || session.progress.notify_all()).await;
            if sent.is_err() {
                session.outbox.abandon();
                session.progress.notify_all();
                // Wakes the reader, if it waits for the client.
                let _ = transport.shutdown().await;
            }
        })
    };
    if let Err(error) = session.clone().read(&transport, in_flight_max).await {
        tracing::debug!(%error, "a client connection ended");
    }
    session.client.leave();
    reactor::time::give_way().await;
    for listener in session.listeners.take() {
        session.node.unlisten(listener);
    }
    session.progress.wait_until(|| session.in_flight.get() == 0).await;
    session.node.counts.connection(false);
    if let Some(id) = session.registered {
        session.node.clients.remove(id);
    }
    session.outbox.close();
    writer.await;
    let _ = transport.shutdown().await;
}

impl Session {
    async fn read(self: Rc<Self>, transport: &Transport, in_flight_max: usize) -> std::io::Result<()> {
        let mut inbound = Inbound::new(BODY_MAX);
        let mut received = Buf::with_capacity(RECEIVE_BYTES);
        let mut partial: Option<Claim> = None;
        // What came last took more than a turn.
        let mut asks_for_much = false;
        loop {
            let was_full = received.spare() == 0;
            received.clear();
            if was_full && received.capacity() < RECEIVE_BYTES_MAX {
                received.reserve(RECEIVE_BYTES_MAX);
            }
            let (result, buf) = transport.recv(received).await;
            received = buf;
            // Connections that come and go, and those that ask for much, wait behind the others.
            if std::mem::take(&mut asks_for_much) || self.stage.get() != Stage::Ready {
                reactor::time::give_way().await;
            }
            // Those who were connected before clients were turned away are too, once they speak.
            if result? == 0 || !self.node.accepts_clients.get() {
                return Ok(());
            }
            partial.take();
            let mut arrived = inbound.extend(&received);
            loop {
                match arrived.and_then(|()| self.next(&mut inbound)) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        self.node.counts.error("protocol_error");
                        self.outbox.write(|out| error.reply(inbound.version(), out));
                        return Ok(());
                    }
                }
                arrived = Ok(());
                // With nothing left to do it is what comes next that waits, and only once.
                asks_for_much = reactor::time::is_turn_over();
                if asks_for_much && inbound.pending() > 0 {
                    reactor::time::give_way().await;
                }
                if !self.may_go_on(in_flight_max) {
                    self.progress.wait_until(|| self.may_go_on(in_flight_max) || self.outbox.is_abandoned()).await;
                }
                if self.outbox.is_abandoned() {
                    return Ok(());
                }
            }
            if inbound.pending() > PARTIAL_FREE_BYTES {
                partial = self.budget.claim(inbound.pending());
                if partial.is_none() {
                    self.refuse(0, overloaded());
                    return Ok(());
                }
            }
        }
    }

    /// Whether to begin another request: those in flight will bring answers too, of about the size of the last ones.
    fn may_go_on(&self, in_flight_max: usize) -> bool {
        let in_flight = self.in_flight.get();
        in_flight < in_flight_max && !self.outbox.is_full(in_flight.saturating_mul(self.answer_bytes.get()))
    }

    /// Starts the next request that has arrived whole; `false` when there is none.
    fn next(self: &Rc<Self>, inbound: &mut Inbound) -> Result<bool, InboundError> {
        let Some((header, body)) = inbound.next_frame()? else { return Ok(false) };
        let started = self.accept(header, body);
        if let Some((version, compression)) = started {
            inbound.started(version, compression)?;
        }
        Ok(true)
    }

    /// Starts one request. Gives what STARTUP agreed on, if it was that.
    fn accept(self: &Rc<Self>, header: Header, body: &[u8]) -> Option<(Version, Compression)> {
        reactor::charge(Work::FrameDecode, body.len() as u64);
        if self.stage.get() == Stage::New {
            self.client.set_version(header.version);
        }
        let mut scratch = Vec::new();
        let body = match frame::plain_body(&header, body, self.compression.get(), BODY_MAX, &mut scratch) {
            Ok(body) => body.to_vec(),
            Err(error) => {
                self.refuse(header.stream, Error::protocol(error.to_string()));
                return None;
            }
        };
        match header.opcode {
            Opcode::Query | Opcode::Prepare | Opcode::Execute | Opcode::Batch => {
                match self.stage.get() {
                    Stage::Ready => self.execute(header, body),
                    stage => self.refuse(header.stream, stage.unexpected(header.opcode)),
                }
                None
            }
            _ => self.control(header, &body),
        }
    }

    fn execute(self: &Rc<Self>, header: Header, body: Vec<u8>) {
        if self.serving.in_flight.get() >= self.node.settings.requests_max() {
            return self.refuse(header.stream, too_many());
        }
        let Some(claim) = self.budget.claim(body.len()) else { return self.refuse(header.stream, overloaded()) };
        if let Some(watched) = self.node.watch(header.wants_tracing(), &self.client, body.len()) {
            return self.execute_watched(header, body, watched, claim);
        }
        self.run(async move |session| {
            let outcome = session.perform(&header, &body).await;
            session.answer(header.stream, outcome, None);
            drop(claim);
        });
    }

    async fn perform(&self, header: &Header, body: &[u8]) -> Result<Outcome, Error> {
        match Request::decode(header, body) {
            Ok(request) => self.node.execute(&self.client, request).await,
            Err(error) => Err(Error::protocol(error.to_string())),
        }
    }

    /// [`execute`](Self::execute) for a request of which something is to be written down.
    fn execute_watched(self: &Rc<Self>, header: Header, body: Vec<u8>, watched: Rc<Watched>, claim: Claim) {
        self.run(async move |session| {
            let (node, client) = (&session.node, &session.client);
            let outcome = Box::pin(node.watched(&watched, client, session.perform(&header, &body))).await;
            let bytes = session.answer(header.stream, outcome, watched.asked_id());
            node.conclude(watched, client, bytes);
            drop(claim);
        });
    }

    /// Does `work` as one of the connection's requests.
    fn run(self: &Rc<Self>, work: impl AsyncFnOnce(&Rc<Self>) + 'static) {
        self.in_flight.set(self.in_flight.get() + 1);
        self.serving.in_flight.set(self.serving.in_flight.get() + 1);
        let session = self.clone();
        reactor::run_or_spawn(Group::Statement, "request", async move {
            work(&session).await;
            session.in_flight.set(session.in_flight.get() - 1);
            session.serving.in_flight.set(session.serving.in_flight.get() - 1);
            session.progress.notify_all();
        });
    }

    /// Gives the frame's length. `trace`: where the client finds the trace that it has asked for.
    fn answer(&self, stream: i16, outcome: Result<Outcome, Error>, trace: Option<[u8; 16]>) -> usize {
        let outcome = match outcome {
            // Of what the client does not read, no more is kept than there is memory for.
            Ok(Outcome::Body(rows))
                if rows.len() > LARGE_ANSWER_BYTES && self.outbox.is_full(0) && self.budget.is_short() =>
            {
                Err(overloaded())
            }
            outcome => outcome,
        };
        let version = self.client.version();
        let counts = &self.node.counts;
        counts.requests_served.set(counts.requests_served.get() + 1);
        if let Err(error) = &outcome {
            counts.error(error.kind.metric());
        }
        let begin = |out: &mut Vec<u8>, opcode: Opcode, warnings: &[String]| {
            let warned = !warnings.is_empty() && version >= Version::V4;
            let flag = |set: bool, flag: u8| if set { flag } else { 0 };
            let flags = flag(warned, FLAG_WARNING) | flag(trace.is_some(), FLAG_TRACING);
            let start = frame::begin_version(out, version, opcode, stream, flags);
            out.extend(trace.iter().flatten());
            if warned {
                encode_warnings(out, warnings);
            }
            start
        };
        let compression = self.compression.get();
        let encoded = match outcome {
            // Moved: to copy a megabyte into fresh memory would hold up the others.
            Ok(Outcome::Body(mut rows)) if rows.len() > LARGE_ANSWER_BYTES && self.outbox.is_empty() => {
                let mut head = Vec::new();
                let start = begin(&mut head, Opcode::Result, &[]);
                rows.splice(0..0, head);
                frame::finish(&mut rows, start, compression).map(|()| self.outbox.put(rows))
            }
            outcome => self.outbox.write(|out| {
                let before = out.len();
                let opcode = if outcome.is_ok() { Opcode::Result } else { Opcode::Error };
                let start = begin(out, opcode, outcome.as_ref().map_or(&[][..], Outcome::warnings));
                match &outcome {
                    Ok(outcome) => outcome.encode(out),
                    Err(error) => error.encode_as(out, version),
                }
                frame::finish(out, start, compression).map(|()| out.len() - before)
            }),
        };
        match encoded {
            Ok(bytes) => {
                let before = self.answer_bytes.get();
                self.answer_bytes.set(bytes.max(before - before / 8));
                reactor::charge(Work::FrameEncode, bytes as u64);
                return bytes;
            }
            Err(FrameError::BodyTooLong(_)) => {
                self.refuse(stream, Error::invalid("The result is too large for a frame; ask for it in pages"));
            }
            Err(error) => self.refuse(stream, Error::server(error.to_string())),
        }
        0
    }

    fn refuse(&self, stream: i16, error: Error) {
        self.node.counts.error(error.kind.metric());
        self.reply(stream, Opcode::Error, |out| error.encode_as(out, self.client.version()));
    }

    fn reply(&self, stream: i16, opcode: Opcode, encode: impl FnOnce(&mut Vec<u8>)) {
        self.outbox.write(|out| {
            let start = frame::begin_version(out, self.client.version(), opcode, stream, 0);
            encode(out);
            if frame::finish(out, start, Compression::None).is_err() {
                tracing::error!("a control answer of over 2 GiB");
            }
        });
    }
}

/// In Scylla's words.
fn too_many() -> Error {
    Error::overloaded("too many in-flight requests (configured via max_concurrent_requests_per_shard)")
}

fn overloaded() -> Error {
    Error::overloaded("Requests and answers that wait to be read fill this shard's memory for clients")
}
