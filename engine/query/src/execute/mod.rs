//! Statements executed: requests of a client, through plans, to the coordinator and back as a RESULT.

mod aggregate;
mod arithmetic;
mod client;
mod conditional;
mod current;
mod deltas;
mod element;
mod indexed;
mod modify;
mod outcome;
mod page;
mod part;
mod prune;
mod rows;
mod select;
mod virtual_write;

use std::rc::Rc;
use std::time::Duration;

use cql::request::{Batch, Parameters, QueryOrId, Request};
use cql::response::{self, SchemaChange, SchemaTarget};
use cql::{Value, Values};
use reactor::{Group, Work};

pub(crate) use aggregate::Running;
pub use client::Client;
pub use outcome::Outcome;

use crate::error::{QueryError, invalid};
use crate::node::Node;
use crate::plan::{self, Context, Plan};
use crate::prepared::{self, Prepared};
use crate::schema::{Change, ChangeKind, Target, agreement};

impl Change {
    pub fn to_protocol(&self) -> SchemaChange {
        let change = match self.kind {
            ChangeKind::Created => response::Change::Created,
            ChangeKind::Updated => response::Change::Updated,
            ChangeKind::Dropped => response::Change::Dropped,
        };
        match &self.target {
            Target::Keyspace(keyspace) => {
                SchemaChange { change, keyspace: keyspace.clone(), target: SchemaTarget::Keyspace }
            }
            Target::Type(keyspace, name) => {
                SchemaChange { change, keyspace: keyspace.clone(), target: SchemaTarget::Type(name.clone()) }
            }
            Target::Function(keyspace, signature) => {
                let (name, argument_types) = signature_parts(signature);
                SchemaChange {
                    change,
                    keyspace: keyspace.clone(),
                    target: SchemaTarget::Function { name, argument_types },
                }
            }
            Target::Aggregate(keyspace, signature) => {
                let (name, argument_types) = signature_parts(signature);
                SchemaChange {
                    change,
                    keyspace: keyspace.clone(),
                    target: SchemaTarget::Aggregate { name, argument_types },
                }
            }
            Target::Table(keyspace, table) | Target::Index(keyspace, table, _) => {
                SchemaChange { change, keyspace: keyspace.clone(), target: SchemaTarget::Table(table.clone()) }
            }
            // No client is told, so no change is made of it.
            Target::Access(_) | Target::Node(_) => {
                SchemaChange { change, keyspace: String::new(), target: SchemaTarget::Keyspace }
            }
        }
    }
}

/// Name and arguments' types of a function's signature.
fn signature_parts(signature: &str) -> (String, Vec<String>) {
    let (name, rest) = signature.split_once('(').unwrap_or((signature, ")"));
    let rest = rest.strip_suffix(')').unwrap_or(rest);
    let mut arguments = Vec::new();
    let (mut depth, mut start) = (0u32, 0);
    for (at, c) in rest.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                arguments.push(rest[start..at].trim().to_string());
                start = at + 1;
            }
            _ => {}
        }
    }
    arguments.extend(Some(rest[start..].trim()).filter(|last| !last.is_empty()).map(str::to_string));
    (name.to_string(), arguments)
}

/// What an execution is given beside its plan.
#[derive(Clone, Copy)]
pub(crate) struct Execution<'a> {
    pub parameters: &'a Parameters<'a>,
    pub values: &'a [Value<'a>],
    /// Of the role's service level, when the statement says none.
    pub timeout: Option<Duration>,
    /// What a SELECT shows of columns with masks is in them.
    pub masked: bool,
    pub client: &'a Client,
}

impl Node {
    /// Executes QUERY, PREPARE, EXECUTE or BATCH.
    ///
    /// All but single writes is boxed: a request's future has room for the largest branch, and is moved once.
    pub async fn execute(self: &Rc<Self>, client: &Client, request: Request<'_>) -> Result<Outcome, QueryError> {
        self.observe_request(&request);
        match request {
            Request::Execute { id, parameters } => {
                reactor::charge(Work::StatementExecute, parameters.values.len() as u64);
                let prepared = self.prepared(id)?.ok_or_else(|| QueryError::unprepared(id))?;
                match parameters.metadata_id {
                    Some(known) if *known != prepared.metadata_id => {
                        let parameters = Parameters { skip_metadata: false, ..parameters };
                        let outcome = self.run(client, &prepared, &parameters).await?;
                        Ok(outcome.with_new_metadata(&prepared.metadata_id))
                    }
                    _ => self.run(client, &prepared, &parameters).await,
                }
            }
            Request::Query { query, parameters } => {
                let keyspace = client.keyspace_or(parameters.keyspace);
                let prepared = Rc::new(prepared::plan_text(self, query, keyspace.as_deref())?);
                self.run(client, &prepared, &parameters).await
            }
            Request::Prepare { query, keyspace } => Box::pin(self.prepare(client, query, keyspace)).await,
            Request::Batch(batch) => Box::pin(self.run_batch(client, &batch)).await,
            _ => Err(QueryError::protocol("Not a request that a statement can answer")),
        }
    }

    /// Prepares on every shard of the node, so that the id works on all connections.
    async fn prepare(
        self: &Rc<Self>,
        client: &Client,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<Outcome, QueryError> {
        let keyspace = client.keyspace_or(keyspace);
        let (id, prepared) = self.prepare_here(text, keyspace.as_deref())?;
        let mut elsewhere = Vec::new();
        for shard in (0..self.shards).filter(|&shard| shard != self.shard) {
            let (text, keyspace) = (text.to_string(), keyspace.clone());
            elsewhere.push(reactor::submit_to_with(shard, Group::Statement, "prepare", move || async move {
                if let Some(node) = reactor::local::<Node>() {
                    // A shard that cannot plan it yet says "unprepared", and the client prepares again.
                    let _ = node.prepare_here(&text, keyspace.as_deref());
                }
            }));
        }
        for shard in elsewhere {
            shard.await;
        }
        Ok(Outcome::of(|out| prepared.encode(&id, client.version(), client.wants_lwt_mark(), out)))
    }

    async fn run(
        self: &Rc<Self>,
        client: &Client,
        prepared: &Prepared,
        parameters: &Parameters<'_>,
    ) -> Result<Outcome, QueryError> {
        let values = in_order(parameters.values, &prepared.marker_names)?;
        let execution =
            Execution { parameters, values: &values, timeout: self.level_timeout(client), masked: false, client };
        self.count_statement(&prepared.planned.plan, parameters);
        self.observe(&prepared.text, &prepared.planned);
        self.authorize(client, &prepared.planned.needs)?;
        match &prepared.planned.plan {
            Plan::Modify(modify) => {
                let warning = self.guard_write(parameters.consistency)?;
                if let Some(conditions) = &modify.condition {
                    let (statement, skip) = ([(modify, execution)], parameters.skip_metadata);
                    let outcome = Box::pin(self.modify_if(&statement, &conditions.answer, skip, None)).await?;
                    return Ok(outcome.warn_all(warning));
                }
                let large = self.modify(modify, execution).await?;
                Ok(match (warning, large) {
                    (None, None) => Outcome::Void,
                    (warning, large) => Outcome::Void.warn_all(warning).warn_all(large),
                })
            }
            Plan::ModifyVirtual(modify) => {
                Box::pin(self.modify_virtual(modify, execution)).await?;
                Ok(Outcome::Void)
            }
            Plan::Select(select) => {
                let warnings = self.guard_select(client, select, parameters.page_size, &values)?;
                let execution = Execution { masked: self.sees_masks(client, select)?, ..execution };
                let (body, warning) = Box::pin(self.select(select, execution)).await?;
                Ok(Outcome::Body(body).warn_all(warnings).warn_all(warning))
            }
            Plan::Batch(batch) => {
                let context = self.context_of(parameters);
                let timestamp = modify::timestamp_of(batch.timestamp.as_ref(), &values, &context)?;
                let timeout = timeout_of(batch.timeout.as_ref(), &values, &context)?.or(execution.timeout);
                let parameters = Parameters { timestamp: timestamp.or(parameters.timestamp), ..*parameters };
                let execution = Execution { parameters: &parameters, ..execution };
                let statements: Vec<_> = batch.statements.iter().map(|modify| (modify, execution)).collect();
                let consistency = parameters.consistency;
                let warning = self.guard_write(consistency)?;
                if let Some(answer) = &batch.answer {
                    let skip = parameters.skip_metadata;
                    let outcome = Box::pin(self.modify_if(&statements, answer, skip, timeout)).await?;
                    return Ok(outcome.warn_all(warning));
                }
                let warnings = Box::pin(self.modify_together(batch.kind, &statements, consistency, timeout)).await?;
                Ok(Outcome::Void.warn_all(warning).warn_all(warnings))
            }
            Plan::Schema(ddl) => {
                let warnings = self.guard_schema(client, ddl)?;
                let change =
                    Box::pin(agreement::change(self, ddl.clone(), client.role().map(|role| role.to_string()))).await?;
                let outcome = change.map_or(Outcome::Void, |change| {
                    Outcome::of(|out| response::encode_schema_change(out, &change.to_protocol()))
                });
                Ok(outcome.warn_all(warnings))
            }
            Plan::Truncate { table, timeout } => {
                let timeout = timeout_of(timeout.as_ref(), &values, &self.context())?;
                Box::pin(self.truncate(table, timeout.unwrap_or(self.config.timeouts.truncate))).await?;
                Ok(Outcome::Void)
            }
            Plan::Prune(prune) => {
                Box::pin(self.prune(prune, execution)).await?;
                Ok(Outcome::Void)
            }
            Plan::Use(keyspace) => {
                if self.keyspace(keyspace).is_none() {
                    return Err(invalid!("Keyspace '{keyspace}' does not exist"));
                }
                client.use_keyspace(keyspace);
                Ok(Outcome::of(|out| response::encode_set_keyspace(out, keyspace)))
            }
            Plan::Access(plan) => Box::pin(self.run_access(client, plan)).await,
            Plan::Describe(describe) => describe.execute(self, client).map(Outcome::Body),
        }
    }

    async fn run_batch(self: &Rc<Self>, client: &Client, batch: &Batch<'_>) -> Result<Outcome, QueryError> {
        self.count_batch(batch.statements.len());
        let keyspace = client.keyspace_or(batch.keyspace);
        let mut parts = Vec::with_capacity(batch.statements.len());
        for statement in &batch.statements {
            let prepared = match statement.statement {
                QueryOrId::Id(id) => self.prepared(id)?.ok_or_else(|| QueryError::unprepared(id))?,
                QueryOrId::Query(text) => Rc::new(prepared::plan_text(self, text, keyspace.as_deref())?),
            };
            self.observe(&prepared.text, &prepared.planned);
            self.authorize(client, &prepared.planned.needs)?;
            let values = in_order(statement.values, &prepared.marker_names)?;
            parts.push((prepared, values));
        }
        let parameters = Parameters {
            serial_consistency: batch.serial_consistency,
            timestamp: batch.timestamp,
            now_s: batch.now_s,
            ..Parameters::new(batch.consistency, Values::default())
        };
        let mut statements = Vec::with_capacity(parts.len());
        for (prepared, values) in &parts {
            let Plan::Modify(modify) = &prepared.planned.plan else {
                return Err(invalid!(
                    "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."
                ));
            };
            statements
                .push((modify, Execution { parameters: &parameters, values, timeout: None, masked: false, client }));
        }
        let warning = self.guard_write(batch.consistency)?;
        if let Some(answer) = plan::batch_answer(statements.iter().map(|(modify, _)| *modify)) {
            return Ok(self.modify_if(&statements, &answer, false, None).await?.warn_all(warning));
        }
        let timeout = self.level_timeout(client);
        let warnings = self.modify_together(batch.kind, &statements, batch.consistency, timeout).await?;
        Ok(Outcome::Void.warn_all(warning).warn_all(warnings))
    }

    pub(crate) fn context(&self) -> Context {
        let now_us = reactor::wall_us() as i64;
        Context { now_us, now_s: (now_us / 1_000_000) as u32, random: reactor::random }
    }

    /// [`context`](Self::context) of a request, which may say what second it is.
    pub(crate) fn context_of(&self, parameters: &Parameters<'_>) -> Context {
        let context = self.context();
        match parameters.now_s {
            None => context,
            Some(now_s) => Context { now_s: now_s.max(0) as u32, ..context },
        }
    }
}

/// `USING TIMEOUT`: whole milliseconds, no months, and never unset.
fn timeout_of(
    source: Option<&plan::Source>,
    values: &[Value<'_>],
    context: &Context,
) -> Result<Option<Duration>, QueryError> {
    let Some(source) = source else { return Ok(None) };
    let bytes = match source.bind(values, context)? {
        plan::Bound::Unset => return Ok(None),
        plan::Bound::Null => return Err(invalid!("Timeout value cannot be null")),
        plan::Bound::Bytes(bytes) => bytes,
    };
    let types::duration::CqlDuration { months, days, nanos: ns } =
        types::duration::CqlDuration::from_bytes(&bytes).map_err(|error| invalid!("{error}"))?;
    if months != 0 || days != 0 {
        return Err(invalid!("Timeout values cannot be expressed in days/months"));
    }
    if ns % 1_000_000 != 0 {
        return Err(invalid!("Timeout values cannot have granularity finer than milliseconds"));
    }
    match u64::try_from(ns / 1_000_000) {
        Ok(ms) => Ok(Some(Duration::from_millis(ms))),
        Err(_) => Err(invalid!("Timeout values must be non-negative")),
    }
}

/// The values by marker: as they come, or by their names.
fn in_order<'a>(values: Values<'a>, names: &[String]) -> Result<Vec<Value<'a>>, QueryError> {
    if values.are_named() {
        let find = |name: &String| {
            let found = values.named().find(|(given, _)| given.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value).ok_or_else(|| invalid!("No value was given for the variable {name}"))
        };
        return names.iter().map(find).collect();
    }
    if values.len() != names.len() {
        return Err(invalid!("There were {} markers(?) in CQL but {} bound variables", names.len(), values.len()));
    }
    Ok(values.iter().collect())
}
