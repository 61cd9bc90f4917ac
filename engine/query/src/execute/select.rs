//! SELECT executed: partitions by key, or the ring range by range, page by page.

use std::rc::Rc;
use std::time::Duration;

use storage::{Bytes, Partition, ReadCommand, ScanCommand, Slice};
use types::Token;

use super::Execution;
use super::page::Page;
use super::rows::{Collector, Flow, Limits, Shown};
use crate::coordinator::ScanPosition;
use crate::error::{QueryError, invalid, server};
use crate::node::Node;
use crate::plan::{self, Bound, Context, Grouping, PartitionPlan, Select, Source, Values};
use crate::{replica, system};

fn limit_of(what: &str, source: Option<&Source>, values: &Values<'_>, context: &Context) -> Result<u64, QueryError> {
    let Some(source) = source else { return Ok(u64::MAX) };
    match source.bind(values, context)? {
        Bound::Unset => Ok(u64::MAX),
        Bound::Null => Err(invalid!("Invalid null value of limit")),
        Bound::Bytes(bytes) => {
            let bytes = <[u8; 4]>::try_from(&*bytes).map_err(|_| invalid!("Invalid limit value"))?;
            match i32::from_be_bytes(bytes) {
                limit if limit <= 0 => Err(invalid!("{what} must be strictly positive")),
                limit => Ok(limit as u64),
            }
        }
    }
}

impl Node {
    /// The body of RESULT Rows, and a warning about what had to be gone through for it.
    pub(super) async fn select(
        self: &Rc<Self>,
        select: &Select,
        execution: Execution<'_>,
    ) -> Result<(Vec<u8>, Option<String>), QueryError> {
        let (parameters, values) = (execution.parameters, execution.values);
        let context = self.context_of(parameters);
        let page = parameters.paging_state.map(Page::decode).transpose()?;
        let limit = limit_of("LIMIT", select.limit.as_ref(), values, &context)?;
        let per_partition = limit_of("PER PARTITION LIMIT", select.per_partition_limit.as_ref(), values, &context)?;
        let page_size = match parameters.page_size {
            Some(rows) if rows > 0 && select.grouping != Grouping::All => u64::from(rows),
            _ => u64::MAX,
        };
        let limits = Limits {
            page: page_size,
            total: page.as_ref().map_or(limit, |page| page.remaining),
            per_partition,
            tombstones: self.settings.tombstone_limits(),
            resume: page.map(|page| (page.position, page.remaining_in_partition)),
        };
        let shown = match select.masked.as_deref().filter(|_| execution.masked) {
            Some(masked) => Shown { outputs: &masked.outputs, aggregations: &masked.aggregations },
            None => Shown { outputs: &select.outputs, aggregations: &select.aggregations },
        };
        let mut collector = Collector::new(select, shown, values, &context, parameters.skip_metadata, limits)?;
        let flow = if system::is_virtual(&select.table.keyspace) {
            Box::pin(self.select_system(select, &mut collector, values, &context)).await?
        } else {
            plan::check_read_consistency(parameters.consistency)?;
            match &select.partition {
                _ if select.index.is_some() => {
                    Box::pin(self.select_indexed(select, &mut collector, execution, &context)).await?
                }
                PartitionPlan::Keys(keys) => {
                    let keys = keys.keys(values, &context)?;
                    self.select_keys(select, &mut collector, keys, execution, &context).await?
                }
                PartitionPlan::Tokens { lower, upper } => {
                    match PartitionPlan::tokens(lower, upper, values, &context)? {
                        Some(tokens) => {
                            // Boxed, to keep the future of reads by key small.
                            Box::pin(self.select_tokens(select, &mut collector, tokens, execution, &context)).await?
                        }
                        None => Flow::Done,
                    }
                }
            }
        };
        let state = match (flow, &collector.position) {
            (Flow::PageFull, Some(position)) => Some(
                Page {
                    position: position.clone(),
                    remaining: collector.remaining,
                    remaining_in_partition: collector.remaining_at_position,
                }
                .encode(),
            ),
            _ => None,
        };
        let (tombstones, live) = collector.gone_through;
        let warning = (tombstones > self.settings.tombstone_limits().warn).then(|| {
            let table = &select.table;
            format!(
                "Read {live} live rows and {tombstones} tombstone cells for a query of {}.{} (see \
                 tombstone_warn_threshold)",
                table.keyspace, table.name
            )
        });
        Ok((collector.finish(state.as_deref(), parameters.skip_metadata)?, warning))
    }

    /// What the statement says, or else the service level that it names, or else the role's.
    fn select_timeout(
        &self,
        select: &Select,
        execution: &Execution<'_>,
        context: &Context,
    ) -> Result<Option<Duration>, QueryError> {
        let said = super::timeout_of(select.timeout.as_ref(), execution.values, context)?;
        match (said, &select.service_level) {
            (None, Some(name)) => Ok(self.schema().access.level(name)?.timeout()),
            (said, _) => Ok(said.or(execution.timeout)),
        }
    }

    async fn select_keys(
        self: &Rc<Self>,
        select: &Select,
        collector: &mut Collector<'_>,
        keys: Vec<Vec<u8>>,
        execution: Execution<'_>,
        context: &Context,
    ) -> Result<Flow, QueryError> {
        let table = &select.table;
        let all = select.slices.slices(table, execution.values, context)?;
        if all.is_empty() {
            return Ok(Flow::Done);
        }
        let resume = collector.position.clone();
        if select.is_ordered && keys.len() > 1 {
            let timeout = self.select_timeout(select, &execution, context)?;
            if execution.parameters.page_size.is_some() {
                return Err(invalid!(
                    "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                     remove the ORDER BY or the IN and sort client side, or disable paging for this query"
                ));
            }
            let mut partitions = Vec::with_capacity(keys.len());
            for key in keys {
                let (token, key) = (Token::of_key(&key), Bytes::from(key));
                let command = ReadCommand {
                    slices: all.clone(),
                    reverse: select.reverse,
                    bypass_cache: select.bypass_cache,
                    ..ReadCommand::partition(table.id, key, context.now_s)
                };
                partitions.extend(self.read(table, token, command, execution.parameters.consistency, timeout).await?);
            }
            return match collector.take_together(&partitions)? {
                Flow::More => Ok(Flow::Done),
                flow => Ok(flow),
            };
        }
        for key in keys {
            let mut slices = all.clone();
            if let Some(position) = &resume {
                if key.as_slice() < &*position.key {
                    continue;
                }
                if key.as_slice() == &*position.key {
                    let Some(rest) = behind(&slices, position, select) else { continue };
                    slices = rest;
                }
            }
            let key = Bytes::from(key);
            match self.select_partition(select, collector, key, slices, execution, context).await? {
                Flow::More => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Done)
    }

    /// The wanted rows of one partition.
    pub(super) async fn select_partition(
        self: &Rc<Self>,
        select: &Select,
        collector: &mut Collector<'_>,
        key: Bytes,
        mut slices: Vec<Slice>,
        execution: Execution<'_>,
        context: &Context,
    ) -> Result<Flow, QueryError> {
        let table = &select.table;
        let token = Token::of_key(&key);
        let timeout = self.select_timeout(select, &execution, context)?;
        loop {
            let limit_rows = collector.wanted();
            let command = ReadCommand {
                slices: std::mem::take(&mut slices),
                reverse: select.reverse,
                limit_rows,
                bypass_cache: select.bypass_cache,
                ..ReadCommand::partition(table.id, key.clone(), context.now_s)
            };
            let asked = command.slices.clone();
            let consistency = execution.parameters.consistency;
            let read = match consistency.as_serial() {
                None => self.read(table, token, command, consistency, timeout).await?,
                Some(serial) => Box::pin(self.read_serial(table, command, serial, timeout)).await?,
            };
            let Some(partition) = read else { return Ok(Flow::More) };
            match collector.take(&partition)? {
                Flow::More => {}
                flow => return Ok(flow),
            }
            let live = partition.visible_rows(context.now_s, table).count();
            let next = collector.position.as_ref().filter(|position| position.key == key);
            match next.and_then(|position| behind(&asked, position, select)) {
                Some(rest) if live >= limit_rows && collector.wants_more_of_partition() => slices = rest,
                _ => return Ok(Flow::More),
            }
        }
    }

    async fn select_tokens(
        self: &Rc<Self>,
        select: &Select,
        collector: &mut Collector<'_>,
        tokens: (Token, Token),
        execution: Execution<'_>,
        context: &Context,
    ) -> Result<Flow, QueryError> {
        if execution.parameters.consistency.is_serial() {
            return Err(invalid!("SERIAL/LOCAL_SERIAL consistency may only be requested for one partition at a time"));
        }
        let table = &select.table;
        let slices = select.slices.slices(table, execution.values, context)?;
        if slices.is_empty() {
            return Ok(Flow::Done);
        }
        let slices = if select.slices.is_all() { Vec::new() } else { slices };
        let timeout = self.select_timeout(select, &execution, context)?;
        let resume = collector.position.clone().map(|position| (Token::of_key(&position.key), position));
        for range in self.ranges(&table.keyspace, tokens)? {
            let mut after = None;
            if let Some((token, position)) = &resume {
                if range.1.0 != i64::MIN && *token > range.1 {
                    continue;
                }
                if *token > range.0 || range.0.0 == i64::MIN {
                    let clustering = position.clustering.clone().filter(|_| collector.wants_more_of_partition());
                    after = Some((position.key.clone(), clustering));
                }
            }
            loop {
                let _part = self.scans.acquire(1).await;
                if execution.client.is_gone() {
                    return Ok(Flow::Done);
                }
                let command = ScanCommand {
                    tokens: range,
                    after: after.take(),
                    slices: slices.clone(),
                    limit_rows: collector.wanted(),
                    limit_tombstones: collector.tombstones_left(),
                    bypass_cache: select.bypass_cache,
                    ..ScanCommand::all(table.id, context.now_s)
                };
                let (partitions, more) =
                    self.scan_range(table, command, execution.parameters.consistency, timeout).await?;
                let last = partitions.last().filter(|_| more).map(|last| {
                    let row = last.rows.last().filter(|_| !table.clustering.is_empty());
                    (last.key.clone(), row.map(|row| row.clustering.clone()))
                });
                for partition in partitions {
                    match collector.take(&partition)? {
                        Flow::More => {}
                        flow => return Ok(flow),
                    }
                    reactor::time::end_turn().await;
                }
                let Some((key, clustering)) = last else { break };
                let clustering = clustering.filter(|_| collector.wants_more_of_partition());
                if collector.tombstones_left() == 0 {
                    return Ok(collector.end_page_behind(ScanPosition { key, clustering }));
                }
                after = Some((key, clustering));
            }
        }
        Ok(Flow::Done)
    }

    /// The parts of `tokens` that have the same replicas throughout, in token order.
    pub(super) fn ranges(&self, keyspace: &str, tokens: (Token, Token)) -> Result<Vec<(Token, Token)>, QueryError> {
        let map = self.replication(keyspace)?;
        let mut whole: Vec<(Token, Token, Vec<cluster::NodeIndex>)> = Vec::new();
        let mut add = |start: Token, end: Token, nodes: &[cluster::NodeIndex]| {
            let mut nodes = nodes.to_vec();
            nodes.sort();
            match whole.last_mut() {
                Some((_, last_end, last_nodes)) if *last_end == start && *last_nodes == nodes => *last_end = end,
                _ => whole.push((start, end, nodes)),
            }
        };
        let ring_end = Token(i64::MIN);
        let mut parts: Vec<(Token, Token, cluster::ReplicaSet)> = Vec::new();
        for (range, replicas) in map.describe() {
            if range.start >= range.end {
                // The range that goes around the ring's end is its last and its first part.
                parts.push((range.start, ring_end, replicas));
                if range.end != ring_end {
                    parts.push((ring_end, range.end, replicas));
                }
            } else {
                parts.push((range.start, range.end, replicas));
            }
        }
        parts.sort_by_key(|(start, ..)| *start);
        for (start, end, replicas) in &parts {
            add(*start, *end, replicas.nodes());
        }
        let (lower, upper) = tokens;
        let clip = |(start, end, _): (Token, Token, Vec<cluster::NodeIndex>)| {
            let start = start.max(lower);
            let end = match (end == ring_end, upper == ring_end) {
                (_, true) => end,
                (true, false) => upper,
                (false, false) => end.min(upper),
            };
            (end == ring_end || start < end).then_some((start, end))
        };
        Ok(whole.into_iter().filter_map(clip).collect())
    }

    async fn select_system(
        self: &Rc<Self>,
        select: &Select,
        collector: &mut Collector<'_>,
        values: &Values<'_>,
        context: &Context,
    ) -> Result<Flow, QueryError> {
        let table = &select.table;
        let mut partitions: Vec<Partition> = match system::is_stored(table) {
            true => {
                let all = ScanCommand::all(table.id, context.now_s);
                let (partitions, _) = replica::scan(self, table.version, all).await.map_err(server)?;
                partitions
            }
            false => {
                let facts = system::Facts::gather(self, table).await?;
                self.system_view(|view| system::partitions(table, view, &facts))
            }
        };
        match &select.partition {
            PartitionPlan::Keys(keys) => {
                let keys = keys.keys(values, context)?;
                partitions.retain(|partition| keys.iter().any(|key| **key == *partition.key));
            }
            PartitionPlan::Tokens { lower, upper } => {
                let Some((start, end)) = PartitionPlan::tokens(lower, upper, values, context)? else {
                    return Ok(Flow::Done);
                };
                partitions.retain(|partition| {
                    let token = Token::of_key(&partition.key);
                    (token > start || start.0 == i64::MIN) && (end.0 == i64::MIN || token <= end)
                });
            }
        }
        partitions.sort_by_key(|partition| (Token::of_key(&partition.key), partition.key.clone()));
        let slices = select.slices.slices(table, values, context)?;
        let resume = collector.position.clone().map(|position| (Token::of_key(&position.key), position));
        for mut partition in partitions {
            let mut wanted = slices.clone();
            if let Some((token, position)) = &resume {
                let at = (Token::of_key(&partition.key), &partition.key);
                if at < (*token, &position.key) {
                    continue;
                }
                if partition.key == position.key {
                    let Some(rest) = behind(&wanted, position, select) else { continue };
                    wanted = rest;
                }
            }
            partition.rows.retain(|row| wanted.iter().any(|slice| slice.contains(&row.clustering, table)));
            match collector.take(&partition)? {
                Flow::More => {}
                flow => return Ok(flow),
            }
        }
        Ok(Flow::Done)
    }
}

/// What is left of `slices` behind `position`; `None` when nothing is.
fn behind(slices: &[Slice], position: &ScanPosition, select: &Select) -> Option<Vec<Slice>> {
    let clustering = position.clustering.as_ref()?;
    let slices = if slices.is_empty() { &[Slice::all()] } else { slices };
    let rest: Vec<Slice> =
        slices.iter().filter_map(|slice| slice.behind(clustering, select.reverse, &select.table)).collect();
    (!rest.is_empty()).then_some(rest)
}
