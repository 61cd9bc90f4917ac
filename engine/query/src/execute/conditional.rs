//! Statements with IF, alone or in a batch: read, tested and written as one step between all others of its partition.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use cql::Consistency;
use cql::response::{RowsWriter, WriteType};
use storage::{Bytes, Clustering, Mutation, Partition, ReadCommand, Row, Slice};
use types::{TableDef, Token, partition_key_components};

use super::current::Current;
use super::modify::partitions;
use super::rows::View;
use super::{Execution, Outcome};
use crate::coordinator::{Attempt, Verdict};
use crate::error::{QueryError, invalid, server};
use crate::node::Node;
use crate::plan::{Answer, BoundFilter, ClusteringTarget, Conditions, Context, Modify, Nulls, Wanted};

/// One statement with what its conditions are about.
struct Part<'a> {
    modify: &'a Modify,
    execution: Execution<'a>,
    /// The row that it names; `None` is the static row.
    row: Option<Clustering>,
    filters: Vec<BoundFilter<'a>>,
}

/// What the rows of the answer are made of.
struct Seen {
    applied: bool,
    partition: Option<Partition>,
    warning: Option<String>,
    /// Of the table's log.
    change: Option<(Token, Vec<u8>)>,
}

/// A mutation, a warning, and a mutation of the table's log.
type Written = (Option<Vec<u8>>, Option<String>, Option<(Token, Vec<u8>)>);

impl Node {
    /// RESULT Rows: a row for each statement.
    pub(super) async fn modify_if(
        self: &Rc<Self>,
        statements: &[(&Modify, Execution<'_>)],
        answer: &Answer,
        skip_metadata: bool,
        timeout: Option<Duration>,
    ) -> Result<Outcome, QueryError> {
        let Some((first, execution)) = statements.first() else { return Err(server("an empty batch with IF")) };
        let parameters = execution.parameters;
        let context = self.context_of(parameters);
        check_commit_consistency(parameters.consistency)?;
        let table = &first.table;
        let mut key: Option<Vec<u8>> = None;
        let mut parts = Vec::with_capacity(statements.len());
        for (modify, execution) in statements {
            if modify.table.id != table.id {
                return Err(invalid!("Batch with conditions cannot span multiple tables"));
            }
            let keys = modify.key.keys(execution.values, &context)?;
            if keys.len() != 1 || key.as_ref().is_some_and(|key| *key != keys[0]) {
                return Err(invalid!("Batch with conditions cannot span multiple partitions"));
            }
            key = keys.into_iter().next();
            parts.push(part(modify, *execution, &context)?);
        }
        let key = Bytes::from(key.unwrap_or_default());
        let timeout = match super::timeout_of(first.timeout.as_ref(), execution.values, &context)? {
            Some(own) => Some(own),
            None => timeout,
        };
        let attempt = Attempt {
            table,
            read: read_command(table, &key, &parts, &context),
            serial: parameters.serial_consistency.unwrap_or_default(),
            consistency: parameters.consistency,
            timeout,
        };
        let seen = self
            .compare_and_set(attempt, |partition, timestamp| {
                let empty = Partition::new(key.to_vec());
                let applied = holds(table, partition.unwrap_or(&empty), &parts, &context)?;
                let (mutation, warning, change) = match applied {
                    true => {
                        let needs_current = parts.iter().any(|part| part.modify.needs_current());
                        let current = Current::of(partition.filter(|_| needs_current));
                        self.mutation(partition, &key, &parts, timestamp, &current, &context)?
                    }
                    false => (None, None, None),
                };
                Ok(Verdict { value: Seen { applied, partition: partition.cloned(), warning, change }, mutation })
            })
            .await?;
        if let Some((token, bytes)) = &seen.change {
            let (level, kind) = (parameters.consistency, WriteType::Cdc);
            self.write(&table.keyspace, *token, bytes.clone(), level, kind, timeout).await?;
        }
        let body = encode_answer(table, &key, answer, &parts, &seen, skip_metadata, &context)?;
        Ok(Outcome::Body(body).warn_all(seen.warning))
    }

    /// Everything that the statements write, with one timestamp, what the client is warned of, and what is logged.
    fn mutation(
        &self,
        before: Option<&Partition>,
        key: &Bytes,
        parts: &[Part<'_>],
        timestamp: i64,
        current: &Current,
        context: &Context,
    ) -> Result<Written, QueryError> {
        let Some(first) = parts.first().map(|part| part.modify) else { return Ok((None, None, None)) };
        let table = &first.table;
        let mut together = Partition::new(key.to_vec());
        for part in parts {
            let parameters = cql::request::Parameters { timestamp: Some(timestamp), ..*part.execution.parameters };
            let execution = Execution { parameters: &parameters, ..part.execution };
            for partition in partitions(self, part.modify, execution, context, current)? {
                together.merge(partition, table);
            }
        }
        let together = [together];
        let warning = if first.guards_large_data { self.guard_large(table, &together)? } else { None };
        let [together] = together;
        if together.is_empty() {
            return Ok((None, warning, None));
        }
        let change = match &first.log {
            Some(log) => Some(self.logged_change(table, log, &together, before)?),
            None => None,
        };
        Ok((Some(Mutation::bytes(table, together)), warning, change))
    }
}

/// The level at which the commit is waited for.
fn check_commit_consistency(consistency: Consistency) -> Result<(), QueryError> {
    match consistency.is_serial() {
        true => Err(invalid!(
            "{consistency} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it \
             is accepted but I don't care how many replicas commit it for non-SERIAL reads\""
        )),
        false => Ok(()),
    }
}

fn part<'a>(modify: &'a Modify, execution: Execution<'a>, context: &Context) -> Result<Part<'a>, QueryError> {
    let row = match &modify.target {
        ClusteringTarget::Partition if modify.table.clustering.is_empty() => Some(Clustering::empty()),
        ClusteringTarget::Partition | ClusteringTarget::Range(_) => None,
        ClusteringTarget::Rows(slices) => {
            let rows = slices.slices(&modify.table, execution.values, context)?;
            if rows.len() != 1 && modify.condition.is_some() {
                return Err(invalid!("IN on the clustering key columns is not supported with conditional updates"));
            }
            rows.into_iter().next().map(|slice| slice.start.prefix)
        }
    };
    let filters = match modify.condition.as_deref() {
        Some(Conditions { wanted: Wanted::Columns(filters), .. }) => {
            filters.iter().map(|filter| filter.bind(execution.values, context)).collect::<Result<_, _>>()?
        }
        _ => Vec::new(),
    };
    Ok(Part { modify, execution, row, filters })
}

/// The rows that the statements name; the static row comes along.
fn read_command(table: &Arc<TableDef>, key: &Bytes, parts: &[Part<'_>], context: &Context) -> ReadCommand {
    let mut slices: Vec<Slice> = Vec::new();
    if !table.clustering.is_empty() {
        slices = parts.iter().filter_map(|part| part.row.clone()).map(Slice::prefix).collect();
        slices.sort_by(|a, b| a.start.compare_start(&b.start, table));
        slices.dedup();
    }
    let limit_rows = if slices.is_empty() { 1 } else { usize::MAX };
    ReadCommand { slices, limit_rows, ..ReadCommand::partition(table.id, key.clone(), context.now_s) }
}

fn row_of<'p>(partition: &'p Partition, part: &Part<'_>, now_s: u32) -> Option<&'p Row> {
    let clustering = part.row.as_ref()?;
    partition.live_rows(now_s).find(|row| row.clustering == *clustering)
}

/// Whether the conditions of all statements hold.
fn holds(table: &TableDef, partition: &Partition, parts: &[Part<'_>], context: &Context) -> Result<bool, QueryError> {
    let now_s = context.now_s;
    let components = partition_key_components(&partition.key, table.partition_key.len()).map_err(server)?;
    for part in parts {
        let Some(conditions) = part.modify.condition.as_deref() else { continue };
        let row = row_of(partition, part, now_s);
        let exists = match part.row {
            Some(_) => row.is_some(),
            None => partition.has_live_static(now_s),
        };
        let (values, components) = (part.execution.values, &components[..]);
        let view = View { table, partition, components, row, now_s, values, context };
        let holds = match conditions.wanted {
            Wanted::Exists => exists,
            Wanted::NotExists => !exists,
            Wanted::Columns(_) => {
                let mut all = true;
                for bound in &part.filters {
                    let value = view.column(&bound.filter.column);
                    all &= bound.holds(value.as_deref(), Nulls::AreValues)?;
                }
                all
            }
        };
        if !holds {
            return Ok(false);
        }
    }
    Ok(true)
}

/// A row for each statement: whether all was applied, and the row as it was before.
fn encode_answer(
    table: &TableDef,
    key: &Bytes,
    answer: &Answer,
    parts: &[Part<'_>],
    seen: &Seen,
    skip_metadata: bool,
    context: &Context,
) -> Result<Vec<u8>, QueryError> {
    let now_s = context.now_s;
    let empty = Partition::new(key.to_vec());
    let partition = seen.partition.as_ref().unwrap_or(&empty);
    let components = partition_key_components(key, table.partition_key.len()).map_err(server)?;
    let mut out = Vec::with_capacity(128);
    let mut writer = RowsWriter::begin(&mut out, &answer.metadata, skip_metadata, None);
    for part in parts {
        writer.cell(&mut out, Some(&[u8::from(seen.applied)]));
        let row = row_of(partition, part, now_s);
        let whole = part.modify.condition.as_deref().is_none_or(|one| !matches!(one.wanted, Wanted::Columns(_)));
        // A row that is not there shows nothing, but what conditions say of the static row.
        let shown = match part.row {
            Some(_) if whole => row.is_some(),
            _ => row.is_some() || partition.has_live_static(now_s),
        };
        let (values, components) = (part.execution.values, &components[..]);
        let view = View { table, partition, components, row, now_s, values, context };
        for column in &answer.columns {
            let value: Option<Cow<'_, [u8]>> = if shown { view.column(column) } else { None };
            writer.cell(&mut out, value.as_deref());
        }
        writer.end_row();
    }
    writer.finish(&mut out);
    Ok(out)
}
