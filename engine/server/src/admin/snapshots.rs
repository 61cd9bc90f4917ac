//! `storage_service/snapshots`: taken, listed, measured and cleared.

use std::collections::BTreeMap;
use std::rc::Rc;

use query::Node;
use serde_json::{Value, json};

use super::http::{Method, Request};
use super::{Answer, Refusal, keyspaces};

/// Seconds of `60`, `60s`, `5m`, `2h` or `1d`.
fn seconds(text: &str) -> Result<u64, Refusal> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err(Refusal::Wrong(format!("{text} is not a time: give a number with s, m, h or d"))),
    };
    let number: u64 = digits.parse().map_err(|_| Refusal::Wrong(format!("{text} is not a time")))?;
    Ok(number.saturating_mul(unit))
}

async fn list(node: &Rc<Node>) -> Answer {
    let mut by_tag: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for snapshot in node.snapshots().await? {
        let mut entry = json!({
            "ks": snapshot.keyspace,
            "cf": snapshot.table,
            "live": snapshot.live_bytes,
            "total": snapshot.total_bytes,
        });
        if let Some(created) = snapshot.created_s.filter(|_| snapshot.expires_s.is_some()) {
            entry["created_at"] = json!(created);
            entry["expires_at"] = json!(snapshot.expires_s);
        }
        by_tag.entry(snapshot.tag).or_default().push(entry);
    }
    Ok(by_tag.into_iter().map(|(key, value)| json!({ "key": key, "value": value })).collect())
}

async fn take(node: &Rc<Node>, request: &Request) -> Answer {
    let made = format!("{}", reactor::wall_us() / 1000);
    let tag = request.parameter("tag").unwrap_or(&made);
    let (named, tables) = (request.list("kn"), request.list("cf"));
    if !tables.is_empty() && named.len() != 1 {
        return Err(Refusal::Wrong("only one keyspace allowed when specifying a column family".into()));
    }
    let of: Vec<String> = match named.as_slice() {
        [] => node.schema().keyspaces.keys().cloned().collect(),
        named => named.to_vec(),
    };
    let mut chosen = Vec::new();
    for keyspace in &of {
        chosen.extend(keyspaces::tables(node, keyspace, &tables)?);
    }
    let ttl_s = request.parameter("ttl").map(seconds).transpose()?;
    node.take_snapshot(&chosen, tag, request.flag("sf", false), ttl_s).await?;
    Ok(Value::Null)
}

pub(super) async fn answer(node: &Rc<Node>, request: &Request, path: &[&str]) -> Answer {
    match (request.method, path) {
        (Method::Get, ["snapshots"]) => list(node).await,
        (Method::Post, ["snapshots"]) => take(node, request).await,
        (Method::Delete, ["snapshots"]) => {
            let tables = request.parameter("cf");
            node.clear_snapshots(request.parameter("tag"), &request.list("kn"), tables).await?;
            Ok(Value::Null)
        }
        (Method::Get, ["snapshots", "size", "true"]) => {
            Ok(json!(node.snapshots().await?.iter().map(|snapshot| snapshot.live_bytes).sum::<u64>()))
        }
        _ => Err(Refusal::NotFound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!([seconds("60").ok(), seconds("60s").ok(), seconds("2h").ok()], [Some(60), Some(60), Some(7200)]);
        assert!(seconds("soon").is_err() && seconds("5 weeks").is_err());
    }
}
