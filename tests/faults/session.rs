//! What one session does: writes and reads of shared registers, entries of a ledger of its own that are written once,
//! and at the end the reading of everything through every node.
//!
//! Every value is written once in a world, and carries bytes that follow from it: a value put together from pieces of
//! two is known for what it is.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cql::Response;
use cql::values::ValuesBuffer;
use reactor::time::sleep;
use sim::Generator;
use sim::history::{Action, History, Outcome};

use super::client::{Link, Trouble};

pub const SCHEMA: [&str; 3] = [
    "CREATE KEYSPACE faults WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
    "CREATE TABLE faults.registers (key bigint PRIMARY KEY, value blob)",
    "CREATE TABLE faults.ledger (session bigint, entry bigint, value blob, PRIMARY KEY (session, entry))",
];
const STATEMENTS: [&str; 4] = [
    "INSERT INTO faults.registers (key, value) VALUES (?, ?)",
    "SELECT value FROM faults.registers WHERE key = ?",
    "INSERT INTO faults.ledger (session, entry, value) VALUES (?, ?, ?)",
    "SELECT value FROM faults.ledger WHERE session = ? AND entry = ?",
];
/// The keys of ledgers begin here: session and entry are parts of the key.
const LEDGER: u64 = 1 << 48;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub registers: u64,
    pub sessions: u32,
    /// Pauses between a session's calls are up to this long.
    pub think_ns: u64,
    pub until_ns: u64,
    /// Everything is read once more from here on; a read that fails is repeated until `patience_until_ns`.
    pub verify_ns: u64,
    pub patience_until_ns: u64,
}

pub struct Session {
    pub number: u32,
    pub load: Load,
    pub nodes: Vec<SocketAddr>,
    pub random: Generator,
    pub history: Rc<RefCell<History>>,
    links: Vec<Option<Link>>,
    /// Ledger entries begun, and values given so far.
    entries: u64,
    values: u64,
}

/// The bytes of a value: itself, and up to 300 more that follow from it.
fn bytes_of(value: u64) -> Vec<u8> {
    let mut filler = Generator::new(value);
    let len = filler.below(300);
    let mut bytes = value.to_be_bytes().to_vec();
    bytes.extend((0..len).map(|_| filler.next_u64() as u8));
    bytes
}

/// Values that nobody writes: for bytes that belong to no value, for a row without its value, and for two rows of one
/// key.
const DAMAGED: u64 = u64::MAX;
const NULL: u64 = u64::MAX - 1;
const TWICE: u64 = u64::MAX - 2;

fn value_of(bytes: &[u8]) -> u64 {
    let value = bytes.first_chunk().map(|first| u64::from_be_bytes(*first));
    value.filter(|value| bytes_of(*value) == bytes).unwrap_or(DAMAGED)
}

impl Session {
    pub fn new(
        number: u32,
        load: Load,
        nodes: Vec<SocketAddr>,
        random: Generator,
        history: Rc<RefCell<History>>,
    ) -> Self {
        let links = nodes.iter().map(|_| None).collect();
        Self { number, load, nodes, random, history, links, entries: 0, values: 0 }
    }

    /// Writes and reads until the load's end, each call at a node drawn anew now and then.
    pub async fn run(&mut self) {
        let mut node = self.random.below(self.nodes.len() as u64) as usize;
        while reactor::now() < self.load.until_ns {
            sleep(Duration::from_nanos(self.random.below(self.load.think_ns))).await;
            if self.random.chance(1, 8) {
                node = self.random.below(self.nodes.len() as u64) as usize;
            }
            let register = self.random.below(self.load.registers);
            let done = match self.random.below(10) {
                0..4 => self.write(node, register).await,
                4..7 => self.read(node, register).await,
                7..9 => {
                    self.entries += 1;
                    self.write(node, self.ledger_key(self.entries - 1)).await
                }
                _ if self.entries > 0 => {
                    let entry = self.random.below(self.entries);
                    self.read(node, self.ledger_key(entry)).await
                }
                _ => true,
            };
            if !done {
                // Another node may fare better.
                node = self.random.below(self.nodes.len() as u64) as usize;
            }
        }
    }

    /// Reads the session's share of the registers and all of its ledger, through every node. Gives what could not be
    /// read.
    pub async fn verify(&mut self) -> Result<(), String> {
        sleep(Duration::from_nanos(self.load.verify_ns.saturating_sub(reactor::now()))).await;
        let share =
            (0..self.load.registers).filter(|key| key % u64::from(self.load.sessions) == u64::from(self.number));
        let keys: Vec<u64> = share.chain((0..self.entries).map(|entry| self.ledger_key(entry))).collect();
        for node in 0..self.nodes.len() {
            for &key in &keys {
                while !self.read(node, key).await {
                    if reactor::now() > self.load.patience_until_ns {
                        return Err(format!("key {key:x} cannot be read through {}", self.nodes[node]));
                    }
                    sleep(Duration::from_millis(100)).await;
                }
            }
        }
        Ok(())
    }

    fn ledger_key(&self, entry: u64) -> u64 {
        LEDGER | u64::from(self.number) << 32 | entry
    }

    async fn write(&mut self, node: usize, key: u64) -> bool {
        self.values += 1;
        let value = u64::from(self.number + 1) << 32 | self.values;
        let mut values = key_values(key);
        values.push_bytes(&bytes_of(value));
        let statement = if key < LEDGER { 0 } else { 2 };
        self.call(node, key, Action::Write { value }, statement, &values, |_| Outcome::Written).await
    }

    async fn read(&mut self, node: usize, key: u64) -> bool {
        let statement = if key < LEDGER { 1 } else { 3 };
        self.call(node, key, Action::Read, statement, &key_values(key), |response| {
            let Response::Rows(rows) = response else { panic!("SELECT is answered by {response:?}") };
            let mut rows = rows.iter().map(|row| row.expect("the row decodes").cell(0).map(value_of));
            let value = rows.next().map(|value| value.unwrap_or(NULL));
            Outcome::Read(if rows.next().is_none() { value } else { Some(TWICE) })
        })
        .await
    }

    async fn call(
        &mut self,
        node: usize,
        key: u64,
        action: Action,
        statement: usize,
        values: &ValuesBuffer,
        read: impl FnOnce(&Response<'_>) -> Outcome,
    ) -> bool {
        if self.links[node].as_ref().is_none_or(Link::is_spoilt) {
            // What is not sent is no call: a node that cannot be reached has no part in the history.
            match Link::open(self.nodes[node], &STATEMENTS).await {
                Ok(link) => self.links[node] = Some(link),
                Err(_) => {
                    self.links[node] = None;
                    return false;
                }
            }
        }
        let Some(link) = &mut self.links[node] else { return false };
        let call = self.history.borrow_mut().begin(self.number, key, action, reactor::now());
        let outcome = match link.execute(statement, values, read).await {
            Ok(outcome) => outcome,
            Err(trouble) if trouble.is_refusal() => Outcome::Refused(trouble.to_string()),
            Err(Trouble::Answered(error)) => Outcome::Failed(error.to_string()),
            Err(Trouble::Lost(cause)) => Outcome::Unanswered(cause),
        };
        let done = matches!(outcome, Outcome::Written | Outcome::Read(_));
        self.history.borrow_mut().end(call, outcome, reactor::now());
        done
    }
}

fn key_values(key: u64) -> ValuesBuffer {
    let mut values = ValuesBuffer::default();
    if key < LEDGER {
        values.push_bytes(&key.to_be_bytes());
    } else {
        let (session, entry) = ((key & !LEDGER) >> 32, key & 0xFFFF_FFFF);
        values.push_bytes(&session.to_be_bytes()).push_bytes(&entry.to_be_bytes());
    }
    values
}
