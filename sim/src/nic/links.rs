//! The state of the network: connections, addresses, cut links, and latencies.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use super::connection::Connection;
use crate::host::HostId;
use crate::kernel::event::{ConnectionId, Side};
use crate::model::NetworkModel;
use crate::random::{Generator, Stream};
use crate::slab::Slab;
use crate::world::World;

/// Linux's tail loss probe: twice the round trip and 2 ms for a delayed acknowledgement.
const LOSS_PROBE_NS: u64 = 2_000_000;

/// What a fault adds to a link, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkFault {
    pub delay_ns: u64,
    /// Packets of a million that are lost and sent again.
    pub loss_ppm: u64,
}

pub(crate) struct Network {
    pub model: NetworkModel,
    pub connections: Slab<Connection>,
    pub addresses: BTreeMap<IpAddr, u32>,
    /// From host to host.
    cut: BTreeSet<(u32, u32)>,
    faults: BTreeMap<(u32, u32), LinkFault>,
    random: Generator,
}

impl Network {
    pub fn new(seed: u64, model: NetworkModel) -> Self {
        Self {
            model,
            connections: Slab::new(),
            addresses: BTreeMap::new(),
            cut: BTreeSet::new(),
            faults: BTreeMap::new(),
            random: Generator::stream(seed, Stream::Network, &[]),
        }
    }

    #[inline]
    pub fn is_cut(&self, from: u32, to: u32) -> bool {
        !self.cut.is_empty() && self.cut.contains(&(from, to))
    }

    /// One way from host to host, in ns.
    #[inline]
    pub fn latency(&mut self, from: u32, to: u32) -> u64 {
        if from == to {
            return self.model.loopback_ns;
        }
        let mut ns = self.model.between(from, to).sample(self.random.next_u64());
        let mut loss_ppm = self.model.loss_ppm;
        if !self.faults.is_empty()
            && let Some(fault) = self.faults.get(&(from, to))
        {
            ns += fault.delay_ns;
            loss_ppm += fault.loss_ppm;
        }
        if loss_ppm > 0 {
            let round_trip_ns = 2 * self.model.between(from, to).median_ns();
            let mut wait_ns = 2 * round_trip_ns + LOSS_PROBE_NS;
            while self.random.chance(loss_ppm.min(900_000), 1_000_000) {
                ns += wait_ns;
                wait_ns *= 2;
            }
        }
        ns
    }

    pub fn connection(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connections.get_mut(id)
    }
}

impl World {
    /// Cuts the link from `from` to `to`; the other way stays.
    pub fn cut(&self, from: HostId, to: HostId) {
        let mut network = self.network();
        // What was read until now has been confirmed; nothing will be.
        for (_, connection) in network.connections.iter_mut() {
            for side in [Side::Connector, Side::Acceptor] {
                if connection.peek(side).host == to.0 && connection.peek(side.other()).host == from.0 {
                    connection.hear_of_reading(side);
                }
            }
        }
        network.cut.insert((from.0, to.0));
    }

    pub fn mend(&self, from: HostId, to: HostId) {
        self.network().cut.remove(&(from.0, to.0));
    }

    /// Cuts every link between the two groups, both ways.
    pub fn partition(&self, a: &[HostId], b: &[HostId]) {
        for (&a, &b) in a.iter().flat_map(|a| b.iter().map(move |b| (a, b))) {
            self.cut(a, b);
            self.cut(b, a);
        }
    }

    /// Mends all links.
    pub fn heal(&self) {
        self.network().cut.clear();
    }

    /// Slows or thins a link, one way; the default undoes it.
    pub fn set_link_fault(&self, from: HostId, to: HostId, fault: LinkFault) {
        let mut network = self.network();
        if fault == LinkFault::default() {
            network.faults.remove(&(from.0, to.0));
        } else {
            network.faults.insert((from.0, to.0), fault);
        }
    }
}
