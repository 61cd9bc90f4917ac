//! What a shard's coordinator counts, as the metrics tell it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use cql::Consistency;
use cql::request::Parameters;
use storage::Histogram;

use crate::node::Node;
use crate::plan::{ModifyKind, Plan};

/// Upper ends of the classes of how far clients' timestamps are from the node's clock, in microseconds: from a
/// millisecond to a minute, each four times the last.
pub const DRIFT_CLASSES_US: [u64; 9] =
    [1_000, 4_000, 16_000, 64_000, 256_000, 1_024_000, 4_096_000, 16_384_000, 65_536_000];

#[derive(Default)]
pub struct Counts {
    pub reads: Cell<u64>,
    pub inserts: Cell<u64>,
    pub updates: Cell<u64>,
    pub deletes: Cell<u64>,
    pub batches: Cell<u64>,
    pub statements_in_batches: Cell<u64>,
    pub requests_served: Cell<u64>,
    pub connections: Cell<u64>,
    pub connections_open: Cell<u64>,
    /// By the level's code.
    writes: [Cell<u64>; Consistency::ALL.len()],
    drift: Cell<Drift>,
    /// By [`Coordinated`].
    latencies: [RefCell<Latency>; Coordinated::ALL.len()],
    /// Of errors that were answered, by type.
    errors: RefCell<BTreeMap<&'static str, u64>>,
    /// What happens too seldom to have a field, by the metric's name without its prefix.
    named: RefCell<BTreeMap<&'static str, u64>>,
}

/// What a coordinator does for statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coordinated {
    /// Of one partition.
    Read,
    Write,
    /// Of a range of partitions.
    Scan,
}

impl Coordinated {
    pub const ALL: [Coordinated; 3] = [Coordinated::Read, Coordinated::Write, Coordinated::Scan];

    /// As Cassandra and ScyllaDB name it.
    pub fn name(self) -> &'static str {
        match self {
            Coordinated::Read => "read",
            Coordinated::Write => "write",
            Coordinated::Scan => "range",
        }
    }
}

/// How long coordinators took, until enough replicas had answered, failed or been waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latency {
    /// In microseconds.
    pub classes: Histogram,
    pub sum_us: u64,
}

/// How far clients' timestamps are from the clock here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drift {
    pub count: u64,
    pub sum_us: u64,
    /// Not cumulative; beyond the last class only `count` tells.
    pub classes: [u64; DRIFT_CLASSES_US.len()],
}

/// A copy, to be sent to another shard.
#[derive(Clone, Debug, Default)]
pub struct CountsView {
    pub plain: Vec<(&'static str, u64)>,
    pub connections_open: u64,
    pub errors: BTreeMap<&'static str, u64>,
    pub named: BTreeMap<&'static str, u64>,
    pub writes: Vec<(Consistency, u64)>,
    pub drift: Drift,
    /// By [`Coordinated`].
    pub latencies: [Latency; Coordinated::ALL.len()],
}

fn add(cell: &Cell<u64>, n: u64) {
    cell.set(cell.get() + n);
}

impl Counts {
    /// One more of what `name` counts, such as `cql_replication_strategy_warn_list_violations`.
    pub fn note(&self, name: &'static str) {
        *self.named.borrow_mut().entry(name).or_default() += 1;
    }

    pub fn error(&self, kind: &'static str) {
        *self.errors.borrow_mut().entry(kind).or_default() += 1;
    }

    pub fn connection(&self, opened: bool) {
        if opened {
            add(&self.connections, 1);
            add(&self.connections_open, 1);
        } else {
            self.connections_open.set(self.connections_open.get().saturating_sub(1));
        }
    }

    #[inline]
    fn statement(&self, kind: ModifyKind) {
        match kind {
            ModifyKind::Insert => add(&self.inserts, 1),
            ModifyKind::Update => add(&self.updates, 1),
            ModifyKind::Delete => add(&self.deletes, 1),
        }
    }

    /// A statement or a batch that writes is about to be executed.
    #[inline]
    pub(crate) fn write(&self, consistency: Consistency) {
        add(&self.writes[consistency as usize], 1);
    }

    fn timestamp(&self, timestamp_us: i64, now_us: i64) {
        let away_us = now_us.abs_diff(timestamp_us);
        let mut drift = self.drift.get();
        drift.count += 1;
        drift.sum_us = drift.sum_us.saturating_add(away_us);
        if let Some(class) = DRIFT_CLASSES_US.iter().position(|upper| away_us <= *upper) {
            drift.classes[class] += 1;
        }
        self.drift.set(drift);
    }

    pub fn view(&self) -> CountsView {
        CountsView {
            plain: vec![
                ("cql_reads", self.reads.get()),
                ("cql_inserts", self.inserts.get()),
                ("cql_updates", self.updates.get()),
                ("cql_deletes", self.deletes.get()),
                ("cql_batches", self.batches.get()),
                ("cql_statements_in_batches", self.statements_in_batches.get()),
                ("transport_cql_connections", self.connections.get()),
                ("transport_requests_served", self.requests_served.get()),
            ],
            connections_open: self.connections_open.get(),
            errors: self.errors.borrow().clone(),
            named: self.named.borrow().clone(),
            writes: Consistency::ALL.into_iter().zip(self.writes.iter().map(Cell::get)).collect(),
            drift: self.drift.get(),
            latencies: self.latencies(),
        }
    }

    /// By [`Coordinated`].
    pub fn latencies(&self) -> [Latency; Coordinated::ALL.len()] {
        Coordinated::ALL.map(|what| self.latencies[what as usize].borrow().clone())
    }

    /// Counts what began at `begun_ns` and has ended.
    pub(crate) fn took(&self, what: Coordinated, begun_ns: u64) {
        let took_us = (reactor::now() - begun_ns) / 1000;
        let mut latency = self.latencies[what as usize].borrow_mut();
        latency.classes.add(took_us);
        latency.sum_us = latency.sum_us.saturating_add(took_us);
    }
}

impl Node {
    /// A statement is about to be executed.
    #[inline]
    pub(crate) fn count_statement(&self, plan: &Plan, parameters: &Parameters<'_>) {
        match plan {
            Plan::Select(_) => add(&self.counts.reads, 1),
            Plan::Modify(modify) => self.counts.statement(modify.kind),
            Plan::Batch(batch) => self.count_batch(batch.statements.len()),
            _ => {}
        }
        if let Some(timestamp) = parameters.timestamp {
            self.counts.timestamp(timestamp, reactor::wall_us() as i64);
        }
    }

    pub(crate) fn count_batch(&self, statements: usize) {
        add(&self.counts.batches, 1);
        add(&self.counts.statements_in_batches, statements as u64);
    }
}
