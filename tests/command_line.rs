//! The binary as a user meets it: exit codes, where results and mistakes are printed, and runs that repeat.

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
}

#[test]
fn what_the_binary_carries_is_valid_and_listed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (code, _, said) = run(folder.path(), &["check"]);
    assert_eq!(code, Some(0), "{said}");
    let (code, shown, said) = run(folder.path(), &["list"]);
    assert_eq!(code, Some(0), "{said}");
    for name in ["lowend/read-small", "lowend/write-10k", "scylla-1.6.1", "cassandra-3.0.9", "c3.2xlarge"] {
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
