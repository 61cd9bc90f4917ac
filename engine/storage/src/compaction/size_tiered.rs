//! Which SSTables to compact: a handful of similar size, the smallest first.
//!
//! As Cassandra's `SizeTieredCompactionStrategy`: tables of similar size form a bucket (within `bucket_low` and
//! `bucket_high` times its average, or all below `min_sstable_size`); a bucket of `min_threshold` is compacted, at most
//! `max_threshold` of it at once. Of several such buckets the one with the smallest average goes first, as there when
//! no table is read more than another.

use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub min_threshold: usize,
    pub max_threshold: usize,
    pub bucket_low: f64,
    pub bucket_high: f64,
    pub min_sstable_bytes: u64,
    pub enabled: bool,
}

impl Options {
    /// From a table's `compaction = {..}`; what is absent or unreadable has Cassandra's default, and other strategies
    /// are treated as this one. `small_bytes` stands in for the default of `min_sstable_size`.
    pub fn from_table(options: &BTreeMap<String, String>, small_bytes: u64) -> Self {
        let number = |name: &str| options.get(name).and_then(|text| text.parse::<f64>().ok());
        Self {
            min_threshold: number("min_threshold").map_or(4, |n| (n as usize).max(2)),
            max_threshold: number("max_threshold").map_or(32, |n| (n as usize).max(2)),
            bucket_low: number("bucket_low").unwrap_or(0.5),
            bucket_high: number("bucket_high").unwrap_or(1.5),
            min_sstable_bytes: number("min_sstable_size").map_or(small_bytes, |n| n as u64),
            enabled: options.get("enabled").is_none_or(|text| text != "false"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub generation: u64,
    pub bytes: u64,
}

struct Bucket {
    average: f64,
    members: Vec<Candidate>,
}

fn buckets(candidates: &[Candidate], options: &Options) -> Vec<Bucket> {
    let mut sorted = candidates.to_vec();
    sorted.sort_by_key(|candidate| (candidate.bytes, candidate.generation));
    let small = options.min_sstable_bytes as f64;
    let mut buckets: Vec<Bucket> = Vec::new();
    for candidate in sorted {
        let size = candidate.bytes as f64;
        let fits = |bucket: &&mut Bucket| {
            let similar = size > bucket.average * options.bucket_low && size < bucket.average * options.bucket_high;
            similar || (size < small && bucket.average < small)
        };
        match buckets.iter_mut().find(fits) {
            Some(bucket) => {
                let count = bucket.members.len() as f64;
                bucket.average = (bucket.average * count + size) / (count + 1.0);
                bucket.members.push(candidate);
            }
            None => buckets.push(Bucket { average: size, members: vec![candidate] }),
        }
    }
    buckets
}

/// Generations to compact together, ascending; `None` when there is nothing to do.
pub(crate) fn pick(candidates: &[Candidate], options: &Options) -> Option<Vec<u64>> {
    if !options.enabled {
        return None;
    }
    let ripe = buckets(candidates, options).into_iter().filter(|bucket| bucket.members.len() >= options.min_threshold);
    let bucket = ripe.min_by(|a, b| a.average.total_cmp(&b.average))?;
    let mut picked: Vec<u64> = bucket.members.iter().take(options.max_threshold).map(|c| c.generation).collect();
    picked.sort_unstable();
    Some(picked)
}

/// How many compactions the buckets call for now: Cassandra's pending tasks.
pub(crate) fn pending(candidates: &[Candidate], options: &Options) -> u64 {
    if !options.enabled {
        return 0;
    }
    let ripe = buckets(candidates, options).into_iter().map(|bucket| bucket.members.len());
    ripe.filter(|n| *n >= options.min_threshold).map(|n| n.div_ceil(options.max_threshold) as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// A picture of the SSTables (sizes in MB by generation from 1), then what is picked.
    fn check(sizes_mb: &[u64], change: fn(&mut Options), expect: Option<&[u64]>) {
        let mut options = Options::from_table(&BTreeMap::new(), 50 * MB);
        change(&mut options);
        let candidates: Vec<_> =
            (1..).zip(sizes_mb).map(|(generation, size)| Candidate { generation, bytes: size * MB }).collect();
        assert_eq!(pick(&candidates, &options).as_deref(), expect, "{sizes_mb:?}");
    }

    #[test]
    fn golden_picks() {
        let default = |_: &mut Options| ();
        check(&[], default, None);
        check(&[10, 20, 30], default, None);
        // All small ones are similar.
        check(&[1, 10, 40, 49], default, Some(&[1, 2, 3, 4]));
        // 1 is not like the four large ones.
        check(&[1, 100, 110, 90, 105], default, Some(&[2, 3, 4, 5]));
        // Two ripe tiers: the small one first.
        check(&[400, 410, 390, 405, 100, 110, 90, 105], default, Some(&[5, 6, 7, 8]));
        // Each more than 1.5 times the one before: no tier.
        check(&[100, 160, 260, 420, 700], default, None);
        // At most max_threshold, the smallest of the bucket.
        check(&[14, 13, 12, 11, 10, 9], |options| options.max_threshold = 5, Some(&[2, 3, 4, 5, 6]));
        check(&[10, 10], |options| options.min_threshold = 2, Some(&[1, 2]));
        check(&[10, 10, 10, 10], |options| options.enabled = false, None);
        // The average moves while a bucket fills: 100, then 120, then 133..
        check(&[100, 140, 160, 190, 220], default, Some(&[1, 2, 3, 4, 5]));
    }

    #[test]
    fn options_come_from_the_table() {
        let pairs = [("min_threshold", "8"), ("bucket_high", "2.5"), ("enabled", "false"), ("max_threshold", "x")];
        let map = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let options = Options::from_table(&map, 7);
        assert_eq!((options.min_threshold, options.max_threshold, options.enabled), (8, 32, false));
        assert_eq!((options.bucket_low, options.bucket_high, options.min_sstable_bytes), (0.5, 2.5, 7));
    }
}
