//! What a node that is operated does by itself from time to time, on shard 0.

use std::rc::Rc;
use std::time::Duration;

use query::Node;
use reactor::{Group, time};

/// Snapshots' times are told in seconds; looking costs a few reads of folders.
const SNAPSHOTS_EVERY: Duration = Duration::from_secs(5);

/// Ends when the node is gone.
pub(crate) fn spawn(node: &Rc<Node>) {
    let node = Rc::downgrade(node);
    drop(reactor::spawn(Group::Maintenance, "housekeeping", async move {
        loop {
            time::sleep(SNAPSHOTS_EVERY).await;
            let Some(node) = node.upgrade() else { return };
            match node.clear_expired_snapshots().await {
                Ok(0) => {}
                Ok(cleared) => tracing::info!(cleared, "snapshots have outlived their time"),
                Err(error) => tracing::warn!(error = error.message, "snapshots could not be cleared"),
            }
        }
    }));
}
