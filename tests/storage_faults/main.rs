//! One bare storage on simulated disks that lose power, lie, fail and fill up.
//!
//! `ORRERY_CRASH_POINTS=100000` makes the crash test as long as one likes (`cargo xtask crash-points --points 100000`);
//! `ORRERY_CRASH_SEED=7` runs one seed's crashes alone.

#![allow(clippy::unwrap_used)]

mod crash_points;
mod disk_faults;
mod model;
mod reading;
mod workload;

/// A few thousand: some seconds.
const CRASH_POINTS: u64 = 3_000;
/// Of one workload at most, so that many are met.
const POINTS_PER_SEED: u64 = 4_000;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text}")))
}

/// The oracle itself: a log that claims to have synced must be caught.
#[test]
#[should_panic(expected = "at boundary")]
fn a_log_that_is_not_synced_is_found_out() {
    for seed in 0..10 {
        crash_points::crash_everywhere_of(seed, u64::MAX, true);
    }
}

#[test]
fn a_crash_at_any_boundary_loses_nothing() {
    if let Some(seed) = number("ORRERY_CRASH_SEED") {
        crash_points::crash_everywhere(seed, u64::MAX);
        return;
    }
    let points = number("ORRERY_CRASH_POINTS").unwrap_or(CRASH_POINTS);
    let (mut done, mut seed) = (0, 0);
    while done < points {
        let new = crash_points::crash_everywhere(seed, POINTS_PER_SEED.min(points - done));
        assert!(new > 0, "a workload without boundaries");
        done += new;
        seed += 1;
        if points > CRASH_POINTS && seed % 5 == 0 {
            eprintln!("{done} crash points of {seed} workloads");
        }
    }
    println!("{done} crash points of {seed} workloads");
}
