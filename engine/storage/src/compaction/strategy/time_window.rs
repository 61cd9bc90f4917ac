//! SSTables of one window of time together: for data that expires in the order in which it came.
//!
//! As Cassandra's `TimeWindowCompactionStrategy`: an SSTable belongs to the window of its greatest timestamp. In the
//! newest window they are compacted by size; a window that has passed becomes one SSTable, and is then left alone until
//! all of it has expired. The newest windows go first.

use std::collections::BTreeMap;

use super::size_tiered::{self, Sized};
use crate::compaction::picture::{Candidate, Picture};

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub window_s: u64,
    /// Units of a write's timestamp in a second.
    pub timestamps_per_s: i64,
    /// Whole expired SSTables go even where others hold older data with the same keys.
    pub unsafe_aggressive_expiration: bool,
    pub tiers: size_tiered::Options,
}

impl Options {
    /// Start of the window of a timestamp, in seconds.
    pub fn window(&self, timestamp: i64) -> i64 {
        let second = timestamp.div_euclid(self.timestamps_per_s);
        let window_s = self.window_s as i64;
        second.div_euclid(window_s) * window_s
    }

    /// By window.
    pub fn windows<'a>(
        &self,
        candidates: impl IntoIterator<Item = &'a Candidate>,
    ) -> BTreeMap<i64, Vec<&'a Candidate>> {
        let mut windows: BTreeMap<i64, Vec<&Candidate>> = BTreeMap::new();
        for candidate in candidates {
            windows.entry(self.window(candidate.max_timestamp)).or_default().push(candidate);
        }
        windows
    }
}

/// The newest window there has been; that it is forgotten at a start does no harm.
pub(crate) type Newest = Option<i64>;

pub(crate) fn pick(picture: &Picture, options: &Options, newest: &mut Newest) -> Option<Vec<u64>> {
    let seen = picture.sstables.iter().map(|candidate| options.window(candidate.max_timestamp)).max();
    *newest = (*newest).max(seen);
    for (window, members) in options.windows(picture.idle()).iter().rev() {
        if let Some(picked) = pick_in(*window, members, *newest, options) {
            return Some(picked);
        }
    }
    None
}

fn pick_in(window: i64, members: &[&Candidate], newest: Newest, options: &Options) -> Option<Vec<u64>> {
    if newest.is_none_or(|newest| window >= newest) {
        return size_tiered::pick_of(members.iter().map(|candidate| Sized::from(*candidate)), &options.tiers);
    }
    let mut sorted: Vec<Sized> = members.iter().map(|candidate| Sized::from(*candidate)).collect();
    sorted.sort_by_key(|member| (member.bytes, member.id));
    sorted.truncate(options.tiers.max_threshold);
    (sorted.len() >= 2).then(|| sorted.iter().map(|member| member.id).collect())
}

pub(crate) fn pending(picture: &Picture, options: &Options) -> u64 {
    let windows = options.windows(picture.idle());
    let newest = windows.keys().last().copied();
    let tasks = windows.iter().map(|(window, members)| {
        let sized = members.iter().map(|candidate| Sized::from(*candidate));
        match Some(*window) < newest {
            true if members.len() >= 2 => members.len().div_ceil(options.tiers.max_threshold) as u64,
            true => 0,
            false => size_tiered::pending_of(sized, &options.tiers),
        }
    });
    tasks.sum()
}
