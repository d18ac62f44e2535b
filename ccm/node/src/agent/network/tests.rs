use super::*;

#[test]
fn only_interfaces_that_can_carry_the_nodes_addresses_count() {
    let is_the_nodes = |name: &str| is_the_nodes(&device(name, false));
    for name in ["eth0", "enp3s0f1", "bond0", "bond0.100", "vlan7", "br0", "br-lan", "wlan0", "lan", "k8s0"] {
        assert!(is_the_nodes(name), "{name}");
    }
    for name in [
        "lo",
        "cni0",
        "veth1a2b",
        "docker0",
        "kube-ipvs0",
        "kube-bridge",
        "cali1234",
        "flannel.1",
        "cilium_host",
        "lxc12ab",
        "nodelocaldns",
        "virbr0",
        "podman0",
    ] {
        assert!(!is_the_nodes(name), "{name}");
    }
}

fn device(name: &str, hardware: bool) -> windlass_engine::InterfaceInfo {
    let mut info = windlass_engine::InterfaceInfo::default();
    info.name = name.to_owned();
    info.hardware = hardware;
    info
}

// shows: field-reports F-80
#[test]
fn a_network_card_is_the_nodes_whatever_its_name_is() {
    for name in ["lxc-lan", "kube-lan", "cni1", "veth9", "eth0"] {
        let mut card = device(name, true);
        assert!(is_the_nodes(&card), "{name}");
        card.ipv4 = vec![("192.0.2.5".parse().unwrap(), 24)];
        assert_eq!(interfaces(&[card], &Carriers::default()).len(), 1, "{name}");
    }
    for name in ["lo", "docker0"] {
        assert!(!is_the_nodes(&device(name, true)), "{name}");
    }
}

#[test]
fn interfaces_are_reported_by_name_bridges_last_primary_address_first_and_the_link_local_one_apart() {
    let found = |name: &str, v4: &[(&str, u8)], v6: &[(&str, u8)]| {
        let mut info = windlass_engine::InterfaceInfo::default();
        info.name = name.to_owned();
        info.mac = [2, 0, 0, 0, 0xab, 1];
        info.mtu = 1500;
        info.ipv4 = v4.iter().map(|(address, length)| (address.parse().unwrap(), *length)).collect();
        info.ipv6 = v6.iter().map(|(address, length)| (address.parse().unwrap(), *length)).collect();
        info
    };
    let found_all = [
        found("eth1", &[("198.51.100.1", 25)], &[]),
        found("cni0", &[("203.0.113.1", 27)], &[]),
        found("docker0", &[("172.17.0.1", 16)], &[]),
        found("lo", &[("192.0.2.1", 32)], &[]),
        found("eth2", &[], &[("fe80::1", 64)]),
        found("eth3", &[], &[("2001:db8:1::1", 64)]),
        found(
            "eth0",
            &[("192.0.2.12", 24), ("192.0.2.5", 24)],
            &[("fe80::2", 64), ("fe80::1", 64), ("2001:db8::1", 64)],
        ),
    ];
    let got = interfaces(&found_all, &Carriers::default());
    let expected = |name: &str, addresses: &[&str], link_local: Option<&str>| InterfaceInfo {
        name: name.to_owned(),
        mac: "02:00:00:00:ab:01".to_owned(),
        addresses: addresses.iter().map(|address| (*address).to_owned()).collect(),
        link_local: link_local.map(|address| address.parse().unwrap()),
        isolated: false,
        mtu: Some(1500),
    };
    assert_eq!(
        got,
        [
            expected("eth0", &["192.0.2.12/24", "192.0.2.5/24", "2001:db8::1/64"], Some("fe80::1")),
            expected("eth1", &["198.51.100.1/25"], None),
            expected("eth3", &["2001:db8:1::1/64"], None),
            expected("docker0", &["172.17.0.1/16"], None),
        ]
    );
}

fn router(vrid: u8, source: &str) -> ForeignRouter {
    ForeignRouter { interface: "eth0".into(), vrid, source: source.parse().unwrap(), version: 3 }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_stranger_is_reported_after_the_grace_and_forgotten_after_ten_minutes_of_silence() {
    let start = Instant::now();
    let mut foreign_routers = ForeignRouters::default();
    let keepalived = router(51, "192.0.2.90");
    foreign_routers.hear(keepalived.clone(), start);
    assert_eq!(foreign_routers.foreign(start + SECOND), []);
    assert_eq!(foreign_routers.foreign(start + GRACE), std::slice::from_ref(&keepalived));
    foreign_routers.hear(keepalived.clone(), start + 300 * SECOND);
    assert_eq!(foreign_routers.foreign(start + 899 * SECOND), [keepalived]);
    assert_eq!(foreign_routers.foreign(start + 900 * SECOND), []);
}

#[test]
fn the_clusters_own_nodes_are_no_strangers_before_during_and_just_after_their_work() {
    let start = Instant::now();
    let mut foreign_routers = ForeignRouters::default();
    let candidate = (64, "192.0.2.12".parse().unwrap());
    // Heard before this node read that n2 was given VRID 64.
    foreign_routers.hear(router(64, "192.0.2.12"), start);
    assert_eq!(foreign_routers.foreign(start + SECOND), []);
    foreign_routers.rank([candidate].into_iter(), start + 2 * SECOND);
    assert_eq!(foreign_routers.foreign(start + 10 * SECOND), []);
    // Taken from it at 10 s; its last adverts are no stranger's.
    foreign_routers.hear(router(64, "192.0.2.12"), start + 11 * SECOND);
    assert_eq!(foreign_routers.foreign(start + 20 * SECOND), []);
    // But it goes on: cut off from the API server, it still uses the VRID.
    foreign_routers.hear(router(64, "192.0.2.12"), start + 71 * SECOND);
    assert_eq!(foreign_routers.foreign(start + 71 * SECOND), [router(64, "192.0.2.12")]);
    // The same node with another VRID (a keepalived on it) is a stranger all along.
    foreign_routers.hear(router(51, "192.0.2.12"), start + 71 * SECOND);
    assert!(foreign_routers.foreign(start + 75 * SECOND).contains(&router(51, "192.0.2.12")));
}

#[test]
fn a_flood_of_strangers_is_bounded() {
    let start = Instant::now();
    let mut foreign_routers = ForeignRouters::default();
    for n in 0..2000u32 {
        let source = std::net::Ipv4Addr::from(0xc000_0200 + n);
        foreign_routers.hear(router(u8::try_from(n % 200).unwrap(), &source.to_string()), start);
    }
    assert_eq!(foreign_routers.foreign(start + GRACE).len(), MAX_STRANGERS);
}

// shows: threats T-15
#[test]
fn a_flood_of_strangers_hides_none_that_uses_a_vrid_of_the_cluster() {
    let start = Instant::now();
    let mut foreign_routers = ForeignRouters::default();
    let ours = |vrid: u8| (vrid, IpAddr::from([192, 0, 2, 12]));
    foreign_routers.rank((64..70).map(ours), start);
    for n in 0..2000u32 {
        let source = std::net::Ipv4Addr::from(0xc000_0300 + n);
        foreign_routers.hear(router(u8::try_from(n % 255 + 1).unwrap(), &source.to_string()), start);
    }
    for n in 0..100 {
        foreign_routers.hear(router(65, &format!("198.51.100.{n}")), start);
    }
    let reported = |foreign_routers: &mut ForeignRouters, vrid: u8| {
        foreign_routers.foreign(start + GRACE).iter().filter(|one| one.vrid == vrid).count()
    };
    for vrid in 64..70 {
        assert_eq!(reported(&mut foreign_routers, vrid), MAX_OF_A_VRID, "{vrid}");
    }
    // One that the cluster uses from now on.
    foreign_routers.rank([ours(200)].into_iter(), start);
    foreign_routers.hear(router(200, "192.0.2.90"), start);
    assert!(reported(&mut foreign_routers, 200) > 0);
    assert_eq!(foreign_routers.foreign(start + GRACE).len(), MAX_STRANGERS);
}

#[test]
fn nodes_that_multicast_does_not_reach_are_named_as_the_virtual_routers_name_them() {
    let candidate = RankedNode {
        name: "n2".to_owned(),
        priority: 100,
        address: "192.0.2.12".parse().unwrap(),
        interface: "eth1".to_owned(),
        joining: false,
        former_address: None,
    };
    let peers = ["192.0.2.12", "192.0.2.13"].map(|address| ("eth0".to_owned(), address.parse().unwrap()));
    let got = without_multicast(peers, [candidate].iter());
    let told: Vec<_> = got.iter().map(|one| (one.interface.as_str(), one.node.as_str())).collect();
    assert_eq!(told, [("eth0", "n2"), ("eth0", "")]);
}

// shows: field-reports F-81
#[test]
fn of_two_interfaces_in_one_subnet_the_one_with_carrier_comes_first_until_the_other_has_had_it_for_a_minute()
{
    const SAME: [&str; 2] = ["192.0.2.1", "192.0.2.2"];
    let start = Instant::now();
    let found = |name: &str, address: &str, carrier: bool| {
        let mut info = windlass_engine::InterfaceInfo::default();
        info.name = name.to_owned();
        match address.parse().unwrap() {
            IpAddr::V4(address) => info.ipv4 = vec![(address, 24)],
            IpAddr::V6(address) => info.ipv6 = vec![("fe80::1".parse().unwrap(), 64), (address, 64)],
        }
        (info.carrier, info.up) = (carrier, true);
        info
    };
    let mut carriers = Carriers::default();
    let mut order = |second: u64, [first, other]: [bool; 2], [own, next]: [&str; 2]| -> Vec<String> {
        let all = [found("eth0", own, first), found("eth1", next, other)];
        carriers.note(&all, start + Duration::from_secs(second));
        interfaces(&all, &carriers).into_iter().map(|one| one.name).collect()
    };
    let (by_name, turned) = (["eth0", "eth1"], ["eth1", "eth0"]);
    assert_eq!(order(0, [true, true], SAME), by_name);
    assert_eq!(order(1, [false, true], SAME), turned);
    assert_eq!(order(2, [false, false], SAME), by_name, "neither has carrier");
    assert_eq!(order(3, [true, false], SAME), by_name);
    assert_eq!(order(62, [false, true], SAME), by_name, "the other one is not back for long enough");
    assert_eq!(order(121, [false, true], SAME), by_name);
    assert_eq!(order(122, [false, true], SAME), turned);
    assert_eq!(order(123, [true, true], SAME), turned);
    assert_eq!(order(182, [true, true], SAME), turned, "it may be lost again");
    assert_eq!(order(183, [true, true], SAME), by_name);
    let apart = ["192.0.2.1", "198.51.100.2"];
    assert_eq!(order(184, [false, true], apart), by_name, "each is the only one of its subnet");
    let net = |address: &str, length: u8| (address.parse::<std::net::Ipv6Addr>().unwrap(), length);
    assert!(is_same_subnet(&net("2001:db8::1", 64), &net("2001:db8::2", 64)));
    assert!(!is_same_subnet(&net("fe80::1", 64), &net("fe80::2", 64)), "each link has that one");
}
