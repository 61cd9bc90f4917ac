//! Both sides in turn, then medians and ratios.

use std::collections::BTreeMap;
use std::process::Command;

use crate::options::Options;

type Figures = BTreeMap<String, Vec<f64>>;

/// What is wanted of a ratio ours / theirs.
const WANTED: [(&str, f64); 3] = [("fill-rate", 1.0), ("cold-rate", 1.0), ("hot-rate", 1.5)];

pub fn compare(options: &Options) {
    let mut figures: BTreeMap<&str, Figures> = BTreeMap::new();
    for round in 0..options.rounds {
        println!("round {round}: load {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim());
        for side in ["orrery", "rocksdb"] {
            let folder = format!("{}/{side}", options.folder);
            let _ = std::fs::remove_dir_all(&folder);
            std::fs::create_dir_all(&folder).expect("a folder to write to");
            let own = std::env::current_exe().expect("a path of its own");
            let passed = std::env::args().skip(2).filter(|argument| argument.contains('='));
            let mut command = Command::new("taskset");
            command.arg("-c").arg(options.cpu.to_string()).arg(own).arg(side).arg(&folder).args(passed);
            let output = command.output().expect("taskset is installed");
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{side}: {text}{}", String::from_utf8_lossy(&output.stderr));
            let mut line = String::new();
            for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
                let Ok(number) = value.parse() else { continue };
                figures.entry(side).or_default().entry(name.into()).or_default().push(number);
                line += &format!(" {name}={value}");
            }
            println!("  {side}:{line}");
            if side == "orrery"
                && let Some(rate) = fio(options, &folder)
            {
                println!("  fio: cold-device-reads={rate:.0}");
                figures.entry("fio").or_default().entry("cold-device-reads".into()).or_default().push(rate);
            }
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
    println!("\n{:<24} {:>12} {:>12} {:>8}", "median", "orrery", "rocksdb", "ratio");
    let theirs = figures.remove("rocksdb").unwrap_or_default();
    let fio = figures.remove("fio").unwrap_or_default();
    for (name, mut values) in figures.remove("orrery").unwrap_or_default() {
        let Some(mut other) = theirs.get(&name).cloned() else { continue };
        let mut ratios: Vec<f64> = values.iter().zip(&other).map(|(a, b)| a / b).collect();
        let ratio = median(&mut ratios);
        let wanted = WANTED.iter().find(|(wanted, _)| *wanted == name);
        let verdict = wanted.map_or(String::new(), |(_, least)| {
            format!("  wanted {least:.1}: {}", if ratio >= *least { "held" } else { "missed" })
        });
        println!("{name:<24} {:>12.2} {:>12.2} {ratio:>8.2}{verdict}", median(&mut values), median(&mut other));
        if let Some(mut rates) = fio.get(&name).cloned() {
            let ratio = median(&mut values) / median(&mut rates);
            let verdict = if ratio >= 0.8 { "held" } else { "missed" };
            println!(
                "{:<24} {:>12} {:>12.2} {ratio:>8.2}  wanted 0.8: {verdict}",
                "  of fio's",
                "",
                median(&mut rates)
            );
        }
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Random 4 KiB reads a second from the largest file that our side has left, on the same core.
fn fio(options: &Options, folder: &str) -> Option<f64> {
    let file = largest(folder.as_ref())?;
    let output = Command::new("taskset")
        .args(["-c", &options.cpu.to_string(), "fio", "--name=reads", "--rw=randread", "--bs=4k", "--direct=1"])
        .args(["--ioengine=io_uring", "--thread", "--time_based", "--norandommap", "--randrepeat=0", "--readonly"])
        .args(["--output-format=terse", "--terse-version=3", &format!("--iodepth={}", options.depth)])
        .arg(format!("--filename={}", file.display()))
        .arg(format!("--runtime={}", options.read_seconds))
        .output()
        .ok()?;
    let line = String::from_utf8_lossy(&output.stdout);
    // Field 8 of terse version 3 is the read rate (fio's HOWTO, "Terse output").
    line.lines().find_map(|line| line.strip_prefix("3;")?.split(';').nth(6)?.parse().ok())
}

fn largest(folder: &std::path::Path) -> Option<std::path::PathBuf> {
    let mut found: Option<(u64, std::path::PathBuf)> = None;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).ok()?.flatten() {
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                folders.push(entry.path());
            } else if found.as_ref().is_none_or(|(len, _)| meta.len() > *len) {
                found = Some((meta.len(), entry.path()));
            }
        }
    }
    found.map(|(_, path)| path)
}
