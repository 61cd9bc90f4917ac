//! Requests between nodes and their answers, as bytes. Integers are big-endian; byte strings have a u32 length.
//!
//! Every request that belongs to a partition begins with its token, so that the receiver finds the shard without
//! reading further. Decoding refuses what is malformed and never panics.

use cql::Consistency;
use storage::{Bound, Bytes, Clustering, Partition, ReadCommand, ScanCommand, Slice};
use types::{TableId, Token};

pub(crate) const MALFORMED: &str = "a malformed message";

pub(crate) fn encode_mutate(token: Token, mutation: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(8 + mutation.len());
    out.extend_from_slice(&token.0.to_be_bytes());
    out.extend_from_slice(mutation);
    out
}

/// A counter update with the level that its leader answers at.
pub(crate) fn encode_count(token: Token, consistency: Consistency, mutation: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(10 + mutation.len());
    out.extend_from_slice(&token.0.to_be_bytes());
    out.extend_from_slice(&consistency.code().to_be_bytes());
    out.extend_from_slice(mutation);
    out
}

pub(crate) fn decode_count(bytes: &[u8]) -> Result<(Token, Consistency, &[u8]), String> {
    let (token, rest) = decode_token(bytes)?;
    let (code, mutation) = rest.split_first_chunk::<2>().ok_or(MALFORMED)?;
    let consistency = Consistency::from_code(u16::from_be_bytes(*code)).map_err(|error| error.to_string())?;
    Ok((token, consistency, mutation))
}

pub(crate) fn decode_token(bytes: &[u8]) -> Result<(Token, &[u8]), String> {
    let (token, rest) = bytes.split_first_chunk::<8>().ok_or(MALFORMED)?;
    Ok((Token(i64::from_be_bytes(*token)), rest))
}

/// The version of the table that a read was planned with.
pub(crate) fn decode_version(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let (version, rest) = bytes.split_first_chunk::<8>().ok_or(MALFORMED)?;
    Ok((u64::from_be_bytes(*version), rest))
}

pub(crate) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(MALFORMED)?;
        self.0 = rest;
        Ok(*head)
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// As [`limit`] writes it.
    fn limit(&mut self) -> Result<usize, String> {
        Ok(match self.u32()? {
            u32::MAX => usize::MAX,
            count => count as usize,
        })
    }

    pub fn flag(&mut self) -> Result<bool, String> {
        Ok(self.array::<1>()? != [0])
    }

    pub fn bytes(&mut self) -> Result<&'a [u8], String> {
        let len = self.u32()? as usize;
        let (head, rest) = self.0.split_at_checked(len).ok_or(MALFORMED)?;
        self.0 = rest;
        Ok(head)
    }

    fn clustering(&mut self) -> Result<Clustering, String> {
        Clustering::from_bytes(self.bytes()?).map_err(|error| error.to_string())
    }

    fn bound(&mut self) -> Result<Bound, String> {
        let inclusive = self.flag()?;
        Ok(Bound { inclusive, prefix: self.clustering()? })
    }

    fn slices(&mut self) -> Result<Vec<Slice>, String> {
        let count = self.u32()?;
        (0..count).map(|_| Ok(Slice { start: self.bound()?, end: self.bound()? })).collect()
    }
}

pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
    out.extend_from_slice(bytes);
}

fn put_slices(slices: &[Slice], out: &mut Vec<u8>) {
    out.extend_from_slice(&(slices.len() as u32).to_be_bytes());
    for slice in slices {
        for bound in [&slice.start, &slice.end] {
            out.push(u8::from(bound.inclusive));
            put_bytes(bound.prefix.as_bytes(), out);
        }
    }
}

/// Rows and bytes fit a u32; a larger limit is none.
fn limit(count: usize) -> [u8; 4] {
    u32::try_from(count).unwrap_or(u32::MAX).to_be_bytes()
}

pub(crate) fn encode_read(token: Token, version: u64, command: &ReadCommand) -> Vec<u8> {
    let mut out = Vec::with_capacity(72 + command.key.len());
    out.extend_from_slice(&token.0.to_be_bytes());
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&command.table.to_bytes());
    out.extend_from_slice(&limit(command.limit_rows));
    out.extend_from_slice(&command.now_s.to_be_bytes());
    out.push(u8::from(command.reverse));
    out.push(u8::from(command.bypass_cache));
    out.extend_from_slice(&limit(command.limit_bytes));
    put_bytes(&command.key, &mut out);
    put_slices(&command.slices, &mut out);
    out
}

/// What follows token and version.
pub(crate) fn decode_read(bytes: &[u8]) -> Result<ReadCommand, String> {
    let mut reader = Reader(bytes);
    Ok(ReadCommand {
        table: TableId(u128::from_be_bytes(reader.array()?)),
        limit_rows: reader.limit()?,
        now_s: reader.u32()?,
        reverse: reader.flag()?,
        bypass_cache: reader.flag()?,
        limit_bytes: reader.limit()?,
        key: Bytes::copy_from(reader.bytes()?),
        slices: reader.slices()?,
    })
}

pub(crate) fn encode_scan(version: u64, command: &ScanCommand) -> Vec<u8> {
    let mut out = Vec::with_capacity(104);
    out.extend_from_slice(&version.to_be_bytes());
    out.extend_from_slice(&command.table.to_bytes());
    out.extend_from_slice(&command.tokens.0.0.to_be_bytes());
    out.extend_from_slice(&command.tokens.1.0.to_be_bytes());
    out.extend_from_slice(&limit(command.limit_rows));
    out.extend_from_slice(&limit(command.limit_bytes));
    out.extend_from_slice(&limit(command.limit_tombstones));
    out.extend_from_slice(&command.now_s.to_be_bytes());
    out.push(u8::from(command.bypass_cache));
    let (key, clustering) = match &command.after {
        None => (None, None),
        Some((key, clustering)) => (Some(key), clustering.as_ref()),
    };
    out.push(u8::from(key.is_some()));
    put_bytes(key.map_or(&[], |key| key), &mut out);
    out.push(u8::from(clustering.is_some()));
    put_bytes(clustering.map_or(&[], |clustering| clustering.as_bytes()), &mut out);
    put_slices(&command.slices, &mut out);
    out
}

/// What follows the version.
pub(crate) fn decode_scan(bytes: &[u8]) -> Result<ScanCommand, String> {
    let mut reader = Reader(bytes);
    let table = TableId(u128::from_be_bytes(reader.array()?));
    let tokens = (Token(i64::from_be_bytes(reader.array()?)), Token(i64::from_be_bytes(reader.array()?)));
    let (limit_rows, limit_bytes, limit_tombstones) = (reader.limit()?, reader.limit()?, reader.limit()?);
    let now_s = reader.u32()?;
    let bypass_cache = reader.flag()?;
    let key = (reader.flag()?, Bytes::copy_from(reader.bytes()?));
    let clustering = (reader.flag()?, reader.clustering()?);
    let after = key.0.then_some((key.1, clustering.0.then_some(clustering.1)));
    let slices = reader.slices()?;
    Ok(ScanCommand { table, tokens, after, slices, limit_rows, limit_bytes, limit_tombstones, now_s, bypass_cache })
}

/// An absent partition is no bytes at all.
pub(crate) fn encode_answer(partition: Option<&Partition>) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(partition) = partition {
        partition.encode(&mut out);
    }
    out
}

pub(crate) fn decode_answer(bytes: &[u8]) -> Result<Option<Partition>, String> {
    if bytes.is_empty() {
        return Ok(None);
    }
    Partition::decode(bytes).map(Some).map_err(|error| error.to_string())
}

pub(crate) fn encode_scanned(partitions: &[Partition], more: bool) -> Vec<u8> {
    let mut out = vec![u8::from(more)];
    let mut one = Vec::new();
    for partition in partitions {
        one.clear();
        partition.encode(&mut one);
        put_bytes(&one, &mut out);
    }
    out
}

pub(crate) fn decode_scanned(bytes: &[u8]) -> Result<(Vec<Partition>, bool), String> {
    let mut reader = Reader(bytes);
    let more = reader.flag()?;
    let mut partitions = Vec::new();
    while !reader.0.is_empty() {
        partitions.push(Partition::decode(reader.bytes()?).map_err(|error| error.to_string())?);
    }
    Ok((partitions, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_come_back() {
        let clustering = Clustering::new([b"a".as_slice(), b""]);
        let slices = vec![
            Slice::all(),
            Slice { start: Bound::exclusive(clustering.clone()), end: Bound::inclusive(Clustering::empty()) },
        ];
        let read = ReadCommand {
            table: TableId(7),
            key: Bytes::from(b"key"),
            slices: slices.clone(),
            reverse: true,
            limit_rows: 9,
            limit_bytes: usize::MAX,
            now_s: 11,
            bypass_cache: true,
        };
        let bytes = encode_read(Token(-5), 77, &read);
        let decode = |bytes| {
            let (token, rest) = decode_token(bytes)?;
            let (version, rest) = decode_version(rest)?;
            Ok::<_, String>((token, version, decode_read(rest)?))
        };
        assert_eq!(decode(&bytes).unwrap(), (Token(-5), 77, read));
        for after in [None, Some((Bytes::from(b"k"), None)), Some((Bytes::from(b""), Some(clustering)))] {
            let tokens = (Token(i64::MIN), Token(3));
            let all = ScanCommand::all(TableId(1), 2);
            let scan = ScanCommand {
                tokens,
                after,
                slices: slices.clone(),
                limit_rows: 5,
                limit_bytes: 6,
                limit_tombstones: 7,
                bypass_cache: false,
                ..all
            };
            let bytes = encode_scan(78, &scan);
            let (version, rest) = decode_version(&bytes).unwrap();
            assert_eq!((version, decode_scan(rest).unwrap()), (78, scan));
        }
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len]).is_err());
        }
    }
}
