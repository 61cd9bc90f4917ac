//! Work that is usually finished at once: run in place, become a task only when it has to wait.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use crate::{Group, Shard};

/// How many processors may each take the current shard's next task.
pub fn processors() -> usize {
    Shard::with(|shard| shard.config().processors)
}

/// Polls `future` in place; when it has to wait, the rest becomes a task. Saves the queue's round trip for work that
/// mostly needs no wait.
///
/// What gave way in place is a task that has given way. Where several processors take the shard's tasks, it is a task
/// from the beginning: another one may do it.
///
/// A wake between the two polls is not lost: a task's first poll is unconditional, and leaf futures take the newest
/// waker.
pub fn run_or_spawn(group: Group, name: &'static str, future: impl Future<Output = ()> + 'static) {
    if processors() > 1 {
        return drop(Shard::with(|shard| shard.spawn(group, name, future)));
    }
    let mut future: Pin<Box<dyn Future<Output = ()>>> = Box::pin(future);
    if future.as_mut().poll(&mut Context::from_waker(Waker::noop())) == Poll::Pending {
        drop(Shard::with(|shard| shard.spawn_rest(group, name, future)));
    }
}
