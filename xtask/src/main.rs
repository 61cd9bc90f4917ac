//! The project's chores, as `cargo xtask CHORE`.
//!
//! `test [ARGS]` runs every test: `cargo nextest run --workspace ARGS`, installing cargo-nextest first if it is not
//! there, then the documentation's examples. `crash-points --points N` crashes a storage on simulated disks N times, each
//! time at another operation. `fuzz [--seconds N]` gives decoders and parsers hostile bytes and texts, each for so long,
//! and damages SSTables. `instructions [record]` counts what storage's hot paths take, beside the figures recorded
//! before. `lint` is what has to hold before a commit: format and clippy.
//! A chore fails with the exit status of the first command that fails; nothing is cleaned up or retried.

mod instructions;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// The runner's version: one for everybody, so that its configuration file means the same everywhere.
const NEXTEST: &str = "0.9.151";

const USAGE: &str = "usage: cargo xtask test [ARGUMENTS OF cargo nextest run] | cargo xtask lint \
                     | cargo xtask crash-points --points N | cargo xtask fuzz [--seconds N] | cargo xtask instructions [record]";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let chore = arguments.next();
    let rest: Vec<String> = arguments.collect();
    let done = match (chore.as_deref(), rest.is_empty()) {
        (Some("test"), _) => test(&rest),
        (Some("lint"), true) => lint(),
        (Some("crash-points"), _) if matches!(&rest[..], [flag, _] if flag == "--points") => crash_points(&rest[1]),
        (Some("fuzz"), true) => fuzz("60"),
        (Some("fuzz"), false) if matches!(&rest[..], [flag, _] if flag == "--seconds") => fuzz(&rest[1]),
        (Some("instructions"), true) => instructions::run(false),
        (Some("instructions"), false) if rest == ["record"] => instructions::run(true),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed { line, code }) => {
            eprintln!("xtask: `{line}` failed");
            ExitCode::from(code)
        }
    }
}

/// A command that did not succeed.
#[derive(Clone)]
struct Failed {
    line: String,
    code: u8,
}

fn test(arguments: &[String]) -> Result<(), Failed> {
    install_nextest()?;
    // Tests that start real servers need the binary, and cargo builds no other package's binaries for a test. Beside a
    // `--test` its dependencies get the features that the suite is built with: nothing is compiled twice.
    run(cargo().args(["build", "--workspace", "--bin", "orrery", "--test", "tidy"]))?;
    let binary = target_folder().join("debug").join("orrery");
    run(cargo().args(["nextest", "run", "--workspace"]).args(arguments).env("ORRERY_BIN", binary))?;
    // Filters and profiles are nextest's own words: the examples only belong to a run of everything.
    if arguments.is_empty() || arguments == ["--profile", "ci"] {
        run(cargo().args(["test", "--quiet", "--workspace", "--doc"]))?;
    }
    Ok(())
}

/// Crashes a storage on simulated disks so many times; see `tests/storage_faults`.
fn crash_points(points: &str) -> Result<(), Failed> {
    let test = ["test", "--release", "-p", "orrery-tests", "--test", "storage_faults", "crash", "--", "--nocapture"];
    run(cargo().args(test).env("ORRERY_CRASH_POINTS", points))
}

/// Each fuzzer for so many seconds; see `engine/cql/tests/fuzz.rs` and storage's `sstable/tests/fuzz.rs`, which counts
/// cases: about a hundred a second.
fn fuzz(seconds: &str) -> Result<(), Failed> {
    let cases = seconds.parse::<u64>().map_or(100, |seconds| seconds.saturating_mul(100)).to_string();
    let protocol = ["test", "--release", "-p", "orrery-cql", "--test", "fuzz", "--", "--nocapture", "--test-threads=1"];
    run(cargo().args(protocol).env("ORRERY_FUZZ_SECONDS", seconds))?;
    let storage = ["test", "--release", "-p", "orrery-storage", "--lib", "fuzz", "--", "--nocapture"];
    run(cargo().args(storage).env("ORRERY_FUZZ_CASES", cases))
}

fn lint() -> Result<(), Failed> {
    run(cargo().args(["fmt", "--all", "--check"]))?;
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn install_nextest() -> Result<(), Failed> {
    let present = cargo().args(["nextest", "--version"]).output().is_ok_and(|output| output.status.success());
    if present {
        return Ok(());
    }
    eprintln!("xtask: installing cargo-nextest {NEXTEST}, once for this machine");
    let mut install = cargo();
    install.args(["install", "cargo-nextest", "--locked", "--version", NEXTEST]);
    // A test runner waits for tests: quick to build counts, quick to run does not. And not from the checkout, whose
    // compiler flags are for the project only.
    install.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1").env("CARGO_PROFILE_RELEASE_LTO", "off");
    install.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16").env("CARGO_PROFILE_RELEASE_DEBUG", "0");
    install.env_remove("CARGO_TARGET_DIR").current_dir(std::env::temp_dir());
    run(&mut install)
}

fn cargo() -> Command {
    // Cargo names itself to what it runs; the toolchain is then the same.
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(checkout());
    command
}

fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout's root")
}

fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout().join("target"), |folder| checkout().join(folder))
}

fn run(command: &mut Command) -> Result<(), Failed> {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failed { line, code: status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1) }),
        Err(error) => Err(Failed { line: format!("{line}: {error}"), code: 1 }),
    }
}
