//! Files of an SSTable as they are written and read: direct, in units, each unit with its checksum.
//!
//! A unit is a block of 4 KiB, a larger one where a foreign file's checksums are for larger ones, or a chunk of
//! compressed data. It is the unit of caching too. Whatever comes from the disk is checked before it is used.

use std::rc::Rc;
use std::sync::Arc;

use reactor::fs::File;
use reactor::{Buf, OpenFlags};

use super::compression::{Compression, CompressionInfo};
use crate::cache::{BLOCK, BlockCache, BlockKind};
use crate::{Bytes, Error};

/// Bytes that are gathered before they are written.
const SPILL: usize = 512 << 10;

/// Room for the first of them: most files are smaller than a spill, and memory is cleared before it is first used.
const FIRST: usize = 64 << 10;

/// Writes a file from its beginning to its end.
pub(super) struct Sink {
    file: File,
    path: String,
    buf: Buf,
    /// Of the file, a multiple of the block.
    written: u64,
    whole: crc32fast::Hasher,
    blocks: Vec<u32>,
    chunks: Option<Chunks>,
    sealed: bool,
}

/// The chunk that is being filled, and those before it.
struct Chunks {
    chunk: Vec<u8>,
    stored: Vec<u8>,
    info: CompressionInfo,
}

/// What a sealed file is known by.
pub(super) struct Sunk {
    /// On disk.
    pub len: u64,
    /// Of all that is on disk.
    pub crc: u32,
    /// Of each block on disk.
    pub block_crcs: Vec<u32>,
    pub compression: Option<CompressionInfo>,
}

impl Sink {
    pub async fn create(path: String, compression: Option<Compression>) -> Result<Self, Error> {
        Self::of_about(path, compression, FIRST).await
    }

    /// For a file of about so many bytes.
    async fn of_about(path: String, compression: Option<Compression>, bytes: usize) -> Result<Self, Error> {
        let flags = OpenFlags { write: true, create: true, truncate: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.map_err(Error::io(&path, "create"))?;
        Ok(Self {
            file,
            path,
            buf: Buf::direct(bytes.min(SPILL) + BLOCK),
            written: 0,
            whole: crc32fast::Hasher::new(),
            blocks: Vec::new(),
            chunks: compression.map(|compression| Chunks {
                chunk: Vec::with_capacity(compression.chunk_len as usize),
                stored: Vec::new(),
                info: CompressionInfo::new(compression),
            }),
            sealed: false,
        })
    }

    /// Bytes pushed so far.
    pub fn position(&self) -> u64 {
        match &self.chunks {
            Some(chunks) => chunks.info.data_len + chunks.chunk.len() as u64,
            None => self.stored_len(),
        }
    }

    /// Bytes that they take on disk, as far as they are compressed.
    pub fn stored_len(&self) -> u64 {
        self.written + self.buf.len() as u64
    }

    #[inline]
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.chunks.is_some() {
            return self.push_chunks(bytes);
        }
        self.buf.extend_from_slice(bytes);
        Ok(())
    }

    fn push_chunks(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        let Some(chunks) = &mut self.chunks else { return Ok(()) };
        let chunk_len = chunks.info.chunk_len as usize;
        while bytes.len() >= chunk_len - chunks.chunk.len() {
            let (now, later) = bytes.split_at(chunk_len - chunks.chunk.len());
            chunks.chunk.extend_from_slice(now);
            bytes = later;
            chunks.close(self.written, &mut self.buf).map_err(Error::io(&self.path, "compress"))?;
        }
        chunks.chunk.extend_from_slice(bytes);
        Ok(())
    }

    /// Whether [`Sink::spill`] would write.
    pub fn is_full(&self) -> bool {
        self.buf.len() >= SPILL
    }

    /// Writes what is there, when it is much.
    pub async fn spill(&mut self) -> Result<(), Error> {
        if !self.is_full() {
            return Ok(());
        }
        let whole_blocks = self.buf.len() / BLOCK * BLOCK;
        let mut rest = Buf::direct(SPILL + BLOCK);
        rest.extend_from_slice(&self.buf[whole_blocks..]);
        self.buf.truncate(whole_blocks);
        self.write().await?;
        self.buf = rest;
        Ok(())
    }

    /// Takes what is in the buffer into the checksums.
    fn checksum(&mut self) {
        self.whole.update(&self.buf);
        if self.chunks.is_none() {
            self.blocks.extend(self.buf.chunks(BLOCK).map(crc32fast::hash));
        }
    }

    async fn write(&mut self) -> Result<(), Error> {
        if !self.sealed {
            self.checksum();
        }
        let mut buf = std::mem::take(&mut self.buf);
        let len = buf.len();
        buf.resize(len.next_multiple_of(BLOCK), 0);
        let (result, _) = self.file.write_all_at(self.written, buf).await;
        result.map_err(Error::io(&self.path, "write"))?;
        self.written += len as u64;
        Ok(())
    }

    /// What the file will be known by; nothing more may be pushed.
    pub fn seal(&mut self) -> Result<Sunk, Error> {
        if let Some(chunks) = &mut self.chunks
            && !chunks.chunk.is_empty()
        {
            chunks.close(self.written, &mut self.buf).map_err(Error::io(&self.path, "compress"))?;
        }
        self.checksum();
        self.sealed = true;
        Ok(Sunk {
            len: self.stored_len(),
            crc: std::mem::take(&mut self.whole).finalize(),
            block_crcs: std::mem::take(&mut self.blocks),
            compression: self.chunks.take().map(|chunks| chunks.info),
        })
    }

    /// Writes the rest of a sealed file, cuts the padding off and makes it durable.
    pub async fn finish(mut self) -> Result<(), Error> {
        if !self.buf.is_empty() {
            self.write().await?;
        }
        if !self.written.is_multiple_of(BLOCK as u64) {
            self.file.truncate(self.written).await.map_err(Error::io(&self.path, "truncate"))?;
        }
        self.file.datasync().await.map_err(Error::io(&self.path, "sync"))
    }
}

impl Chunks {
    /// Compresses the chunk into `buf`, which begins at `written` of the file.
    fn close(&mut self, written: u64, buf: &mut Buf) -> std::io::Result<()> {
        self.info.offsets.push(written + buf.len() as u64);
        self.info.data_len += self.chunk.len() as u64;
        reactor::charge(reactor::Work::Compress, self.chunk.len() as u64);
        self.stored.clear();
        self.info.compressor.compress(&self.chunk, &mut self.stored)?;
        self.chunk.clear();
        buf.extend_from_slice(&self.stored);
        buf.extend_from_slice(&crc32fast::hash(&self.stored).to_be_bytes());
        Ok(())
    }
}

/// Writes a small file durably.
pub(super) async fn write_small(path: String, bytes: &[u8]) -> Result<(), Error> {
    let mut sink = Sink::of_about(path, None, bytes.len()).await?;
    sink.push(bytes)?;
    sink.seal()?;
    sink.finish().await
}

/// How a file's bytes are stored, and what they are checked with.
pub(super) enum Layout {
    Plain {
        /// Bytes that one checksum is for: a multiple of the block.
        unit: usize,
        /// None when a foreign file came without.
        crcs: Vec<u32>,
    },
    Compressed(CompressionInfo),
}

/// Reads parts of a file through the cache.
pub(crate) struct BlockFile {
    file: File,
    pub path: String,
    /// Uncompressed.
    pub len: u64,
    pub stored_len: u64,
    layout: Layout,
    unit: usize,
    cache: Rc<BlockCache>,
    kind: BlockKind,
    name: u64,
}

/// Units as they came from the disk, checked and uncompressed.
enum Units {
    Plain(Buf),
    Chunks(Vec<Arc<[u8]>>),
}

impl BlockFile {
    pub async fn open(path: String, layout: Layout, cache: Rc<BlockCache>, kind: BlockKind) -> Result<Self, Error> {
        let flags = OpenFlags { read: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.map_err(Error::io(&path, "open"))?;
        let stored_len = file.size().await.map_err(Error::io(&path, "size"))?;
        let (len, unit) = match &layout {
            Layout::Plain { unit, crcs } => {
                if !crcs.is_empty() && crcs.len() as u64 != stored_len.div_ceil(*unit as u64) {
                    let what = format!("{} bytes, but {} checksums for {unit} bytes each", stored_len, crcs.len());
                    return Err(Error::corrupt(&path, stored_len, what));
                }
                (stored_len, *unit)
            }
            Layout::Compressed(info) => {
                if info.offsets.last().is_some_and(|last| *last + 5 > stored_len) {
                    return Err(Error::corrupt(&path, stored_len, "the last compressed chunk lies behind the end"));
                }
                (info.data_len, info.chunk_len as usize)
            }
        };
        let name = cache.name_file();
        Ok(Self { file, path, len, stored_len, layout, unit, cache, kind, name })
    }

    /// Bytes of memory besides the cache's units.
    pub fn memory_bytes(&self) -> usize {
        match &self.layout {
            Layout::Plain { crcs, .. } => crcs.len() * 4,
            Layout::Compressed(info) => info.offsets.len() * 8,
        }
    }

    /// From `position` to the end of its unit.
    pub fn to_unit_end(&self, position: u64) -> usize {
        self.unit - (position % self.unit as u64) as usize
    }

    /// Whether the cache has all of `len` bytes from `offset`, as far as the file goes.
    pub fn is_cached(&self, offset: u64, len: usize) -> bool {
        let (unit, end) = (self.unit as u64, offset.saturating_add(len as u64).min(self.len));
        offset >= end || (offset / unit..end.div_ceil(unit)).all(|at| self.cache.contains(self.kind, self.name, at))
    }

    /// `len` bytes from `offset`, fewer at the end of the file.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        self.read_through(offset, len, true).await
    }

    /// As [`BlockFile::read`]; what has to be read is put into the cache only to `keep` it.
    pub async fn read_through(&self, offset: u64, len: usize, keep: bool) -> Result<Bytes, Error> {
        let end = offset.saturating_add(len as u64).min(self.len);
        if offset >= end {
            return Ok(Bytes::default());
        }
        let (first, last) = (offset / self.unit as u64, (end - 1) / self.unit as u64);
        if first == last {
            let unit = match self.cache.get(self.kind, self.name, first) {
                Some(cached) => cached,
                None => {
                    let unit = self.read_units(first, 1).await?.take(0, self.unit);
                    if keep {
                        self.cache.insert(self.kind, self.name, first, unit.clone());
                    }
                    unit
                }
            };
            let start = (offset % self.unit as u64) as usize;
            return Ok(Bytes::from_shared(&unit, start..start + (end - offset) as usize));
        }
        let mut out = Vec::with_capacity((end - offset) as usize);
        let mut unit = first;
        while unit <= last {
            if let Some(cached) = self.cache.get(self.kind, self.name, unit) {
                self.take(unit, &cached, offset, end, &mut out);
                unit += 1;
                continue;
            }
            let mut missing = 1;
            while unit + missing <= last && !self.cache.contains(self.kind, self.name, unit + missing) {
                missing += 1;
            }
            let units = self.read_units(unit, missing).await?;
            for at in 0..missing {
                let bytes = units.take(at as usize, self.unit);
                self.take(unit + at, &bytes, offset, end, &mut out);
                if keep {
                    self.cache.insert(self.kind, self.name, unit + at, bytes);
                }
            }
            unit += missing;
        }
        Ok(out.into())
    }

    /// The part of `unit` that lies in `offset..end`.
    fn take(&self, unit: u64, bytes: &[u8], offset: u64, end: u64, out: &mut Vec<u8>) {
        let start = unit * self.unit as u64;
        let from = offset.saturating_sub(start) as usize;
        let to = (end - start).min(bytes.len() as u64) as usize;
        out.extend_from_slice(&bytes[from..to]);
    }

    /// As [`BlockFile::read`], past the cache: for reading all of a file once.
    pub async fn read_past_cache(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        let end = offset.saturating_add(len as u64).min(self.len);
        if offset >= end {
            return Ok(Bytes::default());
        }
        let (first, last) = (offset / self.unit as u64, (end - 1) / self.unit as u64);
        match self.read_units(first, last - first + 1).await? {
            Units::Plain(buf) => {
                let start = (offset - first * self.unit as u64) as usize;
                Ok(Bytes::copy_from(&buf[start..start + (end - offset) as usize]))
            }
            Units::Chunks(chunks) => {
                let mut out = Vec::with_capacity((end - offset) as usize);
                for (chunk, at) in chunks.iter().zip(first..) {
                    self.take(at, chunk, offset, end, &mut out);
                }
                Ok(out.into())
            }
        }
    }

    /// Whole units from the disk, in one read, checked; the file's last one as long as it is.
    async fn read_units(&self, first: u64, count: u64) -> Result<Units, Error> {
        match &self.layout {
            Layout::Plain { unit, crcs } => {
                let offset = first * *unit as u64;
                let buf = self.read_stored(offset, (self.len - offset).min(count * *unit as u64)).await?;
                if !crcs.is_empty() {
                    for (bytes, at) in buf.chunks(*unit).zip(first..) {
                        if crc32fast::hash(bytes) != crcs[at as usize] {
                            return Err(Error::corrupt(&self.path, at * *unit as u64, "a block fails its checksum"));
                        }
                    }
                }
                Ok(Units::Plain(buf))
            }
            Layout::Compressed(info) => {
                let (from, to) =
                    (info.place(first, self.stored_len).0, info.place(first + count - 1, self.stored_len).1);
                // What is stored of a chunk is at most a little longer than the chunk: a hostile list of chunks must
                // not make it read a whole file at once.
                if to - from > count * (u64::from(info.chunk_len) * 2 + 1024) {
                    return Err(Error::corrupt(&self.path, from, "a compressed chunk is longer than it can be"));
                }
                let align = self.file.read_align() as u64;
                let aligned = from / align * align;
                let buf = self.read_stored(aligned, to - aligned).await?;
                let mut chunks = Vec::with_capacity(count as usize);
                for chunk in first..first + count {
                    let (start, end) = info.place(chunk, self.stored_len);
                    let stored = &buf[(start - aligned) as usize..(end - aligned) as usize];
                    reactor::charge(reactor::Work::Decompress, u64::from(info.chunk_len));
                    let opened = info.open(chunk, stored);
                    chunks.push(opened.map_err(|what| Error::corrupt(&self.path, start, what))?);
                }
                Ok(Units::Chunks(chunks))
            }
        }
    }

    /// `len` bytes from `offset`, which is aligned.
    async fn read_stored(&self, offset: u64, len: u64) -> Result<Buf, Error> {
        let len = len as usize;
        let whole = len.next_multiple_of(self.file.read_align());
        let (result, mut buf) = self.file.read_at(offset, whole, Buf::direct(whole)).await;
        result.map_err(Error::io(&self.path, "read"))?;
        if buf.len() < len {
            return Err(Error::corrupt(&self.path, offset + buf.len() as u64, "the file ends early"));
        }
        buf.truncate(len);
        Ok(buf)
    }
}

impl Units {
    fn take(&self, at: usize, unit: usize) -> Arc<[u8]> {
        match self {
            Self::Plain(buf) => Arc::from(&buf[at * unit..((at + 1) * unit).min(buf.len())]),
            Self::Chunks(chunks) => chunks[at].clone(),
        }
    }
}

impl Drop for BlockFile {
    fn drop(&mut self) {
        self.cache.forget(self.kind, self.name, self.len.div_ceil(self.unit as u64));
    }
}
