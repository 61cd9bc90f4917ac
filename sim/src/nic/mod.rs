//! Network: a host's NIC, connections as byte streams, listeners, and the links between hosts.
//!
//! A send takes what the connection's window has room for. The bytes pass the sender's NIC, travel for a latency drawn
//! for each send, never overtake earlier bytes of their connection, and pass the receiver's NIC, which delays them only
//! while it is busy. A link that is cut loses what is on its way; the connection sends again as TCP does, with
//! exponential back-off.

pub(crate) mod connection;
pub(crate) mod links;
pub(crate) mod listener;
pub(crate) mod set_up;
pub(crate) mod transport;

use crate::disk::device::Direction;
use crate::model::HostModel;
use crate::server::RateServer;

/// TCP payload of a full Ethernet frame with timestamps, and the bytes around it (Ethernet 14, IPv4 20, TCP 32).
const SEGMENT_BYTES: u64 = 1448;
const HEADER_BYTES: u64 = 66;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NicCounters {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub sent_packets: u64,
    pub received_packets: u64,
    /// Of what was sent and received: time on the way, and in queues before and behind it.
    pub transit_ns: u64,
    pub wait_ns: u64,
}

struct Interrupts {
    cpus: Vec<RateServer>,
    packet_ns: f64,
    ns_per_byte: f64,
}

pub(crate) struct Nic {
    outward: RateServer,
    inward: RateServer,
    packets: Option<RateServer>,
    interrupts: Option<Interrupts>,
    pub counters: NicCounters,
}

fn packets_of(bytes: u64) -> u64 {
    bytes.div_ceil(SEGMENT_BYTES).max(1)
}

impl Nic {
    pub fn new(model: &HostModel) -> Self {
        let nic = &model.nic;
        let server = || RateServer::with_burst(nic.base, nic.burst, nic.burst_credit);
        Self {
            outward: server(),
            inward: server(),
            packets: nic.packets.map(RateServer::new),
            interrupts: model.interrupts.map(|interrupts| Interrupts {
                cpus: vec![RateServer::new(1e9); interrupts.cpus],
                packet_ns: interrupts.packet_ns,
                ns_per_byte: interrupts.ns_per_byte,
            }),
            counters: NicCounters::default(),
        }
    }

    /// When `bytes` of payload that are sent at `at` have left. `flow` is the connection's number.
    pub fn send(&mut self, at: u64, bytes: u64) -> u64 {
        let packets = packets_of(bytes);
        self.counters.sent_packets += packets;
        self.counters.sent_bytes += bytes + packets * HEADER_BYTES;
        let ends_at = self.outward.serve(at, bytes + packets * HEADER_BYTES).ends_at;
        match &mut self.packets {
            Some(limit) => ends_at.max(limit.serve(at, packets).ends_at),
            None => ends_at,
        }
    }

    /// When `bytes` of payload whose last bit arrives at `at` may be received: at once when the NIC is idle, for their
    /// own time on the wire has passed already.
    pub fn receive(&mut self, at: u64, bytes: u64, flow: u32) -> u64 {
        let packets = packets_of(bytes);
        self.counters.received_packets += packets;
        self.counters.received_bytes += bytes + packets * HEADER_BYTES;
        let mut ready_at = self.inward.serve(at, bytes + packets * HEADER_BYTES).starts_at;
        if let Some(limit) = &mut self.packets {
            ready_at = ready_at.max(limit.serve(at, packets).starts_at);
        }
        if let Some(Interrupts { cpus, packet_ns, ns_per_byte }) = &mut self.interrupts
            && !cpus.is_empty()
        {
            // A connection's packets always interrupt the same CPU, as receive-side scaling has it.
            let cpu = flow as usize % cpus.len();
            let ns = *packet_ns * packets as f64 + *ns_per_byte * bytes as f64;
            ready_at = cpus[cpu].serve_ns(ready_at, ns as u64).ends_at;
        }
        ready_at
    }

    /// ns that the kernel takes from a shard's CPU for what comes in; 0 where interrupts have CPUs of their own.
    pub fn stolen_ns(&self, bytes: u64) -> u64 {
        match &self.interrupts {
            Some(Interrupts { cpus, packet_ns, ns_per_byte }) if cpus.is_empty() => {
                (*packet_ns * packets_of(bytes) as f64 + *ns_per_byte * bytes as f64) as u64
            }
            _ => 0,
        }
    }

    /// Whether an interrupt CPU is at work.
    pub fn is_interrupted(&self, cpu: usize, now: u64) -> bool {
        self.interrupts.as_ref().and_then(|interrupts| interrupts.cpus.get(cpu)).is_some_and(|cpu| cpu.is_busy(now))
    }

    /// A volume's bytes on a NIC that they share with the network. Gives when the request may begin.
    pub fn carry_volume(&mut self, at: u64, direction: Direction, bytes: u64) -> u64 {
        match direction {
            Direction::Read => self.inward.serve(at, bytes).starts_at,
            Direction::Write => self.outward.serve(at, bytes).starts_at,
        }
    }
}
