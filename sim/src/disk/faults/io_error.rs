//! The device or the file system refuses an operation.
//!
//! A failed read or write has no effect. A failed sync has the worst that Linux allows: what it was to write counts as
//! clean, so that a later sync succeeds without having written it.

use std::fmt;

use super::{Access, DiskFault, Struck};
use crate::disk::tree::Errno;

pub struct IoError {
    access: Access,
    errno: Errno,
}

impl IoError {
    pub fn read() -> Self {
        Self { access: Access::Read, errno: Errno(libc::EIO) }
    }

    pub fn write() -> Self {
        Self { access: Access::Write, errno: Errno(libc::EIO) }
    }

    pub fn sync() -> Self {
        Self { access: Access::Sync, errno: Errno(libc::EIO) }
    }

    /// Another error number.
    pub fn with(self, errno: i32) -> Self {
        Self { errno: Errno(errno), ..self }
    }
}

impl DiskFault for IoError {
    fn concerns(&self, access: Access) -> bool {
        access == self.access
    }

    fn act(&self, struck: &mut Struck<'_>) -> Option<Result<u64, Errno>> {
        if let Some(point) = struck.point
            && let Ok(content) = struck.tree.content_mut(struck.inode)
        {
            content.fail_sync(point);
        }
        Some(Err(self.errno))
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match self.access {
            Access::Read => "read",
            Access::Write => "write",
            Access::Sync => "sync",
        };
        write!(f, "a {access} fails with error {}", self.errno.0)
    }
}
