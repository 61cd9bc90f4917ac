//! What the disk under a folder does: latencies one at a time, rates at saturation, and reads beside writes.
//!
//! Through the reactor with `O_DIRECT`, on a file that was written out before: blocks that never were are answered
//! without the device. Shards look for completions without sleeping, so that a thread's wake-up is not in the figures.
//! The file is removed at the end, and on the way out of an error.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use hdrhistogram::Histogram;
use reactor::fs::{self, File};
use reactor::uring::{Config, Host, OnPanic};
use reactor::{Buf, OpenFlags};
use serde::{Deserialize, Serialize};

use super::load::{self, Arrival, Load, Seen};
use super::mount::Mount;
use super::spread::Spread;
use super::{ProbeError, Progress};

pub const SMALL: u64 = 4 << 10;
/// iotune's and fio's usual block for bandwidth.
pub const LARGE: u64 = 128 << 10;
const FILE_BLOCK: u64 = 1 << 20;
const BUSY_POLL: Duration = Duration::from_millis(2);
/// Shares of the write bandwidth and of the read operations that the matrix goes through. The last of the reads' is as
/// many as go.
pub const WRITE_SHARES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
pub const READ_SHARES: [f64; 5] = [0.02, 0.25, 0.5, 0.75, 1.0];
/// Reads at once that tell whether a device works on several.
pub const TOGETHER: u32 = 8;
const SATURATING: [u32; 2] = [64, 256];
/// Reads at once that keep a device busy, and times their median latency without any of them done that are a stall: what
/// is answered together is done once in such a latency.
const KEPT_BUSY: u32 = 64;
const STALLED: u64 = 3;
/// Fewer say nothing of how often.
const STALLS_LEAST: u64 = 5;
/// Of the range in which the share of the time lies that a device has to be busy to stall.
const HALVINGS: u64 = 4;
const STREAMS: u32 = 32;
/// Of a file that is removed beside reads, and how often that is tried.
const REMOVED: u64 = 256 << 20;
const REMOVALS: usize = 7;
/// Reads go on before and after a removal.
const BESIDE_REMOVAL: Duration = Duration::from_millis(50);

/// A point of the matrix of reads beside writes. Rates are operations and bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Of the read operations and of the write bandwidth at saturation.
    pub offered_reads: f64,
    pub offered_writes: f64,
    pub reads: f64,
    pub written_bytes: f64,
    pub read_p50_us: f64,
    pub read_p95_us: f64,
    pub read_p99_us: f64,
}

/// Times in which a device that was kept busy did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// Between two of them, in ns.
    pub every_ns: u64,
    pub lasts: Spread,
    /// The share of the time in which a device has to be busy for them to come.
    pub busy: f64,
}

impl Stalls {
    /// What a load that kept the device busy saw, which does `iops` of its operations a second at most; `None` where that
    /// was nothing, or next to nothing. `busy` is not known by that.
    pub fn of(seen: &Seen, iops: f64) -> Option<Self> {
        let usual = seen.latency.value_at_quantile(0.5);
        let gaps = gaps_beyond(seen, STALLED * usual);
        // One that is not busy all the time stalls for as much less.
        let (apart_ns, busy) = (seen.seconds * 1e9 / gaps.len() as f64, (seen.rate() / iops).min(1.0));
        let mut lasts = load::histogram();
        for gap in gaps.iter_recorded() {
            let stalled = (gap.value_iterated_to() - usual) as f64 / busy;
            lasts.saturating_record_n(stalled as u64, gap.count_at_value());
        }
        let every_ns = (apart_ns - gaps.mean()).max(gaps.mean()) as u64;
        (lasts.len() >= STALLS_LEAST).then(|| Self { every_ns, lasts: Spread::of(&lasts), busy: 0.0 })
    }

    /// Whether a load saw half as many as one that kept the device busy, or more. Shorter ones count.
    pub fn come(&self, seen: &Seen) -> bool {
        let apart_ns = seen.seconds * 1e9 / gaps_beyond(seen, self.lasts.p50 / 4).len() as f64;
        apart_ns < 2.0 * (self.every_ns + self.lasts.p50) as f64
    }
}

/// Those of more than `least` ns.
fn gaps_beyond(seen: &Seen, least: u64) -> Histogram<u64> {
    let mut beyond = load::histogram();
    for gap in seen.gaps.iter_recorded().filter(|gap| gap.value_iterated_to() > least) {
        beyond.saturating_record_n(gap.value_iterated_to(), gap.count_at_value());
    }
    beyond
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// As the kernel's list of mounts has it.
    pub device: String,
    pub mountpoint: String,
    pub filesystem: String,
    pub capacity_bytes: u64,
    pub is_network_volume: bool,
    /// 4 KiB, one at a time.
    pub read: Spread,
    pub write: Spread,
    /// [`TOGETHER`] reads of 4 KiB at once.
    pub read_together: Spread,
    /// fdatasync behind a write within the file, and behind one that extends it.
    pub sync_within: Spread,
    pub sync_extending: Spread,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<Stalls>,
    /// Bytes of a removed file a second that are freed while reads wait; `None` where they hardly do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub discard_bandwidth: Option<f64>,
    pub read_iops: f64,
    pub write_iops: f64,
    pub read_bandwidth: f64,
    pub write_bandwidth: f64,
    pub matrix: Vec<Point>,
    /// By the probe, the file's first filling among them.
    pub bytes_written: u64,
}

/// How much is measured.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub file_bytes: u64,
    /// All measurements together, without the file's first filling.
    pub seconds: f64,
    /// What may be written at most.
    pub bytes_max: u64,
}

/// Removes the probe's files however it ends.
struct Files([PathBuf; 3]);

impl Drop for Files {
    fn drop(&mut self) {
        self.0.iter().for_each(|path| drop(std::fs::remove_file(path)));
    }
}

pub fn measure(folder: &Path, shards: usize, extent: Extent, progress: &Progress) -> Result<Disk, ProbeError> {
    let path = |name: &str| folder.join(format!(".orrery-probe-{}-{name}", std::process::id()));
    let files = Files([path("data"), path("growing"), path("removed")]);
    let text = |path: &Path| path.to_str().map(str::to_string).ok_or_else(|| ProbeError::Path(path.to_path_buf()));
    let bench = Bench { path: text(&files.0[0])?, file_bytes: extent.file_bytes, shards };
    let mount = Mount::of(folder)?;
    let discards = mount.discards;
    let mut disk = Disk {
        capacity_bytes: mount.device_bytes().unwrap_or(extent.file_bytes),
        is_network_volume: mount.is_network_volume(),
        device: mount.device,
        mountpoint: mount.point,
        filesystem: mount.filesystem,
        ..Disk::default()
    };

    progress("disk: a file is filled", 0.0);
    bench.fill()?;
    disk.bytes_written = extent.file_bytes;
    let slice = |part: f64| (extent.seconds * part * 1e9) as u64;
    let one = Arrival::Depth(1);

    progress("disk: one read at a time", 0.05);
    disk.read = Spread::of(&bench.single(Load::random(false, SMALL, one), slice(0.06))?.latency);
    progress("disk: one write at a time", 0.11);
    let seen = bench.single(Load::random(true, SMALL, one), slice(0.06))?;
    disk.bytes_written += seen.bytes_in_all;
    disk.write = Spread::of(&seen.latency);
    progress("disk: some reads at once", 0.17);
    disk.read_together =
        Spread::of(&bench.single(Load::random(false, SMALL, Arrival::Depth(TOGETHER)), slice(0.03))?.latency);
    progress("disk: syncs", 0.2);
    let (within, bytes) = bench.syncs(bench.path.clone(), Some(extent.file_bytes), slice(0.05))?;
    let (extending, more) = bench.syncs(text(&files.0[1])?, None, slice(0.05))?;
    (disk.sync_within, disk.sync_extending) = (within, extending);
    disk.bytes_written += bytes + more;

    progress("disk: as many reads as go", 0.3);
    disk.read_iops = bench.most(&mut disk.bytes_written, false, SMALL, &SATURATING, slice(0.08))?;
    progress("disk: as many writes as go", 0.38);
    disk.write_iops = bench.most(&mut disk.bytes_written, true, SMALL, &SATURATING, slice(0.08))?;
    progress("disk: reads in a row", 0.46);
    disk.read_bandwidth = bench.most(&mut disk.bytes_written, false, LARGE, &[STREAMS], slice(0.05))? * LARGE as f64;
    progress("disk: writes in a row", 0.51);
    disk.write_bandwidth = bench.most(&mut disk.bytes_written, true, LARGE, &[STREAMS], slice(0.05))? * LARGE as f64;

    progress("disk: reads that never end", 0.56);
    let seen = bench.single(Load::random(false, SMALL, Arrival::Depth(KEPT_BUSY)), slice(0.05))?;
    disk.stalls = Stalls::of(&seen, disk.read_iops);
    if let Some(stalls) = &mut disk.stalls {
        progress("disk: as many reads as go well", 0.61);
        let leaves = stalls.every_ns as f64 / (stalls.every_ns + stalls.lasts.p50) as f64;
        stalls.busy = leaves * bench.stalls_from(stalls, disk.read_iops, slice(0.04))?;
    }
    if discards && REMOVED * REMOVALS as u64 <= extent.bytes_max.saturating_sub(disk.bytes_written) / 4 {
        progress("disk: files are removed", 0.64);
        let removed = Bench { path: text(&files.0[2])?, file_bytes: REMOVED, ..bench };
        disk.discard_bandwidth = bench.discards(&removed, &disk.read)?;
        disk.bytes_written += REMOVED * REMOVALS as u64;
    }

    let all: usize = WRITE_SHARES.len() * READ_SHARES.len();
    // The mean share of writes, times the bandwidth, times the time, is what the matrix writes.
    let mean = WRITE_SHARES.iter().sum::<f64>() / WRITE_SHARES.len() as f64;
    let left = extent.bytes_max.saturating_sub(disk.bytes_written) as f64;
    let affordable = left / (mean * disk.write_bandwidth.max(1.0) * all as f64);
    let cell = ((extent.seconds * 0.35 / all as f64).min(affordable).max(0.02) * 1e9) as u64;
    for (row, writes) in WRITE_SHARES.into_iter().enumerate() {
        for (column, reads) in READ_SHARES.into_iter().enumerate() {
            let part = (row * READ_SHARES.len() + column) as f64 / all as f64;
            progress("disk: reads beside writes", 0.65 + 0.35 * part);
            let point = bench.beside(&mut disk, writes, reads, cell)?;
            disk.matrix.push(point);
        }
    }
    Ok(disk)
}

struct Bench {
    path: String,
    file_bytes: u64,
    shards: usize,
}

impl Bench {
    fn config(&self, shards: usize) -> Config {
        Config { shards, busy_poll: BUSY_POLL, on_panic: OnPanic::Stop, ..Config::default() }
    }

    /// Runs `work` on each of `shards` shards and gives what each of them gave.
    fn on_shards<T, Fut>(
        &self,
        shards: usize,
        work: impl Fn(String) -> Fut + Clone + Send + 'static,
    ) -> Result<Vec<T>, ProbeError>
    where
        T: Send + 'static,
        Fut: Future<Output = std::io::Result<T>> + 'static,
    {
        let (tell, told) = mpsc::channel();
        let path = self.path.clone();
        let host = Host::start(self.config(shards), move |_| {
            let (work, path, tell) = (work.clone(), path.clone(), tell.clone());
            async move {
                // Nobody listens any more once another shard has failed.
                let _ = tell.send(work(path).await);
            }
        })?;
        let mut all = Vec::new();
        for _ in 0..shards {
            let Ok(result) = told.recv() else { break };
            all.push(result.map_err(|source| ProbeError::File { path: self.path.clone(), source })?);
        }
        host.stop();
        host.join()?;
        Ok(all)
    }

    /// Writes the file out.
    fn fill(&self) -> Result<(), ProbeError> {
        let bytes = self.file_bytes;
        self.on_shards(1, move |path| async move {
            let flags = OpenFlags { write: true, create: true, direct: true, ..Default::default() };
            let file = File::open(&path, flags).await?;
            let mut buf = Buf::direct(FILE_BLOCK as usize);
            buf.resize(FILE_BLOCK as usize, 0x5a);
            for offset in (0..bytes).step_by(FILE_BLOCK as usize) {
                let (result, back) = file.write_all_at(offset, buf).await;
                result?;
                buf = back;
            }
            file.datasync().await
        })?;
        Ok(())
    }

    /// The loads at once, an equal part of each on every shard. What is offered at depth is dealt out whole.
    fn run(&self, shards: usize, loads: Vec<Load>, for_ns: u64) -> Result<Vec<Seen>, ProbeError> {
        let part = |load: &Load| Load {
            arrival: match load.arrival {
                Arrival::Depth(depth) => Arrival::Depth(depth.div_ceil(shards as u32)),
                Arrival::Rate(rate) => Arrival::Rate(rate / shards as f64),
            },
            ..*load
        };
        let loads: Vec<Load> = loads.iter().map(part).collect();
        let bytes = self.file_bytes;
        let all = self.on_shards(shards, move |path| {
            let loads = loads.clone();
            async move {
                let flags = OpenFlags { read: true, write: true, direct: true, ..Default::default() };
                let file = File::open(&path, flags).await?;
                load::run(&file, bytes, &loads, for_ns).await
            }
        })?;
        let mut all = all.into_iter();
        let mut whole = all.next().ok_or(ProbeError::Silent)?;
        all.for_each(|shard| whole.iter_mut().zip(&shard).for_each(|(sum, seen)| sum.merge(seen)));
        Ok(whole)
    }

    fn single(&self, load: Load, for_ns: u64) -> Result<Seen, ProbeError> {
        self.run(1, vec![load], for_ns)?.pop().ok_or(ProbeError::Silent)
    }

    /// The share of `iops` reads a second from which on a device stalls.
    fn stalls_from(&self, stalls: &Stalls, iops: f64, for_ns: u64) -> Result<f64, ProbeError> {
        let (mut low, mut high) = (0.0, 1.0);
        for _ in 0..HALVINGS {
            let share = (low + high) / 2.0;
            let seen = self.single(Load::random(false, SMALL, Arrival::Rate(iops * share)), for_ns / HALVINGS)?;
            if stalls.come(&seen) { high = share } else { low = share }
        }
        Ok(high)
    }

    /// Operations a second at the best of the depths.
    fn most(
        &self,
        written: &mut u64,
        writes: bool,
        block: u64,
        depths: &[u32],
        for_ns: u64,
    ) -> Result<f64, ProbeError> {
        let mut best = 0.0f64;
        for &depth in depths {
            let load = Load { writes, block, sequential: block == LARGE, arrival: Arrival::Depth(depth) };
            let seen = self.run(self.shards, vec![load], for_ns / depths.len() as u64)?;
            best = seen.iter().map(Seen::rate).fold(best, f64::max);
            *written += if writes { seen.iter().map(|seen| seen.bytes_in_all).sum() } else { 0 };
        }
        Ok(best)
    }

    /// Small writes, each followed by the fdatasync that is timed: at random places within `file_bytes`, or behind the
    /// file's end. Gives what was written too.
    fn syncs(&self, path: String, file_bytes: Option<u64>, for_ns: u64) -> Result<(Spread, u64), ProbeError> {
        let bench = Bench { path, ..*self };
        let all = bench.on_shards(1, move |path| async move {
            let flags = OpenFlags { write: true, create: true, direct: true, ..Default::default() };
            let file = File::open(&path, flags).await?;
            let mut buf = Buf::direct(SMALL as usize);
            buf.resize(SMALL as usize, 0x5a);
            let mut latency = load::histogram();
            let (until, mut written) = (reactor::now() + for_ns, 0);
            // At least a few, however slow the disk is.
            while reactor::now() < until || latency.len() < 5 {
                let place = file_bytes.map_or(written, |bytes| reactor::random() % (bytes / SMALL) * SMALL);
                let (result, back) = file.write_all_at(place, buf).await;
                result?;
                buf = back;
                written += SMALL;
                let began = reactor::now();
                file.datasync().await?;
                latency.saturating_record((reactor::now() - began).max(1));
            }
            if file_bytes.is_none() {
                fs::remove(&path).await?;
            }
            Ok((Spread::of(&latency), written))
        })?;
        all.into_iter().next().ok_or(ProbeError::Silent)
    }

    /// Bytes a second of files that are removed beside reads, one at a time, by how long these stand still.
    fn discards(&self, removed: &Bench, read: &Spread) -> Result<Option<f64>, ProbeError> {
        let mut lost = Vec::new();
        let still = 2 * read.p999;
        for _ in 0..REMOVALS {
            removed.fill()?;
            let (bytes, file) = (self.file_bytes, removed.path.clone());
            lost.extend(self.on_shards(1, move |path| {
                let removed = file.clone();
                async move {
                    let flags = OpenFlags { read: true, direct: true, ..Default::default() };
                    lost_beside_removal(File::open(&path, flags).await?, bytes, still, removed).await
                }
            })?);
        }
        lost.sort_unstable();
        let median = lost[lost.len() / 2];
        Ok((median > 0).then(|| removed.file_bytes as f64 / median as f64 * 1e9))
    }

    /// One point of the matrix: small reads beside large writes in a row.
    fn beside(&self, disk: &mut Disk, writes: f64, reads: f64, for_ns: u64) -> Result<Point, ProbeError> {
        let arrival = if reads < 1.0 { Arrival::Rate(disk.read_iops * reads) } else { Arrival::Depth(SATURATING[1]) };
        let mut loads = vec![Load::random(false, SMALL, arrival)];
        if writes > 0.0 {
            let rate = disk.write_bandwidth / LARGE as f64 * writes;
            loads.push(Load::sequential(true, LARGE, Arrival::Rate(rate)));
        }
        let seen = self.run(self.shards, loads, for_ns)?;
        disk.bytes_written += seen.get(1).map_or(0, |seen| seen.bytes_in_all);
        Ok(Point {
            offered_reads: reads,
            offered_writes: writes,
            reads: seen[0].rate(),
            written_bytes: seen.get(1).map_or(0.0, |seen| seen.rate() * LARGE as f64),
            read_p50_us: seen[0].quantile_us(0.5),
            read_p95_us: seen[0].quantile_us(0.95),
            read_p99_us: seen[0].quantile_us(0.99),
        })
    }
}

/// For how many ns small reads in a file of `bytes`, one at a time, stand still while that at `removed` is removed:
/// those that take longer than `still` ns.
pub async fn lost_beside_removal(file: File, bytes: u64, still: u64, removed: String) -> std::io::Result<u64> {
    let is_removed = Rc::new(Cell::new(false));
    let done = is_removed.clone();
    let removal = reactor::spawn(reactor::Group::Maintenance, "removal", async move {
        reactor::time::sleep(BESIDE_REMOVAL).await;
        let result = fs::remove(&removed).await;
        done.set(true);
        result
    });
    let until = reactor::now() + 4 * BESIDE_REMOVAL.as_nanos() as u64;
    let mut buf = Buf::direct(SMALL as usize);
    let mut lost = 0;
    while !is_removed.get() || reactor::now() < until {
        buf.clear();
        let (began, place) = (reactor::now(), reactor::random() % (bytes / SMALL) * SMALL);
        let (result, back) = file.read_at(place, SMALL as usize, buf).await;
        result?;
        buf = back;
        let took = reactor::now() - began;
        if took > still {
            lost += took;
        }
    }
    removal.await?;
    Ok(lost)
}
