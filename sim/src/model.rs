//! What a host and the network between hosts are made of, as plain numbers; profiles convert to these.

use std::sync::Arc;

use hwprofiles::{Disk, Instance, Moment, Moments, Network, Sampler, System, Threading};

use crate::cpu::CpuModel;
use crate::disk::device::VolumeCaps;
use crate::disk::model::DiskModel;
use crate::disk::page_cache::{PAGE_BYTES, READAHEAD_BYTES};
use crate::latency::Latency;

/// A NIC's limits, each direction, in bytes a second.
#[derive(Clone, Debug)]
pub struct NicModel {
    pub base: f64,
    pub burst: f64,
    /// Bytes above base that a full bucket allows.
    pub burst_credit: f64,
    /// Packets a second, in and out together.
    pub packets: Option<f64>,
}

impl NicModel {
    pub fn gigabits(gigabits: f64) -> Self {
        let base = gigabits * 1e9 / 8.0;
        Self { base, burst: base, burst_credit: 0.0, packets: None }
    }
}

/// What the kernel spends on packets that come in.
#[derive(Clone, Copy, Debug)]
pub struct InterruptModel {
    /// Processors that it has for that; 0: it takes them from the shards.
    pub cpus: usize,
    pub packet_ns: f64,
    pub ns_per_byte: f64,
}

#[derive(Clone, Debug)]
pub struct PauseModel {
    /// A pause each time this many bytes are young: allocated since the last one, or survivors.
    pub young_bytes: u64,
    /// Of every collection.
    pub pause: Latency,
    /// What copying survivors adds; `None`: there are none.
    pub copying: Option<CopyingModel>,
}

#[derive(Clone, Copy, Debug)]
pub struct CopyingModel {
    /// Of what has not been copied before, and of what has.
    pub first_bytes_per_s: f64,
    pub again_bytes_per_s: f64,
    pub tenuring_max: usize,
    /// Younger survivors than those that become old take so much at most, of a young generation of
    /// `PauseModel::young_bytes`, and in proportion of a smaller one.
    pub desired_bytes: u64,
    /// Collects as soon as it expects a longer pause, but not before `least_bytes` are young.
    pub target_ns: Option<u64>,
    pub least_bytes: u64,
    /// Takes room from the young generation; `None`: it has its own.
    pub old: Option<OldModel>,
}

#[derive(Clone, Copy, Debug)]
pub struct OldModel {
    /// Of both generations, without what is kept free.
    pub room_bytes: u64,
    /// From here on it is cleared down to `live_bytes`: `dead_regions` of the garbage when that is marked, the rest by
    /// the next `mixed` collections.
    pub mark_bytes: u64,
    pub live_bytes: u64,
    pub dead_regions: f64,
    pub mixed: u64,
}

/// From the last look for work until the processor sleeps: the way into the kernel and its idle loop, assumed.
const FALLING_ASLEEP_NS: u64 = 2_000;

/// What an idle processor does, and what it takes to wake it.
#[derive(Clone, Debug, Default)]
pub struct IdleModel {
    /// It looks for work for so long before it sleeps.
    pub busy_poll_ns: u64,
    /// From what wakes it until it works; `None`: no time.
    pub wake: Option<Latency>,
    /// It dozes so long before it sleeps, and then takes so long.
    pub doze: Option<DozeModel>,
    /// From a timer's time until it works; `None`: as from anything else that wakes it.
    pub timer: Option<Latency>,
}

#[derive(Clone, Debug)]
pub struct DozeModel {
    pub lasts_ns: u64,
    pub wake: Latency,
}

impl IdleModel {
    /// What it takes to wake a processor that has had no work for `idle_ns`: nothing where it is awake still.
    #[inline]
    pub(crate) fn wake_ns(&self, idle_ns: u64, random: impl FnOnce() -> u64) -> u64 {
        let Some(wake) = &self.wake else { return 0 };
        let Some(slept_ns) = idle_ns.checked_sub(self.busy_poll_ns + FALLING_ASLEEP_NS) else { return 0 };
        match &self.doze {
            Some(doze) if slept_ns < doze.lasts_ns => doze.wake.sample(random()),
            _ => wake.sample(random()),
        }
    }
}

/// What takes the processor from the shard that works on it. A pool's threads go on elsewhere.
#[derive(Clone, Debug)]
pub struct InterruptionModel {
    /// Of work, between two.
    pub every: Latency,
    pub lasts: Latency,
}

impl InterruptionModel {
    /// Independent of each other, `every_ns` on average.
    pub fn new(every_ns: u64, lasts: Latency) -> Self {
        Self { every: Latency::from_sampler(&Sampler::exponential(every_ns), 1), lasts }
    }
}

/// What processors are like as time goes by, as real ones were seen to be, over and over again.
#[derive(Clone, Debug)]
pub struct MomentsModel {
    every_ns: u64,
    /// By processor.
    spans: Arc<[Vec<Moment>]>,
}

impl MomentsModel {
    /// `None` where nothing was seen.
    pub fn new(seen: &Moments) -> Option<Self> {
        let spans: Arc<[Vec<Moment>]> = seen.spans.iter().filter(|spans| !spans.is_empty()).cloned().collect();
        (!spans.is_empty()).then_some(Self { every_ns: seen.every_ns.max(1), spans })
    }

    /// The number of the span that `now` is in.
    pub(crate) fn span(&self, now: u64) -> u64 {
        now / self.every_ns
    }

    #[inline]
    fn moment(&self, cpu: usize, span: u64) -> Moment {
        let spans = &self.spans[cpu % self.spans.len()];
        spans[(span % spans.len() as u64) as usize]
    }

    /// What work takes of its cost.
    #[inline]
    pub(crate) fn slowness(&self, cpu: usize, now: u64) -> f64 {
        f64::from(self.moment(cpu, self.span(now)).slowness)
    }

    /// When other threads take the processor in a span, and for how long: somewhere in it, evenly over many spans.
    pub(crate) fn taken(&self, cpu: usize, span: u64) -> (u64, u64) {
        // Something is left for the work, whatever was seen.
        let taken_ns = u64::from(self.moment(cpu, span).taken_ns).min(self.every_ns / 10 * 9);
        let free_ns = self.every_ns - taken_ns;
        // Multiples of the golden ratio, modulo 1, in 32 bits.
        let part = span.wrapping_mul(0x9e37_79b9) & 0xffff_ffff;
        (span * self.every_ns + ((free_ns * part) >> 32), taken_ns)
    }
}

#[derive(Clone, Debug)]
pub struct HostModel {
    pub name: String,
    pub shards: usize,
    /// Virtual CPUs under each shard: 1, or the size of a pool of threads that one shard stands for.
    pub cpus_per_shard: usize,
    pub cpu: CpuModel,
    pub idle: IdleModel,
    pub interruptions: Vec<InterruptionModel>,
    pub moments: Option<MomentsModel>,
    /// How long a task may run before it lets others go first; `None`: as long as on a machine.
    pub task_quota_ns: Option<u64>,
    /// CPU that a task which may give way has at once; `None`: as much as on a machine.
    pub task_turn_ns: Option<u64>,
    /// A shard's tasks wait in one queue, whatever their groups.
    pub one_queue: bool,
    /// How long a shard runs before it hands over what its tasks sent and takes what came; `None`: both happen at once.
    pub turn_ns: Option<u64>,
    pub nic: NicModel,
    pub interrupts: Option<InterruptModel>,
    /// Mount point and disk; "/" first. Files elsewhere lie on the first.
    pub disks: Vec<(String, DiskModel)>,
    /// What all network volumes may do together.
    pub volume_caps: Option<VolumeCaps>,
    /// Network volumes' bytes also pass the NIC.
    pub volumes_share_nic: bool,
    pub pauses: Option<PauseModel>,
    /// No file bypasses the page cache, whatever its flags say.
    pub is_buffered: bool,
    /// Memory for the page cache. 0: what is not in the process is on the disk.
    pub page_cache_bytes: u64,
    /// The most that is read ahead of an orderly reader, and the least that is read at once.
    pub readahead_bytes: u64,
    pub readahead_floor: u64,
    /// A file's dirty pages go to the disk whenever so much of it has gathered.
    pub trickle_bytes: Option<u64>,
    /// Simulated bytes over real ones: files come as much more often as they are smaller.
    pub data_part: f64,
    /// In this folder what comes once a file is done as often as files come: a log's syncs are its own.
    pub log_folder: Option<String>,
    /// Threads that read from disks, one request each at a time; without a number as many as want to.
    pub read_threads: Option<usize>,
    /// The wall clock minus the world's, in ns.
    pub clock_skew_ns: i64,
    /// From a shard's message to its arrival on another shard.
    pub cross_shard_ns: u64,
    /// What the shards are told of the disks, as a real node is; nothing unless the experiment says so.
    pub io: reactor::IoConfig,
}

/// Name in a cost table of a packet's handling on an interrupt CPU, beside what the shard itself spends.
pub const INTERRUPT_WORK: &str = "net-interrupt";

/// Seastar polls its queues between tasks: a message waits about a poll's length, assumed.
const CROSS_SHARD_NS: u64 = 500;

impl HostModel {
    /// For tests: `shards` CPUs on which a poll takes 200 ns and nothing else costs anything, fast disk, 10 Gbps.
    pub fn plain(name: &str, shards: usize) -> Self {
        Self {
            name: name.into(),
            shards,
            cpus_per_shard: 1,
            cpu: CpuModel::polls_only(200),
            idle: IdleModel::default(),
            interruptions: Vec::new(),
            moments: None,
            task_quota_ns: None,
            task_turn_ns: None,
            one_queue: false,
            turn_ns: None,
            nic: NicModel::gigabits(10.0),
            interrupts: None,
            disks: vec![("/".into(), DiskModel::fast("fast"))],
            volume_caps: None,
            volumes_share_nic: false,
            pauses: None,
            is_buffered: false,
            page_cache_bytes: 0,
            readahead_bytes: READAHEAD_BYTES,
            readahead_floor: PAGE_BYTES,
            trickle_bytes: None,
            data_part: 1.0,
            log_folder: None,
            read_threads: None,
            clock_skew_ns: 0,
            cross_shard_ns: CROSS_SHARD_NS,
            io: reactor::IoConfig::default(),
        }
    }

    /// A smaller experiment: what is counted in bytes or saved up, and so decides how long a pace is kept, is divided.
    /// Rates and latencies stay. `data`: simulated bytes over real ones; `burst`: simulated time over real time that
    /// credits last.
    pub fn scaled(mut self, data: f64, burst: f64) -> Self {
        self.disks.iter_mut().for_each(|(_, disk)| disk.scale_savings(data, burst));
        self.data_part = data;
        self.cpu.scaled(data);
        self.nic.burst_credit *= burst;
        self.page_cache_bytes = (self.page_cache_bytes as f64 * data) as u64;
        if let Some(caps) = &mut self.volume_caps {
            caps.burst_s *= burst;
        }
        self
    }

    /// `disks`: mount point and disk, the root's first.
    pub fn from_profiles(name: &str, instance: &Instance, system: &System, disks: &[(&str, &Disk)]) -> Self {
        let vcpus = instance.vcpus.u64();
        let interrupt = system.costs.on(instance, INTERRUPT_WORK);
        let interrupt_cpus = match &system.threading {
            Threading::ShardPerCore { interrupt_cpus } => interrupt_cpus.u64(),
            Threading::Pool { .. } => 0,
        };
        let is_pool = matches!(system.threading, Threading::Pool { .. });
        let files = system.page_cache.as_ref();
        let has_interrupt_cost = interrupt.fixed_ns > 0.0 || interrupt.ns_per_byte > 0.0;
        Self {
            name: name.into(),
            shards: system.threading.shards(vcpus) as usize,
            cpus_per_shard: system.threading.cpus_per_shard(vcpus) as usize,
            cpu: CpuModel::from_profiles(instance, system),
            idle: IdleModel {
                busy_poll_ns: system.busy_poll.as_ref().map_or(0, |time| time.u64()),
                wake: match &system.threading {
                    Threading::Pool { wake: Some(wake), .. } => Some(wake),
                    _ => instance.wake.as_ref(),
                }
                .and_then(|wake| Some(Latency::from_sampler(&wake.sampler()?, 1))),
                doze: instance.doze.as_ref().and_then(|doze| {
                    let wake = Latency::from_sampler(&doze.wake.sampler()?, 1);
                    Some(DozeModel { lasts_ns: doze.lasts.u64(), wake })
                }),
                timer: instance.timer.as_ref().and_then(|timer| Some(Latency::from_sampler(&timer.sampler()?, 1))),
            },
            interruptions: instance
                .interruptions
                .iter()
                .filter_map(|found| {
                    let lasts = Latency::from_sampler(&found.lasts.sampler()?, 1);
                    Some(InterruptionModel::new(found.every.u64(), lasts))
                })
                .collect(),
            moments: instance.moments.as_ref().and_then(MomentsModel::new),
            task_turn_ns: system.task_turn.as_ref().map(|turn| turn.u64()),
            one_queue: system.one_queue,
            task_quota_ns: system.task_quota.as_ref().map(|quota| quota.u64()),
            // A pool's threads each hand over what they did.
            turn_ns: system.turn.as_ref().filter(|_| !is_pool).map(|turn| turn.u64()),
            nic: NicModel {
                base: instance.nic.base.f64(),
                burst: instance.nic.burst.f64(),
                burst_credit: instance.nic.burst_credit.f64(),
                packets: instance.nic.packets.as_ref().map(|packets| packets.f64()),
            },
            interrupts: has_interrupt_cost.then_some(InterruptModel {
                cpus: interrupt_cpus as usize,
                packet_ns: interrupt.fixed_ns,
                ns_per_byte: interrupt.ns_per_byte,
            }),
            disks: disks.iter().map(|(path, disk)| ((*path).to_string(), DiskModel::from_profile(disk))).collect(),
            volume_caps: instance.ebs.as_ref().map(volume_caps),
            volumes_share_nic: instance.ebs.as_ref().is_some_and(|ebs| ebs.shares_nic),
            pauses: system.pauses.as_ref().and_then(|pauses| {
                let latency = |quantiles: &hwprofiles::Quantiles| Some(Latency::from_sampler(&quantiles.sampler()?, 1));
                let copying = pauses.survivors.as_ref().map(|survivors| CopyingModel {
                    first_bytes_per_s: survivors.copying.f64(),
                    again_bytes_per_s: survivors.copying_again.as_ref().unwrap_or(&survivors.copying).f64(),
                    tenuring_max: survivors.tenuring.u64() as usize,
                    desired_bytes: survivors.desired.u64(),
                    target_ns: survivors.target.as_ref().map(|target| target.u64()),
                    least_bytes: survivors.least.as_ref().map_or(0, |least| least.u64()),
                    old: survivors.shared_heap.as_ref().map(|heap| OldModel {
                        room_bytes: (heap.size.f64() * (1.0 - heap.reserve.f64())) as u64,
                        mark_bytes: (heap.size.f64() * heap.marking.f64()) as u64,
                        live_bytes: heap.live.u64(),
                        dead_regions: heap.dead_regions.f64(),
                        mixed: heap.mixed.u64().max(1),
                    }),
                });
                let (young_bytes, pause) = (pauses.young.u64().max(1), latency(&pauses.pause)?);
                Some(PauseModel { young_bytes, pause, copying })
            }),
            is_buffered: system.io == hwprofiles::IoMode::Buffered,
            page_cache_bytes: system.memory.as_ref().map_or(0, |memory| memory.plan(instance.ram.u64()).page_cache),
            readahead_bytes: files.map_or(READAHEAD_BYTES, |files| files.readahead.u64()),
            readahead_floor: files.map_or(PAGE_BYTES, |files| files.floor.u64().max(PAGE_BYTES)),
            data_part: 1.0,
            log_folder: None,
            read_threads: match &system.threading {
                Threading::ShardPerCore { .. } => None,
                Threading::Pool { concurrent_reads, concurrent_compactors, .. } => {
                    Some((concurrent_reads.u64() + concurrent_compactors.u64()) as usize)
                }
            },
            trickle_bytes: files.and_then(|files| files.trickle.as_ref()).map(|trickle| trickle.u64()),
            clock_skew_ns: 0,
            cross_shard_ns: CROSS_SHARD_NS,
            io: reactor::IoConfig::default(),
        }
    }
}

/// An instance without a known limit of operations has none.
const NO_LIMIT: f64 = 1e9;

fn volume_caps(ebs: &hwprofiles::Ebs) -> VolumeCaps {
    let iops = ebs.iops.as_ref().map_or(NO_LIMIT, |iops| iops.f64());
    let bandwidth = ebs.bandwidth.f64();
    let burst = ebs.burst.as_ref();
    VolumeCaps {
        iops,
        bandwidth,
        burst_iops: burst.and_then(|burst| burst.iops.as_ref()).map_or(iops, |iops| iops.f64()),
        burst_bandwidth: burst.map_or(bandwidth, |burst| burst.bandwidth.f64()),
        burst_s: burst.map_or(0.0, |burst| burst.lasting.f64() / 1e9),
    }
}

/// Between two hosts.
#[derive(Clone, Debug)]
pub struct NetworkModel {
    /// One way; inside of a zone, where there are several.
    pub latency: Latency,
    /// How many zones, to which hosts are dealt out in turn, and one way between them.
    pub zones: Option<(u32, Latency)>,
    /// Bytes a second of one connection, each direction.
    pub per_flow: f64,
    /// Lost packets of a million.
    pub loss_ppm: u64,
    /// One way within a host.
    pub loopback_ns: u64,
}

impl NetworkModel {
    /// One way between two hosts.
    #[inline]
    pub(crate) fn between(&self, from: u32, to: u32) -> &Latency {
        match &self.zones {
            Some((zones, latency)) if from % zones != to % zones => latency,
            _ => &self.latency,
        }
    }

    /// Always 50 us one way, 10 Gbps a connection.
    pub fn plain() -> Self {
        Self { latency: Latency::constant(50_000), zones: None, per_flow: 1.25e9, loss_ppm: 0, loopback_ns: 10_000 }
    }

    pub fn from_profile(network: &Network) -> Self {
        let one_way = |rtt: &hwprofiles::Quantiles| match rtt.sampler() {
            Some(sampler) => Latency::from_sampler(&sampler, 2),
            None => Latency::constant(rtt.mid.u64() / 2),
        };
        let zones = network.zones.as_ref().map(|zones| (zones.count.u64().max(1) as u32, one_way(&zones.rtt)));
        Self {
            latency: one_way(&network.rtt),
            zones,
            per_flow: network.per_flow.f64(),
            loss_ppm: (network.loss.f64() * 1e6).round() as u64,
            loopback_ns: 10_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::model::Kind;

    #[test]
    fn the_profiles_become_hosts() {
        let profiles = hwprofiles::Profiles::embedded();
        let (instance, disk) = (&profiles.instances["c3.2xlarge"], &profiles.disks["ebs-gp2-3400g"]);
        let host = |system: &str| HostModel::from_profiles("node", instance, &profiles.systems[system], &[("/", disk)]);
        let scylla = host("scylla-1.6.1");
        assert_eq!((scylla.shards, scylla.cpus_per_shard, scylla.is_buffered), (7, 1, false));
        assert!(scylla.disks[0].1.kind == Kind::NetworkVolume && scylla.volume_caps.is_some());
        assert_eq!(scylla.nic.base, 125e6);
        let cassandra = host("cassandra-3.0.9");
        assert_eq!((cassandra.shards, cassandra.cpus_per_shard), (1, 8));
        assert!(cassandra.pauses.is_some_and(|pauses| pauses.young_bytes > 1 << 20));
        let network = NetworkModel::from_profile(&profiles.networks["one-zone"]);
        assert_eq!(network.latency.median_ns(), 50_000);
    }
}
