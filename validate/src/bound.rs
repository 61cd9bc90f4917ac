//! What threads that are bound to a processor have of it, and what others take from them, by the kernel's accounts.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use crate::median;

/// Threads that work for a measurement.
const WORKS: &str = "shard-";
/// Threads that watch it, for which those that work have to wait. Others keep a processor from halting: nobody waits.
pub const WATCHES: &str = "speed-";

/// The threads of some processes that may run on one processor only.
#[derive(Default)]
pub struct Bound {
    workers: Vec<Account>,
    watchers: Vec<Account>,
    idlers: Vec<Account>,
}

/// At a moment: ns that the threads ran since they began, and what those that work waited for the processor.
#[derive(Clone, Copy, Debug)]
pub struct Had {
    at: Instant,
    worked_ns: u64,
    watched_ns: u64,
    idled_ns: u64,
    waited_ns: u64,
    turns: u64,
}

/// What lies between two moments.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Of threads that work, which had the processor so many times.
    waited_ns: u64,
    turns: u64,
    /// Threads that watch had it, and those that work would have.
    watched_ns: u64,
    /// Neither those that work nor those that keep it from halting had it.
    others_ns: u64,
}

impl Bound {
    /// Those that are there now; threads that begin later are strangers.
    pub fn to(cpu: usize, processes: &[u32]) -> Self {
        let mut bound = Self::default();
        for process in processes {
            let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
            for thread in threads.map(|thread| thread.path()) {
                // A thread may end meanwhile.
                let status = fs::read_to_string(thread.join("status")).unwrap_or_default();
                let (true, Some(account)) = (is_bound(&status, cpu), Account::of(&thread)) else { continue };
                let name = field(&status, "Name").unwrap_or_default();
                let all = match name {
                    name if name.starts_with(WORKS) => &mut bound.workers,
                    name if name.starts_with(WATCHES) => &mut bound.watchers,
                    _ => &mut bound.idlers,
                };
                all.push(account);
            }
        }
        bound
    }

    pub fn look(&self) -> Had {
        let sum = |accounts: &[Account]| {
            let read = accounts.iter().filter_map(Account::read);
            read.fold([0; 3], |sums, account| std::array::from_fn(|at| sums[at] + account[at]))
        };
        let at = Instant::now();
        let [worked_ns, waited_ns, turns] = sum(&self.workers);
        let ([watched_ns, ..], [idled_ns, ..]) = (sum(&self.watchers), sum(&self.idlers));
        Had { at, worked_ns, watched_ns, idled_ns, waited_ns, turns }
    }
}

impl Had {
    pub fn since(&self, before: &Had) -> Span {
        let all_ns = self.at.duration_since(before.at).as_nanos() as u64;
        let worked_ns = self.worked_ns.saturating_sub(before.worked_ns);
        let watched_ns = self.watched_ns.saturating_sub(before.watched_ns);
        Span {
            waited_ns: self.waited_ns.saturating_sub(before.waited_ns),
            turns: self.turns.saturating_sub(before.turns),
            watched_ns: (watched_ns as f64 * (worked_ns as f64 / all_ns.max(1) as f64).min(1.0)) as u64,
            others_ns: all_ns.saturating_sub(worked_ns + self.idled_ns.saturating_sub(before.idled_ns)),
        }
    }
}

/// By span: how long others had the processor at once while a thread that works was ready, those that watch among them.
/// A short wait comes with each wake-up: what one usually takes is no turn of others.
pub fn taken_ns(spans: &[Span]) -> Vec<u64> {
    let waits = spans.iter().filter_map(|span| span.waited_ns.saturating_sub(span.watched_ns).checked_div(span.turns));
    let usual_ns = median(waits.collect(), u64::cmp).unwrap_or(0);
    spans.iter().map(|span| span.waited_ns.saturating_sub(span.turns * usual_ns).min(span.others_ns)).collect()
}

/// A thread's `schedstat` (Linux, Documentation/scheduler/sched-stats.rst).
pub struct Account(File);

impl Account {
    /// Of the calling thread.
    pub fn own() -> Option<Self> {
        Self::of(Path::new("/proc/thread-self"))
    }

    fn of(thread: &Path) -> Option<Self> {
        File::open(thread.join("schedstat")).ok().map(Self)
    }

    /// ns that the thread ran and that it waited for a processor, and how often it had one. `None` once it has ended.
    pub fn read(&self) -> Option<[u64; 3]> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
        let mut next = || numbers.next()?.parse().ok();
        Some([next()?, next()?, next()?])
    }
}

/// A line's value in `/proc/PID/status` (proc_pid_status(5)).
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

fn is_bound(status: &str, cpu: usize) -> bool {
    field(status, "Cpus_allowed_list").is_some_and(|list| list == cpu.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use reactor::uring;

    use super::*;

    #[test]
    fn bound_threads_are_told_from_others() {
        let status = "Name:\tshard-0\nCpus_allowed:\t2\nCpus_allowed_list:\t1\n";
        assert!(is_bound(status, 1) && !is_bound(status, 11) && !is_bound("Cpus_allowed_list:\t0-1\n", 0));
        assert_eq!(field(status, "Name"), Some("shard-0"));
    }

    #[test]
    fn a_thread_that_works_waits_for_another_on_its_processor() {
        let cpu = crate::probe::host::usable_cpus()[0];
        let over = Arc::new(AtomicBool::new(false));
        let start = |name: &str| {
            let over = over.clone();
            let spin = move || {
                uring::bind(cpu).unwrap();
                while !over.load(Ordering::Relaxed) {}
            };
            std::thread::Builder::new().name(name.into()).spawn(spin).unwrap()
        };
        let worker = start("shard-7");
        let begun = Instant::now();
        let mut bound = Bound::default();
        while bound.workers.is_empty() && begun.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(20));
            bound = Bound::to(cpu, &[std::process::id()]);
        }
        let before = bound.look();
        // It begins later, so it is a stranger.
        let stranger = start("other");
        std::thread::sleep(Duration::from_millis(300));
        let waited = bound.look().since(&before);
        over.store(true, Ordering::Relaxed);
        [worker, stranger].into_iter().for_each(|thread| thread.join().unwrap());
        // Half of the time, unless this kernel keeps no account.
        if Account::own().and_then(|own| own.read()).is_some() {
            assert!(waited.turns > 0 && waited.waited_ns >= 20_000_000, "{waited:?}");
        }
    }

    #[test]
    fn waits_of_the_usual_length_are_no_turns_of_others() {
        let span = |waited_us: u64, turns, others_us: u64| Span {
            waited_ns: waited_us * 1_000,
            turns,
            watched_ns: 0,
            others_ns: others_us * 1_000,
        };
        let spans = [span(600, 200, 5_000), span(500, 100, 5_000), span(6_000, 10, 5_000), span(30, 10, 0)];
        assert_eq!(taken_ns(&spans), [0, 0, 5_000_000, 0]);
        assert_eq!(taken_ns(&[span(600, 200, 5_000), span(1_500, 100, 5_000), span(600, 200, 5_000)])[1], 1_200_000);
        assert_eq!(taken_ns(&[span(0, 0, 10_000)]), [0]);
        // Who is never without work is only ever woken behind who watches.
        let watched = Span { watched_ns: 50_000, ..span(60, 1, 60) };
        assert_eq!(taken_ns(&[watched, watched]), [50_000, 50_000]);
    }
}
