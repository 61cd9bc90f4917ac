//! Prepared statements of one shard.
//!
//! The id is a digest of the text and the session's keyspace, so every shard and node gives the same id and a client
//! may execute anywhere. Plans are remade after a schema change, when they are next used.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use cql::Version;
use cql::response::{EncodedMetadata, PreparedForm, encode_prepared_as};
use types::hash::HashMap;

use crate::error::QueryError;
use crate::node::Node;
use crate::plan::{self, Batch, Modify, Plan, Planned};

/// The bit of a prepared statement's flags that says that it is conditional, and how clients are told of it: Scylla's
/// `docs/dev/protocol-extensions.md`.
const LWT_MARK: i32 = i32::MIN;
pub const LWT_MARK_OPTION: &str = "LWT_OPTIMIZATION_META_BIT_MASK=2147483648";

pub(crate) type StatementId = [u8; 16];

/// A planned statement with what PREPARE answers.
pub(crate) struct Prepared {
    pub text: Rc<str>,
    pub planned: Planned,
    pub marker_names: Vec<String>,
    pub markers: EncodedMetadata,
    /// Names the columns of the result: a client of v5 says by it which ones it knows.
    pub metadata_id: StatementId,
}

impl Prepared {
    fn new(text: &Rc<str>, planned: Planned) -> Self {
        let marker_names = planned.markers.iter().map(|spec| spec.name.clone()).collect();
        let metadata_id = types::uuid::from_name(result_metadata(&planned).map_or(&[], EncodedMetadata::as_bytes));
        Self { markers: EncodedMetadata::new(&planned.markers), marker_names, metadata_id, planned, text: text.clone() }
    }

    /// Body of RESULT Prepared, with `marks` for who asked for the mark of conditional statements.
    pub fn encode(&self, id: &StatementId, version: Version, marks: bool, out: &mut Vec<u8>) {
        let none = EncodedMetadata::new(&[]);
        let columns = result_metadata(&self.planned).unwrap_or(&none);
        let mark = if marks && is_conditional(&self.planned.plan) { LWT_MARK } else { 0 };
        let form = PreparedForm { version, metadata_id: &self.metadata_id, mark };
        encode_prepared_as(out, &form, id, &self.markers, &self.planned.partition_key, columns);
    }
}

fn is_conditional(plan: &Plan) -> bool {
    match plan {
        Plan::Modify(modify) => modify.condition.is_some(),
        Plan::Batch(batch) => batch.answer.is_some(),
        _ => false,
    }
}

/// The columns of the rows that a statement gives, if it gives any.
fn result_metadata(planned: &Planned) -> Option<&EncodedMetadata> {
    match &planned.plan {
        Plan::Select(select) => Some(&select.metadata),
        Plan::Modify(Modify { condition: Some(conditions), .. }) => Some(&conditions.answer.metadata),
        Plan::Batch(Batch { answer: Some(answer), .. }) => Some(&answer.metadata),
        _ => None,
    }
}

struct Entry {
    text: Rc<str>,
    keyspace: Option<String>,
    /// `None` until planned under the current schema.
    prepared: RefCell<Option<Rc<Prepared>>>,
}

pub(crate) struct PreparedCache {
    entries: HashMap<StatementId, Rc<Entry>>,
    /// Ids in the order of preparation: the oldest goes first.
    order: VecDeque<StatementId>,
    max: usize,
}

impl PreparedCache {
    pub fn new(max: usize) -> Self {
        Self { entries: HashMap::default(), order: VecDeque::new(), max }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Plans have to be made anew.
    pub fn schema_changed(&mut self) {
        for entry in self.entries.values() {
            entry.prepared.replace(None);
        }
    }

    fn insert(&mut self, id: StatementId, entry: Entry) {
        if self.entries.insert(id, Rc::new(entry)).is_none() {
            self.order.push_back(id);
        }
        while self.entries.len() > self.max
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}

/// Whether `:x` twice is one variable, as in ScyllaDB, or two of one name, as in Cassandra.
const NAMES_ARE_VARIABLES: &str = "cql_duplicate_bind_variable_names_refer_to_same_variable";

pub(crate) fn id_of(node: &Node, text: &str, keyspace: Option<&str>) -> StatementId {
    let mut name = keyspace.unwrap_or("").as_bytes().to_vec();
    name.push(u8::from(!node.settings.flag(NAMES_ARE_VARIABLES)));
    name.extend_from_slice(text.as_bytes());
    types::uuid::from_name(&name)
}

/// Parses and plans `text` once.
pub(crate) fn plan_text(node: &Node, text: &str, keyspace: Option<&str>) -> Result<Prepared, QueryError> {
    plan_shared(node, &Rc::from(text), keyspace)
}

fn plan_shared(node: &Node, text: &Rc<str>, keyspace: Option<&str>) -> Result<Prepared, QueryError> {
    node.trace(|| "Parsing a statement".to_string());
    reactor::charge(reactor::Work::StatementParse, text.len() as u64);
    if let Some(describe) = crate::describe::Describe::parse(text) {
        let planned = Planned {
            plan: Plan::Describe(describe),
            markers: Vec::new(),
            partition_key: Vec::new(),
            needs: Vec::new(),
        };
        return Ok(Prepared::new(text, planned));
    }
    let parsed = cql::parse_with(text, node.settings.flag(NAMES_ARE_VARIABLES))?;
    plan::plan(node, &parsed, keyspace).map(|planned| Prepared::new(text, planned))
}

impl Node {
    /// Prepares on this shard.
    pub(crate) fn prepare_here(
        &self,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<(StatementId, Rc<Prepared>), QueryError> {
        let id = id_of(self, text, keyspace);
        if let Some(prepared) = self.prepared(&id)? {
            return Ok((id, prepared));
        }
        let prepared = Rc::new(plan_text(self, text, keyspace)?);
        let entry = Entry {
            text: prepared.text.clone(),
            keyspace: keyspace.map(str::to_string),
            prepared: RefCell::new(Some(prepared.clone())),
        };
        self.prepared.borrow_mut().insert(id, entry);
        Ok((id, prepared))
    }

    /// The statement of an id, planned under the current schema. `None`: not prepared here.
    pub(crate) fn prepared(&self, id: &[u8]) -> Result<Option<Rc<Prepared>>, QueryError> {
        let Ok(id) = StatementId::try_from(id) else { return Ok(None) };
        let entry = match self.prepared.borrow().entries.get(&id) {
            None => return Ok(None),
            Some(entry) => {
                if let Some(prepared) = &*entry.prepared.borrow() {
                    return Ok(Some(prepared.clone()));
                }
                entry.clone()
            }
        };
        let prepared = Rc::new(plan_shared(self, &entry.text, entry.keyspace.as_deref())?);
        entry.prepared.replace(Some(prepared.clone()));
        Ok(Some(prepared))
    }
}
