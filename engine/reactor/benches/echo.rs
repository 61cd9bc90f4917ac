//! TCP echo of 64-byte messages: a server on one core, the client on another, 50 connections with 16 messages each
//! under way.
//!
//! The server is one process, the client another, so that servers of other runtimes can be measured by the same
//! client. `compare` starts each server in turn, alternating, and prints medians and ratios of rate and of the server's
//! CPU time a message; the latter tells more when the client or other work limits the rate:
//!
//!     cargo build --release --manifest-path engine/reactor/benches/peers/Cargo.toml
//!     cargo bench -p orrery-reactor --bench echo -- compare PEERS [seconds=3] [rounds=7]
//!
//! PEERS is the folder with the peers' binaries, `engine/reactor/benches/peers/target/release`. Also:
//! `-- server ADDR cpu=0`, `-- client ADDR cpu=1 seconds=3`.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // measures the real world from outside of it

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use reactor::net::{connect, listen};
use reactor::uring::{self, Config};
use reactor::{Buf, Group};

const MESSAGE: usize = 64;
const CONNECTIONS: usize = 50;
const PIPELINE: usize = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let number = |name: &str, default: u64| {
        let found = arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
        found.map_or(default, |value| value.parse().expect("a number"))
    };
    let second = arguments.get(1).map(String::as_str);
    match (arguments.first().map(String::as_str), second) {
        (Some("server"), Some(addr)) => server(addr.parse().expect("an address"), number("cpu", 0) as usize),
        (Some("client"), Some(addr)) => {
            let rate = client(addr.parse().expect("an address"), number("cpu", 1) as usize, number("seconds", 3));
            println!("{rate:.0} messages/s");
        }
        (Some("compare"), Some(peers)) => compare(peers, number("seconds", 3), number("rounds", 7) as usize),
        _ => eprintln!("echo: say `server ADDR`, `client ADDR` or `compare FOLDER-OF-PEERS`"),
    }
}

fn server(addr: SocketAddr, cpu: usize) {
    let config = Config { cpus: Some(vec![cpu]), ..Config::default() };
    uring::block_on_with(config, move || async move {
        let listener = listen(addr).await.unwrap();
        println!("listening");
        loop {
            let connection = listener.accept().await.unwrap();
            drop(reactor::spawn(Group::Statement, "echo", async move {
                let mut buf = Buf::with_capacity(4096);
                loop {
                    let (received, full) = connection.recv(buf).await;
                    if !received.is_ok_and(|n| n > 0) {
                        return;
                    }
                    let (sent, back) = connection.send_all(full).await;
                    if sent.is_err() {
                        return;
                    }
                    buf = back;
                    buf.clear();
                }
            }));
        }
    })
    .unwrap()
}

/// Each connection keeps `PIPELINE` messages under way: as many as have come back are sent again.
fn client(addr: SocketAddr, cpu: usize, seconds: u64) -> f64 {
    let config = Config { cpus: Some(vec![cpu]), ..Config::default() };
    uring::block_on_with(config, move || async move {
        let messages = Rc::new(Cell::new(0u64));
        let began = Instant::now();
        let until = reactor::now() + Duration::from_secs(seconds).as_nanos() as u64;
        let connections: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                let messages = messages.clone();
                reactor::spawn(Group::Statement, "client", async move {
                    let connection = connect(addr).await.unwrap();
                    let mut out = Buf::with_capacity(PIPELINE * MESSAGE);
                    out.resize(PIPELINE * MESSAGE, 0x2a);
                    let mut back = Buf::with_capacity(PIPELINE * MESSAGE);
                    let mut partial = 0;
                    while reactor::now() < until {
                        let (sent, returned) = connection.send_all(out).await;
                        sent.unwrap();
                        out = returned;
                        back.clear();
                        let (received, returned) = connection.recv(back).await;
                        let received = received.unwrap();
                        assert!(received > 0, "the server went away");
                        back = returned;
                        let whole = (partial + received) / MESSAGE;
                        partial = (partial + received) % MESSAGE;
                        messages.set(messages.get() + whole as u64);
                        out.resize(whole * MESSAGE, 0x2a);
                    }
                })
            })
            .collect();
        for connection in connections {
            connection.await;
        }
        messages.get() as f64 / began.elapsed().as_secs_f64()
    })
    .unwrap()
}

/// Ends the server with the measurement, however that ends.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(mut command: Command) -> Server {
    let mut server = Server(command.stdout(Stdio::piped()).spawn().expect("the server starts"));
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line.trim(), "listening");
    server
}

fn compare(peers: &str, seconds: u64, rounds: usize) {
    let mut port = 17070; // a new one each time: a port just left is not free at once
    let servers = ["shard", "compio", "tokio"];
    let mut rates = [const { Vec::new() }; 3];
    let mut costs = [const { Vec::new() }; 3];
    for round in 0..rounds {
        let mut line = format!("round {round}:");
        for (index, name) in servers.iter().enumerate() {
            let mut command = match *name {
                "shard" => Command::new(std::env::current_exe().unwrap()),
                peer => Command::new(format!("{peers}/echo-{peer}")),
            };
            port += 1;
            let addr = SocketAddr::from(([127, 0, 0, 1], port));
            command.args(["server", &addr.to_string(), "cpu=0"]);
            let before = children_cpu_ns();
            let server = start(command);
            let rate = client(addr, 1, seconds);
            drop(server);
            let cost = (children_cpu_ns() - before) / (rate * seconds as f64);
            line += &format!(" {name} {rate:.0}/s at {cost:.0} ns CPU each;");
            rates[index].push(rate);
            costs[index].push(cost);
        }
        println!("{line}");
    }
    let ratios = |of: &[Vec<f64>; 3], peer: usize| {
        median(of[0].iter().zip(&of[peer]).map(|(ours, theirs)| ours / theirs).collect())
    };
    let compared = [1, 2].map(|peer| (ratios(&rates, peer), ratios(&costs, peer)));
    for (name, (rates, costs)) in servers.iter().zip(rates.into_iter().zip(costs)) {
        println!("median {name}: {:.0} messages/s, {:.0} ns of the server's CPU each", median(rates), median(costs));
    }
    for (name, (rate, cost)) in servers[1..].iter().zip(compared) {
        println!("median ratio to {name}: rate {rate:.3}, CPU a message {cost:.3}");
    }
}

/// CPU of the servers that have ended so far.
fn children_cpu_ns() -> f64 {
    // SAFETY: all-zero bytes are a valid rusage.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one rusage, which is ours.
    unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage) };
    let ns = |time: libc::timeval| time.tv_sec as f64 * 1e9 + time.tv_usec as f64 * 1e3;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
