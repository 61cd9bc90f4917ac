//! The highest rate that keeps a bound, found as reports do it: from step to step up, without a rest between them.
//!
//! What lower steps have written is still being compacted while a higher one is measured, so that a step carries its
//! part of the compaction that its rate causes for good, and not only of what its own short time does. Pure: it is told
//! what steps gave.

/// Steps in a row that break the bound before the search is over: one may do so by chance.
const BROKEN_MAX: u32 = 2;

/// Of one side of a load.
#[derive(Debug, Default)]
pub(super) struct Search {
    best: Option<u64>,
    broken: u32,
}

impl Search {
    /// The next step up kept the bound, or not.
    pub fn tell(&mut self, step: u64, keeps: bool) {
        if self.is_over() {
            return;
        }
        self.broken = if keeps { 0 } else { self.broken + 1 };
        if keeps {
            self.best = Some(step);
        }
    }

    pub fn is_over(&self) -> bool {
        self.broken == BROKEN_MAX
    }

    /// The highest step that kept the bound.
    pub fn best(&self) -> Option<u64> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best of the steps and how many of them were tried.
    fn find(keeps: &[bool]) -> (Option<u64>, usize) {
        let mut search = Search::default();
        let tried = (0..).zip(keeps).take_while(|(step, keeps)| {
            let goes_on = !search.is_over();
            search.tell(*step, **keeps);
            goes_on
        });
        let tried = tried.count();
        (search.best(), tried)
    }

    #[test]
    fn two_broken_steps_in_a_row_end_it() {
        assert_eq!(find(&[true, true, false, false, true]), (Some(1), 4));
        assert_eq!(find(&[true, false, true, false, false, true]), (Some(2), 5));
        assert_eq!(find(&[false, false, true]), (None, 2));
        assert_eq!(find(&[true, true]), (Some(1), 2));
    }
}
