//! The task that compacts one table after the other while there is something to compact.

use std::rc::{Rc, Weak};

use reactor::Group;

use super::{merge, size_tiered};
use crate::Error;
use crate::sstable::Sstable;
use crate::storage::{Signals, Storage};
use crate::table::{Table, add};

pub(crate) fn spawn(storage: Weak<Storage>, signals: Rc<Signals>) {
    let task = async move {
        loop {
            signals.compaction.wait_until(|| signals.compaction_wanted.get() || signals.closed.get()).await;
            if signals.closed.get() {
                return;
            }
            signals.compaction_wanted.set(false);
            loop {
                let Some(storage) = storage.upgrade() else { return };
                let Some((table, generations)) = storage.compaction_to_do() else { break };
                if let Err(error) = storage.compact_generations(&table, &generations).await {
                    // The inputs stay; what was written is removed at the next start. Trying again at once would
                    // only fail again.
                    tracing::error!(%error, folder = table.folder, "a compaction failed");
                    break;
                }
                if signals.closed.get() {
                    return;
                }
            }
        }
    };
    drop(reactor::spawn(Group::Compaction, "compaction", task));
}

impl Storage {
    /// The table whose picked SSTables are the smallest in all.
    fn compaction_to_do(&self) -> Option<(Rc<Table>, Vec<u64>)> {
        let picked = self.tables_by_id().into_iter().filter(|table| !table.compacting.get()).filter_map(|table| {
            let candidates = table.candidates();
            let generations = size_tiered::pick(&candidates, &table.compaction_options(self.config()))?;
            let bytes: u64 = candidates.iter().filter(|c| generations.contains(&c.generation)).map(|c| c.bytes).sum();
            Some((bytes, table, generations))
        });
        picked.min_by_key(|(bytes, ..)| *bytes).map(|(_, table, generations)| (table, generations))
    }

    /// Makes one SSTable of those named.
    pub(crate) async fn compact_generations(&self, table: &Rc<Table>, generations: &[u64]) -> Result<(), Error> {
        let inputs: Vec<Rc<Sstable>> =
            table.sstables.borrow().iter().filter(|s| generations.contains(&s.generation)).cloned().collect();
        if inputs.is_empty() || table.compacting.replace(true) {
            return Ok(());
        }
        let result = self.compact_inputs(table, &inputs).await;
        table.compacting.set(false);
        result
    }

    async fn compact_inputs(&self, table: &Rc<Table>, inputs: &[Rc<Sstable>]) -> Result<(), Error> {
        let generation = table.take_generation(self.config());
        let merged = merge::merge(table, inputs, generation, self.config().compaction_mb_per_s).await?;
        let output = match merged.generation {
            Some(generation) => {
                let def = table.def();
                Some(Sstable::open(&table.folder, generation, def, self.cache()).await?)
            }
            None => None,
        };
        let published = table.publish(self.config(), |now| {
            let is_input = |sstable: &Rc<Sstable>| inputs.iter().any(|input| Rc::ptr_eq(input, sstable));
            // All inputs must still be there: a truncation meanwhile has taken them away.
            let whole = now.iter().filter(|sstable| is_input(sstable)).count() == inputs.len();
            whole.then(|| {
                let rest = now.iter().filter(|sstable| !is_input(sstable)).cloned();
                (rest.chain(output.clone()).collect(), table.flushed_upto.get())
            })
        });
        if published.await? {
            add(&table.counts.compactions, 1);
            add(&table.counts.compacted_bytes, merged.bytes);
            for input in inputs {
                input.remove().await?;
            }
        } else if let Some(output) = output {
            output.remove().await?;
        }
        Ok(())
    }
}
