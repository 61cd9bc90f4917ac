//! The future form of a request.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use super::{CallError, Messenger, Payload, Response};

/// What the future and the table of outstanding requests share.
#[derive(Default)]
pub(super) struct CallState {
    result: RefCell<Option<Result<Payload, CallError>>>,
    waker: RefCell<Option<Waker>>,
    /// The request's id while it waits.
    pub id: Cell<Option<u64>>,
}

impl CallState {
    pub fn finish(&self, result: Result<Payload, CallError>) {
        self.id.set(None);
        *self.result.borrow_mut() = Some(result);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// Resolves to the answer. Dropped before, the answer meets nobody.
pub struct Call {
    pub(super) state: Rc<CallState>,
    pub(super) messenger: Weak<Messenger>,
}

impl Future for Call {
    type Output = Result<Response, CallError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(result) = self.state.result.take() {
            return Poll::Ready(result);
        }
        let mut waker = self.state.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|old| old.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if let (Some(id), Some(messenger)) = (self.state.id.get(), self.messenger.upgrade()) {
            drop(messenger.take_outstanding(id));
        }
    }
}
