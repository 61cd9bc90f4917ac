//! A drive of flash, NVMe or SATA: reads and writes have limits and channels of their own, and meet in the cells.
//!
//! Writes go first, as the drive has acknowledged them from its buffer and must get rid of them: they slow reads down
//! along the family's curve, reads do not slow them. A filled drive writes at its best rate while it has clean blocks.

use super::device::{Direction, Request};
use super::model::{DirectionModel, DiskModel};
use super::part::episodes::Episodes;
use super::part::flush::FlushQueue;
use super::part::interference::Interference;
use super::part::limits::Limits;
use super::part::side::{Demand, Side};
use crate::random::Generator;
use crate::server::{RateServer, Served};

/// What collection works on: a page of the drive's map.
const PAGE_BYTES: f64 = 4096.0;

pub(super) struct Flash {
    read: Side,
    write: Side,
    interference: Interference,
    episodes: Episodes,
    flushes: FlushQueue,
    accounting_unit: u64,
    random: Generator,
}

impl Flash {
    pub fn new(model: &DiskModel, mut random: Generator) -> Self {
        let side = |limits, direction: &DirectionModel| Side::new(limits, model.channels, direction.service.clone());
        let (read, write) = (&model.read, &model.write);
        let write_limits = match &model.filled {
            None => Limits::new(write.iops, write.bandwidth),
            Some(filled) => {
                let operations = RateServer::with_burst(filled.write_iops, write.iops, filled.clean_bytes / PAGE_BYTES);
                Limits::with_servers(operations, RateServer::new(write.bandwidth), write.iops, write.bandwidth)
            }
        };
        let episodes_random = if model.episodes.is_empty() { random.clone() } else { random.split() };
        Self {
            read: side(Limits::new(read.iops, read.bandwidth), read),
            write: side(write_limits, write),
            interference: Interference::new(&model.interference, &model.read_p95, &read.service),
            episodes: Episodes::new(&model.episodes, episodes_random),
            flushes: FlushQueue::new(model.flush_ns, model.power_loss_protected),
            accounting_unit: model.accounting_unit,
            random,
        }
    }

    pub fn serve(&mut self, at: u64, not_before: u64, request: Request) -> Served {
        let Request { direction, bytes, .. } = request;
        let left = self.episodes.left(at);
        let demand = Demand {
            at,
            not_before: not_before.max(left.stalled_until),
            operations: bytes.div_ceil(self.accounting_unit).max(1),
            bytes,
            share: left.rates,
            random: self.random.next_u64(),
        };
        match direction {
            Direction::Write => {
                self.interference.write(at, self.write.limits.cost_ns(demand.operations, bytes));
                self.write.serve(demand)
            }
            Direction::Read => {
                let share = left.rates * self.interference.reads_left(at);
                let served = self.read.serve(Demand { share, ..demand });
                let wait_ns = self.interference.wait_ns(at, &mut self.random);
                Served { ends_at: served.ends_at + wait_ns, ..served }
            }
        }
    }

    pub fn flush(&mut self, at: u64) -> u64 {
        self.flushes.flush(at)
    }

    /// ns of its busier direction's rates that were used.
    pub fn busy_ns(&self) -> u64 {
        self.read.limits.busy_ns().max(self.write.limits.busy_ns())
    }
}
