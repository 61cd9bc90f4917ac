//! One direction of a drive: its limits first, then a channel for the time that a request takes by itself.

use super::channels::Channels;
use super::limits::Limits;
use crate::latency::Latency;
use crate::server::Served;

pub(crate) struct Side {
    pub limits: Limits,
    channels: Channels,
    service: Latency,
}

/// A request as its drive counts it.
#[derive(Clone, Copy)]
pub(crate) struct Demand {
    pub at: u64,
    /// It does not begin before.
    pub not_before: u64,
    pub operations: u64,
    pub bytes: u64,
    /// Share of the direction's rates that is left for it.
    pub share: f64,
    pub random: u64,
}

impl Side {
    pub fn new(limits: Limits, channels: usize, service: Latency) -> Self {
        Self { limits, channels: Channels::new(channels), service }
    }

    #[inline]
    pub fn serve(&mut self, demand: Demand) -> Served {
        let admitted = self.limits.admit(demand.at, demand.operations, demand.bytes, demand.share);
        let service_ns = self.service.sample(demand.random) + self.limits.transfer_ns(demand.bytes);
        self.channels.occupy(admitted.max(demand.not_before), service_ns)
    }
}
