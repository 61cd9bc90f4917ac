//! INSERT, UPDATE and DELETE executed: from values to mutations.

use std::rc::Rc;
use std::time::Duration;

use cql::Consistency;
use cql::request::BatchKind;
use cql::response::WriteType;
use storage::{
    Bytes, Cell, Clustering, DeletionTime, Liveness, Mutation, Partition, RangeTombstone, Row, Slice, Stamp,
};
use types::{ColumnDef, TableDef, TableId, Token};

use super::current::Current;
use super::{Execution, arithmetic, deltas, element};
use crate::cdc::Log;
use crate::coordinator::batch_log;
use crate::error::{QueryError, invalid};
use crate::node::Node;
use crate::plan::{self, Bound, Change, ClusteringTarget, Context, Modify, ModifyKind, Source, Values};

/// The longest TTL: 20 years, as Cassandra's `Attributes.MAX_TTL`.
const TTL_MAX_S: i32 = 20 * 365 * 24 * 60 * 60;

/// Microseconds of `USING TIMESTAMP`.
pub(super) fn timestamp_of(
    source: Option<&Source>,
    values: &Values<'_>,
    context: &Context,
) -> Result<Option<i64>, QueryError> {
    let Some(source) = source else { return Ok(None) };
    match source.bind(values, context)? {
        Bound::Unset => Ok(None),
        Bound::Null => Err(invalid!("Invalid null value of timestamp")),
        Bound::Bytes(bytes) => {
            let bytes = <[u8; 8]>::try_from(&*bytes).map_err(|_| invalid!("Invalid timestamp value"))?;
            match i64::from_be_bytes(bytes) {
                i64::MIN => Err(invalid!("Out of bound timestamp, must be in [{}, {}]", i64::MIN + 1, i64::MAX)),
                timestamp => Ok(Some(timestamp)),
            }
        }
    }
}

/// Seconds of `USING TTL`, or the table's default; 0 is none.
fn ttl_of(modify: &Modify, values: &Values<'_>, context: &Context) -> Result<u32, QueryError> {
    let default = modify.table.options.default_time_to_live_s;
    let Some(source) = &modify.ttl else { return Ok(default) };
    match source.bind(values, context)? {
        Bound::Unset => Ok(default),
        Bound::Null => Ok(0),
        Bound::Bytes(bytes) => {
            let bytes = <[u8; 4]>::try_from(&*bytes).map_err(|_| invalid!("Invalid TTL value"))?;
            match i32::from_be_bytes(bytes) {
                ttl if ttl < 0 => Err(invalid!("A TTL must be greater or equal to 0, but was {ttl}")),
                ttl if ttl > TTL_MAX_S => Err(invalid!("ttl is too large. requested ({ttl}) maximum ({TTL_MAX_S})")),
                ttl => Ok(ttl as u32),
            }
        }
    }
}

/// The parts of a write that a [`Stamp`] makes.
fn deletion(stamp: &Stamp) -> DeletionTime {
    DeletionTime { timestamp: stamp.timestamp, local_s: stamp.now_s }
}

fn marker(stamp: &Stamp) -> Liveness {
    match stamp.ttl_s {
        0 => Liveness::live(stamp.timestamp),
        ttl => Liveness::expiring(stamp.timestamp, ttl, stamp.now_s),
    }
}

/// What the rows of one statement are made with.
struct Writing<'w> {
    node: &'w Node,
    modify: &'w Modify,
    stamp: Stamp,
    values: &'w Values<'w>,
    context: &'w Context,
    /// What is there, for changes that depend on it.
    current: &'w Current,
}

impl Writing<'_> {
    /// A row of a partition with its changes; the static row without a clustering.
    fn row(&self, key: &[u8], clustering: Option<Clustering>) -> Result<Row, QueryError> {
        let table = &self.modify.table;
        let (changes, columns): (_, &[ColumnDef]) = match clustering {
            Some(_) => (&self.modify.cells, &table.regulars),
            None => (&self.modify.statics, &table.statics),
        };
        let is_static = clustering.is_none();
        let clustering = clustering.unwrap_or_else(Clustering::empty);
        let mut row = Row::new(clustering);
        row.cells.reserve_exact(changes.len());
        for of_column in changes.chunk_by(|(a, _), (b, _)| a == b) {
            let index = of_column[0].0;
            if let Change::Value(source) = &of_column[0].1 {
                match source.bind(self.values, self.context)? {
                    Bound::Unset => {}
                    Bound::Null => row.cells.push((index, self.stamp.tombstone())),
                    Bound::Bytes(bytes) => row.cells.push((index, self.stamp.cell(&*bytes))),
                }
                continue;
            }
            let column = &columns[usize::from(index)];
            if let Change::Sum { operand, takes } = &of_column[0].1 {
                let at = (!is_static).then_some(&row.clustering);
                let now = self.current.cell(key, at, index, self.stamp.now_s).and_then(|cell| cell.value.as_deref());
                // A sum with null is null, and what is null stays so.
                if let (Some(now), Bound::Bytes(operand)) = (now, operand.bind(self.values, self.context)?) {
                    let sum = arithmetic::sum(&column.ty, &column.name, now, &operand, *takes)?;
                    row.cells.push((index, self.stamp.cell(sum)));
                }
                continue;
            }
            if column.ty.is_counter() {
                let delta = element::delta(of_column, self.values, self.context)?;
                row.cells.extend(delta.map(|delta| (index, Cell::live(self.stamp.timestamp, &delta.to_be_bytes()))));
                continue;
            }
            let current = self.current.column(key, (!is_static).then_some(&row.clustering), index);
            let mut elements = element::Elements::new(column, index, self.stamp, self.node, current);
            for (_, change) in of_column {
                elements.apply(change, self.values, self.context)?;
            }
            row.complex.push(elements.finish());
        }
        Ok(row)
    }

    fn write(&self, partition: &mut Partition) -> Result<(), QueryError> {
        let (modify, stamp) = (self.modify, &self.stamp);
        let table: &TableDef = &modify.table;
        if !modify.statics.is_empty() {
            let row = self.row(&partition.key, None)?;
            partition.static_row = (!row.is_empty()).then_some(row);
        }
        let whole = modify.kind == ModifyKind::Delete && modify.cells.is_empty() && modify.statics.is_empty();
        match &modify.target {
            ClusteringTarget::Partition if whole => partition.deletion = Some(deletion(stamp)),
            ClusteringTarget::Partition if !table.clustering.is_empty() => {}
            ClusteringTarget::Partition => {
                let mut row = self.row(&partition.key, Some(Clustering::empty()))?;
                row.marker = (modify.kind == ModifyKind::Insert).then(|| marker(stamp));
                if !row.is_empty() {
                    partition.rows.push(row);
                }
            }
            ClusteringTarget::Rows(slices) => {
                for Slice { start, .. } in slices.slices(table, self.values, self.context)? {
                    check_clustering(&start.prefix)?;
                    let mut row = self.row(&partition.key, Some(start.prefix))?;
                    row.deletion = whole.then(|| deletion(stamp));
                    row.marker = (modify.kind == ModifyKind::Insert).then(|| marker(stamp));
                    if !row.is_empty() {
                        partition.rows.push(row);
                    }
                }
            }
            ClusteringTarget::Range(slices) => {
                for Slice { start, end } in slices.slices(table, self.values, self.context)? {
                    partition.range_tombstones.push(RangeTombstone { start, end, deletion: deletion(stamp) });
                }
            }
        }
        Ok(())
    }
}

/// Together the values of a row's clustering columns have Cassandra's limit for a key.
fn check_clustering(clustering: &Clustering) -> Result<(), QueryError> {
    const LEN_MAX: usize = u16::MAX as usize;
    if clustering.as_bytes().len() <= LEN_MAX {
        return Ok(());
    }
    match clustering.components().map(<[u8]>::len).sum::<usize>() {
        len if len > LEN_MAX => {
            Err(invalid!("Key length of clustering columns of {len} is longer than maximum of {LEN_MAX}"))
        }
        _ => Ok(()),
    }
}

/// What one statement writes, partition by partition.
pub(super) fn partitions(
    node: &Node,
    modify: &Modify,
    execution: Execution<'_>,
    context: &Context,
    current: &Current,
) -> Result<Vec<Partition>, QueryError> {
    let values = execution.values;
    let timestamp = timestamp_of(modify.timestamp.as_ref(), values, context)?.or(execution.parameters.timestamp);
    let stamp = Stamp {
        timestamp: timestamp.unwrap_or_else(|| node.next_timestamp()),
        ttl_s: ttl_of(modify, values, context)?,
        now_s: context.now_s,
    };
    let writing = Writing { node, modify, stamp, values, context, current };
    let viewed = node.viewed(modify.table.id);
    let keys = modify.key.keys(values, context)?;
    keys.into_iter()
        .map(|key| {
            let mut partition = Partition::new(key);
            writing.write(&mut partition)?;
            if let Some(viewed) = &viewed {
                viewed.check(&partition)?;
            }
            Ok(partition)
        })
        .collect()
}

impl Node {
    /// Gives what the client is warned of.
    pub(super) async fn modify(
        self: &Rc<Self>,
        modify: &Modify,
        execution: Execution<'_>,
    ) -> Result<Option<String>, QueryError> {
        let consistency = execution.parameters.consistency;
        plan::check_write_consistency(consistency)?;
        let table = &modify.table;
        let context = self.context_of(execution.parameters);
        let current = match modify.needs_current() {
            false => Current::default(),
            true => Box::pin(self.current(modify, execution, &context)).await?,
        };
        // Encoded at once: only the bytes have to wait for the replicas.
        let timeout = super::timeout_of(modify.timeout.as_ref(), execution.values, &context)?.or(execution.timeout);
        let partitions = partitions(self, modify, execution, &context, &current)?;
        if modify.counts() {
            return Box::pin(self.count(table, partitions, consistency)).await.map(|()| None);
        }
        // Before the log: what is refused has changed nothing.
        let warning = if modify.guards_large_data { self.guard_large(table, &partitions)? } else { None };
        if let Some(log) = &modify.log {
            Box::pin(self.log_changes(modify, log, &partitions, consistency, timeout)).await?;
        }
        let kind = if partitions.len() > 1 { WriteType::UnloggedBatch } else { WriteType::Simple };
        let mutations: Vec<(Token, Vec<u8>)> = partitions
            .into_iter()
            .filter(|partition| !partition.is_empty())
            .map(|partition| (Token::of_key(&partition.key), Mutation::bytes(table, partition)))
            .collect();
        for (token, mutation) in mutations {
            self.write(&table.keyspace, token, mutation, consistency, kind, timeout).await?;
        }
        Ok(warning)
    }

    /// Writes what a statement changes to the table's log.
    async fn log_changes(
        self: &Rc<Self>,
        modify: &Modify,
        log: &Log,
        partitions: &[Partition],
        consistency: Consistency,
        timeout: Option<Duration>,
    ) -> Result<(), QueryError> {
        for (token, bytes) in self.logged_changes(&modify.table, log, partitions, consistency).await? {
            self.write(&modify.table.keyspace, token, bytes, consistency, WriteType::Cdc, timeout).await?;
        }
        Ok(())
    }

    /// The statements of a batch: one mutation for each partition that they touch. If there are several, those of a
    /// logged batch go to the batch log first.
    pub(super) async fn modify_together(
        self: &Rc<Self>,
        kind: BatchKind,
        statements: &[(&Modify, Execution<'_>)],
        consistency: Consistency,
        timeout: Option<Duration>,
    ) -> Result<Vec<String>, QueryError> {
        plan::check_write_consistency(consistency)?;
        plan::check_batch(kind, statements.iter().map(|(modify, _)| *modify), false)?;
        let context = match statements.first() {
            Some((_, execution)) => self.context_of(execution.parameters),
            None => self.context(),
        };
        let now = self.next_timestamp();
        let mut warnings = Vec::new();
        let mut together: std::collections::BTreeMap<(TableId, Bytes), (&Modify, Partition)> = Default::default();
        for (modify, execution) in statements {
            let mut parameters = *execution.parameters;
            parameters.timestamp.get_or_insert(now);
            let execution = Execution { parameters: &parameters, ..*execution };
            let current = self.current(modify, execution, &context).await?;
            let partitions = partitions(self, modify, execution, &context, &current)?;
            if modify.guards_large_data {
                warnings.extend(self.guard_large(&modify.table, &partitions)?);
            }
            for partition in partitions {
                match together.get_mut(&(modify.table.id, partition.key.clone())) {
                    Some((_, known)) if modify.table.is_counter() => deltas::take(known, partition, &modify.table),
                    Some((_, known)) => known.merge(partition, &modify.table),
                    None => {
                        together.insert((modify.table.id, partition.key.clone()), (modify, partition));
                    }
                }
            }
        }
        if statements.iter().any(|(modify, _)| modify.counts()) {
            for (modify, partition) in together.into_values().filter(|(_, partition)| !partition.is_empty()) {
                self.count(&modify.table, vec![partition], consistency).await?;
            }
            return Ok(warnings);
        }
        let kind = match kind {
            _ if together.len() == 1 => WriteType::Simple,
            BatchKind::Logged => WriteType::Batch,
            _ => WriteType::UnloggedBatch,
        };
        let mut changes = Vec::new();
        for (modify, partition) in together.values() {
            if let Some(log) = &modify.log {
                let partition = std::slice::from_ref(partition);
                let logged = self.logged_changes(&modify.table, log, partition, consistency).await?;
                changes.extend(logged.into_iter().map(|(token, bytes)| (*modify, token, bytes)));
            }
        }
        let encoded: Vec<(&Modify, Token, Vec<u8>)> = together
            .into_values()
            .filter(|(_, partition)| !partition.is_empty())
            .map(|(modify, partition)| {
                (modify, Token::of_key(&partition.key), Mutation::bytes(&modify.table, partition))
            })
            .chain(changes)
            .collect();
        warnings.extend(self.check_batch_size(&encoded)?);
        let mut logged = None;
        if kind == WriteType::Batch && encoded.len() > 1 {
            for (modify, token, _) in &encoded {
                self.assure_alive(&modify.table.keyspace, *token, consistency)?;
            }
            let mutations = encoded.iter().map(|(modify, _, bytes)| (&*modify.table, bytes.as_slice()));
            logged = Some(self.log_batch(mutations).await?);
        }
        let mut writes = Vec::new();
        for (modify, token, bytes) in encoded {
            let (node, keyspace) = (self.clone(), modify.table.keyspace.clone());
            // Side by side: each waits for its own replicas.
            writes.push(reactor::spawn(reactor::Group::Statement, "batch-write", async move {
                node.write(&keyspace, token, bytes, consistency, kind, timeout).await
            }));
        }
        let mut written = Ok(());
        for write in writes {
            written = written.and(write.await);
        }
        match (&written, logged) {
            (Ok(()), Some(logged)) => self.forget_batch(logged),
            (Err(_), Some(_)) => batch_log::replay_later(self),
            _ => {}
        }
        written.map(|()| warnings)
    }

    /// Refuses a batch that is too large for the coordinator's memory, and warns of one that is near it. One mutation
    /// is no batch.
    fn check_batch_size(&self, mutations: &[(&Modify, Token, Vec<u8>)]) -> Result<Option<String>, QueryError> {
        if mutations.len() < 2 {
            return Ok(None);
        }
        // What a mutation takes in memory beside its bytes, about.
        const OVERHEAD_BYTES: usize = 256;
        let bytes: usize = mutations.iter().map(|(.., bytes)| bytes.len() + OVERHEAD_BYTES).sum();
        let threshold = |name: &str| (self.settings.number(name) * 1024.0) as usize;
        let (fail, warn) = (threshold("batch_size_fail_threshold_in_kb"), threshold("batch_size_warn_threshold_in_kb"));
        let tables: std::collections::BTreeSet<String> =
            mutations.iter().map(|(modify, ..)| format!("{}.{}", modify.table.keyspace, modify.table.name)).collect();
        let told = |threshold: usize| {
            let tables = tables.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let over = bytes - threshold;
            format!("Batch for [{tables}] is of size {bytes}, exceeding specified threshold of {threshold} by {over}.")
        };
        if fail > 0 && bytes > fail {
            tracing::error!("{} (see batch_size_fail_threshold_in_kb)", told(fail));
            return Err(invalid!("Batch too large"));
        }
        Ok((warn > 0 && bytes > warn).then(|| told(warn)))
    }
}
