//! The highest rate that keeps a bound: the rate is raised in steps, and latencies are held against the bound.
//!
//! Pure: it asks for steps and is told what they gave. Steps between one that keeps the bound and one that breaks it
//! are halved, for each costs a simulated second of full load; every step is asked for once.

use std::collections::BTreeMap;

/// Steps `0..=last`. `keeps` says whether a step keeps the bound, of those it has been given.
pub(super) struct Search {
    last: u64,
    known: BTreeMap<u64, bool>,
}

impl Search {
    pub fn new(from: f64, to: f64, step: f64) -> Self {
        Self { last: ((to - from) / step + 1e-9) as u64, known: BTreeMap::new() }
    }

    pub fn tell(&mut self, step: u64, keeps: bool) {
        self.known.insert(step, keeps);
    }

    /// The next step to try; `None` when it is known which is the highest.
    pub fn next(&self) -> Option<u64> {
        let good = self.best();
        // One that fails above the best; those below it failed by bad luck.
        let bad = self.known.iter().find(|(step, keeps)| !**keeps && good.is_none_or(|good| **step > good));
        match (good, bad.map(|(step, _)| *step)) {
            (None, None) => Some(self.last / 2),
            (None, Some(0)) => None,
            (None, Some(bad)) => Some(bad / 2),
            (Some(good), None) => (good < self.last).then(|| good + (self.last - good).div_ceil(2)),
            (Some(good), Some(bad)) => (bad > good + 1).then(|| good + (bad - good) / 2),
        }
    }

    /// The highest step that kept the bound.
    pub fn best(&self) -> Option<u64> {
        self.known.iter().rev().find(|(_, keeps)| **keeps).map(|(step, _)| *step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The best of `0..=last` where all up to `limit` keep the bound, and how many steps it took.
    fn find(last: u64, limit: Option<u64>) -> (Option<u64>, usize) {
        let mut search = Search::new(10.0, 10.0 + last as f64 * 10.0, 10.0);
        while let Some(step) = search.next() {
            assert!(!search.known.contains_key(&step), "{step} again");
            search.tell(step, limit.is_some_and(|limit| step <= limit));
        }
        (search.best(), search.known.len())
    }

    #[test]
    fn every_limit_is_found_in_few_steps() {
        for last in [0, 1, 2, 7, 30] {
            for limit in 0..=last {
                let (best, steps) = find(last, Some(limit));
                assert_eq!(best, Some(limit), "of {last}");
                assert!(steps <= 6, "{steps}");
            }
            assert_eq!(find(last, None).0, None);
        }
    }
}
