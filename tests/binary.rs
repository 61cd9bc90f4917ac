//! Where the `orrery` binary of this checkout is, never a stale one.
//!
//! `cargo xtask test` builds it once and names it in `ORRERY_BIN`. A bare `cargo test` does not build binaries of other
//! packages, so there the first test that needs it asks cargo, which costs a moment when nothing changed.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The root of the checkout.
pub fn checkout() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests crate lies in the checkout's root")
}

/// The folder for what tests download or build and later runs may use again.
pub fn cache() -> PathBuf {
    checkout().join("target").join("peers")
}

/// The `orrery` binary, built if need be.
pub fn orrery() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("ORRERY_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

fn build() -> PathBuf {
    // A `--test` beside the `--bin` makes cargo resolve features as for the whole test suite: what the suite has
    // compiled is used again instead of being compiled a second time with fewer features.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--workspace", "--bin", "orrery", "--test", "tidy"])
        .current_dir(checkout())
        .stdin(Stdio::null())
        .status()
        .expect("cargo starts: it started this test");
    assert!(status.success(), "`cargo build --bin orrery` failed; its errors are above");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    checkout().join(target).join("debug").join("orrery")
}
