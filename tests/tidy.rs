//! The architecture's invariants (see ARCHITECTURE.md), held over the text of the checkout.
//!
//! Each test names one invariant and lists every place that breaks it. What clippy can see (clocks, threads, hashers
//! with random keys) is fenced in `clippy.toml`; here is what only the layout and the manifests show.

use orrery_tests::sources::{self, Source};

/// Fails with all the places at once.
fn none(broken: Vec<String>, invariant: &str) {
    assert!(broken.is_empty(), "{invariant}\n  {}", broken.join("\n  "));
}

/// Where `wanted` words stand in the code of files: whole identifiers, comments, literals and tests left out.
fn naming(files: &[Source], wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (line, text) in file.code().lines().enumerate() {
            let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words.filter(|word| wanted(word)) {
                found.push(format!("{}:{}: {word}", file.path, line + 1));
            }
        }
    }
    found
}

/// Where a piece of code stands.
fn containing(files: &[Source], pieces: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        for (line, text) in file.code().lines().enumerate() {
            for piece in pieces.iter().filter(|piece| text.contains(**piece)) {
                found.push(format!("{}:{}: {piece}", file.path, line + 1));
            }
        }
    }
    found
}

/// The Rust files that are part of the product: no tests.
fn product() -> Vec<Source> {
    sources::rust().into_iter().filter(|file| !file.is_test()).collect()
}

fn engine() -> Vec<Source> {
    product().into_iter().filter(|file| file.within(&["engine"])).collect()
}

/// A workspace crate and the workspace crates it names in `[dependencies]`.
struct Room {
    folder: String,
    name: String,
    needs: Vec<String>,
    external: Vec<String>,
}

/// A manifest of the workspace. What a benchmark compares with is a workspace of its own.
fn is_member(file: &Source) -> bool {
    file.path.ends_with("/Cargo.toml") && !file.path.contains("/benches/")
}

fn rooms() -> Vec<Room> {
    let manifests: Vec<Source> = sources::all().into_iter().filter(is_member).collect();
    let name = |file: &Source| {
        let folder = file.path.trim_end_matches("/Cargo.toml");
        folder.rsplit('/').next().expect("a path has a last part").to_string()
    };
    let names: Vec<String> = manifests.iter().map(name).collect();
    let mut rooms = Vec::new();
    for file in &manifests {
        let mut section = "";
        let (mut needs, mut external) = (Vec::new(), Vec::new());
        for line in file.text.lines() {
            if line.starts_with('[') {
                section = line;
            } else if matches!(section, "[dependencies]" | "[build-dependencies]")
                && let Some(dependency) =
                    line.split(['.', ' ', '=']).next().filter(|word| !word.is_empty() && *word != "#")
            {
                if names.iter().any(|name| name == dependency) {
                    needs.push(dependency.to_string());
                } else {
                    external.push(dependency.to_string());
                }
            }
        }
        let folder = file.path.trim_end_matches("/Cargo.toml").to_string();
        rooms.push(Room { folder, name: name(file), needs, external });
    }
    assert!(rooms.len() >= 14, "the manifests were not found");
    rooms
}

#[test]
fn only_the_uring_backend_makes_system_calls() {
    let outside: Vec<Source> = engine()
        .into_iter()
        .filter(|file| !file.within(&["engine/reactor/src/uring", "engine/reactor/src/uring.rs"]))
        .collect();
    let mut broken = naming(&outside, |word| matches!(word, "io_uring" | "libc" | "nix" | "rustix"));
    broken.extend(containing(
        &outside,
        &["std::fs", "std::process", "std::env", "std::os", "TcpListener", "TcpStream", "UdpSocket", "std::thread"],
    ));
    for room in rooms().iter().filter(|room| room.folder.starts_with("engine/") && room.name != "reactor") {
        for name in room
            .external
            .iter()
            .filter(|name| matches!(name.as_str(), "io-uring" | "libc" | "tokio" | "nix" | "rustix"))
        {
            broken.push(format!("{}/Cargo.toml: {name}", room.folder));
        }
    }
    none(broken, "only engine/reactor/src/uring names io_uring or asks the operating system for anything");
}

#[test]
fn only_the_simulator_names_madsim() {
    let elsewhere: Vec<Source> = sources::rust().into_iter().filter(|file| !file.within(&["sim", "tests"])).collect();
    let mut broken = naming(&elsewhere, |word| word == "madsim");
    for room in rooms().iter().filter(|room| room.folder != "sim") {
        for name in room.external.iter().filter(|name| name.starts_with("madsim")) {
            broken.push(format!("{}/Cargo.toml: {name}", room.folder));
        }
    }
    none(broken, "only sim names madsim, and nothing in engine/ is compiled differently for it");
}

#[test]
fn the_engine_does_not_know_which_world_it_is_in() {
    let broken =
        naming(&engine(), |word| word.to_lowercase().contains("simulat") || word == "is_sim" || word == "in_sim");
    none(broken, "one code path in both worlds: the engine has no word for the simulation");
}

/// The floors of `engine/`: a room may need rooms of lower floors only.
fn floor(room: &str) -> Option<u32> {
    match room {
        "types" | "reactor" => Some(0),
        "storage" | "cql" | "cluster" => Some(1),
        "query" | "memcache" => Some(2),
        "server" => Some(3),
        _ => None,
    }
}

#[test]
fn the_engine_knows_nothing_of_the_rooms_outside() {
    let mut broken = Vec::new();
    for room in rooms().iter().filter(|room| room.folder.starts_with("engine/")) {
        let own =
            floor(&room.name).unwrap_or_else(|| panic!("{}: a new room of the engine needs a floor", room.folder));
        for need in &room.needs {
            match floor(need) {
                None => broken.push(format!("{} needs {need}, which is outside the engine", room.folder)),
                Some(other) if other >= own => {
                    broken.push(format!("{} needs {need}, which is not below it", room.folder))
                }
                Some(_) => {}
            }
        }
    }
    none(broken, "inside engine/: server -> query -> {cluster, storage, cql} -> {types, reactor}");
}

#[test]
fn the_rooms_outside_need_only_what_they_may() {
    let mut broken = Vec::new();
    for room in rooms().iter().filter(|room| !room.folder.starts_with("engine/")) {
        let outside: &[&str] = match room.name.as_str() {
            "hwprofiles" | "xtask" => &[],
            "scenarios" => &["hwprofiles"],
            "sim" => &["hwprofiles", "scenarios"],
            "reports" => &["hwprofiles", "scenarios"],
            "validate" => &["hwprofiles", "scenarios", "sim"],
            "cli" | "tests" => &["hwprofiles", "scenarios", "sim", "reports", "validate"],
            other => panic!("{other}: a new room needs its place here and in ARCHITECTURE.md"),
        };
        let engine: &[&str] = match room.name.as_str() {
            // What is described, not what runs: the client of a workload speaks the protocol and waits for completions.
            "scenarios" => &["types", "reactor", "cql"],
            "hwprofiles" | "reports" | "xtask" => &[],
            _ => &["types", "reactor", "storage", "cql", "cluster", "query", "server", "memcache"],
        };
        for need in
            room.needs.iter().filter(|need| !outside.contains(&need.as_str()) && !engine.contains(&need.as_str()))
        {
            broken.push(format!("{} needs {need}", room.folder));
        }
    }
    none(broken, "sim, scenarios, reports and cli stand on each other in one direction, and reports never measure");
}

#[test]
fn parsers_and_codecs_have_no_world() {
    let broken: Vec<String> = rooms()
        .iter()
        .filter(|room| matches!(room.name.as_str(), "types" | "cql") && room.needs.iter().any(|need| need == "reactor"))
        .map(|room| room.folder.clone())
        .collect();
    none(broken, "types and cql turn bytes into meaning: no I/O, no clock, no randomness, so no reactor");
}

#[test]
fn one_type_crosses_from_a_run_to_a_report() {
    let declares =
        |file: &Source| file.code().lines().any(|line| line.trim_start().starts_with("pub struct RunRecord"));
    let places: Vec<String> = product().into_iter().filter(declares).map(|file| file.path).collect();
    assert!(places.len() <= 1, "RunRecord is declared in {places:?}");
    assert!(places.iter().all(|place| place.starts_with("scenarios/")), "RunRecord belongs to scenarios: {places:?}");
}

#[test]
fn unsafe_code_has_its_place() {
    // The backend, its buffers and slots. A leaf module elsewhere that needs it is named here, with its reason:
    // - options of the allocator are set through its C interface.
    // - what a signal does by default is asked of libc.
    let allowed = ["engine/reactor", "cli/src/allocator.rs", "cli/src/signal.rs"];
    let elsewhere: Vec<Source> = product().into_iter().filter(|file| !file.within(&allowed)).collect();
    none(naming(&elsewhere, |word| word == "unsafe"), "unsafe code is in engine/reactor and in named leaf modules");
}

#[test]
fn every_figure_says_unit_standing_and_source() {
    let mut broken = Vec::new();
    let mut figures = 0;
    for file in sources::all().iter().filter(|file| file.within(&["hwprofiles"]) && file.path.ends_with(".yaml")) {
        for (line, text) in file.text.lines().enumerate() {
            let value = text.split_once(": ").map_or(text, |(_, value)| value).trim_start_matches([' ', '-', '[', '{']);
            if !value.starts_with(|c: char| c.is_ascii_digit()) {
                continue;
            }
            figures += 1;
            let parts: Vec<&str> = value.split(" | ").map(str::trim).collect();
            let whole = parts.len() >= 3
                && parts[0].contains(' ')
                && ["measured", "published", "assumed", "fitted"].contains(&parts[1])
                && !parts[2].is_empty();
            if !whole {
                broken.push(format!("{}:{}: {value}", file.path, line + 1));
            }
        }
    }
    assert!(figures > 50, "the profiles were not found");
    none(broken, "a figure is written `VALUE UNIT | STANDING | SOURCE`");
}

#[test]
fn every_reference_says_unit_and_source() {
    let mut broken = Vec::new();
    let mut values = 0;
    for file in sources::all().iter().filter(|file| file.within(&["scenarios"]) && file.path.ends_with(".yaml")) {
        let block = file.text.lines().enumerate().skip_while(|(_, line)| !line.starts_with("reference:")).skip(1);
        for (line, text) in block.take_while(|(_, line)| line.starts_with([' ', '#']) || line.is_empty()) {
            let Some((_, rest)) = text.split_once("value: ") else { continue };
            values += 1;
            let value = rest.split([',', '}']).next().unwrap_or_default().trim();
            if !value.contains(' ') || !text.contains("source: ") {
                broken.push(format!("{}:{}: {text}", file.path, line + 1));
            }
        }
    }
    assert!(values > 0, "the references were not found");
    none(broken, "a reference is one line: `{.., value: VALUE UNIT, source: WHERE}`");
}

#[test]
fn no_file_is_two_rooms() {
    let written = |file: &&Source| [".rs", ".py", ".md", ".toml"].iter().any(|end| file.path.ends_with(end));
    let broken: Vec<String> = sources::all()
        .iter()
        .filter(written)
        .filter(|file| file.text.lines().count() > 800)
        .map(|file| format!("{}: {} lines", file.path, file.text.lines().count()))
        .collect();
    none(broken, "a file past 800 lines wants to be two");
}

#[test]
fn a_module_opens_with_its_contract() {
    let opens = |text: &str| {
        // `#![..]` attributes may stand before it, and the license of a file may not.
        text.lines()
            .find(|line| !line.trim().is_empty() && !line.starts_with("#!"))
            .is_some_and(|line| line.starts_with("//!"))
    };
    let broken: Vec<String> = sources::rust()
        .into_iter()
        .filter(|file| !file.path.ends_with("build.rs") && !file.is_test_module() && !opens(&file.text))
        .map(|file| file.path)
        .collect();
    none(broken, "the first line of a module says what it guarantees: `//! ...`");
}

#[test]
fn nothing_unwraps_outside_tests() {
    let broken = containing(&product(), &[".unwrap()", ".unwrap_err()"]);
    none(broken, "`expect` says why it cannot fail; everything else is an error with its cause");
}

#[test]
fn nothing_is_half_done() {
    let mut broken = naming(&sources::rust(), |word| matches!(word, "todo" | "unimplemented"));
    for file in sources::all().iter().filter(|file| file.path != "tests/tidy.rs") {
        for (line, text) in file.text.lines().enumerate() {
            let words = text.split(|c: char| !c.is_ascii_alphanumeric());
            for word in words.filter(|word| matches!(*word, "TODO" | "FIXME" | "XXX" | "HACK")) {
                broken.push(format!("{}:{}: {word}", file.path, line + 1));
            }
        }
    }
    none(broken, "what is not finished is not there");
}

#[test]
fn nothing_points_out_of_the_project() {
    let mut broken = Vec::new();
    for file in sources::all().iter().filter(|file| file.path != "tests/tidy.rs") {
        for (line, text) in file.text.lines().enumerate() {
            // Somebody's machine; `/tmp` in a shell line is everybody's.
            for piece in ["/work/", "/home/", "/root/", "/Users/", "file:///"] {
                if text.contains(piece) {
                    broken.push(format!("{}:{}: {piece}", file.path, line + 1));
                }
            }
        }
    }
    none(broken, "no path of a machine: the project is whole in its checkout");
}

#[test]
fn every_crate_takes_the_workspace_s_rules() {
    let mut broken = Vec::new();
    for file in sources::all().iter().filter(|file| is_member(file)) {
        for rule in [
            "[lints]\nworkspace = true",
            "edition.workspace = true",
            "license.workspace = true",
            "publish.workspace = true",
        ] {
            if !file.text.contains(rule) {
                broken.push(format!("{}: {}", file.path, rule.replace('\n', " ")));
            }
        }
    }
    none(broken, "lints, edition, licence and publishing are decided once");
}

#[test]
fn the_map_shows_every_room() {
    let all = sources::all();
    let map = &all.iter().find(|file| file.path == "ARCHITECTURE.md").expect("the map exists").text;
    let broken: Vec<String> = rooms()
        .into_iter()
        .map(|room| format!("`{}`", room.folder))
        .filter(|folder| !map.contains(folder.as_str()))
        .collect();
    none(broken, "ARCHITECTURE.md has a place for every crate of the workspace");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut broken = Vec::new();
    for file in sources::all().iter().filter(|file| file.path.ends_with(".md")) {
        let folder = std::path::Path::new(&file.path).parent().expect("a file lies in a folder");
        for (line, text) in file.text.lines().enumerate() {
            for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
                let target = target.split('#').next().unwrap_or_default();
                let outside = target.is_empty() || target.starts_with("http://") || target.starts_with("https://");
                if !outside && !orrery_tests::binary::checkout().join(folder).join(target).exists() {
                    broken.push(format!("{}:{}: {target}", file.path, line + 1));
                }
            }
        }
    }
    none(broken, "a link in a document leads to a file of the checkout");
}
