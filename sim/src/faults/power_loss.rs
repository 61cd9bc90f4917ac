//! A machine stops at once: unsynced writes are lost or torn, peers hear nothing. It is switched on again at the end.

use std::fmt;
use std::rc::Rc;

use super::Fault;
use crate::host::{Crash, HostId};
use crate::world::World;

pub struct PowerLoss {
    pub node: HostId,
}

impl Fault for PowerLoss {
    fn strike(&self, world: &Rc<World>) {
        world.crash(self.node, Crash::PowerLoss);
    }

    fn end(&self, world: &Rc<World>) {
        world.restart(self.node);
    }
}

impl fmt::Display for PowerLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {} is without power", self.node.0)
    }
}
