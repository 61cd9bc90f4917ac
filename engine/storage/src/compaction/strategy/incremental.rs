//! Size tiers of runs: each run is a row of SSTables ("fragments") without common keys, so that a compaction can give
//! its inputs back one by one and needs little room.
//!
//! As Scylla's `incremental_compaction_strategy`: runs of similar size form a bucket as in size-tiered compaction; the
//! fullest of the buckets with `min_threshold` goes first. With a `space_amplification_goal` (the two largest tiers over
//! the largest), those two are compacted into one when they exceed it.

use std::collections::BTreeMap;

use super::size_tiered::{self, Bucket, Sized};
use crate::compaction::picture::Picture;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub fragment_bytes: u64,
    /// In (1, 2].
    pub space_amplification_goal: Option<f64>,
    pub tiers: size_tiered::Options,
}

fn runs(picture: &Picture) -> Vec<Sized> {
    let sized = |(run, members): (&u64, &Vec<_>)| Sized { id: *run, bytes: bytes(members) };
    picture.idle_runs().iter().map(sized).collect()
}

/// Busy ones too.
pub(crate) fn all_runs(picture: &Picture) -> Vec<Sized> {
    let mut runs: BTreeMap<u64, u64> = BTreeMap::new();
    for candidate in &picture.sstables {
        *runs.entry(candidate.standing.run).or_default() += candidate.bytes;
    }
    runs.into_iter().map(|(id, bytes)| Sized { id, bytes }).collect()
}

fn bytes(members: &[&crate::compaction::picture::Candidate]) -> u64 {
    members.iter().map(|member| member.bytes).sum()
}

/// As size-tiered's, but a bucket's average never drifts so high that its smallest falls out.
fn buckets(picture: &Picture, options: &Options) -> Vec<Bucket> {
    let tiers = &options.tiers;
    let mut sorted = runs(picture);
    sorted.sort_by_key(|run| (run.bytes, run.id));
    let small = tiers.min_sstable_bytes as f64;
    let mut buckets: Vec<Bucket> = Vec::new();
    for run in sorted {
        let size = run.bytes as f64;
        if let Some(bucket) = buckets.last_mut() {
            let similar = size > bucket.average * tiers.bucket_low && size < bucket.average * tiers.bucket_high;
            let both_small = size < small && bucket.average < small;
            let count = bucket.members.len() as f64;
            let average = (bucket.average * count + size) / (count + 1.0);
            let steady = size < small || bucket.members[0].bytes as f64 > average * tiers.bucket_low;
            if (similar || both_small) && steady {
                bucket.members.push(run);
                bucket.average = average;
                continue;
            }
        }
        buckets.push(Bucket { average: size, members: vec![run] });
    }
    buckets
}

fn generations(picture: &Picture, runs: impl IntoIterator<Item = Sized>) -> Vec<u64> {
    let idle = picture.idle_runs();
    runs.into_iter().flat_map(|run| idle[&run.id].iter().map(|member| member.generation)).collect()
}

pub(crate) fn pick(picture: &Picture, options: &Options) -> Option<Vec<u64>> {
    let mut buckets = buckets(picture, options);
    for bucket in &mut buckets {
        bucket.members.truncate(options.tiers.max_threshold);
    }
    let mut fullest: Option<&Bucket> = None;
    for bucket in buckets.iter().filter(|bucket| bucket.members.len() >= options.tiers.min_threshold) {
        // The first of equals, as `max_element` there.
        if fullest.is_none_or(|other| other.members.len() < bucket.members.len()) {
            fullest = Some(bucket);
        }
    }
    if let Some(bucket) = fullest {
        return Some(generations(picture, bucket.members.iter().copied()));
    }
    // While something runs, the tiers are not what they will be.
    if picture.sstables.iter().any(|candidate| candidate.busy) || buckets.len() < 2 {
        return None;
    }
    buckets.sort_by_key(Bucket::bytes);
    let [.., second, largest] = &buckets[..] else { return None };
    let amplification = (second.bytes() + largest.bytes()) as f64 / largest.bytes() as f64;
    let wanted = options.space_amplification_goal.is_some_and(|goal| amplification > goal);
    wanted.then(|| generations(picture, second.members.iter().chain(&largest.members).copied()))
}

/// The runs to compact for their tombstones: the largest tier with one that is worth it, and the tier next to it in
/// size, so that tombstones reach what they shadow.
pub(crate) fn pick_garbage(
    picture: &Picture,
    options: &Options,
    worth: impl Fn(&[&crate::compaction::picture::Candidate]) -> bool,
) -> Option<Vec<u64>> {
    let buckets = buckets(picture, options);
    let idle = picture.idle_runs();
    let at = buckets.iter().rposition(|bucket| bucket.members.iter().any(|run| worth(&idle[&run.id])))?;
    let beside = match at {
        0 if buckets.len() == 1 => None,
        at if at == buckets.len() - 1 => Some(at - 1),
        at => Some(at + 1),
    };
    let runs = [Some(at), beside].into_iter().flatten().flat_map(|at| buckets[at].members.iter().copied());
    Some(generations(picture, runs))
}

pub(crate) fn pending(picture: &Picture, options: &Options) -> u64 {
    size_tiered::pending_of(runs(picture), &options.tiers)
}
