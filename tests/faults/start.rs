//! A node whose shards do not come up at the same time: whom it lets in, it serves.

use std::cell::RefCell;
use std::net::Ipv4Addr;
use std::rc::Rc;
use std::time::Duration;

use server::NodeConfig;
use sim::{Cluster, HostModel, InterruptionModel, Latency, Settings};

use super::client::{Link, Trouble};

const MS: u64 = 1_000_000;
const SHARDS: usize = 4;
/// Everything that the statements need of other shards: shard 0's schema, and a row on each of them.
const SCHEMA: [&str; 2] = [
    "CREATE KEYSPACE faults WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE faults.rows (key int PRIMARY KEY)",
];

/// Connects as soon as that can be done, and asks at once.
async fn first(addr: std::net::SocketAddr) -> Result<(), Trouble> {
    let mut link = loop {
        match Link::open(addr, &[]).await {
            Ok(link) => break link,
            Err(Trouble::Lost(_)) => reactor::time::sleep(Duration::from_micros(50)).await,
            Err(refusal) => return Err(refusal),
        }
    };
    for statement in SCHEMA {
        link.query(statement, |_| ()).await?;
    }
    for key in 0..32 {
        link.query(&format!("INSERT INTO faults.rows (key) VALUES ({key})"), |_| ()).await?;
    }
    Ok(())
}

fn outcome(seed: u64) -> Result<(), String> {
    sim::run(seed, Settings::default(), |world| {
        let mut model = HostModel::plain("node", SHARDS);
        model.interruptions.push(InterruptionModel::new(MS / 10, Latency::constant(2 * MS)));
        let cluster = Cluster::boot(world, vec![model], &NodeConfig::single(Ipv4Addr::LOCALHOST.into(), "/data"));
        let client = world.add_host([10, 0, 0, 101].into(), HostModel::plain("client", 1));
        let (addr, told) = (cluster.native_addrs()[0], Rc::new(RefCell::new(None)));
        let tell = told.clone();
        world.boot(client, move |_| {
            let tell = tell.clone();
            async move { *tell.borrow_mut() = Some(first(addr).await.map_err(|trouble| trouble.to_string())) }
        });
        world.run_until_true(20_000 * MS, || told.borrow().is_some());
        assert!(cluster.failures().is_empty(), "{:?}", cluster.failures());
        told.borrow_mut().take().unwrap_or_else(|| Err("no answer".into()))
    })
    .value
}

#[test]
fn whom_a_starting_node_lets_in_it_serves() {
    for seed in 0..20 {
        assert_eq!(outcome(seed), Ok(()), "seed {seed}");
    }
}
