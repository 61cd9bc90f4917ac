//! Rows that go from one SSTable into another without being taken apart.
//!
//! Most of what a compaction writes is what it has read: rows that one input alone has, without a deletion and without
//! anything that expires. Of such a plain row the bytes are copied; what changes is the size of the row before it and,
//! where the output counts from another least timestamp, its timestamps.

use types::{TableDef, vint};

use super::header::{EncodingStats, Header};
use super::reader::Sstable;
use super::unfiltered::{
    CELL_EMPTY, CELL_ROW_TIMESTAMP, HAS_ALL_COLUMNS, HAS_TIMESTAMP, Parse, read_clustering, read_value,
    write_clustering,
};
use crate::Clustering;
use crate::data::codec::Reader;

/// Beside the body and the clustering: flags and two sizes.
const HEAD_BYTES_MAX: u64 = 1 + 2 * vint::MAX_LEN as u64;

/// Of larger rows the bytes are better left where they are, and the values shared.
const ROW_BYTES_MAX: u64 = 64 << 10;

/// Some rows of one partition, in order, as they will stand in the output.
pub(crate) struct PlainRows {
    /// The output's.
    header: Header,
    /// Larger rows are not taken: somebody wants to look at them.
    row_bytes_max: u64,
    bytes: Vec<u8>,
    rows: Vec<PlainRow>,
}

pub(super) struct PlainRow {
    pub clustering: Clustering,
    /// Where the body begins and ends in `bytes`; the head, flags and clustering, is before it.
    body: usize,
    end: usize,
    pub cells: u64,
    /// Of the marker and the cells, one of which there is at least.
    pub min_timestamp: i64,
    pub max_timestamp: i64,
}

impl PlainRows {
    /// For an output with rows of this table, written relative to `stats`, of rows up to a size.
    pub fn new(def: &TableDef, stats: EncodingStats, row_bytes_max: u64) -> Self {
        let row_bytes_max = row_bytes_max.min(ROW_BYTES_MAX);
        Self { header: Header::of(def, stats), row_bytes_max, bytes: Vec::new(), rows: Vec::new() }
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn last(&self) -> Option<&Clustering> {
        self.rows.last().map(|row| &row.clustering)
    }

    /// Whether rows of this SSTable can be copied: its columns are the output's, none dropped since, none added.
    pub fn fit(&self, from: &Sstable) -> bool {
        from.header.regulars == self.header.regulars
    }

    /// Each with its head and its body.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&PlainRow, &[u8], &[u8])> {
        let begins = std::iter::once(0).chain(self.rows.iter().map(|row| row.end));
        begins.zip(&self.rows).map(|(begin, row)| (row, &self.bytes[begin..row.body], &self.bytes[row.body..row.end]))
    }

    /// Takes in the row that `reader` stands at. False, with nothing read, where something else stands there.
    pub(super) fn read(&mut self, from: &Header, reader: &mut Reader<'_>) -> Result<bool, Parse> {
        let (begin, start) = (self.bytes.len(), reader.rest);
        let is_plain = self.read_row(from, reader);
        if is_plain != Ok(true) {
            self.bytes.truncate(begin);
            reader.rest = start;
        }
        is_plain
    }

    fn read_row(&mut self, from: &Header, reader: &mut Reader<'_>) -> Result<bool, Parse> {
        let flags = reader.u8("flags")?;
        if flags & !(HAS_TIMESTAMP | HAS_ALL_COLUMNS) != 0 {
            return Ok(false);
        }
        let begin = self.bytes.len();
        let clustering = read_clustering(&from.clustering, from.clustering.len(), reader)?;
        self.bytes.push(flags);
        write_clustering(&from.clustering, &clustering, &mut self.bytes);
        let size = reader.vint("size")?;
        let body = self.bytes.len();
        if size.saturating_add((body - begin) as u64 + HEAD_BYTES_MAX) > self.row_bytes_max {
            return Ok(false);
        }
        let bytes = reader.bytes(usize::try_from(size).unwrap_or(usize::MAX), "row")?;
        let row = PlainRow { clustering, body, end: body, cells: 0, min_timestamp: i64::MAX, max_timestamp: i64::MIN };
        let row = self.read_body(from, flags, Reader::new(bytes), row);
        let is_plain = row.is_some();
        self.rows.extend(row);
        Ok(is_plain)
    }

    /// `None` where it is not plain; what is wrong with it is told by who decodes it.
    fn read_body(&mut self, from: &Header, flags: u8, mut reader: Reader<'_>, mut row: PlainRow) -> Option<PlainRow> {
        let (to, out) = (&self.header.stats, &mut self.bytes);
        let mut see = |timestamp: i64| {
            row.min_timestamp = row.min_timestamp.min(timestamp);
            row.max_timestamp = row.max_timestamp.max(timestamp);
        };
        reader.vint("previous size").ok()?;
        let mut marker = None;
        if flags & HAS_TIMESTAMP != 0 {
            let timestamp = from.stats.timestamp(&mut reader).ok()?;
            see(timestamp);
            to.write_timestamp(timestamp, out);
            marker = Some(timestamp);
        }
        let mut missing = 0;
        if flags & HAS_ALL_COLUMNS == 0 {
            missing = reader.vint("columns").ok()?;
            if from.regulars.len() >= 64 || missing >> from.regulars.len() != 0 {
                return None;
            }
            vint::write_unsigned(missing, out);
        }
        // Read, and not copied yet.
        let mut pending = reader.rest;
        for (at, column) in from.regulars.iter().enumerate() {
            if missing != 0 && missing >> at & 1 != 0 {
                continue;
            }
            if column.is_multi_cell {
                return None;
            }
            let begin = reader.rest;
            let flags = reader.u8("cell flags").ok()?;
            match flags & !CELL_EMPTY {
                CELL_ROW_TIMESTAMP => _ = marker?,
                0 => {
                    let timestamp = from.stats.timestamp(&mut reader).ok()?;
                    see(timestamp);
                    out.extend_from_slice(&pending[..pending.len() - begin.len()]);
                    if marker == Some(timestamp) {
                        out.push(flags | CELL_ROW_TIMESTAMP);
                    } else {
                        out.push(flags);
                        to.write_timestamp(timestamp, out);
                    }
                    pending = reader.rest;
                }
                _ => return None,
            }
            if flags & CELL_EMPTY == 0 && read_value(column.fixed_len, &mut reader).ok()?.is_empty() {
                return None;
            }
            row.cells += 1;
        }
        out.extend_from_slice(pending);
        row.end = out.len();
        (reader.rest.is_empty() && (marker.is_some() || row.cells > 0)).then_some(row)
    }
}
