//! Groups of both versions, both families, and many virtual routers.

use super::*;

/// Nodes at 1 s with these versions and priorities, run until one is Active.
fn group(members: &[(Versions, u8)]) -> Lan {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    let nodes = u8::try_from(members.len()).unwrap();
    for (node, (versions, priority)) in (0..).zip(members) {
        lan.add(Config { versions: *versions, ..config(node, nodes, *priority, 1000) });
    }
    lan.run_for(lan.bound() * 2);
    lan
}

/// Scenario 16.
#[test]
fn three_version_2_routers_elect_the_highest_priority() {
    let lan = group(&[(Versions::V2, 10), (Versions::V2, 20), (Versions::V2, 30)]);
    assert_eq!(lan.active(), [2]);
    assert_settled(&lan);
}

/// Scenario 17.
#[test]
fn three_ipv6_routers_elect_the_highest_priority() {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    for (node, priority) in [(0, 10), (1, 20), (2, 30)] {
        let peers = (0..3).filter(|n| *n != node).map(|n| address(Family::V6, n)).collect();
        let addresses = ["fe80::100", "2001:db8::100"].map(|a| a.parse().unwrap()).into();
        let primary = address(Family::V6, node);
        lan.add(Config { primary, peers, addresses, ..config(node, 3, priority, 1000) });
    }
    lan.run_for(lan.bound() * 2);
    assert_eq!(lan.active(), [2]);
    assert_settled(&lan);
}

// shows: rfc9568 V1
/// RFC 9568 §8.4: node by node from version 2 over both to version 3, without a second Active or a gap.
#[test]
fn a_group_is_upgraded_node_by_node_without_a_change_of_active() {
    let mut lan = group(&[(Versions::V2, 200), (Versions::V2, 150), (Versions::V2, 100)]);
    for versions in [Versions::V2AndV3, Versions::V3] {
        for node in [2, 1, 0] {
            let changed = Config { versions, ..lan.config(node, 0).clone() };
            lan.reconfigure(node, 0, changed);
            lan.run_for(Duration::from_secs(7));
            assert_eq!(lan.active(), [0], "{versions:?} on node {node}");
        }
    }
    assert_eq!([0, 1, 2].map(|node| promotions(&lan, node)), [1, 0, 0]);
    assert_settled(&lan);
}

/// In a mixed group the version 3 copy of an advert does not double the answers.
#[test]
fn with_both_versions_a_contention_is_settled_with_as_few_adverts_as_with_one() {
    let settled_with = |versions| {
        let mut lan = group(&[(versions, 200), (versions, 100)]);
        lan.partition(&[0, 1]);
        lan.run_for(lan.bound());
        assert_eq!(lan.active(), [0, 1]);
        lan.heal();
        let healed = lan.now();
        lan.run_for(Duration::from_millis(999));
        assert_eq!(lan.active(), [0]);
        adverts_since(&lan, healed)
    };
    assert_eq!(settled_with(Versions::V2AndV3), settled_with(Versions::V3));
}

/// R11: RFC 3768's rule, whose price is two Actives; it is why such adverts are counted.
#[test]
fn version_2_routers_of_different_intervals_do_not_hear_each_other() {
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    lan.add(Config { versions: Versions::V2, ..config(0, 2, 200, 1000) });
    lan.add(Config { versions: Versions::V2, ..config(1, 2, 100, 2000) });
    lan.run_for(Duration::from_mins(1));
    assert_eq!(lan.active(), [0, 1]);
    assert!(lan.violation().is_none(), "every advert is refused, which excuses it");
}

#[test]
fn many_virtual_routers_share_the_nodes_and_fail_over_each_by_its_own_ranking() {
    const ROUTERS: u8 = 30;
    let priority = |node: u8, router: u8| 60 + 60 * ((node + router) % 4);
    let mut lan = Lan::new(1, Medium::faultless(LATENCY));
    for node in 0..4 {
        let configs = (0..ROUTERS).map(|router| config(node, 4, priority(node, router), 100));
        lan.add_node(Clock::default(), configs);
    }
    lan.run_for(lan.bound() * 2);
    let best = |router: u8, of: &[u8]| of.iter().copied().max_by_key(|node| priority(*node, router)).unwrap();
    for (dead, alive) in [(None, vec![0, 1, 2, 3]), (Some(2), vec![0, 1, 3])] {
        if let Some(dead) = dead {
            lan.crash(dead);
            lan.run_for(lan.bound());
        }
        for router in 0..ROUTERS {
            assert_eq!(lan.active_of(usize::from(router)), [usize::from(best(router, &alive))]);
        }
    }
    assert_settled(&lan);
}
