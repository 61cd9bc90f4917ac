//! Messengers over real sockets, several nodes on one shard, or several shards each.

use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use reactor::net::{Connection, listen};
use reactor::{Group, uring};

use super::frame::{self, HEADER_LEN, RESPONSE};
use super::*;
use crate::topology::{NodeConfig, Topology};

const ECHO: Verb = Verb(1);
const HOLD: Verb = Verb(2);
const LET_GO: Verb = Verb(3);
const FAIL: Verb = Verb(4);
const LATER: Verb = Verb(5);
const SHARD: Verb = Verb(6);
const CONTROL_ECHO: Verb = Verb(Verb::CONTROL);

const LONG: Duration = Duration::from_secs(30);

/// Loopback addresses of a test's own, so that tests can run side by side.
fn addresses(nodes: u8) -> Vec<IpAddr> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let (test, process) = (NEXT.fetch_add(1, Ordering::Relaxed), std::process::id() as u8);
    (1..=nodes).map(|node| IpAddr::from([127, test, process, node])).collect()
}

fn configs(addresses: &[IpAddr]) -> Vec<NodeConfig> {
    addresses.iter().map(|address| NodeConfig { num_tokens: 4, ..NodeConfig::new(*address) }).collect()
}

fn topology(addresses: &[IpAddr], local: usize) -> std::sync::Arc<Topology> {
    std::sync::Arc::new(Topology::new(&configs(addresses), addresses[local]).unwrap())
}

fn quick() -> MessengerConfig {
    MessengerConfig {
        heartbeat_interval: Duration::from_millis(20),
        down_after: Duration::from_millis(500),
        reconnect_min: Duration::from_millis(5),
        reconnect_max: Duration::from_millis(50),
        ..MessengerConfig::default()
    }
}

#[derive(Default)]
struct Echo {
    held: RefCell<Vec<Reply>>,
}

impl Handler for Echo {
    fn handle(self: Rc<Self>, request: Incoming) {
        let Incoming { verb, payload, reply, .. } = request;
        match verb {
            ECHO | CONTROL_ECHO => reply.send(&payload),
            HOLD => self.held.borrow_mut().push(reply),
            LET_GO => drop(reply),
            FAIL => reply.error(7, "as asked"),
            LATER => {
                drop(reactor::spawn(Group::Statement, "later", async move {
                    reactor::time::sleep(Duration::from_millis(2)).await;
                    reply.send(&payload);
                }));
            }
            SHARD => reply.send(&[reactor::shard_index().0 as u8]),
            _ => reply.error(1, "unknown verb"),
        }
    }
}

async fn start(config: MessengerConfig, addresses: &[IpAddr], node: usize) -> (Rc<Messenger>, Rc<Echo>) {
    let handler = Rc::new(Echo::default());
    let messenger = Messenger::start(config, topology(addresses, node), handler.clone()).await.unwrap();
    (messenger, handler)
}

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = reactor::now() + LONG.as_nanos() as u64;
    while !holds() {
        assert!(reactor::now() < deadline, "{what}: not within {LONG:?}");
        reactor::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn three(config: MessengerConfig) -> (Vec<IpAddr>, Vec<(Rc<Messenger>, Rc<Echo>)>) {
    let addresses = addresses(3);
    let mut nodes = Vec::new();
    for node in 0..3 {
        nodes.push(start(config.clone(), &addresses, node).await);
    }
    eventually("all alive", || {
        nodes.iter().all(|(messenger, _)| (0..3).all(|node| messenger.is_alive(NodeIndex(node))))
    })
    .await;
    (addresses, nodes)
}

fn run(test: impl Future<Output = ()> + 'static) {
    uring::block_on(test).unwrap();
}

#[test]
fn every_node_answers_every_node() {
    run(async {
        let (_, nodes) = three(quick()).await;
        for (messenger, _) in &nodes {
            for to in (0..3).map(NodeIndex) {
                for verb in [ECHO, LATER, CONTROL_ECHO] {
                    let answer = messenger.call(to, verb, b"hello", LONG).await.unwrap();
                    assert_eq!(&*answer, b"hello");
                }
                assert_eq!(messenger.call(to, ECHO, b"", LONG).await.unwrap().len(), 0);
                assert_eq!(
                    messenger.call(to, FAIL, b"", LONG).await.unwrap_err(),
                    CallError::Remote { code: 7, text: "as asked".into() }
                );
                let error = messenger.call(to, LET_GO, b"", LONG).await.unwrap_err();
                assert!(matches!(error, CallError::Remote { code: remote_code::NO_ANSWER, .. }), "{error:?}");
            }
            // Heartbeats come and go.
            eventually("none outstanding", || messenger.outstanding() == 0).await;
        }
    });
}

#[test]
fn many_requests_share_a_connection_and_each_gets_its_own_answer() {
    many_requests(quick());
}

#[test]
fn what_waits_for_others_to_leave_with_is_answered_too() {
    many_requests(MessengerConfig { coalescing_window: Some(Duration::from_micros(200)), ..quick() });
}

fn many_requests(config: MessengerConfig) {
    run(async move {
        let (_, nodes) = three(config).await;
        let (messenger, _) = &nodes[0];
        let connects = messenger.counters().connects.get();
        let answers = Rc::new(RefCell::new(Vec::new()));
        for n in 0..5000u32 {
            let sink = answers.clone();
            let verb = if n % 3 == 0 { LATER } else { ECHO };
            // Sizes from nothing to more than one receive.
            let mut payload = n.to_le_bytes().to_vec();
            payload.resize(4 + (n as usize * 37) % 300 + if n % 500 == 0 { 200_000 } else { 0 }, n as u8);
            let expect = payload.clone();
            messenger.call_with(NodeIndex(1), verb, &payload, LONG, move |answer| {
                assert_eq!(answer.unwrap(), expect);
                sink.borrow_mut().push(n);
            });
            assert!(answers.borrow().is_empty(), "never within the call");
        }
        eventually("all answered", || answers.borrow().len() == 5000).await;
        assert!(messenger.counters().connects.get() <= connects + 1);
        eventually("none outstanding", || messenger.outstanding() == 0).await;
        answers.borrow_mut().sort();
        answers.borrow_mut().dedup();
        assert_eq!(answers.borrow().len(), 5000);
    });
}

#[test]
fn requests_may_want_no_answer() {
    run(async {
        let (_, nodes) = three(quick()).await;
        for to in 0..3u16 {
            let before = nodes[usize::from(to)].1.held.borrow().len();
            nodes[0].0.send(NodeIndex(to), HOLD, b"one way");
            eventually("it arrives", || nodes[usize::from(to)].1.held.borrow().len() == before + 1).await;
            let reply = nodes[usize::from(to)].1.held.borrow_mut().pop().unwrap();
            assert!(reply.is_unwanted());
            reply.send(b"nobody asked");
        }
        assert_eq!(&*nodes[0].0.call(NodeIndex(1), ECHO, b"on", LONG).await.unwrap(), b"on");
    });
}

#[test]
fn payloads_can_be_kept_while_more_arrives() {
    run(async {
        let (_, nodes) = three(quick()).await;
        let mut kept = Vec::new();
        for n in 0..200u8 {
            kept.push(nodes[0].0.call(NodeIndex(2), ECHO, &[n; 1000], LONG).await.unwrap());
        }
        for (n, payload) in kept.iter().enumerate() {
            assert!(payload.len() == 1000 && payload.iter().all(|byte| *byte == n as u8));
        }
        let large: Vec<u8> = (0..3_000_000u32).map(|n| n.wrapping_mul(n) as u8).collect();
        assert!(*nodes[0].0.call(NodeIndex(2), ECHO, &large, LONG).await.unwrap() == large[..]);
        assert_eq!(&*nodes[0].0.call(NodeIndex(2), ECHO, b"after", LONG).await.unwrap(), b"after");
    });
}

#[test]
fn requests_end_by_their_timeouts_and_late_answers_meet_nobody() {
    run(async {
        let (_, nodes) = three(quick()).await;
        let (messenger, _) = &nodes[0];
        let slow = messenger.call(NodeIndex(1), HOLD, b"a", LONG);
        let quick = messenger.call(NodeIndex(1), HOLD, b"b", Duration::from_millis(20));
        assert_eq!(quick.await.unwrap_err(), CallError::Timeout);
        assert_eq!(messenger.counters().timeouts.get(), 1);
        let dropped = messenger.call(NodeIndex(1), HOLD, b"c", LONG);
        let before = messenger.outstanding();
        drop(dropped);
        assert_eq!(messenger.outstanding(), before - 1, "nothing else ran in between");
        eventually("all three held", || nodes[1].1.held.borrow().len() == 3).await;
        for reply in nodes[1].1.held.take() {
            reply.send(b"late");
        }
        assert_eq!(&*slow.await.unwrap(), b"late");
        assert_eq!(&*messenger.call(NodeIndex(1), ECHO, b"on", LONG).await.unwrap(), b"on");
    });
}

#[test]
fn too_many_and_too_large_requests_are_refused_at_once() {
    run(async {
        let config = MessengerConfig { outstanding_max: 10, frame_max_bytes: 5000, ..quick() };
        let (_, nodes) = three(config).await;
        let (messenger, _) = &nodes[0];
        let calls: Vec<Call> = (0..9).map(|_| messenger.call(NodeIndex(1), HOLD, b"", LONG)).collect();
        // One place is left, or taken by a heartbeat.
        let over: Vec<Call> = (0..3).map(|_| messenger.call(NodeIndex(1), HOLD, b"", LONG)).collect();
        let mut overloads = 0;
        let mut over = over.into_iter().rev();
        for call in over.by_ref().take(2) {
            assert_eq!(call.await.unwrap_err(), CallError::Overloaded);
            overloads += 1;
        }
        assert!(messenger.counters().overloads.get() >= overloads);
        assert_eq!(&*messenger.call(NodeIndex(2), ECHO, b"other", LONG).await.unwrap(), b"other");
        drop(calls);
        drop(over);
        assert_eq!(&*messenger.call(NodeIndex(1), ECHO, b"again", LONG).await.unwrap(), b"again");
        assert_eq!(
            messenger.call(NodeIndex(1), ECHO, &[0; 5001], LONG).await.unwrap_err(),
            CallError::TooLarge { bytes: 5001, max: 5000 }
        );
    });
}

#[test]
fn a_stopped_node_is_down_at_once_and_comes_back() {
    run(async {
        let (addresses, mut nodes) = three(MessengerConfig { down_after: LONG, ..quick() }).await;
        let changes = Rc::new(RefCell::new(Vec::new()));
        let seen = changes.clone();
        nodes[0].0.on_liveness_change(move |node, alive| seen.borrow_mut().push((node.0, alive)));
        let waiting = nodes[0].0.call(NodeIndex(2), HOLD, b"", LONG);
        eventually("the request is there", || nodes[2].1.held.borrow().len() == 1).await;

        nodes[2].0.stop();
        assert_eq!(waiting.await.unwrap_err(), CallError::Disconnected);
        let messenger = nodes[0].0.clone();
        eventually("down", || !messenger.is_alive(NodeIndex(2))).await;
        assert_eq!(messenger.call(NodeIndex(2), ECHO, b"", LONG).await.unwrap_err(), CallError::Unreachable);
        assert!(messenger.is_alive(NodeIndex(1)));

        // The stopped one refuses, in a turn of its own, and keeps nothing alive.
        let refused = Rc::new(RefCell::new(None));
        let sink = refused.clone();
        nodes[2].0.call_with(NodeIndex(0), ECHO, b"", LONG, move |answer| {
            *sink.borrow_mut() = Some(answer.map(<[u8]>::to_vec));
        });
        assert!(refused.borrow().is_none());
        eventually("refused", || refused.borrow().is_some()).await;
        assert_eq!(refused.take(), Some(Err(CallError::Unreachable)));
        let weak = Rc::downgrade(&nodes[2].0);
        nodes.pop();
        eventually("let go", || weak.upgrade().is_none()).await;

        nodes.push(start(quick(), &addresses, 2).await);
        eventually("up again", || messenger.is_alive(NodeIndex(2))).await;
        assert_eq!(&*messenger.call(NodeIndex(2), ECHO, b"back", LONG).await.unwrap(), b"back");
        assert_eq!(*changes.borrow(), [(2, false), (2, true)]);
    });
}

/// Plays node 1 by hand: accepts one connection and agrees to its greeting.
async fn agree(listener: &reactor::net::Listener) -> Connection {
    let connection = listener.accept().await.unwrap();
    let mut greeting = Buf::with_capacity(4096);
    while greeting.len() < HEADER_LEN || frame::decode(&greeting, 4096).is_err() {
        let (result, buf) = connection.recv(greeting).await;
        assert!(result.unwrap() > 0);
        greeting = buf;
    }
    let mut out = Buf::new();
    frame::encode(&mut out, 0, Verb::HELLO.0, RESPONSE, 0, &[]);
    connection.send_all(out).await.0.unwrap();
    connection
}

/// Receives one request and gives its id.
async fn request_id(connection: &Connection) -> u64 {
    let mut buf = Buf::with_capacity(4096);
    loop {
        let (result, received) = connection.recv(buf).await;
        assert!(result.unwrap() > 0);
        buf = received;
        if let Ok((header, _)) = frame::decode(&buf, 4096) {
            return header.id;
        }
    }
}

#[test]
fn frames_may_arrive_in_any_pieces() {
    run(async {
        let addresses = addresses(2);
        let listener = listen((addresses[1], crate::topology::INTERNODE_PORT).into()).await.unwrap();
        let (messenger, _) = start(MessengerConfig { down_after: LONG, ..quick() }, &addresses, 0).await;
        let connection = agree(&listener).await;
        let id = request_id(&connection).await;
        let mut out = Buf::new();
        frame::encode(&mut out, id, Verb::HEARTBEAT.0, RESPONSE, 0, &7u128.to_be_bytes());
        for byte in out.iter() {
            connection.send_all(Buf::from(&[*byte][..])).await.0.unwrap();
            reactor::time::sleep(Duration::from_micros(100)).await;
        }
        eventually("alive", || messenger.is_alive(NodeIndex(1))).await;
        assert_eq!(messenger.schema_version_of(NodeIndex(1)), Some(7));
    });
}

#[test]
fn a_damaged_frame_ends_the_connection_with_a_reason() {
    run(async {
        for (position, expect) in [(2, "header does not match"), (HEADER_LEN + 3, "does not match its CRC")] {
            let addresses = addresses(2);
            let listener = listen((addresses[1], crate::topology::INTERNODE_PORT).into()).await.unwrap();
            let (messenger, _) = start(MessengerConfig { down_after: LONG, ..quick() }, &addresses, 0).await;
            let connection = agree(&listener).await;
            let id = request_id(&connection).await;
            let mut out = Buf::new();
            frame::encode(&mut out, id, Verb::HEARTBEAT.0, RESPONSE, 0, &7u128.to_be_bytes());
            out[position] ^= 0x10;
            connection.send_all(out).await.0.unwrap();
            eventually("a fault", || messenger.counters().faults.get() == 1).await;
            let reason = messenger.last_end(NodeIndex(1)).unwrap();
            assert!(reason.contains(expect), "{reason}");
            assert!(!messenger.is_alive(NodeIndex(1)));
            // It tries again, and works.
            let connection = agree(&listener).await;
            let id = request_id(&connection).await;
            let mut out = Buf::new();
            frame::encode(&mut out, id, Verb::HEARTBEAT.0, RESPONSE, 0, &7u128.to_be_bytes());
            connection.send_all(out).await.0.unwrap();
            eventually("alive", || messenger.is_alive(NodeIndex(1))).await;
        }
    });
}

#[test]
fn a_peer_that_falls_silent_is_down_and_its_requests_end() {
    run(async {
        let addresses = addresses(2);
        let listener = listen((addresses[1], crate::topology::INTERNODE_PORT).into()).await.unwrap();
        let (messenger, _) = start(quick(), &addresses, 0).await;
        let connection = agree(&listener).await;
        let id = request_id(&connection).await;
        let mut out = Buf::new();
        frame::encode(&mut out, id, Verb::HEARTBEAT.0, RESPONSE, 0, &0u128.to_be_bytes());
        connection.send_all(out).await.0.unwrap();
        eventually("alive", || messenger.is_alive(NodeIndex(1))).await;
        let waiting = messenger.call(NodeIndex(1), ECHO, b"", LONG);
        assert_eq!(waiting.await.unwrap_err(), CallError::Disconnected);
        assert!(!messenger.is_alive(NodeIndex(1)));
        drop(connection);
    });
}

#[test]
fn nodes_with_other_lists_are_refused_by_name() {
    run(async {
        let addresses = addresses(3);
        let (first, _) = start(quick(), &addresses, 0).await;
        let mut other = configs(&addresses);
        other[2].rack = "elsewhere".into();
        let other = std::sync::Arc::new(Topology::new(&other, addresses[1]).unwrap());
        let second = Messenger::start(quick(), other, Rc::new(Echo::default())).await.unwrap();
        eventually("refused", || second.last_end(NodeIndex(0)).is_some_and(|end| end.contains("refused"))).await;
        let reason = second.last_end(NodeIndex(0)).unwrap();
        assert!(reason.contains(&addresses[2].to_string()) && !reason.contains(&addresses[1].to_string()), "{reason}");
        assert!(!first.is_alive(NodeIndex(1)) && !second.is_alive(NodeIndex(0)));
    });
}

#[test]
fn schema_versions_travel_until_they_agree() {
    run(async {
        let (_, nodes) = three(MessengerConfig { heartbeat_interval: Duration::from_millis(300), ..quick() }).await;
        let pulls = Rc::new(RefCell::new(Vec::new()));
        let (seen, second) = (pulls.clone(), Rc::downgrade(&nodes[1].0));
        nodes[1].0.on_schema_difference(move |node, version| {
            seen.borrow_mut().push((node, version));
            if let Some(second) = second.upgrade() {
                second.set_schema_version(version);
            }
        });
        nodes[0].0.set_schema_version(42);
        assert!(!nodes[0].0.schema_agrees());
        eventually("the second follows", || nodes[1].0.schema_version() == 42).await;
        nodes[2].0.set_schema_version(42);
        eventually("agreement", || nodes.iter().all(|(messenger, _)| messenger.schema_agrees())).await;
        assert_eq!(pulls.borrow()[0], (NodeIndex(0), 42));
    });
}

#[test]
fn shards_talk_to_their_counterparts_and_share_liveness() {
    const SHARDS: [usize; 3] = [3, 2, 3];
    static READY: AtomicU32 = AtomicU32::new(0);
    let addresses = addresses(3);
    let hosts: Vec<uring::Host> = (0..3)
        .map(|node| {
            let addresses = addresses.clone();
            let config = uring::Config { shards: SHARDS[node], ..uring::Config::default() };
            uring::Host::start(config, move |_| {
                let addresses = addresses.clone();
                async move {
                    let (messenger, _) = start(quick(), &addresses, node).await;
                    eventually("all alive", || (0..3).all(|node| messenger.is_alive(NodeIndex(node)))).await;
                    let (shard, _) = reactor::shard_index();
                    for to in (0..3).filter(|to| *to != node) {
                        let served = messenger.call(NodeIndex(to as u16), SHARD, b"", LONG).await.unwrap();
                        assert_eq!(usize::from(served[0]), shard % SHARDS[to]);
                    }
                    READY.fetch_add(1, Ordering::SeqCst);
                }
            })
            .unwrap()
        })
        .collect();
    run(async {
        let all = SHARDS.iter().sum::<usize>() as u32;
        eventually("every shard has asked every node", || READY.load(Ordering::SeqCst) == all).await;
    });
    for host in hosts {
        host.stop();
        host.join().unwrap();
    }
}
