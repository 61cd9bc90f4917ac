//! What a device admits: operations a second and bytes a second, each a queue of its own; the longer one counts.

use crate::server::RateServer;

/// Where a cap is not what the wire carries: about 1 GB/s between an instance and a volume, assumed.
const LINE_NS_PER_BYTE: f64 = 1.0;

pub(crate) struct Limits {
    operations: RateServer,
    bytes: RateServer,
    ns_per_operation: f64,
    ns_per_byte: f64,
    /// Of the wire between host and device.
    line_ns_per_byte: f64,
    /// A bucket of tokens holds as many as come in during this time: so much backlog keeps nobody waiting.
    tokens_ns: u64,
    busy_ns: f64,
}

impl Limits {
    pub fn new(iops: f64, bandwidth: f64) -> Self {
        Self::with_servers(RateServer::new(iops), RateServer::new(bandwidth), iops, bandwidth)
    }

    /// `iops` and `bandwidth` are what the servers do at best.
    pub fn with_servers(operations: RateServer, bytes: RateServer, iops: f64, bandwidth: f64) -> Self {
        Self {
            operations,
            bytes,
            ns_per_operation: 1e9 / iops,
            ns_per_byte: 1e9 / bandwidth,
            line_ns_per_byte: 1e9 / bandwidth,
            tokens_ns: 0,
            busy_ns: 0.0,
        }
    }

    /// Caps that are counted in tokens, not served by a device.
    pub fn by_tokens(self, tokens_ns: u64) -> Self {
        Self { tokens_ns, line_ns_per_byte: LINE_NS_PER_BYTE, ..self }
    }

    /// ns for which the request has the device's rates for itself: the share of a second that it uses up.
    #[inline]
    pub fn cost_ns(&self, operations: u64, bytes: u64) -> f64 {
        (operations as f64 * self.ns_per_operation).max(bytes as f64 * self.ns_per_byte)
    }

    /// ns that the bytes take to transfer.
    #[inline]
    pub fn transfer_ns(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.line_ns_per_byte) as u64
    }

    /// When a request may begin, at `share` of the rates.
    #[inline]
    pub fn admit(&mut self, at: u64, operations: u64, bytes: u64, share: f64) -> u64 {
        let cost_ns = self.cost_ns(operations, bytes);
        let (operations, bytes) = if share >= 1.0 {
            self.busy_ns += cost_ns;
            (self.operations.serve(at, operations), self.bytes.serve(at, bytes))
        } else {
            self.busy_ns += cost_ns / share;
            (self.operations.serve_slowed(at, operations, share), self.bytes.serve_slowed(at, bytes, share))
        };
        operations.starts_at.max(bytes.starts_at).saturating_sub(self.tokens_ns).max(at)
    }

    /// ns of its rates used so far: over a time, its utilisation.
    pub fn busy_ns(&self) -> u64 {
        self.busy_ns as u64
    }
}
