//! Drivers of other languages pass their checks: Go's gocql, Java's driver 4, Node's, and Scylla's for Python. Each
//! driver is installed once, by the tools of its language (`go`, `mvn`, `npm`, `python3`); where a language is not, its
//! test says so and ends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use orrery_tests::node::Server;
use orrery_tests::python::{self, Driver};
use orrery_tests::{binary, installed};

fn sources(folder: &str, files: &[&str]) -> Vec<PathBuf> {
    let folder = binary::checkout().join("tests/drivers").join(folder);
    files.iter().map(|file| folder.join(file)).collect()
}

/// What is made of the files of a folder beside this one: copied, so that nothing is built in the checkout.
fn built(folder: &str, files: &[&str], build: impl FnOnce(&Path)) -> PathBuf {
    let sources = sources(folder, files);
    let paths: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    installed::once(folder, &paths, |place| {
        for (source, file) in sources.iter().zip(files) {
            let target = place.join(file);
            std::fs::create_dir_all(target.parent().expect("it lies in the place")).expect("target/ is writable");
            std::fs::copy(source, target).expect("target/ is writable");
        }
        build(place);
    })
}

fn passes(command: &mut Command, address: SocketAddr) {
    command.arg(address.ip().to_string()).arg(address.port().to_string()).stdin(Stdio::null());
    let output = command.output().expect("the checks start");
    let text = python::both(&output);
    assert!(output.status.success() && text.contains("all checks passed"), "{text}");
}

/// A machine with nothing but Rust and Python runs all other tests.
fn is_here(program: &str) -> bool {
    let asked = Command::new(program).arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status();
    if asked.is_err() {
        eprintln!("`{program}` is not on this machine: its driver is not tried");
    }
    asked.is_ok()
}

#[test]
fn gocql() {
    if !is_here("go") {
        return;
    }
    let place = built("go_driver", &["go.mod", "go.sum", "main.go"], |place| {
        installed::run(Command::new("go").args(["build", "-o", "checks", "."]).current_dir(place), "Go 1.24 or newer");
    });
    let server = Server::start();
    passes(&mut Command::new(place.join("checks")), server.address());
}

#[test]
fn java_driver() {
    if !is_here("mvn") {
        return;
    }
    let place = built("java_driver", &["pom.xml", "src/main/java/Checks.java"], |place| {
        let arguments = ["-q", "-B", "package", "dependency:copy-dependencies", "-DoutputDirectory=target/lib"];
        installed::run(Command::new("mvn").args(arguments).current_dir(place), "Maven with Java 17 or newer");
    });
    let server = Server::start();
    let mut java = Command::new("java");
    java.args(["-cp", "target/classes:target/lib/*", "Checks"]).current_dir(place);
    passes(&mut java, server.address());
}

#[test]
fn node_driver() {
    if !is_here("npm") {
        return;
    }
    let place = built("node_driver", &["package.json", "package-lock.json", "checks.js"], |place| {
        let install = ["ci", "--silent", "--no-audit", "--no-fund"];
        installed::run(Command::new("npm").args(install).current_dir(place), "Node 20 or newer with npm");
    });
    let server = Server::start();
    passes(Command::new("node").arg("checks.js").current_dir(place), server.address());
}

/// Checks written for Python, with Scylla's fork of the driver, which is aware of shards.
fn scylla_driver_passes(file: &str, classes: &[&str]) {
    let server = Server::start();
    let (host, port) = (server.address().ip().to_string(), server.address().port().to_string());
    let arguments: Vec<&str> = [host.as_str(), port.as_str()].iter().chain(classes).copied().collect();
    let output = python::command(Driver::Scylla, file, &arguments).output();
    let output = output.expect("the environment's python starts");
    assert!(output.status.success(), "{}", python::both(&output));
}

#[test]
fn scylla_driver_for_python() {
    let classes = ["Connect", "Types", "Rows", "Paging", "Prepared", "Batches", "Schema", "Errors", "Concurrency"];
    scylla_driver_passes("python_driver.py", &classes);
}

#[test]
fn extensions_of_the_protocol() {
    scylla_driver_passes("extensions.py", &["ShardAware", "Marks"]);
}
