//! The Python driver works: one test per ability, each against a server of its own. The checks are in
//! `python_driver.py` and, a file for each further topic, beside it, class by class.

use orrery_tests::node::{Server, Settings};
use orrery_tests::python;

fn check(class: &str) {
    check_in("python_driver.py", class);
}

fn check_in(file: &str, class: &str) {
    check_with(file, class, Settings::default());
}

fn check_with(file: &str, class: &str, settings: Settings) {
    let server = Server::start_with(settings);
    let address = server.address();
    let (host, port) = (address.ip().to_string(), address.port().to_string());
    let output = python::script(file, &[&host, &port, class]);
    assert!(output.status.success(), "{class} failed\n{}", python::both(&output));
}

#[test]
fn connect() {
    check("Connect");
}

#[test]
fn types() {
    check("Types");
}

#[test]
fn rows() {
    check("Rows");
}

#[test]
fn paging() {
    check("Paging");
}

#[test]
fn prepared() {
    check("Prepared");
}

#[test]
fn batches() {
    check("Batches");
}

#[test]
fn slices_of_the_ring_come_whole_and_in_order() {
    check_in("language.py", "Ring");
}

#[test]
fn operators() {
    check_in("language.py", "Operators");
}

#[test]
fn restrictions() {
    check_in("language.py", "Restrictions");
}

#[test]
fn changes() {
    check_in("language.py", "Changes");
}

#[test]
fn functions_of_values() {
    check_in("language.py", "Functions");
}

#[test]
fn guardrails() {
    check_in("guardrails.py", "Guardrails");
}

#[test]
fn captured() {
    check_in("captured.py", "Captured");
}

#[test]
fn compression() {
    check_in("protocol.py", "Compression");
}

#[test]
fn versions() {
    check_in("protocol.py", "Versions");
}

#[test]
fn hostile_clients() {
    check_in("hostile.py", "Hostile");
}

#[test]
fn security() {
    check_with("security.py", "Security", Settings { secured: true, ..Settings::default() });
}

#[test]
fn times() {
    check("Times");
}

#[test]
fn errors() {
    check("Errors");
}

#[test]
fn schema() {
    check("Schema");
}

#[test]
fn concurrency() {
    check("Concurrency");
}

#[test]
fn conditional() {
    check_in("conditional.py", "Conditional");
}

#[test]
fn filtering() {
    check_in("conditional.py", "Filtering");
}

#[test]
fn elements() {
    check_in("typed_values.py", "Elements");
}

#[test]
fn user_types() {
    check_in("typed_values.py", "UserTypes");
}

#[test]
fn counters() {
    check_in("typed_values.py", "Counters");
}

#[test]
fn functions() {
    check_in("typed_values.py", "Functions");
}

#[test]
fn views() {
    check_in("derived.py", "Views");
}

#[test]
fn indexes() {
    check_in("derived.py", "Indexes");
}

#[test]
fn alter() {
    check_in("definition.py", "Alter");
}

#[test]
fn described() {
    check_in("definition.py", "Described");
}

#[test]
fn ordered() {
    check_in("definition.py", "Ordered");
}
