//! RESULT Prepared: the statement's id, what values it wants, which of them are the partition key, and what columns
//! its rows will have.

use super::metadata::{ColumnSpec, EncodedMetadata, HAS_MORE_PAGES, NO_METADATA, decode_specs};
use super::result_kind;
use crate::frame::Version;
use crate::wire::{self, DecodeError, Reader};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared<'a> {
    pub id: &'a [u8],
    pub values: Vec<ColumnSpec>,
    /// For each component of the partition key the value that gives it; empty when values do not give them all.
    pub partition_key: Vec<u16>,
    /// Empty for statements that give no rows.
    pub columns: Vec<ColumnSpec>,
}

/// What of RESULT Prepared depends on what the client and the server agreed on.
#[derive(Clone, Copy, Debug, Default)]
pub struct PreparedForm<'a> {
    pub version: Version,
    /// Names the result's columns; sent from v5 on.
    pub metadata_id: &'a [u8],
    /// Further flags of the values' metadata: Scylla's mark of a conditional statement.
    pub mark: i32,
}

/// Body of RESULT Prepared of v4. `columns` is empty for statements that give no rows.
pub fn encode_prepared(
    out: &mut Vec<u8>,
    id: &[u8],
    values: &EncodedMetadata,
    partition_key: &[u16],
    columns: &EncodedMetadata,
) {
    encode_prepared_as(out, &PreparedForm::default(), id, values, partition_key, columns);
}

/// As [`encode_prepared`], in another form.
pub fn encode_prepared_as(
    out: &mut Vec<u8>,
    form: &PreparedForm<'_>,
    id: &[u8],
    values: &EncodedMetadata,
    partition_key: &[u16],
    columns: &EncodedMetadata,
) {
    wire::put_i32(out, result_kind::PREPARED);
    wire::put_short_bytes(out, id);
    if form.version >= Version::V5 {
        wire::put_short_bytes(out, form.metadata_id);
    }
    wire::put_i32(out, values.flags() | form.mark);
    wire::put_i32(out, values.column_count() as i32);
    if form.version >= Version::V4 {
        wire::put_i32(out, partition_key.len() as i32);
        for &index in partition_key {
            wire::put_u16(out, index);
        }
    }
    out.extend_from_slice(values.specs());
    // Cassandra marks "no rows" with NO_METADATA and no columns.
    columns.encode(out, columns.column_count() == 0, None);
}

impl<'a> Prepared<'a> {
    pub(super) fn decode(reader: &mut Reader<'a>) -> Result<Prepared<'a>, DecodeError> {
        let id = reader.short_bytes("statement id")?;
        let flags = reader.i32("flags")?;
        // A column takes at least a name's length and a type.
        let count = reader.count(4, "count of values")?;
        let key_count = reader.count(2, "count of partition key values")?;
        let partition_key = (0..key_count).map(|_| reader.u16("partition key index")).collect::<Result<_, _>>()?;
        let values = decode_specs(reader, flags, count)?;

        let flags = reader.i32("flags")?;
        let count = reader.i32("count of columns")?;
        if flags & HAS_MORE_PAGES != 0 {
            reader.bytes("paging state")?;
        }
        let columns = if flags & NO_METADATA != 0 {
            Vec::new()
        } else {
            if count < 0 || count as usize > reader.rest().len() / 4 {
                return Err(DecodeError::Invalid(format!("The count of columns is {count}")));
            }
            decode_specs(reader, flags, count as usize)?
        };
        Ok(Prepared { id, values, partition_key, columns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::CqlType;

    #[test]
    fn round_trips() {
        let columns = [ColumnSpec::new("k", "t", "a", CqlType::Int), ColumnSpec::new("k", "t", "b", CqlType::Text)];
        for (values, rows) in [(&columns[..], &columns[..1]), (&columns[1..], &[]), (&[], &[])] {
            let mut out = Vec::new();
            encode_prepared(&mut out, b"id", &EncodedMetadata::new(values), &[0], &EncodedMetadata::new(rows));
            let mut reader = Reader::new(&out);
            assert_eq!(reader.i32("kind"), Ok(result_kind::PREPARED));
            let prepared = Prepared::decode(&mut reader).unwrap();
            assert!(reader.is_empty());
            assert_eq!(
                prepared,
                Prepared { id: b"id", values: values.to_vec(), partition_key: vec![0], columns: rows.to_vec() }
            );
        }
    }
}
