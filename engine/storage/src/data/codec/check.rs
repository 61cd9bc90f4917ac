//! Whether encoded partitions are what a table's definition says, looked at without decoding them: before a memtable
//! keeps them as they are.

use types::{ColumnDef, CqlType, TableDef};

use super::{Malformed, PARTITION_ROWS, RawRow, Reader, malformed};
use crate::data::clustering::{Components, Position, compare_positions};
use crate::data::counter;
use crate::sstable::EncodingStats;

/// What a memtable must know of an encoded partition before it keeps it.
pub(crate) struct Checked<'a> {
    pub key: &'a [u8],
    pub rows: usize,
    /// The least times in it.
    pub stats: EncodingStats,
    /// Whether the table counts: later cells then do not replace earlier ones.
    pub counts: bool,
}

/// Checks that `bytes` are one partition of `table`: well formed, columns known, rows in order, values of the lengths
/// that their types fix.
pub(crate) fn check<'a>(bytes: &'a [u8], table: &TableDef) -> Result<Checked<'a>, Malformed> {
    let mut reader = Reader::new(bytes);
    let head = reader.head()?;
    if head.key.len() > usize::from(u16::MAX) {
        return malformed("partition key: longer than 65535 bytes");
    }
    let mut stats = EncodingStats::NONE;
    if let Some(deletion) = head.deletion {
        stats.see(deletion.timestamp, 0, deletion.local_s);
    }
    if head.has_static() {
        let raw = check_row(&mut reader, head.base, &table.statics, &mut stats)?;
        if !raw.clustering.is_empty() {
            return malformed("static row: it has a clustering");
        }
    }
    let rows = reader.row_count(&head)?;
    let mut last: Option<&[u8]> = None;
    for _ in 0..rows {
        let raw = check_row(&mut reader, head.base, &table.regulars, &mut stats)?;
        if check_components(raw.clustering, table)? != table.clustering.len() {
            return malformed("clustering: wrong number of components");
        }
        if last.is_some_and(|last| compare_positions(table, Position::row(last), Position::row(raw.clustering)).is_ge())
        {
            return malformed("rows: not in order");
        }
        last = Some(raw.clustering);
    }
    if head.has_ranges() {
        for _ in 0..reader.vint("range count")? {
            reader.u8("range flags")?;
            for what in ["range start", "range end"] {
                check_components(reader.string(what)?, table)?;
            }
            let deletion = reader.deletion(head.base)?;
            stats.see(deletion.timestamp, 0, deletion.local_s);
        }
    }
    if !reader.rest.is_empty() {
        return malformed("partition: bytes left over");
    }
    let counts = table.regulars.first().or(table.statics.first()).is_some_and(|column| column.ty.is_counter());
    Ok(Checked { key: head.key, rows, stats, counts })
}

/// Whether merging `new` into `old` gives `new`: both are plain rows, and for everything in `old` there is something
/// later in `new`. For two encoded partitions of one key that [`check`] has passed, of a table without counters; may
/// say no where yes is true.
pub(crate) fn replaces(new: &[u8], old: &[u8]) -> Result<bool, Malformed> {
    let (mut new, mut old) = (Reader::new(new), Reader::new(old));
    let (new_head, old_head) = (new.head()?, old.head()?);
    if (new_head.flags | old_head.flags) != PARTITION_ROWS {
        return Ok(false);
    }
    let rows = new.row_count(&new_head)?;
    if rows != old.row_count(&old_head)? {
        return Ok(false);
    }
    for _ in 0..rows {
        let (new_row, old_row) = (new.raw_row(new_head.base)?, old.raw_row(old_head.base)?);
        let marked = match (new_row.marker, old_row.marker) {
            (_, None) => true,
            (Some(new), Some(old)) => new.timestamp > old.timestamp,
            (None, Some(_)) => false,
        };
        let deletions = new_row.deletion.is_some() || old_row.deletion.is_some();
        let complex = new_row.complex || old_row.complex;
        if !marked || deletions || complex || new_row.clustering != old_row.clustering || new_row.cells != old_row.cells
        {
            return Ok(false);
        }
        for _ in 0..new_row.cells {
            let (new_cell, old_cell) = (new.raw_cell(new_head.base)?, old.raw_cell(old_head.base)?);
            if new_cell.column != old_cell.column || new_cell.timestamp <= old_cell.timestamp {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// Number of components.
#[inline]
fn check_components(clustering: &[u8], table: &TableDef) -> Result<usize, Malformed> {
    if clustering.is_empty() {
        return Ok(0);
    }
    let mut components = Components(clustering);
    let mut count = 0;
    for component in components.by_ref() {
        let Some(column) = table.clustering.get(count) else {
            return malformed("clustering: more components than columns");
        };
        check_length(component, column)?;
        count += 1;
    }
    if components.0.is_empty() { Ok(count) } else { malformed("clustering") }
}

#[inline]
fn check_length(value: &[u8], column: &ColumnDef) -> Result<(), Malformed> {
    match column.ty.fixed_len() {
        Some(len) if value.len() != len && !value.is_empty() => malformed("value: not of its type's length"),
        _ => Ok(()),
    }
}

#[inline]
fn check_row<'a>(
    reader: &mut Reader<'a>,
    base: i64,
    columns: &[ColumnDef],
    stats: &mut EncodingStats,
) -> Result<RawRow<'a>, Malformed> {
    let raw = reader.raw_row(base)?;
    if let Some(marker) = raw.marker {
        stats.see(marker.timestamp, marker.ttl_s, marker.local_deletion_s);
    }
    if let Some(deletion) = raw.deletion {
        stats.see(deletion.timestamp, 0, deletion.local_s);
    }
    let mut next_column = 0;
    for _ in 0..raw.cells {
        let cell = reader.raw_cell(base)?;
        let index = usize::from(cell.column);
        let column = columns.get(index).filter(|_| index >= next_column);
        let Some(column) = column else { return malformed("column: unknown or out of order") };
        if let Some(value) = cell.value {
            check_value(value, column)?;
        }
        next_column = index + 1;
        stats.see(cell.timestamp, cell.ttl_s, cell.local_deletion_s);
    }
    if raw.complex {
        check_complex(reader, base, columns, stats)?;
    }
    Ok(raw)
}

/// The value of a column of one cell.
#[inline]
fn check_value(value: &[u8], column: &ColumnDef) -> Result<(), Malformed> {
    match &column.ty {
        CqlType::Blob | CqlType::Text | CqlType::Ascii => Ok(()),
        CqlType::Counter => counter::shards(value).map(drop),
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Udt(_) => {
            malformed("column: it is made of several cells")
        }
        _ => check_length(value, column),
    }
}

fn check_complex(
    reader: &mut Reader<'_>,
    base: i64,
    columns: &[ColumnDef],
    stats: &mut EncodingStats,
) -> Result<(), Malformed> {
    let mut next_column = 0;
    for _ in 0..reader.complex_count()? {
        let raw = reader.raw_complex(base)?;
        let index = usize::from(raw.column);
        let column = columns.get(index).filter(|_| index >= next_column);
        let Some(column) = column else { return malformed("column: unknown or out of order") };
        let Some(path_type) = column.ty.path_type() else { return malformed("column: it is one cell") };
        next_column = index + 1;
        if let Some(deletion) = raw.deletion {
            stats.see(deletion.timestamp, 0, deletion.local_s);
        }
        let mut last: Option<&[u8]> = None;
        for _ in 0..raw.cells {
            let path = reader.string("path")?;
            let known = match &column.ty {
                CqlType::List(_) => path.len() == 16,
                CqlType::Udt(_) => column.ty.element_type(path).is_some(),
                _ => path.is_empty() || path_type.fixed_len().is_none_or(|len| path.len() == len),
            };
            if !known || last.is_some_and(|last| path_type.compare(last, path).is_ge()) {
                return malformed("path: not of its type, or out of order");
            }
            last = Some(path);
            let cell = reader.raw_cell(base)?;
            if cell.column != 0 {
                return malformed("element");
            }
            let fixed_len = match column.ty.element_type(path) {
                Some(ty) => ty.fixed_len(),
                None => Some(0),
            };
            if cell.value.is_some_and(|value| !value.is_empty() && fixed_len.is_some_and(|len| value.len() != len)) {
                return malformed("value: not of its type's length");
            }
            stats.see(cell.timestamp, cell.ttl_s, cell.local_deletion_s);
        }
    }
    Ok(())
}
