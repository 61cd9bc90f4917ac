//! One shard's storage: the way of a write and of a read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use reactor::Work;
use reactor::fs;
use reactor::sync::Notify;
use types::hash::HashMap;
use types::{TableDef, TableId, Token};

use crate::commitlog::{self, CommitLog, Position};
use crate::data::codec::Checked;
use crate::data::{MutationHead, check_partition};
use crate::read::{PartitionRead, Source};
use crate::table::{Table, add};
use crate::{Config, Error, Partition, ReadCommand, ScanCommand, Stats, SyncMode, TableStats};

/// One shard's tables on one shard's disks.
pub struct Storage {
    config: Config,
    tables: RefCell<HashMap<TableId, Rc<Table>>>,
    log: Rc<CommitLog>,
    /// Bytes of active memtables, and of those being flushed.
    active_bytes: Cell<usize>,
    flushing_bytes: Cell<usize>,
    room: Notify,
    writes_blocked: Cell<u64>,
}

impl Storage {
    /// Opens or creates the folders, removes leftovers of a crash, replays the commit log.
    ///
    /// Mutations in the commit log of tables that are not in `tables` are those of dropped tables, and skipped.
    pub async fn open(config: Config, tables: Vec<Arc<TableDef>>) -> Result<Rc<Storage>, Error> {
        for dir in [&config.data_dir, &config.commitlog_dir] {
            create_folders(dir).await?;
        }
        let opened = RefCell::new(HashMap::default());
        for def in tables {
            let table = open_table(&config, def).await?;
            let id = table.def().id;
            opened.borrow_mut().insert(id, table);
        }
        let mut applied = (0, 0);
        let apply = |end: Position, bytes: &[u8]| {
            let head = MutationHead::read(bytes)?;
            let tables = opened.borrow();
            let table = tables.get(&head.table).filter(|table: &&Rc<Table>| table.flushed_upto.get() < end);
            let Some(table) = table else {
                applied.1 += 1;
                return Ok(());
            };
            applied.0 += 1;
            let active = table.active.borrow();
            let mut memtable = active.borrow_mut();
            let checked = check_partition(head.partition, &memtable.def)?;
            let token = Token::of_key(checked.key);
            memtable.insert(token, head.partition, &checked)?;
            memtable.first_segment.get_or_insert(end.segment);
            Ok(())
        };
        let segments = commitlog::replay(&config, apply, async || Ok(())).await?;
        let log = CommitLog::start(&config, segments)?;
        let tables = opened.into_inner();
        let active_bytes = tables.values().map(|table| table.active.borrow().borrow().bytes()).sum();
        Ok(Rc::new(Storage {
            config,
            tables: RefCell::new(tables),
            log,
            active_bytes: Cell::new(active_bytes),
            flushing_bytes: Cell::new(0),
            room: Notify::new(),
            writes_blocked: Cell::new(0),
        }))
    }

    /// Makes a table known, with its folder. Known already: nothing happens.
    pub async fn add_table(&self, def: Arc<TableDef>) -> Result<(), Error> {
        if self.tables.borrow().contains_key(&def.id) {
            return Ok(());
        }
        let id = def.id;
        let table = open_table(&self.config, def).await?;
        self.tables.borrow_mut().entry(id).or_insert(table);
        Ok(())
    }

    /// A new version of a table's definition.
    pub async fn update_table(&self, def: Arc<TableDef>) -> Result<(), Error> {
        let table = self.table(def.id)?;
        self.flush(Some(def.id)).await?;
        *table.def.borrow_mut() = def;
        Ok(())
    }

    /// Removes a table and its files.
    pub async fn drop_table(&self, id: TableId) -> Result<(), Error> {
        let table = self.tables.borrow_mut().remove(&id);
        if let Some(table) = table {
            table.dropped.set(true);
        }
        Ok(())
    }

    /// Removes all of a table's data.
    pub async fn truncate(&self, id: TableId) -> Result<(), Error> {
        self.table(id)?;
        Ok(())
    }

    fn table(&self, id: TableId) -> Result<Rc<Table>, Error> {
        self.tables.borrow().get(&id).cloned().ok_or(Error::UnknownTable(id))
    }

    /// Applies an encoded [`crate::Mutation`]; resolves when it is as durable as the sync mode promises. Waits when
    /// memtables or the commit log have no room.
    pub async fn apply(&self, mutation: &[u8]) -> Result<(), Error> {
        let head = MutationHead::read(mutation)?;
        if self.is_full() {
            self.wait_for_room().await?;
        }
        let table = self.table(head.table)?;
        let end = self.write(&table, mutation, head)?;
        match self.config.sync {
            SyncMode::Batch => self.log.synced(end).await,
            SyncMode::Periodic { .. } => self.log.check(),
        }
    }

    /// Into the commit log's buffer and the memtable, in one go.
    fn write(&self, table: &Table, mutation: &[u8], head: MutationHead<'_>) -> Result<Position, Error> {
        let active = table.active.borrow();
        let mut memtable = active.borrow_mut();
        let checked = check_for(&memtable.def, head)?;
        let token = Token::of_key(checked.key);
        let end = self.log.append(mutation)?;
        reactor::charge(Work::MemtableInsert, head.partition.len() as u64);
        let before = memtable.bytes();
        memtable.insert(token, head.partition, &checked)?;
        memtable.first_segment.get_or_insert(end.segment);
        self.active_bytes.set(self.active_bytes.get() + memtable.bytes() - before);
        add(&table.counts.writes, 1);
        Ok(end)
    }

    #[inline]
    fn is_full(&self) -> bool {
        let used = (self.active_bytes.get() + self.flushing_bytes.get()) as u64;
        used >= self.config.memtable_limit_bytes || self.log.is_full()
    }

    async fn wait_for_room(&self) -> Result<(), Error> {
        add(&self.writes_blocked, 1);
        while self.is_full() {
            self.log.check()?;
            if self.log.is_full() {
                self.log.wait_for_room().await;
            } else {
                self.room.notified().await;
            }
        }
        Ok(())
    }

    /// The wanted part of a partition, with the tombstones that matter for reconciliation between replicas; `None`
    /// when there is nothing at all. What deletions shadow is gone already.
    pub async fn read(&self, command: ReadCommand) -> Result<Option<Partition>, Error> {
        let table = self.table(command.table)?;
        add(&table.counts.reads, 1);
        let def = table.def();
        let read = PartitionRead {
            def: &def,
            token: Token::of_key(&command.key),
            key: &command.key,
            slices: &command.slices,
            reverse: command.reverse,
            limit_rows: command.limit_rows,
            now_s: command.now_s,
        };
        let sources = table.memtables().into_iter().map(Source::Memtable).collect();
        read.run(sources).await
    }

    /// Partitions in token order, and whether there may be more behind them.
    pub async fn scan(&self, command: ScanCommand) -> Result<(Vec<Partition>, bool), Error> {
        let table = self.table(command.table)?;
        add(&table.counts.reads, 1);
        crate::scan::scan(&table, &command).await
    }

    /// Writes memtables to SSTables: one table's, or all.
    pub async fn flush(&self, table: Option<TableId>) -> Result<(), Error> {
        if let Some(id) = table {
            self.table(id)?;
        }
        Ok(())
    }

    pub fn stats(&self) -> Stats {
        let mut stats = Stats {
            commitlog: self.log.stats(),
            memtable_bytes: (self.active_bytes.get() + self.flushing_bytes.get()) as u64,
            writes_blocked: self.writes_blocked.get(),
            ..Stats::default()
        };
        for (id, table) in &*self.tables.borrow() {
            let active = table.active.borrow();
            let active = active.borrow();
            let counts = &table.counts;
            let one = TableStats {
                memtable_bytes: active.bytes() as u64,
                memtable_partitions: active.partitions() as u64,
                flushing_bytes: table.flushing.borrow().iter().map(|m| m.borrow().bytes() as u64).sum(),
                flushes: counts.flushes.get(),
                flushed_bytes: counts.flushed_bytes.get(),
                compactions: counts.compactions.get(),
                compacted_bytes: counts.compacted_bytes.get(),
                writes: counts.writes.get(),
                reads: counts.reads.get(),
                sstables_per_read: *counts.sstables_per_read.borrow(),
                bloom_negatives: counts.bloom_negatives.get(),
                bloom_false_positives: counts.bloom_false_positives.get(),
                ..TableStats::default()
            };
            stats.tables.insert(*id, one);
        }
        stats
    }

    /// Syncs the commit log and ends the shard's storage tasks. What is in memtables is replayed at the next start.
    pub async fn close(&self) -> Result<(), Error> {
        self.log.close().await
    }
}

fn check_for<'a>(def: &TableDef, head: MutationHead<'a>) -> Result<Checked<'a>, Error> {
    if head.schema_version != def.version {
        return Err(Error::SchemaVersion { table: head.table, got: head.schema_version, have: def.version });
    }
    Ok(check_partition(head.partition, def)?)
}

async fn open_table(config: &Config, def: Arc<TableDef>) -> Result<Rc<Table>, Error> {
    let table = Table::new(def, &config.data_dir);
    create_folders(&table.folder).await?;
    Ok(Rc::new(table))
}

/// Creates a folder and those above it, durably.
async fn create_folders(path: &str) -> Result<(), Error> {
    let mut made = String::new();
    for part in path.split_inclusive('/') {
        let parent = made.clone();
        made.push_str(part);
        let folder = made.trim_end_matches('/');
        if folder.is_empty() || folder == "." || folder == ".." || folder.ends_with("/..") {
            continue;
        }
        fs::create_dir(folder).await.map_err(Error::io(folder, "create folder"))?;
        let parent = match parent.trim_end_matches('/') {
            "" if path.starts_with('/') => "/",
            "" => ".",
            parent => parent,
        };
        fs::sync_dir(parent).await.map_err(Error::io(parent, "sync folder"))?;
    }
    Ok(())
}
