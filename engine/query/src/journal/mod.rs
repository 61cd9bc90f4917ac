//! What the node writes down of its own work, in tables that can be read: traces (`trace`), queries that took long
//! (`slow`), who did what (`audit`), what storage tells of (`storage`); and which partitions are busy (`top`).
//!
//! A request is watched when somebody may want to know of it; the others pay for a look at one flag. What a watched
//! request does is noted in memory while it is done, and what is to be kept is written behind its answer, but for the
//! audit log, which is written before. No password is written anywhere: see `masked`.

mod audit;
mod masked;
mod record;
mod slow;
pub(crate) mod storage;
mod top;
mod trace;
mod watched;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;

use reactor::Group;

use crate::execute::Client;
use crate::node::Node;
use crate::plan::Planned;
use crate::settings::Settings;

pub use self::storage::CompactionEntry;
pub use top::{Sampled, Sampling, TopPartition};
pub use watched::Watched;

use audit::Audit;
use slow::Slow;

/// Requests of which something is still to be written, at most: what is more is counted and forgotten.
const PENDING_MAX: usize = 1000;

/// One shard's.
#[derive(Default)]
pub struct Journal {
    /// Every request is watched.
    watches_all: Cell<bool>,
    /// The watched request that is being polled now, if one is.
    current: RefCell<Option<Rc<Watched>>>,
    is_watching: Cell<bool>,
    /// Of requests that are traced without being asked to be, 0 to 1.
    probability: Cell<f64>,
    slow: Cell<Option<Slow>>,
    audit: RefCell<Option<Rc<Audit>>>,
    pending: Cell<usize>,
    with_entries: RefCell<storage::WithEntries>,
    pub sampling: Sampling,
}

impl Journal {
    pub(crate) fn new(settings: &Settings) -> Self {
        let journal = Self::default();
        journal.settings_changed(settings);
        journal
    }

    pub(crate) fn settings_changed(&self, settings: &Settings) {
        self.slow.set(Slow::from_settings(settings));
        *self.audit.borrow_mut() = Audit::from_settings(settings).map(Rc::new);
        self.update();
    }

    pub fn trace_probability(&self) -> f64 {
        self.probability.get()
    }

    pub fn set_trace_probability(&self, probability: f64) {
        self.probability.set(probability);
        self.update();
    }

    fn update(&self) {
        let all = self.probability.get() > 0.0 || self.slow.get().is_some() || self.audit.borrow().is_some();
        self.watches_all.set(all);
    }

    fn is_sampled(&self) -> bool {
        reactor::chance(self.probability.get())
    }
}

impl Node {
    /// How a request is watched that begins now; `None`, not at all. `asked`: its client wants its trace.
    #[inline]
    pub fn watch(&self, asked: bool, client: &Client, request_bytes: usize) -> Option<Rc<Watched>> {
        if !asked && !self.journal.watches_all.get() {
            return None;
        }
        let traced = asked || self.journal.is_sampled();
        Some(Rc::new(Watched::begin(asked, traced, client, request_bytes)))
    }

    /// Does the work of a watched request, and sees to the audit log.
    pub async fn watched<T, E>(
        self: &Rc<Self>,
        watched: &Rc<Watched>,
        client: &Client,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let mut work = pin!(work);
        let journal = &self.journal;
        let result = poll_fn(|cx| {
            // Another request may be in the middle of its poll: one that is executed in place.
            let outer = journal.current.replace(Some(watched.clone()));
            journal.is_watching.set(true);
            let polled = work.as_mut().poll(cx);
            journal.is_watching.set(outer.is_some());
            *journal.current.borrow_mut() = outer;
            polled
        })
        .await;
        let audit = self.journal.audit.borrow().clone();
        if let Some(audit) = audit {
            audit.record(self, watched, client, result.is_err()).await;
        }
        result
    }

    /// The request's answer, of so many bytes, has been given: what is to be kept is written.
    pub fn conclude(self: &Rc<Self>, watched: Rc<Watched>, client: &Client, answer_bytes: usize) {
        let duration_us = watched.elapsed_us();
        let slow = self.journal.slow.get().filter(|slow| slow.is_slow(duration_us));
        if !watched.is_traced() && slow.is_none() {
            return;
        }
        if self.journal.pending.get() >= PENDING_MAX {
            return self.counts.note("tracing_dropped_sessions");
        }
        self.journal.pending.set(self.journal.pending.get() + 1);
        let (node, user) = (self.clone(), client.role());
        drop(reactor::spawn(Group::Maintenance, "journal", async move {
            let trace = trace::Trace::new(&node, &watched, user.as_deref(), duration_us, answer_bytes);
            let mut rows = trace.rows(&node, slow);
            if let Some(slow) = slow {
                rows.extend(slow.rows(&node, &watched, user.as_deref(), duration_us));
            }
            for (table, values, ttl_s) in rows {
                if let Err(error) = node.record(record::TRACES, table, values, ttl_s).await {
                    tracing::debug!(table, error = error.message, "a trace could not be written");
                    break;
                }
            }
            node.journal.pending.set(node.journal.pending.get() - 1);
        }));
    }

    /// Notes a step of the request that is being polled, if it is watched.
    #[inline]
    pub(crate) fn trace(&self, activity: impl FnOnce() -> String) {
        if self.journal.is_watching.get() {
            self.with_watched(|watched| watched.note(activity()));
        }
    }

    /// Tells the watched request, if it is one, what its client has sent.
    #[inline]
    pub(crate) fn observe_request(&self, request: &cql::Request<'_>) {
        if self.journal.is_watching.get() {
            self.with_watched(|watched| watched.asks(request));
        }
    }

    /// Tells the watched request, if it is one, which statement it is about to execute.
    #[inline]
    pub(crate) fn observe(&self, text: &Rc<str>, planned: &Planned) {
        if self.journal.is_watching.get() {
            self.with_watched(|watched| watched.executes(text, planned));
        }
    }

    fn with_watched(&self, tell: impl FnOnce(&Watched)) {
        let current = self.journal.current.borrow().clone();
        if let Some(watched) = current {
            tell(&watched);
        }
    }
}
