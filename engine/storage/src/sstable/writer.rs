//! Writes an SSTable, partition by partition.

use std::sync::Arc;

use types::{TableDef, Token, vint};

use super::bloom::{BloomFilter, KeyHash};
use super::component_path;
use super::file::{Sink, write_small};
use super::header::{EncodingStats, Header};
use super::statistics::Collector;
use super::summary::Summary;
use super::unfiltered::{self, Marker};
use crate::cache::BLOCK;
use crate::data::{Position, compare_positions};
use crate::{Error, Partition};

/// Named in `TOC.txt`, as Cassandra lists them.
const LISTED: [&str; 8] =
    ["Data.db", "Index.db", "Summary.db", "Filter.db", "Statistics.db", "CRC.db", "Digest.crc32", "TOC.txt"];

pub(crate) struct Writer {
    folder: String,
    generation: u64,
    def: Arc<TableDef>,
    header: Header,
    data: Sink,
    index: Sink,
    summary: Summary,
    filter: BloomFilter,
    fp_chance: f64,
    collector: Collector,
    last: Option<(Token, Vec<u8>)>,
    bytes: Vec<u8>,
    body: Vec<u8>,
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
        Ok(Self {
            folder: folder.to_string(),
            generation,
            header: Header::of(&def, stats),
            def,
            data: Sink::create(component_path(folder, generation, "Data.db")).await?,
            index: Sink::create(component_path(folder, generation, "Index.db")).await?,
            summary: Summary::default(),
            filter: BloomFilter::new(keys.max(1), fp_chance),
            fp_chance,
            collector: Collector::new(),
            last: None,
            bytes: Vec::new(),
            body: Vec::new(),
        })
    }

    /// Bytes of data so far.
    pub fn data_bytes(&self) -> u64 {
        self.data.position()
    }

    /// Adds a partition behind the last one: in normal form, and not empty.
    pub async fn add(&mut self, token: Token, partition: &Partition) -> Result<(), Error> {
        let key = &partition.key;
        let in_order = self.last.as_ref().is_none_or(|(last, last_key)| (*last, &**last_key) < (token, key));
        assert!(in_order && !partition.is_empty(), "partitions are written in order, and something of each");
        let position = self.data.position();
        self.encode(partition);
        self.data.push(&self.bytes);
        self.collector.add(partition, self.bytes.len() as u64, &self.def);

        let index_position = self.index.position();
        self.bytes.clear();
        self.bytes.extend_from_slice(&(key.len() as u16).to_be_bytes());
        self.bytes.extend_from_slice(key);
        vint::write_unsigned(position, &mut self.bytes);
        vint::write_unsigned(0, &mut self.bytes); // no promoted index
        self.index.push(&self.bytes);
        self.summary.add(token, key, index_position);
        self.filter.insert(KeyHash::of(key));
        self.last = Some((token, key.to_vec()));
        self.data.spill().await?;
        self.index.spill().await
    }

    /// The partition's bytes into `self.bytes`.
    fn encode(&mut self, partition: &Partition) {
        let out = &mut self.bytes;
        out.clear();
        unfiltered::write_partition_head(&partition.key, partition.deletion, out);
        if !self.header.statics.is_empty() {
            let none = crate::Row::default();
            let row = partition.static_row.as_ref().unwrap_or(&none);
            unfiltered::write_row(&self.header, row, true, 0, &mut self.body, out);
        }
        let mut previous = 0;
        let mut markers = markers(partition).into_iter().peekable();
        let before = |marker: &Marker, row: &crate::Row| {
            let row = Position::row(row.clustering.as_bytes());
            compare_positions(&self.def, position_of(marker), row).is_lt()
        };
        for row in &partition.rows {
            while let Some(marker) = markers.next_if(|marker| before(marker, row)) {
                let start = out.len();
                unfiltered::write_marker(&self.header, &marker, previous, &mut self.body, out);
                previous = (out.len() - start) as u64;
            }
            let start = out.len();
            unfiltered::write_row(&self.header, row, false, previous, &mut self.body, out);
            previous = (out.len() - start) as u64;
        }
        for marker in markers {
            let start = out.len();
            unfiltered::write_marker(&self.header, &marker, previous, &mut self.body, out);
            previous = (out.len() - start) as u64;
        }
        unfiltered::write_partition_end(out);
    }

    /// Makes all components durable, and their names. Gives the bytes on disk. The manifest does the rest.
    pub async fn finish(self) -> Result<u64, Error> {
        let path = |component: &str| component_path(&self.folder, self.generation, component);
        let data = self.data.finish().await?;
        let index = self.index.finish().await?;
        let mut crc = (BLOCK as u32).to_be_bytes().to_vec();
        data.block_crcs.iter().for_each(|block| crc.extend_from_slice(&block.to_be_bytes()));
        let (summary, filter) = (self.summary.encode(), self.filter.encode());
        let statistics = self.collector.encode(&self.header, self.fp_chance);

        let mut own = Vec::new();
        for bytes in [&summary, &filter, &statistics, &crc] {
            own.extend_from_slice(&crc32fast::hash(bytes).to_be_bytes());
        }
        own.extend_from_slice(&(index.block_crcs.len() as u32).to_be_bytes());
        index.block_crcs.iter().for_each(|block| own.extend_from_slice(&block.to_be_bytes()));
        own.extend_from_slice(&crc32fast::hash(&own).to_be_bytes());

        write_small(path("Summary.db"), &summary).await?;
        write_small(path("Filter.db"), &filter).await?;
        write_small(path("Statistics.db"), &statistics).await?;
        write_small(path("CRC.db"), &crc).await?;
        write_small(path("Digest.crc32"), data.crc.to_string().as_bytes()).await?;
        write_small(path("Orrery.crc"), &own).await?;
        write_small(path("TOC.txt"), (LISTED.join("\n") + "\n").as_bytes()).await?;
        reactor::fs::sync_dir(&self.folder).await.map_err(Error::io(&self.folder, "sync folder"))?;
        let small = summary.len() + filter.len() + statistics.len() + crc.len() + own.len();
        Ok(data.len + index.len + small as u64)
    }
}

/// Where the marker stands among the rows.
fn position_of(marker: &Marker) -> Position<'_> {
    match (&marker.closes, &marker.opens) {
        (Some((end, _)), _) => end.as_end(),
        (None, Some((start, _))) => start.as_start(),
        (None, None) => Position { prefix: &[], side: -1 },
    }
}

/// The range tombstones, which are in normal form, as markers: where one ends at the next one's start, one for both.
fn markers(partition: &Partition) -> Vec<Marker> {
    let mut markers: Vec<Marker> = Vec::with_capacity(partition.range_tombstones.len() * 2);
    for range in &partition.range_tombstones {
        let opens = Some((range.start.clone(), range.deletion));
        match markers.last_mut() {
            Some(Marker { closes: Some((end, _)), opens: between @ None })
                if end.prefix == range.start.prefix && end.inclusive != range.start.inclusive =>
            {
                *between = opens;
            }
            _ => markers.push(Marker { closes: None, opens }),
        }
        markers.push(Marker { closes: Some((range.end.clone(), range.deletion)), opens: None });
    }
    markers
}
