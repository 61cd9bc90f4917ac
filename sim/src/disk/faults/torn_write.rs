//! A write is acknowledged, but only some of its sectors reach the medium. At least one is missing.

use std::fmt;

use super::{Access, DiskFault, LostWrite, Struck};
use crate::disk::content::SECTOR;
use crate::disk::tree::Errno;

pub struct TornWrite;

impl DiskFault for TornWrite {
    fn concerns(&self, access: Access) -> bool {
        access == Access::Write
    }

    fn act(&self, struck: &mut Struck<'_>) -> Option<Result<u64, Errno>> {
        let result = LostWrite.act(struck);
        let sectors = (struck.bytes.len() as u64).div_ceil(SECTOR).max(1);
        let missing = struck.random.below(sectors);
        let Ok(content) = struck.tree.content_mut(struck.inode) else { return result };
        for (sector, bytes) in struck.bytes.chunks(SECTOR as usize).enumerate() {
            if sector as u64 != missing && struck.random.chance(1, 2) {
                content.write(struck.offset + sector as u64 * SECTOR, bytes, false);
            }
        }
        result
    }
}

impl fmt::Display for TornWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a write is torn")
    }
}
