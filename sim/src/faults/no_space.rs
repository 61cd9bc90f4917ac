//! A disk has no room for more than it holds; at the end there is room again.

use std::fmt;
use std::rc::Rc;

use super::Fault;
use crate::host::HostId;
use crate::world::World;

pub struct NoSpace {
    pub node: HostId,
    pub disk: usize,
    /// Bytes that fit all the same.
    pub left_bytes: u64,
}

impl Fault for NoSpace {
    fn strike(&self, world: &Rc<World>) {
        let bytes = world.occupied(self.node, self.disk) + self.left_bytes;
        world.limit_space(self.node, self.disk, Some(bytes));
    }

    fn end(&self, world: &Rc<World>) {
        world.limit_space(self.node, self.disk, None);
    }
}

impl fmt::Display for NoSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "disk {} of host {} is full but for {} bytes", self.disk, self.node.0, self.left_bytes)
    }
}
