use std::sync::Arc;

use serde_json::json;

use super::*;

const A: &str = "192.0.2.200";
const B: &str = "192.0.2.201";

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn web(allowed: &[&str], by_kube_proxy: bool) -> PortSources {
    let ports = json!([{ "protocol": "TCP", "port": 80 }, { "protocol": "UDP", "port": 53 }]);
    serde_json::from_value(json!({ "ports": ports, "allowed": allowed, "byKubeProxy": by_kube_proxy }))
        .unwrap()
}

/// A virtual router with A and B, of which A is restricted.
fn desired(sources: Option<PortSources>) -> Desired {
    let assignment = Assignment {
        forced: [].into(),
        virtual_router: "v4-192.0.2.0-24-64".into(),
        interface: "eth0".into(),
        vrid: 64,
        priority: 238,
        interval_milliseconds: 100,
        source: address("192.0.2.11"),
        peers: [address("192.0.2.12")].into(),
        addresses: [address(A), address(B)].into(),
        unproven: [].into(),
        preferred: BTreeSet::new(),
        before: 0,
        health_check_node_ports: BTreeSet::new(),
        preempt_delay_seconds: 0,
        transport: windlass_api::Transport::Multicast,
        unicast_fallback: true,
        virtual_mac: false,
        key_id: None,
        checks: [].into(),
        address_conflict: windlass_api::AddressConflictPolicy::Defend,
        connections: windlass_api::ConnectionPolicy::Forward,
        external_traffic_policy: windlass_api::ExternalTrafficPolicy::Cluster,
        replicas: vec![],
    };
    let restricted = sources.map(|sources| Restricted {
        address: address(A),
        sources: vec![sources],
        ports: vec![],
        owners: None,
    });
    Desired {
        assignments: vec![assignment],
        restricted: restricted.into_iter().collect(),
        ..Desired::default()
    }
}

fn status(enforced: &Desired, error: Option<&str>) -> GuardStatus {
    let mut status = GuardStatus::default();
    status.enforced = Arc::new(restrictions(&enforced.restricted));
    status.error = error.map(str::to_owned);
    status
}

#[test]
fn a_restricted_address_is_announced_once_and_as_long_as_its_guard_is_there() {
    let none = desired(None);
    let some = desired(Some(web(&["10.0.0.0/8"], false)));
    let other = desired(Some(web(&["192.0.2.0/24"], false)));
    let proxied = desired(Some(web(&["10.0.0.0/8"], true)));
    let (all, only_b): (&[&str], &[&str]) = (&[A, B], &[B]);
    let off = Some("no nf_tables");
    // What is wanted, what is in force and why not more, what was announced: what is announced, with which priority.
    let table = [
        ("nothing is restricted", &none, status(&none, None), &[] as &[&str], all, 238),
        ("nothing is restricted, without a guard", &none, status(&none, off), &[], all, 238),
        ("it is not in force yet", &some, status(&none, None), &[], only_b, 238),
        ("it is in force", &some, status(&some, None), &[], all, 238),
        ("it was announced when it was restricted", &some, status(&none, None), all, all, 238),
        ("it is edited", &other, status(&some, None), all, all, 238),
        ("it cannot be enforced", &some, status(&none, off), &[], only_b, 14),
        ("it cannot be enforced any more", &some, status(&none, off), all, only_b, 14),
        ("an edit cannot be enforced", &other, status(&some, off), all, only_b, 14),
        ("another one's edit cannot be enforced", &some, status(&some, off), all, all, 238),
        ("kube-proxy enforces it", &proxied, status(&none, off), &[], all, 238),
        ("kube-proxy enforces it, and the guard will", &proxied, status(&none, None), &[], all, 238),
    ];
    for (what, wanted, status, announced, expected, priority) in table {
        let announced = announced.iter().map(|text| address(text)).collect();
        let found = admitted(wanted, &restrictions(&wanted.restricted), &status, &announced);
        let expected: BTreeSet<IpAddr> = expected.iter().map(|text| address(text)).collect();
        assert_eq!((&found[0].addresses, found[0].priority), (&expected, priority), "{what}");
        found[0].config().unwrap_or_else(|error| panic!("{what}: {error}"));
    }
}

#[test]
fn a_router_all_of_whose_addresses_are_withheld_still_elects() {
    let mut wanted = desired(Some(web(&[], false)));
    wanted.assignments[0].addresses = [address(A)].into();
    let status = status(&desired(None), Some("no nf_tables"));
    let found = admitted(&wanted, &restrictions(&wanted.restricted), &status, &BTreeSet::new());
    assert!(found[0].addresses.is_empty());
    found[0].config().expect("a router without addresses");
}

#[test]
fn of_two_nodes_that_cannot_guard_the_better_one_stays_the_better_one() {
    let lower = |priority: u8| (priority / UNGUARDED_DIVISOR).max(1);
    let ranking: Vec<u8> = (0..14).map(|rank| lower(254 - rank * 16)).collect();
    assert!(ranking.is_sorted_by(|a, b| a > b), "{ranking:?}");
    assert!(ranking.iter().all(|priority| *priority < 30));
}

#[test]
fn sources_of_every_service_of_an_address_hold_each_for_its_ports() {
    let tcp = |port: u16, allowed: &[&str]| -> PortSources {
        serde_json::from_value(json!({ "ports": [{ "protocol": "TCP", "port": port }], "allowed": allowed }))
            .unwrap()
    };
    let sources = vec![tcp(80, &["10.0.0.0/8"]), tcp(443, &["nonsense", "10.0.0.0/33"]), tcp(22, &[])];
    let found = restrictions(&[Restricted { address: address(A), sources, ports: vec![], owners: None }]);
    let doors = found.of(address(A)).unwrap();
    let at = |port| &doors[&ProtocolPort { protocol: Protocol::Tcp, port }];
    assert_eq!(at(80)[..], ["10.0.0.0/8".parse::<IpNet>().unwrap()]);
    assert!(at(443).is_empty() && at(22).is_empty(), "what is no range lets nobody in");
    assert_eq!(doors.len(), 3);
}

// shows: threats T-03
#[test]
fn an_address_of_which_the_kernel_refuses_the_sources_goes_and_no_other_notices() {
    let of = |text| Restricted {
        address: address(text),
        sources: vec![web(&["10.0.0.0/8"], false)],
        ports: vec![],
        owners: None,
    };
    let mut wanted = desired(None);
    wanted.restricted = vec![of(A), of(B)];
    let mut status = GuardStatus::default();
    status.refused = [(address(A), "cannot add elements: no memory".to_owned())].into();
    status.enforced = Arc::new(restrictions(&[of(B)]));
    for announced in [BTreeSet::new(), [address(A), address(B)].into()] {
        let found = admitted(&wanted, &restrictions(&wanted.restricted), &status, &announced);
        assert_eq!(found[0].addresses, [address(B)].into(), "{announced:?}");
        assert_eq!(found[0].priority, wanted.assignments[0].priority, "B is no worse off here");
    }
    let unguarded = Unguarded::of(&status);
    assert!(unguarded.why(address(A)).unwrap().contains("no memory"));
    assert_eq!(unguarded.why(address(B)), None);
}

/// Most of the traffic would be lost to keep a foreign Service from some that nobody asked for.
#[test]
fn an_address_whose_ports_cannot_be_guarded_is_announced_all_the_same() {
    let mut wanted = desired(None);
    let ports = vec![RestrictedPort { protocol: PortProtocol::Tcp, port: 80 }];
    wanted.restricted = vec![Restricted { address: address(A), sources: vec![], ports, owners: None }];
    assert_ne!(restrictions(&wanted.restricted), Restrictions::default());
    for error in [None, Some("no nf_tables")] {
        let status = status(&desired(None), error);
        let found = admitted(&wanted, &restrictions(&wanted.restricted), &status, &BTreeSet::new());
        assert_eq!(found, wanted.assignments, "{error:?}");
    }
}

/// Connections end with the claim of a Service's name to the address.
#[test]
fn an_address_in_quarantine_has_no_owner_and_a_service_made_again_is_the_same_one() {
    let spec = |uid: &str, quarantined: bool| {
        let quarantine =
            quarantined.then(|| json!({ "reason": "Released", "until": "2026-11-28T00:00:00Z" }));
        let owner = json!({ "namespace": "shop", "name": "web", "uid": uid });
        let spec = json!({ "address": A, "pool": "web", "owners": [owner], "quarantine": quarantine });
        let object = json!({ "metadata": { "name": "a" }, "spec": spec });
        Restricted::of(&serde_json::from_value::<windlass_api::VirtualIP>(object).unwrap())
    };
    assert_eq!(spec("1", false).owners, Some(vec!["shop/web".to_owned()]));
    assert_eq!(spec("1", false), spec("2", false));
    assert_eq!(spec("1", true).owners, Some(vec![]));
    assert_ne!(restrictions(&[spec("1", false)]), restrictions(&[spec("1", true)]));
}
