//! Bytes on their way: send, arrive, receive, window, loss and sending again, ends and resets of streams.

use reactor::{Buf, Fd};

use super::connection::{Connection, Phase, WINDOW_BYTES};
use crate::disk::tree::Errno;
use crate::host::{Descriptor, Host};
use crate::kernel::event::{ConnectionId, Event, Side};
use crate::seat::{Seat, Sent, Submitted, Waiter, Waits};
use crate::world::World;

/// Linux's least retransmission time-out; it doubles with every attempt, up to two minutes, `tcp_retries2` 15 times.
const RETRANSMIT_NS: u64 = 200_000_000;
const RETRANSMIT_MAX_NS: u64 = 120_000_000_000;
const RETRANSMIT_ATTEMPTS: u32 = 15;

impl World {
    fn connection_of(&self, host: &Host, fd: Fd) -> Result<(ConnectionId, Side), Errno> {
        match host.descriptors.borrow().get(fd)? {
            Descriptor::Connection { id, side } => Ok((id, side)),
            _ => Err(Errno(libc::ENOTSOCK)),
        }
    }

    pub(crate) fn send(&self, waiter: Waiter, host: &Host, at: u64, fd: Fd, bytes: &[u8]) -> Result<Submitted, Errno> {
        let (id, side) = self.connection_of(host, fd)?;
        match self.push_bytes(id, side, bytes)? {
            Some(0) => Ok(Submitted::Done(0)),
            Some(taken) => {
                match self.seat(waiter.seat).filter(|seat| seat.works_in_turns()) {
                    None => self.transmit(id, side, at, taken as u32),
                    Some(seat) => seat.add_outgoing(id, side, taken as u32),
                }
                Ok(Submitted::Done(taken))
            }
            None => {
                let mut network = self.network();
                let network = &mut *network;
                if let Some(connection) = network.connections.get_mut(id) {
                    let (from, to) = (connection.peek(side.other()).host, connection.peek(side).host);
                    connection.end(side).senders.push_back(waiter);
                    if network.is_cut(from, to) {
                        // Nobody will tell of room: probe for it.
                        self.open_window(network.connections.get_mut(id), id, side, at);
                    }
                }
                Ok(Submitted::Waits(Waits::Send(id, side)))
            }
        }
    }

    /// What the shard has sent in the turn that ends at `at` leaves, one behind the other: a send is made while those
    /// before it are on their way already.
    pub(crate) fn send_off(&self, seat: &Seat, at: u64) {
        let outgoing = seat.take_outgoing();
        let mut left_ns: u64 = outgoing.iter().map(|sent| sent.ns).sum();
        for Sent { connection, side, bytes, ns } in outgoing {
            left_ns -= ns;
            self.transmit(connection, side, at.saturating_sub(left_ns).max(self.now()), bytes);
        }
    }

    /// The shard takes what came for its receives since its last turn.
    pub(crate) fn take_arrivals(&self, seat: &Seat) {
        for (id, side) in seat.take_arrivals() {
            let mut network = self.network();
            if let Some(connection) = network.connection(id) {
                self.hand_over(connection, id, side);
            }
        }
    }

    /// Takes what the window has room for, to be sent. `None`: no room.
    fn push_bytes(&self, id: ConnectionId, side: Side, bytes: &[u8]) -> Result<Option<u64>, Errno> {
        let mut network = self.network();
        let connection = network.connection(id).ok_or(Errno(libc::EPIPE))?;
        if connection.peek(side).reset || connection.peek(side).write_shut {
            return Err(Errno(libc::EPIPE));
        }
        let (from, to) = (connection.peek(side).host, connection.peek(side.other()).host);
        // While the way back is cut, the sender hears of nothing that is read.
        let hears = !network.is_cut(to, from);
        let connection = network.connection(id).ok_or(Errno(libc::EPIPE))?;
        if hears {
            connection.hear_of_reading(side);
        }
        let end = connection.end(side);
        let room = WINDOW_BYTES.saturating_sub((end.sent - end.known_read) as usize);
        let taken = bytes.len().min(room);
        if taken == 0 {
            return Ok((bytes.is_empty()).then_some(0));
        }
        end.sent += taken as u64;
        connection.end(side.other()).incoming.push(&bytes[..taken]);
        drop(network);
        if self.hashes_contents() {
            self.trace().note("sent", crate::kernel::trace::digest(&bytes[..taken]));
        }
        Ok(Some(taken as u64))
    }

    /// Puts bytes that the connection has taken on the wire.
    fn transmit(&self, id: ConnectionId, side: Side, at: u64, bytes: u32) {
        let mut network = self.network();
        let network = &mut *network;
        let Some(connection) = network.connections.get_mut(id) else { return };
        let (from, to) = (connection.peek(side).host, connection.peek(side.other()).host);
        // Lost bytes come first: what follows waits behind them.
        if connection.peek(side).attempts > 0 || (!connection.is_local && network.is_cut(from, to)) {
            return self.lose(network.connections.get_mut(id), id, side, at, bytes);
        }
        let mut leaves_at = at;
        if from != to {
            leaves_at = self.with_host(from, |host| host.nic.borrow_mut().send(at, u64::from(bytes)));
        }
        let latency_ns = network.latency(from, to);
        let Some(connection) = network.connections.get_mut(id) else { return };
        connection.scheduled += 1;
        let end = connection.end(side);
        if from != to {
            leaves_at = leaves_at.max(end.flow.serve(at, u64::from(bytes)).ends_at);
        }
        if from != to {
            self.with_host(from, |host| {
                let counters = &mut host.nic.borrow_mut().counters;
                counters.transit_ns += latency_ns;
                counters.wait_ns += leaves_at - at;
            });
        }
        let arrives_at = (leaves_at + latency_ns).max(end.last_arrival_at);
        end.last_arrival_at = arrives_at;
        self.schedule(arrives_at, Event::Arrive { side: side.other(), connection: id, bytes });
    }

    /// Bytes did not arrive; they are sent again later.
    fn lose(&self, connection: Option<&mut Connection>, id: ConnectionId, side: Side, at: u64, bytes: u32) {
        let Some(connection) = connection else { return };
        let end = connection.end(side);
        end.lost_bytes += bytes;
        if end.attempts == 0 {
            end.attempts = 1;
            connection.scheduled += 1;
            self.schedule(at + RETRANSMIT_NS, Event::Retransmit { side, connection: id });
        }
    }

    pub(crate) fn on_retransmit(&self, id: ConnectionId, side: Side) {
        let now = self.now();
        let mut network = self.network();
        let network = &mut *network;
        let Some(connection) = network.connections.get_mut(id) else { return };
        connection.scheduled -= 1;
        let (from, to) = (connection.peek(side).host, connection.peek(side.other()).host);
        let end = connection.end(side);
        if end.phase == Phase::Gone || end.reset {
            (end.attempts, end.lost_bytes, end.lost_fin) = (0, 0, false);
            return;
        }
        if !self.host(to).is_up() || network.is_cut(from, to) {
            let Some(connection) = network.connections.get_mut(id) else { return };
            connection.scheduled += 1;
            let end = connection.end(side);
            let wait_ns = (RETRANSMIT_NS << end.attempts.min(20)).min(RETRANSMIT_MAX_NS);
            end.attempts += 1;
            if end.attempts > RETRANSMIT_ATTEMPTS {
                self.schedule(now, Event::Reset { side, connection: id });
            } else {
                self.schedule(now + wait_ns, Event::Retransmit { side, connection: id });
            }
            return;
        }
        let latency_ns = network.latency(from, to);
        let Some(connection) = network.connections.get_mut(id) else { return };
        let end = connection.end(side);
        let (bytes, fin) = (std::mem::take(&mut end.lost_bytes), std::mem::take(&mut end.lost_fin));
        end.attempts = 0;
        end.last_arrival_at = (now + latency_ns).max(end.last_arrival_at);
        let arrives_at = end.last_arrival_at;
        let other = side.other();
        if bytes > 0 {
            connection.scheduled += 1;
            self.schedule(arrives_at, Event::Arrive { side: other, connection: id, bytes });
        }
        if fin {
            connection.scheduled += 1;
            self.schedule(arrives_at, Event::Fin { side: other, connection: id });
        }
    }

    /// Bytes reach the host of `side`.
    pub(crate) fn on_arrive(&self, id: ConnectionId, side: Side, bytes: u32) {
        let now = self.now();
        let mut network = self.network();
        let network = &mut *network;
        let Some(connection) = network.connections.get_mut(id) else { return };
        connection.scheduled -= 1;
        if connection.is_local {
            return self.deliver(connection, id, side, bytes);
        }
        let (from, to) = (connection.peek(side.other()).host, connection.peek(side).host);
        let ready_at = self.with_host(to, |host| {
            if !host.is_up() {
                return None;
            }
            let ready_at = host.nic.borrow_mut().receive(now, u64::from(bytes), id);
            let stolen_ns = host.nic.borrow().stolen_ns(u64::from(bytes));
            if stolen_ns > 0 {
                self.interrupt_shard(host, now, id, stolen_ns);
            }
            host.nic.borrow_mut().counters.wait_ns += ready_at + stolen_ns - now;
            Some(ready_at + stolen_ns)
        });
        let is_cut = network.is_cut(from, to);
        let Some(connection) = network.connections.get_mut(id) else { return };
        let Some(ready_at) = ready_at.filter(|_| !is_cut) else {
            return self.lose(Some(connection), id, side.other(), now, bytes);
        };
        let end = connection.end(side);
        let ready_at = ready_at.max(end.last_delivery_at);
        end.last_delivery_at = ready_at;
        if ready_at <= now {
            return self.deliver(connection, id, side, bytes);
        }
        connection.scheduled += 1;
        self.schedule(ready_at, Event::Deliver { side, connection: id, bytes });
    }

    /// The kernel handles a connection's packets on the CPU of one of the shards, always the same.
    fn interrupt_shard(&self, host: &Host, now: u64, id: ConnectionId, ns: u64) {
        let seats = host.seats.borrow();
        let Some(seat) = seats.get(id as usize % seats.len().max(1)) else { return };
        match seat.pool {
            None => seat.interrupt(now, ns),
            Some(_) => self.interrupt_pool(seat, id, ns),
        }
    }

    pub(crate) fn on_deliver(&self, id: ConnectionId, side: Side, bytes: u32) {
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled -= 1;
        self.deliver(connection, id, side, bytes);
    }

    /// Bytes can be read at `side`.
    fn deliver(&self, connection: &mut Connection, id: ConnectionId, side: Side, bytes: u32) {
        let end = connection.end(side);
        if end.is_over() {
            // Nobody is there to read them: the sender is told.
            connection.scheduled += 1;
            self.schedule(self.now() + connection.reply_ns, Event::Reset { side: side.other(), connection: id });
            return;
        }
        end.arrived = (end.arrived + bytes as usize).min(end.incoming.len());
        match end.receivers.front().and_then(|waiter| self.seat(waiter.seat)).filter(|seat| seat.works_in_turns()) {
            None => self.hand_over(connection, id, side),
            Some(seat) => {
                seat.add_arrival(id, side);
                self.make_ready(&seat);
            }
        }
    }

    /// Gives what has arrived at `side` to who waits for it.
    fn hand_over(&self, connection: &mut Connection, id: ConnectionId, side: Side) {
        let end = connection.end(side);
        if end.arrived == 0 {
            return;
        }
        let Some(waiter) = end.receivers.pop_front() else { return };
        let Some((seat, shard)) = self.seat_and_shard(waiter.seat) else { return };
        let mut taken = 0;
        seat.complete_by(&shard, waiter.slot, |_, buf| {
            let buf = buf.ok_or(Errno(libc::EFAULT))?;
            taken = buf.spare().min(end.arrived);
            end.incoming.pop_into(taken, buf);
            Ok(taken as u64)
        });
        end.arrived -= taken;
        self.make_ready(&seat);
        self.open_window(Some(connection), id, side.other(), self.now());
    }

    /// `side` may wait for room that its peer has just made.
    fn open_window(&self, connection: Option<&mut Connection>, id: ConnectionId, side: Side, at: u64) {
        let Some(connection) = connection else { return };
        let reply_ns = connection.reply_ns;
        let end = connection.end(side);
        if end.senders.is_empty() || end.window_coming {
            return;
        }
        end.window_coming = true;
        connection.scheduled += 1;
        self.schedule(at + reply_ns, Event::Window { side, connection: id });
    }

    pub(crate) fn on_window(&self, id: ConnectionId, side: Side) {
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled -= 1;
        let (from, to) = (connection.peek(side.other()).host, connection.peek(side).host);
        if from != to && network.is_cut(from, to) {
            let Some(connection) = network.connection(id) else { return };
            connection.scheduled += 1;
            return self.schedule(self.now() + RETRANSMIT_NS, Event::Window { side, connection: id });
        }
        let Some(connection) = network.connection(id) else { return };
        connection.end(side).window_coming = false;
        loop {
            let Some(connection) = network.connection(id) else { return };
            if connection.peek(side.other()).incoming.len() >= WINDOW_BYTES {
                return;
            }
            let Some(waiter) = connection.end(side).senders.pop_front() else { return };
            drop(network);
            if let Some((seat, shard)) = self.seat_and_shard(waiter.seat) {
                seat.complete_by(&shard, waiter.slot, |op, buf| {
                    let (reactor::Op::Send { skip, end, .. }, Some(buf)) = (op, buf) else {
                        return Err(Errno(libc::EFAULT));
                    };
                    let taken = self.push_bytes(id, side, &buf[*skip as usize..*end as usize])?.unwrap_or(0);
                    if taken > 0 {
                        self.transmit(id, side, self.now(), taken as u32);
                    }
                    Ok(taken)
                });
                self.make_ready(&seat);
            }
            network = self.network();
        }
    }

    pub(crate) fn receive(
        &self,
        waiter: Waiter,
        host: &Host,
        at: u64,
        fd: Fd,
        buf: &mut Buf,
    ) -> Result<Submitted, Errno> {
        let (id, side) = self.connection_of(host, fd)?;
        let mut network = self.network();
        let connection = network.connection(id).ok_or(Errno(libc::ENOTCONN))?;
        let end = connection.end(side);
        let taken = buf.spare().min(end.arrived);
        if taken > 0 {
            end.incoming.pop_into(taken, buf);
            end.arrived -= taken;
            self.open_window(Some(connection), id, side.other(), at);
            return Ok(Submitted::Done(taken as u64));
        }
        if end.reset {
            return Err(Errno(libc::ECONNRESET));
        }
        if end.fin || end.read_shut || buf.spare() == 0 {
            return Ok(Submitted::Done(0));
        }
        end.receivers.push_back(waiter);
        Ok(Submitted::Waits(Waits::Receive(id, side)))
    }

    /// `side`'s stream ends behind what it has sent.
    pub(crate) fn send_fin(&self, id: ConnectionId, side: Side, at: u64) {
        let mut network = self.network();
        let network = &mut *network;
        let Some(connection) = network.connections.get_mut(id) else { return };
        let (from, to) = (connection.peek(side).host, connection.peek(side.other()).host);
        let end = connection.end(side);
        if end.write_shut || end.reset {
            return;
        }
        end.write_shut = true;
        if end.attempts > 0 || network.is_cut(from, to) {
            if let Some(connection) = network.connections.get_mut(id) {
                connection.end(side).lost_fin = true;
                self.lose(Some(connection), id, side, at, 0);
            }
            return;
        }
        let latency_ns = network.latency(from, to);
        let Some(connection) = network.connections.get_mut(id) else { return };
        connection.scheduled += 1;
        let end = connection.end(side);
        let arrives_at = (at + latency_ns).max(end.last_arrival_at);
        end.last_arrival_at = arrives_at;
        self.schedule(arrives_at, Event::Fin { side: side.other(), connection: id });
    }

    pub(crate) fn on_fin(&self, id: ConnectionId, side: Side) {
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled -= 1;
        let (from, to) = (connection.peek(side.other()).host, connection.peek(side).host);
        let now = self.now();
        let is_lost = from != to && (!self.host(to).is_up() || network.is_cut(from, to));
        let Some(connection) = network.connection(id) else { return };
        if is_lost || connection.peek(side.other()).lost_bytes > 0 {
            connection.end(side.other()).lost_fin = true;
            return self.lose(Some(connection), id, side.other(), now, 0);
        }
        let end = connection.end(side);
        // Bytes that still pass the NIC's queue come first.
        if end.last_delivery_at > now {
            let at = end.last_delivery_at;
            connection.scheduled += 1;
            return self.schedule(at, Event::Fin { side, connection: id });
        }
        // What came before the end is taken before it.
        self.hand_over(connection, id, side);
        let end = connection.end(side);
        end.fin = true;
        let receivers = std::mem::take(&mut end.receivers);
        drop(network);
        receivers.into_iter().for_each(|waiter| self.complete(waiter, Ok(0)));
        self.forget_if_over(id);
    }

    /// `side` tells its peer that it knows nothing of the connection.
    pub(crate) fn send_reset(&self, id: ConnectionId, side: Side, at: u64) {
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        let (from, to) = (connection.peek(side).host, connection.peek(side.other()).host);
        if connection.peek(side.other()).is_over() {
            return;
        }
        let latency_ns = network.latency(from, to);
        if network.is_cut(from, to) {
            return; // lost; the peer finds out when it sends
        }
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled += 1;
        let end = connection.end(side);
        end.write_shut = true;
        let arrives_at = (at + latency_ns).max(end.last_arrival_at);
        end.last_arrival_at = arrives_at;
        self.schedule(arrives_at, Event::Reset { side: side.other(), connection: id });
    }

    pub(crate) fn on_reset(&self, id: ConnectionId, side: Side) {
        let mut network = self.network();
        let Some(connection) = network.connection(id) else { return };
        connection.scheduled -= 1;
        // A request that was never answered, or refused.
        if let Some(waiter) = connection.connector.take() {
            let refused = connection.peek(Side::Acceptor).phase == Phase::Closed;
            connection.end(Side::Connector).phase = Phase::Closed;
            connection.end(Side::Acceptor).phase = Phase::Closed;
            drop(network);
            self.complete(waiter, Err(Errno(if refused { libc::ECONNREFUSED } else { libc::ETIMEDOUT })));
            return self.forget_if_over(id);
        }
        let end = connection.end(side);
        if !end.is_over() {
            end.reset = true;
        }
        let (receivers, senders) = (std::mem::take(&mut end.receivers), std::mem::take(&mut end.senders));
        drop(network);
        for waiter in receivers.into_iter().chain(senders) {
            self.complete(waiter, Err(Errno(libc::ECONNRESET)));
        }
        self.forget_if_over(id);
    }
}
