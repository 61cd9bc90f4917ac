//! Operations on a table's SSTables that somebody asks for.

use std::rc::Rc;

use types::{TableId, Token};

use super::merge::Keep;
use super::picture::{Job, Kind};
use super::running::{CompactionProgress, CompactionRecord};
use crate::Error;
use crate::events::Event;
use crate::storage::Storage;
use crate::table::Table;

impl Storage {
    /// A major compaction: of all that the table has, as its strategy has it (one SSTable, a level, one a window).
    pub async fn compact(&self, table: TableId) -> Result<(), Error> {
        self.compact_all(table, false).await
    }

    /// As [`Storage::compact`]; with `split`, several SSTables where it would be one.
    pub async fn compact_all(&self, table: TableId, split: bool) -> Result<(), Error> {
        let table = self.table(table)?;
        let jobs = loop {
            // What runs now would be left out.
            let picture = table.picture();
            if table.compacting.borrow().is_empty() {
                break table.strategy(self.config()).major(&picture, split);
            }
            table.compacted.notified().await;
        };
        for job in jobs {
            self.run_now(&table, &job, None).await?;
        }
        Ok(())
    }

    /// Removes the partitions whose tokens lie in none of the ranges `(start, end]`, which wrap around where start is
    /// not before end.
    pub async fn cleanup(&self, table: TableId, owned: &[(Token, Token)]) -> Result<(), Error> {
        let table = self.table(table)?;
        let is_owned = |token: Token| {
            owned.iter().any(|(start, end)| match start < end {
                true => *start < token && token <= *end,
                false => *start < token || token <= *end,
            })
        };
        self.rewrite_each(&table, Kind::Cleanup, Some(&is_owned)).await
    }

    /// Rewrites each SSTable without what others of the table delete; the deletions stay where they are.
    pub async fn garbage_collect(&self, table: TableId) -> Result<(), Error> {
        self.rewrite_each(&self.table(table)?, Kind::GarbageCollection, None).await
    }

    async fn rewrite_each(&self, table: &Rc<Table>, kind: Kind, keep: Keep<'_>) -> Result<(), Error> {
        let all: Vec<u64> = table.sstables.borrow().iter().map(|sstable| sstable.generation).collect();
        for generation in all {
            let standing = table.sstables.borrow().iter().find(|s| s.generation == generation).map(|s| s.standing);
            // Compacted away meanwhile: what came of it is younger than the question.
            let Some(standing) = standing else { continue };
            let job = Job::new(kind, [generation], standing.level, u64::MAX);
            self.run_now(table, &job, keep).await?;
        }
        Ok(())
    }

    /// Whether a table is compacted when its strategy wants it. Until the next start; at first it is.
    pub fn set_auto_compaction(&self, table: TableId, on: bool) -> Result<(), Error> {
        self.table(table)?.auto_compaction.set(on);
        if on {
            self.wake_compaction();
        }
        Ok(())
    }

    pub fn auto_compaction(&self, table: TableId) -> Result<bool, Error> {
        Ok(self.table(table)?.auto_compaction.get())
    }

    /// How many SSTables lie on each level.
    pub fn sstables_per_level(&self, table: TableId) -> Result<Vec<u64>, Error> {
        let table = self.table(table)?;
        let mut levels = vec![0];
        for sstable in table.sstables.borrow().iter() {
            let level = sstable.standing.level as usize;
            levels.resize(levels.len().max(level + 1), 0);
            levels[level] += 1;
        }
        Ok(levels)
    }

    /// Forgets what was read from SSTables. Nothing but speed is lost.
    pub fn drop_caches(&self) {
        self.cache().clear();
    }

    /// What is being done to SSTables now.
    pub fn compactions(&self) -> Vec<CompactionProgress> {
        self.compactions.progress()
    }

    /// A compaction has ended well.
    pub(crate) fn compacted(&self, record: CompactionRecord) {
        self.compactions.record(record.clone());
        self.events.tell(Event::Compacted(record));
    }

    /// What was done since the start, the oldest first; not more than some hundreds of entries.
    pub fn compaction_history(&self) -> Vec<CompactionRecord> {
        self.compactions.history()
    }

    /// Stops what is being done to a table's SSTables, or to all; says how many that were. What has been published
    /// stays, nothing is lost.
    pub fn stop_compactions(&self, table: Option<TableId>) -> usize {
        self.compactions.cancel(table)
    }
}
