//! How many requests a device works on at once: the others wait for the channel that is free first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::server::Served;

pub(crate) struct Channels(BinaryHeap<Reverse<u64>>);

impl Channels {
    pub fn new(channels: usize) -> Self {
        Self((0..channels.max(1)).map(|_| Reverse(0)).collect())
    }

    /// When a request that comes at `at` gets a channel, which it holds until what `serve` gives for that moment.
    pub fn hold(&mut self, at: u64, serve: impl FnOnce(u64) -> u64) -> u64 {
        let mut channel = self.0.peek_mut().expect("a device has at least one channel");
        channel.0 = serve(channel.0.max(at));
        channel.0
    }

    /// A request that may begin at `begin` and takes `service_ns`.
    #[inline]
    pub fn occupy(&mut self, begin: u64, service_ns: u64) -> Served {
        let mut channel = self.0.peek_mut().expect("a device has at least one channel");
        let starts_at = channel.0.max(begin);
        channel.0 = starts_at + service_ns;
        Served { starts_at, ends_at: channel.0 }
    }
}
