//! The highest rate that keeps a bound, found as reports do it: from step to step up, without a rest between them.
//!
//! What lower steps have written is still being compacted while a higher one is measured, so that a step carries its
//! part of the compaction that its rate causes for good, and not only of what its own short time does. Far below the
//! bound some steps are left out. Pure: it is told what steps gave.

use scenarios::model;

/// Steps in a row that break the bound before the search is over: one may do so by chance.
const BROKEN_MAX: u32 = 2;

/// While p99 is below so much of the bound, steps are left out.
const CALM: f64 = 0.5;

/// How much higher the next rate is then at most.
const LEAP: f64 = 1.25;

/// Which steps are tried.
pub(super) struct Climb {
    bound: model::Search,
    next: u64,
    /// The step above the last one tried: the next one, unless steps are left out.
    above: u64,
    may_leap: bool,
}

impl Climb {
    pub fn new(bound: model::Search) -> Self {
        Self { bound, next: 0, above: 0, may_leap: true }
    }

    /// The step to try next.
    pub fn next(&self) -> Option<u64> {
        (self.next < self.bound.steps()).then_some(self.next)
    }

    /// The worst p99 of that step. False when it broke the bound and steps before it were left out: these are tried
    /// first, and it again in its turn.
    pub fn tell(&mut self, p99_ms: Option<f64>) -> bool {
        let step = self.next;
        let below = |part: f64| p99_ms.is_some_and(|ms| ms < self.bound.p99_under.f64() / 1e6 * part);
        if step > self.above && !below(1.0) {
            (self.next, self.may_leap) = (self.above, false);
            return false;
        }
        (self.next, self.above) = (step + 1, step + 1);
        if self.may_leap && below(CALM) {
            let reach = self.bound.rate(step as f64) * LEAP;
            while self.next + 1 < self.bound.steps() && self.bound.rate((self.next + 1) as f64) <= reach {
                self.next += 1;
            }
        }
        true
    }
}

/// Of one side of a load.
#[derive(Debug)]
pub(super) struct Search {
    bound_ms: f64,
    /// The highest step that kept the bound, and its p99.
    best: Option<(u64, f64)>,
    /// Of the step above the best.
    above_ms: Option<f64>,
    broken: u32,
}

impl Search {
    pub fn below(bound_ms: f64) -> Self {
        Self { bound_ms, best: None, above_ms: None, broken: 0 }
    }

    /// The next step up and its p99, if it answered anything.
    pub fn tell(&mut self, step: u64, p99_ms: Option<f64>) {
        if self.is_over() {
            return;
        }
        match p99_ms {
            Some(ms) if ms < self.bound_ms => {
                (self.best, self.above_ms, self.broken) = (Some((step, ms)), None, 0);
            }
            _ => {
                self.above_ms = if self.broken == 0 { p99_ms } else { self.above_ms };
                self.broken += 1;
            }
        }
    }

    pub fn is_over(&self) -> bool {
        self.broken == BROKEN_MAX
    }

    /// The highest step that kept the bound.
    pub fn best(&self) -> Option<u64> {
        self.best.map(|(step, _)| step)
    }

    /// Where between two steps p99 would be at its bound, if it grew by the same ratio all the way from one to the next.
    pub fn crossing(&self) -> Option<f64> {
        let ((best, below), above) = (self.best?, self.above_ms?);
        Some(best as f64 + libm::log(self.bound_ms / below) / libm::log(above / below))
    }
}

#[cfg(test)]
mod tests {
    use hwprofiles::quantity::Quantity;

    use super::*;

    /// The best of the steps and how many of them were tried.
    fn find(keeps: &[bool]) -> (Option<u64>, usize) {
        let mut search = Search::below(10.0);
        let tried = (0..).zip(keeps).take_while(|(step, keeps)| {
            let goes_on = !search.is_over();
            search.tell(*step, Some(if **keeps { 9.0 } else { 11.0 }));
            goes_on
        });
        let tried = tried.count();
        (search.best(), tried)
    }

    /// The steps tried of a load whose p99 is what `p99` says of its rate in thousands.
    fn climb(p99: impl Fn(u64) -> f64, tries: usize) -> Vec<u64> {
        let (from, to, step) = (Quantity::new(10e3), Quantity::new(240e3), Quantity::new(10e3));
        let mut climb = Climb::new(model::Search { from, to, step, p99_under: Quantity::new(10e6) });
        let mut tried = Vec::new();
        while let Some(step) = climb.next().filter(|_| tried.len() < tries) {
            tried.push((step + 1) * 10);
            climb.tell(Some(p99((step + 1) * 10)));
        }
        tried
    }

    #[test]
    fn steps_are_left_out_far_below_the_bound() {
        let gentle = |rate: u64| if rate < 150 { 3.0 } else { 6.0 };
        assert_eq!(climb(gentle, 13), [10, 20, 30, 40, 50, 60, 70, 80, 100, 120, 150, 160, 170]);
        assert_eq!(climb(|_| 3.0, 99).last(), Some(&240));
        assert_eq!(climb(|_| 6.0, 99).len(), 24);
    }

    #[test]
    fn a_cliff_behind_steps_left_out_is_come_to_step_by_step() {
        let cliff = |rate: u64| if rate < 130 { 3.0 } else { 30.0 };
        assert_eq!(climb(cliff, 14)[8..], [100, 120, 150, 130, 140, 150]);
    }

    #[test]
    fn two_broken_steps_in_a_row_end_it() {
        assert_eq!(find(&[true, true, false, false, true]), (Some(1), 4));
        assert_eq!(find(&[true, false, true, false, false, true]), (Some(2), 5));
        assert_eq!(find(&[false, false, true]), (None, 2));
        assert_eq!(find(&[true, true]), (Some(1), 2));
    }

    #[test]
    fn the_bound_is_crossed_between_the_best_step_and_the_next() {
        let crossing = |p99: &[f64]| {
            let mut search = Search::below(10.0);
            (0..).zip(p99).for_each(|(step, p99)| search.tell(step, Some(*p99)));
            search.crossing()
        };
        assert!((crossing(&[5.0, 8.0, 12.5, 40.0]).unwrap() - 1.5).abs() < 1e-12);
        // One that broke it by chance is not the one above the best.
        assert!((crossing(&[5.0, 11.0, 8.0, 12.5, 40.0]).unwrap() - 2.5).abs() < 1e-12);
        assert_eq!(crossing(&[5.0, 8.0]), None);
        assert_eq!(crossing(&[11.0, 12.0]), None);
        let mut silent = Search::below(10.0);
        [Some(8.0), None, None].into_iter().zip(0..).for_each(|(p99, step)| silent.tell(step, p99));
        assert_eq!((silent.best(), silent.crossing()), (Some(0), None));
    }
}
