//! `system` and what else stands beside the storage: the log, caches, uptime.

use std::rc::Rc;

use query::Node;
use serde_json::{Value, json};

use super::http::{Method, Request};
use super::{Answer, Refusal};

/// A line of the log on somebody's behalf: what operators use to mark a moment.
fn log(request: &Request) -> Answer {
    let message = request.parameter("message").unwrap_or("");
    match request.parameter("level").unwrap_or("info") {
        "error" => tracing::error!(target: "api", "{message}"),
        "warn" => tracing::warn!(target: "api", "{message}"),
        "info" => tracing::info!(target: "api", "{message}"),
        "debug" => tracing::debug!(target: "api", "{message}"),
        "trace" => tracing::trace!(target: "api", "{message}"),
        other => return Err(Refusal::Wrong(format!("Unknown logging level {other}"))),
    }
    Ok(Value::Null)
}

pub(super) async fn answer(node: &Rc<Node>, request: &Request, path: &[&str]) -> Answer {
    match (request.method, path) {
        (Method::Post, ["system", "log"]) => log(request),
        (Method::Get, ["system", "uptime_ms"]) => Ok(json!(node.uptime_ms())),
        (Method::Post, ["system", "drop_sstable_caches"]) => {
            node.on_every_shard("drop-caches", |node| async move { node.storage.drop_caches() }).await?;
            Ok(Value::Null)
        }
        // Permissions are not cached.
        (Method::Post, ["authorization_cache", "reset"]) => Ok(Value::Null),
        // No faults are made in a node that serves.
        (Method::Get, ["v2", "error_injection", "injection"]) => Ok(json!([])),
        (Method::Post | Method::Delete, ["v2", "error_injection", "injection", ..]) => Ok(Value::Null),
        (Method::Get, ["cache_service", "metrics", cache @ ("row" | "key" | "counter"), what]) => {
            let stats = node.on_every_shard("stats", |node| async move { node.storage.stats() }).await?;
            let pick = |stats: &storage::Stats| match *cache {
                "row" => stats.rows,
                "key" => stats.index_cache,
                _ => storage::CacheStats::default(),
            };
            let sum =
                |count: fn(&storage::CacheStats) -> u64| stats.iter().map(|stats| count(&pick(stats))).sum::<u64>();
            let (hits, misses) = (sum(|cache| cache.hits), sum(|cache| cache.misses));
            match *what {
                "hits" => Ok(json!(hits)),
                "requests" => Ok(json!(hits + misses)),
                "hit_rate" if hits + misses > 0 => Ok(json!(hits as f64 / (hits + misses) as f64)),
                "hit_rate" => Ok(json!(0.0)),
                "size" | "capacity" => Ok(json!(sum(|cache| cache.bytes))),
                "entries" => Ok(json!(0)),
                _ => Err(Refusal::NotFound),
            }
        }
        _ => Err(Refusal::NotFound),
    }
}
