//! One watched request, from when it was asked until its answer was given.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;

use cql::Consistency;
use cql::request::{Parameters, Request};
use types::uuid;

use super::masked::masked;
use crate::access::AccessPlan;
use crate::execute::Client;
use crate::plan::{Plan, Planned};

/// Kinds of statements, as the audit log names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Category {
    Query,
    Dml,
    Ddl,
    Dcl,
    Auth,
    Admin,
}

/// A statement that the request executes.
#[derive(Clone, Debug)]
pub(super) struct Executed {
    pub category: Category,
    /// Empty where there is none.
    pub keyspace: String,
    pub table: String,
    /// Without passwords.
    pub text: String,
}

/// A step of the request.
#[derive(Clone, Debug)]
pub(super) struct Event {
    pub elapsed_us: u64,
    pub activity: String,
}

pub struct Watched {
    id: [u8; 16],
    asked: bool,
    traced: bool,
    pub(super) client: Option<IpAddr>,
    pub(super) started_us: u64,
    started_ns: u64,
    pub(super) request_bytes: usize,
    pub(super) request: Cell<&'static str>,
    pub(super) consistency: Cell<Consistency>,
    pub(super) parameters: RefCell<BTreeMap<String, String>>,
    pub(super) executed: RefCell<Vec<Executed>>,
    pub(super) events: RefCell<Vec<Event>>,
}

impl Watched {
    pub(super) fn begin(asked: bool, traced: bool, client: &Client, request_bytes: usize) -> Self {
        let started_us = reactor::wall_us();
        let random = reactor::random();
        Self {
            id: uuid::from_time(started_us as i64, (random % 10) as u8, random),
            asked,
            traced,
            client: client.address().map(|address| address.ip()),
            started_us,
            started_ns: reactor::now(),
            request_bytes,
            request: Cell::new("Execute CQL3 query"),
            consistency: Cell::new(Consistency::One),
            parameters: RefCell::default(),
            executed: RefCell::default(),
            events: RefCell::default(),
        }
    }

    /// By which the client finds the trace that it has asked for.
    pub fn asked_id(&self) -> Option<[u8; 16]> {
        self.asked.then_some(self.id)
    }

    pub(super) fn id(&self) -> [u8; 16] {
        self.id
    }

    pub(super) fn is_traced(&self) -> bool {
        self.traced
    }

    pub(super) fn elapsed_us(&self) -> u64 {
        (reactor::now() - self.started_ns) / 1000
    }

    pub(super) fn note(&self, activity: String) {
        self.events.borrow_mut().push(Event { elapsed_us: self.elapsed_us(), activity });
    }

    /// What the client has sent.
    pub(crate) fn asks(&self, request: &Request<'_>) {
        let parameters = match request {
            Request::Query { parameters, .. } => parameters,
            Request::Execute { parameters, .. } => {
                self.request.set("Execute CQL3 prepared query");
                parameters
            }
            Request::Batch(batch) => {
                self.request.set("Execute batch of CQL3 queries");
                self.consistency.set(batch.consistency);
                return;
            }
            _ => return self.request.set("Preparing CQL3 query"),
        };
        self.note("Processing a statement".to_string());
        self.take(parameters);
    }

    fn take(&self, parameters: &Parameters<'_>) {
        self.consistency.set(parameters.consistency);
        let mut told = self.parameters.borrow_mut();
        told.insert("consistency_level".into(), parameters.consistency.to_string());
        if let Some(serial) = parameters.serial_consistency {
            told.insert("serial_consistency_level".into(), serial.level().to_string());
        }
        if let Some(size) = parameters.page_size {
            told.insert("page_size".into(), size.to_string());
        }
        if let Some(timestamp) = parameters.timestamp {
            told.insert("user_timestamp".into(), timestamp.to_string());
        }
    }

    pub(super) fn executes(&self, text: &Rc<str>, planned: &Planned) {
        let text = masked(text).into_owned();
        let mut executed = self.executed.borrow_mut();
        let name = match executed.len() {
            0 => "query".to_string(),
            n => format!("query[{n}]"),
        };
        self.parameters.borrow_mut().insert(name, text.clone());
        let (category, keyspace, table) = subject(&planned.plan);
        executed.push(Executed { category, keyspace, table, text });
    }
}

/// What a plan is about.
fn subject(plan: &Plan) -> (Category, String, String) {
    let of = |category, table: &types::TableDef| (category, table.keyspace.clone(), table.name.clone());
    match plan {
        Plan::Select(select) => of(Category::Query, &select.table),
        Plan::Modify(modify) | Plan::ModifyVirtual(modify) => of(Category::Dml, &modify.table),
        Plan::Batch(batch) => match batch.statements.first() {
            Some(first) => of(Category::Dml, &first.table),
            None => (Category::Dml, String::new(), String::new()),
        },
        Plan::Truncate { table, .. } => of(Category::Dml, table),
        Plan::Prune(prune) => of(Category::Dml, &prune.view),
        Plan::Schema(ddl) => {
            let (keyspace, table) = ddl.subject();
            (Category::Ddl, keyspace.to_string(), table.unwrap_or_default().to_string())
        }
        Plan::Use(keyspace) => (Category::Dml, keyspace.clone(), String::new()),
        Plan::Describe(_) => (Category::Query, "system".into(), String::new()),
        Plan::Access(access) => (category_of(access), String::new(), String::new()),
    }
}

fn category_of(access: &AccessPlan) -> Category {
    if access.is_about_service_levels() { Category::Admin } else { Category::Dcl }
}
