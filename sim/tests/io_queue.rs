//! The shard's I/O queue before a disk that is too slow for all that is wanted of it.

#![allow(clippy::unwrap_used)]

mod common;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use common::{MS, S, ip, rw};
use reactor::io::{Disk, Rates};
use reactor::{Buf, Group, IoConfig, Shard, fs, spawn, time};
use sim::disk::model::{DirectionModel, DiskModel};
use sim::{HostModel, Latency, Settings};

/// 10,000 operations and 100 MB a second each way, 50 us each.
fn slow_disk() -> DiskModel {
    let direction = || DirectionModel { iops: 10_000.0, bandwidth: 1e8, service: Latency::constant(50_000) };
    DiskModel { channels: 32, read: direction(), write: direction(), ..DiskModel::fast("slow") }
}

fn model(knows_its_disk: bool) -> HostModel {
    let mut model = HostModel::plain("host", 1);
    model.disks = vec![("/".into(), slow_disk())];
    if knows_its_disk {
        let rates =
            Rates { read_iops: 10_000, read_bandwidth: 100_000_000, write_iops: 10_000, write_bandwidth: 100_000_000 };
        model.io = IoConfig { disks: vec![Disk { mountpoint: "/".into(), rates }], ..IoConfig::default() };
    }
    model
}

/// Keeps `depth` writes of `bytes` in flight for ever.
fn saturate(group: Group, depth: usize, bytes: usize) {
    for n in 0..depth {
        drop(spawn(group, "saturate", async move {
            let file = fs::File::open(&format!("/{}-{n}", group.name()), OPEN).await.unwrap();
            loop {
                let mut buf = Buf::direct(bytes);
                buf.resize(bytes, 1);
                file.write_all_at(0, buf).await.0.unwrap();
            }
        }));
    }
}

const OPEN: reactor::OpenFlags = reactor::OpenFlags {
    read: true,
    write: true,
    create: true,
    exclusive: false,
    truncate: false,
    direct: true,
    dsync: false,
};

/// The longest time in us that a small commit log write took while compaction wanted all of the disk.
fn commitlog_latency_us(knows_its_disk: bool) -> u64 {
    sim::run(1, Settings::default(), move |world| {
        let host = world.add_host(ip(1), model(knows_its_disk));
        let longest = Rc::new(Cell::new(0));
        let seen = longest.clone();
        world.boot(host, move |_| {
            let seen = seen.clone();
            async move {
                saturate(Group::Compaction, 64, 128 << 10);
                let log = spawn(Group::CommitLog, "log", async move {
                    let file = fs::File::open("/log", OPEN).await.unwrap();
                    for _ in 0..100 {
                        time::sleep(Duration::from_millis(3)).await;
                        let began = reactor::now();
                        let mut buf = Buf::direct(4096);
                        buf.resize(4096, 1);
                        file.write_all_at(0, buf).await.0.unwrap();
                        seen.set(seen.get().max((reactor::now() - began) / 1000));
                    }
                });
                log.await;
            }
        });
        world.run_for(2 * S);
        longest.get()
    })
    .value
}

#[test]
fn the_commit_log_waits_little_while_compaction_saturates_the_disk() {
    let (with, without) = (commitlog_latency_us(true), commitlog_latency_us(false));
    // What is in flight is worth 1 ms, or four requests of 1.4 ms each.
    assert!(with < 8_000, "{with} us");
    assert!(without > 50_000, "{without} us: without rates the whole of what compaction wants goes first");
}

/// Bytes a second by group, while all of them want all of the disk.
fn rates(shares: &[(Group, u32)]) -> Vec<(Group, u64)> {
    let shares = shares.to_vec();
    sim::run(1, Settings::default(), move |world| {
        let host = world.add_host(ip(1), model(true));
        let stats = Rc::new(RefCell::new(Vec::new()));
        let (told, groups) = (stats.clone(), shares.clone());
        world.boot(host, move |_| {
            let (told, groups) = (told.clone(), groups.clone());
            async move {
                for (group, shares) in &groups {
                    Shard::with(|shard| shard.set_io_shares(*group, *shares));
                    saturate(*group, 32, 64 << 10);
                }
                time::sleep(Duration::from_secs(5)).await;
                *told.borrow_mut() = Shard::with(|shard| shard.io_stats());
            }
        });
        world.run_for(5 * S + MS);
        let stats = stats.borrow();
        shares.iter().map(|(group, _)| (*group, stats[0].class(*group).bytes / 5)).collect()
    })
    .value
}

#[test]
fn groups_share_the_disk_and_none_starves() {
    let got = rates(&[(Group::Statement, 1000), (Group::Compaction, 500), (Group::Maintenance, 10)]);
    let total: u64 = got.iter().map(|(_, bytes)| bytes).sum();
    assert!(total > 80_000_000, "the disk is used: {got:?}");
    let part = |at: usize| got[at].1 * 1000 / total;
    assert!((630..690).contains(&part(0)) && (310..350).contains(&part(1)), "{got:?}");
    assert!((4..12).contains(&part(2)), "{got:?}");
}

#[test]
fn it_is_the_same_twice() {
    let run = || {
        sim::run_twice(3, &Settings::default(), |world| {
            let host = world.add_host(ip(1), model(true));
            world.boot(host, |_| async {
                let _ = fs::File::open("/x", rw()).await.unwrap();
                saturate(Group::Flush, 8, 32 << 10);
                saturate(Group::Statement, 8, 4 << 10);
                std::future::pending::<()>().await;
            });
            world.run_for(200 * MS);
            world.host_counters(host).disks[0].writes
        })
    };
    assert!(run().unwrap().value > 100);
}
