//! The machine around the disk: processor, cores, memory, kernel, from what Linux tells and from a clock's rate.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use reactor::uring;
use serde::{Deserialize, Serialize};

use super::{ProbeError, on_each};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub processor: String,
    pub kernel: String,
    pub cpus: u64,
    pub cores: u64,
    pub ram_bytes: u64,
    /// Of the time-stamp counter, which runs at the processor's nominal frequency; measured where it can be.
    pub clock_ghz: f64,
    pub clock_measured: bool,
    /// Speed of a hardware thread while its sibling works, relative to the same thread alone; 1 without siblings.
    pub hyper_thread_factor: f64,
}

pub(super) fn text(path: &str) -> Result<String, ProbeError> {
    fs::read_to_string(path).map_err(|source| ProbeError::File { path: path.into(), source })
}

/// The value of the first line `key : value`.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}

/// Processors of a list such as `0-2,5`.
fn list(text: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

/// Processors that this process may use.
pub fn usable_cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    value(&status, "Cpus_allowed_list").map(list).unwrap_or_default()
}

/// Hardware threads of the core that `cpu` is one of.
fn siblings(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    fs::read_to_string(path).map_or_else(|_| vec![cpu], |text| list(&text))
}

pub fn describe(slice: Duration) -> Result<Host, ProbeError> {
    let (info, memory) = (text("/proc/cpuinfo")?, text("/proc/meminfo")?);
    let cpus = usable_cpus();
    let cores: BTreeSet<Vec<usize>> = cpus.iter().map(|cpu| siblings(*cpu)).collect();
    let counter = uring::counter_hz();
    let told = value(&info, "cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok());
    let kib = |text: &str| text.trim_end_matches("kB").trim().parse::<u64>().ok();
    let pair = cores.iter().find(|threads| threads.len() > 1 && threads.iter().all(|cpu| cpus.contains(cpu)));
    Ok(Host {
        processor: value(&info, "model name").or(value(&info, "CPU part")).unwrap_or("unknown").to_string(),
        kernel: text("/proc/sys/kernel/osrelease")?.trim().to_string(),
        cpus: cpus.len().max(1) as u64,
        cores: cores.len().max(1) as u64,
        ram_bytes: value(&memory, "MemTotal").and_then(kib).unwrap_or(4 << 20) << 10,
        clock_ghz: counter.map(|hz| hz / 1e9).or(told.map(|mhz| mhz / 1e3)).unwrap_or(1.0),
        clock_measured: counter.is_some(),
        hyper_thread_factor: match pair {
            Some(threads) => hyper_thread_factor(threads, slice)?,
            None => 1.0,
        },
    })
}

/// What a thread gets done while its sibling works too, over what it gets done alone.
fn hyper_thread_factor(threads: &[usize], slice: Duration) -> Result<f64, ProbeError> {
    let alone = rounds(&threads[..1], slice)?;
    let together = rounds(&threads[..2], slice)?;
    Ok((together as f64 / alone.max(1) as f64).clamp(0.3, 1.0))
}

/// Rounds of hashing over memory that the first of the CPUs gets done while all of them do it.
fn rounds(cpus: &[usize], slice: Duration) -> Result<u64, ProbeError> {
    let for_ns = slice.as_nanos() as u64;
    let done = on_each(cpus, move || {
        let until = reactor::now() + for_ns;
        let mut words: Vec<u64> = (0..1 << 15).collect();
        let (mut done, mut at) = (0u64, 1u64);
        while reactor::now() < until {
            for _ in 0..1_000 {
                at = (at ^ words[(at % (1 << 15)) as usize]).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                words[(at >> 49) as usize] ^= at;
            }
            done += 1;
        }
        // With where it got, so that nothing is left out as unused.
        (done, at)
    })?;
    Ok(done.first().map_or(0, |(rounds, _)| *rounds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_s_texts_are_read() {
        assert_eq!(list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(list("3"), [3]);
        let info = "processor\t: 0\nmodel name\t: Some CPU @ 2.50GHz\ncpu MHz\t\t: 2499.998\n";
        assert_eq!(value(info, "model name"), Some("Some CPU @ 2.50GHz"));
        assert_eq!(value(info, "cpu MHz"), Some("2499.998"));
        assert_eq!(value(info, "flags"), None);
    }

    #[test]
    fn this_machine_is_described() {
        let host = describe(Duration::from_millis(5)).unwrap();
        assert!(host.cpus >= host.cores && host.cores >= 1, "{host:?}");
        assert!((0.3..10.0).contains(&host.clock_ghz), "{host:?}");
        assert!(host.ram_bytes > 1 << 28 && !host.processor.is_empty(), "{host:?}");
    }
}
