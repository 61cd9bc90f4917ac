//! The beginning of a phase as its loading client has it (`hwprofiles::Start`).
//!
//! It is driven by itself, behind the phase: what is measured of that does not depend on it, and a phase at its scale is
//! too short for both.

use hwprofiles::Start;
use scenarios::PhaseRecord;

use super::{RunError, Simulation};
use crate::latency::Latency;
use crate::random::Stream;

/// Behind the stop, for the operations that it held up.
const AFTER_NS: u64 = 200_000_000;

/// Leads the parts of this module's random stream.
const STREAM: u64 = 0x5354_4152_5400_0000;

impl Simulation<'_> {
    /// Drives the start of phase `index` and adds it to what is recorded of the phase. Only of a load at a given rate:
    /// one without waits for the servers anyway.
    pub(super) fn start(&self, index: usize, record: &mut PhaseRecord) -> Result<(), RunError> {
        let plan = &self.run.phases[index];
        let is_timed = plan.workloads.iter().all(|workload| workload.duration_ns.is_some());
        let Some(rate) = plan.workloads.first().filter(|_| is_timed).and_then(|workload| workload.arrival.rate())
        else {
            return Ok(());
        };
        let Some(Start { after, stop }) = &self.run.loader_system.start else { return Ok(()) };
        let Some(stop) = stop.sampler().map(|sampler| Latency::from_sampler(&sampler, 1)) else { return Ok(()) };
        let mut random = self.world.random(Stream::Scheduling, &[STREAM, index as u64]);
        let stops: Vec<u64> = plan.workloads.iter().map(|_| stop.sample(random.next_u64())).collect();
        let stops_after_ns = (after.f64() / rate * 1e9) as u64;
        let lasts_ns = stops_after_ns + stops.iter().max().copied().unwrap_or(0) + AFTER_NS;

        let start = self.world.now();
        let (parts, shared) = self.deal(|loader| self.run.start_shares(index, loader, lasts_ns));
        self.board.begin.notify_all();
        let is_over = || self.board.done.get() == parts;
        for ((loader, shared), ns) in self.loaders.iter().zip(&shared).zip(stops) {
            // It is an operation that allocates too much: that one is in flight.
            self.wait(&plan.name, || shared.begun() >= after.u64() || is_over())?;
            self.world.stand_still(*loader, ns);
        }
        self.wait(&plan.name, is_over)?;
        let latency = self.recorded(start, plan.workloads.len()).finish().latency;
        record.latency.max = record.latency.max.max(latency.max);
        record.start_latency = Some(latency);
        Ok(())
    }
}
