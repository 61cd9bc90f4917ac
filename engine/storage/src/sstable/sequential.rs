//! An SSTable from its beginning to its end: all partitions, or the keys alone.

use std::rc::Rc;

use reactor::Work;
use types::Token;

use super::Place;
use super::cursor::{DataCursor, PartitionCursor};
use super::file::BlockFile;
use super::index::{Promoted, read_entry_head};
use super::plain::PlainRows;
use super::reader::Sstable;
use super::unfiltered;
use super::writer::Writer;
#[cfg(test)]
use crate::Partition;
use crate::cache::BLOCK;
use crate::data::codec::Reader;
use crate::memtable::Part;
use crate::{Bytes, Error};

/// Rows of a copied partition that are held at once.
const COPIED_ROWS: usize = 256;

/// All partitions in order, past the cache: for compaction.
///
/// Either whole, by [`Sequential::next`], or first the key, by [`Sequential::next_key`], then its parts.
pub(crate) struct Sequential {
    cursor: PartitionCursor,
    /// Within the partition that the cursor has the key of.
    inside: bool,
    /// Of that key.
    last: Option<Token>,
}

impl Sequential {
    #[cfg(test)]
    pub fn new(sstable: Rc<Sstable>) -> Self {
        Self::from(sstable, 0)
    }

    fn from(sstable: Rc<Sstable>, start: u64) -> Self {
        let data = DataCursor::new(sstable, start, None, true);
        let cursor = PartitionCursor::over(data, Bytes::default(), None, Work::Compaction);
        Self { cursor, inside: false, last: None }
    }

    /// At the first partition that the SSTable still has.
    pub async fn remaining(sstable: Rc<Sstable>) -> Result<Self, Error> {
        let start = match sstable.standing.from {
            None => 0,
            Some(_) => {
                let cursor = IndexCursor::seek(sstable.clone(), Token::MIN, None).await?;
                cursor.head().map_or(sstable.data.len, |head| head.position)
            }
        };
        Ok(Self::from(sstable, start))
    }

    /// Place in the data.
    pub fn position(&self) -> u64 {
        self.cursor.data.position()
    }

    /// Goes on to the next partition; what is left of the last one is read and dropped.
    pub async fn next_key(&mut self) -> Result<Option<(Token, Bytes)>, Error> {
        while self.inside {
            self.next_part(usize::MAX).await?;
        }
        let data = &mut self.cursor.data;
        if data.at_end() {
            return Ok(None);
        }
        let (start, window_start) = (data.at, data.window_start);
        let key = data.next(|_, reader, whole| Ok(whole.part(unfiltered::read_partition_head(reader)?.0))).await?;
        // Back to the partition's beginning; the window may have moved there meanwhile.
        data.at = if data.window_start == window_start { start } else { 0 };
        let token = Token::of_key(&key);
        if self.last.is_some_and(|last| (last, self.cursor.key()) >= (token, &*key)) {
            return Err(self.cursor.data.corrupt("partitions out of order"));
        }
        self.last = Some(token);
        self.cursor.enter_partition(key.clone());
        self.inside = true;
        Ok(Some((token, key)))
    }

    /// Writes the partition that [`Sequential::next_key`] has told as it is, some rows at a time.
    pub async fn copy_partition(&mut self, token: Token, key: &Bytes, writer: &mut Writer) -> Result<(), Error> {
        let mut begun = false;
        while let Some(part) = self.next_part(COPIED_ROWS).await? {
            let partition = part.partition;
            if !begun {
                writer.begin(token, key, partition.deletion, partition.static_row.as_ref()).await?;
                begun = true;
            }
            writer.part(&partition.rows, &partition.range_tombstones).await?;
            if part.more_after.is_none() {
                break;
            }
        }
        writer.end().await
    }

    /// The next rows of the partition that [`Sequential::next_key`] has told, the first time with its deletion and
    /// static row. `None` behind its end.
    pub async fn next_part(&mut self, rows_max: usize) -> Result<Option<Part>, Error> {
        if !self.inside {
            return Ok(None);
        }
        let part = self.cursor.next_part(&[], false, rows_max).await?;
        self.inside = part.more_after.is_some();
        Ok(Some(part))
    }

    /// As [`Sequential::next_part`]; plain rows that the part begins with are in `plain` instead.
    pub async fn next_plain(&mut self, rows_max: usize, plain: &mut PlainRows) -> Result<Option<Part>, Error> {
        if !self.inside {
            return Ok(None);
        }
        let part = self.cursor.next_plain(rows_max, plain).await?;
        self.inside = part.more_after.is_some();
        Ok(Some(part))
    }

    /// The partition that [`Sequential::next_key`] has told, if it is less than `rows_max` plain rows that are all in
    /// memory: most are. False, with nothing read, otherwise.
    pub fn take_plain(&mut self, rows_max: usize, plain: &mut PlainRows) -> bool {
        let taken = self.inside && self.cursor.take_plain(rows_max, plain);
        self.inside &= !taken;
        taken
    }

    /// The next partition, whole.
    #[cfg(test)]
    pub async fn next(&mut self) -> Result<Option<(Token, Partition)>, Error> {
        let Some((token, _)) = self.next_key().await? else { return Ok(None) };
        Ok(self.next_part(usize::MAX).await?.map(|part| (token, part.partition)))
    }
}

/// Walks through the entries of an index, promoted indexes jumped over.
pub(super) struct Entries {
    position: u64,
    window: Bytes,
    at: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct IndexEntry {
    pub token: Token,
    pub key: Bytes,
    pub position: u64,
    /// Of the entry, in the index file.
    pub(super) index_position: u64,
    /// Of the promoted index, in the index file; the length is 0 when there is none.
    promoted: (u64, u64),
}

impl IndexEntry {
    /// Where the partition is, when the next one begins at `next`.
    pub async fn place(&self, sstable: &Sstable, next: Option<u64>) -> Result<Place, Error> {
        let promoted = match self.promoted {
            (_, 0) => None,
            (start, len) => Some(Rc::new(Promoted::read(&sstable.index, start, len).await?)),
        };
        Ok(Place { start: self.position, end: next, promoted })
    }
}

impl Entries {
    /// From the entry at `position` on.
    pub fn from(position: u64) -> Self {
        Self { position, window: Bytes::default(), at: 0 }
    }

    pub async fn next(&mut self, index: &BlockFile) -> Result<Option<IndexEntry>, Error> {
        loop {
            let mut reader = Reader::new(self.window.get(self.at..).unwrap_or_default());
            let place = self.position + self.at as u64;
            if place >= index.len {
                return Ok(None);
            }
            let had = reader.rest.len();
            if let Some(entry) = read_entry_head(&mut reader) {
                let head_len = had - reader.rest.len();
                let promoted = (place + head_len as u64, entry.promoted_len);
                if promoted.0.checked_add(promoted.1).is_none_or(|end| end > index.len) {
                    return Err(Error::corrupt(&index.path, place, "an index entry ends behind the file"));
                }
                self.at += head_len + promoted.1 as usize;
                return Ok(Some(IndexEntry {
                    token: Token::of_key(entry.key),
                    key: Bytes::copy_from(entry.key),
                    position: entry.position,
                    index_position: place,
                    promoted,
                }));
            }
            if place + had as u64 >= index.len {
                return Err(Error::corrupt(&index.path, place, "the index ends within an entry"));
            }
            // Not kept: the blocks that point reads need stay.
            let window = index.read_through(place, (had * 2).max(4 * BLOCK), false).await?;
            (self.window, self.position, self.at) = (window, place, 0);
        }
    }
}

/// The keys of an SSTable in order, from a token on.
pub(crate) struct IndexCursor {
    pub sstable: Rc<Sstable>,
    entries: Entries,
    head: Option<IndexEntry>,
}

impl IndexCursor {
    /// Before the first key behind `(token, key)`; without a key, behind the whole token, but before the
    /// ring's first one: the empty key, which views have, is there.
    pub async fn seek(sstable: Rc<Sstable>, token: Token, key: Option<&[u8]>) -> Result<Self, Error> {
        let (token, key) = match sstable.standing.from {
            Some(from) if token < from => (Token(from.0.saturating_sub(1)), None),
            _ => (token, key),
        };
        let entries = Entries::from(sstable.summary.seek(token));
        let mut cursor = Self { sstable, entries, head: None };
        loop {
            cursor.advance().await?;
            let skip = cursor.head.as_ref().is_some_and(|head| {
                let passed = || key.map_or(token != Token::MIN, |key| &*head.key <= key);
                head.token < token || (head.token == token && passed())
            });
            if !skip {
                return Ok(cursor);
            }
        }
    }

    /// The key that it stands at; `None` behind the last.
    pub fn head(&self) -> Option<&IndexEntry> {
        self.head.as_ref()
    }

    pub async fn advance(&mut self) -> Result<(), Error> {
        self.head = self.entries.next(&self.sstable.index).await?;
        Ok(())
    }
}
