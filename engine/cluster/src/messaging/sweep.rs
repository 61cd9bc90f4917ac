//! One task per shard that ends requests whose time is over, and those that could not begin.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

use super::inbound::{Incoming, Reply};
use super::messenger::Messenger;
use super::outstanding::Waiter;
use super::{CallError, Payload, Verb};

/// Timeouts are this late at most: it bounds the timer's rate when many requests expire one after another.
const GRANULARITY_NS: u64 = 2_000_000;

/// What has to happen outside of the call that caused it.
pub(super) enum Deferred {
    Finish(Waiter, Result<Payload, CallError>),
    /// A request of this shard to itself.
    Loopback {
        verb: Verb,
        payload: Payload,
        reply: Reply,
    },
}

#[derive(Default)]
pub(super) struct Sweeper {
    deferred: RefCell<Vec<Deferred>>,
    /// When the task wakes by itself.
    wakes_at_ns: Cell<u64>,
    poked: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Sweeper {
    pub fn defer(&self, deferred: Deferred) {
        self.deferred.borrow_mut().push(deferred);
        self.poke();
    }

    /// A request with this deadline began.
    #[inline]
    pub fn watch(&self, deadline_ns: u64) {
        if deadline_ns < self.wakes_at_ns.get() {
            self.poke();
        }
    }

    pub fn poke(&self) {
        self.poked.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Takes the messenger apart when its shard closes, whatever cycles its owners made.
struct Closing(Rc<Messenger>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.dismantle();
    }
}

impl Messenger {
    pub(super) async fn sweep(self: Rc<Self>) {
        let closing = Closing(self);
        let messenger = &closing.0;
        let sweeper = &messenger.sweeper;
        loop {
            sweeper.poked.set(false);
            for deferred in sweeper.deferred.take() {
                match deferred {
                    Deferred::Finish(waiter, result) => waiter.finish(result),
                    Deferred::Loopback { verb, payload, reply } => {
                        if let Some(handler) = messenger.handler() {
                            handler.handle(Incoming { from: messenger.local(), verb, payload, reply });
                        }
                    }
                }
            }
            let now = reactor::now();
            while let Some(waiter) = messenger.take_expired(now) {
                messenger.counters.timeouts.set(messenger.counters.timeouts.get() + 1);
                waiter.finish(Err(CallError::Timeout));
            }
            if messenger.is_stopping() && messenger.outstanding() == 0 && sweeper.deferred.borrow().is_empty() {
                return;
            }
            let deadline = messenger.next_deadline().map(|deadline| deadline.max(now + GRANULARITY_NS));
            sweeper.wakes_at_ns.set(deadline.unwrap_or(u64::MAX));
            let mut sleep = pin!(deadline.map(reactor::time::sleep_until));
            poll_fn(|cx| {
                if sweeper.poked.get() {
                    return Poll::Ready(());
                }
                *sweeper.waker.borrow_mut() = Some(cx.waker().clone());
                match sleep.as_mut().as_pin_mut() {
                    Some(sleep) => sleep.poll(cx),
                    None => Poll::Pending,
                }
            })
            .await;
        }
    }
}
