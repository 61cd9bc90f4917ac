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
        // A system without turns pays for each message alone.
        let of_turns = |work: Work| matches!(work, Work::Turn | Work::Doorbell | Work::Wake | Work::Timer);
        let happens = |work: Work| system.turn.is_some() || !of_turns(work);
        let needed = |work: Work| shared(work) || (client(work) == system.memory.is_none() && happens(work));
        let missing: Vec<&str> = Work::ALL
            .iter()
            .filter(|w| needed(**w))
            .map(|w| w.name())
            .filter(|n| !system.costs.work.contains_key(*n))
            .collect();
        assert!(missing.is_empty(), "{}: no cost of {missing:?}", system.name);
    }
}
