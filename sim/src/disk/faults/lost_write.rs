//! A write is acknowledged and never reaches the medium, whatever is synced: reads find what lay there before.

use std::fmt;

use super::{Access, DiskFault, Struck};
use crate::disk::tree::Errno;

pub struct LostWrite;

impl DiskFault for LostWrite {
    fn concerns(&self, access: Access) -> bool {
        access == Access::Write
    }

    fn act(&self, struck: &mut Struck<'_>) -> Option<Result<u64, Errno>> {
        let len = struck.bytes.len() as u64;
        // The file system knows of the write; only the medium does not.
        let content = struck.tree.content_mut(struck.inode);
        Some(content.map(|content| content.extend(struck.offset + len)).map(|()| len))
    }
}

impl fmt::Display for LostWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a write is lost")
    }
}
