//! Queries that took long: `system_traces.node_slow_log`, as Scylla's.

use std::collections::{BTreeMap, BTreeSet};

use types::uuid;

use super::trace::time_index;
use super::watched::Watched;
use crate::node::Node;
use crate::settings::Settings;
use crate::system::Values;
use crate::system::values::{bigint, inet, int, map, set, text};

/// What is slow, and for how long it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slow {
    threshold_us: u64,
    pub ttl_s: u32,
}

impl Slow {
    /// `None` when nothing is to be written.
    pub fn from_settings(settings: &Settings) -> Option<Slow> {
        settings.flag("slow_query_tracing").then(|| Slow {
            threshold_us: settings.number("slow_query_threshold_in_us").max(0.0) as u64,
            ttl_s: settings.number("slow_query_record_ttl_in_seconds").max(0.0) as u32,
        })
    }

    pub fn is_slow(self, duration_us: u64) -> bool {
        duration_us > self.threshold_us
    }

    pub fn rows(
        self,
        node: &Node,
        watched: &Watched,
        user: Option<&str>,
        duration_us: u64,
    ) -> [(&'static str, Values, u32); 2] {
        let started_ms = (watched.started_us / 1000) as i64;
        let start_time = uuid::from_time(watched.started_us as i64, 0, reactor::random());
        let names: BTreeSet<String> =
            watched.executed.borrow().iter().map(|one| format!("{}.{}", one.keyspace, one.table)).collect();
        let here = [
            ("start_time", start_time.to_vec()),
            ("node_ip", inet(node.topology().local().address)),
            ("shard", int(node.shard as i32)),
        ];
        let mut values = BTreeMap::from(here.clone());
        values.extend([
            ("session_id", watched.id().to_vec()),
            ("date", bigint(started_ms)),
            ("command", text(watched.parameters.borrow().get("query").map_or("", String::as_str))),
            ("duration", int(duration_us as i32)),
            ("parameters", map(&watched.parameters.borrow())),
            ("table_names", set(&names.into_iter().collect::<Vec<_>>())),
            ("username", text(user.unwrap_or("anonymous"))),
        ]);
        if let Some(client) = watched.client {
            values.insert("source_ip", inet(client));
        }
        let mut index = time_index(watched);
        index.extend(here);
        [("node_slow_log_time_idx", index, self.ttl_s), ("node_slow_log", values, self.ttl_s)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Origin;

    #[test]
    fn what_is_slow_is_set() {
        let settings = Settings::new(&[]).unwrap();
        assert_eq!(Slow::from_settings(&settings), None);
        for (name, value) in [("slow_query_tracing", "true"), ("slow_query_threshold_in_us", "10")] {
            settings.set(name, value, Origin::Cql).unwrap();
        }
        let slow = Slow::from_settings(&settings).unwrap();
        assert_eq!(slow, Slow { threshold_us: 10, ttl_s: 86_400 });
        assert!(slow.is_slow(11) && !slow.is_slow(10));
    }
}
