use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_api::virtual_ip_name;

use super::super::desired::is_wanted;
use super::super::service_proxy::ServiceProxy;
use super::ability::Ability;
use super::finding::Obstacle;
use super::*;

const VIP: &str = "192.0.2.200";

/// A router of nodes n1 and n2, each with an address that ends like this.
fn router() -> VirtualRouter {
    let node = |name: &str, address: &str, interface: &str| json!({ "name": name, "priority": 254, "address": address, "interface": interface });
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualRouter", "metadata": { "name": "a" },
        "spec": {
            "vrid": 64, "segment": "192.0.2.0/24", "advertisementIntervalMilliseconds": 100,
            "nodes": [node("n1", "192.0.2.11", "eth0"), node("n2", "192.0.2.12", "eth1")],
        },
    }))
    .unwrap()
}

/// Nodes n2, n3 and n4 serve: two thirds of the lots, one third, none any more.
fn load() -> Value {
    let node =
        |key: &str, n: u8| json!({ "key": key, "name": format!("n{n}"), "address": format!("192.0.2.1{n}") });
    json!({
        "nodes": [node("a", 4), node("b", 3), node("c", 2)],
        "lots": "ccb".repeat(40),
        "formerLots": ["--c".repeat(40), "--a".repeat(40)],
    })
}

fn vip(address: &str, load: &Value, ports: &Value) -> VirtualIP {
    serde_json::from_value(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": virtual_ip_name(address.parse().unwrap()) },
        "spec": {
            "address": address, "pool": "lan", "virtualRouter": "a", "ports": ports, "loadSharing": load,
            "owners": [{ "namespace": "default", "name": "web", "uid": "1" }],
        },
    }))
    .unwrap()
}

fn ports() -> Value {
    json!([{ "protocol": "TCP", "port": 80 }, { "protocol": "TCP", "port": 443 }, { "protocol": "UDP", "port": 53 }])
}

fn answered() -> Answered {
    Answered { own: [("192.0.2.13".parse().unwrap(), "bond0".to_owned())].into(), ..Answered::default() }
}

fn of(node: &str, router: &VirtualRouter, vips: &[VirtualIP]) -> (Vec<Arc<SharedAddress>>, Vec<Unshared>) {
    shared(node, &[router], vips.iter().filter(|vip| is_wanted(vip)), &answered())
}

fn shares(all: &[Arc<SharedAddress>]) -> Shares {
    Conversion::default().of(all)
}

fn addresses(all: &[&str]) -> BTreeSet<IpAddr> {
    all.iter().map(|one| one.parse().unwrap()).collect()
}

#[test]
fn candidates_and_servers_have_the_same_table_by_their_own_interfaces_and_other_nodes_have_none() {
    let rows =
        [("n1", Some("eth0")), ("n2", Some("eth1")), ("n3", Some("bond0")), ("n4", None), ("n5", None)];
    let peers = addresses(&["192.0.2.11", "192.0.2.12", "192.0.2.13", "192.0.2.14"]);
    for (node, interface) in rows {
        let (shared, unshared) = of(node, &router(), &[vip(VIP, &load(), &ports())]);
        assert!(unshared.is_empty(), "{node}: {unshared:?}");
        assert_eq!(shared.first().map(|one| one.interface.as_str()), interface, "{node}");
        let converted = shares(&shared);
        let Some(interface) = interface else { continue };
        assert_eq!(converted.peers, [(interface.to_owned(), peers.clone())].into(), "{node}");
        let services: Vec<_> =
            converted.services.iter().map(|((_, protocol), one)| (*protocol, &one.ports)).collect();
        assert_eq!(services, [(Protocol::Tcp, &[80, 443].into()), (Protocol::Udp, &[53].into())], "{node}");
        let share = &converted.services[&(VIP.parse().unwrap(), Protocol::Tcp)];
        let server = |lot| share.server(lot).unwrap().to_string();
        assert_eq!([0, 1, 2].map(server), ["192.0.2.12", "192.0.2.12", "192.0.2.13"], "{node}");
        let none = share.servers.get(usize::from(share.former[0][0]));
        assert_eq!(none, None, "the first lot has no former server");
        let mut former = share.after(2, "192.0.2.13".parse().unwrap());
        former.sort_unstable();
        assert_eq!(BTreeSet::from_iter(former), addresses(&["192.0.2.12", "192.0.2.14"]), "{node}");
    }
}

#[test]
fn sctp_has_one_server_and_the_parts_that_determine_a_lot_are_the_objects() {
    let (mut load, ports) =
        (load(), json!([{ "protocol": "SCTP", "port": 1 }, { "protocol": "UDP", "port": 2 }]));
    load["by"] = json!("Client");
    let (shared, _) = of("n1", &router(), &[vip(VIP, &load, &ports)]);
    let converted = shares(&shared);
    let of = |protocol| &converted.services[&(VIP.parse().unwrap(), protocol)];
    let sctp = of(Protocol::Sctp);
    assert!((0..120).all(|lot| sctp.server(lot) == Some("192.0.2.12".parse().unwrap())), "{sctp:?}");
    assert!(sctp.former.is_empty());
    assert_eq!(of(Protocol::Udp).by, SharedBy::Client);
}

#[test]
fn a_table_that_is_not_valid_is_refused_by_its_name_and_costs_no_other_address_anything() {
    let changed = |change: fn(&mut Value)| {
        let mut load = load();
        change(&mut load);
        load
    };
    let many: Vec<_> = (0..4096).map(|port| json!({ "protocol": "TCP", "port": port + 1 })).collect();
    let rows = [
        ("short", changed(|load| load["lots"] = json!("c")), ports(), "NotSupported"),
        ("key", changed(|load| load["lots"] = json!("z".repeat(120))), ports(), "NotSupported"),
        (
            "family",
            changed(|load| load["nodes"][0]["address"] = json!("2001:db8::1")),
            ports(),
            "NotSupported",
        ),
        ("itself", changed(|load| load["nodes"][0]["address"] = json!(VIP)), ports(), "NotSupported"),
        ("no ports", load(), json!([]), "NoRoom"),
    ];
    for (what, load, ports_of_one, reason) in rows {
        let other = vip("192.0.2.199", &self::load(), &ports());
        let last = vip("192.0.2.201", &self::load(), &json!(many));
        let (shared, unshared) = of("n1", &router(), &[vip(VIP, &load, &ports_of_one), last, other]);
        let names: Vec<_> = shared.iter().map(|one| one.address.to_string()).collect();
        assert_eq!(names, ["192.0.2.199", "192.0.2.201"], "{what}");
        assert_eq!(
            unshared.iter().map(|one| one.reason).collect::<Vec<_>>(),
            [reason],
            "{what}: {unshared:?}"
        );
        assert_eq!(unshared[0].address.to_string(), VIP, "{what}");
    }
}

#[test]
fn at_a_virtual_mac_address_or_in_quarantine_or_without_a_router_nothing_is_shared() {
    let mut with_mac = router();
    with_mac.spec.virtual_mac = true;
    let (shared, unshared) = of("n1", &with_mac, &[vip(VIP, &load(), &ports())]);
    assert_eq!((shared.len(), unshared[0].reason), (0, "VirtualMACAddress"));
    let mut released = vip(VIP, &load(), &ports());
    released.spec.quarantine =
        serde_json::from_value(json!({ "reason": "Released", "until": "2020-01-01T00:00:00Z" })).unwrap();
    let mut elsewhere = vip(VIP, &load(), &ports());
    elsewhere.spec.virtual_router = Some("b".to_owned());
    for vip in [released, elsewhere, vip(VIP, &Value::Null, &ports())] {
        assert_eq!(of("n1", &router(), &[vip]), (vec![], vec![]));
    }
}

#[test]
fn addresses_for_which_a_map_has_no_room_are_not_shared_and_the_lowest_are() {
    let all: Vec<_> = (0..1100_u16)
        .map(|n| {
            let [high, low] = n.to_be_bytes();
            vip(&format!("10.1.{high}.{low}"), &load(), &ports())
        })
        .rev()
        .collect();
    let (shared, unshared) = of("n1", &router(), &all);
    // Each has TCP and UDP.
    assert_eq!(shared.len(), MOST_ELEMENTS / 240);
    assert!(shared.iter().zip(shared.iter().skip(1)).all(|(one, next)| one.address < next.address));
    assert_eq!(unshared.len(), 1100 - shared.len());
    assert!(unshared.iter().all(|one| one.reason == "NoRoom"), "{unshared:?}");
    assert!(unshared[0].address > shared.last().unwrap().address);
}

fn obstacle(unguarded: Option<&str>, proxy: ServiceProxy, unsupported: Option<&str>) -> Option<Obstacle> {
    Obstacle::look(unguarded, proxy, unsupported.map(str::to_owned))
}

#[test]
fn a_node_can_share_with_a_guard_beside_kube_proxy_in_a_mode_of_netfilter_if_the_kernel_can() {
    let programs = ServiceProxy::Programs { by: "Cilium", interface: "cilium_host" };
    let rows = [
        (None, ServiceProxy::Nftables, None, true),
        (None, ServiceProxy::Iptables, None, true),
        (None, ServiceProxy::Unknown, None, false),
        (None, ServiceProxy::Ipvs, None, false),
        (None, programs, None, false),
        (Some("no guard"), ServiceProxy::Nftables, None, false),
        (None, ServiceProxy::Nftables, Some("no module"), false),
    ];
    for (unguarded, proxy, unsupported, can) in rows {
        let obstacle = obstacle(unguarded, proxy, unsupported);
        assert_eq!(
            Ability::default().is_reported(obstacle.as_ref(), false, Instant::now()),
            can,
            "{obstacle:?}"
        );
    }
}

#[test]
fn what_was_reported_stands_for_a_moment_unless_another_proxy_was_found() {
    let start = Instant::now();
    let at = |seconds| start + Duration::from_secs(seconds);
    let momentary = obstacle(Some("it is being made anew"), ServiceProxy::Nftables, None);
    let unknown = obstacle(None, ServiceProxy::Unknown, None);
    let lasting = obstacle(None, ServiceProxy::Ipvs, None);
    let mut ability = Ability::default();
    assert!(ability.is_reported(momentary.as_ref(), true, at(0)));
    assert!(ability.is_reported(unknown.as_ref(), true, at(24)));
    assert!(!ability.is_reported(unknown.as_ref(), true, at(25)));
    assert!(ability.is_reported(None, false, at(26)));
    assert!(ability.is_reported(momentary.as_ref(), true, at(27)), "it counts from the beginning again");
    assert!(!ability.is_reported(lasting.as_ref(), true, at(28)));
    assert!(!Ability::default().is_reported(momentary.as_ref(), false, at(0)), "it was never reported");
}

#[test]
fn a_kernel_is_tried_until_it_can_and_every_half_minute_at_most() {
    let start = Instant::now();
    let mut ability = Ability::default();
    let mut tries = 0;
    let rows = [(0, false, 1), (29, true, 1), (30, false, 2), (60, true, 3), (600, false, 3)];
    for (seconds, can, expected) in rows {
        let trial = || {
            tries += 1;
            if can { Ok(()) } else { Err("no module".to_owned()) }
        };
        let error = ability.of_kernel(trial, start + Duration::from_secs(seconds));
        assert_eq!((tries, error.is_none()), (expected, seconds >= 60), "after {seconds} s");
    }
}

proptest! {
    #[test]
    fn a_table_that_is_accepted_is_written_to_disk_and_read_again(
        lots in proptest::collection::vec(prop_oneof![Just('a'), Just('b'), Just('c')], 120),
        former in proptest::collection::vec(prop_oneof![Just('a'), Just('-')], 120),
    ) {
        let mut load = load();
        load["lots"] = json!(String::from_iter(lots));
        load["formerLots"] = json!([String::from_iter(former)]);
        let (shared, _) = of("n1", &router(), &[vip(VIP, &load, &ports())]);
        let text = serde_json::to_string(&shared).unwrap();
        let read: Vec<Arc<SharedAddress>> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
        prop_assert_eq!(shares(&read), shares(&shared));
    }
}
