//! One shard's ring as a [`Backend`]: submission, completion, waiting.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::squeue::{self, Entry};
use io_uring::{IoUring, Probe, cqueue, opcode, types};

use super::clock::{self, Clock};
use super::ops::Knowledge;
use super::{Error, ops, socket};
use crate::op::DiskBurst;
use crate::slot::Slots;
use crate::{Backend, Buf, Fd, Message, Op, Remote, Shard, SlotId, TICK_NS, Work};

// From the kernel's io_uring.h.
const ENTER_GETEVENTS: u32 = 1 << 0;
const ENTER_EXT_ARG: u32 = 1 << 3;

/// User data of entries that belong to no slot; a slot's index never reaches u32::MAX.
const EVENT: u64 = u64::MAX;
const CANCEL: u64 = u64::MAX - 1;

/// How long a close waits before it asks again for what is in flight to be cancelled.
const CLOSE_ASK_NS: u64 = 1_000_000_000;

/// What an operation in flight needs beside its slot.
enum Aside {
    Connecting { fd: OwnedFd, _addr: Box<socket::RawAddr> },
    Syncing { _dir: OwnedFd },
}

/// An operation that ends at the next reaping: done in place then, unless it has failed already.
struct Prompt {
    slot: SlotId,
    failed: Option<io::Error>,
}

pub(super) struct Ring {
    shard: usize,
    ring: IoUring,
    clock: Clock,
    random: Cell<u64>,
    remotes: Arc<[Arc<Remote>]>,
    /// Others write to it to end our wait.
    event: Arc<OwnedFd>,
    event_word: Box<UnsafeCell<u64>>,
    event_armed: Cell<bool>,
    prompt: RefCell<Vec<Prompt>>,
    prompt_spare: RefCell<Vec<Prompt>>,
    /// Entries that found the submission queue full.
    overflow: RefCell<VecDeque<Entry>>,
    aside: RefCell<BTreeMap<SlotId, Aside>>,
    kernel_truncates: bool,
    disk_burst: DiskBurst,
    /// Something queued will be complete when the kernel has taken it.
    ends_at_once: Cell<bool>,
    /// By descriptor: whether its last receive left nothing. A hint: a reused descriptor may find an old one.
    drained: RefCell<Vec<bool>>,
}

impl Ring {
    pub(super) fn new(
        shard: usize,
        entries: u32,
        event: Arc<OwnedFd>,
        remotes: Arc<[Arc<Remote>]>,
    ) -> Result<Self, Error> {
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_coop_taskrun()
            .setup_taskrun_flag()
            .setup_submit_all()
            .setup_clamp()
            .setup_cqsize(entries.saturating_mul(4))
            .build(entries)
            .map_err(|source| explain(shard, source))?;
        let mut probe = Probe::new();
        let probed = ring.submitter().register_probe(&mut probe).is_ok();
        Ok(Self {
            shard,
            ring,
            clock: Clock::get(),
            random: Cell::new(seed().map_err(|source| Error::Setup { shard, source })?),
            remotes,
            event,
            event_word: Box::new(UnsafeCell::new(0)),
            event_armed: Cell::new(false),
            prompt: RefCell::default(),
            prompt_spare: RefCell::default(),
            overflow: RefCell::default(),
            aside: RefCell::default(),
            kernel_truncates: probed && probe.is_supported(opcode::Ftruncate::CODE),
            disk_burst: DiskBurst::default(),
            ends_at_once: Cell::new(false),
            drained: RefCell::default(),
        })
    }

    fn queue(&self) -> squeue::SubmissionQueue<'_> {
        // SAFETY: every caller is on the shard's thread and drops the queue's handle before another is made.
        unsafe { self.ring.submission_shared() }
    }

    fn push(&self, entry: Entry) {
        if !self.overflow.borrow().is_empty() || !self.try_push(&entry) {
            self.overflow.borrow_mut().push_back(entry);
        }
    }

    fn try_push(&self, entry: &Entry) -> bool {
        // SAFETY: what the entry points to stays alive until its completion: in the slot, in `aside`, or in `self`.
        if unsafe { self.queue().push(entry) }.is_ok() {
            return true;
        }
        // Full.
        self.hand_over();
        // SAFETY: as above.
        unsafe { self.queue().push(entry) }.is_ok()
    }

    /// Submits what is queued before the turn's end. An error shows again, and is reported, at the turn's own enter.
    fn hand_over(&self) {
        self.disk_burst.end();
        self.ends_at_once.set(false);
        let queued = self.queue().len() as u32;
        // SAFETY: no argument is passed.
        let _ = unsafe { self.ring.submitter().enter::<libc::sigset_t>(queued, 0, 0, None) };
    }

    /// Submits what is queued and, with `wait`, waits for a completion, at most `timeout_ns`. True when that is over.
    fn enter(&self, wait: u32, timeout_ns: Option<u64>) -> io::Result<bool> {
        self.disk_burst.end();
        self.ends_at_once.set(false);
        let queued = self.queue().len() as u32;
        let submitter = self.ring.submitter();
        let result = match timeout_ns {
            Some(ns) if wait > 0 => {
                let time = types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                let args = types::SubmitArgs::new().timespec(&time);
                // SAFETY: EXT_ARG announces exactly this argument type; it and the time live through the call.
                unsafe { submitter.enter(queued, wait, ENTER_GETEVENTS | ENTER_EXT_ARG, Some(&args)) }
            }
            // SAFETY: no argument is passed.
            _ => unsafe { submitter.enter::<libc::sigset_t>(queued, wait, ENTER_GETEVENTS, None) },
        };
        match result {
            Ok(_) => Ok(false),
            Err(error) if error.raw_os_error() == Some(libc::ETIME) => Ok(true),
            // A signal came; the kernel wants completions taken first, which the caller does next.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn wants_enter(&self) -> bool {
        let queue = self.queue();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    fn has_completions(&self) -> bool {
        // SAFETY: on the shard's thread; the handle is dropped at once.
        !unsafe { self.ring.completion_shared() }.is_empty()
    }

    fn refill(&self) {
        while let Some(entry) = { self.overflow.borrow_mut().pop_front() } {
            if !self.try_push(&entry) {
                self.overflow.borrow_mut().push_front(entry);
                return;
            }
        }
    }

    fn arm_event(&self) {
        if !self.event_armed.replace(true) {
            let fd = types::Fd(self.event.as_raw_fd());
            self.push(opcode::Read::new(fd, self.event_word.get().cast(), 8).build().user_data(EVENT));
        }
    }

    /// The part of a turn that is not running tasks: one enter, then everything complete is delivered. Waits when
    /// `more` is false and nothing else is at hand.
    pub(super) fn turn(&self, shard: &Shard, more: bool, busy_poll_ns: u64) -> io::Result<()> {
        self.arm_event();
        if !self.overflow.borrow().is_empty() {
            self.refill();
        }
        let at_hand = more || !self.prompt.borrow().is_empty() || self.has_completions();
        if at_hand {
            self.enter_turn(shard)?;
        } else if !(busy_poll_ns > 0 && self.look_out(shard, busy_poll_ns)?) {
            self.sleep(shard)?;
        }
        self.reap(shard);
        Ok(())
    }

    fn enter_turn(&self, shard: &Shard) -> io::Result<()> {
        if !self.wants_enter() {
            return Ok(());
        }
        self.charge_turn(shard);
        self.enter(0, None).map(drop)
    }

    fn charge_turn(&self, shard: &Shard) {
        shard.charge(Work::Turn, 0);
        if self.disk_burst.end() {
            shard.charge(Work::Doorbell, 0);
        }
    }

    fn sleep(&self, shard: &Shard) -> io::Result<()> {
        let timeout_ns = shard.next_timer().map(|at| at.saturating_sub(self.clock.now()));
        if timeout_ns == Some(0) || !shard.remote().prepare_sleep() {
            return self.enter_turn(shard);
        }
        if !self.queue().is_empty() {
            self.charge_turn(shard);
        }
        let sleeps = !self.ends_at_once.get();
        let sets_clock = sleeps && timeout_ns.is_some_and(|ns| ns < TICK_NS);
        if sleeps {
            shard.charge(Work::Wake, 0);
        }
        if sets_clock {
            shard.charge(Work::Timer, 0);
        }
        let entered = self.enter(1, timeout_ns);
        shard.remote().end_sleep();
        let is_over = entered?;
        if sets_clock && !is_over {
            shard.charge(Work::Timer, 0);
        }
        Ok(())
    }

    /// Looks for work for a while without sleeping. True when there is some.
    fn look_out(&self, shard: &Shard, busy_poll_ns: u64) -> io::Result<bool> {
        let now = self.clock.now();
        let timer = shard.next_timer().unwrap_or(u64::MAX);
        let until = now.saturating_add(busy_poll_ns).min(timer);
        loop {
            if self.wants_enter() {
                if !self.queue().is_empty() {
                    self.charge_turn(shard);
                }
                self.enter(0, None)?;
            }
            if self.has_completions() || shard.has_work() {
                return Ok(true);
            }
            let now = self.clock.now();
            if now >= until {
                return Ok(now >= timer);
            }
            std::hint::spin_loop();
        }
    }

    fn reap(&self, shard: &Shard) {
        // SAFETY: on the shard's thread, and completing tasks never takes a second handle of the completion queue:
        // only `turn` and `close` do, which completions do not call.
        let completions = unsafe { self.ring.completion_shared() };
        for completion in completions {
            match completion.user_data() {
                EVENT => self.event_armed.set(false),
                CANCEL => {}
                slot => self.finish(shard, SlotId::from_u64(slot), completion.result(), completion.flags()),
            }
        }
        if !self.prompt.borrow().is_empty() {
            // Completions may submit closes, but never something prompt: a swap is enough to iterate safely.
            let mut prompt = self.prompt.replace(std::mem::take(&mut *self.prompt_spare.borrow_mut()));
            for Prompt { slot, failed } in prompt.drain(..) {
                shard.complete_with(slot, |op, buf| failed.map_or_else(|| ops::in_place(op, buf), Err));
            }
            self.prompt_spare.replace(prompt);
        }
    }

    fn finish(&self, shard: &Shard, slot: SlotId, result: i32, flags: u32) {
        shard.complete_with(slot, |op, buf| {
            let result = if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as u64) };
            match (op, result) {
                (Op::Read { .. }, Ok(n)) => {
                    Slots::advance(op, buf, n);
                    Ok(n)
                }
                (Op::Recv { fd }, Ok(n)) => {
                    Slots::advance(op, buf, n);
                    self.note_drained(*fd, !cqueue::sock_nonempty(flags));
                    Ok(n)
                }
                (Op::Connect { .. }, result) => match self.aside.borrow_mut().remove(&slot) {
                    Some(Aside::Connecting { fd, .. }) => result.map(|_| fd.into_raw_fd() as u64),
                    _ => Err(io::ErrorKind::NotConnected.into()),
                },
                (Op::SyncDir { .. }, result) => {
                    self.aside.borrow_mut().remove(&slot);
                    result
                }
                (Op::CreateDir { path }, Err(error)) if error.raw_os_error() == Some(libc::EEXIST) => {
                    if ops::is_dir(path) { Ok(0) } else { Err(error) }
                }
                // The ring's end called it back before a worker had it.
                (Op::Close { fd, .. }, Err(error)) if error.raw_os_error() == Some(libc::ECANCELED) => {
                    self.abandon(*fd);
                    Ok(0)
                }
                (_, result) => result,
            }
        });
    }

    fn note_drained(&self, fd: Fd, is: bool) {
        let mut drained = self.drained.borrow_mut();
        let index = fd.0 as usize;
        if index >= drained.len() {
            drained.resize(index + 1, false);
        }
        drained[index] = is;
    }

    fn is_drained(&self, op: &Op) -> bool {
        let Op::Recv { fd } = op else { return false };
        self.drained.borrow().get(fd.0 as usize).copied().unwrap_or(false)
    }

    /// Prepares the operations that need a descriptor of their own first.
    fn start_aside(&self, slot: SlotId, op: &Op) -> io::Result<Option<Entry>> {
        let (aside, entry) = match op {
            Op::Connect { addr, from } => {
                let fd = socket::for_connect(*addr, *from)?;
                let addr = Box::new(socket::RawAddr::new(*addr));
                let entry = opcode::Connect::new(types::Fd(fd.as_raw_fd()), addr.as_ptr(), addr.len()).build();
                (Aside::Connecting { fd, _addr: addr }, entry)
            }
            Op::SyncDir { path } => {
                let dir = ops::open_dir(path)?;
                let entry = opcode::Fsync::new(types::Fd(dir.as_raw_fd())).build();
                (Aside::Syncing { _dir: dir }, entry)
            }
            _ => return Ok(None),
        };
        self.aside.borrow_mut().insert(slot, aside);
        Ok(Some(entry))
    }
}

impl Backend for Ring {
    #[inline]
    fn now(&self) -> u64 {
        self.clock.now()
    }

    fn wall_us(&self) -> u64 {
        clock::wall_us()
    }

    /// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
    fn random(&self) -> u64 {
        let state = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn submit(&self, shard: &Shard, slot: SlotId, op: &Op, buf: Option<&mut Buf>) -> Option<io::Result<u64>> {
        let known = Knowledge { kernel_truncates: self.kernel_truncates, drained: self.is_drained(op) };
        if matches!(op, Op::Send { .. }) || matches!(op, Op::Recv { .. }) && !known.drained {
            self.ends_at_once.set(true);
        }
        let entry = match ops::entry(op, buf, known) {
            Some(entry) => Ok(Some(entry)),
            None => self.start_aside(slot, op),
        };
        match entry {
            Ok(Some(entry)) => {
                self.push(entry.user_data(slot.to_u64()));
                if self.disk_burst.is_full_with(op) {
                    shard.for_all_tasks(|| {
                        shard.charge(Work::Doorbell, 0);
                        self.hand_over();
                    });
                }
            }
            Ok(None) => self.prompt.borrow_mut().push(Prompt { slot, failed: None }),
            Err(error) => self.prompt.borrow_mut().push(Prompt { slot, failed: Some(error) }),
        }
        None
    }

    fn cancel(&self, _shard: &Shard, slot: SlotId) {
        let entry = opcode::AsyncCancel::new(slot.to_u64()).build().user_data(CANCEL);
        self.push(entry.flags(squeue::Flags::SKIP_SUCCESS));
    }

    #[inline]
    fn cpu_ns(&self) -> u64 {
        self.clock.now()
    }

    fn used_cpu_ns(&self) -> u64 {
        clock::thread_cpu_ns()
    }

    #[inline]
    fn charge(&self, _work: Work, _amount: u64) {}

    fn send_message(&self, _shard: &Shard, to: usize, message: Message) {
        self.remotes[to].push_message(message);
    }

    fn peer_addr(&self, fd: Fd) -> io::Result<SocketAddr> {
        socket::peer_addr(fd.0 as i32)
    }

    fn preemptions(&self) -> u64 {
        // SAFETY: all-zero bytes are a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one rusage, which is ours.
        unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        usage.ru_nivcsw as u64
    }

    fn abandon(&self, fd: Fd) {
        // SAFETY: the descriptor came from an operation whose result nobody took, or its close was called back: nobody
        // else owns it.
        drop(unsafe { OwnedFd::from_raw_fd(fd.0 as i32) });
    }

    fn close(&self, shard: &Shard) {
        let mut asked_at = None;
        loop {
            self.refill();
            self.reap(shard);
            if shard.in_flight() == 0 && !self.event_armed.get() && self.overflow.borrow().is_empty() {
                return;
            }
            // Asked again now and then: an operation may have been between two states when it was asked first.
            let now = self.clock.now();
            if asked_at.is_none_or(|at| now - at >= CLOSE_ASK_NS) {
                if asked_at.is_some() {
                    tracing::warn!(shard = self.shard, in_flight = shard.in_flight(), "waiting for operations to end");
                }
                asked_at = Some(now);
                self.push(opcode::AsyncCancel2::new(types::CancelBuilder::any()).build().user_data(CANCEL));
            }
            // A disk operation that cannot be cancelled is awaited, however long it takes.
            if let Err(error) = self.enter(1, Some(CLOSE_ASK_NS)) {
                // The kernel may still write into buffers: freeing them is the one thing that must not happen.
                tracing::error!(shard = self.shard, %error, "a closing shard's ring failed");
                std::process::abort();
            }
        }
    }
}

fn seed() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the kernel writes at most 8 bytes into our array.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if n == 8 { Ok(u64::from_ne_bytes(bytes)) } else { Err(io::Error::last_os_error()) }
}

/// Says what a failed set-up means and what to do about it.
fn explain(shard: usize, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ENOMEM) => {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the kernel writes one rlimit, which is ours.
            unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
            Error::LockedMemory { shard, limit_bytes: limit.rlim_cur }
        }
        Some(libc::EPERM | libc::EACCES) => {
            let sysctl = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
            Error::Disabled { sysctl: sysctl.map_or_else(|_| "not readable".into(), |value| value.trim().into()) }
        }
        Some(libc::EINVAL | libc::ENOSYS) => {
            let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
            Error::KernelTooOld { release: release.trim().into(), source }
        }
        _ => Error::Setup { shard, source },
    }
}
