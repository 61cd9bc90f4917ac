//! What real nodes and loaders use of this machine's processors and disk, from the kernel's counters.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use reactor::uring;
use scenarios::{Resource, Run};

use crate::bound::WATCHES;

/// Linux's USER_HZ, in which `/proc` tells times, on every architecture that this runs on.
const TICKS_PER_S: f64 = 100.0;
/// Of `/proc/diskstats`, whatever the device's own.
const SECTOR_BYTES: f64 = 512.0;
/// Time taken by the host of a virtual machine, beyond which measurements are of both.
pub const STOLEN_MAX: f64 = 0.02;

/// Whom to look at.
#[derive(Clone, Debug)]
pub struct Watched {
    pub processes: Vec<u32>,
    /// Of all nodes and of all loaders, each once.
    pub cpus: Vec<usize>,
    /// How many processors nodes have, and how many loaders.
    server_cpus: usize,
    loader_cpus: usize,
    /// The number of the device that the data lies on.
    device: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DiskCounts {
    reads: f64,
    read_bytes: f64,
    writes: f64,
    write_bytes: f64,
    queued_ms: f64,
}

/// The counters at a moment.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub at: Instant,
    server_ns: f64,
    loader_ns: f64,
    stolen_ns: u64,
    disk: Option<DiskCounts>,
}

impl Watched {
    /// Several nodes may have the same of `server_cpus`.
    pub fn new(processes: Vec<u32>, server_cpus: &[usize], loader_cpus: &[usize], data: Option<&Path>) -> Self {
        let device = data.and_then(|data| fs::metadata(data).ok()).map(|data| parts(data.dev()));
        let once = |cpus: &[&[usize]]| cpus.concat().into_iter().collect::<BTreeSet<_>>();
        Self {
            processes,
            cpus: once(&[server_cpus, loader_cpus]).into_iter().collect(),
            server_cpus: once(&[server_cpus]).len(),
            loader_cpus: loader_cpus.len(),
            device,
        }
    }

    pub fn look(&self) -> Look {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Look {
            at: Instant::now(),
            server_ns: cpu_ns(&self.processes),
            loader_ns: own_cpu_ns(),
            stolen_ns: stolen_ns(&self.cpus),
            disk: self.device.and_then(|device| disk_counts(&read("/proc/diskstats"), device)),
        }
    }

    /// What was used since `before`, by the names that simulated resources have.
    pub fn since(&self, run: &Run, before: &Look) -> Vec<Resource> {
        let now = self.look();
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-9);
        let mut all = Vec::new();
        let mut add = |name: &str, place: &str, used: f64, queue: f64| {
            let used = (used.min(1.0) * 1e4).round() / 1e4;
            all.push(Resource {
                name: name.into(),
                place: place.into(),
                utilisation_mean: used,
                utilisation_max: used,
                queue,
            });
        };
        let cpu = |ns: f64, cpus: usize| ns / 1e9 / seconds / cpus.max(1) as f64;
        if !self.processes.is_empty() {
            add("server CPU", "all nodes", cpu(now.server_ns - before.server_ns, self.server_cpus), 0.0);
        }
        add("loader CPU", "this process", cpu(now.loader_ns - before.loader_ns, self.loader_cpus), 0.0);
        if let (Some(new), Some(old)) = (now.disk, before.disk) {
            // All nodes have one disk, of which the run's profile is one node's part.
            let nodes = f64::from(run.nodes);
            let share = |amount: f64, limit: f64| amount / seconds / (limit * nodes).max(1.0);
            let (read, write) = (&run.data_disk.read, &run.data_disk.write);
            let queue = ((new.queued_ms - old.queued_ms) / 1e3 / seconds * 1e4).round() / 1e4;
            let operations =
                share(new.reads - old.reads, read.iops.f64()) + share(new.writes - old.writes, write.iops.f64());
            let bytes = share(new.read_bytes - old.read_bytes, read.bandwidth.f64())
                + share(new.write_bytes - old.write_bytes, write.bandwidth.f64());
            add("data disk IOPS", "this machine", operations, queue);
            add("data disk bandwidth", "this machine", bytes, queue);
        }
        all
    }

    /// Part of the time since `before` in which the host of this virtual machine had its processors.
    pub fn stolen_since(&self, before: &Look) -> f64 {
        let ns = before.at.elapsed().as_nanos() as f64 * self.cpus.len().max(1) as f64;
        stolen_ns(&self.cpus).saturating_sub(before.stolen_ns) as f64 / ns.max(1.0)
    }
}

/// Major and minor number of a device, as glibc's `gnu_dev_major` and `gnu_dev_minor` take them apart.
fn parts(device: u64) -> (u64, u64) {
    let major = (device >> 8) & 0xfff | (device >> 32) & !0xfff;
    let minor = device & 0xff | (device >> 12) & !0xff;
    (major, minor)
}

/// Of this process's threads but for those that only keep its processors from halting, or watch them.
fn own_cpu_ns() -> f64 {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    let ticks: f64 = stats
        .filter(|stat| !["awake-", WATCHES].iter().any(|kind| stat.contains(&format!("({kind}"))))
        .filter_map(|stat| cpu_ticks(&stat))
        .sum();
    ticks / TICKS_PER_S * 1e9
}

/// CPU that the processes have used, those of the kernel's threads that work for them included, in ns; 0 of one that has
/// ended.
pub fn cpu_ns(processes: &[u32]) -> f64 {
    processes.iter().filter_map(|process| uring::process_cpu_ns(*process).ok()).sum::<u64>() as f64
}

/// User and system time of `/proc/PID/stat` (proc_pid_stat(5), fields 14 and 15).
fn cpu_ticks(stat: &str) -> Option<f64> {
    // The name in parentheses may have blanks.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ').skip(11);
    Some(fields.next()?.parse::<f64>().ok()? + fields.next()?.parse::<f64>().ok()?)
}

/// What the host of this virtual machine has had of `cpus`, or of all if there are none, so far.
pub fn stolen_ns(cpus: &[usize]) -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let names: Vec<String> = cpus.iter().map(|cpu| format!("cpu{cpu}")).collect();
    let names = if names.is_empty() { vec!["cpu".into()] } else { names };
    let ticks: f64 = names.iter().filter_map(|name| stolen_ticks(&stat, name)).sum();
    (ticks / TICKS_PER_S * 1e9) as u64
}

/// Of one processor or, as `cpu`, of all (proc_stat(5), `steal` is the eighth number of a line).
fn stolen_ticks(stat: &str, name: &str) -> Option<f64> {
    let mut words = stat.lines().map(str::split_ascii_whitespace).find(|words| words.clone().next() == Some(name))?;
    words.nth(8)?.parse().ok()
}

/// A device's line of `/proc/diskstats` (Linux, Documentation/admin-guide/iostats.rst).
fn disk_counts(stats: &str, device: (u64, u64)) -> Option<DiskCounts> {
    let line = stats.lines().find(|line| {
        let mut words = line.split_ascii_whitespace();
        let mut number = || words.next()?.parse::<u64>().ok();
        (number(), number()) == (Some(device.0), Some(device.1))
    })?;
    let field = |index: usize| line.split_ascii_whitespace().nth(2 + index)?.parse::<f64>().ok();
    Some(DiskCounts {
        reads: field(1)?,
        read_bytes: field(3)? * SECTOR_BYTES,
        writes: field(5)?,
        write_bytes: field(7)? * SECTOR_BYTES,
        queued_ms: field(11)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_told_finer_than_by_the_tick() {
        let own = [std::process::id()];
        let looks: Vec<f64> = (0..1_000).map(|_| cpu_ns(&own)).collect();
        let steps = looks.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0.0);
        let least = steps.fold(f64::INFINITY, f64::min);
        assert!(least < 1e9 / TICKS_PER_S / 10.0, "{least} ns");
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        assert_eq!(cpu_ns(&[ended.id()]), 0.0);
    }

    #[test]
    fn the_kernel_s_counters_are_read() {
        assert_eq!(cpu_ticks("7 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 30 12 0 0"), Some(42.0));
        let stat = "cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1 2 3 4 5 6 7 44 9 10\n";
        assert_eq!(["cpu", "cpu0", "cpu1"].map(|name| stolen_ticks(stat, name)), [Some(88.0), Some(44.0), None]);
        let stats = "   7       0 loop0 1 2 3 4 5 6 7 8 9 10 11\n 254       0 vda 10 0 20 0 30 0 40 0 0 0 50 0\n";
        let counts = disk_counts(stats, (254, 0)).unwrap();
        assert_eq!((counts.reads, counts.read_bytes, counts.writes), (10.0, 10240.0, 30.0));
        assert_eq!((counts.write_bytes, counts.queued_ms), (20480.0, 50.0));
        assert_eq!(parts(0xfe00), (254, 0));
    }
}
