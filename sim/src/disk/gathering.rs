//! What comes once a file, in a smaller experiment.
//!
//! Scaled files come as much more often as they are smaller. What takes its time whatever a file's size (making it
//! durable, the write of its last piece, the calls that create, open, name and remove it, and each time the turn that
//! the task waits for behind all the others of its shard) would then take as much more of the disk, and of who waits, as
//! it does in full size. So of such syncs and calls one in as many is carried out, and the others are done at once;
//! pieces smaller than those that large files are written in are gathered until there is one: whoever brings the last of
//! it waits for all. The bytes that reach the disk, and what of them survives, are the same.

/// The engine writes SSTables in pieces of this size.
pub(crate) const PIECE_BYTES: u64 = 512 << 10;

/// What is carried out as seldom as in full size.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Once {
    Sync,
    /// Waits for no disk.
    Call,
    /// Of so many bytes into the page cache, where large files are written in pieces too.
    CachedWrite(u64),
}

pub(crate) struct Gathering {
    /// Simulated bytes over real ones.
    part: f64,
    bytes: u64,
    syncs: f64,
    calls: f64,
}

impl Gathering {
    pub fn new(part: f64) -> Self {
        Self { part, bytes: 0, syncs: 0.0, calls: 0.0 }
    }

    /// What a write of `bytes` hands to the disk, which large files are written to in pieces of `piece`.
    pub fn write(&mut self, bytes: u64, piece: u64) -> Option<u64> {
        if self.part >= 1.0 || bytes >= piece {
            return Some(bytes);
        }
        self.bytes += bytes;
        (self.bytes >= piece).then(|| std::mem::take(&mut self.bytes))
    }

    /// Whether a write of `bytes` would be kept until there is more.
    pub fn keeps(&self, bytes: u64, piece: u64) -> bool {
        self.part < 1.0 && self.bytes + bytes < piece
    }

    /// Whether what comes now takes its time.
    pub fn carries_out(&mut self, once: Once) -> bool {
        let due = self.due(once);
        let is_carried_out = due >= 1.0;
        *match once {
            Once::Sync => &mut self.syncs,
            Once::Call | Once::CachedWrite(_) => &mut self.calls,
        } = due - f64::from(u8::from(is_carried_out));
        is_carried_out
    }

    /// Whether what comes now would take none.
    pub fn spares(&self, once: Once) -> bool {
        self.due(once) < 1.0
    }

    fn due(&self, once: Once) -> f64 {
        match once {
            Once::Sync => self.syncs + self.part,
            Once::Call => self.calls + self.part,
            Once::CachedWrite(_) if self.part >= 1.0 => 1.0,
            Once::CachedWrite(bytes) => self.calls + (bytes as f64 / PIECE_BYTES as f64).min(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_full_size_nothing_is_gathered() {
        let mut full = Gathering::new(1.0);
        for bytes in 0..100 {
            assert!(!full.keeps(bytes, 512) && !full.spares(Once::Sync) && !full.spares(Once::Call));
            assert!(!full.spares(Once::CachedWrite(bytes)));
            assert!(full.write(bytes, 512) == Some(bytes) && full.carries_out(Once::Sync));
            assert!(full.carries_out(Once::Call) && full.carries_out(Once::CachedWrite(bytes)));
        }
    }

    #[test]
    fn small_pieces_are_handed_over_together_and_syncs_and_calls_seldom() {
        let mut scaled = Gathering::new(1.0 / 4.0);
        let handed: Vec<_> = (0..8).filter_map(|_| scaled.write(100, 300)).collect();
        assert_eq!(handed, [300, 300]);
        assert_eq!(scaled.write(400, 300), Some(400));
        assert_eq!((0..40).filter(|_| scaled.carries_out(Once::Sync)).count(), 10);
        assert_eq!((0..40).filter(|_| scaled.carries_out(Once::Call)).count(), 10);
        assert_eq!((0..40).filter(|_| scaled.carries_out(Once::CachedWrite(PIECE_BYTES / 8))).count(), 5);
        assert!(scaled.carries_out(Once::CachedWrite(4 * PIECE_BYTES)));
    }

    #[test]
    fn what_would_be_spared_is() {
        let mut scaled = Gathering::new(1.0 / 3.0);
        for _ in 0..20 {
            assert_eq!(scaled.spares(Once::Sync), !scaled.carries_out(Once::Sync));
            assert_eq!(scaled.spares(Once::Call), !scaled.carries_out(Once::Call));
            assert_eq!(scaled.keeps(100, 250), scaled.write(100, 250).is_none());
        }
    }
}
