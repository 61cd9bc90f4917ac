//! What this machine can do, measured: its disk, its processor, its loopback, as profiles that scenarios name.
//!
//! Two to three minutes, and as many bytes written as [`Options::bytes_max`] allows; both are told. Figures of a machine
//! that does other work meanwhile are that machine's, with that work.

#![allow(clippy::disallowed_methods, reason = "measures the real world from outside of it")]

pub mod date;
pub mod disk;
pub mod host;
pub mod interruptions;
pub mod load;
mod mount;
pub mod network;
pub mod profile;
pub mod spread;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use reactor::uring::{self, Awake};
use serde::{Deserialize, Serialize};

pub use profile::{Document, documents};

/// Told what is measured now, and the part of the disk's or of the whole that is done.
pub type Progress<'a> = dyn Fn(&str, f64) + 'a;

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("{path}: {source}")]
    File { path: String, source: io::Error },
    #[error("the path {} is not UTF-8", .0.display())]
    Path(PathBuf),
    #[error("no file system is mounted above {}", .0.display())]
    NoMount(PathBuf),
    #[error(transparent)]
    Shard(#[from] uring::Error),
    #[error("the processors cannot be kept from halting: {0}")]
    Asleep(io::Error),
    #[error("the processors' speed cannot be watched: {0}")]
    Unwatched(io::Error),
    #[error("the loopback cannot be measured: {0}")]
    Loopback(io::Error),
    #[error("a shard of the probe ended without a result")]
    Silent,
}

/// Everything that one probe found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// Year, month and day.
    pub date: String,
    pub host: host::Host,
    pub interruptions: Vec<interruptions::Interruptions>,
    pub disk: disk::Disk,
    pub network: network::Network,
}

#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// All of it, but for writing the file out at first.
    pub seconds: f64,
    pub file_bytes: u64,
    /// What may be written to the disk at most.
    pub bytes_max: u64,
}

impl Options {
    /// A probe whose figures are worth keeping.
    pub fn full(seconds: f64) -> Self {
        Self { seconds, file_bytes: 2 << 30, bytes_max: 64 << 30 }
    }

    /// A few seconds: shows that it works, and roughly what to expect.
    pub fn quick() -> Self {
        Self { seconds: 3.0, file_bytes: 64 << 20, bytes_max: 2 << 30 }
    }
}

/// What `work` gives on each of the processors, in their order, run on all of them at once; of none named, on a thread
/// that is not pinned.
fn on_each<T: Send + 'static>(
    cpus: &[usize],
    work: impl Fn() -> T + Clone + Send + Sync + 'static,
) -> Result<Vec<T>, ProbeError> {
    let (tell, told) = mpsc::channel();
    let config = uring::Config {
        shards: cpus.len().max(1),
        cpus: (!cpus.is_empty()).then(|| cpus.to_vec()),
        on_panic: uring::OnPanic::Stop,
        ..Default::default()
    };
    let threads = config.shards;
    let host = uring::Host::start(config, move |shard| {
        let (tell, work) = (tell.clone(), work.clone());
        async move {
            let _ = tell.send((shard, work()));
        }
    })?;
    let mut all: Vec<(usize, T)> = (0..threads).map_while(|_| told.recv().ok()).collect();
    host.stop();
    host.join()?;
    if all.len() < threads {
        return Err(ProbeError::Silent);
    }
    all.sort_by_key(|(shard, _)| *shard);
    Ok(all.into_iter().map(|(_, given)| given).collect())
}

/// Threads that measure at once, at most.
const CPUS_MAX: usize = 4;

pub fn run(folder: &Path, options: Options, progress: &Progress) -> Result<Probe, ProbeError> {
    let slice = |part: f64| Duration::from_secs_f64(options.seconds * part);
    progress("processor", 0.0);
    let host = host::describe(slice(0.01))?;
    let cpus = host::usable_cpus();
    let _awake = Awake::keep(&cpus).map_err(ProbeError::Asleep)?;
    let interruptions = interruptions::measure(&cpus[..cpus.len().min(CPUS_MAX)], slice(0.05))?.found();
    progress("loopback", 0.07);
    // As `orrery validate` deals them out: the first serves, the last drives.
    let of = |cpu: Option<&usize>| cpu.copied().filter(|_| cpus.len() > 1);
    let places = network::Places { server: of(cpus.first()), client: of(cpus.last()) };
    let network = network::measure(places, slice(0.11))?;
    let extent =
        disk::Extent { file_bytes: options.file_bytes, seconds: options.seconds * 0.82, bytes_max: options.bytes_max };
    let shards = cpus.len().clamp(1, CPUS_MAX);
    let disk = disk::measure(folder, shards, extent, &|what, part| progress(what, 0.18 + 0.82 * part))?;
    Ok(Probe { date: date::today(), host, interruptions, disk, network })
}
