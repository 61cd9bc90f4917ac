//! What a strategy sees and what it says: a picture of a table's SSTables in, a job out. Pure.

use std::collections::BTreeMap;

use types::Token;

use crate::sstable::Standing;

/// One SSTable in figures.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub generation: u64,
    /// Of data, as they are on disk.
    pub bytes: u64,
    pub standing: Standing,
    pub first: Token,
    pub last: Token,
    pub min_timestamp: i64,
    pub max_timestamp: i64,
    /// `NEVER_S` when something in it has no end.
    pub max_local_deletion_s: u32,
    /// Tombstones past their grace per cell, about.
    pub droppable: f64,
    /// A compaction is reading it now.
    pub busy: bool,
}

impl Candidate {
    pub fn overlaps(&self, other: &Candidate) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// A table's SSTables, by generation, at a moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Picture {
    pub sstables: Vec<Candidate>,
    pub now_s: u32,
    /// What was deleted before then may be forgotten: now less `gc_grace_seconds`.
    pub gc_before_s: u32,
    /// The least timestamp in any memtable; `i64::MAX` when they are empty.
    pub memtable_min_timestamp: i64,
}

impl Picture {
    pub fn idle(&self) -> impl Iterator<Item = &Candidate> {
        self.sstables.iter().filter(|candidate| !candidate.busy)
    }

    /// SSTables of each run that none is busy of, by the run.
    pub fn idle_runs(&self) -> BTreeMap<u64, Vec<&Candidate>> {
        let mut runs: BTreeMap<u64, Vec<&Candidate>> = BTreeMap::new();
        for candidate in &self.sstables {
            runs.entry(candidate.standing.run).or_default().push(candidate);
        }
        runs.retain(|_, members| members.iter().all(|member| !member.busy));
        runs
    }
}

/// Why a compaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The strategy wants fewer, or better placed, SSTables.
    Compaction,
    /// What has expired as a whole is removed unread.
    Expired,
    /// An SSTable is rewritten for the tombstones that it can lose.
    Tombstones,
    /// An SSTable goes a level up as it is.
    Level,
    /// All of a table at once, because somebody asked.
    Major,
    /// Without the partitions that are not this shard's or node's.
    Cleanup,
    /// Without what is damaged.
    Scrub,
    /// Each SSTable without what others shadow.
    GarbageCollection,
    /// Only reading.
    Verify,
}

impl Kind {
    /// Because somebody asked, and not because a strategy wants it.
    pub fn is_asked_for(self) -> bool {
        matches!(self, Kind::Major | Kind::Cleanup | Kind::Scrub | Kind::GarbageCollection)
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::Compaction => "compaction",
            Kind::Expired => "expired",
            Kind::Tombstones => "tombstone-compaction",
            Kind::Level => "level",
            Kind::Major => "major",
            Kind::Cleanup => "cleanup",
            Kind::Scrub => "scrub",
            Kind::GarbageCollection => "garbage-collection",
            Kind::Verify => "verify",
        }
    }
}

/// What to compact, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    pub kind: Kind,
    /// Generations, ascending.
    pub inputs: Vec<u64>,
    /// Of the outputs.
    pub level: u32,
    /// An output ends with the partition that reaches this; `u64::MAX`: one output.
    pub split_bytes: u64,
}

impl Job {
    /// Disk that it may need besides its inputs: all of them again; or, as fragments are given back when they have been
    /// read, an output and of each run, or level, the largest.
    pub fn temporary_bytes(&self, picture: &Picture) -> u64 {
        if matches!(self.kind, Kind::Expired | Kind::Level | Kind::Verify) {
            return 0;
        }
        let inputs =
            picture.sstables.iter().filter(|candidate| self.inputs.binary_search(&candidate.generation).is_ok());
        let mut largest: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        let mut total = 0;
        for input in inputs {
            total += input.bytes;
            let row = match input.standing.level {
                0 => (0, input.standing.run),
                level => (level, 0),
            };
            let row = largest.entry(row).or_default();
            *row = (*row).max(input.bytes);
        }
        self.split_bytes.saturating_add(largest.values().sum()).min(total)
    }

    pub fn new(kind: Kind, inputs: impl IntoIterator<Item = u64>, level: u32, split_bytes: u64) -> Self {
        let mut inputs: Vec<u64> = inputs.into_iter().collect();
        inputs.sort_unstable();
        inputs.dedup();
        Self { kind, inputs, level, split_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NEVER_S;

    /// SSTables as (bytes, level, run).
    fn temporary(sstables: &[(u64, u32, u64)], split_bytes: u64) -> u64 {
        let candidate = |(generation, (bytes, level, run)): (u64, &(u64, u32, u64))| Candidate {
            generation,
            bytes: *bytes,
            standing: Standing { level: *level, run: *run, made_s: 0, from: None },
            first: Token::MIN,
            last: Token::MAX,
            min_timestamp: 0,
            max_timestamp: 0,
            max_local_deletion_s: NEVER_S,
            droppable: 0.0,
            busy: false,
        };
        let picture = Picture { sstables: (1..).zip(sstables).map(candidate).collect(), ..Picture::default() };
        let all = picture.sstables.iter().map(|candidate| candidate.generation);
        Job::new(Kind::Compaction, all, 0, split_bytes).temporary_bytes(&picture)
    }

    #[test]
    fn what_a_compaction_needs_besides_its_inputs() {
        assert_eq!(temporary(&[(100, 0, 1), (200, 0, 2)], u64::MAX), 300);
        // Two runs of fragments of 10.
        let runs: Vec<_> = (0..20).map(|n| (10, 0, n / 10)).collect();
        assert_eq!(temporary(&runs, 10), 10 + 10 + 10);
        // One of level 1 and ten of level 2.
        let levels: Vec<_> = [(10, 1, 1)].into_iter().chain((0..10).map(|n| (10, 2, n))).collect();
        assert_eq!(temporary(&levels, 10), 10 + 10 + 10);
        assert_eq!(temporary(&[(5, 0, 1), (5, 0, 2)], 100), 10);
    }
}
