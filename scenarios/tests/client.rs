//! The loading client against a small CQL server of the test's own, over real sockets.

#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use cql::frame::{self, FrameBuffer};
use cql::response::{EncodedMetadata, RowsWriter, encode_prepared, encode_void};
use cql::{Compression, Direction, Opcode, Request};
use hwprofiles::quantity::Quantity;
use reactor::net::Connection;
use reactor::{Buf, Group};
use scenarios::client::{Client, ClientError, Outcome, PhaseShare, SharedPhase, TableSpec, Target};
use scenarios::generate::Keys;
use scenarios::{Arrival, Consistency, Mix, Row, Workload};

/// Keeps rows by key, in memory, on one shard.
#[derive(Default)]
struct Server {
    rows: RefCell<BTreeMap<Vec<u8>, Vec<Vec<u8>>>>,
    executed: Cell<u64>,
    /// Answers with an error instead.
    overloaded: Cell<bool>,
    /// So many connections are cut at their next request.
    cuts: Cell<u32>,
    accepted: Cell<u32>,
    /// Tells its clients of so many shards and deals connections out to them; 0: does not.
    shards: u32,
    /// Requests for what another shard owns.
    astray: Cell<u64>,
}

impl Server {
    async fn serve(self: Rc<Self>, addr: SocketAddr) {
        let listener = reactor::net::listen(addr).await.unwrap();
        loop {
            let connection = listener.accept().await.unwrap();
            let shard = self.accepted.get().checked_rem(self.shards).unwrap_or(0);
            self.accepted.set(self.accepted.get() + 1);
            reactor::spawn(Group::Statement, "test server", self.clone().session(connection, shard));
        }
    }

    async fn session(self: Rc<Self>, connection: Connection, shard: u32) {
        let mut frames = FrameBuffer::new(Direction::Request, 1 << 20);
        let mut received = Buf::with_capacity(64 << 10);
        loop {
            received.clear();
            let (result, buf) = connection.recv(received).await;
            received = buf;
            if !matches!(result, Ok(1..)) {
                return;
            }
            if self.cuts.get() > 0 {
                self.cuts.set(self.cuts.get() - 1);
                connection.shutdown().await.unwrap();
                return;
            }
            frames.extend(&received);
            let mut out = Vec::new();
            while let Some((header, body)) = frames.next_frame().unwrap() {
                self.answer(&Request::decode(&header, body).unwrap(), shard, header.stream, &mut out);
            }
            if connection.send_all(Buf::from(out)).await.0.is_err() {
                return;
            }
        }
    }

    fn answer(&self, request: &Request<'_>, shard: u32, stream: i16, out: &mut Vec<u8>) {
        let mut reply = |opcode, body: &dyn Fn(&mut Vec<u8>)| {
            let start = frame::begin(out, opcode, stream);
            body(out);
            frame::finish(out, start, Compression::None).unwrap();
        };
        let none = EncodedMetadata::new(&[]);
        match request {
            Request::Startup(_) => reply(Opcode::Ready, &|_| {}),
            Request::Options if self.shards > 0 => reply(Opcode::Supported, &|out| {
                let (shards, shard) = (self.shards.to_string(), shard.to_string());
                let told: [(&str, &[&str]); 3] = [
                    ("SCYLLA_NR_SHARDS", &[&shards]),
                    ("SCYLLA_SHARD", &[&shard]),
                    ("SCYLLA_SHARDING_IGNORE_MSB", &["12"]),
                ];
                cql::response::encode_supported(out, &told);
            }),
            Request::Prepare { query, .. } => reply(Opcode::Result, &|out| {
                encode_prepared(out, &query.as_bytes()[..6], &none, &[], &none);
            }),
            Request::Execute { .. } if self.overloaded.get() => reply(Opcode::Error, &|out| {
                cql::response::Error::overloaded("too much").encode(out);
            }),
            Request::Execute { id, parameters } => {
                self.executed.set(self.executed.get() + 1);
                let mut values = parameters.values.iter().map(|v| v.bytes().unwrap().to_vec());
                let key = values.next().unwrap();
                if self.shards > 0 && types::shard_of(types::Token::of_key(&key), self.shards, 12) != shard {
                    self.astray.set(self.astray.get() + 1);
                }
                if *id == b"INSERT" {
                    self.rows.borrow_mut().insert(key, values.collect());
                    return reply(Opcode::Result, &|out| encode_void(out));
                }
                let rows = self.rows.borrow();
                reply(Opcode::Result, &|out| {
                    let row = rows.get(&key);
                    let columns = vec![cql::response::ColumnSpec::new("k", "t", "c", types::CqlType::Blob); 5];
                    let mut writer = RowsWriter::begin(out, &EncodedMetadata::new(&columns), true, None);
                    if let Some(row) = row {
                        row.iter().for_each(|cell| writer.cell(out, Some(cell)));
                        writer.end_row();
                    }
                    writer.finish(out);
                });
            }
            Request::Query { query, .. } if query.starts_with("SELECT") => reply(Opcode::Error, &|out| {
                cql::response::Error::invalid("no such table").encode(out);
            }),
            _ => reply(Opcode::Result, &|out| encode_void(out)),
        }
    }
}

fn workload(mix: Mix, keys: Keys, arrival: Arrival) -> Workload {
    Workload {
        mix,
        keys,
        arrival,
        consistency: Consistency::One,
        operations: None,
        duration_ns: None,
        row: Row::STRESS_DEFAULT,
        connections_per_host: 2,
    }
}

fn target(addr: SocketAddr, connections_per_host: u32, patience: Duration) -> Target {
    let table = TableSpec::new("k", 1, Row::STRESS_DEFAULT);
    Target { nodes: vec![addr], table, connections_per_host, shard_aware: false, patience }
}

const PATIENCE: Duration = Duration::from_secs(5);

fn share(workload: Workload) -> PhaseShare {
    PhaseShare { shared: SharedPhase::new(workload), shard: 0, shards: 1, seed: 1, stream: 0, warmup_ns: 0 }
}

/// Runs `test` with a client on one server, both on one shard.
fn with_client<F: Future<Output = ()> + 'static>(port: u16, test: impl FnOnce(Rc<Server>, Client) -> F + 'static) {
    let addr = SocketAddr::from(([127, 0, 0, 1], port));
    with_client_of(Server::default(), target(addr, 2, PATIENCE), test);
}

fn with_client_of<F: Future<Output = ()> + 'static>(
    server: Server,
    target: Target,
    test: impl FnOnce(Rc<Server>, Client) -> F + 'static,
) {
    reactor::uring::block_on(async move {
        let server = Rc::new(server);
        reactor::spawn(Group::Statement, "test server", server.clone().serve(target.nodes[0]));
        scenarios::client::create_schema(&target).await.unwrap();
        test(server, Client::connect(&target, 0, 1).await.unwrap()).await;
    })
    .unwrap();
}

#[test]
fn what_is_written_is_read() {
    with_client(19_311, |server, client| async move {
        let keys = Keys::Sequence { from: 1, to: 5_000 };
        let mut write = workload(Mix::WRITE, keys, Arrival::Closed { threads: 64 });
        write.operations = Some(5_000);
        let recorded = client.run(share(write.clone())).await.unwrap().finish();
        assert_eq!((recorded.operations, recorded.measured), (5_000, 5_000));
        assert_eq!(server.rows.borrow().len(), 5_000);
        assert!(server.rows.borrow().values().all(|row| row.len() == 5 && row.iter().all(|c| c.len() == 34)));

        let read =
            Workload { mix: Mix::READ, operations: Some(3_000), keys: Keys::Uniform { from: 1, to: 5_000 }, ..write };
        let recorded = client.run(share(read)).await.unwrap().finish();
        assert_eq!((recorded.operations, recorded.errors.len()), (3_000, 0));
        assert_eq!(server.executed.get(), 8_000);
    });
}

#[test]
fn an_observer_sees_every_operation_and_the_version_it_read() {
    #[derive(Default)]
    struct History {
        written: RefCell<BTreeMap<u64, u64>>,
        open: Cell<i64>,
        reads: Cell<u64>,
    }
    impl scenarios::client::Observer for History {
        fn began(&self, _: bool, _: u64, _: u64, _: u64) {
            self.open.set(self.open.get() + 1);
        }
        fn ended(&self, _: bool, partition: u64, version: u64, _: u64, _: u64, outcome: Outcome<'_>) {
            self.open.set(self.open.get() - 1);
            match outcome {
                Outcome::Written => drop(self.written.borrow_mut().insert(partition, version)),
                Outcome::Read(found) => {
                    assert_eq!(found, self.written.borrow().get(&partition).copied());
                    self.reads.set(self.reads.get() + 1);
                }
                Outcome::Failed(kind) => panic!("{kind}"),
            }
        }
    }
    with_client(19_312, |_, client| async move {
        let history = Rc::new(History::default());
        // One thread: reads and writes of a partition never overlap.
        let mut mixed = workload(
            Mix { write: 1, read: 1, ..Mix::NOTHING },
            Keys::Uniform { from: 1, to: 50 },
            Arrival::Closed { threads: 1 },
        );
        mixed.operations = Some(2_000);
        client.run_observed(share(mixed), history.clone()).await.unwrap();
        assert_eq!(history.open.get(), 0);
        assert!((800..1200).contains(&history.reads.get()), "{}", history.reads.get());
    });
}

#[test]
fn what_shards_exchange_may_travel() {
    fn travels<T: Send>() {}
    travels::<PhaseShare>();
    travels::<scenarios::Recorder>();
    travels::<Target>();
}

#[test]
fn a_fixed_rate_is_kept_and_time_ends_the_phase() {
    with_client(19_313, |_, client| async move {
        let rate = Quantity::new(2_000.0);
        for arrival in [Arrival::Open { threads: 16, rate }, Arrival::Throttled { threads: 16, rate }] {
            let mut timed = workload(Mix::WRITE, Keys::Sequence { from: 1, to: 1_000 }, arrival);
            timed.duration_ns = Some(500_000_000);
            let recorded = client.run(share(timed)).await.unwrap().finish();
            // Never more than are due; how many fewer depends on the machine.
            assert!((1..=1_001).contains(&recorded.operations), "{}", recorded.operations);
        }
    });
}

#[test]
fn a_connection_that_breaks_is_counted_and_comes_back() {
    with_client(19_317, |server, client| async move {
        let mut write = workload(Mix::WRITE, Keys::Sequence { from: 1, to: 1_000 }, Arrival::Closed { threads: 8 });
        write.duration_ns = Some(2_500_000_000);
        // Both connections at once: the run waits for them rather than ending.
        server.cuts.set(2);
        let recorded = client.run(share(write)).await.unwrap().finish();
        assert_eq!(recorded.errors.keys().collect::<Vec<_>>(), ["connection lost"]);
        // Eight threads; the four of the first connection may have gone over to the second before that broke.
        assert!((8..=12).contains(&recorded.errors["connection lost"]), "{:?}", recorded.errors);
        assert!(recorded.operations > 0);
        assert_eq!(server.accepted.get(), 5, "one for the schema, two, and two again");
    });
}

#[test]
fn a_shard_aware_client_asks_the_owner() {
    for (port, shard_aware) in [(19_318, true), (19_319, false)] {
        let server = Server { shards: 3, ..Server::default() };
        let target = Target { shard_aware, ..target(SocketAddr::from(([127, 0, 0, 1], port)), 4, PATIENCE) };
        with_client_of(server, target, move |server, client| async move {
            // One for the schema; two for each of three shards make four at least.
            assert_eq!(server.accepted.get(), if shard_aware { 1 + 6 } else { 1 + 4 });
            let mut write = workload(Mix::WRITE, Keys::Sequence { from: 1, to: 300 }, Arrival::Closed { threads: 8 });
            write.operations = Some(300);
            client.run(share(write)).await.unwrap();
            assert_eq!(server.executed.get(), 300);
            assert_eq!(server.astray.get() == 0, shard_aware, "{} went astray", server.astray.get());
        });
    }
}

#[test]
fn a_phase_in_which_nothing_succeeds_says_why() {
    with_client(19_314, |server, client| async move {
        server.overloaded.set(true);
        let mut write = workload(Mix::WRITE, Keys::Sequence { from: 1, to: 100 }, Arrival::Closed { threads: 8 });
        write.operations = Some(100_000);
        let error = client.run(share(write)).await.unwrap_err();
        assert!(matches!(&error, ClientError::NothingSucceeds { first, .. } if first == "too much"), "{error}");
        assert!(error.to_string().ends_with("the first one failed with: too much"), "{error}");
    });
}

#[test]
fn a_server_that_is_not_there_is_named() {
    let addr = SocketAddr::from(([127, 0, 0, 1], 19_315));
    let error = reactor::uring::block_on(async move {
        scenarios::client::create_schema(&target(addr, 1, Duration::ZERO)).await.unwrap_err()
    })
    .unwrap();
    assert_eq!(error.to_string(), "cannot reach 127.0.0.1:19315");
}

/// Not a check: `cargo test --release -p orrery-scenarios --test client -- --ignored --nocapture` on an idle machine.
#[test]
#[ignore = "a measurement, for an idle machine with two cores"]
fn rate_of_the_client_on_one_core() {
    use reactor::uring::{Config, Host};
    let addr = SocketAddr::from(([127, 0, 0, 1], 19_316));
    let on = |cpu| Config { cpus: Some(vec![cpu]), ..Config::default() };
    let server = Host::start(on(0), move |_| async move {
        Rc::new(Server::default()).serve(addr).await;
    })
    .unwrap();
    let recorded = reactor::uring::block_on_with(on(1), move || async move {
        let client = Client::connect(&target(addr, 8, PATIENCE), 0, 1).await.unwrap();
        let keys = Keys::Uniform { from: 1, to: 100 };
        let mut write = workload(Mix::WRITE, keys, Arrival::Closed { threads: 64 });
        write.duration_ns = Some(5_000_000_000);
        client.run(share(write)).await.unwrap().finish()
    })
    .unwrap();
    println!("{:.0} op/s, {:?}", recorded.throughput, recorded.latency);
    server.stop();
    server.join().unwrap();
}
