use std::net::{IpAddr, Ipv4Addr};

use types::Replication;

use super::*;
use crate::topology::{NodeConfig, NodeIndex, ReplicaSet, Topology};

/// Nodes 0.. with the data centres given; the first is local.
fn topology(dcs: &[&str]) -> Topology {
    let address = |n: usize| IpAddr::from(Ipv4Addr::new(10, 0, 0, n as u8 + 1));
    let configs: Vec<NodeConfig> = dcs
        .iter()
        .enumerate()
        .map(|(n, dc)| NodeConfig { data_center: dc.to_string(), num_tokens: 4, ..NodeConfig::new(address(n)) })
        .collect();
    Topology::new(&configs, address(0)).unwrap()
}

fn all(topology: &Topology) -> ReplicaSet {
    let mut set = ReplicaSet::EMPTY;
    for node in topology.nodes() {
        set.push(node.index, node.dc);
    }
    set
}

fn nts(factors: &[(&str, u32)]) -> Replication {
    Replication::NetworkTopology(factors.iter().map(|(dc, rf)| (dc.to_string(), *rf)).collect())
}

#[test]
fn requirements_by_table() {
    let topology = topology(&["a", "a", "a", "b", "b", "b"]);
    let simple = |replication_factor| Replication::Simple { replication_factor };
    let table = [
        (Level::Any, simple(3), 1),
        (Level::One, simple(3), 1),
        (Level::Two, simple(3), 2),
        (Level::Three, simple(3), 3),
        (Level::Quorum, simple(1), 1),
        (Level::Quorum, simple(2), 2),
        (Level::Quorum, simple(3), 2),
        (Level::Quorum, simple(4), 3),
        (Level::Quorum, simple(5), 3),
        (Level::Serial, simple(3), 2),
        (Level::All, simple(3), 3),
        (Level::LocalQuorum, simple(3), 2),
        (Level::EachQuorum, simple(3), 2),
        (Level::LocalOne, simple(3), 1),
        (Level::Quorum, Replication::Local, 1),
        (Level::All, Replication::Local, 1),
        (Level::Quorum, nts(&[("a", 3), ("b", 3)]), 4),
        (Level::All, nts(&[("a", 3), ("b", 2)]), 5),
        (Level::LocalQuorum, nts(&[("a", 3), ("b", 5)]), 2),
        (Level::LocalSerial, nts(&[("a", 3), ("b", 5)]), 2),
        (Level::EachQuorum, nts(&[("a", 3), ("b", 3)]), 4),
        (Level::EachQuorum, nts(&[("a", 3), ("b", 0)]), 2),
        (Level::LocalQuorum, nts(&[("b", 3)]), 1),
    ];
    for (level, replication, required) in table {
        let requirement = Requirement::new(level, &replication, &topology);
        assert_eq!(requirement.required(), required, "{level:?} {replication:?}");
    }
}

#[test]
fn availability_by_table() {
    let topology = topology(&["a", "a", "a", "b", "b", "b"]);
    let both = nts(&[("a", 3), ("b", 3)]);
    let set = all(&topology);
    let ok = Ok(());
    let no = |required, alive| Err(Unavailable { required, alive });
    let table = [
        (Level::One, 0b000000, no(1, 0)),
        (Level::Any, 0b000000, ok),
        (Level::One, 0b100000, ok),
        (Level::LocalOne, 0b111000, no(1, 0)),
        (Level::LocalOne, 0b000001, ok),
        (Level::LocalQuorum, 0b111001, no(2, 1)),
        (Level::LocalQuorum, 0b000011, ok),
        (Level::Quorum, 0b000111, no(4, 3)),
        (Level::Quorum, 0b001111, ok),
        (Level::EachQuorum, 0b001111, no(4, 3)),
        (Level::EachQuorum, 0b011110, ok),
        (Level::All, 0b011111, no(6, 5)),
        (Level::All, 0b111111, ok),
    ];
    for (level, alive, expect) in table {
        assert_eq!(Requirement::new(level, &both, &topology).check_alive(&set, alive), expect, "{level:?} {alive:06b}");
    }
}

/// One event per word: `+n` an answer, `-n` a failure of node n, `t` the timeout. The outcome after each, as a letter.
fn check_write(level: Level, dcs: &[&str], replication: Replication, dead: &[u16], events: &str, expect: &str) {
    let topology = topology(dcs);
    let requirement = Requirement::new(level, &replication, &topology);
    let mut decision =
        WriteDecision::begin(requirement, all(&topology), |node| !dead.contains(&node.0)).expect("available");
    let outcomes: Vec<String> = events
        .split_whitespace()
        .map(|event| match (&event[..1], &event[1..]) {
            ("+", node) => decision.on_ack(NodeIndex(node.parse().unwrap())),
            ("-", node) => decision.on_failure(NodeIndex(node.parse().unwrap())),
            _ => decision.on_timeout(),
        })
        .map(picture)
        .collect();
    assert_eq!(outcomes.join(" "), expect, "{level:?} {events}");
}

fn picture(outcome: Outcome) -> String {
    match outcome {
        Outcome::Pending => "pending".into(),
        Outcome::Done => "done".into(),
        Outcome::Failed(s) => {
            let kind = if s.timed_out { "timeout" } else { "failure" };
            let data = if s.data_present { "+data" } else { "" };
            format!("{kind}({}/{},{}){data}", s.received, s.required, s.failures)
        }
    }
}

#[test]
fn writes_by_table() {
    let three = ["a", "a", "a"];
    let simple = Replication::Simple { replication_factor: 3 };
    let write = |level, dead: &[u16], events, expect| check_write(level, &three, simple.clone(), dead, events, expect);
    write(Level::Quorum, &[], "+0 +2 +1", "pending done done");
    write(Level::Quorum, &[], "+0 +0 t", "pending pending timeout(1/2,0)");
    write(Level::Quorum, &[], "-0 +1 +2", "pending pending done");
    write(Level::Quorum, &[], "-0 -1", "pending failure(0/2,2)");
    write(Level::Quorum, &[], "+0 -1 -2", "pending pending failure(1/2,2)");
    write(Level::Quorum, &[2], "+0 -1", "pending failure(1/2,1)");
    write(Level::Quorum, &[2], "+0 +1", "pending done");
    write(Level::All, &[], "+0 -1", "pending failure(1/3,1)");
    write(Level::One, &[], "-0 -1 +2", "pending pending done");
    write(Level::One, &[], "+7 t", "pending timeout(0/1,0)");
    // done stays done, whatever comes later
    write(Level::One, &[], "+0 -1 -2 t", "done done done done");
    // a failure after an answer of the same replica is not counted, nor the other way round
    write(Level::Two, &[], "+0 -0 -1 +1 +2", "pending pending pending pending done");

    let six = ["a", "a", "a", "b", "b", "b"];
    let both = nts(&[("a", 3), ("b", 3)]);
    let write = |level, events, expect| check_write(level, &six, both.clone(), &[], events, expect);
    write(Level::LocalQuorum, "+3 +4 +5 +0 +1", "pending pending pending pending done");
    write(Level::LocalQuorum, "+3 -0 -1", "pending pending failure(0/2,2)");
    write(Level::EachQuorum, "+0 +1 +2 +3 t", "pending pending pending pending timeout(3/4,0)");
    write(Level::EachQuorum, "+0 +1 +3 +4", "pending pending pending done");
    write(Level::EachQuorum, "+0 +1 -3 -4", "pending pending pending failure(2/4,2)");
}

#[test]
fn any_is_satisfied_by_a_hint_and_begins_with_no_replica_alive() {
    let topology = topology(&["a", "a", "a"]);
    let requirement = Requirement::new(Level::Any, &Replication::Simple { replication_factor: 3 }, &topology);
    let decision = WriteDecision::begin(requirement, all(&topology), |_| false).unwrap();
    assert!(requirement.hint_suffices());
    assert_eq!(decision.targets().count(), 0);
    assert_eq!(decision.missed().count(), 3);
}

#[test]
fn replicas_that_are_as_near_are_read_as_often() {
    let topology = topology(&["a", "a", "a"]);
    let requirement = Requirement::new(Level::Quorum, &Replication::Simple { replication_factor: 3 }, &topology);
    let mut asked = [0; 3];
    for me in 0..3 {
        for turn in 0..3 {
            let local = (NodeIndex(me), topology.local().dc);
            let decision = ReadDecision::begin(requirement, all(&topology), local, turn, None, |_| true).unwrap();
            assert!(decision.targets().any(|node| node.0 == me));
            decision.targets().for_each(|node| asked[usize::from(node.0)] += 1);
        }
    }
    assert_eq!(asked, [6, 6, 6]);
}

#[test]
fn reads_ask_the_nearest_and_then_spares() {
    let topology = topology(&["a", "a", "a", "b", "b", "b"]);
    let both = nts(&[("a", 3), ("b", 3)]);
    let local = (NodeIndex(0), topology.local().dc);
    let mut set = ReplicaSet::EMPTY;
    for index in [5, 2, 4, 1, 3, 0] {
        let node = topology.node(NodeIndex(index));
        set.push(node.index, node.dc);
    }
    let begin = |level, dead: &[u16]| {
        let requirement = Requirement::new(level, &both, &topology);
        ReadDecision::begin(requirement, set, local, 0, None, |node| !dead.contains(&node.0))
    };
    let targets = |decision: &ReadDecision| decision.targets().map(|node| node.0).collect::<Vec<_>>();

    assert_eq!(targets(&begin(Level::One, &[]).unwrap()), [0]);
    assert_eq!(targets(&begin(Level::One, &[0, 2]).unwrap()), [1]);
    assert_eq!(targets(&begin(Level::One, &[0, 1, 2]).unwrap()), [5]);
    assert_eq!(targets(&begin(Level::LocalQuorum, &[]).unwrap()), [2, 0]);
    assert_eq!(targets(&begin(Level::EachQuorum, &[]).unwrap()), [5, 2, 4, 0]);
    assert_eq!(begin(Level::LocalQuorum, &[0, 1]).unwrap_err(), Unavailable { required: 2, alive: 1 });

    let mut decision = begin(Level::LocalQuorum, &[]).unwrap();
    assert!(!decision.wants_spare());
    assert_eq!(decision.on_failure(NodeIndex(2)), Outcome::Pending);
    assert!(decision.wants_spare());
    assert_eq!(decision.next_spare(), Some(NodeIndex(1)));
    assert!(!decision.wants_spare());
    assert_eq!(decision.next_spare(), None);
    assert_eq!(decision.on_ack(NodeIndex(0), true), Outcome::Pending);
    let mut late = decision;
    assert_eq!(picture(late.on_timeout()), "timeout(1/2,1)+data");
    let mut failed = decision;
    assert_eq!(picture(failed.on_failure(NodeIndex(1))), "failure(1/2,2)+data");
    assert_eq!(decision.on_ack(NodeIndex(1), true), Outcome::Done);
}

/// Whatever answers a quorum is content with while a node joins, a quorum of either ring has one of them.
#[test]
fn a_write_while_a_node_joins_is_seen_through_both_rings() {
    let topology = topology(&["a", "a", "a", "a", "a"]);
    for (factor, stay, leaves) in [(3u32, 2usize, 1usize), (3, 1, 1), (3, 2, 0), (1, 0, 1), (2, 1, 1), (5, 3, 1)] {
        // Those that stay, the one that leaves, the one that joins.
        let mut union = ReplicaSet::EMPTY;
        let nodes = &topology.nodes()[..stay + leaves + 1];
        nodes.iter().for_each(|node| union.push(node.index, node.dc));
        let mut further = ReplicaSet::EMPTY;
        further.push(nodes[stay + leaves].index, nodes[0].dc);
        let replication = Replication::Simple { replication_factor: factor };
        for level in [Level::Quorum, Level::LocalQuorum, Level::All] {
            let plain = Requirement::new(level, &replication, &topology);
            let both = plain.with_further(&further);
            assert_eq!(both.required(), plain.required() + 1);
            let stays = (1u16 << stay) - 1;
            let joins = 1u16 << (stay + leaves);
            let (old, new) = (stays | (joins - 1), stays | joins);
            for written in (0..joins << 1).filter(|mask| both.satisfied_by(&union, *mask)) {
                let read = Requirement::new(Level::Quorum, &replication, &topology);
                for ring in [old, new] {
                    let quorums = (0..joins << 1).filter(|mask| mask & !ring == 0 && read.satisfied_by(&union, *mask));
                    for quorum in quorums {
                        assert_ne!(quorum & written, 0, "{factor} {level:?} {written:b} {quorum:b}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_replica_that_joins_counts_where_its_data_centre_does() {
    let topology = topology(&["a", "a", "b", "b"]);
    let both = nts(&[("a", 2), ("b", 2)]);
    let of = |node: usize| ReplicaSet::one(topology.nodes()[node].index, topology.nodes()[node].dc);
    let check = |level, further: usize, expect: u32| {
        let requirement = Requirement::new(level, &both, &topology);
        assert_eq!(requirement.with_further(&of(further)).required(), requirement.required() + expect, "{level:?}");
    };
    check(Level::Quorum, 3, 1);
    check(Level::LocalQuorum, 1, 1);
    check(Level::LocalQuorum, 3, 0);
    check(Level::LocalOne, 3, 0);
    check(Level::EachQuorum, 3, 1);
    check(Level::One, 0, 1);
}
