//! Which segments there are: needed, free to be used again, being removed.

use std::collections::VecDeque;

/// Segments kept for reuse; more are removed. Two: one in hand while the next is being taken.
const FREE_MAX: usize = 2;

pub(super) struct Segments {
    /// By age; the last is being written.
    live: VecDeque<u64>,
    free: VecDeque<u64>,
    surplus: Vec<u64>,
    released_before: u64,
}

impl Segments {
    pub fn new(old: Vec<u64>) -> Self {
        Self { live: old.into(), free: VecDeque::new(), surplus: Vec::new(), released_before: 0 }
    }

    pub fn live(&self) -> usize {
        self.live.len()
    }

    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// The writer has begun `segment`.
    pub fn begun(&mut self, segment: u64) {
        self.live.push_back(segment);
        self.release_before(self.released_before);
    }

    pub fn release_before(&mut self, segment: u64) {
        self.released_before = self.released_before.max(segment);
        // The newest may still be written to.
        while self.live.len() > 1 && self.live[0] < self.released_before {
            let Some(released) = self.live.pop_front() else { return };
            if self.free.len() < FREE_MAX {
                self.free.push_back(released);
            } else {
                self.surplus.push(released);
            }
        }
    }

    pub fn take_free(&mut self) -> Option<u64> {
        self.free.pop_front()
    }

    pub fn take_surplus(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.surplus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_segments_are_kept_then_removed() {
        let mut segments = Segments::new(vec![1, 2, 3, 4]);
        segments.begun(5);
        segments.release_before(5);
        assert_eq!((segments.live(), segments.free(), segments.take_surplus()), (1, 2, vec![3, 4]));
        segments.release_before(9);
        assert_eq!(segments.live(), 1, "the newest stays");
        segments.begun(6);
        assert_eq!((segments.live(), segments.take_surplus()), (1, vec![5]));
        assert_eq!(segments.take_free(), Some(1));
    }
}
