//! INSERT, UPDATE and DELETE executed: from values to mutations.

use std::rc::Rc;

use cql::Consistency;
use cql::request::BatchKind;
use cql::response::WriteType;
use storage::{Bytes, Cell, Clustering, DeletionTime, Liveness, Mutation, Partition, RangeTombstone, Row, Slice};
use types::{TableDef, TableId, Token};

use super::Execution;
use crate::error::{QueryError, invalid};
use crate::node::Node;
use crate::plan::{self, Bound, ClusteringTarget, Context, Modify, ModifyKind, Source, Values};

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

/// When the values of one statement are written, and how long they last.
struct Stamp {
    timestamp: i64,
    ttl_s: u32,
    now_s: u32,
}

impl Stamp {
    /// `None` for a value that is unset: the cell stays as it is.
    fn cell(&self, value: Bound<'_>) -> Option<Cell> {
        match value {
            Bound::Unset => None,
            Bound::Null => Some(Cell::tombstone(self.timestamp, self.now_s)),
            Bound::Bytes(bytes) => Some(if self.ttl_s == 0 {
                Cell::live(self.timestamp, &*bytes)
            } else {
                Cell::expiring(self.timestamp, self.ttl_s, self.now_s, &*bytes)
            }),
        }
    }

    fn deletion(&self) -> DeletionTime {
        DeletionTime { timestamp: self.timestamp, local_s: self.now_s }
    }

    fn marker(&self) -> Liveness {
        match self.ttl_s {
            0 => Liveness::live(self.timestamp),
            ttl => Liveness::expiring(self.timestamp, ttl, self.now_s),
        }
    }

    fn row(
        &self,
        clustering: Clustering,
        cells: &[(u16, Source)],
        values: &Values<'_>,
        context: &Context,
    ) -> Result<Row, QueryError> {
        let mut row = Row::new(clustering);
        row.cells.reserve_exact(cells.len());
        for (index, source) in cells {
            if let Some(cell) = self.cell(source.bind(values, context)?) {
                row.cells.push((*index, cell));
            }
        }
        Ok(row)
    }
}

/// What one statement writes, partition by partition.
fn partitions(
    node: &Node,
    modify: &Modify,
    execution: Execution<'_>,
    context: &Context,
) -> Result<Vec<Partition>, QueryError> {
    let values = execution.values;
    let timestamp = timestamp_of(modify.timestamp.as_ref(), values, context)?.or(execution.parameters.timestamp);
    let stamp = Stamp {
        timestamp: timestamp.unwrap_or_else(|| node.next_timestamp()),
        ttl_s: ttl_of(modify, values, context)?,
        now_s: now_s(context),
    };
    let keys = modify.key.keys(values, context)?;
    keys.into_iter()
        .map(|key| {
            let mut partition = Partition::new(key);
            write(&mut partition, modify, &stamp, values, context)?;
            Ok(partition)
        })
        .collect()
}

fn write(
    partition: &mut Partition,
    modify: &Modify,
    stamp: &Stamp,
    values: &Values<'_>,
    context: &Context,
) -> Result<(), QueryError> {
    let table: &TableDef = &modify.table;
    if !modify.statics.is_empty() {
        partition.static_row = Some(stamp.row(Clustering::empty(), &modify.statics, values, context)?);
    }
    let whole = modify.kind == ModifyKind::Delete && modify.cells.is_empty() && modify.statics.is_empty();
    match &modify.target {
        ClusteringTarget::Partition if whole => partition.deletion = Some(stamp.deletion()),
        ClusteringTarget::Partition if !table.clustering.is_empty() => {}
        ClusteringTarget::Partition => {
            let mut row = stamp.row(Clustering::empty(), &modify.cells, values, context)?;
            row.marker = (modify.kind == ModifyKind::Insert).then(|| stamp.marker());
            partition.rows.push(row);
        }
        ClusteringTarget::Rows(slices) => {
            for Slice { start, .. } in slices.slices(table, values, context)? {
                let mut row = stamp.row(start.prefix, &modify.cells, values, context)?;
                row.deletion = whole.then(|| stamp.deletion());
                row.marker = (modify.kind == ModifyKind::Insert).then(|| stamp.marker());
                if !row.is_empty() {
                    partition.rows.push(row);
                }
            }
        }
        ClusteringTarget::Range(slices) => {
            for Slice { start, end } in slices.slices(table, values, context)? {
                partition.range_tombstones.push(RangeTombstone { start, end, deletion: stamp.deletion() });
            }
        }
    }
    Ok(())
}

pub(crate) fn now_s(context: &Context) -> u32 {
    (context.now_us / 1_000_000) as u32
}

fn encode(table: &TableDef, partition: Partition) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(256);
    Mutation { table: table.id, schema_version: table.version, partition }.encode(&mut bytes);
    bytes
}

impl Node {
    pub(super) async fn modify(self: &Rc<Self>, modify: &Modify, execution: Execution<'_>) -> Result<(), QueryError> {
        let consistency = execution.parameters.consistency;
        plan::check_write_consistency(consistency)?;
        let table = &modify.table;
        // Encoded at once: only the bytes have to wait for the replicas.
        let partitions = partitions(self, modify, execution, &self.context())?;
        let kind = if partitions.len() > 1 { WriteType::UnloggedBatch } else { WriteType::Simple };
        let mutations: Vec<(Token, Vec<u8>)> = partitions
            .into_iter()
            .filter(|partition| !partition.is_empty())
            .map(|partition| (Token::of_key(&partition.key), encode(table, partition)))
            .collect();
        for (token, mutation) in mutations {
            self.write(&table.keyspace, token, mutation, consistency, kind).await?;
        }
        Ok(())
    }

    /// The statements of a batch: one mutation for each partition that they touch. There is no batch log yet: a
    /// logged batch over several partitions is as atomic as an unlogged one.
    pub(super) async fn modify_together(
        self: &Rc<Self>,
        kind: BatchKind,
        statements: &[(&Modify, Execution<'_>)],
        consistency: Consistency,
    ) -> Result<(), QueryError> {
        plan::check_write_consistency(consistency)?;
        let context = self.context();
        let now = self.next_timestamp();
        let mut together: std::collections::BTreeMap<(TableId, Bytes), (&Modify, Partition)> = Default::default();
        for (modify, execution) in statements {
            let mut parameters = *execution.parameters;
            parameters.timestamp.get_or_insert(now);
            let execution = Execution { parameters: &parameters, ..*execution };
            for partition in partitions(self, modify, execution, &context)? {
                match together.get_mut(&(modify.table.id, partition.key.clone())) {
                    Some((_, known)) => known.merge(partition, &modify.table),
                    None => {
                        together.insert((modify.table.id, partition.key.clone()), (modify, partition));
                    }
                }
            }
        }
        let kind = match kind {
            _ if together.len() == 1 => WriteType::Simple,
            BatchKind::Logged => WriteType::Batch,
            _ => WriteType::UnloggedBatch,
        };
        let mut writes = Vec::new();
        for (modify, partition) in together.into_values().filter(|(_, partition)| !partition.is_empty()) {
            let token = Token::of_key(&partition.key);
            let bytes = encode(&modify.table, partition);
            let (node, keyspace) = (self.clone(), modify.table.keyspace.clone());
            // Side by side: each waits for its own replicas.
            writes.push(reactor::spawn(reactor::Group::Statement, "batch-write", async move {
                node.write(&keyspace, token, bytes, consistency, kind).await
            }));
        }
        for write in writes {
            write.await?;
        }
        Ok(())
    }
}
