//! What a table's `compaction = {'class': .., ..}` means: a strategy with its options, which picks what to compact.
//!
//! All of it is pure: a [`Picture`] of the SSTables goes in, a [`Job`] comes out. Of each pick the order is: what has
//! expired as a whole, what the strategy wants, one SSTable for its tombstones.

pub(crate) mod incremental;
pub(crate) mod leveled;
pub(crate) mod options;
pub(crate) mod size_tiered;
pub(crate) mod time_window;

#[cfg(test)]
mod tests;

use super::expired;
use super::picture::{Candidate, Job, Kind, Picture};

/// The strategy of one table, as its options say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Strategy {
    pub kind: Way,
    pub enabled: bool,
    /// `None`: no SSTable is compacted for its tombstones alone.
    pub tombstones: Option<Tombstones>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Way {
    SizeTiered(size_tiered::Options),
    Leveled(leveled::Options),
    TimeWindow(time_window::Options),
    Incremental(incremental::Options),
}

/// When one SSTable is compacted for its tombstones.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tombstones {
    pub threshold: f64,
    pub interval_s: u32,
    /// Without a look at what overlaps it.
    pub unchecked: bool,
}

/// What picks remember of each other; nothing is wrong when it is lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    pub leveled: leveled::Memory,
    pub newest_window: time_window::Newest,
}

impl Strategy {
    pub fn pick(&self, picture: &Picture, memory: &mut Memory) -> Option<Job> {
        if !self.enabled {
            return None;
        }
        let unsafe_expiration = match &self.kind {
            Way::TimeWindow(options) => options.unsafe_aggressive_expiration,
            _ => false,
        };
        let expired = expired::fully_expired(picture, unsafe_expiration);
        if !expired.is_empty() {
            return Some(Job::new(Kind::Expired, expired, 0, u64::MAX));
        }
        let job = |inputs: Vec<u64>| Job::new(Kind::Compaction, inputs, 0, self.split_bytes());
        let picked = match &self.kind {
            Way::SizeTiered(options) => size_tiered::pick(picture, options).map(job),
            Way::TimeWindow(options) => time_window::pick(picture, options, &mut memory.newest_window).map(job),
            Way::Incremental(options) => incremental::pick(picture, options).map(job),
            Way::Leveled(options) => leveled::pick(picture, options, &mut memory.leveled).map(|picked| {
                let split_bytes = if picked.split { options.sstable_bytes } else { u64::MAX };
                let alone = picked.inputs.len() == 1 && options.single_sstable_uplevel;
                let kind = if alone { Kind::Level } else { Kind::Compaction };
                Job::new(kind, picked.inputs, picked.level, split_bytes)
            }),
        };
        picked.or_else(|| self.pick_tombstones(picture))
    }

    fn split_bytes(&self) -> u64 {
        match &self.kind {
            Way::SizeTiered(_) | Way::TimeWindow(_) => u64::MAX,
            Way::Leveled(options) => options.sstable_bytes,
            Way::Incremental(options) => options.fragment_bytes,
        }
    }

    fn pick_tombstones(&self, picture: &Picture) -> Option<Job> {
        let tombstones = self.tombstones.as_ref()?;
        let worth = |candidate: &&Candidate| expired::worth_dropping(picture, candidate, tombstones);
        let one = |candidate: &Candidate| {
            let split_bytes = if candidate.standing.level > 0 { self.split_bytes() } else { u64::MAX };
            Job::new(Kind::Tombstones, [candidate.generation], candidate.standing.level, split_bytes)
        };
        let size = |candidate: &&Candidate| (candidate.bytes, candidate.generation);
        match &self.kind {
            Way::SizeTiered(_) => picture.idle().filter(worth).max_by_key(size).map(one),
            Way::TimeWindow(_) => picture.idle().filter(worth).min_by_key(size).map(one),
            Way::Leveled(_) => {
                let order = |a: &&Candidate, b: &&Candidate| {
                    let ratio = a.droppable.total_cmp(&b.droppable);
                    a.standing.level.cmp(&b.standing.level).then(ratio).then(b.generation.cmp(&a.generation))
                };
                picture.idle().filter(worth).max_by(order).map(one)
            }
            Way::Incremental(options) => {
                // What overlaps is compacted with it, or not at all.
                let alone = Tombstones { unchecked: true, ..tombstones.clone() };
                let any = |run: &[&Candidate]| run.iter().any(|c| expired::worth_dropping(picture, c, &alone));
                let inputs = incremental::pick_garbage(picture, options, any)?;
                Some(Job::new(Kind::Tombstones, inputs, 0, options.fragment_bytes))
            }
        }
    }

    /// How many compactions the picture calls for; 0 exactly when nothing would be picked.
    pub fn pending(&self, picture: &Picture, memory: &Memory) -> u64 {
        if self.pick(picture, &mut memory.clone()).is_none() {
            return 0;
        }
        let estimate = match &self.kind {
            Way::SizeTiered(options) => size_tiered::pending_of(picture.idle().map(Into::into), options),
            Way::Leveled(options) => leveled::pending(picture, options),
            Way::TimeWindow(options) => time_window::pending(picture, options),
            Way::Incremental(options) => incremental::pending(picture, options),
        };
        estimate.max(1)
    }

    /// Everything at once, as `nodetool compact` has it: one SSTable (`split`: in parts of the size that the strategy
    /// has, or 1 GiB), a level that holds all of it, or one for each window.
    pub fn major(&self, picture: &Picture, split: bool) -> Vec<Job> {
        /// For strategies without a size of their own.
        const SPLIT_BYTES: u64 = 1 << 30;
        let all = || picture.sstables.iter().map(|candidate| candidate.generation);
        let split_bytes = match self.split_bytes() {
            u64::MAX if split => SPLIT_BYTES,
            bytes => bytes,
        };
        if picture.sstables.is_empty() {
            return Vec::new();
        }
        match &self.kind {
            Way::TimeWindow(options) => {
                let windows = options.windows(&picture.sstables).into_values();
                let job = |members: Vec<&Candidate>| {
                    Job::new(Kind::Major, members.iter().map(|candidate| candidate.generation), 0, split_bytes)
                };
                windows.map(job).collect()
            }
            Way::Leveled(options) => {
                let bytes = picture.sstables.iter().map(|candidate| candidate.bytes).sum();
                vec![Job::new(Kind::Major, all(), options.level_for(bytes), split_bytes)]
            }
            Way::SizeTiered(_) | Way::Incremental(_) => vec![Job::new(Kind::Major, all(), 0, split_bytes)],
        }
    }
}
