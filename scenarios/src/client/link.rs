//! One connection of the loading client: requests of many threads in one send, responses matched by stream.
//!
//! Requests are encoded into `out` and leave together the next time the link's task is polled, so everything that one
//! batch of responses set off is one send. A link that breaks fails what was in flight, waits a second and connects
//! again, until the client closes.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use cql::frame::{self, BODY_MAX, HEADER_LEN};
use cql::{Direction, Header};
use reactor::Buf;
use reactor::net::Connection;

use crate::client::error::ClientError;
use crate::client::wire::Dialogue;
use crate::workload::Operation;

const RECEIVE_BYTES: usize = 64 << 10;
/// As long as a task may run before others get their turn; what it has queued by then is sent.
const TURN_NS: u64 = 500_000;
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// An operation that has been sent and not been answered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    pub due_ns: u64,
    pub begun_ns: u64,
    pub partition: u64,
    pub version: u64,
    pub operation: Operation,
    /// Of a read-modify-write, the read has been answered.
    pub is_modifying: bool,
    /// Counted as timed out; the stream stays taken until the answer comes.
    pub given_up: bool,
}

/// Streams of one connection. The protocol has 32,768; threads are fewer.
#[derive(Default)]
struct Streams {
    slots: Vec<Option<Flight>>,
    free: Vec<i16>,
}

impl Streams {
    fn take(&mut self, flight: Flight) -> Option<i16> {
        let stream = match self.free.pop() {
            Some(stream) => stream,
            None => {
                let stream = i16::try_from(self.slots.len()).ok()?;
                self.slots.push(None);
                stream
            }
        };
        self.slots[stream as usize] = Some(flight);
        Some(stream)
    }

    fn give_back(&mut self, stream: i16) -> Option<Flight> {
        let flight = self.slots.get_mut(usize::try_from(stream).ok()?)?.take()?;
        self.free.push(stream);
        Some(flight)
    }

    fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

/// Ids of the prepared statements on a link's node, in the order of their texts.
pub(super) type StatementIds = Vec<Vec<u8>>;

/// What happens to operations; the driver of a phase.
pub(super) trait Answers {
    fn answered(&self, flight: Flight, header: &Header, body: &[u8]);
    fn failed(&self, flight: Flight, kind: &'static str);
    /// The link works again, or no longer does.
    fn link_changed(&self);
}

pub(super) struct Link {
    pub addr: SocketAddr,
    /// The statements' texts, for preparing them again after a reconnect.
    texts: Rc<Vec<String>>,
    pub ids: RefCell<StatementIds>,
    up: Cell<bool>,
    closed: Cell<bool>,
    out: RefCell<Vec<u8>>,
    writer: Cell<Option<Waker>>,
    /// Responses are being handled: the writer is polled right after them and needs no wake.
    reading: Cell<bool>,
    streams: RefCell<Streams>,
    answers: RefCell<Option<Rc<dyn Answers>>>,
}

impl Link {
    /// Takes over a connection on which STARTUP has been answered, and keeps it alive in a task of its own.
    pub fn start(dialogue: Dialogue, texts: Rc<Vec<String>>, ids: StatementIds) -> Rc<Self> {
        let link = Rc::new(Self {
            addr: dialogue.addr,
            texts,
            ids: RefCell::new(ids),
            up: Cell::new(true),
            closed: Cell::new(false),
            out: RefCell::new(Vec::new()),
            writer: Cell::new(None),
            reading: Cell::new(false),
            streams: RefCell::new(Streams::default()),
            answers: RefCell::new(None),
        });
        reactor::spawn(reactor::Group::Statement, "client link", link.clone().run(dialogue));
        link
    }

    pub fn is_up(&self) -> bool {
        self.up.get()
    }

    pub fn in_flight(&self) -> usize {
        self.streams.borrow().in_flight()
    }

    /// Who is told of answers from now on.
    pub fn set_answers(&self, answers: Option<Rc<dyn Answers>>) {
        *self.answers.borrow_mut() = answers;
    }

    fn answers(&self) -> Option<Rc<dyn Answers>> {
        self.answers.borrow().clone()
    }

    /// Ends the link's task and with it the connection.
    pub fn close(&self) {
        self.closed.set(true);
        self.wake_writer();
    }

    /// Queues one request, encoded by `encode` for the stream it is given. False if every stream is taken.
    pub fn send(&self, flight: Flight, encode: impl FnOnce(&mut Vec<u8>, i16)) -> bool {
        let Some(stream) = self.streams.borrow_mut().take(flight) else { return false };
        encode(&mut self.out.borrow_mut(), stream);
        if !self.reading.get() {
            self.wake_writer();
        }
        true
    }

    fn wake_writer(&self) {
        if let Some(waker) = self.writer.take() {
            waker.wake();
        }
    }

    /// Fails operations begun before `begun_before_ns`; late answers to them are dropped.
    pub fn give_up(&self, begun_before_ns: u64) {
        let mut late = Vec::new();
        for flight in self.streams.borrow_mut().slots.iter_mut().flatten() {
            if !flight.given_up && flight.begun_ns < begun_before_ns {
                flight.given_up = true;
                late.push(*flight);
            }
        }
        if let Some(answers) = self.answers() {
            late.into_iter().for_each(|flight| answers.failed(flight, "client timeout"));
        }
    }

    async fn run(self: Rc<Self>, dialogue: Dialogue) {
        let mut dialogue = Some(dialogue);
        while !self.closed.get() {
            if let Some((connection, received)) = dialogue.take().map(Dialogue::into_parts) {
                self.carry(&connection, received).await;
                self.up.set(false);
                self.fail_all();
            }
            if self.closed.get() {
                return;
            }
            reactor::time::sleep(RECONNECT_PAUSE).await;
            if let Ok(again) = self.connect_again().await {
                self.up.set(true);
                dialogue = Some(again);
                if let Some(answers) = self.answers() {
                    answers.link_changed();
                }
            }
        }
    }

    async fn connect_again(&self) -> Result<Dialogue, ClientError> {
        let mut dialogue = Dialogue::open(self.addr).await?;
        let mut ids = StatementIds::new();
        for text in self.texts.iter() {
            ids.push(dialogue.prepare(text).await?);
        }
        *self.ids.borrow_mut() = ids;
        Ok(dialogue)
    }

    fn fail_all(&self) {
        self.out.borrow_mut().clear();
        let streams = std::mem::take(&mut *self.streams.borrow_mut());
        if let Some(answers) = self.answers() {
            for flight in streams.slots.into_iter().flatten().filter(|f| !f.given_up) {
                answers.failed(flight, "connection lost");
            }
            answers.link_changed();
        }
    }

    /// Reads and writes until one of both ends.
    async fn carry(&self, connection: &Connection, received: Buf) {
        let mut reader = pin!(self.read(connection, received));
        let mut writer = pin!(self.write(connection));
        poll_fn(|cx| {
            // The reader first: what its responses set off leaves with the writer's poll right behind it.
            self.reading.set(true);
            let read = reader.as_mut().poll(cx);
            self.reading.set(false);
            let written = writer.as_mut().poll(cx);
            if read.is_ready() || written.is_ready() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    async fn read(&self, connection: &Connection, mut received: Buf) -> io::Result<()> {
        loop {
            let (used, more) = self.take_frames(&received)?;
            received.consume(used);
            if more {
                reactor::time::yield_now().await;
                continue;
            }
            received.reserve(RECEIVE_BYTES);
            let (result, buf) = connection.recv(received).await;
            received = buf;
            if result? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Hands on whole frames until there are no more or the turn is over; gives the bytes that they took, and whether
    /// there may be more.
    fn take_frames(&self, received: &[u8]) -> io::Result<(usize, bool)> {
        let mut used = 0;
        let answers = self.answers();
        let turn_over_ns = reactor::now() + TURN_NS;
        while let Some((header, body)) =
            frame::decode(&received[used..], Direction::Response, BODY_MAX).map_err(io::Error::other)?
        {
            used += HEADER_LEN + body.len();
            let flight = self.streams.borrow_mut().give_back(header.stream);
            if let (Some(flight), Some(answers)) = (flight.filter(|f| !f.given_up), &answers) {
                answers.answered(flight, &header, body);
            }
            if reactor::now() >= turn_over_ns {
                return Ok((used, true));
            }
        }
        Ok((used, false))
    }

    async fn write(&self, connection: &Connection) -> io::Result<()> {
        let mut sending = Buf::new();
        loop {
            poll_fn(|cx| {
                if self.closed.get() || !self.out.borrow().is_empty() {
                    return Poll::Ready(());
                }
                self.writer.set(Some(cx.waker().clone()));
                Poll::Pending
            })
            .await;
            if self.closed.get() {
                return Ok(());
            }
            sending.clear();
            {
                let mut out = self.out.borrow_mut();
                sending.extend_from_slice(&out);
                out.clear();
            }
            let (result, buf) = connection.send_all(sending).await;
            sending = buf;
            result?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_used_again_and_run_out() {
        let mut streams = Streams::default();
        let first = streams.take(Flight::default()).unwrap();
        assert!(streams.give_back(first).is_some());
        assert!(streams.give_back(first).is_none(), "answered twice");
        assert_eq!(streams.take(Flight::default()), Some(first));
        while streams.take(Flight::default()).is_some() {}
        assert_eq!(streams.in_flight(), 32_768);
        assert!(streams.give_back(-1).is_none());
    }
}
