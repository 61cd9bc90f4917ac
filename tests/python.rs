//! Clients written in Python, in a virtual environment that the tests make for themselves.
//!
//! The environment lies under `target/peers/` and is named after its requirements, so a changed version makes a new
//! one and an unfinished one is never used. Making it needs Python 3 and its package index once.

use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::binary;

/// The environment's `python`.
pub fn interpreter() -> PathBuf {
    let requirements = binary::checkout().join("tests/drivers/requirements.txt");
    let wanted = fs::read_to_string(&requirements).expect("the requirements are part of the checkout");
    // The name only has to differ when the requirements do: this hasher's keys are fixed.
    let mut hasher = std::collections::hash_map::DefaultHasher::new();
    wanted.hash(&mut hasher);
    let place = binary::cache().join(format!("python-{:016x}", hasher.finish()));
    let python = place.join("bin").join("python");

    fs::create_dir_all(binary::cache()).expect("target/ is writable");
    let lock = File::create(binary::cache().join("python.lock")).expect("target/ is writable");
    // Test processes run side by side; the first one makes the environment, the others wait for it.
    lock.lock().expect("the file system has locks");
    let ready = place.join("ready");
    if !ready.exists() {
        if place.exists() {
            fs::remove_dir_all(&place).expect("an unfinished environment can be removed");
        }
        run(Command::new("python3").args(["-m", "venv"]).arg(&place), "python3 with its venv module is needed");
        run(
            Command::new(&python)
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "-r"])
                .arg(&requirements),
            "the clients come from Python's package index",
        );
        File::create(&ready).expect("the environment is writable");
    }
    python
}

fn run(command: &mut Command, need: &str) {
    let output = command.stdin(Stdio::null()).output().unwrap_or_else(|error| panic!("{need}: {error}"));
    assert!(output.status.success(), "{need}; {command:?} ended with {}\n{}", output.status, both(&output));
}

/// Runs a script of `tests/drivers` and returns what it printed.
pub fn script(name: &str, arguments: &[&str]) -> Output {
    let script: PathBuf = binary::checkout().join("tests/drivers").join(name);
    python(&[path(&script)], arguments)
}

/// Runs `cqlsh` with a home folder of its own: the user's own settings must not matter.
pub fn cqlsh(address: std::net::SocketAddr, home: &Path, arguments: &[&str]) -> Output {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = Command::new(interpreter());
    command.args(["-m", "cqlshlib", "--no-color"]).args(arguments).args([host, port]);
    command.env("HOME", home).env("TZ", "UTC").env("COLUMNS", "200").stdin(Stdio::null());
    command.output().expect("the environment's python starts")
}

fn python(module: &[&str], arguments: &[&str]) -> Output {
    let mut command = Command::new(interpreter());
    command.args(module).args(arguments).env("PYTHONUNBUFFERED", "1").stdin(Stdio::null());
    command.output().expect("the environment's python starts")
}

fn path(path: &Path) -> &str {
    path.to_str().expect("the checkout's path is UTF-8")
}

/// Standard output and standard error, to be shown.
pub fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
