//! Golden picks: pictures in `testdata/*.txt`, what is picked beside them in the snapshots.
//!
//! A case is a paragraph: comments, the options, perhaps `now=..` and `memtable=..`, then an SSTable a line: generation,
//! MiB, and what differs from the default (`L1`, `keys 0..50` in percent of the ring, `ts 5..9`, `dies 7`, `droppable .3`,
//! `made 5`, `run 3`, `busy`). The picks are what would run side by side: each is busy for the next.

use std::collections::BTreeMap;

use types::Token;

use super::{Memory, Strategy};
use crate::NEVER_S;
use crate::compaction::picture::{Candidate, Job, Picture};
use crate::sstable::Standing;

const MIB: u64 = 1 << 20;
/// Enough to see that it ends or goes on.
const PICKS_MAX: usize = 5;

fn token(percent: &str) -> Token {
    let percent: i128 = percent.parse().unwrap();
    Token((i128::from(i64::MIN) + 1 + percent * ((1i128 << 64) - 2) / 100) as i64)
}

fn candidate(line: &str) -> Candidate {
    let mut words = line.split_whitespace();
    let generation = words.next().unwrap().parse().unwrap();
    let bytes = words.next().unwrap().parse::<u64>().unwrap() * MIB;
    let mut candidate = Candidate {
        generation,
        bytes,
        standing: Standing { level: 0, run: generation, made_s: 0, from: None },
        first: token("0"),
        last: token("100"),
        min_timestamp: 0,
        max_timestamp: generation as i64,
        max_local_deletion_s: NEVER_S,
        droppable: 0.0,
        busy: false,
    };
    while let Some(word) = words.next() {
        let mut range = || words.next().unwrap().split_once("..").unwrap();
        match word {
            "busy" => candidate.busy = true,
            "keys" => {
                let (first, last) = range();
                (candidate.first, candidate.last) = (token(first), token(last));
            }
            "ts" => {
                let (min, max) = range();
                (candidate.min_timestamp, candidate.max_timestamp) = (min.parse().unwrap(), max.parse().unwrap());
            }
            "dies" => candidate.max_local_deletion_s = words.next().unwrap().parse().unwrap(),
            "droppable" => candidate.droppable = words.next().unwrap().parse().unwrap(),
            "made" => candidate.standing.made_s = words.next().unwrap().parse().unwrap(),
            "run" => candidate.standing.run = words.next().unwrap().parse().unwrap(),
            level => candidate.standing.level = level.strip_prefix('L').unwrap().parse().unwrap(),
        }
    }
    candidate
}

fn show(job: &Job) -> String {
    let split = match job.split_bytes {
        u64::MAX => String::new(),
        bytes => format!(", in parts of {} MiB", bytes / MIB),
    };
    format!("{} {:?} -> L{}{split}", job.kind.name(), job.inputs, job.level)
}

fn decide(case: &str) -> String {
    let mut options = BTreeMap::new();
    let mut picture = Picture { now_s: 1000, gc_before_s: 900, memtable_min_timestamp: i64::MAX, ..Picture::default() };
    let mut rounds = 1;
    for line in case.lines().filter(|line| !line.starts_with('#')) {
        if line.starts_with(|c: char| c.is_ascii_digit()) {
            picture.sstables.push(candidate(line));
            continue;
        }
        for (name, value) in line.split_whitespace().map(|pair| pair.split_once('=').unwrap()) {
            match name {
                "now" => {
                    picture.now_s = value.parse().unwrap();
                    picture.gc_before_s = picture.now_s - 100;
                }
                "memtable" => picture.memtable_min_timestamp = value.parse().unwrap(),
                "rounds" => rounds = value.parse().unwrap(),
                "class" => drop(options.insert("class".to_string(), format!("{value}CompactionStrategy"))),
                _ => drop(options.insert(name.to_string(), value.to_string())),
            }
        }
    }
    let strategy = Strategy::parse(&options, 50 << 20).unwrap();
    let mut memory = Memory::default();
    let mut out = case.trim_end().to_string();
    // As if each pick had come to nothing: what is remembered shows.
    for _ in 1..rounds {
        strategy.pick(&picture, &mut memory);
    }
    out.push_str(&format!("\n=> {} pending", strategy.pending(&picture, &memory)));
    for _ in 0..PICKS_MAX {
        let Some(job) = strategy.pick(&picture, &mut memory) else { break };
        out.push_str(&format!("\n=> {}", show(&job)));
        for candidate in picture.sstables.iter_mut().filter(|c| job.inputs.contains(&c.generation)) {
            assert!(!candidate.busy, "{case}");
            candidate.busy = true;
        }
    }
    for job in strategy.major(&picture, false) {
        out.push_str(&format!("\n=> {}", show(&job)));
    }
    out
}

#[track_caller]
fn golden(name: &str, cases: &str) {
    let shown: Vec<String> = cases.split("\n\n").filter(|case| !case.trim().is_empty()).map(decide).collect();
    insta::with_settings!({ snapshot_path => "../testdata", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, shown.join("\n\n"));
    });
}

#[test]
fn size_tiered() {
    golden("size_tiered", include_str!("../testdata/size_tiered.txt"));
}

#[test]
fn leveled() {
    golden("leveled", include_str!("../testdata/leveled.txt"));
}

#[test]
fn time_window() {
    golden("time_window", include_str!("../testdata/time_window.txt"));
}

#[test]
fn incremental() {
    golden("incremental", include_str!("../testdata/incremental.txt"));
}

#[test]
fn tombstones() {
    golden("tombstones", include_str!("../testdata/tombstones.txt"));
}
