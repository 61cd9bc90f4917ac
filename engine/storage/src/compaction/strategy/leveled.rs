//! Levels of SSTables without common keys, each ten times as large as the one above it.
//!
//! As Cassandra's `LeveledManifest`:
//! 1. Flushes come into level 0, where anything may overlap. Level n > 0 wants at most `fanout^n` SSTables' bytes.
//! 2. From the highest level down, the first that is too large gives one SSTable, the next behind the one it gave last,
//!    with all that it overlaps in the next level.
//! 3. But when level 0 is far behind (more than 32), it is first compacted by size within itself.
//! 4. When no level is too large, the oldest of level 0, with what overlaps them there, go into level 1 with what they
//!    overlap there. Less than one SSTable's bytes stay in level 0 as one.
//! 5. A high level that had no part in 25 compactions gives an SSTable that lies within a compaction's range, so that
//!    tombstones above reach what they shadow (the starvation round).

use types::Token;

use super::size_tiered;
use crate::compaction::picture::{Candidate, Picture};

/// `LeveledManifest.MAX_COMPACTING_L0`.
const LEVEL_0_BEHIND: usize = 32;
/// `LeveledGenerations.MAX_LEVEL_COUNT`.
const LEVELS_MAX: usize = 9;
/// `LeveledManifest.NO_COMPACTION_LIMIT`.
const STARVED_ROUNDS: u32 = 25;
/// A level may be this much too large (`LeveledManifest.getCompactionCandidates`).
const SCORE_MAX: f64 = 1.001;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Options {
    pub sstable_bytes: u64,
    pub fanout: u64,
    pub single_sstable_uplevel: bool,
    /// For level 0 when it is behind.
    pub tiers: size_tiered::Options,
}

/// What is remembered from one pick to the next; nothing is wrong when it is lost.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Memory {
    /// The end of the SSTable that a level gave last.
    pub last_given: [Option<Token>; LEVELS_MAX],
    /// Picks since a level had its part.
    pub rounds: [u32; LEVELS_MAX],
}

/// What to compact, the level of the outputs, and whether they are split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Picked {
    pub inputs: Vec<u64>,
    pub level: u32,
    pub split: bool,
}

/// By level, in token order; what overlaps another in its level counts to level 0, which takes anything.
pub(crate) fn levels(picture: &Picture) -> Vec<Vec<&Candidate>> {
    let mut levels: Vec<Vec<&Candidate>> = vec![Vec::new(); LEVELS_MAX];
    let mut sorted: Vec<&Candidate> = picture.sstables.iter().collect();
    sorted.sort_by_key(|candidate| (candidate.first, candidate.last, candidate.generation));
    for candidate in sorted {
        let level = (candidate.standing.level as usize).min(LEVELS_MAX - 1);
        let apart = levels[level].last().is_none_or(|last| last.last < candidate.first);
        levels[if apart { level } else { 0 }].push(candidate);
    }
    // Older ones first.
    levels[0].sort_by_key(|candidate| (candidate.max_timestamp, candidate.generation));
    levels
}

impl Options {
    /// How much a level may hold.
    pub fn max_bytes(&self, level: usize) -> u64 {
        match level {
            0 => self.sstable_bytes.saturating_mul(4),
            _ => self.sstable_bytes.saturating_mul(self.fanout.saturating_pow(level as u32)),
        }
    }

    /// The level for all of a table's data at once: the first where it fits.
    pub fn level_for(&self, bytes: u64) -> u32 {
        (1..LEVELS_MAX).find(|level| self.max_bytes(*level) >= bytes).unwrap_or(LEVELS_MAX - 1) as u32
    }
}

fn bytes(candidates: &[&Candidate]) -> u64 {
    candidates.iter().map(|candidate| candidate.bytes).sum()
}

/// What lies between the first and the last key of `with`, if only in a gap: outputs may span that.
fn overlapping<'a>(with: &[&Candidate], level: &[&'a Candidate]) -> Vec<&'a Candidate> {
    let first = with.iter().map(|candidate| candidate.first).min();
    let last = with.iter().map(|candidate| candidate.last).max();
    let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
    level.iter().filter(|candidate| candidate.first <= last && first <= candidate.last).copied().collect()
}

pub(crate) fn pick(picture: &Picture, options: &Options, memory: &mut Memory) -> Option<Picked> {
    let levels = levels(picture);
    let behind = || {
        let idle = levels[0].iter().filter(|candidate| !candidate.busy).map(|candidate| (*candidate).into());
        let inputs = (levels[0].len() > LEVEL_0_BEHIND).then(|| size_tiered::pick_of(idle, &options.tiers))??;
        Some(Picked { inputs, level: 0, split: false })
    };
    // The last level has none to give to.
    for level in (1..LEVELS_MAX - 1).rev() {
        let idle: Vec<&Candidate> = levels[level].iter().filter(|candidate| !candidate.busy).copied().collect();
        let score = bytes(&idle) as f64 / options.max_bytes(level) as f64;
        if score <= SCORE_MAX {
            continue;
        }
        if let Some(picked) = behind() {
            return Some(picked);
        }
        if let Some(inputs) = from_level(level, &levels, memory) {
            return Some(finish(inputs, level + 1, &levels, memory));
        }
    }
    match from_level_0(&levels, options) {
        Some((inputs, 0)) => {
            Some(Picked { inputs: inputs.iter().map(|c| c.generation).collect(), level: 0, split: false })
        }
        Some((inputs, level)) => Some(finish(inputs, level, &levels, memory)),
        None => behind(),
    }
}

/// One SSTable of the level, round robin, with what it overlaps in the next.
fn from_level<'a>(level: usize, levels: &[Vec<&'a Candidate>], memory: &mut Memory) -> Option<Vec<&'a Candidate>> {
    let members = &levels[level];
    let start = memory.last_given[level].map_or(0, |last| members.partition_point(|c| c.first <= last));
    for at in 0..members.len() {
        let given = members[(start + at) % members.len()];
        let mut inputs = vec![given];
        inputs.extend(overlapping(&[given], &levels[level + 1]));
        if inputs.iter().all(|candidate| !candidate.busy) {
            memory.last_given[level] = Some(given.last);
            return Some(inputs);
        }
    }
    None
}

/// The oldest of level 0, and where they go.
fn from_level_0<'a>(levels: &[Vec<&'a Candidate>], options: &Options) -> Option<(Vec<&'a Candidate>, usize)> {
    let busy: Vec<&Candidate> = levels[0].iter().filter(|candidate| candidate.busy).copied().collect();
    let mut inputs: Vec<&Candidate> = Vec::new();
    for candidate in levels[0].iter().filter(|candidate| !candidate.busy) {
        if inputs.iter().any(|input| input.generation == candidate.generation) {
            continue;
        }
        let group = overlapping(&[candidate], &levels[0]);
        if group.iter().any(|candidate| candidate.busy) || !overlapping(&group, &busy).is_empty() {
            continue;
        }
        for candidate in group {
            if !inputs.iter().any(|input| input.generation == candidate.generation) {
                inputs.push(candidate);
            }
        }
        if inputs.len() > options.tiers.max_threshold {
            inputs.sort_by_key(|candidate| (candidate.max_timestamp, candidate.generation));
            inputs.truncate(options.tiers.max_threshold);
            break;
        }
    }
    if bytes(&inputs) <= options.sstable_bytes {
        return (inputs.len() >= 2).then_some((inputs, 0));
    }
    let below = overlapping(&inputs, &levels[1]);
    // Older data of level 0 must not be left above what goes down.
    if below.iter().any(|candidate| candidate.busy) || !overlapping(&inputs, &busy).is_empty() {
        return None;
    }
    inputs.extend(below);
    (inputs.len() >= 2).then_some((inputs, 1))
}

/// Counts the round, and lets a starved level take part.
fn finish<'a>(
    mut inputs: Vec<&'a Candidate>,
    target: usize,
    levels: &[Vec<&'a Candidate>],
    memory: &mut Memory,
) -> Picked {
    memory.rounds.iter_mut().skip(1).for_each(|rounds| *rounds += 1);
    memory.rounds[target] = 0;
    let highest = (1..LEVELS_MAX).rev().find(|level| !levels[*level].is_empty());
    if let Some(starved) = highest.filter(|level| *level > target && memory.rounds[*level] > STARVED_ROUNDS) {
        let first = inputs.iter().map(|candidate| candidate.first).min();
        let last = inputs.iter().map(|candidate| candidate.last).max();
        if let (Some(first), Some(last)) = (first, last) {
            let within = |c: &&&Candidate| !c.busy && first <= c.first && c.last <= last;
            if let Some(candidate) = levels[starved].iter().find(within) {
                inputs.push(candidate);
                memory.rounds[starved] = 0;
            }
        }
    }
    Picked { inputs: inputs.iter().map(|c| c.generation).collect(), level: target as u32, split: true }
}

/// How many compactions it takes until no level is too large (`LeveledManifest.getEstimatedTasks`).
pub(crate) fn pending(picture: &Picture, options: &Options) -> u64 {
    let levels = levels(picture);
    let mut tasks = 0;
    for (level, members) in levels.iter().enumerate().skip(1).rev() {
        let excess = bytes(members).saturating_sub(options.max_bytes(level));
        tasks += excess / options.sstable_bytes.max(1);
    }
    let small = bytes(&levels[0]) <= options.sstable_bytes;
    tasks + u64::from(!small || levels[0].len() >= 2)
}
