//! What takes a processor from a thread that works: the kernel, and the host of a virtual machine. Threads walk through
//! memory, reading the clock at each step, and note when it jumps.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::load::histogram;
use super::spread::Spread;
use super::{ProbeError, on_each};
use crate::bound::Account;
use crate::usage;

/// Shorter ones are in what work costs.
const FELT_NS: u64 = 20_000;
/// Longer ones are others' turns, a few a second among hundreds of interrupts: distributions of their own.
pub(super) const SHORT_NS: u64 = 200_000;
/// Walked through, a page a step: the kernel finds its own code and data out of the inner caches then, as it does behind
/// work. Interrupts took a third more of the time than from a thread that only read the clock.
const WALKED: usize = 8 << 20;
const PAGE: usize = 4 << 10;

/// Of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interruptions {
    /// Of work, on average.
    pub every_ns: u64,
    pub lasts: Spread,
}

/// What threads saw, and how long they worked.
pub struct Seen {
    short: Histogram<u64>,
    long: Histogram<u64>,
    /// Those in which other threads of this machine had the processor.
    preempted: Histogram<u64>,
    worked_ns: u64,
    /// What the host had of it, by its own account.
    stolen_ns: u64,
}

impl Seen {
    pub fn nothing() -> Self {
        Self { short: histogram(), long: histogram(), preempted: histogram(), worked_ns: 0, stolen_ns: 0 }
    }

    pub fn add(&mut self, other: &Self) -> Result<(), ProbeError> {
        self.worked_ns += other.worked_ns;
        self.stolen_ns += other.stolen_ns;
        for (all, more) in
            [(&mut self.short, &other.short), (&mut self.long, &other.long), (&mut self.preempted, &other.preempted)]
        {
            all.add(more).map_err(|_| ProbeError::Silent)?;
        }
        Ok(())
    }

    /// All, by kind.
    pub fn found(&self) -> Vec<Interruptions> {
        self.of([&self.short, &self.long, &self.preempted])
    }

    /// Those by interrupts and by the host: what is left where other threads' turns are known otherwise.
    ///
    /// The host comes and goes within seconds: as long as was seen, as often as it takes `stolen` of the time.
    pub fn but_preempted(&self, stolen: f64) -> Vec<Interruptions> {
        let short = self.of([&self.short]);
        let long = self.of([&self.long]).into_iter().filter_map(|long| {
            let times = self.times_as_long(stolen);
            (times > 0.0).then(|| Interruptions { every_ns: (long.every_ns as f64 / times) as u64, ..long })
        });
        short.into_iter().chain(long).collect()
    }

    /// Part of the time that interrupts took, of what was not other threads' or the host's.
    pub fn interrupted(&self) -> f64 {
        let short_ns = sum_ns(&self.short);
        short_ns / (short_ns + self.worked_ns as f64).max(1.0)
    }

    /// By what the long ones' time is to be multiplied where the host has `stolen` of the time.
    fn times_as_long(&self, stolen: f64) -> f64 {
        let long_ns = sum_ns(&self.long);
        let watched_ns = self.worked_ns as f64 + sum_ns(&self.short) + long_ns + sum_ns(&self.preempted);
        let others_ns = (long_ns - self.stolen_ns as f64).max(0.0);
        (others_ns + stolen * watched_ns) / long_ns.max(1.0)
    }

    fn of<const N: usize>(&self, kinds: [&Histogram<u64>; N]) -> Vec<Interruptions> {
        let of =
            |jumps: &Histogram<u64>| Interruptions { every_ns: self.worked_ns / jumps.len(), lasts: Spread::of(jumps) };
        kinds.into_iter().filter(|jumps| !jumps.is_empty()).map(of).collect()
    }
}

fn sum_ns(jumps: &Histogram<u64>) -> f64 {
    jumps.mean() * jumps.len() as f64
}

/// On all of `cpus` at once.
pub fn measure(cpus: &[usize], slice: Duration) -> Result<Seen, ProbeError> {
    let for_ns = slice.as_nanos() as u64;
    let mut all = Seen::nothing();
    let before_ns = usage::stolen_ns(cpus);
    for seen in on_each(cpus, move || watch(for_ns))? {
        all.add(&seen)?;
    }
    all.stolen_ns = usage::stolen_ns(cpus).saturating_sub(before_ns);
    Ok(all)
}

fn watch(for_ns: u64) -> Seen {
    let mut seen = Seen::nothing();
    let account = Account::own();
    let waited = || account.as_ref().and_then(Account::read).map_or(0, |[_, waited_ns, _]| waited_ns);
    // Ones: pages of zeros might all be one.
    let (walked, mut page) = (vec![1; WALKED], [0; PAGE]);
    let mut pages = walked.chunks_exact(PAGE).cycle();
    let (begun, mut waited_ns) = (reactor::now(), waited());
    let mut last = begun;
    while last - begun < for_ns {
        if let Some(next) = pages.next() {
            page.copy_from_slice(next);
        }
        std::hint::black_box(&page);
        let now = reactor::now();
        last = match now - last {
            jump if jump > FELT_NS => {
                let before_ns = std::mem::replace(&mut waited_ns, waited());
                let preempted_ns = (waited_ns - before_ns).min(jump);
                if preempted_ns > FELT_NS {
                    seen.preempted.saturating_record(preempted_ns);
                }
                // Whoever it was came with an interrupt.
                match jump - preempted_ns {
                    ..=FELT_NS => {}
                    short @ ..=SHORT_NS => seen.short.saturating_record(short),
                    long => seen.long.saturating_record(long),
                }
                // Looking took time.
                reactor::now()
            }
            step => {
                seen.worked_ns += step;
                now
            }
        };
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_are_not_work() {
        let slice = Duration::from_millis(50);
        let seen = measure(&[], slice).unwrap();
        for found in seen.found() {
            assert!(found.every_ns <= slice.as_nanos() as u64 && found.lasts.min > FELT_NS * 99 / 100, "{found:?}");
        }
        assert!(seen.but_preempted(0.01).len() <= seen.found().len());
        assert!((0.0..1.0).contains(&seen.interrupted()) && Seen::nothing().interrupted() == 0.0);
    }

    /// Of 100 ms ten were the host's and two the kernel's, a millisecond each.
    fn taken() -> Seen {
        let mut seen = Seen { worked_ns: 88_000_000, stolen_ns: 10_000_000, ..Seen::nothing() };
        seen.long.record_n(1_000_000, 12).unwrap();
        seen
    }

    #[test]
    fn interrupts_are_a_part_of_the_time() {
        let mut seen = taken();
        seen.short.record_n(40_000, 100).unwrap();
        // 4 ms beside the 88 ms of work; what the long ones took is not theirs.
        assert!((seen.interrupted() - 4.0 / 92.0).abs() < 1e-3, "{}", seen.interrupted());
    }

    #[test]
    fn the_host_takes_as_much_as_its_account_says() {
        let every_ms = |seen: Seen, stolen| seen.but_preempted(stolen).first().map(|long| long.every_ns as f64 / 1e6);
        let is = |found: Option<f64>, ms: f64| found.is_some_and(|found| (found / ms - 1.0).abs() < 0.01);
        assert!(is(every_ms(taken(), 0.1), 88.0 / 12.0));
        assert!(is(every_ms(taken(), 0.0), 88.0 / 2.0));
        // But for a histogram's rounding.
        let of_the_host_alone = Seen { stolen_ns: 12_000_000, ..taken() };
        assert!(every_ms(of_the_host_alone, 0.0).is_none_or(|every_ms| every_ms > 10_000.0));
    }
}
