//! Files as tasks see them. Paths are plain UTF-8 strings; a path with a zero byte is an `InvalidInput` error.

use std::ffi::CString;
use std::io;
use std::rc::Rc;

use crate::io::QueueId;
use crate::slot::{submit, submit_detached, submit_queued};
use crate::{Buf, Fd, Op, OpenFlags, Shard, Work};

fn c_path(path: &str) -> io::Result<CString> {
    CString::new(path).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a path with a zero byte"))
}

/// Bytes asked for at once. The kernel moves at most 2 GiB less a page in one operation.
const CHUNK_MAX: usize = 1 << 30;

/// Closes its descriptor when the last owner goes, if a shard is there to do it.
struct Owned {
    fd: Fd,
    /// See [`File::read_align`].
    read_align: usize,
    queue: QueueId,
}

impl Drop for Owned {
    fn drop(&mut self) {
        Shard::try_with(|shard| submit_detached(shard, Op::Close { fd: self.fd, file: true }));
    }
}

/// An open file. Clones share the descriptor; it closes when the last one goes.
#[derive(Clone)]
pub struct File(Rc<Owned>);

impl File {
    pub async fn open(path: &str, flags: OpenFlags) -> io::Result<File> {
        let (result, _) = submit(Op::Open { path: c_path(path)?, flags }, None).await;
        let queue = Shard::with(|shard| shard.io().of_path(path));
        let mut file = Owned { fd: Fd(result? as u32), read_align: 1, queue };
        if flags.direct && flags.read {
            file.read_align = submit(Op::ReadAlign { fd: file.fd }, None).await.0? as usize;
        }
        Ok(File(Rc::new(file)))
    }

    /// Bytes that a read's offset and length have to be multiples of: 1, or the device's logical block when the file was
    /// opened for direct I/O.
    pub fn read_align(&self) -> usize {
        self.0.read_align
    }

    /// Appends up to `len` bytes from `offset` to the buffer; fewer only at the end of the file.
    pub async fn read_at(&self, offset: u64, len: usize, mut buf: Buf) -> (io::Result<usize>, Buf) {
        buf.reserve(len);
        let mut done = 0;
        while done < len {
            crate::charge(Work::DiskSubmit, (len - done) as u64);
            let chunk = (len - done).min(CHUNK_MAX) as u32;
            let op = Op::Read { fd: self.0.fd, offset: offset + done as u64, len: chunk };
            let (result, returned) = submit_queued(self.0.queue, op, buf).await;
            buf = returned.unwrap_or_default();
            match result {
                Ok(0) => break,
                Ok(n) => done += n as usize,
                Err(error) => return (Err(error), buf),
            }
            if done % self.0.read_align != 0 {
                break; // the end of the file: a direct read ends unaligned nowhere else, and could not go on
            }
        }
        (Ok(done), buf)
    }

    /// Writes all of the buffer at `offset`. Not durable before [`File::datasync`].
    pub async fn write_all_at(&self, offset: u64, mut buf: Buf) -> (io::Result<()>, Buf) {
        if u32::try_from(buf.len()).is_err() {
            return (Err(io::Error::new(io::ErrorKind::InvalidInput, "a write of 4 GiB or more")), buf);
        }
        let mut done = 0;
        while done < buf.len() {
            crate::charge(Work::DiskSubmit, (buf.len() - done) as u64);
            let op = Op::Write { fd: self.0.fd, offset: offset + done as u64, skip: done as u32 };
            let (result, returned) = submit_queued(self.0.queue, op, buf).await;
            buf = returned.unwrap_or_default();
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buf),
                Ok(n) => done += n as usize,
                Err(error) => return (Err(error), buf),
            }
        }
        (Ok(()), buf)
    }

    /// Makes everything written durable, with the file's size.
    pub async fn datasync(&self) -> io::Result<()> {
        crate::charge(Work::DiskSync, 0);
        submit(Op::Fdatasync { fd: self.0.fd }, None).await.0.map(drop)
    }

    /// Reserves disk space without changing the size.
    pub async fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        submit(Op::Fallocate { fd: self.0.fd, offset, len }, None).await.0.map(drop)
    }

    pub async fn truncate(&self, len: u64) -> io::Result<()> {
        submit(Op::Truncate { fd: self.0.fd, len }, None).await.0.map(drop)
    }

    pub async fn size(&self) -> io::Result<u64> {
        submit(Op::Size { fd: self.0.fd }, None).await.0
    }
}

/// Renames; durable after [`sync_dir`] of the folders.
pub async fn rename(from: &str, to: &str) -> io::Result<()> {
    submit(Op::Rename { from: c_path(from)?, to: c_path(to)? }, None).await.0.map(drop)
}

pub async fn link(from: &str, to: &str) -> io::Result<()> {
    submit(Op::Link { from: c_path(from)?, to: c_path(to)? }, None).await.0.map(drop)
}

pub async fn remove(path: &str) -> io::Result<()> {
    submit(Op::Unlink { path: c_path(path)? }, None).await.0.map(drop)
}

/// Creates one folder; succeeds when it is there already.
pub async fn create_dir(path: &str) -> io::Result<()> {
    submit(Op::CreateDir { path: c_path(path)? }, None).await.0.map(drop)
}

pub async fn remove_dir(path: &str) -> io::Result<()> {
    submit(Op::RemoveDir { path: c_path(path)? }, None).await.0.map(drop)
}

/// Names in a folder, sorted bytewise.
pub async fn read_dir(path: &str) -> io::Result<Vec<String>> {
    let (result, buf) = submit(Op::ReadDir { path: c_path(path)? }, Some(Buf::new())).await;
    result?;
    let buf = buf.unwrap_or_default();
    let names = buf.split(|&b| b == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Makes creations, renames and removals in the folder durable.
pub async fn sync_dir(path: &str) -> io::Result<()> {
    submit(Op::SyncDir { path: c_path(path)? }, None).await.0.map(drop)
}

/// The whole of a file, or `NotFound`. For small files.
pub async fn read(path: &str) -> io::Result<Vec<u8>> {
    let file = File::open(path, OpenFlags { read: true, ..Default::default() }).await?;
    let size = file.size().await? as usize;
    let (result, buf) = file.read_at(0, size, Buf::with_capacity(size)).await;
    result?;
    Ok(buf.to_vec())
}

/// Replaces a small file in one step: written beside it, synced, renamed, folder synced. After a crash it holds the
/// old bytes or the new ones.
pub async fn replace(folder: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let (path, staged) = (format!("{folder}/{name}"), format!("{folder}/{name}.tmp"));
    let flags = OpenFlags { write: true, create: true, truncate: true, ..Default::default() };
    let file = File::open(&staged, flags).await?;
    file.write_all_at(0, Buf::from(bytes)).await.0?;
    file.datasync().await?;
    rename(&staged, &path).await?;
    sync_dir(folder).await
}
