//! Scheduling groups: who gets the CPU next.
//!
//! Each group has shares and a virtual run time that advances by `cost * 1000 / shares`. The group with the least
//! virtual time that has runnable tasks goes next. A group that was idle resumes at the virtual time of the group picked
//! last, so that it cannot save up its idleness.
//!
//! Within a group tasks go in the order in which they became runnable, but for those that gave way: they go when no other
//! is runnable, or the others have had as long as the last of them took.
//!
//! A shard may be told to have one queue instead, as seastar before it had scheduling groups: every task waits behind all
//! that became runnable before it, whatever its group. One that yields ends the run, so that the world is asked what has
//! come, and goes behind that.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::task::Queued;

/// Names and default shares follow ScyllaDB (`statement`, `compaction`, `memtable`: 1000; streaming 200).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Group {
    /// Client statements and replica work for them.
    Statement,
    /// Commit log writes.
    CommitLog,
    /// Memtable flush.
    Flush,
    Compaction,
    Streaming,
    /// Gossip, schema agreement, housekeeping.
    Maintenance,
}

impl Group {
    pub const ALL: [Group; 6] =
        [Group::Statement, Group::CommitLog, Group::Flush, Group::Compaction, Group::Streaming, Group::Maintenance];
    pub const COUNT: usize = Self::ALL.len();

    pub fn name(self) -> &'static str {
        match self {
            Group::Statement => "statement",
            Group::CommitLog => "commitlog",
            Group::Flush => "flush",
            Group::Compaction => "compaction",
            Group::Streaming => "streaming",
            Group::Maintenance => "maintenance",
        }
    }

    fn default_shares(self) -> u32 {
        match self {
            Group::Streaming => 200,
            _ => 1000,
        }
    }
}

struct GroupState {
    shares: Cell<u32>,
    virtual_ns: Cell<u64>,
    run_ns: Cell<u64>,
    queue: RefCell<VecDeque<Queued>>,
    /// Tasks that gave way; what the last of them took, and what the others have had since.
    late: RefCell<VecDeque<Queued>>,
    late_ns: Cell<u64>,
    before_late_ns: Cell<u64>,
}

/// All groups of one shard.
pub(crate) struct Groups {
    groups: [GroupState; Group::COUNT],
    /// CPU that a task which may give way has at once.
    turn_ns: u64,
    /// All tasks are in the queue of the first group.
    one_queue: bool,
    /// Bit i: group i has runnable tasks.
    runnable: Cell<u32>,
    /// Tasks of each group that wait for the CPU, whatever queue they are in.
    waiting: [Cell<u32>; Group::COUNT],
    /// Virtual time of the group picked last: where a group that wakes up from idleness starts.
    floor_ns: Cell<u64>,
    /// Not 0: what becomes runnable is held back under this ticket.
    holding: Cell<u64>,
    held: RefCell<Vec<(u64, Queued)>>,
}

impl Groups {
    pub(crate) fn new(turn_ns: u64, one_queue: bool) -> Self {
        Self {
            turn_ns,
            one_queue,
            groups: Group::ALL.map(|group| GroupState {
                shares: Cell::new(group.default_shares()),
                virtual_ns: Cell::new(0),
                run_ns: Cell::new(0),
                queue: RefCell::new(VecDeque::new()),
                late: RefCell::new(VecDeque::new()),
                late_ns: Cell::new(0),
                before_late_ns: Cell::new(0),
            }),
            runnable: Cell::new(0),
            waiting: Default::default(),
            floor_ns: Cell::new(0),
            holding: Cell::new(0),
            held: RefCell::new(Vec::new()),
        }
    }

    /// Holds back what becomes runnable from now on, until [`Groups::release`] of the ticket. 0 ends the holding.
    pub(crate) fn hold(&self, ticket: u64) {
        self.holding.set(ticket);
    }

    pub(crate) fn release(&self, ticket: u64) {
        // One at a time: pushing must not meet a borrowed list.
        while let Some(task) = {
            let mut held = self.held.borrow_mut();
            held.iter().position(|(under, _)| *under == ticket).map(|index| held.remove(index).1)
        } {
            self.push(task);
        }
    }

    #[inline]
    pub(crate) fn push(&self, task: Queued) {
        if let Some(task) = self.held_back(task) {
            self.enter(&task).queue.borrow_mut().push_back(task);
        }
    }

    /// For a task that was woken while it ran: `gave_way` to the others of its group.
    pub(crate) fn push_again(&self, task: Queued, gave_way: bool) {
        if !gave_way && !self.one_queue {
            self.push(task);
        } else if let Some(task) = self.held_back(task) {
            self.enter(&task).late.borrow_mut().push_back(task);
        }
    }

    /// Whether a task of the one queue has yielded, and waits for the next run.
    #[inline]
    pub(crate) fn has_yielded(&self) -> bool {
        self.one_queue && !self.groups[0].late.borrow().is_empty()
    }

    /// What yielded in the last run goes behind what became runnable since.
    pub(crate) fn begin_run(&self) {
        if self.has_yielded() {
            self.groups[0].queue.borrow_mut().append(&mut self.groups[0].late.borrow_mut());
        }
    }

    /// The task, unless it is held back now.
    #[inline]
    fn held_back(&self, task: Queued) -> Option<Queued> {
        if self.holding.get() != 0 {
            self.held.borrow_mut().push((self.holding.get(), task));
            return None;
        }
        Some(task)
    }

    /// Whose queue a group's tasks are in.
    #[inline]
    fn queue_of(&self, group: Group) -> usize {
        if self.one_queue { 0 } else { group as usize }
    }

    /// The one whose queue is the task's, which waits in it from now on.
    #[inline]
    fn enter(&self, task: &Queued) -> &GroupState {
        let waiting = &self.waiting[task.group() as usize];
        waiting.set(waiting.get() + 1);
        let index = self.queue_of(task.group());
        let group = &self.groups[index];
        if self.runnable.get() & (1 << index) == 0 {
            self.runnable.set(self.runnable.get() | 1 << index);
            group.virtual_ns.set(group.virtual_ns.get().max(self.floor_ns.get()));
        }
        group
    }

    /// The runnable group with the least virtual time; ties go to the first in `Group::ALL`. Of one queue, the group of
    /// its first task.
    pub(crate) fn pick(&self) -> Option<Group> {
        if self.one_queue {
            return self.groups[0].queue.borrow().front().map(Queued::group);
        }
        let mut rest = self.runnable.get();
        let mut best = (u64::MAX, usize::MAX);
        while rest != 0 {
            let index = rest.trailing_zeros() as usize;
            rest &= rest - 1;
            let virtual_ns = self.groups[index].virtual_ns.get();
            if virtual_ns < best.0 {
                best = (virtual_ns, index);
            }
        }
        let group = Group::ALL.get(best.1)?;
        self.floor_ns.set(best.0);
        Some(*group)
    }

    /// The next task, as long as it is one of `group`.
    #[inline]
    pub(crate) fn pop(&self, group: Group) -> Option<Queued> {
        let index = self.queue_of(group);
        let state = &self.groups[index];
        let (mut queue, mut late) = (state.queue.borrow_mut(), state.late.borrow_mut());
        if self.one_queue && queue.front().is_none_or(|task| task.group() != group) {
            return None;
        }
        let task = if self.is_late(state, &queue, &late) { late.pop_front() } else { queue.pop_front() };
        if queue.is_empty() && late.is_empty() {
            self.runnable.set(self.runnable.get() & !(1 << index));
        }
        if let Some(task) = &task {
            let waiting = &self.waiting[task.group() as usize];
            waiting.set(waiting.get() - 1);
        }
        task
    }

    /// Whether it is the turn of a task that gave way.
    #[inline]
    pub(crate) fn is_late_next(&self, group: Group) -> bool {
        let state = &self.groups[group as usize];
        self.is_late(state, &state.queue.borrow(), &state.late.borrow())
    }

    /// Half of the group's time at least is theirs: where all clients ask for much, few of them seem to ask for little.
    /// In one queue they wait for the next run.
    #[inline]
    fn is_late(&self, state: &GroupState, queue: &VecDeque<Queued>, late: &VecDeque<Queued>) -> bool {
        let is_due = || state.before_late_ns.get() >= state.late_ns.get().max(self.turn_ns);
        !self.one_queue && !late.is_empty() && (queue.is_empty() || is_due())
    }

    /// Tasks that wait for the CPU.
    #[inline]
    pub(crate) fn runnable(&self, group: Group) -> usize {
        self.waiting[group as usize].get() as usize
    }

    /// Accounts `cost_ns` of CPU to the group: to its tasks that gave way, or to the others.
    pub(crate) fn spend(&self, group: Group, cost_ns: u64, late: bool) {
        let state = &self.groups[group as usize];
        if late {
            state.late_ns.set(cost_ns);
            state.before_late_ns.set(0);
        } else {
            state.before_late_ns.set(state.before_late_ns.get() + cost_ns);
        }
        state.virtual_ns.set(state.virtual_ns.get() + cost_ns * 1000 / u64::from(state.shares.get()));
        state.run_ns.set(state.run_ns.get() + cost_ns);
    }

    #[inline]
    pub(crate) fn has_runnable(&self) -> bool {
        self.runnable.get() != 0
    }

    pub(crate) fn set_shares(&self, group: Group, shares: u32) {
        self.groups[group as usize].shares.set(shares.max(1));
    }

    pub(crate) fn run_ns(&self, group: Group) -> u64 {
        self.groups[group as usize].run_ns.get()
    }

    pub(crate) fn clear(&self) {
        self.held.borrow_mut().clear();
        for group in &self.groups {
            group.queue.borrow_mut().clear();
            group.late.borrow_mut().clear();
        }
        self.waiting.iter().for_each(|waiting| waiting.set(0));
        self.runnable.set(0);
    }
}
