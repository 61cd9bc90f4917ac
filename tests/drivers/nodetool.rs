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
    let site = Site::new(0);
    let server = Server::start_node(&site.node(1, 1, Settings::default()));
    let home = tempfile::tempdir().expect("a folder for cqlsh's home");
    let statements = "CREATE KEYSPACE looked WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1};
        CREATE TABLE looked.after (p int PRIMARY KEY, v int);
        INSERT INTO looked.after (p, v) VALUES (1, 1)";
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

    tool.run(&["snapshot", "-t", "kept", "looked"]);
    let listed = tool.run(&["listsnapshots"]);
    assert!(listed.lines().any(|line| ["kept", "looked", "after"].iter().all(|word| line.contains(word))), "{listed}");
    tool.run(&["clearsnapshot", "-t", "kept"]);
    assert!(!tool.run(&["listsnapshots"]).contains("kept"));

    let (ok, said) = tool.try_run(&["flush", "nowhere"]);
    assert!(!ok && said.contains("nowhere"), "{said}");

    tool.run(&["drain"]);
    let refused = python::cqlsh(server.address(), home.path(), &["-e", "SELECT v FROM looked.after"]);
    assert!(!refused.status.success(), "a drained node serves no clients");
    server.stop();
}
