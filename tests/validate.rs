//! `orrery validate`: a node of this machine and its simulation, held against each other.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use orrery_tests::binary;

const SCENARIO: &str = "\
name: tiny
cluster:
  {system: orrery, instance: local, nodes: 1, data_disk: local, network: local, settings: {memtable: 8 MiB, cache: 8 MiB}}
loaders: {instance: local, nodes: 1, system: orrery-bench}
schema: {keyspace: {replication_factor: 1}}
budget: {throughput: 50 %, p50: 50 %, p99: 50 %}
phases:
  - {name: populate, stress: \"write n=2000 cl=ONE -pop seq=1..2000 -rate threads=20\"}
  - name: closed
    stress: \"mixed duration=1h cl=ONE -pop dist=uniform(1..2000) -rate threads=8\"
    quiesce: before
  - {name: open, stress: \"read duration=1h cl=ONE -pop dist=uniform(1..2000) -rate threads=64 fixed=200/s\"}
";

fn orrery(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary::orrery());
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().expect("the binary starts")
}

/// A field of one of the JSON lines that the command prints.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap_or_else(|| panic!("{name}: {line}"));
    rest.split([',', '}']).next().expect("a split has a first part").trim_matches('"')
}

#[test]
fn both_worlds_are_measured_and_the_exit_code_follows_from_the_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tiny.yaml"), SCENARIO).expect("the folder is ours");
    let nodes = folder.path().join("nodes");
    let data = nodes.to_str().expect("UTF-8");
    let output = orrery(folder.path(), &["validate", "tiny.yaml", "--seconds", "2", "--json", "--data", data]);
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    let rows: Vec<(&str, &str)> = shown.lines().map(|line| (field(line, "phase"), field(line, "metric"))).collect();
    let wanted = [
        ("closed", "throughput"),
        ("closed", "latency_p50"),
        ("closed", "latency_p99"),
        ("open", "latency_p50"),
        ("open", "latency_p99"),
    ];
    for row in wanted {
        assert!(rows.contains(&row), "{row:?} is missing\n{shown}{said}");
    }
    let mut beyond = false;
    for line in shown.lines() {
        let number = |name| field(line, name).parse::<f64>().unwrap_or_else(|_| panic!("{name}: {line}"));
        let (real, simulated, error) = (number("real"), number("simulated"), number("error"));
        assert!(real > 0.0 && simulated > 0.0, "{line}");
        assert!((error - (simulated - real) / real).abs() < 1e-9, "{line}");
        assert_eq!(field(line, "within_budget") == "true", error.abs() <= number("budget"), "{line}");
        beyond |= field(line, "within_budget") == "false";
    }
    assert_eq!(output.status.code(), Some(if beyond { 7 } else { 0 }), "{shown}{said}");
    for record in ["orrery/1/record.json", "orrery-real/1/record.json", "report.html"] {
        assert!(folder.path().join("out/tiny").join(record).exists(), "{record}");
    }
    assert_eq!(fs::read_dir(&nodes).expect("it was made").count(), 0, "the nodes' data goes with them");
}

#[test]
fn what_cannot_be_is_told_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("tiny.yaml"), SCENARIO).expect("the folder is ours");
    fs::write(folder.path().join("bad.yaml"), "nodes: [127.0.0.1]\nsytem: orrery\n").expect("the folder is ours");
    let output = orrery(folder.path(), &["validate", "tiny.yaml", "--hosts", "bad.yaml"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("bad.yaml:2:1") && said.contains("system"), "{said}");
    let output = orrery(folder.path(), &["validate", "tiny.yaml", "--out", "tiny.yaml/out"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "before anything is measured: {said}");
    assert!(said.contains("tiny.yaml/out") && said.contains("--out"), "{said}");
    // Nobody listens on the discard port of an address that is nobody's.
    fs::write(folder.path().join("none.yaml"), "nodes: ['127.99.99.99:9']\n").expect("the folder is ours");
    let output = orrery(folder.path(), &["validate", "tiny.yaml", "--hosts", "none.yaml"]);
    assert_eq!(output.status.code(), Some(8), "{}", String::from_utf8_lossy(&output.stderr));
}
