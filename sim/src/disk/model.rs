//! What a disk can do, as plain numbers, from a profile.

use hwprofiles::{Disk, Family, Interference};

use crate::latency::Latency;

#[derive(Clone, Debug)]
pub struct DirectionModel {
    pub iops: f64,
    pub bandwidth: f64,
    /// One small request on an idle device.
    pub service: Latency,
}

#[derive(Clone, Debug)]
pub struct CreditsModel {
    pub baseline: f64,
    pub burst: f64,
    pub full: f64,
}

#[derive(Clone, Debug)]
pub struct DiskModel {
    pub name: String,
    pub capacity: u64,
    pub channels: usize,
    pub read: DirectionModel,
    pub write: DirectionModel,
    /// Operations and bytes a second, reads and writes together.
    pub total: Option<(f64, f64)>,
    pub credits: Option<CreditsModel>,
    pub flush_ns: u64,
    pub power_loss_protected: bool,
    pub accounting_unit: u64,
    /// `(share of the write maximum in use, share of the read maximum left)`, rising in the first.
    pub interference: Vec<(f64, f64)>,
    /// Reached over the network; the host's caps for such volumes apply.
    pub is_network_volume: bool,
}

impl DiskModel {
    /// A disk that is never the limit: 10 us, a million operations and 10 GB a second.
    pub fn fast(name: &str) -> Self {
        let direction = || DirectionModel { iops: 1e6, bandwidth: 1e10, service: Latency::constant(10_000) };
        Self {
            name: name.into(),
            capacity: 1 << 40,
            channels: 64,
            read: direction(),
            write: direction(),
            total: None,
            credits: None,
            flush_ns: 10_000,
            power_loss_protected: false,
            accounting_unit: 1 << 30,
            interference: Vec::new(),
            is_network_volume: false,
        }
    }

    pub fn from_profile(disk: &Disk) -> Self {
        let members = disk.members() as f64;
        let direction = |direction: &hwprofiles::Direction| DirectionModel {
            iops: direction.iops.f64() * members,
            bandwidth: direction.bandwidth.f64() * members,
            service: direction
                .service_time
                .sampler()
                .map_or_else(|| Latency::constant(direction.service_time.mid.u64()), |s| Latency::from_sampler(&s, 1)),
        };
        Self {
            name: disk.name.clone(),
            capacity: disk.capacity.u64(),
            channels: (disk.channels.u64() * disk.members()).max(1) as usize,
            read: direction(&disk.read),
            write: direction(&disk.write),
            total: disk.total.as_ref().map(|total| (total.iops.f64(), total.bandwidth.f64())),
            credits: disk.credits.as_ref().map(|credits| CreditsModel {
                baseline: credits.baseline.f64(),
                burst: credits.burst.f64(),
                full: credits.full.f64(),
            }),
            flush_ns: disk.flush.u64(),
            power_loss_protected: disk.power_loss_protected,
            accounting_unit: disk.accounting_unit.u64().max(1),
            interference: match &disk.interference {
                Interference::None => Vec::new(),
                Interference::Curve(points) => points.iter().map(|p| (p.writes.f64(), p.reads_left.f64())).collect(),
            },
            is_network_volume: disk.family == Family::Ebs,
        }
    }
}
