//! Rows on their way to the client: filtered, evaluated, counted against LIMIT and page.

use std::borrow::Cow;

use cql::response::{ErrorKind, RowsWriter};
use storage::{Cell, Partition, Row};
use types::{ColumnDef, ColumnKind, TableDef, Token, partition_key_components};

use crate::coordinator::ScanPosition;
use crate::error::{QueryError, invalid, server};
use crate::plan::{
    Aggregation, Bound, BoundFilter, BoundTuples, Context, Expression, Grouping, Nulls, Output, Part, Select, Values,
};

use super::aggregate::Running;
use super::part;
use crate::settings::TombstoneLimits;

/// One row with the partition that it belongs to.
pub(super) struct View<'a> {
    pub table: &'a TableDef,
    pub partition: &'a Partition,
    pub components: &'a [&'a [u8]],
    /// `None`: only the static row is there.
    pub row: Option<&'a Row>,
    pub now_s: u32,
    pub values: &'a Values<'a>,
    pub context: &'a Context,
}

impl<'a> View<'a> {
    /// Of a column with one cell that cell, whatever the part; else the part's own.
    fn cell(&self, is_static: bool, index: u16, part: Option<&Part>) -> Result<Option<&'a Cell>, QueryError> {
        let (row, columns) = match is_static {
            true => (self.partition.static_row.as_ref(), &self.table.statics),
            false => (self.row, &self.table.regulars),
        };
        let Some(row) = row else { return Ok(None) };
        if let (Some(part), Some(complex), Some(column)) =
            (part, row.complex_column(index), columns.get(usize::from(index)))
        {
            return part::cell(complex, &column.ty, part, self.now_s, self.values, self.context);
        }
        Ok(row.cell(index).filter(|cell| cell.is_live(self.now_s)))
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

    /// The value of any column of the table.
    pub fn column(&self, column: &ColumnDef) -> Option<Cow<'a, [u8]>> {
        match column.kind {
            ColumnKind::PartitionKey(at) => Some(Cow::Borrowed(self.components[usize::from(at)])),
            ColumnKind::Clustering(at) => {
                self.row.and_then(|row| row.clustering.component(usize::from(at))).map(Cow::Borrowed)
            }
            ColumnKind::Static => self.column_value(true, self.table.static_index(&column.name)? as u16),
            ColumnKind::Regular => self.column_value(false, self.table.regular_index(&column.name)? as u16),
        }
    }

    /// What is read from the row itself.
    fn leaf(&self, expression: &Expression) -> Result<Option<Cow<'a, [u8]>>, QueryError> {
        Ok(match expression {
            Expression::PartitionKey(at) => Some(Cow::Borrowed(self.components[usize::from(*at)])),
            Expression::Clustering(at) => {
                self.row.and_then(|row| row.clustering.component(usize::from(*at))).map(Cow::Borrowed)
            }
            Expression::Static(index) => self.column_value(true, *index),
            Expression::Regular(index) => self.column_value(false, *index),
            Expression::WriteTime { is_static, index, part } => self
                .cell(*is_static, *index, part.as_ref())?
                .map(|cell| Cow::Owned(cell.timestamp.to_be_bytes().to_vec())),
            Expression::Ttl { is_static, index, part } => {
                let expiring = self.cell(*is_static, *index, part.as_ref())?.filter(|cell| cell.ttl_s > 0);
                expiring.map(|cell| Cow::Owned((cell.local_deletion_s - self.now_s).to_be_bytes().to_vec()))
            }
            Expression::Token => Some(Cow::Owned(Token::of_key(&self.partition.key).0.to_be_bytes().to_vec())),
            Expression::Term(_)
            | Expression::Call(..)
            | Expression::Cast { .. }
            | Expression::Part { .. }
            | Expression::Json(_)
            | Expression::Grouped(_) => None,
        })
    }
}

/// The value of an expression; `leaf` gives what comes from a row or a group.
fn evaluate<'a>(
    expression: &'a Expression,
    values: &Values<'a>,
    context: &Context,
    leaf: &impl Fn(&'a Expression) -> Result<Option<Cow<'a, [u8]>>, QueryError>,
) -> Result<Option<Cow<'a, [u8]>>, QueryError> {
    Ok(match expression {
        Expression::Term(source) => match source.bind(values, context)? {
            Bound::Bytes(bytes) => Some(Cow::Owned(bytes.into_owned())),
            _ => None,
        },
        Expression::Call(function, arguments) => {
            let arguments = arguments
                .iter()
                .map(|argument| evaluate(argument, values, context, leaf))
                .collect::<Result<Vec<_>, _>>()?;
            let arguments: Vec<Option<&[u8]>> = arguments.iter().map(Option::as_deref).collect();
            function.call(&arguments, context)?.map(Cow::Owned)
        }
        Expression::Cast { from, to, argument } => {
            let Some(value) = evaluate(argument, values, context, leaf)? else { return Ok(None) };
            Some(Cow::Owned(from.cast(to, &value).map_err(|error| invalid!("{error}"))?))
        }
        Expression::Json(members) => {
            let mut text = String::from("{");
            for (at, (name, ty, value)) in members.iter().enumerate() {
                let value = evaluate(value, values, context, leaf)?;
                let json = value.map_or(Ok("null".to_string()), |value| ty.to_json(&value)).map_err(server)?;
                text.extend([if at == 0 { "" } else { ", " }, name, ": ", &json]);
            }
            text.push('}');
            Some(Cow::Owned(text.into_bytes()))
        }
        Expression::Part { of, ty, part } => {
            let Some(value) = evaluate(of, values, context, leaf)? else { return Ok(None) };
            part::of_value(&value, ty, part, values, context)?.map(Cow::Owned)
        }
        row_or_group => leaf(row_or_group)?,
    })
}

/// As Cassandra's `TombstoneOverwhelmingException` reaches clients; the merged answer of the replicas is counted, so
/// each of them is taken to have failed.
fn too_many_tombstones(found: usize, most: usize) -> QueryError {
    let kind = ErrorKind::ReadFailure {
        consistency: cql::Consistency::One,
        received: 0,
        block_for: 1,
        failures: 1,
        data_present: false,
    };
    let text = format!(
        "Operation failed - received 0 responses and 1 failures: READ_TOO_MANY_TOMBSTONES: the read went through \
         {found} tombstones, more than tombstone_failure_threshold ({most})"
    );
    QueryError::new(kind, text)
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

/// Rows that become one row of the result.
struct Group<'a> {
    /// The partition and the clustering columns that they share; `None` when all rows are one group.
    key: Option<(storage::Bytes, Vec<Vec<u8>>)>,
    running: Vec<Running<'a>>,
}

/// A page ends behind the row that makes it this long, as ScyllaDB's: what a client and a server can hold at ease.
const PAGE_BYTES_MAX: usize = 1 << 20;
/// A result that has become this long has room for a page made: growing step by step copies it again and again, at last
/// a megabyte at once.
const LONG_BYTES: usize = 64 << 10;

/// Takes partitions in order and makes the rows of the answer.
pub(super) struct Collector<'a> {
    select: &'a Select,
    shown: Shown<'a>,
    values: &'a Values<'a>,
    context: &'a Context,
    filters: Vec<BoundFilter<'a>>,
    tuples: Vec<BoundTuples<'a>>,
    pub out: Vec<u8>,
    writer: RowsWriter,
    group: Option<Group<'a>>,
    /// Whether the client takes pages: they end after so many bytes too.
    is_paged: bool,
    /// Rows that the page, LIMIT and PER PARTITION LIMIT still let through.
    page_left: u64,
    pub remaining: u64,
    per_partition: u64,
    remaining_in_partition: u64,
    /// What the partition of `position` may still give, once a row of the next one has been looked at, too.
    pub remaining_at_position: u64,
    current: Option<storage::Bytes>,
    /// Deletions gone through for this page, and rows that were there.
    pub gone_through: (usize, usize),
    tombstones: TombstoneLimits,
    /// The last row looked at.
    pub position: Option<ScanPosition>,
}

/// What of the rows is shown: of a SELECT in masks it is not what the plan has otherwise.
#[derive(Clone, Copy)]
pub(super) struct Shown<'a> {
    pub outputs: &'a [Output],
    pub aggregations: &'a [Aggregation],
}

pub(super) struct Limits {
    pub page: u64,
    pub total: u64,
    pub per_partition: u64,
    pub tombstones: TombstoneLimits,
    /// Where the page before this one ended, and what its partition may still give.
    pub resume: Option<(ScanPosition, u64)>,
}

impl<'a> Collector<'a> {
    pub fn new(
        select: &'a Select,
        shown: Shown<'a>,
        values: &'a Values<'a>,
        context: &'a Context,
        skip_metadata: bool,
        limits: Limits,
    ) -> Result<Self, QueryError> {
        let filters = select.filters.iter().map(|filter| filter.bind(values, context)).collect::<Result<_, _>>()?;
        let tuples = select.tuples.iter().map(|filter| filter.bind(&select.table, values, context));
        let tuples = tuples.collect::<Result<_, _>>()?;
        let mut out = Vec::with_capacity(256);
        let writer = RowsWriter::begin(&mut out, &select.metadata, skip_metadata, None);
        let per_partition = if select.distinct { 1 } else { limits.per_partition };
        let (position, remaining_in_partition) = match limits.resume {
            Some((position, left)) => (Some(position), left),
            None => (None, per_partition),
        };
        Ok(Self {
            group: None,
            current: position.as_ref().map(|position| position.key.clone()),
            filters,
            tuples,
            out,
            writer,
            is_paged: limits.page != u64::MAX,
            page_left: limits.page,
            // LIMIT counts rows of the result.
            remaining: if select.grouping == Grouping::All { u64::MAX } else { limits.total },
            per_partition,
            remaining_in_partition,
            remaining_at_position: remaining_in_partition,
            gone_through: (0, 0),
            tombstones: limits.tombstones,
            position,
            select,
            shown,
            values,
            context,
        })
    }

    /// Whether the partition that was taken last can still change the result. A group's last rows are wanted even
    /// when no further group is.
    pub fn wants_more_of_partition(&self) -> bool {
        self.select.grouping != Grouping::Rows || self.remaining_in_partition > 0
    }

    /// How many rows it makes sense to ask for: one more than are wanted tells whether there are more.
    pub fn wanted(&self) -> usize {
        // Enough to make round trips rare, few enough to bound memory where there is no limit.
        const CHUNK_ROWS: u64 = 5_000;
        if self.select.grouping != Grouping::Rows || !self.filters.is_empty() || !self.tuples.is_empty() {
            return CHUNK_ROWS as usize;
        }
        self.page_left.min(self.remaining).min(CHUNK_ROWS) as usize + 1
    }

    /// Whether the page has as many rows as it may, whether or not there are more.
    pub fn is_page_full(&self) -> bool {
        self.select.grouping == Grouping::Rows && self.page_left == 0 && self.remaining > 0
    }

    /// How many rows of an index to read at once: as many as may be wanted of the table.
    pub fn wanted_of_index(&self) -> usize {
        const CHUNK_ROWS: u64 = 1_000;
        let wanted = if self.select.grouping == Grouping::Rows { self.page_left.min(self.remaining) } else { u64::MAX };
        wanted.min(CHUNK_ROWS) as usize + 1
    }

    /// Takes the next partition, or the next part of the current one.
    pub fn take(&mut self, partition: &Partition) -> Result<Flow, QueryError> {
        let table = &*self.select.table;
        if self.current.as_ref() != Some(&partition.key) {
            self.current = Some(partition.key.clone());
            self.remaining_in_partition = self.per_partition;
        }
        let components = partition_key_components(&partition.key, table.partition_key.len()).map_err(server)?;
        let now_s = self.context.now_s;
        self.count_tombstones(partition, now_s)?;
        let (values, context) = (self.values, self.context);
        let view = |row| View { table, partition, components: &components, row, now_s, values, context };
        let mut any = false;
        let mut live: Box<dyn Iterator<Item = &Row>> = match self.select.reverse {
            true => Box::new(partition.visible_rows(now_s, table).rev()),
            false => Box::new(partition.visible_rows(now_s, table)),
        };
        for row in live.by_ref() {
            any = true;
            match self.take_row(&view(Some(row)))? {
                // A distinct partition counts once, in a group too.
                Flow::More if self.select.distinct && self.select.grouping != Grouping::Rows => break,
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

    fn count_tombstones(&mut self, partition: &Partition, now_s: u32) -> Result<(), QueryError> {
        let (live, dead) = partition.count(now_s);
        self.gone_through.0 += dead;
        self.gone_through.1 += live;
        if dead > 0 && self.gone_through.0 > self.tombstones.fail {
            return Err(too_many_tombstones(self.gone_through.0, self.tombstones.fail));
        }
        Ok(())
    }

    /// Of a scan: how many deletions more the page may go through.
    pub fn tombstones_left(&self) -> usize {
        match self.is_paged && self.select.grouping == Grouping::Rows {
            true => self.tombstones.page.saturating_sub(self.gone_through.0),
            false => usize::MAX,
        }
    }

    /// Ends the page behind `position`, of which nothing is left.
    pub fn end_page_behind(&mut self, position: ScanPosition) -> Flow {
        if self.current.as_ref() != Some(&position.key) {
            self.current = Some(position.key.clone());
            self.remaining_in_partition = self.per_partition;
        }
        self.remaining_at_position = self.remaining_in_partition;
        self.position = Some(position);
        Flow::PageFull
    }

    /// Takes whole partitions at once, their rows in one order over all of them: IN with ORDER BY.
    pub fn take_together(&mut self, partitions: &[Partition]) -> Result<Flow, QueryError> {
        let table = &*self.select.table;
        let (values, context, now_s) = (self.values, self.context, self.context.now_s);
        let mut rows: Vec<(usize, &Row)> = Vec::new();
        let mut components = Vec::with_capacity(partitions.len());
        for (at, partition) in partitions.iter().enumerate() {
            self.count_tombstones(partition, now_s)?;
            components.push(partition_key_components(&partition.key, table.partition_key.len()).map_err(server)?);
            let most = usize::try_from(self.per_partition).unwrap_or(usize::MAX);
            match self.select.reverse {
                true => rows.extend(partition.live_rows(now_s).rev().take(most).map(|row| (at, row))),
                false => rows.extend(partition.live_rows(now_s).take(most).map(|row| (at, row))),
            }
        }
        rows.sort_by(|(_, a), (_, b)| {
            let order = a.clustering.compare(&b.clustering, table);
            if self.select.reverse { order.reverse() } else { order }
        });
        for (at, row) in rows {
            self.remaining_in_partition = u64::MAX;
            let (partition, components) = (&partitions[at], &components[at][..]);
            let view = View { table, partition, components, row: Some(row), now_s, values, context };
            match self.take_row(&view)? {
                Flow::More => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::More)
    }

    fn take_row(&mut self, view: &View<'_>) -> Result<Flow, QueryError> {
        if self.passes(view)? {
            let flow = match self.select.grouping {
                Grouping::Rows => self.take_plain(view)?,
                Grouping::All => self.accumulate(view, None)?,
                Grouping::By { clustering } => {
                    let component = |at| view.row.and_then(|row| row.clustering.component(at)).map(<[u8]>::to_vec);
                    let shared = (0..clustering).map_while(component).collect();
                    self.accumulate(view, Some((view.partition.key.clone(), shared)))?
                }
            };
            if flow != Flow::More {
                return Ok(flow);
            }
        }
        let clustering = view.row.filter(|_| !view.table.clustering.is_empty()).map(|row| row.clustering.clone());
        self.position = Some(ScanPosition { key: view.partition.key.clone(), clustering });
        self.remaining_at_position = self.remaining_in_partition;
        Ok(Flow::More)
    }

    fn passes(&self, view: &View<'_>) -> Result<bool, QueryError> {
        let component = |at| view.row.and_then(|row| row.clustering.component(at));
        if !self.tuples.iter().all(|tuples| tuples.holds(view.table, component)) {
            return Ok(false);
        }
        for bound in &self.filters {
            let value = view.column(&bound.filter.column);
            if !bound.holds(value.as_deref(), Nulls::NeverMatch)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn take_plain(&mut self, view: &View<'_>) -> Result<Flow, QueryError> {
        if self.remaining_in_partition == 0 {
            return Ok(Flow::More);
        }
        let flow = self.count_row();
        if flow == Flow::More {
            for (at, output) in self.shown.outputs.iter().enumerate() {
                let value = evaluate(&output.expression, self.values, self.context, &|leaf| view.leaf(leaf))?;
                self.make_room(value.as_ref().map_or(0, |value| value.len()), at, view);
                self.writer.cell(&mut self.out, value.as_deref());
            }
            self.writer.end_row();
            if self.out.len() > LONG_BYTES && self.out.capacity() < PAGE_BYTES_MAX {
                self.out.reserve(PAGE_BYTES_MAX + LONG_BYTES - self.out.len());
            }
        }
        Ok(flow)
    }

    /// Room for a value of `len` bytes, the output of that number. Where there is none yet, all of the row and of rows
    /// like it that its partition may still give have it at once, up to a page: growing step by step copies the same
    /// bytes again and again.
    fn make_room(&mut self, len: usize, at: usize, view: &View<'_>) {
        const CELL_HEAD_BYTES: usize = 4;
        if len + CELL_HEAD_BYTES <= self.out.capacity() - self.out.len() {
            return;
        }
        let outputs = self.shown.outputs;
        let stored = |output: &Output| match output.expression {
            Expression::Regular(index) => view.row?.cell(index)?.value.as_ref().map(|value| value.len()),
            _ => None,
        };
        let bytes_of = |outputs: &[Output]| -> usize {
            outputs.iter().map(|output| CELL_HEAD_BYTES + stored(output).unwrap_or(0)).sum()
        };
        let this_row = CELL_HEAD_BYTES + len + bytes_of(&outputs[at + 1..]);
        // Of rows that may be left out it is not known how many come.
        let rows = if self.filters.is_empty() && self.tuples.is_empty() { view.partition.rows.len() } else { 1 };
        let others = self.page_left.min(self.remaining).min(rows.saturating_sub(1) as u64);
        let like_it = bytes_of(outputs).saturating_mul(others as usize);
        self.out.reserve(this_row.saturating_add(like_it.min(PAGE_BYTES_MAX.saturating_sub(self.out.len()))));
    }

    /// Room for one more row of the result is taken, if there is any.
    fn count_row(&mut self) -> Flow {
        if self.remaining == 0 {
            return Flow::Done;
        }
        if self.page_left == 0 || (self.is_paged && self.out.len() >= PAGE_BYTES_MAX) {
            return Flow::PageFull;
        }
        self.remaining -= 1;
        self.page_left -= 1;
        self.remaining_in_partition -= 1;
        Flow::More
    }

    /// Takes a row into its group, after the group before it has ended.
    fn accumulate(&mut self, view: &View<'_>, key: Option<(storage::Bytes, Vec<Vec<u8>>)>) -> Result<Flow, QueryError> {
        if self.group.as_ref().is_none_or(|group| group.key != key) {
            self.end_group()?;
            if self.remaining_in_partition == 0 {
                return Ok(Flow::More);
            }
            let flow = self.count_row();
            if flow != Flow::More {
                return Ok(flow);
            }
            self.group = Some(self.new_group(key));
        }
        let Some(group) = &mut self.group else { return Ok(Flow::More) };
        for (aggregation, running) in self.shown.aggregations.iter().zip(&mut group.running) {
            let value = |argument| evaluate(argument, self.values, self.context, &|leaf| view.leaf(leaf));
            let values = aggregation.arguments.iter().map(value).collect::<Result<Vec<_>, _>>()?;
            let values: Vec<Option<&[u8]>> = values.iter().map(Option::as_deref).collect();
            running.take(&values)?;
        }
        Ok(Flow::More)
    }

    fn new_group(&self, key: Option<(storage::Bytes, Vec<Vec<u8>>)>) -> Group<'a> {
        let shown = self.shown;
        let running = shown.aggregations.iter().map(|aggregation| Running::new(&aggregation.aggregate)).collect();
        Group { key, running }
    }

    /// Writes the row of the open group, if there is one.
    fn end_group(&mut self) -> Result<(), QueryError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let results = group.running.into_iter().map(Running::finish).collect::<Result<Vec<_>, _>>()?;
        let result = |expression: &Expression| match expression {
            Expression::Grouped(at) => results[usize::from(*at)].clone().map(Cow::Owned),
            _ => None,
        };
        let result = |expression: &Expression| Ok(result(expression));
        for output in self.shown.outputs {
            let value = evaluate(&output.expression, self.values, self.context, &result)?;
            self.writer.cell(&mut self.out, value.as_deref());
        }
        self.writer.end_row();
        Ok(())
    }

    /// The body, with the last group's row, or with the state that leads to the next page.
    pub fn finish(mut self, page_state: Option<&[u8]>, skip_metadata: bool) -> Result<Vec<u8>, QueryError> {
        if self.select.grouping == Grouping::All && self.group.is_none() {
            // Of no rows at all there is a count, too.
            self.group = Some(self.new_group(None));
        }
        self.end_group()?;
        match page_state {
            Some(state) => self.writer.finish_page(&mut self.out, &self.select.metadata, skip_metadata, state),
            None => drop(self.writer.finish(&mut self.out)),
        }
        Ok(self.out)
    }
}
