//! Answers on their way out: what many requests of one turn produce leaves in one send.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use reactor::Buf;
use reactor::net::Connection;

/// A client that does not read its answers is not read from above this.
const BYTES_MAX: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct Outbox {
    bytes: RefCell<Vec<u8>>,
    writer: RefCell<Option<Waker>>,
    closed: Cell<bool>,
}

impl Outbox {
    /// Appends to what is going to be sent.
    pub fn write<T>(&self, append: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let result = append(&mut self.bytes.borrow_mut());
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
        result
    }

    pub fn is_full(&self) -> bool {
        self.bytes.borrow().len() > BYTES_MAX
    }

    /// Nothing more will be written; what is there still leaves.
    pub fn close(&self) {
        self.closed.set(true);
        self.write(|_| ());
    }

    /// Sends what is written until closed. Calls `drained` after each send.
    pub async fn send_to(&self, connection: &Connection, drained: impl Fn()) -> std::io::Result<()> {
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
            let bytes = std::mem::replace(&mut *self.bytes.borrow_mut(), std::mem::take(&mut spare));
            let (result, sent) = connection.send_all(Buf::from(bytes)).await;
            result?;
            spare = sent.into_vec();
            spare.clear();
            drained();
        }
    }
}
