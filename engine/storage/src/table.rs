//! What one shard keeps of one table.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use reactor::fs;
use reactor::sync::{Notify, Permit, Semaphore};
use types::TableDef;

use crate::cache::BlockCache;
use crate::commitlog::Position;
use crate::compaction::picture::{Candidate, Picture};
use crate::compaction::strategy::{Memory, Strategy};
use crate::manifest::Manifest;
use crate::memtable::Memtable;
use crate::quarantine::Quarantine;
use crate::read::Page;
use crate::row_cache::RowCache;
use crate::sstable::{self, Sstable, Standing};
use crate::{Config, Error, Histogram};

pub(crate) type SharedMemtable = Rc<RefCell<Memtable>>;

pub(crate) struct Table {
    pub def: RefCell<Arc<TableDef>>,
    /// Where its SSTables are.
    pub folder: String,
    pub active: RefCell<SharedMemtable>,
    /// Frozen ones, oldest first.
    pub flushing: RefCell<Vec<SharedMemtable>>,
    /// Oldest generation first. What the manifest says, once it has been stored.
    pub sstables: RefCell<Vec<Rc<Sstable>>>,
    /// Every record up to here is in SSTables (or was truncated): replay skips them.
    pub flushed_upto: Cell<Position>,
    /// See [`Manifest::next`].
    pub next_generation: Cell<u64>,
    /// One flush of a table at a time, so that commit log positions are published in order.
    flushing_turn: Rc<Semaphore>,
    /// The flush task has chosen it.
    pub flush_chosen: Cell<bool>,
    /// Held while the set of SSTables changes, on disk and in memory.
    publishing: Rc<Semaphore>,
    /// Counts the changes of `sstables`: what was read from an older set may be out of date.
    pub version: Cell<u64>,
    /// Name of the table's partitions in the row cache.
    pub rows_name: Cell<u32>,
    pub rows: Rc<RowCache>,
    /// See [`Config::reads_every_place`].
    pub reads_every_place: bool,
    /// Generations that a compaction is reading.
    pub compacting: RefCell<BTreeSet<u64>>,
    /// A compaction of the table has ended.
    pub compacted: Notify,
    /// What the strategy remembers.
    pub memory: RefCell<Memory>,
    /// No compaction by itself before then, by the shard's clock: the last one failed.
    pub compaction_after_ns: Cell<u64>,
    /// Compacted when its strategy wants it, or only when somebody does.
    pub auto_compaction: Cell<bool>,
    pub dropped: Cell<bool>,
    /// Its columns are about to change: writes wait.
    pub held: Cell<bool>,
    /// Damaged SSTables.
    pub quarantine: Quarantine,
    pub counts: Counts,
}

/// What `Stats` tells of a table and nobody else needs.
#[derive(Default)]
pub(crate) struct Counts {
    pub writes: Cell<u64>,
    pub reads: Cell<u64>,
    pub flushes: Cell<u64>,
    pub flushed_bytes: Cell<u64>,
    pub compactions: Cell<u64>,
    pub compacted_bytes: Cell<u64>,
    /// Times that outputs took the place of inputs.
    pub compaction_steps: Cell<u64>,
    pub bloom_negatives: Cell<u64>,
    pub bloom_false_positives: Cell<u64>,
    pub read_us: RefCell<Histogram>,
    pub write_us: RefCell<Histogram>,
    pub sstables_per_read: RefCell<[u64; 32]>,
    pub live_rows_per_read: RefCell<Histogram>,
    pub tombstones_per_read: RefCell<Histogram>,
}

impl Counts {
    pub fn count_answer(&self, page: &Page) {
        self.live_rows_per_read.borrow_mut().add(page.live_rows as u64);
        self.tombstones_per_read.borrow_mut().add(page.tombstones as u64);
    }

    pub fn count_read(&self, since_ns: u64) {
        self.read_us.borrow_mut().add(reactor::now().saturating_sub(since_ns) / 1000);
    }

    pub fn count_write(&self, since_ns: u64) {
        self.write_us.borrow_mut().add(reactor::now().saturating_sub(since_ns) / 1000);
    }

    pub fn count_sstables(&self, asked: usize) {
        let histogram = &mut *self.sstables_per_read.borrow_mut();
        histogram[asked.min(histogram.len() - 1)] += 1;
    }
}

pub(crate) fn add(counter: &Cell<u64>, n: u64) {
    counter.set(counter.get() + n);
}

impl Table {
    /// Where the SSTables of a table are.
    pub fn folder_of(def: &TableDef, data_dir: &str) -> String {
        format!("{data_dir}/{}/{}-{:032x}", def.keyspace, def.name, def.id.0)
    }

    pub fn new(def: Arc<TableDef>, config: &Config, rows: Rc<RowCache>) -> Self {
        let folder = Self::folder_of(&def, &config.data_dir);
        Self {
            active: RefCell::new(Rc::new(RefCell::new(Memtable::new(def.clone())))),
            def: RefCell::new(def),
            folder,
            flushing: RefCell::default(),
            sstables: RefCell::default(),
            flushed_upto: Cell::default(),
            next_generation: Cell::new(1),
            flushing_turn: Semaphore::new(1),
            flush_chosen: Cell::new(false),
            publishing: Semaphore::new(1),
            version: Cell::new(0),
            rows_name: Cell::new(rows.name_table()),
            rows,
            reads_every_place: config.reads_every_place,
            compacting: RefCell::default(),
            compacted: Notify::new(),
            memory: RefCell::default(),
            compaction_after_ns: Cell::new(0),
            auto_compaction: Cell::new(true),
            dropped: Cell::new(false),
            held: Cell::new(false),
            quarantine: Quarantine::default(),
            counts: Counts::default(),
        }
    }

    pub fn def(&self) -> Arc<TableDef> {
        self.def.borrow().clone()
    }

    /// All memtables, newest first.
    pub fn memtables(&self) -> Vec<SharedMemtable> {
        let mut all = vec![self.active.borrow().clone()];
        all.extend(self.flushing.borrow().iter().rev().cloned());
        all
    }

    /// The oldest commit log segment that an unflushed memtable needs.
    pub fn first_segment(&self) -> Option<u64> {
        let flushing = self.flushing.borrow();
        let oldest = flushing.iter().filter_map(|memtable| memtable.borrow().first_segment).min();
        oldest.or_else(|| self.active.borrow().borrow().first_segment)
    }

    /// Sets the active memtable aside; `None` when it is empty. `upto` is the commit log's position now.
    pub fn freeze(&self, upto: Position) -> Option<SharedMemtable> {
        if self.active.borrow().borrow().is_empty() {
            return None;
        }
        let fresh = Rc::new(RefCell::new(Memtable::new(self.def())));
        let frozen = std::mem::replace(&mut *self.active.borrow_mut(), fresh);
        frozen.borrow_mut().upto = upto;
        self.flushing.borrow_mut().push(frozen.clone());
        Some(frozen)
    }
}

impl Table {
    /// Opens what the manifest names; removes this shard's other files.
    pub async fn open(config: &Config, def: Arc<TableDef>, cache: &Rc<BlockCache>) -> Result<Rc<Self>, Error> {
        let table = Self::new(def, config, cache.rows.clone());
        crate::folders::create(&table.folder).await?;
        let manifest = Manifest::load(&table.folder, config.shard, config.shards).await?;
        // After a kill the kernel may show a manifest whose name is not durable yet. What is believed now must still
        // be there when the power fails.
        fs::sync_dir(&table.folder).await.map_err(Error::io(&table.folder, "sync folder"))?;
        table.flushed_upto.set(manifest.flushed_upto);
        let mut next = manifest.next.max(1);
        let names = fs::read_dir(&table.folder).await.map_err(Error::io(&table.folder, "list"))?;
        Manifest::remove_staged(&table.folder, config.shard, config.shards, &names).await?;
        let mut leftovers: Vec<u64> = Vec::new();
        for generation in names.iter().filter_map(|name| sstable::parse_name(name)) {
            if generation % u64::from(config.shards) == u64::from(config.shard) {
                next = next.max(generation / u64::from(config.shards) + 1);
                if !manifest.sstables.contains_key(&generation) && leftovers.last() != Some(&generation) {
                    leftovers.push(generation);
                }
            }
        }
        table.next_generation.set(next);
        for generation in leftovers {
            tracing::info!(
                folder = table.folder,
                generation,
                "removing an SSTable that was never finished, or replaced"
            );
            sstable::remove_files(&table.folder, generation).await?;
        }
        for (generation, standing) in manifest.sstables {
            match Sstable::open(&table.folder, generation, table.def(), cache).await {
                Ok(sstable) => table.sstables.borrow_mut().push(sstable.standing(standing)),
                Err(error) if error.is_damage() => table.set_unreadable(generation, standing, &error).await,
                Err(error) => return Err(error),
            }
        }
        Ok(Rc::new(table))
    }

    /// An SSTable that belongs to the table cannot be opened.
    pub async fn set_unreadable(&self, generation: u64, standing: Standing, error: &Error) {
        let filter = Sstable::salvage_filter(&self.folder, generation).await;
        self.quarantine.add_unreadable(generation, standing, error, filter);
    }

    /// Remembers damage that a read or a compaction has met.
    pub fn noticed(&self, error: &Error) {
        if let Error::Corrupt { path, .. } = error
            && let Some(sstable) = self.sstables.borrow().iter().find(|sstable| sstable.descriptor.has(path))
        {
            self.quarantine.found(sstable.generation, error);
        }
    }

    /// Forgets the table's cached partitions: they are never found under the new name.
    pub fn rename_rows(&self) {
        self.version.set(self.version.get() + 1);
        self.rows_name.set(self.rows.name_table());
    }

    /// A generation that this shard has never used.
    pub fn take_generation(&self, config: &Config) -> u64 {
        let next = self.next_generation.get();
        self.next_generation.set(next + 1);
        next * u64::from(config.shards) + u64::from(config.shard)
    }

    /// Changes the set of SSTables: durably first, then for readers. `change` gives the new set and the position up to
    /// which the commit log is in it, or `None` to leave all as it is. Says whether it was changed.
    pub async fn publish(
        &self,
        config: &Config,
        change: impl FnOnce(&[Rc<Sstable>]) -> Option<(Vec<Rc<Sstable>>, Position)>,
    ) -> Result<bool, Error> {
        let _permit = self.publishing_permit().await;
        if self.dropped.get() {
            return Ok(false);
        }
        let change = change(&self.sstables.borrow());
        let Some((mut sstables, flushed_upto)) = change else { return Ok(false) };
        sstables.sort_by_key(|sstable| sstable.generation);
        let manifest = Manifest {
            flushed_upto,
            next: self.next_generation.get(),
            sstables: {
                let open = sstables.iter().map(|sstable| (sstable.generation, sstable.standing));
                open.chain(self.quarantine.unreadable()).collect()
            },
        };
        manifest.store(&self.folder, config.shard, config.shards).await?;
        self.flushed_upto.set(flushed_upto);
        self.quarantine.retain(|generation| sstables.iter().any(|sstable| sstable.generation == generation));
        *self.sstables.borrow_mut() = sstables;
        self.version.set(self.version.get() + 1);
        Ok(true)
    }

    pub fn is_flushing(&self) -> bool {
        self.flushing_turn.available() == 0
    }

    /// While it is held nobody else flushes, truncates or drops the table.
    pub async fn flushing_turn(&self) -> Permit {
        self.flushing_turn.acquire(1).await
    }

    /// While it is held nobody else changes the set of SSTables.
    pub async fn publishing_permit(&self) -> Permit {
        self.publishing.acquire(1).await
    }

    pub fn strategy(&self, config: &Config) -> Strategy {
        Strategy::of(&self.def.borrow().options.compaction, config.compaction_small_bytes)
    }

    /// No compaction by itself: the table is going, or its columns are about to change.
    pub fn held_compaction(&self) -> bool {
        self.dropped.get() || self.held.get()
    }

    /// Of data.
    pub fn bytes_of(&self, generations: &[u64]) -> u64 {
        let sstables = self.sstables.borrow();
        sstables.iter().filter(|s| generations.contains(&s.generation)).map(|s| s.data_bytes()).sum()
    }

    /// What there is, for a strategy to look at.
    pub fn picture(&self) -> Picture {
        let now_s = (reactor::wall_us() / 1_000_000) as u32;
        // What cannot be read may hold what a tombstone deletes: nothing is forgotten for now.
        let grace_s = match self.quarantine.unreadable().is_empty() {
            true => self.def.borrow().options.gc_grace_seconds,
            false => u32::MAX,
        };
        let gc_before_s = now_s.saturating_sub(grace_s);
        let compacting = self.compacting.borrow();
        let candidate = |s: &Rc<Sstable>| Candidate {
            generation: s.generation,
            bytes: s.stored_bytes(),
            standing: s.standing,
            first: s.first,
            last: s.last,
            min_timestamp: s.figures.min_timestamp,
            max_timestamp: s.figures.max_timestamp,
            max_local_deletion_s: s.figures.max_local_deletion_s,
            droppable: s.figures.droppable_ratio(gc_before_s),
            busy: compacting.contains(&s.generation) || self.quarantine.contains(s.generation),
        };
        let memtable_min_timestamp = self.memtables().iter().map(|memtable| memtable.borrow().min_timestamp()).min();
        Picture {
            sstables: self.sstables.borrow().iter().map(candidate).collect(),
            now_s,
            gc_before_s,
            memtable_min_timestamp: memtable_min_timestamp.unwrap_or(i64::MAX),
        }
    }
}
