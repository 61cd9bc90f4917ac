//! Random operations on one bare storage, and a journal of what was asked for and what was answered.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use sim::Generator;
use storage::{Config, Error, Storage, SyncMode};
use types::{CqlType, TableDef, TableOptions};

use super::model::{COLUMNS, Change, Era, KEYS, ROWS, TABLES, Write};

/// Small segments, memtables and caches: a little data goes all the ways there are, and reads come from the disk.
pub fn config() -> Config {
    Config {
        sync: SyncMode::Batch,
        memtable_limit_bytes: 24 << 10,
        commitlog_segment_bytes: 16 << 10,
        commitlog_limit_bytes: 48 << 10,
        cache_bytes: 16 << 10,
        compaction_small_bytes: 64 << 10,
        ..Config::new("/data", "/log")
    }
}

/// A version of a table: 0 has [`COLUMNS`] columns, each later one has one more.
pub fn table(table: u8, version: u64, era: Era) -> Arc<TableDef> {
    let mut def = TableDef::builder("ks", &format!("t{table}"))
        .version(version)
        .partition_key("p", CqlType::Blob)
        .clustering("c", CqlType::Int)
        .options(TableOptions {
            gc_grace_seconds: if era.local_s < PURGED_S { 0 } else { 864_000 },
            ..TableOptions::default()
        });
    for column in 0..u64::from(COLUMNS) + version {
        def = def.regular(&format!("v{column}"), CqlType::Blob);
    }
    Arc::new(def.build())
}

/// Tombstones from before are purged as soon as nothing needs them.
const PURGED_S: u32 = 1_000_000_000;
const VERSIONS: u64 = 3;

#[derive(Clone, Debug)]
pub enum Act {
    Write(Write),
    Truncate {
        table: u8,
    },
    /// The definition is durable elsewhere from now on.
    Alter {
        table: u8,
        version: u64,
    },
}

#[derive(Clone, Debug)]
pub enum Entry {
    Begun(u32, Act),
    Acknowledged(u32),
    /// Refused, or ended by an error: it may have happened or not.
    Failed(String),
}

/// What one run does, drawn from its seed.
pub struct Workload {
    /// See `storage::Config`.
    pub skip_sync: bool,
    pub era: Era,
    rising: bool,
    random: Generator,
    pub journal: Rc<RefCell<Vec<Entry>>>,
    versions: Vec<u64>,
    next: u32,
}

impl Workload {
    pub fn new(seed: u64) -> Self {
        let mut random = Generator::new(seed);
        // Purging is exact only when nothing is written behind a purged tombstone.
        let rising = random.chance(1, 2);
        Self {
            skip_sync: false,
            era: Era { local_s: if rising { 1_000 } else { 4_000_000_000 } },
            rising,
            random,
            journal: Rc::default(),
            versions: vec![0; usize::from(TABLES)],
            next: 0,
        }
    }

    pub fn defs(&self) -> Vec<Arc<TableDef>> {
        (0..TABLES).map(|t| table(t, self.versions[usize::from(t)], self.era)).collect()
    }

    fn config(&self) -> Config {
        Config { fault_skip_commitlog_sync: self.skip_sync, ..config() }
    }

    fn begin(&mut self, act: Act) -> u32 {
        self.next += 1;
        self.journal.borrow_mut().push(Entry::Begun(self.next, act));
        self.next
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn draw_write(&mut self) -> Write {
        let table = self.below(u64::from(TABLES)) as u8;
        let key = self.below(u64::from(KEYS)) as u8;
        let row = self.below(ROWS as u64) as i32;
        let column = self.below(u64::from(COLUMNS) + self.versions[usize::from(table)]) as u16;
        let value = self.below(256) as u8;
        let change = match self.below(20) {
            0 => Change::DeletePartition,
            1 => Change::DeleteRow { row },
            2..4 => {
                let other = self.below(ROWS as u64) as i32;
                Change::DeleteRange { from: row.min(other), to: row.max(other) }
            }
            4..6 => Change::DeleteCell { row, column },
            6..9 => Change::Wide { value },
            _ => Change::Cell { row, marker: self.random.chance(1, 2), column, value },
        };
        let sequence = i64::from(self.next) + 1;
        let timestamp = if self.rising { sequence } else { self.below(50) as i64 * 100_000 + sequence };
        Write { table, key, timestamp, change }
    }

    /// Some writes at once. Waits for all their answers.
    pub async fn write_some(&mut self, storage: &Rc<Storage>) {
        let mut tasks = Vec::new();
        for _ in 0..=self.below(4) {
            let write = self.draw_write();
            let def = table(write.table, self.versions[usize::from(write.table)], self.era);
            let bytes = write.encode(&def, self.era);
            let id = self.begin(Act::Write(write));
            let (storage, journal) = (storage.clone(), self.journal.clone());
            tasks.push(reactor::spawn(reactor::Group::Statement, "write", async move {
                let answer = match storage.apply(&bytes).await {
                    Ok(()) => Entry::Acknowledged(id),
                    Err(error) => Entry::Failed(error.to_string()),
                };
                journal.borrow_mut().push(answer);
            }));
        }
        for task in tasks {
            task.await;
        }
    }

    /// `rounds` of whatever comes; the storage is closed and opened again now and then. An error ends it: without
    /// faults none may come.
    pub async fn run(&mut self, rounds: u32) -> Result<(), Error> {
        let mut storage = Storage::open(self.config(), self.defs()).await?;
        for _ in 0..rounds {
            let background = {
                let storage = storage.clone();
                let which = self.below(10);
                let id = table(self.below(u64::from(TABLES)) as u8, 0, self.era).id;
                reactor::spawn(reactor::Group::Maintenance, "background", async move {
                    match which {
                        0..2 => storage.flush(None).await,
                        2 => storage.flush(Some(id)).await,
                        3 => storage.compact(id).await,
                        _ => Ok(()),
                    }
                })
            };
            match self.below(40) {
                0 => {
                    let table = self.below(u64::from(TABLES)) as u8;
                    let def = self.defs()[usize::from(table)].clone();
                    let id = self.begin(Act::Truncate { table });
                    storage.truncate(def.id).await?;
                    self.journal.borrow_mut().push(Entry::Acknowledged(id));
                }
                1 => {
                    let altered = self.below(u64::from(TABLES)) as u8;
                    let version = self.versions[usize::from(altered)] + 1;
                    if version <= VERSIONS {
                        let def = table(altered, version, self.era);
                        storage.prepare_update(&def).await?;
                        self.versions[usize::from(altered)] = version;
                        let id = self.begin(Act::Alter { table: altered, version });
                        self.journal.borrow_mut().push(Entry::Acknowledged(id));
                        storage.update_table(def).await?;
                    }
                }
                2 => {
                    background.await?;
                    storage.close().await?;
                    drop(storage);
                    storage = Storage::open(self.config(), self.defs()).await?;
                    continue;
                }
                _ => self.write_some(&storage).await,
            }
            background.await?;
        }
        storage.close().await
    }
}

/// What the journal says of the time when it had `len` entries.
pub struct Known {
    pub versions: Vec<u64>,
    /// By table and key.
    acknowledged: Vec<Vec<Write>>,
    /// Asked for, and not (or not well) answered.
    open: Vec<(u32, Act)>,
    upto: usize,
}

impl Known {
    pub fn new() -> Self {
        Self {
            versions: vec![0; usize::from(TABLES)],
            acknowledged: vec![Vec::new(); usize::from(TABLES) * usize::from(KEYS)],
            open: Vec::new(),
            upto: 0,
        }
    }

    /// What the journal says, with the answers from `from` on held for open: of what came last.
    pub fn with_open_end(journal: &[Entry], from: usize) -> Self {
        let mut known = Self::new();
        known.advance(journal, from);
        let last = journal[from..].iter().filter_map(|entry| match entry {
            Entry::Begun(id, act) => Some((*id, act.clone())),
            _ => None,
        });
        known.open.extend(last);
        known
    }

    /// Takes the journal's entries up to `len` into account.
    pub fn advance(&mut self, journal: &[Entry], len: usize) {
        for entry in &journal[self.upto..len] {
            match entry {
                Entry::Begun(id, act) => self.open.push((*id, act.clone())),
                Entry::Failed(_) => {}
                Entry::Acknowledged(id) => {
                    let at = self.open.iter().position(|(open, _)| open == id).expect("an answer has its question");
                    match self.open.remove(at).1 {
                        Act::Write(write) => self.acknowledged[place(write.table, write.key)].push(write),
                        Act::Truncate { table } => {
                            (0..KEYS).for_each(|key| self.acknowledged[place(table, key)].clear());
                        }
                        Act::Alter { table, version } => self.versions[usize::from(table)] = version,
                    }
                }
            }
        }
        self.upto = len;
    }

    pub fn defs(&self, era: Era) -> Vec<Arc<TableDef>> {
        (0..TABLES).map(|t| table(t, self.versions[usize::from(t)], era)).collect()
    }

    pub fn acknowledged(&self, table: u8, key: u8) -> &[Write] {
        &self.acknowledged[place(table, key)]
    }

    /// Unanswered writes of a partition.
    pub fn open_writes(&self, table: u8, key: u8) -> Vec<&Write> {
        let writes = self.open.iter().filter_map(|(_, act)| match act {
            Act::Write(write) if (write.table, write.key) == (table, key) => Some(write),
            _ => None,
        });
        writes.collect()
    }

    /// Whether a truncation of the table was asked for and not answered.
    pub fn may_be_truncated(&self, table: u8) -> bool {
        self.open.iter().any(|(_, act)| matches!(act, Act::Truncate { table: t } if *t == table))
    }
}

fn place(table: u8, key: u8) -> usize {
    usize::from(table) * usize::from(KEYS) + usize::from(key)
}
