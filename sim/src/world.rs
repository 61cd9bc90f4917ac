//! The world: virtual time, all hosts, and the loop that lets the next thing happen.
//!
//! Everything is on one thread and in exact order: events by time and then by their scheduling; after each event the
//! shards that it made ready run, in the order in which they became ready. Nothing here reads a real clock, real
//! entropy or an address in memory.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use madsim::time::TimeHandle;
use reactor::{Message, Shard};

use crate::disk::tree::Errno;
use crate::host::{Host, State};
use crate::kernel::event::{Event, SeatId, Side};
use crate::kernel::queue::Queue;
use crate::kernel::trace::{Place, Trace, Window};
use crate::model::NetworkModel;
use crate::nic::links::Network;
use crate::random::{Generator, Stream};
use crate::seat::{NEVER, Seat, Waiter};
use crate::slab::Slab;

/// How a world is run; none of it is part of what is simulated, except the network.
#[derive(Clone, Debug)]
pub struct Settings {
    pub network: NetworkModel,
    /// CPU that a shard uses before the world looks at its effects. 20 us: measured to lose no accuracy against single
    /// polls, since a shard's effects leave at its own clock's time.
    pub quantum_ns: u64,
    /// Hashes what is sent, too, not only how much: finds payloads that differ, costs some 50 ns a message.
    pub hash_contents: bool,
    /// Events to record in full.
    pub window: Window,
}

impl Default for Settings {
    fn default() -> Self {
        Self { network: NetworkModel::plain(), quantum_ns: 20_000, hash_contents: false, window: Window::default() }
    }
}

/// madsim's clock follows ours at this distance: it is asked by nothing in the world but stray code.
const SHELL_LAG_NS: u64 = 100_000;

/// Wakes from outside of the world's own order: a waker called by the experiment, not by a shard.
#[derive(Default)]
pub(crate) struct Notices {
    any: AtomicBool,
    seats: Mutex<Vec<SeatId>>,
    drivers: Mutex<Vec<u32>>,
}

impl Notices {
    pub fn seat(&self, seat: SeatId) {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner).push(seat);
        self.any.store(true, Ordering::Relaxed);
    }

    fn driver(&self, driver: u32) {
        self.drivers.lock().unwrap_or_else(PoisonError::into_inner).push(driver);
        self.any.store(true, Ordering::Relaxed);
    }
}

struct DriverWaker {
    index: u32,
    notices: Arc<Notices>,
}

impl Wake for DriverWaker {
    fn wake(self: Arc<Self>) {
        self.notices.driver(self.index);
    }
}

type Driver = Pin<Box<dyn Future<Output = ()>>>;
type Call = Box<dyn FnOnce(&Rc<World>)>;

pub struct World {
    seed: u64,
    settings: Settings,
    now: Cell<u64>,
    queue: RefCell<Queue>,
    trace: Trace,
    hosts: RefCell<Vec<Rc<Host>>>,
    seats: RefCell<Vec<Option<Rc<Seat>>>>,
    ready: RefCell<VecDeque<SeatId>>,
    network: RefCell<Network>,
    messages: RefCell<Slab<(SeatId, Message)>>,
    calls: RefCell<Slab<Call>>,
    /// A driver that is being polled is not in the table.
    drivers: RefCell<Slab<Option<Driver>>>,
    notices: Arc<Notices>,
    faults: RefCell<Generator>,
    shell: TimeHandle,
    shell_at: Cell<u64>,
    epoch_us: u64,
    stopped: Cell<bool>,
}

impl World {
    /// Inside of madsim's runtime only; [`crate::run`] does that.
    pub(crate) fn new(seed: u64, settings: Settings) -> Rc<Self> {
        let shell = TimeHandle::current();
        let epoch = shell.now_time().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Rc::new(Self {
            seed,
            now: Cell::new(0),
            queue: RefCell::new(Queue::new()),
            trace: Trace::new(seed, settings.window),
            hosts: RefCell::new(Vec::new()),
            seats: RefCell::new(Vec::new()),
            ready: RefCell::new(VecDeque::new()),
            network: RefCell::new(Network::new(seed, settings.network.clone())),
            messages: RefCell::new(Slab::new()),
            calls: RefCell::new(Slab::new()),
            drivers: RefCell::new(Slab::new()),
            notices: Arc::default(),
            faults: RefCell::new(Generator::stream(seed, Stream::Faults, &[])),
            shell,
            shell_at: Cell::new(0),
            epoch_us: epoch.as_micros() as u64,
            stopped: Cell::new(false),
            settings,
        })
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// ns since the world began.
    #[inline]
    pub fn now(&self) -> u64 {
        self.now.get()
    }

    /// A random stream of this world's seed; the same parts give the same stream.
    pub fn random(&self, stream: Stream, parts: &[u64]) -> Generator {
        // 0 to 2 leading parts are the world's own; the experiment's begin with a word of its own.
        let parts: Vec<u64> = std::iter::once(u64::MAX).chain(parts.iter().copied()).collect();
        Generator::stream(self.seed, stream, &parts)
    }

    pub fn events(&self) -> u64 {
        self.trace.events()
    }

    pub fn hash(&self) -> u64 {
        self.trace.hash()
    }

    /// Polls of tasks on all shards that are there now.
    pub fn polls(&self) -> u64 {
        self.seats.borrow().iter().flatten().map(|seat| seat.polls()).sum()
    }

    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) fn quantum_ns(&self) -> u64 {
        self.settings.quantum_ns
    }

    pub(crate) fn hashes_contents(&self) -> bool {
        self.settings.hash_contents
    }

    pub(crate) fn notices(&self) -> Arc<Notices> {
        self.notices.clone()
    }

    pub(crate) fn network(&self) -> RefMut<'_, Network> {
        self.network.borrow_mut()
    }

    pub(crate) fn fault_random(&self) -> RefMut<'_, Generator> {
        self.faults.borrow_mut()
    }

    pub(crate) fn hosts_mut(&self) -> RefMut<'_, Vec<Rc<Host>>> {
        self.hosts.borrow_mut()
    }

    pub(crate) fn host(&self, id: u32) -> Rc<Host> {
        self.hosts.borrow()[id as usize].clone()
    }

    #[inline]
    pub(crate) fn with_host<R>(&self, id: u32, f: impl FnOnce(&Host) -> R) -> R {
        f(&self.hosts.borrow()[id as usize])
    }

    pub(crate) fn wall_us_at(&self, at: u64, host: &Host) -> u64 {
        self.epoch_us.saturating_add_signed((at as i64 + host.skew_ns.get()).div_euclid(1000))
    }

    #[inline]
    pub(crate) fn schedule(&self, at: u64, event: Event) {
        debug_assert!(at >= self.now.get(), "{event:?} scheduled in the past");
        self.queue.borrow_mut().push(at, event);
    }

    pub(crate) fn add_seat(self: &Rc<Self>, host: &Rc<Host>, index: usize) -> Rc<Seat> {
        let id = self.seats.borrow().len() as SeatId;
        let seat = Seat::new(self, id, host, index);
        self.seats.borrow_mut().push(Some(seat.clone()));
        seat
    }

    pub(crate) fn retire_seat(&self, id: SeatId) {
        self.seats.borrow_mut()[id as usize] = None;
    }

    #[inline]
    pub(crate) fn seat(&self, id: SeatId) -> Option<Rc<Seat>> {
        self.seats.borrow()[id as usize].clone()
    }

    #[inline]
    pub(crate) fn seat_and_shard(&self, id: SeatId) -> Option<(Rc<Seat>, Rc<Shard>)> {
        let seat = self.seat(id)?;
        let shard = seat.shard()?;
        Some((seat, shard))
    }

    /// Completes an operation of a shard, if that is still there, and lets the shard run.
    pub(crate) fn complete(&self, waiter: Waiter, result: Result<u64, Errno>) {
        if let Some((seat, shard)) = self.seat_and_shard(waiter.seat) {
            seat.complete(&shard, waiter.slot, result);
            self.make_ready(&seat);
        }
    }

    /// The seat has something to do: now if its CPU is free, else as soon as it is.
    #[inline]
    pub(crate) fn make_ready(&self, seat: &Seat) {
        if seat.is_ready.get() || seat.run_at.get() != NEVER {
            return;
        }
        // A pool finds out itself whether a CPU is free.
        let begins_at = if seat.pool.is_some() { 0 } else { seat.begins_at(self.now.get()) };
        if begins_at <= self.now.get() {
            seat.is_ready.set(true);
            self.ready.borrow_mut().push_back(seat.id);
        } else {
            seat.run_at.set(begins_at);
            self.schedule(begins_at, Event::Run { seat: seat.id });
        }
    }

    pub(crate) fn send_message(&self, from: &Seat, to: usize, message: Message) {
        let Some(to) = from.host.seats.borrow().get(to).map(|seat| seat.id) else { return };
        let index = self.messages.borrow_mut().insert((to, message));
        self.schedule(from.local_now() + from.host.model.cross_shard_ns, Event::Message { index });
    }

    fn on_run(&self, at: u64, id: SeatId) {
        let Some(seat) = self.seat(id) else { return };
        let is_run = seat.run_at.get() == at;
        if is_run {
            seat.run_at.set(NEVER);
        }
        if seat.timer_at.get() == at {
            seat.timer_at.set(NEVER);
            let wakes = seat.timer_wakes.take();
            if !is_run {
                // The timer may have been unset since.
                let due = seat.shard().and_then(|shard| seat.next_timer(&shard));
                if due.is_none_or(|due| due > at) {
                    return self.arm_timer(&seat, due);
                }
                let asleep = seat.pool.is_none() && !seat.is_awake(at);
                if asleep && wakes {
                    seat.wake_by_timer(at);
                } else if asleep && let Some(wake_ns) = seat.timer_wake_ns() {
                    return self.arm(&seat, at + wake_ns, true);
                }
            }
        } else if !is_run && seat.pool.is_none() {
            return;
        }
        self.make_ready(&seat);
    }

    /// Sees to it that an event comes when the seat's next timer is due.
    fn arm_timer(&self, seat: &Seat, due: Option<u64>) {
        if let Some(due) = due
            && due < seat.timer_at.get()
        {
            self.arm(seat, due.max(seat.cpu_free_at.get()), false);
        }
    }

    fn arm(&self, seat: &Seat, at: u64, wakes: bool) {
        seat.timer_at.set(at);
        seat.timer_wakes.set(wakes);
        self.schedule(at, Event::Run { seat: seat.id });
    }

    fn run_ready(self: &Rc<Self>) {
        loop {
            let Some(id) = self.ready.borrow_mut().pop_front() else { return };
            let Some((seat, shard)) = self.seat_and_shard(id) else { continue };
            seat.is_ready.set(false);
            if seat.host.paused.get() {
                continue; // resuming makes it ready again
            }
            let now = self.now.get();
            if seat.pool.is_some() {
                self.run_pool(&seat, &shard);
                if !seat.is_armed.get() {
                    seat.is_armed.set(shard.remote().prepare_sleep());
                }
                self.arm_timer(&seat, seat.next_timer(&shard));
                continue;
            }
            if seat.cpu_free_at.get() > now {
                self.make_ready(&seat);
                continue;
            }
            seat.set_pace(seat.host.pace(&seat, now));
            // What it takes makes tasks ready for this run, not for another.
            seat.is_ready.set(true);
            self.take_arrivals(&seat);
            seat.is_ready.set(false);
            let quantum_ns = seat.host.model.turn_ns.unwrap_or(self.settings.quantum_ns);
            let (used_ns, more) = seat.run(&shard, now, quantum_ns);
            let ends_at = now + used_ns + seat.interrupted_ns(used_ns);
            let free_at = ends_at + seat.taken_ns(now, ends_at);
            seat.cpu_free_at.set(free_at);
            self.send_off(&seat, free_at);
            self.trace.note("cpu", used_ns);
            self.collect_garbage(&seat.host, free_at);
            if !seat.is_armed.get() {
                seat.is_armed.set(shard.remote().prepare_sleep());
            }
            if more {
                self.make_ready(&seat);
            }
            self.arm_timer(&seat, seat.next_timer(&shard));
        }
    }

    fn place(&self, event: &Event) -> Option<Place> {
        let of_seat = |id: SeatId| {
            let seat = self.seat(id)?;
            Some(Place { host: seat.host.id, shard: seat.index as u32 })
        };
        let of_end = |connection, side: Side| {
            let network = self.network.borrow();
            let host = network.connections.get(connection)?.peek(side).host;
            Some(Place { host, shard: u32::MAX })
        };
        match *event {
            Event::Run { seat } | Event::Complete { seat, .. } => of_seat(seat),
            Event::Message { index } => of_seat(self.messages.borrow().get(index)?.0),
            Event::Arrive { side, connection, .. }
            | Event::Deliver { side, connection, .. }
            | Event::Window { side, connection }
            | Event::Fin { side, connection }
            | Event::Reset { side, connection }
            | Event::Retransmit { side, connection } => of_end(connection, side),
            Event::Syn { connection, .. } => of_end(connection, Side::Acceptor),
            Event::SynAck { connection } => of_end(connection, Side::Connector),
            Event::Resume { host } => Some(Place { host, shard: u32::MAX }),
            Event::Call { .. } | Event::Driver { .. } => None,
        }
    }

    fn dispatch(self: &Rc<Self>, at: u64, event: Event) {
        self.now.set(at);
        if at - self.shell_at.get() >= SHELL_LAG_NS {
            self.shell.advance(Duration::from_nanos(at - self.shell_at.get()));
            self.shell_at.set(at);
        }
        self.trace.event(at, &event, || self.place(&event));
        match event {
            Event::Run { seat } => self.on_run(at, seat),
            Event::Complete { seat, slot, generation } => {
                if let Some((seat, shard)) = self.seat_and_shard(seat) {
                    match self.end_file_operation(&seat, &shard, slot, generation) {
                        Some(later) => self.schedule(later, event),
                        None => self.make_ready(&seat),
                    }
                }
            }
            Event::Message { index } => {
                let message = self.messages.borrow_mut().remove(index);
                if let Some((to, message)) = message
                    && let Some(seat) = self.seat(to)
                {
                    seat.post(message);
                    self.make_ready(&seat);
                }
            }
            Event::Arrive { side, connection, bytes } => self.on_arrive(connection, side, bytes),
            Event::Deliver { side, connection, bytes } => self.on_deliver(connection, side, bytes),
            Event::Window { side, connection } => self.on_window(connection, side),
            Event::Fin { side, connection } => self.on_fin(connection, side),
            Event::Reset { side, connection } => self.on_reset(connection, side),
            Event::Syn { connection, attempt } => self.on_syn(connection, attempt),
            Event::SynAck { connection } => self.on_syn_ack(connection),
            Event::Retransmit { side, connection } => self.on_retransmit(connection, side),
            Event::Resume { host } => self.resume(crate::HostId(host)),
            Event::Call { index } => {
                let call = self.calls.borrow_mut().remove(index);
                if let Some(call) = call {
                    call(self);
                }
            }
            Event::Driver { index } => self.poll_driver(index),
        }
        self.settle();
    }

    /// Runs what is ready, and what was woken from outside, until nothing is left to do now.
    fn settle(self: &Rc<Self>) {
        self.run_ready();
        while self.notices.any.load(Ordering::Relaxed) {
            self.notices.any.store(false, Ordering::Relaxed);
            let seats = std::mem::take(&mut *self.notices.seats.lock().unwrap_or_else(PoisonError::into_inner));
            for id in seats {
                if let Some(seat) = self.seat(id) {
                    seat.is_armed.set(false);
                    self.make_ready(&seat);
                }
            }
            let drivers = std::mem::take(&mut *self.notices.drivers.lock().unwrap_or_else(PoisonError::into_inner));
            drivers.into_iter().for_each(|driver| self.poll_driver(driver));
            self.run_ready();
        }
    }

    fn poll_driver(self: &Rc<Self>, index: u32) {
        let Some(mut driver) = self.drivers.borrow_mut().get_mut(index).and_then(Option::take) else { return };
        let waker = Waker::from(Arc::new(DriverWaker { index, notices: self.notices.clone() }));
        if driver.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            self.drivers.borrow_mut().remove(index);
        } else if let Some(place) = self.drivers.borrow_mut().get_mut(index) {
            *place = Some(driver);
        }
    }

    /// Lets the next event happen, if one is due until `limit`.
    #[inline]
    fn step(self: &Rc<Self>, limit: u64) -> bool {
        let mut queue = self.queue.borrow_mut();
        if queue.next_at().is_none_or(|at| at > limit) {
            return false;
        }
        let Some((at, event)) = queue.pop() else { return false };
        drop(queue);
        self.dispatch(at, event);
        true
    }

    /// Lets everything happen that is due until `at`, or until [`World::stop`]; then it is `at`.
    pub fn run_until(self: &Rc<Self>, at: u64) {
        self.run_until_true(at, || false);
    }

    pub fn run_for(self: &Rc<Self>, ns: u64) {
        self.run_until(self.now() + ns);
    }

    /// Runs until `condition` holds, asked after every event, or until `limit`. Gives whether it holds.
    pub fn run_until_true(self: &Rc<Self>, limit: u64, mut condition: impl FnMut() -> bool) -> bool {
        self.settle();
        loop {
            if condition() {
                return true;
            }
            if self.stopped.get() || !self.step(limit) {
                break;
            }
        }
        if !self.stopped.get() && limit != u64::MAX {
            self.now.set(self.now().max(limit));
        }
        false
    }

    /// Runs until nothing is scheduled any more; worlds with periodic timers never are idle.
    pub fn run_until_idle(self: &Rc<Self>) {
        self.run_until(u64::MAX);
    }

    /// Ends the `run_until` under way after the event at hand.
    pub fn stop(&self) {
        self.stopped.set(true);
    }

    /// Calls `call` at `at`, between two events: for faults and oracles.
    pub fn at(&self, at: u64, call: impl FnOnce(&Rc<World>) + 'static) {
        let index = self.calls.borrow_mut().insert(Box::new(call));
        self.schedule(at.max(self.now()), Event::Call { index });
    }

    /// Runs `driver` beside the shards, on no CPU: the experiment's own task, such as a schedule of faults.
    pub fn spawn_driver(&self, driver: impl Future<Output = ()> + 'static) {
        let index = self.drivers.borrow_mut().insert(Some(Box::pin(driver)));
        self.schedule(self.now(), Event::Driver { index });
    }

    /// For drivers: waits until `at`.
    pub fn sleep_until(self: &Rc<Self>, at: u64) -> impl Future<Output = ()> + use<> {
        let world = self.clone();
        let mut is_set = false;
        std::future::poll_fn(move |cx| {
            if world.now() >= at {
                return Poll::Ready(());
            }
            if !std::mem::replace(&mut is_set, true) {
                let waker = cx.waker().clone();
                world.at(at, move |_| waker.wake());
            }
            Poll::Pending
        })
    }

    pub fn sleep(self: &Rc<Self>, ns: u64) -> impl Future<Output = ()> + use<> {
        self.sleep_until(self.now() + ns)
    }

    /// The world ends: tasks are dropped in their shards' contexts, and nothing refers to anything any more.
    pub(crate) fn end(self: &Rc<Self>) {
        let drivers = self.drivers.borrow_mut().clear();
        drop(drivers);
        let calls = self.calls.borrow_mut().clear();
        drop(calls);
        let hosts = self.hosts.borrow().clone();
        for host in &hosts {
            if !matches!(host.state.get(), State::Off) {
                self.close_shards(host, None);
            }
            host.state.set(State::Off);
            host.forget_boot();
        }
        let messages = self.messages.borrow_mut().clear();
        drop(messages);
        self.seats.borrow_mut().clear();
        self.hosts.borrow_mut().clear();
    }
}
