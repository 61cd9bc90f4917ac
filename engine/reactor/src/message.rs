//! Calls between the shards of one host.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use crate::{Group, Shard, Work};

/// Where the answer lands. The mutex is never contended: the two sides take turns.
struct Reply<T> {
    state: Mutex<(Option<T>, Option<Waker>)>,
}

impl<T> Reply<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, (Option<T>, Option<Waker>)> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

struct Answer<T>(Arc<Reply<T>>);

impl<T> Future for Answer<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut state = self.0.lock();
        match state.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                state.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Runs `make()`'s future on shard `to` of this host, in `group` there, and gives its output.
///
/// On the current shard it is spawned all the same, so that the group and the order are the same everywhere.
/// When the other shard closes first, the answer never comes; hosts close whole.
pub fn submit_to_with<T, Fut>(
    to: usize,
    group: Group,
    name: &'static str,
    make: impl FnOnce() -> Fut + Send + 'static,
) -> impl Future<Output = T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    let reply = Arc::new(Reply { state: Mutex::new((None, None)) });
    let answer = Answer(reply.clone());
    Shard::with(|shard| {
        let from = shard.config().index;
        shard.charge(Work::CrossShard, 0);
        shard.backend().send_message(
            shard,
            to,
            Box::new(move || {
                let task = async move {
                    let value = make().await;
                    Shard::with(|shard| {
                        let answer = Box::new(move || {
                            let waker = {
                                let mut state = reply.lock();
                                state.0 = Some(value);
                                state.1.take()
                            };
                            if let Some(waker) = waker {
                                waker.wake();
                            }
                        });
                        shard.backend().send_message(shard, from, answer);
                    });
                };
                drop(crate::spawn(group, name, task));
            }),
        );
    });
    answer
}

/// [`submit_to_with`] in the caller's group.
pub fn submit_to<T, Fut>(
    to: usize,
    name: &'static str,
    make: impl FnOnce() -> Fut + Send + 'static,
) -> impl Future<Output = T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + 'static,
{
    submit_to_with(to, crate::current_group(), name, make)
}
