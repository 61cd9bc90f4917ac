//! The replica's side: work on this node's own data, for its own coordinators and for those of other nodes.
//!
//! A partition belongs to one shard of the node; work that arrives on another is sent there.

mod codec;
mod count;
mod handler;
pub(crate) mod paxos;

use std::collections::BTreeMap;
use std::rc::Rc;

use storage::{Mutation, Partition, ReadCommand, ScanCommand};
use types::{TableId, Token};

use crate::node::Node;

pub(crate) use codec::{
    Reader, decode_answer, decode_scan, decode_scanned, decode_version, encode_count, encode_mutate, encode_read,
    encode_scan, encode_scanned,
};
pub(crate) use count::{CounterTurns, count};
pub use handler::ReplicaHandler;

/// What nodes ask each other.
pub(crate) mod verb {
    use cluster::Verb;

    pub const MUTATE: Verb = Verb(1);
    pub const READ: Verb = Verb(2);
    pub const SCAN: Verb = Verb(3);
    pub const TRUNCATE: Verb = Verb(4);
    /// A counter update, to the replica that leads it.
    pub const COUNT: Verb = Verb(5);
    pub const PAXOS: Verb = Verb(6);
    // From 0x40 on they have a connection that statements do not wait for.
    /// Partitions of one shard, for a node that joins.
    pub const STREAM: Verb = Verb(0x40);
    /// How many shards the node has.
    pub const SHARDS: Verb = Verb(0x41);
    // From 0x80 on they go over the control connection, past any queue of statements.
    pub const SCHEMA_PUSH: Verb = Verb(0x80);
    pub const SCHEMA_PULL: Verb = Verb(0x81);
    /// A node wants to join; to the node that keeps the list.
    pub const ADMIT: Verb = Verb(0x82);
    /// The next state of a node that joins; to the node that keeps the list.
    pub const ADVANCE: Verb = Verb(0x83);
}

pub(crate) const STARTING: &str = "the shard is still starting";

/// Applies an encoded mutation on the shard that owns `token`, and tells the table's views.
pub(crate) async fn apply(node: &Rc<Node>, token: Token, mutation: Vec<u8>) -> Result<(), String> {
    let owner = node.owner_shard(token);
    if owner == node.shard {
        return apply_here(node, &mutation).await;
    }
    reactor::submit_to(owner, "apply", move || async move {
        let node = reactor::local::<Node>().ok_or(STARTING)?;
        apply_here(&node, &mutation).await
    })
    .await
}

async fn apply_here(node: &Rc<Node>, mutation: &[u8]) -> Result<(), String> {
    if let Ok((table, key)) = Mutation::peek(mutation) {
        node.journal.sampling.wrote(table, key);
        if let Some(viewed) = node.viewed(table) {
            // Who is not read has not all that was there before, or leaves; the others tell the views.
            let is_read = node.replicas(&viewed.base.keyspace, Token::of_key(key));
            if is_read.is_ok_and(|replicas| replicas.contains(node.me())) {
                return Box::pin(crate::view::apply(node, &viewed, mutation)).await;
            }
        }
    }
    node.storage.apply(mutation).await.map_err(|error| error.to_string())
}

/// [`apply`] for a table that has no views: a view itself.
pub(crate) async fn apply_plain(node: &Rc<Node>, token: Token, mutation: Vec<u8>) -> Result<(), String> {
    let owner = node.owner_shard(token);
    if owner == node.shard {
        return node.storage.apply(&mutation).await.map_err(|error| error.to_string());
    }
    reactor::submit_to(owner, "apply-view", move || async move {
        let node = reactor::local::<Node>().ok_or(STARTING)?;
        node.storage.apply(&mutation).await.map_err(|error| error.to_string())
    })
    .await
}

/// An answer has columns by number, so it is only for who has the same version of the table.
fn check_version(node: &Node, table: TableId, version: u64) -> Result<(), String> {
    let have = node.storage.schema_version(table).map_err(|error| error.to_string())?;
    if have == version {
        return Ok(());
    }
    Err(format!("a read with schema version {version} of table {table}, which has version {have}"))
}

async fn read_here(node: &Node, version: u64, command: ReadCommand) -> Result<Option<Partition>, String> {
    check_version(node, command.table, version)?;
    node.journal.sampling.read(command.table, &command.key);
    node.storage.read(command).await.map_err(|error| error.to_string())
}

pub(crate) async fn scan_here(
    node: &Node,
    version: u64,
    command: ScanCommand,
) -> Result<(Vec<Partition>, bool), String> {
    check_version(node, command.table, version)?;
    node.storage.scan(command).await.map_err(|error| error.to_string())
}

/// Reads on the shard that owns `token`; `version` is the table's that the statement was planned with.
pub(crate) async fn read(
    node: &Rc<Node>,
    token: Token,
    version: u64,
    command: ReadCommand,
) -> Result<Option<Partition>, String> {
    let owner = node.owner_shard(token);
    if owner == node.shard {
        return read_here(node, version, command).await;
    }
    reactor::submit_to(owner, "read", move || async move {
        let node = reactor::local::<Node>().ok_or(STARTING)?;
        read_here(&node, version, command).await
    })
    .await
}

/// Scans this node's part of a token range. The shard that has its beginning is asked first, where its tokens in a row are
/// likely to have all rows that are wanted; then every shard gives its first rows, merged in token order.
pub(crate) async fn scan(
    node: &Rc<Node>,
    version: u64,
    mut command: ScanCommand,
) -> Result<(Vec<Partition>, bool), String> {
    if node.shards == 1 {
        return scan_here(node, version, command).await;
    }
    let mut taken: Vec<Partition> = Vec::new();
    if let Some((shard, last)) = first_run(node, &command) {
        let rest = command.tokens.1;
        command.tokens.1 = last;
        let (partitions, more) = scan_on(shard, version, command.clone()).await?;
        if more || last == rest || last == Token::MAX {
            return Ok((partitions, more));
        }
        (command.tokens, command.after) = ((last, rest), None);
        let rows: usize = partitions.iter().map(|partition| partition.rows.len().max(1)).sum();
        command.limit_rows = command.limit_rows.saturating_sub(rows).max(1);
        taken = partitions;
    }
    let limit = command.limit_rows;
    let parts: Vec<_> = (0..node.shards).map(|shard| scan_on(shard, version, command.clone())).collect();
    let mut merged: BTreeMap<(Token, Vec<u8>), Partition> = BTreeMap::new();
    let mut cut: Option<(Token, Vec<u8>)> = None;
    for part in parts {
        let (partitions, more): (Vec<Partition>, bool) = part.await?;
        if more && let Some(last) = partitions.last() {
            let last = (Token::of_key(&last.key), last.key.to_vec());
            cut = Some(cut.map_or(last.clone(), |cut| cut.min(last)));
        }
        merged.extend(partitions.into_iter().map(|p| ((Token::of_key(&p.key), p.key.to_vec()), p)));
    }
    // Behind the earliest cut a shard's rows are incomplete.
    let mut more = cut.is_some();
    let mut rows = 0;
    for (at, partition) in merged {
        if cut.as_ref().is_some_and(|cut| at > *cut) || rows >= limit {
            more = true;
            break;
        }
        rows += partition.rows.len().max(1);
        taken.push(partition);
    }
    Ok((taken, more))
}

fn scan_on(
    shard: usize,
    version: u64,
    command: ScanCommand,
) -> impl Future<Output = Result<(Vec<Partition>, bool), String>> {
    reactor::submit_to(shard, "scan", move || async move {
        let node = reactor::local::<Node>().ok_or(STARTING)?;
        scan_here(&node, version, command).await
    })
}

/// Whose the first tokens of a scan are, and the last of these in a row. `None` where these have too little, by what this
/// shard has of the table, and for ranges that wrap around the ring.
fn first_run(node: &Node, command: &ScanCommand) -> Option<(usize, Token)> {
    let (start, end) = command.tokens;
    let end = if end == Token::MIN { Token::MAX } else { end };
    if start >= end {
        return None;
    }
    let first = match &command.after {
        Some((key, _)) => Token::of_key(key),
        None if start == Token::MIN => start,
        None => Token(start.0 + 1),
    };
    let last = types::last_of_run(first, node.shards as u32, node.config.ignore_msb).min(end);
    let of_ring = (last.0.wrapping_sub(first.0) as u64) as f64 / u64::MAX as f64;
    let expected = node.storage.partitions(command.table).ok()? as f64 * node.shards as f64 * of_ring;
    (expected >= command.limit_rows as f64 || last == end).then(|| (node.owner_shard(first), last))
}

/// Truncates the table on every shard of this node.
pub(crate) async fn truncate(node: &Rc<Node>, table: TableId) -> Result<(), String> {
    let elsewhere: Vec<_> = (0..node.shards)
        .filter(|&shard| shard != node.shard)
        .map(|shard| {
            reactor::submit_to(shard, "truncate", move || async move {
                let node = reactor::local::<Node>().ok_or(STARTING)?;
                node.storage.truncate(table).await.map_err(|error| error.to_string())
            })
        })
        .collect();
    node.storage.truncate(table).await.map_err(|error| error.to_string())?;
    for shard in elsewhere {
        shard.await?;
    }
    Ok(())
}
