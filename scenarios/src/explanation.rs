//! Why a phase was as fast as it was: what each resource did over time, and what the servers' tasks waited for.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Explanation {
    pub timelines: Vec<Timeline>,
    pub waits: Vec<Wait>,
}

/// One kind of resource, step by step from the phase's beginning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// As [`crate::Resource::name`].
    pub name: String,
    pub step_ns: u64,
    /// 0 to 1 in each step: mean over all of the kind, and of the one that was busiest then.
    pub utilisation_mean: Vec<f64>,
    pub utilisation_max: Vec<f64>,
    /// Requests or tasks that waited at one of the kind, on average.
    pub queue: Vec<f64>,
}

/// For how long the tasks of one class waited for one thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// A scheduling group of the servers (`statement`, `commitlog`, `flush`, `compaction`, ..), or `all`.
    pub class: String,
    pub on: On,
    /// Summed over all tasks of the class on all servers, for each client operation of the measured window. Tasks wait
    /// side by side, on three replicas for instance: a sum is no part of an operation's latency.
    pub us_per_operation: f64,
}

/// What was waited for, or done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    /// Its own work on a processor: no wait.
    Work,
    /// A processor that works on something else.
    Cpu,
    /// Its turn in the engine's own I/O queue.
    IoQueue,
    /// The disk, from the submission to the completion.
    Disk,
    /// Of that, the disk's queue, and caps of the host or the volume.
    DiskQueue,
    Throttle,
    /// Packets on their way.
    Network,
    /// Room on a NIC, of a connection's own rate, or of the CPU that takes packets in.
    NetworkQueue,
    /// Other threads' locks.
    Lock,
    /// A host that stood still, as by collecting garbage.
    Pause,
}

impl On {
    pub fn name(self) -> &'static str {
        match self {
            On::Work => "own work",
            On::Cpu => "CPU",
            On::IoQueue => "I/O queue",
            On::Disk => "disk",
            On::DiskQueue => "disk queue",
            On::Throttle => "throttle",
            On::Network => "network",
            On::NetworkQueue => "network queue",
            On::Lock => "lock",
            On::Pause => "pause",
        }
    }
}
