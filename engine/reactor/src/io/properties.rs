//! What is known of the disks: rates by mount point, in the words of Scylla's `io_properties.yaml`.

/// A read or a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Small operations and bytes a second, of each direction alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    pub read_iops: u64,
    pub read_bandwidth: u64,
    pub write_iops: u64,
    pub write_bandwidth: u64,
}

impl Rates {
    /// One of `shards` equal parts.
    pub(crate) fn share(&self, shards: usize) -> Self {
        let part = |rate: u64| (rate / shards.max(1) as u64).max(1);
        Self {
            read_iops: part(self.read_iops),
            read_bandwidth: part(self.read_bandwidth),
            write_iops: part(self.write_iops),
            write_bandwidth: part(self.write_bandwidth),
        }
    }

    #[inline]
    pub(crate) fn cost_ns(&self, direction: Direction, bytes: u64) -> u64 {
        let (iops, bandwidth) = match direction {
            Direction::Read => (self.read_iops, self.read_bandwidth),
            Direction::Write => (self.write_iops, self.write_bandwidth),
        };
        // An operation has at most 4 GiB: 2^32 * 10^9 fits.
        1_000_000_000 / iops.max(1) + bytes * 1_000_000_000 / bandwidth.max(1)
    }
}

/// What is known of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Files under this path lie on it.
    pub mountpoint: String,
    /// Of the whole node.
    pub rates: Rates,
}

/// How a node's shards share its disks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoConfig {
    /// None: nothing is known, and only the number of operations in flight is bounded. Files elsewhere are on a disk
    /// of which nothing is known.
    pub disks: Vec<Disk>,
    /// What is in flight on a disk should be done within this time.
    pub latency_goal_ns: u64,
    /// Operations of one shard in flight on a disk at most.
    pub depth_max: u32,
}

impl Default for IoConfig {
    fn default() -> Self {
        // The goal: two task quotas. 256 in flight are what the fastest devices need to be busy, and a quarter of what
        // a kernel's queue for one device usually holds (`nr_requests` of NVMe: 1023).
        Self { disks: Vec::new(), latency_goal_ns: 1_000_000, depth_max: 256 }
    }
}
