//! A drive of flash, NVMe or SATA: reads and writes have limits and channels of their own, and meet in the cells.
//!
//! Writes go first, as the drive has acknowledged them from its buffer and must get rid of them: they slow reads down
//! along the family's curve, reads do not slow them. A filled drive writes at its best rate while it has clean blocks.

use super::device::{Direction, Request};
use super::model::DiskModel;
use super::part::core::Core;
use super::part::interference::Interference;
use super::part::limits::Limits;
use super::part::side::Demand;
use crate::random::Generator;
use crate::server::{RateServer, Served};

/// What collection works on: a page of the drive's map.
const PAGE_BYTES: f64 = 4096.0;

pub(super) struct Flash {
    core: Core,
    interference: Interference,
}

impl Flash {
    pub fn new(model: &DiskModel, random: Generator) -> Self {
        let (read, write) = (&model.read, &model.write);
        let write_limits = match &model.filled {
            None => Limits::new(write.iops, write.bandwidth),
            Some(filled) => {
                let operations = RateServer::with_burst(filled.write_iops, write.iops, filled.clean_bytes / PAGE_BYTES);
                Limits::with_servers(operations, RateServer::new(write.bandwidth), write.iops, write.bandwidth)
            }
        };
        Self {
            core: Core::new(model, Limits::new(read.iops, read.bandwidth), write_limits, random),
            interference: Interference::new(&model.interference, &model.read_p95, &read.service),
        }
    }

    pub fn serve(&mut self, at: u64, not_before: u64, request: Request) -> Served {
        let demand = self.core.demand(at, not_before, request);
        match request.direction {
            Direction::Write => {
                self.interference.write(at, self.core.write.limits.cost_ns(demand.operations, demand.bytes));
                self.core.write.serve(demand)
            }
            Direction::Read => {
                let share = demand.share * self.interference.reads_left(at);
                let served = self.core.read.serve(Demand { share, ..demand });
                let wait_ns = self.interference.wait_ns(at, &mut self.core.random);
                Served { ends_at: served.ends_at + wait_ns, ..served }
            }
        }
    }

    pub fn flush(&mut self, at: u64) -> u64 {
        self.core.flush(at)
    }

    pub fn busy_ns(&self) -> u64 {
        self.core.busy_ns()
    }
}
