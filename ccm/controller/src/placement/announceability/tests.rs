//! What of a pool can be announced, and by whom.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::{Announcement, NodeNetwork, VirtualIPPool};

use super::*;
use crate::allocation::pools::{UnusableAddresses, review};
use crate::placement::announcements::Announcements;
use crate::placement::node_traits::NodeTraits;

fn object<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object")
}

fn pool(addresses: &[&str], exclude: &[&str]) -> Arc<VirtualIPPool> {
    Arc::new(object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool", "metadata": { "name": "p" },
        "spec": { "addresses": addresses, "exclude": exclude },
    })))
}

/// `(node, interface, addresses)`; interfaces with an IPv6 address have a link-local one.
type Nodes<'a> = &'a [(&'a str, &'a str, &'a [&'a str])];

fn topology(nodes: Nodes<'_>, announcements: &Announcements) -> Topology {
    let network = |(name, interface, addresses): &(&str, &str, &[&str])| -> Arc<NodeNetwork> {
        let link_local = addresses.iter().any(|address| address.contains(':')).then_some("fe80::1");
        Arc::new(object(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": name },
            "spec": { "interfaces": [{
                "name": interface, "mac": "02:00:00:00:00:01", "addresses": addresses, "linkLocal": link_local,
            }] },
        })))
    };
    let traits = NodeTraits { is_stable: true, ..NodeTraits::default() };
    let names = nodes.iter().map(|(name, ..)| ((*name).to_owned(), traits.clone())).collect();
    Topology::new(&names, nodes.iter().map(network).collect(), announcements)
}

/// `True Reason: message`, without an Announcement.
fn said(pool: Arc<VirtualIPPool>, nodes: Nodes<'_>) -> String {
    said_with(pool, nodes, &[])
}

/// The same with Announcements, each its name and its spec.
fn said_with(pool: Arc<VirtualIPPool>, nodes: Nodes<'_>, announcements: &[(&str, Value)]) -> String {
    let announcement = |(name, spec): &(&str, Value)| -> Arc<Announcement> {
        Arc::new(object(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "Announcement", "metadata": { "name": name }, "spec": spec,
        })))
    };
    let objects: Vec<_> = announcements.iter().map(announcement).collect();
    let announcements = Announcements::new(objects.iter());
    let reviewed = review(&[pool], &UnusableAddresses::default(), |_| false).remove(0);
    let topology = topology(nodes, &announcements);
    match announceability(&reviewed, &announcements.of_pool("p"), &topology) {
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
             with a Windlass agent: list addresses of 192.0.2.0/24 instead, or name the interface that is to announce \
             them in the spec.interfaces of an Announcement",
        ),
        (
            &["fe80::/64"],
            "false NoSegment: 0 of 18446744073709551616 IPv6 addresses can be announced; fe80::-fe80::ffff:ffff:ffff:ffff in \
             no subnet of a node with a Windlass agent: list addresses of 2001:db8::/64 instead, or name the interface \
             that is to announce them in the spec.interfaces of an Announcement",
        ),
        (
            &["192.0.2.254-192.0.3.1", "2001:db8::1"],
            "false PartlyAnnounceable: 2 of 4 IPv4 addresses (192.0.2.254-192.0.2.255) and 1 of 1 IPv6 addresses can be \
             announced, by nodes n1, n2; 192.0.3.0-192.0.3.1 in no subnet of a node with a Windlass agent: list addresses of \
             192.0.2.0/24 instead, or name the interface that is to announce them in the spec.interfaces of an Announcement",
        ),
    ] {
        assert_eq!(said(pool(addresses, &[]), &LAN), expected);
    }
    assert_eq!(
        said(pool(&["192.0.2.9", "2001:db8::1"], &[]), &[("n1", "eth0", &["192.0.2.11/24"])]),
        "false PartlyAnnounceable: 1 of 1 IPv4 addresses and 0 of 1 IPv6 addresses can be announced, by node n1: no node \
         with a Windlass agent has an IPv6 subnet; give the nodes one, or the pool other addresses"
    );
}

#[test]
fn the_interface_that_an_announcement_names_announces_what_is_in_no_subnet_if_a_node_has_it() {
    let on = |interface: &str, addresses: &[&str]| {
        let announcement = ("a", json!({ "pools": ["p"], "interfaces": [interface] }));
        said_with(pool(addresses, &[]), &LAN, &[announcement])
    };
    assert_eq!(
        on("eth0", &["10.0.0.0/30"]),
        "true AllAnnounceable: 4 of 4 IPv4 addresses can be announced, by nodes n1, n2"
    );
    assert_eq!(
        on("eth9", &["192.0.2.8/30"]),
        "false NoInterface: 0 of 4 IPv4 addresses can be announced: no node with a Windlass agent that Announcement \
         \"a\" selects has an IPv4 subnet on interface eth9; correct its spec.nodeSelectors, spec.interfaces or \
         spec.excludeInterfaces"
    );
    let link_local = on("eth0", &["fe80::/126"]);
    assert_eq!(
        link_local,
        "false NoSegment: 0 of 4 IPv6 addresses can be announced; fe80::-fe80::3 in no subnet of a node with a Windlass \
         agent: list addresses of 2001:db8::/64 instead"
    );
}

#[test]
fn what_some_of_the_announcements_that_may_apply_can_announce_counts() {
    let wide = json!({ "serviceSelectors": [{ "matchLabels": { "tier": "wan" } }], "interfaces": ["eth0"] });
    let other = json!({ "pools": ["q"], "interfaces": ["eth0"] });
    let said = |announcements: &[(&str, Value)]| said_with(pool(&["10.0.0.0/30"], &[]), &LAN, announcements);
    assert!(said(&[("a", wide)]).starts_with("true AllAnnounceable"));
    assert!(said(&[("a", other)]).starts_with("false NoSegment"));
}

#[test]
fn before_an_agent_has_reported_and_of_a_pool_that_gives_nothing_there_is_nothing_to_say() {
    assert_eq!(said(pool(&["10.0.0.0/8"], &[]), &[]), "unknown");
    let empty = pool(&["192.0.2.9"], &["192.0.2.9"]);
    assert_eq!(said(empty, &LAN), "unknown");
}

#[test]
fn nodes_that_join_many_change_no_word() {
    let of = |count: u8| {
        let nodes: Vec<_> = (1..=count).map(|n| (format!("n{n:03}"), format!("192.0.2.{n}/24"))).collect();
        let addresses: Vec<[&str; 1]> = nodes.iter().map(|(_, address)| [address.as_str()]).collect();
        let nodes: Vec<_> =
            nodes.iter().zip(&addresses).map(|((name, _), at)| (name.as_str(), "eth0", &at[..])).collect();
        said(pool(&["192.0.2.200"], &[]), &nodes)
    };
    let four =
        "true AllAnnounceable: 1 of 1 IPv4 addresses can be announced, by nodes n001, n002, n003 and others";
    assert_eq!(of(4), four);
    assert_eq!(of(200), four);
}
