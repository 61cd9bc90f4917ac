//! `orrery probe` and `orrery calibrate` as a user meets them, in little: what they leave is what scenarios read.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use orrery_tests::binary;

fn orrery(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(binary::orrery());
    command.args(arguments).current_dir(folder).env("NO_COLOR", "1").env_remove("RUST_LOG").stdin(Stdio::null());
    command.output().expect("the binary starts")
}

/// Standard output of a command that has to succeed.
fn shown(folder: &Path, arguments: &[&str]) -> String {
    let output = orrery(folder, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A folder on a real disk: `/tmp` may be memory, which knows no O_DIRECT.
fn folder() -> tempfile::TempDir {
    fs::create_dir_all(binary::cache()).expect("target/ is writable");
    tempfile::Builder::new().prefix("measures-").tempdir_in(binary::cache()).expect("target/ is writable")
}

const SCENARIO: &str = "\
name: here
cluster: {system: orrery, instance: local, nodes: 1, data_disk: local, network: local}
loaders: {system: orrery-bench, instance: local, nodes: 1}
schema: {keyspace: {replication_factor: 1}, table: cassandra-stress-default}
phases:
  - {name: write, stress: \"write n=2000 cl=ONE -pop seq=1..2000 -rate threads=20\"}
";

#[test]
fn a_probed_and_calibrated_machine_is_simulated() {
    let folder = folder();
    let told = shown(folder.path(), &["probe", ".", "--quick"]);
    for part in ["processor", "reads", "fdatasync", "loopback", "wake-up"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    // The probe's own files are gone.
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left, ["profiles"]);

    let told = shown(folder.path(), &["calibrate", "--quick", "--data", "."]);
    for part in ["server: ", "loading client: ", "net-receive", "memory-lookup", "of the control", "left out"] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let table = |path: &str| fs::read_to_string(folder.path().join("profiles/systems").join(path)).expect("a profile");
    let before = table("orrery.yaml");
    assert!(before.contains("measured | orrery calibrate"), "{before}");
    // The same measurements give the same prices.
    shown(folder.path(), &["calibrate", "--from", "profiles/calibration.json"]);
    assert_eq!(table("orrery.yaml"), before);

    fs::write(folder.path().join("here.yaml"), SCENARIO).expect("the folder is ours");
    shown(folder.path(), &["run", "here.yaml", "--profiles", "profiles"]);
}

#[test]
fn a_folder_that_cannot_be_measured_is_told_of() {
    let folder = folder();
    let output = orrery(folder.path(), &["probe", "nowhere", "--quick"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("nowhere") && said.contains("O_DIRECT"), "{said}");
    let output = orrery(folder.path(), &["calibrate", "--from", "nothing.json"]);
    assert_eq!(output.status.code(), Some(2));
}
