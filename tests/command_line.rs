//! The binary as a user meets it: exit codes, where results and mistakes are printed, and runs that repeat.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use orrery_tests::binary;
use orrery_tests::node::Server;

const SCENARIO: &str = "\
name: tiny
cluster: {system: orrery, instance: c3.2xlarge, nodes: 3, data_disk: ebs-gp2-3400g, commitlog_disk: c3-local-ssd-raid0, network: one-zone}
loaders: {instance: m4.2xlarge, nodes: 1}
schema: {keyspace: {replication_factor: 3}, table: cassandra-stress-default}
phases:
  - {name: write, stress: \"write n=2000 cl=QUORUM -pop seq=1..2000 -rate threads=20\"}
  - {name: read, stress: \"read n=2000 cl=QUORUM -pop dist=uniform(1..2000) -rate threads=20\"}
";

fn orrery(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary::orrery());
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().expect("the binary starts")
}

/// The exit code, standard output and standard error.
fn run(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = orrery(folder, arguments);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Everything below a folder that has this name.
fn find(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("a folder").path()) {
        if entry.is_dir() {
            found.extend(find(&entry, name));
        } else if entry.ends_with(name) {
            found.push(entry);
        }
    }
    found
}

#[test]
fn a_bad_scenario_exits_with_3_and_says_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let cases = [
        // From, to, the place (line and column count from 1), the suggestion.
        ("{name: write", "{nmae: write", "bad.yaml:6:6", "name"),
        ("cl=QUORUM -pop seq", "cl=QORUM -pop seq", "bad.yaml:6:", "QUORUM"),
        ("instance: c3.2xlarge", "instance: c3.2xlrage", "bad.yaml:2:", "c3.2xlarge"),
        ("replication_factor: 3", "replication_factor: 5", "bad.yaml:4:", "nodes"),
    ];
    for (from, to, place, suggestion) in cases {
        assert!(SCENARIO.contains(from), "{from}");
        fs::write(folder.path().join("bad.yaml"), SCENARIO.replacen(from, to, 1)).expect("the folder is ours");
        for command in ["check", "run"] {
            let (code, shown, said) = run(folder.path(), &[command, "bad.yaml"]);
            assert_eq!(code, Some(3), "{command} with {to}: {said}");
            assert_eq!(shown, "", "mistakes are no results");
            assert!(said.contains(place) && said.contains(suggestion), "{command} with {to}: {said}");
        }
    }
    let (code, _, said) = run(folder.path(), &["run", "lowend/read-smal"]);
    assert_eq!(code, Some(3));
    assert!(said.contains("lowend/read-small"), "{said}");
}

#[test]
fn a_bad_command_line_exits_with_2() {
    let folder = tempfile::tempdir().expect("a folder");
    for arguments in
        [&["nothing"][..], &[], &["run"], &["run", "--seed", "x", "lowend/read-small"], &["serve", "--listen", "here"]]
    {
        let (code, shown, said) = run(folder.path(), arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(shown.is_empty() && said.contains("Usage") || said.contains("--help"), "{arguments:?}: {said}");
    }
    // Told before anything is simulated.
    fs::write(folder.path().join("tiny.yaml"), SCENARIO).expect("the folder is ours");
    let (code, shown, said) = run(folder.path(), &["run", "tiny.yaml", "--out", "tiny.yaml"]);
    assert_eq!((code, shown.as_str()), (Some(2), ""), "{said}");
    assert!(said.contains("tiny.yaml cannot be made") && said.contains("--out"), "{said}");
}

#[test]
fn settings_that_cannot_be_exit_with_3_before_anything_is_served() {
    let folder = tempfile::tempdir().expect("a folder");
    for (setting, suggestion) in [
        ("memtable_cleanup_threshold: 1.5", "above 0 and below 1"),
        ("memtable_cleanup_threshold: 0", "above 0 and below 1"),
        ("otc_coalescing_strategy: SOMETIMES", "TIMEHORIZON or DISABLED"),
    ] {
        fs::write(folder.path().join("node.yaml"), format!("{setting}\n")).expect("the folder is ours");
        let (code, _, said) = run(folder.path(), &["serve", "--config", "node.yaml", "--listen", "127.0.0.1:0"]);
        assert_eq!(code, Some(3), "{setting}: {said}");
        assert!(said.contains(setting.split(':').next().expect("a name")) && said.contains(suggestion), "{said}");
    }
}

#[test]
fn what_the_binary_carries_is_valid_and_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, said) = run(folder.path(), &["check"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, shown, said) = run(folder.path(), &["list"]);
    assert_eq!(code, Some(0), "{said}");
    for name in ["lowend/read-small", "lowend/writes-scylla", "scylla-1.6.1", "cassandra-3.0.9", "c3.2xlarge"] {
        assert!(shown.contains(name), "{name} is not in\n{shown}");
    }
}

#[test]
fn a_seed_repeats_byte_for_byte_and_another_does_not() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tiny.yaml"), SCENARIO).expect("the folder is ours");
    let record = |out: &str, seed: &str| {
        let (code, shown, said) = run(folder.path(), &["run", "tiny.yaml", "--seed", seed, "--out", out]);
        assert_eq!(code, Some(0), "{said}");
        assert!(shown.contains("write") && shown.contains("read"), "{shown}");
        let found = find(&folder.path().join(out), "record.json");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(!find(&folder.path().join(out), "plot.svg").is_empty(), "the run draws a plot");
        fs::read_to_string(&found[0]).expect("a record")
    };
    let (one, two, other) = (record("one", "7"), record("two", "7"), record("other", "8"));
    let first = one.lines().zip(two.lines()).enumerate().find(|(_, (one, two))| one != two);
    assert_eq!(first, None, "the first line where two runs of one seed differ");
    assert_eq!(one.len(), two.len());
    assert_ne!(one, other, "another seed is another run");
}

#[test]
fn a_bench_drives_a_server_and_exits_with_8_without_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start();
    let address = server.address().to_string();
    for stress in ["write n=2000 cl=ONE -rate threads=8", "read n=2000 cl=ONE -rate threads=8"] {
        let (code, shown, said) = run(folder.path(), &["bench", stress, "--node", &address]);
        assert_eq!(code, Some(0), "{stress}: {said}");
        assert!(shown.contains("2,000") || shown.contains("2000"), "{stress}: {shown}");
    }
    server.kill();
    let (code, _, said) =
        run(folder.path(), &["bench", "read n=1 cl=ONE -rate threads=1", "--node", &address, "--wait", "0s"]);
    assert_eq!(code, Some(8), "{said}");
}

/// Every kind of load that no scenario of the suite has: rates searched for, YCSB, rows of wide partitions.
const KINDS: &str = "\
name: kinds
cluster: {system: orrery, instance: c3.2xlarge, nodes: 3, data_disk: ebs-gp2-3400g, commitlog_disk: c3-local-ssd-raid0, network: one-zone}
loaders: {instance: m4.2xlarge, nodes: 1}
schema: {keyspace: {replication_factor: 3}, row: {columns: 10, column_bytes: 20}}
scale: {data: 1/1000, window: 100 ms, warmup: 20 ms}
phases:
  - {name: load, mix: {write: 1}, keys: {sequence: {from: 1, to: 1000000}}, arrival: {closed: 40}, operations: 1000000, quiesce: true, major_compaction_after: true}
  - {name: a, ycsb: a, records: 1000000, arrival: {closed: 20}, duration: 10s}
  - {name: d, ycsb: d, records: 1000000, arrival: {closed: 20}, duration: 10s}
  - {name: e, ycsb: e, records: 1000000, arrival: {closed: 20}, duration: 10s}
  - {name: f, ycsb: f, records: 1000000, arrival: {open: 2k/s}, duration: 10s}
  - {name: compacting, mix: {read: 1}, keys: {uniform: {from: 1, to: 1000000}}, arrival: {open: 2k/s}, duration: 10h, meanwhile: {major_compaction: {node: 1}}}
  - name: rate
    mix: {write: 1, read: 1}
    keys: {uniform: {from: 1, to: 1000000}}
    arrival: {closed: 100}
    duration: 10s
    quiesce: before
    search: {from: 2k/s, to: 10k/s, step: 2k/s, p99_under: 50 ms}
reference:
  - {phase: rate-read-slo, metric: max_throughput_p99_under_10ms, value: 10000 op/s, source: measured}
";

/// The values that a run printed as JSON, by phase and metric; what it says on standard error if it fails.
fn values(folder: &Path, scenario: &str) -> BTreeMap<(String, String), f64> {
    let (code, shown, said) = run(folder, &["run", "--json", scenario]);
    assert_eq!(code, Some(0), "{said}");
    let field = |line: &serde_json::Value, name: &str| line[name].as_str().expect("a name").to_string();
    let lines = shown.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    lines.map(|l| ((field(&l, "phase"), field(&l, "metric")), l["value"].as_f64().expect("a number"))).collect()
}

/// The phases of the run recorded in a folder, none of whose operations failed.
fn without_errors(folder: &Path) -> Vec<serde_json::Value> {
    let record = fs::read_to_string(&find(folder, "record.json")[0]).expect("a record");
    let record: serde_json::Value = serde_json::from_str(&record).expect("JSON");
    let phases = record["phases"].as_array().expect("phases");
    for phase in phases {
        assert_eq!(phase["errors"], serde_json::json!({}), "{}", phase["name"]);
    }
    phases.clone()
}

#[test]
fn every_kind_of_load_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("kinds.yaml"), KINDS).expect("the folder is ours");
    let values = values(folder.path(), "kinds.yaml");
    let value = |phase: &str, metric: &str| {
        *values.get(&(phase.into(), metric.into())).unwrap_or_else(|| panic!("{phase} has no {metric}: {values:?}"))
    };
    for phase in ["load", "a", "d", "e", "f"] {
        assert!(value(phase, "throughput") > 500.0, "{phase}");
    }
    assert!((1_900.0..2_100.0).contains(&value("f", "throughput")), "an open arrival keeps its rate");
    // Ten columns of 20 bytes, three replicas, told in full size; compacted, they take no more.
    let bytes = value("load", "cluster_bytes_after_major");
    assert!((600e6..1_500e6).contains(&bytes) && bytes <= value("load", "cluster_bytes"), "{bytes}");
    for side in ["rate-write-slo", "rate-read-slo"] {
        assert_eq!(value(side, "max_throughput_p99_under_10ms"), 10_000.0, "{side}: far below what it can do");
    }
    let phases = without_errors(folder.path());
    let compacting = phases.iter().find(|phase| phase["name"] == "compacting").expect("the phase");
    let lasted = compacting["duration_ns"].as_u64().expect("a number");
    assert!((20_000_000..10_000_000_000).contains(&lasted), "as long as the compaction, not 36 s: {lasted} ns");
}

#[test]
fn a_loader_s_first_collection_is_in_the_maximum_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let (head, _) = KINDS.split_once("phases:").expect("phases");
    let paced = "\"write duration=10m cl=QUORUM -pop seq=1..1000000 -rate threads=100 limit=10000/s\"";
    let scenario = format!("{head}phases:\n  - {{name: paced, stress: {paced}}}\n");
    let scenario = scenario.replace("row: {columns: 10, column_bytes: 20}", "table: cassandra-stress-default");
    let max = |scenario: &str| {
        fs::write(folder.path().join("start.yaml"), scenario).expect("the folder is ours");
        let values = values(folder.path(), "start.yaml");
        let value = |metric: &str| values[&("paced".to_string(), metric.to_string())];
        assert!(value("latency_p99.9") < 50.0, "{values:?}");
        assert!((9_500.0..10_500.0).contains(&value("throughput")), "{values:?}");
        value("latency_max")
    };
    // The least of what was measured, and the most with what waited meanwhile.
    let (with, without) = (max(&scenario), max(&scenario.replace("nodes: 1}", "nodes: 1, system: orrery-bench}")));
    assert!((180.0..600.0).contains(&with) && without < 50.0, "{with} and {without} ms");
}

#[test]
fn partitions_of_many_rows_are_written_and_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let scenario = KINDS.replace("columns: 10, column_bytes: 20", "columns: 1, column_bytes: 100, rows: 8");
    // A range keeps at least 1,000 partitions, and all of those that are read have to be there.
    let scenario = scenario.replace("data: 1/1000", "data: 1/100");
    let (phases, _) = scenario.split_once("  - {name: a").expect("phases behind the first");
    let read = "  - {name: wide, mix: {read: 1}, keys: {uniform: {from: 1, to: 125000}}, arrival: {closed: 20}, duration: 10s}\n";
    fs::write(folder.path().join("wide.yaml"), format!("{phases}{read}")).expect("the folder is ours");
    let values = values(folder.path(), "wide.yaml");
    assert!(values[&("wide".to_string(), "throughput".to_string())] > 500.0, "{values:?}");
    without_errors(folder.path());
}

#[test]
fn sensitivity_moves_what_was_assumed() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tiny.yaml"), SCENARIO).expect("the folder is ours");
    let arguments = ["sensitivity", "tiny.yaml", "--only", "network rtt", "--by", "100 %", "--json"];
    let (code, _, said) = run(folder.path(), &arguments);
    assert_eq!(code, Some(2), "nothing is given: {said}");
    let reference = "reference:\n  - {phase: read, metric: latency_p50, value: 1 ms, source: measured}\n";
    fs::write(folder.path().join("tiny.yaml"), format!("{SCENARIO}{reference}")).expect("the folder is ours");
    let (code, shown, said) = run(folder.path(), &arguments);
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<serde_json::Value> = shown.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let moved: Vec<&str> = lines.iter().map(|line| line["moved"].as_str().expect("a name")).collect();
    assert_eq!(moved, ["another seed", "network rtt"]);
    let change = lines[1]["change"].as_f64().expect("a number");
    // Twice the way: between the client and the node, and between nodes.
    assert!(change > 0.2, "{change}");
    let shorter = |more: &[&str]| run(folder.path(), &[&arguments[..], more].concat());
    let (code, shown, said) = shorter(&["--window", "200ms", "--phase", "read"]);
    assert_eq!((code, shown.lines().count()), (Some(0), 2), "{said}");
    let (code, _, said) = shorter(&["--phase", "write"]);
    assert_eq!(code, Some(2), "nothing is given of this phase: {said}");
}
