//! What a hostile client costs the others, in simulation: the real server on one modelled core, reads at a fixed rate
//! from one host, alone and beside every kind of abuse from another. On real machines `benches/hostile.sh` measures the
//! same; here nothing but the client differs between the two runs, so that their ratio is the engine's.

#![allow(clippy::unwrap_used)]

#[path = "../faults/client.rs"]
#[allow(dead_code, reason = "the tests of faults use more of it")]
mod client;

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use client::Link;
use cql::Response;
use cql::values::ValuesBuffer;
use hwprofiles::Profiles;
use reactor::net::{self, Connection};
use reactor::time::sleep;
use reactor::{Buf, Group};
use server::NodeConfig;
use sim::{Cluster, Generator, HostModel, Stream, World};

const S: u64 = 1_000_000_000;

/// Readers, each with a connection of its own and one question at a time.
const READERS: u64 = 64;
/// Of one reader; all together ask 10,000 times a second.
const BETWEEN_NS: u64 = 6_400_000;
const ROWS: i64 = 5_000;
const ROW_BYTES: usize = 200;
/// The reads that count are due from here to the end.
const MEASURED_NS: (u64, u64) = (3 * S, 5 * S);

const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE shop.items (key bigint PRIMARY KEY, value blob)",
];
const STATEMENTS: [&str; 2] =
    ["INSERT INTO shop.items (key, value) VALUES (?, ?)", "SELECT value FROM shop.items WHERE key = ?"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abuse {
    Nothing,
    /// Frames whose rest never comes, on a thousand connections of which the oldest is always replaced.
    Halves,
    /// Frames that claim gigabytes, each on a new connection.
    Lengths,
    /// Random bytes.
    Noise,
    /// Statements without a pause on 64 connections.
    Flood,
    /// Large answers asked for on 64 connections and never read.
    Slow,
    /// Ten thousand connections, held and asked in turn.
    Connections,
}

const STARTUP: u8 = 1;
const QUERY: u8 = 7;

fn frame(opcode: u8, body: &[u8], length: usize) -> Vec<u8> {
    let mut frame = vec![4, 0, 0, 1, opcode];
    frame.extend((length as u32).to_be_bytes());
    frame.extend(body);
    frame
}

fn whole(opcode: u8, body: &[u8]) -> Vec<u8> {
    frame(opcode, body, body.len())
}

fn hello() -> Vec<u8> {
    whole(STARTUP, b"\x00\x01\x00\x0bCQL_VERSION\x00\x053.0.0")
}

fn query(text: &str) -> Vec<u8> {
    let mut body = (text.len() as u32).to_be_bytes().to_vec();
    body.extend(text.as_bytes());
    body.extend([0, 1, 0]);
    whole(QUERY, &body)
}

async fn send(connection: &Connection, bytes: Vec<u8>) -> std::io::Result<()> {
    connection.send_all(Buf::from(bytes)).await.0
}

/// Reads until something has come; `false` where nothing will.
async fn heard(connection: &Connection) -> bool {
    connection.recv(Buf::with_capacity(64 << 10)).await.0.is_ok_and(|n| n > 0)
}

async fn greeted(server: SocketAddr) -> std::io::Result<Connection> {
    let connection = net::connect(server).await?;
    send(&connection, hello()).await?;
    heard(&connection).await;
    Ok(connection)
}

/// The same bytes again and again. Answers are read, or left where they are.
async fn pour(server: SocketAddr, bytes: Vec<u8>, reads: bool) -> std::io::Result<()> {
    let connection = greeted(server).await?;
    if reads {
        let heard_from = connection.clone();
        drop(reactor::spawn(Group::Statement, "drink", async move { while heard(&heard_from).await {} }));
    }
    loop {
        send(&connection, bytes.clone()).await?;
    }
}

/// For ever, or until the server ends the only connection.
async fn abuse(kind: Abuse, server: SocketAddr, mut random: Generator) -> std::io::Result<()> {
    match kind {
        Abuse::Nothing => {}
        Abuse::Halves => {
            let all = [hello(), query("SELECT * FROM system.local")].concat();
            let mut held = std::collections::VecDeque::new();
            loop {
                let connection = net::connect(server).await?;
                send(&connection, all[..1 + random.below(all.len() as u64 - 1) as usize].to_vec()).await?;
                held.push_back(connection);
                if held.len() > 1_000 {
                    held.pop_front();
                }
            }
        }
        Abuse::Lengths => loop {
            let connection = greeted(server).await?;
            let claimed = [(1 << 31) - 1, (1 << 32) - 1, 1 << 30][random.below(3) as usize];
            // Refused at once, perhaps before all of it has left.
            let _ = send(&connection, frame(QUERY, &[b'x'; 100], claimed)).await;
        },
        Abuse::Noise => loop {
            let connection = net::connect(server).await?;
            for _ in 0..10 {
                let len = 1 + random.below(4_000);
                let bytes = (0..len).map(|_| random.next_u64() as u8).collect();
                if send(&connection, bytes).await.is_err() {
                    break;
                }
            }
        },
        Abuse::Flood | Abuse::Slow => {
            let text = match kind {
                Abuse::Flood => "SELECT * FROM system.local",
                _ => "SELECT * FROM shop.items LIMIT 5000",
            };
            let bytes = query(text).repeat(200);
            for _ in 0..64 {
                let bytes = bytes.clone();
                drop(reactor::spawn(Group::Statement, "pour", async move {
                    let _ = pour(server, bytes, kind == Abuse::Flood).await;
                }));
            }
        }
        Abuse::Connections => {
            let mut held = Vec::new();
            for _ in 0..10_000 {
                held.push(greeted(server).await?);
            }
            loop {
                for connection in &held {
                    send(connection, query("SELECT * FROM system.local")).await?;
                    heard(connection).await;
                }
            }
        }
    }
    Ok(())
}

fn key(number: i64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

async fn fill(server: SocketAddr) {
    let mut link = Link::open(server, &[]).await.unwrap();
    for statement in SCHEMA {
        link.query(statement, |_| ()).await.unwrap();
    }
    let mut link = Link::open(server, &STATEMENTS).await.unwrap();
    for number in 0..ROWS {
        let mut values = ValuesBuffer::default();
        values.push_bytes(&key(number));
        values.push_bytes(&[7; ROW_BYTES]);
        link.execute(0, &values, |_| ()).await.unwrap();
    }
}

/// Reads at any time of each period; notes how long after it was due each answer came.
async fn read(server: SocketAddr, mut random: Generator, latencies: Rc<RefCell<Vec<u64>>>) {
    let mut link = Link::open(server, &STATEMENTS).await.unwrap();
    let mut period = MEASURED_NS.0 - S;
    while period < MEASURED_NS.1 {
        let due = period + random.below(BETWEEN_NS);
        let row = random.below(ROWS as u64) as i64;
        sleep(Duration::from_nanos(due.saturating_sub(reactor::now()))).await;
        let mut values = ValuesBuffer::default();
        values.push_bytes(&key(row));
        let rows = |response: &Response<'_>| matches!(response, Response::Rows(_));
        assert!(link.execute(1, &values, rows).await.unwrap());
        if due >= MEASURED_NS.0 {
            latencies.borrow_mut().push(reactor::now() - due);
        }
        period += BETWEEN_NS;
    }
}

/// p50 and p99 of the reads, ns.
fn latency(world: &Rc<World>, kind: Abuse) -> (u64, u64) {
    let profiles = Profiles::embedded();
    let mut instance = profiles.instance("local").unwrap().clone();
    (instance.vcpus, instance.interruptions) = (one(), Vec::new());
    let (system, disk) = (profiles.system("orrery").unwrap(), profiles.disk("local").unwrap());
    let model = HostModel::from_profiles("node", &instance, system, &[("/", disk)]);
    let mut config = NodeConfig::single(Ipv4Addr::LOCALHOST.into(), "/data");
    config.cache_bytes = 64 << 20;
    let cluster = Cluster::boot(world, vec![model], &config);
    assert!(cluster.await_ready(world, S));
    let server = cluster.native_addrs()[0];

    let latencies: Rc<RefCell<Vec<u64>>> = Rc::default();
    let reading = Rc::new(Cell::new(READERS));
    let (noted, left) = (latencies.clone(), reading.clone());
    let randoms: Vec<Generator> = (0..READERS).map(|number| world.random(Stream::Workload, &[number])).collect();
    let readers = world.add_host([10, 0, 0, 101].into(), HostModel::plain("readers", 1));
    world.boot(readers, move |_| {
        let (noted, left, randoms) = (noted.clone(), left.clone(), randoms.clone());
        async move {
            fill(server).await;
            for random in randoms {
                let (noted, left) = (noted.clone(), left.clone());
                drop(reactor::spawn(Group::Statement, "reader", async move {
                    read(server, random, noted).await;
                    left.set(left.get() - 1);
                }));
            }
        }
    });
    let random = world.random(Stream::Workload, &[READERS]);
    let hostile = world.add_host([10, 0, 0, 102].into(), HostModel::plain("hostile", 1));
    world.boot(hostile, move |_| {
        let random = random.clone();
        async move {
            sleep(Duration::from_nanos(MEASURED_NS.0 - S)).await;
            let _ = abuse(kind, server, random).await;
        }
    });
    assert!(world.run_until_true(20 * S, || reading.get() == 0), "{kind:?}: reads do not come to an end");
    assert!(cluster.failures().is_empty(), "{kind:?}: {:?}", cluster.failures());
    let mut all = latencies.take();
    all.sort_unstable();
    (all[all.len() / 2], all[all.len() * 99 / 100])
}

fn one() -> hwprofiles::Figure<hwprofiles::quantity::Count> {
    hwprofiles::Figure::new(1.0, hwprofiles::Standing::Assumed, "one core")
}

fn in_a_world(kind: Abuse) -> (u64, u64) {
    sim::run(1, sim::Settings::default(), |world| latency(world, kind)).value
}

/// Beside the abuse, p99 is at most twice what it is alone.
fn costs_little(kind: Abuse) {
    let (alone, beside) = (in_a_world(Abuse::Nothing), in_a_world(kind));
    println!(
        "{kind:?}: p50 {} -> {} us, p99 {} -> {} us",
        alone.0 / 1000,
        beside.0 / 1000,
        alone.1 / 1000,
        beside.1 / 1000
    );
    assert!(beside.1 <= 2 * alone.1, "{kind:?}: p99 {} us alone, {} us beside it", alone.1 / 1000, beside.1 / 1000);
}

#[test]
fn half_frames_cost_others_little() {
    costs_little(Abuse::Halves);
}

#[test]
fn huge_lengths_cost_others_little() {
    costs_little(Abuse::Lengths);
}

#[test]
fn noise_costs_others_little() {
    costs_little(Abuse::Noise);
}

#[test]
fn a_flood_costs_others_little() {
    costs_little(Abuse::Flood);
}

#[test]
fn who_does_not_read_costs_others_little() {
    costs_little(Abuse::Slow);
}

#[test]
fn ten_thousand_connections_cost_others_little() {
    costs_little(Abuse::Connections);
}
