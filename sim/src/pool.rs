//! One shard on several CPUs: a process with a pool of threads, of which any may take the next task.
//!
//! 1. A run occupies the CPU that is free first, from the world's time on; another run may begin at the same time while
//!    a CPU is free. A run is one poll while CPUs idle, so that they share what there is to do; else a quantum.
//! 2. What a run makes runnable, and what it finds done at once, takes effect when the run ends: a chain of tasks takes
//!    the sum of its polls, however many CPUs idle beside it.
//! 3. Another thread takes what a run makes runnable, on the CPU that has idled longest: that takes its time to wake,
//!    and the run begins then. Where none idles, a CPU that ends a run goes on with the next at once.
//! 4. The engine's own state is touched at the run's beginning already. That is earlier than on hardware, by at most a
//!    run's length.

use std::collections::VecDeque;

use reactor::{Group, Shard, SlotId};

use crate::cpu::Pace;
use crate::disk::tree::Errno;
use crate::kernel::event::Event;
use crate::seat::Seat;
use crate::world::World;

/// Linux lets timers of ordinary threads come so much later, to wake processors less often (prctl(2), timer slack).
const TIMER_SLACK_NS: u64 = 50_000;

/// A run whose CPU is busy until `ends_at`.
pub(crate) struct PoolRun {
    ends_at: u64,
    ticket: u64,
    pub done: Vec<(SlotId, Result<u64, Errno>)>,
}

pub(crate) struct Pool {
    cpus: usize,
    /// In no order; at most one for each CPU.
    runs: Vec<PoolRun>,
    /// Since when each of the other CPUs has had nothing to do, in that order.
    idle_since: VecDeque<u64>,
    next_ticket: u64,
    /// No run begins before: the host stands still.
    stopped_until: u64,
    /// What waited for a CPU when the pool was last looked at, and when that was.
    waiting: [u64; Group::COUNT],
    looked_at: u64,
}

impl Pool {
    pub fn new(cpus: usize) -> Self {
        Self {
            cpus,
            runs: Vec::with_capacity(cpus),
            idle_since: vec![0; cpus].into(),
            next_ticket: 1,
            stopped_until: 0,
            waiting: Default::default(),
            looked_at: 0,
        }
    }

    pub fn take_all(&mut self) -> Vec<PoolRun> {
        std::mem::take(&mut self.runs)
    }

    /// What runs on the CPU that a connection's packets interrupt.
    fn on_cpu(&mut self, flow: u32) -> Option<&mut PoolRun> {
        self.runs.get_mut(flow as usize % self.cpus)
    }

    /// The run that ended first of those that have ended.
    fn take_ended(&mut self, now: u64) -> Option<PoolRun> {
        let first = |(_, run): &(usize, &PoolRun)| (run.ends_at, run.ticket);
        let (index, _) = self.runs.iter().enumerate().filter(|(_, run)| run.ends_at <= now).min_by_key(first)?;
        let run = self.runs.swap_remove(index);
        self.idle_since.push_back(run.ends_at);
        Some(run)
    }
}

impl Seat {
    /// How much later than they are due its timers come.
    pub(crate) fn timer_slack_ns(&self) -> u64 {
        if self.pool.is_some() { TIMER_SLACK_NS } else { 0 }
    }

    /// When the shard's next timer comes.
    pub(crate) fn next_timer(&self, shard: &Shard) -> Option<u64> {
        shard.next_timer().map(|due| due + self.timer_slack_ns())
    }
}

impl World {
    /// Ends the runs whose time has come and begins others while there are CPUs and tasks.
    pub(crate) fn run_pool(&self, seat: &Seat, shard: &Shard) {
        let Some(pool) = &seat.pool else { return };
        let now = self.now();
        {
            let mut pool = pool.borrow_mut();
            let passed_ns = now - pool.looked_at;
            Group::ALL.into_iter().for_each(|group| seat.add_waited(group, pool.waiting[group as usize] * passed_ns));
            pool.looked_at = now;
        }
        while let Some(run) = {
            let mut pool = pool.borrow_mut();
            pool.take_ended(now)
        } {
            seat.return_done(run.done);
            seat.deliver_done(shard);
            shard.release(run.ticket);
        }
        if pool.borrow().stopped_until > now {
            return;
        }
        seat.begin_run(now);
        shard.fire_timers(now.saturating_sub(seat.timer_slack_ns()));
        seat.deliver_messages(shard);
        seat.deliver_done(shard);
        while shard.has_work() && pool.borrow().stopped_until <= now {
            let (is_full, is_last, ticket) = {
                let mut pool = pool.borrow_mut();
                pool.next_ticket += 1;
                (pool.runs.len() == pool.cpus, pool.runs.len() + 1 == pool.cpus, pool.next_ticket)
            };
            if is_full {
                break;
            }
            let idle_since = pool.borrow_mut().idle_since.pop_front().unwrap_or(now);
            let begins_at = now + seat.wake_ns(now - idle_since.min(now));
            seat.begin_run(begins_at);
            seat.set_pace(seat.host.pool_pace(pool.borrow().runs.len() + 1, begins_at));
            shard.run_holding(if is_last { self.quantum_ns() } else { 0 }, ticket);
            let used_ns = seat.used_in_run_ns().max(1);
            if let Some(contention) = seat.host.model.cpu.contention {
                let lost_ns = Pace::lost_ns(used_ns, contention.factor(pool.borrow().runs.len() + 1));
                seat.contended_ns.set(seat.contended_ns.get() + lost_ns);
            }
            self.trace().note("cpu", used_ns);
            let ends_at = begins_at + used_ns;
            pool.borrow_mut().runs.push(PoolRun { ends_at, ticket, done: seat.take_done() });
            self.schedule(ends_at, Event::Run { seat: seat.id });
            self.collect_garbage(&seat.host, now);
        }
        pool.borrow_mut().waiting = Group::ALL.map(|group| shard.runnable(group) as u64);
        // Nothing runs between the runs: what others do to the shard now happens at the world's time.
        seat.begin_run(now);
    }

    /// The kernel takes one of the CPUs for `ns`: what runs there ends later.
    pub(crate) fn interrupt_pool(&self, seat: &Seat, flow: u32, ns: u64) {
        let Some(pool) = &seat.pool else { return };
        let mut pool = pool.borrow_mut();
        // A CPU that idles takes it for nothing.
        if let Some(run) = pool.on_cpu(flow) {
            run.ends_at += ns;
            let ends_at = run.ends_at;
            self.schedule(ends_at, Event::Run { seat: seat.id });
        }
        seat.add_used(ns);
    }

    /// Runs under way end later, and none begins, for `ns` from `at` on.
    pub(crate) fn stop_pool(&self, seat: &Seat, at: u64, ns: u64) {
        let Some(pool) = &seat.pool else { return };
        let mut pool = pool.borrow_mut();
        pool.stopped_until = pool.stopped_until.max(at + ns);
        // For the timers: none fires before.
        seat.cpu_free_at.set(pool.stopped_until);
        self.schedule(pool.stopped_until, Event::Run { seat: seat.id });
        for run in &mut pool.runs {
            if run.ends_at > at {
                run.ends_at += ns;
                self.schedule(run.ends_at, Event::Run { seat: seat.id });
            }
        }
    }
}
