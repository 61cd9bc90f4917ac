//! `orrery probe`: what this machine's disk, processor and loopback do, as profiles and as a node's `io_properties.yaml`.

use std::path::Path;

use ::validate::probe::{self, Document, Options, Probe, ProbeError};

use crate::args;
use crate::exit::{Code, Failure, with_causes};
use crate::steps::Steps;

pub fn run(args: &args::Probe) -> Result<(), Failure> {
    let options = if args.quick { Options::quick() } else { Options::full(args.seconds) };
    let steps = Steps::begin();
    let probe = probe::run(&args.folder, options, &|what, part| steps.tell(what, part)).map_err(failure)?;
    drop(steps);
    write(&args.out, &probe::documents(&probe, &args.name))?;
    if args.json {
        println!("{}", serde_json::to_string(&probe).map_err(Failure::unexpected)?);
        return Ok(());
    }
    show(&probe);
    println!("profiles      `{}` in {}", args.name, args.out.display());
    Ok(())
}

/// Writes profiles into a folder, made if it is missing.
pub fn write(folder: &Path, documents: &[Document]) -> Result<(), Failure> {
    for document in documents {
        let path = folder.join(&document.path);
        let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
        written.and_then(|()| std::fs::write(&path, &document.text)).map_err(|error| {
            Failure::with_help(
                Code::Usage,
                format!("cannot write {}: {error}", path.display()),
                "name a folder that can be written with --out",
            )
        })?;
    }
    Ok(())
}

fn failure(error: ProbeError) -> Failure {
    let code =
        if matches!(error, ProbeError::File { .. } | ProbeError::Path(_)) { Code::Usage } else { Code::Unexpected };
    Failure::with_help(
        code,
        with_causes(&error),
        "name a folder on the disk to be measured that can be written, on a file system that knows O_DIRECT (no tmpfs)",
    )
}

fn show(probe: &Probe) {
    let Probe { host, interruptions, disk, network, .. } = probe;
    let us = |ns: u64| ns as f64 / 1e3;
    let mib = |bytes: f64| bytes / f64::from(1 << 20);
    println!(
        "processor     {}, {} threads of {} cores, {:.3} GHz, Linux {}",
        host.processor, host.cpus, host.cores, host.clock_ghz, host.kernel
    );
    for found in interruptions {
        println!(
            "  is taken    for {:.0} us, p99 {:.0} us, each {:.1} ms of work",
            us(found.lasts.p50),
            us(found.lasts.p99),
            found.every_ns as f64 / 1e6
        );
    }
    if interruptions.is_empty() {
        println!("  is taken    never");
    }
    println!("disk          {} under {} ({})", disk.device, disk.mountpoint, disk.filesystem);
    for (name, spread, iops, bandwidth) in [
        ("reads", disk.read, disk.read_iops, disk.read_bandwidth),
        ("writes", disk.write, disk.write_iops, disk.write_bandwidth),
    ] {
        println!(
            "  {name:11} 4 KiB alone p50 {:.0} us, p99 {:.0} us; at most {iops:.0}/s of 4 KiB, {:.0} MiB/s",
            us(spread.p50),
            us(spread.p99),
            mib(bandwidth)
        );
    }
    println!(
        "  reads       {} of 4 KiB at once p50 {:.0} us, p99 {:.0} us",
        probe::disk::TOGETHER,
        us(disk.read_together.p50),
        us(disk.read_together.p99)
    );
    println!(
        "  fdatasync   p50 {:.0} us, p99 {:.0} us; of a growing file {:.0} us, {:.0} us",
        us(disk.sync_within.p50),
        us(disk.sync_within.p99),
        us(disk.sync_extending.p50),
        us(disk.sync_extending.p99)
    );
    println!("  reads a second, p50 and p99 in us, beside writes of 128 KiB:");
    for row in disk.matrix.chunk_by(|a, b| a.offered_writes == b.offered_writes) {
        let written = row.iter().map(|point| point.written_bytes).fold(0.0, f64::max);
        print!("  {:5.0} MiB/s", mib(written));
        for point in row {
            print!(" {:7.0} {:5.0} {:6.0} ", point.reads, point.read_p50_us, point.read_p99_us);
        }
        println!();
    }
    println!("  written     {:.1} GiB, the probe's wear", disk.bytes_written as f64 / f64::from(1 << 30));
    let (awake, asleep, wake) = (network.wakes.awake, network.wakes.asleep, network.wakes.wake());
    println!(
        "loopback      round trip p50 {:.1} us, p99 {:.1} us; {:.1} us, {:.1} us to a thread that sleeps",
        us(awake.p50),
        us(awake.p99),
        us(asleep.p50),
        us(asleep.p99)
    );
    println!("  timers      p50 {:.1} us late, p99 {:.1} us", us(network.wakes.timer.p50), us(network.wakes.timer.p99));
    if let Some(doze) = network.wakes.doze() {
        println!("  doze        of {:.0} us, wake-up {:.1} us", us(doze.lasts_ns), us(doze.wake.p50));
    }
    println!(
        "  wake-up     p50 {:.1} us; {:.0} round trips/s of 16 connections; {:.0} MiB/s",
        us(wake.p50),
        network.messages,
        mib(network.bandwidth)
    );
}
