//! The Rust `scylla` driver works: sessions, prepared statements, pages, batches, compression, errors, metadata.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use orrery_tests::node::Server;
use scylla::client::Compression;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::statement::Consistency;
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{CqlDate, CqlDuration, CqlTimestamp, CqlVarint};

async fn connect(address: SocketAddr) -> Session {
    let session = SessionBuilder::new().known_node_addr(address).build().await.expect("the driver connects");
    let create =
        "CREATE KEYSPACE IF NOT EXISTS scylla WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    session.query_unpaged(create, &[]).await.expect("a keyspace");
    session.use_keyspace("scylla", false).await.expect("the keyspace exists");
    session
}

async fn table(session: &Session, name: &str, columns: &str) {
    session.query_unpaged(format!("DROP TABLE IF EXISTS {name}"), &[]).await.expect("dropped");
    session.query_unpaged(format!("CREATE TABLE {name} ({columns})"), &[]).await.expect("created");
}

fn database_error(error: ExecutionError) -> DbError {
    match error {
        ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _)) => error,
        other => panic!("not the server's answer: {other:?}"),
    }
}

#[tokio::test]
async fn values_come_back() {
    let server = Server::start();
    let session = connect(server.address()).await;
    table(
        &session,
        "typed",
        "p int PRIMARY KEY, a bigint, b text, c blob, d double, e boolean, f timestamp, g date, h duration, i varint",
    )
    .await;
    type Row = (
        i32,
        Option<i64>,
        Option<String>,
        Option<Vec<u8>>,
        Option<f64>,
        Option<bool>,
        Option<CqlTimestamp>,
        Option<CqlDate>,
        Option<CqlDuration>,
        Option<CqlVarint>,
    );
    let rows: Vec<Row> = vec![
        (
            1,
            Some(i64::MIN),
            Some("é".into()),
            Some(vec![0, 255]),
            Some(-0.5),
            Some(true),
            Some(CqlTimestamp(-1)),
            Some(CqlDate(1 << 31)),
            Some(CqlDuration { months: 1, days: 2, nanoseconds: 3 }),
            Some(CqlVarint::from_signed_bytes_be(vec![0xff, 0x00, 0x01])),
        ),
        (2, None, None, None, None, None, None, None, None, None),
    ];
    let insert = session
        .prepare("INSERT INTO typed (p, a, b, c, d, e, f, g, h, i) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")
        .await
        .expect("prepared");
    assert!(insert.is_token_aware());
    for row in &rows {
        session.execute_unpaged(&insert, row).await.expect("inserted");
    }
    let select = session.prepare("SELECT p, a, b, c, d, e, f, g, h, i FROM typed WHERE p = ?").await.expect("prepared");
    for row in &rows {
        let result = session.execute_unpaged(&select, (row.0,)).await.expect("selected");
        let got = result.into_rows_result().expect("rows").single_row::<Row>().expect("one row of these types");
        assert_eq!(&got, row);
    }
}

#[tokio::test]
async fn pages_follow_each_other() {
    let server = Server::start();
    let session = Arc::new(connect(server.address()).await);
    table(&session, "paged", "p int, c int, PRIMARY KEY (p, c)").await;
    let insert = session.prepare("INSERT INTO paged (p, c) VALUES (?, ?)").await.expect("prepared");
    futures::stream::iter(0..3000_i32)
        .map(|c| session.execute_unpaged(&insert, (c % 3, c)))
        .buffer_unordered(128)
        .try_collect::<Vec<_>>()
        .await
        .expect("inserted");
    let mut select = session.prepare("SELECT c FROM paged WHERE p = ?").await.expect("prepared");
    select.set_page_size(7);
    for p in 0..3 {
        let rows = session.execute_iter(select.clone(), (p,)).await.expect("the first page");
        let rows: Vec<(i32,)> = rows.rows_stream::<(i32,)>().expect("integers").try_collect().await.expect("all pages");
        assert_eq!(
            rows.into_iter().map(|(c,)| c).collect::<Vec<_>>(),
            (0..3000).filter(|c| c % 3 == p).collect::<Vec<_>>()
        );
    }
    let all = session.query_iter(Statement::new("SELECT c FROM paged").with_page_size(11), &[]).await.expect("pages");
    let mut all: Vec<(i32,)> = all.rows_stream::<(i32,)>().expect("integers").try_collect().await.expect("all pages");
    all.sort_unstable();
    assert_eq!(all, (0..3000).map(|c| (c,)).collect::<Vec<_>>());
}

#[tokio::test]
async fn batches_and_compression() {
    let server = Server::start();
    connect(server.address()).await;
    let session = SessionBuilder::new()
        .known_node_addr(server.address())
        .compression(Some(Compression::Lz4))
        .use_keyspace("scylla", false)
        .build()
        .await
        .expect("the driver connects with LZ4");
    table(&session, "batched", "p int, c int, v text, PRIMARY KEY (p, c)").await;
    let value = "orrery ".repeat(5000);
    for kind in [BatchType::Logged, BatchType::Unlogged] {
        let mut batch = Batch::new(kind);
        batch.append_statement("INSERT INTO batched (p, c, v) VALUES (?, ?, ?)");
        batch.append_statement("UPDATE batched SET v = 'x' WHERE p = 1 AND c = 2");
        batch.append_statement("DELETE FROM batched WHERE p = 1 AND c = 3");
        let prepared = session.prepare_batch(&batch).await.expect("prepared");
        session.batch(&prepared, ((1, 1, value.as_str()), (), ())).await.expect("applied");
    }
    let result = session.query_unpaged("SELECT c, v FROM batched WHERE p = 1", &[]).await.expect("selected");
    let rows = result.into_rows_result().expect("rows");
    let rows: Vec<(i32, String)> = rows.rows().expect("types").collect::<Result<_, _>>().expect("rows");
    assert_eq!(rows, [(1, value), (2, "x".to_string())]);
}

#[tokio::test]
async fn errors_have_their_codes() {
    let server = Server::start();
    let session = connect(server.address()).await;
    table(&session, "wrong", "p int PRIMARY KEY, v int").await;
    let fail = async |text: &str| {
        let mut statement = Statement::new(text);
        statement.set_consistency(Consistency::One);
        database_error(session.query_unpaged(statement, &[]).await.expect_err("must be refused"))
    };
    assert!(matches!(fail("SELEC 1").await, DbError::SyntaxError));
    assert!(matches!(fail("SELECT * FROM nothing").await, DbError::Invalid));
    assert!(matches!(fail("SELECT x FROM wrong").await, DbError::Invalid));
    assert!(matches!(
        fail("CREATE TABLE wrong (p int PRIMARY KEY)").await,
        DbError::AlreadyExists { keyspace, table } if keyspace == "scylla" && table == "wrong"
    ));
    session
        .query_unpaged(
            "CREATE KEYSPACE IF NOT EXISTS lonely WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
            &[],
        )
        .await
        .expect("more replicas than nodes is allowed");
    session.query_unpaged("CREATE TABLE IF NOT EXISTS lonely.t (p int PRIMARY KEY)", &[]).await.expect("created");
    let mut statement = Statement::new("INSERT INTO lonely.t (p) VALUES (1)");
    statement.set_consistency(Consistency::Quorum);
    let error = database_error(session.query_unpaged(statement, &[]).await.expect_err("one node is no quorum"));
    assert!(
        matches!(error, DbError::Unavailable { consistency: Consistency::Quorum, required: 2, alive: 1 }),
        "{error:?}"
    );
}

#[tokio::test]
async fn metadata_is_ours() {
    let server = Server::start();
    let session = connect(server.address()).await;
    table(&session, "pictured", "a int, b text, c uuid, v blob, PRIMARY KEY ((a, b), c)").await;
    session.await_schema_agreement().await.expect("a cluster of one agrees");
    session.refresh_metadata().await.expect("the system tables answer");
    let state = session.get_cluster_state();
    assert_eq!(state.get_nodes_info().len(), 1);
    let pictured = &state.get_keyspace("scylla").expect("the keyspace").tables["pictured"];
    assert_eq!(pictured.partition_key, ["a", "b"]);
    assert_eq!(pictured.clustering_key, ["c"]);
    assert_eq!(pictured.columns.len(), 4);
    // The driver computes the token itself; the server must find the row it routes to.
    let token = state.compute_token("scylla", "pictured", &(1_i32, "x")).expect("the key's types fit");
    let insert = "INSERT INTO pictured (a, b, c) VALUES (1, 'x', 2b8b1d10-e511-41f1-a6b7-9753ff18e6c3)";
    session.query_unpaged(insert, &[]).await.expect("inserted");
    let rows = session.query_unpaged("SELECT token(a, b) FROM pictured", &[]).await.expect("selected");
    let (of_server,) = rows.into_rows_result().expect("rows").single_row::<(i64,)>().expect("a bigint");
    assert_eq!(of_server, token.value());
}
