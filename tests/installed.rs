//! Programs that the tests install for themselves under `target/peers/`, once.
//!
//! A folder is named after what it was made of, so a changed version makes a new one, and an unfinished one is never
//! used. Making one reaches the package index of its language.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{binary, python};

/// The folder of `name`, made of the contents of `files` by `make` if it is not there yet.
pub fn once(name: &str, files: &[&Path], make: impl FnOnce(&Path)) -> PathBuf {
    // The name only has to differ when the files do: this hasher's keys are fixed.
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    for file in files {
        fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).hash(&mut hasher);
    }
    let place = binary::cache().join(format!("{name}-{:016x}", hasher.finish()));
    fs::create_dir_all(binary::cache()).expect("target/ is writable");
    let lock = File::create(binary::cache().join(format!("{name}.lock"))).expect("target/ is writable");
    // Test processes run side by side; the first one makes it, the others wait.
    lock.lock().expect("the file system has locks");
    let ready = place.join("ready");
    if !ready.exists() {
        if place.exists() {
            fs::remove_dir_all(&place).expect("an unfinished installation can be removed");
        }
        fs::create_dir_all(&place).expect("target/ is writable");
        make(&place);
        File::create(&ready).expect("the installation is writable");
    }
    place
}

/// Runs a step that needs something of the machine; says so if it fails.
pub fn run(command: &mut Command, need: &str) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{need} is needed: {error}"));
    let shown = python::both(&output);
    assert!(output.status.success(), "{need} is needed; {command:?} ended with {}\n{shown}", output.status);
}
