//! Instances: the machines that systems and loaders run on.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::processor::Processor;
use crate::quantiles::Quantiles;
use crate::quantity::{Bandwidth, Bytes, Count, Rate, Time};

/// An instance as its file has it, the processor by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct InstanceFile {
    name: String,
    about: String,
    processor: String,
    vcpus: Figure<Count>,
    physical_cores: Figure<Count>,
    ram: Figure<Bytes>,
    interrupt_cpus: Figure<Count>,
    nic: Nic,
    #[serde(default)]
    local_disks: Vec<String>,
    ebs: Option<Ebs>,
    wake: Option<Quantiles>,
    doze: Option<Doze>,
    timer: Option<Quantiles>,
    #[serde(default)]
    interruptions: Vec<Interruptions>,
}

impl InstanceFile {
    /// All that have to rise.
    pub(crate) fn quantiles(&self) -> impl Iterator<Item = &Quantiles> {
        let doze = self.doze.as_ref().map(|doze| &doze.wake);
        let interruptions = self.interruptions.iter().map(|interruptions| &interruptions.lasts);
        self.wake.iter().chain(doze).chain(&self.timer).chain(interruptions)
    }

    pub(crate) fn processor_name(&self) -> &str {
        &self.processor
    }

    pub(crate) fn resolve(self, processor: Processor) -> Instance {
        let Self { name, about, processor: _, vcpus, physical_cores, ram, interrupt_cpus, nic, .. } = self;
        let Self { local_disks, ebs, wake, doze, timer, interruptions, .. } = self;
        Instance {
            name,
            about,
            processor,
            vcpus,
            physical_cores,
            ram,
            interrupt_cpus,
            nic,
            local_disks,
            ebs,
            wake,
            doze,
            timer,
            interruptions,
            moments: None,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub name: String,
    pub about: String,
    pub processor: Processor,
    pub vcpus: Figure<Count>,
    /// Equal to `vcpus` where there is no hyper-threading.
    pub physical_cores: Figure<Count>,
    pub ram: Figure<Bytes>,
    /// vCPUs that the kernel gives to network interrupts when nobody tunes it.
    pub interrupt_cpus: Figure<Count>,
    pub nic: Nic,
    /// Names of disk profiles that this instance has built in.
    pub local_disks: Vec<String>,
    /// Network-attached volumes: `None` if the instance cannot have them.
    pub ebs: Option<Ebs>,
    /// From an event to the first instruction of a thread that slept until then; absent: no time.
    pub wake: Option<Quantiles>,
    /// What precedes sleep; absent: a processor without work sleeps at once.
    pub doze: Option<Doze>,
    /// From a timer's time to the first instruction of a thread that slept until then; absent: as from an event.
    pub timer: Option<Quantiles>,
    /// What holds up a thread that works, short and long.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interruptions: Vec<Interruptions>,
    /// What real processors were like from moment to moment while they were watched. In no file.
    #[serde(skip)]
    pub moments: Option<Moments>,
}

/// What processors were like, from one span of time to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Moments {
    pub every_ns: u64,
    /// By processor, over and over again.
    pub spans: Vec<Vec<Moment>>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// What work took of its cost.
    pub slowness: f32,
    /// How long other threads of the machine had the processor while there was work for it.
    pub taken_ns: u32,
}

/// Times in which a working thread does not get on: its processor is the kernel's, or the host's of a virtual machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interruptions {
    /// Of work between two, on average; they come independently.
    pub every: Figure<Time>,
    pub lasts: Quantiles,
}

/// The kernel of a virtual machine looks for work itself for a while before it gives an idle processor back to the host
/// (Linux, Documentation/virt/guest-halt-polling.rst).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Doze {
    pub lasts: Figure<Time>,
    /// From an event to the first instruction of a thread that slept until then, while it lasts.
    pub wake: Quantiles,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nic {
    /// What the NIC holds for ever, each direction.
    pub base: Figure<Bandwidth>,
    /// What it does while credits last; equal to `base` where there is no burst.
    pub burst: Figure<Bandwidth>,
    /// Bytes above `base` that a full bucket of credits allows.
    pub burst_credit: Figure<Bytes>,
    /// Packets in and out together; absent if no limit is known.
    pub packets: Option<Figure<Rate>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ebs {
    /// All volumes together, both directions.
    pub bandwidth: Figure<Bandwidth>,
    /// All volumes together; absent if no limit is known.
    pub iops: Option<Figure<Rate>>,
    /// What credits allow for a while.
    pub burst: Option<EbsBurst>,
    /// Whether volumes share the NIC instead of having a path of their own (not "EBS-optimised").
    pub shares_nic: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EbsBurst {
    pub bandwidth: Figure<Bandwidth>,
    pub iops: Option<Figure<Rate>>,
    /// From full buckets, with which a run begins.
    pub lasting: Figure<Time>,
}

impl Instance {
    pub fn has_hyper_threads(&self) -> bool {
        self.vcpus.u64() > self.physical_cores.u64()
    }

    /// Speed of one vCPU in GHz x IPC when all are busy.
    pub fn vcpu_speed(&self) -> f64 {
        if self.has_hyper_threads() { self.processor.speed_shared() } else { self.processor.speed_alone() }
    }
}
