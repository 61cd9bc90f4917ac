//! Counter updates at the replica that leads them.
//!
//! What arrives has for each counter what is to be added. The leader reads its own count, adds, and writes the result,
//! which from then on is an ordinary write to every replica (`storage::counter`). One update of a partition at a time:
//! two that read the same count would lose one of them.

use std::rc::Rc;

use cql::Consistency;
use cql::response::WriteType;
use reactor::sync::Semaphore;
use storage::{Cell, Mutation, Partition, ReadCommand, Row, counter};
use types::Token;

use super::STARTING;
use crate::node::Node;

/// Updates of different partitions seldom meet in one of so many turns.
const TURNS: usize = 256;

/// Whose turn it is to update a counter, by token.
pub(crate) struct CounterTurns(Vec<Rc<Semaphore>>);

impl CounterTurns {
    pub fn new() -> Self {
        Self((0..TURNS).map(|_| Semaphore::new(1)).collect())
    }

    fn of(&self, token: Token) -> Rc<Semaphore> {
        self.0[token.0 as usize % TURNS].clone()
    }
}

/// Leads an update, on the shard that owns `token`.
pub(crate) async fn count(
    node: &Rc<Node>,
    token: Token,
    mutation: Vec<u8>,
    consistency: Consistency,
) -> Result<(), String> {
    let owner = node.owner_shard(token);
    if owner == node.shard {
        return count_here(node, token, &mutation, consistency).await;
    }
    reactor::submit_to(owner, "count", move || async move {
        let node = reactor::local::<Node>().ok_or(STARTING)?;
        count_here(&node, token, &mutation, consistency).await
    })
    .await
}

async fn count_here(node: &Rc<Node>, token: Token, mutation: &[u8], consistency: Consistency) -> Result<(), String> {
    let mut mutation = Mutation::decode(mutation).map_err(|error| error.to_string())?;
    super::check_version(node, mutation.table, mutation.schema_version)?;
    let table = node.schema().table_by_id(mutation.table).cloned().ok_or("the table is gone")?;
    let _turn = node.counters.of(token).acquire(1).await;
    let now_us = reactor::wall_us() as i64;
    let command = ReadCommand::partition(table.id, mutation.partition.key.clone(), (now_us / 1_000_000) as u32);
    let current = node.storage.read(command).await.map_err(|error| error.to_string())?;
    let id = node.topology().local().host_id.to_be_bytes();
    add(&mut mutation.partition, current.as_ref(), id, now_us).map_err(|error| error.to_string())?;
    let mut bytes = Vec::with_capacity(256);
    mutation.encode(&mut bytes);
    let written = node.write(&table.keyspace, token, bytes, consistency, WriteType::Counter, None);
    written.await.map_err(|error| error.to_string())
}

/// Puts in place of what is to be added what it comes to.
fn add(
    partition: &mut Partition,
    current: Option<&Partition>,
    id: counter::CounterId,
    now_us: i64,
) -> Result<(), storage::Malformed> {
    let known_row = |row: &Row| {
        let rows = &current?.rows;
        rows.iter().find(|known| known.clustering == row.clustering)
    };
    if let Some(row) = &mut partition.static_row {
        add_to_row(row, current.and_then(|current| current.static_row.as_ref()), id, now_us)?;
    }
    for row in &mut partition.rows {
        let known = known_row(row);
        add_to_row(row, known, id, now_us)?;
    }
    Ok(())
}

fn add_to_row(
    row: &mut Row,
    known: Option<&Row>,
    id: counter::CounterId,
    now_us: i64,
) -> Result<(), storage::Malformed> {
    for (column, cell) in &mut row.cells {
        let Some(delta) = cell.value.as_deref() else { continue };
        let delta = i64::from_be_bytes(delta.try_into().map_err(|_| storage::Malformed { what: "counter update" })?);
        let known = known.and_then(|row| row.cell(*column)).and_then(|cell| cell.value.as_deref());
        *cell = Cell::live(cell.timestamp, counter::increment(known, id, now_us, delta)?);
    }
    Ok(())
}
