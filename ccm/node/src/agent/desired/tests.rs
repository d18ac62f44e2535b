use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;
use windlass_api::{
    AddressConflictPolicy, Authentication, ConnectionPolicy, ExternalTrafficPolicy, Quarantine,
    QuarantineReason, RankedNode, ServiceRef, Transport, VirtualIPSpec, VirtualRouterSpec, virtual_ip_name,
};

use super::*;

fn router(name: &str, vrid: u8, nodes: &[(&str, u8, &str)]) -> Arc<VirtualRouter> {
    let ranked = |(name, priority, address): &(&str, u8, &str)| RankedNode {
        name: (*name).to_owned(),
        priority: *priority,
        address: address.parse().unwrap(),
        interface: "eth0".to_owned(),
        joining: false,
        former_address: None,
    };
    Arc::new(VirtualRouter::new(
        name,
        VirtualRouterSpec {
            vrid,
            segment: "192.0.2.0/24".to_owned(),
            advertisement_interval_milliseconds: 100,
            nodes: nodes.iter().map(ranked).collect(),
            external_traffic_policy: ExternalTrafficPolicy::Cluster,
            announcement: None,
            preempt_delay_seconds: 0,
            transport: Transport::default(),
            unicast_fallback: true,
            virtual_mac: false,
            authentication: None,
            checks: vec![],
            address_conflict: AddressConflictPolicy::Defend,
            connections: ConnectionPolicy::Forward,
            replaces: None,
        },
    ))
}

fn vip(address: &str, router: Option<&str>) -> Arc<VirtualIP> {
    let address: IpAddr = address.parse().unwrap();
    let owner = ServiceRef { namespace: "default".into(), name: "web".into(), uid: "1".into() };
    let spec = VirtualIPSpec {
        on_address_in_use: windlass_api::OnAddressInUse::Refuse,
        load_sharing: None,
        former_pools: Vec::new(),
        address,
        pool: "lan".to_owned(),
        owners: vec![owner],
        virtual_router: router.map(str::to_owned),
        announcement: None,
        sources: Vec::new(),
        ports: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        health_check_node_ports: Vec::new(),
        quarantine: None,
    };
    Arc::new(VirtualIP::new(&virtual_ip_name(address), spec))
}

const NODES: &[(&str, u8, &str)] =
    &[("n1", 200, "192.0.2.11"), ("n2", 150, "192.0.2.12"), ("n3", 100, "192.0.2.13")];

#[test]
fn a_node_that_joins_with_another_address_is_obeyed_by_both_and_speaks_from_the_one_it_has() {
    let mut router = router("a", 1, NODES);
    let node = &mut Arc::make_mut(&mut router).spec.nodes[1];
    (node.joining, node.former_address) = (true, Some("192.0.2.99".parse().unwrap()));
    let assignment = |node: &str, own: &[&str]| {
        let own = own.iter().map(|address| (address.parse().unwrap(), "eth0".to_owned())).collect();
        let answered = Answered { own, ..Answered::default() };
        let desired = desired(node, &[Arc::clone(&router)], &[vip("192.0.2.100", Some("a"))], &answered);
        (desired.assignments[0].source.to_string(), desired.assignments[0].peers.clone())
    };
    assert_eq!(
        assignment("n1", &["192.0.2.11"]),
        ("192.0.2.11".to_owned(), set(&["192.0.2.12", "192.0.2.13", "192.0.2.99"]))
    );
    let peers = set(&["192.0.2.11", "192.0.2.13"]);
    for (own, source) in [
        (&["192.0.2.12"][..], "192.0.2.12"),
        (&["192.0.2.99"], "192.0.2.99"),
        (&["192.0.2.12", "192.0.2.99"], "192.0.2.12"),
        (&[], "192.0.2.12"),
    ] {
        assert_eq!(assignment("n2", own), (source.to_owned(), peers.clone()), "{own:?}");
    }
}

#[test]
fn a_node_tells_that_it_knows_a_router_that_another_joins() {
    let mut routers = vec![router("a", 1, NODES), router("b", 2, NODES), router("c", 3, &NODES[1..])];
    for (router, joining) in routers.iter_mut().zip([2, 0, 1]) {
        let router = Arc::make_mut(router);
        router.metadata.generation = Some(7);
        router.spec.nodes[joining].joining = true;
    }
    let known = |node| {
        let desired = desired(node, &routers, &[vip("192.0.2.100", Some("a"))], &Answered::default());
        let names = desired.known_routers.into_iter().map(|one| (one.name, one.generation));
        names.collect::<Vec<_>>()
    };
    let of = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), 7)).collect::<Vec<_>>();
    assert_eq!(known("n1"), of(&["a"]), "of itself it need not tell, nor where it is no candidate");
    assert_eq!(known("n2"), of(&["a", "b", "c"]));
    assert_eq!(known("n3"), of(&["b"]));
}

const NODES6: &[(&str, u8, &str)] = &[("n1", 200, "fe80::11"), ("n2", 150, "fe80::12")];

fn set(addresses: &[&str]) -> BTreeSet<IpAddr> {
    addresses.iter().map(|address| address.parse().unwrap()).collect()
}

#[test]
fn a_ranked_node_gets_its_own_priority_and_the_others_as_peers() {
    let routers = [router("a", 64, NODES)];
    let vips = [vip("192.0.2.200", Some("a")), vip("192.0.2.201", Some("a")), vip("192.0.2.202", Some("b"))];
    let got = desired("n2", &routers, &vips, &Answered::default());
    assert_eq!(got.problems, []);
    let expected = Assignment {
        forced: [].into(),
        virtual_router: "a".into(),
        interface: "eth0".into(),
        vrid: 64,
        priority: 150,
        interval_milliseconds: 100,
        source: "192.0.2.12".parse().unwrap(),
        peers: set(&["192.0.2.11", "192.0.2.13"]),
        addresses: set(&["192.0.2.200", "192.0.2.201"]),
        unproven: set(&["192.0.2.200", "192.0.2.201"]),
        preferred: ["192.0.2.11".parse().expect("an address")].into(),
        before: 1,
        health_check_node_ports: BTreeSet::new(),
        preempt_delay_seconds: 0,
        transport: Transport::Multicast,
        unicast_fallback: true,
        virtual_mac: false,
        key_id: None,
        checks: [].into(),
        address_conflict: AddressConflictPolicy::Defend,
        connections: ConnectionPolicy::Forward,
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        replicas: vec![],
    };
    assert_eq!(got.assignments, [expected]);
    assert!(got.assignments[0].config().unwrap().preempt);
}

#[test]
fn a_router_is_of_the_family_of_its_nodes_addresses_and_both_families_may_have_one_vrid() {
    let routers = [router("v4", 64, NODES), router("v6", 64, NODES6)];
    let vips = [vip("2001:db8::200", Some("v6")), vip("192.0.2.200", Some("v4"))];
    let got = desired("n1", &routers, &vips, &Answered::default());
    assert_eq!(got.problems, []);
    let [v4, v6] = &got.assignments[..] else { panic!("{got:?}") };
    assert_eq!((v4.virtual_router.as_str(), v6.virtual_router.as_str()), ("v4", "v6"));
    let config = v6.config().unwrap();
    assert_eq!((config.source, config.family()), ("fe80::11".parse().unwrap(), Family::V6));
    assert_eq!((config.peers, config.addresses), (set(&["fe80::12"]), set(&["2001:db8::200"])));
}

#[test]
fn endpoints_of_this_node_count_for_an_address_unless_it_is_shared() {
    let local = |address: &str, port: u16, lots: Option<String>| {
        let mut vip = VirtualIP::clone(&vip(address, Some("a")));
        vip.spec.health_check_node_ports = vec![port];
        vip.spec.ports = serde_json::from_value(json!([{ "protocol": "TCP", "port": 80 }])).unwrap();
        let nodes = json!([{ "key": "a", "name": "n1", "address": "192.0.2.11" }]);
        vip.spec.load_sharing =
            lots.map(|lots| serde_json::from_value(json!({ "nodes": nodes, "lots": lots })).unwrap());
        Arc::new(vip)
    };
    let vips = [
        local("192.0.2.200", 30000, None),
        local("192.0.2.201", 30001, Some("a".repeat(120))),
        local("192.0.2.202", 30002, Some("a".repeat(119))),
    ];
    let got = desired("n1", &[router("a", 64, NODES)], &vips, &Answered::default());
    assert_eq!(got.assignments[0].health_check_node_ports, [30000, 30002].into());
    let shared: Vec<_> = got.shared.iter().map(|one| one.address.to_string()).collect();
    assert_eq!(shared, ["192.0.2.201"]);
    let [problem] = &got.problems[..] else { panic!("{:?}", got.problems) };
    assert_eq!(problem.object, "VirtualIP 192.0.2.202");
    assert!(problem.reason.contains("lots has 119 characters instead of 120"), "{problem:?}");
}

#[test]
fn an_address_that_no_node_announces_is_unproven() {
    let with = |address: &str, conditions: serde_json::Value| {
        let mut vip = VirtualIP::clone(&vip(address, Some("a")));
        vip.status = Some(serde_json::from_value(serde_json::json!({ "conditions": conditions })).unwrap());
        Arc::new(vip)
    };
    let condition = |kind: &str, status: &str| {
        serde_json::json!({ "type": kind, "status": status, "reason": "Any", "message": "",
            "lastTransitionTime": "2026-11-22T00:00:00Z" })
    };
    let vips = [
        vip("192.0.2.200", Some("a")),
        with("192.0.2.201", serde_json::json!([condition("Announced", "False")])),
        with("192.0.2.202", serde_json::json!([condition("Other", "True")])),
        with("192.0.2.203", serde_json::json!([condition("Other", "False"), condition("Announced", "True")])),
    ];
    let got = desired("n1", &[router("a", 64, NODES)], &vips, &Answered::default());
    let unproven = set(&["192.0.2.200", "192.0.2.201", "192.0.2.202"]);
    assert_eq!(got.assignments[0].unproven, unproven);
    assert_eq!(got.assignments[0].config().unwrap().unproven, unproven);
}

// shows: threats T-27
#[test]
fn what_is_being_deleted_is_announced_until_it_is_gone() {
    let deleting_vip = {
        let mut vip = VirtualIP::clone(&vip("192.0.2.200", Some("a")));
        vip.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        Arc::new(vip)
    };
    let deleting_router = {
        let mut router = VirtualRouter::clone(&router("a", 64, NODES));
        router.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
        Arc::new(router)
    };
    let kept = [router("a", 64, NODES)];
    let expected = desired("n1", &kept, &[vip("192.0.2.200", Some("a"))], &Answered::default());
    assert_eq!(expected.assignments.len(), 1);
    assert_eq!(desired("n1", &kept, &[Arc::clone(&deleting_vip)], &Answered::default()), expected);
    assert_eq!(desired("n1", &[deleting_router], &[deleting_vip], &Answered::default()), expected);
}

#[test]
fn what_is_not_this_nodes_or_not_announced_is_left_out_without_a_problem() {
    let quarantined_vip = {
        let mut vip = VirtualIP::clone(&vip("192.0.2.200", Some("a")));
        let until = Time(jiff::Timestamp::UNIX_EPOCH);
        let message = String::new();
        vip.spec.quarantine = Some(Quarantine { reason: QuarantineReason::Released, until, message });
        Arc::new(vip)
    };
    let good = || vec![router("a", 64, NODES)];
    let cases = [
        ("VIP is in quarantine", "n1", good(), vec![quarantined_vip]),
        ("node is not ranked", "n9", good(), vec![vip("192.0.2.200", Some("a"))]),
        ("VIP has no router", "n1", good(), vec![vip("192.0.2.200", None)]),
        ("VIP has another router", "n1", good(), vec![vip("192.0.2.200", Some("b"))]),
        ("router carries nothing", "n1", good(), vec![]),
    ];
    for (what, node, routers, vips) in cases {
        let found = desired(node, &routers, &vips, &Answered::default());
        // Who owns addresses counts on every node.
        assert_eq!(Desired { restricted: Vec::new(), ..found }, Desired::default(), "{what}");
    }
}

#[test]
fn what_cannot_be_done_is_left_out_with_a_reason_and_the_rest_is_done() {
    let good = (router("good", 70, NODES), vip("192.0.2.210", Some("good")));
    let mut odd_interval = VirtualRouter::clone(&router("bad", 64, NODES));
    odd_interval.spec.advertisement_interval_milliseconds = 105;
    let mut long_name = VirtualRouter::clone(&router("bad", 64, NODES));
    long_name.spec.nodes[0].interface = "an-interface-too-long".into();
    let mut no_key = VirtualRouter::clone(&router("bad", 64, NODES));
    no_key.spec.authentication = Some(Authentication { key_id: 0 });
    let bad = |vrid, nodes: &[(&str, u8, &str)]| router("bad", vrid, nodes);
    let cases = [
        (bad(0, NODES), "192.0.2.200", "VirtualRouter bad", "VRID 0"),
        (bad(64, &[("n1", 0, "192.0.2.11")]), "192.0.2.200", "VirtualRouter bad", "priority 0"),
        (bad(64, &[("n1", 255, "192.0.2.11")]), "192.0.2.200", "VirtualRouter bad", "priority 255"),
        (bad(64, &[("n1", 9, "2001:db8::1")]), "2001:db8::200", "VirtualRouter bad", "not link-local"),
        (Arc::new(odd_interval), "192.0.2.200", "VirtualRouter bad", "105 ms"),
        (Arc::new(no_key), "192.0.2.200", "VirtualRouter bad", "key id 0"),
        (Arc::new(long_name), "192.0.2.200", "VirtualRouter bad", "no name of a Linux interface"),
        (bad(70, NODES), "192.0.2.200", "VirtualRouter good", "already that of VirtualRouter bad"),
        (bad(64, NODES), "2001:db8::200", "VirtualIP 2001-db8--200", "another family"),
        (bad(64, NODES6), "192.0.2.200", "VirtualIP 192.0.2.200", "another family"),
        (bad(64, NODES6), "fe80::200", "VirtualIP fe80--200", "cannot be the address of a host"),
        (bad(64, NODES6), "ff02::12", "VirtualIP ff02--12", "cannot be the address of a host"),
        (bad(64, NODES), "192.0.2.12", "VirtualIP 192.0.2.12", "a node's own address"),
        (bad(64, NODES), "224.0.0.18", "VirtualIP 224.0.0.18", "cannot be the address of a host"),
        (bad(64, NODES), "127.0.0.1", "VirtualIP 127.0.0.1", "cannot be the address of a host"),
    ];
    for (bad_router, address, object, reason) in cases {
        let routers = [bad_router, good.0.clone()];
        let vips = [vip(address, Some("bad")), good.1.clone()];
        let got = desired("n1", &routers, &vips, &Answered::default());
        let [problem] = &got.problems[..] else { panic!("{reason}: {got:?}") };
        assert_eq!(problem.object, object, "{reason}");
        assert!(problem.reason.contains(reason), "{reason}: {problem:?}");
        assert_eq!(got.assignments.len(), 1, "{reason}");
    }
}

#[test]
fn the_result_does_not_depend_on_the_order_of_the_objects() {
    let mut routers = vec![router("a", 64, NODES), router("b", 65, NODES), router("c", 64, NODES)];
    let mut vips = vec![
        vip("192.0.2.200", Some("a")),
        vip("192.0.2.201", Some("b")),
        vip("192.0.2.202", Some("c")),
        vip("2001:db8::1", Some("a")),
    ];
    let forward = desired("n1", &routers, &vips, &Answered::default());
    routers.reverse();
    vips.reverse();
    assert_eq!(desired("n1", &routers, &vips, &Answered::default()), forward);
    assert_eq!(forward.assignments.len(), 2);
    assert_eq!(forward.problems.len(), 2);
}

#[test]
fn of_two_routers_with_one_vrid_the_older_works_on_whatever_its_name() {
    let made = |name: &str, second: i64| {
        let mut router = VirtualRouter::clone(&router(name, 64, NODES));
        router.metadata.creation_timestamp = Some(Time(jiff::Timestamp::from_second(second).unwrap()));
        Arc::new(router)
    };
    let vips = [vip("192.0.2.200", Some("b")), vip("192.0.2.201", Some("a"))];
    let got = desired("n1", &[made("a", 20), made("b", 10)], &vips, &Answered::default());
    assert_eq!(got.assignments.iter().map(|one| one.virtual_router.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(got.problems.iter().map(|one| one.object.as_str()).collect::<Vec<_>>(), ["VirtualRouter a"]);
}

/// What the kernel of a node with these addresses on `eth0` answers for.
fn answered(own: &[&str], anycast: &[&str]) -> Answered {
    Answered {
        own: own.iter().map(|text| (text.parse().unwrap(), "eth0".to_owned())).collect(),
        anycast: anycast
            .iter()
            .map(|text| text.parse::<ipnet::Ipv6Net>().unwrap())
            .map(|net| (IpAddr::V6(net.network()), net))
            .collect(),
    }
}

#[test]
fn what_the_kernel_of_this_node_answers_for_is_refused_with_the_reason_and_the_rest_is_announced() {
    let answered = answered(&["2001:db8::11", "192.0.2.11"], &["2001:db8::/64"]);
    let ranked = router;
    let router = [ranked("a", 64, NODES6)];
    let all = ["2001:db8::", "2001:db8::11", "2001:db8::200"].map(|address| vip(address, Some("a")));
    let got = desired("n1", &router, &all, &answered);
    assert_eq!(got.assignments[0].addresses, set(&["2001:db8::200"]));
    assert_eq!(got.assignments[0].unproven, set(&["2001:db8::200"]));
    let anycast = "2001:db8:: is the subnet-router anycast address of 2001:db8::/64 (RFC 4291 §2.6.1), which the kernel of \
                   every node answers for: exclude it from the pool, and let its Services move with the annotation \
                   windlass.dev/allow-move";
    let own = "2001:db8::11 is an address of node n1 itself, on eth0, whose kernel answers for it: take it off there, or take \
               it out of the pool. If node n1 has no other, serve its pods by hostPort or NodePort";
    let refused = |address: &str, reason: &str, alone| Refused {
        address: address.parse().unwrap(),
        reason: reason.to_owned(),
        alone,
    };
    assert_eq!(got.refused, [refused("2001:db8::", anycast, false), refused("2001:db8::11", own, false)]);
    let reasons: Vec<_> = got.problems.iter().map(|problem| problem.reason.as_str()).collect();
    assert_eq!(reasons, [own, anycast]);

    // With nothing else to announce the virtual router is left out. Who says why then: all where all say the same, else the
    // only one.
    let got = desired("n1", &router, &all[..2], &answered);
    assert_eq!(got.assignments, []);
    assert_eq!(got.refused, [refused("2001:db8::", anycast, true), refused("2001:db8::11", own, false)]);
    let only = [ranked("a", 64, &NODES6[..1])];
    let got = desired("n1", &only, &all[1..2], &answered);
    assert_eq!(got.refused, [refused("2001:db8::11", own, true)]);
    // It waits for the address, and no longer.
    let got = desired("n1", &only, &all[1..2], &Answered::default());
    assert_eq!((got.refused, got.assignments[0].addresses.clone()), (vec![], set(&["2001:db8::11"])));
}

/// Names, priorities and addresses.
type Nodes<'a> = &'a [(&'a str, u8, &'a str)];
type Change<'a> = &'a dyn Fn(&mut VirtualRouterSpec);

#[test]
fn how_a_router_speaks_vrrp_is_as_its_object_says() {
    let spoken = |nodes: Nodes<'_>, vip_address: &str, change: Change<'_>| {
        let mut router = VirtualRouter::clone(&router("a", 64, nodes));
        change(&mut router.spec);
        let got = desired("n1", &[Arc::new(router)], &[vip(vip_address, Some("a"))], &Answered::default());
        assert_eq!(got.problems, []);
        let config = got.assignments[0].config().unwrap();
        let yields = config.address_conflict == windlass_engine::AddressConflictPolicy::Yield;
        (config.preempt_delay.as_secs(), config.transport, got.assignments[0].key_id, yields)
    };
    let multicast = windlass_engine::Transport::Multicast { group: None };
    let unicast = windlass_engine::Transport::Unicast { ttl: 255, accept_ttl: 255..=255 };
    let (four, six) = ("192.0.2.200", "2001:db8::200");
    let delay = |spec: &mut VirtualRouterSpec| spec.preempt_delay_seconds = 30;
    let to_each = |spec: &mut VirtualRouterSpec| spec.transport = Transport::Unicast;
    let signed = |spec: &mut VirtualRouterSpec| spec.authentication = Some(Authentication { key_id: 7 });
    let yielded = |spec: &mut VirtualRouterSpec| spec.address_conflict = AddressConflictPolicy::Yield;
    let alone = &NODES[..1];
    let rows: [(&str, Nodes<'_>, &str, Change<'_>, _); 8] = [
        ("nothing is said", NODES, four, &|_| {}, (0, multicast.clone(), None, false)),
        ("a delay", NODES, four, &delay, (30, multicast.clone(), None, false)),
        ("unicast", NODES, four, &to_each, (0, unicast.clone(), None, false)),
        ("unicast of IPv6", NODES6, six, &to_each, (0, unicast, None, false)),
        ("unicast with nobody to speak to", alone, four, &to_each, (0, multicast.clone(), None, false)),
        ("the same of IPv6", &NODES6[..1], six, &to_each, (0, multicast.clone(), None, false)),
        ("a key", NODES, four, &signed, (0, multicast.clone(), Some(7), false)),
        ("addresses are yielded", NODES, four, &yielded, (0, multicast, None, true)),
    ];
    for (what, nodes, address, change, expected) in rows {
        assert_eq!(spoken(nodes, address, change), expected, "{what}");
    }
}

#[test]
fn peers_that_multicast_does_not_reach_are_told_by_unicast_unless_the_router_forbids_it() {
    for expected in [true, false] {
        let mut router = VirtualRouter::clone(&router("a", 64, NODES));
        router.spec.unicast_fallback = expected;
        let vips = [vip("192.0.2.200", Some("a"))];
        let got = desired("n1", &[Arc::new(router)], &vips, &Answered::default());
        assert_eq!(got.assignments[0].config().unwrap().unicast_fallback, expected);
    }
}

#[test]
fn a_node_makes_the_checks_that_its_router_has_each_once() {
    let check = |port: u16| serde_json::from_value(json!({ "tcpSocket": { "port": port } })).unwrap();
    let mut router = VirtualRouter::clone(&router("a", 64, NODES));
    router.spec.checks = vec![check(8080), check(22), check(8080)];
    let got = desired("n1", &[Arc::new(router)], &[vip("192.0.2.200", Some("a"))], &Answered::default());
    assert_eq!(got.assignments[0].checks, [check(22), check(8080)].into());
}

#[test]
fn a_router_whose_key_is_not_here_is_left_to_others_and_its_addresses_with_it() {
    let signed = |name: &str, vrid: u8, key_id: Option<u8>| {
        let mut router = VirtualRouter::clone(&router(name, vrid, NODES));
        router.spec.authentication = key_id.map(|key_id| Authentication { key_id });
        Arc::new(router)
    };
    let routers = [signed("a", 64, Some(1)), signed("b", 65, Some(2)), signed("c", 66, None)];
    let vips = [
        vip("192.0.2.201", Some("b")),
        vip("192.0.2.200", Some("b")),
        vip("192.0.2.202", Some("a")),
        vip("192.0.2.203", Some("c")),
        // Refused for another reason.
        vip("192.0.2.12", Some("a")),
    ];
    let with =
        |keys: &[u8]| desired("n1", &routers, &vips, &Answered::default()).withhold(|id| keys.contains(&id));
    let names =
        |got: &Desired| -> Vec<_> { got.assignments.iter().map(|one| one.virtual_router.clone()).collect() };

    let all = with(&[1, 2]);
    assert_eq!(all, desired("n1", &routers, &vips, &Answered::default()));
    assert_eq!((names(&all), all.key_ids()), (vec!["a".into(), "b".into(), "c".into()], [1, 2].into()));

    let one = with(&[1]);
    assert_eq!((names(&one), one.key_ids()), (vec!["a".into(), "c".into()], [1].into()));
    assert_eq!(one.missing_keys, [2].into());
    let objects: Vec<_> = one.problems.iter().map(|problem| problem.object.as_str()).collect();
    assert_eq!(objects, ["VirtualIP 192.0.2.12", "VirtualRouter b"]);
    let reason = "its adverts are signed with VRRP key 2, which this node does not have: add an entry 2 to Secret \
                  windlass-vrrp-keys in the namespace of the agents (they see it within two minutes), or give the Announcement \
                  another key";
    assert_eq!(one.problems[1].reason, reason);
    let refused: Vec<_> =
        one.refused.iter().map(|refused| (refused.address.to_string(), refused.alone)).collect();
    let expected = [("192.0.2.12", false), ("192.0.2.200", true), ("192.0.2.201", true)];
    assert_eq!(refused, expected.map(|(address, alone)| (address.to_owned(), alone)));
    assert!(one.refused[1].reason.contains("VRRP key 2 (VirtualRouter b)"), "{}", one.refused[1].reason);
    // In nobody's words in particular: what several nodes say must be one thing.
    assert!(!one.refused[1].reason.contains("n1"), "{}", one.refused[1].reason);

    assert_eq!(names(&with(&[])), ["c"]);
}

#[test]
fn the_nodes_that_would_take_over_may_be_told_the_connections() {
    let nodes: Nodes<'_> = &[
        ("n1", 200, "192.0.2.11"),
        ("n2", 190, "192.0.2.12"),
        ("n3", 180, "192.0.2.13"),
        ("n4", 170, "192.0.2.14"),
    ];
    // The first is being drained.
    let drained: Nodes<'_> = &[("n1", 20, "192.0.2.11"), nodes[1], nodes[2], nodes[3]];
    let replicate = ConnectionPolicy::Replicate;
    let rows: [(&str, &str, Nodes<'_>, ConnectionPolicy, &[&str]); 8] = [
        ("the first", "n1", nodes, replicate, &["n2", "n3", "n4"]),
        ("the second, to which the first will come back", "n2", nodes, replicate, &["^n1", "n3", "n4"]),
        ("the last", "n4", nodes, replicate, &["^n1", "^n2", "^n3"]),
        ("one that goes", "n1", drained, replicate, &["^n2", "^n3", "^n4"]),
        ("beside one that goes", "n2", drained, replicate, &["n3", "n4", "n1"]),
        ("alone", "n1", &nodes[..1], replicate, &[]),
        ("not wanted", "n1", nodes, ConnectionPolicy::Forward, &[]),
        ("nothing is wanted", "n1", nodes, ConnectionPolicy::None, &[]),
    ];
    for (what, node, nodes, policy, expected) in rows {
        let mut router = VirtualRouter::clone(&router("a", 64, nodes));
        router.spec.connections = policy;
        let vips = [vip("192.0.2.200", Some("a"))];
        let got = desired(node, &[Arc::new(router)], &vips, &Answered::default());
        let assignment = &got.assignments[0];
        let name = |one: &Replica| if one.ranks_above { format!("^{}", one.node) } else { one.node.clone() };
        assert_eq!(assignment.replicas.iter().map(name).collect::<Vec<_>>(), expected, "{what}");
        assert!(assignment.replicas.iter().all(|replica| replica.addresses.is_subset(&assignment.peers)));
        assert_eq!(assignment.connections, policy, "{what}");
        let forwards = assignment.config().unwrap().forward_connections;
        assert_eq!(forwards, policy != ConnectionPolicy::None, "{what}");
    }
}

#[test]
fn of_many_nodes_the_best_of_either_side_may_be_told() {
    let names: Vec<(String, String)> = (1..=40).map(|n| (format!("n{n}"), format!("192.0.2.{n}"))).collect();
    let nodes: Vec<(&str, u8, &str)> =
        (1..).zip(&names).map(|(n, (name, address))| (name.as_str(), 200 - n, address.as_str())).collect();
    for (node, expected) in [
        ("n1", &["n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"][..]),
        ("n20", &["n1", "n2", "n3", "n4", "n21", "n22", "n23", "n24", "n25", "n26", "n27", "n28"]),
        ("n39", &["n1", "n2", "n3", "n4", "n40"]),
    ] {
        let mut router = VirtualRouter::clone(&router("a", 64, &nodes));
        router.spec.connections = ConnectionPolicy::Replicate;
        let vips = [vip("192.0.2.200", Some("a"))];
        let got = desired(node, &[Arc::new(router)], &vips, &Answered::default());
        let told: Vec<&str> = got.assignments[0].replicas.iter().map(|one| one.node.as_str()).collect();
        assert_eq!(told, expected, "{node}");
    }
}
