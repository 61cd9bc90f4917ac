//! One write to one partition: the unit of the commit log and of messages between replicas.
//!
//! ```text
//! mutation   format u8 = 1 | table id 16 bytes | schema version | partition
//! ```

use types::{TableDef, TableId, vint};

use super::codec::Reader;
use super::{Bytes, Malformed, Partition};

const FORMAT: u8 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutation {
    pub table: TableId,
    /// `TableDef::version` of the definition that the column indices come from.
    pub schema_version: u64,
    pub partition: Partition,
}

impl Mutation {
    /// The encoded mutation of a partition of `table`, as its definition is now.
    pub fn bytes(table: &TableDef, partition: Partition) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        Mutation { table: table.id, schema_version: table.version, partition }.encode(&mut bytes);
        bytes
    }

    /// Appends the bytes that [`Mutation::decode`] reads: those that `Storage::apply` takes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        out.extend_from_slice(&self.table.to_bytes());
        vint::write_unsigned(self.schema_version, out);
        self.partition.encode(out);
    }

    pub fn decode(bytes: &[u8]) -> Result<Mutation, Malformed> {
        let head = MutationHead::read(bytes)?;
        let partition = Partition::decode_shared(&Bytes::copy_from(head.partition))?;
        Ok(Mutation { table: head.table, schema_version: head.schema_version, partition })
    }

    /// The table and the partition key of encoded bytes, without decoding the rest.
    pub fn peek(bytes: &[u8]) -> Result<(TableId, &[u8]), Malformed> {
        let head = MutationHead::read(bytes)?;
        Ok((head.table, Reader::new(head.partition).head()?.key))
    }
}

/// What stands before the partition.
#[derive(Clone, Copy)]
pub(crate) struct MutationHead<'a> {
    pub table: TableId,
    pub schema_version: u64,
    /// The encoded partition.
    pub partition: &'a [u8],
}

impl<'a> MutationHead<'a> {
    #[inline]
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        if reader.u8("mutation")? != FORMAT {
            return Err(Malformed { what: "mutation: unknown format" });
        }
        let table = TableId(u128::from_be_bytes(reader.array("table id")?));
        let schema_version = reader.vint("schema version")?;
        Ok(Self { table, schema_version, partition: reader.rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_peek() {
        let mutation = Mutation { table: TableId(7), schema_version: 300, partition: Partition::new(b"key") };
        let mut bytes = Vec::new();
        mutation.encode(&mut bytes);
        assert_eq!(Mutation::decode(&bytes), Ok(mutation));
        assert_eq!(Mutation::peek(&bytes), Ok((TableId(7), &b"key"[..])));
        bytes[0] = 9;
        assert!(Mutation::decode(&bytes).is_err());
    }
}
