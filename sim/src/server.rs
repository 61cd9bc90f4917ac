//! A server with a rate: what every limit of a device is made of.
//!
//! Work waits for the work before it. The state is the backlog at the latest arrival, so an arrival that is reported a
//! little late (shards run ahead of the world by up to a quantum) is served with the backlog as it is known then, and
//! never waits for the time between the two.

/// Fractions of a nanosecond.
const FRACTION_BITS: u32 = 16;

/// When a piece of work leaves the queue, and when it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    pub starts_at: u64,
    pub ends_at: u64,
}

#[derive(Clone, Debug)]
pub struct RateServer {
    /// ns << FRACTION_BITS for one unit of work.
    unit_cost: u64,
    seen_at: u64,
    backlog: u64,
    burst: Option<Burst>,
}

/// A faster rate while credits last; credits come in at the base rate.
#[derive(Clone, Debug)]
struct Burst {
    unit_cost: u64,
    credits: f64,
    full: f64,
    refilled_at: u64,
}

fn unit_cost(per_second: f64) -> u64 {
    ((1e9 / per_second) * f64::from(1u32 << FRACTION_BITS)).round().max(1.0) as u64
}

impl RateServer {
    pub fn new(per_second: f64) -> Self {
        Self { unit_cost: unit_cost(per_second), seen_at: 0, backlog: 0, burst: None }
    }

    /// `burst_per_second` while credits last; `full` credits of one unit each fill the bucket, which starts full.
    pub fn with_burst(per_second: f64, burst_per_second: f64, full: f64) -> Self {
        let mut server = Self::new(per_second);
        if burst_per_second > per_second && full > 0.0 {
            server.burst = Some(Burst { unit_cost: unit_cost(burst_per_second), credits: full, full, refilled_at: 0 });
        }
        server
    }

    /// Serves `units` that arrive at `at`.
    #[inline]
    pub fn serve(&mut self, at: u64, units: u64) -> Served {
        let starts_at = self.advance(at);
        // Credits come and go when work is done, not when it arrives: what queues earns nothing.
        let cost = units * self.cost_now(starts_at, units);
        self.backlog += cost;
        Served { starts_at, ends_at: at + (self.backlog >> FRACTION_BITS) }
    }

    /// When work that arrives at `at` comes to be served.
    #[inline]
    fn advance(&mut self, at: u64) -> u64 {
        if at > self.seen_at {
            self.backlog = self.backlog.saturating_sub((at - self.seen_at) << FRACTION_BITS);
            self.seen_at = at;
        }
        at + (self.backlog >> FRACTION_BITS)
    }

    /// Serves work of `ns << 16`, whatever the rate.
    #[inline]
    fn serve_cost(&mut self, at: u64, cost: u64) -> Served {
        let starts_at = self.advance(at);
        self.backlog += cost;
        Served { starts_at, ends_at: at + (self.backlog >> FRACTION_BITS) }
    }

    /// Whether it works at `at` on what came before.
    pub fn is_busy(&self, at: u64) -> bool {
        self.backlog > at.saturating_sub(self.seen_at) << FRACTION_BITS
    }

    /// Serves work that takes `ns` by itself.
    pub fn serve_ns(&mut self, at: u64, ns: u64) -> Served {
        self.serve_cost(at, ns << FRACTION_BITS)
    }

    /// Serves `units` at `share` of the rate.
    pub fn serve_slowed(&mut self, at: u64, units: u64, share: f64) -> Served {
        let cost = (units * self.unit_cost) as f64 / share;
        self.serve_cost(at, cost as u64)
    }

    #[inline]
    fn cost_now(&mut self, at: u64, units: u64) -> u64 {
        let Some(burst) = &mut self.burst else { return self.unit_cost };
        if at > burst.refilled_at {
            let per_ns = f64::from(1u32 << FRACTION_BITS) / self.unit_cost as f64;
            burst.credits = (burst.credits + (at - burst.refilled_at) as f64 * per_ns).min(burst.full);
            burst.refilled_at = at;
        }
        burst.credits -= units as f64;
        // A server saturated at its base rate earns exactly what it spends: that is no burst.
        if burst.credits > units as f64 * 1e-3 {
            return burst.unit_cost;
        }
        burst.credits = burst.credits.max(0.0);
        self.unit_cost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_for_the_work_before_it() {
        let mut server = RateServer::new(1e6); // 1 us a unit
        assert_eq!(server.serve(1000, 1), Served { starts_at: 1000, ends_at: 2000 });
        assert_eq!(server.serve(1000, 2), Served { starts_at: 2000, ends_at: 4000 });
        assert_eq!(server.serve(3500, 1), Served { starts_at: 4000, ends_at: 5000 });
        assert_eq!(server.serve(9000, 1), Served { starts_at: 9000, ends_at: 10_000 });
    }

    #[test]
    fn a_late_report_waits_for_the_backlog_only() {
        let mut server = RateServer::new(1e6);
        server.serve(50_000, 1);
        assert_eq!(server.serve(40_000, 1), Served { starts_at: 41_000, ends_at: 42_000 });
    }

    #[test]
    fn the_burst_ends_with_its_credits() {
        let mut server = RateServer::with_burst(1000.0, 3000.0, 6000.0);
        // Saturated for 10 s: 6,000 credits last 3 s at 3,000/s (1,000/s come in), then the base rate holds.
        let (mut done, mut at) = (0, 0);
        while at < 10_000_000_000 {
            at = server.serve(at, 1).ends_at;
            done += 1;
        }
        assert!((15_900..16_100).contains(&done), "{done}");
    }
}
