//! Writes an SSTable, partition by partition and row by row: what is held in memory is a buffer for each file, the
//! partition's own index and what grows with the number of keys, never a partition.

use std::sync::Arc;

use futures_util::future::{join, join_all, join3};
use types::{TableDef, Token, vint};

use super::Descriptor;
use super::bloom::{Filling, KeyHash};
use super::compression::Compression;
use super::file::{Sink, write_small};
use super::header::{EncodingStats, Header};
use super::index::{Builder, Edge};
use super::plain::PlainRows;
use super::statistics::Collector;
use super::summary::Summary;
use super::unfiltered::{self, Marker};
use crate::cache::BLOCK;
use crate::data::{Position, compare_positions};
use crate::events::Watch;
use crate::{Bound, DeletionTime, Error, Partition, RangeTombstone, Row};

/// Cassandra's default `column_index_size`.
pub(crate) const COLUMN_INDEX_BYTES: u64 = 64 << 10;

pub(crate) struct Writer {
    generation: u64,
    descriptor: Descriptor,
    def: Arc<TableDef>,
    header: Header,
    data: Sink,
    index: Sink,
    summary: Summary,
    filter: Filling,
    fp_chance: f64,
    collector: Collector,
    builder: Builder,
    partition: Option<Open>,
    /// Notes what is large, if somebody wants to know.
    watch: Option<Watch>,
    last: Option<(Token, Vec<u8>)>,
    bytes: Vec<u8>,
    body: Vec<u8>,
}

/// The partition that is being written.
struct Open {
    start: u64,
    deletion: Option<DeletionTime>,
    /// Size of the last thing written.
    previous: u64,
    /// The end of the range tombstone that is open: written when it is known that it does not go on.
    closing: Option<(Bound, DeletionTime)>,
}

impl Writer {
    /// `stats` must be at or below everything that will be added; `keys` about how many partitions there will be.
    pub async fn create(
        folder: &str,
        generation: u64,
        def: Arc<TableDef>,
        stats: EncodingStats,
        keys: u64,
    ) -> Result<Self, Error> {
        let fp_chance = def.options.bloom_filter_fp_chance;
        let compression = Compression::from_options(&def.options.compression);
        let compression = compression.map_err(|what| Error::Config(format!("table {}: {what}", def.name)))?;
        let descriptor = Descriptor::own(folder, generation);
        let data = Sink::create(descriptor.path("Data.db"), compression);
        let (data, index) = join(data, Sink::create(descriptor.path("Index.db"), None)).await;
        Ok(Self {
            header: Header::of(&def, stats),
            collector: Collector::new(def.clone()),
            def,
            data: data?,
            index: index?,
            generation,
            descriptor,
            summary: Summary::default(),
            filter: Filling::new(keys.max(1), fp_chance),
            fp_chance,
            builder: Builder::new(COLUMN_INDEX_BYTES),
            partition: None,
            watch: None,
            last: None,
            bytes: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Bytes of rows for which a wide partition's index has an entry.
    pub fn column_index_bytes(mut self, bytes: u64) -> Self {
        self.builder.set_block_bytes(bytes);
        self
    }

    /// The level that leveled compaction gives it.
    pub fn level(mut self, level: u32) -> Self {
        self.collector.level = level;
        self
    }

    pub fn watched_by(mut self, watch: Option<Watch>) -> Self {
        self.watch = watch;
        self
    }

    /// Bytes of data so far, uncompressed.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Bytes of data on disk so far.
    pub fn stored_bytes(&self) -> u64 {
        self.data.stored_len()
    }

    /// Adds a partition behind the last one: in normal form, and not empty.
    pub async fn add(&mut self, token: Token, partition: &Partition) -> Result<(), Error> {
        assert!(!partition.is_empty(), "something of each partition is written");
        self.begin(token, &partition.key, partition.deletion, partition.static_row.as_ref()).await?;
        self.part(&partition.rows, &partition.range_tombstones).await?;
        self.end().await
    }

    /// As [`Writer::add`], of a partition of plain rows alone.
    pub async fn add_plain(&mut self, token: Token, key: &[u8], rows: &PlainRows) -> Result<(), Error> {
        self.begin(token, key, None, None).await?;
        self.plain(rows).await?;
        self.end().await
    }

    /// Begins a partition behind the last one.
    pub async fn begin(
        &mut self,
        token: Token,
        key: &[u8],
        deletion: Option<DeletionTime>,
        static_row: Option<&Row>,
    ) -> Result<(), Error> {
        let in_order = self.last.as_ref().is_none_or(|(last, last_key)| (*last, &**last_key) < (token, key));
        assert!(in_order && self.partition.is_none(), "partitions are written in order, one after the other");
        let start = self.data.position();
        self.bytes.clear();
        unfiltered::write_partition_head(key, deletion, &mut self.bytes);
        self.collector.begin(key, deletion);
        if !self.header.statics.is_empty() {
            let none = Row::default();
            let row = static_row.unwrap_or(&none);
            let head_len = self.bytes.len();
            unfiltered::write_row(&self.header, row, true, 0, &mut self.body, &mut self.bytes);
            self.collector.static_row(row);
            if let Some(watch) = &mut self.watch {
                watch.row(&self.def, row, true, (self.bytes.len() - head_len) as u64);
            }
        }
        self.data.push(&self.bytes)?;
        let header_len = self.bytes.len() as u64;
        self.builder.begin(header_len);
        let mut last_key = self.last.take().map(|(_, key)| key).unwrap_or_default();
        key.clone_into(&mut last_key);
        self.last = Some((token, last_key));
        self.partition = Some(Open { start, deletion, previous: header_len, closing: None });
        if self.data.is_full() {
            self.data.spill().await?;
        }
        Ok(())
    }

    /// Adds rows and range tombstones behind those that are there, in normal form. A range tombstone that begins where
    /// the last one ended, with the same deletion, continues it.
    pub async fn part(&mut self, rows: &[Row], ranges: &[RangeTombstone]) -> Result<(), Error> {
        let mut ranges = ranges.iter().peekable();
        let def = self.def.clone();
        for row in rows {
            let position = Position::row(row.clustering.as_bytes());
            loop {
                match self.closing() {
                    Some((end, _)) if compare_positions(&def, end.as_end(), position).is_lt() => {
                        let meets = |range: &&RangeTombstone| meet(end, &range.start);
                        let next = ranges.next_if(meets);
                        self.close(next)?;
                    }
                    Some(_) => break,
                    None => {
                        let before =
                            |range: &&RangeTombstone| compare_positions(&def, range.start.as_start(), position).is_lt();
                        let Some(range) = ranges.next_if(before) else { break };
                        self.open(range)?;
                    }
                }
            }
            self.row(row)?;
            if self.data.is_full() {
                self.data.spill().await?;
            }
        }
        for range in ranges {
            match self.closing() {
                Some((end, _)) if meet(end, &range.start) => self.close(Some(range))?,
                Some(_) => {
                    self.close(None)?;
                    self.open(range)?;
                }
                None => self.open(range)?,
            }
            self.data.spill().await?;
        }
        Ok(())
    }

    /// As [`Writer::part`], of rows that are in no range tombstone and have no decoded form.
    pub async fn plain(&mut self, rows: &PlainRows) -> Result<(), Error> {
        // No rows say nothing of whether a range tombstone goes on.
        if rows.is_empty() {
            return Ok(());
        }
        self.close(None)?;
        for (row, head, body) in rows.iter() {
            let Some(partition) = &self.partition else { return Ok(()) };
            self.bytes.clear();
            self.bytes.extend_from_slice(head);
            unfiltered::write_body(partition.previous, body, &mut self.bytes);
            self.collector.plain_row(row);
            if let Some(watch) = &mut self.watch {
                watch.small_row();
            }
            self.put(Edge::of_row(&row.clustering))?;
            if self.data.is_full() {
                self.data.spill().await?;
            }
        }
        Ok(())
    }

    fn closing(&self) -> Option<&(Bound, DeletionTime)> {
        self.partition.as_ref().and_then(|partition| partition.closing.as_ref())
    }

    fn row(&mut self, row: &Row) -> Result<(), Error> {
        let Some(partition) = &mut self.partition else { return Ok(()) };
        self.bytes.clear();
        unfiltered::write_row(&self.header, row, false, partition.previous, &mut self.body, &mut self.bytes);
        self.collector.row(row);
        if let Some(watch) = &mut self.watch {
            watch.row(&self.def, row, false, self.bytes.len() as u64);
        }
        self.put(Edge::of_row(&row.clustering))
    }

    fn open(&mut self, range: &RangeTombstone) -> Result<(), Error> {
        let Some(partition) = &mut self.partition else { return Ok(()) };
        partition.closing = Some((range.end.clone(), range.deletion));
        self.marker(Marker { closes: None, opens: Some((range.start.clone(), range.deletion)) })
    }

    /// Closes the open range tombstone; the next one begins there, if one is given.
    fn close(&mut self, next: Option<&RangeTombstone>) -> Result<(), Error> {
        let Some(partition) = &mut self.partition else { return Ok(()) };
        let Some(closing) = partition.closing.take() else { return Ok(()) };
        partition.closing = next.map(|range| (range.end.clone(), range.deletion));
        if next.is_some_and(|range| range.deletion == closing.1) {
            return Ok(());
        }
        let opens = next.map(|range| (range.start.clone(), range.deletion));
        self.marker(Marker { closes: Some(closing), opens })
    }

    fn marker(&mut self, marker: Marker) -> Result<(), Error> {
        let Some(partition) = &mut self.partition else { return Ok(()) };
        self.bytes.clear();
        unfiltered::write_marker(&self.header, &marker, partition.previous, &mut self.body, &mut self.bytes);
        self.collector.marker(&marker);
        if let Some(watch) = self.watch.as_mut().filter(|_| marker.opens.is_some()) {
            watch.range_tombstone();
        }
        self.builder.set_open(marker.opens.as_ref().map(|(_, deletion)| *deletion));
        self.put(Edge::of_marker(&marker))
    }

    /// Writes `self.bytes`, which stand at `edge`.
    fn put(&mut self, edge: Edge) -> Result<(), Error> {
        let Some(partition) = &mut self.partition else { return Ok(()) };
        partition.previous = self.bytes.len() as u64;
        let from = self.data.position() - partition.start;
        self.data.push(&self.bytes)?;
        self.builder.add(edge, from, from + partition.previous, &self.header.clustering);
        Ok(())
    }

    /// Ends the partition.
    pub async fn end(&mut self) -> Result<(), Error> {
        self.close(None)?;
        let Some(partition) = self.partition.take() else { return Ok(()) };
        let Some((token, key)) = &self.last else { return Ok(()) };
        self.bytes.clear();
        unfiltered::write_partition_end(&mut self.bytes);
        self.data.push(&self.bytes)?;
        let bytes = self.data.position() - partition.start;
        self.collector.end(bytes);
        if let Some(watch) = &mut self.watch {
            watch.end(key, bytes);
        }

        let index_position = self.index.position();
        self.bytes.clear();
        self.bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(key);
        vint::write_unsigned(partition.start, &mut self.bytes);
        self.builder.finish(partition.deletion, &self.header.clustering, &mut self.bytes);
        self.index.push(&self.bytes)?;
        self.summary.add(*token, key, index_position, partition.start);
        self.filter.insert(KeyHash::of(key));
        for file in [&mut self.data, &mut self.index] {
            if file.is_full() {
                file.spill().await?;
            }
        }
        Ok(())
    }

    /// Makes all components durable, and their names. Gives the bytes on disk. The manifest does the rest.
    pub async fn finish(self) -> Result<u64, Error> {
        let Self { generation, descriptor, def, header, mut data, mut index, .. } = self;
        let Self { summary, filter, fp_chance, collector, watch, .. } = self;
        let raw_bytes = data.position();
        let (sunk, index_sunk) = (data.seal()?, index.seal()?);
        let ratio = sunk.compression.is_some().then(|| sunk.len as f64 / raw_bytes.max(1) as f64);
        let (guard_name, guard) = match &sunk.compression {
            Some(info) => ("CompressionInfo.db", info.encode()),
            None => {
                let mut crc = (BLOCK as u32).to_be_bytes().to_vec();
                sunk.block_crcs.iter().for_each(|block| crc.extend_from_slice(&block.to_be_bytes()));
                ("CRC.db", crc)
            }
        };
        let (summary, filter) = (summary.encode(), filter.finish().encode());
        let statistics = collector.encode(&header, fp_chance, ratio);
        let mut own = Vec::new();
        for bytes in [&summary, &filter, &statistics, &guard] {
            own.extend_from_slice(&crc32fast::hash(bytes).to_be_bytes());
        }
        own.extend_from_slice(&(index_sunk.block_crcs.len() as u32).to_be_bytes());
        index_sunk.block_crcs.iter().for_each(|block| own.extend_from_slice(&block.to_be_bytes()));
        own.extend_from_slice(&crc32fast::hash(&own).to_be_bytes());
        let toc =
            ["Data.db", "Index.db", "Summary.db", "Filter.db", "Statistics.db", guard_name, "Digest.crc32", "TOC.txt"];
        let small = [
            ("Summary.db", summary),
            ("Filter.db", filter),
            ("Statistics.db", statistics),
            (guard_name, guard),
            ("Digest.crc32", sunk.crc.to_string().into_bytes()),
            ("Orrery.crc", own),
            ("TOC.txt", (toc.join("\n") + "\n").into_bytes()),
        ];
        let bytes = sunk.len + index_sunk.len + small.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        // All at the same time: a flush waits for the slowest sync, not for their sum.
        let smalls = join_all(small.iter().map(|(component, bytes)| write_small(descriptor.path(component), bytes)));
        let (data, index, smalls) = join3(data.finish(), index.finish(), smalls).await;
        [data, index].into_iter().chain(smalls).collect::<Result<(), Error>>()?;
        reactor::fs::sync_dir(&descriptor.folder).await.map_err(Error::io(&descriptor.folder, "sync folder"))?;
        if let Some(watch) = watch {
            watch.finish(def.id, generation);
        }
        Ok(bytes)
    }
}

/// Whether one range ends where the other begins.
fn meet(end: &Bound, start: &Bound) -> bool {
    end.prefix == start.prefix && end.inclusive != start.inclusive
}
