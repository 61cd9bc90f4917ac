//! Traces: `system_traces.sessions` and `events`, with the columns that Cassandra and Scylla share and Scylla's own.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use types::uuid;

use super::slow::Slow;
use super::watched::Watched;
use crate::node::Node;
use crate::system::Values;
use crate::system::values::{bigint, inet, int, map, text};

/// A day: Cassandra's `tracetype_query_ttl`.
pub(super) const TTL_S: u32 = 24 * 60 * 60;

/// What of the indexes by time is one partition, in milliseconds.
const MINUTE_MS: i64 = 60_000;

pub(super) struct Trace<'a> {
    watched: &'a Watched,
    user: Option<&'a str>,
    duration_us: u64,
    answer_bytes: usize,
    /// Where clients connect to the node.
    coordinator: SocketAddr,
}

/// The columns by which a partition of minutes finds a row.
pub(super) fn time_index(watched: &Watched) -> Values {
    let started_ms = (watched.started_us / 1000) as i64;
    BTreeMap::from([
        ("minute", bigint(started_ms - started_ms % MINUTE_MS)),
        ("started_at", bigint(started_ms)),
        ("session_id", watched.id().to_vec()),
    ])
}

impl<'a> Trace<'a> {
    pub fn new(
        node: &'a Node,
        watched: &'a Watched,
        user: Option<&'a str>,
        duration_us: u64,
        answer_bytes: usize,
    ) -> Self {
        Self { watched, user, duration_us, answer_bytes, coordinator: node.topology().local().native_addr() }
    }

    /// Rows by table, the session last: who sees it sees all. Those of a slow query live as long as its record.
    pub fn rows(&self, node: &Node, slow: Option<Slow>) -> Vec<(&'static str, Values, u32)> {
        let ttl_s = slow.map_or(TTL_S, |slow| slow.ttl_s);
        let mut last_us = 0;
        let mut rows = Vec::new();
        for event in self.watched.events.borrow().iter() {
            // Steps keep their order, also those of one microsecond.
            last_us = (self.watched.started_us + event.elapsed_us).max(last_us + 1);
            let event_id = uuid::from_time(last_us as i64, 0, reactor::random());
            let values = BTreeMap::from([
                ("session_id", self.watched.id().to_vec()),
                ("event_id", event_id.to_vec()),
                ("activity", text(&event.activity)),
                ("source", inet(self.coordinator.ip())),
                ("source_port", int(self.coordinator.port().into())),
                ("source_elapsed", int(event.elapsed_us as i32)),
                ("thread", text(format!("shard {}", node.shard))),
                ("scylla_parent_id", bigint(0)),
                ("scylla_span_id", bigint(1)),
            ]);
            rows.push(("events", values, ttl_s));
        }
        rows.push(("sessions_time_idx", time_index(self.watched), ttl_s));
        rows.push(("sessions", self.session(), ttl_s));
        rows
    }

    fn session(&self) -> Values {
        let watched = self.watched;
        let mut values = BTreeMap::from([
            ("session_id", watched.id().to_vec()),
            ("command", text("QUERY")),
            ("coordinator", inet(self.coordinator.ip())),
            ("coordinator_port", int(self.coordinator.port().into())),
            ("duration", int(self.duration_us as i32)),
            ("parameters", map(&watched.parameters.borrow())),
            ("request", text(watched.request.get())),
            ("request_size", int(watched.request_bytes as i32)),
            ("response_size", int(self.answer_bytes as i32)),
            ("started_at", bigint((watched.started_us / 1000) as i64)),
            ("username", text(self.user.unwrap_or("anonymous"))),
        ]);
        if let Some(client) = watched.client {
            values.insert("client", inet(client));
        }
        values
    }
}
