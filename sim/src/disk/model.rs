//! What a disk can do, as plain numbers, from a profile.

use hwprofiles::{Disk, Family, Interference, Quantiles};

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

/// What a filled drive writes without clean blocks, and how many bytes of those it begins with.
#[derive(Clone, Debug)]
pub struct FilledModel {
    pub write_iops: f64,
    pub clean_bytes: f64,
}

/// A RAID controller's memory in front of the drives.
#[derive(Clone, Debug)]
pub struct CacheModel {
    pub size: u64,
    /// Of a small write that finds room.
    pub latency: Latency,
    pub bandwidth: f64,
}

#[derive(Clone, Debug)]
pub struct EpisodeModel {
    pub every_ns: u64,
    pub length: Latency,
    /// Of the device's rates: 0 stalls it.
    pub rates_left: f64,
    /// Only where the device was in use for this share of the time.
    pub busy: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Flash,
    /// Reached over the network; the host's caps for such volumes apply.
    NetworkVolume,
    Virtio,
}

/// Every figure but the capacity is that of one member.
#[derive(Clone, Debug)]
pub struct DiskModel {
    pub name: String,
    pub capacity: u64,
    /// Drives side by side as RAID 0.
    pub members: usize,
    pub stripe_bytes: u64,
    pub cache: Option<CacheModel>,
    pub channels: usize,
    pub read: DirectionModel,
    pub write: DirectionModel,
    /// Operations and bytes a second, reads and writes together.
    pub total: Option<(f64, f64)>,
    pub credits: Option<CreditsModel>,
    pub flush_ns: u64,
    /// Bytes of a removed file a second that are discarded, before anything else is done.
    pub discard: Option<f64>,
    pub power_loss_protected: bool,
    pub accounting_unit: u64,
    /// `(share of the write maximum in use, share of the read maximum left)`, rising in the first.
    pub interference: Vec<(f64, f64)>,
    /// `(share of the write maximum in use, 95th percentile of a light load's reads in ns)`.
    pub read_p95: Vec<(f64, f64)>,
    pub filled: Option<FilledModel>,
    pub episodes: Vec<EpisodeModel>,
    pub kind: Kind,
}

impl DiskModel {
    /// A disk that is never the limit: 10 us, a million operations and 10 GB a second.
    pub fn fast(name: &str) -> Self {
        let direction = || DirectionModel { iops: 1e6, bandwidth: 1e10, service: Latency::constant(10_000) };
        Self {
            name: name.into(),
            capacity: 1 << 40,
            members: 1,
            stripe_bytes: 1 << 20,
            cache: None,
            channels: 64,
            read: direction(),
            write: direction(),
            total: None,
            credits: None,
            flush_ns: 10_000,
            discard: None,
            power_loss_protected: false,
            accounting_unit: 1 << 30,
            interference: Vec::new(),
            read_p95: Vec::new(),
            filled: None,
            episodes: Vec::new(),
            kind: Kind::Flash,
        }
    }

    pub fn from_profile(disk: &Disk) -> Self {
        let direction = |direction: &hwprofiles::Direction| DirectionModel {
            iops: direction.iops.f64(),
            bandwidth: direction.bandwidth.f64(),
            service: latency(&direction.service_time),
        };
        Self {
            name: disk.name.clone(),
            capacity: disk.capacity.u64(),
            members: disk.members() as usize,
            stripe_bytes: disk.raid0.as_ref().map_or(1 << 20, |raid0| raid0.stripe.u64().max(1)),
            cache: disk.write_back_cache.as_ref().map(|cache| CacheModel {
                size: cache.size.u64(),
                latency: latency(&cache.latency),
                bandwidth: cache.bandwidth.f64(),
            }),
            channels: disk.channels.u64().max(1) as usize,
            read: direction(&disk.read),
            write: direction(&disk.write),
            total: disk.total.as_ref().map(|total| (total.iops.f64(), total.bandwidth.f64())),
            credits: disk.credits.as_ref().map(|credits| CreditsModel {
                baseline: credits.baseline.f64(),
                burst: credits.burst.f64(),
                full: credits.full.f64(),
            }),
            flush_ns: disk.flush.u64(),
            discard: disk.discard.as_ref().map(|discard| discard.f64()),
            power_loss_protected: disk.power_loss_protected,
            accounting_unit: disk.accounting_unit.u64().max(1),
            interference: match &disk.interference {
                Interference::None => Vec::new(),
                Interference::Curve(points) => points.iter().map(|p| (p.writes.f64(), p.reads_left.f64())).collect(),
            },
            read_p95: disk.read_p95.iter().map(|point| (point.writes.f64(), point.latency.f64())).collect(),
            filled: disk
                .filled
                .as_ref()
                .map(|filled| FilledModel { write_iops: filled.write_iops.f64(), clean_bytes: filled.clean.f64() }),
            episodes: disk.episodes.iter().map(EpisodeModel::from_profile).collect(),
            kind: match disk.family {
                Family::Nvme | Family::SataSsd => Kind::Flash,
                Family::Ebs => Kind::NetworkVolume,
                Family::Virtio => Kind::Virtio,
            },
        }
    }

    /// A smaller experiment saves up less: what is counted in bytes or operations, and so decides how long the device
    /// keeps a pace, is divided: credits by `burst`, simulated over real time that they last, all else as the data is.
    pub fn scale_savings(&mut self, data: f64, burst: f64) {
        if let Some(credits) = &mut self.credits {
            credits.full *= burst;
        }
        if let Some(filled) = &mut self.filled {
            filled.clean_bytes *= data;
        }
        if let Some(cache) = &mut self.cache {
            cache.size = (cache.size as f64 * data) as u64;
        }
    }
}

impl EpisodeModel {
    fn from_profile(episode: &hwprofiles::Episode) -> Self {
        Self {
            every_ns: episode.every.u64().max(1),
            length: latency(&episode.length),
            rates_left: episode.rates_left.f64(),
            busy: episode.busy.as_ref().map_or(0.0, |busy| busy.f64()),
        }
    }
}

fn latency(quantiles: &Quantiles) -> Latency {
    let sampler = quantiles.sampler();
    sampler.map_or_else(|| Latency::constant(quantiles.mid.u64()), |sampler| Latency::from_sampler(&sampler, 1))
}
