//! Each fault of a disk does what it says, to what it is aimed at, and to nothing else.

#![allow(clippy::unwrap_used)]

mod common;

use std::rc::Rc;

use common::{Log, MS, plain, rw};
use reactor::{Buf, fs, time};
use sim::disk::faults::{Aim, DiskFault, IoError, LostWrite, MisdirectedWrite, Stall, TornWrite};
use sim::{Crash, HostId, Settings, World};

/// Writes 4 KiB of 1 to `/a` and of 2 to `/b`, syncs both, writes 3 over `/a` and syncs that. Gives the results in
/// order, then what is read of both.
#[allow(clippy::type_complexity)]
fn run(setup: impl Fn(&Rc<World>, HostId) + Send + Sync) -> (Vec<Option<i32>>, Vec<Vec<u8>>, u64) {
    let outcome = sim::run(7, Settings::default(), |world| {
        let host = plain(world, 1, 1);
        setup(world, host);
        let (results, contents) = (Log::new(), Log::new());
        let (seen, read) = (results.clone(), contents.clone());
        world.boot(host, move |_| {
            let (seen, read) = (seen.clone(), read.clone());
            async move {
                let errno = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
                let a = fs::File::open("/a", rw()).await.unwrap();
                let b = fs::File::open("/b", rw()).await.unwrap();
                seen.push(errno(a.write_all_at(0, Buf::from(vec![1; 4096])).await.0));
                seen.push(errno(b.write_all_at(0, Buf::from(vec![2; 4096])).await.0));
                seen.push(errno(a.datasync().await));
                seen.push(errno(b.datasync().await));
                seen.push(errno(a.write_all_at(0, Buf::from(vec![3; 4096])).await.0));
                seen.push(errno(a.datasync().await));
                for file in [a, b] {
                    let (result, bytes) = file.read_at(0, 4096, Buf::with_capacity(4096)).await;
                    seen.push(errno(result.map(drop)));
                    read.push(bytes.to_vec());
                }
            }
        });
        world.run_for(100 * MS);
        (results.all(), contents.all(), world.now())
    });
    outcome.value
}

fn with<F: DiskFault + 'static>(aim: Aim, fault: fn() -> F) -> (Vec<Option<i32>>, Vec<Vec<u8>>) {
    let (results, contents, _) = run(move |world, host| {
        world.inject(host, aim.clone(), fault());
    });
    (results, contents)
}

const FINE: [Option<i32>; 8] = [None; 8];

#[test]
fn without_a_fault_all_is_well() {
    let (results, contents, _) = run(|_, _| {});
    assert_eq!(results, FINE);
    assert_eq!(contents, [vec![3; 4096], vec![2; 4096]]);
}

#[test]
fn errors_strike_what_they_are_aimed_at() {
    let eio = Some(libc::EIO);
    let (results, contents) = with(Aim::at("/a").nth(1), IoError::write);
    assert_eq!(results, [None, None, None, None, eio, None, None, None]);
    assert_eq!(contents[0], vec![1; 4096]);
    let (results, _) = with(Aim::at("/b"), IoError::sync);
    assert_eq!(results, [None, None, None, eio, None, None, None, None]);
    let (results, contents) = with(Aim::at("/*").times(1), IoError::read);
    assert_eq!(results, [None, None, None, None, None, None, eio, None]);
    assert_eq!(contents, [vec![], vec![2; 4096]]);
}

#[test]
fn a_lost_write_leaves_what_was_there() {
    let (results, contents) = with(Aim::at("/a").nth(1), || LostWrite);
    assert_eq!((results, contents), (FINE.to_vec(), vec![vec![1; 4096], vec![2; 4096]]));
    let (_, contents) = with(Aim::at("/a"), || LostWrite);
    assert_eq!(contents[0], vec![0; 4096], "of the right size, as the file system knows of it");
}

#[test]
fn a_torn_write_leaves_old_and_new_sectors() {
    let (results, contents) = with(Aim::at("/a").nth(1), || TornWrite);
    assert_eq!(results, FINE);
    let sectors: Vec<u8> = contents[0].chunks(512).map(|sector| sector[0]).collect();
    assert!(contents[0].chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])));
    assert!(sectors.contains(&1) && sectors.iter().all(|byte| [1, 3].contains(byte)), "{sectors:?}");
}

#[test]
fn a_misdirected_write_lands_elsewhere() {
    let (results, contents) = with(Aim::at("/a").nth(1), || MisdirectedWrite);
    assert_eq!(results, FINE);
    let threes = contents.iter().flatten().filter(|byte| **byte == 3).count();
    assert!(threes > 0 && threes <= 4096, "{threes}");
    assert!(contents.iter().all(|file| file.len() == 4096), "no file has grown");
}

#[test]
fn a_stall_delays() {
    let end = |fault: bool| {
        sim::run(1, Settings::default(), move |world| {
            let host = plain(world, 1, 1);
            if fault {
                world.inject(host, Aim::at("/a").times(1), Stall { for_ns: 50 * MS });
            }
            let log = Log::new();
            let told = log.clone();
            world.boot(host, move |_| {
                let told = told.clone();
                async move {
                    let a = fs::File::open("/a", rw()).await.unwrap();
                    a.write_all_at(0, Buf::from(vec![1; 4096])).await.0.unwrap();
                    told.push(reactor::now());
                }
            });
            world.run_for(200 * MS);
            log.all()[0]
        })
        .value
    };
    assert_eq!(end(true) - end(false), 50 * MS);
}

#[test]
fn a_failed_sync_is_not_made_good_by_the_next() {
    let mut lost = 0;
    for seed in 0..40 {
        let value = sim::run(seed, Settings::default(), |world| {
            let host = plain(world, 1, 1);
            world.inject(host, Aim::at("/a").times(1), IoError::sync());
            let log = Log::new();
            let seen = log.clone();
            world.boot(host, move |boot| {
                let seen = seen.clone();
                async move {
                    let a = fs::File::open("/a", rw()).await.unwrap();
                    if boot.boots_before == 0 {
                        a.write_all_at(0, Buf::from(vec![1; 4096])).await.0.unwrap();
                        assert!(a.datasync().await.is_err());
                        a.datasync().await.unwrap();
                        fs::sync_dir("/").await.unwrap();
                    }
                    let (result, bytes) = a.read_at(0, 4096, Buf::with_capacity(4096)).await;
                    result.unwrap();
                    seen.push(bytes.to_vec() == vec![1; 4096]);
                }
            });
            world.run_for(MS);
            world.crash(host, Crash::PowerLoss);
            world.restart(host);
            world.run_for(MS);
            log.all()
        })
        .value;
        assert!(value[0], "what was written is read until the power fails");
        lost += u32::from(!value[1]);
    }
    assert!(lost > 5, "{lost}");
}

#[test]
fn a_full_disk_refuses_growth_until_there_is_room() {
    let log = sim::run(1, Settings::default(), |world| {
        let host = plain(world, 1, 1);
        world.limit_space(host, 0, Some(8192));
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |_| {
            let seen = seen.clone();
            async move {
                let errno = |result: std::io::Result<()>| result.err().and_then(|error| error.raw_os_error());
                let a = fs::File::open("/a", rw()).await.unwrap();
                let b = fs::File::open("/b", rw()).await.unwrap();
                seen.push(errno(a.write_all_at(0, Buf::from(vec![1; 8192])).await.0));
                seen.push(errno(b.write_all_at(0, Buf::from(vec![1; 1])).await.0));
                seen.push(errno(b.allocate(0, 1).await));
                seen.push(errno(a.write_all_at(0, Buf::from(vec![2; 8192])).await.0));
                fs::remove("/a").await.unwrap();
                seen.push(errno(b.write_all_at(0, Buf::from(vec![1; 1])).await.0));
                drop(a);
                fs::sync_dir("/").await.unwrap();
                time::sleep(std::time::Duration::from_millis(1)).await;
                seen.push(errno(b.write_all_at(0, Buf::from(vec![1; 1])).await.0));
            }
        });
        world.run_for(100 * MS);
        (log.all(), world.occupied(host, 0))
    });
    let full = Some(libc::ENOSPC);
    assert_eq!(log.value, (vec![None, full, full, None, full, None], 4096), "an open file keeps its room");
}

#[test]
fn bits_rot_where_they_are_told_to() {
    let value = sim::run(1, Settings::default(), |world| {
        let host = plain(world, 1, 1);
        let log = Log::new();
        let seen = log.clone();
        world.boot(host, move |_| {
            let seen = seen.clone();
            async move {
                for name in ["/a", "/b"] {
                    let file = fs::File::open(name, rw()).await.unwrap();
                    file.write_all_at(0, Buf::from(vec![0; 4096])).await.0.unwrap();
                }
                time::sleep(std::time::Duration::from_millis(10)).await;
                for name in ["/a", "/b"] {
                    seen.push(fs::read(name).await.unwrap());
                }
            }
        });
        world.run_for(MS);
        let rotten = world.rot(host, "/a", 3);
        assert!(world.rot_at(host, "/b", 100, 0xFF) && !world.rot_at(host, "/b", 4096, 0xFF));
        world.run_for(100 * MS);
        (rotten, log.all())
    })
    .value;
    let (rotten, contents) = value;
    assert_eq!(rotten.len(), 3);
    assert!(rotten.iter().all(|(path, offset)| path == "/a" && contents[0][*offset as usize] != 0));
    assert_eq!(contents[0].iter().filter(|byte| **byte != 0).count(), 3);
    assert_eq!(contents[1].iter().position(|byte| *byte == 0xFF), Some(100));
}
