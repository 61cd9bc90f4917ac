//! What is there before a write that depends on it: the lists whose elements it names by index or by value.
//!
//! Read at the level of the write, as Cassandra's `UpdateParameters` has it: without a condition nothing keeps another
//! write from coming between.

use std::collections::BTreeMap;
use std::rc::Rc;

use cql::Consistency;
use storage::{Bytes, Cell, Clustering, ComplexColumn, Partition, ReadCommand};
use types::Token;

use super::Execution;
use crate::error::QueryError;
use crate::node::Node;
use crate::plan::{ClusteringTarget, Context, Modify};

/// The partitions that a statement writes to, as they are.
#[derive(Default)]
pub(super) struct Current(BTreeMap<Bytes, Partition>);

impl Current {
    /// One partition, read already.
    pub fn of(partition: Option<&Partition>) -> Self {
        Self(partition.map(|partition| (partition.key.clone(), partition.clone())).into_iter().collect())
    }

    /// A column of one cell, as a reader sees it; without a clustering that of the static row.
    pub fn cell(&self, key: &[u8], clustering: Option<&Clustering>, index: u16, now_s: u32) -> Option<&Cell> {
        let partition = self.0.get(key)?;
        let row = match clustering {
            None => partition.static_row.as_ref(),
            Some(clustering) => partition.rows.iter().find(|row| row.clustering == *clustering),
        };
        row?.cell(index).filter(|cell| cell.is_live(now_s))
    }

    /// A column of several cells; without a clustering that of the static row.
    pub fn column(&self, key: &[u8], clustering: Option<&Clustering>, index: u16) -> Option<&ComplexColumn> {
        let partition = self.0.get(key)?;
        let row = match clustering {
            None => partition.static_row.as_ref(),
            Some(clustering) => partition.rows.iter().find(|row| row.clustering == *clustering),
        };
        row?.complex_column(index)
    }
}

impl Node {
    /// Reads what `modify` needs, if it needs anything.
    pub(super) async fn current(
        self: &Rc<Self>,
        modify: &Modify,
        execution: Execution<'_>,
        context: &Context,
    ) -> Result<Current, QueryError> {
        let mut current = Current::default();
        if !modify.needs_current() {
            return Ok(current);
        }
        let table = &modify.table;
        let consistency = match execution.parameters.consistency {
            Consistency::Any => Consistency::One,
            Consistency::EachQuorum => Consistency::Quorum,
            level => level,
        };
        let slices = match &modify.target {
            ClusteringTarget::Rows(slices) => slices.slices(table, execution.values, context)?,
            _ => Vec::new(),
        };
        for key in modify.key.keys(execution.values, context)? {
            let token = Token::of_key(&key);
            let key = Bytes::from(key);
            let command =
                ReadCommand { slices: slices.clone(), ..ReadCommand::partition(table.id, key.clone(), context.now_s) };
            if let Some(partition) = self.read(table, token, command, consistency, None).await? {
                current.0.insert(key, partition);
            }
        }
        Ok(current)
    }
}
