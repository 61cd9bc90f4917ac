//! What a node writes down of its clients' requests: traces, slow queries, the audit log. The checks are in
//! `observed.py`.

use orrery_tests::node::{Server, Settings, Site};
use orrery_tests::python;

fn check(class: &str, settings: Settings, config: &str) {
    let site = Site::new();
    let mut node = site.node(1, 1, settings);
    let file = site.folder().join("orrery.yaml");
    std::fs::write(&file, config).expect("the site's folder is writable");
    node.arguments.extend(["--config".to_string(), file.to_string_lossy().into_owned()]);
    let _server = Server::start_node(&node);
    let output = python::script("observed.py", &[&node.address.to_string(), "9042", class]);
    assert!(output.status.success(), "{class} failed\n{}", python::both(&output));
}

#[test]
fn traces() {
    check("Traces", Settings::default(), "");
}

#[test]
fn slow_queries() {
    check("SlowQueries", Settings::default(), "");
}

#[test]
fn what_is_large_and_what_was_compacted() {
    check("StorageJournal", Settings::default(), "");
}

#[test]
fn busy_partitions() {
    check("TopPartitions", Settings::default(), "");
}

#[test]
fn the_audit_log() {
    let config = "audit: table\naudit_categories: DCL,DDL,AUTH,ADMIN,DML,QUERY\naudit_keyspaces: audited\n";
    check("AuditLog", Settings { secured: true, ..Settings::default() }, config);
}
