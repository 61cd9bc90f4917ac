//! Memtables become SSTables.

use std::rc::{Rc, Weak};
use std::time::Duration;

use reactor::{Group, Work};
use types::Token;

use crate::memtable::{Memtable, Shared};
use crate::sstable::{KeyHash, PlainRows, Sstable, Standing, Writer, remove_files};
use crate::storage::{FLUSHES_AT_ONCE, Signals, Storage};
use crate::table::{SharedMemtable, Table, add};
use crate::{Bytes, Error, Partition};

/// Partitions that are decoded before the other tasks get their turn, unless these take a task quota before.
const PARTITIONS_AT_ONCE: usize = 64;

/// Between two attempts of a flush that found no room, or could not read back what it had written.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The task that starts flushes when memory or the commit log run full, and of memtables that have come of age.
pub(crate) fn spawn(storage: Weak<Storage>, signals: Rc<Signals>) {
    let task = async move {
        loop {
            let due = storage.upgrade().and_then(|storage| storage.next_flush_due_ns());
            let wanted = signals.flush.wait_until(|| signals.flush_wanted.get() || signals.closed.get());
            match due {
                None => wanted.await,
                Some(due) => {
                    let left = Duration::from_nanos(due.saturating_sub(reactor::now()));
                    // Early or in time, the loop looks again.
                    let _ = reactor::time::timeout(left, wanted).await;
                }
            }
            if signals.closed.get() {
                return;
            }
            signals.flush_wanted.set(false);
            let Some(storage) = storage.upgrade() else { return };
            while storage.automatic_flushes.get() < FLUSHES_AT_ONCE
                && let Some(table) = storage.table_to_flush()
            {
                start(&storage, table, signals.clone());
            }
        }
    };
    drop(reactor::spawn(Group::Flush, "flush", task));
}

fn start(storage: &Rc<Storage>, table: Rc<Table>, signals: Rc<Signals>) {
    table.flush_chosen.set(true);
    storage.automatic_flushes.set(storage.automatic_flushes.get() + 1);
    let storage = storage.clone();
    let task = async move {
        let result = if signals.closed.get() { Ok(()) } else { storage.flush_table(&table).await };
        storage.automatic_flushes.set(storage.automatic_flushes.get() - 1);
        // Nothing is held meanwhile: the storage may go.
        drop(storage);
        if let Err(error) = result
            && error.may_be_retried()
        {
            tracing::warn!(%error, "a flush failed and is tried again");
            let _ = reactor::time::timeout(RETRY_AFTER, signals.closing.notified()).await;
        }
        table.flush_chosen.set(false);
        signals.flush_wanted.set(true);
        signals.flush.notify_all();
    };
    drop(reactor::spawn(Group::Flush, "flush-table", task));
}

impl Storage {
    /// Which table to flush now, if any: the largest when memory is half full, the one with the oldest records when the
    /// commit log is too large, one that has come of age.
    fn table_to_flush(&self) -> Option<Rc<Table>> {
        if matches!(self.log().check(), Err(Error::Stopped(_))) {
            return None;
        }
        let tables = self.tables_by_id();
        // Those whose last flush failed.
        let failed = |table: &&Rc<Table>| !table.flushing.borrow().is_empty() && !table.is_flushing();
        let (chosen, free): (Vec<_>, Vec<_>) = tables.iter().partition(|table| table.flush_chosen.get());
        if let Some(table) = free.iter().copied().find(failed) {
            return Some(table.clone());
        }
        if self.memory().wants_flush() {
            let size = |table: &&Rc<Table>| table.active.borrow().borrow().bytes();
            let busy = chosen.iter().map(size).max().unwrap_or(0);
            // Small ones beside a large one that is at it give little memory, and many small files.
            return free.into_iter().filter(|table| size(table) > busy / 4).max_by_key(size).cloned();
        }
        if self.log_too_large() {
            let current = self.log().position().segment;
            let old = tables.iter().filter_map(|table| Some((table.first_segment()?, table)));
            let oldest = old.filter(|(segment, _)| *segment < current).min_by_key(|(segment, _)| *segment);
            if let Some((_, table)) = oldest {
                return (!table.flush_chosen.get()).then(|| table.clone());
            }
        }
        let now = reactor::now();
        let of_age = |table: &&Rc<Table>| table.active.borrow().borrow().flush_due_ns.is_some_and(|due| due <= now);
        free.into_iter().find(of_age).cloned()
    }

    /// When the next memtable comes of age.
    fn next_flush_due_ns(&self) -> Option<u64> {
        let waiting = self.tables_by_id().into_iter().filter(|table| !table.flush_chosen.get());
        waiting.filter_map(|table| table.active.borrow().borrow().flush_due_ns).min()
    }

    /// Flushes what a table has in memory. Later calls for the same table wait their turn.
    pub(crate) async fn flush_table(&self, table: &Rc<Table>) -> Result<(), Error> {
        let _turn = table.flushing_turn().await;
        let _one_of_few = self.flush_turn().await;
        if table.dropped.get() {
            return Ok(());
        }
        let upto = self.flush_position();
        let before = table.active.borrow().borrow().bytes();
        if table.freeze(upto).is_some() {
            self.set_flushing(before);
        }
        loop {
            let oldest = table.flushing.borrow().first().cloned();
            let Some(memtable) = oldest else { break };
            if let Err(error) = self.flush_memtable(table, &memtable).await {
                self.flush_begins_anew(&memtable);
                return Err(self.flush_failed(error));
            }
            table.flushing.borrow_mut().retain(|other| !Rc::ptr_eq(other, &memtable));
            self.flushed(&memtable);
            // A reader that still has it frees the memory when it is done.
            while Rc::strong_count(&memtable) == 1 && memtable.borrow_mut().drop_some() {
                self.give_way().await;
            }
        }
        self.has_space();
        self.release_segments();
        self.wake_compaction();
        Ok(())
    }

    /// What a failure means for writes: those to come wait for room, or nothing is acknowledged any more.
    fn flush_failed(&self, error: Error) -> Error {
        match error.no_space() {
            Some(path) => self.out_of_space(path),
            None if error.may_be_retried() => {}
            None => {
                tracing::error!(%error, "a flush failed; storage stops");
                self.stop(&error);
            }
        }
        self.wake_flush();
        error
    }

    /// The others get their turn after a quota of work, and flushes the shares that memory calls for. No less than
    /// compaction has: writers wait for what a flush frees, and for no compaction.
    async fn give_way(&self) {
        let called_for = || match self.config().flush_dirty_bytes {
            Some(limit) => self.memory().flush_shares_by_dirty(limit),
            None => self.memory().flush_shares().max(self.compactions.shares.get()),
        };
        reactor::set_shares(Group::Flush, self.config().flush_static_shares.unwrap_or_else(called_for));
        if reactor::has_used_quota() {
            reactor::time::yield_now().await;
        }
    }

    /// The memtable's partitions go over into the row cache; readers see both until this is done. Only then may the
    /// memtable be let go.
    async fn update_row_cache(&self, table: &Table, memtable: &SharedMemtable, generation: u64) -> Result<(), Error> {
        let name = table.rows_name.get();
        let mut place: (Token, Option<Bytes>) = (Token(i64::MIN), None);
        let mut room = table.rows.room_for_new();
        // Truncated meanwhile: there is nothing to keep.
        while table.rows.is_on() && table.rows_name.get() == name {
            let next = update_some(table, &memtable.borrow(), generation, &place, &mut room)?;
            let Some(next) = next else { return Ok(()) };
            place = next;
            self.give_way().await;
        }
        Ok(())
    }

    async fn flush_memtable(&self, table: &Rc<Table>, memtable: &SharedMemtable) -> Result<(), Error> {
        let upto = memtable.borrow().upto;
        let generation = table.take_generation(self.config());
        let sstable = match self.write_memtable(table, memtable, generation).await {
            Ok(sstable) => sstable,
            Err(error) => {
                // No manifest names it, and its room may be what is missing.
                let _ = remove_files(&table.folder, generation).await;
                return Err(error);
            }
        };
        let published = table.publish(self.config(), |now| {
            // A truncation meanwhile has taken the memtable away: its records are not to come back.
            let wanted = table.flushing.borrow().iter().any(|other| Rc::ptr_eq(other, memtable));
            wanted.then(|| (now.iter().cloned().chain(sstable.clone()).collect(), upto))
        });
        if published.await? {
            self.update_row_cache(table, memtable, generation).await?;
            add(&table.counts.flushes, 1);
        } else if let Some(sstable) = sstable {
            sstable.remove().await?;
        }
        Ok(())
    }

    /// An SSTable, durable and open, of what a memtable has; `None` when it has nothing that counts.
    async fn write_memtable(
        &self,
        table: &Rc<Table>,
        memtable: &SharedMemtable,
        generation: u64,
    ) -> Result<Option<Rc<Sstable>>, Error> {
        let (def, stats, keys) = {
            let memtable = memtable.borrow();
            (memtable.def.clone(), memtable.encoding_stats(), memtable.partitions() as u64)
        };
        let writer = Writer::create(&table.folder, generation, def.clone(), stats, keys).await?;
        let mut writer = writer.column_index_bytes(self.config().column_index_bytes).watched_by(self.events.watch());
        let mut plain = PlainRows::new(&def, stats, self.events.thresholds().small_row_bytes());
        let mut place: (Token, Option<Bytes>) = (Token(i64::MIN), None);
        let mut written = false;
        loop {
            let mut batch = Vec::with_capacity(PARTITIONS_AT_ONCE);
            let mut bytes = 0;
            {
                let memtable = memtable.borrow();
                for (token, stored) in memtable.range_after(place.0, place.1.as_deref()).take(PARTITIONS_AT_ONCE) {
                    reactor::charge(Work::Flush, stored.len_bytes() as u64);
                    batch.push((token, stored.share()?));
                    bytes += stored.bytes();
                    if reactor::has_used_quota() {
                        break;
                    }
                }
            }
            let Some((token, (key, _))) = batch.last() else { break };
            place = (*token, Some(key.clone()));
            for (token, (key, shared)) in batch {
                let mut partition = match shared {
                    Shared::Packed(packed) => {
                        if plain.encode(&packed) {
                            written = true;
                            writer.add_plain(token, &key, &plain).await?;
                            continue;
                        }
                        Partition::decode_shared(&packed)?
                    }
                    Shared::Decoded(partition) => partition,
                };
                partition.purge_shadowed(&def);
                if !partition.is_empty() {
                    written = true;
                    writer.add(token, &partition).await?;
                }
            }
            if table.dropped.get() {
                break;
            }
            self.flush_written(memtable, bytes);
            self.give_way().await;
        }
        if !written || table.dropped.get() {
            drop(writer);
            remove_files(&table.folder, generation).await?;
            return Ok(None);
        }
        let bytes = writer.finish().await?;
        add(&table.counts.flushed_bytes, bytes);
        tracing::debug!(folder = table.folder, shard = self.config().shard, partitions = keys, bytes, "flushed");
        let sstable = Sstable::open(&table.folder, generation, def, self.cache()).await?;
        let made_s = (reactor::wall_us() / 1_000_000) as u32;
        Ok(Some(sstable.standing(Standing { level: 0, run: generation, made_s, from: None })))
    }
}

/// The partitions behind `place`, some of them. Where to go on; `None` behind the last.
fn update_some(
    table: &Table,
    memtable: &Memtable,
    generation: u64,
    place: &(Token, Option<Bytes>),
    room: &mut u64,
) -> Result<Option<(Token, Option<Bytes>)>, Error> {
    let mut last = None;
    for (token, stored) in memtable.range_after(place.0, place.1.as_deref()).take(PARTITIONS_AT_ONCE) {
        let bytes = stored.len_bytes() as u64;
        let elsewhere = || {
            let hash = KeyHash::of(stored.key());
            let may_have = |other: &Rc<Sstable>| other.generation != generation && other.may_contain(token, hash);
            table.sstables.borrow().iter().any(may_have)
        };
        let may_add = || {
            let may = *room > bytes && !elsewhere();
            *room -= if may { bytes } else { 0 };
            may
        };
        if table.rows.update(table.rows_name.get(), token, stored, &memtable.def, may_add)? {
            reactor::charge(Work::CacheUpdate, bytes);
        }
        last = Some((token, Some(Bytes::copy_from(stored.key()))));
        if reactor::has_used_quota() {
            break;
        }
    }
    Ok(last)
}
