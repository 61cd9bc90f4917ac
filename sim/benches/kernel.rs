//! How fast the simulator is, without an engine in it: `cargo bench -p orrery-sim`, or with a name for one of them.
//!
//! - `events`: 100 shards whose tasks sleep and message each other; kernel events a second of CPU time.
//! - `operations`: 3 hosts of 8 shards and loaders, each operation with 6 messages over the network, 3 disk operations
//!   and the polls for these, as a quorum write at replication factor 3 has; operations a second of CPU time.
//! - `idle`: 3 hosts of 8 shards and 3 loaders that only wait for their timers; virtual over CPU time.

#![allow(clippy::disallowed_methods, reason = "measures real time, outside of any world")]
#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use reactor::{Buf, Group, OpenFlags, fs, net, spawn, submit_to, time};
use sim::{HostModel, Settings, World};

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn addr(last: u8) -> SocketAddr {
    (ip(last), 9000).into()
}

/// Seconds of this process's CPU, which other load on the machine leaves alone; in steps of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

fn median(mut runs: Vec<f64>) -> f64 {
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

const ROUNDS: usize = 5;

fn events() {
    let rates = (0..ROUNDS).map(|_| {
        let began = cpu_seconds();
        let outcome = sim::run(1, Settings::default(), |world| {
            for last in 0..10 {
                let host = world.add_host(ip(last), HostModel::plain("plain", 10));
                world.boot(host, |boot| async move {
                    for task in 0..8u64 {
                        drop(spawn(Group::Statement, "talker", async move {
                            let mut to = boot.shard;
                            loop {
                                time::sleep(Duration::from_nanos(3_000 + task * 500)).await;
                                to = (to + 1) % boot.shards;
                                submit_to(to, "talk", || async {}).await;
                            }
                        }));
                    }
                });
            }
            world.run_until(100_000_000);
            world.polls()
        });
        let cpu = cpu_seconds() - began;
        (outcome.events as f64 / cpu / 1e6, outcome.value as f64 / cpu / 1e6)
    });
    let (events, polls): (Vec<_>, Vec<_>) = rates.unzip();
    println!("events: {:.2} M kernel events/s, {:.2} M polls/s", median(events), median(polls));
}

/// Answers each message of 200 bytes after a write of its bytes to a log.
async fn replica() {
    let listener = net::listen((std::net::Ipv4Addr::UNSPECIFIED, 9000).into()).await.unwrap();
    while let Ok(connection) = listener.accept().await {
        drop(spawn(Group::Statement, "replica", async move {
            let path = format!("/log-{}-{}", reactor::shard_index().0, connection.peer_addr().unwrap());
            let flags = OpenFlags { read: true, write: true, create: true, direct: true, ..Default::default() };
            let log = fs::File::open(&path, flags).await.unwrap();
            let mut block = Buf::direct(4096);
            block.resize(4096, 1);
            let (result, returned) = log.write_all_at(0, block).await;
            block = returned;
            result.and(log.datasync().await).unwrap();
            let mut buf = Buf::with_capacity(4096);
            loop {
                buf.clear();
                while !buf.len().is_multiple_of(200) || buf.is_empty() {
                    let (result, returned) = connection.recv(buf).await;
                    buf = returned;
                    if !matches!(result, Ok(n) if n > 0) {
                        return;
                    }
                }
                for _ in 0..buf.len() / 200 {
                    let (result, returned) = log.write_all_at(0, block).await;
                    block = returned;
                    result.unwrap();
                }
                let (result, returned) = connection.send_all(buf).await;
                buf = returned;
                if result.is_err() {
                    return;
                }
            }
        }));
    }
}

fn operations() {
    const CLIENTS: usize = 64;
    const SPAN_NS: u64 = 150_000_000;
    let runs = (0..ROUNDS).map(|_| {
        let began = cpu_seconds();
        let outcome = sim::run(1, Settings::default(), |world| {
            for last in 1..=3 {
                let mut model = HostModel::plain("server", 8);
                model.disks[0].1.power_loss_protected = true;
                let host = world.add_host(ip(last), model);
                world.boot(host, |_| replica());
            }
            let done = Rc::new(Cell::new(0u64));
            for last in 4..=6 {
                let host = world.add_host(ip(last), HostModel::plain("loader", 1));
                let done = done.clone();
                world.boot(host, move |_| {
                    let done = done.clone();
                    async move {
                        time::sleep(Duration::from_millis(1)).await;
                        for _ in 0..CLIENTS {
                            let done = done.clone();
                            drop(spawn(Group::Statement, "client", async move {
                                let mut peers = Vec::new();
                                for last in 1..=3 {
                                    peers.push((net::connect(addr(last)).await.unwrap(), Buf::from(vec![7u8; 200])));
                                }
                                loop {
                                    let mut sent = Vec::with_capacity(3);
                                    for (peer, buf) in peers {
                                        let (result, buf) = peer.send_all(buf).await;
                                        result.unwrap();
                                        sent.push((peer, buf));
                                    }
                                    peers = Vec::with_capacity(3);
                                    for (peer, mut buf) in sent {
                                        buf.clear();
                                        while buf.len() < 200 {
                                            let (result, returned) = peer.recv(buf).await;
                                            buf = returned;
                                            result.unwrap();
                                        }
                                        peers.push((peer, buf));
                                    }
                                    done.set(done.get() + 1);
                                }
                            }));
                        }
                    }
                });
            }
            world.run_until(SPAN_NS);
            (done.get(), world.polls())
        });
        (outcome.value, outcome.events, (cpu_seconds() - began))
    });
    let runs: Vec<_> = runs.collect();
    let ((done, polls), events, _) = runs[0];
    let cpu = median(runs.iter().map(|(_, _, cpu)| *cpu).collect());
    println!(
        "operations: {:.0} k/s, {:.2} us each, with {:.1} events and {:.1} polls",
        done as f64 / cpu / 1e3,
        cpu * 1e6 / done as f64,
        events as f64 / done as f64,
        polls as f64 / done as f64
    );
}

fn idle() {
    /// A shard's timers when nobody asks anything of it: gossip, commit log sync, controllers.
    async fn timers() {
        for (name, period_ms) in [("controller", 250), ("gossip", 1000), ("sync", 10_000)] {
            drop(spawn(Group::Maintenance, name, async move {
                loop {
                    time::sleep(Duration::from_millis(period_ms)).await;
                }
            }));
        }
    }
    const SECONDS: u64 = 10_000;
    let runs = (0..ROUNDS).map(|_| {
        let began = cpu_seconds();
        let outcome = sim::run(1, Settings::default(), |world: &Rc<World>| {
            for last in 1..=6 {
                let host = world.add_host(ip(last), HostModel::plain("idle", if last <= 3 { 8 } else { 1 }));
                world.boot(host, |_| timers());
            }
            world.run_until(SECONDS * 1_000_000_000);
        });
        (SECONDS as f64 / (cpu_seconds() - began), outcome.events as f64 / SECONDS as f64)
    });
    let (speeds, events): (Vec<_>, Vec<_>) = runs.unzip();
    println!("idle: {:.0} x real time, {:.0} events a virtual second", median(speeds), events[0]);
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    for (name, bench) in [("events", events as fn()), ("operations", operations), ("idle", idle)] {
        if wanted.is_empty() || wanted.iter().any(|arg| arg == name) {
            bench();
        }
    }
}
