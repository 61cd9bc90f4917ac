//! One connection: a queue of bytes to send, and frames parsed out of what arrives.
//!
//! Messages are encoded straight into the queue. While the writer task sends one buffer, the next one fills, so the
//! busier a connection is, the more messages a `Send` carries.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use reactor::net::Connection;
use reactor::{Buf, Work};

use super::Payload;
use super::coalescing::Coalescing;
use super::frame::{self, FrameError, Header};

/// Room that a receive is offered. As large as Linux's default socket buffer is likely to have ready.
const RECEIVE_BYTES: usize = 64 << 10;
/// Larger buffers are let go after the message that needed them.
const KEEP_BYTES: usize = 1 << 20;
/// Receive buffers that wait for the payloads cut out of them to go.
const POOL_MAX: usize = 4;
/// Frames handled before other tasks get a turn: at a few microseconds each, within a task quota.
const FRAMES_PER_TURN: usize = 64;

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("the peer closed the connection")]
    PeerClosed,
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Frame(#[from] FrameError),
    #[error("no connection in time")]
    ConnectTimeout,
    #[error("refused: {0}")]
    Refused(String),
    #[error("the node is down")]
    Down,
    #[error("another connection of the same peer shard took its place")]
    Replaced,
    #[error("the peer does not take its answers: {0} bytes wait")]
    Stuck(usize),
    #[error("this node is stopping")]
    Stopping,
}

impl LinkError {
    /// Nobody listens there, or whoever does will not have us.
    pub fn is_refusal(&self) -> bool {
        match self {
            LinkError::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
            LinkError::Refused(_) => true,
            _ => false,
        }
    }

    /// Something is wrong with the peer or the network, as opposed to a node that comes or goes.
    pub fn is_fault(&self) -> bool {
        matches!(self, LinkError::Frame(_) | LinkError::Refused(_) | LinkError::Stuck(_))
    }
}

#[derive(Default)]
pub(super) struct Link {
    /// Encoded, not yet taken by the writer.
    queue: RefCell<Buf>,
    /// Frames in it.
    queued: Cell<u64>,
    /// The writer's last buffer, empty again.
    spare: RefCell<Buf>,
    /// The writer, when it waits for something to send.
    idle_writer: RefCell<Option<Waker>>,
    /// Reader and writer, to be told of the end.
    tasks: [RefCell<Option<Waker>>; 2],
    closed: Cell<bool>,
    reason: RefCell<Option<LinkError>>,
}

#[derive(Clone, Copy)]
enum Side {
    Reader,
    Writer,
}

impl Link {
    pub fn new() -> Rc<Self> {
        Rc::default()
    }

    pub fn queued_bytes(&self) -> usize {
        self.queue.borrow().len()
    }

    /// Queues a frame. Does nothing when the link has ended.
    pub fn push(&self, id: u64, verb: u8, flags: u8, code: u16, payload: &[u8]) {
        if self.closed.get() {
            return;
        }
        frame::encode(&mut self.queue.borrow_mut(), id, verb, flags, code, payload);
        self.queued.set(self.queued.get() + 1);
        reactor::charge(Work::MessageEncode, payload.len() as u64);
        if let Some(writer) = self.idle_writer.take() {
            writer.wake();
        }
    }

    /// Ends the link; the first reason stays.
    pub fn close(&self, reason: LinkError) {
        if self.closed.replace(true) {
            return;
        }
        *self.reason.borrow_mut() = Some(reason);
        for waker in self.tasks.iter().chain([&self.idle_writer]).filter_map(|waker| waker.take()) {
            waker.wake();
        }
    }

    pub fn take_reason(&self) -> LinkError {
        self.reason.take().unwrap_or(LinkError::PeerClosed)
    }

    /// Polls `operation` until it or the link ends; dropping it cancels it.
    async fn while_open<T>(&self, side: Side, operation: impl Future<Output = T>) -> Option<T> {
        let mut operation = pin!(operation);
        poll_fn(|cx| {
            if self.closed.get() {
                return Poll::Ready(None);
            }
            if let Poll::Ready(value) = operation.as_mut().poll(cx) {
                return Poll::Ready(Some(value));
            }
            remember(&self.tasks[side as usize], cx);
            Poll::Pending
        })
        .await
    }

    /// Waits until something is queued; `false` when the link has ended.
    fn has_queued(&self) -> impl Future<Output = bool> + '_ {
        poll_fn(|cx| {
            if self.closed.get() {
                return Poll::Ready(false);
            }
            if self.queue.borrow().is_empty() {
                remember(&self.idle_writer, cx);
                return Poll::Pending;
            }
            Poll::Ready(true)
        })
    }

    /// Lets what is queued wait for what is expected to come soon.
    async fn coalesce(&self, coalescing: &RefCell<Coalescing>) {
        let queued = self.queued.get();
        coalescing.borrow_mut().count(reactor::now(), queued);
        let wait = coalescing.borrow().wait(queued);
        if let Some(wait) = wait {
            self.while_open(Side::Writer, reactor::time::sleep(wait)).await;
            coalescing.borrow_mut().count(reactor::now(), self.queued.get() - queued);
        }
    }

    /// The writer task: sends what is queued until the link ends. `coalescing`: of all that goes to the peer.
    pub async fn write(self: Rc<Self>, connection: Connection, coalescing: Option<Rc<RefCell<Coalescing>>>) {
        while self.has_queued().await {
            if let Some(coalescing) = &coalescing {
                self.coalesce(coalescing).await;
            }
            let buf = self.queue.replace(self.spare.take());
            self.queued.set(0);
            match self.while_open(Side::Writer, connection.send_all(buf)).await {
                None => break,
                Some((Ok(()), mut buf)) => {
                    buf.clear();
                    if buf.capacity() <= KEEP_BYTES {
                        *self.spare.borrow_mut() = buf;
                    }
                }
                Some((Err(error), _)) => {
                    self.close(error.into());
                    break;
                }
            }
        }
    }

    /// Sends one frame in place, before there is a writer.
    pub async fn send_first(&self, connection: &Connection, frame: Buf) -> Result<(), LinkError> {
        match self.while_open(Side::Writer, connection.send_all(frame)).await {
            None => Err(self.take_reason()),
            Some((result, _)) => Ok(result?),
        }
    }

    /// Receives one frame; with it comes what arrived behind it, for [`read`](Self::read).
    pub async fn receive_first(
        &self,
        connection: &Connection,
        max_payload: u32,
    ) -> Result<(Header, Payload, Buf), LinkError> {
        let mut buf = Buf::with_capacity(4096);
        loop {
            let needed = match frame::decode(&buf, max_payload) {
                Ok((header, payload)) => {
                    let payload = Payload::from(payload);
                    buf.consume(frame::HEADER_LEN + header.len as usize);
                    return Ok((header, payload, buf));
                }
                Err(Ok(needed)) => needed,
                Err(Err(error)) => return Err(error.into()),
            };
            buf.reserve(needed - buf.len());
            let received = self.while_open(Side::Reader, connection.recv(buf)).await;
            let Some((result, received)) = received else { return Err(self.take_reason()) };
            buf = received;
            if result? == 0 {
                return Err(LinkError::PeerClosed);
            }
        }
    }

    /// Gives every frame to `on_frame` until the connection or the link ends.
    pub async fn read(
        &self,
        connection: &Connection,
        first: Buf,
        max_payload: u32,
        mut on_frame: impl FnMut(Header, Payload),
    ) -> LinkError {
        let mut pool = Vec::new();
        let mut buf = first;
        buf.reserve(RECEIVE_BYTES);
        loop {
            let Some((result, received)) = self.while_open(Side::Reader, connection.recv(buf)).await else {
                return self.take_reason();
            };
            match result {
                Ok(0) => return LinkError::PeerClosed,
                Ok(_) => {}
                Err(error) => return error.into(),
            }
            let chunk = Rc::new(received);
            let mut at = 0;
            let mut in_turn = 0;
            let needed = loop {
                match frame::decode(&chunk[at..], max_payload) {
                    Ok((header, _)) => {
                        reactor::charge(Work::MessageDecode, u64::from(header.len));
                        let start = at + frame::HEADER_LEN;
                        at = start + header.len as usize;
                        on_frame(header, Payload::new(&chunk, start, header.len as usize));
                        in_turn += 1;
                        if in_turn == FRAMES_PER_TURN {
                            in_turn = 0;
                            reactor::time::yield_now().await;
                        }
                        if self.closed.get() {
                            return self.take_reason();
                        }
                    }
                    Err(Ok(needed)) => break needed,
                    Err(Err(error)) => return error.into(),
                }
            };
            buf = next_buffer(&mut pool, chunk, at, needed);
        }
    }
}

fn remember(place: &RefCell<Option<Waker>>, cx: &Context<'_>) {
    let mut waker = place.borrow_mut();
    if !waker.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
        *waker = Some(cx.waker().clone());
    }
}

/// The buffer for the next receive: it begins with the part of a frame that `chunk` has from `at`, and has room for
/// the whole of that frame, `needed` bytes. Payloads may still hold `chunk`; then another buffer takes its place.
fn next_buffer(pool: &mut Vec<Rc<Buf>>, chunk: Rc<Buf>, at: usize, needed: usize) -> Buf {
    let tail = chunk.len() - at;
    let room = needed.max(RECEIVE_BYTES / 2);
    let mut buf = match Rc::try_unwrap(chunk) {
        Ok(mut buf) if buf.capacity() <= KEEP_BYTES || tail > KEEP_BYTES / 2 => {
            if at > 0 {
                buf.consume(at);
            }
            buf
        }
        Ok(large) => Buf::from(&large[at..]),
        Err(held) => {
            let mut buf = match pool.iter().position(|old| Rc::strong_count(old) == 1) {
                Some(free) => Rc::try_unwrap(pool.swap_remove(free)).unwrap_or_default(),
                None => Buf::new(),
            };
            buf.clear();
            buf.reserve(room.max(RECEIVE_BYTES));
            buf.extend_from_slice(&held[at..]);
            if held.capacity() <= KEEP_BYTES && pool.len() < POOL_MAX {
                pool.push(held);
            }
            return buf;
        }
    };
    if buf.capacity() < room || buf.spare() == 0 {
        buf.reserve(room.max(RECEIVE_BYTES).saturating_sub(buf.len()).max(1));
    }
    buf
}
