//! The operations that a shard can ask of its world.

use std::cell::Cell;
use std::ffi::CString;
use std::net::SocketAddr;

/// A file or socket of the host. Any shard of the host may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fd(pub u32);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFlags {
    pub read: bool,
    pub write: bool,
    pub create: bool,
    pub exclusive: bool,
    pub truncate: bool,
    /// Past the page cache: offset, length and memory in multiples of `Buf::DIRECT_ALIGN`, of a read's offset and length
    /// of what `Op::ReadAlign` gives.
    pub direct: bool,
    /// Every write is durable when it completes.
    pub dsync: bool,
}

/// One operation. Its buffer, where it has one, travels beside it and stays in the operation's slot.
///
/// The result of each is one number (`io::Result<u64>`), given behind the arrow.
#[derive(Debug)]
pub enum Op {
    /// -> the new `Fd`
    Open {
        path: CString,
        flags: OpenFlags,
    },
    /// -> 0
    Close {
        fd: Fd,
        /// Of a file: the last owner of a removed one frees its room on the disk, which may take as long as a write.
        file: bool,
    },
    /// Appends up to `len` bytes behind the buffer's length, at most its spare capacity. -> bytes read, 0 at the end
    Read {
        fd: Fd,
        offset: u64,
        len: u32,
    },
    /// Writes the buffer's bytes from `skip`. -> bytes written
    Write {
        fd: Fd,
        offset: u64,
        skip: u32,
    },
    /// Makes the file's data, and its size, durable. -> 0
    Fdatasync {
        fd: Fd,
    },
    /// Reserves space without changing the size. -> 0
    Fallocate {
        fd: Fd,
        offset: u64,
        len: u64,
    },
    Truncate {
        fd: Fd,
        len: u64,
    },
    /// -> the file's size in bytes
    Size {
        fd: Fd,
    },
    /// -> bytes that offsets and lengths of direct reads have to be multiples of, at most `Buf::DIRECT_ALIGN`
    ReadAlign {
        fd: Fd,
    },
    Rename {
        from: CString,
        to: CString,
    },
    /// Hard link.
    Link {
        from: CString,
        to: CString,
    },
    Unlink {
        path: CString,
    },
    /// Succeeds when the folder exists already. -> 0
    CreateDir {
        path: CString,
    },
    /// Removes an empty folder.
    RemoveDir {
        path: CString,
    },
    /// Writes the entries' names into the buffer, each ended by a zero byte, sorted bytewise. -> number of names
    ReadDir {
        path: CString,
    },
    /// Makes renames, links and unlinks in the folder durable. -> 0
    SyncDir {
        path: CString,
    },
    /// Binds and listens, sharing the port with the host's other shards. -> the listening `Fd`
    Listen {
        addr: SocketAddr,
    },
    /// -> the connection's `Fd`
    Accept {
        fd: Fd,
    },
    /// `from` binds the local side first. -> the connection's `Fd`
    Connect {
        addr: SocketAddr,
        from: Option<SocketAddr>,
    },
    /// Appends at least one byte behind the buffer's length, at most its spare capacity. -> bytes, 0 at the end
    Recv {
        fd: Fd,
    },
    /// Sends the buffer's bytes from `skip` to `end`. -> bytes taken, at least one
    Send {
        fd: Fd,
        skip: u32,
        end: u32,
    },
    /// Ends the connection in both directions: after what was sent before, the peer's receives give 0; so do pending
    /// and later ones on this side, and later sends of this side fail. The descriptor stays open. -> 0
    Shutdown {
        fd: Fd,
    },
}

impl Op {
    pub fn name(&self) -> &'static str {
        match self {
            Op::Open { .. } => "open",
            Op::Close { .. } => "close",
            Op::Read { .. } => "read",
            Op::Write { .. } => "write",
            Op::Fdatasync { .. } => "fdatasync",
            Op::Fallocate { .. } => "fallocate",
            Op::Truncate { .. } => "truncate",
            Op::Size { .. } => "size",
            Op::ReadAlign { .. } => "read-align",
            Op::Rename { .. } => "rename",
            Op::Link { .. } => "link",
            Op::Unlink { .. } => "unlink",
            Op::CreateDir { .. } => "create-dir",
            Op::RemoveDir { .. } => "remove-dir",
            Op::ReadDir { .. } => "read-dir",
            Op::SyncDir { .. } => "sync-dir",
            Op::Listen { .. } => "listen",
            Op::Accept { .. } => "accept",
            Op::Connect { .. } => "connect",
            Op::Recv { .. } => "recv",
            Op::Send { .. } => "send",
            Op::Shutdown { .. } => "shutdown",
        }
    }
}

/// Disk operations are handed over in parts of a turn's burst: the device starts on the first while the last are made.
/// Preparing a read costs some 2 us in the kernel; at depth 64 bursts of 20 cost 5-10 % of a fast device's rate.
const DISK_BURST_MAX: u32 = 8;

/// Disk operations that have been queued and not yet handed over.
#[derive(Debug, Default)]
pub struct DiskBurst(Cell<u32>);

impl DiskBurst {
    /// Takes `op` in, where it is one. Says whether what is queued is to be handed over now.
    #[inline]
    pub fn is_full_with(&self, op: &Op) -> bool {
        if !matches!(op, Op::Read { .. } | Op::Write { .. }) {
            return false;
        }
        let queued = self.0.get() + 1;
        self.0.set(queued % DISK_BURST_MAX);
        queued == DISK_BURST_MAX
    }

    /// What is queued is handed over. Says whether there was any.
    #[inline]
    pub fn end(&self) -> bool {
        self.0.replace(0) > 0
    }
}
