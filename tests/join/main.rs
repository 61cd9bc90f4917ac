//! A node joins a running cluster, in simulation: what was acknowledged before, meanwhile and afterwards is found by
//! every quorum, what was deleted stays deleted, and the node itself has all that it is to have.
//!
//! Each seed is a world of its own, the same every time.

#![allow(clippy::unwrap_used)]

#[path = "../faults/client.rs"]
#[allow(dead_code, reason = "the tests of faults use more of it")]
mod client;
#[path = "../faults/small.rs"]
mod small;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use client::{Link, Trouble};
use cql::values::ValuesBuffer;
use cql::{Consistency, Response};
use reactor::time::sleep;
use sim::cluster::address;
use sim::{Cluster, Crash, HostModel, Settings, Stream, World};

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

const WRITERS: u64 = 6;
/// Keys that each writer writes before the node joins.
const BEFORE: u64 = 150;

const STATEMENTS: [&str; 6] = [
    "INSERT INTO shop.items (key, value) VALUES (?, ?)",
    "DELETE FROM shop.items WHERE key = ?",
    "SELECT value FROM shop.items WHERE key = ?",
    "UPDATE shop.sums SET n = n + 1 WHERE key = ?",
    "SELECT n FROM shop.sums WHERE key = ?",
    "INSERT INTO shop.single (key, value) VALUES (?, ?) IF NOT EXISTS",
];

/// What is done beside the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trial {
    Undisturbed,
    /// The node loses power while it fetches its data, and is started again.
    JoinerFails,
    /// So does a member, after which the node waits for it.
    MemberFails,
}

fn schema(factor: usize) -> [String; 4] {
    [
        format!(
            "CREATE KEYSPACE shop WITH replication = {{'class': 'NetworkTopologyStrategy', 'datacenter1': {factor}}}"
        ),
        "CREATE TABLE shop.items (key bigint PRIMARY KEY, value bigint)".into(),
        "CREATE TABLE shop.sums (key bigint PRIMARY KEY, n counter)".into(),
        "CREATE TABLE shop.single (key bigint PRIMARY KEY, value bigint)".into(),
    ]
}

/// What clients know to be so.
#[derive(Default)]
struct Known {
    /// The value, or that it was deleted; keys whose last write failed are left out.
    items: RefCell<BTreeMap<i64, Option<i64>>>,
    counted: Cell<i64>,
    unsure: Cell<i64>,
    filled: Cell<u64>,
    written_meanwhile: Cell<u64>,
    failed: Cell<u64>,
    joins: Cell<bool>,
    stops: Cell<bool>,
    stopped: Cell<u64>,
    created: Cell<bool>,
    told: RefCell<Vec<String>>,
}

fn values(numbers: &[i64]) -> ValuesBuffer {
    let mut values = ValuesBuffer::default();
    for number in numbers {
        values.push_bytes(&number.to_be_bytes());
    }
    values
}

fn number(response: &Response<'_>) -> Option<i64> {
    match response {
        Response::Rows(rows) => {
            let row = rows.iter().next()?.ok()?;
            Some(i64::from_be_bytes(row.cell(0)?.try_into().unwrap()))
        }
        other => panic!("SELECT is answered by {other:?}"),
    }
}

async fn create(addr: SocketAddr, factor: usize) {
    for statement in schema(factor) {
        while let Err(error) = async { Link::open(addr, &[]).await?.query(&statement, |_| ()).await }.await {
            if matches!(&error, Trouble::Answered(error) if error.message.contains("exist")) {
                break;
            }
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Writes until told to stop: new keys, keys that it has written before, deletions, counters.
async fn write(known: &Known, addrs: &[SocketAddr], writer: u64, mut random: sim::Generator) {
    let mut link = None;
    let mut keys = 0;
    while !known.stops.get() {
        if keys >= BEFORE {
            sleep(Duration::from_nanos(random.below(4 * MS))).await;
        }
        if link.as_ref().is_none_or(Link::is_spoilt) {
            let addr = addrs[random.below(addrs.len() as u64) as usize];
            link = Link::open(addr, &STATEMENTS).await.ok();
        }
        let Some(link) = &mut link else { continue };
        let is_new = keys < BEFORE || random.chance(1, 2);
        let of = if is_new { keys } else { random.below(keys) };
        let key = (of * WRITERS + writer) as i64;
        keys += u64::from(is_new);
        if keys == BEFORE && is_new {
            known.filled.set(known.filled.get() + 1);
        }
        let value = random.below(1 << 40) as i64;
        let is_deletion = !is_new && random.chance(1, 4);
        let done = match is_deletion {
            true => link.execute(1, &values(&[key]), |_| ()).await,
            false => link.execute(0, &values(&[key, value]), |_| ()).await,
        };
        match done {
            Ok(()) => drop(known.items.borrow_mut().insert(key, (!is_deletion).then_some(value))),
            Err(_) => {
                known.items.borrow_mut().remove(&key);
                known.failed.set(known.failed.get() + 1);
            }
        }
        if known.joins.get() {
            known.written_meanwhile.set(known.written_meanwhile.get() + 1);
        }
        if random.chance(1, 8) {
            match link.execute(3, &values(&[7]), |_| ()).await {
                Ok(()) => known.counted.set(known.counted.get() + 1),
                Err(_) => known.unsure.set(known.unsure.get() + 1),
            }
            if link.execute(5, &values(&[key, value]), |_| ()).await.is_err() {
                known.failed.set(known.failed.get() + 1);
            }
        }
    }
    known.stopped.set(known.stopped.get() + 1);
}

/// Reads everything through one node. A read that fails is tried again for a while.
async fn read_all(known: &Known, addr: SocketAddr, level: Consistency) {
    let mut link = None;
    let items = known.items.borrow().clone();
    let complain = |text: String| known.told.borrow_mut().push(format!("{addr} at {level}: {text}"));
    for (key, expected) in items {
        let mut attempts = 0;
        let found = loop {
            if link.as_ref().is_none_or(Link::is_spoilt) {
                link = Link::open(addr, &STATEMENTS).await.ok();
            }
            let answer = match &mut link {
                Some(link) => {
                    link.execute_at(level, 2, &values(&[key]), number).await.map_err(|error| error.to_string())
                }
                None => Err("no connection".into()),
            };
            match answer {
                Ok(found) => break found,
                Err(error) if attempts > 40 => return complain(format!("key {key}: {error}")),
                Err(_) => sleep(Duration::from_millis(100)).await,
            }
            attempts += 1;
        };
        if found != expected {
            complain(format!("key {key} has {found:?}, and {expected:?} was acknowledged"));
        }
    }
    if let Some(link) = &mut link {
        let sum = link.execute_at(level, 4, &values(&[7]), number).await.ok().flatten().unwrap_or(0);
        let (least, most) = (known.counted.get(), known.counted.get() + known.unsure.get());
        if !(least..=most).contains(&sum) {
            complain(format!("the counter has {sum}, and from {least} to {most} were counted"));
        }
    }
}

/// How many peers a node tells its clients of.
async fn peers(addr: SocketAddr) -> usize {
    let count = |response: &Response<'_>| match response {
        Response::Rows(rows) => rows.iter().count(),
        other => panic!("SELECT is answered by {other:?}"),
    };
    let mut link = Link::open(addr, &[]).await.unwrap();
    link.query("SELECT peer FROM system.peers", count).await.unwrap()
}

fn spawn_on<Fut: Future<Output = ()> + 'static>(
    world: &Rc<World>,
    client: sim::HostId,
    name: &'static str,
    work: impl FnOnce() -> Fut,
) {
    let work = work();
    world.on_shard(client, 0, |shard| drop(shard.spawn(reactor::Group::Statement, name, work)));
}

/// Lets `work` run on a client to its end.
fn await_on<Fut: Future<Output = ()> + 'static>(world: &Rc<World>, client: sim::HostId, work: Fut) {
    let done = Rc::new(Cell::new(false));
    let told = done.clone();
    spawn_on(world, client, "await", move || async move {
        work.await;
        told.set(true);
    });
    assert!(world.run_until_true(world.now() + 300 * S, || done.get()), "a client did not come to an end");
}

fn run(world: &Rc<World>, trial: Trial, nodes: usize, factor: usize) -> (u64, usize) {
    let models = (0..nodes).map(|_| HostModel::plain("node", 2)).collect();
    let cluster = Cluster::boot(world, models, &small::node(128 << 10));
    let client = world.add_host([10, 0, 0, 101].into(), HostModel::plain("client", 1));
    world.boot(client, |_| async { std::future::pending().await });
    assert!(cluster.await_ready(world, S), "{:?}", cluster.failures());
    let known = Rc::new(Known::default());
    let addrs = cluster.native_addrs();
    let (first, told) = (addrs[0], known.clone());
    await_on(world, client, async move {
        create(first, factor).await;
        told.created.set(true);
    });
    for writer in 0..WRITERS {
        let (known, addrs) = (known.clone(), addrs.clone());
        let random = world.random(Stream::Workload, &[3, writer]);
        spawn_on(world, client, "writer", move || async move { write(&known, &addrs, writer, random).await });
    }
    assert!(world.run_until_true(60 * S, || known.filled.get() == WRITERS), "the load is not there");

    let mut random = world.random(Stream::Faults, &[1]);
    known.joins.set(true);
    let began = world.now();
    let joiner = cluster.join(world, HostModel::plain("node", 2));
    match trial {
        Trial::Undisturbed => {}
        Trial::JoinerFails => {
            world.run_for((2 + random.below(30)) * MS);
            world.crash(cluster.host(joiner), Crash::PowerLoss);
            world.run_for(random.below(3000) * MS);
            world.restart(cluster.host(joiner));
        }
        Trial::MemberFails => {
            world.run_for((2 + random.below(30)) * MS);
            let member = cluster.host(random.below(nodes as u64) as usize);
            world.crash(member, Crash::PowerLoss);
            world.run_for(random.below(3000) * MS);
            world.restart(member);
        }
    }
    let joined = world
        .run_until_true(world.now() + 90 * S, || cluster.is_ready(world, joiner) || !cluster.failures().is_empty());
    // A member that fails may be all that has a range: then the node may give up, with a sentence, and be started anew.
    if !cluster.failures().is_empty() {
        assert_eq!(trial, Trial::MemberFails, "{:?}", cluster.failures());
        assert!(cluster.failures().iter().all(|failure| failure.node == joiner), "{:?}", cluster.failures());
        world.crash(cluster.host(joiner), Crash::Kill);
        world.restart(cluster.host(joiner));
        assert!(world.run_until_true(world.now() + 90 * S, || cluster.is_ready(world, joiner)), "it did not join anew");
    } else {
        assert!(joined, "the node has not joined within 90 s");
    }
    let took = world.now() - began;
    known.joins.set(false);
    world.run_for(500 * MS);
    known.stops.set(true);
    assert!(world.run_until_true(world.now() + 60 * S, || known.stopped.get() == WRITERS));
    let written = known.written_meanwhile.get();
    assert!(written > 20, "{written} writes while the node joined");
    if trial == Trial::Undisturbed {
        assert_eq!(known.failed.get(), 0, "nothing fails for a node that joins");
    }

    let joiner_addr = SocketAddr::new(address(joiner), addrs[0].port());
    let everywhere: Vec<SocketAddr> = addrs.iter().copied().chain([joiner_addr]).collect();
    let counted = Rc::new(RefCell::new(Vec::new()));
    for (reads, &addr) in everywhere.iter().enumerate() {
        let (known, counted) = (known.clone(), counted.clone());
        let level = if reads % 2 == 0 { Consistency::All } else { Consistency::Quorum };
        await_on(world, client, async move {
            read_all(&known, addr, level).await;
            let known_peers = peers(addr).await;
            counted.borrow_mut().push(known_peers);
        });
    }
    assert_eq!(*counted.borrow(), vec![nodes; nodes + 1]);
    assert_eq!(*known.told.borrow(), Vec::<String>::new());

    // A restarted node finds itself a member.
    world.crash(cluster.host(joiner), Crash::PowerLoss);
    world.run_for(100 * MS);
    world.restart(cluster.host(joiner));
    assert!(world.run_until_true(world.now() + 30 * S, || cluster.is_ready(world, joiner)), "{:?}", cluster.failures());
    if factor == 3 {
        // Of any three replicas of four nodes one is left; nothing but the node itself can answer for those with it.
        for node in [0, 1] {
            world.crash(cluster.host(node), Crash::PowerLoss);
        }
        world.run_for(5 * S);
        let reader = known.clone();
        await_on(world, client, async move { read_all(&reader, joiner_addr, Consistency::One).await });
        if trial == Trial::Undisturbed {
            assert_eq!(*known.told.borrow(), Vec::<String>::new());
        }
    }
    (took, known.items.borrow().len())
}

/// `ORRERY_SEED=A` or `A..B` in the environment takes the place of the seeds.
fn seeds_of(seeds: std::ops::Range<u64>) -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("ORRERY_SEED") else { return seeds };
    let number = |text: &str| text.parse().unwrap_or_else(|error| panic!("ORRERY_SEED is no number: {error}"));
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

fn trial(seeds: std::ops::Range<u64>, trial: Trial, nodes: usize, factor: usize) {
    for seed in seeds_of(seeds) {
        let (took, keys) = sim::run(seed, Settings::default(), |world| run(world, trial, nodes, factor)).value;
        println!("seed {seed}: joined in {:.3} s, {keys} keys", took as f64 / 1e9);
    }
}

#[test]
fn what_is_acknowledged_is_found_by_the_new_ring() {
    trial(1..5, Trial::Undisturbed, 3, 3);
}

#[test]
fn a_range_that_only_the_node_has() {
    trial(11..13, Trial::Undisturbed, 2, 1);
}

#[test]
fn a_replica_more() {
    trial(21..23, Trial::Undisturbed, 2, 3);
}

#[test]
fn a_node_that_fails_while_it_joins_begins_again() {
    trial(31..35, Trial::JoinerFails, 3, 3);
}

#[test]
fn a_member_that_fails_meanwhile() {
    trial(41..44, Trial::MemberFails, 3, 3);
}

#[test]
fn a_seed_is_the_same_world_every_time() {
    let settings = Settings::default();
    let outcome = sim::run_twice(5, &settings, |world| run(world, Trial::Undisturbed, 3, 3));
    assert!(outcome.is_ok_and(|outcome| outcome.events > 10_000));
}
