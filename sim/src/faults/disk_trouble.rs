//! A fault of single disk operations, for as long as a window lasts.

use std::cell::Cell;
use std::fmt;
use std::rc::Rc;

use super::Fault;
use crate::disk::faults::{Aim, DiskFault, FaultId};
use crate::host::HostId;
use crate::world::World;

pub struct DiskTrouble {
    node: HostId,
    aim: Aim,
    fault: Rc<dyn DiskFault>,
    injected: Cell<Option<FaultId>>,
}

impl DiskTrouble {
    pub fn new(node: HostId, aim: Aim, fault: impl DiskFault + 'static) -> Self {
        Self { node, aim, fault: Rc::new(fault), injected: Cell::new(None) }
    }
}

impl Fault for DiskTrouble {
    fn strike(&self, world: &Rc<World>) {
        self.injected.set(Some(world.inject_shared(self.node, self.aim.clone(), self.fault.clone())));
    }

    fn end(&self, world: &Rc<World>) {
        if let Some(id) = self.injected.take() {
            world.withdraw(self.node, id);
        }
    }
}

impl fmt::Display for DiskTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "on {} of host {}: {}", self.aim.files, self.node.0, self.fault)
    }
}
