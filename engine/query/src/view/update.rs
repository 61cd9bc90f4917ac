//! The write path of a table with views: read, compare, tell the views, write.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use cluster::NodeIndex;
use reactor::Group;
use reactor::sync::{Permit, Semaphore};
use storage::{Bytes, Clustering, DeletionTime, Mutation, Partition, ReadCommand, Row, Slice};
use types::{TableDef, TableId, Token, partition_key_components};

use super::entry::{Base, Version, updates};
use super::{Maintained, Viewed};
use crate::node::Node;
use crate::replica::{self, verb};

/// Rows of a base partition that are compared at once: bounds the memory of a deletion of a large partition.
const PAGE_ROWS: usize = 1_000;
/// Mutations of views under way at once for one write of a base table.
const IN_FLIGHT_MAX: usize = 64;

/// One write at a time for each partition of a table with views: between reading what was there and writing, nobody
/// else may.
#[derive(Default)]
pub(crate) struct Locks(RefCell<BTreeMap<(TableId, Vec<u8>), Rc<Semaphore>>>);

impl Locks {
    async fn lock(&self, table: TableId, key: &[u8]) -> Permit {
        let turn = self.0.borrow_mut().entry((table, key.to_vec())).or_insert_with(|| Semaphore::new(1)).clone();
        turn.acquire(1).await
    }

    /// Forgets the lock unless somebody waits for it.
    fn release(&self, table: TableId, key: &[u8], permit: Permit) {
        drop(permit);
        let mut locks = self.0.borrow_mut();
        let id = (table, key.to_vec());
        if locks.get(&id).is_some_and(|turn| Rc::strong_count(turn) == 1 && turn.available() == 1) {
            locks.remove(&id);
        }
    }
}

/// Applies a mutation of a table with views, on the shard that owns the partition.
pub(crate) async fn apply(node: &Rc<Node>, viewed: &Viewed, mutation: &[u8]) -> Result<(), String> {
    let text = |error: storage::Malformed| error.to_string();
    let (table, key) = Mutation::peek(mutation).map_err(text)?;
    let permit = node.view_locks.lock(table, key).await;
    let result = apply_locked(node, viewed, mutation).await;
    node.view_locks.release(table, key, permit);
    result
}

async fn apply_locked(node: &Rc<Node>, viewed: &Viewed, mutation: &[u8]) -> Result<(), String> {
    let update = Mutation::decode(mutation).map_err(|error| error.to_string())?;
    if update.schema_version == viewed.base.version {
        propagate(node, viewed, update.partition).await?;
    }
    // Of another version it is refused here.
    node.storage.apply(mutation).await.map_err(|error| error.to_string())
}

/// Tells the views what `update` changes.
async fn propagate(node: &Rc<Node>, viewed: &Viewed, update: Partition) -> Result<(), String> {
    let base = &*viewed.base;
    let now_s = reactor::wall_s();
    let token = Token::of_key(&update.key);
    // All are; who asks for it by this option looks for these words.
    for table in viewed.views.iter().map(|view| &view.table) {
        if table.options.other.get("synchronous_updates").is_some_and(|value| value == "true") {
            node.trace(|| format!("Forcing {}.{} view update to be synchronous", table.keyspace, table.name));
        }
    }
    let is_wide = update.deletion.is_some() || !update.range_tombstones.is_empty();
    let touches_rows = is_wide || !update.rows.is_empty();
    let mut rows: BTreeMap<Vec<u8>, Row> =
        update.rows.iter().map(|row| (row.clustering.as_bytes().to_vec(), row.clone())).collect();
    let whole = Partition { rows: Vec::new(), ..update.clone() };
    let mut slices = match is_wide {
        true => Vec::new(),
        false => {
            let mut rows: Vec<&Clustering> = update.rows.iter().map(|row| &row.clustering).collect();
            rows.sort_by(|a, b| a.compare(b, base));
            rows.dedup();
            rows.into_iter().map(|row| Slice::prefix(row.clone())).collect()
        }
    };
    if !touches_rows {
        // Of the static row alone.
        let nowhere = Clustering::empty();
        slices =
            vec![Slice { start: storage::Bound::exclusive(nowhere.clone()), end: storage::Bound::exclusive(nowhere) }];
    }
    let mut first = true;
    loop {
        let command = ReadCommand {
            slices: slices.clone(),
            limit_rows: PAGE_ROWS,
            ..ReadCommand::partition(base.id, update.key.clone(), now_s)
        };
        let page = node.storage.read_page(command).await.map_err(|error| error.to_string())?;
        let existing = page.partition.unwrap_or_else(|| Partition::new(update.key.clone()));
        let last = existing.rows.last().map(|row| row.clustering.clone()).filter(|_| page.more);
        let mut change = whole.clone();
        for row in &existing.rows {
            change.rows.extend(rows.remove(row.clustering.as_bytes()));
        }
        if last.is_none() {
            change.rows.extend(std::mem::take(&mut rows).into_values());
        }
        change.sort(base);
        let told = compare(viewed, existing, change, now_s, first)?;
        send(node, viewed, token, told).await?;
        first = false;
        let Some(last) = last else { return Ok(()) };
        let all = [Slice::all()];
        let wanted = if slices.is_empty() { &all[..] } else { &slices[..] };
        slices = wanted.iter().filter_map(|slice| slice.behind(&last, false, base)).collect();
    }
}

/// Updates by the place of the view in the list and the key of its partition.
pub(super) type Told = BTreeMap<(usize, Vec<u8>), Vec<Row>>;

/// What the rows of `existing` and `change` mean for the views; with the static row if it is `first`.
fn compare(viewed: &Viewed, existing: Partition, change: Partition, now_s: u32, first: bool) -> Result<Told, String> {
    let table = &*viewed.base;
    let mut merged = existing.clone();
    let mut touched: Vec<Clustering> =
        existing.rows.iter().chain(&change.rows).map(|row| row.clustering.clone()).collect();
    touched.sort_by(|a, b| a.compare(b, table));
    touched.dedup();
    merged.merge(change, table);
    merged.purge_shadowed(table);
    let key = existing.key.clone();
    let components = partition_key_components(&key, table.partition_key.len()).map_err(|error| error.to_string())?;
    let base = Base { table, key: &key, components: &components, now_s };
    let mut told = Told::new();
    let mut tell = |view: usize, maintained: &Maintained, clustering: &Clustering, old, new| {
        for (key, row) in updates(maintained, &base, clustering, old, new) {
            told.entry((view, key)).or_default().push(row);
        }
    };
    for (at, view) in viewed.views.iter().enumerate() {
        if view.is_static() {
            if first {
                let version = |partition: &'_ Partition| partition.deletion;
                let old = Version { row: existing.static_row.as_ref(), deletion: version(&existing) };
                let new = Version { row: merged.static_row.as_ref(), deletion: version(&merged) };
                tell(at, view, &Clustering::empty(), old, new);
            }
            continue;
        }
        for clustering in &touched {
            tell(at, view, clustering, version(&existing, clustering, table), version(&merged, clustering, table));
        }
    }
    Ok(told)
}

pub(super) fn version<'a>(partition: &'a Partition, clustering: &Clustering, table: &TableDef) -> Version<'a> {
    let found = partition.rows.binary_search_by(|row| row.clustering.compare(clustering, table));
    let row = found.ok().map(|at| &partition.rows[at]);
    let covers = |range: &&storage::RangeTombstone| {
        Slice { start: range.start.clone(), end: range.end.clone() }.contains(clustering, table)
    };
    // In normal form they lie apart from one another.
    let range = partition.range_tombstones.iter().find(covers).map(|range| range.deletion);
    let deletion = DeletionTime::latest(partition.deletion, range);
    Version { row, deletion: DeletionTime::latest(deletion, row.and_then(|row| row.deletion)) }
}

/// The rows of a partition of the base as if they had just come about: for views that are built.
pub(super) fn appear(viewed: &Viewed, views: &[usize], partition: Partition, now_s: u32) -> Result<Told, String> {
    let nothing = Partition::new(partition.key.clone());
    let mut told = compare(viewed, nothing, partition, now_s, true)?;
    told.retain(|(view, _), _| views.contains(view));
    Ok(told)
}

/// Brings the updates to the views' replicas.
pub(super) async fn send(node: &Rc<Node>, viewed: &Viewed, base: Token, told: Told) -> Result<(), String> {
    let mut told = told.into_iter();
    loop {
        let mut writes = Vec::new();
        for ((view, key), rows) in told.by_ref().take(IN_FLIGHT_MAX) {
            let table = &viewed.views[view].table;
            let token = Token::of_key(&key);
            let mut partition = Partition { rows, ..Partition::new(Bytes::from(key)) };
            partition.sort(table);
            let bytes = Mutation::bytes(table, partition);
            // Who joins and will have the view's partition is told by all: none of them is its own.
            for &further in node.further(&table.keyspace, token).nodes() {
                writes.push((further, token, bytes.clone()));
            }
            let target = paired(node, &table.keyspace, base, token)?;
            writes.push((target, token, bytes));
        }
        // Most writes have one row of one view here.
        if let [(target, token, _)] = writes.as_slice() {
            let (target, token) = (*target, *token);
            let bytes = writes.pop().map(|(.., bytes)| bytes).unwrap_or_default();
            write(node, target, token, bytes).await?;
            continue;
        }
        if writes.is_empty() {
            return Ok(());
        }
        let mut tasks = Vec::new();
        for (target, token, bytes) in writes {
            let node = node.clone();
            tasks.push(reactor::spawn(Group::Statement, "view-write", async move {
                write(&node, target, token, bytes).await
            }));
        }
        for task in tasks {
            task.await?;
        }
    }
}

async fn write(node: &Rc<Node>, target: NodeIndex, token: Token, bytes: Vec<u8>) -> Result<(), String> {
    if target == node.me() {
        return replica::apply_plain(node, token, bytes).await;
    }
    let messenger = node.messenger().ok_or("the view's replica cannot be reached")?;
    let payload = replica::encode_mutate(token, &bytes);
    let answer = messenger.call(target, verb::MUTATE, &payload, node.config.timeouts.write).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// The replica of the view's partition that this replica of the base's tells: itself if it is one; otherwise, of those
/// that hold only one of the two, the one at the same place. As Cassandra's `ViewUtils.getViewNaturalEndpoint`.
fn paired(node: &Node, keyspace: &str, base: Token, view: Token) -> Result<NodeIndex, String> {
    let replicas = |token| node.replicas(keyspace, token).map_err(|error| error.message);
    let (base, view) = (replicas(base)?, replicas(view)?);
    Ok(pair(node.me(), base.nodes(), view.nodes()))
}

fn pair(me: NodeIndex, base: &[NodeIndex], view: &[NodeIndex]) -> NodeIndex {
    if view.contains(&me) || view.is_empty() {
        return me;
    }
    let only_base = base.iter().filter(|node| !view.contains(node));
    let mut only_view = view.iter().filter(|node| !base.contains(node));
    let place = only_base.clone().position(|node| *node == me).unwrap_or(0);
    only_view.nth(place).copied().unwrap_or(view[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_are_paired_one_to_one() {
        let nodes = |list: &[u16]| list.iter().map(|&n| NodeIndex(n)).collect::<Vec<_>>();
        let check = |me: u16, base: &[u16], view: &[u16], expect: u16| {
            let paired = pair(NodeIndex(me), &nodes(base), &nodes(view));
            assert_eq!(paired, NodeIndex(expect), "{me} of {base:?} to {view:?}");
        };
        check(1, &[1, 2, 3], &[3, 1, 4], 1);
        check(2, &[1, 2, 3], &[3, 1, 4], 4);
        check(1, &[1, 2], &[3, 4], 3);
        check(2, &[1, 2], &[3, 4], 4);
        check(1, &[1], &[1], 1);
    }
}
