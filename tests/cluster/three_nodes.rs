//! Three real nodes are one cluster: schema agreement, RF 3 at QUORUM with a node killed, the errors when too few are
//! left, and nothing acknowledged lost when they come back.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use orrery_tests::node::{CQL_PORT, Node, Server, Settings, Site, foreign};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::policies::retry::FallthroughRetryPolicy;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;

/// How long what "takes a moment" may take: far beyond it, so only a failure meets it.
const PATIENCE: Duration = Duration::from_secs(60);

struct Cluster {
    nodes: Vec<Node>,
    running: Vec<Option<Server>>,
    /// Its folder lives as long as the nodes do.
    _site: Site,
}

impl Cluster {
    fn start() -> Cluster {
        let site = Site::new();
        // Two nodes are killed before either is back: what is acknowledged has to be on their disks.
        let settings = Settings { shards: 1, commitlog_sync: "batch", ..Settings::default() };
        let nodes: Vec<Node> = (1..=3).map(|n| site.node(n, 3, settings)).collect();
        let mut running: Vec<Server> = nodes.iter().map(Server::spawn).collect();
        running.iter_mut().for_each(Server::await_ready);
        Cluster { nodes, running: running.into_iter().map(Some).collect(), _site: site }
    }

    fn kill(&mut self, n: usize) {
        self.running[n - 1].take().expect("the node runs").kill();
    }

    fn restart(&mut self, n: usize) {
        self.running[n - 1] = Some(Server::start_node(&self.nodes[n - 1]));
    }

    /// A session whose requests all go through node `n`.
    async fn through(&self, n: usize) -> Session {
        let address = SocketAddr::from((self.nodes[n - 1].address, CQL_PORT));
        let only = AllowListHostFilter::new([address]).expect("an address");
        SessionBuilder::new()
            .known_node_addr(address)
            .host_filter(Arc::new(only))
            .build()
            .await
            .expect("the driver connects")
    }
}

fn statement(text: &str, consistency: Consistency) -> Statement {
    let mut statement = Statement::new(text);
    statement.set_consistency(consistency);
    statement.set_retry_policy(Some(Arc::new(FallthroughRetryPolicy::new())));
    statement
}

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "not within {PATIENCE:?}: {what}");
}

/// All three nodes see three nodes and the same schema version.
async fn agreement(cluster: &Cluster) {
    let mut sessions = Vec::new();
    for n in 1..=3 {
        sessions.push(cluster.through(n).await);
    }
    eventually("the nodes see each other and agree on the schema", async || {
        let mut versions = Vec::new();
        for session in &sessions {
            for (text, several) in
                [("SELECT schema_version FROM system.local", false), ("SELECT schema_version FROM system.peers", true)]
            {
                let Ok(result) = session.query_unpaged(text, &[]).await else { return false };
                let rows = result.into_rows_result().expect("rows");
                let found: Vec<(Option<uuid::Uuid>,)> =
                    rows.rows().expect("a version").collect::<Result<_, _>>().expect("rows");
                if found.len() != if several { 2 } else { 1 } {
                    return false;
                }
                versions.extend(found);
            }
        }
        versions[0].0.is_some() && versions.iter().all(|version| *version == versions[0])
    })
    .await;
}

async fn create(session: &Session) {
    for text in [
        "CREATE KEYSPACE ring WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 3}",
        "CREATE TABLE ring.t (p int PRIMARY KEY, v int)",
    ] {
        session.query_unpaged(text, &[]).await.expect("the schema");
    }
}

async fn write(session: &Session, keys: std::ops::Range<i32>, level: Consistency) -> Result<(), ExecutionError> {
    let mut insert =
        session.prepare(statement("INSERT INTO ring.t (p, v) VALUES (?, ?)", level)).await.expect("prepared");
    insert.set_is_idempotent(true);
    futures::stream::iter(keys)
        .map(|p| session.execute_unpaged(&insert, (p, p * 2)))
        .buffer_unordered(32)
        .try_for_each(async |_| Ok(()))
        .await
}

async fn read(session: &Session, keys: std::ops::Range<i32>, level: Consistency) -> Result<(), ExecutionError> {
    let select = session.prepare(statement("SELECT v FROM ring.t WHERE p = ?", level)).await.expect("prepared");
    for p in keys {
        let result = session.execute_unpaged(&select, (p,)).await?;
        let found = result.into_rows_result().expect("rows").maybe_first_row::<(i32,)>().expect("an integer");
        assert_eq!(found, Some((p * 2,)), "key {p} at {level:?}");
    }
    Ok(())
}

/// A plain connection that has asked to be told when nodes come and go, as drivers do.
struct Listening(TcpStream);

impl Listening {
    fn to(node: &Node) -> Listening {
        let stream = TcpStream::connect((node.address, CQL_PORT)).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut listening = Listening(stream);
        // STARTUP with CQL_VERSION, and REGISTER for one kind of event; each is answered by READY.
        for (opcode, body) in [(1, &b"\0\x01\0\x0bCQL_VERSION\0\x053.0.0"[..]), (11, b"\0\x01\0\x0dSTATUS_CHANGE")] {
            let mut frame = vec![4, 0, 0, 0, opcode];
            frame.extend((body.len() as u32).to_be_bytes());
            frame.extend(body);
            listening.0.write_all(&frame).expect("the request leaves");
            assert_eq!(listening.frame().0, 2, "READY");
        }
        listening
    }

    fn frame(&mut self) -> (u8, Vec<u8>) {
        let mut header = [0; 9];
        self.0.read_exact(&mut header).expect("a frame in time");
        let len = u32::from_be_bytes([header[5], header[6], header[7], header[8]]);
        let mut body = vec![0; len as usize];
        self.0.read_exact(&mut body).expect("its body");
        (header[4], body)
    }

    /// Waits until it is told so of a node; other news is passed over.
    fn hears(&mut self, state: &str, of: Ipv4Addr) {
        let mut told = [&b"\0\x0dSTATUS_CHANGE\0"[..], &[state.len() as u8], state.as_bytes(), &[4]].concat();
        told.extend(of.octets());
        loop {
            let (opcode, body) = self.frame();
            if opcode == 12 && body.starts_with(&told) {
                return;
            }
        }
    }
}

/// Must be refused: as unavailable once the failure is noticed; before that a replica fails or does not answer in time.
#[track_caller]
fn too_few(outcome: Result<(), ExecutionError>) {
    match outcome {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
            DbError::Unavailable { .. }
            | DbError::WriteTimeout { .. }
            | DbError::ReadTimeout { .. }
            | DbError::WriteFailure { .. }
            | DbError::ReadFailure { .. },
            _,
        ))) => {}
        other => panic!("too few replicas were left, and the answer is {other:?}"),
    }
}

#[tokio::test]
async fn quorum_survives_one_node() {
    if foreign().is_some() {
        eprintln!("not run: it kills servers, and ORRERY_TEST_SERVER names another's");
        return;
    }
    let mut cluster = Cluster::start();
    let first = cluster.through(1).await;
    create(&first).await;
    agreement(&cluster).await;

    write(&first, 0..500, Consistency::Quorum).await.expect("three nodes are a quorum");
    write(&first, 500..600, Consistency::All).await.expect("all three are there");
    for n in 1..=3 {
        let session = cluster.through(n).await;
        read(&session, 0..600, Consistency::Quorum).await.expect("every node coordinates");
        read(&session, 500..600, Consistency::One).await.expect("what ALL wrote is on each node");
    }

    let mut listening = Listening::to(&cluster.nodes[0]);
    cluster.kill(3);
    listening.hears("DOWN", cluster.nodes[2].address);
    let second = cluster.through(2).await;
    write(&first, 600..1000, Consistency::Quorum).await.expect("two nodes are a quorum");
    read(&second, 0..1000, Consistency::Quorum).await.expect("two nodes are a quorum");
    too_few(write(&first, 0..1, Consistency::All).await);
    eventually("the coordinator notices the dead node", async || {
        let outcome = write(&first, 0..1, Consistency::All).await;
        matches!(
            outcome,
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(
                DbError::Unavailable { consistency: Consistency::All, required: 3, alive: 2 },
                _
            )))
        )
    })
    .await;

    cluster.kill(2);
    too_few(write(&first, 0..1, Consistency::Quorum).await);
    too_few(read(&first, 0..1, Consistency::Quorum).await);
    write(&first, 1000..1010, Consistency::One).await.expect("one node is enough for ONE");

    cluster.restart(2);
    cluster.restart(3);
    listening.hears("UP", cluster.nodes[2].address);
    agreement(&cluster).await;
    for n in 1..=3 {
        let session = cluster.through(n).await;
        eventually("the cluster is whole again", async || write(&session, 0..1, Consistency::All).await.is_ok()).await;
        read(&session, 0..1000, Consistency::Quorum).await.expect("acknowledged writes are there");
    }
}

#[tokio::test]
async fn a_schema_change_reaches_a_node_that_was_down() {
    if foreign().is_some() {
        eprintln!("not run: it kills servers, and ORRERY_TEST_SERVER names another's");
        return;
    }
    let mut cluster = Cluster::start();
    let first = cluster.through(1).await;
    agreement(&cluster).await;
    cluster.kill(3);
    create(&first).await;
    write(&first, 0..100, Consistency::Quorum).await.expect("two nodes are a quorum");
    cluster.restart(3);
    agreement(&cluster).await;
    let third = cluster.through(3).await;
    read(&third, 0..100, Consistency::Quorum).await.expect("the node knows the table now");
}
