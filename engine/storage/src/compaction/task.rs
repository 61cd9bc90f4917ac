//! The task that starts compactions while there is something to compact, several side by side; and how one is run.

use std::rc::{Rc, Weak};
use std::time::Duration;

use reactor::Group;

use super::merge::{Keep, Merge, Merged};
use super::picture::{Job, Kind, Picture};
use super::running::{CompactionRecord, Running};
use crate::Error;
use crate::sstable::{Sstable, Standing};
use crate::storage::{Signals, Storage};
use crate::table::{Table, add};

/// After a failure a table is left alone for so long: trying again at once would only fail again.
const RETRY_NS: u64 = 60_000_000_000;
/// What expires, or becomes old enough, announces itself by nothing (Cassandra looks each minute too).
const LOOK_EVERY: Duration = Duration::from_secs(60);

pub(crate) fn spawn(storage: Weak<Storage>, signals: Rc<Signals>) {
    let starter = {
        let signals = signals.clone();
        let storage = storage.clone();
        async move {
            loop {
                signals.compaction.wait_until(|| signals.compaction_wanted.get() || signals.closed.get()).await;
                if signals.closed.get() {
                    return;
                }
                signals.compaction_wanted.set(false);
                let Some(storage) = storage.upgrade() else { return };
                while let Some((table, job)) = storage.compaction_to_do() {
                    storage.spawn_compaction(table, job);
                }
            }
        }
    };
    drop(reactor::spawn(Group::Compaction, "compaction-starter", starter));
    let looker = async move {
        loop {
            reactor::time::sleep(LOOK_EVERY).await;
            let Some(storage) = storage.upgrade().filter(|_| !signals.closed.get()) else { return };
            storage.wake_compaction();
        }
    };
    drop(reactor::spawn(Group::Compaction, "compaction-clock", looker));
}

/// Marks inputs as busy for as long as it lives.
pub(crate) struct Busy {
    table: Rc<Table>,
    generations: Vec<u64>,
}

impl Busy {
    /// `None` when one of them is busy already.
    fn mark(table: &Rc<Table>, generations: &[u64]) -> Option<Self> {
        let mut compacting = table.compacting.borrow_mut();
        if generations.iter().any(|generation| compacting.contains(generation)) {
            return None;
        }
        compacting.extend(generations.iter().copied());
        Some(Self { table: table.clone(), generations: generations.to_vec() })
    }

    /// Waits until none of them is busy.
    pub async fn wait(table: &Rc<Table>, generations: &[u64]) -> Self {
        loop {
            match Self::mark(table, generations) {
                Some(busy) => return busy,
                None => table.compacted.notified().await,
            }
        }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut compacting = self.table.compacting.borrow_mut();
        for generation in &self.generations {
            compacting.remove(generation);
        }
        self.table.compacted.notify_all();
    }
}

impl Storage {
    /// The next job of the table whose inputs are the smallest in all, while fewer run than may.
    fn compaction_to_do(&self) -> Option<(Rc<Table>, Job)> {
        if self.compactions.progress().len() >= self.config().compaction_jobs_max.max(1) {
            return None;
        }
        let now = reactor::now();
        let ready = |table: &Rc<Table>| {
            !table.held_compaction() && table.auto_compaction.get() && table.compaction_after_ns.get() <= now
        };
        let picked = self.tables_by_id().into_iter().filter(ready).filter_map(|table| {
            let picture = table.picture();
            let mut memory = table.memory.borrow().clone();
            let job = table.strategy(self.config()).pick(&picture, &mut memory)?;
            let job = self.within_space(job, &picture)?;
            let inputs = picture.sstables.iter().filter(|candidate| job.inputs.contains(&candidate.generation));
            Some((inputs.map(|candidate| candidate.bytes).sum::<u64>(), table, job, memory))
        });
        let (_, table, job, memory) = picked.min_by_key(|(bytes, ..)| *bytes)?;
        *table.memory.borrow_mut() = memory;
        Some((table, job))
    }

    /// The job, or one of its smaller inputs, if the disk space that compactions may take for a while has room for it.
    /// Levels must be compacted with all that they overlap: for those it is all or nothing.
    fn within_space(&self, mut job: Job, picture: &Picture) -> Option<Job> {
        let Some(limit) = self.config().compaction_space_bytes else { return Some(job) };
        let room = limit.saturating_sub(self.compactions.reserved_bytes());
        let bytes = |generation: &u64| picture.sstables.iter().find(|c| c.generation == *generation).map(|c| c.bytes);
        while job.temporary_bytes(picture) > room {
            let (at, _) = job.inputs.iter().enumerate().max_by_key(|(_, generation)| bytes(generation))?;
            job.inputs.remove(at);
            if job.split_bytes != u64::MAX || job.inputs.len() < 2 {
                add(&self.compactions.out_of_space, 1);
                return None;
            }
        }
        Some(job)
    }

    /// Marks the inputs at once, so that the next pick leaves them out.
    fn spawn_compaction(self: &Rc<Self>, table: Rc<Table>, job: Job) {
        let Some(busy) = Busy::mark(&table, &job.inputs) else { return };
        let running = self.start(&table, &job);
        let storage = self.clone();
        let task = async move {
            let result = storage.run_job(&table, &job, &running, None).await;
            drop(busy);
            storage.compactions.end(&running);
            if let Err(error) =
                result.or_else(|error| if let Error::Cancelled = error { Ok(Merged::default()) } else { Err(error) })
            {
                // The inputs stay; what was written is removed, or at the next start.
                tracing::error!(%error, folder = table.folder, "a compaction failed");
                table.compaction_after_ns.set(reactor::now() + RETRY_NS);
            }
            storage.wake_compaction();
        };
        drop(reactor::spawn(Group::Compaction, "compaction", task));
    }

    fn start(&self, table: &Table, job: &Job) -> Rc<Running> {
        let reserved_bytes = job.temporary_bytes(&table.picture());
        self.compactions.start(table.def().id, job.kind, table.bytes_of(&job.inputs), reserved_bytes)
    }

    /// Waits until none of the inputs is busy, and runs the job here.
    pub(crate) async fn run_now(&self, table: &Rc<Table>, job: &Job, keep: Keep<'_>) -> Result<Merged, Error> {
        let busy = Busy::wait(table, &job.inputs).await;
        let running = self.start(table, job);
        let result = self.run_job(table, job, &running, keep).await;
        self.compactions.end(&running);
        drop(busy);
        self.wake_compaction();
        result
    }

    async fn run_job(&self, table: &Rc<Table>, job: &Job, running: &Running, keep: Keep<'_>) -> Result<Merged, Error> {
        let started_ns = reactor::now();
        let is_input = |sstable: &&Rc<Sstable>| job.inputs.binary_search(&sstable.generation).is_ok();
        let inputs: Vec<Rc<Sstable>> = table.sstables.borrow().iter().filter(is_input).cloned().collect();
        // A truncation may have come first.
        if inputs.is_empty() || inputs.len() != job.inputs.len() {
            return Ok(Merged { overtaken: true, ..Merged::default() });
        }
        let bytes_in: u64 = inputs.iter().map(|input| input.data_bytes()).sum();
        let merged = match job.kind {
            Kind::Expired => self.replace(table, &inputs, |_| None).await?,
            Kind::Level => {
                let up = |input: &Rc<Sstable>| Some(input.standing(Standing { level: job.level, ..input.standing }));
                self.replace(table, &inputs, up).await?
            }
            _ => {
                let merged = Merge::new(self, table, job, running, keep, inputs).run().await;
                merged.inspect_err(|error| table.noticed(error))?
            }
        };
        if !merged.overtaken {
            add(&table.counts.compactions, 1);
            add(&table.counts.compacted_bytes, merged.bytes_out);
            let (shard, number, bytes_out) = (self.config().shard, job.inputs.len(), merged.bytes_out);
            tracing::debug!(folder = table.folder, shard, inputs = number, bytes_in, bytes_out, "compacted");
            self.compacted(CompactionRecord {
                table: running.table,
                kind: job.kind,
                inputs: job.inputs.clone(),
                outputs: merged.outputs.clone(),
                bytes_in,
                bytes_out: merged.bytes_out,
                rows_merged: merged.rows_merged.clone(),
                skipped: 0,
                ended_us: reactor::wall_us(),
                duration_ns: reactor::now() - started_ns,
            });
        }
        Ok(merged)
    }

    /// Puts each input elsewhere as it is, or removes it unread.
    pub(crate) async fn replace(
        &self,
        table: &Rc<Table>,
        inputs: &[Rc<Sstable>],
        place: impl Fn(&Rc<Sstable>) -> Option<Rc<Sstable>>,
    ) -> Result<Merged, Error> {
        let mut removed = Vec::new();
        let published = table.publish(self.config(), |now| {
            let is_input = |sstable: &Rc<Sstable>| inputs.iter().any(|input| Rc::ptr_eq(input, sstable));
            let mut next = Vec::with_capacity(now.len());
            for sstable in now {
                let stays = if is_input(sstable) { place(sstable) } else { Some(sstable.clone()) };
                match stays {
                    Some(stays) => next.push(stays),
                    None => removed.push(sstable.clone()),
                }
            }
            let whole = now.iter().filter(|sstable| is_input(sstable)).count() == inputs.len();
            whole.then_some((next, table.flushed_upto.get()))
        });
        if !published.await? {
            return Ok(Merged { overtaken: true, ..Merged::default() });
        }
        add(&table.counts.compaction_steps, 1);
        for sstable in removed {
            sstable.remove().await?;
        }
        Ok(Merged::default())
    }
}
