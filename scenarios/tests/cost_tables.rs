//! Cost tables know every kind of work that the engine declares, and no other.

#![allow(clippy::unwrap_used)]

use hwprofiles::Profiles;
use reactor::Work;

#[test]
fn every_kind_of_work_has_a_cost() {
    for system in Profiles::embedded().systems.values() {
        // What a CPU that only serves interrupts does is no work of the engine's.
        let known = |name: &str| name == "net-interrupt" || Work::from_name(name).is_some();
        let unknown: Vec<&String> = system.costs.work.keys().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{}: unknown work {unknown:?}", system.name);
        let client = |work: Work| matches!(work, Work::ClientRequest | Work::ClientResponse);
        let shared = |work: Work| matches!(work, Work::Poll | Work::NetReceive | Work::NetSend | Work::CrossShard);
        let needed = |work: Work| shared(work) || client(work) == system.memory.is_none();
        let missing: Vec<&str> = Work::ALL
            .iter()
            .filter(|w| needed(**w))
            .map(|w| w.name())
            .filter(|n| !system.costs.work.contains_key(*n))
            .collect();
        assert!(missing.is_empty(), "{}: no cost of {missing:?}", system.name);
    }
}

/// The sums that the tables were split from: hardware facts divided by published rates. A cost that is changed without
/// its neighbours shows here.
#[test]
fn the_costs_of_an_operation_add_up_to_the_published_bound() {
    let profiles = Profiles::embedded();
    let us = |system: &str, parts: &[(&str, f64, u64)]| -> f64 {
        let system = profiles.system(system).unwrap();
        let instance = profiles.instance("c3.2xlarge").unwrap();
        parts.iter().map(|(work, times, bytes)| times * system.costs.on(instance, work).ns(*bytes) as f64 / 1e3).sum()
    };
    // A QUORUM read of the default row: one replica is the coordinator, one answers over the network; a shard hop at
    // each; one SSTable a replica.
    let read = [
        ("poll", 10.0, 0),
        ("net-receive", 3.0, 250),
        ("net-send", 3.0, 250),
        ("cross-shard", 4.0, 0),
        ("frame-decode", 1.0, 60),
        ("statement-execute", 1.0, 0),
        ("coordinate-read", 1.0, 0),
        ("message-encode", 2.0, 150),
        ("message-decode", 2.0, 150),
        ("memtable-read", 2.0, 0),
        ("bloom-probe", 2.0, 0),
        ("sstable-index", 2.0, 0),
        ("sstable-read", 2.0, 300),
        ("reconcile", 1.0, 300),
        ("frame-encode", 1.0, 250),
    ];
    let scylla = us("scylla-1.6.1", &read);
    assert!((150.0..180.0).contains(&scylla), "{scylla} us, published bound 168 us");
    let cassandra = us("cassandra-3.0.9", &read);
    assert!((420.0..490.0).contains(&cassandra), "{cassandra} us, published bound 468 us");
}
