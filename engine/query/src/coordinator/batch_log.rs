//! The batch log: what makes all of a logged batch happen, or nothing of it.
//!
//! 1. Before the first of several mutations is sent, all of them are written down as one row of `system.batches`, on up
//!    to two other nodes of the data centre, or here where there is no other.
//! 2. When enough replicas have each of them, the row is deleted.
//! 3. A row that stays, for its coordinator has failed or was too slow, is replayed by who has it: the mutations are
//!    sent again with the timestamps that they had, so that doing so twice changes nothing. It stays until all replicas
//!    have all of them.
//!
//! A mutation has its columns by number, so their names are kept with it: the table may have been altered meanwhile.
//! What is older than a day and the table's `gc_grace_seconds` is not replayed: deletions of it may be forgotten.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeIndex, Shortfall};
use cql::Consistency;
use cql::response::WriteType;
use reactor::{Group, time};
use storage::{Bytes, DeletionTime, Mutation, Partition, Row, ScanCommand, Stamp};
use types::{ColumnDef, TableDef, Token, collection, uuid};

use crate::error::{QueryError, write_shortfall};
use crate::node::Node;
use crate::replica::{self, verb};
use crate::schema::Schema;
use crate::system::values::int;
use crate::system::{self, BATCHES, Values};

/// Of the rows' mutations; what has another is of another release, and stays.
const FORMAT: i32 = 1;
/// How many other nodes write a batch down, as in Cassandra.
const COPIES: usize = 2;
/// How often rows are looked for that stay: Cassandra's `REPLAY_INTERVAL`.
const REPLAY_EVERY: Duration = Duration::from_secs(10);
/// Batches that are read at once.
const PAGE_ROWS: usize = 100;
/// However short the table's `gc_grace_seconds`, a batch is good for this long.
const DAY_S: u32 = 24 * 60 * 60;

/// A batch that is written down.
pub(crate) struct Logged {
    id: [u8; 16],
    on: Vec<NodeIndex>,
}

fn names(columns: &[ColumnDef]) -> Vec<u8> {
    collection::write_collection(columns.len(), columns.iter().map(|column| column.name.as_bytes()))
}

/// A mutation with the names of the columns that it has by number.
fn entry(table: &TableDef, mutation: &[u8]) -> Vec<u8> {
    let (statics, regulars) = (names(&table.statics), names(&table.regulars));
    collection::write_tuple([Some(statics.as_slice()), Some(regulars.as_slice()), Some(mutation)])
}

/// Gives columns the numbers that they have in `columns`; those that are gone go with their values.
fn renumber(row: &mut Row, names: &[Option<&[u8]>], columns: &[ColumnDef]) {
    let number = |old: u16| {
        let name = names.get(usize::from(old)).copied().flatten()?;
        columns.iter().position(|column| column.name.as_bytes() == name).map(|at| at as u16)
    };
    row.cells.retain_mut(|(column, _)| number(*column).map(|new| *column = new).is_some());
    row.cells.sort_by_key(|(column, _)| *column);
    let renumbered = row.complex.iter().filter_map(|old| {
        let mut column = old.clone();
        column.column = number(old.column)?;
        Some(column)
    });
    let mut complex: Vec<_> = renumbered.collect();
    complex.sort_by_key(|column| column.column);
    row.complex = complex.into_iter().collect();
}

/// The mutation of an [`entry`] with the columns as its table has them now, and the table; `None` when that is gone.
fn read_entry(bytes: &[u8], schema: &Schema) -> Result<Option<(Arc<TableDef>, Mutation)>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("a mutation of the batch log: {error}");
    let fields = collection::fields(bytes, 3).map_err(|error| failed(&error))?;
    let [Some(statics), Some(regulars), Some(mutation)] = fields[..] else {
        return Err(failed(&"parts of it are missing"));
    };
    let mut mutation = Mutation::decode(mutation).map_err(|error| failed(&error))?;
    let Some(table) = schema.table_by_id(mutation.table).cloned() else { return Ok(None) };
    if table.version != mutation.schema_version {
        let names = |list| collection::elements(list).map_err(|error| failed(&error));
        let (statics, regulars) = (names(statics)?, names(regulars)?);
        let partition = &mut mutation.partition;
        partition.static_row.iter_mut().for_each(|row| renumber(row, &statics, &table.statics));
        partition.rows.iter_mut().for_each(|row| renumber(row, &regulars, &table.regulars));
        mutation.schema_version = table.version;
    }
    Ok(Some((table, mutation)))
}

impl Node {
    /// Writes a batch down. Nothing of it may be sent before.
    pub(crate) async fn log_batch<'m>(
        self: &Rc<Self>,
        mutations: impl Iterator<Item = (&'m TableDef, &'m [u8])>,
    ) -> Result<Logged, QueryError> {
        self.trace(|| "Writing the batch to the batch log".to_string());
        let now_us = reactor::wall_us() as i64;
        let logged = Logged { id: uuid::from_time(now_us, 0, reactor::random()), on: self.log_keepers() };
        let entries: Vec<Vec<u8>> = mutations.map(|(table, mutation)| entry(table, mutation)).collect();
        let values: Values = [
            ("id", logged.id.to_vec()),
            ("mutations", collection::write_collection(entries.len(), entries.iter().map(Vec::as_slice))),
            ("version", int(FORMAT)),
        ]
        .into();
        let table = self.table("system", BATCHES)?;
        let stamp = Stamp { timestamp: self.next_timestamp(), ttl_s: 0, now_s: (now_us / 1_000_000) as u32 };
        for partition in system::stamped_partitions(&table, vec![values], &stamp) {
            self.tell_keepers(&logged, &table, partition).await?;
        }
        Ok(logged)
    }

    /// Deletes a batch that has happened, in the background: doing it again would change nothing.
    pub(crate) fn forget_batch(self: &Rc<Self>, logged: Logged) {
        let node = self.clone();
        drop(reactor::spawn(Group::Statement, "batch-log", async move {
            if let Err(error) = node.delete_batch(&logged).await {
                tracing::debug!(error = error.message, "a batch stays in the batch log, to be replayed");
            }
        }));
    }

    async fn delete_batch(self: &Rc<Self>, logged: &Logged) -> Result<(), QueryError> {
        let table = self.table("system", BATCHES)?;
        let mut partition = Partition::new(logged.id.to_vec());
        let local_s = reactor::wall_s();
        partition.deletion = Some(DeletionTime { timestamp: self.next_timestamp(), local_s });
        self.tell_keepers(logged, &table, partition).await
    }

    /// Who writes a batch down.
    fn log_keepers(&self) -> Vec<NodeIndex> {
        let topology = self.topology();
        let local = topology.local();
        let peers = topology.normal().filter(|peer| peer.index != local.index && peer.dc == local.dc);
        let mut peers: Vec<NodeIndex> = peers.map(|peer| peer.index).filter(|&peer| self.is_alive(peer)).collect();
        if peers.is_empty() {
            return vec![self.me()];
        }
        let first = reactor::random() as usize % peers.len();
        peers.rotate_left(first);
        peers.truncate(COPIES);
        peers
    }

    /// Enough when one of them has it.
    async fn tell_keepers(
        self: &Rc<Self>,
        logged: &Logged,
        table: &TableDef,
        partition: Partition,
    ) -> Result<(), QueryError> {
        let token = Token::of_key(&partition.key);
        let bytes = Mutation::bytes(table, partition);
        let failed = |failures: usize, timed_out: bool, cause: &str| {
            let failures = failures as u32;
            let shortfall = Shortfall { received: 0, required: 1, failures, data_present: false, timed_out };
            write_shortfall(shortfall, Consistency::One, WriteType::BatchLog, cause)
        };
        let Some(messenger) = self.messenger().filter(|_| logged.on != [self.me()]) else {
            return replica::apply_plain(self, token, bytes).await.map_err(|cause| failed(1, false, &cause));
        };
        let payload = replica::encode_mutate(token, &bytes);
        let ask = |&node: &NodeIndex| messenger.call(node, verb::MUTATE, &payload, self.config.timeouts.write);
        let calls: Vec<_> = logged.on.iter().map(ask).collect();
        let (mut stored, mut cause) = (0, String::new());
        for call in calls {
            match call.await {
                Ok(_) => stored += 1,
                Err(error) => cause = error.to_string(),
            }
        }
        if stored > 0 { Ok(()) } else { Err(failed(0, true, &cause)) }
    }
}

/// Whether this shard has a batch that its coordinator has not deleted, or may have.
fn has_batches(node: &Node) -> bool {
    let Ok(table) = node.table("system", BATCHES) else { return false };
    let stats = node.storage.stats();
    stats.tables.get(&table.id).is_some_and(|table| table.memtable_partitions > 0 || table.sstables > 0)
}

/// Replays what this shard has: at the start whatever is there, later what its coordinator must have given up.
pub(crate) fn start(node: &Rc<Node>) {
    let is_alone = node.topology().peers().next().is_none();
    if is_alone && !has_batches(node) {
        return;
    }
    // With others, they have to be heard of first.
    let first = if is_alone { Duration::ZERO } else { REPLAY_EVERY };
    replay_from(node, first, if is_alone { Duration::ZERO } else { 2 * node.config.timeouts.write });
}

/// A batch on this node may have stayed.
pub(crate) fn replay_later(node: &Rc<Node>) {
    // With others, the shard looks anyway.
    if node.topology().peers().next().is_none() {
        for shard in 0..node.shards {
            drop(reactor::submit_to_with(shard, Group::Maintenance, "batch-log", move || async move {
                if let Some(node) = reactor::local::<Node>() {
                    replay_from(&node, REPLAY_EVERY, 2 * node.config.timeouts.write);
                }
            }));
        }
    }
}

/// One task a shard; ends when nothing is left, unless there are other nodes whose batches may come.
fn replay_from(node: &Rc<Node>, first: Duration, min_age: Duration) {
    if node.replays_batches.replace(true) {
        return;
    }
    let node = Rc::downgrade(node);
    drop(reactor::spawn(Group::Maintenance, "batch-log-replay", async move {
        let mut wait = first;
        loop {
            if !wait.is_zero() {
                time::sleep(wait).await;
            }
            // At the start another shard may not be there yet.
            wait = (4 * wait + Duration::from_millis(50)).min(REPLAY_EVERY);
            let Some(node) = node.upgrade() else { return };
            let left = match has_batches(&node) {
                true => replay(&node, min_age).await.unwrap_or_else(|cause| {
                    tracing::warn!(%cause, "the batch log could not be read; it is tried again");
                    true
                }),
                false => false,
            };
            if !left && node.topology().peers().next().is_none() {
                node.replays_batches.set(false);
                return;
            }
        }
    }));
}

/// Whether any batch is left for another time.
async fn replay(node: &Rc<Node>, min_age: Duration) -> Result<bool, String> {
    let table = node.table("system", BATCHES).map_err(|error| error.message)?;
    let place = |name: &str| table.regular_index(name).map(|at| at as u16);
    let (Some(mutations), Some(version)) = (place("mutations"), place("version")) else {
        return Err("system.batches has other columns".to_string());
    };
    let (mut after, mut left): (Option<(Bytes, _)>, bool) = (None, false);
    loop {
        let now_us = reactor::wall_us() as i64;
        let now_s = (now_us / 1_000_000) as u32;
        let command = ScanCommand { after: after.take(), limit_rows: PAGE_ROWS, ..ScanCommand::all(table.id, now_s) };
        let (partitions, more) = node.storage.scan(command).await.map_err(|error| error.to_string())?;
        let last = partitions.last().map(|last| (last.key.clone(), None));
        for partition in &partitions {
            let Ok(id) = <[u8; 16]>::try_from(&*partition.key) else { continue };
            let Some(row) = partition.live_rows(now_s).next() else { continue };
            let value = |column| row.cell(column).and_then(|cell| cell.value.as_deref());
            let age_us = now_us.saturating_sub(uuid::unix_us(&id));
            let is_ours = value(version) == Some(FORMAT.to_be_bytes().as_slice());
            let entries = value(mutations).filter(|_| is_ours && age_us >= min_age.as_micros() as i64);
            let replayed = match entries {
                Some(entries) => replay_batch(node, entries, age_us / 1_000_000).await,
                None => Ok(false),
            };
            match replayed {
                Ok(true) => {
                    tracing::info!(batch = uuid::to_text(&id), "a batch was replayed from the batch log");
                    let logged = Logged { id, on: vec![node.me()] };
                    node.delete_batch(&logged).await.map_err(|error| error.message)?;
                }
                Ok(false) => left = true,
                Err(cause) => {
                    tracing::warn!(%cause, batch = uuid::to_text(&id), "a batch could not be replayed yet");
                    left = true;
                }
            }
        }
        match last {
            Some(last) if more => after = Some(last),
            _ => return Ok(left),
        }
    }
}

/// Sends all mutations again; `Ok(true)` when every replica has every one.
async fn replay_batch(node: &Rc<Node>, entries: &[u8], age_s: i64) -> Result<bool, String> {
    let entries = collection::elements(entries).map_err(|error| error.to_string())?;
    for entry in entries.into_iter().flatten() {
        let Some((table, mutation)) = read_entry(entry, &node.schema())? else { continue };
        if mutation.partition.is_empty() || age_s > i64::from(table.options.gc_grace_seconds.max(DAY_S)) {
            continue;
        }
        let token = Token::of_key(&mutation.partition.key);
        let mut bytes = Vec::with_capacity(512);
        mutation.encode(&mut bytes);
        let (level, kind) = (Consistency::All, WriteType::UnloggedBatch);
        node.write(&table.keyspace, token, bytes, level, kind, None).await.map_err(|error| error.message)?;
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use storage::{Cell, Clustering};
    use types::CqlType;

    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let column = |name: &str| ColumnDef {
            name: name.to_string(),
            ty: CqlType::Int,
            kind: types::ColumnKind::Regular,
            descending: false,
        };
        let mut row = Row::new(Clustering::empty());
        row.cells = vec![(0, Cell::live(1, b"x".to_vec())), (1, Cell::live(1, b"y".to_vec()))];
        for at in [0, 2] {
            row.complex.get_or_insert(at).cells.push((b"e".to_vec().into(), Cell::live(1, Vec::new())));
        }
        // `a` has come before the others, `y` is gone.
        let old: [Option<&[u8]>; 3] = [Some(b"x"), Some(b"y"), Some(b"b")];
        renumber(&mut row, &old, &[column("a"), column("b"), column("x")]);
        assert_eq!(row.cells, [(2, Cell::live(1, b"x".to_vec()))]);
        assert_eq!(row.complex.iter().map(|column| column.column).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn an_entry_of_a_table_that_is_gone_is_nothing() {
        let table = TableDef::builder("ks", "t").partition_key("p", CqlType::Int).regular("v", CqlType::Int).build();
        let mutation = Mutation { table: table.id, schema_version: 1, partition: Partition::new(b"key".to_vec()) };
        let mut bytes = Vec::new();
        mutation.encode(&mut bytes);
        assert_eq!(read_entry(&entry(&table, &bytes), &Schema::default()), Ok(None));
        assert!(read_entry(b"nonsense", &Schema::default()).is_err());
    }
}
