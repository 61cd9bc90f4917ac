//! Disks: a faithful minimum that queues and saturates as the device does.
//!
//! A request passes an operations server and a bandwidth server, which reads and writes share along the family's
//! interference curve, and takes one of `channels` for a time drawn from its direction's distribution. What only some
//! devices have is optional: members of a RAID 0, a controller's cache, a filled drive's slower writes, credits,
//! episodes.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::quantiles::Quantiles;
use crate::quantity::{Bandwidth, Bytes, Count, Rate, Ratio, Time};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub name: String,
    pub about: String,
    pub family: Family,
    /// Of all members together.
    pub capacity: Figure<Bytes>,
    /// Several equal drives as one: every figure but the capacity is one member's.
    pub raid0: Option<Raid0>,
    /// Memory of a RAID controller in front of the drives.
    pub write_back_cache: Option<WriteBackCache>,
    /// Requests that the device works on at once; more wait in its queue.
    pub channels: Figure<Count>,
    pub read: Direction,
    pub write: Direction,
    /// One flush of the device's volatile cache.
    pub flush: Figure<Time>,
    /// Where blocks are discarded as soon as their file is removed: how fast, with nothing else done meanwhile. Absent:
    /// removing a file costs the device nothing. Of family virtio only.
    pub discard: Option<Figure<Bandwidth>>,
    /// Whether completed writes survive power loss without a flush.
    pub power_loss_protected: bool,
    /// Requests count once per this many bytes begun, against the operations limit.
    pub accounting_unit: Figure<Bytes>,
    /// Reads and writes together, where the device limits their sum (a volume's caps).
    pub total: Option<Total>,
    /// Operations above the baseline that saved credits allow.
    pub credits: Option<Credits>,
    /// How writes slow down reads.
    pub interference: Interference,
    /// What writes do to the 95th percentile of a light load of small reads.
    #[serde(default)]
    pub read_p95: Vec<ReadP95>,
    /// What random writes fall to once the clean blocks of a filled drive are used up; absent: they never do.
    pub filled: Option<Filled>,
    /// Times in which the device does less, or nothing.
    #[serde(default)]
    pub episodes: Vec<Episode>,
}

/// Stripes go around the members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raid0 {
    pub members: Figure<Count>,
    pub stripe: Figure<Bytes>,
}

/// A write is done when it is in the cache; the members take it from there at their own rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBackCache {
    pub size: Figure<Bytes>,
    /// Of a small write that finds room.
    pub latency: Quantiles,
    /// Between host and cache, writes only.
    pub bandwidth: Figure<Bandwidth>,
}

/// `latency` at the 95th percentile of reads at depth 1 while writes use the share `writes` of their bandwidth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadP95 {
    pub writes: Figure<Ratio>,
    pub latency: Figure<Time>,
}

/// A drive without free blocks: random writes above `write_iops` use up clean ones, which collection makes at that
/// rate, until they are gone. A run begins with `clean` bytes of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filled {
    pub write_iops: Figure<Rate>,
    pub clean: Figure<Bytes>,
}

/// Comes again and again, after a time between half and one and a half times `every`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Episode {
    pub every: Figure<Time>,
    pub length: Quantiles,
    /// Of the device's rates: 0 stalls it.
    pub rates_left: Figure<Ratio>,
    /// Comes only where the host's thread was busy for this share of the time, and for less of `length` where it was not
    /// always. Absent: comes whatever it did. Of family virtio only.
    pub busy: Option<Figure<Ratio>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Nvme,
    SataSsd,
    /// Network-attached volume: attaches to any instance with EBS.
    Ebs,
    /// A virtual machine's disk whose requests one thread of the host takes in turn and answers together.
    Virtio,
}

impl Family {
    pub fn is_local(self) -> bool {
        self != Family::Ebs
    }

    /// As profiles write it.
    pub fn name(self) -> &'static str {
        match self {
            Family::Nvme => "nvme",
            Family::SataSsd => "sata_ssd",
            Family::Ebs => "ebs",
            Family::Virtio => "virtio",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Direction {
    pub iops: Figure<Rate>,
    pub bandwidth: Figure<Bandwidth>,
    /// Time of one small request in an idle device.
    pub service_time: Quantiles,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Total {
    pub iops: Figure<Rate>,
    pub bandwidth: Figure<Bandwidth>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credits {
    pub baseline: Figure<Rate>,
    pub burst: Figure<Rate>,
    /// Operations saved in a full bucket, with which a run begins.
    pub full: Figure<Count>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Interference {
    /// Reads and writes do not feel each other, up to a shared `total`.
    None,
    /// Straight lines between points `(share of the write maximum used, share of the read maximum left)`, from (0, 1).
    Curve(Vec<InterferencePoint>),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InterferencePoint {
    pub writes: Figure<Ratio>,
    pub reads_left: Figure<Ratio>,
}

impl Interference {
    /// Share of the read maximum left when writes use `write_share` (0..=1) of theirs.
    pub fn reads_left(&self, write_share: f64) -> f64 {
        let Interference::Curve(points) = self else { return 1.0 };
        let (mut x0, mut y0) = (0.0, 1.0);
        for point in points {
            let (x1, y1) = (point.writes.f64(), point.reads_left.f64());
            if write_share <= x1 {
                return if x1 > x0 { y0 + (y1 - y0) * (write_share - x0) / (x1 - x0) } else { y1 };
            }
            (x0, y0) = (x1, y1);
        }
        y0
    }
}

impl Disk {
    /// Drives that stand side by side.
    pub fn members(&self) -> u64 {
        self.raid0.as_ref().map_or(1, |raid0| raid0.members.u64().max(1))
    }

    /// The first of its distributions whose points do not rise, as the path of its key.
    pub(crate) fn falling(&self) -> Option<Vec<&'static str>> {
        let cache = self.write_back_cache.as_ref();
        let mut all = vec![
            (vec!["read", "service_time"], &self.read.service_time),
            (vec!["write", "service_time"], &self.write.service_time),
        ];
        all.extend(cache.map(|cache| (vec!["write_back_cache", "latency"], &cache.latency)));
        all.extend(self.episodes.iter().map(|episode| (vec!["episodes"], &episode.length)));
        all.into_iter().find(|(_, quantiles)| quantiles.sampler().is_none()).map(|(path, _)| path)
    }

    /// How many operations a request of `bytes` counts for.
    pub fn operations(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.accounting_unit.u64().max(1)).max(1)
    }
}
