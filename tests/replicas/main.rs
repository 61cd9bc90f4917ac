//! Which replicas a coordinator reads from, in simulation: three real servers of which the third takes 8 ms for a read,
//! asked one question at a time through the first. What is told is the part of the answers that waited for the third.

#![allow(clippy::unwrap_used)]

#[path = "../faults/client.rs"]
#[allow(dead_code, reason = "the tests of faults use more of it")]
mod client;

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;

use client::Link;
use cql::values::ValuesBuffer;
use reactor::Work;
use server::NodeConfig;
use sim::{Cluster, HostModel, World};

const S: u64 = 1_000_000_000;
const SLOW_NS: u64 = 8_000_000;
const ROWS: u64 = 100;
/// Nothing is known of the replicas before.
const WARMUP_READS: u64 = 200;
const READS: u64 = 1_000;

async fn read(server: SocketAddr, table_options: &str, slow: &Cell<u64>) {
    let mut link = Link::open(server, &[]).await.unwrap();
    let keyspace = "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}";
    let table = format!("CREATE TABLE shop.items (key bigint PRIMARY KEY, value bigint){table_options}");
    for statement in [keyspace, &table] {
        link.query(statement, |_| ()).await.unwrap();
    }
    let statements =
        ["INSERT INTO shop.items (key, value) VALUES (?, 1)", "SELECT value FROM shop.items WHERE key = ?"];
    let mut link = Link::open(server, &statements).await.unwrap();
    for n in 0..ROWS + WARMUP_READS + READS {
        let mut key = ValuesBuffer::default();
        key.push_bytes(&(n % ROWS).to_be_bytes());
        let asked_ns = reactor::now();
        link.execute(usize::from(n >= ROWS), &key, |_| ()).await.unwrap();
        if n >= ROWS + WARMUP_READS && reactor::now() - asked_ns >= SLOW_NS {
            slow.set(slow.get() + 1);
        }
    }
}

fn part_that_waited(settings: &[(&str, &str)], table_options: &str) -> f64 {
    let run = |world: &Rc<World>| {
        let mut models: Vec<HostModel> = (0..3).map(|node| HostModel::plain(&format!("node {node}"), 1)).collect();
        models[2].cpu.set(Work::MemtableRead, SLOW_NS as f64, 0.0);
        let mut config = NodeConfig::single(Ipv4Addr::LOCALHOST.into(), "/data");
        config.settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let cluster = Cluster::boot(world, models, &config);
        assert!(cluster.await_ready(world, 10 * S));
        let server = cluster.native_addrs()[0];
        let (slow, done) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
        let client = world.add_host([10, 0, 0, 101].into(), HostModel::plain("client", 1));
        let (counted, ended, options) = (slow.clone(), done.clone(), table_options.to_string());
        world.boot(client, move |_| {
            let (counted, ended, options) = (counted.clone(), ended.clone(), options.clone());
            async move {
                // The others are seen to be up.
                reactor::time::sleep(std::time::Duration::from_secs(3)).await;
                read(server, &options, &counted).await;
                ended.set(true);
            }
        });
        assert!(world.run_until_true(100 * S, || done.get()), "reads do not come to an end");
        slow.get() as f64 / READS as f64
    };
    sim::run(1, sim::Settings::default(), run).value
}

/// The first node reads what it has itself, and of the two others each for half of the partitions.
#[test]
fn replicas_as_near_have_their_turn() {
    let part = part_that_waited(&[], "");
    assert!((0.3..0.7).contains(&part), "{part}");
}

#[test]
fn with_the_dynamic_snitch_a_slow_replica_is_not_waited_for() {
    let part = part_that_waited(&[("dynamic_snitch", "true")], "");
    assert!(part < 0.01, "{part}");
    // A replica that is forgotten is asked once more, to be known again.
    let forgetful = [("dynamic_snitch", "true"), ("dynamic_snitch_reset_interval_in_ms", "1")];
    assert!(part_that_waited(&forgetful, "") > part);
}

#[test]
fn reads_that_ask_all_replicas_wait_for_those_that_they_need() {
    let part = part_that_waited(&[], " WITH dclocal_read_repair_chance = 1");
    assert!(part < 0.01, "{part}");
    let half = part_that_waited(&[], " WITH dclocal_read_repair_chance = 0.5");
    assert!((0.1..0.4).contains(&half), "{half}");
}
