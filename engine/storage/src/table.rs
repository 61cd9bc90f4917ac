//! What one shard keeps of one table.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use types::TableDef;

use crate::commitlog::Position;
use crate::memtable::Memtable;

pub(crate) type SharedMemtable = Rc<RefCell<Memtable>>;

pub(crate) struct Table {
    pub def: RefCell<Arc<TableDef>>,
    /// Where its SSTables are.
    pub folder: String,
    pub active: RefCell<SharedMemtable>,
    /// Frozen ones, oldest first.
    pub flushing: RefCell<Vec<SharedMemtable>>,
    /// Every record up to here is in SSTables (or was truncated): replay skips them.
    pub flushed_upto: Cell<Position>,
    pub dropped: Cell<bool>,
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
    pub bloom_negatives: Cell<u64>,
    pub bloom_false_positives: Cell<u64>,
    pub sstables_per_read: RefCell<[u64; 32]>,
}

pub(crate) fn add(counter: &Cell<u64>, n: u64) {
    counter.set(counter.get() + n);
}

impl Table {
    pub fn new(def: Arc<TableDef>, data_dir: &str) -> Self {
        let folder = format!("{data_dir}/{}/{}-{:032x}", def.keyspace, def.name, def.id.0);
        Self {
            active: RefCell::new(Rc::new(RefCell::new(Memtable::new(def.clone())))),
            def: RefCell::new(def),
            folder,
            flushing: RefCell::default(),
            flushed_upto: Cell::default(),
            dropped: Cell::new(false),
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
