//! Stored bits change, once, without anybody having asked for it. They stay changed.

use std::fmt;
use std::rc::Rc;

use super::Fault;
use crate::host::HostId;
use crate::world::World;

pub struct BitRot {
    pub node: HostId,
    /// A pattern of paths, as in `disk::faults::Aim`.
    pub files: String,
    pub bits: u64,
}

impl Fault for BitRot {
    fn strike(&self, world: &Rc<World>) {
        world.rot(self.node, &self.files, self.bits);
    }

    fn end(&self, _world: &Rc<World>) {}
}

impl fmt::Display for BitRot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bits of {} rot on host {}", self.bits, self.files, self.node.0)
    }
}
