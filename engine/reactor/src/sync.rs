//! Waiting for one another within a shard.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Wakes everybody who waited when it was called.
#[derive(Default)]
pub struct Notify {
    epoch: Cell<u64>,
    waiters: RefCell<Vec<Waker>>,
}

impl Notify {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn notify_all(&self) {
        self.epoch.set(self.epoch.get() + 1);
        for waker in self.waiters.take() {
            waker.wake();
        }
    }

    /// Waits for the next `notify_all` after this call.
    pub fn notified(&self) -> impl Future<Output = ()> {
        let epoch = self.epoch.get();
        poll_fn(move |cx| {
            if self.epoch.get() != epoch {
                return Poll::Ready(());
            }
            let mut waiters = self.waiters.borrow_mut();
            if !waiters.iter().any(|waiter| waiter.will_wake(cx.waker())) {
                waiters.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Waits until `ready` says so, asking again after each `notify_all`.
    pub async fn wait_until(&self, mut ready: impl FnMut() -> bool) {
        while !ready() {
            self.notified().await;
        }
    }
}

/// Counts units; waiters are served in order of arrival.
pub struct Semaphore {
    units: Cell<usize>,
    waiters: RefCell<VecDeque<Rc<Waiter>>>,
}

struct Waiter {
    units: usize,
    granted: Cell<bool>,
    gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Semaphore {
    pub fn new(units: usize) -> Rc<Self> {
        Rc::new(Self { units: Cell::new(units), waiters: RefCell::new(VecDeque::new()) })
    }

    pub fn available(&self) -> usize {
        self.units.get()
    }

    /// Takes `units`; they come back when the permit is dropped.
    pub async fn acquire(self: &Rc<Self>, units: usize) -> Permit {
        if self.units.get() >= units && self.waiters.borrow().is_empty() {
            self.units.set(self.units.get() - units);
            return Permit { semaphore: self.clone(), units };
        }
        let waiter =
            Rc::new(Waiter { units, granted: Cell::new(false), gone: Cell::new(false), waker: RefCell::new(None) });
        self.waiters.borrow_mut().push_back(waiter.clone());
        Acquire { semaphore: self.clone(), waiter, taken: false }.await
    }

    pub fn release(&self, units: usize) {
        self.units.set(self.units.get() + units);
        self.serve();
    }

    fn serve(&self) {
        loop {
            let waiter = {
                let mut waiters = self.waiters.borrow_mut();
                match waiters.front() {
                    Some(first) if first.gone.get() => {
                        waiters.pop_front();
                        continue;
                    }
                    Some(first) if first.units <= self.units.get() => {
                        self.units.set(self.units.get() - first.units);
                        first.granted.set(true);
                        waiters.pop_front()
                    }
                    _ => None,
                }
            };
            let Some(waiter) = waiter else { return };
            if let Some(waker) = waiter.waker.take() {
                waker.wake();
            }
        }
    }
}

struct Acquire {
    semaphore: Rc<Semaphore>,
    waiter: Rc<Waiter>,
    taken: bool,
}

impl Future for Acquire {
    type Output = Permit;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Permit> {
        if self.waiter.granted.get() {
            self.taken = true;
            return Poll::Ready(Permit { semaphore: self.semaphore.clone(), units: self.waiter.units });
        }
        *self.waiter.waker.borrow_mut() = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Acquire {
    fn drop(&mut self) {
        self.waiter.gone.set(true);
        if self.waiter.granted.get() && !self.taken {
            self.semaphore.release(self.waiter.units);
        } else if !self.taken {
            self.semaphore.serve();
        }
    }
}

pub struct Permit {
    semaphore: Rc<Semaphore>,
    units: usize,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.semaphore.release(self.units);
    }
}

/// A queue within a shard. `None` from `pop` means closed and empty.
pub struct Queue<T> {
    items: RefCell<VecDeque<T>>,
    closed: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: RefCell::new(VecDeque::new()), closed: Cell::new(false), waiter: RefCell::new(None) }
    }
}

impl<T> Queue<T> {
    pub fn new() -> Rc<Self> {
        Rc::new(Self::default())
    }

    pub fn push(&self, item: T) {
        self.items.borrow_mut().push_back(item);
        self.wake();
    }

    pub fn close(&self) {
        self.closed.set(true);
        self.wake();
    }

    fn wake(&self) {
        if let Some(waker) = self.waiter.take() {
            waker.wake();
        }
    }

    pub fn len(&self) -> usize {
        self.items.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn try_pop(&self) -> Option<T> {
        self.items.borrow_mut().pop_front()
    }

    /// The next item. One task at a time may wait.
    pub fn pop(&self) -> impl Future<Output = Option<T>> + '_ {
        poll_fn(|cx| {
            if let Some(item) = self.try_pop() {
                return Poll::Ready(Some(item));
            }
            if self.closed.get() {
                return Poll::Ready(None);
            }
            *self.waiter.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
    }
}

/// A value set once, awaited by one task.
pub struct Once<T> {
    value: RefCell<Option<T>>,
    waiter: RefCell<Option<Waker>>,
}

impl<T> Once<T> {
    pub fn new() -> Rc<Self> {
        Rc::new(Self { value: RefCell::new(None), waiter: RefCell::new(None) })
    }

    pub fn set(&self, value: T) {
        *self.value.borrow_mut() = Some(value);
        if let Some(waker) = self.waiter.take() {
            waker.wake();
        }
    }

    pub fn take(&self) -> impl Future<Output = T> + '_ {
        poll_fn(|cx| match self.value.borrow_mut().take() {
            Some(value) => Poll::Ready(value),
            None => {
                *self.waiter.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
    }
}
