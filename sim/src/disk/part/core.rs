//! What every device has: a side for reads and one for writes, times in which it does less, and flushes.

use super::episodes::Episodes;
use super::flush::FlushQueue;
use super::limits::Limits;
use super::side::{Demand, Side};
use crate::disk::device::{Direction, Request};
use crate::disk::model::DiskModel;
use crate::random::Generator;
use crate::server::Served;

pub(crate) struct Core {
    pub read: Side,
    pub write: Side,
    episodes: Episodes,
    flushes: FlushQueue,
    accounting_unit: u64,
    pub random: Generator,
}

impl Core {
    pub fn new(model: &DiskModel, read: Limits, write: Limits, mut random: Generator) -> Self {
        let episodes_random = if model.episodes.is_empty() { random.clone() } else { random.split() };
        Self {
            read: Side::new(read, model.channels, model.read.service.clone()),
            write: Side::new(write, model.channels, model.write.service.clone()),
            episodes: Episodes::new(&model.episodes, episodes_random),
            flushes: FlushQueue::new(model.flush_ns, model.power_loss_protected),
            accounting_unit: model.accounting_unit,
            random,
        }
    }

    /// A request that arrives at `at` and may not begin before `not_before`, as the device is then.
    pub fn demand(&mut self, at: u64, not_before: u64, request: Request) -> Demand {
        let left = self.episodes.left(at);
        Demand {
            at,
            not_before: not_before.max(left.stalled_until),
            operations: request.bytes.div_ceil(self.accounting_unit).max(1),
            bytes: request.bytes,
            share: left.rates,
            random: self.random.next_u64(),
        }
    }

    pub fn serve(&mut self, direction: Direction, demand: Demand) -> Served {
        match direction {
            Direction::Read => self.read.serve(demand),
            Direction::Write => self.write.serve(demand),
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
