//! What takes a processor from a thread that works: the kernel, and the host of a virtual machine. Threads do nothing
//! but read the clock, and note when it jumps.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::load::histogram;
use super::spread::Spread;
use super::{ProbeError, on_each};

/// Shorter ones, the kernel's ticks, are in what work costs.
const FELT_NS: u64 = 20_000;
/// Fewer are no distribution.
const SEEN_MIN: u64 = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interruptions {
    /// Of work, on average.
    pub every_ns: u64,
    pub lasts: Spread,
}

/// What threads saw, and how long they worked.
pub struct Seen {
    jumps: Histogram<u64>,
    worked_ns: u64,
}

impl Seen {
    pub fn nothing() -> Self {
        Self { jumps: histogram(), worked_ns: 0 }
    }

    pub fn add(&mut self, other: &Self) -> Result<(), ProbeError> {
        self.worked_ns += other.worked_ns;
        self.jumps.add(&other.jumps).map_err(|_| ProbeError::Silent)
    }

    /// `None` where there is next to nothing.
    pub fn found(&self) -> Option<Interruptions> {
        let Self { jumps, worked_ns } = self;
        let found = || Interruptions { every_ns: worked_ns / jumps.len(), lasts: Spread::of(jumps) };
        (jumps.len() >= SEEN_MIN).then(found)
    }
}

/// On all of `cpus` at once.
pub fn measure(cpus: &[usize], slice: Duration) -> Result<Seen, ProbeError> {
    let for_ns = slice.as_nanos() as u64;
    let mut all = Seen::nothing();
    for seen in on_each(cpus, move || watch(for_ns))? {
        all.add(&seen)?;
    }
    Ok(all)
}

fn watch(for_ns: u64) -> Seen {
    let mut seen = Seen::nothing();
    let begun = reactor::now();
    let mut last = begun;
    while last - begun < for_ns {
        let now = reactor::now();
        match now - last {
            jump if jump > FELT_NS => seen.jumps.saturating_record(jump),
            step => seen.worked_ns += step,
        }
        last = now;
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_not_work() {
        let slice = Duration::from_millis(50);
        let Some(found) = measure(&[], slice).unwrap().found() else { return };
        assert!(found.every_ns <= slice.as_nanos() as u64 && found.lasts.min > FELT_NS * 99 / 100, "{found:?}");
    }
}
