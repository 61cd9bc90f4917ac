//! Lists the scenario files of this crate, so that the binary carries them.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn listing(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the scenario folders are part of the crate");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("pub(crate) static EMBEDDED: &[(&str, &str)] = &[\n");
    let folders = listing(&root).into_iter().filter(|p| p.is_dir() && !p.ends_with("src") && !p.ends_with("tests"));
    for folder in folders {
        println!("cargo::rerun-if-changed={}", folder.display());
        for file in listing(&folder).iter().filter(|f| f.extension().is_some_and(|e| e == "yaml")) {
            println!("cargo::rerun-if-changed={}", file.display());
            let name = file.strip_prefix(&root).expect("files of this crate").with_extension("");
            let name = name.to_str().expect("scenario names are ASCII").to_string();
            writeln!(list, "    ({name:?}, include_str!({file:?})),").expect("writing to a string");
        }
    }
    list.push_str("];\n");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("embedded.rs"), list).expect("OUT_DIR is writable");
}
