//! A seat: one boot of one shard, its virtual CPU, and the world as that shard sees it.
//!
//! The seat runs its shard for a quantum at a time. Within a quantum the shard's clock is the world's plus the CPU
//! charged since the quantum began, and what it submits leaves at that time; the world learns of the CPU's use when
//! the quantum ends. So a shard runs ahead of the world by a quantum at most, and never behind it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use reactor::{Backend, Buf, DiskBurst, Fd, Group, Message, Op, Shard, SlotId, TICK_NS, Work};

use crate::cpu::{Cost, FRACTION_BITS, Pace};
use crate::disk::operations::{Answer, Batch, FileOperation};
use crate::disk::tree::Errno;
use crate::host::Host;
use crate::kernel::event::{ConnectionId, Event, SeatId, Side};
use crate::pool::Pool;
use crate::random::{Generator, Stream};
use crate::world::World;

/// No run is scheduled.
pub(crate) const NEVER: u64 = u64::MAX;

/// What an operation in flight waits for, by the index of its slot.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waits {
    Nothing,
    /// For its place in `done`.
    Delivery,
    /// To be handed over with the shard's other file operations.
    HandOver,
    File(FileOperation, Option<Batch>),
    Receive(ConnectionId, Side),
    Send(ConnectionId, Side),
    Accept(Fd),
    Connect(ConnectionId),
}

#[derive(Clone, Copy)]
struct InFlight {
    generation: u32,
    waits: Waits,
}

/// Someone to be told: a slot of a seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiter {
    pub seat: SeatId,
    pub slot: SlotId,
}

pub(crate) struct Seat {
    pub id: SeatId,
    pub index: usize,
    pub host: Rc<Host>,
    world: Rc<World>,
    shard: RefCell<Option<Rc<Shard>>>,
    /// World time when the current run began.
    base: Cell<u64>,
    /// CPU used in the current run, and before it: ns << FRACTION_BITS.
    charged: Cell<u64>,
    charged_before: Cell<u64>,
    pub cpu_free_at: Cell<u64>,
    /// Time of the scheduled run, and of the event for the next timer.
    pub run_at: Cell<u64>,
    pub timer_at: Cell<u64>,
    /// That event is the CPU's awaking, the timer was due before.
    pub timer_wakes: Cell<bool>,
    pub is_ready: Cell<bool>,
    /// The shard's remote half will notify the world of a wake from outside.
    pub is_armed: Cell<bool>,
    costs: Arc<[Cost; Work::COUNT]>,
    /// Of the current run.
    pace: Cell<Pace>,
    /// CPU of each kind of work, as `charged`.
    spent: [Cell<u64>; Work::COUNT],
    done: RefCell<Vec<(SlotId, Result<u64, Errno>)>>,
    delivering: RefCell<Vec<(SlotId, Result<u64, Errno>)>>,
    in_flight: RefCell<Vec<InFlight>>,
    inbox: RefCell<VecDeque<Message>>,
    random: RefCell<Generator>,
    wake_random: RefCell<Generator>,
    /// Work until the processor is taken away next, by kind of interruption.
    until_interruption_ns: RefCell<Vec<u64>>,
    interruption_random: RefCell<Generator>,
    /// The span of the host's moments whose taking of the processor comes next.
    next_taken: Cell<u64>,
    /// Of a shard that works in turns: what it sent in this one, and where something came for its receives.
    outgoing: RefCell<Vec<Sent>>,
    has_submitted: Cell<bool>,
    disk_burst: DiskBurst,
    /// File operations of the turn that have not been handed over.
    queued: RefCell<Vec<SlotId>>,
    /// For the run that begins next.
    was_woken: Cell<bool>,
    /// How often its clock was set for the sleep that ends.
    clock_sets: Cell<u64>,
    arrivals: RefCell<Vec<(ConnectionId, Side)>>,
    polls: Cell<u64>,
    /// Time that tasks of each group could have run and did not, all together, in ns.
    waited_ns: [Cell<u64>; Group::COUNT],
    /// Part of the CPU used that went into other threads' locks, in ns.
    pub contended_ns: Cell<u64>,
    /// Present where the shard has several CPUs.
    pub pool: Option<RefCell<Pool>>,
}

/// Bytes that a connection has taken and not yet put on the wire.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub connection: ConnectionId,
    pub side: Side,
    pub bytes: u32,
    /// CPU that putting them there takes.
    pub ns: u64,
}

fn to_io(result: Result<u64, Errno>) -> io::Result<u64> {
    result.map_err(|Errno(number)| io::Error::from_raw_os_error(number))
}

impl Seat {
    pub fn new(world: &Rc<World>, id: SeatId, host: &Rc<Host>, index: usize) -> Rc<Self> {
        let parts = [u64::from(host.id), index as u64, u64::from(id)];
        let interruptions = &host.model.interruptions;
        let mut interruption_random =
            Generator::stream(world.seed(), Stream::Scheduling, &[parts[0], parts[1], parts[2], 2]);
        let first = interruptions.iter().map(|model| model.every.sample(interruption_random.next_u64())).collect();
        Rc::new(Self {
            id,
            index,
            host: host.clone(),
            world: world.clone(),
            shard: RefCell::new(None),
            base: Cell::new(world.now()),
            charged: Cell::new(0),
            charged_before: Cell::new(0),
            cpu_free_at: Cell::new(world.now()),
            run_at: Cell::new(NEVER),
            timer_at: Cell::new(NEVER),
            timer_wakes: Cell::new(false),
            is_ready: Cell::new(false),
            is_armed: Cell::new(false),
            costs: host.model.cpu.costs.clone(),
            pace: Cell::new(Pace::FULL_COST),
            spent: [const { Cell::new(0) }; Work::COUNT],
            done: RefCell::new(Vec::new()),
            delivering: RefCell::new(Vec::new()),
            in_flight: RefCell::new(Vec::new()),
            inbox: RefCell::new(VecDeque::new()),
            random: RefCell::new(Generator::stream(world.seed(), Stream::Scheduling, &parts)),
            wake_random: RefCell::new(Generator::stream(
                world.seed(),
                Stream::Scheduling,
                &[parts[0], parts[1], parts[2], 1],
            )),
            until_interruption_ns: RefCell::new(first),
            interruption_random: RefCell::new(interruption_random),
            next_taken: Cell::new(host.model.moments.as_ref().map_or(0, |moments| moments.span(world.now()))),
            outgoing: RefCell::default(),
            has_submitted: Cell::new(false),
            disk_burst: DiskBurst::default(),
            queued: RefCell::default(),
            was_woken: Cell::new(false),
            clock_sets: Cell::new(0),
            arrivals: RefCell::default(),
            polls: Cell::new(0),
            waited_ns: Default::default(),
            contended_ns: Cell::new(0),
            pool: (host.model.cpus_per_shard > 1).then(|| RefCell::new(Pool::new(host.model.cpus_per_shard))),
        })
    }

    pub fn set_shard(&self, shard: Rc<Shard>) {
        *self.shard.borrow_mut() = Some(shard);
    }

    pub fn shard(&self) -> Option<Rc<Shard>> {
        self.shard.borrow().clone()
    }

    pub fn take_shard(&self) -> Option<Rc<Shard>> {
        self.shard.borrow_mut().take()
    }

    /// The shard's clock. The world's, where that is ahead: when something is done to a shard that does not run.
    #[inline]
    pub fn local_now(&self) -> u64 {
        (self.base.get() + (self.charged.get() >> FRACTION_BITS)).max(self.world.now())
    }

    /// CPU used since the boot, in ns.
    pub fn used_ns(&self) -> u64 {
        (self.charged_before.get() + self.charged.get()) >> FRACTION_BITS
    }

    pub fn add_waited(&self, group: Group, ns: u64) {
        let waited = &self.waited_ns[group as usize];
        waited.set(waited.get() + ns);
    }

    pub fn waited_ns(&self, group: Group) -> u64 {
        self.waited_ns[group as usize].get()
    }

    /// CPU that each kind of work used, in ns.
    pub fn spent_ns(&self) -> [u64; Work::COUNT] {
        self.spent.each_ref().map(|spent| spent.get() >> FRACTION_BITS)
    }

    pub fn polls(&self) -> u64 {
        self.polls.get()
    }

    pub fn post(&self, message: Message) {
        self.inbox.borrow_mut().push_back(message);
    }

    /// Begins a run on one CPU of several: its clock starts at `now`.
    pub fn begin_run(&self, now: u64) {
        self.charged_before.set(self.charged_before.get() + self.charged.get());
        self.base.set(now);
        self.charged.set(0);
    }

    /// What work takes of its cost in the run that begins.
    pub fn set_pace(&self, pace: Pace) {
        self.pace.set(pace);
    }

    pub fn works_in_turns(&self) -> bool {
        self.host.model.turn_ns.is_some()
    }

    /// For the end of the turn.
    pub fn add_outgoing(&self, connection: ConnectionId, side: Side, bytes: u32) {
        let ns = self.cost(Work::NetSend, u64::from(bytes)) >> FRACTION_BITS;
        self.outgoing.borrow_mut().push(Sent { connection, side, bytes, ns });
    }

    fn has_outgoing(&self) -> bool {
        !self.outgoing.borrow().is_empty()
    }

    pub fn take_outgoing(&self) -> Vec<Sent> {
        std::mem::take(&mut *self.outgoing.borrow_mut())
    }

    /// ns << FRACTION_BITS, at the run's pace.
    #[inline]
    fn cost(&self, work: Work, amount: u64) -> u64 {
        let cost = &self.costs[work as usize];
        self.pace.get().apply(cost.fixed + cost.per_byte * amount)
    }

    /// For the beginning of the next turn.
    pub fn add_arrival(&self, connection: ConnectionId, side: Side) {
        self.arrivals.borrow_mut().push((connection, side));
    }

    pub fn take_arrivals(&self) -> Vec<(ConnectionId, Side)> {
        std::mem::take(&mut *self.arrivals.borrow_mut())
    }

    /// When work that comes at `now` begins: behind what the CPU does, or when it has been woken. A CPU that wakes is
    /// as good as busy until then.
    #[inline]
    pub fn begins_at(&self, now: u64) -> u64 {
        let free_at = self.cpu_free_at.get();
        if free_at >= now {
            return free_at;
        }
        let wake_ns = self.wake_ns(now - free_at);
        self.was_woken.set(wake_ns > 0);
        if wake_ns == 0 {
            return self.begin_at(now);
        }
        let (asleep_at, back_ns) = self.set_clock(now);
        self.begin_at(now.max(asleep_at) + wake_ns + back_ns)
    }

    /// A timer has woken the CPU.
    pub fn wake_by_timer(&self, now: u64) {
        self.was_woken.set(true);
        self.set_clock(now);
        self.begin_at(now);
    }

    /// Where what ends a sleep comes at `now`: since when the clock is set for its timer, if any, and what it takes to set
    /// it back.
    fn set_clock(&self, now: u64) -> (u64, u64) {
        let sleeps_at = self.cpu_free_at.get() + self.host.model.idle.busy_poll_ns;
        let due = self.shard().and_then(|shard| self.next_timer(&shard));
        let Some(due) = due.filter(|due| *due < sleeps_at + TICK_NS) else { return (sleeps_at, 0) };
        let set_ns = self.cost(Work::Timer, 0) >> FRACTION_BITS;
        let back = u64::from(due > now);
        self.clock_sets.set(1 + back);
        (sleeps_at + set_ns, back * set_ns)
    }

    fn begin_at(&self, wakes_at: u64) -> u64 {
        let begins_at = wakes_at + self.taken_ns(wakes_at, wakes_at);
        self.cpu_free_at.set(begins_at);
        begins_at
    }

    /// What it takes to wake a CPU that has idled for so long.
    pub fn wake_ns(&self, idle_ns: u64) -> u64 {
        self.host.model.idle.wake_ns(idle_ns, || self.wake_random.borrow_mut().next_u64())
    }

    /// What a timer takes to wake the CPU; `None`: as much as anything else.
    pub fn timer_wake_ns(&self) -> Option<u64> {
        let timer = self.host.model.idle.timer.as_ref()?;
        Some(timer.sample(self.wake_random.borrow_mut().next_u64()))
    }

    /// Its CPU works, or will at once, or looks for work before it sleeps.
    pub fn is_awake(&self, now: u64) -> bool {
        let sleeps_at = self.cpu_free_at.get().saturating_add(self.host.model.idle.busy_poll_ns);
        sleeps_at > now || self.is_ready.get() || self.run_at.get() != NEVER
    }

    /// The kernel takes the CPU for `ns`: what runs is held up.
    pub fn interrupt(&self, now: u64, ns: u64) {
        self.add_used(ns);
        self.cpu_free_at.set(self.cpu_free_at.get().max(now) + ns);
    }

    /// How long others had the CPU in the course of `used_ns` of work.
    pub fn interrupted_ns(&self, used_ns: u64) -> u64 {
        let mut taken = 0;
        let mut random = self.interruption_random.borrow_mut();
        for (model, until_ns) in self.host.model.interruptions.iter().zip(&mut *self.until_interruption_ns.borrow_mut())
        {
            let mut left = used_ns;
            while let Some(rest) = left.checked_sub(*until_ns) {
                taken += model.lasts.sample(random.next_u64());
                *until_ns = model.every.sample(random.next_u64()).max(1);
                left = rest;
            }
            *until_ns -= left;
        }
        taken
    }

    /// How much later work from `begin` to `end` ends as other threads have the CPU meanwhile. What was seen is time that
    /// work had to wait, so it counts from when there is work. Times rise from one call to the next.
    pub fn taken_ns(&self, begin: u64, end: u64) -> u64 {
        let Some(moments) = &self.host.model.moments else { return 0 };
        let cpu = self.host.cpu(self.index);
        let (mut span, mut taken) = (self.next_taken.get().max(moments.span(begin)), 0);
        loop {
            let (at, lasts) = moments.taken(cpu, span);
            if at > end + taken {
                break;
            }
            taken += lasts;
            span += 1;
        }
        self.next_taken.set(span);
        taken
    }

    pub fn add_used(&self, ns: u64) {
        self.charged_before.set(self.charged_before.get() + (ns << FRACTION_BITS));
    }

    /// CPU used in the current run, in ns.
    pub fn used_in_run_ns(&self) -> u64 {
        self.charged.get() >> FRACTION_BITS
    }

    pub fn deliver_messages(&self, shard: &Shard) {
        while let Some(message) = self.next_message() {
            shard.deliver(message);
        }
    }

    /// What was done at once when it was submitted in the run that ends now; delivered by whoever takes it.
    pub fn take_done(&self) -> Vec<(SlotId, Result<u64, Errno>)> {
        std::mem::take(&mut *self.done.borrow_mut())
    }

    pub fn return_done(&self, done: Vec<(SlotId, Result<u64, Errno>)>) {
        self.done.borrow_mut().extend(done);
    }

    fn next_message(&self) -> Option<Message> {
        self.inbox.borrow_mut().pop_front()
    }

    /// Runs the shard from the world's time on, for about `quantum_ns`. Gives the CPU used and whether more is to do.
    pub fn run(&self, shard: &Shard, now: u64, quantum_ns: u64) -> (u64, bool) {
        self.begin_run(now);
        if self.was_woken.take() {
            self.count_sleep();
        }
        shard.fire_timers(now);
        self.deliver_messages(shard);
        let runnable = Group::ALL.map(|group| shard.runnable(group) as u64);
        let (used, more) = self.run_on(shard, quantum_ns);
        // What was there at the beginning and what is there at the end has waited for half of the run each.
        for (group, before) in Group::ALL.into_iter().zip(runnable) {
            self.add_waited(group, (before + shard.runnable(group) as u64) * used / 2);
        }
        (used, more)
    }

    /// The CPU of going to sleep and of waking. It holds nothing up any more: it passed while nothing was to be done, and
    /// within the time that the wake-up took.
    fn count_sleep(&self) {
        for (work, times) in [(Work::Wake, 1), (Work::Timer, self.clock_sets.take())] {
            let cost = self.cost(work, 0) * times;
            self.charged_before.set(self.charged_before.get() + cost);
            let of_kind = &self.spent[work as usize];
            of_kind.set(of_kind.get() + cost);
        }
    }

    fn run_on(&self, shard: &Shard, quantum_ns: u64) -> (u64, bool) {
        loop {
            self.deliver_messages(shard);
            shard.run(quantum_ns.saturating_sub(self.used_in_run_ns()).max(1));
            self.deliver_done(shard);
            let used = self.used_in_run_ns();
            let more = shard.has_work();
            // A turn ends when nothing was ready any more: what its operations' ends make ready is the next one's.
            if self.works_in_turns() {
                if self.has_submitted.take() {
                    self.charge(Work::Turn, 0);
                    if self.disk_burst.end() {
                        self.charge(Work::Doorbell, 0);
                    }
                    self.hand_over(shard);
                }
                return (self.used_in_run_ns(), more || !self.done.borrow().is_empty());
            }
            if !more || used >= quantum_ns {
                return (used, more);
            }
        }
    }

    /// Completes what was done at once when it was submitted.
    pub fn deliver_done(&self, shard: &Shard) {
        let mut delivering = self.delivering.borrow_mut();
        std::mem::swap(&mut *delivering, &mut *self.done.borrow_mut());
        for (slot, result) in delivering.drain(..) {
            self.complete(shard, slot, result);
        }
    }

    /// Completes an operation whose buffer is as it should be.
    pub fn complete(&self, shard: &Shard, slot: SlotId, result: Result<u64, Errno>) {
        self.forget(slot);
        shard.complete_with(slot, |_, _| to_io(result));
    }

    /// Completes an operation by what `fill` does with it.
    pub fn complete_by(
        &self,
        shard: &Shard,
        slot: SlotId,
        fill: impl FnOnce(&Op, Option<&mut Buf>) -> Result<u64, Errno>,
    ) {
        self.forget(slot);
        shard.complete_with(slot, |op, buf| to_io(fill(op, buf)));
    }

    fn forget(&self, slot: SlotId) {
        let (index, generation) = split(slot);
        if let Some(entry) = self.in_flight.borrow_mut().get_mut(index)
            && entry.generation == generation
        {
            entry.waits = Waits::Nothing;
        }
    }

    pub fn waits(&self, slot: SlotId) -> Waits {
        let (index, generation) = split(slot);
        match self.in_flight.borrow().get(index) {
            Some(entry) if entry.generation == generation => entry.waits,
            _ => Waits::Nothing,
        }
    }

    pub fn set_waits(&self, slot: SlotId, waits: Waits) {
        let (index, generation) = split(slot);
        let mut in_flight = self.in_flight.borrow_mut();
        if in_flight.len() <= index {
            in_flight.resize(index + 1, InFlight { generation: 0, waits: Waits::Nothing });
        }
        in_flight[index] = InFlight { generation, waits };
    }

    /// Gives the kernel what the shard asks of files: the device begins with all of it at once.
    fn hand_over(&self, shard: &Shard) {
        let mut queued = std::mem::take(&mut *self.queued.borrow_mut());
        let at = self.local_now();
        for slot in queued.drain(..) {
            let submitted = shard.look_at(slot, |op, buf| self.begin_file_operation(slot, at, op, buf));
            if let Some(submitted) = submitted {
                self.note(slot, submitted);
            }
        }
        *self.queued.borrow_mut() = queued;
    }

    fn begin_file_operation(&self, slot: SlotId, at: u64, op: &Op, buf: Option<&mut Buf>) -> Result<Submitted, Errno> {
        let (operation, answer) = self.world.begin_file_operation(&self.host, (self.id, slot), at, op, buf)?;
        Ok(self.wait_for(slot, operation, answer))
    }

    /// An operation that takes no time, unless it has to wait after all.
    fn do_at_once(&self, slot: SlotId, op: &Op, mut buf: Option<&mut Buf>) -> Option<io::Result<u64>> {
        let at = self.local_now();
        let begun = self.world.begin_file_operation(&self.host, (self.id, slot), at, op, buf.as_deref_mut());
        match begun {
            Ok((operation, answer)) if answer.at > at || matches!(operation, FileOperation::Discard { .. }) => {
                let submitted = self.wait_for(slot, operation, answer);
                self.note(slot, Ok(submitted));
                None
            }
            Ok((operation, _)) => Some(to_io(self.world.conclude(self, slot, at, op, buf, operation))),
            Err(error) => Some(to_io(Err(error))),
        }
    }

    fn wait_for(&self, slot: SlotId, operation: FileOperation, answer: Answer) -> Submitted {
        let (index, generation) = split(slot);
        self.world.schedule(answer.at, Event::Complete { seat: self.id, slot: index as u32, generation });
        Submitted::Waits(Waits::File(operation, answer.batch))
    }

    fn note(&self, slot: SlotId, submitted: Result<Submitted, Errno>) {
        match submitted {
            Ok(Submitted::Waits(waits)) => self.set_waits(slot, waits),
            Ok(Submitted::Done(value)) => self.finish(slot, Ok(value)),
            Err(error) => self.finish(slot, Err(error)),
        }
    }

    fn finish(&self, slot: SlotId, result: Result<u64, Errno>) {
        self.set_waits(slot, Waits::Delivery);
        self.done.borrow_mut().push((slot, result));
    }

    /// Operations that the world has not completed, in the order of their slots.
    pub fn unfinished(&self) -> Vec<(SlotId, Waits)> {
        let in_flight = self.in_flight.borrow();
        let unfinished = in_flight.iter().enumerate().filter(|(_, entry)| !matches!(entry.waits, Waits::Nothing));
        unfinished.map(|(index, entry)| (join(index as u32, entry.generation), entry.waits)).collect()
    }
}

fn split(slot: SlotId) -> (usize, u32) {
    let word = slot.to_u64();
    (word as u32 as usize, (word >> 32) as u32)
}

pub(crate) fn join(index: u32, generation: u32) -> SlotId {
    SlotId::from_u64((u64::from(generation) << 32) | u64::from(index))
}

impl Backend for Seat {
    fn now(&self) -> u64 {
        self.local_now()
    }

    fn wall_us(&self) -> u64 {
        self.world.wall_us_at(self.local_now(), &self.host)
    }

    fn random(&self) -> u64 {
        self.random.borrow_mut().next_u64()
    }

    fn submit(&self, shard: &Shard, slot: SlotId, op: &Op, buf: Option<&mut Buf>) -> Option<io::Result<u64>> {
        if self.world.spares(&self.host, op, buf.as_deref()) {
            return self.do_at_once(slot, op, buf);
        }
        self.has_submitted.set(true);
        if self.works_in_turns() {
            if self.disk_burst.is_full_with(op) {
                shard.for_all_tasks(|| {
                    self.charge(Work::Doorbell, 0);
                    self.hand_over(shard);
                });
            } else if is_of_files(op) {
                self.set_waits(slot, Waits::HandOver);
                self.queued.borrow_mut().push(slot);
                return None;
            } else if matches!(op, Op::Close { file: true, .. }) {
                // What was asked of the file before comes before its end.
                self.hand_over(shard);
            }
        }
        let waiter = Waiter { seat: self.id, slot };
        let at = self.local_now();
        let world = &*self.world;
        // What was sent before leaves before the stream's end.
        if matches!(op, Op::Shutdown { .. } | Op::Close { .. }) && self.has_outgoing() {
            world.send_off(self, at);
        }
        let submitted = match op {
            Op::Listen { addr } => world.listen(self, *addr).map(Submitted::Done),
            Op::Accept { fd } => world.accept(waiter, &self.host, *fd),
            Op::Connect { addr, from } => world.connect(waiter, &self.host, at, *addr, *from),
            Op::Recv { fd } => world.receive(waiter, &self.host, at, *fd, buf.expect("a receive has a buffer")),
            Op::Send { fd, skip, end } => {
                let bytes = &buf.expect("a send has a buffer")[*skip as usize..*end as usize];
                world.send(waiter, &self.host, at, *fd, bytes)
            }
            Op::Shutdown { fd } => world.shut_down(&self.host, at, *fd).map(Submitted::Done),
            Op::Close { fd, .. } => world.close(&self.host, at, *fd).map(|goes_on| match goes_on {
                Some(operation) => self.wait_for(slot, operation, Answer::at(at)),
                None => Submitted::Done(0),
            }),
            op => self.begin_file_operation(slot, at, op, buf),
        };
        self.note(slot, submitted);
        None
    }

    fn cancel(&self, _shard: &Shard, slot: SlotId) {
        match self.waits(slot) {
            // A disk's operation cannot be called back; what is done is done.
            Waits::Nothing | Waits::Delivery | Waits::HandOver | Waits::File(..) => {}
            waits => {
                self.world.stop_waiting(&self.host, Waiter { seat: self.id, slot }, waits);
                self.finish(slot, Err(Errno(libc::ECANCELED)));
                self.world.make_ready(self);
            }
        }
    }

    fn cpu_ns(&self) -> u64 {
        self.used_ns()
    }

    #[inline]
    fn charge(&self, work: Work, amount: u64) {
        let cost = &self.costs[work as usize];
        let ns = self.cost(work, amount);
        self.charged.set(self.charged.get() + ns);
        let of_kind = &self.spent[work as usize];
        of_kind.set(of_kind.get() + ns);
        if work == Work::Poll {
            self.polls.set(self.polls.get() + 1);
        } else if cost.garbage > 0 {
            self.host.heap.allocate(cost.garbage, cost.retained);
        }
    }

    fn send_message(&self, _shard: &Shard, to: usize, message: Message) {
        self.world.send_message(self, to, message);
    }

    fn peer_addr(&self, fd: Fd) -> io::Result<SocketAddr> {
        self.world.peer_addr(&self.host, fd).map_err(|Errno(number)| io::Error::from_raw_os_error(number))
    }

    fn close(&self, shard: &Shard) {
        if let Some(pool) = &self.pool {
            let runs = pool.borrow_mut().take_all();
            runs.into_iter().for_each(|run| self.return_done(run.done));
        }
        self.deliver_done(shard);
        for (slot, waits) in self.unfinished() {
            match waits {
                Waits::Nothing => {}
                Waits::File(operation, _) => self.world.abandon_file_operation(self, shard, slot, operation),
                waits => {
                    self.world.stop_waiting(&self.host, Waiter { seat: self.id, slot }, waits);
                    self.complete(shard, slot, Err(Errno(libc::ECANCELED)));
                }
            }
        }
        self.deliver_done(shard);
        self.inbox.borrow_mut().clear();
        self.outgoing.borrow_mut().clear();
        self.queued.borrow_mut().clear();
        self.arrivals.borrow_mut().clear();
    }
}

fn is_of_files(op: &Op) -> bool {
    let is_of_network =
        matches!(op, Op::Listen { .. } | Op::Accept { .. } | Op::Connect { .. } | Op::Recv { .. } | Op::Send { .. });
    !is_of_network && !matches!(op, Op::Shutdown { .. } | Op::Close { .. })
}

pub(crate) enum Submitted {
    Done(u64),
    Waits(Waits),
}
