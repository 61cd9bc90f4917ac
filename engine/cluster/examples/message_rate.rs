//! How much CPU a message between nodes costs: two nodes on one shard of one core, echoing.
//!
//! `cargo run --release -p orrery-cluster --example message_rate -- [window] [payload bytes] [requests]`
//!
//! One core does both sides, so the time per round trip is the CPU of everything: two messages encoded, sent,
//! received, decoded, a callback and a handler.

use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cluster::{Handler, Incoming, Messenger, MessengerConfig, NodeConfig, NodeIndex, Topology, Verb};
use reactor::Work;
use reactor::sync::Notify;

struct Echo;

impl Handler for Echo {
    fn handle(self: Rc<Self>, request: Incoming) {
        request.reply.send(&request.payload);
    }
}

struct Load {
    messenger: Rc<Messenger>,
    payload: Vec<u8>,
    left: Cell<u64>,
    running: Cell<u64>,
    done: Notify,
}

impl Load {
    fn ask(self: &Rc<Self>) {
        let load = self.clone();
        self.messenger.call_with(NodeIndex(1), Verb(1), &self.payload, Duration::from_secs(10), move |answer| {
            answer.expect("an echo");
            if load.left.get() > 0 {
                load.left.set(load.left.get() - 1);
                load.ask();
                return;
            }
            load.running.set(load.running.get() - 1);
            load.done.notify_all();
        });
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<u64>().expect("a number"));
    let window = args.next().unwrap_or(64);
    let bytes = args.next().unwrap_or(100) as usize;
    let requests = args.next().unwrap_or(2_000_000);
    reactor::uring::block_on(async move {
        let configs: Vec<NodeConfig> = (1..=2).map(|n| NodeConfig::new(IpAddr::from([127, 0, 77, n]))).collect();
        let mut nodes = Vec::new();
        for config in &configs {
            let topology = Arc::new(Topology::new(&configs, config.address).expect("two nodes"));
            let started = Messenger::start(MessengerConfig::default(), topology, Rc::new(Echo)).await;
            nodes.push(started.expect("the address is free"));
        }
        while !nodes[0].is_alive(NodeIndex(1)) {
            reactor::time::sleep(Duration::from_millis(1)).await;
        }
        let count = |work| reactor::Shard::with(|shard| shard.counters().work(work).times);
        let (sends, receives) = (count(Work::NetSend), count(Work::NetReceive));
        let began_ns = reactor::now();
        let load = Rc::new(Load {
            messenger: nodes[0].clone(),
            payload: vec![7; bytes],
            left: Cell::new(requests.saturating_sub(window)),
            running: Cell::new(window),
            done: Notify::new(),
        });
        for _ in 0..window {
            load.ask();
        }
        load.done.wait_until(|| load.running.get() == 0).await;
        let ns = reactor::now() - began_ns;
        let per_message = |n: u64| n as f64 / (requests * 2) as f64;
        println!(
            "window {window}, {bytes} bytes: {:.0} round trips/s, {:.0} ns a message (both sides); {:.1} messages a send, {:.1} a receive",
            requests as f64 * 1e9 / ns as f64,
            per_message(ns),
            1.0 / per_message(count(Work::NetSend) - sends),
            1.0 / per_message(count(Work::NetReceive) - receives),
        );
    })
    .expect("io_uring is available");
}
