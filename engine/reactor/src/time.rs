//! Timers of one shard: sleeping, deadlines.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::Shard;

/// A heap of deadlines. Entries of dropped sleeps stay until they are due, or until they are the majority.
pub(crate) struct Timers {
    inner: RefCell<Inner>,
}

struct Inner {
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    /// Orders timers of one deadline by when they were set.
    sequence: u64,
    stale: usize,
}

struct Entry {
    /// The heap entry that belongs to this one; others with this index are stale.
    sequence: u64,
    waker: Option<Waker>,
}

impl Timers {
    pub(crate) fn new() -> Self {
        Self {
            inner: RefCell::new(Inner {
                heap: BinaryHeap::new(),
                entries: Vec::new(),
                free: Vec::new(),
                sequence: 0,
                stale: 0,
            }),
        }
    }

    pub(crate) fn allocated(&self) -> usize {
        self.inner.borrow().heap.len()
    }

    fn set(&self, at: u64, waker: Waker) -> (u32, u64) {
        let inner = &mut *self.inner.borrow_mut();
        inner.sequence += 1;
        let entry = Entry { sequence: inner.sequence, waker: Some(waker) };
        let index = match inner.free.pop() {
            Some(index) => {
                inner.entries[index as usize] = entry;
                index
            }
            None => {
                inner.entries.push(entry);
                (inner.entries.len() - 1) as u32
            }
        };
        inner.heap.push(Reverse((at, inner.sequence, index)));
        (index, inner.sequence)
    }

    /// Gives the waker back, to be dropped where nothing is borrowed.
    fn unset(&self, (index, sequence): (u32, u64)) -> Option<Waker> {
        let inner = &mut *self.inner.borrow_mut();
        let entry = inner.entries.get_mut(index as usize).filter(|entry| entry.sequence == sequence)?;
        entry.sequence = 0;
        let waker = entry.waker.take();
        inner.free.push(index);
        inner.stale += 1;
        if inner.stale > 1024 && inner.stale * 2 > inner.heap.len() {
            let entries = &inner.entries;
            inner.heap.retain(|Reverse((_, sequence, index))| entries[*index as usize].sequence == *sequence);
            inner.stale = 0;
        }
        waker
    }

    /// False when the timer has fired already.
    fn update(&self, (index, sequence): (u32, u64), waker: &Waker) -> bool {
        let mut inner = self.inner.borrow_mut();
        let entry = &mut inner.entries[index as usize];
        if entry.sequence != sequence {
            return false;
        }
        if !entry.waker.as_ref().is_some_and(|old| old.will_wake(waker)) {
            let old = entry.waker.replace(waker.clone());
            drop(inner); // a foreign waker's drop may run any code, and that may come back here
            drop(old);
        }
        true
    }

    pub(crate) fn next(&self) -> Option<u64> {
        let inner = &mut *self.inner.borrow_mut();
        while let Some(Reverse((at, sequence, index))) = inner.heap.peek().copied() {
            if inner.entries[index as usize].sequence == sequence {
                return Some(at);
            }
            inner.heap.pop();
            inner.stale = inner.stale.saturating_sub(1);
        }
        None
    }

    pub(crate) fn fire(&self, now: u64) {
        while self.next().is_some_and(|at| at <= now) {
            let waker = {
                let inner = &mut *self.inner.borrow_mut();
                let Some(Reverse((_, _, index))) = inner.heap.pop() else { return };
                let entry = &mut inner.entries[index as usize];
                entry.sequence = 0;
                inner.free.push(index);
                entry.waker.take()
            };
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }
}

/// Sleeps until the shard's clock shows `at_ns`. Not `Send`: its timer is the shard's.
pub struct Sleep {
    at_ns: u64,
    timer: Option<(u32, u64)>,
    _here: PhantomData<*const ()>,
}

pub fn sleep_until(at_ns: u64) -> Sleep {
    Sleep { at_ns, timer: None, _here: PhantomData }
}

pub fn sleep(duration: Duration) -> Sleep {
    sleep_until(crate::now().saturating_add(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Shard::with(|shard| {
            if shard.now() >= self.at_ns {
                return Poll::Ready(());
            }
            if !self.timer.is_some_and(|timer| shard.timers().update(timer, cx.waker())) {
                self.timer = Some(shard.timers().set(self.at_ns, cx.waker().clone()));
            }
            Poll::Pending
        })
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer
            && Shard::is_current()
        {
            drop(Shard::with(|shard| shard.timers().unset(timer)));
        }
    }
}

/// The time given to [`timeout`] ran out first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// Polls `future` until it is ready or `duration` has passed. The future goes first: ready at the deadline is ready.
pub fn timeout<F: Future>(duration: Duration, future: F) -> Timeout<F> {
    Timeout { future, duration, sleep: None }
}

/// See [`timeout`]. Written out: an `async` function would keep its argument twice.
pub struct Timeout<F> {
    future: F,
    duration: Duration,
    /// From the first poll on, when the time begins.
    sleep: Option<Sleep>,
}

impl<F: Future> Future for Timeout<F> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: `future` stays where it is: it is reached by this projection and by dropping the whole alone.
        let (future, duration, timer) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), this.duration, &mut this.sleep)
        };
        let timer = timer.get_or_insert_with(|| sleep(duration));
        if let Poll::Ready(value) = future.poll(cx) {
            return Poll::Ready(Ok(value));
        }
        Pin::new(timer).poll(cx).map(|()| Err(Elapsed))
    }
}

/// Lets the other runnable tasks go first once.
pub async fn yield_now() {
    again(|| ()).await;
}

/// Lets the group's other tasks go first, also those that become runnable meanwhile: for one that has had much of the
/// processor and wants more. It is not starved.
pub async fn give_way() {
    again(|| Shard::with(Shard::give_way)).await;
}

/// CPU that a task which may give way has at once. Most clients' requests that arrive together take less, so that one
/// who floods the node, or asks for much, is served with what the others leave. Half of it is too little: eight reads of
/// one connection that came together take longer now and then, and of 64 clients that saturate a shard some wait often.
pub(crate) const TURN_NS: u64 = 100_000;

/// Whether the task has had its turn.
pub fn is_turn_over() -> bool {
    Shard::with(Shard::is_turn_over)
}

/// [`give_way`], if the task has had its turn.
pub async fn end_turn() {
    if is_turn_over() {
        give_way().await;
    }
}

/// Ends the poll, after `before`, and is ready in the next.
async fn again(before: impl Fn()) {
    let mut yielded = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        before();
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}
