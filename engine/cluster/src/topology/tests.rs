use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

fn address(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, n).into()
}

/// Nodes `10.0.0.1..` with (data centre, rack, tokens).
fn topology(nodes: &[(&str, &str, &[i64])]) -> Topology {
    let configs: Vec<NodeConfig> = nodes
        .iter()
        .enumerate()
        .map(|(index, (dc, rack, tokens))| NodeConfig {
            data_center: dc.to_string(),
            rack: rack.to_string(),
            tokens: Some(tokens.iter().map(|token| Token(*token)).collect()),
            ..NodeConfig::new(address(index as u8 + 1))
        })
        .collect();
    Topology::new(&configs, address(1)).unwrap()
}

fn nts(factors: &[(&str, u32)]) -> Replication {
    Replication::NetworkTopology(factors.iter().map(|(dc, rf)| (dc.to_string(), *rf)).collect())
}

fn simple(replication_factor: u32) -> Replication {
    Replication::Simple { replication_factor }
}

fn check(topology: &Topology, replication: &Replication, token: i64, expect: &[u16]) {
    let set = topology.replicas(replication, Token(token)).unwrap();
    let nodes: Vec<u16> = set.nodes().iter().map(|node| node.0).collect();
    assert_eq!(nodes, expect, "token {token}");
    assert_eq!(topology.replication_map(replication).unwrap().replicas(Token(token)), set, "memoized, token {token}");
}

#[test]
fn simple_strategy_by_hand() {
    // 0: -100, 50   1: 0   2: 100
    let ring = topology(&[("a", "r", &[50, -100]), ("a", "r", &[0]), ("a", "r", &[100])]);
    check(&ring, &simple(1), -100, &[0]);
    check(&ring, &simple(1), -99, &[1]);
    check(&ring, &simple(1), 0, &[1]);
    check(&ring, &simple(1), 1, &[0]);
    check(&ring, &simple(1), 51, &[2]);
    check(&ring, &simple(1), 101, &[0]);
    check(&ring, &simple(1), i64::MIN, &[0]);
    check(&ring, &simple(1), i64::MAX, &[0]);
    check(&ring, &simple(2), 60, &[2, 0]);
    check(&ring, &simple(2), 101, &[0, 1]);
    check(&ring, &simple(2), 10, &[0, 2]);
    // node 0 owns two of the next three entries and counts once
    check(&ring, &simple(3), 10, &[0, 2, 1]);
    // no more replicas than nodes
    check(&ring, &simple(5), 10, &[0, 2, 1]);
    check(&ring, &simple(0), 10, &[]);
    check(&ring, &Replication::Local, 77, &[0]);
}

#[test]
fn network_topology_by_hand() {
    // Ring: 10 a/r1(0), 20 a/r1(1), 30 b/r1(2), 40 a/r2(3), 50 b/r1(4), 60 a/r3(5)
    let ring = topology(&[
        ("a", "r1", &[10]),
        ("a", "r1", &[20]),
        ("b", "r1", &[30]),
        ("a", "r2", &[40]),
        ("b", "r1", &[50]),
        ("a", "r3", &[60]),
    ]);
    // racks first: 1 is in the rack of 0
    check(&ring, &nts(&[("a", 3)]), 5, &[0, 3, 5]);
    check(&ring, &nts(&[("a", 3)]), 15, &[1, 3, 5]);
    check(&ring, &nts(&[("a", 3)]), 55, &[5, 0, 3]);
    // four replicas on three racks: one repeat, the first met
    check(&ring, &nts(&[("a", 4)]), 5, &[0, 1, 3, 5]);
    check(&ring, &nts(&[("a", 2)]), 5, &[0, 3]);
    // one rack in b: every node of it counts
    check(&ring, &nts(&[("b", 2)]), 5, &[2, 4]);
    check(&ring, &nts(&[("a", 2), ("b", 2)]), 25, &[2, 3, 4, 5]);
    check(&ring, &nts(&[("a", 1), ("b", 1)]), 45, &[4, 5]);
    // more than the data centre has, an unknown one, none
    check(&ring, &nts(&[("b", 9), ("elsewhere", 3)]), 5, &[2, 4]);
    check(&ring, &nts(&[("a", 0)]), 5, &[]);
}

#[test]
fn ranges_and_ownership() {
    let ring = topology(&[("a", "r", &[0, 10]), ("a", "r", &[100]), ("a", "r", &[200])]);
    let range = |start, end| TokenRange { start: Token(start), end: Token(end) };
    // (200, 0] and (0, 10] are neighbours
    assert_eq!(ring.primary_ranges(NodeIndex(0)), vec![range(200, 10)]);
    assert_eq!(ring.primary_ranges(NodeIndex(1)), vec![range(10, 100)]);
    let map = ring.replication_map(&simple(2)).unwrap();
    assert_eq!(map.ranges(&ring, NodeIndex(1)), vec![range(200, 100)]);
    assert_eq!(map.ranges(&ring, NodeIndex(0)), vec![range(100, 10)]);
    assert!(range(200, 10).contains(Token(5)) && range(200, 10).contains(Token(i64::MAX)));
    assert!(!range(200, 10).contains(Token(11)) && !range(200, 10).contains(Token(200)));
    let whole = ring.replication_map(&simple(3)).unwrap();
    assert_eq!(whole.ownership(&ring, NodeIndex(2)), 1.0);
    let single = topology(&[("a", "r", &[7])]);
    assert_eq!(single.primary_ranges(NodeIndex(0)), vec![range(7, 7)]);
    assert_eq!(fraction(&single.primary_ranges(NodeIndex(0))), 1.0);
}

#[test]
fn nodes_agree_from_configuration_alone() {
    let configs: Vec<NodeConfig> = (1..=3).map(|n| NodeConfig::new(address(n))).collect();
    let first = Topology::new(&configs, address(1)).unwrap();
    let third = Topology::new(&configs, address(3)).unwrap();
    assert_eq!(first.ring(), third.ring());
    assert_eq!(first.digest(), third.digest());
    assert_eq!(third.local_index(), NodeIndex(2));
    assert_eq!(first.ring().len(), 768);
    let fractions: Vec<f64> = (0..3).map(|n| fraction(&first.primary_ranges(NodeIndex(n)))).collect();
    assert!((fractions.iter().sum::<f64>() - 1.0).abs() < 1e-9);
    assert!(fractions.iter().all(|fraction| (0.25..0.42).contains(fraction)), "{fractions:?}");

    let mut other = configs.clone();
    other[1].rack = "rack2".into();
    let other = Topology::new(&other, address(1)).unwrap();
    assert_ne!(other.digest(), first.digest());
    assert_eq!(other.nodes()[0].digest, first.nodes()[0].digest);
    assert_ne!(other.nodes()[1].digest, first.nodes()[1].digest);
    let mut swapped = configs.clone();
    swapped.swap(0, 1);
    assert_ne!(Topology::new(&swapped, address(1)).unwrap().digest(), first.digest());
}

#[test]
fn host_ids_are_version_3_uuids() {
    let id = host_id_of(address(1));
    assert_eq!((id >> 76) & 0xF, 3);
    assert_eq!((id >> 62) & 0x3, 2);
    assert_ne!(id, host_id_of(address(2)));
}

#[test]
fn refuses_configurations_that_cannot_work() {
    let config = NodeConfig::new(address(1));
    let error = |configs: &[NodeConfig], local| Topology::new(configs, local).unwrap_err();
    assert_eq!(error(&[], address(1)), TopologyError::Empty);
    assert_eq!(error(std::slice::from_ref(&config), address(2)), TopologyError::NotListed(address(2)));
    assert_eq!(error(&[config.clone(), config.clone()], address(1)), TopologyError::DuplicateAddress(address(1)));
    let tokens = |n, tokens| NodeConfig { tokens: Some(tokens), ..NodeConfig::new(address(n)) };
    assert_eq!(
        error(&[tokens(1, vec![Token(1)]), tokens(2, vec![Token(1)])], address(1)),
        TopologyError::DuplicateToken { token: Token(1), first: address(1), second: address(2) }
    );
    assert_eq!(error(&[tokens(1, vec![])], address(1)), TopologyError::NoTokens(address(1)));
    let many: Vec<NodeConfig> = (1..=20).map(|n| NodeConfig::new(address(n))).collect();
    let many = Topology::new(&many, address(1)).unwrap();
    assert_eq!(many.replication_map(&simple(17)).unwrap_err(), TopologyError::TooManyReplicas { asked: 17 });
}

prop_compose! {
    fn clusters()(nodes in proptest::collection::vec((0u8..3, 0u8..4, 1u32..9), 1..14)) -> Topology {
        let configs: Vec<NodeConfig> = nodes.iter().enumerate().map(|(index, (dc, rack, num_tokens))| NodeConfig {
            data_center: format!("dc{dc}"),
            rack: format!("r{rack}"),
            num_tokens: *num_tokens,
            ..NodeConfig::new(address(index as u8 + 1))
        }).collect();
        Topology::new(&configs, address(1)).unwrap()
    }
}

/// A cluster whose last node joins.
fn joining(cluster: &Topology, state: NodeState) -> Option<Topology> {
    let config = |node: &Node| NodeConfig {
        data_center: node.data_center.clone(),
        rack: node.rack.clone(),
        tokens: Some(node.tokens.clone()),
        ..NodeConfig::new(node.address)
    };
    let configs: Vec<NodeConfig> = cluster.nodes().iter().map(config).collect();
    let (last, starting) = configs.split_last()?;
    Topology::with_joined(starting, &[Joined { state, config: last.clone() }], address(1)).ok()
}

#[test]
fn a_node_that_joins_has_a_ring_to_come() {
    let all = topology(&[("a", "r", &[10]), ("a", "r", &[20]), ("a", "r", &[30]), ("a", "r", &[15])]);
    let three = topology(&[("a", "r", &[10]), ("a", "r", &[20]), ("a", "r", &[30])]);
    let with = |state| joining(&all, state).unwrap();
    for state in [NodeState::Known, NodeState::Joining, NodeState::Settling, NodeState::Normal] {
        let ring = with(state);
        let is_read = state >= NodeState::Settling;
        assert_eq!(ring.ring(), if is_read { all.ring() } else { three.ring() }, "{state:?}");
        assert_eq!(ring.digest(), three.digest());
        assert_eq!(ring.other().is_some(), state == NodeState::Joining || state == NodeState::Settling);
        assert_eq!(ring.starting_tokens(), [Token(10), Token(20), Token(30)]);
    }
    let ring = with(NodeState::Joining);
    let map = ring.replication_map(&simple(2)).unwrap();
    assert_eq!(map.replicas(Token(12)).nodes(), [NodeIndex(1), NodeIndex(2)]);
    assert_eq!(map.further(Token(12)).nodes(), [NodeIndex(3)]);
    assert_eq!(map.further(Token(25)).nodes(), []);
    let leavers = |map: &ReplicationMap| -> Vec<_> {
        let all = takeovers(map, NodeIndex(3)).into_iter();
        all.map(|one| (one.range.start.0, one.range.end.0, one.leaver, one.stayers.nodes().to_vec())).collect()
    };
    let expected = [(30, 10, Some(NodeIndex(1)), vec![NodeIndex(0)]), (10, 15, Some(NodeIndex(2)), vec![NodeIndex(1)])];
    assert_eq!(leavers(&map), expected);
    // Settled, it is those who leave that are further.
    let map = with(NodeState::Settling).replication_map(&simple(2)).unwrap();
    assert_eq!(map.further(Token(12)).nodes(), [NodeIndex(2)]);
    // With more replicas than nodes nobody leaves.
    let map = ring.replication_map(&simple(4)).unwrap();
    assert!(leavers(&map).iter().all(|(_, _, leaver, stayers)| leaver.is_none() && stayers.len() == 3));
}

proptest! {
    /// What makes it enough that the node itself fetches data, from the one that leaves each range.
    #[test]
    fn nobody_else_comes_to_have_anything(ring in clusters(), factors in proptest::collection::vec(0u32..5, 3), rf in 1u32..6) {
        let Some(joining) = joining(&ring, NodeState::Joining) else { return Ok(()) };
        let node = NodeIndex(joining.len() as u16 - 1);
        let factors = factors.iter().enumerate().map(|(dc, rf)| (format!("dc{dc}"), *rf)).collect();
        for replication in [simple(rf), Replication::NetworkTopology(factors)] {
            let map = joining.replication_map(&replication).unwrap();
            let mut covered = 0.0;
            for (range, new) in map.other().unwrap().describe() {
                let old = map.replicas(range.end);
                prop_assert!(new.without(&old).nodes().iter().all(|other| *other == node), "{old:?} {new:?}");
                prop_assert!(old.without(&new).len() <= 1, "{old:?} {new:?}");
                covered += if new.contains(node) { fraction(&[range]) } else { 0.0 };
            }
            let taken: f64 = takeovers(&map, node).iter().map(|one| fraction(&[one.range])).sum();
            prop_assert!((taken - covered).abs() < 1e-9);
        }
    }

    #[test]
    fn simple_gives_distinct_nodes(ring in clusters(), rf in 1u32..8, token: i64) {
        let set = ring.replicas(&simple(rf), Token(token)).unwrap();
        prop_assert_eq!(set.len(), (rf as usize).min(ring.len()));
        let mut nodes = set.nodes().to_vec();
        nodes.sort();
        nodes.dedup();
        prop_assert_eq!(nodes.len(), set.len());
        prop_assert_eq!(set.primary(), Some(ring.primary(Token(token))));
    }

    #[test]
    fn network_topology_spreads_over_racks(ring in clusters(), factors in proptest::collection::vec(0u32..5, 3), token: i64) {
        let factors: Vec<(String, u32)> =
            factors.iter().enumerate().map(|(dc, rf)| (format!("dc{dc}"), *rf)).collect();
        let replication = Replication::NetworkTopology(factors.iter().cloned().collect());
        let set = ring.replicas(&replication, Token(token)).unwrap();
        prop_assert_eq!(ring.replication_map(&replication).unwrap().replicas(Token(token)), set);
        for (name, rf) in &factors {
            let Some(dc) = ring.dc_index(name) else { continue };
            let mut chosen: Vec<NodeIndex> = set.iter().filter(|(_, at)| *at == dc).map(|(node, _)| node).collect();
            prop_assert_eq!(chosen.len(), (*rf as usize).min(ring.nodes_in(dc)));
            let racks = |nodes: &mut dyn Iterator<Item = NodeIndex>| {
                let mut racks: Vec<String> = nodes.map(|node| ring.node(node).rack.clone()).collect();
                racks.sort();
                racks.dedup();
                racks.len()
            };
            let all = racks(&mut ring.nodes().iter().filter(|node| node.dc == dc).map(|node| node.index));
            prop_assert_eq!(racks(&mut chosen.iter().copied()), all.min(*rf as usize));
            chosen.sort();
            chosen.dedup();
            prop_assert_eq!(chosen.len(), (*rf as usize).min(ring.nodes_in(dc)));
        }
    }

    #[test]
    fn ranges_agree_with_lookups(ring in clusters(), rf in 1u32..4, token: i64) {
        let map = ring.replication_map(&simple(rf)).unwrap();
        let set = map.replicas(Token(token));
        let mut sum = 0.0;
        for node in ring.nodes() {
            let holds = map.ranges(&ring, node.index).iter().any(|range| range.contains(Token(token)));
            prop_assert_eq!(holds, set.contains(node.index));
            sum += map.ownership(&ring, node.index);
        }
        prop_assert!((sum - (rf as usize).min(ring.len()) as f64).abs() < 1e-6);
    }
}
