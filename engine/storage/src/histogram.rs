//! Counts of small numbers, a few per read, by size classes: `EstimatedHistogram` of Apache Cassandra.
//!
//! Classes grow by a fifth, so a percentile is told at most a fifth too high. Zero has a class of its own.

const CLASSES: usize = 90;

/// The largest number of each class: 0, then as `EstimatedHistogram.newOffsets` makes them.
const OFFSETS: [u64; CLASSES] = {
    let mut offsets = [0; CLASSES];
    offsets[1] = 1;
    let mut at = 2;
    while at < CLASSES {
        let last: u64 = offsets[at - 1];
        // Half up, as Java's Math.round does.
        let next = (last * 12 + 5) / 10;
        offsets[at] = if next > last { next } else { last + 1 };
        at += 1;
    }
    offsets
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// The last one counts all that is larger.
    counts: [u64; CLASSES + 1],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: [0; CLASSES + 1] }
    }
}

impl Histogram {
    #[inline]
    pub fn add(&mut self, n: u64) {
        // Most are below the first class that is wider than one.
        let class = if n < 9 { n as usize } else { OFFSETS.partition_point(|offset| *offset < n) };
        self.counts[class] += 1;
    }

    /// The largest number of each class but the last.
    pub fn offsets() -> &'static [u64] {
        &OFFSETS
    }

    /// By class.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    pub fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(other.counts).for_each(|(count, more)| *count += more);
    }

    /// What came in since `earlier`, an older state of this one.
    pub fn since(&self, earlier: &Histogram) -> Histogram {
        let mut counts = self.counts;
        counts.iter_mut().zip(earlier.counts).for_each(|(count, before)| *count -= before);
        Histogram { counts }
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The least class that `fraction` of all numbers are in or below; 0 without any. Numbers beyond the classes are
    /// told as the largest one.
    pub fn percentile(&self, fraction: f64) -> u64 {
        let wanted = (self.count() as f64 * fraction).ceil() as u64;
        let mut seen = 0;
        for (count, offset) in self.counts.iter().zip(OFFSETS) {
            seen += count;
            if seen >= wanted.max(1) {
                return offset;
            }
        }
        if seen == self.count() && seen == 0 { 0 } else { OFFSETS[CLASSES - 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_cassandras() {
        assert_eq!(OFFSETS[..16], [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 17, 20, 24, 29]);
        assert_eq!(OFFSETS[89], 20_924_300);
    }

    #[test]
    fn percentiles() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(0.99), 0);
        (0..100).for_each(|n| histogram.add(n));
        assert_eq!((histogram.percentile(0.0), histogram.percentile(0.5), histogram.percentile(1.0)), (0, 50, 103));
        assert_eq!(histogram.percentile(0.09), 8);
        let before = histogram.clone();
        histogram.add(u64::MAX);
        assert_eq!(histogram.percentile(1.0), OFFSETS[89]);
        let since = histogram.since(&before);
        assert_eq!((since.count(), since.percentile(0.5)), (1, OFFSETS[89]));
    }
}
