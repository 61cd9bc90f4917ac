//! Flushes of a volatile cache: one at a time, and those that wait for it are done together.

pub(crate) struct FlushQueue {
    flush_ns: u64,
    /// Nothing volatile is there: a flush waits for no other.
    is_protected: bool,
    /// End of the flush under way, and of the one that waits for it.
    ends_at: u64,
    next_ends_at: u64,
}

impl FlushQueue {
    pub fn new(flush_ns: u64, is_protected: bool) -> Self {
        Self { flush_ns, is_protected, ends_at: 0, next_ends_at: 0 }
    }

    /// When a flush that is asked for at `at` is done.
    pub fn flush(&mut self, at: u64) -> u64 {
        if self.is_protected {
            return at + self.flush_ns;
        }
        if at >= self.ends_at {
            // The one that waited has begun when this one ended.
            self.ends_at = self.next_ends_at.max(self.ends_at);
        }
        if at >= self.ends_at {
            self.ends_at = at + self.flush_ns;
            self.next_ends_at = self.ends_at;
            return self.ends_at;
        }
        self.next_ends_at = self.ends_at + self.flush_ns;
        self.next_ends_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_that_wait_are_done_together() {
        let mut queue = FlushQueue::new(500_000, false);
        assert_eq!(queue.flush(0), 500_000);
        assert_eq!(queue.flush(100_000), 1_000_000);
        assert_eq!(queue.flush(400_000), 1_000_000);
        assert_eq!(queue.flush(600_000), 1_500_000);
        assert_eq!(queue.flush(5_000_000), 5_500_000);
    }

    #[test]
    fn a_protected_cache_is_flushed_at_once() {
        let mut queue = FlushQueue::new(10_000, true);
        assert_eq!((queue.flush(0), queue.flush(5_000)), (10_000, 15_000));
    }
}
