//! What a run looks like, as snapshots.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use hwprofiles::Profiles;
use hwprofiles::quantity::Quantity;
use scenarios::record::{Kind, PhaseRecord, Resource, RunRecord, Timing};
use scenarios::{Explanation, Interval, LatencySummary, On, Timeline, Wait, load};

fn phase(name: &str, rate: f64, seconds: f64, warmup_s: f64, latency_ms: f64) -> PhaseRecord {
    let ns = |s: f64| (s * 1e9) as u64;
    let ms = |factor: f64| (latency_ms * factor * 1e6) as u64;
    let steps = 80;
    let interval_ns = ns(seconds / f64::from(steps));
    let series = (0..steps).map(|i| {
        let wave = f64::from((i * 37) % 11 - 5) / 100.0 - if i < 3 { 0.3 } else { 0.0 };
        Interval {
            begin_ns: interval_ns * i as u64,
            throughput: rate * (1.0 + wave),
            p50: ms(0.9 - wave),
            p99: ms(2.5 - wave * 9.0),
        }
    });
    PhaseRecord {
        name: name.to_string(),
        operations: (rate * seconds) as u64,
        measured: (rate * (seconds - warmup_s)) as u64,
        errors: BTreeMap::new(),
        start_ns: 0,
        duration_ns: ns(seconds),
        warmup_ns: ns(warmup_s),
        full_size_duration_s: None,
        full_size_quiesce_s: None,
        throughput: rate,
        latency: LatencySummary {
            mean: ms(1.0),
            p50: ms(0.9),
            p90: ms(1.6),
            p95: ms(1.9),
            p99: ms(2.5),
            p99_9: ms(4.0),
            max: ms(9.0),
        },
        start_latency: None,
        latency_uncorrected: None,
        interval_ns,
        series: series.collect(),
        resources: vec![
            Resource {
                name: "server CPU".into(),
                place: "node 2 shard 5".into(),
                utilisation_mean: 0.97,
                utilisation_max: 0.99,
                queue: 31.0,
            },
            Resource {
                name: "loader CPU".into(),
                place: "loader 1".into(),
                utilisation_mean: 0.64,
                utilisation_max: 0.66,
                queue: 1.2,
            },
        ],
        explanation: explanation(interval_ns),
        work_us: BTreeMap::new(),
        further: BTreeMap::new(),
    }
}

fn explanation(step_ns: u64) -> Explanation {
    let line = |name: &str, used: f64, queue: f64| Timeline {
        name: name.into(),
        step_ns,
        utilisation_mean: vec![used; 80],
        utilisation_max: vec![used * 1.02; 80],
        queue: vec![queue; 80],
    };
    let wait = |class: &str, on, us_per_operation| Wait { class: class.into(), on, us_per_operation };
    Explanation {
        timelines: vec![line("server CPU", 0.97, 31.0), line("data disk IOPS", 0.2, 0.4)],
        waits: vec![
            wait("statement", On::Work, 168.0),
            wait("statement", On::Cpu, 9_000.0),
            wait("all", On::Network, 700.0),
        ],
    }
}

fn records() -> Vec<RunRecord> {
    let data = Quantity::parse("1/1000").unwrap();
    let document = load::find("lowend/read-small").unwrap();
    let experiment = load::read_at(&document, &Profiles::embedded(), |scale| scale.data = data).unwrap();
    let shapes = [(49_000.0, 16.5, 121_800.0, 9.8), (41_500.0, 19.5, 50_100.0, 24.0)];
    let runs = experiment.runs.iter().zip(shapes);
    runs.map(|(run, (write, write_s, read, latency))| {
        let phases =
            vec![phase("populate", write, write_s, 0.0, latency * 1.9), phase("read-small", read, 1.28, 0.2, latency)];
        RunRecord::new(Kind::Simulated, run, phases)
    })
    .collect()
}

#[test]
fn a_run_as_text() {
    let timing = Timing { wall_s: 31.4, virtual_s: 17.8, events_per_s: 5_123_456.0, operations_per_s: 48_200.0 };
    let mut record = records().remove(0);
    record.phases[0].errors.insert("write timeout".into(), 12);
    record.phases[0].resources[0].utilisation_mean = 0.71;
    insta::assert_snapshot!(reports::run_table(&record, Some(&timing)));
}

#[test]
fn a_run_as_json_lines() {
    let text = reports::json_lines([&records()[0]]);
    let some: Vec<&str> = text.lines().filter(|l| l.contains("throughput") || l.contains("duration")).collect();
    insta::assert_snapshot!(some.join("\n"));
}

#[test]
fn the_picture_is_the_same_every_time_and_needs_no_fonts() {
    let records = records();
    let all: Vec<&RunRecord> = records.iter().collect();
    let picture = reports::plot::svg(&all).unwrap();
    assert_eq!(picture, reports::plot::svg(&all).unwrap());
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for words in ["lowend/read-small", "scylla-1.6.1", "published 124,958 op/s", "operations a second"] {
        assert!(picture.contains(words), "{words}");
    }
    if let Some(path) = std::env::var_os("ORRERY_PLOT") {
        std::fs::write(path, picture).unwrap();
    }
}

#[test]
fn files_are_written_and_read_back() {
    let out = tempfile::tempdir().unwrap();
    let record = &records()[1];
    let folder = reports::write(out.path(), record, Some(&Timing::default())).unwrap();
    assert!(folder.ends_with("lowend/read-small/cassandra-3.0.9/1"));
    let text = std::fs::read_to_string(folder.join("record.json")).unwrap();
    assert_eq!(&serde_json::from_str::<RunRecord>(&text).unwrap(), record);
    let mut recorder = scenarios::Recorder::new(0, 0, None);
    for ended_ns in [1_000_000, 1_000_000, 5_000_000] {
        recorder.record(scenarios::latency::Timing { due_ns: 0, begun_ns: 0, ended_ns });
    }
    reports::write_histogram(&folder, "read", &recorder).unwrap();
    let csv = std::fs::read_to_string(folder.join("hdr/read.csv")).unwrap();
    assert_eq!(csv.lines().map(|l| l.rsplit(',').next().unwrap()).collect::<Vec<_>>(), ["operations", "2", "3"]);
    assert!(folder.join("plot.svg").exists() && folder.join("timing.json").exists());
}

#[test]
fn the_page_has_it_all_in_one_file() {
    let records = records();
    let all: Vec<&RunRecord> = records.iter().collect();
    let page = reports::html(&all).unwrap();
    assert_eq!(page, reports::html(&all).unwrap());
    for words in [
        "<h1>lowend/read-small</h1>",
        "124,958",
        "fitted",
        "read-small: resources over time",
        "data disk IOPS",
        "<th>own work</th><th>CPU</th><th>network</th>",
        "<tr><td>statement</td><td>168</td><td>9,000</td><td></td></tr>",
    ] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains("href"), "it stands alone");
    if let Some(path) = std::env::var_os("ORRERY_PAGE") {
        std::fs::write(path, page).unwrap();
    }
}

/// Of one system, whose second seed reads half as fast again.
fn two_seeds() -> [RunRecord; 2] {
    let mut records = [records().remove(0), records().remove(0)];
    records[1].seed += 1;
    records[1].phases[1].throughput *= 1.5;
    records
}

#[test]
fn several_seeds_are_told_by_their_median() {
    let records = two_seeds();
    insta::assert_snapshot!(reports::seeds_table(&records));
    assert_eq!(reports::seeds_table(&records[..1]), "", "there is nothing to add");
    let lines = reports::lines(&records);
    let throughput: Vec<f64> =
        lines.iter().filter(|l| l.phase == "read-small" && l.metric == "throughput").map(|l| l.value).collect();
    assert_eq!(throughput, [152_250.0], "one line for both");
}

#[test]
fn several_seeds_make_a_bar() {
    let records = two_seeds();
    let one = reports::html(&[&records[0]]).unwrap();
    let both = reports::html(&[&records[0], &records[1]]).unwrap();
    let dots = |page: &str| page.matches("<circle").count();
    assert_eq!(dots(&one), dots(&both), "one dot for each published value");
    assert!(both.contains("(+21.8 %, fitted)"), "the median of both seeds");
    assert!(both.contains("2 seeds"));
}
