//! A write lands elsewhere on its disk: in a random file, at a random sector. Where it belongs, nothing changes.

use std::fmt;

use super::{Access, DiskFault, LostWrite, Struck};
use crate::disk::content::SECTOR;
use crate::disk::tree::Errno;

pub struct MisdirectedWrite;

impl DiskFault for MisdirectedWrite {
    fn concerns(&self, access: Access) -> bool {
        access == Access::Write
    }

    fn act(&self, struck: &mut Struck<'_>) -> Option<Result<u64, Errno>> {
        let result = LostWrite.act(struck);
        let disk = struck.tree.disk(struck.inode);
        let sectors = |tree: &crate::disk::tree::Tree, id| tree.content(id).map_or(0, |c| c.size() / SECTOR);
        let mut victims: Vec<_> = struck.tree.files().into_iter().map(|(_, id)| id).collect();
        victims.retain(|&id| struck.tree.disk(id) == disk && sectors(struck.tree, id) > 0);
        if !victims.is_empty() {
            let victim = victims[struck.random.below(victims.len() as u64) as usize];
            let offset = struck.random.below(sectors(struck.tree, victim)) * SECTOR;
            if let Ok(content) = struck.tree.content_mut(victim) {
                content.scribble(offset, struck.bytes);
            }
        }
        result
    }
}

impl fmt::Display for MisdirectedWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a write lands elsewhere")
    }
}
