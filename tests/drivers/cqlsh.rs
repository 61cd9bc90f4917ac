//! cqlsh works: statements, formatted results, session commands, DESCRIBE (which the server answers), errors.

use std::process::Output;

use orrery_tests::node::Server;
use orrery_tests::python;

struct Shell {
    server: Server,
    home: tempfile::TempDir,
}

impl Shell {
    fn new() -> Shell {
        let shell = Shell { server: Server::start(), home: tempfile::tempdir().expect("a folder for cqlsh's home") };
        shell.execute(
            "CREATE KEYSPACE IF NOT EXISTS shell WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        );
        shell
    }

    fn run(&self, statements: &str) -> Output {
        python::cqlsh(self.server.address(), self.home.path(), &["-e", statements])
    }

    /// Runs statements that must succeed; returns standard output without the greeting about versions.
    fn execute(&self, statements: &str) -> String {
        let output = self.run(statements);
        assert!(output.status.success(), "{statements}\n{}", python::both(&output));
        assert!(output.stderr.is_empty(), "{statements}\n{}", python::both(&output));
        let text = String::from_utf8(output.stdout).expect("cqlsh prints UTF-8");
        text.lines().filter(|line| !line.starts_with("WARNING: cqlsh was built against")).fold(
            String::new(),
            |mut text, line| {
                text.push_str(line.trim_end());
                text.push('\n');
                text
            },
        )
    }

    fn table(&self, name: &str, columns: &str) {
        self.execute(&format!("DROP TABLE IF EXISTS shell.{name}; CREATE TABLE shell.{name} ({columns})"));
    }
}

#[test]
fn rows_are_formatted() {
    let shell = Shell::new();
    shell.table("t", "p int, c text, v double, b blob, d date, t timestamp, u uuid, n varint, PRIMARY KEY (p, c)");
    let shown = shell.execute(
        "USE shell;
         INSERT INTO t (p, c, v, b, d, t, u, n) VALUES (1, 'é''s', 0.5, 0xcafe, '2026-02-28', '2026-02-28 12:00:00+0000', \
             2b8b1d10-e511-41f1-a6b7-9753ff18e6c3, 123456789012345678901234567890);
         INSERT INTO t (p, c) VALUES (1, 'z');
         SELECT * FROM t WHERE p = 1;",
    );
    let expected = "
 p | c   | b      | d          | n                              | t                               | u                                    | v
---+-----+--------+------------+--------------------------------+---------------------------------+--------------------------------------+------
 1 |   z |   null |       null |                           null |                            null |                                 null | null
 1 | é's | 0xcafe | 2026-02-28 | 123456789012345678901234567890 | 2026-02-28 12:00:00.000000+0000 | 2b8b1d10-e511-41f1-a6b7-9753ff18e6c3 |  0.5

(2 rows)
";
    assert_eq!(shown, expected);
}

#[test]
fn session_commands() {
    let shell = Shell::new();
    shell.table("s", "p int PRIMARY KEY, v int");
    let shown = shell.execute(
        "CONSISTENCY; CONSISTENCY ALL; INSERT INTO shell.s (p, v) VALUES (1, 2); SELECT v FROM shell.s WHERE p = 1; \
         EXPAND ON; SELECT p, v FROM shell.s; PAGING OFF; SHOW VERSION;",
    );
    let lines: Vec<&str> = shown.lines().filter(|line| !line.is_empty()).collect();
    let expected = [
        "Current consistency level is ONE.",
        "Consistency level set to ALL.",
        " v",
        "---",
        " 2",
        "(1 rows)",
        "EXPAND set to ON",
        "@ Row 1",
        "---+---",
        " p | 1",
        " v | 2",
        "(1 rows)",
        "PAGING set to OFF",
    ];
    assert_eq!(lines[..lines.len() - 1], expected);
    let version = lines[lines.len() - 1];
    assert!(version.starts_with("[cqlsh 6.2.2 | ") && version.contains("| Native protocol v"), "{version}");
}

#[test]
fn a_file_of_statements() {
    let shell = Shell::new();
    shell.table("f", "p int PRIMARY KEY, v text");
    let file = shell.home.path().join("statements.cql");
    let text = "-- a comment\nUSE shell;\n/* and\n another */\nINSERT INTO f (p, v)\n  VALUES (1, 'over; lines');\nSELECT v FROM f;\n";
    std::fs::write(&file, text).expect("the folder is ours");
    let output = python::cqlsh(shell.server.address(), shell.home.path(), &["-f", &file.to_string_lossy()]);
    assert!(output.status.success(), "{}", python::both(&output));
    assert!(python::both(&output).contains("over; lines"), "{}", python::both(&output));
}

#[test]
fn describe_gives_back_what_was_created() {
    let shell = Shell::new();
    shell.table("d", "p int, q text, c timeuuid, v inet, PRIMARY KEY ((p, q), c)");
    let tables = shell.execute("USE shell; DESCRIBE TABLES");
    assert!(tables.split_whitespace().any(|word| word == "d"), "{tables}");
    let keyspaces = shell.execute("DESCRIBE KEYSPACES");
    assert!(["shell", "system", "system_schema"].iter().all(|name| keyspaces.contains(name)), "{keyspaces}");
    let keyspace = shell.execute("DESCRIBE KEYSPACE shell");
    assert!(keyspace.contains("CREATE KEYSPACE shell WITH replication = {"), "{keyspace}");
    assert!(keyspace.contains("CREATE TABLE shell.d ("), "{keyspace}");

    let created = shell.execute("DESCRIBE TABLE shell.d");
    assert!(created.contains("PRIMARY KEY ((p, q), c)"), "{created}");
    shell.execute(&format!("DROP TABLE shell.d; {}", created.trim_end().trim_end_matches(';')));
    assert_eq!(shell.execute("DESCRIBE TABLE shell.d"), created);
}

#[test]
fn copy_to_a_file_and_back() {
    let shell = Shell::new();
    shell.table("c", "p int, c text, v list<int>, m map<text, text>, t timestamp, b blob, PRIMARY KEY (p, c)");
    shell.execute(
        "INSERT INTO shell.c (p, c, v, m, t, b) VALUES (1, 'a, \"b\"', [1, 2], {'k': 'v'}, '2026-01-02 03:04:05+0000', 0xcafe);
         INSERT INTO shell.c (p, c) VALUES (2, 'é');",
    );
    let before = shell.execute("SELECT * FROM shell.c");
    let file = shell.home.path().join("rows.csv");
    let file = file.display();
    let copied = |statement: &str, says: &str| {
        let output = shell.run(statement);
        assert!(output.status.success() && python::both(&output).contains(says), "{}", python::both(&output));
    };
    copied(&format!("COPY shell.c TO '{file}' WITH HEADER = TRUE"), "2 rows exported");
    shell.execute("TRUNCATE shell.c");
    copied(&format!("COPY shell.c FROM '{file}' WITH HEADER = TRUE"), "2 rows imported");
    assert_eq!(shell.execute("SELECT * FROM shell.c"), before);
}

#[test]
fn statements_are_traced() {
    let shell = Shell::new();
    shell.table("r", "p int PRIMARY KEY, v int");
    let shown = shell.execute("TRACING ON; SELECT * FROM shell.r WHERE p = 1");
    for step in ["Tracing session: ", "Parsing a statement", "Reading shell.r", "Request complete"] {
        assert!(shown.contains(step), "{step}: {shown}");
    }
}

#[test]
fn errors_are_shown_and_end_with_a_status() {
    let shell = Shell::new();
    for (statement, shown) in [
        ("SELEC 1", "SyntaxException"),
        ("SELECT * FROM shell.nothing", "code=2200"),
        ("SELECT nothing FROM system.local", "code=2200"),
        ("DESCRIBE TABLE shell.nothing", "not found"),
    ] {
        let output = shell.run(statement);
        let text = python::both(&output);
        assert!(text.contains(shown), "{statement}: {text}");
        assert_eq!(output.status.code(), Some(2), "{statement}: {text}");
    }
}
