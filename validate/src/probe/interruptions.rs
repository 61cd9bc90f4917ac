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

/// What one thread saw, and how long it worked.
struct Seen {
    jumps: Histogram<u64>,
    worked_ns: u64,
}

/// On all of `cpus` at once. `None` where there is next to nothing.
pub fn measure(cpus: &[usize], slice: Duration) -> Result<Option<Interruptions>, ProbeError> {
    let for_ns = slice.as_nanos() as u64;
    let seen = on_each(cpus, move || watch(for_ns))?;
    let worked_ns: u64 = seen.iter().map(|seen| seen.worked_ns).sum();
    let mut all = histogram();
    for Seen { jumps, .. } in &seen {
        all.add(jumps).map_err(|_| ProbeError::Silent)?;
    }
    let found = || Interruptions { every_ns: worked_ns / all.len(), lasts: Spread::of(&all) };
    Ok((all.len() >= SEEN_MIN).then(found))
}

fn watch(for_ns: u64) -> Seen {
    let mut seen = Seen { jumps: histogram(), worked_ns: 0 };
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
        let Some(found) = measure(&[], slice).unwrap() else { return };
        assert!(found.every_ns <= slice.as_nanos() as u64 && found.lasts.min > FELT_NS * 99 / 100, "{found:?}");
    }
}
