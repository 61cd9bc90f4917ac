//! The summary: a sample of the keys with their places in `Index.db`, kept in memory.
//!
//! Every 128th key at least, as Cassandra reads no further; and more where partitions are large: one byte of summary
//! for 2,000 bytes of data, as Scylla's `sstable_summary_ratio` of 0.0005, so that the part of the index between two
//! samples is read at once.
//!
//! As `IndexSummary.IndexSummarySerializer` of Apache Cassandra: a header, offsets and entries with the lowest byte
//! first, then the first and the last key.

use types::Token;

use crate::data::codec::Reader;

/// Cassandra's default `min_index_interval`.
const INTERVAL: u64 = 128;
/// Bytes of data for a byte of summary.
const DATA_PER_BYTE: u64 = 2000;
/// Of a sample beside its key: the position and the key's length.
const HEAD_BYTES: u64 = 10;
/// `Downsampling.BASE_SAMPLING_LEVEL`: nothing is left out.
const SAMPLING_LEVEL: u32 = 128;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Of each sampled key.
    tokens: Vec<Token>,
    /// Where the key begins and ends in `keys`.
    key_ends: Vec<u32>,
    keys: Vec<u8>,
    /// Of the key's entry in the index.
    positions: Vec<u64>,
    pub first_key: Vec<u8>,
    pub last_key: Vec<u8>,
    /// Keys since the last sample.
    skipped: u64,
    /// Where in the data the next sample is due.
    due_at: u64,
}

impl Summary {
    /// Takes every key in order; samples as it should.
    pub fn add(&mut self, token: Token, key: &[u8], index_position: u64, data_position: u64) {
        let first = self.tokens.is_empty();
        if first {
            self.first_key = key.to_vec();
        }
        self.last_key.clear();
        self.last_key.extend_from_slice(key);
        self.skipped += 1;
        if first || self.skipped >= INTERVAL || data_position >= self.due_at {
            self.push(token, key, index_position);
            self.skipped = 0;
            self.due_at = data_position + DATA_PER_BYTE * (key.len() as u64 + HEAD_BYTES);
        }
    }

    fn push(&mut self, token: Token, key: &[u8], index_position: u64) {
        self.tokens.push(token);
        self.keys.extend_from_slice(key);
        self.key_ends.push(self.keys.len() as u32);
        self.positions.push(index_position);
    }

    fn key(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.key_ends[at - 1] as usize };
        &self.keys[start..self.key_ends[at] as usize]
    }

    pub fn len_bytes(&self) -> usize {
        self.keys.len() + self.tokens.len() * 20
    }

    /// The part of the index where the key's entry is, if it has one. `None` as the end is the index's end.
    pub fn find(&self, token: Token, key: &[u8]) -> Option<(u64, Option<u64>)> {
        let at_or_before = |at: usize| (self.tokens[at], self.key(at)) <= (token, key);
        let (mut low, mut high) = (0, self.tokens.len());
        while low < high {
            let middle = (low + high) / 2;
            if at_or_before(middle) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let at = low.checked_sub(1)?;
        Some((self.positions[at], self.positions.get(at + 1).copied()))
    }

    /// Where in the index to begin for the keys behind `token`.
    pub fn seek(&self, token: Token) -> u64 {
        let at = self.tokens.partition_point(|sample| *sample <= token);
        self.positions.get(at.saturating_sub(1)).copied().unwrap_or(0)
    }

    pub fn encode(&self) -> Vec<u8> {
        let count = self.tokens.len();
        let entries = self.keys.len() + count * 8;
        let mut out = Vec::with_capacity(32 + count * 4 + entries);
        out.extend_from_slice(&(INTERVAL as u32).to_be_bytes());
        out.extend_from_slice(&(count as u32).to_be_bytes());
        out.extend_from_slice(&((count * 4 + entries) as u64).to_be_bytes());
        out.extend_from_slice(&SAMPLING_LEVEL.to_be_bytes());
        out.extend_from_slice(&(count as u32).to_be_bytes());
        let mut offset = count * 4;
        for at in 0..count {
            out.extend_from_slice(&(offset as u32).to_le_bytes());
            offset += self.key(at).len() + 8;
        }
        for at in 0..count {
            out.extend_from_slice(self.key(at));
            out.extend_from_slice(&self.positions[at].to_le_bytes());
        }
        for key in [&self.first_key, &self.last_key] {
            out.extend_from_slice(&(key.len() as u32).to_be_bytes());
            out.extend_from_slice(key);
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let _interval = reader.u32("").ok()?;
        let count = reader.u32("").ok()? as usize;
        let size = usize::try_from(u64::from_be_bytes(reader.array("").ok()?)).ok()?;
        let _sampling_level = reader.u32("").ok()?;
        let _full_size = reader.u32("").ok()?;
        let body = reader.bytes(size, "").ok()?;
        let mut summary = Self::default();
        let offset = |at: usize| -> Option<usize> {
            let bytes = body.get(at * 4..at * 4 + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?) as usize)
        };
        for at in 0..count {
            let end = if at + 1 < count { offset(at + 1)? } else { size };
            let (key, position) = body.get(offset(at)?..end)?.split_last_chunk::<8>()?;
            summary.push(Token::of_key(key), key, u64::from_le_bytes(*position));
        }
        for key in [&mut summary.first_key, &mut summary.last_key] {
            let len = reader.u32("").ok()? as usize;
            *key = reader.bytes(len, "").ok()?.to_vec();
        }
        let sorted = (1..count).all(|at| {
            (summary.tokens[at - 1], summary.key(at - 1)) < (summary.tokens[at], summary.key(at))
                && summary.positions[at - 1] < summary.positions[at]
        });
        (reader.rest.is_empty() && sorted).then_some(summary)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_part_of_the_index() {
        let mut keys: Vec<_> = (0..1000u32).map(|n| (Token::of_key(&n.to_be_bytes()), n.to_be_bytes())).collect();
        keys.sort();
        let mut summary = Summary::default();
        for (at, (token, key)) in keys.iter().enumerate() {
            summary.add(*token, key, at as u64 * 10, at as u64);
        }
        let read = Summary::decode(&summary.encode()).unwrap();
        (summary.skipped, summary.due_at) = (0, 0);
        assert_eq!(read, summary);
        for (at, (token, key)) in keys.iter().enumerate() {
            let (from, to) = read.find(*token, key).unwrap();
            let position = at as u64 * 10;
            assert!(from <= position && to.is_none_or(|to| position < to), "{at}: {from}..{to:?}");
            assert!(to.is_none_or(|to| to - from == 1280));
            assert!(read.seek(*token) <= position + 10);
        }
        // Large partitions have more samples: 28,000 bytes of data for 14 of summary.
        let mut summary = Summary::default();
        for (at, (token, key)) in keys.iter().enumerate() {
            summary.add(*token, key, at as u64 * 10, at as u64 * 7_000);
        }
        assert_eq!(summary.tokens.len(), 250);
        assert_eq!(read.find(Token(i64::MIN), b""), None);
        assert_eq!(Summary::decode(&read.encode()[1..]), None);
    }
}
