//! How much of the shard compaction gets: its backlog, from time to time, sets the shares of its scheduling group.
//!
//! The backlog is the bytes that are yet to be written until the strategy is content, as Scylla's
//! `compaction_backlog_tracker` has it. Divided by the shard's memory it goes through a curve of Scylla's
//! `compaction_controller`: little to do, few shares; the further behind, the more, so that it settles where compaction
//! keeps up with what is written. With a fixed limit in MB/s the shares stay as they are.

use std::rc::{Rc, Weak};

use reactor::Group;

use super::picture::{Candidate, Picture};
use super::strategy::size_tiered::{self, Sized};
use super::strategy::{Strategy, Way, incremental, leveled};
use crate::curve::Curve;
use crate::storage::{Signals, Storage};
use crate::table::Table;

/// `leveled_compaction_backlog_tracker`: a table's size over that of its largest level, when all levels are full.
const LEVELS_OVER_LARGEST: f64 = 1.111;

/// Shares by backlog over memory (`compaction_controller`'s control points, `normalization_factor` 30).
pub(crate) const COMPACTION: Curve = Curve(&[(0.0, 50.0), (1.5, 100.0), (30.0, 1000.0)]);

/// What each compaction that somebody asked for adds to the backlog over memory, so that it has 200 shares if there is
/// nothing else: `user_initiated_backlog_tracker` with `backlog_of_shares(200)`.
const ASKED_FOR: f64 = 1.5 + (200.0 - 100.0) / (1000.0 - 100.0) * (30.0 - 1.5);

pub(crate) fn shares(backlog_bytes: f64, memory_bytes: u64) -> u32 {
    COMPACTION.at(backlog_bytes / memory_bytes.max(1) as f64) as u32
}

fn log4(x: f64) -> f64 {
    libm::log2(x) / 2.0
}

/// Each byte is written once more for each tier above it: an SSTable of size S in a table of size T has log4(T / S) to
/// go. Only tiers that are ripe count, unless `all` do.
fn tiers(items: Vec<Sized>, options: &size_tiered::Options, all: bool) -> f64 {
    let total = items.iter().map(|item| item.bytes).sum::<u64>() as f64;
    let buckets = size_tiered::buckets(items, options).into_iter();
    let ripe = buckets.filter(|bucket| all || bucket.members.len() >= options.min_threshold);
    let members = ripe.flat_map(|bucket| bucket.members).filter(|member| member.bytes > 0);
    members.map(|member| member.bytes as f64 * log4(total / member.bytes as f64)).sum()
}

/// What is too much in a level meets, in the next, up to ten times its bytes.
fn levels(picture: &Picture, options: &leveled::Options, all: bool) -> f64 {
    let levels = leveled::levels(picture);
    let mut bytes: Vec<f64> =
        levels.iter().map(|level| level.iter().map(|candidate| candidate.bytes).sum::<u64>() as f64).collect();
    let mut backlog = tiers(levels[0].iter().map(|candidate| Sized::from(*candidate)).collect(), &options.tiers, all);
    let Some(highest) = bytes.iter().rposition(|bytes| *bytes > 0.0) else { return backlog };
    let sstable_bytes = options.sstable_bytes as f64;
    let mut target = bytes.iter().sum::<f64>() / LEVELS_OVER_LARGEST;
    let mut targets = vec![0.0; highest + 1];
    for level in (0..=highest).rev() {
        targets[level] = target.max(sstable_bytes);
        target /= options.fanout as f64;
    }
    for level in 0..highest {
        let excess = bytes[level] - targets[level];
        if excess > 0.0 {
            let fanout = (bytes[level + 1] / sstable_bytes).ceil().min(options.fanout as f64);
            backlog += excess * fanout;
            bytes[level + 1] += excess;
        }
    }
    backlog
}

/// Bytes that the strategy has yet to write until it is content, or, with `all`, until one SSTable is left of a tier.
pub(crate) fn backlog_bytes(strategy: &Strategy, picture: &Picture, all: bool) -> f64 {
    if !strategy.enabled {
        return 0.0;
    }
    let sized = |candidates: &[&Candidate]| candidates.iter().map(|candidate| Sized::from(*candidate)).collect();
    match &strategy.kind {
        Way::SizeTiered(options) => tiers(picture.sstables.iter().map(Sized::from).collect(), options, all),
        Way::Incremental(options) => tiers(incremental::all_runs(picture), &options.tiers, all),
        Way::Leveled(options) => levels(picture, options, all),
        Way::TimeWindow(options) => {
            let windows = options.windows(&picture.sstables);
            windows.values().map(|members| tiers(sized(members), &options.tiers, all)).sum()
        }
    }
}

pub(crate) fn spawn(storage: Weak<Storage>, signals: Rc<Signals>) {
    let task = async move {
        let Some(every) = storage.upgrade().map(|storage| storage.config().backlog_every) else { return };
        loop {
            reactor::time::sleep(every).await;
            let Some(storage) = storage.upgrade().filter(|_| !signals.closed.get()) else { return };
            reactor::set_shares(Group::Compaction, storage.adjust_compaction());
        }
    };
    drop(reactor::spawn(Group::Maintenance, "compaction-controller", task));
}

impl Storage {
    /// Looks at the backlog; the shares that it calls for.
    fn adjust_compaction(&self) -> u32 {
        let config = self.config();
        let tables = self.tables_by_id();
        let all = config.backlog_counts_all;
        let of = |table: &Rc<Table>| backlog_bytes(&table.strategy(config), &table.picture(), all);
        // Most tables of a node are its own, and have none.
        let has_sstables = |table: &&Rc<Table>| !table.sstables.borrow().is_empty();
        let backlog: f64 = tables.iter().filter(has_sstables).map(of).sum();
        self.compactions.backlog_bytes.set(backlog as u64);
        let memory = config.backlog_memory_bytes.unwrap_or(config.memtable_limit_bytes + config.cache_bytes);
        let asked_for = self.compactions.asked_for() as f64 * ASKED_FOR * memory as f64;
        let followed = || shares(backlog + asked_for, memory);
        let shares = config.compaction_static_shares.unwrap_or_else(followed);
        self.compactions.shares.set(shares);
        shares
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use types::Token;

    use super::*;
    use crate::NEVER_S;
    use crate::sstable::Standing;

    const MIB: u64 = 1 << 20;

    /// SSTables as (MiB, level, window), each of its own tenth of the ring.
    fn backlog_mib(class: &str, sstables: &[(u64, u32, i64)]) -> u64 {
        backlog_mib_of(class, sstables, false)
    }

    fn backlog_mib_of(class: &str, sstables: &[(u64, u32, i64)], all: bool) -> u64 {
        let options = [
            ("class".to_string(), format!("{class}CompactionStrategy")),
            ("min_sstable_size".to_string(), "0".to_string()),
        ];
        let strategy = Strategy::parse(&BTreeMap::from(options), 50 << 20).unwrap();
        let candidate = |(generation, (mib, level, window)): (u64, &(u64, u32, i64))| Candidate {
            generation,
            bytes: mib * MIB,
            standing: Standing { level: *level, run: generation, made_s: 0, from: None },
            first: Token(generation as i64 * 10),
            last: Token(generation as i64 * 10 + 9),
            min_timestamp: 0,
            max_timestamp: window * 86_400_000_000,
            max_local_deletion_s: NEVER_S,
            droppable: 0.0,
            busy: false,
        };
        let picture = Picture { sstables: (1..).zip(sstables).map(candidate).collect(), ..Picture::default() };
        (backlog_bytes(&strategy, &picture, all) / MIB as f64) as u64
    }

    #[test]
    fn shares_by_backlog_over_memory() {
        assert_eq!((shares(0.0, 0), shares(75e6, 100_000_000), shares(3e9, 100_000_000)), (50, 75, 1000));
        assert_eq!(COMPACTION.at(ASKED_FOR).round(), 200.0);
    }

    #[test]
    fn backlogs() {
        let four = [(100, 0, 0); 4];
        // Four of a size: each byte once.
        assert_eq!(backlog_mib("SizeTiered", &four), 400);
        assert_eq!(backlog_mib("Incremental", &four), 400);
        // Three are no tier; nor is one that is alone.
        assert_eq!(backlog_mib("SizeTiered", &four[1..]), 0);
        // Unless all count: 300 log4(300 / 100), and two tiers of one.
        assert_eq!(backlog_mib_of("SizeTiered", &four[1..], true), 237);
        assert_eq!(backlog_mib_of("SizeTiered", &[(300, 0, 0), (100, 0, 0)], true), 162);
        // In a table of 16 x 100 each byte of the four is to be written twice.
        assert_eq!(backlog_mib("SizeTiered", &[&four[..], &[(1200, 0, 0)]].concat()), 800);
        // In windows of their own they have nothing to do with each other.
        assert_eq!(backlog_mib("TimeWindow", &[(100, 0, 0), (100, 0, 1), (100, 0, 2), (100, 0, 3)]), 0);
        assert_eq!(backlog_mib("TimeWindow", &[&four[..], &[(1200, 0, 9)]].concat()), 400);
        // Level 1 within what it may hold, level 0 empty.
        assert_eq!(backlog_mib("Leveled", &[(160, 1, 0); 5]), 0);
        // 400 in level 0, of which 240 are more than an SSTable, meet the five of level 1.
        let behind = [&[(160, 1, 0); 5][..], &[(100, 0, 0); 4]].concat();
        assert_eq!(backlog_mib("Leveled", &behind), 400 + 240 * 5);
    }
}
