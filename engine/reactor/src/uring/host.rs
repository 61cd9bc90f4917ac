//! A host of shards on threads, and a single shard on the current thread.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;

use super::ring::Ring;
use super::{Config, Error, OnPanic};
use crate::{Backend, Group, Message, Remote, Shard, ShardConfig};

/// What shards of a host have in common.
#[derive(Clone)]
struct Common {
    remotes: Arc<[Arc<Remote>]>,
    stopping: Arc<AtomicBool>,
}

impl Common {
    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for remote in self.remotes.iter() {
            remote.push_message(Box::new(|| {})); // a message, so that no shard goes to sleep over it
        }
    }
}

/// Running shards. Dropping it stops them.
pub struct Host {
    common: Common,
    threads: Vec<thread::JoinHandle<Result<(), Error>>>,
}

impl Host {
    /// Starts the shards, each on its thread, and on each the future that `init` makes from its index. Returns when
    /// all rings are set up and before any future runs; a shard that cannot be set up fails the whole host.
    ///
    /// The end of a shard's future does not end the shard: [`Host::stop`] does.
    pub fn start<F, Fut>(config: Config, init: F) -> Result<Host, Error>
    where
        F: Fn(usize) -> Fut + Send + Clone + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        if config.shards == 0 {
            return Err(Error::NoShards);
        }
        limit_pages(&config);
        let (common, events) = common(config.shards)?;
        let mut host = Host { common: common.clone(), threads: Vec::new() };
        let mut starts = Vec::new();
        let (ready, set_up) = mpsc::channel();
        for (index, event) in events.into_iter().enumerate() {
            let (go, start) = mpsc::channel::<()>();
            let (common, config, init, ready) = (common.clone(), config.clone(), init.clone(), ready.clone());
            let body = move || {
                let ring = match pin(index, &config).and_then(|()| ring(index, &config, event, &common)) {
                    Ok(ring) => ring,
                    Err(error) => {
                        let _ = ready.send(Err(error));
                        return Ok(());
                    }
                };
                let _ = ready.send(Ok(()));
                drop(ready);
                if start.recv().is_err() {
                    return Ok(()); // another shard could not be set up
                }
                let result = run_shard(index, &config, ring, &common, || init(index));
                if result.is_err() {
                    common.stop();
                }
                result
            };
            #[allow(clippy::disallowed_methods)] // shards' threads: the one place that starts any
            let thread = thread::Builder::new().name(format!("shard-{index}")).spawn(body);
            host.threads.push(thread.map_err(|source| Error::Setup { shard: index, source })?);
            starts.push(go);
        }
        drop(ready);
        for result in set_up {
            result?;
        }
        for go in starts {
            let _ = go.send(());
        }
        Ok(host)
    }

    /// Ends all shards: their tasks are dropped where they wait, operations in flight cancelled and awaited.
    pub fn stop(&self) {
        self.common.stop();
    }

    /// Waits for the shards to end, by [`Host::stop`] or a failure, which it gives.
    pub fn join(mut self) -> Result<(), Error> {
        self.join_all()
    }

    fn join_all(&mut self) -> Result<(), Error> {
        let mut first = Ok(());
        for thread in self.threads.drain(..) {
            let result = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            first = first.and(result);
        }
        first
    }

    pub fn shards(&self) -> usize {
        self.common.remotes.len()
    }

    pub fn shard_remote(&self, shard: usize) -> &Arc<Remote> {
        &self.common.remotes[shard]
    }

    /// Runs `message` on a shard, in its context.
    pub fn run_on(&self, shard: usize, message: impl FnOnce() + Send + 'static) {
        self.common.remotes[shard].push_message(Box::new(message) as Message);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.common.stop();
        if let Err(error) = self.join_all() {
            tracing::error!(%error, "a host ended badly");
        }
    }
}

/// Runs one shard on the current thread until `future` is ready. A panic in any task is passed on to the caller.
pub fn block_on<T: 'static>(future: impl Future<Output = T> + 'static) -> Result<T, Error> {
    block_on_with(Config::default(), || future)
}

/// [`block_on`] with a configuration (its number of shards is taken as 1); `make` runs in the shard's context.
pub fn block_on_with<T, Fut>(config: Config, make: impl FnOnce() -> Fut + 'static) -> Result<T, Error>
where
    T: 'static,
    Fut: Future<Output = T> + 'static,
{
    assert!(!Shard::is_current(), "block_on within a shard would never return");
    pin(0, &config)?;
    limit_pages(&config);
    let (common, events) = common(1)?;
    let event = events.into_iter().next().expect("one event for the one shard");
    let config = Config { shards: 1, ..config };
    let ring = ring(0, &config, event, &common)?;
    let output = Rc::new(RefCell::new(None));
    let kept = output.clone();
    let main = async move || {
        let value = make().await;
        *kept.borrow_mut() = Some(value);
    };
    let ready = || output.borrow().is_some();
    match run(0, &config, ring, &common, main, &ready) {
        Ended::Stopped => {}
        Ended::Failed(source) => return Err(Error::Ring { shard: 0, source }),
        Ended::Panicked(_, payload) => resume_unwind(payload),
    }
    Ok(output.take().expect("the loop ends when the output is there"))
}

enum Ended {
    Stopped,
    Failed(io::Error),
    /// The task's name and what it threw.
    Panicked(&'static str, Box<dyn Any + Send>),
}

/// Runs a shard until `until` says so, and closes it.
fn run<Fut: Future<Output = ()> + 'static>(
    index: usize,
    config: &Config,
    ring: Ring,
    common: &Common,
    main: impl FnOnce() -> Fut,
    until: &dyn Fn() -> bool,
) -> Ended {
    let ring = Rc::new(ring);
    let shard_config = ShardConfig {
        task_quota_ns: config.task_quota.as_nanos() as u64,
        stall_ns: config.stall.as_nanos() as u64,
        io: config.io.clone(),
        ..ShardConfig::new(index, config.shards)
    };
    let shard = Shard::new(shard_config, ring.clone(), common.remotes[index].clone());
    let ran = catch_unwind(AssertUnwindSafe(|| {
        drop(shard.enter(|| crate::spawn(Group::Maintenance, "main", main())));
        turns(&shard, &ring, config, until)
    }));
    let task = shard.task_name();
    let closed = catch_unwind(AssertUnwindSafe(|| {
        shard.close();
        assert_eq!(shard.in_flight(), 0, "the kernel may still write into buffers that are about to be freed");
    }));
    if closed.is_err() {
        ring.close(&shard); // buffers are freed below: whatever panicked, nothing may be in flight then
    }
    match (ran, closed) {
        (Ok(Ok(())), Ok(())) => Ended::Stopped,
        (Ok(Err(error)), Ok(())) => Ended::Failed(error),
        (Ok(_), Err(payload)) => Ended::Panicked("closing", payload),
        (Err(payload), _) => Ended::Panicked(task, payload),
    }
}

fn turns(shard: &Shard, ring: &Ring, config: &Config, until: &dyn Fn() -> bool) -> io::Result<()> {
    let quantum_ns = config.task_quota.as_nanos() as u64;
    let busy_poll_ns = config.busy_poll.as_nanos() as u64;
    while !until() {
        if let Some(at) = shard.next_timer() {
            let now = shard.now();
            if at <= now {
                shard.fire_timers(now);
            }
        }
        let ran = shard.run(quantum_ns);
        if until() {
            break;
        }
        ring.turn(shard, ran.more, busy_poll_ns)?;
    }
    Ok(())
}

/// One shard of a host, from its future's start to its close.
fn run_shard<Fut: Future<Output = ()> + 'static>(
    index: usize,
    config: &Config,
    ring: Ring,
    common: &Common,
    main: impl FnOnce() -> Fut,
) -> Result<(), Error> {
    let stopping = || common.stopping.load(Ordering::SeqCst);
    match run(index, config, ring, common, main, &stopping) {
        Ended::Stopped => Ok(()),
        Ended::Failed(source) => Err(Error::Ring { shard: index, source }),
        Ended::Panicked(task, payload) => {
            let error = Error::Panicked { shard: index, task, message: text(&*payload) };
            if config.on_panic == OnPanic::Abort {
                tracing::error!(%error, "aborting");
                eprintln!("{error}; aborting, so that no host goes on without one of its shards");
                std::process::abort();
            }
            Err(error)
        }
    }
}

/// What a panic said.
fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied().or(payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").into()
}

/// The shards' remotes, whose notification is a write to the shard's eventfd.
fn common(shards: usize) -> Result<(Common, Vec<Arc<OwnedFd>>), Error> {
    let mut events = Vec::new();
    let mut remotes = Vec::new();
    for shard in 0..shards {
        // SAFETY: no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::Setup { shard, source: io::Error::last_os_error() });
        }
        // SAFETY: the descriptor is fresh and nobody else's.
        let event = Arc::new(unsafe { OwnedFd::from_raw_fd(fd) });
        events.push(event.clone());
        remotes.push(Remote::new(move || notify(&event)));
    }
    Ok((Common { remotes: remotes.into(), stopping: Arc::new(AtomicBool::new(false)) }, events))
}

fn notify(event: &OwnedFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: writes 8 live bytes. It cannot fail but for a full counter, and then the shard is notified anyway.
    unsafe { libc::write(event.as_raw_fd(), one.as_ptr().cast(), one.len()) };
}

fn ring(shard: usize, config: &Config, event: Arc<OwnedFd>, common: &Common) -> Result<Ring, Error> {
    Ring::new(shard, config.ring_entries, event, common.remotes.clone())
}

/// Keeps transparent huge pages from a process that is not to have them; a kernel without them has nothing to keep.
fn limit_pages(config: &Config) {
    if !config.huge_pages {
        // SAFETY: takes numbers alone.
        unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
    }
}

/// Binds the current thread to the shard's CPU, if CPUs are given.
fn pin(shard: usize, config: &Config) -> Result<(), Error> {
    let Some(cpus) = config.cpus.as_deref().filter(|cpus| !cpus.is_empty()) else { return Ok(()) };
    let cpu = cpus[shard % cpus.len()];
    bind(cpu).map_err(|source| Error::Pin { shard, cpu, source })
}

/// Binds the current thread to a CPU.
pub fn bind(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: all-zero bytes are an empty set; the set is ours and `cpu` within it.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
