//! Which SSTables to compact: a handful of similar size.
//!
//! As Cassandra's `SizeTieredCompactionStrategy`: tables of similar size form a bucket (within `bucket_low` and
//! `bucket_high` times its average, or all below `min_sstable_size`); a bucket of `min_threshold` is compacted, at most
//! `max_threshold` of it at once. Of several such buckets the one with the smallest average goes first, as there when
//! no table is read more than another.

use crate::compaction::picture::{Candidate, Picture};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub min_threshold: usize,
    pub max_threshold: usize,
    pub bucket_low: f64,
    pub bucket_high: f64,
    pub min_sstable_bytes: u64,
}

/// What buckets are made of: an SSTable, or a run of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sized {
    pub id: u64,
    pub bytes: u64,
}

impl From<&Candidate> for Sized {
    fn from(candidate: &Candidate) -> Self {
        Self { id: candidate.generation, bytes: candidate.bytes }
    }
}

pub(crate) struct Bucket {
    pub average: f64,
    /// The smallest first.
    pub members: Vec<Sized>,
}

impl Bucket {
    pub fn bytes(&self) -> u64 {
        self.members.iter().map(|member| member.bytes).sum()
    }
}

/// The smallest bucket first.
pub(crate) fn buckets(items: impl IntoIterator<Item = Sized>, options: &Options) -> Vec<Bucket> {
    let mut sorted: Vec<Sized> = items.into_iter().collect();
    sorted.sort_by_key(|item| (item.bytes, item.id));
    let small = options.min_sstable_bytes as f64;
    let mut buckets: Vec<Bucket> = Vec::new();
    for item in sorted {
        let size = item.bytes as f64;
        let fits = |bucket: &&mut Bucket| {
            let similar = size > bucket.average * options.bucket_low && size < bucket.average * options.bucket_high;
            similar || (size < small && bucket.average < small)
        };
        match buckets.iter_mut().find(fits) {
            Some(bucket) => {
                let count = bucket.members.len() as f64;
                bucket.average = (bucket.average * count + size) / (count + 1.0);
                bucket.members.push(item);
            }
            None => buckets.push(Bucket { average: size, members: vec![item] }),
        }
    }
    buckets
}

/// What to compact together; `None` when there is nothing to do.
pub(crate) fn pick_of(items: impl IntoIterator<Item = Sized>, options: &Options) -> Option<Vec<u64>> {
    let ripe = buckets(items, options).into_iter().filter(|bucket| bucket.members.len() >= options.min_threshold);
    let bucket = ripe.min_by(|a, b| a.average.total_cmp(&b.average))?;
    Some(bucket.members.iter().take(options.max_threshold).map(|item| item.id).collect())
}

pub(crate) fn pick(picture: &Picture, options: &Options) -> Option<Vec<u64>> {
    pick_of(picture.idle().map(Sized::from), options)
}

/// How many compactions the buckets call for now.
pub(crate) fn pending_of(items: impl IntoIterator<Item = Sized>, options: &Options) -> u64 {
    let ripe = buckets(items, options).into_iter().map(|bucket| bucket.members.len());
    ripe.filter(|n| *n >= options.min_threshold).map(|n| n.div_ceil(options.max_threshold) as u64).sum()
}
