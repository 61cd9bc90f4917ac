//! The shard: run queues, timers, slots and messages of one thread, and the current-shard context.

use std::any::{Any, TypeId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::ptr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use crossbeam_queue::SegQueue;

use crate::backend::{Backend, Message};
use crate::counters::Counters;
use crate::group::Groups;
use crate::io::{IoConfig, IoQueues, IoStats, Ticket};
use crate::slot::{Completed, SlotId, Slots, submit_detached};
use crate::task::{JoinHandle, Queued, TaskRef, joinable};
use crate::time::{TURN_NS, Timers};
use crate::{Buf, Group, Op, Work};

#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// This shard among the host's, from 0.
    pub index: usize,
    /// Shards of the host.
    pub count: usize,
    /// Processors that take this shard's tasks: one, unless a world has a pool of threads work for one shard.
    pub processors: usize,
    /// A group runs at most this long before the next pick. Seastar's default, 0.5 ms.
    pub task_quota_ns: u64,
    /// CPU that a task which may give way has at once. The engine's own turn, 0.1 ms: see [`crate::time`].
    pub task_turn_ns: u64,
    /// Tasks of all groups wait in one queue; shares are those of the disks alone.
    pub one_queue: bool,
    /// A poll longer than this is reported with its task's name. Scylla's default, 25 ms.
    pub stall_ns: u64,
    /// The node's disks.
    pub io: IoConfig,
}

impl ShardConfig {
    pub fn new(index: usize, count: usize) -> Self {
        Self {
            index,
            count,
            processors: 1,
            task_quota_ns: 500_000,
            task_turn_ns: TURN_NS,
            one_queue: false,
            stall_ns: 25_000_000,
            io: IoConfig::default(),
        }
    }
}

/// The half of a shard that other threads may touch: where they leave woken tasks and messages.
pub struct Remote {
    tasks: SegQueue<TaskRef>,
    messages: SegQueue<Message>,
    /// The shard waits in its world and must be notified.
    sleeping: AtomicBool,
    /// The shard is gone: what is left here will not be taken.
    closed: AtomicBool,
    notify: Box<dyn Fn() + Send + Sync>,
}

impl Remote {
    /// `notify` ends the shard's wait; it is called at most once per announced wait.
    pub fn new(notify: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            tasks: SegQueue::new(),
            messages: SegQueue::new(),
            sleeping: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            notify: Box::new(notify),
        })
    }

    pub(crate) fn push_task(&self, task: TaskRef) {
        self.tasks.push(task);
        self.wake();
        if self.closed.load(Ordering::SeqCst) {
            self.clear_tasks();
        }
    }

    /// No task is taken from here any more. A task and its remote would keep each other alive.
    fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.clear_tasks();
    }

    fn clear_tasks(&self) {
        while self.tasks.pop().is_some() {}
    }

    /// Leaves a message from another thread. Order is kept per sender.
    pub fn push_message(&self, message: Message) {
        self.messages.push(message);
        self.wake();
    }

    /// Pairs with `prepare_sleep`: either it sees what was pushed, or this sees `sleeping`.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::SeqCst) && self.sleeping.swap(false, Ordering::SeqCst) {
            (self.notify)();
        }
    }

    /// Announces that the shard is about to wait. False when something has arrived: then it must not wait.
    pub fn prepare_sleep(&self) -> bool {
        self.sleeping.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.tasks.is_empty() && self.messages.is_empty() {
            return true;
        }
        self.sleeping.store(false, Ordering::SeqCst);
        false
    }

    pub fn end_sleep(&self) {
        self.sleeping.store(false, Ordering::SeqCst);
    }
}

/// What a call of [`Shard::run`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ran {
    /// CPU used, on the backend's scale.
    pub cpu_ns: u64,
    /// Tasks are still runnable.
    pub more: bool,
}

pub struct Shard {
    config: ShardConfig,
    backend: Rc<dyn Backend>,
    remote: Arc<Remote>,
    groups: Groups,
    tasks: RefCell<Vec<TaskRef>>,
    slots: Slots,
    io: IoQueues,
    timers: Timers,
    counters: Counters,
    locals: RefCell<BTreeMap<TypeId, Rc<dyn Any>>>,
    group: Cell<Group>,
    /// The thread's preemptions, and when (on the backend's CPU scale) they were counted.
    preemptions: Cell<(u64, u64)>,
    running: Cell<bool>,
    closing: Cell<bool>,
    gives_way: Cell<bool>,
    /// Name of the task polled last; says whose a panic was.
    task_name: Cell<&'static str>,
    /// When it was polled, in CPU time.
    polled_at: Cell<u64>,
}

/// Linux's ECANCELED, which backends give too.
const CANCELLED: i32 = 125;

thread_local! {
    static CURRENT: Cell<*const Shard> = const { Cell::new(ptr::null()) };
}

/// Ends the shard's running, also by a panic.
struct Running<'a>(&'a Cell<bool>);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// Restores the previously current shard.
struct Entered(*const Shard);

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

impl Shard {
    pub fn new(config: ShardConfig, backend: Rc<dyn Backend>, remote: Arc<Remote>) -> Rc<Self> {
        Rc::new(Self {
            io: IoQueues::new(&config.io, config.count),
            groups: Groups::new(config.task_turn_ns, config.one_queue),
            config,
            backend,
            remote,
            tasks: RefCell::new(Vec::new()),
            slots: Slots::new(),
            timers: Timers::new(),
            counters: Counters::new(),
            locals: RefCell::new(BTreeMap::new()),
            group: Cell::new(Group::Maintenance),
            preemptions: Cell::new((0, 0)),
            running: Cell::new(false),
            closing: Cell::new(false),
            gives_way: Cell::new(false),
            task_name: Cell::new("none"),
            polled_at: Cell::new(0),
        })
    }

    /// Calls `f` with the shard whose code is running.
    ///
    /// # Panics
    /// Outside of a shard: that is a programming error, never an input's fault.
    #[inline]
    pub fn with<R>(f: impl FnOnce(&Shard) -> R) -> R {
        Self::try_with(f).expect("called outside of a shard")
    }

    #[inline]
    pub(crate) fn try_with<R>(f: impl FnOnce(&Shard) -> R) -> Option<R> {
        let current = CURRENT.get();
        // SAFETY: set only by `enter`, whose guard keeps the shard borrowed while the pointer is current.
        (!current.is_null()).then(|| f(unsafe { &*current }))
    }

    #[inline]
    pub fn is_current() -> bool {
        !CURRENT.get().is_null()
    }

    /// Runs `f` in this shard's context: `reactor::now()` and its like then mean this shard.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        let _entered = Entered(CURRENT.replace(self));
        f()
    }

    pub fn config(&self) -> &ShardConfig {
        &self.config
    }

    pub fn backend(&self) -> &dyn Backend {
        &*self.backend
    }

    pub fn remote(&self) -> &Arc<Remote> {
        &self.remote
    }

    pub(crate) fn remote_ptr(&self) -> *const Remote {
        Arc::as_ptr(&self.remote)
    }

    pub(crate) fn slots(&self) -> &Slots {
        &self.slots
    }

    pub(crate) fn io(&self) -> &IoQueues {
        &self.io
    }

    /// What the shard's I/O queues did so far, by disk.
    pub fn io_stats(&self) -> Vec<IoStats> {
        self.io.stats()
    }

    pub(crate) fn timers(&self) -> &Timers {
        &self.timers
    }

    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    pub fn now(&self) -> u64 {
        self.backend.now()
    }

    pub fn current_group(&self) -> Group {
        self.group.get()
    }

    pub fn has_used_quota(&self) -> bool {
        self.polled_ns() >= self.config.task_quota_ns
    }

    pub(crate) fn is_turn_over(&self) -> bool {
        self.polled_ns() >= self.config.task_turn_ns
    }

    /// CPU that the task being polled has used in this poll for itself.
    fn polled_ns(&self) -> u64 {
        self.backend.cpu_ns().saturating_sub(self.polled_at.get())
    }

    /// Does work on behalf of several tasks within the poll of one, whose turn does not count it.
    pub fn for_all_tasks(&self, work: impl FnOnce()) {
        let began = self.backend.cpu_ns();
        work();
        self.polled_at.set(self.polled_at.get() + (self.backend.cpu_ns() - began));
    }

    /// Name of the task that is being polled, or was last.
    pub fn task_name(&self) -> &'static str {
        self.task_name.get()
    }

    /// Of the CPU and of every disk.
    pub fn set_shares(&self, group: Group, shares: u32) {
        self.groups.set_shares(group, shares);
        self.io.set_shares(group, shares);
    }

    /// Of every disk alone.
    pub fn set_io_shares(&self, group: Group, shares: u32) {
        self.io.set_shares(group, shares);
    }

    /// CPU used by a group so far, in nanoseconds.
    pub fn group_cpu_ns(&self, group: Group) -> u64 {
        self.groups.run_ns(group)
    }

    /// Tasks of a group that could run, were the CPU theirs.
    pub fn runnable(&self, group: Group) -> usize {
        self.groups.runnable(group)
    }

    /// Operations given to the world and not completed.
    pub fn in_flight(&self) -> usize {
        self.slots.in_flight()
    }

    /// Slots for operations, used and free. What is in flight at most at once, ever.
    pub fn slots_allocated(&self) -> usize {
        self.slots.allocated()
    }

    /// Timers kept, those of dropped sleeps included.
    pub fn timers_allocated(&self) -> usize {
        self.timers.allocated()
    }

    #[inline]
    pub fn charge(&self, work: Work, amount: u64) {
        self.counters.count(work, amount);
        self.backend.charge(work, amount);
    }

    pub fn set_local<T: 'static>(&self, value: Rc<T>) {
        self.locals.borrow_mut().insert(TypeId::of::<T>(), value);
    }

    pub fn local<T: 'static>(&self) -> Option<Rc<T>> {
        self.locals.borrow().get(&TypeId::of::<T>()).and_then(|any| any.clone().downcast().ok())
    }

    pub fn spawn<T: 'static>(
        &self,
        group: Group,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        self.spawn_into(group, name, future, Groups::push)
    }

    /// For a future that has been polled in place of a task and may have given way.
    pub(crate) fn spawn_rest<T: 'static>(
        &self,
        group: Group,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
    ) -> JoinHandle<T> {
        let gave_way = self.gives_way.take();
        self.spawn_into(group, name, future, |groups, task| groups.push_again(task, gave_way))
    }

    fn spawn_into<T: 'static>(
        &self,
        group: Group,
        name: &'static str,
        future: impl Future<Output = T> + 'static,
        push: impl FnOnce(&Groups, Queued),
    ) -> JoinHandle<T> {
        let (future, handle) = joinable(future);
        if self.closing.get() {
            return handle; // dropped unpolled: its owner is being dropped too
        }
        let task = TaskRef::new(future, group, name, self.remote.clone());
        let queued = task.queued();
        let mut tasks = self.tasks.borrow_mut();
        task.set_position(tasks.len() as u32);
        tasks.push(task);
        drop(tasks);
        push(&self.groups, queued);
        handle
    }

    #[inline]
    pub(crate) fn enqueue(&self, task: Queued) {
        self.groups.push(task);
    }

    /// The task that runs wants the others of its group to go first.
    pub(crate) fn give_way(&self) {
        self.gives_way.set(true);
    }

    /// A task that was woken while it ran goes behind the others.
    #[inline]
    pub(crate) fn enqueue_again(&self, task: Queued) {
        self.groups.push_again(task, self.gives_way.take());
    }

    /// Tasks that have not finished.
    pub fn live_tasks(&self) -> usize {
        self.tasks.borrow().len()
    }

    /// Tasks are runnable, or messages or foreign wakes have arrived.
    pub fn has_work(&self) -> bool {
        self.groups.has_runnable() || !self.remote.tasks.is_empty() || !self.remote.messages.is_empty()
    }

    /// Runs tasks for about `quantum_ns` of CPU or until none is runnable.
    pub fn run(&self, quantum_ns: u64) -> Ran {
        let _entered = Entered(CURRENT.replace(self));
        self.running.set(true);
        let _running = Running(&self.running);
        let began = self.backend.cpu_ns();
        self.count_preemptions(began);
        self.take_remote();
        self.groups.begin_run();
        let mut last = began;
        while let Some(group) = self.groups.pick() {
            let slice_began = last;
            let slice_ends = (slice_began + self.config.task_quota_ns).min(began + quantum_ns);
            self.group.set(group);
            let late = self.groups.is_late_next(group);
            // Before one that gave way goes, what the others want done is begun, and what has come is looked for.
            if late && last > began {
                break;
            }
            while let Some(task) = self.groups.pop(group) {
                self.polled_at.set(last);
                self.charge(Work::Poll, 0);
                self.task_name.set(task.name());
                let finished = task.run(self);
                let now = self.backend.cpu_ns();
                if now - last > self.config.stall_ns {
                    self.report_stall(group, now - last);
                }
                last = now;
                if let Some(position) = finished {
                    self.forget(position);
                }
                // Behind it, too.
                if now >= slice_ends || late || self.groups.is_late_next(group) || self.groups.has_yielded() {
                    break;
                }
            }
            self.groups.spend(group, last - slice_began, late);
            if late || last - began >= quantum_ns || self.groups.has_yielded() {
                break;
            }
        }
        self.group.set(Group::Maintenance);
        Ran { cpu_ns: last - began, more: self.has_work() }
    }

    /// [`Shard::run`] on one of several processors that share this shard: what it makes runnable stays held under
    /// `ticket`, which is not 0, until [`Shard::release`], when the run's end has come.
    pub fn run_holding(&self, quantum_ns: u64, ticket: u64) -> Ran {
        self.groups.hold(ticket);
        let ran = self.run(quantum_ns);
        self.groups.hold(0);
        ran
    }

    /// Lets the tasks go that a run made runnable.
    pub fn release(&self, ticket: u64) {
        self.groups.release(ticket);
    }

    /// Takes what other threads have left so far; not what they leave meanwhile, lest they keep the shard here.
    fn take_remote(&self) {
        if !self.remote.tasks.is_empty() {
            for _ in 0..self.remote.tasks.len() {
                let Some(task) = self.remote.tasks.pop() else { break };
                task.take_notice(self);
            }
        }
        if !self.remote.messages.is_empty() {
            for _ in 0..self.remote.messages.len() {
                let Some(message) = self.remote.messages.pop() else { break };
                self.task_name.set("a message");
                message();
            }
        }
    }

    /// Counts now and then, so that a stall is known to be the host's only if the host did something about then.
    fn count_preemptions(&self, cpu_ns: u64) {
        if cpu_ns.saturating_sub(self.preemptions.get().1) >= self.config.stall_ns / 4 {
            self.preemptions.set((self.backend.preemptions(), cpu_ns));
        }
    }

    /// Runs a message from another shard, in this shard's context.
    pub fn deliver(&self, message: Message) {
        self.enter(message);
    }

    /// Takes a finished task out of the table of live ones.
    fn forget(&self, position: u32) {
        let mut tasks = self.tasks.borrow_mut();
        let finished = tasks.swap_remove(position as usize);
        if let Some(moved) = tasks.get(position as usize) {
            moved.set_position(position);
        }
        drop(tasks);
        drop(finished);
    }

    fn report_stall(&self, group: Group, cost_ns: u64) {
        let preemptions = self.backend.preemptions();
        let (before, counted_at) = self.preemptions.get();
        self.preemptions.set((preemptions, counted_at));
        if preemptions != before {
            self.counters.host_stalls.set(self.counters.host_stalls.get() + 1);
            return;
        }
        self.counters.stalls.set(self.counters.stalls.get() + 1);
        tracing::warn!(
            shard = self.config.index,
            task = self.task_name.get(),
            group = group.name(),
            ms = cost_ns / 1_000_000,
            "a task held the shard"
        );
    }

    /// The world finished an operation and, for reads, has written the result's number of bytes into the buffer.
    pub fn complete(&self, slot: SlotId, result: io::Result<u64>) {
        self.complete_inner(slot, |op, buf| {
            if let Ok(written) = result {
                Slots::advance(op, buf, written);
            }
            result
        });
    }

    /// The world finishes an operation now: `fill` gets it and its buffer, and gives the result. For reads it appends
    /// to the buffer.
    pub fn complete_with(&self, slot: SlotId, fill: impl FnOnce(&Op, Option<&mut Buf>) -> io::Result<u64>) {
        self.complete_inner(slot, fill);
    }

    /// For a world that begins an operation after `submit` has returned: the operation and its buffer.
    pub fn look_at<T>(&self, slot: SlotId, look: impl FnOnce(&Op, Option<&mut Buf>) -> T) -> Option<T> {
        self.slots.look_at(slot, look)
    }

    fn complete_inner(&self, slot: SlotId, fill: impl FnOnce(&Op, Option<&mut Buf>) -> io::Result<u64>) {
        let _entered = Entered(CURRENT.replace(self));
        let (completed, ticket) = self.slots.complete(slot, fill);
        if let Some(ticket) = ticket {
            self.end_io(&ticket);
        }
        match completed {
            Completed::Wake(waker) => waker.wake(),
            Completed::Nobody(buf, opened) => {
                drop(buf);
                match opened {
                    Some(fd) if self.closing.get() => self.backend.abandon(fd),
                    Some(fd) => submit_detached(self, Op::Close { fd, file: false }),
                    None => {}
                }
            }
            Completed::Stale => {}
        }
    }

    /// A request of the I/O queue has ended: others may go.
    #[inline]
    fn end_io(&self, ticket: &Ticket) {
        if ticket.is_waiting() {
            return; // dropped in the queue
        }
        let now = self.now();
        self.io.ended(now, ticket);
        if self.io.has_waiting() {
            self.start_queued(now);
        }
    }

    /// Gives the world what the I/O queues let go.
    fn start_queued(&self, now: u64) {
        if self.closing.get() {
            return; // what waits is being dropped
        }
        while let Some(slot) = self.io.next(now) {
            self.slots.start_queued(self, slot, now);
        }
    }

    /// Nobody wants an operation any more that waits in its queue.
    pub(crate) fn drop_queued(&self, slot: SlotId, ticket: &Ticket) {
        self.io.remove(ticket, slot);
        self.complete(slot, Err(io::Error::from_raw_os_error(CANCELLED)));
    }

    /// When the earliest timer is due, or an I/O queue has something to give to the world, if ever.
    pub fn next_timer(&self) -> Option<u64> {
        let timer = self.timers.next();
        if !self.io.has_waiting() {
            return timer;
        }
        timer.into_iter().chain(self.io.next_at()).min()
    }

    /// Wakes the tasks whose timers are due at `now`, and lets the I/O queues go on.
    pub fn fire_timers(&self, now: u64) {
        let _entered = Entered(CURRENT.replace(self));
        self.timers.fire(now);
        if self.io.has_waiting() {
            self.start_queued(now);
        }
    }

    /// Drops every task, then has the backend end what is in flight. The shard runs nothing any more.
    ///
    /// # Panics
    /// When called by one of the shard's own tasks: it cannot be dropped while it runs.
    pub fn close(&self) {
        assert!(!self.running.get(), "a shard cannot be closed from within");
        if self.closing.replace(true) {
            return;
        }
        let _entered = Entered(CURRENT.replace(self));
        self.remote.close();
        loop {
            // The queues hold live tasks only; dropping one may wake, and so queue, others.
            self.groups.clear();
            let Some(task) = self.tasks.borrow_mut().pop() else { break };
            task.discard();
        }
        while self.remote.messages.pop().is_some() {}
        let locals = std::mem::take(&mut *self.locals.borrow_mut());
        drop(locals);
        self.backend.close(self);
    }
}

impl Drop for Shard {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn remote() -> (Arc<Remote>, Arc<AtomicUsize>) {
        let notified = Arc::new(AtomicUsize::new(0));
        let count = notified.clone();
        let notify = move || {
            count.fetch_add(1, Ordering::SeqCst);
        };
        (Remote::new(notify), notified)
    }

    #[test]
    fn what_came_before_keeps_the_shard_awake() {
        let (remote, notified) = remote();
        remote.push_message(Box::new(|| {}));
        assert!(!remote.prepare_sleep());
        assert_eq!(notified.load(Ordering::SeqCst), 0, "a shard that is awake costs no notification");
        remote.push_message(Box::new(|| {}));
        assert_eq!(notified.load(Ordering::SeqCst), 0, "it did not go to sleep");
    }

    #[test]
    fn what_comes_after_notifies_once() {
        let (remote, notified) = remote();
        assert!(remote.prepare_sleep());
        for _ in 0..3 {
            remote.push_message(Box::new(|| {}));
        }
        assert_eq!(notified.load(Ordering::SeqCst), 1);
        remote.end_sleep();
        remote.wake();
        assert_eq!(notified.load(Ordering::SeqCst), 1);
    }

    /// One thread leaves messages at any moment, the other sleeps whenever it may: a lost wake would hang.
    #[test]
    fn sleeping_and_leaving_messages_never_miss_each_other() {
        const MESSAGES: usize = 20_000;
        let (wake, woken) = std::sync::mpsc::channel();
        let remote = Remote::new(move || wake.send(()).unwrap());
        let left = remote.clone();
        #[allow(clippy::disallowed_methods)] // the other side of the protocol is a thread
        let sender = std::thread::spawn(move || {
            let mut spins = 1u32;
            for _ in 0..MESSAGES {
                left.push_message(Box::new(|| {}));
                spins = spins.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                for _ in 0..spins >> 24 {
                    std::hint::spin_loop();
                }
            }
        });
        let mut taken = 0;
        while taken < MESSAGES {
            while remote.messages.pop().is_some() {
                taken += 1;
            }
            if taken < MESSAGES && remote.prepare_sleep() {
                woken.recv_timeout(std::time::Duration::from_secs(20)).expect("a wake was lost");
                remote.end_sleep();
                while woken.try_recv().is_ok() {}
            }
        }
        sender.join().unwrap();
    }
}
