//! What a host and the network between hosts are made of, as plain numbers; profiles convert to these.

use hwprofiles::{Disk, Instance, Network, System, Threading};

use crate::cpu::CpuModel;
use crate::disk::model::DiskModel;
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

/// Processors that the kernel's network interrupts have for themselves.
#[derive(Clone, Copy, Debug)]
pub struct InterruptModel {
    pub cpus: usize,
    pub packet_ns: f64,
    pub ns_per_byte: f64,
}

#[derive(Clone, Debug)]
pub struct PauseModel {
    /// A pause each time the host has left this many bytes of garbage.
    pub young_bytes: u64,
    pub pause: Latency,
}

#[derive(Clone, Debug)]
pub struct HostModel {
    pub name: String,
    pub shards: usize,
    /// Virtual CPUs under each shard: 1, or the size of a pool of threads that one shard stands for.
    pub cpus_per_shard: usize,
    pub cpu: CpuModel,
    pub nic: NicModel,
    pub interrupts: Option<InterruptModel>,
    /// Mount point and disk; "/" first. Files elsewhere lie on the first.
    pub disks: Vec<(String, DiskModel)>,
    /// Operations and bytes a second of all network volumes together.
    pub volume_caps: Option<(f64, f64)>,
    /// Network volumes' bytes also pass the NIC.
    pub volumes_share_nic: bool,
    pub pauses: Option<PauseModel>,
    /// No file bypasses the page cache, whatever its flags say.
    pub is_buffered: bool,
    /// Memory for the page cache. 0: what is not in the process is on the disk.
    pub page_cache_bytes: u64,
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
            nic: NicModel::gigabits(10.0),
            interrupts: None,
            disks: vec![("/".into(), DiskModel::fast("fast"))],
            volume_caps: None,
            volumes_share_nic: false,
            pauses: None,
            is_buffered: false,
            page_cache_bytes: 0,
            clock_skew_ns: 0,
            cross_shard_ns: CROSS_SHARD_NS,
            io: reactor::IoConfig::default(),
        }
    }

    /// `disks`: mount point and disk, the root's first.
    pub fn from_profiles(name: &str, instance: &Instance, system: &System, disks: &[(&str, &Disk)]) -> Self {
        let vcpus = instance.vcpus.u64();
        let interrupt = system.costs.on(instance, INTERRUPT_WORK);
        let interrupt_cpus = match &system.threading {
            Threading::ShardPerCore { interrupt_cpus } => interrupt_cpus.u64(),
            Threading::Pool { .. } => 0,
        };
        let has_interrupt_cost = interrupt.fixed_ns > 0.0 || interrupt.ns_per_byte > 0.0;
        Self {
            name: name.into(),
            shards: system.threading.shards(vcpus) as usize,
            cpus_per_shard: system.threading.cpus_per_shard(vcpus) as usize,
            cpu: CpuModel::from_profiles(instance, system),
            nic: NicModel {
                base: instance.nic.base.f64(),
                burst: instance.nic.burst.f64(),
                burst_credit: instance.nic.burst_credit.f64(),
                packets: instance.nic.packets.as_ref().map(|packets| packets.f64()),
            },
            interrupts: (interrupt_cpus > 0 && has_interrupt_cost).then_some(InterruptModel {
                cpus: interrupt_cpus as usize,
                packet_ns: interrupt.fixed_ns,
                ns_per_byte: interrupt.ns_per_byte,
            }),
            disks: disks.iter().map(|(path, disk)| ((*path).to_string(), DiskModel::from_profile(disk))).collect(),
            volume_caps: instance
                .ebs
                .as_ref()
                .map(|ebs| (ebs.iops.as_ref().map_or(1e9, |iops| iops.f64()), ebs.bandwidth.f64())),
            volumes_share_nic: instance.ebs.as_ref().is_some_and(|ebs| ebs.shares_nic),
            pauses: system.pauses.as_ref().and_then(|pauses| {
                let pause = Latency::from_sampler(&pauses.pause.sampler()?, 1);
                Some(PauseModel { young_bytes: pauses.young.u64().max(1), pause })
            }),
            is_buffered: system.io == hwprofiles::IoMode::Buffered,
            page_cache_bytes: system.memory.as_ref().map_or(0, |memory| memory.plan(instance.ram.u64()).page_cache),
            clock_skew_ns: 0,
            cross_shard_ns: CROSS_SHARD_NS,
            io: reactor::IoConfig::default(),
        }
    }
}

/// Between two hosts.
#[derive(Clone, Debug)]
pub struct NetworkModel {
    /// One way.
    pub latency: Latency,
    /// Bytes a second of one connection, each direction.
    pub per_flow: f64,
    /// Lost packets of a million.
    pub loss_ppm: u64,
    /// One way within a host.
    pub loopback_ns: u64,
}

impl NetworkModel {
    /// Always 50 us one way, 10 Gbps a connection.
    pub fn plain() -> Self {
        Self { latency: Latency::constant(50_000), per_flow: 1.25e9, loss_ppm: 0, loopback_ns: 10_000 }
    }

    pub fn from_profile(network: &Network) -> Self {
        let latency = match network.rtt.sampler() {
            Some(sampler) => Latency::from_sampler(&sampler, 2),
            None => Latency::constant(network.rtt.mid.u64() / 2),
        };
        Self {
            latency,
            per_flow: network.per_flow.f64(),
            loss_ppm: (network.loss.f64() * 1e6).round() as u64,
            loopback_ns: 10_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profiles_become_hosts() {
        let profiles = hwprofiles::Profiles::embedded();
        let (instance, disk) = (&profiles.instances["c3.2xlarge"], &profiles.disks["ebs-gp2-3400g"]);
        let host = |system: &str| HostModel::from_profiles("node", instance, &profiles.systems[system], &[("/", disk)]);
        let scylla = host("scylla-1.6.1");
        assert_eq!((scylla.shards, scylla.cpus_per_shard, scylla.is_buffered), (7, 1, false));
        assert!(scylla.disks[0].1.is_network_volume && scylla.volume_caps.is_some());
        assert_eq!(scylla.nic.base, 125e6);
        let cassandra = host("cassandra-3.0.9");
        assert_eq!((cassandra.shards, cassandra.cpus_per_shard), (1, 8));
        assert!(cassandra.pauses.is_some_and(|pauses| pauses.young_bytes > 1 << 20));
        let network = NetworkModel::from_profile(&profiles.networks["one-zone"]);
        assert_eq!(network.latency.median_ns(), 50_000);
    }
}
