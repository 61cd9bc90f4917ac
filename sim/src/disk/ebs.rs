//! A network volume: caps on reads and writes together, credits above a baseline, no flash to be felt behind them.
//!
//! A request counts once per accounting unit begun (256 KiB). The instance's own caps for all its volumes come before,
//! see [`super::device::SharedLimits`].

use super::device::{Direction, Request};
use super::model::{DirectionModel, DiskModel};
use super::part::episodes::Episodes;
use super::part::flush::FlushQueue;
use super::part::limits::Limits;
use super::part::side::{Demand, Side};
use crate::random::Generator;
use crate::server::{RateServer, Served};

/// How much of its rates a volume lets through at once: flat latencies until shortly below the caps, as diskplorer sees
/// them, ask for some; assumed.
pub(super) const TOKENS_NS: u64 = 20_000_000;

pub(super) struct Volume {
    read: Side,
    write: Side,
    total: Option<Limits>,
    credits: Option<RateServer>,
    episodes: Episodes,
    flushes: FlushQueue,
    accounting_unit: u64,
    random: Generator,
}

impl Volume {
    pub fn new(model: &DiskModel, mut random: Generator) -> Self {
        let side = |direction: &DirectionModel| {
            let limits = Limits::new(direction.iops, direction.bandwidth).by_tokens(TOKENS_NS);
            Side::new(limits, model.channels, direction.service.clone())
        };
        let episodes_random = if model.episodes.is_empty() { random.clone() } else { random.split() };
        Self {
            read: side(&model.read),
            write: side(&model.write),
            total: model.total.map(|(iops, bandwidth)| Limits::new(iops, bandwidth).by_tokens(TOKENS_NS)),
            credits: model.credits.as_ref().map(|c| RateServer::with_burst(c.baseline, c.burst, c.full)),
            episodes: Episodes::new(&model.episodes, episodes_random),
            flushes: FlushQueue::new(model.flush_ns, model.power_loss_protected),
            accounting_unit: model.accounting_unit,
            random,
        }
    }

    pub fn serve(&mut self, at: u64, not_before: u64, request: Request) -> Served {
        let Request { direction, bytes, .. } = request;
        let operations = bytes.div_ceil(self.accounting_unit).max(1);
        let left = self.episodes.left(at);
        let mut not_before = not_before.max(left.stalled_until);
        if let Some(total) = &mut self.total {
            not_before = not_before.max(total.admit(at, operations, bytes, left.rates));
        }
        if let Some(credits) = &mut self.credits {
            not_before = not_before.max(credits.serve(at, operations).starts_at);
        }
        let random = self.random.next_u64();
        let demand = Demand { at, not_before, operations, bytes, share: left.rates, random };
        match direction {
            Direction::Read => self.read.serve(demand),
            Direction::Write => self.write.serve(demand),
        }
    }

    pub fn flush(&mut self, at: u64) -> u64 {
        self.flushes.flush(at)
    }

    pub fn busy_ns(&self) -> u64 {
        let sides = self.read.limits.busy_ns().max(self.write.limits.busy_ns());
        self.total.as_ref().map_or(sides, |total| total.busy_ns())
    }
}
