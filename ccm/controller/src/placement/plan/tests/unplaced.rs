//! What is said of VIPs that no node can announce.

use super::*;

// shows: ccm-contract S-28
#[test]
fn what_no_node_can_announce_is_said_with_its_reason() {
    let mut cluster = Cluster::of(2);
    cluster.announce_wan_on(&["eth7"]);
    cluster.vip("203.0.113.1");
    cluster.vip_of("wan", "203.0.113.2");
    cluster.vip_of("wan", "2001:db8:ffff::1");
    cluster.vip("2001:db8::1");
    let mut lame = NodeNetwork::clone(&cluster.networks[0]);
    lame.spec.interfaces[0].addresses.push("2001:db8::2/64".into());
    cluster.networks[0] = Arc::new(lame);
    let plan = cluster.plan();
    assert!(plan.routers.is_empty() && plan.routers_by_vip.is_empty());
    let said: Vec<_> = plan.unplaced.values().map(|why| format!("{}: {why}", why.reason())).collect();
    assert_eq!(
        said,
        [
            "NoLinkLocalAddress: 2001:db8::1 is in 2001:db8::/64, where no node's interface has a link-local \
             address, the source of IPv6 adverts: let the interfaces have one (sysctl \
             net.ipv6.conf.<interface>.addr_gen_mode)",
            "NoInterface: no node with a Windlass agent that Announcement \"wan\" selects has an IPv6 subnet for \
             2001:db8:ffff::1 on interface eth7: correct its spec.nodeSelectors, spec.interfaces or spec.excludeInterfaces",
            "NoSegment: 203.0.113.1 is in no subnet of any node with a Windlass agent: give pool \"p\" addresses of \
             the nodes' subnet, or name the interface in the spec.interfaces of an Announcement",
            "NoInterface: no node with a Windlass agent that Announcement \"wan\" selects has an IPv4 subnet for \
             203.0.113.2 on interface eth7: correct its spec.nodeSelectors, spec.interfaces or spec.excludeInterfaces",
        ]
    );
}

#[test]
fn nodes_whose_addresses_are_in_no_subnet_are_told_so() {
    let mut cluster = Cluster::of(2);
    let mut network = NodeNetwork::clone(&cluster.networks[0]);
    network.spec.interfaces[0].addresses.push("2001:db8::5/128".into());
    cluster.networks[0] = Arc::new(network);
    cluster.announce_wan_on(&["eth7"]);
    cluster.vip("2001:db8::1");
    cluster.vip("203.0.113.1");
    cluster.vip_of("wan", "2001:db8::2");
    let plan = cluster.plan();
    let reasons: Vec<_> = plan.unplaced.iter().map(|(name, why)| (name.as_str(), why.reason())).collect();
    let expected =
        [("2001-db8--1", "NoSubnet"), ("2001-db8--2", "NoInterface"), ("203.0.113.1", "NoSegment")];
    assert_eq!(reasons, expected);
    assert_eq!(
        plan.unplaced["2001-db8--1"].to_string(),
        "2001:db8::1 is in no subnet of any node with a Windlass agent, because the nodes' IPv6 addresses \
         have no subnet (example: 2001:db8::5/128 on eth0 of node n1). Configure them with the prefix length \
         of the subnet, such as /64"
    );
}
