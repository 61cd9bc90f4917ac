//! File operations of shards: when they begin they are given their time, when they end they take effect.

use reactor::{Buf, Fd, Op, Shard, SlotId};

use super::content::SyncPoint;
use super::device::{Device, Direction, Request};
use super::faults::{Access, Struck};
use super::gathering::{Once, PIECE_BYTES};
use super::image::{Image, PendingWrite};
use super::model::Kind;
use super::page_cache::{PAGE_BYTES, Wanted};
use super::tree::{Errno, InodeId, Tree};
use crate::host::{Crash, Descriptor, Host, State};
use crate::seat::{Seat, Waits, join};
use crate::world::World;

/// What an operation needs at its end, found when it began.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileOperation {
    /// The inode is held until the end.
    OnFile {
        inode: InodeId,
        dsync: bool,
    },
    Sync {
        inode: InodeId,
        point: SyncPoint,
    },
    SyncFolder {
        folder: InodeId,
        before: u64,
    },
    OnPath,
    /// The inode, which is held, gives its extents back, one after the other.
    Discard {
        inode: InodeId,
    },
}

/// When a device answers, as far as it is known, and what it answers with where that may be put off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub at: u64,
    pub batch: Option<Batch>,
}

/// Requests that a device answers together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batch {
    disk: u32,
    number: u64,
}

impl Answer {
    pub fn at(at: u64) -> Self {
        Self { at, batch: None }
    }

    /// To the last request of `device`, the host's disk of that number.
    fn by(device: &Device, disk: u32, at: u64) -> Self {
        Self { at, batch: device.batch().map(|number| Batch { disk, number }) }
    }
}

/// Of drives as they come formatted, NVMe and EBS among them: what direct reads have to be aligned to.
const LOGICAL_BLOCK: u64 = 512;
/// System calls that only change names or sizes in memory, handed to a kernel thread and back; assumed.
const NAME_CALL_NS: u64 = 8_000;
/// Copying into or out of the page cache, assumed 5 GB/s behind 2 us.
const CACHED_CALL_NS: u64 = 2_000;
const CACHED_BYTES_PER_NS: u64 = 5;
/// The kernel writes dirty pages back in pieces of about this size.
const WRITE_BACK_BYTES: u64 = 1 << 20;
/// A journal's transaction: one block.
const JOURNAL_BYTES: u64 = 4096;

impl World {
    /// Checks and times an operation, also as its faults will have it. An error is immediate.
    pub(crate) fn begin_file_operation(
        &self,
        host: &Host,
        slot: (u32, SlotId),
        at: u64,
        op: &Op,
        mut buf: Option<&mut Buf>,
    ) -> Result<(FileOperation, Answer), Errno> {
        let (operation, mut answer) = self.time_file_operation(host, at, op, buf.as_deref_mut())?;
        if !host.faults.borrow().is_empty() {
            answer.at += delay(host, at, op, operation);
        }
        if host.watch.borrow().is_some() && changes_disks(op) {
            if let (Op::Write { offset, skip, .. }, Some(buf), FileOperation::OnFile { inode, .. }) =
                (op, buf, operation)
            {
                let write = PendingWrite { inode, offset: *offset, bytes: buf[*skip as usize..].into() };
                host.pending_writes.borrow_mut().insert((slot.0, slot.1.to_u64()), write);
            }
            show(host);
        }
        Ok((operation, answer))
    }

    /// Whether an operation is one of those that a smaller experiment does at once: see [`super::gathering`].
    pub(crate) fn spares(&self, host: &Host, op: &Op, buf: Option<&Buf>) -> bool {
        if host.model.data_part >= 1.0 {
            return false;
        }
        let gathering = host.gathering.borrow();
        if let Some(path) = path_of(op) {
            let once = if matches!(op, Op::SyncDir { .. }) { Once::Sync } else { Once::Call };
            return gathering.spares(once) && gathers(host, path);
        }
        let Some(fd) = file_of(op) else { return false };
        let descriptor = host.descriptors.borrow().get(fd);
        let Ok(Descriptor::File { direct, dsync: false, gathers: true, .. }) = descriptor else { return false };
        match (op, buf) {
            // Of a component that is read whole.
            (Op::Read { .. }, _) => !direct && gathering.spares(Once::Call),
            (Op::Write { skip, .. }, Some(buf)) => {
                let len = (buf.len() - *skip as usize) as u64;
                let is_direct = direct && !host.model.is_buffered;
                if is_direct { gathering.keeps(len, PIECE_BYTES) } else { gathering.spares(Once::CachedWrite(len)) }
            }
            (Op::Fdatasync { .. }, _) => gathering.spares(Once::Sync),
            _ => gathering.spares(Once::Call),
        }
    }

    fn time_file_operation(
        &self,
        host: &Host,
        at: u64,
        op: &Op,
        buf: Option<&mut Buf>,
    ) -> Result<(FileOperation, Answer), Errno> {
        match op {
            Op::Read { fd, offset, len } => {
                let Descriptor::File { inode, read, direct, gathers, .. } = host.descriptors.borrow().get(*fd)? else {
                    return Err(Errno(libc::EINVAL));
                };
                let buf = buf.ok_or(Errno(libc::EFAULT))?;
                let len = u64::from(*len).min(buf.spare() as u64);
                if !read {
                    return Err(Errno(libc::EBADF));
                }
                if direct {
                    check_alignment(*offset, len, LOGICAL_BLOCK, buf, buf.len())?;
                }
                let mut tree = host.tree.borrow_mut();
                let file_len = tree.content(inode)?.size();
                let present = file_len.saturating_sub(*offset).min(len);
                tree.hold(inode);
                let (number, disk) = (tree.number(inode), tree.disk(inode));
                drop(tree);
                let wanted = Wanted { file: number, offset: *offset, len: present, file_len };
                let answer = if !direct && !is_carried_out(host, gathers, Once::Call) {
                    Answer::at(at)
                } else {
                    self.time_read(host, at, disk, wanted, direct && !host.model.is_buffered)
                };
                Ok((FileOperation::OnFile { inode, dsync: false }, answer))
            }
            Op::Write { fd, offset, skip } => {
                let Descriptor::File { inode, write, direct, dsync, gathers, .. } =
                    host.descriptors.borrow().get(*fd)?
                else {
                    return Err(Errno(libc::EINVAL));
                };
                let buf = buf.ok_or(Errno(libc::EFAULT))?;
                let len = (buf.len() - *skip as usize) as u64;
                if !write {
                    return Err(Errno(libc::EBADF));
                }
                if direct {
                    check_alignment(*offset, len, Buf::DIRECT_ALIGN as u64, buf, *skip as usize)?;
                }
                let mut tree = host.tree.borrow_mut();
                let (disk, number) = (tree.disk(inode), tree.number(inode));
                let content = tree.content_mut(inode)?;
                let direct = direct && !host.model.is_buffered;
                let grows = offset + len > content.size() || content.layout_changed();
                let mut answer = if direct || dsync {
                    match hand_over(host, gathers, len, PIECE_BYTES) {
                        Some(len) => self.serve_disk(host, at, disk, Direction::Write, place_of(number, *offset), len),
                        None => Answer::at(at),
                    }
                } else {
                    host.page_cache.borrow_mut().write(number, *offset, len);
                    let copied_at = match is_carried_out(host, gathers, Once::CachedWrite(len)) {
                        true => at + CACHED_CALL_NS + len / CACHED_BYTES_PER_NS,
                        false => at,
                    };
                    Answer::at(self.time_cached_write(host, &mut tree, (at, copied_at), inode, len)?)
                };
                if dsync {
                    answer = self.flush_disk(host, answer.at, disk, grows);
                }
                tree.hold(inode);
                Ok((FileOperation::OnFile { inode, dsync }, answer))
            }
            Op::Fdatasync { fd } => {
                let Descriptor::File { inode, gathers, .. } = host.descriptors.borrow().get(*fd)? else {
                    return Err(Errno(libc::EINVAL));
                };
                let mut tree = host.tree.borrow_mut();
                let (disk, number) = (tree.disk(inode), tree.number(inode));
                let point = tree.content_mut(inode)?.sync_point();
                let layout_changed = tree.content(inode)?.layout_changed();
                let dirty = host.dirty.borrow_mut().take(number);
                let written_at = self.write_back(host, &mut tree, at, inode, gathers, dirty)?;
                tree.hold(inode);
                let answer = match is_carried_out(host, gathers, Once::Sync) {
                    true => self.flush_disk(host, written_at.max(at), disk, layout_changed),
                    false => Answer::at(written_at.max(at)),
                };
                Ok((FileOperation::Sync { inode, point }, answer))
            }
            Op::SyncDir { path } => {
                let tree = host.tree.borrow();
                let (folder, before) = tree.folder_sync_point(path.as_bytes())?;
                let answer = match is_carried_out(host, gathers(host, path.as_bytes()), Once::Sync) {
                    true => self.flush_disk(host, at, tree.disk(folder), true),
                    false => Answer::at(at),
                };
                drop(tree);
                host.tree.borrow_mut().hold(folder);
                Ok((FileOperation::SyncFolder { folder, before }, answer))
            }
            Op::Fallocate { fd, .. } | Op::Truncate { fd, .. } | Op::Size { fd } | Op::ReadAlign { fd } => {
                let Descriptor::File { inode, gathers, .. } = host.descriptors.borrow().get(*fd)? else {
                    return Err(Errno(libc::EINVAL));
                };
                host.tree.borrow_mut().hold(inode);
                Ok((FileOperation::OnFile { inode, dsync: false }, time_call(host, at, gathers)))
            }
            Op::Unlink { path } => {
                let mut tree = host.tree.borrow_mut();
                let operation = match tree.only_name_of(path.as_bytes()) {
                    Some(inode) if !tree.is_held(inode) && discards(host, tree.disk(inode)) => {
                        tree.hold(inode);
                        FileOperation::Discard { inode }
                    }
                    _ => FileOperation::OnPath,
                };
                Ok((operation, time_call(host, at, gathers(host, path.as_bytes()))))
            }
            op => {
                let gathers = path_of(op).is_some_and(|path| gathers(host, path));
                Ok((FileOperation::OnPath, time_call(host, at, gathers)))
            }
        }
    }

    /// Discards the next extent, if one is left.
    fn discard_next(&self, host: &Host, operation: FileOperation) -> Option<Answer> {
        let FileOperation::Discard { inode } = operation else { return None };
        let mut tree = host.tree.borrow_mut();
        let (disk, bytes) = (tree.disk(inode), tree.take_extent(inode)?);
        let device = &mut host.devices.borrow_mut()[disk as usize];
        let at = device.discard(self.now(), bytes);
        Some(Answer::by(device, disk, at))
    }

    /// Through the page cache, where that has pages; the missing ones are read.
    fn time_read(&self, host: &Host, at: u64, disk: u32, wanted: Wanted, direct: bool) -> Answer {
        let Wanted { file, offset, len, .. } = wanted;
        if len == 0 {
            return Answer::at(at + CACHED_CALL_NS);
        }
        let serve = |offset, len| {
            let serve = |at| self.serve_disk(host, at, disk, Direction::Read, place_of(file, offset), len);
            match &mut *host.readers.borrow_mut() {
                None => serve(at),
                // Held until the answer as it is known then.
                Some(readers) => Answer::at(readers.hold(at, |at| serve(at).at)),
            }
        };
        if direct {
            return serve(offset, len);
        }
        let ready_at = host.page_cache.borrow_mut().read(at, wanted, |offset, len| serve(offset, len).at);
        Answer::at(ready_at.max(at + CACHED_CALL_NS + len / CACHED_BYTES_PER_NS))
    }

    /// A write into the page cache. It does not wait for the disk, unless that is behind by as much as the kernel lets
    /// be dirty.
    fn time_cached_write(
        &self,
        host: &Host,
        tree: &mut Tree,
        (at, copied_at): (u64, u64),
        inode: InodeId,
        len: u64,
    ) -> Result<u64, Errno> {
        let (disk, number) = (tree.disk(inode), tree.number(inode));
        host.dirty.borrow_mut().add(at, inode, number, len);
        loop {
            let due = host.dirty.borrow_mut().take_due(at);
            let Some((inode, number, bytes)) = due else { break };
            // A file that another was renamed over is gone.
            if tree.is_file(inode, number) {
                self.write_back(host, tree, at, inode, true, bytes)?;
            }
        }
        let written_back_at = *tree.content_mut(inode)?.written_back_at();
        let bandwidth = host.devices.borrow()[disk as usize].write_bandwidth();
        Ok(copied_at.max(written_back_at.saturating_sub(host.dirty.borrow().blocking_ns(bandwidth))))
    }

    /// Hands a file's dirty bytes to its disk. Gives when all that was handed over is there.
    fn write_back(
        &self,
        host: &Host,
        tree: &mut Tree,
        at: u64,
        inode: InodeId,
        gathers: bool,
        bytes: u64,
    ) -> Result<u64, Errno> {
        let (disk, number) = (tree.disk(inode), tree.number(inode));
        let latest = tree.content_mut(inode)?.written_back_at();
        let mut handed = 0;
        while handed < bytes {
            let piece = (bytes - handed).min(WRITE_BACK_BYTES);
            if let Some(gathered) = hand_over(host, gathers, piece, WRITE_BACK_BYTES) {
                // One after the other somewhere in the file: where exactly decides no more than the member of a RAID.
                let answer = self.serve_disk(host, at, disk, Direction::Write, place_of(number, handed), gathered);
                *latest = answer.at.max(*latest);
            }
            handed += piece;
        }
        Ok(*latest)
    }

    fn serve_disk(&self, host: &Host, at: u64, disk: u32, direction: Direction, place: u64, bytes: u64) -> Answer {
        let mut devices = host.devices.borrow_mut();
        let device = &mut devices[disk as usize];
        let mut admitted = at;
        if device.model().kind == Kind::NetworkVolume {
            if let Some(limits) = &mut *host.volume_limits.borrow_mut() {
                admitted = limits.admit(at, bytes);
            }
            if host.model.volumes_share_nic {
                admitted = admitted.max(host.nic.borrow_mut().carry_volume(at, direction, bytes));
            }
        }
        let at = device.serve(at, admitted, Request { direction, place, bytes });
        Answer::by(device, disk, at)
    }

    /// With a journal's transaction: its blocks, a flush, its commit block, a flush.
    fn flush_disk(&self, host: &Host, at: u64, disk: u32, journal: bool) -> Answer {
        let flush = |at| {
            let device = &mut host.devices.borrow_mut()[disk as usize];
            let at = device.flush(at);
            Answer::by(device, disk, at)
        };
        let flushed = flush(at);
        if !journal {
            return flushed;
        }
        flush(self.serve_disk(host, flushed.at, disk, Direction::Write, 0, JOURNAL_BYTES).at)
    }

    /// The device or the kernel has finished. Gives a later time where the device's answer has been put off.
    pub(crate) fn end_file_operation(&self, seat: &Seat, shard: &Shard, index: u32, generation: u32) -> Option<u64> {
        let slot = join(index, generation);
        let Waits::File(operation, batch) = seat.waits(slot) else { return None };
        let (host, now) = (&*seat.host, self.now());
        let answered_at = batch.and_then(|batch| host.devices.borrow()[batch.disk as usize].answered_at(batch.number));
        if let Some(later) = answered_at.filter(|answered_at| *answered_at > now) {
            return Some(later);
        }
        if let Some(answer) = self.discard_next(host, operation) {
            seat.set_waits(slot, Waits::File(operation, answer.batch));
            return Some(answer.at);
        }
        seat.complete_by(shard, slot, |op, buf| self.conclude(seat, slot, now, op, buf, operation));
        None
    }

    /// The operation takes effect at `now`.
    pub(crate) fn conclude(
        &self,
        seat: &Seat,
        slot: SlotId,
        now: u64,
        op: &Op,
        buf: Option<&mut Buf>,
        operation: FileOperation,
    ) -> Result<u64, Errno> {
        let host = &*seat.host;
        let result = match host.faults.borrow().is_empty() {
            true => take_effect(host, now, op, buf, operation),
            false => take_effect_or_fail(host, now, op, buf, operation),
        };
        self.trace().note("result", *result.as_ref().unwrap_or(&u64::MAX));
        release(host, operation);
        if host.watch.borrow().is_some() && changes_disks(op) {
            host.pending_writes.borrow_mut().remove(&(seat.id, slot.to_u64()));
            show(host);
        }
        result
    }

    /// The shard is gone before the end. A write on its way may have reached the medium in parts.
    pub(crate) fn abandon_file_operation(&self, seat: &Seat, shard: &Shard, slot: SlotId, operation: FileOperation) {
        let host = &*seat.host;
        let kept = match host.state.get() {
            State::Dying(Some(Crash::PowerLoss)) => true,
            State::Dying(Some(Crash::Kill)) => self.fault_random().chance(1, 2),
            _ => false,
        };
        seat.complete_by(shard, slot, |op, buf| {
            if let (Op::Write { offset, skip, .. }, Some(buf), FileOperation::OnFile { inode, .. }, true) =
                (op, buf, operation, kept)
            {
                host.tree.borrow_mut().content_mut(inode)?.write(*offset, &buf[*skip as usize..], false);
            }
            release(host, operation);
            Err(Errno(libc::ECANCELED))
        });
    }
}

fn release(host: &Host, operation: FileOperation) {
    match operation {
        FileOperation::OnFile { inode, .. }
        | FileOperation::Sync { inode, .. }
        | FileOperation::SyncFolder { folder: inode, .. }
        | FileOperation::Discard { inode } => host.tree.borrow_mut().release(inode),
        FileOperation::OnPath => {}
    }
}

/// Whether what comes once a file is as seldom on this path as in full size.
fn gathers(host: &Host, path: &[u8]) -> bool {
    !host.model.log_folder.as_ref().is_some_and(|folder| path.starts_with(folder.as_bytes()))
}

/// What a write of `bytes` hands to the disk now.
fn hand_over(host: &Host, gathers: bool, bytes: u64, piece: u64) -> Option<u64> {
    if gathers { host.gathering.borrow_mut().write(bytes, piece) } else { Some(bytes) }
}

fn is_carried_out(host: &Host, gathers: bool, once: Once) -> bool {
    !gathers || host.gathering.borrow_mut().carries_out(once)
}

/// When a call that changes names or sizes in memory is done.
fn time_call(host: &Host, at: u64, gathers: bool) -> Answer {
    Answer::at(if is_carried_out(host, gathers, Once::Call) { at + NAME_CALL_NS } else { at })
}

/// What an operation on a name is about.
fn path_of(op: &Op) -> Option<&[u8]> {
    match op {
        Op::Open { path, .. }
        | Op::Unlink { path }
        | Op::CreateDir { path }
        | Op::RemoveDir { path }
        | Op::ReadDir { path }
        | Op::SyncDir { path } => Some(path.as_bytes()),
        Op::Rename { from, .. } | Op::Link { from, .. } => Some(from.as_bytes()),
        _ => None,
    }
}

fn file_of(op: &Op) -> Option<Fd> {
    match op {
        Op::Read { fd, .. }
        | Op::Write { fd, .. }
        | Op::Fdatasync { fd }
        | Op::Fallocate { fd, .. }
        | Op::Truncate { fd, .. }
        | Op::Size { fd }
        | Op::ReadAlign { fd } => Some(*fd),
        _ => None,
    }
}

/// Where a file's byte lies on its disk: files begin anywhere, at a page, and lie in one piece.
fn place_of(file: u64, offset: u64) -> u64 {
    ((file.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24) & !(PAGE_BYTES - 1)) + offset
}

/// As O_DIRECT on a device of 4 KiB blocks: offset, length and memory.
fn check_alignment(offset: u64, len: u64, align: u64, buf: &Buf, position: usize) -> Result<(), Errno> {
    let memory = buf.align() >= Buf::DIRECT_ALIGN && position.is_multiple_of(Buf::DIRECT_ALIGN);
    let place = offset.is_multiple_of(align) && len.is_multiple_of(align);
    if memory && place { Ok(()) } else { Err(Errno(libc::EINVAL)) }
}

fn changes_disks(op: &Op) -> bool {
    !matches!(op, Op::Read { .. } | Op::Size { .. } | Op::ReadAlign { .. } | Op::ReadDir { .. } | Op::Close { .. })
        && !matches!(op, Op::Open { flags, .. } if !flags.create && !flags.truncate)
}

/// Hands the disks as they are to whoever watches.
fn show(host: &Host) {
    let Some(watch) = host.watch.borrow().clone() else { return };
    let writes = host.pending_writes.borrow().values().cloned().collect();
    let tree = host.tree.borrow().clone();
    watch(Image { tree, writes });
}

/// What faults are asked about: the file and what is wanted of it.
fn aimed_at(op: &Op, operation: FileOperation) -> Option<(Access, InodeId)> {
    match (op, operation) {
        (Op::Read { .. }, FileOperation::OnFile { inode, .. }) => Some((Access::Read, inode)),
        (Op::Write { .. }, FileOperation::OnFile { inode, .. }) => Some((Access::Write, inode)),
        (_, FileOperation::Sync { inode, .. }) => Some((Access::Sync, inode)),
        (_, FileOperation::SyncFolder { folder, .. }) => Some((Access::Sync, folder)),
        _ => None,
    }
}

fn delay(host: &Host, at: u64, op: &Op, operation: FileOperation) -> u64 {
    let Some((access, inode)) = aimed_at(op, operation) else { return 0 };
    let path = host.tree.borrow().path(inode).unwrap_or_default();
    host.faults.borrow().strike(at, access, &path, true).map_or(0, |fault| fault.delay_ns())
}

fn take_effect_or_fail(
    host: &Host,
    now: u64,
    op: &Op,
    buf: Option<&mut Buf>,
    operation: FileOperation,
) -> Result<u64, Errno> {
    if let Some((access, inode)) = aimed_at(op, operation) {
        let path = host.tree.borrow().path(inode).unwrap_or_default();
        if let Some(fault) = host.faults.borrow().strike(now, access, &path, false) {
            let (offset, skip) = match op {
                Op::Write { offset, skip, .. } => (*offset, *skip as usize),
                _ => (0, 0),
            };
            let bytes = buf.as_ref().map_or(&[][..], |buf| &buf[skip.min(buf.len())..]);
            let point = match operation {
                FileOperation::Sync { point, .. } => Some(point),
                _ => None,
            };
            let (tree, random) = (&mut *host.tree.borrow_mut(), &mut *host.fault_random.borrow_mut());
            if let Some(result) = fault.act(&mut Struck { tree, inode, offset, bytes, point, random }) {
                return result;
            }
        }
    }
    take_effect(host, now, op, buf, operation)
}

/// ENOSPC, when a file that ends at `end` would take more of its disk than there is.
fn check_space(host: &Host, tree: &Tree, inode: InodeId, end: u64) -> Result<(), Errno> {
    let disk = tree.disk(inode);
    let Some(limit) = host.space.borrow()[disk as usize] else { return Ok(()) };
    let has = tree.content(inode)?.occupied();
    let wants = end.next_multiple_of(PAGE_BYTES);
    if wants > has && tree.occupied(disk) + wants - has > limit { Err(Errno(libc::ENOSPC)) } else { Ok(()) }
}

fn take_effect(host: &Host, now: u64, op: &Op, buf: Option<&mut Buf>, operation: FileOperation) -> Result<u64, Errno> {
    let mut tree = host.tree.borrow_mut();
    match (op, operation) {
        (Op::Read { offset, len, .. }, FileOperation::OnFile { inode, .. }) => {
            let buf = buf.ok_or(Errno(libc::EFAULT))?;
            let len = u64::from(*len).min(buf.spare() as u64);
            Ok(tree.content(inode)?.read(*offset, len, |piece| buf.extend_from_slice(piece)))
        }
        (Op::Write { offset, skip, .. }, FileOperation::OnFile { inode, dsync }) => {
            let bytes = &buf.ok_or(Errno(libc::EFAULT))?[*skip as usize..];
            check_space(host, &tree, inode, *offset + bytes.len() as u64)?;
            let protected = host.devices.borrow()[tree.disk(inode) as usize].model().power_loss_protected;
            let content = tree.content_mut(inode)?;
            content.write(*offset, bytes, protected);
            if dsync {
                // Makes earlier writes durable too, which a device may but need not do.
                let point = content.sync_point();
                content.sync(point);
            }
            tree.give_room(inode);
            Ok(bytes.len() as u64)
        }
        (_, FileOperation::Sync { inode, point }) => {
            tree.content_mut(inode)?.sync(point);
            Ok(0)
        }
        (_, FileOperation::SyncFolder { folder, before }) => {
            tree.sync_folder((folder, before));
            Ok(0)
        }
        (Op::Fallocate { offset, len, .. }, FileOperation::OnFile { inode, .. }) => {
            check_space(host, &tree, inode, *offset + *len)?;
            tree.content_mut(inode)?.allocate(*offset, *len);
            tree.give_room(inode);
            Ok(0)
        }
        (Op::Truncate { len, .. }, FileOperation::OnFile { inode, .. }) => {
            tree.content_mut(inode)?.truncate(*len);
            tree.give_room(inode);
            Ok(0)
        }
        (Op::Size { .. }, FileOperation::OnFile { inode, .. }) => Ok(tree.content(inode)?.size()),
        (Op::ReadAlign { .. }, _) => Ok(LOGICAL_BLOCK),
        (Op::Open { path, flags }, _) => {
            let inode = tree.open(now, path.as_bytes(), flags.create, flags.exclusive, flags.truncate)?;
            let descriptor = Descriptor::File {
                inode,
                read: flags.read,
                write: flags.write,
                direct: flags.direct,
                dsync: flags.dsync,
                gathers: gathers(host, path.as_bytes()),
            };
            Ok(u64::from(host.descriptors.borrow_mut().add(descriptor).0))
        }
        (Op::Rename { from, to }, _) => tree.rename(now, from.as_bytes(), to.as_bytes()).map(|()| 0),
        (Op::Link { from, to }, _) => tree.link(now, from.as_bytes(), to.as_bytes()).map(|()| 0),
        (Op::Unlink { path }, _) => {
            let goes = |id| Ok((tree.number(id), tree.content(id)?.size()));
            let gone = tree.only_name_of(path.as_bytes()).map(goes).transpose()?;
            tree.unlink(now, path.as_bytes())?;
            if let Some((number, len)) = gone {
                host.dirty.borrow_mut().take(number);
                host.page_cache.borrow_mut().forget(number, len);
            }
            Ok(0)
        }
        (Op::Close { .. }, _) => Ok(0),
        (Op::CreateDir { path }, _) => tree.create_folder(now, path.as_bytes()).map(|()| 0),
        (Op::RemoveDir { path }, _) => tree.remove_folder(now, path.as_bytes()).map(|()| 0),
        (Op::ReadDir { path }, _) => {
            let buf = buf.ok_or(Errno(libc::EFAULT))?;
            let mut count = 0;
            for name in tree.names(path.as_bytes())? {
                buf.extend_from_slice(name);
                buf.push(0);
                count += 1;
            }
            Ok(count)
        }
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Closes a file's descriptor. Gives what goes on behind that.
pub(crate) fn close_file(host: &Host, inode: InodeId) -> Option<FileOperation> {
    let mut tree = host.tree.borrow_mut();
    if tree.goes_with_holder(inode) && discards(host, tree.disk(inode)) {
        return Some(FileOperation::Discard { inode });
    }
    tree.release(inode);
    None
}

/// Whether blocks of the disk are discarded as soon as they are free.
fn discards(host: &Host, disk: u32) -> bool {
    host.devices.borrow()[disk as usize].model().discard.is_some()
}
