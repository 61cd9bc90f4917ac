//! Answers on their way out: what many requests of one turn produce leaves in one send.
//!
//! Frames are written as they are; from [`Outbox::begin_segments`] on they leave in segments. What waits here counts
//! against the shard's memory for clients.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use cql::{Direction, segment};
use reactor::Buf;

use super::budget::Budget;
use super::transport::Transport;

/// A client that does not read its answers is not read from above this.
const BYTES_MAX: usize = 1 << 20;
/// What a connection keeps between sends: room for many ordinary answers, and not for one rare large one.
const SPARE_BYTES_MAX: usize = 256 << 10;

pub(super) struct Outbox {
    bytes: RefCell<Vec<u8>>,
    /// How much of `bytes` was written before segments began, and whether these are compressed.
    segments: Cell<Option<(usize, bool)>>,
    /// Handed to the world and not sent yet.
    leaving: Cell<usize>,
    writer: RefCell<Option<Waker>>,
    closed: Cell<bool>,
    /// Nobody takes what is written.
    abandoned: Cell<bool>,
    budget: Rc<Budget>,
}

impl Outbox {
    pub fn new(budget: Rc<Budget>) -> Rc<Self> {
        Rc::new(Self {
            bytes: RefCell::default(),
            segments: Cell::new(None),
            leaving: Cell::new(0),
            writer: RefCell::default(),
            closed: Cell::new(false),
            abandoned: Cell::new(false),
            budget,
        })
    }

    /// Appends whole frames to what is going to be sent.
    pub fn write<T>(&self, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let mut bytes = self.bytes.borrow_mut();
        let before = bytes.len();
        let result = append(&mut bytes);
        if self.is_abandoned() {
            bytes.truncate(before);
        }
        self.budget.add(bytes.len() - before);
        drop(bytes);
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
        result
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.borrow().is_empty()
    }

    /// [`write`](Self::write) of frames that are whole already, into an empty outbox. Gives their length.
    pub fn put(&self, frames: Vec<u8>) -> usize {
        self.write(|bytes| *bytes = frames);
        self.bytes.borrow().len()
    }

    /// What is written from now on leaves in segments.
    pub fn begin_segments(&self, lz4: bool) {
        self.segments.set(Some((self.bytes.borrow().len(), lz4)));
    }

    /// Whether what waits, and `more` bytes that are to come, are too much.
    pub fn is_full(&self, more: usize) -> bool {
        (self.bytes.borrow().len() + self.leaving.get()).saturating_add(more) > BYTES_MAX
    }

    /// The connection is broken: drops what waits, and what is going to be written.
    pub fn abandon(&self) {
        self.abandoned.set(true);
        self.budget.remove(self.bytes.take().len());
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    /// Nothing more will be written; what is there still leaves.
    pub fn close(&self) {
        self.closed.set(true);
        self.write(|_| ());
    }

    /// Sends what is written until closed. Calls `drained` after each send.
    pub async fn send_to(&self, transport: &Transport, drained: impl Fn()) -> std::io::Result<()> {
        let mut spare = Vec::new();
        loop {
            let ready = poll_fn(|cx| {
                if !self.bytes.borrow().is_empty() {
                    return Poll::Ready(true);
                }
                if self.closed.get() {
                    return Poll::Ready(false);
                }
                *self.writer.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            });
            if !ready.await {
                return Ok(());
            }
            let frames = std::mem::replace(&mut *self.bytes.borrow_mut(), std::mem::take(&mut spare));
            let written = frames.len();
            self.leaving.set(written);
            let (result, sent) = transport.send_all(Buf::from(self.in_segments(frames))).await;
            self.leaving.set(0);
            self.budget.remove(written);
            result?;
            spare = Some(sent.into_vec()).filter(|sent| sent.capacity() <= SPARE_BYTES_MAX).unwrap_or_default();
            spare.clear();
            drained();
        }
    }

    fn in_segments(&self, frames: Vec<u8>) -> Vec<u8> {
        let Some((plain, lz4)) = self.segments.get() else { return frames };
        self.segments.set(Some((0, lz4)));
        let mut out = frames[..plain].to_vec();
        segment::encode(&mut out, &frames[plain..], Direction::Response, lz4);
        out
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.budget.remove(self.bytes.borrow().len() + self.leaving.get());
    }
}
