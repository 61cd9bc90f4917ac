//! Processors: how fast one vCPU of an instance is, compared with the one a cost table was made for.

use serde::{Deserialize, Serialize};

use crate::figure::Figure;
use crate::quantity::{Frequency, Ratio};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processor {
    pub name: String,
    pub about: String,
    /// Clock while all cores are busy.
    pub clock: Figure<Frequency>,
    /// Work done a cycle, relative to Skylake/Cascade Lake servers (1.0).
    pub ipc_factor: Figure<Ratio>,
    /// Speed of a hardware thread whose sibling is busy, relative to the same thread alone.
    pub hyper_thread_factor: Figure<Ratio>,
}

impl Processor {
    /// Speed of a hardware thread in GHz x IPC with its sibling idle.
    pub fn speed_alone(&self) -> f64 {
        self.clock.f64() * self.ipc_factor.f64()
    }

    /// The same with its sibling busy: what cost tables refer to. Where the sibling idles, work takes
    /// `hyper_thread_factor` of what they say.
    pub fn speed_shared(&self) -> f64 {
        self.speed_alone() * self.hyper_thread_factor.f64()
    }
}
