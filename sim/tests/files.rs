//! Simulated files through the reactor: what operations give, what they cost, what crashes leave.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Log, S, alone, plain, rw};
use reactor::{Buf, OpenFlags, fs};
use sim::{Crash, HostModel, Settings};

#[test]
fn files_behave() {
    let outcome = sim::run(1, Settings::default(), |world| {
        let host = plain(world, 1, 1);
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |_| {
            let log = seen.clone();
            async move {
                fs::create_dir("/data").await.unwrap();
                fs::create_dir("/data").await.unwrap();
                let file = fs::File::open("/data/a", rw()).await.unwrap();
                file.write_all_at(10, Buf::from(&b"hello"[..])).await.0.unwrap();
                assert_eq!(file.size().await.unwrap(), 15);
                let (result, buf) = file.read_at(8, 100, Buf::new()).await;
                assert_eq!((result.unwrap(), &*buf), (7, &b"\0\0hello"[..]));
                file.datasync().await.unwrap();
                file.truncate(12).await.unwrap();
                fs::link("/data/a", "/data/b").await.unwrap();
                fs::rename("/data/b", "/data/c").await.unwrap();
                assert_eq!(fs::read_dir("/data").await.unwrap(), ["a", "c"]);
                assert_eq!(fs::read("/data/c").await.unwrap(), b"\0\0\0\0\0\0\0\0\0\0he");
                fs::replace("/data", "d", b"small").await.unwrap();
                assert_eq!(fs::read("/data/d").await.unwrap(), b"small");
                let missing = fs::read("/data/none").await.unwrap_err();
                assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
                fs::remove("/data/a").await.unwrap();
                assert_eq!(file.size().await.unwrap(), 12);
                log.push("done");
            }
        });
        world.run_until_idle();
        log.all()
    });
    assert_eq!(outcome.value, ["done"]);
}

#[test]
fn direct_io_wants_alignment() {
    let outcome = sim::run(1, Settings::default(), |world| {
        let host = plain(world, 1, 1);
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |_| {
            let log = seen.clone();
            async move {
                let file = fs::File::open("/a", OpenFlags { direct: true, ..rw() }).await.unwrap();
                let mut good = Buf::direct(8192);
                good.resize(8192, 7);
                let (result, good) = file.write_all_at(4096, good).await;
                result.unwrap();
                let errno = |result: std::io::Result<()>| result.unwrap_err().raw_os_error();
                log.push(errno(file.write_all_at(512, good).await.0));
                log.push(errno(file.write_all_at(0, Buf::from(vec![0; 4096])).await.0));
                let mut odd = Buf::direct(4096);
                odd.resize(100, 1);
                log.push(errno(file.write_all_at(0, odd).await.0));
                let (result, buf) = file.read_at(4096, 4096, Buf::direct(4096)).await;
                assert_eq!(result.unwrap(), 4096);
                assert!(buf.iter().all(|&byte| byte == 7));
                log.push(errno(file.read_at(4096, 4096, Buf::new()).await.0.map(drop)));
            }
        });
        world.run_until_idle();
        log.all()
    });
    assert_eq!(outcome.value, [Some(libc::EINVAL); 4]);
}

/// Files made durable and read back, one after the other in `folder`: whether each took any time.
fn take_time(data: f64, folder: &'static str) -> Vec<bool> {
    let mut model = HostModel::plain("plain", 1).scaled(data, 1.0);
    model.log_folder = Some("/log".into());
    alone(model, move |log| async move {
        fs::create_dir(folder).await.unwrap();
        for number in 0..40 {
            let bytes = format!("{number}").into_bytes();
            let began = reactor::now();
            fs::replace(folder, "a", &bytes).await.unwrap();
            assert_eq!(fs::read(&format!("{folder}/a")).await.unwrap(), bytes);
            log.push(reactor::now() > began);
        }
    })
}

#[test]
fn in_a_smaller_experiment_one_file_in_as_many_takes_its_time() {
    assert!(take_time(1.0, "/data").into_iter().all(|takes| takes));
    assert!(take_time(0.001, "/log").into_iter().all(|takes| takes), "a log's are its own");
    // Eight calls and two syncs a file, each kind counted by itself.
    let scaled = take_time(0.01, "/data").into_iter().filter(|takes| *takes).count();
    assert!((1..=4).contains(&scaled), "{scaled} of 40");
}

/// Writes one record after the other, each synced, and says after which it got the answer. After the crash every
/// answered record is there.
#[test]
fn a_synced_record_survives_every_crash() {
    for (crash, seeds) in [(Crash::PowerLoss, 0..40), (Crash::Kill, 40..50)] {
        let mut torn = 0;
        for seed in seeds {
            let outcome = sim::run(seed, Settings::default(), |world| {
                let host = plain(world, 1, 1);
                let (answered, found) = (Log::new(), Log::new());
                let (answers, finds) = (answered.clone(), found.clone());
                world.boot(host, move |boot| {
                    let (answers, finds) = (answers.clone(), finds.clone());
                    async move {
                        let file = fs::File::open("/log", rw()).await.unwrap();
                        if boot.boots_before > 0 {
                            let size = file.size().await.unwrap();
                            finds.push(file.read_at(0, size as usize, Buf::new()).await.1.to_vec());
                            return;
                        }
                        fs::sync_dir("/").await.unwrap();
                        for record in 1..=255u8 {
                            file.write_all_at((record as u64 - 1) * 1500, Buf::from(vec![record; 1500]))
                                .await
                                .0
                                .unwrap();
                            file.datasync().await.unwrap();
                            answers.push(record);
                        }
                    }
                });
                world.run_until(100_000 + world.random(sim::Stream::Faults, &[]).below(4_000_000));
                world.crash(host, crash);
                world.run_for(S);
                world.restart(host);
                world.run_until_idle();
                (answered.all().len(), found.all().remove(0))
            });
            let (answered, bytes) = outcome.value;
            for record in 0..answered {
                let expect = [record as u8 + 1; 1500];
                assert_eq!(bytes[record * 1500..(record + 1) * 1500], expect, "seed {seed} record {record}");
            }
            let rest = &bytes[answered * 1500..];
            assert!(rest.len() <= 1500 && rest.iter().all(|&byte| byte == 0 || byte as usize == answered + 1));
            torn += u32::from(!rest.is_empty() && rest.contains(&0));
        }
        assert!(crash == Crash::Kill || torn > 0, "no record was ever torn");
    }
}

#[test]
fn the_disk_saturates() {
    let outcome = sim::run(1, Settings::default(), |world| {
        let mut model = sim::HostModel::plain("slow", 1);
        model.disks[0].1.read.iops = 10_000.0;
        let host = world.add_host(common::ip(1), model);
        let done = Log::new();
        let log = done.clone();
        world.boot(host, move |_| {
            let log = log.clone();
            async move {
                let file = fs::File::open("/a", rw()).await.unwrap();
                file.write_all_at(0, Buf::from(vec![1; 1 << 20])).await.0.unwrap();
                for task in 0..32u64 {
                    let (file, log) = (file.clone(), log.clone());
                    drop(reactor::spawn(reactor::Group::Statement, "reader", async move {
                        for block in 0.. {
                            let offset = (task * 7 + block) % 256 * 4096;
                            file.read_at(offset, 4096, Buf::with_capacity(4096)).await.0.unwrap();
                            log.push(());
                        }
                    }));
                }
            }
        });
        world.run_until(S);
        done.all().len()
    });
    assert!((9_900..10_200).contains(&outcome.value), "{}", outcome.value);
}

/// Reads 1 MiB twice and writes it, through the page cache of a host whose system never bypasses it.
#[test]
fn the_page_cache_serves_what_it_holds() {
    let times = |cache_bytes| {
        sim::run(1, Settings::default(), |world| {
            let mut model = sim::HostModel::plain("buffered", 1);
            (model.is_buffered, model.page_cache_bytes) = (true, cache_bytes);
            model.disks[0].1.read.bandwidth = 1e8;
            model.disks[0].1.write.bandwidth = 1e8;
            let host = world.add_host(common::ip(1), model);
            let log = Log::new();
            let seen = log.clone();
            world.boot(host, move |boot| {
                let log = seen.clone();
                async move {
                    let file = fs::File::open("/a", OpenFlags { direct: true, ..rw() }).await.unwrap();
                    let timed = async |what: &'static str| {
                        let began = reactor::now();
                        match what {
                            "write" => {
                                let mut buf = Buf::direct(1 << 20);
                                buf.resize(1 << 20, 7);
                                file.write_all_at(0, buf).await.0.unwrap();
                            }
                            "sync" => file.datasync().await.unwrap(),
                            _ => assert_eq!(file.read_at(0, 1 << 20, Buf::direct(1 << 20)).await.0.unwrap(), 1 << 20),
                        }
                        log.push((what, (reactor::now() - began) / 1000));
                    };
                    if boot.boots_before == 0 {
                        timed("write").await;
                        timed("sync").await;
                    }
                    timed("read").await;
                    timed("read").await;
                }
            });
            world.run_for(S);
            world.crash(host, Crash::PowerLoss);
            world.restart(host);
            world.run_for(S);
            log.all()
        })
        .value
    };
    let is_fast = |(_, us): &(&str, u64)| *us < 500;
    let large: Vec<bool> = times(1 << 30).iter().map(is_fast).collect();
    // The write is copied, the sync waits for the device; the reads are served, but not the first after power loss.
    assert_eq!(large, [true, false, true, true, false, true]);
    let none: Vec<bool> = times(0).iter().map(is_fast).collect();
    assert_eq!(none, [true, false, false, false, false, false]);
}
