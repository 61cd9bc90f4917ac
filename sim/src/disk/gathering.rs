//! What comes once a file, in a smaller experiment.
//!
//! Scaled files come as much more often as they are smaller. What takes its time whatever a file's size, making it
//! durable and the write of its last piece, would then take as much more of the disk, and of who waits, as it does in
//! full size. So of such syncs one in as many is carried out, and pieces smaller than those that large files are
//! written in are gathered until there is one: whoever brings the last of it waits for all. The bytes that reach the
//! disk, and what of them survives, are the same.

pub(crate) struct Gathering {
    /// Simulated bytes over real ones.
    part: f64,
    bytes: u64,
    syncs: f64,
}

impl Gathering {
    pub fn new(part: f64) -> Self {
        Self { part, bytes: 0, syncs: 0.0 }
    }

    /// What a write of `bytes` hands to the disk, which large files are written to in pieces of `piece`.
    pub fn write(&mut self, bytes: u64, piece: u64) -> Option<u64> {
        if self.part >= 1.0 || bytes >= piece {
            return Some(bytes);
        }
        self.bytes += bytes;
        (self.bytes >= piece).then(|| std::mem::take(&mut self.bytes))
    }

    /// Whether a sync is carried out.
    pub fn sync(&mut self) -> bool {
        self.syncs += self.part;
        let is_due = self.syncs >= 1.0;
        if is_due {
            self.syncs -= 1.0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_nothing_is_gathered() {
        let mut full = Gathering::new(1.0);
        assert!((0..100).all(|bytes| full.write(bytes, 512) == Some(bytes) && full.sync()));
    }

    #[test]
    fn small_pieces_are_handed_over_together_and_syncs_seldom() {
        let mut scaled = Gathering::new(1.0 / 4.0);
        let handed: Vec<_> = (0..8).filter_map(|_| scaled.write(100, 300)).collect();
        assert_eq!(handed, [300, 300]);
        assert_eq!(scaled.write(400, 300), Some(400));
        assert_eq!((0..40).filter(|_| scaled.sync()).count(), 10);
    }
}
