//! A real node joins a real cluster of one, then one of two: its data, what operators and drivers see of it, and what
//! is refused.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use orrery_tests::node::{CQL_PORT, Node, Server, Settings, Site};
use orrery_tests::{binary, python};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::policies::host_filter::AllowListHostFilter;
use scylla::statement::Consistency;
use scylla::statement::unprepared::Statement;

const ROWS: i32 = 2000;
/// How long what "takes a moment" may take. Drivers that are not told look for new nodes once a minute.
const PATIENCE: Duration = Duration::from_secs(30);

fn nodetool(node: &Node, arguments: &[&str]) -> String {
    let mut command = Command::new(binary::orrery());
    command.args(["nodetool", "-h", &node.address.to_string()]).args(arguments);
    let output = command.env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("the binary starts");
    let text = python::both(&output);
    assert!(output.status.success(), "nodetool {arguments:?}\n{text}");
    text
}

/// A session whose requests all go through `node`.
async fn through(node: &Node) -> Session {
    let address = SocketAddr::from((node.address, CQL_PORT));
    let only = AllowListHostFilter::new([address]).expect("an address");
    let builder = SessionBuilder::new().known_node_addr(address).host_filter(Arc::new(only));
    builder.build().await.expect("the driver connects")
}

async fn write(session: &Session, keys: std::ops::Range<i32>) {
    let mut insert = Statement::new("INSERT INTO grown.t (p, v) VALUES (?, ?)");
    insert.set_consistency(Consistency::Quorum);
    let insert = session.prepare(insert).await.expect("prepared");
    let writes = futures::stream::iter(keys).map(|p| session.execute_unpaged(&insert, (p, p * 2)));
    writes.buffer_unordered(32).try_for_each(async |_| Ok(())).await.expect("written");
}

async fn count(session: &Session) -> i64 {
    let mut select = Statement::new("SELECT count(*) FROM grown.t");
    select.set_consistency(Consistency::All);
    let result = session.query_unpaged(select, &[]).await.expect("counted");
    result.into_rows_result().expect("rows").single_row::<(i64,)>().expect("a count").0
}

async fn eventually(what: &str, mut check: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !check().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "not within {PATIENCE:?}: {what}");
}

#[tokio::test]
async fn a_cluster_grows_from_one_node_to_three() {
    let site = Site::new();
    let settings = Settings::default();
    let first = site.node(1, 1, settings);
    let _server = Server::start_node(&first);
    let address = SocketAddr::from((first.address, CQL_PORT));
    let session = SessionBuilder::new().known_node_addr(address).build().await.expect("the driver connects");
    for text in [
        "CREATE KEYSPACE grown WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}",
        "CREATE TABLE grown.t (p int PRIMARY KEY, v int)",
    ] {
        session.query_unpaged(text, &[]).await.expect("the schema");
    }
    write(&session, 0..ROWS).await;
    session.query_unpaged("DELETE FROM grown.t WHERE p = 0", &[]).await.expect("deleted");

    let second = site.joining(2, 1, settings);
    // While it joins, the load goes on.
    let load = async {
        for from in (ROWS..2 * ROWS).step_by(100) {
            write(&session, from..from + 100).await;
        }
    };
    let starting = {
        let second = second.clone();
        tokio::task::spawn_blocking(move || Server::start_node(&second))
    };
    let ((), server) = tokio::join!(load, starting);
    let second_server = server.expect("the node starts");
    let rows = i64::from(2 * ROWS - 1);
    assert_eq!(count(&through(&second).await).await, rows);
    let status = nodetool(&first, &["status"]);
    for node in [&first, &second] {
        assert!(status.contains(&format!("UN  {}", node.address)), "{status}");
    }
    assert_eq!(nodetool(&second, &["status", "grown"]).matches("UN  ").count(), 2);
    eventually("the driver knows the new node", async || session.get_cluster_state().get_nodes_info().len() == 2).await;

    // What the first has no more is gone, and nothing is missed.
    nodetool(&first, &["cleanup", "grown"]);
    assert_eq!(count(&through(&first).await).await, rows);
    write(&through(&second).await, 2 * ROWS..2 * ROWS + 100).await;

    // Again from its folder alone, and a third by way of the second.
    second_server.stop();
    let again = Node { joins: None, cluster: vec![second.address], ..second.clone() };
    let _again = Server::start_node(&again);
    eventually("the nodes see each other", async || {
        nodetool(&first, &["status"]).matches("UN  ").count() == 2
            && nodetool(&second, &["status"]).matches("UN  ").count() == 2
    })
    .await;
    let third = site.joining(3, 2, settings);
    let _third = Server::start_node(&third);
    let rows = rows + 100;
    for node in [&first, &second, &third] {
        assert_eq!(count(&through(node).await).await, rows, "through {}", node.address);
        assert_eq!(nodetool(node, &["status"]).matches("UN  ").count(), 3);
    }
}

#[tokio::test]
async fn what_is_refused_is_said_in_a_sentence() {
    let site = Site::new();
    let settings = Settings::default();
    let nodes: Vec<Node> = (1..=2).map(|n| site.node(n, 2, settings)).collect();
    let mut servers: Vec<Server> = nodes.iter().map(Server::spawn).collect();
    servers.iter_mut().for_each(Server::await_ready);
    let check = |node: &Node, sentence: &str| {
        let said = Server::spawn(node).await_failure();
        // Where a line of it ends depends on how long the addresses are.
        let unwrapped: Vec<&str> = said.split_whitespace().filter(|word| *word != "│").collect();
        assert!(unwrapped.join(" ").contains(sentence), "{said}");
    };
    check(&site.joining(9, 8, settings), "give --join the address of a node");
    let mut stranger = site.joining(9, 1, settings);
    stranger.arguments = vec!["--cluster-name".into(), "Another".into()];
    check(&stranger, "this cluster is called Orrery");
    servers.pop().expect("two run").kill();
    let down = format!("{} is down", nodes[1].address);
    eventually("the node is seen to be down", async || nodetool(&nodes[0], &["status"]).contains("DN  ")).await;
    check(&site.joining(9, 1, settings), &down);
}
