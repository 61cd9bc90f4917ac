//! What a user sees for a bad scenario: file, line, column, the line itself and a next step.

#![allow(clippy::unwrap_used)]

use hwprofiles::Profiles;
use hwprofiles::document::Document;
use miette::{GraphicalReportHandler, GraphicalTheme};
use scenarios::load;

const GOOD: &str = "\
name: bad
cluster: {system: scylla-1.6.1, instance: c3.2xlarge, nodes: 3, data_disk: ebs-gp2-3400g, network: one-zone}
loaders: {instance: m4.2xlarge, nodes: 3}
schema: {keyspace: {replication_factor: 3}}
scale: {data: 1/1000}
phases:
  - {name: populate, stress: \"write n=1000000 cl=QUORUM -pop seq=1..1000000 -rate threads=800\"}
  - name: read
    stress: read duration=20m cl=QUORUM -pop dist=uniform(1..1000000) -rate threads=400
    warmup: 2m
faults:
  - {at: read+5m, kill: {node: 1, power_loss: true}, restart_after: 2m}
checks: {slo: [{phase: read, metric: latency_p99, max: 50 ms}]}
reference:
  - {phase: read, metric: throughput, value: 124958 op/s, source: published}
";

/// The report for the good scenario with `from` replaced by `to`.
fn report(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from}");
    let document = Document::new("bad.yaml", GOOD.replacen(from, to, 1));
    let error = load::read(&document, &Profiles::embedded()).unwrap_err();
    let mut text = String::new();
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor()).with_width(110);
    handler.render_report(&mut text, error.as_ref()).unwrap();
    text
}

#[test]
fn the_good_one_is_read() {
    load::read(&Document::new("good.yaml", GOOD), &Profiles::embedded()).unwrap();
}

macro_rules! bad {
    ($($name:ident: $from:literal => $to:literal;)*) => {$(
        #[test]
        fn $name() {
            insta::assert_snapshot!(report($from, $to));
        }
    )*};
}

bad! {
    unknown_key: "warmup:" => "warmpu:";
    unknown_key_in_a_flow_map: "nodes: 3, data_disk" => "nodse: 3, data_disk";
    missing_key: ", network: one-zone" => "";
    a_misplaced_key: "network: one-zone" => "seed: 2";
    not_a_moment: "at: read+5m" => "at: read 5m";
    missing_unit: "warmup: 2m" => "warmup: 120";
    wrong_unit: "max: 50 ms" => "max: 50 op/s";
    wrong_unit_of_a_duration: "warmup: 2m" => "warmup: 2 mins";
    missing_profile: "instance: c3.2xlarge" => "instance: c3.2xlrage";
    missing_system: "scylla-1.6.1" => "scilla-1.6.1";
    a_client_as_server: "scylla-1.6.1" => "cassandra-stress";
    too_many_replicas: "replication_factor: 3" => "replication_factor: 5";
    no_loaders: "instance: m4.2xlarge, nodes: 3" => "instance: m4.2xlarge, nodes: 0";
    a_disk_that_the_instance_lacks: "instance: c3.2xlarge, nodes: 3, data_disk: ebs-gp2-3400g"
        => "instance: m4.2xlarge, nodes: 3, data_disk: c3-local-ssd-raid0";
    too_much_data: "n=1000000 cl=QUORUM -pop seq=1..1000000" => "n=20B cl=QUORUM -pop seq=1..20B";
    a_slip_in_a_command_line: "dist=uniform(" => "dist=unifrom(";
    a_slip_in_a_quoted_command_line: "threads=800" => "threads=80O";
    more_time_than_full_size: "data: 1/1000" => "data: 1/1000, time: 2";
    unknown_phase: "at: read+5m" => "at: raed+5m";
    unknown_metric: "metric: throughput" => "metric: throughputt";
    unknown_node: "node: 1" => "node: 4";
    unknown_standing: "source: published" => "source: rumoured";
    not_yaml: "phases:" => "phases: {";
}
