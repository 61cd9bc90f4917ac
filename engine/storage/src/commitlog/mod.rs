//! The commit log of one shard: what memtables would lose at a crash.
//!
//! Records are appended to an aligned buffer in memory. One writer task writes full chunks, and on a sync whatever
//! there is, with direct I/O into segments that were zeroed or used before, so that a sync has no file metadata to
//! write. In batch mode all appends that wait share the next sync; in group mode they wait for one a window; in periodic
//! mode nobody waits.
//!
//! 1. Chunks are written one after the other, and a segment is synced before the next is begun: what a crash leaves
//!    is a beginning of what was appended.
//! 2. A position that [`CommitLog::synced`] has given back is durable, with everything before it.
//! 3. After a failed write or sync nothing is acknowledged any more.
//! 4. A segment goes (or is used again, renamed first) only when no unflushed memtable needs it.

mod format;
mod replay;
mod segment;
mod writer;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use reactor::sync::Notify;
use reactor::{Buf, JoinHandle, Work};

use self::format::{BLOCK, CHUNK_HEADER, RECORD_HEADER};
use crate::{CommitlogStats, Config, Error, SyncMode};

pub(crate) use replay::{remove_all, replay, segments};

/// Chunks are sealed beyond this size: one write each, large enough for a disk's full bandwidth.
const CHUNK_BYTES: usize = 128 << 10;

/// While the writer is busy they grow up to this size: the slower the disk answers, the more goes with each write.
const CHUNK_BYTES_MAX: usize = 1 << 20;

/// Sealed chunks that wait for the disk; beyond it writers wait. 32 MiB: what comes in at 100 MB/s while a disk answers
/// nothing for a third of a second, as those of virtual machines do now and then.
const PENDING_MAX: usize = 32 << 20;

/// Where a record stands. Ordered by age.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub segment: u64,
    pub offset: u32,
}

pub(crate) struct CommitLog {
    dir: String,
    shard: u32,
    sync: SyncMode,
    segment_bytes: u32,
    record_max: usize,
    skip_sync: bool,
    active: RefCell<Active>,
    sealed: RefCell<VecDeque<Chunk>>,
    sealed_bytes: Cell<usize>,
    /// Chunk buffers to use again.
    spare: RefCell<Vec<Buf>>,
    /// Behind the newest record.
    appended: Cell<Position>,
    /// Everything before it is durable.
    synced: Cell<Position>,
    waiters: RefCell<VecDeque<(Position, Waker)>>,
    /// Wakes the writer.
    work: Notify,
    /// Told of each change of what there is room for.
    room: Notify,
    /// When the oldest append that is not durable was made; 0 when all are.
    unsynced_since_ns: Cell<u64>,
    lagging: Cell<bool>,
    sync_wanted: Cell<bool>,
    closing: Cell<bool>,
    failure: RefCell<Option<String>>,
    /// Who has found a disk full, and the file that did not fit.
    full: RefCell<BTreeMap<&'static str, String>>,
    segments: RefCell<segment::Segments>,
    stats: RefCell<CommitlogStats>,
    writer: RefCell<Option<JoinHandle<()>>>,
}

/// The chunk that appends go to.
struct Active {
    segment: u64,
    /// Where the chunk begins.
    offset: u32,
    /// Begins with room for the chunk's header.
    buf: Buf,
}

struct Chunk {
    segment: u64,
    offset: u32,
    buf: Buf,
    /// Behind its last record.
    end: Position,
}

impl CommitLog {
    /// Begins a new segment behind those that a replay found (`old`, by age).
    pub fn start(config: &Config, old: Vec<u64>) -> Result<Rc<CommitLog>, Error> {
        let segment_bytes = config.commitlog_segment_bytes.next_multiple_of(BLOCK as u64);
        if segment_bytes < 2 * BLOCK as u64 || segment_bytes > u64::from(u32::MAX / 2) {
            return Err(Error::Config(format!("commit log segments of {segment_bytes} bytes")));
        }
        let first = old.last().map_or(1, |last| last + 1);
        let log = Rc::new(CommitLog {
            dir: config.commitlog_dir.clone(),
            shard: config.shard,
            sync: config.sync,
            segment_bytes: segment_bytes as u32,
            record_max: (segment_bytes / 2) as usize - CHUNK_HEADER - RECORD_HEADER,
            skip_sync: config.fault_skip_commitlog_sync,
            active: RefCell::new(Active { segment: first, offset: 0, buf: chunk_buf() }),
            sealed: RefCell::default(),
            sealed_bytes: Cell::new(0),
            spare: RefCell::default(),
            appended: Cell::new(Position { segment: first, offset: 0 }),
            synced: Cell::new(Position { segment: first, offset: 0 }),
            waiters: RefCell::default(),
            work: Notify::new(),
            room: Notify::new(),
            unsynced_since_ns: Cell::new(0),
            lagging: Cell::new(false),
            sync_wanted: Cell::new(false),
            closing: Cell::new(false),
            failure: RefCell::new(None),
            full: RefCell::default(),
            segments: RefCell::new(segment::Segments::new(old)),
            stats: RefCell::default(),
            writer: RefCell::new(None),
        });
        *log.writer.borrow_mut() = Some(writer::spawn(log.clone()));
        Ok(log)
    }

    /// Behind the newest record.
    pub fn position(&self) -> Position {
        self.appended.get()
    }

    /// Bytes that may be appended before writers have to wait for the disk.
    #[inline]
    pub fn room(&self) -> u64 {
        if self.lagging.get() { 0 } else { PENDING_MAX.saturating_sub(self.sealed_bytes.get()) as u64 }
    }

    /// Resolves when there is more room, or it is of no use to wait for it.
    pub fn room_changed(&self) -> impl Future<Output = ()> {
        self.room.notified()
    }

    /// Ends a [`CommitLog::room_changed`].
    pub fn wake_waiting(&self) {
        self.room.notify_all();
    }

    /// Tells how many records a replay applied and skipped.
    pub fn replayed(&self, applied: u64, skipped: u64) {
        let stats = &mut *self.stats.borrow_mut();
        (stats.replayed_records, stats.skipped_records) = (applied, skipped);
    }

    /// An error once anything has failed, and while a disk is full.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(cause) = &*self.failure.borrow() {
            return Err(Error::Stopped(cause.clone()));
        }
        match self.full.borrow().values().next() {
            Some(path) => Err(Error::NoSpace { path: path.clone() }),
            None => Ok(()),
        }
    }

    /// A disk has no room for `path`: writes are refused from now on, those that wait among them. Whether these
    /// will have happened is open, as with a time-out.
    pub fn set_full(&self, who: &'static str, path: &str) {
        if self.full.borrow_mut().insert(who, path.to_string()).is_none() {
            tracing::error!(path, "no space is left: writes are refused until there is; free or add some");
        }
        for (_, waker) in self.waiters.take() {
            waker.wake();
        }
        self.room.notify_all();
    }

    pub fn clear_full(&self, who: &'static str) {
        if self.full.borrow_mut().remove(who).is_some() {
            tracing::info!("there is space again: writes go on");
        }
    }

    /// Adds a record to the buffer. Gives the position behind it.
    pub fn append(&self, payload: &[u8]) -> Result<Position, Error> {
        if payload.len() > self.record_max {
            return Err(Error::TooLarge { bytes: payload.len(), limit: self.record_max });
        }
        reactor::charge(Work::CommitlogAppend, payload.len() as u64);
        let needed = RECORD_HEADER + payload.len();
        let active = &mut *self.active.borrow_mut();
        let most = if self.sealed_bytes.get() == 0 { CHUNK_BYTES } else { CHUNK_BYTES_MAX };
        if active.buf.len() > CHUNK_HEADER && active.buf.len() + needed > most {
            self.seal(active);
        }
        let chunk_end = (active.buf.len() + needed).next_multiple_of(BLOCK);
        if active.offset as usize + chunk_end > self.segment_bytes as usize {
            if active.buf.len() > CHUNK_HEADER {
                self.seal(active);
            }
            active.segment += 1;
            active.offset = 0;
        }
        let first = active.buf.len() == CHUNK_HEADER;
        let position = Position { segment: active.segment, offset: active.offset + active.buf.len() as u32 };
        active.buf.reserve(needed);
        active.buf.extend_from_slice(&format::record_crc(position, payload).to_be_bytes());
        active.buf.extend_from_slice(&(payload.len() as u32).to_be_bytes());
        active.buf.extend_from_slice(payload);
        if first {
            if self.unsynced_since_ns.get() == 0 {
                self.unsynced_since_ns.set(reactor::now().max(1));
            }
            self.work.notify_all();
        }
        let stats = &mut *self.stats.borrow_mut();
        stats.appended_records += 1;
        stats.appended_bytes += payload.len() as u64;
        let end = Position { offset: position.offset + needed as u32, ..position };
        self.appended.set(end);
        Ok(end)
    }

    /// Closes the active chunk and hands it to the writer.
    fn seal(&self, active: &mut Active) {
        let mut fresh = self.spare.borrow_mut().pop().unwrap_or_else(chunk_buf);
        fresh.resize(CHUNK_HEADER, 0);
        let mut buf = std::mem::replace(&mut active.buf, fresh);
        let used = buf.len() as u32;
        buf.resize(buf.len().next_multiple_of(BLOCK), 0);
        let end = Position { segment: active.segment, offset: active.offset + used };
        let offset = active.offset;
        active.offset += buf.len() as u32;
        self.sealed_bytes.set(self.sealed_bytes.get() + buf.len());
        self.sealed.borrow_mut().push_back(Chunk { segment: active.segment, offset, buf, end });
        if let SyncMode::Periodic { every } = self.sync {
            let since = self.unsynced_since_ns.get();
            let allowed = every.as_nanos() as u64 * 3 / 2;
            if since != 0 && reactor::now().saturating_sub(since) > allowed {
                self.lagging.set(true);
            }
        }
        self.work.notify_all();
    }

    fn has_active_records(&self) -> bool {
        self.active.borrow().buf.len() > CHUNK_HEADER
    }

    /// Resolves once everything before `position` is durable.
    pub async fn synced(&self, position: Position) -> Result<(), Error> {
        poll_fn(|cx| {
            if self.synced.get() >= position {
                return Poll::Ready(Ok(()));
            }
            if let Err(error) = self.check() {
                return Poll::Ready(Err(error));
            }
            // Positions come in order, save for futures polled twice; the writer asks each.
            self.waiters.borrow_mut().push_back((position, cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Makes everything appended so far durable now, whatever the mode.
    pub async fn sync_now(&self) -> Result<(), Error> {
        self.check()?;
        let position = self.position();
        if self.synced.get() >= position {
            return Ok(());
        }
        self.sync_wanted.set(true);
        self.work.notify_all();
        self.synced(position).await
    }

    /// No memtable needs records of segments before `segment` any more.
    pub fn release_before(&self, segment: u64) {
        self.segments.borrow_mut().release_before(segment);
        self.work.notify_all();
    }

    /// Bytes of the segments that are still needed.
    pub fn live_bytes(&self) -> u64 {
        self.segments.borrow().live() as u64 * u64::from(self.segment_bytes)
    }

    pub fn stats(&self) -> CommitlogStats {
        let segments = self.segments.borrow();
        CommitlogStats {
            live_segments: segments.live() as u64,
            free_segments: segments.free() as u64,
            ..*self.stats.borrow()
        }
    }

    /// Syncs what there is and ends the writer.
    pub async fn close(&self) -> Result<(), Error> {
        self.closing.set(true);
        self.work.notify_all();
        let writer = self.writer.borrow_mut().take();
        if let Some(writer) = writer {
            writer.await;
        }
        self.check()
    }

    /// Stops everything that would acknowledge: something was lost or could not be kept.
    pub fn fail(&self, error: &Error) {
        self.failure.borrow_mut().get_or_insert_with(|| error.to_string());
        for (_, waker) in self.waiters.take() {
            waker.wake();
        }
        self.room.notify_all();
    }
}

fn chunk_buf() -> Buf {
    let mut buf = Buf::direct(CHUNK_BYTES);
    buf.resize(CHUNK_HEADER, 0);
    buf
}
