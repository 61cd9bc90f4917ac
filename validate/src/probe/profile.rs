//! A probe's measurements as the profiles that scenarios name, and as the file that tells a node of its disk.
//!
//! The simulated devices of these profiles behave as the measured ones did: `tests/probed_disk.rs` holds rates and
//! latencies of one against the measurements of the other.

use std::fmt::Write as _;

use hwprofiles::quantity::{Bandwidth, Dimension, Frequency, Rate, Ratio, Time};
use hwprofiles::{Family, Figure, Standing};

use super::disk::{Disk, Point, SMALL, TOGETHER};
use super::interruptions::Interruptions;
use super::network::{Doze, Network};
use super::spread::Spread;
use super::{Probe, host::Host};

/// A file to be written: its place in a folder of profiles, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub path: String,
    pub text: String,
}

/// `base`, in the dimension's base units, to four digits: no probe is repeatable to more.
pub fn rounded(base: f64) -> f64 {
    format!("{base:.3e}").parse().unwrap_or(base)
}

/// Writes figures with one source.
struct Writer<'a> {
    source: &'a str,
}

impl Writer<'_> {
    fn measured<D: Dimension>(&self, base: f64) -> String {
        Figure::<D>::new(rounded(base), Standing::Measured, self.source).to_string()
    }

    fn exact(&self, base: f64, unit: &str) -> String {
        format!("{base} {unit} | measured | {}", self.source)
    }

    fn quantiles(&self, indent: &str, spread: Spread) -> String {
        let points = [
            ("min", spread.min),
            ("low", spread.p05),
            ("mid", spread.p50),
            ("high", spread.p95),
            ("p99", spread.p99),
            ("p999", spread.p999),
            ("max", spread.max),
        ];
        points.iter().fold(String::new(), |mut text, (name, ns)| {
            let _ = writeln!(text, "{indent}{name}: {}", self.measured::<Time>(*ns as f64));
            text
        })
    }
}

fn assumed(value: &str, why: &str) -> String {
    format!("{value} | assumed | {why}")
}

/// All profiles of a probe under one name, and `io_properties.yaml`.
pub fn documents(probe: &Probe, name: &str) -> Vec<Document> {
    let source = format!("by orrery probe on {}, Linux {}, {}", probe.date, probe.host.kernel, probe.disk.device);
    let writer = Writer { source: &source };
    let at = |folder: &str, name: &str, text| Document { path: format!("{folder}/{name}.yaml"), text };
    vec![
        at("processors", name, processor(&writer, name, &probe.host)),
        at("disks", name, disk(&writer, name, &probe.disk)),
        at("networks", name, network(&writer, name, &probe.network)),
        at("instances", name, instance(&writer, name, probe)),
        Document { path: "io_properties.yaml".into(), text: io_properties(&probe.disk) },
    ]
}

fn io_properties(disk: &Disk) -> String {
    format!(
        "disks:\n  - mountpoint: {}\n    read_iops: {}\n    read_bandwidth: {}\n    write_iops: {}\n    \
         write_bandwidth: {}\n",
        disk.mountpoint,
        (disk.read_iops as u64).max(1),
        (disk.read_bandwidth as u64).max(1),
        (disk.write_iops as u64).max(1),
        (disk.write_bandwidth as u64).max(1),
    )
}

fn processor(writer: &Writer, name: &str, host: &Host) -> String {
    let told = "as Linux tells it, the time-stamp counter cannot be trusted here";
    let clock = match host.clock_measured {
        true => writer.measured::<Frequency>(host.clock_ghz),
        false => assumed(&format!("{} GHz", rounded(host.clock_ghz)), told),
    };
    let threads = match host.cpus > host.cores {
        true => writer.measured::<Ratio>(host.hyper_thread_factor),
        false => writer.exact(1.0, "x"),
    };
    format!(
        "name: {name}\nabout: {}\nclock: {clock}\nipc_factor: {}\nhyper_thread_factor: {threads}\n",
        host.processor,
        assumed("1 x", "costs that orrery calibrate found on this processor are for it"),
    )
}

fn instance(writer: &Writer, name: &str, probe: &Probe) -> String {
    let bandwidth = probe.network.bandwidth;
    let nic = writer.measured::<Bandwidth>(bandwidth);
    let mut text = format!(
        "name: {name}\nabout: the machine that was probed, {}\nprocessor: {name}\nvcpus: {}\nphysical_cores: {}\nram: {}\n\
         interrupt_cpus: {}\nnic:\n  base: {nic}\n  burst: {nic}\n  burst_credit: {}\n",
        probe.host.processor,
        writer.exact(probe.host.cpus as f64, "vCPU"),
        writer.exact(probe.host.cores as f64, "cores"),
        writer.exact(probe.host.ram_bytes as f64, "B"),
        assumed("0 vCPU", "the loopback has no interrupts"),
        assumed("0 B", "the loopback has one rate"),
    );
    if probe.disk.is_network_volume {
        let volumes = writer.measured::<Bandwidth>(probe.disk.read_bandwidth.max(probe.disk.write_bandwidth));
        let _ = write!(text, "ebs:\n  bandwidth: {volumes}\n  shares_nic: false\n");
    } else {
        let _ = writeln!(text, "local_disks: [{name}]");
    }
    let _ = write!(text, "wake:\n{}", writer.quantiles("  ", probe.network.wakes.wake()));
    if let Some(Doze { lasts_ns, wake }) = probe.network.wakes.doze() {
        let lasts = writer.measured::<Time>(lasts_ns as f64);
        let _ = write!(text, "doze:\n  lasts: {lasts}\n  wake:\n{}", writer.quantiles("    ", wake));
    }
    let _ = write!(text, "timer:\n{}", writer.quantiles("  ", probe.network.wakes.timer));
    if !probe.interruptions.is_empty() {
        text += "interruptions:\n";
    }
    for Interruptions { every_ns, lasts } in &probe.interruptions {
        let every = writer.measured::<Time>(*every_ns as f64);
        let _ = write!(text, "  - every: {every}\n    lasts:\n{}", writer.quantiles("      ", *lasts));
    }
    text
}

fn network(writer: &Writer, name: &str, network: &Network) -> String {
    format!(
        "# {:.0} round trips a second of 16 connections.\nname: {name}\nabout: the loopback of the machine that was probed\n\
         rtt:\n{}per_flow: {}\nloss: {}\n",
        network.messages,
        writer.quantiles("  ", network.wire()),
        writer.measured::<Bandwidth>(network.bandwidth),
        assumed("0 %", "the loopback loses nothing"),
    )
}

fn disk(writer: &Writer, name: &str, disk: &Disk) -> String {
    let family = family(disk);
    let direction = |iops: f64, bandwidth: f64, latency: Spread| {
        let service_time = match family {
            Family::Virtio => latency,
            // The model adds the time of the bytes on the wire.
            _ => latency.less((SMALL as f64 / bandwidth * 1e9) as u64, 1_000),
        };
        format!(
            "  iops: {}\n  bandwidth: {}\n  service_time:\n{}",
            writer.measured::<Rate>(iops),
            writer.measured::<Bandwidth>(bandwidth),
            writer.quantiles("    ", service_time),
        )
    };
    let channels = match family {
        Family::Virtio => {
            let times = rounded(disk.read_together.p50 as f64 / disk.read.p50.max(1) as f64);
            format!("1 channels | measured | {TOGETHER} reads at once take {times} times as long as one")
        }
        _ => assumed(
            &format!("{} channels", channels(disk)),
            "twice what the maximum of operations keeps busy at the median service time",
        ),
    };
    let mut text = format!(
        "# fdatasync behind a write that extends its file: p50 {:.0} us, p99 {:.0} us. {} bytes were written.\n\
         name: {name}\nabout: {} under {} ({}), probed\nfamily: {}\ncapacity: {}\nchannels: {channels}\nread:\n{}write:\n{}\
         flush: {}\npower_loss_protected: false\naccounting_unit: {}\n",
        disk.sync_extending.p50 as f64 / 1e3,
        disk.sync_extending.p99 as f64 / 1e3,
        disk.bytes_written,
        disk.device,
        disk.mountpoint,
        disk.filesystem,
        family.name(),
        writer.exact(disk.capacity_bytes as f64, "B"),
        direction(disk.read_iops, disk.read_bandwidth, disk.read),
        direction(disk.write_iops, disk.write_bandwidth, disk.write),
        writer.measured::<Time>(disk.sync_within.p50 as f64),
        assumed("16 MiB", "no accounting, a request of any size counts once"),
    );
    if let (Family::Virtio, Some(bandwidth)) = (family, disk.discard_bandwidth) {
        let _ = writeln!(text, "discard: {}", writer.measured::<Bandwidth>(bandwidth));
    }
    if disk.is_network_volume {
        let total = |read: f64, write: f64| read.max(write);
        let _ = write!(
            text,
            "total:\n  iops: {}\n  bandwidth: {}\n",
            writer.measured::<Rate>(total(disk.read_iops, disk.write_iops)),
            writer.measured::<Bandwidth>(total(disk.read_bandwidth, disk.write_bandwidth)),
        );
    }
    if let (Family::Virtio, Some(stalls)) = (family, &disk.stalls) {
        let every = writer.measured::<Time>(stalls.every_ns as f64);
        let rates_left = writer.exact(0.0, "x");
        let busy = writer.measured::<Ratio>(stalls.busy);
        let _ = write!(
            text,
            "episodes:\n  - every: {every}\n    rates_left: {rates_left}\n    busy: {busy}\n    length:\n"
        );
        text += &writer.quantiles("      ", stalls.lasts);
    }
    // What writes take from reads comes of the one queue.
    let curve = if family == Family::Virtio { Vec::new() } else { reads_left(disk) };
    if curve.is_empty() {
        text.push_str("interference: none\n");
        return text;
    }
    text.push_str("interference:\n  curve:\n");
    let percent = |share: f64| format!("{} %", rounded(share * 100.0));
    for LeftPoint { writes, reads_left, is_measured } in curve {
        let (standing, source) = match is_measured {
            true => ("measured", writer.source),
            false => ("assumed", "the measured points' line, to where writes take all"),
        };
        let _ = writeln!(text, "    - writes: {} | {standing} | {source}", percent(writes));
        let _ = writeln!(text, "      reads_left: {} | {standing} | {source}", percent(reads_left));
    }
    let beside = light_reads(disk);
    if !beside.is_empty() {
        text.push_str("read_p95:\n");
    }
    for (writes, us) in beside {
        let _ = writeln!(text, "  - writes: {} | measured | {}", percent(writes), writer.source);
        let _ = writeln!(text, "    latency: {}", writer.measured::<Time>(us * 1e3));
    }
    text
}

/// Some reads at once take as long as one on a device with channels for them, unless it is at its rate; behind a queue
/// that is worked off and answered as a whole each of them takes its time from all. Which of the two is nearer?
fn family(disk: &Disk) -> Family {
    let (one, more) = (disk.read.p50 as f64, f64::from(TOGETHER));
    let each = 1e9 / disk.read_iops;
    let side_by_side = one.max(more * each);
    let one_by_one = one + (more - 1.0) * each;
    match disk.read_together.p50 as f64 > f64::midpoint(side_by_side, one_by_one) {
        _ if disk.is_network_volume => Family::Ebs,
        true => Family::Virtio,
        false => Family::Nvme,
    }
}

fn channels(disk: &Disk) -> u64 {
    let busy = |iops: f64, latency: Spread| (2.0 * iops * latency.p50 as f64 / 1e9).ceil() as u64;
    busy(disk.read_iops, disk.read).max(busy(disk.write_iops, disk.write)).clamp(4, 4096)
}

struct LeftPoint {
    writes: f64,
    reads_left: f64,
    is_measured: bool,
}

/// Less than this is noise.
const FELT: f64 = 0.03;
/// A device in which writes leave reads nothing at all does not end a simulation.
const LEAST_LEFT: f64 = 0.02;

/// The interference curve, falling, from the points with as many reads as go. Nothing where writes are not felt.
fn reads_left(disk: &Disk) -> Vec<LeftPoint> {
    let share = |point: &Point| (point.written_bytes / disk.write_bandwidth).min(1.0);
    let most = |point: &&Point| point.offered_reads >= 1.0;
    let mut seen: Vec<(f64, f64)> =
        disk.matrix.iter().filter(most).map(|point| (share(point), point.reads / disk.read_iops)).collect();
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    // The rates at saturation and those of the matrix were measured at different times: its first line is the measure.
    let base = seen.iter().find(|(writes, _)| *writes <= 0.0).map_or(1.0, |(_, reads)| reads.max(1e-6));
    let mut curve: Vec<LeftPoint> = Vec::new();
    let mut left = 1.0f64;
    for (writes, reads) in seen.into_iter().filter(|(writes, _)| *writes > 0.01) {
        left = left.min((reads / base).clamp(LEAST_LEFT, 1.0));
        match curve.last_mut() {
            Some(last) if writes - last.writes < 0.02 => last.reads_left = left,
            _ => curve.push(LeftPoint { writes, reads_left: left, is_measured: true }),
        }
    }
    if curve.last().is_none_or(|last| last.reads_left > 1.0 - FELT) {
        return Vec::new();
    }
    if let Some(LeftPoint { writes, reads_left, .. }) = curve.last()
        && *writes < 0.95
    {
        let at_full = (1.0 - (1.0 - reads_left) / writes).clamp(LEAST_LEFT, *reads_left);
        curve.push(LeftPoint { writes: 1.0, reads_left: at_full, is_measured: false });
    }
    curve
}

/// The 95th percentile of few reads at shares of writes, both rising.
fn light_reads(disk: &Disk) -> Vec<(f64, f64)> {
    let light = disk.matrix.iter().map(|point| point.offered_reads).fold(f64::INFINITY, f64::min);
    let few = disk.matrix.iter().filter(|point| point.offered_reads <= light && point.written_bytes > 0.0);
    let mut seen: Vec<(f64, f64)> =
        few.map(|point| ((point.written_bytes / disk.write_bandwidth).min(1.0), point.read_p95_us)).collect();
    seen.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut rising: Vec<(f64, f64)> = Vec::new();
    for (writes, p95) in seen {
        let before = rising.last().copied().unwrap_or((0.0, disk.read.p95 as f64 / 1e3));
        if writes - before.0 > 0.02 {
            rising.push((writes, p95.max(before.1)));
        }
    }
    rising
}
