//! Files of an SSTable as they are written and read: direct, in blocks, each block with its checksum.

use std::rc::Rc;
use std::sync::Arc;

use reactor::fs::File;
use reactor::{Buf, OpenFlags};

use crate::cache::{BLOCK, BlockCache};
use crate::{Bytes, Error};

/// Bytes that are gathered before they are written.
const SPILL: usize = 512 << 10;

/// Writes a file from its beginning to its end.
pub(super) struct Sink {
    file: File,
    path: String,
    buf: Buf,
    /// Of the file, a multiple of the block.
    written: u64,
    whole: crc32fast::Hasher,
    blocks: Vec<u32>,
}

/// What a finished file is known by.
pub(super) struct Sunk {
    pub len: u64,
    pub crc: u32,
    pub block_crcs: Vec<u32>,
}

impl Sink {
    pub async fn create(path: String) -> Result<Self, Error> {
        let flags = OpenFlags { write: true, create: true, truncate: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.map_err(Error::io(&path, "create"))?;
        Ok(Self {
            file,
            path,
            buf: Buf::direct(SPILL + BLOCK),
            written: 0,
            whole: crc32fast::Hasher::new(),
            blocks: Vec::new(),
        })
    }

    pub fn position(&self) -> u64 {
        self.written + self.buf.len() as u64
    }

    pub fn push(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Writes what is there, when it is much.
    pub async fn spill(&mut self) -> Result<(), Error> {
        if self.buf.len() < SPILL {
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

    async fn write(&mut self) -> Result<(), Error> {
        let mut buf = std::mem::take(&mut self.buf);
        self.whole.update(&buf);
        self.blocks.extend(buf.chunks(BLOCK).map(crc32fast::hash));
        let len = buf.len();
        buf.resize(len.next_multiple_of(BLOCK), 0);
        let (result, _) = self.file.write_all_at(self.written, buf).await;
        result.map_err(Error::io(&self.path, "write"))?;
        self.written += len as u64;
        Ok(())
    }

    /// Writes the rest, cuts the padding off and makes the file durable.
    pub async fn finish(mut self) -> Result<Sunk, Error> {
        if !self.buf.is_empty() {
            self.write().await?;
        }
        if !self.written.is_multiple_of(BLOCK as u64) {
            self.file.truncate(self.written).await.map_err(Error::io(&self.path, "truncate"))?;
        }
        self.file.datasync().await.map_err(Error::io(&self.path, "sync"))?;
        Ok(Sunk { len: self.written, crc: self.whole.finalize(), block_crcs: self.blocks })
    }
}

/// Writes a small file durably.
pub(super) async fn write_small(path: String, bytes: &[u8]) -> Result<(), Error> {
    let mut sink = Sink::create(path).await?;
    sink.push(bytes);
    sink.finish().await.map(drop)
}

/// Reads parts of a file through the cache.
pub(crate) struct BlockFile {
    file: File,
    pub path: String,
    pub len: u64,
    /// Of each block; none when a foreign file came without.
    crcs: Vec<u32>,
    cache: Rc<BlockCache>,
    name: u64,
}

impl BlockFile {
    pub async fn open(path: String, crcs: Vec<u32>, cache: Rc<BlockCache>) -> Result<Self, Error> {
        let flags = OpenFlags { read: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.map_err(Error::io(&path, "open"))?;
        let len = file.size().await.map_err(Error::io(&path, "size"))?;
        if !crcs.is_empty() && crcs.len() as u64 != len.div_ceil(BLOCK as u64) {
            return Err(Error::corrupt(&path, len, format!("{} bytes, but {} block checksums", len, crcs.len())));
        }
        let name = cache.name_file();
        Ok(Self { file, path, len, crcs, cache, name })
    }

    /// `len` bytes from `offset`, fewer at the end of the file.
    pub async fn read(&self, offset: u64, len: usize) -> Result<Bytes, Error> {
        let end = offset.saturating_add(len as u64).min(self.len);
        if offset >= end {
            return Ok(Bytes::default());
        }
        let (first, last) = (offset / BLOCK as u64, (end - 1) / BLOCK as u64);
        if first == last
            && let Some(block) = self.cache.get(self.name, first)
        {
            let start = (offset % BLOCK as u64) as usize;
            return Ok(Bytes::from_shared(&block, start..start + (end - offset) as usize));
        }
        let mut out = Vec::with_capacity((end - offset) as usize);
        let mut block = first;
        while block <= last {
            if let Some(cached) = self.cache.get(self.name, block) {
                self.take(block, &cached, offset, end, &mut out);
                block += 1;
                continue;
            }
            let mut missing = 1;
            while block + missing <= last && !self.cache.contains(self.name, block + missing) {
                missing += 1;
            }
            let buf = self.read_blocks(block, missing).await?;
            for (at, bytes) in buf.chunks(BLOCK).enumerate() {
                let bytes: Arc<[u8]> = Arc::from(bytes);
                self.cache.insert(self.name, block + at as u64, bytes.clone());
                if first == last {
                    let start = (offset % BLOCK as u64) as usize;
                    return Ok(Bytes::from_shared(&bytes, start..start + (end - offset) as usize));
                }
                self.take(block + at as u64, &bytes, offset, end, &mut out);
            }
            block += missing;
        }
        Ok(out.into())
    }

    /// The part of `block` that lies in `offset..end`.
    fn take(&self, block: u64, bytes: &[u8], offset: u64, end: u64, out: &mut Vec<u8>) {
        let start = block * BLOCK as u64;
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
        let first = offset / BLOCK as u64;
        let buf = self.read_blocks(first, (end - 1) / BLOCK as u64 - first + 1).await?;
        let start = (offset % BLOCK as u64) as usize;
        Ok(Bytes::copy_from(&buf[start..start + (end - offset) as usize]))
    }

    /// Whole blocks from the disk, checked; the file's last one as long as it is.
    async fn read_blocks(&self, first: u64, count: u64) -> Result<Buf, Error> {
        let offset = first * BLOCK as u64;
        let wanted = (self.len - offset).min(count * BLOCK as u64) as usize;
        let buf = Buf::direct(wanted);
        let (result, mut buf) = self.file.read_at(offset, wanted.next_multiple_of(BLOCK), buf).await;
        result.map_err(Error::io(&self.path, "read"))?;
        if buf.len() < wanted {
            return Err(Error::corrupt(&self.path, offset + buf.len() as u64, "the file ends early"));
        }
        buf.truncate(wanted);
        if !self.crcs.is_empty() {
            for (bytes, block) in buf.chunks(BLOCK).zip(first..) {
                if crc32fast::hash(bytes) != self.crcs[block as usize] {
                    return Err(Error::corrupt(&self.path, block * BLOCK as u64, "a block fails its checksum"));
                }
            }
        }
        Ok(buf)
    }
}

impl Drop for BlockFile {
    fn drop(&mut self) {
        self.cache.forget(self.name, self.len.div_ceil(BLOCK as u64));
    }
}
