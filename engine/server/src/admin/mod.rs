//! The admin API: HTTP with the paths and answers of Scylla's REST API, for `nodetool` and for whoever operates a
//! node; and the metrics, for Prometheus, on an address of their own.
//!
//! Shard 0 listens. What is asked of the node is done on all of its shards before it is answered. Every answer is JSON;
//! a refusal is `{"message": .., "code": ..}` with the same code as its status.

mod cluster;
mod compactions;
mod http;
mod keyspaces;
mod metrics;
mod node_state;
mod snapshots;
mod system;
mod tables;
mod top_partitions;
mod views;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use query::{Node, QueryError};
use reactor::net::{Connection, Listener};
use reactor::{Buf, Group, time};
use serde_json::{Value, json};

use http::{Request, Requests, Response};

/// Connections at a time: some operators and scrapers. One more is closed at once.
const CONNECTIONS_MAX: usize = 64;
/// A connection that asks nothing is closed.
const IDLE_MAX: Duration = Duration::from_secs(300);

/// What a listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Service {
    Api,
    Metrics,
}

/// Why something asked is not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("Not found")]
    NotFound,
    #[error("{0}")]
    Wrong(String),
    #[error("{0}")]
    Failed(String),
}

impl From<QueryError> for Refusal {
    fn from(error: QueryError) -> Self {
        match error.kind {
            ::cql::response::ErrorKind::Invalid => Refusal::Wrong(error.message),
            _ => Refusal::Failed(error.message),
        }
    }
}

impl From<query::Starting> for Refusal {
    fn from(error: query::Starting) -> Self {
        Refusal::Failed(error.to_string())
    }
}

impl From<storage::Error> for Refusal {
    fn from(error: storage::Error) -> Self {
        Refusal::Failed(error.to_string())
    }
}

pub(crate) type Answer = Result<Value, Refusal>;

/// A path's parts, to be matched on.
fn parts(request: &Request) -> Vec<&str> {
    request.segments.iter().map(String::as_str).collect()
}

async fn answer(node: &Rc<Node>, service: Service, request: &Request) -> Response {
    if service == Service::Metrics {
        return metrics::answer(node, request, &parts(request)).await;
    }
    let result = match parts(request).split_first() {
        Some((&"storage_service", rest)) => storage_service(node, request, rest).await,
        Some((&"column_family", ["built_indexes", table])) => views::built_indexes(node, table),
        Some((&"column_family", ["toppartitions", table])) => top_partitions::of_table(node, request, table).await,
        Some((&"column_family", rest)) => tables::answer(node, request, rest).await,
        Some((&"storage_proxy", ["metrics", what, "estimated_histogram"])) => tables::coordinated(node, what).await,
        Some((&"compaction_manager", rest)) => compactions::answer(node, request, rest).await,
        Some((&("gossiper" | "failure_detector" | "snitch" | "endpoint_snitch_info"), _)) => {
            cluster::answer(node, &parts(request), request)
        }
        Some((&("system" | "authorization_cache" | "v2" | "cache_service"), _)) => {
            system::answer(node, request, &parts(request)).await
        }
        _ => Err(Refusal::NotFound),
    };
    match result {
        Ok(Value::Null) => Response { status: 200, content_type: "application/json", body: Vec::new() },
        Ok(value) => Response { status: 200, content_type: "application/json", body: value.to_string().into_bytes() },
        Err(refusal) => refused(&refusal),
    }
}

async fn storage_service(node: &Rc<Node>, request: &Request, rest: &[&str]) -> Answer {
    match rest {
        ["view_build_statuses", keyspace, view] => views::build_statuses(node, keyspace, view),
        ["toppartitions"] => top_partitions::answer(node, request, None).await,
        ["snapshots", ..] => snapshots::answer(node, request, rest).await,
        [one, ..] if keyspaces::is_about(one) => keyspaces::answer(node, request, rest).await,
        _ => node_state::answer(node, request, rest).await,
    }
}

fn refused(refusal: &Refusal) -> Response {
    let status = match refusal {
        Refusal::NotFound => 404,
        Refusal::Wrong(_) => 400,
        Refusal::Failed(_) => 500,
    };
    let body = json!({ "message": refusal.to_string(), "code": status }).to_string().into_bytes();
    Response { status, content_type: "application/json", body }
}

/// Accepts connections for ever.
pub(crate) async fn serve(node: Rc<Node>, listener: Listener, service: Service) {
    let open = Rc::new(Cell::new(0usize));
    loop {
        match listener.accept().await {
            Ok(_) if open.get() >= CONNECTIONS_MAX => {}
            Ok(connection) => {
                let (node, open) = (node.clone(), open.clone());
                open.set(open.get() + 1);
                drop(reactor::spawn(Group::Maintenance, "admin", async move {
                    if let Err(error) = converse(&node, &connection, service).await {
                        tracing::debug!(%error, "an admin connection ended");
                    }
                    let _ = connection.shutdown().await;
                    open.set(open.get() - 1);
                }));
            }
            Err(error) => {
                tracing::warn!(%error, "an admin connection could not be accepted");
                time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

async fn converse(node: &Rc<Node>, connection: &Connection, service: Service) -> std::io::Result<()> {
    let mut requests = Requests::new(connection);
    loop {
        let Ok(next) = time::timeout(IDLE_MAX, requests.next()).await else { return Ok(()) };
        let (response, keep_alive) = match next? {
            None => return Ok(()),
            Some(Ok(request)) => (answer(node, service, &request).await, request.keep_alive),
            Some(Err(error)) => {
                let body = json!({ "message": error.to_string(), "code": error.status() }).to_string().into_bytes();
                (Response { status: error.status(), content_type: "application/json", body }, false)
            }
        };
        let (sent, _) = connection.send_all(Buf::from(response.encode(keep_alive))).await;
        sent?;
        if !keep_alive {
            return Ok(());
        }
    }
}
