//! A network volume: caps on reads and writes together, credits above a baseline, no flash to be felt behind them.
//!
//! A request counts once per accounting unit begun (256 KiB). The instance's own caps for all its volumes come before,
//! see [`super::device::SharedLimits`].

use super::device::Request;
use super::model::DiskModel;
use super::part::core::Core;
use super::part::limits::Limits;
use crate::random::Generator;
use crate::server::{RateServer, Served};

/// How much of its rates a volume lets through at once: flat latencies until shortly below the caps, as diskplorer sees
/// them, ask for some; assumed.
pub(super) const TOKENS_NS: u64 = 20_000_000;

pub(super) struct Volume {
    core: Core,
    total: Option<Limits>,
    credits: Option<RateServer>,
}

impl Volume {
    pub fn new(model: &DiskModel, random: Generator) -> Self {
        let limits = |iops, bandwidth| Limits::new(iops, bandwidth).by_tokens(TOKENS_NS);
        let (read, write) = (&model.read, &model.write);
        let sides = (limits(read.iops, read.bandwidth), limits(write.iops, write.bandwidth));
        Self {
            core: Core::new(model, sides.0, sides.1, random),
            total: model.total.map(|(iops, bandwidth)| limits(iops, bandwidth)),
            credits: model.credits.as_ref().map(|c| RateServer::with_burst(c.baseline, c.burst, c.full)),
        }
    }

    pub fn serve(&mut self, at: u64, not_before: u64, request: Request) -> Served {
        let mut demand = self.core.demand(at, not_before, request);
        if let Some(total) = &mut self.total {
            let admitted = total.admit(at, demand.operations, demand.bytes, demand.share);
            demand.not_before = demand.not_before.max(admitted);
        }
        if let Some(credits) = &mut self.credits {
            demand.not_before = demand.not_before.max(credits.serve(at, demand.operations).starts_at);
        }
        self.core.serve(request.direction, demand)
    }

    pub fn flush(&mut self, at: u64) -> u64 {
        self.core.flush(at)
    }

    pub fn busy_ns(&self) -> u64 {
        self.total.as_ref().map_or(self.core.busy_ns(), |total| total.busy_ns())
    }
}
