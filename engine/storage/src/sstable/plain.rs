//! Rows that go into an SSTable without being taken apart: those without a deletion, without anything that expires and
//! without columns of several cells. Most are.
//!
//! Most of what a compaction writes is what it has read, from one input alone. Of plain rows the bytes are copied then;
//! what changes is the size of the row before it and, where the output counts from another least timestamp, its
//! timestamps. A flush brings them from the memtable's form into the file's.

use types::{TableDef, vint};

use super::header::{EncodingStats, Header};
use super::reader::Sstable;
use super::unfiltered::{
    CELL_EMPTY, CELL_ROW_TIMESTAMP, HAS_ALL_COLUMNS, HAS_TIMESTAMP, Parse, read_clustering, read_value,
    write_clustering, write_value,
};
use crate::data::codec::Reader;
use crate::{Bytes, Clustering};

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

    /// Holds the rows of a partition, as memtables keep it, and no others from now on. False where not all of it is plain
    /// rows: what is held is of no use then.
    pub fn encode(&mut self, packed: &Bytes) -> bool {
        self.clear();
        self.encode_rows(packed).is_some()
    }

    fn encode_rows(&mut self, packed: &Bytes) -> Option<()> {
        let mut reader = Reader::new(packed);
        let head = reader.head().ok()?;
        let rows = reader.row_count(&head).ok()?;
        if rows == 0 || head.deletion.is_some() || head.has_static() || head.has_ranges() {
            return None;
        }
        for _ in 0..rows {
            self.encode_row(&mut reader, head.base, packed)?;
        }
        Some(())
    }

    fn encode_row(&mut self, reader: &mut Reader<'_>, base: i64, packed: &Bytes) -> Option<()> {
        let raw = reader.raw_row(base).ok()?;
        let expires = raw.marker.is_some_and(|marker| marker.ttl_s != 0);
        if expires || raw.deletion.is_some() || raw.complex || (raw.marker.is_none() && raw.cells == 0) {
            return None;
        }
        let columns = &self.header.regulars;
        let (has_all, marker) = (raw.cells == columns.len(), raw.marker.map(|marker| marker.timestamp));
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let (stats, out) = (&self.header.stats, &mut self.bytes);
        let begin = out.len();
        out.push(flag(marker.is_some(), HAS_TIMESTAMP) | flag(has_all, HAS_ALL_COLUMNS));
        let clustering = match raw.clustering {
            [] => Clustering::empty(),
            clustering => Clustering(packed.part(clustering)),
        };
        write_clustering(&self.header.clustering, &clustering, out);
        let body = out.len();
        let (mut min_timestamp, mut max_timestamp) = (i64::MAX, i64::MIN);
        let mut see = |timestamp: i64| {
            (min_timestamp, max_timestamp) = (min_timestamp.min(timestamp), max_timestamp.max(timestamp));
        };
        if let Some(timestamp) = marker {
            see(timestamp);
            stats.write_timestamp(timestamp, out);
        }
        let place = |column: u16| usize::from(self.header.regular_places[usize::from(column)]);
        if !has_all {
            if columns.len() >= 64 {
                return None;
            }
            let mut missing = (1u64 << columns.len()) - 1;
            let mut cells = *reader;
            for _ in 0..raw.cells {
                missing &= !(1 << place(cells.raw_cell(base).ok()?.column));
            }
            vint::write_unsigned(missing, out);
        }
        for _ in 0..raw.cells {
            let cell = reader.raw_cell(base).ok()?;
            if cell.ttl_s != 0 {
                return None;
            }
            let value = cell.value?;
            let has_row_timestamp = marker == Some(cell.timestamp);
            out.push(flag(value.is_empty(), CELL_EMPTY) | flag(has_row_timestamp, CELL_ROW_TIMESTAMP));
            if !has_row_timestamp {
                see(cell.timestamp);
                stats.write_timestamp(cell.timestamp, out);
            }
            if !value.is_empty() {
                write_value(columns[place(cell.column)].fixed_len, value, out);
            }
        }
        let (end, cells) = (out.len(), raw.cells as u64);
        if (end - begin) as u64 + HEAD_BYTES_MAX > self.row_bytes_max {
            return None;
        }
        self.rows.push(PlainRow { clustering, body, end, cells, min_timestamp, max_timestamp });
        Some(())
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
