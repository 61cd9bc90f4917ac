//! Records that differ by their seed alone: of each value the median is what was simulated, and the others say how much
//! chance has in it.

use scenarios::Metric;
use scenarios::record::{Comparison, RunRecord};

/// Records of one system under one scenario, at least one.
pub(crate) struct Seeds<'a>(Vec<&'a RunRecord>);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub median: f64,
    pub least: f64,
    pub most: f64,
}

impl Spread {
    /// `None` without values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Self { median, least, most })
    }
}

impl<'a> Seeds<'a> {
    /// In the order in which their first ones come.
    pub fn of_each(records: impl IntoIterator<Item = &'a RunRecord>) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        for record in records {
            let of = |record: &'a RunRecord| (&record.scenario, &record.system, record.kind);
            match all.iter_mut().find(|seeds| of(seeds.first()) == of(record)) {
                Some(seeds) => seeds.0.push(record),
                None => all.push(Self(vec![record])),
            }
        }
        all
    }

    pub fn first(&self) -> &'a RunRecord {
        self.0[0]
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn value(&self, phase: &str, metric: Metric) -> Option<Spread> {
        Spread::of(self.0.iter().filter_map(|record| record.phase(phase)?.value(metric)).collect())
    }

    /// The references, held against the medians.
    pub fn references(&self) -> impl Iterator<Item = (Comparison, Option<Spread>)> {
        self.first().references.iter().map(|comparison| {
            let spread = self.value(&comparison.phase, comparison.metric);
            (comparison.against(spread.map(|spread| spread.median)), spread)
        })
    }
}

/// Of each system the first.
pub(crate) fn firsts<'a>(records: &[&'a RunRecord]) -> Vec<&'a RunRecord> {
    Seeds::of_each(records.iter().copied()).iter().map(Seeds::first).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_lies_between_the_least_and_the_most() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some(Spread { median: 3.0, least: 3.0, most: 3.0 }));
        assert_eq!(spread(&[4.0, 1.0, 2.0]), Some(Spread { median: 2.0, least: 1.0, most: 4.0 }));
        assert_eq!(spread(&[8.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, least: 1.0, most: 8.0 }));
    }
}
