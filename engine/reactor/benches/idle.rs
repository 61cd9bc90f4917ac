//! CPU that an idle host uses, and what a poll costs a busy one.
//!
//!     cargo bench -p orrery-reactor --bench idle -- [seconds=10] [shards=2]
//!
//! The idle host has a listener, a pending accept and a timer an hour away on each shard, as a server without clients
//! has. Prints CPU time and context switches of all its threads, which must be next to nothing. Then: the time of one
//! poll (a task that yields), of spawning and joining a task, and of a call to the same shard.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // measures the real world from outside of it

use std::time::{Duration, Instant};

use reactor::time::{sleep, yield_now};
use reactor::uring::{self, Config, Host};
use reactor::{Group, net};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: u64| {
        let found = arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
        found.map_or(default, |value| value.parse().expect("a number"))
    };
    let (seconds, shards) = (number("seconds", 10), number("shards", 2) as usize);
    idle(seconds, shards);
    costs();
}

fn idle(seconds: u64, shards: usize) {
    let config = Config { shards, ..Config::default() };
    let host = Host::start(config, |_| async {
        let listener = net::listen("127.0.0.1:17071".parse().unwrap()).await.unwrap();
        drop(reactor::spawn(Group::Statement, "accept", async move {
            let _ = listener.accept().await;
        }));
        sleep(Duration::from_secs(3600)).await;
    })
    .unwrap();
    std::thread::sleep(Duration::from_millis(200));
    let before = usage();
    std::thread::sleep(Duration::from_secs(seconds));
    let after = usage();
    println!(
        "idle for {seconds} s, {shards} shards: {:.6} s of CPU, {} context switches",
        after.0 - before.0,
        after.1 - before.1
    );
    host.stop();
    host.join().unwrap();
}

/// Seconds of CPU and context switches of the process.
fn usage() -> (f64, i64) {
    // SAFETY: all-zero bytes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage, which is ours.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut usage) };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    (seconds(usage.ru_utime) + seconds(usage.ru_stime), usage.ru_nvcsw + usage.ru_nivcsw)
}

async fn each<Fut: Future<Output = ()>>(name: &str, times: u32, mut one: impl FnMut() -> Fut) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        for _ in 0..times {
            one().await;
        }
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(times));
    }
    println!("{name}: {best:.1} ns (best of 5 x {times})");
}

fn costs() {
    uring::block_on(async {
        each("poll of a task that yields", 2_000_000, yield_now).await;
        each("spawn and join", 500_000, || reactor::spawn(Group::Maintenance, "task", async {})).await;
        each("call to the own shard", 200_000, || reactor::submit_to(0, "call", || async {})).await;
        each("a timeout that is not needed", 500_000, || async {
            let _ = reactor::time::timeout(Duration::from_secs(10), yield_now()).await;
        })
        .await;
    })
    .unwrap();
}
