//! Operations take longer, by a fixed time: a device that recovers from an error inside, or a path that fails over.

use std::fmt;

use super::{Access, DiskFault};

pub struct Stall {
    pub for_ns: u64,
}

impl DiskFault for Stall {
    fn concerns(&self, _access: Access) -> bool {
        true
    }

    fn delay_ns(&self) -> u64 {
        self.for_ns
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an operation takes {} ns longer", self.for_ns)
    }
}
