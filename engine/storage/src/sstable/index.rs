//! Entries of `Index.db`: a key, its place in the data and, for a wide partition, an index of its own.
//!
//! That promoted index has an entry for each block of about `column_index_size` bytes of rows: the first and the last
//! position in it, where it lies, and the range tombstone that is open at its end. It is looked up on disk by binary
//! search: only the entries compared are read, so that the index of a partition of any size costs little memory.
//!
//! As `RowIndexEntry`, `IndexInfo` and `ColumnIndex` of Apache Cassandra for formats before `oa`.

use types::{CqlType, TableDef, vint};

use super::file::BlockFile;
use super::unfiltered::{
    self, Marker, Parse, read_clustering, read_deletion_time, write_clustering, write_deletion_time,
};
use crate::data::codec::Reader;
use crate::data::{Position, compare_positions};
use crate::{Bound, Bytes, Clustering, DeletionTime, Error};

/// What widths are written relative to (`IndexInfo.Serializer.WIDTH_BASE`).
const WIDTH_BASE: i64 = 64 << 10;
/// `ClusteringPrefix.Kind.CLUSTERING`.
const ROW: u8 = 4;
/// A promoted index up to this size is read at once and kept while the partition is read.
const HELD_MAX: u64 = 16 << 10;

/// Where a row or a marker stands, with the kind that Cassandra gives it.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    kind: u8,
    prefix: Clustering,
}

impl Edge {
    pub fn of_row(clustering: &Clustering) -> Self {
        Self { kind: ROW, prefix: clustering.clone() }
    }

    pub fn of_marker(marker: &Marker) -> Self {
        let (kind, prefix) = marker.kind_and_prefix();
        Self { kind, prefix: prefix.clone() }
    }

    pub fn position(&self) -> Position<'_> {
        let side = match self.kind {
            ROW => 0,
            kind => unfiltered::side_of(kind),
        };
        Position { prefix: self.prefix.as_bytes(), side }
    }

    /// The rows behind it begin here.
    pub fn as_start(&self) -> Bound {
        Bound { prefix: self.prefix.clone(), inclusive: self.position().side < 0 }
    }

    /// It is the last thing before this end.
    pub fn as_end(&self) -> Bound {
        Bound { prefix: self.prefix.clone(), inclusive: self.position().side >= 0 }
    }

    fn write(&self, types: &[CqlType], out: &mut Vec<u8>) {
        out.push(self.kind);
        if self.kind != ROW {
            out.extend_from_slice(&(self.prefix.len() as u16).to_be_bytes());
        }
        write_clustering(types, &self.prefix, out);
    }

    fn read(types: &[CqlType], reader: &mut Reader<'_>) -> Result<Self, Parse> {
        let kind = reader.u8("kind")?;
        let count = match kind {
            ROW => types.len(),
            0..=2 | 5..=7 => usize::from(u16::from_be_bytes(reader.array("components")?)),
            _ => return Err(Parse::Malformed("a position of an unknown kind in the index")),
        };
        Ok(Self { kind, prefix: read_clustering(types, count, reader)? })
    }
}

/// One block of a wide partition.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub first: Edge,
    pub last: Edge,
    /// From the partition's beginning.
    pub offset: u64,
    pub width: u64,
    /// Of the range tombstone that goes on behind the block.
    pub open: Option<DeletionTime>,
}

/// Gathers the promoted index while a partition is written.
pub(super) struct Builder {
    block_bytes: u64,
    header_len: u64,
    blocks: Vec<u8>,
    offsets: Vec<u32>,
    /// The block being filled: where it began, and with what.
    current: Option<(u64, Edge)>,
    last: Option<Edge>,
    end: u64,
    open: Option<DeletionTime>,
}

impl Builder {
    pub fn new(block_bytes: u64) -> Self {
        Self {
            block_bytes,
            header_len: 0,
            blocks: Vec::new(),
            offsets: Vec::new(),
            current: None,
            last: None,
            end: 0,
            open: None,
        }
    }

    pub fn set_block_bytes(&mut self, bytes: u64) {
        self.block_bytes = bytes;
    }

    /// A partition whose rows begin `header_len` behind its beginning.
    pub fn begin(&mut self, header_len: u64) {
        self.header_len = header_len;
        self.blocks.clear();
        self.offsets.clear();
        (self.current, self.last, self.open) = (None, None, None);
    }

    /// A row or marker that was written at `start..end` of the partition.
    pub fn add(&mut self, name: Edge, start: u64, end: u64, types: &[CqlType]) {
        let block_start = match &self.current {
            Some((at, _)) => *at,
            None => {
                self.current = Some((start, name.clone()));
                start
            }
        };
        self.last = Some(name);
        self.end = end;
        if end - block_start >= self.block_bytes {
            self.close(types);
        }
    }

    /// The deletion of the range tombstone that is open from here on.
    pub fn set_open(&mut self, open: Option<DeletionTime>) {
        self.open = open;
    }

    fn close(&mut self, types: &[CqlType]) {
        let (Some((start, first)), Some(last)) = (self.current.take(), &self.last) else { return };
        self.offsets.push(self.blocks.len() as u32);
        let out = &mut self.blocks;
        first.write(types, out);
        last.write(types, out);
        vint::write_unsigned(start, out);
        vint::write_signed((self.end - start) as i64 - WIDTH_BASE, out);
        out.push(u8::from(self.open.is_some()));
        if self.open.is_some() {
            write_deletion_time(self.open, out);
        }
    }

    /// The promoted index as it stands behind the partition's position, its length first. One block needs none.
    pub fn finish(&mut self, deletion: Option<DeletionTime>, types: &[CqlType], out: &mut Vec<u8>) {
        if !self.offsets.is_empty() {
            self.close(types);
        }
        if self.offsets.len() < 2 {
            vint::write_unsigned(0, out);
            return;
        }
        let mut head = Vec::new();
        vint::write_unsigned(self.header_len, &mut head);
        write_deletion_time(deletion, &mut head);
        vint::write_unsigned(self.offsets.len() as u64, &mut head);
        vint::write_unsigned((head.len() + self.blocks.len() + 4 * self.offsets.len()) as u64, out);
        out.extend_from_slice(&head);
        out.extend_from_slice(&self.blocks);
        self.offsets.iter().for_each(|offset| out.extend_from_slice(&offset.to_be_bytes()));
    }
}

/// The beginning of an entry: what is behind it, `promoted_len` bytes, is read when it is needed.
pub(super) struct EntryHead<'a> {
    pub key: &'a [u8],
    pub position: u64,
    pub promoted_len: u64,
}

/// `None` when the bytes end before the entry's head does.
pub(super) fn read_entry_head<'a>(reader: &mut Reader<'a>) -> Option<EntryHead<'a>> {
    let len = u16::from_be_bytes(reader.array("").ok()?);
    let key = reader.bytes(usize::from(len), "").ok()?;
    Some(EntryHead { key, position: reader.vint("").ok()?, promoted_len: reader.vint("").ok()? })
}

/// A wide partition's own index, in the file.
#[derive(Debug)]
pub(super) struct Promoted {
    pub header_len: u64,
    pub deletion: Option<DeletionTime>,
    pub count: u32,
    /// Of the first block's entry, and of the list of their offsets, in the index file.
    blocks_at: u64,
    offsets_at: u64,
    end: u64,
    /// All of it, when it is small.
    held: Option<Bytes>,
}

impl Promoted {
    /// Of the entry whose promoted index lies at `start`, `len` bytes long.
    pub async fn read(index: &BlockFile, start: u64, len: u64) -> Result<Self, Error> {
        let end = start.checked_add(len).filter(|end| *end <= index.len);
        let end = end.ok_or_else(|| Error::corrupt(&index.path, start, "an index entry ends behind the file"))?;
        let whole = len <= HELD_MAX;
        let bytes = index.read(start, if whole { len as usize } else { 64 }).await?;
        let mut reader = Reader::new(&bytes);
        let mut head = || -> Result<_, Parse> {
            let header_len = reader.vint("header length")?;
            Ok((header_len, read_deletion_time(&mut reader)?, reader.vint("blocks")?))
        };
        let malformed = || Error::corrupt(&index.path, start, "a malformed index of a partition");
        let (header_len, deletion, count) = head().map_err(|_| malformed())?;
        let blocks_at = start + (bytes.len() - reader.rest.len()) as u64;
        let offsets_at = count.checked_mul(4).and_then(|list| end.checked_sub(list)).filter(|at| *at >= blocks_at);
        let offsets_at = offsets_at.filter(|_| count > 0).ok_or_else(malformed)?;
        let held = if whole { Some(bytes.slice((blocks_at - start) as usize..bytes.len())) } else { None };
        Ok(Self { header_len, deletion, count: count as u32, blocks_at, offsets_at, end, held })
    }

    async fn bytes(&self, index: &BlockFile, from: u64, to: u64) -> Result<Bytes, Error> {
        let to = to.min(self.end);
        match &self.held {
            Some(held) if from <= to => {
                Ok(held.slice((from - self.blocks_at) as usize..(to - self.blocks_at) as usize))
            }
            _ => index.read(from, to.saturating_sub(from) as usize).await,
        }
    }

    pub async fn block(&self, index: &BlockFile, at: u32, types: &[CqlType]) -> Result<Block, Error> {
        let malformed = || Error::corrupt(&index.path, self.offsets_at, "a malformed index of a partition");
        let list = self.offsets_at + u64::from(at) * 4;
        let offsets = self.bytes(index, list, list + 8).await?;
        let offset = |bytes: Option<&[u8]>| {
            let bytes: Option<[u8; 4]> = bytes.and_then(|bytes| bytes.try_into().ok());
            bytes.map(|bytes| self.blocks_at + u64::from(u32::from_be_bytes(bytes)))
        };
        let from = offset(offsets.get(..4)).ok_or_else(malformed)?;
        let to = if at + 1 < self.count { offset(offsets.get(4..8)).ok_or_else(malformed)? } else { self.offsets_at };
        if from > to || to > self.offsets_at {
            return Err(malformed());
        }
        let bytes = self.bytes(index, from, to).await?;
        let mut reader = Reader::new(&bytes);
        let mut read = || -> Result<Block, Parse> {
            let (first, last) = (Edge::read(types, &mut reader)?, Edge::read(types, &mut reader)?);
            let offset = reader.vint("offset")?;
            let width = vint::read_signed(&mut reader.rest).and_then(|width| width.checked_add(WIDTH_BASE));
            let width = width.and_then(|width| u64::try_from(width).ok()).ok_or(Parse::Malformed("width"))?;
            let open = match reader.u8("open marker")? {
                0 => None,
                _ => read_deletion_time(&mut reader)?,
            };
            Ok(Block { first, last, offset, width, open })
        };
        let block = read().map_err(|_| malformed())?;
        if block.offset.checked_add(block.width).is_none() { Err(malformed()) } else { Ok(block) }
    }

    /// The first block that does not end before `position`; `count` when all do.
    pub async fn find(
        &self,
        index: &BlockFile,
        position: Position<'_>,
        types: &[CqlType],
        table: &TableDef,
    ) -> Result<u32, Error> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let block = self.block(index, middle, types).await?;
            if compare_positions(table, block.last.position(), position).is_lt() {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }
}
