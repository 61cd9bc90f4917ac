//! What threads that are bound to a processor have of it, and what others take from them, by the kernel's accounts.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

/// Threads that work for a measurement. Others only watch it: they are never waited for.
const WORKS: &str = "shard-";

/// The threads of some processes that may run on one processor only.
#[derive(Default)]
pub struct Bound {
    workers: Vec<Account>,
    watchers: Vec<Account>,
}

/// At a moment: ns that the threads ran since they began, and that those that work were ready to and could not.
#[derive(Clone, Copy, Debug)]
pub struct Had {
    at: Instant,
    ran_ns: u64,
    waited_ns: u64,
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
                let all = if name.starts_with(WORKS) { &mut bound.workers } else { &mut bound.watchers };
                all.push(account);
            }
        }
        bound
    }

    pub fn look(&self) -> Had {
        let mut had = Had { at: Instant::now(), ran_ns: 0, waited_ns: 0 };
        for (ran_ns, waited_ns) in self.workers.iter().filter_map(Account::read) {
            (had.ran_ns, had.waited_ns) = (had.ran_ns + ran_ns, had.waited_ns + waited_ns);
        }
        had.ran_ns += self.watchers.iter().filter_map(Account::read).map(|(ran_ns, _)| ran_ns).sum::<u64>();
        had
    }
}

impl Had {
    /// How long others had the processor since `before` while a thread that works was ready: no longer than one was, for
    /// short waits come with each wake-up, and no longer than the processor was with none of them.
    pub fn taken_ns_since(&self, before: &Had) -> u64 {
        let all_ns = self.at.duration_since(before.at).as_nanos() as u64;
        let others_ns = all_ns.saturating_sub(self.ran_ns.saturating_sub(before.ran_ns));
        self.waited_ns.saturating_sub(before.waited_ns).min(others_ns)
    }
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

    /// ns that the thread ran, and that it waited for a processor. `None` once it has ended.
    pub fn read(&self) -> Option<(u64, u64)> {
        let mut text = [0; 64];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let mut numbers = std::str::from_utf8(&text[..length]).ok()?.split_ascii_whitespace();
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
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
        let spin = move || {
            uring::bind(cpu).unwrap();
            let until = Instant::now() + Duration::from_millis(300);
            while Instant::now() < until {}
        };
        let start = |name: &str| std::thread::Builder::new().name(name.into()).spawn(spin).unwrap();
        let worker = start("shard-7");
        std::thread::sleep(Duration::from_millis(20));
        let bound = Bound::to(cpu, &[std::process::id()]);
        let before = bound.look();
        // It begins later, so it is a stranger.
        let stranger = start("other");
        std::thread::sleep(Duration::from_millis(200));
        let taken = bound.look().taken_ns_since(&before);
        [worker, stranger].into_iter().for_each(|thread| thread.join().unwrap());
        // Half of the time, unless this kernel keeps no account.
        if Account::own().and_then(|own| own.read()).is_some() {
            assert!((20_000_000..=1_000_000_000).contains(&taken), "{taken} ns");
        }
    }
}
