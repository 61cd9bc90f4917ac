//! One shard's storage: the way of a write and of a read, and the life of tables.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use reactor::sync::{Notify, Permit, Semaphore};
use reactor::{Group, Work, fs};
use types::hash::HashMap;
use types::{TableDef, TableId, Token};

use crate::admission::Admission;
use crate::cache::BlockCache;
use crate::commitlog::{self, CommitLog, Position};
use crate::compaction;
use crate::compaction::running::Compactions;
use crate::data::codec::Checked;
use crate::data::{MutationHead, check_partition};
use crate::events::{Event, Events, LargeThresholds};
use crate::manifest::Manifest;
use crate::memory::Memory;
use crate::memtable::Memtable;
use crate::read::{Page, PartitionRead};
use crate::sstable::{self, Sstable};
use crate::table::{SharedMemtable, Table, add};
use crate::{Config, Error, Partition, ReadCommand, ScanCommand, Stats, SyncMode, TableStats, flush, folders, lookup};

/// Flushes at a time; Cassandra's `memtable_flush_writers` is 2 for a node with one data folder, for threads that
/// wait for the disk. Here more cost nothing but their buffers.
pub(crate) const FLUSHES_AT_ONCE: usize = 4;

/// What a write takes of a memtable's memory beyond its own bytes, about.
const WRITE_OVERHEAD: usize = 96;

/// One shard's tables on one shard's disks.
pub struct Storage {
    config: Config,
    tables: RefCell<HashMap<TableId, Rc<Table>>>,
    log: Rc<CommitLog>,
    cache: Rc<BlockCache>,
    /// Bytes of active memtables, and of those being flushed.
    active_bytes: Cell<usize>,
    flushing_bytes: Cell<usize>,
    /// Of those being flushed, what is written.
    written_bytes: Cell<usize>,
    /// Writes that wait for memory, or for the commit log to shrink.
    admission: Admission,
    /// Wakes writes that wait for a table's columns to change.
    released: Notify,
    writes_blocked: Cell<u64>,
    /// A few flushes at a time.
    flush_turn: Rc<Semaphore>,
    pub(crate) automatic_flushes: Cell<usize>,
    signals: Rc<Signals>,
    pub(crate) compactions: Compactions,
    pub(crate) events: Rc<Events>,
    /// While the commit log is replayed: behind the last record that was.
    replaying: Cell<Option<Position>>,
}

/// What wakes the tasks, which outlive neither the storage nor its `close`.
#[derive(Default)]
pub(crate) struct Signals {
    pub closed: Cell<bool>,
    pub closing: Notify,
    pub flush: Notify,
    pub flush_wanted: Cell<bool>,
    pub compaction: Notify,
    pub compaction_wanted: Cell<bool>,
}

impl Signals {
    fn close(&self) {
        self.closed.set(true);
        self.closing.notify_all();
        self.flush.notify_all();
        self.compaction.notify_all();
    }
}

impl Drop for Storage {
    fn drop(&mut self) {
        if reactor::on_shard() {
            self.signals.close();
            self.log.wake_waiting();
        }
    }
}

/// Lets waiting writes go on as the commit log gets room.
fn spawn_admission(storage: Weak<Storage>, log: Rc<CommitLog>) {
    let task = async move {
        loop {
            log.room_changed().await;
            let Some(storage) = storage.upgrade() else { return };
            storage.admit_writes();
        }
    };
    drop(reactor::spawn(Group::CommitLog, "admission", task));
}

impl Storage {
    /// Opens or creates the folders, removes leftovers of a crash, replays the commit log.
    ///
    /// Mutations in the commit log of tables that are not in `tables` are those of dropped tables, and skipped.
    pub async fn open(config: Config, tables: Vec<Arc<TableDef>>) -> Result<Rc<Storage>, Error> {
        if config.shards == 0 || config.shard >= config.shards {
            return Err(Error::Config(format!("shard {} of {}", config.shard, config.shards)));
        }
        folders::create(&config.data_dir).await?;
        folders::create(&config.commitlog_dir).await?;
        folders::check_shards(&config).await?;
        let cache = Rc::new(BlockCache::new(config.cache_bytes, config.index_cache_fraction));
        let mut opened = HashMap::default();
        for def in tables {
            let id = def.id;
            opened.insert(id, Table::open(&config, def, &cache).await?);
        }
        let segments = commitlog::segments(&config).await?;
        let storage = Rc::new(Storage {
            log: CommitLog::start(&config, segments.clone())?,
            config,
            tables: RefCell::new(opened),
            cache,
            active_bytes: Cell::new(0),
            flushing_bytes: Cell::new(0),
            written_bytes: Cell::new(0),
            admission: Admission::default(),
            released: Notify::new(),
            writes_blocked: Cell::new(0),
            flush_turn: Semaphore::new(FLUSHES_AT_ONCE),
            automatic_flushes: Cell::new(0),
            signals: Rc::default(),
            compactions: Compactions::default(),
            events: Rc::default(),
            replaying: Cell::new(Some(Position::default())),
        });
        storage.replay(&segments).await?;
        spawn_admission(Rc::downgrade(&storage), storage.log.clone());
        flush::spawn(Rc::downgrade(&storage), storage.signals.clone());
        compaction::task::spawn(Rc::downgrade(&storage), storage.signals.clone());
        if storage.config.compaction_mb_per_s.is_none() {
            compaction::controller::spawn(Rc::downgrade(&storage), storage.signals.clone());
        }
        storage.wake_compaction();
        Ok(storage)
    }

    async fn replay(&self, segments: &[u64]) -> Result<(), Error> {
        let (applied, skipped) = (Cell::new(0), Cell::new(0));
        let apply = |end: Position, bytes: &[u8]| {
            self.replaying.set(Some(end));
            let head = MutationHead::read(bytes)?;
            let tables = self.tables.borrow();
            match tables.get(&head.table).filter(|table| table.flushed_upto.get() < end) {
                None => add(&skipped, 1),
                Some(table) => {
                    add(&applied, 1);
                    let active = table.active.borrow();
                    let mut memtable = active.borrow_mut();
                    let checked = check_partition(head.partition, &memtable.def)?;
                    self.insert(&mut memtable, head.partition, &checked, end)?;
                }
            }
            Ok(())
        };
        let pause = async || {
            while self.memory().wants_flush() {
                let largest = self.tables_by_id().into_iter().max_by_key(|t| t.active.borrow().borrow().bytes());
                let Some(largest) = largest else { break };
                self.flush_table(&largest).await?;
            }
            Ok(())
        };
        commitlog::replay(&self.config, segments, apply, pause).await?;
        self.replaying.set(None);
        self.log.replayed(applied.get(), skipped.get());
        self.release_segments();
        Ok(())
    }

    /// `listener` is told what is worth writing down, from now on; it must not wait.
    pub fn listen(&self, listener: Rc<dyn Fn(Event)>) {
        self.events.listen(listener);
    }

    /// From what size on the listener is told of what is in SSTables.
    pub fn set_large_thresholds(&self, thresholds: LargeThresholds) {
        self.events.set_thresholds(thresholds);
    }

    /// Makes a table known, with its folder. Known already: nothing happens.
    pub async fn add_table(&self, def: Arc<TableDef>) -> Result<(), Error> {
        if self.tables.borrow().contains_key(&def.id) {
            return Ok(());
        }
        let id = def.id;
        let table = Table::open(&self.config, def, &self.cache).await?;
        self.tables.borrow_mut().entry(id).or_insert(table);
        Ok(())
    }

    /// The version of the table's definition that writes and reads must have.
    /// Partitions of the table on this shard, about: those that lie in several places count several times.
    pub fn partitions(&self, id: TableId) -> Result<u64, Error> {
        let table = self.table(id)?;
        let in_files: u64 = table.sstables.borrow().iter().map(|sstable| sstable.figures.partitions).sum();
        let in_memory: usize = table.memtables().iter().map(|memtable| memtable.borrow().partitions()).sum();
        Ok(in_files + in_memory as u64)
    }

    pub fn schema_version(&self, id: TableId) -> Result<u64, Error> {
        Ok(self.table(id)?.def.borrow().version)
    }

    /// To be called before a new version of a table's definition is made durable; [`update_table`](Self::update_table)
    /// follows, or [`cancel_update`](Self::cancel_update). When it resolves, all that was written with the old columns
    /// is in SSTables, which name them, and writes wait: a commit log record has columns by number, so a replay under
    /// the new definition must not meet any of the old one.
    pub async fn prepare_update(&self, def: &TableDef) -> Result<(), Error> {
        let table = self.table(def.id)?;
        if same_columns(&table.def.borrow(), def) {
            return Ok(());
        }
        table.held.set(true);
        self.flush_table(&table).await
    }

    /// The new version of a table will not come. Without a preparation nothing happens.
    pub fn cancel_update(&self, id: TableId) {
        if let Ok(table) = self.table(id) {
            table.held.set(false);
            self.released.notify_all();
        }
    }

    /// A new version of a table's definition. Memtables are flushed, as their column numbers are the old version's.
    pub async fn update_table(&self, def: Arc<TableDef>) -> Result<(), Error> {
        let id = def.id;
        let result = self.change_columns(def).await;
        self.cancel_update(id);
        result
    }

    async fn change_columns(&self, def: Arc<TableDef>) -> Result<(), Error> {
        let table = self.table(def.id)?;
        let unchanged = same_columns(&table.def.borrow(), &def);
        if unchanged {
            *table.def.borrow_mut() = def.clone();
            table.active.borrow().borrow_mut().def = def;
            return Ok(());
        }
        loop {
            self.flush_table(&table).await?;
            let _permit = table.publishing_permit().await;
            let old = table.sstables.borrow().clone();
            let mut reopened = Vec::with_capacity(old.len());
            for sstable in old {
                match Sstable::open(&table.folder, sstable.generation, def.clone(), &self.cache).await {
                    Ok(again) => reopened.push(again.standing(sstable.standing)),
                    Err(error) if error.is_damage() => {
                        table.set_unreadable(sstable.generation, sstable.standing, &error).await;
                    }
                    Err(error) => return Err(error),
                }
            }
            // Writes that came in meanwhile have the old columns; from here to the end nothing waits.
            if table.active.borrow().borrow().is_empty() && table.flushing.borrow().is_empty() {
                *table.sstables.borrow_mut() = reopened;
                table.rename_rows();
                *table.def.borrow_mut() = def.clone();
                *table.active.borrow_mut() = Rc::new(RefCell::new(Memtable::new(def)));
                return Ok(());
            }
        }
    }

    /// Removes a table and its files.
    pub async fn drop_table(&self, id: TableId) -> Result<(), Error> {
        if let Ok(table) = self.table(id) {
            self.snapshot_before(&table, "dropped").await?;
        }
        let table = self.tables.borrow_mut().remove(&id);
        let Some(table) = table else { return Ok(()) };
        table.dropped.set(true);
        let active = table.active.borrow().borrow().bytes();
        self.active_bytes.set(self.active_bytes.get() - active);
        let _turn = table.flushing_turn().await;
        drop(table.publishing_permit().await);
        self.forget_flushing(&table);
        Manifest::remove(&table.folder, self.config.shard, self.config.shards).await?;
        let sstables = table.sstables.take();
        for sstable in sstables {
            sstable.remove().await?;
        }
        for generation in table.quarantine.clear() {
            sstable::remove_files(&table.folder, generation).await?;
        }
        // Fails while another shard still has files there, or an old snapshot.
        let _ = fs::remove_dir(&table.folder).await;
        self.release_segments();
        Ok(())
    }

    /// Removes all data of a table that was written before the call; with `Config::auto_snapshot`, a snapshot keeps it.
    pub async fn truncate(&self, id: TableId) -> Result<(), Error> {
        let table = self.table(id)?;
        self.snapshot_before(&table, "truncated").await?;
        let _turn = table.flushing_turn().await;
        let upto = self.log.position();
        let old = std::mem::replace(&mut *table.active.borrow_mut(), Rc::new(RefCell::new(Memtable::new(table.def()))));
        self.active_bytes.set(self.active_bytes.get() - old.borrow().bytes());
        self.forget_flushing(&table);
        let mut removed = Vec::new();
        let unreadable = table.quarantine.clear();
        let empty = |now: &[Rc<Sstable>]| {
            removed = now.to_vec();
            Some((Vec::new(), upto))
        };
        table.publish(&self.config, empty).await?;
        table.rename_rows();
        for sstable in removed {
            sstable.remove().await?;
        }
        for generation in unreadable {
            sstable::remove_files(&table.folder, generation).await?;
        }
        self.release_segments();
        Ok(())
    }

    pub(crate) fn table(&self, id: TableId) -> Result<Rc<Table>, Error> {
        self.tables.borrow().get(&id).cloned().ok_or(Error::UnknownTable(id))
    }

    /// Applies an encoded [`crate::Mutation`]; resolves when it is as durable as the sync mode promises. Waits when
    /// memtables or the commit log have no room.
    pub async fn apply(&self, mutation: &[u8]) -> Result<(), Error> {
        let began_ns = reactor::now();
        let (table, end) = self.admit(mutation, true).await?;
        match self.config.sync {
            SyncMode::Batch | SyncMode::Group { .. } => self.log.synced(end).await?,
            SyncMode::Periodic { .. } => {}
        }
        table.counts.count_write(began_ns);
        Ok(())
    }

    /// Applies what another node has already: it is not in the commit log, and on disk only once its memtable is
    /// flushed.
    pub async fn apply_copied(&self, mutation: &[u8]) -> Result<(), Error> {
        self.admit(mutation, false).await.map(drop)
    }

    /// Writes when there is room and the table takes writes.
    async fn admit(&self, mutation: &[u8], is_logged: bool) -> Result<(Rc<Table>, Position), Error> {
        let head = MutationHead::read(mutation)?;
        let (table, end) = loop {
            if self.is_full() || self.admission.is_waiting() {
                self.wait_for_room(mutation.len()).await?;
            }
            self.log.check()?;
            let released = {
                let tables = self.tables.borrow();
                let table = tables.get(&head.table).ok_or(Error::UnknownTable(head.table))?;
                if !table.held.get() {
                    break (table.clone(), self.write(table, mutation, head, is_logged)?);
                }
                self.released.notified()
            };
            released.await;
        };
        if self.admission.is_waiting() {
            // What was let in may have taken less than it was given.
            self.admit_writes();
        }
        Ok((table, end))
    }

    /// Into the commit log's buffer, if it is to be there, and the memtable, in one go.
    fn write(
        &self,
        table: &Table,
        mutation: &[u8],
        head: MutationHead<'_>,
        is_logged: bool,
    ) -> Result<Position, Error> {
        let active = table.active.borrow();
        let mut memtable = active.borrow_mut();
        if head.schema_version != memtable.def.version {
            let have = memtable.def.version;
            return Err(Error::SchemaVersion { table: head.table, got: head.schema_version, have });
        }
        let checked = check_partition(head.partition, &memtable.def)?;
        let end = if is_logged { self.log.append(mutation)? } else { self.log.position() };
        lookup::charge(memtable.bytes() as u64);
        reactor::charge(Work::MemtableInsert, head.partition.len() as u64);
        self.insert(&mut memtable, head.partition, &checked, end)?;
        add(&table.counts.writes, 1);
        if self.memory().wants_flush() || self.log_too_large() {
            self.wake_flush();
        }
        Ok(end)
    }

    fn insert(
        &self,
        memtable: &mut Memtable,
        encoded: &[u8],
        checked: &Checked<'_>,
        end: Position,
    ) -> Result<(), Error> {
        let before = memtable.bytes();
        memtable.insert(Token::of_key(checked.key), encoded, checked)?;
        if memtable.first_segment.is_none() {
            memtable.first_segment = Some(end.segment);
            memtable.flush_due_ns = flush_period(&memtable.def).map(|period| reactor::now().saturating_add(period));
            if memtable.flush_due_ns.is_some() {
                self.wake_flush();
            }
        }
        self.active_bytes.set(self.active_bytes.get() + memtable.bytes() - before);
        Ok(())
    }

    pub(crate) fn memory(&self) -> Memory {
        let limit = self.config.memtable_limit_bytes;
        Memory {
            limit,
            flush_at: (limit as f64 * self.config.memtable_cleanup_threshold) as u64,
            active: self.active_bytes.get() as u64,
            flushing: self.flushing_bytes.get() as u64,
            written: self.written_bytes.get() as u64,
        }
    }

    #[inline]
    fn is_full(&self) -> bool {
        self.memory().room() == 0 || self.log.room() == 0 || self.log_at_limit()
    }

    pub(crate) fn log_too_large(&self) -> bool {
        self.log.live_bytes() > self.config.commitlog_limit_bytes
    }

    /// A quarter above the limit flushes have not kept up. Never with so few segments that there may be none to flush.
    fn log_at_limit(&self) -> bool {
        let least = 4 * self.config.commitlog_segment_bytes;
        self.log.live_bytes() > (self.config.commitlog_limit_bytes / 4 * 5).max(least)
    }

    /// Each write waits its turn, for memory as for the commit log's disk: were all woken at each step, they would take
    /// the time in which what they wait for is done.
    async fn wait_for_room(&self, bytes: usize) -> Result<(), Error> {
        self.log.check()?;
        add(&self.writes_blocked, 1);
        if self.memory().room() == 0 || self.log_at_limit() {
            self.wake_flush();
        }
        // Those before this one may find room by now.
        self.admit_writes();
        self.admission.wait((bytes + WRITE_OVERHEAD) as u64).await;
        Ok(())
    }

    /// Lets waiting writes go, as many as there is room for.
    pub(crate) fn admit_writes(&self) {
        if self.admission.is_waiting() {
            self.admission.admit(match self.log.check() {
                Err(_) => u64::MAX,
                Ok(()) if self.log_at_limit() => 0,
                Ok(()) => self.memory().room().min(self.log.room()),
            });
        }
    }

    /// The wanted part of a partition, with the tombstones that matter for reconciliation between replicas; `None`
    /// when there is nothing at all. What deletions shadow is gone already.
    pub async fn read(&self, command: ReadCommand) -> Result<Option<Partition>, Error> {
        Ok(self.read_page(command).await?.partition)
    }

    /// As [`read`](Self::read), and whether there may be more behind the last row: with `limit_bytes` an answer may be
    /// short of rows.
    pub async fn read_page(&self, command: ReadCommand) -> Result<Page, Error> {
        let began_ns = reactor::now();
        let table = self.table(command.table)?;
        add(&table.counts.reads, 1);
        table.quarantine.check(Some(&command.key))?;
        let def = table.def();
        let read = PartitionRead {
            def: &def,
            token: Token::of_key(&command.key),
            key: &command.key,
            slices: &command.slices,
            reverse: command.reverse,
            limit_rows: command.limit_rows,
            limit_bytes: command.limit_bytes,
            now_s: command.now_s,
            bypass_cache: command.bypass_cache,
        };
        let page = match read.in_memory(&table)? {
            Some(page) => page,
            // What is read here is seldom; in the caller's future it would make every read larger.
            None => {
                let page = Box::pin(async { read.page(read.sources(&table).await?).await }).await;
                page.inspect_err(|error| table.noticed(error))?
            }
        };
        table.counts.count_answer(&page);
        table.counts.count_read(began_ns);
        Ok(page)
    }

    /// Partitions in token order, and whether there may be more behind them.
    pub async fn scan(&self, command: ScanCommand) -> Result<(Vec<Partition>, bool), Error> {
        let table = self.table(command.table)?;
        add(&table.counts.reads, 1);
        table.quarantine.check(None)?;
        crate::scan::scan(&table, &command).await.inspect_err(|error| table.noticed(error))
    }

    /// Writes memtables to SSTables: one table's, or all.
    pub async fn flush(&self, table: Option<TableId>) -> Result<(), Error> {
        let tables = match table {
            Some(id) => vec![self.table(id)?],
            None => self.tables_by_id(),
        };
        for table in tables {
            self.flush_table(&table).await?;
        }
        Ok(())
    }

    /// Makes everything that was acknowledged durable now, whatever the sync mode.
    pub async fn sync(&self) -> Result<(), Error> {
        self.log.sync_now().await
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            commitlog: self.log.stats(),
            cache: self.cache.stats(),
            index_cache: self.cache.index_stats(),
            rows: self.cache.rows.stats(),
            memtable_bytes: (self.active_bytes.get() + self.flushing_bytes.get()) as u64,
            writes_blocked: self.writes_blocked.get(),
            compaction_backlog_bytes: self.compactions.backlog_bytes.get(),
            compaction_shares: self.compactions.shares.get(),
            compaction_temporary_bytes: self.compactions.temporary_bytes().0,
            compaction_temporary_peak_bytes: self.compactions.temporary_bytes().1,
            compactions_out_of_space: self.compactions.out_of_space.get(),
            ..Stats::default()
        };
        let compacting = self.compactions.progress();
        for table in self.tables_by_id() {
            let active = table.active.borrow();
            let active = active.borrow();
            let counts = &table.counts;
            let strategy = table.strategy(&self.config);
            let running = compacting.iter().filter(|running| running.table == active.def.id).count() as u64;
            let pending = strategy.pending(&table.picture(), &table.memory.borrow());
            let one = TableStats {
                memtable_bytes: active.bytes() as u64,
                memtable_partitions: active.partitions() as u64,
                flushing_bytes: table.flushing.borrow().iter().map(|m| m.borrow().bytes() as u64).sum(),
                sstables: table.sstables.borrow().len() as u64,
                quarantined_sstables: table.quarantine.len() as u64,
                disk_bytes: table.sstables.borrow().iter().map(|sstable| sstable.disk_bytes).sum(),
                sstable_partitions: table.sstables.borrow().iter().map(|s| s.figures.partitions).sum(),
                sstable_memory_bytes: table.sstables.borrow().iter().map(|s| s.memory_bytes() as u64).sum(),
                flushes: counts.flushes.get(),
                flushed_bytes: counts.flushed_bytes.get(),
                compactions: counts.compactions.get(),
                compacted_bytes: counts.compacted_bytes.get(),
                compaction_steps: counts.compaction_steps.get(),
                pending_compactions: pending.max(running),
                writes: counts.writes.get(),
                reads: counts.reads.get(),
                read_us: counts.read_us.borrow().clone(),
                write_us: counts.write_us.borrow().clone(),
                sstables_per_read: *counts.sstables_per_read.borrow(),
                live_rows_per_read: counts.live_rows_per_read.borrow().clone(),
                tombstones_per_read: counts.tombstones_per_read.borrow().clone(),
                bloom_negatives: counts.bloom_negatives.get(),
                bloom_false_positives: counts.bloom_false_positives.get(),
            };
            stats.tables.insert(active.def.id, one);
        }
        stats
    }

    /// Syncs the commit log and ends the shard's storage tasks. What is in memtables is replayed at the next start.
    pub async fn close(&self) -> Result<(), Error> {
        self.signals.close();
        self.compactions.stop().await;
        // Flushes in progress come to their end first.
        let _turn = self.flush_turn.acquire(FLUSHES_AT_ONCE).await;
        self.log.close().await
    }
}

/// Nanoseconds after its first write at which a memtable is flushed whatever its size (`memtable_flush_period_in_ms`).
fn flush_period(def: &TableDef) -> Option<u64> {
    let period_ms: u64 = def.options.other.get("memtable_flush_period_in_ms")?.parse().ok()?;
    (period_ms > 0).then(|| period_ms.saturating_mul(1_000_000))
}

fn same_columns(old: &TableDef, new: &TableDef) -> bool {
    (&old.partition_key, &old.clustering, &old.statics, &old.regulars)
        == (&new.partition_key, &new.clustering, &new.statics, &new.regulars)
}

/// For the tasks.
impl Storage {
    pub(crate) fn config(&self) -> &Config {
        &self.config
    }

    pub(crate) fn log(&self) -> &CommitLog {
        &self.log
    }

    pub(crate) fn cache(&self) -> &Rc<BlockCache> {
        &self.cache
    }

    /// In an order that is the same on every run.
    pub(crate) fn tables_by_id(&self) -> Vec<Rc<Table>> {
        let mut tables: Vec<_> = self.tables.borrow().iter().map(|(id, table)| (*id, table.clone())).collect();
        tables.sort_by_key(|(id, _)| *id);
        tables.into_iter().map(|(_, table)| table).collect()
    }

    pub(crate) async fn flush_turn(&self) -> Permit {
        self.flush_turn.acquire(1).await
    }

    /// Up to where a memtable that is frozen now has the commit log's records.
    pub(crate) fn flush_position(&self) -> Position {
        self.replaying.get().unwrap_or_else(|| self.log.position())
    }

    /// `bytes` of an active memtable were frozen.
    pub(crate) fn set_flushing(&self, bytes: usize) {
        self.active_bytes.set(self.active_bytes.get() - bytes);
        self.flushing_bytes.set(self.flushing_bytes.get() + bytes);
    }

    /// `bytes` more of a frozen memtable are written.
    pub(crate) fn flush_written(&self, memtable: &SharedMemtable, bytes: usize) {
        let memtable = memtable.borrow();
        memtable.written_bytes.set(memtable.written_bytes.get() + bytes);
        self.written_bytes.set(self.written_bytes.get() + bytes);
        self.admit_writes();
    }

    /// What was written of a frozen memtable is of no use.
    pub(crate) fn flush_begins_anew(&self, memtable: &SharedMemtable) {
        self.written_bytes.set(self.written_bytes.get() - memtable.borrow().written_bytes.replace(0));
    }

    /// A frozen memtable is in an SSTable, or given up.
    pub(crate) fn flushed(&self, memtable: &SharedMemtable) {
        let memtable = memtable.borrow();
        self.flushing_bytes.set(self.flushing_bytes.get() - memtable.bytes());
        self.written_bytes.set(self.written_bytes.get() - memtable.written_bytes.replace(0));
        self.admit_writes();
    }

    fn forget_flushing(&self, table: &Table) {
        for memtable in table.flushing.take() {
            self.flushed(&memtable);
        }
        self.admit_writes();
    }

    pub(crate) fn wake_flush(&self) {
        if !self.signals.flush_wanted.replace(true) {
            self.signals.flush.notify_all();
        }
    }

    pub(crate) fn wake_compaction(&self) {
        if self.config.auto_compaction && !self.signals.compaction_wanted.replace(true) {
            self.signals.compaction.notify_all();
        }
    }

    /// Gives back the commit log's segments that no memtable needs.
    pub(crate) fn release_segments(&self) {
        if self.replaying.get().is_none() {
            let needed = self.tables_by_id().iter().filter_map(|table| table.first_segment()).min();
            self.log.release_before(needed.unwrap_or_else(|| self.log.position().segment));
            self.admit_writes();
        }
    }

    /// A flush finds no room: writes are refused until [`Storage::has_space`].
    pub(crate) fn out_of_space(&self, path: &str) {
        self.log.set_full("flush", path);
        self.released.notify_all();
        self.admit_writes();
    }

    pub(crate) fn has_space(&self) {
        self.log.clear_full("flush");
    }

    /// Nothing is acknowledged any more.
    pub(crate) fn stop(&self, error: &Error) {
        self.log.fail(error);
        self.released.notify_all();
        self.admit_writes();
    }
}
