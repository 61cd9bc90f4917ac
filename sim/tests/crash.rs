//! Crashes and ends: every task is dropped in its shard's context, nothing is left, and a restarted host begins anew.

#![allow(clippy::unwrap_used)]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Log, MS, S, addr, plain, rw};
use reactor::{Buf, Group, Shard, fs, net, spawn, time};
use sim::{Crash, Settings};

/// Counts how many of it live; must be dropped on a shard where it was made there.
struct Guard(Arc<AtomicUsize>);

impl Guard {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        assert!(Shard::is_current());
        alive.fetch_add(1, Ordering::Relaxed);
        Self(alive.clone())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        assert!(Shard::is_current(), "dropped outside of its shard");
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A host busy with everything: files, connections, timers, calls to other shards.
async fn busy(alive: Arc<AtomicUsize>, boot: sim::BootContext) {
    let _guard = Guard::new(&alive);
    let listener = net::listen(addr(1, 7000)).await.unwrap();
    let guard = Guard::new(&alive);
    drop(spawn(Group::Statement, "server", async move {
        let _guard = guard;
        while let Ok(connection) = listener.accept().await {
            drop(spawn(Group::Statement, "reader", async move {
                let mut buf = Buf::with_capacity(4096);
                while let (Ok(1..), returned) = connection.recv(buf).await {
                    buf = returned;
                    buf.clear();
                }
            }));
        }
    }));
    for task in 0..20u64 {
        let guard = Guard::new(&alive);
        drop(spawn(Group::Statement, "worker", async move {
            let _guard = guard;
            let file = fs::File::open(&format!("/{}-{task}", boot.shard), rw()).await.unwrap();
            let connection = net::connect(addr(1, 7000)).await.unwrap();
            loop {
                file.write_all_at(0, Buf::from(vec![7; 10_000])).await.0.unwrap();
                connection.send_all(Buf::from(vec![7; 10_000])).await.0.unwrap();
                file.datasync().await.unwrap();
                reactor::submit_to((boot.shard + 1) % boot.shards, "call", || async {
                    time::sleep(Duration::from_micros(50)).await;
                })
                .await;
            }
        }));
    }
    std::future::pending::<()>().await;
}

#[test]
fn nothing_survives_a_crash_or_the_end() {
    for crash in [Crash::Kill, Crash::PowerLoss] {
        let alive = Arc::new(AtomicUsize::new(0));
        let seen = sim::run(1, Settings::default(), |world| {
            let host = plain(world, 1, 2);
            let guards = alive.clone();
            world.boot(host, move |boot| busy(guards.clone(), boot));
            let mut seen = Vec::new();
            for round in 0..5 {
                world.run_for(3 * MS + round * 77_777);
                seen.push(alive.load(Ordering::Relaxed));
                world.crash(host, crash);
                assert_eq!(alive.load(Ordering::Relaxed), 0);
                assert!(!world.is_running(host));
                world.run_for(MS);
                world.restart(host);
            }
            world.run_for(MS);
            seen
        });
        assert_eq!(seen.value, [44; 5]);
        assert_eq!(alive.load(Ordering::Relaxed), 0, "the end of the world leaves tasks");
    }
}

#[test]
fn power_loss_after_a_kill_loses_what_the_kernel_had() {
    let mut lost = 0;
    for seed in 0..40 {
        let outcome = sim::run(seed, Settings::default(), |world| {
            let host = plain(world, 1, 1);
            let log = Log::new();
            let seen = log.clone();
            world.boot(host, move |boot| {
                let log = seen.clone();
                async move {
                    let file = fs::File::open("/a", rw()).await.unwrap();
                    match boot.boots_before {
                        0 => file.write_all_at(0, Buf::from(vec![1; 5000])).await.0.unwrap(),
                        _ => log.push(file.size().await.unwrap()),
                    }
                }
            });
            world.run_for(MS);
            world.crash(host, Crash::Kill);
            world.restart(host);
            world.run_for(MS);
            world.crash(host, Crash::Kill);
            world.crash(host, Crash::PowerLoss);
            world.restart(host);
            world.run_for(MS);
            log.all()
        });
        assert_eq!(outcome.value[0], 5000, "a kill loses nothing that was written");
        lost += u32::from(outcome.value[1] < 5000);
    }
    assert!(lost > 5 && lost < 40, "{lost}");
}

#[test]
fn a_crash_of_one_host_leaves_the_others_clocks_alone() {
    let outcome = sim::run(1, Settings::default(), |world| {
        let (a, b) = (plain(world, 1, 1), plain(world, 2, 1));
        let log = Log::new();
        let seen = log.clone();
        world.boot(a, |_| std::future::pending());
        world.boot(b, move |_| {
            let log = seen.clone();
            async move {
                for _ in 0..10 {
                    time::sleep(Duration::from_millis(100)).await;
                    log.push((reactor::now() / MS, reactor::wall_us()));
                }
            }
        });
        world.run_until(450 * MS);
        world.crash(a, Crash::PowerLoss);
        world.set_clock_skew(b, -3_600_000_000_000);
        world.run_until(2 * S);
        log.all()
    });
    let times: Vec<_> = outcome.value.iter().map(|(ms, _)| *ms).collect();
    assert_eq!(times, (1..=10).map(|n| n * 100).collect::<Vec<_>>());
    let jump = outcome.value[4].1 as i64 - outcome.value[3].1 as i64;
    assert!((-3_600_000_000..-3_599_000_000).contains(&jump), "{jump}");
}
