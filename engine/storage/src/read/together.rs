//! Waits for several futures of one kind at the same time: their disk operations overlap.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// What each gives, in their order. Polls all of them whenever one is woken: for a handful.
pub(crate) async fn together<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    let mut futures = futures.into_iter();
    let Some(first) = futures.next() else { return Vec::new() };
    let Some(second) = futures.next() else { return vec![first.await] };
    let mut running: Vec<Option<Pin<Box<F>>>> =
        [first, second].into_iter().chain(futures).map(|future| Some(Box::pin(future))).collect();
    let mut given: Vec<Option<F::Output>> = running.iter().map(|_| None).collect();
    poll_fn(|context| {
        for (future, output) in running.iter_mut().zip(&mut given) {
            if let Some(pending) = future
                && let Poll::Ready(ready) = pending.as_mut().poll(context)
            {
                *output = Some(ready);
                *future = None;
            }
        }
        if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    given.into_iter().flatten().collect()
}
