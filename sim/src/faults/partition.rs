//! A host is cut off from others, both ways or one way. Two partitions at one time must not share a link: the first
//! to end mends it for both.

use std::fmt;
use std::rc::Rc;

use super::Fault;
use crate::host::HostId;
use crate::world::World;

/// What is lost, as seen from the host that is cut off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Both,
    /// Nothing reaches it; what it sends arrives.
    In,
    /// Nothing that it sends arrives.
    Out,
}

pub struct Partition {
    pub node: HostId,
    pub from: Vec<HostId>,
    pub way: Way,
}

impl Partition {
    fn each_link(&self, mut f: impl FnMut(HostId, HostId)) {
        for &other in &self.from {
            if self.way != Way::Out {
                f(other, self.node);
            }
            if self.way != Way::In {
                f(self.node, other);
            }
        }
    }
}

impl Fault for Partition {
    fn strike(&self, world: &Rc<World>) {
        self.each_link(|from, to| world.cut(from, to));
    }

    fn end(&self, world: &Rc<World>) {
        self.each_link(|from, to| world.mend(from, to));
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            Way::Both => "cut off from",
            Way::In => "not reached by",
            Way::Out => "not heard by",
        };
        let from: Vec<String> = self.from.iter().map(|host| host.0.to_string()).collect();
        write!(f, "host {} is {way} {}", self.node.0, from.join(", "))
    }
}
