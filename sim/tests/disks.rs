//! Disks against what was published about them: rates, latencies, what writes do to reads, caps and credits.
//!
//! The figures are those of fio, of diskplorer's latency matrices and of the vendor's documents, as the profiles name
//! them; all loads go through the reactor's own operations. `cargo test -p orrery-sim --test disks -- --nocapture`
//! prints the matrices.

#![allow(clippy::unwrap_used)]

mod common;

use common::load::{Arrival, Load, Seen, run};
use common::{MS, S};
use sim::Latency;
use sim::disk::model::{CreditsModel, DiskModel};

const KIB: u64 = 1 << 10;
const MIB: f64 = (1 << 20) as f64;

fn disk(name: &str) -> DiskModel {
    DiskModel::from_profile(hwprofiles::Profiles::embedded().disk(name).unwrap())
}

/// One drive of a striped profile.
fn member(name: &str) -> DiskModel {
    DiskModel { members: 1, ..disk(name) }
}

fn near(what: &str, ours: f64, published: f64, tolerance: f64) {
    let error = ours / published - 1.0;
    println!("{what}: {ours:.0}, published {published:.0}, {:+.1} %", error * 100.0);
    assert!(error.abs() <= tolerance, "{what}: {ours} is not {published}");
}

fn alone(disk: DiskModel, load: Load, for_ns: u64) -> Seen {
    run(disk, &[load], for_ns).remove(0)
}

fn rate(disk: DiskModel, load: Load) -> f64 {
    alone(disk, load, 100 * MS).rate
}

#[test]
fn fio_on_the_filled_drive_of_i4i() {
    let filled = || disk("i4i-4xlarge-nvme-filled");
    let reads = alone(filled(), Load::reads(4 * KIB, Arrival::Depth(160)), 200 * MS);
    near("random reads, /s", reads.rate, 340_000.0, 0.05);
    for (q, published_us) in [(0.5, 412.0), (0.99, 824.0), (0.999, 898.0), (0.9999, 1037.0)] {
        near(&format!("random reads, quantile {q}, us"), reads.quantile_us(q), published_us, 0.15);
    }
    let writes = alone(filled(), Load::writes(4 * KIB, Arrival::Depth(128)), 200 * MS);
    near("random writes, /s", writes.rate, 213_000.0, 0.05);
    for (q, published_us) in [(0.5, 586.0), (0.99, 1598.0)] {
        near(&format!("random writes, quantile {q}, us"), writes.quantile_us(q), published_us, 0.15);
    }
    let sequential = |load| rate(filled(), load) * 128.0 * KIB as f64 / MIB;
    near("sequential reads, MiB/s", sequential(Load::reads(128 * KIB, Arrival::Depth(32))), 2721.0, 0.05);
    near("sequential writes, MiB/s", sequential(Load::writes(128 * KIB, Arrival::Depth(32))), 2163.0, 0.05);
    let mut used_up = filled();
    used_up.filled.as_mut().unwrap().clean_bytes = 4096.0;
    near("without clean blocks, /s", rate(used_up, Load::writes(4 * KIB, Arrival::Depth(128))), 91_691.0, 0.05);
}

#[test]
fn maxima_as_iotune_has_them() {
    for (name, members, [reads, read_bytes, writes, write_bytes]) in [
        ("i3-nvme-raid0", 2.0, [411_200.0, 2_015_342_735.0, 181_500.0, 808_775_652.0]),
        ("i3en-2xlarge-nvme-raid0", 2.0, [84_480.0, 667e6, 66_969.0, 333e6]),
        ("i4i-4xlarge-nvme", 1.0, [385_400.0, 3_087_631_104.0, 240_628.0, 2_289_281_280.0]),
    ] {
        let block = 128 * KIB;
        let all = |load| rate(disk(name), load);
        let deep = Arrival::Depth(512);
        near(&format!("{name}, reads/s"), all(Load::reads(4 * KIB, deep)), reads * members, 0.05);
        near(&format!("{name}, writes/s"), all(Load::writes(4 * KIB, deep)), writes * members, 0.05);
        let bytes = |load| all(load) * block as f64;
        let streams = Arrival::Depth(64);
        near(&format!("{name}, read B/s"), bytes(Load::reads(block, streams)), read_bytes * members, 0.05);
        near(&format!("{name}, written B/s"), bytes(Load::writes(block, streams)), write_bytes * members, 0.05);
    }
}

#[test]
fn a_single_read_takes_what_the_drive_takes() {
    for (name, [min, low, mid, high, max]) in [
        ("i3-nvme-raid0", [90.0, 100.0, 160.0, 200.0, 3000.0]),
        ("i4i-4xlarge-nvme", [50.0, 100.0, 125.0, 170.0, 2000.0]),
    ] {
        let seen = alone(member(name), Load::reads(4 * KIB, Arrival::Depth(1)), 8 * S);
        for (q, published) in [(0.0, min), (0.05, low), (0.5, mid), (0.95, high), (1.0, max)] {
            near(&format!("{name} at depth 1, quantile {q}, us"), seen.quantile_us(q), published, 0.15);
        }
    }
}

/// Reads and the 95th percentile of few reads beside writes of 128 KiB at a part of the write bandwidth.
fn beside_writes(disk: &DiskModel, writes: f64, reads: Arrival, for_ns: u64) -> (Seen, f64) {
    let block = 128 * KIB;
    let per_second = disk.write.bandwidth / block as f64;
    let mut loads = vec![Load::reads(4 * KIB, reads)];
    if writes > 0.0 {
        loads.push(Load::writes(block, Arrival::Rate(per_second * writes)));
    }
    let mut seen = run(disk.clone(), &loads, for_ns);
    let written = seen.get(1).map_or(0.0, |seen| seen.rate / per_second);
    (seen.remove(0), written)
}

/// What the reads of a drive are left, over the whole matrix: for each share of writes its line of diskplorer, and
/// below it the 95th percentile at parts of that.
fn matrix(name: &str, lines: &[(f64, f64)]) -> Vec<(f64, f64, f64)> {
    let disk = member(name);
    let mut p95s = Vec::new();
    println!("{name}: writes, reads left (published), p95 in us at 2, 50, 90 % of these reads");
    for &(writes, published) in lines {
        // Where little is left the queue is long, and takes its time to settle.
        let for_ns = (200.0 * MS as f64 / published.max(0.3)) as u64;
        let (most, written) = beside_writes(&disk, writes, Arrival::Depth(256), for_ns);
        let left = most.rate / disk.read.iops;
        print!("{:4.0} %  {:5.1} % ({:5.1} %)", writes * 100.0, left * 100.0, published * 100.0);
        assert!((left / published - 1.0).abs() <= 0.05, "{name} at {writes}: {left} of {published}");
        assert!((written - writes).abs() <= 0.05, "{name}: {written} of {writes} written");
        for part in [0.02, 0.5, 0.9] {
            let (seen, _) = beside_writes(&disk, writes, Arrival::Rate(disk.read.iops * published * part), 60 * MS);
            let p95 = seen.quantile_us(0.95);
            print!(" {p95:6.0}");
            p95s.push((writes, part, p95));
        }
        println!();
    }
    p95s
}

#[test]
fn writes_slow_the_reads_of_i3() {
    let lines = [(0.0, 1.0), (0.1, 0.925), (0.2, 0.85), (0.35, 0.6), (0.5, 0.45), (0.75, 0.32), (1.0, 0.22)];
    matrix("i3-nvme-raid0", &lines);
    let disk = member("i3-nvme-raid0");
    for (writes, published_us) in [(0.15, 600.0), (0.25, 900.0), (0.5, 2000.0), (1.0, 3000.0)] {
        let (seen, _) = beside_writes(&disk, writes, Arrival::Rate(20_000.0), 150 * MS);
        let what = format!("i3, p95 of few reads beside {:.0} % of writes, us", writes * 100.0);
        near(&what, seen.quantile_us(0.95), published_us, 0.15);
    }
}

#[test]
fn writes_and_reads_of_i3en_share_one_budget() {
    let lines: Vec<(f64, f64)> =
        (0..=9).map(|tenth| f64::from(tenth) / 10.0).map(|w| (w, (1.05 - w).min(1.0))).collect();
    matrix("i3en-2xlarge-nvme-raid0", &lines);
}

#[test]
fn writes_leave_the_reads_of_i4i_alone_at_first() {
    let lines = [(0.0, 1.0), (0.25, 1.0), (0.5, 1.0), (0.55, 1.0), (0.7, 13.0 / 15.0), (0.85, 11.0 / 15.0), (1.0, 0.6)];
    for (writes, part, p95) in matrix("i4i-4xlarge-nvme", &lines) {
        assert!(p95 < 500.0, "{p95} us at {writes} of the writes and {part} of the reads");
    }
}

#[test]
fn a_gp3_volume_is_flat_up_to_its_cliff() {
    let volume = disk("ebs-gp3");
    for writes in [0.0, 0.2, 0.4, 0.6] {
        let (mut loads, block) = (vec![Load::reads(4 * KIB, Arrival::Rate(1_000.0))], 64 * KIB);
        if writes > 0.0 {
            loads.push(Load::writes(block, Arrival::Rate(volume.write.bandwidth / block as f64 * writes)));
        }
        let seen = run(volume.clone(), &loads, 40 * S).remove(0);
        near(&format!("gp3 beside {writes} of writes, p50 in us"), seen.quantile_us(0.5), 450.0, 0.15);
        near(&format!("gp3 beside {writes} of writes, p95 in us"), seen.quantile_us(0.95), 800.0, 0.15);
    }
    let over = alone(volume.clone(), Load::reads(4 * KIB, Arrival::Rate(3_300.0)), 5 * S);
    near("gp3 beyond its operations, /s", over.rate, 3_000.0, 0.05);
    assert!(over.quantile_us(0.5) > 50_000.0, "no cliff: {} us", over.quantile_us(0.5));
    let bytes = alone(volume, Load::reads(256 * KIB, Arrival::Depth(32)), 5 * S).rate * 256.0 * KIB as f64;
    near("gp3, MiB/s", bytes / MIB, 125.0, 0.05);
}

#[test]
fn a_gp2_volume_has_its_caps() {
    let volume = || disk("ebs-gp2-3400g");
    let rate = |load| alone(volume(), load, 2 * S).rate;
    near("gp2, reads/s", rate(Load::reads(4 * KIB, Arrival::Depth(64))), 10_000.0, 0.05);
    near("gp2, writes/s", rate(Load::writes(4 * KIB, Arrival::Depth(64))), 10_000.0, 0.05);
    let mib = |block: u64| rate(Load::reads(block, Arrival::Depth(32))) * block as f64 / MIB;
    near("gp2, MiB/s by 256 KiB", mib(256 * KIB), 160.0, 0.05);
    near("gp2, MiB/s by 1 MiB", mib(1024 * KIB), 160.0, 0.05);
    let both = [Load::reads(4 * KIB, Arrival::Depth(64)), Load::writes(4 * KIB, Arrival::Depth(64))];
    let together: f64 = run(volume(), &both, 2 * S).iter().map(|seen| seen.rate).sum();
    near("gp2, both/s", together, 10_000.0, 0.05);
    let single = alone(volume(), Load::reads(4 * KIB, Arrival::Depth(1)), 10 * S);
    for (q, published_us) in [(0.05, 800.0), (0.5, 1050.0), (0.95, 1800.0)] {
        near(&format!("gp2 at depth 1, quantile {q}, us"), single.quantile_us(q), published_us, 0.15);
    }
    let single = alone(volume(), Load::writes(4 * KIB, Arrival::Depth(1)), 10 * S);
    for (q, published_us) in [(0.05, 1200.0), (0.5, 2000.0), (0.95, 4000.0)] {
        near(&format!("gp2 at depth 1, writes, quantile {q}, us"), single.quantile_us(q), published_us, 0.15);
    }
}

/// 100 GiB: 300 operations a second for ever, 3,000 from 5.4 million credits. With a hundredth of the credits.
#[test]
fn a_small_gp2_volume_bursts_while_its_credits_last() {
    let mut volume = disk("ebs-gp2-3400g");
    volume.total = Some((3_000.0, 128.0 * MIB));
    volume.credits = Some(CreditsModel { baseline: 300.0, burst: 3_000.0, full: 54_000.0 });
    let load = Load::reads(4 * KIB, Arrival::Depth(16));
    near("small gp2 at first, /s", alone(volume.clone(), load, 10 * S).rate, 3_000.0, 0.05);
    volume.credits.as_mut().unwrap().full = 1.0;
    near("small gp2 at last, /s", alone(volume.clone(), load, 10 * S).rate, 300.0, 0.05);
    // 54,000 credits last for 20 s at 2,700 more than come in.
    volume.credits.as_mut().unwrap().full = 54_000.0;
    let whole = run(volume, &[load], 30 * S).remove(0);
    near("small gp2 in its last 20 of 30 s, /s", whole.rate, (10.0 * 3_000.0 + 10.0 * 300.0) / 20.0, 0.05);
}

#[test]
fn a_controller_takes_writes_into_its_cache_until_that_is_full() {
    let raid = || disk("megaraid-4-sata-ssd");
    near("controller, reads/s", rate(raid(), Load::reads(4 * KIB, Arrival::Depth(256))), 300_000.0, 0.05);
    let bytes = |load| alone(raid(), load, S).rate * 256.0 * KIB as f64 / 1e6;
    near("controller, read MB/s", bytes(Load::reads(256 * KIB, Arrival::Depth(64))), 2_000.0, 0.05);
    let few = alone(raid(), Load::writes(4 * KIB, Arrival::Depth(1)), 200 * MS);
    near("controller, one write, us", few.quantile_us(0.5), 41.0, 0.15);
    let mut small = raid();
    small.cache.as_mut().unwrap().size = 10_000_000;
    let many = alone(small, Load::writes(4 * KIB, Arrival::Depth(64)), S);
    near("controller, writes beyond its cache, /s", many.rate, 80_000.0, 0.05);
}

#[test]
fn stripes_double_what_one_drive_does() {
    let one = rate(member("i3en-2xlarge-nvme-raid0"), Load::reads(4 * KIB, Arrival::Depth(128)));
    let two = rate(disk("i3en-2xlarge-nvme-raid0"), Load::reads(4 * KIB, Arrival::Depth(256)));
    near("two drives over one, per cent", two / one * 100.0, 200.0, 0.03);
    let block = 1 << 20;
    let single = alone(member("i3en-2xlarge-nvme-raid0"), Load::reads(block, Arrival::Depth(1)), S).quantile_us(0.5);
    let striped = alone(disk("i3en-2xlarge-nvme-raid0"), Load::reads(block, Arrival::Depth(1)), S).quantile_us(0.5);
    assert!(striped < 0.65 * single, "{striped} against {single} us");
}

#[test]
fn a_stall_holds_up_what_comes_and_then_goes() {
    let mut stalling = disk("i4i-4xlarge-nvme");
    stalling.episodes = vec![sim::disk::model::EpisodeModel {
        every_ns: 100 * MS,
        length: Latency::constant(5 * MS),
        rates_left: 0.0,
        busy: 0.0,
    }];
    let seen = alone(stalling, Load::reads(4 * KIB, Arrival::Rate(20_000.0)), 5 * S);
    assert!(seen.quantile_us(0.5) < 200.0 && seen.quantile_us(0.93) < 400.0, "{}", seen.quantile_us(0.93));
    assert!((3_500.0..5_500.0).contains(&seen.quantile_us(0.99)), "{}", seen.quantile_us(0.99));
}
