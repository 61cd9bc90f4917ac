//! A disk that was probed, simulated: its rates and latencies are those that the probe measured.
//!
//! Measurements are made up, written as profiles, read back as scenarios read them, and the same load that measures a
//! real disk runs on the simulated one.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, reason = "a test's folder is the real world's")]

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hwprofiles::Profiles;
use reactor::fs::File;
use reactor::{Buf, OpenFlags};
use sim::disk::model::DiskModel;
use sim::{HostModel, Settings};
use validate::probe::disk::{
    Disk, LARGE, Point, READ_SHARES, SMALL, Stalls, TOGETHER, WRITE_SHARES, lost_beside_removal,
};
use validate::probe::interruptions::Interruptions;
use validate::probe::load::{self, Arrival, Load, Seen};
use validate::probe::spread::Spread;
use validate::probe::{Probe, documents, host, network};

const MS: u64 = 1_000_000;
const FILE_BYTES: u64 = 1 << 30;

fn spread(us: [u64; 6]) -> Spread {
    let [min, p05, p50, p95, p99, max] = us.map(|us| us * 1_000);
    Spread { samples: 10_000, min, p05, p50, p95, p99, p999: p99 + (max - p99) / 2, max }
}

/// A drive on which reads and writes share one budget: `r + w = 1`.
fn measured() -> Disk {
    let (read_iops, write_bandwidth) = (110_000.0, 600e6);
    let matrix = WRITE_SHARES.into_iter().flat_map(|writes| {
        READ_SHARES.into_iter().map(move |reads| Point {
            offered_reads: reads,
            offered_writes: writes,
            // At the very limit both give way.
            reads: read_iops * if reads + writes > 1.0 { (1.0f64 - writes).max(0.1) } else { reads },
            written_bytes: write_bandwidth * writes.min(0.9),
            read_p50_us: 120.0,
            read_p95_us: 200.0 + 1_000.0 * writes,
            read_p99_us: 2_000.0,
        })
    });
    Disk {
        device: "/dev/made-up".into(),
        mountpoint: "/".into(),
        filesystem: "ext4".into(),
        capacity_bytes: 100 << 30,
        is_network_volume: false,
        read: spread([80, 95, 120, 190, 400, 3_000]),
        write: spread([25, 30, 45, 90, 250, 2_000]),
        read_together: spread([85, 100, 130, 200, 410, 3_000]),
        sync_within: spread([300, 350, 500, 900, 1_500, 5_000]),
        sync_extending: spread([500, 700, 900, 1_500, 2_500, 9_000]),
        stalls: None,
        discard_bandwidth: None,
        read_iops,
        write_iops: 70_000.0,
        read_bandwidth: 1_200e6,
        write_bandwidth,
        matrix: matrix.collect(),
        bytes_written: 12 << 30,
    }
}

/// A virtual machine's: [`TOGETHER`] reads at once take the time of one and seven times what one has of the rate, and a
/// thread that is kept busy is put off.
fn measured_virtio() -> Disk {
    let stalls = Stalls { every_ns: 50_000_000, lasts: spread([1_500, 2_000, 4_000, 5_000, 7_000, 9_000]), busy: 0.4 };
    let read = spread([80, 95, 120, 190, 400, 900]);
    let read_together = spread([145, 160, 184, 260, 470, 3_000]);
    Disk { stalls: Some(stalls), discard_bandwidth: Some(20e9), read, read_together, ..measured() }
}

fn probe(disk: Disk) -> Probe {
    Probe {
        date: "2026-11-21".into(),
        interruptions: vec![Interruptions { every_ns: 20_000_000, lasts: spread([40, 60, 200, 900, 1_500, 3_000]) }],
        host: host::Host {
            processor: "Made-up CPU @ 2.50GHz".into(),
            kernel: "6.18".into(),
            cpus: 2,
            cores: 2,
            ram_bytes: 16 << 30,
            clock_ghz: 2.4999,
            clock_measured: true,
            hyper_thread_factor: 1.0,
        },
        disk,
        network: network::Network {
            own: spread([8, 9, 10, 12, 20, 100]),
            wakes: network::Wakes {
                awake: spread([12, 13, 15, 20, 40, 200]),
                asleep: spread([30, 40, 50, 90, 150, 400]),
                naps: [(20, 19), (100, 20), (200, 21), (400, 48)]
                    .map(|(idle_us, us)| network::Nap {
                        idle_ns: idle_us * 1_000,
                        round_trip: spread([us, us, us, 90, 100, 200]),
                    })
                    .to_vec(),
                timer: spread([12, 14, 16, 20, 30, 200]),
            },
            messages: 90_000.0,
            bandwidth: 2.1e9,
        },
    }
}

fn profiles(disk: &Disk) -> Profiles {
    let folder = tempfile::tempdir().unwrap();
    for document in documents(&probe(disk.clone()), "made-up") {
        let path = folder.path().join(&document.path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, document.text).unwrap();
    }
    Profiles::with_folder(folder.path()).map_err(|error| panic!("{:?}", miette::Report::new(error))).unwrap()
}

/// What the loads see on the simulated disk.
fn simulate(disk: &Disk, loads: &[Load], for_ns: u64) -> Vec<Seen> {
    let loads = loads.to_vec();
    on_simulated(disk, for_ns * 2, async move |file| load::run(&file, FILE_BYTES, &loads, for_ns).await.unwrap())
}

/// What `work` gives on a file of the simulated disk.
fn on_simulated<T: Send + 'static>(
    disk: &Disk,
    for_ns: u64,
    work: impl AsyncFn(File) -> T + Send + Sync + 'static,
) -> T {
    let work = Arc::new(work);
    let model = DiskModel::from_profile(profiles(disk).disk("made-up").unwrap());
    let outcome = sim::run(1, Settings::default(), |world| {
        let mut host = HostModel::plain("probed", 1);
        host.disks[0].1 = model.clone();
        let host = world.add_host(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), host);
        let seen = Rc::new(RefCell::new(None));
        let (work, told) = (work.clone(), seen.clone());
        world.boot(host, move |_| {
            let (work, told) = (work.clone(), told.clone());
            async move {
                let flags = OpenFlags { read: true, write: true, create: true, direct: true, ..Default::default() };
                let file = File::open("/data", flags).await.unwrap();
                file.truncate(FILE_BYTES).await.unwrap();
                *told.borrow_mut() = Some(work(file).await);
            }
        });
        let done = world.run_until_true(for_ns + 10_000 * MS, || seen.borrow().is_some());
        assert!(done, "the load did not end");
        seen.take().unwrap()
    });
    outcome.value
}

fn near(what: &str, simulated: f64, measured: f64, tolerance: f64) {
    println!("{what}: {simulated:.0}, measured {measured:.0}, {:+.1} %", (simulated / measured - 1.0) * 100.0);
    assert!((simulated / measured - 1.0).abs() <= tolerance, "{what}: {simulated} is not {measured}");
}

#[test]
fn rates_at_saturation_are_the_measured_ones() {
    for disk in [measured(), measured_virtio()] {
        let rate = |load| simulate(&disk, &[load], 2_000 * MS).remove(0).rate();
        near("reads/s", rate(Load::random(false, SMALL, Arrival::Depth(256))), disk.read_iops, 0.05);
        near("writes/s", rate(Load::random(true, SMALL, Arrival::Depth(256))), disk.write_iops, 0.05);
        let bytes = |writes| rate(Load::sequential(writes, LARGE, Arrival::Depth(32))) * LARGE as f64;
        near("read B/s", bytes(false), disk.read_bandwidth, 0.05);
        near("written B/s", bytes(true), disk.write_bandwidth, 0.05);
    }
}

#[test]
fn latencies_alone_are_the_measured_ones() {
    for disk in [measured(), measured_virtio()] {
        for (what, writes, depth, spread) in [
            ("read", false, 1, disk.read),
            ("write", true, 1, disk.write),
            ("reads together", false, TOGETHER, disk.read_together),
        ] {
            let seen = simulate(&disk, &[Load::random(writes, SMALL, Arrival::Depth(depth))], 10_000 * MS).remove(0);
            near(&format!("{what} p50, us"), seen.quantile_us(0.5), spread.p50 as f64 / 1e3, 0.15);
            near(&format!("{what} p99, us"), seen.quantile_us(0.99), spread.p99 as f64 / 1e3, 0.15);
        }
    }
}

#[test]
fn a_busy_disk_stalls_as_it_did() {
    let disk = measured_virtio();
    let seen = simulate(&disk, &[Load::random(false, SMALL, Arrival::Depth(64))], 30_000 * MS).remove(0);
    let (simulated, measured) = (Stalls::of(&seen, disk.read_iops).unwrap(), disk.stalls.unwrap());
    near("between stalls, us", simulated.every_ns as f64 / 1e3, measured.every_ns as f64 / 1e3, 0.1);
    near("a stall's p50, us", simulated.lasts.p50 as f64 / 1e3, measured.lasts.p50 as f64 / 1e3, 0.15);
    // One that has time to spare does not.
    let at_rate = |share| {
        let load = Load::random(false, SMALL, Arrival::Rate(disk.read_iops * share));
        measured.come(&simulate(&disk, &[load], 3_000 * MS).remove(0))
    };
    assert_eq!([0.2, 0.35, 0.5, 0.7].map(at_rate), [false, false, true, true]);
    // A disk that was not seen to stall does not.
    let steady = Disk { stalls: None, ..disk };
    let seen = simulate(&steady, &[Load::random(false, SMALL, Arrival::Depth(64))], 3_000 * MS).remove(0);
    assert_eq!(Stalls::of(&seen, disk.read_iops), None);
}

#[test]
fn reads_wait_for_a_removed_file_as_they_did() {
    const REMOVED: u64 = 400 << 20;
    let beside = |disk: &Disk| {
        on_simulated(disk, 1_000 * MS, async |file| {
            let flags = OpenFlags { write: true, create: true, direct: true, ..Default::default() };
            File::open("/removed", flags).await.unwrap().truncate(REMOVED).await.unwrap();
            lost_beside_removal(file, FILE_BYTES, MS, "/removed".into()).await.unwrap()
        })
    };
    let disk = Disk { stalls: None, ..measured_virtio() };
    near("bytes/s", REMOVED as f64 / beside(&disk) as f64 * 1e9, disk.discard_bandwidth.unwrap(), 0.05);
    assert_eq!(beside(&Disk { discard_bandwidth: None, ..disk.clone() }), 0);
    // One that is open goes when it is closed.
    let (removal, read) = on_simulated(&disk, 1_000 * MS, async |file| {
        let flags = OpenFlags { write: true, create: true, direct: true, ..Default::default() };
        let open = File::open("/removed", flags).await.unwrap();
        open.truncate(REMOVED).await.unwrap();
        let began = reactor::now();
        reactor::fs::remove("/removed").await.unwrap();
        let removed = reactor::now();
        drop(open);
        reactor::time::sleep(Duration::from_millis(1)).await;
        let asked = reactor::now();
        file.read_at(0, 4096, Buf::direct(4096)).await.0.unwrap();
        (removed - began, reactor::now() - asked)
    });
    assert!(removal < MS && read > 4 * MS, "{removal} ns, {read} ns");
}

#[test]
fn writes_leave_the_reads_that_were_measured() {
    let disk = measured();
    for point in disk.matrix.iter().filter(|point| point.offered_writes < 1.0) {
        let arrival = match point.offered_reads < 1.0 {
            true => Arrival::Rate(disk.read_iops * point.offered_reads),
            false => Arrival::Depth(256),
        };
        let mut loads = vec![Load::random(false, SMALL, arrival)];
        if point.offered_writes > 0.0 {
            let writes = disk.write_bandwidth / LARGE as f64 * point.offered_writes;
            loads.push(Load::sequential(true, LARGE, Arrival::Rate(writes)));
        }
        // Below saturation the offered rate tells nothing, and at its very edge the draw decides.
        if point.offered_reads < 1.0 && point.offered_reads + point.offered_writes > 0.8 {
            continue;
        }
        let seen = simulate(&disk, &loads, 600 * MS).remove(0);
        let what = format!("reads/s, {} offered beside {} of writes", point.offered_reads, point.offered_writes);
        near(&what, seen.rate(), point.reads, 0.05);
        if point.offered_reads < 0.05 && point.offered_writes > 0.0 {
            near("p95 of few reads, us", seen.quantile_us(0.95), point.read_p95_us, 0.15);
        }
    }
}

#[test]
fn the_host_and_its_loopback_are_there() {
    let profiles = profiles(&measured());
    let host = profiles.instance("made-up").unwrap();
    assert_eq!((host.vcpus.u64(), host.local_disks.as_slice()), (2, ["made-up".to_string()].as_slice()));
    assert_eq!((host.processor.clock.f64(), host.processor.hyper_thread_factor.f64()), (2.5, 1.0));
    // 50 us to a thread that slept, 15 us to one that did not.
    assert_eq!(host.wake.as_ref().unwrap().mid.u64(), 35_000);
    assert_eq!(host.timer.as_ref().unwrap().mid.u64(), 16_000);
    let doze = host.doze.as_ref().unwrap();
    assert_eq!((doze.lasts.u64(), doze.wake.mid.u64()), (300_000, 5_000));
    let network = profiles.network("made-up").unwrap();
    assert_eq!((network.rtt.mid.u64(), network.per_flow.f64()), (5_000, 2.1e9));
    let properties = documents(&probe(measured()), "made-up").pop().unwrap();
    assert_eq!(properties.path, "io_properties.yaml");
    assert!(properties.text.contains("read_iops: 110000\n"), "{}", properties.text);
}
