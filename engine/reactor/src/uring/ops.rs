//! Operations in the kernel's terms: as ring entries, or done in place.

use std::ffi::{CStr, OsStr};
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use io_uring::squeue::{self, Entry};
use io_uring::{opcode, types};
use rustix::fs::{AtFlags, StatxFlags, statx};

use super::socket;
use crate::{Buf, Fd, Op, OpenFlags};

/// Rights of new files and folders, before the process's umask.
const FILE_MODE: u32 = 0o644;
const DIR_MODE: u32 = 0o755;

const HERE: types::Fd = types::Fd(libc::AT_FDCWD);

fn fd(fd: Fd) -> types::Fd {
    types::Fd(fd.0 as i32)
}

fn open_flags(flags: OpenFlags) -> i32 {
    let access = match (flags.read, flags.write) {
        (true, true) => libc::O_RDWR,
        (false, true) => libc::O_WRONLY,
        (_, false) => libc::O_RDONLY,
    };
    let bits = [
        (flags.create, libc::O_CREAT),
        (flags.exclusive, libc::O_CREAT | libc::O_EXCL),
        (flags.truncate, libc::O_TRUNC),
        (flags.direct, libc::O_DIRECT),
        (flags.dsync, libc::O_DSYNC),
    ];
    bits.iter().fold(access | libc::O_CLOEXEC, |all, (wanted, bit)| if *wanted { all | bit } else { all })
}

/// What the rest of a buffer's capacity or bytes is called in an entry.
fn unread(buf: &Buf, skip: u32) -> (*const u8, u32) {
    let rest = buf.get(skip as usize..).unwrap_or_default();
    (rest.as_ptr(), u32::try_from(rest.len()).unwrap_or(u32::MAX))
}

/// What the ring knows that decides how it asks.
#[derive(Clone, Copy)]
pub(super) struct Knowledge {
    /// The kernel has IORING_OP_FTRUNCATE (6.9).
    pub(super) kernel_truncates: bool,
    /// The socket had nothing left after the last receive: waiting at once saves the attempt that would fail.
    pub(super) drained: bool,
}

/// io_uring.h: do not try first, wait for readiness.
const RECVSEND_POLL_FIRST: u16 = 1 << 0;

/// The ring entry for `op`, or `None` when it is not one for the ring. Pointers in it lead into `op` and `buf`.
pub(super) fn entry(op: &Op, buf: Option<&mut Buf>, known: Knowledge) -> Option<Entry> {
    let mut none = Buf::new();
    let buf = buf.unwrap_or(&mut none);
    Some(match op {
        Op::Open { path, flags } => {
            opcode::OpenAt::new(HERE, path.as_ptr()).flags(open_flags(*flags)).mode(FILE_MODE).build()
        }
        Op::Close { fd: f, file: false } => opcode::Close::new(fd(*f)).build(),
        // By a worker of the kernel: the shard's thread would otherwise wait for the disk.
        Op::Close { fd: f, file: true } => opcode::Close::new(fd(*f)).build().flags(squeue::Flags::ASYNC),
        Op::Read { fd: f, offset, len } => {
            let len = (*len).min(u32::try_from(buf.spare()).unwrap_or(u32::MAX));
            opcode::Read::new(fd(*f), buf.spare_ptr(), len).offset(*offset).build()
        }
        Op::Write { fd: f, offset, skip } => {
            let (ptr, len) = unread(buf, *skip);
            opcode::Write::new(fd(*f), ptr, len).offset(*offset).build()
        }
        Op::Fdatasync { fd: f } => opcode::Fsync::new(fd(*f)).flags(types::FsyncFlags::DATASYNC).build(),
        Op::Fallocate { fd: f, offset, len } => {
            opcode::Fallocate::new(fd(*f), *len).offset(*offset).mode(libc::FALLOC_FL_KEEP_SIZE).build()
        }
        Op::Truncate { fd: f, len } if known.kernel_truncates => opcode::Ftruncate::new(fd(*f), *len).build(),
        Op::Rename { from, to } => opcode::RenameAt::new(HERE, from.as_ptr(), HERE, to.as_ptr()).build(),
        Op::Link { from, to } => opcode::LinkAt::new(HERE, from.as_ptr(), HERE, to.as_ptr()).build(),
        Op::Unlink { path } => opcode::UnlinkAt::new(HERE, path.as_ptr()).build(),
        Op::CreateDir { path } => opcode::MkDirAt::new(HERE, path.as_ptr()).mode(DIR_MODE).build(),
        Op::RemoveDir { path } => opcode::UnlinkAt::new(HERE, path.as_ptr()).flags(libc::AT_REMOVEDIR).build(),
        Op::Accept { fd: f } => {
            opcode::Accept::new(fd(*f), ptr::null_mut(), ptr::null_mut()).flags(libc::SOCK_CLOEXEC).build()
        }
        Op::Recv { fd: f } => {
            let len = u32::try_from(buf.spare()).unwrap_or(u32::MAX);
            let ioprio = if known.drained { RECVSEND_POLL_FIRST } else { 0 };
            opcode::Recv::new(fd(*f), buf.spare_ptr(), len).ioprio(ioprio).build()
        }
        Op::Send { fd: f, skip, end } => {
            let (ptr, len) = unread(buf, *skip);
            opcode::Send::new(fd(*f), ptr, len.min(end - skip)).flags(libc::MSG_NOSIGNAL).build()
        }
        // Connect and SyncDir need a descriptor first; the others are done in place. (The ring has its shutdown done by
        // one of the kernel's workers, which compete with the shard for its processor.)
        Op::Shutdown { .. }
        | Op::Connect { .. }
        | Op::SyncDir { .. }
        | Op::Truncate { .. }
        | Op::Size { .. }
        | Op::ReadAlign { .. }
        | Op::ReadDir { .. }
        | Op::Listen { .. } => return None,
    })
}

/// Does on this thread what the ring does not.
pub(super) fn in_place(op: &Op, buf: Option<&mut Buf>) -> io::Result<u64> {
    match op {
        Op::Truncate { fd, len } => {
            // SAFETY: no pointers.
            let result = unsafe { libc::ftruncate(fd.0 as i32, *len as i64) };
            if result < 0 { Err(io::Error::last_os_error()) } else { Ok(0) }
        }
        Op::Shutdown { fd } => {
            // SAFETY: no pointers.
            let result = unsafe { libc::shutdown(fd.0 as i32, libc::SHUT_RDWR) };
            if result < 0 { Err(io::Error::last_os_error()) } else { Ok(0) }
        }
        Op::Size { fd } => size(*fd),
        Op::ReadAlign { fd } => Ok(read_align(*fd)),
        Op::ReadDir { path } => list(as_path(path), buf),
        Op::Listen { addr } => socket::listen(*addr).map(|fd| fd.into_raw_fd() as u64),
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn as_path(path: &CStr) -> &Path {
    Path::new(OsStr::from_bytes(path.to_bytes()))
}

/// statx(2): `stx_dio_offset_align`, since Linux 6.1. Where a file system does not tell, the safe value.
fn read_align(fd: Fd) -> u64 {
    // SAFETY: the descriptor is open: the engine owns it until it submits its `Close`.
    let fd = unsafe { BorrowedFd::borrow_raw(fd.0 as i32) };
    let told = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok();
    let told = told.map(|stat| u64::from(stat.stx_dio_offset_align));
    told.filter(|align| align.is_power_of_two() && *align <= Buf::DIRECT_ALIGN as u64)
        .unwrap_or(Buf::DIRECT_ALIGN as u64)
}

fn size(fd: Fd) -> io::Result<u64> {
    // SAFETY: all-zero bytes are a valid stat.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one stat, which is ours.
    if unsafe { libc::fstat(fd.0 as i32, &mut stat) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stat.st_size as u64)
}

fn list(path: &Path, buf: Option<&mut Buf>) -> io::Result<u64> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name());
    }
    names.sort();
    if let Some(buf) = buf {
        for name in &names {
            buf.extend_from_slice(name.as_bytes());
            buf.push(0);
        }
    }
    Ok(names.len() as u64)
}

/// Whether the path that could not be created as a folder is one already.
pub(super) fn is_dir(path: &CStr) -> bool {
    as_path(path).is_dir()
}

/// Opens a folder for its sync.
pub(super) fn open_dir(path: &CStr) -> io::Result<OwnedFd> {
    // SAFETY: the path is a live C string.
    let fd = unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is fresh and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
