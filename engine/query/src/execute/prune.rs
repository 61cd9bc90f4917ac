//! PRUNE MATERIALIZED VIEW executed: each row of the view is looked up in the table, at ALL, for a row that only some
//! replicas have is not missing; those that are missing are deleted from the view.

use std::rc::Rc;
use std::time::Duration;

use cql::Consistency;
use cql::response::WriteType;
use reactor::Group;
use storage::{Bytes, Mutation, Partition, ReadCommand, Row, ScanCommand, Slice};
use types::Token;

use super::Execution;
use crate::error::{QueryError, invalid, server};
use crate::node::Node;
use crate::plan::{Bound, Context, PartitionPlan, Prune, Source, Values};
use crate::view::{Maintained, Viewed, prune};

/// Rows of the view that are read at once.
const PAGE_ROWS: usize = 500;

fn concurrency(source: Option<&Source>, values: &Values<'_>, context: &Context) -> Result<usize, QueryError> {
    let Some(source) = source else { return Ok(1) };
    let refuse = || invalid!("Concurrency must be a positive number");
    match source.bind(values, context)? {
        Bound::Unset => Ok(1),
        Bound::Null => Err(refuse()),
        Bound::Bytes(bytes) => {
            let number = bytes[..].try_into().map(i32::from_be_bytes).map_err(|_| refuse())?;
            usize::try_from(number).ok().filter(|&number| number > 0).ok_or_else(refuse)
        }
    }
}

/// One view under examination.
struct Pruning {
    viewed: Rc<Viewed>,
    /// Its place among the table's views.
    at: usize,
    now_s: u32,
    timeout: Option<Duration>,
    concurrency: usize,
}

impl Pruning {
    fn view(&self) -> &Maintained {
        &self.viewed.views[self.at]
    }

    /// Deletes the row if the table has none for it.
    async fn examine(&self, node: &Rc<Node>, key: &Bytes, row: &Row) -> Result<(), QueryError> {
        let (view, base) = (self.view(), &self.viewed.base);
        let asked = prune::ViewRow { key, row };
        let lookup = prune::lookup(&self.viewed, view, &asked, self.now_s).map_err(server)?;
        let token = Token::of_key(&lookup.key);
        let found = node.read(base, token, lookup.clone(), Consistency::All, self.timeout).await?;
        if prune::is_backed(&self.viewed, view, &asked, &lookup, found.as_ref()).map_err(server)? {
            return Ok(());
        }
        let table = &view.table;
        let partition = Partition { rows: vec![prune::deletion(view, row, self.now_s)], ..Partition::new(key.clone()) };
        let bytes = Mutation::bytes(table, partition);
        let token = Token::of_key(key);
        node.write(&table.keyspace, token, bytes, Consistency::All, WriteType::Simple, self.timeout).await
    }

    async fn examine_all(self: &Rc<Self>, node: &Rc<Node>, partition: Partition) -> Result<(), QueryError> {
        let table = self.view().table.clone();
        let rows: Vec<Row> = partition.visible_rows(self.now_s, &table).cloned().collect();
        let mut rows = rows.into_iter();
        loop {
            let mut tasks = Vec::new();
            for row in rows.by_ref().take(self.concurrency) {
                let (pruning, node, key) = (self.clone(), node.clone(), partition.key.clone());
                tasks.push(reactor::spawn(Group::Statement, "prune", async move {
                    pruning.examine(&node, &key, &row).await
                }));
            }
            if tasks.is_empty() {
                return Ok(());
            }
            for task in tasks {
                task.await?;
            }
        }
    }
}

impl Node {
    pub(super) async fn prune(self: &Rc<Self>, plan: &Prune, execution: Execution<'_>) -> Result<(), QueryError> {
        let (values, context) = (execution.values, self.context_of(execution.parameters));
        let view = &plan.view;
        let viewed = self.viewed(plan.base.id);
        let at = viewed.as_ref().and_then(|viewed| viewed.views.iter().position(|one| one.table.id == view.id));
        let (Some(viewed), Some(at)) = (viewed, at) else {
            return Err(invalid!("{}.{} is not a materialized view", view.keyspace, view.name));
        };
        let timeout = super::timeout_of(plan.timeout.as_ref(), values, &context)?.or(execution.timeout);
        let concurrency = concurrency(plan.concurrency.as_ref(), values, &context)?;
        let pruning = Rc::new(Pruning { viewed, at, now_s: context.now_s, timeout, concurrency });
        let slices = plan.slices.slices(view, values, &context)?;
        let (consistency, now_s) = (execution.parameters.consistency, pruning.now_s);
        if slices.is_empty() {
            return Ok(());
        }
        let (lower, upper) = match &plan.partition {
            PartitionPlan::Keys(keys) => {
                for key in keys.keys(values, &context)? {
                    self.prune_partition(&pruning, key.into(), slices.clone(), consistency).await?;
                }
                return Ok(());
            }
            PartitionPlan::Tokens { lower, upper } => match PartitionPlan::tokens(lower, upper, values, &context)? {
                Some(tokens) => tokens,
                None => return Ok(()),
            },
        };
        for tokens in self.ranges(&view.keyspace, (lower, upper))? {
            let mut after = None;
            loop {
                let command = ScanCommand {
                    tokens,
                    after: after.take(),
                    slices: slices.clone(),
                    limit_rows: PAGE_ROWS,
                    ..ScanCommand::all(view.id, now_s)
                };
                let (partitions, more) = self.scan_range(view, command, consistency, timeout).await?;
                after = partitions.last().filter(|_| more).map(|last| {
                    let row = last.rows.last().filter(|_| !view.clustering.is_empty());
                    (last.key.clone(), row.map(|row| row.clustering.clone()))
                });
                for partition in partitions {
                    pruning.examine_all(self, partition).await?;
                }
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn prune_partition(
        self: &Rc<Self>,
        pruning: &Rc<Pruning>,
        key: Bytes,
        mut slices: Vec<Slice>,
        consistency: Consistency,
    ) -> Result<(), QueryError> {
        let view = pruning.view().table.clone();
        let token = Token::of_key(&key);
        while !slices.is_empty() {
            let command = ReadCommand {
                slices: slices.clone(),
                limit_rows: PAGE_ROWS,
                ..ReadCommand::partition(view.id, key.clone(), pruning.now_s)
            };
            let Some(partition) = self.read(&view, token, command, consistency, pruning.timeout).await? else { break };
            let live = partition.visible_rows(pruning.now_s, &view).count();
            slices = match partition.rows.last().filter(|_| live >= PAGE_ROWS) {
                None => Vec::new(),
                Some(last) => slices.iter().filter_map(|s| s.behind(&last.clustering, false, &view)).collect(),
            };
            pruning.examine_all(self, partition).await?;
        }
        Ok(())
    }
}
