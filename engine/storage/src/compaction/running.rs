//! What compacts now, what did before, and the rate that all of it shares.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use reactor::sync::Notify;
use types::TableId;

use super::picture::Kind;

/// Entries of history that a shard keeps: some days' of a busy table, in less than a megabyte.
const HISTORY_MAX: usize = 1000;
/// What an idle bucket lets through at once, in time at its rate.
const BURST_NS: u64 = 50_000_000;

/// A compaction, or another operation on SSTables, that is going on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionProgress {
    pub id: u64,
    pub table: TableId,
    pub kind: Kind,
    /// Of data, to be read in all and read so far.
    pub bytes_total: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
}

/// A compaction that has ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactionRecord {
    pub table: TableId,
    pub kind: Kind,
    /// Generations.
    pub inputs: Vec<u64>,
    pub outputs: Vec<u64>,
    /// Of data.
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// How many partitions were merged from how many SSTables.
    pub rows_merged: BTreeMap<u32, u64>,
    /// Partitions that could not be read and were left out.
    pub skipped: u64,
    /// Microseconds since the epoch.
    pub ended_us: u64,
    pub duration_ns: u64,
}

/// Handle of what is going on.
pub(crate) struct Running {
    pub id: u64,
    pub table: TableId,
    pub kind: Kind,
    pub bytes_total: u64,
    /// Of disk that it may need besides its inputs.
    pub reserved_bytes: u64,
    pub bytes_read: Cell<u64>,
    pub bytes_written: Cell<u64>,
    pub cancelled: Cell<bool>,
}

/// All of a shard's.
#[derive(Default)]
pub(crate) struct Compactions {
    next_id: Cell<u64>,
    running: RefCell<BTreeMap<u64, Rc<Running>>>,
    ended: Notify,
    history: RefCell<VecDeque<CompactionRecord>>,
    /// Picks that had to wait because the disk space for them is limited.
    pub out_of_space: Cell<u64>,
    /// As of the controller's last look.
    pub backlog_bytes: Cell<u64>,
    pub shares: Cell<u32>,
    /// Bytes of outputs whose inputs are still there, and the most there ever were.
    temporary_bytes: Cell<u64>,
    temporary_peak_bytes: Cell<u64>,
    /// When the bytes let through so far are paid for.
    paid_ns: Cell<u64>,
}

impl Compactions {
    /// How many run because somebody asked.
    pub fn asked_for(&self) -> usize {
        self.running.borrow().values().filter(|running| running.kind.is_asked_for()).count()
    }

    pub fn start(&self, table: TableId, kind: Kind, bytes_total: u64, reserved_bytes: u64) -> Rc<Running> {
        let id = self.next_id.get();
        self.next_id.set(id + 1);
        let running = Running {
            id,
            table,
            kind,
            bytes_total,
            reserved_bytes,
            bytes_read: Cell::new(0),
            bytes_written: Cell::new(0),
            cancelled: Cell::new(false),
        };
        let running = Rc::new(running);
        self.running.borrow_mut().insert(id, running.clone());
        running
    }

    pub fn end(&self, running: &Running) {
        self.running.borrow_mut().remove(&running.id);
        self.ended.notify_all();
    }

    /// Stops all of them, and waits until the last has let go of its files.
    pub async fn stop(&self) {
        self.cancel(None);
        self.ended.wait_until(|| self.running.borrow().is_empty()).await;
    }

    /// What takes room twice: more by an output, less by the inputs that it replaces.
    pub fn add_temporary(&self, bytes: u64) {
        let now = self.temporary_bytes.get() + bytes;
        self.temporary_bytes.set(now);
        self.temporary_peak_bytes.set(self.temporary_peak_bytes.get().max(now));
    }

    pub fn sub_temporary(&self, bytes: u64) {
        self.temporary_bytes.set(self.temporary_bytes.get().saturating_sub(bytes));
    }

    /// Now, and at most.
    pub fn temporary_bytes(&self) -> (u64, u64) {
        (self.temporary_bytes.get(), self.temporary_peak_bytes.get())
    }

    /// What the running ones may come to need.
    pub fn reserved_bytes(&self) -> u64 {
        self.running.borrow().values().map(|running| running.reserved_bytes).sum()
    }

    pub fn record(&self, record: CompactionRecord) {
        let mut history = self.history.borrow_mut();
        if history.len() == HISTORY_MAX {
            history.pop_front();
        }
        history.push_back(record);
    }

    pub fn history(&self) -> Vec<CompactionRecord> {
        self.history.borrow().iter().cloned().collect()
    }

    pub fn progress(&self) -> Vec<CompactionProgress> {
        let progress = |running: &Rc<Running>| CompactionProgress {
            id: running.id,
            table: running.table,
            kind: running.kind,
            bytes_total: running.bytes_total,
            bytes_read: running.bytes_read.get(),
            bytes_written: running.bytes_written.get(),
        };
        self.running.borrow().values().map(progress).collect()
    }

    /// Those of a table, or all; says how many.
    pub fn cancel(&self, table: Option<TableId>) -> usize {
        let running = self.running.borrow();
        let wanted = running.values().filter(|running| table.is_none_or(|table| running.table == table));
        wanted.map(|running| running.cancelled.set(true)).count()
    }

    /// Lets the others run; and sleeps while more was written, by all together, than `mb_per_s` allows.
    pub async fn pace(&self, mb_per_s: Option<f64>, bytes: u64) {
        if let Some(rate) = mb_per_s.filter(|rate| *rate > 0.0) {
            let now = reactor::now();
            let from = self.paid_ns.get().max(now.saturating_sub(BURST_NS));
            let due_ns = from.saturating_add((bytes as f64 * 1000.0 / rate) as u64);
            self.paid_ns.set(due_ns);
            if due_ns > now {
                return reactor::time::sleep(Duration::from_nanos(due_ns - now)).await;
            }
        }
        reactor::time::yield_now().await;
    }
}
