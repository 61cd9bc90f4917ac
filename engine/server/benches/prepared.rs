//! Prepared statements on cassandra-stress's default row, from the bytes of a frame to the bytes of its answer, the
//! network left out: `cargo bench -p orrery-server --bench prepared [-- TIMES]` prints CPU time each.
//!
//! `count prepared-read|prepared-write TIMES` does one thing so many times and prints nothing, for `cargo xtask
//! instructions`.

use std::cell::Cell;
use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::request::Parameters;
use cql::{Compression, Consistency, Direction, Opcode, Request, Response, Values, ValuesBuffer, Version, frame};
use query::{Client, Node};
use reactor::{Group, time};
use server::NodeConfig;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const KEYSPACE: &str =
    "CREATE KEYSPACE keyspace1 WITH replication = {'class': 'SimpleStrategy', 'replication_factor': '1'}";
const TABLE: &str = "CREATE TABLE keyspace1.standard1 \
                     (key blob PRIMARY KEY, \"C0\" blob, \"C1\" blob, \"C2\" blob, \"C3\" blob, \"C4\" blob)";
const WRITE: &str =
    "INSERT INTO keyspace1.standard1 (key, \"C0\", \"C1\", \"C2\", \"C3\", \"C4\") VALUES (?, ?, ?, ?, ?, ?)";
const READ: &str = "SELECT \"C0\", \"C1\", \"C2\", \"C3\", \"C4\" FROM keyspace1.standard1 WHERE key = ?";

/// Rows that are there and cached, whatever is done.
const ROWS: u64 = 8000;

fn key(n: u64) -> [u8; 10] {
    let mut key = [b'x'; 10];
    key[..8].copy_from_slice(&n.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    key
}

/// One client of the current shard's node.
struct Front {
    node: Rc<Node>,
    client: Rc<Client>,
    answer: Vec<u8>,
}

impl Front {
    /// Does what a session does with a frame.
    async fn serve(&mut self, bytes: &[u8]) -> Outcome<()> {
        let (header, body) = frame::decode(bytes, Direction::Request, bytes.len())?.ok_or("half a frame")?;
        let outcome = self.node.execute(&self.client, Request::decode(&header, body)?).await;
        let outcome = outcome.map_err(|error| error.message)?;
        self.answer.clear();
        let start = frame::begin_version(&mut self.answer, header.version, Opcode::Result, header.stream, 0);
        outcome.encode(&mut self.answer);
        frame::finish(&mut self.answer, start, Compression::None)?;
        Ok(())
    }

    async fn query(&mut self, query: &str) -> Outcome<()> {
        let parameters = Parameters::new(Consistency::One, Values::NONE);
        self.serve(&encoded(&Request::Query { query, parameters })?).await
    }

    async fn prepare(&mut self, query: &str) -> Outcome<Vec<u8>> {
        self.serve(&encoded(&Request::Prepare { query, keyspace: None })?).await?;
        let (header, body) = frame::decode(&self.answer, Direction::Response, self.answer.len())?.ok_or("no answer")?;
        match Response::decode(&header, body)? {
            Response::Prepared(prepared) => Ok(prepared.id.to_vec()),
            _ => Err("PREPARE was answered with something else".into()),
        }
    }
}

fn encoded(request: &Request<'_>) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    request.encode(&mut bytes, 0, Compression::None)?;
    Ok(bytes)
}

fn execute(id: &[u8], n: u64, cells: usize) -> Outcome<Vec<u8>> {
    let mut values = ValuesBuffer::default();
    values.push_bytes(&key(n));
    for _ in 0..cells {
        values.push_bytes(&[n as u8; 34]);
    }
    let parameters = Parameters { skip_metadata: true, ..Parameters::new(Consistency::One, values.values()) };
    encoded(&Request::Execute { id, parameters })
}

async fn boot(folder: &str) -> Outcome<Front> {
    let mut config = NodeConfig::single(IpAddr::V4(Ipv4Addr::LOCALHOST), folder);
    // Nobody connects: any port will do.
    config.nodes[0].native_port = 0;
    let (ready, failed) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(None)));
    drop(reactor::spawn(Group::Maintenance, "node", {
        let (ready, failed) = (ready.clone(), failed.clone());
        async move { failed.set(server::run_shard(Arc::new(config), || ready.set(true)).await.err()) }
    }));
    while !ready.get() {
        if let Some(error) = failed.take() {
            return Err(error.to_string().into());
        }
        time::sleep(Duration::from_millis(1)).await;
    }
    let node = reactor::local::<Node>().ok_or("a shard without a node")?;
    let client = Client::new();
    client.set_version(Version::V4);
    Ok(Front { node, client, answer: Vec::new() })
}

/// With the table, its rows cached, and the ids of the statements that write and read one.
async fn prepared(folder: &str) -> Outcome<(Front, Vec<u8>, Vec<u8>)> {
    let mut front = boot(folder).await?;
    front.query(KEYSPACE).await?;
    front.query(TABLE).await?;
    let (write, read) = (front.prepare(WRITE).await?, front.prepare(READ).await?);
    for n in 0..ROWS {
        front.serve(&execute(&write, n, 5)?).await?;
    }
    front.node.storage.flush(None).await?;
    for n in 0..ROWS {
        front.serve(&execute(&read, n, 0)?).await?;
    }
    Ok((front, write, read))
}

async fn repeat(front: &mut Front, id: &[u8], cells: usize, times: u64) -> Outcome<()> {
    let frames = (0..ROWS).map(|n| execute(id, n.wrapping_mul(7919) % ROWS, cells)).collect::<Outcome<Vec<_>>>()?;
    for frame in frames.iter().cycle().take(times as usize) {
        front.serve(frame).await?;
    }
    Ok(())
}

async fn count(what: String, times: u64, folder: String) -> Outcome<()> {
    let (mut front, write, read) = prepared(&folder).await?;
    match what.as_str() {
        "prepared-read" => repeat(&mut front, &read, 0, times).await?,
        "prepared-write" => repeat(&mut front, &write, 5, times).await?,
        other => return Err(format!("`{other}`: count prepared-read or prepared-write").into()),
    }
    server::drain_shard().await;
    Ok(())
}

/// The scheduler's count of the nanoseconds that this thread has run.
fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0)
}

async fn time_each(times: u64, folder: String) -> Outcome<()> {
    let (mut front, write, read) = prepared(&folder).await?;
    for (what, id, cells) in [("prepared read, cached", &read, 0), ("prepared write", &write, 5)] {
        let before = cpu_ns();
        repeat(&mut front, id, cells, times).await?;
        println!("{what:<24} {:>8} ns of CPU", (cpu_ns() - before) / times);
    }
    server::drain_shard().await;
    Ok(())
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let own = tempfile::tempdir()?;
    let folder = own.path().display().to_string();
    let first = arguments.next();
    let number = |text: Option<String>, default: u64| text.map_or(Ok(default), |text| text.parse());
    if first.as_deref() == Some("count") {
        let what = arguments.next().unwrap_or_default();
        let times = number(arguments.next(), 1000)?;
        return reactor::uring::block_on(count(what, times, folder))?;
    }
    let times = number(first, 200_000)?;
    reactor::uring::block_on(time_each(times, folder))?
}
