//! The one task that writes and syncs the commit log.

use std::rc::Rc;
use std::time::Duration;

use reactor::fs::{self, File};
use reactor::{Buf, Group, JoinHandle, OpenFlags};

use super::format::{self, ChunkHeader};
use super::{CHUNK_BYTES, CHUNK_HEADER, CommitLog, Position};
use crate::{Error, SyncMode};

/// Zeros are written in pieces of this size.
const ZEROING: usize = 1 << 20;

/// While a disk is full.
const LOOK_FOR_SPACE_EVERY: Duration = Duration::from_secs(1);

pub(super) fn spawn(log: Rc<CommitLog>) -> JoinHandle<()> {
    reactor::spawn(Group::CommitLog, "commitlog-writer", async move {
        let mut writer = Writer {
            file: None,
            segment: 0,
            path: String::new(),
            synced: true,
            written: Position::default(),
            durable: Position::default(),
            next: None,
        };
        if let Err(error) = writer.run(&log).await {
            tracing::error!(%error, "the commit log has stopped");
            log.fail(&error);
        }
    })
}

struct Writer {
    file: Option<File>,
    segment: u64,
    path: String,
    /// Whether everything written to `file` is durable.
    synced: bool,
    /// Behind the last chunk that was written, and that was synced.
    written: Position,
    durable: Position,
    /// The next segment, being made ready.
    next: Option<(u64, JoinHandle<Result<(File, String), Error>>)>,
}

impl Writer {
    async fn run(&mut self, log: &Rc<CommitLog>) -> Result<(), Error> {
        loop {
            let closing = log.closing.get();
            let due = self.sync_due(log) || closing;
            if due && log.has_active_records() {
                log.seal(&mut log.active.borrow_mut());
            }
            let mut upto = None;
            // Only what is there now, so that a sync is not put off for ever by what keeps coming.
            let sealed = log.sealed.borrow().len();
            for _ in 0..sealed {
                let chunk = log.sealed.borrow_mut().pop_front();
                let Some(chunk) = chunk else { break };
                upto = Some(chunk.end);
                self.write(log, chunk).await?;
            }
            if due && let Some(end) = upto.or_else(|| (!self.synced).then(|| log.position())) {
                // Everything sealed before has been written; what came in meanwhile waits for the next turn.
                self.sync(log).await?;
                self.publish(log, end);
            }
            self.remove_surplus(log).await?;
            if closing && !log.has_active_records() && log.sealed.borrow().is_empty() {
                if let Some((_, next)) = self.next.take()
                    && let Err(error) = next.await
                    && error.no_space().is_none()
                {
                    return Err(error);
                }
                return Ok(());
            }
            if !self.has_work(log) {
                self.wait(log).await;
            }
        }
    }

    fn has_work(&self, log: &CommitLog) -> bool {
        !log.sealed.borrow().is_empty() || self.sync_due(log) || log.closing.get()
    }

    fn sync_due(&self, log: &CommitLog) -> bool {
        let unsynced = log.unsynced_since_ns.get();
        if unsynced == 0 {
            return false;
        }
        match log.sync {
            SyncMode::Batch => true,
            SyncMode::Group { window } => {
                log.sync_wanted.get() || reactor::now().saturating_sub(unsynced) >= window.as_nanos() as u64
            }
            SyncMode::Periodic { every } => {
                log.sync_wanted.get() || reactor::now().saturating_sub(unsynced) >= every.as_nanos() as u64
            }
        }
    }

    async fn wait(&self, log: &CommitLog) {
        let unsynced = log.unsynced_since_ns.get();
        match log.sync {
            SyncMode::Periodic { every } | SyncMode::Group { window: every } if unsynced != 0 => {
                let deadline = unsynced.saturating_add(every.as_nanos() as u64);
                let left = Duration::from_nanos(deadline.saturating_sub(reactor::now()));
                // Early or in time, the loop looks again.
                let _ = reactor::time::timeout(left, log.work.notified()).await;
            }
            _ => log.work.notified().await,
        }
    }

    async fn write(&mut self, log: &Rc<CommitLog>, mut chunk: super::Chunk) -> Result<(), Error> {
        if self.file.is_none() || self.segment != chunk.segment {
            self.begin(log, chunk.segment).await?;
        }
        let Some(file) = &self.file else { return Ok(()) };
        let len = chunk.buf.len();
        let at = Position { segment: chunk.segment, offset: chunk.offset };
        let header = ChunkHeader { at, used: chunk.end.offset - chunk.offset, durable: self.durable };
        chunk.buf[..CHUNK_HEADER].copy_from_slice(&header.encode());
        self.synced = false;
        let mut bytes = chunk.buf;
        let mut buf = loop {
            let (result, back) = file.write_all_at(u64::from(chunk.offset), bytes).await;
            match result.map_err(Error::io(&self.path, "write")) {
                Ok(()) => break back,
                Err(error) => wait_for_space(log, error).await?,
            }
            bytes = back;
        };
        log.clear_full("commit log");
        self.written = Position { segment: chunk.segment, offset: chunk.offset + len as u32 };
        log.stats.borrow_mut().written_bytes += len as u64;
        log.sealed_bytes.set(log.sealed_bytes.get() - len);
        log.room.notify_all();
        // Larger ones come from records beyond the usual and would pin their memory.
        if buf.capacity() <= CHUNK_BYTES + format::BLOCK && log.spare.borrow().len() < 8 {
            buf.clear();
            buf.resize(CHUNK_HEADER, 0);
            log.spare.borrow_mut().push(buf);
        }
        Ok(())
    }

    async fn begin(&mut self, log: &Rc<CommitLog>, segment: u64) -> Result<(), Error> {
        self.sync(log).await?;
        let mut ready = match self.next.take() {
            Some((id, ready)) if id == segment => ready.await,
            Some((_, other)) => {
                // Cannot happen: ids follow one another. Its file is found and replayed as empty at the next start.
                other.await?;
                prepare(log.clone(), segment).await
            }
            None => prepare(log.clone(), segment).await,
        };
        let ready = loop {
            match ready {
                Ok(ready) => break ready,
                Err(error) => wait_for_space(log, error).await?,
            }
            self.remove_surplus(log).await?;
            ready = prepare(log.clone(), segment).await;
        };
        log.clear_full("commit log");
        (self.file, self.path) = (Some(ready.0), ready.1);
        self.segment = segment;
        log.segments.borrow_mut().begun(segment);
        let next = prepare(log.clone(), segment + 1);
        self.next = Some((segment + 1, reactor::spawn(Group::CommitLog, "commitlog-segment", next)));
        Ok(())
    }

    async fn sync(&mut self, log: &CommitLog) -> Result<(), Error> {
        if self.synced {
            return Ok(());
        }
        if let Some(file) = &self.file
            && !log.skip_sync
        {
            file.datasync().await.map_err(Error::io(&self.path, "sync"))?;
            self.durable = self.written;
        }
        log.stats.borrow_mut().syncs += 1;
        self.synced = true;
        Ok(())
    }

    /// Everything before `end` is durable: tells those who wait.
    fn publish(&self, log: &CommitLog, end: Position) {
        log.synced.set(end.max(log.synced.get()));
        let idle = !log.has_active_records() && log.sealed.borrow().is_empty();
        log.unsynced_since_ns.set(if idle { 0 } else { reactor::now().max(1) });
        if idle {
            log.sync_wanted.set(false);
        }
        if log.lagging.replace(false) {
            log.room.notify_all();
        }
        // Waiters stand in the order of their positions; a stray one behind a later one is found at the next sync.
        loop {
            let waiter = {
                let mut waiters = log.waiters.borrow_mut();
                match waiters.front() {
                    Some((position, _)) if *position <= log.synced.get() => waiters.pop_front(),
                    _ => None,
                }
            };
            let Some((_, waker)) = waiter else { return };
            waker.wake();
        }
    }

    async fn remove_surplus(&self, log: &CommitLog) -> Result<(), Error> {
        let surplus = log.segments.borrow_mut().take_surplus();
        for segment in surplus {
            let path = format!("{}/{}", log.dir, format::file_name(log.shard, segment));
            fs::remove(&path).await.map_err(Error::io(&path, "remove"))?;
        }
        Ok(())
    }
}

/// Refuses writes and waits a while, when what failed is that there is no room; else gives the error back.
async fn wait_for_space(log: &CommitLog, error: Error) -> Result<(), Error> {
    match error.no_space() {
        Some(path) if !log.closing.get() => log.set_full("commit log", path),
        _ => return Err(error),
    }
    // Closing wakes it early, and then the next failure is the last.
    let _ = reactor::time::timeout(LOOK_FOR_SPACE_EVERY, log.work.notified()).await;
    Ok(())
}

/// A file for `segment` whose blocks are all written: a released one renamed, or a new one of zeros.
async fn prepare(log: Rc<CommitLog>, segment: u64) -> Result<(File, String), Error> {
    let path = format!("{}/{}", log.dir, format::file_name(log.shard, segment));
    let flags = OpenFlags { write: true, create: true, direct: true, ..Default::default() };
    let free = log.segments.borrow_mut().take_free();
    if let Some(free) = free {
        let old = format!("{}/{}", log.dir, format::file_name(log.shard, free));
        fs::rename(&old, &path).await.map_err(Error::io(&old, "rename"))?;
        fs::sync_dir(&log.dir).await.map_err(Error::io(&log.dir, "sync folder"))?;
        let file = File::open(&path, flags).await.map_err(Error::io(&path, "open"))?;
        return Ok((file, path));
    }
    let file = File::open(&path, flags).await.map_err(Error::io(&path, "create"))?;
    let mut zeros = Buf::direct(ZEROING.min(log.segment_bytes as usize));
    zeros.resize(ZEROING.min(log.segment_bytes as usize), 0);
    let mut offset = 0;
    while offset < u64::from(log.segment_bytes) {
        zeros.truncate((u64::from(log.segment_bytes) - offset).min(ZEROING as u64) as usize);
        let (result, back) = file.write_all_at(offset, zeros).await;
        result.map_err(Error::io(&path, "write zeros"))?;
        zeros = back;
        offset += zeros.len() as u64;
    }
    file.datasync().await.map_err(Error::io(&path, "sync"))?;
    fs::sync_dir(&log.dir).await.map_err(Error::io(&log.dir, "sync folder"))?;
    Ok((file, path))
}
