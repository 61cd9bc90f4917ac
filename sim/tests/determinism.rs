//! One seed, one run; and what breaks that is found and named.

#![allow(clippy::unwrap_used)]

mod common;

use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use common::{Log, MS, S, addr, plain, rw};
use reactor::{Buf, Group, fs, net, spawn, time};
use sim::{Crash, Divergence, Settings, World};

/// Three hosts of two shards that write to disk, talk, crash and draw random numbers. `planted` is asked now and then
/// for nanoseconds to sleep.
fn experiment(world: &Rc<World>, planted: impl Fn() -> u64 + Copy + 'static) -> Vec<u8> {
    let hosts: Vec<_> = (1..=3).map(|last| plain(world, last, 2)).collect();
    let log = Log::new();
    for (&host, own) in hosts.iter().zip(1u8..) {
        let log = log.clone();
        world.boot(host, move |boot| {
            let log = log.clone();
            async move {
                let listener = net::listen(addr(own, 9000)).await.unwrap();
                drop(spawn(Group::Statement, "server", async move {
                    while let Ok(connection) = listener.accept().await {
                        drop(spawn(Group::Statement, "session", async move {
                            let file = fs::File::open(&format!("/log-{}", boot.shard), rw()).await.unwrap();
                            loop {
                                let (result, buf) = connection.recv(Buf::with_capacity(512)).await;
                                if !matches!(result, Ok(n) if n > 0) {
                                    return;
                                }
                                let at = reactor::random() % 100_000;
                                let (_, buf) = file.write_all_at(at, buf).await;
                                file.datasync().await.unwrap();
                                if connection.send_all(buf).await.0.is_err() {
                                    return;
                                }
                            }
                        }));
                    }
                }));
                for round in 0u64.. {
                    let peer = 1 + (reactor::random() % 3) as u8;
                    if let Ok(Ok(connection)) =
                        time::timeout(Duration::from_millis(50), net::connect(addr(peer, 9000))).await
                    {
                        for _ in 0..20 {
                            let len = 1 + (reactor::random() % 400) as usize;
                            let _ = connection.send_all(Buf::from(vec![round as u8; len])).await;
                            let answer = connection.recv(Buf::with_capacity(512));
                            let Ok((Ok(n), _)) = time::timeout(Duration::from_millis(20), answer).await else { break };
                            log.push((own, boot.shard as u8, reactor::now(), n));
                        }
                    }
                    time::sleep(Duration::from_nanos(10_000 + planted())).await;
                }
            }
        });
    }
    let driver = world.clone();
    world.spawn_driver(async move {
        for round in 0.. {
            driver.sleep(37 * MS).await;
            let victim = hosts[round % 3];
            driver.crash(victim, if round % 2 == 0 { Crash::PowerLoss } else { Crash::Kill });
            driver.partition(&[hosts[(round + 1) % 3]], &[hosts[(round + 2) % 3]]);
            driver.sleep(11 * MS).await;
            driver.heal();
            driver.restart(victim);
        }
    });
    world.run_until(S / 2);
    let record: Vec<String> = log.all().iter().map(|entry| format!("{entry:?}")).collect();
    assert!(record.len() > 1000, "{}", record.len());
    record.join("\n").into_bytes()
}

#[test]
fn one_seed_one_run() {
    let once = |seed| sim::run_twice(seed, &Settings::default(), |world| experiment(world, || 0)).unwrap();
    let (first, other) = (once(1), once(2));
    assert!(first.events > 10_000, "{}", first.events);
    assert_ne!(first.hash, other.hash);
    assert_ne!(first.value, other.value);
}

#[test]
fn planted_nondeterminism_is_named() {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    // Counts over both runs: the second run's first 200 draws are as the first's, later ones are not.
    let planted = || if CALLS.fetch_add(1, Ordering::Relaxed) % 9_973 == 200 { 1 } else { 0 };
    let result = sim::run_twice(1, &Settings::default(), |world| experiment(world, planted));
    let error = result.unwrap_err();
    assert!(matches!(error, Divergence::Event { .. } | Divergence::Unsteady { .. }), "{error}");

    // A difference that each repetition shows at the same place is named.
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let result = sim::run_twice(1, &Settings::default(), |world| {
        let odd = RUNS.fetch_add(1, Ordering::Relaxed) % 2;
        let host = plain(world, 1, 1);
        world.boot(host, move |_| async move {
            for step in 0..20_000u64 {
                time::sleep(Duration::from_nanos(1_000 + if step == 15_000 { odd } else { 0 })).await;
            }
        });
        world.run_until_idle();
    });
    let Err(error @ Divergence::Event { .. }) = result else { panic!("{result:?}") };
    let text = error.to_string();
    assert!(text.contains("first run:  event 15") && text.contains("Run { seat: 0 }"), "{text}");
    assert!(text.contains("on host 0 shard 0"), "{text}");
}

#[test]
fn a_result_that_differs_is_found_without_events() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let result = sim::run_twice(1, &Settings::default(), |_| RUNS.fetch_add(1, Ordering::Relaxed));
    assert!(matches!(result, Err(Divergence::Value { seed: 1 })));
}
