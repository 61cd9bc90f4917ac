//! A disk's timing: when a request that arrives now is done.
//!
//! A request counts against the operations and the bandwidth limit of its direction (and of both directions together,
//! where the disk or its host has such a cap); the longest of these queues decides when it begins. It then takes one of
//! the device's channels for a service time drawn from the direction's distribution, and the time that its bytes take
//! to transfer. So the device saturates by operations, by bytes, or by outstanding requests, whichever comes first.
//!
//! Writes slow reads down along the family's curve: the share of the write maximum that was in use over the last
//! milliseconds decides what is left of the read rates.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::model::DiskModel;
use crate::random::Generator;
use crate::server::RateServer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

struct Limits {
    operations: RateServer,
    bytes: RateServer,
}

impl Limits {
    fn new(iops: f64, bandwidth: f64) -> Self {
        Self { operations: RateServer::new(iops), bytes: RateServer::new(bandwidth) }
    }

    /// When a request may begin.
    fn admit(&mut self, at: u64, operations: u64, bytes: u64) -> u64 {
        let operations = self.operations.serve(at, operations).starts_at;
        operations.max(self.bytes.serve(at, bytes).starts_at)
    }

    fn admit_slowed(&mut self, at: u64, operations: u64, bytes: u64, share: f64) -> u64 {
        let operations = self.operations.serve_slowed(at, operations, share).starts_at;
        operations.max(self.bytes.serve_slowed(at, bytes, share).starts_at)
    }
}

/// A limit that several disks of a host share: network volumes together.
pub struct SharedLimits(Limits);

impl SharedLimits {
    pub fn new(iops: f64, bandwidth: f64) -> Self {
        Self(Limits::new(iops, bandwidth))
    }

    pub fn admit(&mut self, at: u64, bytes: u64) -> u64 {
        self.0.admit(at, bytes.div_ceil(256 << 10).max(1), bytes)
    }
}

/// How much of the write maximum was in use lately: a leaky integral over `WRITE_MEMORY_NS`.
const WRITE_MEMORY_NS: u64 = 5_000_000;

#[derive(Default)]
struct WriteShare {
    seen_at: u64,
    /// Server time of the writes remembered, ns.
    busy_ns: f64,
}

impl WriteShare {
    fn decay(&mut self, at: u64) {
        if at > self.seen_at {
            let passed = (at - self.seen_at) as f64 / WRITE_MEMORY_NS as f64;
            self.busy_ns *= (1.0 - passed).max(0.0);
            self.seen_at = at;
        }
    }

    fn share(&mut self, at: u64) -> f64 {
        self.decay(at);
        (self.busy_ns / WRITE_MEMORY_NS as f64).min(1.0)
    }
}

/// What a device did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    pub reads: u64,
    pub read_bytes: u64,
    pub writes: u64,
    pub write_bytes: u64,
    pub flushes: u64,
    /// Sum of the requests' times in queue and device.
    pub latency_ns: u64,
}

pub struct Device {
    model: DiskModel,
    /// When each channel is free.
    channels: BinaryHeap<Reverse<u64>>,
    read: Limits,
    write: Limits,
    total: Option<Limits>,
    credits: Option<RateServer>,
    write_share: WriteShare,
    /// End of the flush under way, and of the one that waits for it.
    flush_ends_at: u64,
    next_flush_ends_at: u64,
    stalled_until: u64,
    random: Generator,
    counters: DiskCounters,
}

impl Device {
    pub fn new(model: DiskModel, random: Generator) -> Self {
        Self {
            channels: (0..model.channels).map(|_| Reverse(0)).collect(),
            read: Limits::new(model.read.iops, model.read.bandwidth),
            write: Limits::new(model.write.iops, model.write.bandwidth),
            total: model.total.map(|(iops, bandwidth)| Limits::new(iops, bandwidth)),
            credits: model.credits.as_ref().map(|c| RateServer::with_burst(c.baseline, c.burst, c.full)),
            write_share: WriteShare::default(),
            flush_ends_at: 0,
            next_flush_ends_at: 0,
            stalled_until: 0,
            random,
            counters: DiskCounters::default(),
            model,
        }
    }

    pub fn model(&self) -> &DiskModel {
        &self.model
    }

    pub fn counters(&self) -> DiskCounters {
        self.counters
    }

    /// Nothing begins before `until`: a fault.
    pub fn stall(&mut self, until: u64) {
        self.stalled_until = self.stalled_until.max(until);
    }

    /// When a request of `bytes` that arrives at `at` is done. `admitted`: not to begin before (caps of the host).
    pub fn serve(&mut self, at: u64, admitted: u64, direction: Direction, bytes: u64) -> u64 {
        let operations = bytes.div_ceil(self.model.accounting_unit).max(1);
        let mut begin = admitted.max(self.stalled_until).max(match direction {
            Direction::Write => {
                if !self.model.interference.is_empty() {
                    self.write_share.decay(at);
                    let by_operations = self.write.operations.time_of(operations);
                    self.write_share.busy_ns += by_operations.max(self.write.bytes.time_of(bytes)) as f64;
                }
                self.write.admit(at, operations, bytes)
            }
            Direction::Read if self.model.interference.is_empty() => self.read.admit(at, operations, bytes),
            Direction::Read => {
                let left = reads_left(&self.model.interference, self.write_share.share(at));
                self.read.admit_slowed(at, operations, bytes, left)
            }
        });
        if let Some(total) = &mut self.total {
            begin = begin.max(total.admit(at, operations, bytes));
        }
        if let Some(credits) = &mut self.credits {
            begin = begin.max(credits.serve(at, operations).starts_at);
        }
        let (side, limits) = match direction {
            Direction::Read => (&self.model.read, &self.read),
            Direction::Write => (&self.model.write, &self.write),
        };
        let service = side.service.sample(self.random.next_u64()) + limits.bytes.time_of(bytes);
        let mut channel = self.channels.peek_mut().expect("a device has at least one channel");
        let ends_at = channel.0.max(begin) + service;
        channel.0 = ends_at;
        drop(channel);
        match direction {
            Direction::Read => {
                self.counters.reads += 1;
                self.counters.read_bytes += bytes;
            }
            Direction::Write => {
                self.counters.writes += 1;
                self.counters.write_bytes += bytes;
            }
        }
        self.counters.latency_ns += ends_at - at;
        ends_at
    }

    /// When a flush of the device's cache that is asked for at `at` is done. Flushes that wait are done together.
    pub fn flush(&mut self, at: u64) -> u64 {
        self.counters.flushes += 1;
        let at = at.max(self.stalled_until);
        if self.model.power_loss_protected {
            return at + self.model.flush_ns;
        }
        if at >= self.flush_ends_at {
            // The one that waited has begun when this one ended.
            self.flush_ends_at = self.next_flush_ends_at.max(self.flush_ends_at);
        }
        if at >= self.flush_ends_at {
            self.flush_ends_at = at + self.model.flush_ns;
            self.next_flush_ends_at = self.flush_ends_at;
            return self.flush_ends_at;
        }
        self.next_flush_ends_at = self.flush_ends_at + self.model.flush_ns;
        self.next_flush_ends_at
    }
}

/// Straight lines between the points, from (0, 1).
fn reads_left(points: &[(f64, f64)], writes: f64) -> f64 {
    let (mut x0, mut y0) = (0.0, 1.0);
    for &(x1, y1) in points {
        if writes <= x1 {
            return if x1 > x0 { y0 + (y1 - y0) * (writes - x0) / (x1 - x0) } else { y1 };
        }
        (x0, y0) = (x1, y1);
    }
    y0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::model::DirectionModel;
    use crate::latency::Latency;

    fn model() -> DiskModel {
        let direction =
            |iops, service_ns| DirectionModel { iops, bandwidth: 1e9, service: Latency::constant(service_ns) };
        DiskModel {
            channels: 16,
            read: direction(100_000.0, 100_000),
            write: direction(50_000.0, 50_000),
            flush_ns: 500_000,
            ..DiskModel::fast("test")
        }
    }

    /// Keeps `depth` requests in flight for a second. Gives completions a second and the mean latency in us.
    fn load(device: &mut Device, depth: usize, mut pick: impl FnMut(u64) -> (Direction, u64)) -> (u64, u64) {
        let mut in_flight: BinaryHeap<Reverse<(u64, u64)>> = (0..depth).map(|_| Reverse((0, 0))).collect();
        let (mut done, mut latency) = (0, 0);
        while let Some(Reverse((at, began))) = in_flight.pop()
            && at < 1_000_000_000
        {
            done += 1;
            latency += at - began;
            let (direction, bytes) = pick(done);
            in_flight.push(Reverse((device.serve(at, 0, direction, bytes), at)));
        }
        (done, latency / done / 1000)
    }

    #[test]
    fn depth_one_pays_the_service_time_and_depth_saturates() {
        let read = |bytes| move |_| (Direction::Read, bytes);
        let rate = |depth, bytes| load(&mut Device::new(model(), Generator::new(1)), depth, read(bytes)).0;
        assert!((9_400..9_700).contains(&rate(1, 4096)), "{}", rate(1, 4096)); // 104 us each
        assert!((37_000..39_000).contains(&rate(4, 4096)), "{}", rate(4, 4096));
        // 16 channels of 104 us: 153k/s, so that the 100k operations bind.
        assert!((99_000..101_000).contains(&rate(256, 4096)), "{}", rate(256, 4096));
        let bytes = rate(64, 1 << 20) << 20;
        assert!((900_000_000..1_100_000_000).contains(&bytes), "{bytes}");
    }

    #[test]
    fn channels_limit_what_is_worked_on_at_once() {
        let mut few = model();
        few.channels = 4;
        let (rate, latency_us) = load(&mut Device::new(few, Generator::new(1)), 64, |_| (Direction::Read, 4096));
        assert!((37_000..39_500).contains(&rate), "{rate}");
        assert!((1_600..1_750).contains(&latency_us), "{latency_us}");
    }

    #[test]
    fn writes_slow_reads_down_along_the_curve() {
        let mut curve = model();
        curve.channels = 1024;
        curve.interference = vec![(0.5, 0.5), (1.0, 0.25)];
        let mixed = |n: u64| (if n.is_multiple_of(2) { Direction::Read } else { Direction::Write }, 512);
        let (with, _) = load(&mut Device::new(curve.clone(), Generator::new(1)), 512, mixed);
        curve.interference.clear();
        let (without, _) = load(&mut Device::new(curve, Generator::new(1)), 512, mixed);
        assert!((99_000..102_000).contains(&without), "{without}"); // half of it writes, at their maximum
        // As many reads as writes: 50k w = 100k (0.75 - 0.5 w), so w = 0.75 and 75k together.
        assert!((74_000..77_500).contains(&with), "{with}");
    }

    #[test]
    fn flushes_that_wait_are_done_together() {
        let mut device = Device::new(model(), Generator::new(1));
        assert_eq!(device.flush(0), 500_000);
        assert_eq!(device.flush(100_000), 1_000_000);
        assert_eq!(device.flush(400_000), 1_000_000);
        assert_eq!(device.flush(600_000), 1_500_000);
        assert_eq!(device.flush(5_000_000), 5_500_000);
    }

    #[test]
    fn the_volume_counts_started_units() {
        let mut volume = model();
        volume.accounting_unit = 256 << 10;
        volume.total = Some((1_000.0, 1e9));
        let (rate, _) = load(&mut Device::new(volume, Generator::new(1)), 32, |_| (Direction::Read, 512 << 10));
        assert!((480..540).contains(&rate), "{rate}");
    }
}
