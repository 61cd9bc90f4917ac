//! Clients written in Python, in virtual environments that the tests make for themselves.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::{binary, installed};

/// Whose driver: they share the name that scripts import, so each has an environment of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Cassandra,
    Scylla,
}

/// The `python` of a driver's environment.
pub fn interpreter(driver: Driver) -> PathBuf {
    let (name, file) = match driver {
        Driver::Cassandra => ("python", "requirements.txt"),
        Driver::Scylla => ("python-scylla", "requirements-scylla.txt"),
    };
    let requirements = binary::checkout().join("tests/drivers").join(file);
    let made = installed::once(name, &[&requirements], |place| {
        installed::run(Command::new("python3").args(["-m", "venv"]).arg(place), "python3 with its venv module");
        let mut install = Command::new(place.join("bin").join("python"));
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "-r"]);
        installed::run(install.arg(&requirements), "Python's package index");
    });
    made.join("bin").join("python")
}

/// A script of `tests/drivers`, about to run.
pub fn command(driver: Driver, name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(interpreter(driver));
    command.arg(binary::checkout().join("tests/drivers").join(name)).args(arguments);
    command.env("PYTHONUNBUFFERED", "1").stdin(Stdio::null());
    command
}

/// Runs a script with Cassandra's driver and returns what it printed.
pub fn script(name: &str, arguments: &[&str]) -> Output {
    command(Driver::Cassandra, name, arguments).output().expect("the environment's python starts")
}

/// Runs `cqlsh` with a home folder of its own: the user's own settings must not matter.
pub fn cqlsh(address: std::net::SocketAddr, home: &Path, arguments: &[&str]) -> Output {
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let mut command = Command::new(interpreter(Driver::Cassandra));
    command.args(["-m", "cqlshlib", "--no-color"]).args(arguments).args([host, port]);
    command.env("HOME", home).env("TZ", "UTC").env("COLUMNS", "200").stdin(Stdio::null());
    command.output().expect("the environment's python starts")
}

/// Standard output and standard error, to be shown.
pub fn both(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
