//! What the tests of the simulator share.

#![allow(dead_code)]
#![allow(clippy::unwrap_used)]

pub mod load;

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use reactor::OpenFlags;
use sim::{HostId, HostModel, World};

pub const MS: u64 = 1_000_000;
pub const S: u64 = 1_000_000_000;

pub fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

pub fn addr(last: u8, port: u16) -> SocketAddr {
    (ip(last), port).into()
}

pub fn plain(world: &World, last: u8, shards: usize) -> HostId {
    world.add_host(ip(last), HostModel::plain("plain", shards))
}

pub fn rw() -> OpenFlags {
    OpenFlags { read: true, write: true, create: true, ..Default::default() }
}

/// What the one task of a host, with a world of its own, leaves in its log.
pub fn alone<T, Fut>(model: HostModel, main: impl Fn(Log<T>) -> Fut + Send + 'static) -> Vec<T>
where
    T: Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let run = move |world: &Rc<World>| {
        let host = world.add_host(ip(1), model);
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |_| main(seen.clone()));
        world.run_until_idle();
        log.all()
    };
    sim::run(1, sim::Settings::default(), run).value
}

/// A place where tasks leave what the test looks at.
pub struct Log<T>(Rc<RefCell<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone> Log<T> {
    pub fn new() -> Self {
        Self(Rc::default())
    }

    pub fn push(&self, item: T) {
        self.0.borrow_mut().push(item);
    }

    pub fn all(&self) -> Vec<T> {
        self.0.borrow().clone()
    }
}
