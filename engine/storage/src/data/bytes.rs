//! A shared, immutable byte string: what keys, clusterings and values are made of.
//!
//! Slices of one allocation share it, so a partition decoded from a message or read from a memtable costs one
//! allocation at most, however many values it has. `Send`, so that answers may cross shards.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::ops::{Deref, Range};
use std::sync::Arc;

#[derive(Clone, Default)]
pub struct Bytes {
    data: Arc<[u8]>,
    start: u32,
    len: u32,
}

impl Bytes {
    pub fn copy_from(bytes: &[u8]) -> Self {
        Self { data: Arc::from(bytes), start: 0, len: bytes.len() as u32 }
    }

    /// A part of an allocation that others share.
    ///
    /// Panics when the range is outside of it.
    pub fn from_shared(data: &Arc<[u8]>, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= data.len());
        Self { data: data.clone(), start: range.start as u32, len: (range.end - range.start) as u32 }
    }

    /// A part of these bytes, sharing their allocation.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len());
        Self { data: self.data.clone(), start: self.start + range.start as u32, len: (range.end - range.start) as u32 }
    }

    /// As [`Bytes::slice`], of a slice of these bytes themselves.
    ///
    /// Panics when it is one of others.
    pub fn part(&self, part: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(self.as_ptr() as usize);
        self.slice(start..start.wrapping_add(part.len()))
    }
}

impl Deref for Bytes {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        &self.data[self.start as usize..(self.start + self.len) as usize]
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Borrow<[u8]> for Bytes {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for Bytes {
    fn from(bytes: &[u8]) -> Self {
        Self::copy_from(bytes)
    }
}

impl<const N: usize> From<&[u8; N]> for Bytes {
    fn from(bytes: &[u8; N]) -> Self {
        Self::copy_from(bytes)
    }
}

impl From<&str> for Bytes {
    fn from(text: &str) -> Self {
        Self::copy_from(text.as_bytes())
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self { len: bytes.len() as u32, data: Arc::from(bytes), start: 0 }
    }
}

impl From<Arc<[u8]>> for Bytes {
    fn from(data: Arc<[u8]>) -> Self {
        Self { len: data.len() as u32, data, start: 0 }
    }
}

impl PartialEq for Bytes {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Bytes {}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Self) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}
