//! The engine under faults, in simulation: nothing acknowledged is lost, nothing is invented, reads never go back.
//!
//! Each seed is a world of its own, the same every time. A failure ends with the command that repeats it.

mod client;
mod experiment;
mod session;
mod small;
mod start;

use std::ops::Range;

use experiment::{Record, Setup, Tally};
use sim::Settings;
use sim::oracles::{self, Violation};

fn world(seed: u64, setup: Setup) -> Record {
    sim::run(seed, Settings::default(), |world| experiment::run(world, setup)).value
}

/// Violations in words, with all that happened to the keys concerned.
fn tell(record: &Record, violations: &[Violation]) -> String {
    let mut text = format!("the faults of this seed:\n{}", record.schedule);
    for violation in violations.iter().take(3) {
        text += &format!("\n{violation}\n");
    }
    if violations.len() > 3 {
        text += &format!("\n.. and {} more\n", violations.len() - 3);
    }
    if let Some(first) = violations.first() {
        text += &format!("\neverything about key {:x}:\n{}", first.key, record.history.excerpt(first.key));
    }
    for complaint in &record.complaints {
        text += &format!("\n{complaint}");
    }
    text
}

fn commit() -> String {
    let head = std::process::Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let known = head.ok().filter(|output| output.status.success());
    known.map_or("unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn check(seed: u64, setup: Setup, test: &str) -> Tally {
    let record = world(seed, setup);
    let violations = oracles::at_quorum(&record.history);
    assert!(
        violations.is_empty() && record.complaints.is_empty(),
        "seed {seed}, commit {}: {}\n\nrepeat with: ORRERY_SEED={seed} cargo test -p orrery-tests --test faults {test}\n",
        commit(),
        tell(&record, &violations)
    );
    let tally = record.tally();
    println!("seed {seed}: {tally:?}, {} faults", record.schedule.lines().count());
    tally
}

/// The seed or the seeds (`A..B`) that the environment names, else all of `seeds`.
fn seeds_of(seeds: Range<u64>) -> Range<u64> {
    let Ok(text) = std::env::var("ORRERY_SEED") else { return seeds };
    let number = |text: &str| text.parse().unwrap_or_else(|error| panic!("ORRERY_SEED is no number: {error}"));
    match text.split_once("..") {
        Some((from, to)) => number(from)..number(to),
        None => number(&text)..number(&text) + 1,
    }
}

fn nothing_is_lost(seeds: Range<u64>, setup: Setup, test: &str) {
    let mut sum = Tally::default();
    let seeds = seeds_of(seeds);
    for seed in seeds.clone() {
        let tally = check(seed, setup, test);
        assert!(tally.done > tally.calls / 2, "seed {seed}: most calls should succeed: {tally:?}");
        sum.refused += tally.refused;
        sum.failed += tally.failed;
        sum.unanswered += tally.unanswered;
    }
    // Faults that nobody feels would show nothing; one seed alone may have but few, and where there is no power
    // nobody answers with a failure.
    let felt = sum.refused > 0 && sum.unanswered > 0 && (sum.failed > 0 || setup.blackouts);
    assert!(felt || seeds.end - seeds.start == 1, "{sum:?}");
}

macro_rules! seeds {
    ($($name:ident: $seeds:expr, $setup:expr;)*) => {$(
        #[test]
        fn $name() {
            nothing_is_lost($seeds, $setup, stringify!($name));
        }
    )*};
}

const USUAL: Setup = Setup { skip_sync: false, blackouts: false, schema_changes: false };

// Several tests, so that they run side by side.
seeds! {
    nothing_acknowledged_is_lost_0: 0..10, USUAL;
    nothing_acknowledged_is_lost_1: 10..20, USUAL;
    nothing_acknowledged_is_lost_2: 20..30, USUAL;
    nothing_acknowledged_is_lost_3: 30..40, USUAL;
    nothing_acknowledged_is_lost_4: 40..50, USUAL;
    schema_changes_under_faults: 0..10, Setup { schema_changes: true, ..USUAL };
    the_whole_cluster_loses_power: 0..10, Setup { blackouts: true, ..USUAL };
}

/// The oracles are worth something: an engine that does not sync its commit log is found out.
#[test]
fn an_engine_that_does_not_sync_is_found_out() {
    let seeds = seeds_of(0..10);
    let mut found = Vec::new();
    for seed in seeds.clone() {
        let record = world(seed, Setup { skip_sync: true, ..USUAL });
        let violations = oracles::at_quorum(&record.history);
        if !violations.is_empty() {
            found.push((seed, violations.len()));
        }
    }
    println!("seeds {seeds:?}: (seed, violations) {found:?}");
    assert!(!found.is_empty(), "none of the seeds {seeds:?} shows that the commit log was not synced");
}

#[test]
fn a_seed_is_the_same_world_every_time() {
    let settings = Settings::default();
    let setup = Setup { schema_changes: true, ..USUAL };
    let run = |seed| match sim::run_twice(seed, &settings, |world| experiment::run(world, setup)) {
        Ok(outcome) => outcome,
        Err(divergence) => panic!("{divergence}"),
    };
    let (first, other) = (run(1), run(2));
    assert!(first.events > 10_000, "{} events", first.events);
    assert_ne!(first.hash, other.hash);
    assert_ne!(first.value.history.to_string(), other.value.history.to_string());
}
