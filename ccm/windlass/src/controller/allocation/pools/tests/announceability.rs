//! What of a pool can be announced, and by whom.

use windlass_api::NodeNetwork;

use super::*;
use crate::controller::placement::plan::Topology;

/// `(node, interface, addresses)`; interfaces with an IPv6 address have a link-local one.
fn topology(nodes: &[(&str, &str, &[&str])]) -> Topology {
    let network = |(name, interface, addresses): &(&str, &str, &[&str])| -> Arc<NodeNetwork> {
        let link_local = addresses.iter().any(|address| address.contains(':')).then_some("fe80::1");
        Arc::new(object(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": name },
            "spec": { "interfaces": [{
                "name": interface, "mac": "02:00:00:00:00:01", "addresses": addresses, "linkLocal": link_local,
            }] },
        })))
    };
    let names = nodes.iter().map(|(name, ..)| ((*name).to_owned(), true)).collect();
    Topology::new(names, nodes.iter().map(network).collect())
}

/// `True Reason: message`.
fn said(pool: Arc<VirtualIPPool>, topology: &Topology) -> String {
    let reviewed = review(&[pool], &UnusableAddresses::default(), &[], |_| false).remove(0);
    match announceability(&reviewed, topology.segments()) {
        Announceability::Unknown => "unknown".to_owned(),
        Announceability::Known { holds, reason, message } => format!("{holds} {reason}: {message}"),
    }
}

const LAN: [(&str, &str, &[&str]); 2] = [
    ("n1", "eth0", &["192.0.2.11/24", "2001:db8::11/64"]),
    ("n2", "eth0", &["192.0.2.12/24", "2001:db8::12/64"]),
];

#[test]
fn a_pool_says_what_share_of_it_can_be_announced_by_whom_and_what_to_do() {
    let lan = topology(&LAN);
    for (addresses, expected) in [
        (
            &["192.0.2.200-192.0.2.250"][..],
            "true AllAnnounceable: 51 of 51 IPv4 addresses can be announced, by nodes n1, n2",
        ),
        (
            &["192.0.2.200/31", "2001:db8::/65"],
            "true AllAnnounceable: 2 of 2 IPv4 addresses and 9223372036854775808 of 9223372036854775808 IPv6 addresses can \
             be announced, by nodes n1, n2",
        ),
        (
            &["10.0.0.0/8"],
            "false NoSegment: 0 of 16777216 IPv4 addresses can be announced; 10.0.0.0-10.255.255.255 in no subnet of a node \
             with a Windlass agent: list addresses of 192.0.2.0/24 instead, or name in spec.interface the interface that is \
             to announce them",
        ),
        (
            &["fe80::/64"],
            "false NoSegment: 0 of 18446744073709551616 IPv6 addresses can be announced; fe80::-fe80::ffff:ffff:ffff:ffff in \
             no subnet of a node with a Windlass agent: list addresses of 2001:db8::/64 instead, or name in spec.interface \
             the interface that is to announce them",
        ),
        (
            &["192.0.2.254-192.0.3.1", "2001:db8::1"],
            "false PartlyAnnounceable: 2 of 4 IPv4 addresses (192.0.2.254-192.0.2.255) and 1 of 1 IPv6 addresses can be \
             announced, by nodes n1, n2; 192.0.3.0-192.0.3.1 in no subnet of a node with a Windlass agent: list addresses of \
             192.0.2.0/24 instead, or name in spec.interface the interface that is to announce them",
        ),
    ] {
        assert_eq!(said(pool("p", EARLY, addresses), &lan), expected);
    }
    let only_v4 = topology(&[("n1", "eth0", &["192.0.2.11/24"])]);
    assert_eq!(
        said(pool("p", EARLY, &["192.0.2.9", "2001:db8::1"]), &only_v4),
        "false PartlyAnnounceable: 1 of 1 IPv4 addresses and 0 of 1 IPv6 addresses can be announced, by node n1: no node \
         with a Windlass agent has an IPv6 subnet; give the nodes one, or the pool other addresses"
    );
}

#[test]
fn the_interface_that_a_pool_names_announces_what_is_in_no_subnet_if_a_node_has_it() {
    let lan = topology(&LAN);
    let on = |interface: &str, addresses: &[&str]| {
        said(pool_with("p", EARLY, addresses, &json!({ "interface": interface })), &lan)
    };
    assert_eq!(
        on("eth0", &["10.0.0.0/30"]),
        "true AllAnnounceable: 4 of 4 IPv4 addresses can be announced, by nodes n1, n2"
    );
    assert_eq!(
        on("eth9", &["192.0.2.8/30"]),
        "false NoInterface: 0 of 4 IPv4 addresses can be announced: no node with a Windlass agent has an IPv4 subnet on \
         interface \"eth9\", which spec.interface names; correct it"
    );
    let link_local = on("eth0", &["fe80::/126"]);
    assert_eq!(
        link_local,
        "false NoSegment: 0 of 4 IPv6 addresses can be announced; fe80::-fe80::3 in no subnet of a node with a Windlass \
         agent: list addresses of 2001:db8::/64 instead"
    );
}

#[test]
fn before_an_agent_has_reported_and_of_a_pool_that_gives_nothing_there_is_nothing_to_say() {
    assert_eq!(said(pool("p", EARLY, &["10.0.0.0/8"]), &topology(&[])), "unknown");
    let empty = pool_with("p", EARLY, &["192.0.2.9"], &json!({ "exclude": ["192.0.2.9"] }));
    assert_eq!(said(empty, &topology(&LAN)), "unknown");
}

#[test]
fn nodes_that_join_many_change_no_word() {
    let of = |count: u8| {
        let nodes: Vec<_> = (1..=count).map(|n| (format!("n{n:03}"), format!("192.0.2.{n}/24"))).collect();
        let addresses: Vec<[&str; 1]> = nodes.iter().map(|(_, address)| [address.as_str()]).collect();
        let nodes: Vec<_> =
            nodes.iter().zip(&addresses).map(|((name, _), at)| (name.as_str(), "eth0", &at[..])).collect();
        said(pool("p", EARLY, &["192.0.2.200"]), &topology(&nodes))
    };
    let four =
        "true AllAnnounceable: 1 of 1 IPv4 addresses can be announced, by nodes n001, n002, n003 and others";
    assert_eq!(of(4), four);
    assert_eq!(of(200), four);
}
