//! A disk's timing: when a request that arrives now is done.
//!
//! A request counts against the operations and the bandwidth limit of its direction (and of both directions together,
//! where the disk or its host has such a cap); the longest of these queues decides when it begins. It then takes one of
//! the direction's channels for a service time drawn from its distribution, and the time that its bytes take to
//! transfer. So the device saturates by operations, by bytes, or by outstanding requests, whichever comes first.
//!
//! A device is a RAID 0 of one drive or more, of the [`super::flash`], the [`super::ebs`] or the [`super::virtio`]
//! family, with a controller's [`super::write_back_cache`] in front or not.

use super::ebs::TOKENS_NS;
use super::model::DiskModel;
use super::part::limits::Limits;
use super::raid0::Raid0;
use super::write_back_cache::WriteBackCache;
use crate::random::Generator;
use crate::server::RateServer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// What is asked of a device.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub direction: Direction,
    /// Where on the device, in bytes.
    pub place: u64,
    pub bytes: u64,
}

/// A limit that several disks of a host share: network volumes together. Requests count once per 256 KiB begun.
pub struct SharedLimits(Limits);

/// What an instance's volumes may do together: for ever, and while credits last.
#[derive(Clone, Copy, Debug)]
pub struct VolumeCaps {
    pub iops: f64,
    pub bandwidth: f64,
    pub burst_iops: f64,
    pub burst_bandwidth: f64,
    /// How long full buckets hold the burst rates.
    pub burst_s: f64,
}

const VOLUME_UNIT: u64 = 256 << 10;

impl SharedLimits {
    pub fn new(caps: VolumeCaps) -> Self {
        let server = |base: f64, burst: f64| RateServer::with_burst(base, burst, (burst - base) * caps.burst_s);
        let operations = server(caps.iops, caps.burst_iops);
        let bytes = server(caps.bandwidth, caps.burst_bandwidth);
        let (iops, bandwidth) = (caps.burst_iops.max(caps.iops), caps.burst_bandwidth.max(caps.bandwidth));
        Self(Limits::with_servers(operations, bytes, iops, bandwidth).by_tokens(TOKENS_NS))
    }

    pub fn admit(&mut self, at: u64, bytes: u64) -> u64 {
        self.0.admit(at, bytes.div_ceil(VOLUME_UNIT).max(1), bytes, 1.0)
    }

    /// Time at the limit of its rates that what was admitted amounts to, in ns.
    pub fn busy_ns(&self) -> u64 {
        self.0.busy_ns()
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
    /// Of that, before the device began with them: held back by caps of the host, and in the device's queue.
    pub throttled_ns: u64,
    pub wait_ns: u64,
    /// Time at the limit of its rates that its work amounts to.
    pub busy_ns: u64,
}

pub struct Device {
    model: DiskModel,
    cache: Option<WriteBackCache>,
    drives: Raid0,
    stalled_until: u64,
    counters: DiskCounters,
}

impl Device {
    pub fn new(model: DiskModel, mut random: Generator) -> Self {
        let cache = model.cache.clone().map(|cache| WriteBackCache::new(cache, random.split()));
        let drives = Raid0::new(&model, random);
        Self { cache, drives, stalled_until: 0, counters: DiskCounters::default(), model }
    }

    pub fn model(&self) -> &DiskModel {
        &self.model
    }

    pub fn counters(&self) -> DiskCounters {
        DiskCounters { busy_ns: self.drives.busy_ns(), ..self.counters }
    }

    /// Bytes a second that it can write.
    pub fn write_bandwidth(&self) -> f64 {
        self.model.write.bandwidth * self.model.members as f64
    }

    /// Nothing begins before `until`: a fault.
    pub fn stall(&mut self, until: u64) {
        self.stalled_until = self.stalled_until.max(until);
    }

    /// When a request that arrives at `at` is done, unless that is put off. `admitted`: not to begin before (caps of the
    /// host).
    pub fn serve(&mut self, at: u64, admitted: u64, request: Request) -> u64 {
        let not_before = admitted.max(self.stalled_until);
        let served = match (&mut self.cache, request.direction) {
            (Some(cache), Direction::Write) => cache.write(at, not_before, request, &mut self.drives),
            _ => self.drives.serve(at, not_before, request),
        };
        let counters = &mut self.counters;
        match request.direction {
            Direction::Read => {
                counters.reads += 1;
                counters.read_bytes += request.bytes;
            }
            Direction::Write => {
                counters.writes += 1;
                counters.write_bytes += request.bytes;
            }
        }
        counters.latency_ns += served.ends_at - at;
        counters.throttled_ns += admitted - at.min(admitted);
        counters.wait_ns += served.starts_at.saturating_sub(admitted.max(at));
        served.ends_at
    }

    /// What the last request is answered with, where later ones put that off.
    pub fn batch(&self) -> Option<u64> {
        if self.cache.is_some() { None } else { self.drives.batch() }
    }

    /// When a batch is answered, by all that has come; `None` when that is over.
    pub fn answered_at(&self, batch: u64) -> Option<u64> {
        self.drives.answered_at(batch)
    }

    /// When it knows that `bytes` of a removed file are not used any more.
    pub fn discard(&mut self, at: u64, bytes: u64) -> u64 {
        self.drives.discard(at.max(self.stalled_until), bytes)
    }

    /// When a flush of the device's cache that is asked for at `at` is done.
    pub fn flush(&mut self, at: u64) -> u64 {
        self.counters.flushes += 1;
        self.drives.flush(at.max(self.stalled_until))
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;
    use crate::disk::model::{CacheModel, DirectionModel, FilledModel, Kind};
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
            let place = done * bytes;
            in_flight.push(Reverse((device.serve(at, at, Request { direction, place, bytes }), at)));
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
    fn the_volume_counts_started_units() {
        let mut volume = model();
        volume.kind = Kind::NetworkVolume;
        volume.accounting_unit = 256 << 10;
        volume.total = Some((1_000.0, 1e9));
        let (rate, _) = load(&mut Device::new(volume, Generator::new(1)), 32, |_| (Direction::Read, 512 << 10));
        assert!((480..550).contains(&rate), "{rate}");
    }

    #[test]
    fn a_filled_drive_slows_down_when_its_clean_blocks_are_used_up() {
        let mut filled = model();
        filled.write.iops = 200_000.0;
        filled.write.bandwidth = 4e9;
        filled.channels = 64;
        let write = |_| (Direction::Write, 4096);
        let rate = |clean_bytes| {
            let filled =
                DiskModel { filled: Some(FilledModel { write_iops: 50_000.0, clean_bytes }), ..filled.clone() };
            load(&mut Device::new(filled, Generator::new(1)), 64, write).0
        };
        assert!((198_000..201_000).contains(&rate(1e12)), "{}", rate(1e12));
        assert!((49_000..51_000).contains(&rate(4096.0)), "{}", rate(4096.0));
        // 75,000 clean blocks last for half a second at 150,000 more than collection makes.
        let half = rate(75_000.0 * 4096.0);
        assert!((123_000..127_000).contains(&half), "{half}");
    }

    #[test]
    fn a_cache_takes_writes_until_it_is_full() {
        let mut cached = model();
        cached.write.bandwidth = 100e6;
        cached.cache = Some(CacheModel { size: 50_000_000, latency: Latency::constant(20_000), bandwidth: 4e9 });
        let mut device = Device::new(cached, Generator::new(1));
        let mut write =
            |at| device.serve(at, at, Request { direction: Direction::Write, place: 0, bytes: 1 << 20 }) - at;
        let latencies: Vec<u64> = (0..100).map(|n| write(n * 5_000_000) / 1000).collect();
        // 200 MB/s come and 100 MB/s go: 50 MB are full after half a second, and then each write waits for its room.
        assert!(latencies[..85].iter().all(|&us| us < 400), "{latencies:?}");
        assert!(latencies[99] > 10_000, "{latencies:?}");
    }
}
