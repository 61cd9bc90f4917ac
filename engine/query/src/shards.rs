//! Work on every shard of the node.

use std::rc::Rc;
use std::time::Duration;

use reactor::{Group, time};

use crate::node::Node;

/// A shard of the node has not come up yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node is still starting")]
pub struct Starting;

impl Node {
    /// Runs `work` on every shard side by side, each with its own `Node`; the answers are in the shards' order.
    pub async fn on_every_shard<T, Fut>(
        &self,
        name: &'static str,
        work: impl Fn(Rc<Node>) -> Fut + Clone + Send + 'static,
    ) -> Result<Vec<T>, Starting>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + 'static,
    {
        let started: Vec<_> = (0..self.shards)
            .map(|shard| {
                let work = work.clone();
                reactor::submit_to_with(shard, Group::Maintenance, name, move || async move {
                    match reactor::local::<Node>() {
                        Some(node) => Ok(work(node).await),
                        None => Err(Starting),
                    }
                })
            })
            .collect();
        let mut answers = Vec::with_capacity(started.len());
        for answer in started {
            answers.push(answer.await);
        }
        answers.into_iter().collect()
    }
}

/// Waits until every shard of the node has its own `T`, as [`reactor::local`] finds it.
pub async fn all_have<T: 'static>() {
    /// How often a shard looks: short against a start.
    const LOOK: Duration = Duration::from_millis(1);
    let (here, shards) = reactor::shard_index();
    for shard in (0..shards).filter(|&shard| shard != here) {
        reactor::submit_to_with(shard, Group::Maintenance, "started", || async {
            while reactor::local::<T>().is_none() {
                time::sleep(LOOK).await;
            }
        })
        .await;
    }
}
