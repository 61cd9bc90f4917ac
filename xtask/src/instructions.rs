//! Instructions that the hot paths take, counted by valgrind beside the figures recorded before.
//!
//! A count does not depend on how busy the machine is: it says what a time would not on shared hardware. Drift is
//! printed and fails nothing; a figure that cannot be had does, save where valgrind is not to be had at all.

use std::process::Command;

use crate::{Failed, cargo, checkout};

const RECORDED: &str = "xtask/instructions.txt";

/// A bench that knows `count WHAT TIMES`.
struct Counter {
    package: &'static str,
    bench: &'static str,
    /// What it calls a thing that it counts, and what that is.
    counts: &'static [(&'static str, &'static str)],
}

const COUNTERS: [Counter; 2] = [
    Counter {
        package: "orrery-storage",
        bench: "hot_paths",
        counts: &[
            ("insert", "a new row into commit log and memtable"),
            ("cached-read", "a read from the row cache"),
            ("pieces-read", "a read of 17 rows of 1 KiB, which the row cache has in pieces"),
            ("sstable-read", "a read of one SSTable, nothing cached"),
            ("compaction", "a row of an SSTable of 2000 that is compacted alone"),
        ],
    },
    Counter {
        package: "orrery-server",
        bench: "prepared",
        counts: &[
            ("prepared-read", "a prepared SELECT of a cached row, frame to frame, without the network"),
            ("prepared-write", "a prepared INSERT, frame to frame, without the network"),
        ],
    },
];

/// The difference of two runs leaves out what is beside the thing itself.
const TIMES: [u64; 2] = [2000, 4000];

/// `record` replaces the recorded figures by those of this run.
pub fn run(record: bool) -> Result<(), Failed> {
    if !has_valgrind() {
        println!("instructions: valgrind is not here and cannot be installed (apt-get install valgrind): not counted");
        return Ok(());
    }
    let recorded = std::fs::read_to_string(checkout().join(RECORDED)).unwrap_or_default();
    let before = |name: &str| {
        let line = recorded.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
    };
    let mut lines =
        String::from("# Instructions each, counted by `cargo xtask instructions record` (release, x86-64).\n");
    println!("{:<14} {:>9} {:>9} {:>8}", "instructions", "now", "recorded", "change");
    let binaries = COUNTERS.iter().map(build).collect::<Result<Vec<_>, _>>()?;
    let counted = COUNTERS
        .iter()
        .zip(&binaries)
        .flat_map(|(counter, binary)| counter.counts.iter().map(move |(name, what)| (binary, name, what)));
    for (binary, name, what) in counted {
        let counts = TIMES.map(|times| count(binary, name, times));
        let [few, many] = [counts[0].clone()?, counts[1].clone()?];
        let each = many.saturating_sub(few) / (TIMES[1] - TIMES[0]);
        let (then, change) = match before(name) {
            Some(then) if then > 0 => {
                (then.to_string(), format!("{:+.1} %", (each as f64 / then as f64 - 1.0) * 100.0))
            }
            _ => ("-".into(), "-".into()),
        };
        println!("{name:<14} {each:>9} {then:>9} {change:>8}  {what}");
        lines += &format!("{name} {each}  {what}\n");
    }
    if record {
        let failed = |error: std::io::Error| Failed { line: format!("writing {RECORDED}: {error}"), code: 1 };
        std::fs::write(checkout().join(RECORDED), lines).map_err(failed)?;
    }
    Ok(())
}

fn has_valgrind() -> bool {
    let there = || Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if there() {
        return true;
    }
    eprintln!("xtask: installing valgrind, once for this machine");
    let _ = Command::new("apt-get").args(["install", "-y", "-qq", "valgrind"]).output();
    there()
}

/// The path of the bench's binary.
fn build(counter: &Counter) -> Result<String, Failed> {
    let mut command = cargo();
    command.args(["build", "--release", "--package", counter.package, "--bench", counter.bench]);
    command.args(["--message-format", "json"]).stderr(std::process::Stdio::inherit());
    let failed = |why: &str| Failed { line: format!("cargo build --bench {}: {why}", counter.bench), code: 1 };
    let output = command.output().map_err(|error| failed(&error.to_string()))?;
    if !output.status.success() {
        return Err(failed("it does not build"));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let named = format!("\"name\":\"{}\"", counter.bench);
    let path = text.lines().filter(|line| line.contains(&named)).find_map(|line| {
        let (_, rest) = line.split_once("\"executable\":\"")?;
        rest.split_once('"').map(|(path, _)| path.to_string())
    });
    path.ok_or_else(|| failed("no binary is named"))
}

fn count(binary: &str, name: &str, times: u64) -> Result<u64, Failed> {
    let times = times.to_string();
    let line = format!("valgrind --tool=callgrind {binary} count {name} {times}");
    let failed = |why: &str| Failed { line: format!("{line}: {why}"), code: 1 };
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", binary, "count", name, &times])
        .output()
        .map_err(|error| failed(&error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split_once("Collected : "));
    let figure = collected.and_then(|(_, figure)| figure.trim().parse().ok());
    figure.filter(|_| output.status.success()).ok_or_else(|| failed(&text))
}
