//! Rows and range tombstone markers as they stand in `Data.db`.
//!
//! As `UnfilteredSerializer`, `Cell.Serializer`, `ClusteringPrefix.Serializer`, `ClusteringBoundOrBoundary.Serializer`,
//! `Columns.Serializer.serializeSubset` and (for the partition) `DeletionTime.Serializer` of Apache Cassandra for
//! formats before `oa`. Reading is on bytes that may end early: [`Parse::Incomplete`] then asks for more.
//!
//! A row's columns stand in the header's order: those of one cell, then those of several. Where one of a row's columns
//! of several cells has a deletion, all of that row's have one written, if need be one that deletes nothing.

use types::{CqlType, vint};

use super::header::{Column, EncodingStats, Header};
use crate::data::codec::Reader;
use crate::data::write_component;
use crate::{Bound, Bytes, Cell, Clustering, ComplexColumn, DeletionTime, Liveness, Malformed, NEVER_S, Row};

const END_OF_PARTITION: u8 = 0x01;
const IS_MARKER: u8 = 0x02;
pub(super) const HAS_TIMESTAMP: u8 = 0x04;
const HAS_TTL: u8 = 0x08;
const HAS_DELETION: u8 = 0x10;
pub(super) const HAS_ALL_COLUMNS: u8 = 0x20;
const HAS_COMPLEX_DELETION: u8 = 0x40;
const EXTENSION: u8 = 0x80;
const EXTENSION_STATIC: u8 = 0x01;

const CELL_DELETED: u8 = 0x01;
const CELL_EXPIRING: u8 = 0x02;
pub(super) const CELL_EMPTY: u8 = 0x04;
pub(super) const CELL_ROW_TIMESTAMP: u8 = 0x08;
const CELL_ROW_TTL: u8 = 0x10;

/// `ClusteringPrefix.Kind` by ordinal.
const EXCL_END: u8 = 0;
const INCL_START: u8 = 1;
const EXCL_END_INCL_START: u8 = 2;
const INCL_END_EXCL_START: u8 = 5;
const INCL_END: u8 = 6;
const EXCL_START: u8 = 7;

/// The largest local deletion time of a format whose seconds are signed 32-bit numbers.
const LOCAL_DELETION_MAX: u32 = i32::MAX as u32 - 1;

/// Why nothing was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parse {
    /// The bytes end before the thing does.
    Incomplete,
    Malformed(&'static str),
}

impl From<Malformed> for Parse {
    /// `Reader` fails where its bytes end.
    fn from(_: Malformed) -> Self {
        Parse::Incomplete
    }
}

/// One end of a range tombstone, or the end of one and the start of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub closes: Option<(Bound, DeletionTime)>,
    pub opens: Option<(Bound, DeletionTime)>,
}

impl Marker {
    /// As it is written. One of the two ends is there.
    pub fn kind_and_prefix(&self) -> (u8, &Clustering) {
        match (&self.closes, &self.opens) {
            // Where one ends and the next starts, they meet: an exclusive end and an inclusive start, or the reverse.
            (Some((end, _)), Some(_)) => {
                (if end.inclusive { INCL_END_EXCL_START } else { EXCL_END_INCL_START }, &end.prefix)
            }
            (Some((end, _)), None) => (if end.inclusive { INCL_END } else { EXCL_END }, &end.prefix),
            (None, Some((start, _))) => (if start.inclusive { INCL_START } else { EXCL_START }, &start.prefix),
            (None, None) => unreachable!("a marker closes or opens a range"),
        }
    }
}

/// Whether a marker of this kind stands before (-1) or behind (1) the rows with its prefix.
pub(super) fn side_of(kind: u8) -> i8 {
    if matches!(kind, EXCL_END | INCL_START | EXCL_END_INCL_START) { -1 } else { 1 }
}

impl EncodingStats {
    pub(super) fn write_timestamp(&self, timestamp: i64, out: &mut Vec<u8>) {
        vint::write_unsigned(timestamp.wrapping_sub(self.min_timestamp) as u64, out);
    }

    fn write_local_deletion(&self, local_s: u32, out: &mut Vec<u8>) {
        let local_s = local_s.min(LOCAL_DELETION_MAX);
        vint::write_unsigned((i64::from(local_s) - i64::from(self.min_local_deletion_s)) as u64, out);
    }

    fn write_ttl(&self, ttl_s: u32, out: &mut Vec<u8>) {
        vint::write_unsigned((i64::from(ttl_s) - i64::from(self.min_ttl_s)) as u64, out);
    }

    fn write_deletion(&self, deletion: DeletionTime, out: &mut Vec<u8>) {
        self.write_timestamp(deletion.timestamp, out);
        self.write_local_deletion(deletion.local_s, out);
    }

    /// `DeletionTime.LIVE` for none.
    fn write_complex_deletion(&self, deletion: Option<DeletionTime>, out: &mut Vec<u8>) {
        match deletion {
            Some(deletion) => self.write_deletion(deletion, out),
            None => {
                self.write_timestamp(i64::MIN, out);
                let local_s = i64::from(i32::MAX) - i64::from(self.min_local_deletion_s);
                vint::write_unsigned(local_s as u64, out);
            }
        }
    }

    fn complex_deletion(&self, reader: &mut Reader<'_>) -> Result<Option<DeletionTime>, Parse> {
        let timestamp = self.timestamp(reader)?;
        let local_s = i64::from(self.min_local_deletion_s).wrapping_add(reader.vint("deletion time")? as i64);
        // It deletes nothing: timestamps are greater. The local time beside it is the largest int, in files that
        // Cassandra 5 wrote -1.
        if timestamp == i64::MIN {
            return Ok(None);
        }
        let local_s = u32::try_from(local_s).map_err(|_| Parse::Malformed("a local deletion time out of range"))?;
        Ok(Some(DeletionTime { timestamp, local_s }))
    }

    pub(super) fn timestamp(&self, reader: &mut Reader<'_>) -> Result<i64, Parse> {
        Ok(self.min_timestamp.wrapping_add(reader.vint("timestamp")? as i64))
    }

    fn local_deletion(&self, reader: &mut Reader<'_>) -> Result<u32, Parse> {
        let local_s = i64::from(self.min_local_deletion_s).wrapping_add(reader.vint("deletion time")? as i64);
        u32::try_from(local_s).map_err(|_| Parse::Malformed("a local deletion time out of range"))
    }

    fn ttl(&self, reader: &mut Reader<'_>) -> Result<u32, Parse> {
        let ttl_s = i64::from(self.min_ttl_s).wrapping_add(reader.vint("time to live")? as i64);
        u32::try_from(ttl_s).ok().filter(|ttl_s| *ttl_s > 0).ok_or(Parse::Malformed("a time to live out of range"))
    }

    fn deletion(&self, reader: &mut Reader<'_>) -> Result<DeletionTime, Parse> {
        Ok(DeletionTime { timestamp: self.timestamp(reader)?, local_s: self.local_deletion(reader)? })
    }
}

pub(super) fn write_value(fixed_len: Option<usize>, value: &[u8], out: &mut Vec<u8>) {
    match fixed_len {
        Some(len) => debug_assert_eq!(value.len(), len, "checked when the mutation was applied"),
        None => vint::write_unsigned(value.len() as u64, out),
    }
    out.extend_from_slice(value);
}

pub(super) fn read_value<'a>(fixed_len: Option<usize>, reader: &mut Reader<'a>) -> Result<&'a [u8], Parse> {
    match fixed_len {
        Some(len) => Ok(reader.bytes(len, "value")?),
        None => Ok(reader.string("value")?),
    }
}

/// Components in groups of 32, each group behind two bits a component: empty, null.
pub(super) fn write_clustering(types: &[CqlType], clustering: &Clustering, out: &mut Vec<u8>) {
    let components: Vec<&[u8]> = clustering.components().collect();
    for (components, types) in components.chunks(32).zip(types.chunks(32)) {
        let empty = |(at, component): (usize, &&[u8])| if component.is_empty() { 1u64 << (at * 2) } else { 0 };
        vint::write_unsigned(components.iter().enumerate().map(empty).sum(), out);
        for (component, ty) in components.iter().zip(types) {
            if !component.is_empty() {
                write_value(ty.fixed_len(), component, out);
            }
        }
    }
}

pub(super) fn read_clustering(types: &[CqlType], count: usize, reader: &mut Reader<'_>) -> Result<Clustering, Parse> {
    if count == 0 {
        return Ok(Clustering::empty());
    }
    if count > types.len() {
        return Err(Parse::Malformed("more clustering components than columns"));
    }
    let mut out = Vec::with_capacity(count * 9);
    for types in types[..count].chunks(32) {
        let header = reader.vint("clustering")?;
        for (at, ty) in types.iter().enumerate() {
            // A null component, as only compact tables have, is read as an empty one.
            if header >> (at * 2) & 3 == 0 {
                write_component(read_value(ty.fixed_len(), reader)?, &mut out);
            } else {
                write_component(&[], &mut out);
            }
        }
    }
    Ok(Clustering(out.into()))
}

/// Key, deletion.
pub(super) fn write_partition_head(key: &[u8], deletion: Option<DeletionTime>, out: &mut Vec<u8>) {
    out.extend_from_slice(&(key.len() as u16).to_be_bytes());
    out.extend_from_slice(key);
    write_deletion_time(deletion, out);
}

/// As `DeletionTime.Serializer`: twelve bytes, also for none.
pub(super) fn write_deletion_time(deletion: Option<DeletionTime>, out: &mut Vec<u8>) {
    let (local_s, timestamp) = match deletion {
        Some(deletion) => (deletion.local_s.min(LOCAL_DELETION_MAX) as i32, deletion.timestamp),
        None => (i32::MAX, i64::MIN),
    };
    out.extend_from_slice(&local_s.to_be_bytes());
    out.extend_from_slice(&timestamp.to_be_bytes());
}

pub(super) fn read_deletion_time(reader: &mut Reader<'_>) -> Result<Option<DeletionTime>, Parse> {
    let local_s = i32::from_be_bytes(reader.array("deletion")?);
    let timestamp = i64::from_be_bytes(reader.array("deletion")?);
    if (local_s, timestamp) == (i32::MAX, i64::MIN) {
        return Ok(None);
    }
    let local_s = u32::try_from(local_s).map_err(|_| Parse::Malformed("a deletion time is negative"))?;
    Ok(Some(DeletionTime { timestamp, local_s }))
}

pub(super) fn read_partition_head<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], Option<DeletionTime>), Parse> {
    let len = u16::from_be_bytes(reader.array("key length")?);
    let key = reader.bytes(usize::from(len), "key")?;
    Ok((key, read_deletion_time(reader)?))
}

pub(super) fn write_partition_end(out: &mut Vec<u8>) {
    out.push(END_OF_PARTITION);
}

/// Whether the partition ends here.
pub(super) fn read_partition_end(reader: &mut Reader<'_>) -> bool {
    reader.u8("flags").is_ok_and(|flags| flags & END_OF_PARTITION != 0)
}

/// `previous` is the size of the unfiltered before it in the partition, 0 for the first and the static row. `body` is
/// memory to use.
pub(super) fn write_row(
    header: &Header,
    row: &Row,
    is_static: bool,
    previous: u64,
    body: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let (columns, places) = match is_static {
        true => (&header.statics, &header.static_places),
        false => (&header.regulars, &header.regular_places),
    };
    let mut flags = 0;
    if let Some(marker) = row.marker {
        flags |= HAS_TIMESTAMP | if marker.ttl_s == 0 { 0 } else { HAS_TTL };
    }
    if row.deletion.is_some() {
        flags |= HAS_DELETION;
    }
    if row.columns() == columns.len() {
        flags |= HAS_ALL_COLUMNS;
    }
    if row.complex.iter().any(|column| column.deletion.is_some()) {
        flags |= HAS_COMPLEX_DELETION;
    }
    if is_static {
        out.extend_from_slice(&[flags | EXTENSION, EXTENSION_STATIC]);
    } else {
        out.push(flags);
        write_clustering(&header.clustering, &row.clustering, out);
    }
    body.clear();
    let stats = &header.stats;
    if let Some(marker) = row.marker {
        stats.write_timestamp(marker.timestamp, body);
        if marker.ttl_s != 0 {
            stats.write_ttl(marker.ttl_s, body);
            stats.write_local_deletion(marker.local_deletion_s, body);
        }
    }
    if let Some(deletion) = row.deletion {
        stats.write_deletion(deletion, body);
    }
    if flags & HAS_ALL_COLUMNS == 0 {
        write_subset(row, columns, body);
    }
    for (column, cell) in &row.cells {
        let place = usize::from(places[usize::from(*column)]);
        write_cell(stats, columns[place].fixed_len, None, cell, row.marker, body);
    }
    for column in row.complex.iter() {
        if flags & HAS_COMPLEX_DELETION != 0 {
            stats.write_complex_deletion(column.deletion, body);
        }
        vint::write_unsigned(column.cells.len() as u64, body);
        for (path, cell) in &column.cells {
            write_cell(stats, None, Some(path), cell, row.marker, body);
        }
    }
    write_body(previous, body, out);
}

/// Behind the head: the sizes, and what they are sizes of.
pub(super) fn write_body(previous: u64, body: &[u8], out: &mut Vec<u8>) {
    vint::write_unsigned((body.len() + vint::unsigned_len(previous)) as u64, out);
    vint::write_unsigned(previous, out);
    out.extend_from_slice(body);
}

/// `fixed_len` is the length of the column's values, when its type fixes it. The elements of columns of several cells
/// have a path, and their values always a length: it is the column's type that counts, not the element's.
#[inline]
fn write_cell(
    stats: &EncodingStats,
    fixed_len: Option<usize>,
    path: Option<&[u8]>,
    cell: &Cell,
    marker: Option<Liveness>,
    out: &mut Vec<u8>,
) {
    let expiring = cell.value.is_some() && cell.ttl_s != 0;
    let row_timestamp = marker.is_some_and(|marker| marker.timestamp == cell.timestamp);
    let row_ttl =
        expiring && marker.is_some_and(|m| (m.ttl_s, m.local_deletion_s) == (cell.ttl_s, cell.local_deletion_s));
    let mut flags = 0;
    if cell.value.is_none() {
        flags |= CELL_DELETED;
    }
    if expiring {
        flags |= CELL_EXPIRING;
    }
    if cell.value.as_ref().is_none_or(|value| value.is_empty()) {
        flags |= CELL_EMPTY;
    }
    if row_timestamp {
        flags |= CELL_ROW_TIMESTAMP;
    }
    if row_ttl {
        flags |= CELL_ROW_TTL;
    }
    out.push(flags);
    if !row_timestamp {
        stats.write_timestamp(cell.timestamp, out);
    }
    if flags & (CELL_DELETED | CELL_EXPIRING) != 0 && !row_ttl {
        stats.write_local_deletion(cell.local_deletion_s, out);
    }
    if expiring && !row_ttl {
        stats.write_ttl(cell.ttl_s, out);
    }
    if let Some(path) = path {
        vint::write_unsigned(path.len() as u64, out);
        out.extend_from_slice(path);
    }
    if let Some(value) = cell.value.as_deref().filter(|value| !value.is_empty()) {
        write_value(fixed_len, value, out);
    }
}

/// Which columns a row has: below 64 the bits of the missing ones, else their count and the shorter list.
fn write_subset(row: &Row, columns: &[Column], out: &mut Vec<u8>) {
    let present = |place: usize| match columns[place].index {
        Some(index) if columns[place].is_multi_cell => row.complex.get(index).is_some(),
        Some(index) => row.cells.binary_search_by_key(&index, |(c, _)| *c).is_ok(),
        None => false,
    };
    let columns = columns.len();
    if columns < 64 {
        let missing = (0..columns).filter(|&index| !present(index));
        vint::write_unsigned(missing.map(|index| 1u64 << index).sum(), out);
        return;
    }
    vint::write_unsigned((columns - row.columns()) as u64, out);
    let listed = row.columns() < columns / 2;
    for index in (0..columns).filter(|&index| present(index) == listed) {
        vint::write_unsigned(index as u64, out);
    }
}

fn read_subset(columns: usize, reader: &mut Reader<'_>) -> Result<Vec<usize>, Parse> {
    let encoded = reader.vint("columns")?;
    if columns < 64 {
        if encoded >> columns != 0 {
            return Err(Parse::Malformed("more columns than the header has"));
        }
        return Ok((0..columns).filter(|index| encoded >> index & 1 == 0).collect());
    }
    let missing = usize::try_from(encoded).ok().filter(|missing| *missing <= columns);
    let present = columns - missing.ok_or(Parse::Malformed("more columns than the header has"))?;
    let listed = present < columns / 2;
    let mut list = Vec::new();
    for _ in 0..if listed { present } else { columns - present } {
        list.push(reader.vint("columns")? as usize);
    }
    if list.iter().any(|index| *index >= columns) || !list.is_sorted() {
        return Err(Parse::Malformed("a column that the header does not have"));
    }
    if listed { Ok(list) } else { Ok((0..columns).filter(|index| list.binary_search(index).is_err()).collect()) }
}

pub(super) fn write_marker(header: &Header, marker: &Marker, previous: u64, body: &mut Vec<u8>, out: &mut Vec<u8>) {
    let (kind, prefix) = marker.kind_and_prefix();
    out.extend_from_slice(&[IS_MARKER, kind]);
    out.extend_from_slice(&(prefix.len() as u16).to_be_bytes());
    write_clustering(&header.clustering, prefix, out);
    body.clear();
    for (_, deletion) in marker.closes.iter().chain(&marker.opens) {
        header.stats.write_deletion(*deletion, body);
    }
    write_body(previous, body, out);
}

/// The beginning of an unfiltered: enough to know whether it is wanted.
pub(super) enum Head {
    End,
    Row { flags: u8, clustering: Clustering, is_static: bool },
    Marker { kind: u8, prefix: Clustering },
}

/// Reads flags and clustering, and the size of the body, which follows in the reader.
pub(super) fn read_head(header: &Header, reader: &mut Reader<'_>) -> Result<(Head, usize), Parse> {
    let flags = reader.u8("flags")?;
    if flags & END_OF_PARTITION != 0 {
        return Ok((Head::End, 0));
    }
    let extended = if flags & EXTENSION != 0 { reader.u8("extended flags")? } else { 0 };
    if extended & !EXTENSION_STATIC != 0 {
        return Err(Parse::Malformed("flags of materialised views, which are not supported"));
    }
    let is_static = extended & EXTENSION_STATIC != 0;
    let head = if flags & IS_MARKER != 0 {
        let kind = reader.u8("marker")?;
        let count = u16::from_be_bytes(reader.array("marker")?);
        Head::Marker { kind, prefix: read_clustering(&header.clustering, usize::from(count), reader)? }
    } else {
        let count = if is_static { 0 } else { header.clustering.len() };
        Head::Row { flags, clustering: read_clustering(&header.clustering, count, reader)?, is_static }
    };
    let size = reader.vint("size")?;
    let size = usize::try_from(size).map_err(|_| Parse::Malformed("a row's size"))?;
    Ok((head, size))
}

/// The body of a row, all of which is in `body`; values share `whole`.
pub(super) fn read_row_body(
    header: &Header,
    flags: u8,
    is_static: bool,
    clustering: Clustering,
    body: &[u8],
    whole: &Bytes,
) -> Result<Row, Parse> {
    let mut reader = Reader::new(body);
    let row =
        read_row_fields(header, flags, is_static, clustering, &mut reader, whole).map_err(|error| match error {
            Parse::Incomplete => Parse::Malformed("a row ends before its last cell"),
            malformed => malformed,
        })?;
    if reader.rest.is_empty() { Ok(row) } else { Err(Parse::Malformed("a row has bytes behind its last cell")) }
}

fn read_row_fields(
    header: &Header,
    flags: u8,
    is_static: bool,
    clustering: Clustering,
    reader: &mut Reader<'_>,
    whole: &Bytes,
) -> Result<Row, Parse> {
    let columns = if is_static { &header.statics } else { &header.regulars };
    let stats = &header.stats;
    reader.vint("previous size")?;
    let mut row = Row::new(clustering);
    if flags & HAS_TIMESTAMP != 0 {
        let mut marker = Liveness::live(stats.timestamp(reader)?);
        if flags & HAS_TTL != 0 {
            marker.ttl_s = stats.ttl(reader)?;
            marker.local_deletion_s = stats.local_deletion(reader)?;
        }
        row.marker = Some(marker);
    }
    if flags & HAS_DELETION != 0 {
        row.deletion = Some(stats.deletion(reader)?);
    }
    let all = flags & HAS_ALL_COLUMNS != 0;
    let present = if all { Vec::new() } else { read_subset(columns.len(), reader)? };
    let count = if all { columns.len() } else { present.len() };
    row.cells.reserve_exact(count);
    for at in 0..count {
        let column = &columns[if all { at } else { present[at] }];
        if column.is_multi_cell {
            let mut complex = read_complex(stats, column, flags, row.marker, reader, whole)?;
            if column.index.is_some() {
                if column.hidden_us != i64::MIN {
                    complex.deletion.take_if(|deletion| deletion.timestamp <= column.hidden_us);
                    complex.cells.retain(|(_, cell)| cell.timestamp > column.hidden_us);
                }
                row.complex.push(complex);
            }
            continue;
        }
        let cell = read_cell(stats, column.fixed_len, None, row.marker, reader, whole)?;
        if let Some(index) = column.index
            && (cell.timestamp > column.hidden_us || column.hidden_us == i64::MIN)
        {
            row.cells.push((index, cell));
        }
    }
    Ok(row)
}

fn read_complex(
    stats: &EncodingStats,
    column: &Column,
    flags: u8,
    marker: Option<Liveness>,
    reader: &mut Reader<'_>,
    whole: &Bytes,
) -> Result<ComplexColumn, Parse> {
    let mut complex = ComplexColumn::new(column.index.unwrap_or_default());
    if flags & HAS_COMPLEX_DELETION != 0 {
        complex.deletion = stats.complex_deletion(reader)?;
    }
    let count = usize::try_from(reader.vint("cell count")?).unwrap_or(usize::MAX);
    // A cell takes two bytes at least: a lie must not size a buffer.
    if count > reader.rest.len() {
        return Err(Parse::Malformed("more cells than a row has bytes"));
    }
    complex.cells.reserve_exact(count);
    for _ in 0..count {
        let mut path = Bytes::default();
        let cell = read_cell(stats, None, Some(&mut path), marker, reader, whole)?;
        complex.cells.push((path, cell));
    }
    let order =
        |pair: &[(Bytes, Cell)]| column.ty.path_type().is_some_and(|ty| ty.compare(&pair[0].0, &pair[1].0).is_lt());
    if complex.cells.windows(2).all(order) {
        Ok(complex)
    } else {
        Err(Parse::Malformed("cells of a column out of order"))
    }
}

/// The elements of columns of several cells have a path.
#[inline]
fn read_cell(
    stats: &EncodingStats,
    fixed_len: Option<usize>,
    path: Option<&mut Bytes>,
    marker: Option<Liveness>,
    reader: &mut Reader<'_>,
    whole: &Bytes,
) -> Result<Cell, Parse> {
    let no_marker = Parse::Malformed("a cell refers to a row marker that is not there");
    let flags = reader.u8("cell flags")?;
    let (deleted, expiring) = (flags & CELL_DELETED != 0, flags & CELL_EXPIRING != 0);
    let timestamp =
        if flags & CELL_ROW_TIMESTAMP != 0 { marker.ok_or(no_marker)?.timestamp } else { stats.timestamp(reader)? };
    let (ttl_s, local_deletion_s) = if flags & CELL_ROW_TTL != 0 {
        let marker = marker.ok_or(Parse::Malformed("a cell refers to a row marker that is not there"))?;
        (marker.ttl_s, marker.local_deletion_s)
    } else {
        let local_deletion_s = if deleted || expiring { stats.local_deletion(reader)? } else { NEVER_S };
        (if expiring { stats.ttl(reader)? } else { 0 }, local_deletion_s)
    };
    if let Some(path) = path {
        *path = whole.part(reader.string("path")?);
    }
    let value = if flags & CELL_EMPTY != 0 {
        (!deleted).then(Bytes::default)
    } else {
        let value = read_value(fixed_len, reader)?;
        if deleted {
            return Err(Parse::Malformed("a tombstone with a value"));
        }
        Some(whole.part(value))
    };
    Ok(Cell { timestamp, ttl_s, local_deletion_s, value })
}

pub(super) fn read_marker_body(header: &Header, kind: u8, prefix: Clustering, body: &[u8]) -> Result<Marker, Parse> {
    let mut reader = Reader::new(body);
    reader.vint("previous size").map_err(|_| Parse::Malformed("a marker without a body"))?;
    let mut deletion = || {
        header.stats.deletion(&mut reader).map_err(|error| match error {
            Parse::Incomplete => Parse::Malformed("a marker ends before its deletion"),
            malformed => malformed,
        })
    };
    let bound = |inclusive| Bound { prefix: prefix.clone(), inclusive };
    let marker = match kind {
        EXCL_END | INCL_END => Marker { closes: Some((bound(kind == INCL_END), deletion()?)), opens: None },
        INCL_START | EXCL_START => Marker { closes: None, opens: Some((bound(kind == INCL_START), deletion()?)) },
        EXCL_END_INCL_START | INCL_END_EXCL_START => {
            let end_inclusive = kind == INCL_END_EXCL_START;
            let closes = Some((bound(end_inclusive), deletion()?));
            Marker { closes, opens: Some((bound(!end_inclusive), deletion()?)) }
        }
        _ => return Err(Parse::Malformed("a marker of an unknown kind")),
    };
    if reader.rest.is_empty() { Ok(marker) } else { Err(Parse::Malformed("a marker with bytes left over")) }
}

#[cfg(test)]
mod tests;
