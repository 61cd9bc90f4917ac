//! A process is killed: its kernel closes the connections and keeps what was written. It is started again at the end.

use std::fmt;
use std::rc::Rc;

use super::Fault;
use crate::host::{Crash, HostId};
use crate::world::World;

pub struct Kill {
    pub node: HostId,
}

impl Fault for Kill {
    fn strike(&self, world: &Rc<World>) {
        world.crash(self.node, Crash::Kill);
    }

    fn end(&self, world: &Rc<World>) {
        world.restart(self.node);
    }
}

impl fmt::Display for Kill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host {} is without its process", self.node.0)
    }
}
