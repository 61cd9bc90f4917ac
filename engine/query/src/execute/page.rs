//! The paging state: where the next page begins, in bytes that only we read.

use storage::{Bytes, Clustering};

use crate::coordinator::ScanPosition;
use crate::error::QueryError;

/// Behind this row, with so many rows left to give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub position: ScanPosition,
    /// Of LIMIT.
    pub remaining: u64,
    /// Of PER PARTITION LIMIT, in the partition of the position.
    pub remaining_in_partition: u64,
}

const FORMAT: u8 = 1;

impl Page {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend_from_slice(&self.remaining.to_be_bytes());
        out.extend_from_slice(&self.remaining_in_partition.to_be_bytes());
        out.extend_from_slice(&(self.position.key.len() as u32).to_be_bytes());
        out.extend_from_slice(&self.position.key);
        if let Some(clustering) = &self.position.clustering {
            out.push(1);
            out.extend_from_slice(clustering.as_bytes());
        }
        out
    }

    pub fn decode(bytes: &[u8]) -> Result<Self, QueryError> {
        Self::read(bytes).ok_or_else(|| QueryError::protocol("Invalid value for the paging state"))
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&[FORMAT])?;
        let (remaining, rest) = rest.split_first_chunk::<8>()?;
        let (in_partition, rest) = rest.split_first_chunk::<8>()?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_at_checked(u32::from_be_bytes(*len) as usize)?;
        let clustering = match rest.split_first() {
            None => None,
            Some((1, bytes)) => Some(Clustering::from_bytes(bytes).ok()?),
            Some(_) => return None,
        };
        Some(Self {
            position: ScanPosition { key: Bytes::from(key), clustering },
            remaining: u64::from_be_bytes(*remaining),
            remaining_in_partition: u64::from_be_bytes(*in_partition),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back_and_others_are_refused() {
        for clustering in [None, Some(Clustering::empty()), Some(Clustering::new([b"a".as_slice(), b""]))] {
            let position = ScanPosition { key: Bytes::from(b"key"), clustering };
            let page = Page { position, remaining: 5, remaining_in_partition: u64::MAX };
            let bytes = page.encode();
            assert_eq!(Page::decode(&bytes).unwrap(), page);
            assert!(Page::decode(&bytes[..20]).is_err());
        }
        assert!(Page::decode(b"").is_err());
        assert!(Page::decode(b"nonsense from another server").is_err());
    }
}
