//! Disks: a faithful minimum that queues and saturates as the device does.
//!
//! A request takes one of `channels` for a time drawn from its direction's distribution, then passes an operations
//! server and a bandwidth server that reads and writes share along the family's interference curve.

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
    pub capacity: Figure<Bytes>,
    /// Requests that the device works on at once; more wait in its queue.
    pub channels: Figure<Count>,
    pub read: Direction,
    pub write: Direction,
    /// One flush of the device's volatile cache.
    pub flush: Figure<Time>,
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    Nvme,
    SataSsd,
    /// Network-attached volume: attaches to any instance with EBS.
    Ebs,
}

impl Family {
    pub fn is_local(self) -> bool {
        self != Family::Ebs
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
    /// How many operations a request of `bytes` counts for.
    pub fn operations(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.accounting_unit.u64().max(1)).max(1)
    }
}
