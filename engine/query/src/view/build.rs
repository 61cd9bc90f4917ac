//! Rows that were in a table before its view was: every shard scans what it has of the base and tells the view, as if
//! each row had just been written.
//!
//! What writes tell the view meanwhile commutes with that, for both have the base's timestamps. A shard notes a view
//! that it is done with in a file of its own, and begins anew after a restart in the midst of one; a node with another
//! number of shards than before builds all its views again, which changes nothing in them.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use reactor::{Group, fs, time};
use storage::ScanCommand;
use types::{TableId, Token};

use super::update::{appear, send};
use crate::node::Node;

/// Rows that are read at once.
const PAGE_ROWS: usize = 500;
/// After a failure: a replica may be away, or the schema be changing.
const RETRY: Duration = Duration::from_millis(500);

/// Which shards of the node are done with which views.
#[derive(Default)]
pub(crate) struct Progress {
    done: RefCell<BTreeMap<TableId, BTreeSet<usize>>>,
    loaded: Cell<bool>,
    running: Cell<bool>,
}

impl Progress {
    /// Whether all of the node's rows are in the view.
    pub fn is_built(&self, view: TableId, shards: usize) -> bool {
        self.done.borrow().get(&view).is_some_and(|done| done.len() >= shards)
    }

    fn mark(&self, view: TableId, shard: usize) {
        self.done.borrow_mut().entry(view).or_default().insert(shard);
    }

    fn is_done(&self, view: TableId, shard: usize) -> bool {
        self.done.borrow().get(&view).is_some_and(|done| done.contains(&shard))
    }
}

/// Builds what is not built, in the background.
pub(crate) fn start(node: &Rc<Node>) {
    let progress = &node.view_progress;
    if progress.running.get() || node.viewed.borrow().is_empty() {
        return;
    }
    progress.running.set(true);
    let node = Rc::downgrade(node);
    drop(reactor::spawn(Group::Maintenance, "view-build", async move {
        loop {
            let Some(node) = node.upgrade() else { return };
            match run(&node).await {
                Ok(()) => {
                    node.view_progress.running.set(false);
                    // Something may have come while the last step was waiting.
                    if next(&node).is_none() {
                        return;
                    }
                    node.view_progress.running.set(true);
                }
                Err(cause) => {
                    tracing::warn!(%cause, "a view could not be built; it is tried again");
                    drop(node);
                    time::sleep(RETRY).await;
                }
            }
        }
    }));
}

/// A view to build, with its base.
fn next(node: &Rc<Node>) -> Option<(Rc<super::Viewed>, usize)> {
    for viewed in node.viewed.borrow().values() {
        let waits = |view: &super::Maintained| !node.view_progress.is_done(view.table.id, node.shard);
        if let Some(at) = viewed.views.iter().position(waits) {
            return Some((viewed.clone(), at));
        }
    }
    None
}

async fn run(node: &Rc<Node>) -> Result<(), String> {
    if !node.view_progress.loaded.replace(true) {
        for id in load(node).await {
            finished(node, id);
        }
    }
    while let Some((viewed, at)) = next(node) {
        let id = viewed.views[at].table.id;
        build(node, &viewed, at).await?;
        finished(node, id);
        save(node).await?;
    }
    Ok(())
}

async fn build(node: &Rc<Node>, viewed: &super::Viewed, at: usize) -> Result<(), String> {
    let mut after = None;
    loop {
        let command = ScanCommand {
            after: after.take(),
            limit_rows: PAGE_ROWS,
            ..ScanCommand::all(viewed.base.id, reactor::wall_s())
        };
        let (partitions, more) = node.storage.scan(command).await.map_err(|error| error.to_string())?;
        let last = partitions.last().map(|last| {
            let row = last.rows.last().filter(|_| !viewed.base.clustering.is_empty());
            (last.key.clone(), row.map(|row| row.clustering.clone()))
        });
        for partition in partitions {
            let token = Token::of_key(&partition.key);
            let told = appear(viewed, &[at], partition, reactor::wall_s())?;
            send(node, viewed, token, told).await?;
        }
        match last {
            Some(last) if more => after = Some(last),
            _ => return Ok(()),
        }
    }
}

/// Tells all shards that this one is done with a view.
fn finished(node: &Rc<Node>, view: TableId) {
    let from = node.shard;
    node.view_progress.mark(view, from);
    for shard in (0..node.shards).filter(|&shard| shard != from) {
        drop(reactor::spawn(Group::Maintenance, "view-built", async move {
            reactor::submit_to_with(shard, Group::Maintenance, "view-built", move || async move {
                loop {
                    match reactor::local::<Node>() {
                        Some(node) => return node.view_progress.mark(view, from),
                        None => time::sleep(Duration::from_millis(10)).await,
                    }
                }
            })
            .await;
        }));
    }
}

fn file(node: &Node) -> String {
    format!("views_built.{}of{}", node.shard, node.shards)
}

async fn load(node: &Node) -> Vec<TableId> {
    let text = fs::read(&format!("{}/{}", node.config.data_dir, file(node))).await.unwrap_or_default();
    let ids =
        String::from_utf8_lossy(&text).lines().filter_map(|line| types::uuid::parse(line).ok()).collect::<Vec<_>>();
    ids.into_iter().map(|id| TableId(u128::from_be_bytes(id))).collect()
}

/// The views that exist and that this shard is done with.
async fn save(node: &Node) -> Result<(), String> {
    let ids: Vec<TableId> = node
        .viewed
        .borrow()
        .values()
        .flat_map(|viewed| viewed.views.iter().map(|view| view.table.id))
        .filter(|id| node.view_progress.is_done(*id, node.shard))
        .collect();
    let text: String = ids.iter().map(|id| format!("{id}\n")).collect();
    fs::replace(&node.config.data_dir, &file(node), text.as_bytes())
        .await
        .map_err(|error| format!("{}/{}: {error}", node.config.data_dir, file(node)))
}
