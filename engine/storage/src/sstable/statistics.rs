//! `Statistics.db`: what an SSTable holds, in figures, and its serialization header.
//!
//! As `MetadataSerializer`, `ValidationMetadata`, `CompactionMetadata`, `StatsMetadata` and `MetadataCollector` of Apache
//! Cassandra for version `me`: no checksums inside, legacy clustering bounds, an originating host id (absent).

use std::collections::BTreeMap;
use std::sync::Arc;

use types::TableDef;

use super::Version;
use super::cardinality::Cardinality;
use super::header::Header;
use super::plain::PlainRow;
use super::unfiltered::Marker;
use crate::data::codec::Reader;
use crate::data::{Position, compare_positions};
use crate::{Cell, Clustering, DeletionTime, NEVER_S, Row};

const VALIDATION: u32 = 0;
const COMPACTION: u32 = 1;
const STATS: u32 = 2;
const HEADER: u32 = 3;

const PARTITIONER: &str = "org.apache.cassandra.dht.Murmur3Partitioner";
/// Bins of the tombstone histogram (`SSTable.TOMBSTONE_HISTOGRAM_BIN_SIZE`).
const BINS_MAX: usize = 100;

/// Counts by size classes that grow by a fifth: `EstimatedHistogram`.
struct Histogram {
    offsets: Vec<u64>,
    buckets: Vec<u64>,
}

impl Histogram {
    fn new(classes: usize) -> Self {
        let mut offsets = vec![1u64];
        while offsets.len() < classes {
            let last = offsets[offsets.len() - 1];
            // Half up, as Java's Math.round does.
            let next = (last as f64 * 1.2 + 0.5).floor() as u64;
            offsets.push(next.max(last + 1));
        }
        Self { buckets: vec![0; classes + 1], offsets }
    }

    fn add(&mut self, n: u64) {
        let class = self.offsets.partition_point(|offset| *offset < n);
        self.buckets[class] += 1;
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.buckets.len() as u32).to_be_bytes());
        for (at, bucket) in self.buckets.iter().enumerate() {
            out.extend_from_slice(&self.offsets[at.saturating_sub(1)].to_be_bytes());
            out.extend_from_slice(&bucket.to_be_bytes());
        }
    }
}

/// Tombstones by when they were made, in at most 100 bins of growing width.
struct TombstoneTimes {
    bins: BTreeMap<u32, u64>,
    width_s: u32,
}

impl TombstoneTimes {
    fn add(&mut self, local_s: u32, count: u64) {
        *self.bins.entry(local_s / self.width_s * self.width_s).or_default() += count;
        while self.bins.len() > BINS_MAX {
            self.width_s *= 2;
            for (at, count) in std::mem::take(&mut self.bins) {
                *self.bins.entry(at / self.width_s * self.width_s).or_default() += count;
            }
        }
    }
}

/// Gathers the figures while partitions are written.
pub(super) struct Collector {
    cardinality: Cardinality,
    partition_sizes: Histogram,
    cells_per_partition: Histogram,
    min_timestamp: i64,
    max_timestamp: i64,
    min_local_deletion_s: u32,
    max_local_deletion_s: u32,
    min_ttl_s: u32,
    max_ttl_s: u32,
    tombstones: TombstoneTimes,
    /// Every row and every range lies between these prefixes, both included.
    clusterings: Option<(Clustering, Clustering)>,
    /// Of the partition that is being written.
    partition_cells: u64,
    columns: u64,
    rows: u64,
    pub partitions: u64,
    pub level: u32,
    table: Arc<TableDef>,
}

impl Collector {
    pub fn new(table: Arc<TableDef>) -> Self {
        Self {
            cardinality: Cardinality::new(),
            partition_sizes: Histogram::new(155),
            cells_per_partition: Histogram::new(118),
            min_timestamp: i64::MAX,
            max_timestamp: i64::MIN,
            min_local_deletion_s: NEVER_S,
            max_local_deletion_s: 0,
            min_ttl_s: u32::MAX,
            max_ttl_s: 0,
            tombstones: TombstoneTimes { bins: BTreeMap::new(), width_s: 1 },
            clusterings: None,
            partition_cells: 0,
            columns: 0,
            rows: 0,
            partitions: 0,
            level: 0,
            table,
        }
    }

    fn time(&mut self, timestamp: i64, ttl_s: u32, local_deletion_s: u32) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.min_local_deletion_s = self.min_local_deletion_s.min(local_deletion_s);
        self.max_local_deletion_s = self.max_local_deletion_s.max(local_deletion_s);
        self.min_ttl_s = self.min_ttl_s.min(ttl_s);
        self.max_ttl_s = self.max_ttl_s.max(ttl_s);
        if local_deletion_s != NEVER_S {
            self.tombstones.add(local_deletion_s, 1);
        }
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        self.time(deletion.timestamp, 0, deletion.local_s);
    }

    fn cells(&mut self, row: &Row) {
        if let Some(marker) = row.marker {
            self.time(marker.timestamp, marker.ttl_s, marker.local_deletion_s);
        }
        if let Some(deletion) = row.deletion {
            self.deletion(deletion);
        }
        let mut one = |cell: &Cell| self.time(cell.timestamp, cell.ttl_s, cell.local_deletion_s);
        row.cells.iter().for_each(|(_, cell)| one(cell));
        let mut cells = row.cells.len();
        for column in row.complex.iter() {
            column.cells.iter().for_each(|(_, cell)| one(cell));
            cells += column.cells.len();
        }
        row.complex.iter().filter_map(|column| column.deletion).for_each(|deletion| self.deletion(deletion));
        self.partition_cells += cells as u64;
        self.columns += row.columns() as u64;
    }

    /// Takes in a partition: its beginning, its rows and markers in order, its end.
    pub fn begin(&mut self, key: &[u8], deletion: Option<DeletionTime>) {
        self.cardinality.add(key);
        self.partition_cells = 0;
        if let Some(deletion) = deletion {
            self.deletion(deletion);
        }
    }

    /// One that says something counts as a row, as in Cassandra.
    pub fn static_row(&mut self, row: &Row) {
        self.cells(row);
        self.rows += u64::from(!row.is_empty());
    }

    pub fn row(&mut self, row: &Row) {
        self.cells(row);
        self.rows += 1;
        self.cover(&row.clustering);
    }

    pub fn plain_row(&mut self, row: &PlainRow) {
        self.time(row.min_timestamp, 0, NEVER_S);
        self.time(row.max_timestamp, 0, NEVER_S);
        self.partition_cells += row.cells;
        self.columns += row.cells;
        self.rows += 1;
        self.cover(&row.clustering);
    }

    pub fn marker(&mut self, marker: &Marker) {
        let bounds = marker.closes.iter().chain(&marker.opens);
        for (bound, deletion) in bounds {
            self.deletion(*deletion);
            self.cover(&bound.prefix);
        }
    }

    pub fn end(&mut self, size: u64) {
        self.partitions += 1;
        self.partition_sizes.add(size);
        self.cells_per_partition.add(self.partition_cells);
    }

    /// Widens the clusterings that are told to hold every position with this prefix.
    fn cover(&mut self, prefix: &Clustering) {
        if self.table.clustering.is_empty() {
            return;
        }
        fn before(prefix: &Clustering) -> Position<'_> {
            Position { prefix: prefix.as_bytes(), side: -1 }
        }
        fn behind(prefix: &Clustering) -> Position<'_> {
            Position { prefix: prefix.as_bytes(), side: 1 }
        }
        let known = self.clusterings.as_ref();
        let order = |a, b| compare_positions(&self.table, a, b);
        let below = known.is_none_or(|(least, _)| order(before(prefix), before(least)).is_lt());
        let above = known.is_none_or(|(_, greatest)| order(behind(prefix), behind(greatest)).is_gt());
        // A copy, so that a partition's memory is not kept for its clustering.
        let copy = || Clustering(prefix.as_bytes().into());
        match &mut self.clusterings {
            Some((least, greatest)) => {
                if below {
                    *least = copy();
                }
                if above {
                    *greatest = copy();
                }
            }
            None => self.clusterings = Some((copy(), copy())),
        }
    }

    /// `compression_ratio` is what is stored of a byte; `None` when it is not compressed.
    pub fn encode(&self, header: &Header, bloom_fp_chance: f64, compression_ratio: Option<f64>) -> Vec<u8> {
        let mut validation = Vec::new();
        validation.extend_from_slice(&(PARTITIONER.len() as u16).to_be_bytes());
        validation.extend_from_slice(PARTITIONER.as_bytes());
        validation.extend_from_slice(&bloom_fp_chance.to_be_bytes());
        let mut cardinality = Vec::new();
        self.cardinality.encode(&mut cardinality);
        let compaction = [&(cardinality.len() as u32).to_be_bytes()[..], &cardinality].concat();
        let mut header_bytes = Vec::new();
        header.write(&mut header_bytes);
        let components = [
            (VALIDATION, validation),
            (COMPACTION, compaction),
            (STATS, self.stats(compression_ratio)),
            (HEADER, header_bytes),
        ];

        let mut out = (components.len() as u32).to_be_bytes().to_vec();
        let mut position = 4 + 8 * components.len();
        for (kind, bytes) in &components {
            out.extend_from_slice(&kind.to_be_bytes());
            out.extend_from_slice(&(position as u32).to_be_bytes());
            position += bytes.len();
        }
        components.iter().for_each(|(_, bytes)| out.extend_from_slice(bytes));
        out
    }

    fn stats(&self, compression_ratio: Option<f64>) -> Vec<u8> {
        let mut out = Vec::new();
        let no_position = [&(-1i64).to_be_bytes()[..], &0u32.to_be_bytes()].concat();
        let local = |local_s: u32| if local_s == NEVER_S { i32::MAX } else { local_s.min(i32::MAX as u32 - 1) as i32 };
        self.partition_sizes.write(&mut out);
        self.cells_per_partition.write(&mut out);
        out.extend_from_slice(&no_position); // commit log upper bound: ours is in the manifest
        out.extend_from_slice(&self.min_timestamp.to_be_bytes());
        out.extend_from_slice(&self.max_timestamp.to_be_bytes());
        out.extend_from_slice(&local(self.min_local_deletion_s).to_be_bytes());
        out.extend_from_slice(&local(self.max_local_deletion_s).to_be_bytes());
        let min_ttl_s = if self.min_ttl_s == u32::MAX { 0 } else { self.min_ttl_s };
        out.extend_from_slice(&min_ttl_s.to_be_bytes());
        out.extend_from_slice(&self.max_ttl_s.to_be_bytes());
        out.extend_from_slice(&compression_ratio.unwrap_or(-1.0).to_be_bytes());
        out.extend_from_slice(&(self.tombstones.bins.len() as u32).to_be_bytes());
        out.extend_from_slice(&(self.tombstones.bins.len() as u32).to_be_bytes());
        for (local_s, count) in &self.tombstones.bins {
            out.extend_from_slice(&f64::from(*local_s).to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
        out.extend_from_slice(&self.level.to_be_bytes());
        out.extend_from_slice(&0u64.to_be_bytes()); // repaired at
        let known = self.clusterings.as_ref();
        for clustering in [known.map(|(least, _)| least), known.map(|(_, greatest)| greatest)] {
            // No components: anything may be inside.
            let components: Vec<&[u8]> = clustering.iter().flat_map(|clustering| clustering.components()).collect();
            out.extend_from_slice(&(components.len() as u32).to_be_bytes());
            for component in components {
                out.extend_from_slice(&(component.len() as u16).to_be_bytes());
                out.extend_from_slice(component);
            }
        }
        out.push(0); // legacy counter shards
        out.extend_from_slice(&self.columns.to_be_bytes()); // `totalColumnsSet`
        out.extend_from_slice(&self.rows.to_be_bytes());
        out.extend_from_slice(&no_position); // commit log lower bound
        out.extend_from_slice(&0u32.to_be_bytes()); // commit log intervals
        out.push(0); // originating host id
        out
    }
}

/// What compaction and reads need to know of an SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// As far as the size classes tell when it was read from a file.
    pub partitions: u64,
    /// When the last thing in it is, or will have been, deleted; [`NEVER_S`] when something in it has no end.
    pub max_local_deletion_s: u32,
    /// Tombstones, and what expires, by when: ascending.
    pub tombstones: Vec<(u32, u64)>,
    pub cells: u64,
    pub rows: u64,
    pub level: u32,
}

impl Figures {
    /// Tombstones that may go, per cell: about, as bins are wide (`SSTableReader.getEstimatedDroppableTombstoneRatio`).
    pub fn droppable_ratio(&self, gc_before_s: u32) -> f64 {
        let droppable: u64 = self.tombstones.iter().filter(|(at, _)| *at < gc_before_s).map(|(_, count)| count).sum();
        droppable as f64 / self.cells.max(1) as f64
    }
}

/// Reads a whole `Statistics.db`.
pub(super) fn decode(bytes: &[u8], table: &TableDef, version: Version) -> Result<(Header, Figures), String> {
    let checked = version >= Version::Na;
    let mut reader = Reader::new(bytes);
    let text = |error: crate::Malformed| error.to_string();
    let check = |reader: &mut Reader<'_>, until: usize| -> Result<(), String> {
        // One running checksum over the numbers, without the checksums between them.
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&bytes[..4]);
        if until > 8 {
            hasher.update(&bytes[8..until]);
        }
        let crc = reader.u32("checksum").map_err(text)?;
        if crc == hasher.finalize() { Ok(()) } else { Err("the list of components fails its checksum".into()) }
    };
    let count = reader.u32("number of components").map_err(text)?;
    if count > 16 {
        return Err(format!("{count} components"));
    }
    if checked {
        check(&mut reader, 4)?;
    }
    let mut components: Vec<(u32, usize)> = Vec::new();
    for _ in 0..count {
        let kind = reader.u32("component").map_err(text)?;
        components.push((kind, reader.u32("component").map_err(text)? as usize));
    }
    if checked {
        let until = bytes.len() - reader.rest.len();
        check(&mut reader, until)?;
    }
    let find = |wanted: u32| {
        let at = components.iter().position(|(kind, _)| *kind == wanted);
        let at = at.ok_or_else(|| format!("component {wanted} is missing"))?;
        let end = components.get(at + 1).map_or(bytes.len(), |(_, end)| *end);
        let found = bytes.get(components[at].1..end).ok_or_else(|| format!("component {wanted} lies outside"))?;
        if !checked {
            return Ok(found);
        }
        match found.split_last_chunk::<4>() {
            Some((found, crc)) if crc32fast::hash(found) == u32::from_be_bytes(*crc) => Ok(found),
            _ => Err(format!("component {wanted} fails its checksum")),
        }
    };
    let header = Header::read(find(HEADER)?, table)?;
    let mut stats = Reader::new(find(STATS)?);
    let figures = read_figures(&mut stats).map_err(|error| format!("statistics: {error}"))?;
    Ok((header, figures))
}

fn read_figures(reader: &mut Reader<'_>) -> Result<Figures, crate::Malformed> {
    let mut partitions = 0u64;
    for histogram in 0..2 {
        for _ in 0..reader.u32("histogram")? {
            reader.array::<8>("histogram")?;
            let count = u64::from_be_bytes(reader.array("histogram")?);
            partitions = partitions.saturating_add(if histogram == 0 { count } else { 0 });
        }
    }
    reader.bytes(12, "commit log position")?;
    let min_timestamp = i64::from_be_bytes(reader.array("timestamp")?);
    let max_timestamp = i64::from_be_bytes(reader.array("timestamp")?);
    reader.u32("local deletion time")?;
    let max_local_deletion_s = match reader.u32("local deletion time")? {
        never if never >= i32::MAX as u32 => NEVER_S,
        local_s => local_s,
    };
    reader.bytes(4 + 4 + 8, "times to live and compression ratio")?;
    reader.u32("bins")?;
    let mut tombstones = Vec::new();
    for _ in 0..reader.u32("bins")? {
        let at = f64::from_bits(u64::from_be_bytes(reader.array("bin")?));
        // Saturates where a bin lies outside of what a time can be.
        tombstones.push((at as u32, u64::from_be_bytes(reader.array("bin")?)));
    }
    let level = reader.u32("level")?;
    reader.bytes(8, "repaired at")?;
    for _ in 0..2 {
        for _ in 0..reader.u32("clustering")? {
            let len = u16::from_be_bytes(reader.array("clustering")?);
            reader.bytes(usize::from(len), "clustering")?;
        }
    }
    reader.bytes(1, "legacy counter shards")?;
    let cells = u64::from_be_bytes(reader.array("cells")?);
    let rows = u64::from_be_bytes(reader.array("rows")?);
    Ok(Figures { min_timestamp, max_timestamp, partitions, max_local_deletion_s, tombstones, cells, rows, level })
}

#[cfg(test)]
mod tests {
    use types::CqlType;

    use super::super::header::EncodingStats;
    use super::*;

    #[test]
    fn size_classes_are_cassandras() {
        assert_eq!(Histogram::new(12).offsets, [1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17]);
        let mut histogram = Histogram::new(12);
        [1, 9, 10, 11, 17, 18].iter().for_each(|n| histogram.add(*n));
        assert_eq!(histogram.buckets, [1, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 1, 1]);
    }

    #[test]
    fn figures_come_back() {
        let table = TableDef::builder("k", "t").partition_key("p", CqlType::Int).regular("v", CqlType::Blob).build();
        let mut collector = Collector::new(Arc::new(table.clone()));
        for n in 0..1000u32 {
            let row = Row { cells: vec![(0, Cell::tombstone(i64::from(n), n * 100))], ..Row::default() };
            collector.begin(&n.to_be_bytes(), None);
            collector.row(&row);
            collector.end(100);
        }
        assert!(collector.tombstones.bins.len() <= BINS_MAX);
        let header = Header::of(&table, EncodingStats::NONE);
        let bytes = collector.encode(&header, 0.01, None);
        let (read, figures) = decode(&bytes, &table, Version::Me).unwrap();
        assert_eq!(read, header);
        assert_eq!((figures.min_timestamp, figures.max_timestamp, figures.partitions), (0, 999, 1000));
        assert_eq!((figures.max_local_deletion_s, figures.cells, figures.level), (99_900, 1000, 0));
        assert_eq!(figures.tombstones.iter().map(|(_, count)| count).sum::<u64>(), 1000);
        let ratio = figures.droppable_ratio(50_000);
        assert!((0.45..0.55).contains(&ratio), "{ratio}");
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], &table, Version::Me).is_err() || len > bytes.len() - 1);
        }
    }
}
