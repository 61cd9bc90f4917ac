//! The bytes of partitions and rows: on the network, in the commit log and in memtables alike.
//!
//! Compact and quick to walk; independent of the machine. Integers are Cassandra's unsigned vints; timestamps are
//! zigzag differences to a base that stands at the front, so that the usual mutation spends one byte on each.
//! Reading checks every length and never panics on damaged bytes.
//!
//! ```text
//! partition  flags u8 | key len, key | base i64 | [deletion] | [static row] | [row count, rows] | [count, ranges]
//! row        flags u8 | clustering len, clustering | [marker] | [deletion] | cell count, cells
//!            | [count, complex columns]
//! marker     timestamp | if expiring: ttl, expiry u32
//! deletion   timestamp | local u32
//! cell       column << 2 | kind | unless of the base's time: timestamp | if expiring: ttl, expiry u32
//!            | if tombstone: local u32, else: len, value
//! complex    column << 1 | has deletion | [deletion] | cell count, elements
//! element    path len, path | cell of column 0
//! range      flags u8 (1 start inclusive, 2 end inclusive) | prefix len, prefix | prefix len, prefix | deletion
//! ```

mod check;

use types::vint;

pub(crate) use self::check::{Checked, check, replaces};
use super::{
    Bound, Bytes, Cell, Clustering, ComplexColumn, ComplexColumns, DeletionTime, Liveness, NEVER_S, Partition,
    RangeTombstone, Row,
};

const PARTITION_DELETION: u8 = 1;
const PARTITION_STATIC: u8 = 2;
const PARTITION_ROWS: u8 = 4;
const PARTITION_RANGES: u8 = 8;

const ROW_MARKER: u8 = 1;
const ROW_MARKER_EXPIRES: u8 = 2;
const ROW_DELETION: u8 = 4;
const ROW_COMPLEX: u8 = 8;

const CELL_LIVE: u64 = 0;
const CELL_EXPIRING: u64 = 1;
const CELL_TOMBSTONE: u64 = 2;
/// Live, with the base's timestamp: the usual one.
const CELL_LIVE_AT_BASE: u64 = 3;

/// Bytes that are no partition, row or mutation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}")]
pub struct Malformed {
    pub what: &'static str,
}

fn malformed<T>(what: &'static str) -> Result<T, Malformed> {
    Err(Malformed { what })
}

/// Takes things off the front of a byte slice.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    #[inline]
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        let (&first, rest) = self.rest.split_first().ok_or(Malformed { what })?;
        self.rest = rest;
        Ok(first)
    }

    #[inline]
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (array, rest) = self.rest.split_first_chunk().ok_or(Malformed { what })?;
        self.rest = rest;
        Ok(*array)
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_be_bytes)
    }

    #[inline]
    pub fn vint(&mut self, what: &'static str) -> Result<u64, Malformed> {
        match self.rest {
            // One byte is by far the most frequent form.
            [short @ 0..=127, rest @ ..] => {
                self.rest = rest;
                Ok(u64::from(*short))
            }
            _ => vint::read_unsigned(&mut self.rest).ok_or(Malformed { what }),
        }
    }

    #[inline]
    pub fn bytes(&mut self, len: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed { what })?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Bytes behind their length.
    #[inline]
    pub fn string(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let len = self.vint(what)?;
        self.bytes(usize::try_from(len).unwrap_or(usize::MAX), what)
    }

    #[inline]
    fn timestamp(&mut self, base: i64) -> Result<i64, Malformed> {
        Ok(base.wrapping_add(vint::unzigzag(self.vint("timestamp")?)))
    }

    fn deletion(&mut self, base: i64) -> Result<DeletionTime, Malformed> {
        Ok(DeletionTime { timestamp: self.timestamp(base)?, local_s: self.u32("deletion time")? })
    }

    fn ttl(&mut self) -> Result<u32, Malformed> {
        match u32::try_from(self.vint("time to live")?) {
            Ok(0) | Err(_) => malformed("time to live"),
            Ok(ttl_s) => Ok(ttl_s),
        }
    }
}

#[inline]
fn write_string(bytes: &[u8], out: &mut Vec<u8>) {
    vint::write_unsigned(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

#[inline]
fn write_timestamp(timestamp: i64, base: i64, out: &mut Vec<u8>) {
    vint::write_unsigned(vint::zigzag(timestamp.wrapping_sub(base)), out);
}

fn write_deletion(deletion: DeletionTime, base: i64, out: &mut Vec<u8>) {
    write_timestamp(deletion.timestamp, base, out);
    out.extend_from_slice(&deletion.local_s.to_be_bytes());
}

pub(crate) fn write_row(row: &Row, base: i64, out: &mut Vec<u8>) {
    let mut flags = 0;
    if let Some(marker) = row.marker {
        flags |= if marker.ttl_s == 0 { ROW_MARKER } else { ROW_MARKER | ROW_MARKER_EXPIRES };
    }
    if row.deletion.is_some() {
        flags |= ROW_DELETION;
    }
    if !row.complex.is_empty() {
        flags |= ROW_COMPLEX;
    }
    out.push(flags);
    write_string(row.clustering.as_bytes(), out);
    if let Some(marker) = row.marker {
        write_timestamp(marker.timestamp, base, out);
        if marker.ttl_s != 0 {
            vint::write_unsigned(u64::from(marker.ttl_s), out);
            out.extend_from_slice(&marker.local_deletion_s.to_be_bytes());
        }
    }
    if let Some(deletion) = row.deletion {
        write_deletion(deletion, base, out);
    }
    vint::write_unsigned(row.cells.len() as u64, out);
    for (column, cell) in &row.cells {
        write_cell(*column, cell, base, out);
    }
    if !row.complex.is_empty() {
        write_complex(&row.complex, base, out);
    }
}

#[inline]
fn write_cell(column: u16, cell: &Cell, base: i64, out: &mut Vec<u8>) {
    let kind = match (&cell.value, cell.ttl_s) {
        (None, _) => CELL_TOMBSTONE,
        (Some(_), 0) if cell.timestamp == base => CELL_LIVE_AT_BASE,
        (Some(_), 0) => CELL_LIVE,
        (Some(_), _) => CELL_EXPIRING,
    };
    vint::write_unsigned(u64::from(column) << 2 | kind, out);
    if kind != CELL_LIVE_AT_BASE {
        write_timestamp(cell.timestamp, base, out);
    }
    if kind == CELL_EXPIRING {
        vint::write_unsigned(u64::from(cell.ttl_s), out);
    }
    if kind == CELL_EXPIRING || kind == CELL_TOMBSTONE {
        out.extend_from_slice(&cell.local_deletion_s.to_be_bytes());
    }
    if let Some(value) = &cell.value {
        write_string(value, out);
    }
}

fn write_complex(columns: &ComplexColumns, base: i64, out: &mut Vec<u8>) {
    vint::write_unsigned(columns.len() as u64, out);
    for column in columns.iter() {
        vint::write_unsigned(u64::from(column.column) << 1 | u64::from(column.deletion.is_some()), out);
        if let Some(deletion) = column.deletion {
            write_deletion(deletion, base, out);
        }
        vint::write_unsigned(column.cells.len() as u64, out);
        for (path, cell) in &column.cells {
            write_string(path, out);
            write_cell(0, cell, base, out);
        }
    }
}

/// A row's fixed part; its cells follow in the reader.
pub(crate) struct RawRow<'a> {
    pub clustering: &'a [u8],
    pub marker: Option<Liveness>,
    pub deletion: Option<DeletionTime>,
    pub cells: usize,
    /// Whether columns of several cells follow the cells.
    pub complex: bool,
}

/// A complex column's fixed part; its elements follow in the reader.
struct RawComplex {
    column: u16,
    deletion: Option<DeletionTime>,
    cells: usize,
}

pub(crate) struct RawCell<'a> {
    pub column: u16,
    pub timestamp: i64,
    pub ttl_s: u32,
    pub local_deletion_s: u32,
    pub value: Option<&'a [u8]>,
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn raw_row(&mut self, base: i64) -> Result<RawRow<'a>, Malformed> {
        let flags = self.u8("row flags")?;
        if flags & !(ROW_MARKER | ROW_MARKER_EXPIRES | ROW_DELETION | ROW_COMPLEX) != 0
            || flags & 3 == ROW_MARKER_EXPIRES
        {
            return malformed("row flags");
        }
        let clustering = self.string("clustering")?;
        let mut marker = None;
        if flags & ROW_MARKER != 0 {
            let mut liveness = Liveness::live(self.timestamp(base)?);
            if flags & ROW_MARKER_EXPIRES != 0 {
                liveness.ttl_s = self.ttl()?;
                liveness.local_deletion_s = self.u32("expiry")?;
            }
            marker = Some(liveness);
        }
        let deletion = if flags & ROW_DELETION != 0 { Some(self.deletion(base)?) } else { None };
        let cells = usize::try_from(self.vint("cell count")?).unwrap_or(usize::MAX);
        // A cell takes two bytes at least.
        if cells > self.rest.len() {
            return malformed("cell count");
        }
        Ok(RawRow { clustering, marker, deletion, cells, complex: flags & ROW_COMPLEX != 0 })
    }

    #[inline]
    pub fn raw_cell(&mut self, base: i64) -> Result<RawCell<'a>, Malformed> {
        let head = self.vint("cell")?;
        let Ok(column) = u16::try_from(head >> 2) else { return malformed("column") };
        let kind = head & 3;
        let timestamp = if kind == CELL_LIVE_AT_BASE { base } else { self.timestamp(base)? };
        let mut cell = RawCell { column, timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value: None };
        match kind {
            CELL_LIVE | CELL_LIVE_AT_BASE => {}
            CELL_EXPIRING => {
                cell.ttl_s = self.ttl()?;
                cell.local_deletion_s = self.u32("expiry")?;
            }
            _ => {
                cell.local_deletion_s = self.u32("deletion time")?;
                return Ok(cell);
            }
        }
        cell.value = Some(self.string("value")?);
        Ok(cell)
    }

    pub fn row(&mut self, base: i64, whole: &Bytes) -> Result<Row, Malformed> {
        let raw = self.raw_row(base)?;
        let mut cells = Vec::with_capacity(raw.cells);
        for _ in 0..raw.cells {
            let cell = self.raw_cell(base)?;
            cells.push((cell.column, cell.shared(whole)));
        }
        let complex = if raw.complex { self.complex_columns(base, whole)? } else { ComplexColumns::default() };
        let clustering =
            if raw.clustering.is_empty() { Clustering::empty() } else { Clustering(whole.part(raw.clustering)) };
        Ok(Row { clustering, marker: raw.marker, deletion: raw.deletion, cells, complex })
    }

    fn raw_complex(&mut self, base: i64) -> Result<RawComplex, Malformed> {
        let head = self.vint("complex column")?;
        let Ok(column) = u16::try_from(head >> 1) else { return malformed("column") };
        let deletion = if head & 1 != 0 { Some(self.deletion(base)?) } else { None };
        let cells = usize::try_from(self.vint("element count")?).unwrap_or(usize::MAX);
        // An element takes four bytes at least; without any the column says nothing.
        if cells > self.rest.len() || (cells == 0 && deletion.is_none()) {
            return malformed("element count");
        }
        Ok(RawComplex { column, deletion, cells })
    }

    fn complex_count(&mut self) -> Result<u64, Malformed> {
        match self.vint("complex columns")? {
            0 => malformed("complex columns"),
            count => Ok(count),
        }
    }

    fn complex_columns(&mut self, base: i64, whole: &Bytes) -> Result<ComplexColumns, Malformed> {
        let mut columns = ComplexColumns::default();
        for _ in 0..self.complex_count()? {
            let raw = self.raw_complex(base)?;
            let mut cells = Vec::with_capacity(raw.cells);
            for _ in 0..raw.cells {
                let path = whole.part(self.string("path")?);
                cells.push((path, self.raw_cell(base)?.shared(whole)));
            }
            columns.push(ComplexColumn { column: raw.column, deletion: raw.deletion, cells });
        }
        Ok(columns)
    }

    fn range(&mut self, base: i64, whole: &Bytes) -> Result<RangeTombstone, Malformed> {
        let flags = self.u8("range flags")?;
        let start = Clustering(whole.part(self.string("range start")?));
        let end = Clustering(whole.part(self.string("range end")?));
        Ok(RangeTombstone {
            start: Bound { prefix: start, inclusive: flags & 1 != 0 },
            end: Bound { prefix: end, inclusive: flags & 2 != 0 },
            deletion: self.deletion(base)?,
        })
    }
}

impl RawCell<'_> {
    #[inline]
    fn shared(self, whole: &Bytes) -> Cell {
        Cell {
            timestamp: self.timestamp,
            ttl_s: self.ttl_s,
            local_deletion_s: self.local_deletion_s,
            value: self.value.map(|value| whole.part(value)),
        }
    }
}

/// A partition's fixed part.
pub(crate) struct RawHead<'a> {
    flags: u8,
    pub key: &'a [u8],
    pub base: i64,
    pub deletion: Option<DeletionTime>,
}

impl RawHead<'_> {
    pub fn has_static(&self) -> bool {
        self.flags & PARTITION_STATIC != 0
    }

    pub fn has_ranges(&self) -> bool {
        self.flags & PARTITION_RANGES != 0
    }
}

impl<'a> Reader<'a> {
    #[inline]
    pub fn head(&mut self) -> Result<RawHead<'a>, Malformed> {
        let flags = self.u8("partition flags")?;
        if flags & 0xF0 != 0 {
            return malformed("partition flags");
        }
        let key = self.string("partition key")?;
        let base = i64::from_be_bytes(self.array("base timestamp")?);
        let deletion = if flags & PARTITION_DELETION != 0 { Some(self.deletion(base)?) } else { None };
        Ok(RawHead { flags, key, base, deletion })
    }

    #[inline]
    pub fn row_count(&mut self, head: &RawHead<'_>) -> Result<usize, Malformed> {
        if head.flags & PARTITION_ROWS == 0 {
            return Ok(0);
        }
        let rows = usize::try_from(self.vint("row count")?).unwrap_or(usize::MAX);
        // A row takes three bytes at least.
        if rows > self.rest.len() { malformed("row count") } else { Ok(rows) }
    }
}

impl Partition {
    /// A timestamp near the others, so that differences are small.
    fn base_timestamp(&self) -> i64 {
        self.rows
            .first()
            .and_then(Row::min_timestamp)
            .or_else(|| self.static_row.as_ref().and_then(Row::min_timestamp))
            .or(self.deletion.map(|deletion| deletion.timestamp))
            .or_else(|| self.range_tombstones.first().map(|tombstone| tombstone.deletion.timestamp))
            .unwrap_or(0)
    }

    /// Appends the bytes that [`Partition::decode`] reads.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let base = self.base_timestamp();
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        out.push(
            flag(self.deletion.is_some(), PARTITION_DELETION)
                | flag(self.static_row.is_some(), PARTITION_STATIC)
                | flag(!self.rows.is_empty(), PARTITION_ROWS)
                | flag(!self.range_tombstones.is_empty(), PARTITION_RANGES),
        );
        write_string(&self.key, out);
        out.extend_from_slice(&base.to_be_bytes());
        if let Some(deletion) = self.deletion {
            write_deletion(deletion, base, out);
        }
        if let Some(row) = &self.static_row {
            write_row(row, base, out);
        }
        if !self.rows.is_empty() {
            vint::write_unsigned(self.rows.len() as u64, out);
            self.rows.iter().for_each(|row| write_row(row, base, out));
        }
        if !self.range_tombstones.is_empty() {
            vint::write_unsigned(self.range_tombstones.len() as u64, out);
            for tombstone in &self.range_tombstones {
                out.push(u8::from(tombstone.start.inclusive) | u8::from(tombstone.end.inclusive) << 1);
                write_string(tombstone.start.prefix.as_bytes(), out);
                write_string(tombstone.end.prefix.as_bytes(), out);
                write_deletion(tombstone.deletion, base, out);
            }
        }
    }

    /// Reads what [`Partition::encode`] wrote, all of it. Copies the bytes once; values share the copy.
    pub fn decode(bytes: &[u8]) -> Result<Partition, Malformed> {
        Self::decode_shared(&Bytes::copy_from(bytes))
    }

    /// As [`Partition::decode`], with values that share `whole`.
    pub fn decode_shared(whole: &Bytes) -> Result<Partition, Malformed> {
        let mut reader = Reader::new(whole);
        let head = reader.head()?;
        let mut partition = Partition { deletion: head.deletion, ..Partition::new(whole.part(head.key)) };
        if head.has_static() {
            partition.static_row = Some(reader.row(head.base, whole)?);
        }
        let rows = reader.row_count(&head)?;
        partition.rows.reserve_exact(rows);
        for _ in 0..rows {
            partition.rows.push(reader.row(head.base, whole)?);
        }
        if head.has_ranges() {
            for _ in 0..reader.vint("range count")? {
                partition.range_tombstones.push(reader.range(head.base, whole)?);
            }
        }
        if reader.rest.is_empty() { Ok(partition) } else { malformed("partition: bytes left over") }
    }
}

#[cfg(test)]
mod tests {
    use types::{CqlType, TableDef};

    use super::*;

    fn table() -> TableDef {
        TableDef::builder("k", "t")
            .partition_key("p", CqlType::Int)
            .clustering("c", CqlType::Int)
            .static_column("s", CqlType::Text)
            .regular("v", CqlType::Text)
            .regular("w", CqlType::Text)
            .build()
    }

    fn sample() -> Partition {
        let at = |n: i32| Clustering::new([n.to_be_bytes()]);
        let row = |n: i32| Row {
            marker: Some(Liveness::expiring(100 + i64::from(n), 60, 1000)),
            deletion: Some(DeletionTime { timestamp: i64::MIN, local_s: 3 }),
            cells: vec![(0, Cell::tombstone(i64::MAX, 7)), (1, Cell::expiring(-5, 300, 1000, vec![b'x'; 200]))],
            ..Row::new(at(n))
        };
        Partition {
            key: b"key".into(),
            deletion: Some(DeletionTime { timestamp: 1, local_s: 2 }),
            static_row: Some(Row { cells: vec![(0, Cell::live(4, b""))], ..Row::default() }),
            rows: vec![row(-1), row(2)],
            range_tombstones: vec![RangeTombstone {
                start: Bound::exclusive(at(1)),
                end: Bound::unbounded(),
                deletion: DeletionTime { timestamp: 99, local_s: 9 },
            }],
        }
    }

    #[test]
    fn round_trip() {
        for partition in [sample(), Partition::new(b"k"), Partition::default()] {
            let mut bytes = Vec::new();
            partition.encode(&mut bytes);
            assert_eq!(Partition::decode(&bytes), Ok(partition.clone()));
            let checked = check(&bytes, &table()).unwrap();
            assert_eq!((checked.key, checked.rows), (&*partition.key, partition.rows.len()));
        }
    }

    #[test]
    fn damaged_bytes_are_errors_not_panics() {
        let mut bytes = Vec::new();
        sample().encode(&mut bytes);
        for len in 0..bytes.len() {
            assert!(Partition::decode(&bytes[..len]).is_err(), "cut at {len}");
            assert!(check(&bytes[..len], &table()).is_err(), "cut at {len}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                // What passes the check must decode.
                if check(&damaged, &table()).is_ok() {
                    Partition::decode(&damaged).unwrap();
                }
            }
        }
    }

    #[test]
    fn foreign_partitions_are_refused() {
        let refused = |change: fn(&mut Partition)| {
            let mut partition = sample();
            change(&mut partition);
            let mut bytes = Vec::new();
            partition.encode(&mut bytes);
            check(&bytes, &table()).err().map(|error| error.what)
        };
        assert_eq!(refused(|_| ()), None);
        assert!(refused(|p| p.rows.swap(0, 1)).is_some());
        assert!(refused(|p| p.rows[0].cells[1].0 = 2).is_some());
        assert!(refused(|p| p.rows[0].cells.swap(0, 1)).is_some());
        assert!(refused(|p| p.rows[0].clustering = Clustering::empty()).is_some());
        assert!(refused(|p| p.static_row.as_mut().unwrap().cells[0].0 = 1).is_some());
    }
}
