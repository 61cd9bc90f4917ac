//! Messages that leave together: a writer that has something to send waits for more, where more is to be expected soon.
//!
//! It is the strategy TIMEHORIZON of Apache Cassandra 2.2 and 3.0 (`utils/CoalescingStrategies.java`): the average gap
//! between messages to the peer is counted in buckets of 67 ms, and a writer waits for as long as its messages are
//! expected to be joined by as many again, and doubles that while it stays below the window.

use std::time::Duration;

/// 2^26 ns and 16 buckets, of which the newest is not full and does not count yet.
const BUCKET_BITS: u32 = 26;
const BUCKETS: usize = 16;

pub(super) struct Coalescing {
    window_ns: u64,
    messages: [u64; BUCKETS],
    /// Number of the newest bucket: its beginning in ns, by its length.
    newest: u64,
}

impl Coalescing {
    pub fn new(window: Duration) -> Self {
        Self { window_ns: window.as_nanos() as u64, messages: [0; BUCKETS], newest: 0 }
    }

    /// Counts messages that are being sent.
    pub fn count(&mut self, now_ns: u64, messages: u64) {
        let bucket = now_ns >> BUCKET_BITS;
        for passed in (self.newest + 1..=bucket).rev().take(BUCKETS) {
            self.messages[passed as usize % BUCKETS] = 0;
        }
        self.newest = self.newest.max(bucket);
        self.messages[self.newest as usize % BUCKETS] += messages;
    }

    /// Average time between two messages; `None` while there were none.
    fn gap_ns(&self) -> Option<u64> {
        let newest = self.newest as usize % BUCKETS;
        let counted: u64 = self.messages.iter().sum::<u64>() - self.messages[newest];
        Some((((BUCKETS as u64 - 1) << BUCKET_BITS) / counted.max(1)).max(1)).filter(|_| counted > 0)
    }

    /// How long a writer that has `messages` waits for others; `None`: not at all.
    pub fn wait(&self, messages: u64) -> Option<Duration> {
        let mut wait_ns = messages.max(1) * self.gap_ns()?;
        if wait_ns > self.window_ns {
            return None;
        }
        while wait_ns * 2 < self.window_ns {
            wait_ns *= 2;
        }
        Some(Duration::from_nanos(wait_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wait of a writer with `messages`, in us, after 2 s of a message every `gap_us`.
    fn wait_us(gap_us: u64, messages: u64) -> Option<u64> {
        let mut coalescing = Coalescing::new(Duration::from_micros(200));
        (0..2_000_000 / gap_us).for_each(|i| coalescing.count(i * gap_us * 1000, 1));
        coalescing.wait(messages).map(|wait| (wait.as_nanos() as u64 + 500) / 1000)
    }

    #[test]
    fn a_writer_waits_while_as_many_messages_again_are_expected_within_the_window() {
        assert_eq!(wait_us(150, 1), Some(150));
        assert_eq!(wait_us(40, 1), Some(160));
        assert_eq!(wait_us(40, 4), Some(160));
        assert_eq!(wait_us(40, 6), None);
        assert_eq!(wait_us(250, 1), None);
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let mut coalescing = Coalescing::new(Duration::from_micros(200));
        assert_eq!(coalescing.wait(1), None);
        (0..10_000).for_each(|i| coalescing.count(i * 100_000, 1));
        assert!(coalescing.wait(1).is_some());
        coalescing.count(3_000_000_000, 1);
        assert_eq!(coalescing.wait(1), None);
        assert_eq!(coalescing.messages.iter().sum::<u64>(), 1);
    }
}
