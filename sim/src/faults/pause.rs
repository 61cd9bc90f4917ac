//! A host stands still, as a stolen or suspended virtual machine does: its kernel takes bytes in, nothing runs.

use std::fmt;
use std::rc::Rc;

use super::Fault;
use crate::host::HostId;
use crate::world::World;

pub struct Pause {
    pub node: HostId,
}

impl Fault for Pause {
    fn strike(&self, world: &Rc<World>) {
        world.pause(self.node);
    }

    fn end(&self, world: &Rc<World>) {
        world.resume(self.node);
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {} stands still", self.node.0)
    }
}
