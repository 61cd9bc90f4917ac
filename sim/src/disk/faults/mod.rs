//! What goes wrong with single operations of a host's disks, one file a fault.
//!
//! A fault is injected with an [`Aim`]: which files, when, and which of the operations that fit. Until it is withdrawn
//! it strikes what it is aimed at, and nothing else changes: with no fault injected an operation pays nothing. What is
//! random about a strike comes from the host's own part of the fault stream.

mod io_error;
mod lost_write;
mod misdirected_write;
mod stall;
mod torn_write;

use std::cell::Cell;
use std::fmt;
use std::ops::Range;
use std::rc::Rc;

pub use io_error::IoError;
pub use lost_write::LostWrite;
pub use misdirected_write::MisdirectedWrite;
pub use stall::Stall;
pub use torn_write::TornWrite;

use super::content::SyncPoint;
use super::tree::{Errno, InodeId, Tree};
use crate::host::HostId;
use crate::random::Generator;
use crate::world::World;

/// What an operation wants of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    Sync,
}

/// Which operations a fault strikes.
#[derive(Clone, Debug)]
pub struct Aim {
    /// A pattern of the whole path, in which `*` stands for any characters, slashes among them.
    pub files: String,
    /// World time.
    pub within_ns: Range<u64>,
    /// So many operations that fit are spared first, and so many are struck.
    pub spare: u64,
    pub strike: u64,
}

impl Aim {
    /// Every operation on these files, at any time.
    pub fn at(files: &str) -> Self {
        Self { files: files.into(), within_ns: 0..u64::MAX, spare: 0, strike: u64::MAX }
    }

    /// Only the `n`-th operation that fits, counted from 0.
    pub fn nth(self, n: u64) -> Self {
        Self { spare: n, strike: 1, ..self }
    }

    pub fn times(self, strike: u64) -> Self {
        Self { strike, ..self }
    }

    pub fn within(self, within_ns: Range<u64>) -> Self {
        Self { within_ns, ..self }
    }
}

/// Something that goes wrong with an operation on a file.
pub trait DiskFault: fmt::Display {
    fn concerns(&self, access: Access) -> bool;

    /// How much later the operation ends.
    fn delay_ns(&self) -> u64 {
        0
    }

    /// What happens at the operation's end instead of its own effect; `None`: its own.
    fn act(&self, _struck: &mut Struck<'_>) -> Option<Result<u64, Errno>> {
        None
    }
}

/// An operation at its end.
pub struct Struck<'a> {
    pub(crate) tree: &'a mut Tree,
    pub(crate) inode: InodeId,
    pub(crate) offset: u64,
    /// What a write writes.
    pub(crate) bytes: &'a [u8],
    /// What a sync makes durable.
    pub(crate) point: Option<SyncPoint>,
    pub(crate) random: &'a mut Generator,
}

/// Names an injected fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultId(u64);

struct Injected {
    id: FaultId,
    aim: Aim,
    fault: Rc<dyn DiskFault>,
    /// Operations that fitted so far.
    met: Cell<u64>,
}

/// The faults of one host's disks.
#[derive(Default)]
pub(crate) struct DiskFaults {
    injected: Vec<Injected>,
    next: u64,
}

impl DiskFaults {
    pub fn is_empty(&self) -> bool {
        self.injected.is_empty()
    }

    /// The first fault that strikes an operation; each that it fits counts it. Delays are asked for at an operation's
    /// begin, and everything else at its end.
    pub fn strike(&self, now: u64, access: Access, path: &str, at_begin: bool) -> Option<Rc<dyn DiskFault>> {
        let mut struck = None;
        for injected in &self.injected {
            let aim = &injected.aim;
            let fits = injected.fault.concerns(access)
                && (injected.fault.delay_ns() > 0) == at_begin
                && aim.within_ns.contains(&now)
                && matches(&aim.files, path);
            if !fits {
                continue;
            }
            let met = injected.met.replace(injected.met.get() + 1);
            if met >= aim.spare && met - aim.spare < aim.strike && struck.is_none() {
                struck = Some(injected.fault.clone());
            }
        }
        struck
    }
}

/// Whether `pattern`, in which `*` stands for any characters, describes all of `text`.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

impl World {
    /// From now on `fault` strikes the operations that `aim` describes.
    pub fn inject(&self, host: HostId, aim: Aim, fault: impl DiskFault + 'static) -> FaultId {
        self.inject_shared(host, aim, Rc::new(fault))
    }

    pub(crate) fn inject_shared(&self, host: HostId, aim: Aim, fault: Rc<dyn DiskFault>) -> FaultId {
        let host = self.host(host.0);
        let mut faults = host.faults.borrow_mut();
        faults.next += 1;
        let id = FaultId(faults.next);
        faults.injected.push(Injected { id, aim, fault, met: Cell::new(0) });
        id
    }

    /// Ends an injected fault. Gives how many operations it has struck.
    pub fn withdraw(&self, host: HostId, id: FaultId) -> u64 {
        let host = self.host(host.0);
        let mut faults = host.faults.borrow_mut();
        let Some(at) = faults.injected.iter().position(|injected| injected.id == id) else { return 0 };
        let injected = faults.injected.remove(at);
        injected.met.get().saturating_sub(injected.aim.spare).min(injected.aim.strike)
    }

    /// Changes `bits` random bits of what is stored in the files that fit. Gives their paths and the bytes' offsets.
    pub fn rot(&self, host: HostId, files: &str, bits: u64) -> Vec<(String, u64)> {
        let host = self.host(host.0);
        let (mut tree, mut random) = (host.tree.borrow_mut(), host.fault_random.borrow_mut());
        let fit: Vec<_> = tree.files().into_iter().filter(|(path, _)| matches(files, path)).collect();
        let sizes: Vec<u64> = fit.iter().map(|(_, id)| tree.content(*id).map_or(0, |content| content.size())).collect();
        let total: u64 = sizes.iter().sum();
        let mut rotten = Vec::new();
        for _ in 0..if total > 0 { bits } else { 0 } {
            let mut offset = random.below(total);
            let mut file = 0;
            while offset >= sizes[file] {
                offset -= sizes[file];
                file += 1;
            }
            let bit = random.below(8);
            flip(&mut tree, fit[file].1, offset, 1 << bit);
            rotten.push((fit[file].0.clone(), offset));
        }
        rotten
    }

    /// Changes the bits of `mask` in one stored byte. Gives whether there is such a byte.
    pub fn rot_at(&self, host: HostId, path: &str, offset: u64, mask: u8) -> bool {
        let host = self.host(host.0);
        let mut tree = host.tree.borrow_mut();
        let Some((_, id)) = tree.files().into_iter().find(|(other, _)| other == path) else { return false };
        flip(&mut tree, id, offset, mask)
    }

    /// The host's files, with their sizes.
    pub fn files(&self, host: HostId) -> Vec<(String, u64)> {
        let host = self.host(host.0);
        let tree = host.tree.borrow();
        let files = tree.files().into_iter();
        files.map(|(path, id)| (path, tree.content(id).map_or(0, |content| content.size()))).collect()
    }

    /// Files may take so many bytes of a disk from now on; what would take more fails with ENOSPC. `None`: any number.
    pub fn limit_space(&self, host: HostId, disk: usize, bytes: Option<u64>) {
        self.host(host.0).space.borrow_mut()[disk] = bytes;
    }

    /// Bytes of a disk that files take.
    pub fn occupied(&self, host: HostId, disk: usize) -> u64 {
        self.host(host.0).tree.borrow().occupied(disk as u32)
    }
}

fn flip(tree: &mut Tree, id: InodeId, offset: u64, mask: u8) -> bool {
    let Ok(content) = tree.content_mut(id) else { return false };
    let mut byte = None;
    content.read(offset, 1, |bytes| byte = bytes.first().copied());
    let Some(byte) = byte else { return false };
    content.scribble(offset, &[byte ^ mask]);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expect) in [
            ("/a/b", "/a/b", true),
            ("/a/b", "/a/bc", false),
            ("*", "", true),
            ("*-Data.db", "/data/ks/t/me-1-big-Data.db", true),
            ("*-Data.db", "/data/ks/t/me-1-big-Data.db.tmp", false),
            ("/data/*-big-*.db", "/data/t/me-1-big-Index.db", true),
            ("/data/*-big-*.db", "/log/t/me-1-big-Index.db", false),
            ("*aa", "aaa", true),
        ] {
            assert_eq!(matches(pattern, text), expect, "{pattern} {text}");
        }
    }

    #[test]
    fn an_aim_spares_then_strikes() {
        let mut faults = DiskFaults::default();
        let aim = Aim::at("/a*").nth(2).within(10..20);
        faults.injected.push(Injected { id: FaultId(1), aim, fault: Rc::new(IoError::write()), met: Cell::new(0) });
        let struck = |now, access, path| faults.strike(now, access, path, false).is_some();
        assert!(!struck(5, Access::Write, "/a"));
        assert!(!struck(10, Access::Read, "/a"));
        assert!(!struck(10, Access::Write, "/b"));
        let fits: Vec<bool> = (0..5).map(|n| struck(10 + n, Access::Write, "/a1")).collect();
        assert_eq!(fits, [false, false, true, false, false]);
    }
}
