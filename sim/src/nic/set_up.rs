//! Connections begin and end: listen, accept, connect, shut down, close, reset.

use std::net::SocketAddr;

use reactor::Fd;

use super::connection::{Connection, Phase};
use super::listener::BACKLOG_MAX;
use crate::disk::operations::{FileOperation, close_file};
use crate::disk::tree::Errno;
use crate::host::{Crash, Descriptor, Host, State};
use crate::kernel::event::{ConnectionId, Event, Side};
use crate::seat::{Seat, Submitted, Waiter, Waits};
use crate::world::World;

/// Linux's first retransmission of a SYN; each waits twice as long, `tcp_syn_retries` 6 of them.
const SYN_RETRY_NS: u64 = 1_000_000_000;
const SYN_RETRIES: u32 = 6;

impl World {
    pub(crate) fn listen(&self, seat: &Seat, addr: SocketAddr) -> Result<u64, Errno> {
        let host = &seat.host;
        if !addr.ip().is_unspecified() && !addr.ip().is_loopback() && addr.ip() != host.ip {
            return Err(Errno(libc::EADDRNOTAVAIL));
        }
        let port = if addr.port() == 0 { host.ephemeral_port() } else { addr.port() };
        let fd = host.descriptors.borrow_mut().add(Descriptor::Listener { port });
        host.listeners.borrow_mut().entry(port).or_default().add(fd);
        Ok(u64::from(fd.0))
    }

    pub(crate) fn accept(&self, waiter: Waiter, host: &Host, fd: Fd) -> Result<Submitted, Errno> {
        let Descriptor::Listener { port } = host.descriptors.borrow().get(fd)? else {
            return Err(Errno(libc::EINVAL));
        };
        let mut listeners = host.listeners.borrow_mut();
        let listener = listeners.get_mut(&port).and_then(|all| all.find(fd)).ok_or(Errno(libc::EBADF))?;
        if let Some(id) = listener.backlog.pop_front() {
            return Ok(Submitted::Done(open_accepted(host, id)));
        }
        listener.acceptors.push_back(waiter);
        Ok(Submitted::Waits(Waits::Accept(fd)))
    }

    pub(crate) fn connect(
        &self,
        waiter: Waiter,
        host: &Host,
        at: u64,
        addr: SocketAddr,
        from: Option<SocketAddr>,
    ) -> Result<Submitted, Errno> {
        let port = match from {
            Some(from) if from.port() != 0 => from.port(),
            _ => host.ephemeral_port(),
        };
        let mut network = self.network();
        let is_self = addr.ip().is_loopback() || addr.ip() == host.ip;
        let to = if is_self { Some(host.id) } else { network.addresses.get(&addr.ip()).copied() };
        let to = to.ok_or(Errno(libc::EHOSTUNREACH))?;
        let local = SocketAddr::new(if addr.ip().is_loopback() { addr.ip() } else { host.ip }, port);
        let per_flow = network.model.per_flow;
        let reply_ns =
            if to == host.id { network.model.loopback_ns } else { network.model.between(host.id, to).median_ns() };
        let mut connection = Connection::new((host.id, local), (to, addr), per_flow, reply_ns);
        connection.connector = Some(waiter);
        connection.scheduled = 1;
        let id = network.connections.insert(connection);
        let latency_ns = network.latency(host.id, to);
        drop(network);
        let leaves_at = if to == host.id { at } else { host.nic.borrow_mut().send(at, 0) };
        self.schedule(leaves_at + latency_ns, Event::Syn { connection: id, attempt: 0 });
        Ok(Submitted::Waits(Waits::Connect(id)))
    }

    /// A connection request arrives, or its time to be sent again has come.
    pub(crate) fn on_syn(&self, id: ConnectionId, attempt: u32) {
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled -= 1;
        let (from, to) = (connection.peek(Side::Connector).host, connection.peek(Side::Acceptor).host);
        let port = connection.peek(Side::Acceptor).addr.port();
        if connection.peek(Side::Connector).is_over() || connection.connector.is_none() {
            connection.end(Side::Acceptor).phase = Phase::Closed;
            drop(network);
            return self.forget_if_over(id);
        }
        let host = self.host(to);
        let answered = host.is_up() && !network.is_cut(from, to) && !network.is_cut(to, from);
        if answered {
            let mut listeners = host.listeners.borrow_mut();
            match listeners.get_mut(&port).and_then(|listeners| listeners.pick()) {
                None => {
                    let latency_ns = network.latency(to, from);
                    if let Some(connection) = network.connection(id) {
                        connection.end(Side::Acceptor).phase = Phase::Closed;
                        connection.scheduled += 1;
                    }
                    self.schedule(self.now() + latency_ns, Event::Reset { side: Side::Connector, connection: id });
                    return;
                }
                Some(listener) if listener.backlog.len() < BACKLOG_MAX => {
                    let latency_ns = network.latency(to, from);
                    if let Some(connection) = network.connection(id) {
                        connection.end(Side::Acceptor).phase = Phase::Open;
                        connection.scheduled += 1;
                    }
                    self.schedule(self.now() + latency_ns, Event::SynAck { connection: id });
                    match listener.acceptors.pop_front() {
                        None => listener.backlog.push_back(id),
                        Some(acceptor) => {
                            drop(network);
                            let fd = open_accepted(&host, id);
                            drop(listeners);
                            self.complete(acceptor, Ok(fd));
                        }
                    }
                    return;
                }
                Some(_) => {} // a full backlog does not answer
            }
        }
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled += 1;
        drop(network);
        let wait_ns = SYN_RETRY_NS << attempt;
        if attempt < SYN_RETRIES {
            self.schedule(self.now() + wait_ns, Event::Syn { connection: id, attempt: attempt + 1 });
        } else {
            self.schedule(self.now() + wait_ns, Event::Reset { side: Side::Connector, connection: id });
        }
    }

    pub(crate) fn on_syn_ack(&self, id: ConnectionId) {
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled -= 1;
        let waiter = connection.connector.take();
        let end = connection.end(Side::Connector);
        match waiter {
            Some(waiter) if end.phase == Phase::Opening => {
                end.phase = Phase::Open;
                let host = self.host(end.host);
                drop(network);
                let descriptor = Descriptor::Connection { id, side: Side::Connector };
                let fd = host.descriptors.borrow_mut().add(descriptor);
                self.complete(waiter, Ok(u64::from(fd.0)));
            }
            // Cancelled meanwhile: the other side learns that nobody is here.
            _ => {
                drop(network);
                self.send_reset(id, Side::Connector, self.now());
                self.forget_if_over(id);
            }
        }
    }

    pub(crate) fn shut_down(&self, host: &Host, at: u64, fd: Fd) -> Result<u64, Errno> {
        let Descriptor::Connection { id, side } = host.descriptors.borrow().get(fd)? else {
            return Err(Errno(libc::ENOTSOCK));
        };
        self.send_fin(id, side, at);
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return Err(Errno(libc::ENOTCONN)) };
        let end = connection.end(side);
        end.read_shut = true;
        let (receivers, senders) = (std::mem::take(&mut end.receivers), std::mem::take(&mut end.senders));
        drop(network);
        receivers.into_iter().for_each(|waiter| self.complete(waiter, Ok(0)));
        senders.into_iter().for_each(|waiter| self.complete(waiter, Err(Errno(libc::EPIPE))));
        Ok(0)
    }

    /// Gives what goes on behind the end of a file.
    pub(crate) fn close(&self, host: &Host, at: u64, fd: Fd) -> Result<Option<FileOperation>, Errno> {
        let descriptor = host.descriptors.borrow_mut().remove(fd)?;
        match descriptor {
            Descriptor::File { inode, .. } => return Ok(close_file(host, inode)),
            Descriptor::Listener { port } => {
                let listener = host.listeners.borrow_mut().get_mut(&port).and_then(|all| all.remove(fd));
                if let Some(listener) = listener {
                    for waiter in listener.acceptors {
                        self.complete(waiter, Err(Errno(libc::ECANCELED)));
                    }
                    for id in listener.backlog {
                        self.close_end(host, id, Side::Acceptor, at);
                    }
                }
            }
            Descriptor::Connection { id, side } => self.close_end(host, id, side, at),
        }
        Ok(None)
    }

    /// The end's process lets go: what is unread is thrown away, with a reset; else the stream ends in order.
    fn close_end(&self, host: &Host, id: ConnectionId, side: Side, at: u64) {
        if matches!(host.state.get(), State::Dying(Some(Crash::PowerLoss) | None)) {
            return; // the peer hears nothing
        }
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        let end = connection.end(side);
        let unread = end.arrived > 0;
        end.incoming.clear();
        end.arrived = 0;
        let receivers = std::mem::take(&mut end.receivers);
        let senders = std::mem::take(&mut end.senders);
        drop(network);
        for waiter in receivers.into_iter().chain(senders) {
            self.complete(waiter, Err(Errno(libc::ECANCELED)));
        }
        if unread {
            self.send_reset(id, side, at);
        } else {
            self.send_fin(id, side, at);
        }
        if let Some(connection) = self.network().connection(id) {
            connection.end(side).phase = Phase::Closed;
        }
        self.forget_if_over(id);
    }

    /// A connection is dropped from the table when nobody can ask for it any more.
    pub(crate) fn forget_if_over(&self, id: ConnectionId) {
        let mut network = self.network();
        if network.connection(id).is_some_and(|connection| connection.is_over()) {
            network.connections.remove(id);
        }
    }

    /// The host's power is gone, and with it all it knew of its connections.
    pub(crate) fn silence_connections(&self, host: u32) {
        let mut network = self.network();
        let ids: Vec<_> = network.connections.iter().map(|(id, _)| id).collect();
        for &id in &ids {
            let Some(connection) = network.connection(id) else { continue };
            for side in [Side::Connector, Side::Acceptor] {
                let end = connection.end(side);
                if end.host == host && !(end.phase == Phase::Opening && side == Side::Acceptor) {
                    end.phase = Phase::Gone;
                    end.receivers.clear();
                    end.senders.clear();
                    // What had arrived and was confirmed is gone; what was on its way is sent again, in vain.
                    end.incoming.clear();
                    end.arrived = 0;
                }
            }
        }
        drop(network);
        ids.into_iter().for_each(|id| self.forget_if_over(id));
    }

    /// The host is up again: who waits for room in its former life is told by a reset. Who sends anew is told then.
    pub(crate) fn forget_old_connections(&self, host: u32) {
        let mut network = self.network();
        let ids: Vec<_> = network.connections.iter().map(|(id, _)| id).collect();
        let mut gone = Vec::new();
        for id in ids {
            let Some(connection) = network.connection(id) else { continue };
            for side in [Side::Connector, Side::Acceptor] {
                let is_gone = connection.peek(side).host == host && connection.peek(side).phase == Phase::Gone;
                // A sender whose window is full probes it.
                if is_gone && !connection.peek(side.other()).senders.is_empty() {
                    gone.push((id, side));
                }
            }
        }
        drop(network);
        gone.into_iter().for_each(|(id, side)| self.send_reset(id, side, self.now()));
    }

    pub(crate) fn peer_addr(&self, host: &Host, fd: Fd) -> Result<SocketAddr, Errno> {
        let Descriptor::Connection { id, side } = host.descriptors.borrow().get(fd)? else {
            return Err(Errno(libc::ENOTSOCK));
        };
        match self.network().connection(id) {
            Some(connection) => Ok(connection.peek(side.other()).addr),
            None => Err(Errno(libc::ENOTCONN)),
        }
    }

    /// A cancelled operation leaves its queue.
    pub(crate) fn stop_waiting(&self, host: &Host, waiter: Waiter, waits: Waits) {
        match waits {
            Waits::Accept(fd) => {
                for listeners in host.listeners.borrow_mut().values_mut() {
                    if let Some(listener) = listeners.find(fd) {
                        listener.acceptors.retain(|other| *other != waiter);
                    }
                }
            }
            Waits::Receive(id, side) => {
                if let Some(connection) = self.network().connection(id) {
                    connection.end(side).receivers.retain(|other| *other != waiter);
                }
            }
            Waits::Send(id, side) => {
                if let Some(connection) = self.network().connection(id) {
                    connection.end(side).senders.retain(|other| *other != waiter);
                }
            }
            Waits::Connect(id) => {
                if let Some(connection) = self.network().connection(id) {
                    connection.connector = None;
                    connection.end(Side::Connector).phase = Phase::Closed;
                }
                self.forget_if_over(id);
            }
            Waits::Nothing | Waits::Delivery | Waits::HandOver | Waits::File(..) => {}
        }
    }
}

fn open_accepted(host: &Host, id: ConnectionId) -> u64 {
    let descriptor = Descriptor::Connection { id, side: Side::Acceptor };
    u64::from(host.descriptors.borrow_mut().add(descriptor).0)
}
