//! The data of ranges that a node takes over.
//!
//! Shards divide the work by the shards of those that have the data: each asks shard after shard of theirs for what that
//! has of the ranges, in pages, a few at a time, and applies what comes on its own shard as a rule, for where two nodes
//! have as many shards the same one owns a token. What comes has all timestamps, TTLs and deletions, and is in no commit
//! log: the caller flushes.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{NodeIndex, TokenRange, takeovers};
use reactor::sync::Semaphore;
use reactor::{Group, time};
use storage::{Bytes, Clustering, Mutation, Partition, ScanCommand};
use types::{TableDef, Token};

use crate::node::Node;
use crate::replica::{self, Reader, verb};
use crate::system;

/// Of one page, about: a few are in memory on each shard at both ends.
const PAGE_BYTES: usize = 1 << 20;
/// Rows of one page. A large partition is read no further than these.
const PAGE_ROWS: usize = 4096;
/// Pages on their way to one shard.
const IN_FLIGHT: usize = 4;
/// Ranges that one question names: most are small.
const RANGES: usize = 64;
/// A page is read within milliseconds; a donor at its limits may take longer.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// How often the same is asked of a node before another has to do.
const ATTEMPTS: u32 = 3;
const AGAIN: Duration = Duration::from_millis(500);

type Range = (Token, Token);
type Position = (Bytes, Option<Clustering>);

/// Ranges of one keyspace that have the same replicas.
#[derive(Clone, Debug)]
struct Part {
    keyspace: String,
    leaver: Option<NodeIndex>,
    stayers: Vec<NodeIndex>,
    ranges: Vec<Range>,
}

/// What has to be fetched. In an order that is the same on every run.
fn parts(node: &Node) -> Vec<Part> {
    let mut parts = Vec::new();
    for (keyspace, _) in node.schema().replications() {
        let Ok(map) = node.replication(keyspace) else { continue };
        let mut by_replicas: BTreeMap<(Option<NodeIndex>, Vec<NodeIndex>), Vec<Range>> = BTreeMap::new();
        for takeover in takeovers(&map, node.me()) {
            let replicas = (takeover.leaver, takeover.stayers.nodes().to_vec());
            let TokenRange { start, end } = takeover.range;
            by_replicas.entry(replicas).or_default().push((start, end));
        }
        parts.extend(by_replicas.into_iter().map(|((leaver, stayers), ranges)| {
            let keyspace = keyspace.to_string();
            Part { keyspace, leaver, stayers, ranges }
        }));
    }
    parts
}

fn tables(node: &Node, keyspace: &str) -> Vec<Arc<TableDef>> {
    if system::is_system(keyspace) {
        let of_system = node.keyspace(keyspace);
        return of_system.into_iter().flat_map(|def| def.tables.values().cloned().collect::<Vec<_>>()).collect();
    }
    node.schema().tables().filter(|table| table.keyspace == keyspace).cloned().collect()
}

/// Fetches everything that the node takes over, with all shards.
pub(super) async fn fetch_all(node: &Rc<Node>) -> Result<(), String> {
    let parts: Arc<[Part]> = parts(node).into();
    let shards = shards_of_donors(node, &parts).await?;
    let ranges: usize = parts.iter().map(|part| part.ranges.len()).sum();
    tracing::info!(ranges, nodes = shards.len(), "this node fetches the data that it is to have");
    let fetch = move |node: Rc<Node>| {
        let (parts, shards) = (parts.clone(), shards.clone());
        async move { fetch_here(&node, &parts, &shards).await }
    };
    let fetched = node.on_every_shard("join-fetch", fetch).await.map_err(|error| error.to_string())?;
    let pages = fetched.into_iter().collect::<Result<Vec<u64>, String>>()?;
    tracing::info!(pages = pages.iter().sum::<u64>(), "this node has the data that it is to have");
    Ok(())
}

/// How many shards the nodes have that may be asked; those that do not say are left out.
async fn shards_of_donors(node: &Rc<Node>, parts: &[Part]) -> Result<BTreeMap<NodeIndex, usize>, String> {
    let messenger = node.messenger().ok_or("there are no connections to other nodes")?;
    let mut shards = BTreeMap::new();
    let donors = parts.iter().flat_map(|part| part.leaver.into_iter().chain(part.stayers.iter().copied()));
    for donor in donors {
        if shards.contains_key(&donor) {
            continue;
        }
        for attempt in 1..=ATTEMPTS {
            match messenger.call(donor, verb::SHARDS, &[], PAGE_TIMEOUT).await {
                Ok(answer) => {
                    let count = answer[..].try_into().map(u16::from_be_bytes).map_err(|_| "a malformed answer")?;
                    shards.insert(donor, usize::from(count));
                    break;
                }
                Err(_) if attempt < ATTEMPTS => time::sleep(AGAIN).await,
                Err(error) => {
                    tracing::warn!(address = %node.topology().node(donor).address, %error, "a node cannot be asked for data");
                }
            }
        }
    }
    Ok(shards)
}

/// This shard's share. Gives how many pages came.
async fn fetch_here(node: &Rc<Node>, parts: &[Part], shards: &BTreeMap<NodeIndex, usize>) -> Result<u64, String> {
    let room = Semaphore::new(IN_FLIGHT);
    let mut tasks = Vec::new();
    for part in parts {
        for table in tables(node, &part.keyspace) {
            let permit = room.acquire(1).await;
            let (node, part, shards) = (node.clone(), part.clone(), shards.clone());
            tasks.push(reactor::spawn(Group::Streaming, "join-fetch", async move {
                let _permit = permit;
                fetch_part(&node, &part, &table, &shards).await
            }));
        }
    }
    let mut pages = 0;
    for task in tasks {
        pages += task.await?;
    }
    Ok(pages)
}

/// This shard's share of a table's part: from the replica that leaves, or else from all that stay.
async fn fetch_part(
    node: &Rc<Node>,
    part: &Part,
    table: &Arc<TableDef>,
    shards: &BTreeMap<NodeIndex, usize>,
) -> Result<u64, String> {
    let mine = |shard: &usize| shard % node.shards == node.shard;
    let of = |donor: NodeIndex| shards.get(&donor).map_or(0..0, |count| 0..*count);
    let failed = |donor: NodeIndex, cause: &str| format!("{}: {cause}", node.topology().node(donor).address);
    let mut causes = Vec::new();
    if let Some(leaver) = part.leaver {
        match fetch_shards(node, leaver, of(leaver).filter(mine), table, &part.ranges).await {
            Ok(pages) if shards.contains_key(&leaver) => return Ok(pages),
            Ok(_) => causes.push(failed(leaver, "it cannot be reached")),
            Err(cause) => causes.push(failed(leaver, &cause)),
        }
        // Of those that stay a quorum has what was acknowledged: any of them may miss some of it. Other shards may not
        // have to do this, so that it is done whole.
        let mut pages = 0;
        for &stayer in &part.stayers {
            if !shards.contains_key(&stayer) {
                causes.push(failed(stayer, "it cannot be reached"));
                return Err(causes.join("; "));
            }
            match fetch_shards(node, stayer, of(stayer), table, &part.ranges).await {
                Ok(more) => pages += more,
                Err(cause) => {
                    causes.push(failed(stayer, &cause));
                    return Err(causes.join("; "));
                }
            }
        }
        return if part.stayers.is_empty() { Err(causes.join("; ")) } else { Ok(pages) };
    }
    // A replica more than there were nodes for: any that stays will do.
    for (number, &stayer) in part.stayers.iter().enumerate().filter(|(_, stayer)| shards.contains_key(stayer)) {
        let share = of(stayer).filter(|shard| number > 0 || mine(shard));
        match fetch_shards(node, stayer, share, table, &part.ranges).await {
            Ok(pages) => return Ok(pages),
            Err(cause) => causes.push(failed(stayer, &cause)),
        }
    }
    Err(causes.join("; "))
}

async fn fetch_shards(
    node: &Rc<Node>,
    donor: NodeIndex,
    of: impl Iterator<Item = usize>,
    table: &Arc<TableDef>,
    ranges: &[Range],
) -> Result<u64, String> {
    let mut pages = 0;
    for shard in of {
        for ranges in ranges.chunks(RANGES) {
            pages += fetch(node, donor, shard, table, ranges).await?;
        }
    }
    Ok(pages)
}

/// Fetches what a shard of `donor` has of some ranges, page after page.
async fn fetch(
    node: &Rc<Node>,
    donor: NodeIndex,
    shard: usize,
    table: &Arc<TableDef>,
    ranges: &[Range],
) -> Result<u64, String> {
    let messenger = node.messenger().ok_or("there are no connections to other nodes")?;
    let (mut ranges, mut after, mut pages) = (ranges, None, 0);
    while !ranges.is_empty() {
        let question = Question { shard, ranges: ranges.to_vec(), after: after.take() };
        let payload = question.encode(table);
        let mut attempt = 1;
        let page = loop {
            let answer = messenger.call(donor, verb::STREAM, &payload, PAGE_TIMEOUT).await;
            match answer.map_err(|error| error.to_string()).and_then(|answer| Page::decode(&answer)) {
                Ok(page) => break page,
                Err(_) if attempt < ATTEMPTS => time::sleep(AGAIN).await,
                Err(cause) => return Err(cause),
            }
            attempt += 1;
        };
        pages += 1;
        ranges = ranges.get(page.range..).ok_or("an answer about no range that was asked for")?;
        match page.last().filter(|_| page.more) {
            Some(last) => after = Some(last),
            None => ranges = &ranges[1..],
        }
        apply(node, table, page.partitions).await?;
    }
    Ok(pages)
}

/// On the shards that own the partitions.
async fn apply(node: &Rc<Node>, table: &Arc<TableDef>, partitions: Vec<Partition>) -> Result<(), String> {
    let mut by_shard: BTreeMap<usize, Vec<Vec<u8>>> = BTreeMap::new();
    for partition in partitions {
        let owner = node.owner_shard(Token::of_key(&partition.key));
        by_shard.entry(owner).or_default().push(Mutation::bytes(table, partition));
    }
    for (shard, mutations) in by_shard {
        if shard == node.shard {
            apply_here(node, &mutations).await?;
            continue;
        }
        reactor::submit_to_with(shard, Group::Streaming, "join-apply", move || async move {
            let node = reactor::local::<Node>().ok_or(replica::STARTING)?;
            apply_here(&node, &mutations).await
        })
        .await?;
    }
    Ok(())
}

async fn apply_here(node: &Rc<Node>, mutations: &[Vec<u8>]) -> Result<(), String> {
    for mutation in mutations {
        node.storage.apply_copied(mutation).await.map_err(|error| error.to_string())?;
        time::end_turn().await;
    }
    Ok(())
}

/// Answers a [`Question`], on any shard.
pub(crate) async fn answer(node: &Rc<Node>, payload: &[u8]) -> Result<Vec<u8>, String> {
    let (version, question, table) = Question::decode(payload)?;
    let shard = question.shard;
    if shard == node.shard {
        return Ok(read(node, version, question, table).await?.encode());
    }
    if shard >= node.shards {
        return Err(format!("this node has {} shards", node.shards));
    }
    reactor::submit_to_with(shard, Group::Streaming, "stream-read", move || async move {
        let node = reactor::local::<Node>().ok_or(replica::STARTING)?;
        Ok(read(&node, version, question, table).await?.encode())
    })
    .await
}

/// A page of what this shard has.
async fn read(node: &Node, version: u64, question: Question, table: types::TableId) -> Result<Page, String> {
    let mut page = Page::default();
    let (mut rows, mut bytes) = (PAGE_ROWS, PAGE_BYTES);
    let mut after = question.after;
    for (number, range) in question.ranges.into_iter().enumerate() {
        let command = ScanCommand {
            tokens: range,
            after: after.take(),
            limit_rows: rows,
            limit_bytes: bytes,
            limit_tombstones: usize::MAX,
            bypass_cache: true,
            ..ScanCommand::all(table, reactor::wall_s())
        };
        let (partitions, more) = replica::scan_here(node, version, command).await?;
        let taken: usize = partitions.iter().map(|partition| partition.rows.len()).sum();
        let size = partitions.iter().map(|partition| {
            let in_rows: usize = partition.rows.iter().chain(&partition.static_row).map(|row| row.memory_bytes()).sum();
            in_rows + size_of::<Partition>() + partition.key.len()
        });
        (rows, bytes) = (rows.saturating_sub(taken), bytes.saturating_sub(size.sum()));
        (page.range, page.more) = (number, more);
        page.partitions.extend(partitions);
        if more || rows == 0 || bytes == 0 {
            break;
        }
    }
    Ok(page)
}

/// Asks one shard of a node for ranges of a table, from a position in the first of them on.
#[derive(Clone, Debug, PartialEq)]
struct Question {
    shard: usize,
    ranges: Vec<Range>,
    after: Option<Position>,
}

impl Question {
    fn encode(&self, table: &TableDef) -> Vec<u8> {
        let mut out = Vec::with_capacity(128 + self.ranges.len() * 16);
        out.extend_from_slice(&(self.shard as u16).to_be_bytes());
        out.extend_from_slice(&(self.ranges.len() as u16).to_be_bytes());
        for (start, end) in &self.ranges {
            out.extend_from_slice(&start.0.to_be_bytes());
            out.extend_from_slice(&end.0.to_be_bytes());
        }
        // Table, version and position as scans have them.
        let command = ScanCommand { after: self.after.clone(), ..ScanCommand::all(table.id, 0) };
        out.extend(replica::encode_scan(table.version, &command));
        out
    }

    fn decode(bytes: &[u8]) -> Result<(u64, Self, types::TableId), String> {
        let mut reader = Reader(bytes);
        let shard = usize::from(u16::from_be_bytes(reader.array()?));
        let count = u16::from_be_bytes(reader.array()?);
        let mut token = || Ok::<_, String>(Token(i64::from_be_bytes(reader.array()?)));
        let ranges = (0..count).map(|_| Ok((token()?, token()?))).collect::<Result<Vec<_>, String>>()?;
        let (version, command) = replica::decode_version(reader.0)?;
        let command = replica::decode_scan(command)?;
        Ok((version, Self { shard, ranges, after: command.after }, command.table))
    }
}

/// What a shard has, up to somewhere in one of the ranges.
#[derive(Debug, Default)]
struct Page {
    /// By its place in the question; those before it are done.
    range: usize,
    /// Whether there may be more of that range behind the last partition.
    more: bool,
    partitions: Vec<Partition>,
}

impl Page {
    fn last(&self) -> Option<Position> {
        let last = self.partitions.last()?;
        Some((last.key.clone(), last.rows.last().map(|row| row.clustering.clone())))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = (self.range as u16).to_be_bytes().to_vec();
        out.extend(replica::encode_scanned(&self.partitions, self.more));
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let mut reader = Reader(bytes);
        let range = usize::from(u16::from_be_bytes(reader.array()?));
        let (partitions, more) = replica::decode_scanned(reader.0)?;
        Ok(Self { range, more, partitions })
    }
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use super::*;

    #[test]
    fn messages_come_back() {
        let table = TableDef::builder("ks", "t").partition_key("p", CqlType::Int).regular("v", CqlType::Int).build();
        for after in [None, Some((Bytes::from(b"key"), None))] {
            let question = Question { shard: 3, ranges: vec![(Token(1), Token(2)), (Token(9), Token(-9))], after };
            let decoded = Question::decode(&question.encode(&table)).unwrap();
            assert_eq!(decoded, (table.version, question, table.id));
        }
        let page = Page { range: 7, more: true, partitions: vec![Partition::new(b"a".to_vec())] };
        let decoded = Page::decode(&page.encode()).unwrap();
        assert_eq!((decoded.range, decoded.more, decoded.last()), (7, true, Some((Bytes::from(b"a"), None))));
        assert!(Page::decode(&[0]).is_err());
    }
}
