//! Tasks: one allocation each, woken from any thread, polled and dropped only on their shard's.

use std::any::Any;
use std::cell::{Cell, RefCell, UnsafeCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::shard::{Remote, Shard};
use crate::{Buf, Group};

/// Not queued, waits for a wake.
const IDLE: u8 = 0;
/// In a run queue.
const QUEUED: u8 = 1;
/// Being polled.
const RUNNING: u8 = 2;
/// Being polled, woken meanwhile: goes back to the queue.
const WOKEN: u8 = 3;
const FINISHED: u8 = 4;

pub(crate) struct Header {
    state: AtomicU8,
    pub(crate) group: Group,
    pub(crate) name: &'static str,
    remote: Arc<Remote>,
    /// Position in the shard's table of live tasks. Touched only on the shard's thread.
    position: Cell<u32>,
}

struct Task<F> {
    header: Header,
    future: UnsafeCell<Option<F>>,
}

// SAFETY: a waker may travel, but `future` and `position` are touched only by the shard's own thread: polling,
// dropping and finishing happen in `Shard`, and another thread's wake touches `state` (atomic) and `remote` only.
// The future is dropped by the shard when it finishes or closes, so the last waker, dropped anywhere, finds `None`.
unsafe impl<F> Send for Task<F> {}
// SAFETY: as above.
unsafe impl<F> Sync for Task<F> {}

pub(crate) trait Pollable: Send + Sync {
    fn header(&self) -> &Header;
    /// Polls once, on the shard's thread, while `state` is RUNNING. True when finished.
    fn poll(self: Arc<Self>) -> bool;
    /// Drops the future, on the shard's thread, not while polling.
    fn discard(&self);
}

/// A runnable or live task.
#[derive(Clone)]
pub(crate) struct TaskRef(Arc<dyn Pollable>);

impl<F: Future<Output = ()> + 'static> Pollable for Task<F> {
    fn header(&self) -> &Header {
        &self.header
    }

    fn poll(self: Arc<Self>) -> bool {
        let waker = Waker::from(self.clone());
        // SAFETY: only the shard's thread polls, one poll at a time (state RUNNING), and the future never moves out of
        // its allocation before it is dropped in place.
        let slot = unsafe { &mut *self.future.get() };
        let Some(future) = slot.as_mut() else { return true };
        // SAFETY: the Arc's content does not move.
        let future = unsafe { Pin::new_unchecked(future) };
        let finished = future.poll(&mut Context::from_waker(&waker)).is_ready();
        if finished {
            *slot = None;
        }
        finished
    }

    fn discard(&self) {
        self.header.state.store(FINISHED, Ordering::Release);
        // SAFETY: on the shard's thread and not while polling.
        unsafe { *self.future.get() = None };
    }
}

impl<F: Future<Output = ()> + 'static> Wake for Task<F> {
    fn wake(self: Arc<Self>) {
        if self.header.mark_woken() {
            TaskRef(self).enqueue();
        }
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.header.mark_woken() {
            TaskRef(self.clone()).enqueue();
        }
    }
}

impl Header {
    /// True when the caller has to put the task into a queue.
    fn mark_woken(&self) -> bool {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let next = match state {
                IDLE => QUEUED,
                RUNNING => WOKEN,
                _ => return false,
            };
            match self.state.compare_exchange_weak(state, next, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return next == QUEUED,
                Err(seen) => state = seen,
            }
        }
    }
}

impl TaskRef {
    pub(crate) fn new<F: Future<Output = ()> + 'static>(
        future: F,
        group: Group,
        name: &'static str,
        remote: Arc<Remote>,
    ) -> Self {
        let header = Header { state: AtomicU8::new(QUEUED), group, name, remote, position: Cell::new(u32::MAX) };
        Self(Arc::new(Task { header, future: UnsafeCell::new(Some(future)) }))
    }

    pub(crate) fn group(&self) -> Group {
        self.0.header().group
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.header().name
    }

    pub(crate) fn position(&self) -> u32 {
        self.0.header().position.get()
    }

    pub(crate) fn set_position(&self, position: u32) {
        self.0.header().position.set(position);
    }

    fn enqueue(self) {
        let remote = self.0.header().remote.clone();
        match Shard::try_with(|shard| std::ptr::eq(Arc::as_ptr(&remote), shard.remote_ptr())) {
            Some(true) => Shard::with(|shard| shard.enqueue(self)),
            _ => remote.push_task(self),
        }
    }

    /// Polls the task. True when it has finished.
    pub(crate) fn run(&self) -> bool {
        let state = &self.0.header().state;
        if state.compare_exchange(QUEUED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return false; // finished by `discard` while queued
        }
        if self.0.clone().poll() {
            state.store(FINISHED, Ordering::Release);
            return true;
        }
        if state.compare_exchange(RUNNING, IDLE, Ordering::AcqRel, Ordering::Acquire).is_err() {
            state.store(QUEUED, Ordering::Release);
            Shard::with(|shard| shard.enqueue(self.clone()));
        }
        false
    }

    pub(crate) fn discard(&self) {
        self.0.discard();
    }
}

struct Joint<T> {
    value: RefCell<Option<T>>,
    waker: RefCell<Option<Waker>>,
}

/// Resolves to the task's output. Dropping it leaves the task running.
///
/// On a shard that closes, the task may never finish; then the handle never resolves, and is dropped with its owner.
pub struct JoinHandle<T> {
    joint: Rc<Joint<T>>,
}

impl<T> Future for JoinHandle<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match self.joint.value.borrow_mut().take() {
            Some(value) => Poll::Ready(value),
            None => {
                *self.joint.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Wraps `future` so that its output reaches the handle.
pub(crate) fn joinable<T: 'static>(
    future: impl Future<Output = T> + 'static,
) -> (impl Future<Output = ()> + 'static, JoinHandle<T>) {
    let joint = Rc::new(Joint { value: RefCell::new(None), waker: RefCell::new(None) });
    let handle = JoinHandle { joint: joint.clone() };
    let task = async move {
        let value = future.await;
        // Nobody holds the handle any more: the output would only be kept for nothing.
        if Rc::strong_count(&joint) > 1 {
            *joint.value.borrow_mut() = Some(value);
            if let Some(waker) = joint.waker.borrow_mut().take() {
                waker.wake();
            }
        }
    };
    (task, handle)
}

/// Keeps the types that cross threads honest at compile time.
#[allow(dead_code)]
fn assert_send() {
    fn is_send<T: Send>() {}
    is_send::<TaskRef>();
    is_send::<Buf>();
    is_send::<Box<dyn Any + Send>>();
}
