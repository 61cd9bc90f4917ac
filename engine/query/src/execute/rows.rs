//! Rows on their way to the client: filtered, evaluated, counted against LIMIT and page.

use std::borrow::Cow;
use std::cmp::Ordering;

use cql::ast::Operator;
use cql::response::RowsWriter;
use storage::{Cell, Partition, Row};
use types::{ColumnKind, TableDef, Token, partition_key_components};

use crate::coordinator::ScanPosition;
use crate::error::{QueryError, server};
use crate::plan::{Bound, Context, Expression, Select, Values};

use super::modify::now_s;

/// One row with the partition that it belongs to.
struct View<'a> {
    table: &'a TableDef,
    partition: &'a Partition,
    components: &'a [&'a [u8]],
    /// `None`: only the static row is there.
    row: Option<&'a Row>,
    now_s: u32,
}

impl<'a> View<'a> {
    fn cell(&self, is_static: bool, index: u16) -> Option<&'a Cell> {
        let row = if is_static { self.partition.static_row.as_ref() } else { self.row };
        row?.cell(index).filter(|cell| cell.is_live(self.now_s))
    }

    /// The value of a column: of its cell, put together from the cells of its elements, or counted.
    fn column_value(&self, is_static: bool, index: u16) -> Option<Cow<'a, [u8]>> {
        let (row, columns) = match is_static {
            true => (self.partition.static_row.as_ref(), &self.table.statics),
            false => (self.row, &self.table.regulars),
        };
        let row = row?;
        if let Some(complex) = row.complex_column(index) {
            return complex.value(&columns.get(usize::from(index))?.ty, self.now_s).map(Cow::Owned);
        }
        let cell = row.cell(index).filter(|cell| cell.is_live(self.now_s))?;
        let value = cell.value.as_deref()?;
        if columns.get(usize::from(index)).is_some_and(|column| column.ty.is_counter()) {
            return storage::counter::total(value).ok().map(|total| Cow::Owned(total.to_be_bytes().to_vec()));
        }
        Some(Cow::Borrowed(value))
    }

    fn value(
        &self,
        expression: &'a Expression,
        values: &Values<'a>,
        context: &Context,
    ) -> Result<Option<Cow<'a, [u8]>>, QueryError> {
        Ok(match expression {
            Expression::PartitionKey(at) => Some(Cow::Borrowed(self.components[usize::from(*at)])),
            Expression::Clustering(at) => {
                self.row.and_then(|row| row.clustering.component(usize::from(*at))).map(Cow::Borrowed)
            }
            Expression::Static(index) => self.column_value(true, *index),
            Expression::Regular(index) => self.column_value(false, *index),
            Expression::WriteTime { is_static, index } => {
                self.cell(*is_static, *index).map(|cell| Cow::Owned(cell.timestamp.to_be_bytes().to_vec()))
            }
            Expression::Ttl { is_static, index } => {
                let expiring = self.cell(*is_static, *index).filter(|cell| cell.ttl_s > 0);
                expiring.map(|cell| Cow::Owned((cell.local_deletion_s - self.now_s).to_be_bytes().to_vec()))
            }
            Expression::Token => Some(Cow::Owned(Token::of_key(&self.partition.key).0.to_be_bytes().to_vec())),
            Expression::Term(source) => match source.bind(values, context)? {
                Bound::Bytes(bytes) => Some(Cow::Owned(bytes.into_owned())),
                _ => None,
            },
            Expression::Call(function, arguments) => {
                let arguments = arguments
                    .iter()
                    .map(|argument| self.value(argument, values, context))
                    .collect::<Result<Vec<_>, _>>()?;
                let arguments: Vec<Option<&[u8]>> = arguments.iter().map(Option::as_deref).collect();
                function.call(&arguments, context)?.map(Cow::Owned)
            }
            Expression::Aggregate(_, argument) => match argument {
                Some(argument) => self.value(argument, values, context)?,
                None => Some(Cow::Borrowed(&[])),
            },
        })
    }
}

/// Whether to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flow {
    More,
    /// No row is wanted any more.
    Done,
    /// The page is full, and there is at least one more row.
    PageFull,
}

/// A running aggregate.
#[derive(Clone, Debug)]
enum Running {
    Count(i64),
    Extreme(Option<Vec<u8>>),
}

/// Takes partitions in order and makes the rows of the answer.
pub(super) struct Collector<'a> {
    select: &'a Select,
    values: &'a Values<'a>,
    context: &'a Context,
    filters: Vec<(&'a crate::plan::Filter, Cow<'a, [u8]>)>,
    pub out: Vec<u8>,
    writer: RowsWriter,
    running: Vec<Running>,
    /// Rows that the page, LIMIT and PER PARTITION LIMIT still let through.
    page_left: u64,
    pub remaining: u64,
    per_partition: u64,
    pub remaining_in_partition: u64,
    current: Option<storage::Bytes>,
    /// The last row looked at.
    pub position: Option<ScanPosition>,
}

pub(super) struct Limits {
    pub page: u64,
    pub total: u64,
    pub per_partition: u64,
    /// Where the page before this one ended, and what its partition may still give.
    pub resume: Option<(ScanPosition, u64)>,
}

impl<'a> Collector<'a> {
    pub fn new(
        select: &'a Select,
        values: &'a Values<'a>,
        context: &'a Context,
        skip_metadata: bool,
        limits: Limits,
    ) -> Result<Self, QueryError> {
        let filters = select
            .filters
            .iter()
            .map(|filter| Ok((filter, filter.value.bind(values, context)?.required(&filter.column.name)?)))
            .collect::<Result<_, QueryError>>()?;
        let mut out = Vec::with_capacity(256);
        let writer = RowsWriter::begin(&mut out, &select.metadata, skip_metadata, None);
        let running = select.outputs.iter().map(|output| match &output.expression {
            Expression::Aggregate(crate::plan::Aggregate::Count, _) => Running::Count(0),
            _ => Running::Extreme(None),
        });
        let per_partition = if select.distinct { 1 } else { limits.per_partition };
        let (position, remaining_in_partition) = match limits.resume {
            Some((position, left)) => (Some(position), left),
            None => (None, per_partition),
        };
        Ok(Self {
            running: if select.is_aggregate() { running.collect() } else { Vec::new() },
            current: position.as_ref().map(|position| position.key.clone()),
            filters,
            out,
            writer,
            page_left: limits.page,
            remaining: limits.total,
            per_partition,
            remaining_in_partition,
            position,
            select,
            values,
            context,
        })
    }

    fn aggregates(&self) -> bool {
        !self.running.is_empty()
    }

    /// How many rows it makes sense to ask for: one more than are wanted tells whether there are more.
    pub fn wanted(&self) -> usize {
        // Enough to make round trips rare, few enough to bound memory where there is no limit.
        const CHUNK_ROWS: u64 = 5_000;
        if self.aggregates() || !self.filters.is_empty() {
            return CHUNK_ROWS as usize;
        }
        self.page_left.min(self.remaining).min(CHUNK_ROWS) as usize + 1
    }

    /// Takes the next partition, or the next part of the current one.
    pub fn take(&mut self, partition: &Partition) -> Result<Flow, QueryError> {
        let table = &*self.select.table;
        if self.current.as_ref() != Some(&partition.key) {
            self.current = Some(partition.key.clone());
            self.remaining_in_partition = self.per_partition;
        }
        let components = partition_key_components(&partition.key, table.partition_key.len()).map_err(server)?;
        let now_s = now_s(self.context);
        let view = |row| View { table, partition, components: &components, row, now_s };
        let mut any = false;
        let mut live: Box<dyn Iterator<Item = &Row>> = match self.select.reverse {
            true => Box::new(partition.live_rows(now_s).rev()),
            false => Box::new(partition.live_rows(now_s)),
        };
        for row in live.by_ref() {
            any = true;
            match self.take_row(&view(Some(row)))? {
                Flow::More => {}
                flow => return Ok(flow),
            }
        }
        // A partition of which only the static row is left shows it once, unless rows were asked for by name.
        let continued = self
            .position
            .as_ref()
            .is_some_and(|position| position.key == partition.key && position.clustering.is_some());
        if !any && !continued && self.select.slices.is_all() && partition.has_live_static(now_s) {
            return self.take_row(&view(None));
        }
        Ok(Flow::More)
    }

    fn take_row(&mut self, view: &View<'_>) -> Result<Flow, QueryError> {
        let passes = self.passes(view)?;
        if passes && self.remaining_in_partition > 0 {
            if self.remaining == 0 {
                return Ok(Flow::Done);
            }
            if self.page_left == 0 {
                return Ok(Flow::PageFull);
            }
            if self.aggregates() {
                self.accumulate(view)?;
            } else {
                self.emit(view)?;
                self.remaining -= 1;
                self.page_left -= 1;
                self.remaining_in_partition -= 1;
            }
        }
        let clustering = view.row.filter(|_| !view.table.clustering.is_empty()).map(|row| row.clustering.clone());
        self.position = Some(ScanPosition { key: view.partition.key.clone(), clustering });
        Ok(Flow::More)
    }

    fn passes(&self, view: &View<'_>) -> Result<bool, QueryError> {
        for (filter, wanted) in &self.filters {
            let column = &filter.column;
            let value: Option<Cow<'_, [u8]>> = match column.kind {
                ColumnKind::PartitionKey(at) => Some(Cow::Borrowed(view.components[usize::from(at)])),
                ColumnKind::Clustering(at) => {
                    view.row.and_then(|row| row.clustering.component(usize::from(at))).map(Cow::Borrowed)
                }
                ColumnKind::Static => {
                    view.table.static_index(&column.name).and_then(|index| view.column_value(true, index as u16))
                }
                ColumnKind::Regular => {
                    view.table.regular_index(&column.name).and_then(|index| view.column_value(false, index as u16))
                }
            };
            let Some(value) = value else { return Ok(false) };
            let order = column.ty.compare(&value, wanted);
            let holds = match filter.operator {
                Operator::Equal => order == Ordering::Equal,
                Operator::NotEqual => order != Ordering::Equal,
                Operator::Less => order == Ordering::Less,
                Operator::LessOrEqual => order != Ordering::Greater,
                Operator::Greater => order == Ordering::Greater,
                Operator::GreaterOrEqual => order != Ordering::Less,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn emit(&mut self, view: &View<'_>) -> Result<(), QueryError> {
        for output in &self.select.outputs {
            let value = view.value(&output.expression, self.values, self.context)?;
            self.writer.cell(&mut self.out, value.as_deref());
        }
        self.writer.end_row();
        Ok(())
    }

    fn accumulate(&mut self, view: &View<'_>) -> Result<(), QueryError> {
        for (output, running) in self.select.outputs.iter().zip(&mut self.running) {
            let Some(value) = view.value(&output.expression, self.values, self.context)? else { continue };
            match running {
                Running::Count(count) => *count += 1,
                Running::Extreme(best) => {
                    let wanted = match &output.expression {
                        Expression::Aggregate(crate::plan::Aggregate::Max(_), _) => Ordering::Greater,
                        _ => Ordering::Less,
                    };
                    let better = best.as_ref().is_none_or(|best| output.ty.compare(&value, best) == wanted);
                    if better {
                        *best = Some(value.into_owned());
                    }
                }
            }
        }
        Ok(())
    }

    /// The body, with the aggregates' one row, or with the state that leads to the next page.
    pub fn finish(mut self, page_state: Option<&[u8]>, skip_metadata: bool) -> Vec<u8> {
        if !self.running.is_empty() {
            for running in &self.running {
                match running {
                    Running::Count(count) => self.writer.cell(&mut self.out, Some(&count.to_be_bytes())),
                    Running::Extreme(best) => self.writer.cell(&mut self.out, best.as_deref()),
                }
            }
            self.writer.end_row();
        }
        match page_state {
            Some(state) => self.writer.finish_page(&mut self.out, &self.select.metadata, skip_metadata, state),
            None => drop(self.writer.finish(&mut self.out)),
        }
        self.out
    }
}
