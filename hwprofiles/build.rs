//! Lists the profile files of this crate, so that the binary carries them.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

const FOLDERS: [&str; 5] = ["processors", "instances", "disks", "networks", "systems"];

fn main() {
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let mut list = String::from("pub(crate) static EMBEDDED: &[(&str, &str, &str)] = &[\n");
    for folder in FOLDERS {
        let path = Path::new(&root).join(folder);
        println!("cargo::rerun-if-changed={}", path.display());
        let entries = fs::read_dir(&path).expect("the profile folders are part of the crate");
        let mut files: Vec<_> = entries.map(|e| e.expect("a readable folder").path()).collect();
        files.sort();
        for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "yaml")) {
            println!("cargo::rerun-if-changed={}", file.display());
            let name = file.file_name().and_then(|n| n.to_str()).expect("profile names are ASCII");
            writeln!(list, "    ({folder:?}, {name:?}, include_str!({file:?})),").expect("writing to a string");
        }
    }
    list.push_str("];\n");
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("embedded.rs"), list).expect("OUT_DIR is writable");
}
