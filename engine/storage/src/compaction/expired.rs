//! What can be forgotten: SSTables that have expired as a whole, and SSTables with many droppable tombstones. Pure.

use super::picture::{Candidate, Picture};
use super::strategy::Tombstones;

/// SSTables in which everything was deleted before the grace, and whose deletions shadow nothing elsewhere: they can be
/// removed unread. As Cassandra's `CompactionController.getFullyExpiredSSTables`; with `ignore_overlaps` without the
/// look at what they shadow.
pub(crate) fn fully_expired(picture: &Picture, ignore_overlaps: bool) -> Vec<u64> {
    let is_dead = |candidate: &&Candidate| candidate.max_local_deletion_s < picture.gc_before_s;
    let dead: Vec<&Candidate> = picture.idle().filter(is_dead).collect();
    if dead.is_empty() {
        return Vec::new();
    }
    let shadows_nothing = |candidate: &&Candidate| {
        let older = |other: &Candidate| {
            // Another dead one that goes too cannot come back.
            let stays = other.busy || !is_dead(&other);
            stays && candidate.overlaps(other) && other.min_timestamp <= candidate.max_timestamp
        };
        !picture.sstables.iter().any(older) && picture.memtable_min_timestamp > candidate.max_timestamp
    };
    let gone: Vec<&Candidate> = dead.into_iter().filter(|c| ignore_overlaps || shadows_nothing(c)).collect();
    gone.iter().map(|candidate| candidate.generation).collect()
}

/// Whether one SSTable is worth a compaction of its own, for its tombstones. As Cassandra's
/// `AbstractCompactionStrategy.worthDroppingTombstones`; the keys that others share are estimated from token ranges, as
/// tokens are spread evenly.
pub(crate) fn worth_dropping(picture: &Picture, candidate: &Candidate, options: &Tombstones) -> bool {
    let age_s = picture.now_s.saturating_sub(candidate.standing.made_s);
    if age_s < options.interval_s || candidate.droppable <= options.threshold {
        return false;
    }
    if options.unchecked {
        return true;
    }
    let others = picture.sstables.iter().filter(|other| other.generation != candidate.generation);
    let mut ranges: Vec<(i64, i64)> = others
        .filter(|other| other.overlaps(candidate))
        // Nothing in it is older than what the candidate's tombstones could shadow.
        .filter(|other| other.min_timestamp <= candidate.max_timestamp)
        .map(|other| (other.first.max(candidate.first).0, other.last.min(candidate.last).0))
        .collect();
    ranges.sort_unstable();
    let mut covered = 0u128;
    let mut upto = i128::from(i64::MIN) - 1;
    for (first, last) in ranges {
        let first = i128::from(first).max(upto + 1);
        let last = i128::from(last);
        if first <= last {
            covered += (last - first + 1) as u128;
            upto = last;
        }
    }
    let whole = (i128::from(candidate.last.0) - i128::from(candidate.first.0) + 1) as f64;
    let alone = 1.0 - covered as f64 / whole;
    candidate.droppable * alone > options.threshold
}
