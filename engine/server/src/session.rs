//! One client connection: frames in, requests executed side by side, answers out in the order they are ready.
//!
//! A request is executed in place when it needs no wait, and becomes a task only when it does. A connection with too
//! many requests in flight, or whose client does not read, is not read from until that has passed.

use std::cell::Cell;
use std::rc::Rc;

use cql::frame::{self, EVENT_STREAM};
use cql::request::EventKind;
use cql::response::{Error, Event, encode_supported};
use cql::{Compression, Direction, FrameBuffer, FrameError, Header, Opcode, Request};
use query::{Client, Node};
use reactor::net::Connection;
use reactor::sync::Notify;
use reactor::{Buf, Group, Work};

use crate::outbox::Outbox;

/// Cassandra's `native_transport_max_frame_size` since 4.0.
const BODY_MAX: usize = 16 << 20;
/// What one receive may bring.
const RECEIVE_BYTES: usize = 64 << 10;

struct Session {
    node: Rc<Node>,
    client: Rc<Client>,
    outbox: Rc<Outbox>,
    compression: Cell<Compression>,
    in_flight: Cell<usize>,
    /// A request has ended, or answers have left.
    progress: Notify,
    listener: Cell<Option<u64>>,
}

/// Serves one connection until its client ends it or breaks the protocol.
pub(crate) async fn serve(node: Rc<Node>, connection: Connection, in_flight_max: usize) {
    let session = Rc::new(Session {
        client: Client::new(),
        outbox: Rc::default(),
        compression: Cell::default(),
        in_flight: Cell::new(0),
        progress: Notify::new(),
        listener: Cell::new(None),
        node,
    });
    let writer = {
        let (session, connection) = (session.clone(), connection.clone());
        reactor::spawn(Group::Statement, "session-write", async move {
            let sent = session.outbox.send_to(&connection, || session.progress.notify_all()).await;
            if sent.is_err() {
                // Wakes the reader, which finds the connection ended.
                let _ = connection.shutdown().await;
            }
        })
    };
    if let Err(error) = session.clone().read(&connection, in_flight_max).await {
        tracing::debug!(%error, "a client connection ended");
    }
    if let Some(listener) = session.listener.take() {
        session.node.unlisten(listener);
    }
    session.progress.wait_until(|| session.in_flight.get() == 0).await;
    session.outbox.close();
    writer.await;
    let _ = connection.shutdown().await;
}

impl Session {
    async fn read(self: Rc<Self>, connection: &Connection, in_flight_max: usize) -> std::io::Result<()> {
        let mut frames = FrameBuffer::new(Direction::Request, BODY_MAX);
        let mut received = Buf::with_capacity(RECEIVE_BYTES);
        loop {
            received.clear();
            let (result, buf) = connection.recv(received).await;
            received = buf;
            if result? == 0 {
                return Ok(());
            }
            frames.extend(&received);
            loop {
                match frames.next_frame() {
                    Ok(Some((header, body))) => self.accept(header, body),
                    Ok(None) => break,
                    Err(error) => {
                        self.outbox.write(|out| error.reply(out));
                        return Ok(());
                    }
                }
                if self.in_flight.get() >= in_flight_max || self.outbox.is_full() {
                    let ready = || self.in_flight.get() < in_flight_max && !self.outbox.is_full();
                    self.progress.wait_until(ready).await;
                }
            }
        }
    }

    /// Starts one request.
    fn accept(self: &Rc<Self>, header: Header, body: &[u8]) {
        reactor::charge(Work::FrameDecode, body.len() as u64);
        let mut scratch = Vec::new();
        let body = match frame::plain_body(&header, body, self.compression.get(), BODY_MAX, &mut scratch) {
            Ok(body) => body.to_vec(),
            Err(error) => return self.refuse(header.stream, Error::protocol(error.to_string())),
        };
        match header.opcode {
            Opcode::Query | Opcode::Prepare | Opcode::Execute | Opcode::Batch => self.execute(header, body),
            _ => self.control(header, &body),
        }
    }

    fn execute(self: &Rc<Self>, header: Header, body: Vec<u8>) {
        self.in_flight.set(self.in_flight.get() + 1);
        let session = self.clone();
        reactor::run_or_spawn(Group::Statement, "request", async move {
            let outcome = match Request::decode(&header, &body) {
                Ok(request) => session.node.execute(&session.client, request).await,
                Err(error) => Err(Error::protocol(error.to_string())),
            };
            session.answer(header.stream, outcome);
            session.in_flight.set(session.in_flight.get() - 1);
            session.progress.notify_all();
        });
    }

    fn answer(&self, stream: i16, outcome: Result<query::Outcome, Error>) {
        let encoded = self.outbox.write(|out| {
            let before = out.len();
            let opcode = if outcome.is_ok() { Opcode::Result } else { Opcode::Error };
            let start = frame::begin(out, opcode, stream);
            match &outcome {
                Ok(outcome) => outcome.encode(out),
                Err(error) => error.encode(out),
            }
            frame::finish(out, start, self.compression.get()).map(|()| out.len() - before)
        });
        match encoded {
            Ok(bytes) => reactor::charge(Work::FrameEncode, bytes as u64),
            Err(FrameError::BodyTooLong(_)) => {
                self.refuse(stream, Error::invalid("The result is too large for a frame; ask for it in pages"));
            }
            Err(error) => self.refuse(stream, Error::server(error.to_string())),
        }
    }

    fn refuse(&self, stream: i16, error: Error) {
        self.reply(stream, Opcode::Error, |out| error.encode(out));
    }

    fn reply(&self, stream: i16, opcode: Opcode, encode: impl FnOnce(&mut Vec<u8>)) {
        self.outbox.write(|out| {
            let start = frame::begin(out, opcode, stream);
            encode(out);
            if frame::finish(out, start, Compression::None).is_err() {
                tracing::error!("a control answer of over 2 GiB");
            }
        });
    }

    /// Requests of the connection itself.
    fn control(self: &Rc<Self>, header: Header, body: &[u8]) {
        let stream = header.stream;
        match Request::decode(&header, body) {
            Ok(Request::Startup(options)) => self.startup(stream, &options),
            Ok(Request::Options) => self.reply(stream, Opcode::Supported, |out| {
                let options: [(&str, &[&str]); 3] = [
                    ("CQL_VERSION", &[query::CQL_VERSION]),
                    ("COMPRESSION", &["lz4"]),
                    ("PROTOCOL_VERSIONS", &["4/v4"]),
                ];
                encode_supported(out, &options);
            }),
            Ok(Request::Register(kinds)) => {
                self.register(&kinds);
                self.reply(stream, Opcode::Ready, |_| ());
            }
            Ok(Request::AuthResponse(_)) => {
                self.refuse(stream, Error::protocol("Unexpected AUTH_RESPONSE: no authentication was asked for"));
            }
            Ok(_) => self.refuse(stream, Error::protocol("Unexpected message")),
            Err(error) => self.refuse(stream, Error::protocol(error.to_string())),
        }
    }

    fn startup(&self, stream: i16, options: &[(&str, &str)]) {
        let option = |key: &str| options.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
        if option("CQL_VERSION").is_none() {
            return self.refuse(stream, Error::protocol("Missing value CQL_VERSION in STARTUP message"));
        }
        if let Some(name) = option("COMPRESSION").filter(|name| !name.is_empty()) {
            match Compression::from_name(name) {
                Some(compression) => self.compression.set(compression),
                None => {
                    let text = format!("Unsupported compression {name}; supported is lz4");
                    return self.refuse(stream, Error::protocol(text));
                }
            }
        }
        self.reply(stream, Opcode::Ready, |_| ());
    }

    fn register(self: &Rc<Self>, kinds: &[EventKind]) {
        if !kinds.contains(&EventKind::SchemaChange) || self.listener.get().is_some() {
            return;
        }
        // The outbox alone: the node must not keep the session alive.
        let outbox = self.outbox.clone();
        let listener = Rc::new(move |change: &query::Change| {
            outbox.write(|out| {
                let start = frame::begin(out, Opcode::Event, EVENT_STREAM);
                Event::Schema(change.to_protocol()).encode(out);
                let _ = frame::finish(out, start, Compression::None);
            });
        });
        self.listener.set(Some(self.node.listen(listener)));
    }
}
