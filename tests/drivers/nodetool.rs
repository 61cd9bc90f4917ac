//! `orrery nodetool` against a node with data: what it prints, and what it did.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use orrery_tests::node::{Server, Settings, Site};
use orrery_tests::{binary, python};

struct Tool {
    address: SocketAddr,
}

impl Tool {
    /// Whether it succeeded, and all it printed.
    fn try_run(&self, arguments: &[&str]) -> (bool, String) {
        let mut command = Command::new(binary::orrery());
        command.args(["nodetool", "-h", &self.address.ip().to_string()]).args(arguments);
        let output = command.env("NO_COLOR", "1").stdin(Stdio::null()).output().expect("the binary starts");
        (output.status.success(), python::both(&output))
    }

    fn run(&self, arguments: &[&str]) -> String {
        let (ok, text) = self.try_run(arguments);
        assert!(ok, "nodetool {arguments:?}\n{text}");
        text
    }

    /// A figure of a table, as `tablestats` prints it.
    fn figure(&self, name: &str) -> String {
        let text = self.run(&["tablestats", "looked", "after"]);
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in\n{text}")).to_string()
    }
}

#[test]
fn looks_after_a_node() {
    let site = Site::new();
    let server = Server::start_node(&site.node(1, 1, Settings::default()));
    let home = tempfile::tempdir().expect("a folder for cqlsh's home");
    let statements = "CREATE KEYSPACE looked WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE looked.after (p int PRIMARY KEY, v int);
        INSERT INTO looked.after (p, v) VALUES (1, 1);
        SELECT v FROM looked.after WHERE p = 1";
    let made = python::cqlsh(server.address(), home.path(), &["-e", statements]);
    assert!(made.status.success(), "{}", python::both(&made));

    let tool = Tool { address: server.address() };
    let status = tool.run(&["status"]);
    assert!(status.contains(&format!("UN  {}", server.address().ip())), "{status}");

    assert_eq!(tool.figure("SSTable count"), "0");
    tool.run(&["flush", "looked", "after"]);
    assert_eq!(tool.figure("SSTable count"), "1");
    tool.run(&["compact", "looked"]);
    assert_eq!(tool.figure("SSTable count"), "1");

    let coordinated = tool.run(&["proxyhistograms"]);
    let of = |name: &str| -> Vec<f64> {
        let line = coordinated.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line.split_whitespace().skip(1).map(|cell| cell.parse().expect("a number")).collect()
    };
    // cqlsh has read and written; nothing takes no time at all.
    assert!(matches!(of("Max")[..], [read, write, _] if read > 0.0 && write > 0.0), "{coordinated}");

    tool.run(&["snapshot", "-t", "kept", "looked"]);
    let listed = tool.run(&["listsnapshots"]);
    assert!(listed.lines().any(|line| ["kept", "looked", "after"].iter().all(|word| line.contains(word))), "{listed}");
    tool.run(&["clearsnapshot", "-t", "kept"]);
    assert!(!tool.run(&["listsnapshots"]).contains("kept"));

    tool.run(&["invalidatepermissionscache"]);
    tool.run(&["invalidaterolescache"]);
    let (ok, said) = tool.try_run(&["flush", "nowhere"]);
    assert!(!ok && said.contains("nowhere"), "{said}");

    tool.run(&["drain"]);
    let refused = python::cqlsh(server.address(), home.path(), &["-e", "SELECT v FROM looked.after"]);
    assert!(!refused.status.success(), "a drained node serves no clients");
    server.stop();
}

/// Rows of a view without one in its table come about here by a restored snapshot of the view alone.
#[test]
fn prunes_a_view() {
    let site = Site::new();
    let node = site.node(1, 1, Settings::default());
    let server = Server::start_node(&node);
    let home = tempfile::tempdir().expect("a folder for cqlsh's home");
    let cql = |statements: &str| {
        let output = python::cqlsh(server.address(), home.path(), &["-e", statements]);
        assert!(output.status.success(), "{statements}\n{}", python::both(&output));
        python::both(&output)
    };
    let tool = Tool { address: server.address() };
    cql("CREATE KEYSPACE pruned WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE pruned.t (p int, c int, v int, w int, PRIMARY KEY (p, c));
        CREATE MATERIALIZED VIEW pruned.by_c AS SELECT * FROM pruned.t WHERE p IS NOT NULL AND c IS NOT NULL
            PRIMARY KEY (c, p);
        CREATE MATERIALIZED VIEW pruned.by_v AS SELECT * FROM pruned.t
            WHERE p IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, p, c);
        INSERT INTO pruned.t (p, c, v, w) VALUES (1, 1, 71, 81);
        INSERT INTO pruned.t (p, c, v, w) VALUES (2, 1, 71, 82);
        INSERT INTO pruned.t (p, c, v, w) VALUES (3, 2, 73, 83)");
    tool.run(&["flush", "pruned"]);
    tool.run(&["snapshot", "-t", "kept", "pruned"]);
    cql("TRUNCATE pruned.t; INSERT INTO pruned.t (p, c, v, w) VALUES (2, 1, 71, 82)");
    for folder in std::fs::read_dir(node.data.join("pruned")).expect("the keyspace's folder").flatten() {
        let name = folder.file_name().into_string().expect("a table's name");
        let Some((view, _)) = name.split_once('-').filter(|(view, _)| view.starts_with("by_")) else { continue };
        let upload = folder.path().join("upload");
        std::fs::create_dir_all(&upload).expect("a folder to load from");
        for file in std::fs::read_dir(folder.path().join("snapshots/kept")).expect("the snapshot").flatten() {
            std::fs::copy(file.path(), upload.join(file.file_name())).expect("a copy");
        }
        tool.run(&["refresh", "pruned", view]);
    }
    let rows = |view: &str| {
        let text = cql(&format!("SELECT p, w FROM pruned.{view}"));
        let mut rows: Vec<i32> = [81, 82, 83].into_iter().filter(|w| text.contains(&w.to_string())).collect();
        rows.sort_unstable();
        rows
    };
    assert_eq!((rows("by_c"), rows("by_v")), (vec![81, 82, 83], vec![81, 82, 83]));
    cql("PRUNE MATERIALIZED VIEW pruned.by_c WHERE c = 1; PRUNE MATERIALIZED VIEW pruned.by_v WHERE v = 71");
    assert_eq!((rows("by_c"), rows("by_v")), (vec![82, 83], vec![82, 83]));
    cql("PRUNE MATERIALIZED VIEW pruned.by_c USING CONCURRENCY 10; PRUNE MATERIALIZED VIEW pruned.by_v");
    assert_eq!((rows("by_c"), rows("by_v")), (vec![82], vec![82]));
    // What comes later is seen, be it where something was pruned.
    cql(
        "UPDATE pruned.t SET v = 71, w = 81 WHERE p = 1 AND c = 1; INSERT INTO pruned.t (p, c, v, w) VALUES (3, 2, 73, 83)",
    );
    assert_eq!((rows("by_c"), rows("by_v")), (vec![81, 82, 83], vec![81, 82, 83]));
    let refused = python::cqlsh(server.address(), home.path(), &["-e", "PRUNE MATERIALIZED VIEW pruned.t"]);
    assert!(python::both(&refused).contains("pruned.t is not a materialized view"), "{}", python::both(&refused));
    server.stop();
}
