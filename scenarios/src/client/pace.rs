//! When the next operation of one driver may begin. Pure: times in, times out.

use crate::workload::Arrival;

/// A throttled driver that fell behind may catch up this much, as the rate limiter of cassandra-stress (Guava's
/// `SmoothBursty`, one second of permits) lets it.
const CATCH_UP_NS: f64 = 1e9;

#[derive(Clone, Debug)]
pub struct Pace {
    /// Between two operations of this driver; 0 for closed arrival without a limit.
    interval_ns: f64,
    next_ns: f64,
    open: bool,
}

impl Pace {
    pub fn new(arrival: &Arrival, start_ns: u64) -> Self {
        let interval_ns = arrival.rate().map_or(0.0, |rate| 1e9 / rate);
        Self { interval_ns, next_ns: start_ns as f64, open: arrival.is_open() }
    }

    /// When the next operation is due; in the past if it is overdue.
    pub fn due_ns(&self) -> u64 {
        self.next_ns as u64
    }

    /// Begins an operation now, if one is due. Gives the moment from which its latency counts.
    pub fn begin(&mut self, now_ns: u64) -> Option<u64> {
        if self.interval_ns == 0.0 {
            return Some(now_ns);
        }
        if self.due_ns() > now_ns {
            return None;
        }
        let due = self.due_ns();
        if self.open {
            self.next_ns += self.interval_ns;
            return Some(due);
        }
        self.next_ns = self.next_ns.max(now_ns as f64 - CATCH_UP_NS) + self.interval_ns;
        Some(now_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hwprofiles::quantity::Quantity;

    const S: u64 = 1_000_000_000;

    fn pace(open: bool) -> Pace {
        let rate = Quantity::new(1000.0);
        let arrival = if open { Arrival::Open { threads: 8, rate } } else { Arrival::Throttled { threads: 8, rate } };
        Pace::new(&arrival, 0)
    }

    fn begun(pace: &mut Pace, now_ns: u64) -> usize {
        std::iter::from_fn(|| pace.begin(now_ns)).take(100_000).count()
    }

    #[test]
    fn the_rate_is_kept() {
        for open in [false, true] {
            let mut pace = pace(open);
            let total: usize = (0..1000).map(|ms| begun(&mut pace, ms * 1_000_000)).sum();
            assert_eq!(total, 1000, "open: {open}");
        }
    }

    #[test]
    fn an_open_arrival_makes_up_for_all_and_counts_the_wait() {
        let mut pace = pace(true);
        assert_eq!(pace.begin(10 * S), Some(0));
        assert_eq!(begun(&mut pace, 10 * S), 10_000);
    }

    #[test]
    fn a_throttled_one_makes_up_for_a_second() {
        let mut pace = pace(false);
        assert_eq!(pace.begin(10 * S), Some(10 * S));
        assert_eq!(begun(&mut pace, 10 * S), 1000);
    }

    #[test]
    fn closed_arrival_never_waits() {
        let mut pace = Pace::new(&Arrival::Closed { threads: 1 }, 5);
        assert_eq!((pace.begin(5), pace.begin(5)), (Some(5), Some(5)));
    }
}
