//! Listening sockets: several shards of a host may share a port; connections go around among them.

use std::collections::VecDeque;

use reactor::Fd;

use crate::kernel::event::ConnectionId;
use crate::seat::Waiter;

/// Linux's `net.core.somaxconn`: connections that are set up and not accepted. One more is not answered.
pub(crate) const BACKLOG_MAX: usize = 4096;

pub(crate) struct Listener {
    pub fd: Fd,
    pub backlog: VecDeque<ConnectionId>,
    pub acceptors: VecDeque<Waiter>,
}

/// The listeners of one port, in the order of listening.
#[derive(Default)]
pub(crate) struct Listeners {
    pub all: Vec<Listener>,
    next: usize,
}

impl Listeners {
    pub fn add(&mut self, fd: Fd) {
        self.all.push(Listener { fd, backlog: VecDeque::new(), acceptors: VecDeque::new() });
    }

    pub fn find(&mut self, fd: Fd) -> Option<&mut Listener> {
        self.all.iter_mut().find(|listener| listener.fd == fd)
    }

    pub fn remove(&mut self, fd: Fd) -> Option<Listener> {
        let index = self.all.iter().position(|listener| listener.fd == fd)?;
        Some(self.all.remove(index))
    }

    /// The listener that gets the next connection.
    pub fn pick(&mut self) -> Option<&mut Listener> {
        if self.all.is_empty() {
            return None;
        }
        self.next = (self.next + 1) % self.all.len();
        let index = (self.next + self.all.len() - 1) % self.all.len();
        Some(&mut self.all[index])
    }
}
