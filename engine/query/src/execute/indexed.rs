//! SELECT through an index: the index's view is read page by page, and the rows that it names are read from the table
//! and filtered like any others, so that an index that is ahead of its table shows nothing that is not there.

use std::rc::Rc;
use std::time::Duration;

use storage::{Bound as SliceBound, Bytes, Clustering, ReadCommand, Slice};
use types::{
    ColumnDef, ColumnKind, IndexView, TableDef, Token, collection, partition_key_components, serialize_partition_key,
};

use super::Execution;
use super::rows::{Collector, Flow};
use crate::coordinator::ScanPosition;
use crate::error::{QueryError, invalid, server};
use crate::node::Node;
use crate::plan::{Bound, Context, IndexSearch, PartitionPlan, Select, Sought};

/// A partition of the base with the rows that are wanted of it; of a table without clustering columns, or found by a
/// static column, none is named.
struct Found {
    key: Bytes,
    rows: Vec<Clustering>,
}

impl Node {
    pub(super) async fn select_indexed(
        self: &Rc<Self>,
        select: &Select,
        collector: &mut Collector<'_>,
        execution: Execution<'_>,
        context: &Context,
    ) -> Result<Flow, QueryError> {
        let Some(search) = &select.index else { return Ok(Flow::Done) };
        let values = execution.values;
        let timeout = super::timeout_of(select.timeout.as_ref(), values, context)?;
        let bytes = |source: &crate::plan::Source| -> Result<Option<Vec<u8>>, QueryError> {
            Ok(match source.bind(values, context)? {
                Bound::Bytes(bytes) => Some(bytes.into_owned()),
                // Nothing is equal to null; unset values have been refused with the filters.
                _ => None,
            })
        };
        let wanted = match &search.wanted {
            Sought::Value(source) => bytes(source)?,
            Sought::Entry(key, value) => match (bytes(key)?, bytes(value)?) {
                (Some(key), Some(value)) => Some(collection::write_tuple([Some(&*key), Some(&*value)])),
                _ => None,
            },
        };
        let Some(wanted) = wanted else { return Ok(Flow::Done) };
        let keys: Vec<Option<Vec<u8>>> = match &select.partition {
            PartitionPlan::Keys(keys) => keys.keys(values, context)?.into_iter().map(Some).collect(),
            PartitionPlan::Tokens { .. } => vec![None],
        };
        let tokens = match &select.partition {
            PartitionPlan::Tokens { lower, upper } => match PartitionPlan::tokens(lower, upper, values, context)? {
                Some(tokens) => Some(tokens),
                None => return Ok(Flow::Done),
            },
            PartitionPlan::Keys(_) => None,
        };
        let resume = collector.position.clone();
        let lookup = Lookup { search, base: &select.table, wanted: &wanted };
        for key in keys {
            if let (Some(key), Some(position)) = (&key, &resume)
                && key.as_slice() < &*position.key
            {
                continue;
            }
            let here = resume.as_ref().filter(|position| key.as_ref().is_none_or(|key| **key == *position.key));
            let (view_key, mut slice) = lookup.start(key.as_deref(), tokens)?;
            if let Some(position) = here {
                let start = lookup.behind(position)?;
                if start.compare_start(&slice.start, &search.view).is_gt() {
                    slice.start = start;
                }
            }
            let found = Search { select, lookup: &lookup, execution, context, timeout, resume: here };
            match self.search(&found, Bytes::from(view_key), slice, collector).await? {
                Flow::More => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Done)
    }

    async fn search(
        self: &Rc<Self>,
        search: &Search<'_>,
        view_key: Bytes,
        slice: Slice,
        collector: &mut Collector<'_>,
    ) -> Result<Flow, QueryError> {
        let view = &search.lookup.search.view;
        let token = Token::of_key(&view_key);
        let now = search.context.now_s;
        let mut slices = vec![slice];
        loop {
            let limit_rows = collector.wanted_of_index();
            let command = ReadCommand {
                slices: slices.clone(),
                limit_rows,
                ..ReadCommand::partition(view.id, view_key.clone(), now)
            };
            let consistency = search.execution.parameters.consistency;
            let read = self.read(view, token, command, consistency, search.timeout).await?;
            let Some(partition) = read else { break };
            let mut found: Vec<Found> = Vec::new();
            let mut count = 0;
            for row in partition.visible_rows(now, view) {
                search.lookup.add(&mut found, &view_key, &row.clustering)?;
                count += 1;
            }
            // Several elements of one collection may have found one row.
            let last =
                found.last().map(|last| ScanPosition { key: last.key.clone(), clustering: last.rows.last().cloned() });
            for found in found {
                let key = found.key.clone();
                let slices = search.base_slices(found)?;
                if slices.is_empty() {
                    continue;
                }
                let Search { select, execution, context, .. } = *search;
                match self.select_partition(select, collector, key, slices, execution, context).await? {
                    // A full page is the last one only if an empty one comes behind it: whether the index finds more
                    // is not known before the rows are read.
                    Flow::More if collector.is_page_full() => return Ok(Flow::PageFull),
                    Flow::More => {}
                    flow => return Ok(flow),
                }
            }
            let Some(last) = last.filter(|_| count >= limit_rows) else { break };
            let start = SliceBound::exclusive(search.lookup.prefix(&last)?);
            for slice in &mut slices {
                slice.start = start.clone();
            }
        }
        Ok(Flow::More)
    }
}

/// One search of one partition of the index's view.
struct Search<'a> {
    select: &'a Select,
    lookup: &'a Lookup<'a>,
    execution: Execution<'a>,
    context: &'a Context,
    timeout: Option<Duration>,
    /// The row of the base that the last page ended with.
    resume: Option<&'a ScanPosition>,
}

impl Search<'_> {
    /// The rows to read of a partition of the base.
    fn base_slices(&self, mut found: Found) -> Result<Vec<Slice>, QueryError> {
        let table = &*self.select.table;
        let asked = self.select.slices.slices(table, self.execution.values, self.context)?;
        if table.clustering.is_empty() || self.lookup.search.finds_partitions {
            let done = self.resume.filter(|position| position.key == found.key);
            return Ok(match done.and_then(|position| position.clustering.as_ref()) {
                None => asked,
                Some(row) => asked.iter().filter_map(|slice| slice.behind(row, false, table)).collect(),
            });
        }
        found.rows.retain(|row| asked.iter().any(|slice| slice.contains(row, table)));
        found.rows.sort_by(|a, b| a.compare(b, table));
        found.rows.dedup();
        Ok(found.rows.into_iter().map(Slice::prefix).collect())
    }
}

/// Translates between the keys of the index's view and those of the base.
struct Lookup<'a> {
    search: &'a IndexSearch,
    base: &'a TableDef,
    wanted: &'a [u8],
}

impl Lookup<'_> {
    fn index_view(&self) -> Result<&IndexView, QueryError> {
        let view = self.search.view.view.as_ref().and_then(|view| view.index.as_ref());
        view.ok_or_else(|| server("the view of an index has lost its index"))
    }

    /// The view's partition and the slice of it that may have what is wanted.
    fn start(&self, key: Option<&[u8]>, tokens: Option<(Token, Token)>) -> Result<(Vec<u8>, Slice), QueryError> {
        if self.search.is_local {
            let key = key.ok_or_else(|| server("a local index without a partition"))?;
            return Ok((key.to_vec(), Slice::prefix(Clustering::new([self.wanted]))));
        }
        if self.wanted.len() > usize::from(u16::MAX) {
            return Err(invalid!(
                "Index expression values may not be larger than 64K: a value of size {} was given",
                self.wanted.len()
            ));
        }
        let view_key = serialize_partition_key(&[self.wanted]);
        if let Some(key) = key {
            let position = ScanPosition { key: key.into(), clustering: None };
            return Ok((view_key, Slice::prefix(self.prefix(&position)?)));
        }
        let mut slice = Slice::all();
        let at = |token: Token| Clustering::new([token.0.to_be_bytes()]);
        if let Some((start, end)) = tokens {
            if start.0 != i64::MIN {
                slice.start = SliceBound::exclusive(at(start));
            }
            if end.0 != i64::MIN {
                slice.end = SliceBound::inclusive(at(end));
            }
        }
        Ok((view_key, slice))
    }

    /// What the clustering of the view's rows for a row of the base begins with, or for a whole partition.
    fn prefix(&self, position: &ScanPosition) -> Result<Clustering, QueryError> {
        let (base, index) = (self.base, self.index_view()?);
        let components = partition_key_components(&position.key, base.partition_key.len()).map_err(server)?;
        let token = Token::of_key(&position.key).0.to_be_bytes();
        let part = |name: &str| -> Option<&[u8]> {
            if index.token.as_deref() == Some(name) {
                return Some(&token);
            }
            if index.value == name {
                return Some(self.wanted);
            }
            match base.column(name)?.kind {
                ColumnKind::PartitionKey(at) => components.get(usize::from(at)).copied(),
                ColumnKind::Clustering(at) => position.clustering.as_ref()?.component(usize::from(at)),
                _ => None,
            }
        };
        Ok(Clustering::new(self.search.view.clustering.iter().map_while(|column| part(&column.name))))
    }

    /// Where a search goes on after a row of the base. A partition that was found as a whole may have more rows.
    fn behind(&self, position: &ScanPosition) -> Result<SliceBound, QueryError> {
        let prefix = self.prefix(position)?;
        let inside = self.search.finds_partitions && position.clustering.is_some();
        Ok(if inside { SliceBound::inclusive(prefix) } else { SliceBound::exclusive(prefix) })
    }

    /// Adds the row of the base that a row of the view stands for.
    fn add(&self, found: &mut Vec<Found>, view_key: &Bytes, row: &Clustering) -> Result<(), QueryError> {
        let (view, index) = (&self.search.view, self.index_view()?);
        let parts: Vec<&[u8]> = row.components().collect();
        let value = |column: &ColumnDef| -> Result<&[u8], QueryError> {
            if column.name == index.value && !self.search.is_local {
                return Ok(self.wanted);
            }
            let at = view.clustering.iter().position(|other| other.name == column.name);
            at.and_then(|at| parts.get(at).copied()).ok_or_else(|| server("the view of an index has lost a key"))
        };
        let key = match self.search.is_local {
            true => view_key.clone(),
            false => {
                let parts = self.base.partition_key.iter().map(value).collect::<Result<Vec<_>, _>>()?;
                Bytes::from(serialize_partition_key(&parts))
            }
        };
        if found.last().is_none_or(|last| last.key != key) {
            found.push(Found { key, rows: Vec::new() });
        }
        if !self.search.finds_partitions && !self.base.clustering.is_empty() {
            let parts = self.base.clustering.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            if let Some(last) = found.last_mut() {
                last.rows.push(Clustering::new(parts));
            }
        }
        Ok(())
    }
}
