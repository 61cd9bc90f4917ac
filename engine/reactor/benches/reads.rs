//! Random 4 KiB O_DIRECT reads from one shard on one core, at a fixed depth.
//!
//! Alternates with `fio --ioengine=io_uring` on the same file and prints each round, the medians and their ratio:
//!
//!     cargo bench -p orrery-reactor --bench reads -- FILE [gib=2] [depth=64] [seconds=4] [rounds=5] [cpu=1]
//!
//! FILE is created if it is missing (written out, not sparse: unwritten blocks are answered without the device). Both
//! sides read blocks of one file at offsets drawn uniformly; fio runs with `--norandommap`, which is what ours does.
//! Figures of one run say little on a machine with other work: look at the ratio.

#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods)] // measures the real world from outside of it

use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use reactor::fs::File;
use reactor::uring::{self, Config};
use reactor::{Buf, Group, OpenFlags};

const BLOCK: usize = 4096;

struct Options {
    file: String,
    gib: u64,
    depth: usize,
    seconds: u64,
    rounds: usize,
    cpu: usize,
}

fn options() -> Option<Options> {
    let mut options = Options { file: String::new(), gib: 2, depth: 64, seconds: 4, rounds: 5, cpu: 1 };
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("gib", value)) => options.gib = value.parse().ok()?,
            Some(("depth", value)) => options.depth = value.parse().ok()?,
            Some(("seconds", value)) => options.seconds = value.parse().ok()?,
            Some(("rounds", value)) => options.rounds = value.parse().ok()?,
            Some(("cpu", value)) => options.cpu = value.parse().ok()?,
            None if argument == "--bench" => {}
            None => options.file = argument,
            _ => return None,
        }
    }
    (!options.file.is_empty()).then_some(options)
}

fn main() {
    let Some(options) = options() else {
        eprintln!(
            "reads: name a file on the disk to measure: -- FILE [gib=2] [depth=64] [seconds=4] [rounds=5] [cpu=1]"
        );
        return;
    };
    lay_out(&options);
    let (mut ours, mut fios, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let (rate, cpu_us) = read(&options);
        let fio = fio(&options);
        println!("round {round}: shard {rate:.0}/s at {cpu_us:.2} us CPU each, fio {fio:.0}/s");
        ours.push(rate);
        fios.push(fio);
        ratios.push(rate / fio);
    }
    println!(
        "median: shard {:.0}/s, fio {:.0}/s, ratio {:.3}",
        median(&mut ours),
        median(&mut fios),
        median(&mut ratios)
    );
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn lay_out(options: &Options) {
    if std::fs::metadata(&options.file).is_ok_and(|meta| meta.len() >= options.gib << 30) {
        return;
    }
    let (path, len) = (options.file.clone(), options.gib << 30);
    uring::block_on(async move {
        let flags = OpenFlags { write: true, create: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.unwrap();
        let mut buf = Buf::direct(1 << 20);
        buf.resize(1 << 20, 0x5a);
        for offset in (0..len).step_by(1 << 20) {
            let (result, back) = file.write_all_at(offset, buf).await;
            result.unwrap();
            buf = back;
        }
        file.datasync().await.unwrap();
    })
    .unwrap();
}

/// Reads a second, and CPU a read.
fn read(options: &Options) -> (f64, f64) {
    let config = Config { cpus: Some(vec![options.cpu]), ..Config::default() };
    let (path, blocks, depth) = (options.file.clone(), (options.gib << 30) / BLOCK as u64, options.depth);
    let duration = Duration::from_secs(options.seconds);
    uring::block_on_with(config, move || async move {
        let flags = OpenFlags { read: true, direct: true, ..Default::default() };
        let file = File::open(&path, flags).await.unwrap();
        let done = Rc::new(std::cell::Cell::new(0u64));
        let (began, cpu_began) = (Instant::now(), cpu());
        let until = reactor::now() + duration.as_nanos() as u64;
        let readers: Vec<_> = (0..depth)
            .map(|_| {
                let (file, done) = (file.clone(), done.clone());
                reactor::spawn(Group::Statement, "reader", async move {
                    let mut buf = Buf::direct(BLOCK);
                    while reactor::now() < until {
                        buf.clear();
                        let offset = reactor::random() % blocks * BLOCK as u64;
                        let (result, back) = file.read_at(offset, BLOCK, buf).await;
                        assert_eq!(result.unwrap(), BLOCK);
                        buf = back;
                        done.set(done.get() + 1);
                    }
                })
            })
            .collect();
        for reader in readers {
            reader.await;
        }
        let done = done.get() as f64;
        (done / began.elapsed().as_secs_f64(), (cpu() - cpu_began) * 1e6 / done)
    })
    .unwrap()
}

/// Seconds of CPU of this thread.
fn cpu() -> f64 {
    // SAFETY: all-zero bytes are a valid timespec.
    let mut time: libc::timespec = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes one timespec, which is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn fio(options: &Options) -> f64 {
    let output = Command::new("taskset")
        .args(["-c", &options.cpu.to_string(), "fio", "--name=reads", "--rw=randread", "--bs=4k", "--direct=1"])
        .args(["--ioengine=io_uring", "--thread", "--time_based", "--norandommap", "--randrepeat=0"])
        .args(["--output-format=terse", "--terse-version=3"])
        .arg(format!("--filename={}", options.file))
        .arg(format!("--size={}g", options.gib))
        .arg(format!("--iodepth={}", options.depth))
        .arg(format!("--runtime={}", options.seconds))
        .output()
        .expect("fio and taskset are installed");
    let line = String::from_utf8_lossy(&output.stdout);
    // Field 8 of terse version 3 is the read rate (fio's HOWTO, "Terse output").
    let rate = line.lines().find_map(|line| line.strip_prefix("3;")?.split(';').nth(6)?.parse().ok());
    rate.unwrap_or_else(|| panic!("fio said: {line}{}", String::from_utf8_lossy(&output.stderr)))
}
