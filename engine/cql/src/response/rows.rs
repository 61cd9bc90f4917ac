//! RESULT Rows: written cell by cell into the send buffer, read where they lie.

use super::metadata::{ColumnSpec, EncodedMetadata, HAS_MORE_PAGES, METADATA_CHANGED, NO_METADATA, decode_specs};
use super::result_kind;
use crate::wire::{self, DecodeError, Reader};

/// Rows in the making. Write every cell of a row in column order, then [`RowsWriter::end_row`].
#[derive(Debug)]
#[must_use = "the rows have no count until they are finished"]
pub struct RowsWriter {
    count_at: usize,
    count: u32,
}

impl RowsWriter {
    /// Appends everything before the rows. The paging state must be known first: see [`RowsWriter::finish_page`] when
    /// it is known only after the rows.
    pub fn begin(
        out: &mut Vec<u8>,
        metadata: &EncodedMetadata,
        skip_metadata: bool,
        paging_state: Option<&[u8]>,
    ) -> RowsWriter {
        wire::put_i32(out, result_kind::ROWS);
        metadata.encode(out, skip_metadata, paging_state);
        let count_at = out.len();
        wire::put_i32(out, 0);
        RowsWriter { count_at, count: 0 }
    }

    pub fn cell(&self, out: &mut Vec<u8>, value: Option<&[u8]>) {
        wire::put_bytes(out, value);
    }

    /// A cell of unknown length: appended by `write`, which returns whether it is a value and not null.
    pub fn cell_with(&self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let at = out.len();
        wire::put_i32(out, -1);
        if write(out) {
            let len = (out.len() - at - 4) as i32;
            out[at..at + 4].copy_from_slice(&len.to_be_bytes());
        } else {
            out.truncate(at + 4);
        }
    }

    pub fn end_row(&mut self) {
        self.count += 1;
    }

    pub fn count(&self) -> u32 {
        self.count
    }

    /// Sets the count. Returns it.
    pub fn finish(self, out: &mut [u8]) -> u32 {
        out[self.count_at..self.count_at + 4].copy_from_slice(&(self.count as i32).to_be_bytes());
        self.count
    }

    /// As [`RowsWriter::finish`] for a page that turned out not to be the last: puts the paging state in its place,
    /// before the rows, which moves them once.
    pub fn finish_page(self, out: &mut Vec<u8>, metadata: &EncodedMetadata, skip_metadata: bool, paging_state: &[u8]) {
        let specs_len = if skip_metadata { 0 } else { metadata.specs().len() };
        let state_at = self.count_at - specs_len;
        let flags_at = state_at - 8;
        self.finish(out);
        let mut state = Vec::with_capacity(paging_state.len() + 4);
        wire::put_bytes(&mut state, Some(paging_state));
        out.splice(state_at..state_at, state);
        out[flags_at + 3] |= HAS_MORE_PAGES as u8;
    }
}

/// Says in a finished body of RESULT Rows, which has its metadata, that they are not those that the client has: `id`
/// names the new ones. v5. Other bodies stay as they are.
pub fn announce_metadata(body: &mut Vec<u8>, id: &[u8]) {
    let mut reader = Reader::new(body);
    let (Ok(result_kind::ROWS), Ok(flags), Ok(_)) = (reader.i32("kind"), reader.i32("flags"), reader.i32("columns"))
    else {
        return;
    };
    if flags & NO_METADATA != 0 || (flags & HAS_MORE_PAGES != 0 && reader.bytes("paging state").is_err()) {
        return;
    }
    let at = body.len() - reader.rest().len();
    let mut announced = Vec::with_capacity(id.len() + 2);
    wire::put_short_bytes(&mut announced, id);
    body.splice(at..at, announced);
    body[4..8].copy_from_slice(&(flags | METADATA_CHANGED).to_be_bytes());
}

/// A page of rows as received.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<'a> {
    /// Empty if the request skipped metadata: they are those of the prepared statement.
    pub columns: Vec<ColumnSpec>,
    pub column_count: usize,
    pub row_count: usize,
    /// Send it with the same request for the next page; `None` after the last.
    pub paging_state: Option<&'a [u8]>,
    content: &'a [u8],
}

impl<'a> Rows<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Rows<'a>, DecodeError> {
        let flags = reader.i32("flags")?;
        let column_count = reader.i32("count of columns")?;
        let column_count = usize::try_from(column_count)
            .map_err(|_| DecodeError::Unknown { what: "The count of columns", value: column_count as i64 })?;
        let paging_state = if flags & HAS_MORE_PAGES != 0 { reader.bytes("paging state")? } else { None };
        if flags & METADATA_CHANGED != 0 {
            reader.short_bytes("result metadata id")?;
        }
        let columns = if flags & NO_METADATA != 0 {
            Vec::new()
        } else {
            if column_count > reader.rest().len() / 4 {
                return Err(DecodeError::Truncated("columns"));
            }
            decode_specs(reader, flags, column_count)?
        };
        let row_count = reader.count(column_count * 4, "count of rows")?;
        Ok(Rows { columns, column_count, row_count, paging_state, content: reader.rest() })
    }

    /// Rows one by one; an error ends them.
    pub fn iter(&self) -> RowsIter<'a> {
        RowsIter { reader: Reader::new(self.content), columns: self.column_count, left: self.row_count }
    }

    /// Position of a column by name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

#[derive(Clone, Debug)]
pub struct RowsIter<'a> {
    reader: Reader<'a>,
    columns: usize,
    left: usize,
}

impl<'a> Iterator for RowsIter<'a> {
    type Item = Result<Row<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let begin = self.reader.rest();
        for _ in 0..self.columns {
            if let Err(error) = self.reader.bytes("cell") {
                self.left = 0;
                return Some(Err(error));
            }
        }
        Some(Ok(Row { cells: &begin[..begin.len() - self.reader.rest().len()] }))
    }
}

/// The cells of one row, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    cells: &'a [u8],
}

impl<'a> Row<'a> {
    pub fn cells(&self) -> CellsIter<'a> {
        CellsIter(Reader::new(self.cells))
    }

    /// The cell at a position; `None` is null (or beyond the last column).
    pub fn cell(&self, position: usize) -> Option<&'a [u8]> {
        self.cells().nth(position).flatten()
    }
}

#[derive(Clone, Debug)]
pub struct CellsIter<'a>(Reader<'a>);

impl<'a> Iterator for CellsIter<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.bytes("cell").ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::CqlType;

    fn metadata(columns: usize) -> (Vec<ColumnSpec>, EncodedMetadata) {
        let specs: Vec<_> =
            (0..columns).map(|at| ColumnSpec::new("k", "t", &format!("c{at}"), CqlType::Blob)).collect();
        let encoded = EncodedMetadata::new(&specs);
        (specs, encoded)
    }

    #[test]
    fn golden() {
        let encoded = EncodedMetadata::new(&[ColumnSpec::new("k", "t", "c", CqlType::Int)]);
        let mut out = Vec::new();
        let mut rows = RowsWriter::begin(&mut out, &encoded, false, None);
        rows.cell(&mut out, Some(&7i32.to_be_bytes()));
        rows.end_row();
        rows.cell_with(&mut out, |out| {
            out.push(1);
            false
        });
        rows.end_row();
        rows.finish(&mut out);
        assert_eq!(
            out,
            b"\0\0\0\x02\0\0\0\x01\0\0\0\x01\0\x01k\0\x01t\0\x01c\0\x09\0\0\0\x02\0\0\0\x04\0\0\0\x07\xff\xff\xff\xff"
        );
    }

    #[test]
    fn changed_metadata_are_announced() {
        let (specs, encoded) = metadata(1);
        for state in [None, Some(&b"state"[..])] {
            let mut out = Vec::new();
            let mut writer = RowsWriter::begin(&mut out, &encoded, false, state);
            writer.cell(&mut out, Some(b"v"));
            writer.end_row();
            writer.finish(&mut out);
            announce_metadata(&mut out, b"new");
            assert!(out.windows(5).any(|part| part == b"\0\x03new"));
            let rows = Rows::decode(&mut Reader::new(&out[4..])).unwrap();
            assert_eq!((rows.columns, rows.row_count, rows.paging_state), (specs.clone(), 1, state));
        }
    }

    proptest! {
        #[test]
        fn pages_round_trip(columns in 1..5usize, cells in proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), 0..40),
                            skip: bool, state in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..30)), late: bool) {
            let (specs, encoded) = metadata(columns);
            let mut out = b"before".to_vec();
            let early = state.as_deref().filter(|_| !late);
            let mut writer = RowsWriter::begin(&mut out, &encoded, skip, early);
            let expect: Vec<_> = cells.chunks_exact(columns).collect();
            for row in &expect {
                for cell in row.iter() {
                    writer.cell(&mut out, cell.as_deref());
                }
                writer.end_row();
            }
            match &state {
                Some(state) if late => writer.finish_page(&mut out, &encoded, skip, state),
                _ => {
                    writer.finish(&mut out);
                }
            }
            let rows = Rows::decode(&mut Reader::new(&out[10..])).unwrap();
            prop_assert_eq!(rows.paging_state, state.as_deref());
            prop_assert_eq!(rows.row_count, expect.len());
            let expect_specs = if skip { &[][..] } else { &specs[..] };
            prop_assert_eq!(&rows.columns[..], expect_specs);
            let got: Vec<Vec<_>> = rows.iter().map(|row| row.unwrap().cells().map(|c| c.map(<[u8]>::to_vec)).collect()).collect();
            prop_assert_eq!(got, expect);
        }
    }
}
