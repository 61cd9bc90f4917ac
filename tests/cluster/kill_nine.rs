//! `kill -9` loses nothing that was acknowledged: a node in `batch` mode is killed twenty times under concurrent
//! writes, and started again on the same data.
//!
//! After each restart the whole table is read and compared with what the writers know:
//! 1. every acknowledged insert is there with its value,
//! 2. every row whose delete was acknowledged is gone,
//! 3. a register that is written again and again holds the last acknowledged version or a later attempted one,
//! 4. nothing is there that nobody wrote,
//! 5. a logged batch over several partitions has happened as a whole or not at all.
//!
//! A write whose answer never came may have happened or not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::TryStreamExt;
use orrery_tests::node::{Server, Settings, Site, foreign};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::ExecutionError;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::unprepared::Statement;

const ROUNDS: usize = 20;
const WRITERS: usize = 24;
/// Partitions of a batch.
const TOGETHER: usize = 12;
/// Large enough that a round's writes span many commit log blocks and some are torn by the kill.
const VALUE_BYTES: usize = 700;

/// What is known of one row. The attempted value stays possible until a later write of the same row is acknowledged.
#[derive(Clone, Debug, Default)]
struct Row {
    /// The last acknowledged state, `None` for an absent row.
    acknowledged: Option<i64>,
    /// The states of later attempts that got no answer.
    possible: Vec<Option<i64>>,
}

impl Row {
    fn allows(&self, seen: Option<i64>) -> bool {
        seen == self.acknowledged || self.possible.contains(&seen)
    }
}

type Known = BTreeMap<i64, Row>;

/// The value that belongs to a version of a key; anything else was invented or torn.
fn value(key: i64, version: i64) -> String {
    let word = format!("{key}:{version};");
    word.repeat(VALUE_BYTES / word.len() + 1)
}

struct Client {
    session: Session,
    insert: PreparedStatement,
    delete: PreparedStatement,
}

impl Client {
    async fn connect(server: &Server) -> Client {
        let session =
            SessionBuilder::new().known_node_addr(server.address()).build().await.expect("the driver connects");
        for text in [
            "CREATE KEYSPACE IF NOT EXISTS killed WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
            "CREATE TABLE IF NOT EXISTS killed.t (key bigint PRIMARY KEY, version bigint, value text)",
            "CREATE TABLE IF NOT EXISTS killed.together (key bigint PRIMARY KEY, version bigint)",
        ] {
            session.query_unpaged(text, &[]).await.expect("the schema");
        }
        let prepare = async |text: &str| session.prepare(text).await.expect("prepared");
        let insert = prepare("INSERT INTO killed.t (key, version, value) VALUES (?, ?, ?)").await;
        let delete = prepare("DELETE FROM killed.t WHERE key = ?").await;
        Client { session, insert, delete }
    }

    async fn apply(&self, key: i64, state: Option<i64>) -> Result<(), ExecutionError> {
        match state {
            Some(version) => {
                self.session.execute_unpaged(&self.insert, (key, version, value(key, version))).await.map(drop)
            }
            None => self.session.execute_unpaged(&self.delete, (key,)).await.map(drop),
        }
    }

    /// The same version for every key, by one batch.
    async fn apply_together(&self, version: i64) -> Result<(), ExecutionError> {
        let insert = |key| format!("INSERT INTO killed.together (key, version) VALUES ({key}, {version});");
        let batch: String = (0..TOGETHER).map(insert).collect();
        self.session.query_unpaged(format!("BEGIN BATCH {batch} APPLY BATCH"), &[]).await.map(drop)
    }

    /// The version that all keys have. A batch that was under way is replayed soon after the start.
    async fn together(&self) -> Option<i64> {
        loop {
            let all = self.session.query_unpaged("SELECT version FROM killed.together", &[]).await.expect("a page");
            let all = all.into_rows_result().expect("rows");
            let versions: Vec<i64> = all.rows::<(i64,)>().expect("versions").map(|row| row.expect("a row").0).collect();
            match versions.as_slice() {
                [] => return None,
                [first, rest @ ..] if rest.len() + 1 == TOGETHER && rest.iter().all(|other| other == first) => {
                    return Some(*first);
                }
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    }

    async fn table(&self) -> BTreeMap<i64, i64> {
        let all = Statement::new("SELECT key, version, value FROM killed.t").with_page_size(500);
        let rows = self.session.query_iter(all, &[]).await.expect("the first page");
        let rows: Vec<(i64, i64, String)> =
            rows.rows_stream().expect("the table's types").try_collect().await.expect("all pages");
        let mut seen = BTreeMap::new();
        for (key, version, text) in rows {
            assert_eq!(text, value(key, version), "key {key} holds a value that nobody wrote");
            assert!(seen.insert(key, version).is_none(), "key {key} came twice");
        }
        seen
    }
}

/// Writes until it gets no answer, and returns why. Keys are the writer's own, so its writes of one key follow each other.
async fn write(
    client: Arc<Client>,
    known: Arc<Mutex<Known>>,
    acknowledged: Arc<AtomicUsize>,
    writer: usize,
    round: usize,
) -> ExecutionError {
    let mut step = 0;
    loop {
        let fresh = ((round * 1_000_000 + step) * WRITERS + writer) as i64 + 1_000_000;
        // In turn: a new row, the writer's register, a new row, the delete of the row before.
        let (key, state) = match step % 4 {
            0 | 2 => (fresh, Some(step as i64)),
            1 => (writer as i64, Some((round * 1_000_000 + step) as i64)),
            _ => (fresh - WRITERS as i64, None),
        };
        known.lock().expect("no writer panics").entry(key).or_default().possible.push(state);
        if let Err(error) = client.apply(key, state).await {
            return error;
        }
        known.lock().expect("no writer panics").insert(key, Row { acknowledged: state, possible: Vec::new() });
        acknowledged.fetch_add(1, Ordering::Relaxed);
        step += 1;
    }
}

/// Batches until one gets no answer; gives the last version that was acknowledged.
async fn write_together(client: Arc<Client>, first: i64) -> i64 {
    let mut version = first;
    while client.apply_together(version + 1).await.is_ok() {
        version += 1;
    }
    version
}

/// The version of the batches after a restart: the last acknowledged, or the one that was under way.
async fn check_together(client: &Client, acknowledged: i64, round: usize) -> i64 {
    let seen = tokio::time::timeout(Duration::from_secs(60), client.together()).await;
    let seen = seen.unwrap_or_else(|_| panic!("after round {round}, a batch has happened in part")).unwrap_or(0);
    assert!(
        seen == acknowledged || seen == acknowledged + 1,
        "after round {round}, batch {acknowledged} was acknowledged, and {seen} is there"
    );
    seen
}

/// Compares the table with what is known; what is seen after a restart is durable and becomes the known state.
fn compare(seen: &BTreeMap<i64, i64>, known: &mut Known, round: usize) {
    for (key, row) in known.iter_mut() {
        let seen = seen.get(key).copied();
        assert!(row.allows(seen), "after round {round}, key {key} is {seen:?}, but its writer knows {row:?}");
        *row = Row { acknowledged: seen, possible: Vec::new() };
    }
    for (key, version) in seen {
        assert!(known.contains_key(key), "after round {round}, nobody wrote key {key}, version {version}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_kills_lose_nothing() {
    if foreign().is_some() {
        eprintln!("not run: it kills its server, and ORRERY_TEST_SERVER names another's");
        return;
    }
    let site = Site::new();
    // Memtables this small are flushed several times a run: recovery meets SSTables, whole and half-written, too.
    let node = site.node(1, 1, Settings { commitlog_sync: "batch", memtable_mib: 2, ..Settings::default() });
    let known = Arc::new(Mutex::new(Known::new()));
    let (mut total, mut batch) = (0, 0);
    for round in 0..ROUNDS {
        let server = Server::start_node(&node);
        let client = Arc::new(Client::connect(&server).await);
        compare(&client.table().await, &mut known.lock().expect("no writer panics"), round);
        batch = check_together(&client, batch, round).await;

        let batches = tokio::spawn(write_together(client.clone(), batch));
        let acknowledged = Arc::new(AtomicUsize::new(0));
        let mut writers = tokio::task::JoinSet::new();
        for writer in 0..WRITERS {
            writers.spawn(write(client.clone(), known.clone(), acknowledged.clone(), writer, round));
        }
        // The moment of the kill moves from round to round, from the first writes to well within a round.
        let enough = 1 + round * 97 % 1500;
        while acknowledged.load(Ordering::Relaxed) < enough {
            tokio::time::sleep(Duration::from_millis(1)).await;
            if let Some(ended) = writers.try_join_next() {
                panic!("round {round}: before the kill, a writer got {:?}", ended.expect("no writer panics"));
            }
        }
        server.kill();
        while writers.join_next().await.is_some() {}
        batch = batches.await.expect("no writer panics");
        total += acknowledged.load(Ordering::Relaxed);
    }
    let server = Server::start_node(&node);
    let client = Client::connect(&server).await;
    compare(&client.table().await, &mut known.lock().expect("no writer panics"), ROUNDS);
    check_together(&client, batch, ROUNDS).await;
    eprintln!("{ROUNDS} kills, {total} acknowledged writes, none lost");
}
