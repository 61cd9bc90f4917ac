//! Operation slots: they own an operation and its buffer from submission until completion.
//!
//! A slot is *waiting* until the world completes it, then *done* until the future takes the result. When the future
//! is dropped first, the slot is *orphaned*: the operation is cancelled, and buffer and slot are freed when the
//! completion arrives, never before.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::io::{Direction, QueueId, Ticket};
use crate::{Buf, Fd, Op, Shard};

/// Names an operation in flight. The generation makes a stale id harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl SlotId {
    /// The id as one word, for a ring's user data.
    pub fn to_u64(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub fn from_u64(word: u64) -> Self {
        Self { index: word as u32, generation: (word >> 32) as u32 }
    }
}

enum State {
    Free { next: Option<u32> },
    Waiting { waker: Option<Waker> },
    Orphaned,
    Done(io::Result<u64>),
}

struct Slot {
    generation: u32,
    state: State,
    /// Boxed so that paths and buffers' headers stay where the world saw them while the table grows.
    body: Box<Body>,
}

struct Body {
    op: Op,
    buf: Option<Buf>,
    /// Of a read or write of a file.
    ticket: Option<Ticket>,
}

pub(crate) struct Slots {
    inner: RefCell<Inner>,
}

struct Inner {
    slots: Vec<Slot>,
    free: Option<u32>,
    in_flight: usize,
}

/// What to do after a completion was recorded; done outside of the table's borrow.
pub(crate) enum Completed {
    Wake(Waker),
    /// Nobody waits (yet). A freed buffer or a connection that nobody will ever own is handed back to be let go.
    Nobody(Option<Buf>, Option<Fd>),
    Stale,
}

const IDLE: Op = Op::Close { fd: Fd(u32::MAX), file: false };

impl Slots {
    pub(crate) fn new() -> Self {
        Self { inner: RefCell::new(Inner { slots: Vec::new(), free: None, in_flight: 0 }) }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.inner.borrow().in_flight
    }

    pub(crate) fn allocated(&self) -> usize {
        self.inner.borrow().slots.len()
    }

    /// Takes a slot for `op`. `detached` slots free themselves on completion.
    fn allocate(&self, op: Op, buf: Option<Buf>, detached: bool) -> SlotId {
        let mut inner = self.inner.borrow_mut();
        inner.in_flight += 1;
        let state = if detached { State::Orphaned } else { State::Waiting { waker: None } };
        match inner.free {
            Some(index) => {
                let slot = &mut inner.slots[index as usize];
                let State::Free { next } = slot.state else { unreachable!("the free list holds free slots only") };
                slot.state = state;
                slot.body.op = op;
                slot.body.buf = buf;
                slot.body.ticket = None;
                let generation = slot.generation;
                inner.free = next;
                SlotId { index, generation }
            }
            None => {
                let index = inner.slots.len() as u32;
                inner.slots.push(Slot { generation: 0, state, body: Box::new(Body { op, buf, ticket: None }) });
                SlotId { index, generation: 0 }
            }
        }
    }

    /// Gives the operation to the backend. The table is not borrowed meanwhile: the body's box cannot move, and a
    /// waiting slot's body is touched by nobody but the world.
    fn start(&self, shard: &Shard, id: SlotId) {
        // In a block of its own: a plain `let` would keep the borrow alive to the end of the function.
        let body: *mut Body = {
            let mut inner = self.inner.borrow_mut();
            &raw mut *inner.slots[id.index as usize].body
        };
        // SAFETY: the box lives until the slot table is dropped, which happens after the backend closed; only
        // `complete` touches it before completion, and a backend completes after `submit` has returned.
        let body = unsafe { &mut *body };
        if let Some(result) = shard.backend().submit(shard, id, &body.op, body.buf.as_mut()) {
            shard.complete_with(id, |_, _| result);
        }
    }

    /// Records a completion. `fill` runs first, with the operation and its buffer.
    pub(crate) fn complete(
        &self,
        id: SlotId,
        fill: impl FnOnce(&Op, Option<&mut Buf>) -> io::Result<u64>,
    ) -> (Completed, Option<Ticket>) {
        let mut inner = self.inner.borrow_mut();
        let inner = &mut *inner;
        let Some(slot) = inner.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation) else {
            return (Completed::Stale, None);
        };
        if matches!(slot.state, State::Free { .. } | State::Done(_)) {
            return (Completed::Stale, None);
        }
        let body = &mut *slot.body;
        let ticket = body.ticket.take();
        let result = fill(&body.op, body.buf.as_mut());
        inner.in_flight -= 1;
        let completed = match std::mem::replace(&mut slot.state, State::Done(Ok(0))) {
            State::Waiting { waker } => {
                slot.state = State::Done(result);
                waker.map_or(Completed::Nobody(None, None), Completed::Wake)
            }
            _ => {
                let opened = match (&body.op, result) {
                    (Op::Open { .. } | Op::Accept { .. } | Op::Connect { .. } | Op::Listen { .. }, Ok(fd)) => {
                        Some(Fd(fd as u32))
                    }
                    _ => None,
                };
                let buf = body.buf.take();
                inner.release(id.index);
                Completed::Nobody(buf, opened)
            }
        };
        (completed, ticket)
    }

    /// An operation that has been submitted and is not complete, and its buffer.
    pub(crate) fn look_at<T>(&self, id: SlotId, look: impl FnOnce(&Op, Option<&mut Buf>) -> T) -> Option<T> {
        let mut inner = self.inner.borrow_mut();
        let slot = inner.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        let waits = matches!(slot.state, State::Waiting { .. } | State::Orphaned);
        waits.then(|| look(&slot.body.op, slot.body.buf.as_mut()))
    }

    /// Gives an operation to the backend whose turn in the I/O queue has come.
    pub(crate) fn start_queued(&self, shard: &Shard, id: SlotId, now_ns: u64) {
        if let Some(ticket) = &mut self.inner.borrow_mut().slots[id.index as usize].body.ticket {
            ticket.begin(now_ns);
        }
        self.start(shard, id);
    }

    /// The ticket of an operation that still waits in the I/O queue.
    fn waiting_ticket(&self, id: SlotId) -> Option<Ticket> {
        let inner = self.inner.borrow();
        let slot = inner.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        slot.body.ticket.filter(Ticket::is_waiting)
    }

    /// Asks the I/O queue for a slot's operation. True when it may go at once.
    fn ask(&self, shard: &Shard, id: SlotId, queue: QueueId, direction: Direction, bytes: u64) -> bool {
        let ticket = shard.io().ask(shard.now(), queue, shard.current_group(), direction, bytes, id);
        self.inner.borrow_mut().slots[id.index as usize].body.ticket = Some(ticket);
        !ticket.is_waiting()
    }

    /// Advances the buffer of a finished receive or read by what the kernel wrote.
    pub(crate) fn advance(op: &Op, buf: Option<&mut Buf>, written: u64) {
        if let (Op::Read { .. } | Op::Recv { .. }, Some(buf)) = (op, buf) {
            let len = buf.len() + written as usize;
            // SAFETY: the world says that it wrote `written` bytes behind the length, into the spare capacity.
            unsafe { buf.set_len(len) };
        }
    }
}

impl Inner {
    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.state = State::Free { next: self.free };
        slot.body.op = IDLE;
        self.free = Some(index);
    }
}

/// An operation in flight on the shard that submitted it; resolves to the result and the buffer.
///
/// Not `Send`: on another shard its slot would be somebody else's.
pub(crate) struct Submitted {
    id: SlotId,
    taken: bool,
    _here: PhantomData<*const ()>,
}

/// Submits `op` on the current shard.
pub(crate) fn submit(op: Op, buf: Option<Buf>) -> Submitted {
    Shard::with(|shard| {
        let id = shard.slots().allocate(op, buf, false);
        shard.slots().start(shard, id);
        Submitted { id, taken: false, _here: PhantomData }
    })
}

/// Submits a read or a write of a file on the current shard, by way of its disk's queue.
pub(crate) fn submit_queued(queue: QueueId, op: Op, buf: Buf) -> Submitted {
    Shard::with(|shard| {
        let (direction, bytes) = match &op {
            Op::Write { skip, .. } => (Direction::Write, buf.len() as u64 - u64::from(*skip)),
            Op::Read { len, .. } => (Direction::Read, u64::from(*len)),
            _ => unreachable!("only reads and writes are queued"),
        };
        let id = shard.slots().allocate(op, Some(buf), false);
        if shard.slots().ask(shard, id, queue, direction, bytes) {
            shard.slots().start(shard, id);
        }
        Submitted { id, taken: false, _here: PhantomData }
    })
}

/// Submits `op` and forgets it; its result is of no interest (a close).
pub(crate) fn submit_detached(shard: &Shard, op: Op) {
    let id = shard.slots().allocate(op, None, true);
    shard.slots().start(shard, id);
}

impl Future for Submitted {
    type Output = (io::Result<u64>, Option<Buf>);

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let id = self.id;
        let output = Shard::with(|shard| {
            let mut inner = shard.slots().inner.borrow_mut();
            let slot = &mut inner.slots[id.index as usize];
            assert_eq!(slot.generation, id.generation, "polled on another shard than the one that submitted it");
            match &mut slot.state {
                State::Waiting { waker } => {
                    if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                        let old = waker.replace(cx.waker().clone());
                        drop(inner); // a foreign waker's drop may run any code, and that may come back here
                        drop(old);
                    }
                    None
                }
                State::Done(result) => {
                    let result = std::mem::replace(result, Ok(0));
                    let buf = slot.body.buf.take();
                    inner.release(id.index);
                    Some((result, buf))
                }
                State::Free { .. } | State::Orphaned => unreachable!("a future owns its slot until it took the result"),
            }
        });
        match output {
            Some(output) => {
                self.taken = true;
                Poll::Ready(output)
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Submitted {
    fn drop(&mut self) {
        if self.taken || !Shard::is_current() {
            return;
        }
        let id = self.id;
        Shard::with(|shard| {
            let mut leftover = (None, None);
            let waiting = {
                let mut inner = shard.slots().inner.borrow_mut();
                let Some(slot) = inner.slots.get_mut(id.index as usize).filter(|s| s.generation == id.generation)
                else {
                    return;
                };
                match std::mem::replace(&mut slot.state, State::Orphaned) {
                    State::Waiting { waker } => {
                        leftover.1 = waker;
                        true
                    }
                    State::Done(result) => {
                        if let (Op::Open { .. } | Op::Accept { .. } | Op::Connect { .. } | Op::Listen { .. }, Ok(fd)) =
                            (&slot.body.op, result)
                        {
                            leftover.0 = Some(Fd(fd as u32));
                        }
                        slot.body.buf = None;
                        inner.release(id.index);
                        false
                    }
                    other => {
                        slot.state = other;
                        false
                    }
                }
            };
            if waiting {
                match shard.slots().waiting_ticket(id) {
                    None => shard.backend().cancel(shard, id),
                    // The world has never heard of it.
                    Some(ticket) => shard.drop_queued(id, &ticket),
                }
            }
            if let Some(fd) = leftover.0 {
                submit_detached(shard, Op::Close { fd, file: false });
            }
        });
    }
}
