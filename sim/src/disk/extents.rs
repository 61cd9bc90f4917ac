//! Where files lie: how many pieces a file is in decides what is asked of the disk when it is removed.
//!
//! As in ext4 (`ext4_mb_normalize_request` of its `mballoc.c`): a file that grows is given more than it asks for, up to
//! 8 MiB at once, behind what was given last to any file. So a file that grows alone is in one piece, and files that
//! grow together are in pieces of that size. An extent ends where a block group does. The disk is taken to have room:
//! what is free between older files is not used again.

const MIB: u64 = 1 << 20;
/// A block group of blocks of 4 KiB.
const GROUP_BYTES: u64 = 128 * MIB;
const BLOCK_BYTES: u64 = 4 << 10;

/// A file's, in its order.
#[derive(Clone, Default)]
pub(super) struct Extents {
    lengths: Vec<u64>,
    /// Their sum.
    bytes: u64,
    /// Where on the disk the last one ends.
    end: u64,
}

impl Extents {
    /// Makes room for a file of `size` bytes on a disk that was given away up to `given`.
    pub fn grow(&mut self, size: u64, given: &mut u64) {
        let wanted = size.next_multiple_of(at_once(size));
        while self.bytes < wanted {
            let length = (wanted - self.bytes).min(GROUP_BYTES - *given % GROUP_BYTES);
            match self.lengths.last_mut() {
                Some(last) if self.end == *given && !given.is_multiple_of(GROUP_BYTES) => *last += length,
                _ => self.lengths.push(length),
            }
            self.bytes += length;
            *given += length;
            self.end = *given;
        }
    }

    /// Gives back the last extent of a file of `size` bytes: how many bytes of it the file had used.
    pub fn pop(&mut self, size: u64) -> Option<u64> {
        while let Some(length) = self.lengths.pop() {
            self.bytes -= length;
            let used = size.next_multiple_of(BLOCK_BYTES).saturating_sub(self.bytes).min(length);
            if used > 0 {
                return Some(used);
            }
        }
        None
    }
}

/// What a file of `size` bytes grows by.
fn at_once(size: u64) -> u64 {
    match size.div_ceil(MIB) {
        0..=1 => size.next_power_of_two().max(4 * BLOCK_BYTES),
        2..=4 => 2 * MIB,
        5..=8 => 4 * MIB,
        _ => 8 * MIB,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut extents: Extents, size: u64) -> Vec<u64> {
        std::iter::from_fn(|| extents.pop(size)).collect()
    }

    #[test]
    fn a_file_that_grows_alone_is_in_one_piece_and_two_at_once_are_in_many() {
        let (mut alone, mut given) = (Extents::default(), 3 * MIB);
        (1..=400).for_each(|half| alone.grow(half * MIB / 2, &mut given));
        assert_eq!(all(alone, 200 * MIB), [75 * MIB, 125 * MIB]);
        let (mut one, mut other, mut given) = (Extents::default(), Extents::default(), 0);
        for half in 1..=70 {
            one.grow(half * MIB / 2, &mut given);
            other.grow(half * MIB / 2, &mut given);
        }
        assert_eq!(all(one.clone(), 35 * MIB).iter().sum::<u64>(), 35 * MIB);
        assert_eq!(all(one, 35 * MIB)[..3], [3 * MIB, 8 * MIB, 8 * MIB]);
    }

    #[test]
    fn what_was_given_and_not_used_is_not_in_use() {
        let (mut file, mut given) = (Extents::default(), 0);
        assert_eq!(file.pop(0), None);
        file.grow(10, &mut given);
        assert_eq!((given, file.pop(10), file.pop(10)), (16 << 10, Some(4096), None));
    }
}
