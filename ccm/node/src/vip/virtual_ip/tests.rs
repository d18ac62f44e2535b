use windlass_engine::InterfaceInfo;

use super::super::settings::{self, Settings};
use super::*;

mod versions;

const START: Time = Time::from_nanos(1);
const LISTENED: Duration = Duration::from_secs(4);
const WALL: WallTime = WallTime::since_epoch(Duration::from_hours(500_000));

fn settings(more: &str) -> VipSettings {
    let text = format!("vips:\n- address: 192.0.2.100\n  ports: [6443]\n{more}");
    let Settings { mut vips, .. } = settings::parse(text.as_bytes(), "vip.yaml").unwrap();
    vips.remove(0)
}

/// A host with two addresses of the network, and one of another.
fn machine() -> HostAddresses {
    let mut eth0 = InterfaceInfo::default();
    "eth0".clone_into(&mut eth0.name);
    eth0.ipv4 = vec![([192, 0, 2, 11].into(), 24), ([192, 0, 2, 12].into(), 24)];
    let mut eth1 = InterfaceInfo::default();
    "eth1".clone_into(&mut eth1.name);
    eth1.ipv4 = vec![([198, 51, 100, 11].into(), 24)];
    eth1.ipv6 = vec![("2001:db8::11".parse().unwrap(), 64), ("fe80::11".parse().unwrap(), 64)];
    eth1.ipv6_lasting = 2;
    let mut machine = HostAddresses::default();
    machine.interfaces = vec![eth0, eth1];
    machine
}

fn host(last: u8) -> IpAddr {
    [192, 0, 2, last].into()
}

fn nothing_in_use(_: &str, _: IpAddr, _: Vrid) -> bool {
    false
}

fn node(now: Time) -> Node<'static> {
    Node { keys: None, vrid_in_use: &nothing_in_use, now, wall: WALL }
}

fn heard<'a>(interface: &'a str, vrid: u8, source: u8, listed: &'a [IpAddr]) -> Heard<'a> {
    Heard { interface, vrid, source: host(source), listed, message: &[] }
}

/// One that has chosen its VRID.
fn running(more: &str) -> VirtualIp {
    let mut vip = VirtualIp::new(settings(more));
    assert!(vip.find_place(&machine(), START));
    vip.choose_vrid(None, node(START + LISTENED));
    vip
}

/// Where checks of these weights fail.
fn router(vip: &VirtualIp, failing: &[u8]) -> RouterConfig {
    vip.router(LostPriority { failing: failing.iter().sum(), proving: 0 }, node(START)).unwrap()
}

#[test]
fn a_virtual_ip_runs_on_the_interface_of_its_network_once_it_has_listened() {
    let mut vip = VirtualIp::new(settings(""));
    assert!(vip.router(LostPriority::default(), node(START)).is_none());
    vip.find_place(&machine(), START);
    assert!(!vip.find_place(&machine(), START), "found already");
    assert!(!vip.choose_vrid(None, node(START)));
    assert!(vip.router(LostPriority::default(), node(START)).is_none());
    assert!(vip.choose_vrid(None, node(START + LISTENED)));
    let router = router(&vip, &[]);
    assert_eq!((router.interface.as_str(), router.source), ("eth0", host(11)));
    assert_eq!(router.addresses, [host(100)].into());
    assert_eq!((router.hold, router.accept, router.recognise_peers), (Hold::Respond, false, true));
    router.check().unwrap();
}

#[test]
fn the_interface_with_the_smallest_network_is_taken_and_of_several_alike_the_first() {
    let mut machine = machine();
    let mut docker0 = machine.interfaces.first().unwrap().clone();
    "docker0".clone_into(&mut docker0.name);
    docker0.ipv4 = vec![([192, 0, 0, 1].into(), 16)];
    let mut eth9 = machine.interfaces.first().unwrap().clone();
    "eth9".clone_into(&mut eth9.name);
    machine.interfaces.insert(0, docker0);
    machine.interfaces.push(eth9);
    let mut vip = VirtualIp::new(settings(""));
    vip.find_place(&machine, START);
    assert_eq!(vip.place().unwrap().interface, "eth0");
}

// shows: field-reports F-81
#[test]
fn of_two_interfaces_in_one_subnet_the_one_with_carrier_is_taken_and_a_larger_network_never_is() {
    // Carrier of docker0, whose network is larger, and of eth0 and eth9, which are in one subnet.
    for (carriers, expected) in [
        ([false, false, false], "eth0"),
        ([false, true, true], "eth0"),
        ([false, true, false], "eth0"),
        ([false, false, true], "eth9"),
        ([true, false, false], "eth0"),
    ] {
        let mut machine = machine();
        let mut docker0 = machine.interfaces.first().unwrap().clone();
        "docker0".clone_into(&mut docker0.name);
        docker0.ipv4 = vec![([192, 0, 0, 1].into(), 16)];
        let mut eth9 = machine.interfaces.first().unwrap().clone();
        "eth9".clone_into(&mut eth9.name);
        eth9.ipv4 = vec![([192, 0, 2, 19].into(), 24)];
        machine.interfaces = vec![docker0, machine.interfaces.swap_remove(0), eth9];
        for (interface, carrier) in machine.interfaces.iter_mut().zip(carriers) {
            interface.carrier = carrier;
        }
        let mut vip = VirtualIp::new(settings(""));
        vip.find_place(&machine, START);
        assert_eq!(vip.place().unwrap().interface, expected, "{carriers:?}");
    }
}

#[test]
fn a_check_that_fails_makes_a_node_unfit_and_a_light_one_does_not() {
    let vip = running("");
    let fit_from = router(&vip, &[]).fit_from;
    assert!(router(&vip, &[]).priority >= fit_from && router(&vip, &[20]).priority >= fit_from);
    assert!(router(&vip, &[100]).priority < fit_from);
}

#[test]
fn a_node_that_has_to_prove_itself_comes_after_those_that_are_fit_and_before_those_that_fail() {
    for more in ["", "  preempt: true"] {
        let vip = running(more);
        let proving = vip.router(LostPriority { failing: 0, proving: 100 }, node(START)).unwrap();
        assert!(
            router(&vip, &[100]).priority < proving.priority && proving.priority < router(&vip, &[]).priority
        );
        // Of those that fail it takes over at once, of no other.
        assert!(proving.preempt && proving.preempt_delay == NEVER);
        assert!(router(&vip, &[100]).priority < proving.fit_from && proving.priority >= proving.fit_from);
        assert_eq!(router(&vip, &[]).fit_from, proving.fit_from, "a fit one leaves it in place");
    }
}

#[test]
fn a_fit_node_is_left_in_place_unless_others_are_to_preempt() {
    assert!(router(&running(""), &[]).preempt_delay > Duration::from_hours(24 * 365));
    assert_eq!(router(&running("  preempt: true"), &[]).preempt_delay, Duration::ZERO);
}

#[test]
fn an_unfit_node_takes_over_from_none_that_is_heard() {
    for more in ["", "  preempt: true"] {
        let vip = running(more);
        assert!(router(&vip, &[]).preempt && router(&vip, &[99]).preempt, "fit");
        assert!(!router(&vip, &[100]).preempt && !router(&vip, &[200]).preempt, "unfit");
    }
}

#[test]
fn named_peers_are_spoken_to_by_unicast_without_this_node_itself() {
    let file = "  peers: [192.0.2.11, 192.0.2.21, 192.0.2.31]";
    let unicast = router(&running(file), &[]);
    assert_eq!(unicast.peers, [host(21), host(31)].into());
    assert!(matches!(unicast.transport, Transport::Unicast { .. }) && !unicast.recognise_peers);
    unicast.check().unwrap();
    let both = router(&running(&format!("{file}\n  multicast: true")), &[]);
    assert!(
        matches!(both.transport, Transport::Multicast { .. })
            && both.recognise_peers
            && both.unicast_fallback
    );
    let alone = router(&running("  peers: [192.0.2.11]"), &[]);
    assert!(matches!(alone.transport, Transport::Multicast { .. }), "nobody to speak to by unicast");
    alone.check().unwrap();
}

#[test]
fn a_vrid_is_the_one_given_or_that_of_whoever_advertises_the_address() {
    let mut given = VirtualIp::new(settings("  vrid: 7"));
    given.find_place(&machine(), START);
    assert_eq!(router(&given, &[]).vrid.get(), 7, "without listening");
    let mut joining = VirtualIp::new(settings(""));
    joining.find_place(&machine(), START);
    joining.hear(heard("eth1", 9, 21, &[host(100)]), node(START));
    joining.hear(heard("eth0", 10, 21, &[host(99)]), node(START));
    assert!(!joining.choose_vrid(None, node(START)), "another LAN, another address");
    joining.hear(heard("eth0", 11, 21, &[host(100)]), node(START));
    assert!(joining.choose_vrid(None, node(START)));
    assert_eq!(joining.vrid().map(Vrid::get), Some(11));
}

/// A host that has no key would lead the address from one VRID to the next.
#[test]
fn where_adverts_are_signed_who_advertises_the_address_without_a_key_is_a_stranger() {
    let signed = |key: &str, vrid: u8| {
        let keys = SigningKeys::of(1, key);
        let authentication = keys.authentication(settings("").advert_interval);
        let advert = wire::Advert {
            path: wire::Path::V4 { source: [192, 0, 2, 21].into(), destination: wire::GROUP_V4 },
            ttl: wire::TTL,
            vrid: Vrid::new(vrid).unwrap(),
            priority: Some(Priority::DEFAULT),
            interval: settings("").advert_interval,
            addresses: wire::AddressList::representing(&[host(100)].into(), host(21), 10),
        };
        let mut signer = Authenticator::new(authentication);
        let sign = |data: SignedData<'_>| signer.sign(data, WALL);
        advert.signed_message(windlass_vrrp::Version::V3, wire::Checksum::Rfc9568, sign)
    };
    let keys = SigningKeys::of(1, "a");
    let keyed = |now| Node { keys: Some(&keys), ..node(now) };
    let mut vip = VirtualIp::new(settings(""));
    vip.find_place(&machine(), START);
    let own = [host(100)];
    for message in [Vec::new(), signed("b", 11)] {
        vip.hear(Heard { message: &message, ..heard("eth0", 11, 21, &own) }, keyed(START));
        assert!(!vip.choose_vrid(None, keyed(START)), "without a key, or with another");
    }
    vip.hear(Heard { message: &signed("a", 12), ..heard("eth0", 12, 21, &own) }, keyed(START));
    assert!(vip.choose_vrid(None, keyed(START)));
    assert_eq!(vip.vrid().map(Vrid::get), Some(12));
}

#[test]
fn a_vrid_that_another_process_of_the_host_has_is_not_chosen() {
    let first = running("").vrid().unwrap();
    let mut vip = VirtualIp::new(settings(""));
    vip.find_place(&machine(), START);
    let in_use = move |_: &str, _, vrid| vrid == first;
    vip.choose_vrid(None, Node { vrid_in_use: &in_use, ..node(START + LISTENED) });
    assert!(vip.vrid().is_some_and(|vrid| vrid != first));
}

#[test]
fn an_address_that_somebody_else_put_on_the_host_is_an_obstacle_until_it_is_removed() {
    let mut vip = running("");
    let mut bound = machine();
    bound.addresses = vec![("lo".to_owned(), host(99)), ("eth0".to_owned(), host(100))];
    vip.find_place(&bound, START);
    assert!(vip.obstacle(None).unwrap().contains("`ip addr del 192.0.2.100 dev eth0`"));
    vip.find_place(&machine(), START);
    assert_eq!(vip.obstacle(None), None);
}

#[test]
fn a_host_that_loses_its_address_for_a_moment_keeps_the_vrid() {
    let mut vip = running("");
    let before = vip.vrid();
    assert!(vip.find_place(&HostAddresses::default(), START));
    assert!(vip.router(LostPriority::default(), node(START)).is_none());
    assert!(vip.obstacle(None).unwrap().contains("no interface of this host has a network with 192.0.2.100"));
    assert!(vip.find_place(&machine(), START));
    assert_eq!(vip.vrid(), before);
    assert_eq!(vip.obstacle(None), None);
}

#[test]
fn without_a_key_where_keys_are_wanted_nothing_is_announced() {
    let vip = running("");
    let keys = SigningKeys::default();
    let keyed = Node { keys: Some(&keys), ..node(START) };
    assert!(vip.router(LostPriority::default(), keyed).is_none());
    assert_eq!(
        vip.obstacle(Some(&keys)).unwrap(),
        "no key signs its adverts yet: write a key to the folder keysDir"
    );
}

/// One that is announced by BGP alone, outside of all networks of the host.
fn routed() -> VirtualIp {
    let text = b"bgp: {localASN: 64512, peers: [{gateway: IPv4, dynamicASN: External}]}\n\
                 vips: [{address: 203.0.113.100, protocols: [bgp], ports: [6443]}]";
    VirtualIp::new(settings::parse(text, "vip.yaml").unwrap().vips.remove(0))
}

#[test]
fn an_address_that_is_announced_by_bgp_alone_needs_no_network_and_no_election() {
    let mut vip = routed();
    assert!(!vip.can_serve());
    vip.find_place(&machine(), START);
    assert!(vip.can_serve());
    assert_eq!(vip.place().unwrap().own, host(11), "the first address of the host");
    vip.choose_vrid(None, node(START + LISTENED));
    assert_eq!((vip.vrid(), vip.obstacle(None)), (None, None));
    assert!(vip.router(LostPriority::default(), node(START)).is_none());
    let mut uplinks = machine();
    uplinks.sources = vec![[198, 51, 100, 11].into()];
    vip.find_place(&uplinks, START);
    assert_eq!(vip.place().unwrap().interface, "eth1", "that of the default route");
    let mut v6 = machine();
    v6.interfaces.iter_mut().for_each(|interface| interface.ipv4.clear());
    vip.find_place(&v6, START);
    assert!(!vip.can_serve() && vip.obstacle(None).unwrap().contains("has an IPv4 address"));
}

#[test]
fn an_address_of_the_node_is_not_announced_by_bgp() {
    let mut vip = routed();
    let mut bound = machine();
    bound.addresses = vec![("lo".to_owned(), [203, 0, 113, 100].into())];
    vip.find_place(&bound, START);
    assert!(!vip.can_serve());
    let obstacle = vip.obstacle(None).unwrap();
    assert!(obstacle.contains("203.0.113.100 is an address of interface lo of this host"), "{obstacle}");
    let mut restrictions = Restrictions::default();
    vip.restrict(&mut restrictions);
    assert!(restrictions.routed().is_empty(), "its own sockets are not refused");
    vip.find_place(&machine(), START);
    vip.restrict(&mut restrictions);
    assert_eq!(restrictions.routed(), &[[203, 0, 113, 100].into()].into());
}

#[test]
fn an_address_that_changes_to_vrrp_chooses_a_vrid() {
    let mut vip = running("");
    let before = vip.vrid();
    let elected = vip.settings.clone();
    vip.change(VipSettings { vrrp: false, route: routed().settings.route, ..elected.clone() });
    vip.find_place(&machine(), START);
    assert_eq!(vip.vrid(), None);
    vip.change(elected);
    assert!(vip.find_place(&machine(), START), "found again");
    vip.choose_vrid(None, node(START + LISTENED));
    assert_eq!(vip.vrid(), before);
}

fn targets(vip: &VirtualIp, well: &[u8]) -> Vec<Vec<SocketAddr>> {
    let mut balancing = Balancing::default();
    let well = well.iter().map(|last| SocketAddr::new(host(*last), 6443)).collect();
    vip.balance(&well, &mut balancing);
    balancing.services.into_values().map(|backends| backends.targets.into_iter().collect()).collect()
}

#[test]
fn connections_go_to_this_node_or_to_all_that_are_well() {
    let at = |last| SocketAddr::new(host(last), 6443);
    assert_eq!(targets(&running(""), &[]), [[at(11)]]);
    assert_eq!(targets(&running("  bind: true"), &[]), Vec::<Vec<SocketAddr>>::new());
    let balanced =
        running("  balance: {backends: ['192.0.2.11:6443', '192.0.2.21:6443', '192.0.2.31:6443']}");
    assert_eq!(targets(&balanced, &[11, 31]), [[at(11), at(31)]]);
    assert_eq!(targets(&balanced, &[]), [[at(11), at(21), at(31)]], "none is known to be well");
    assert!(running("").is_translated() && !running("  bind: true").is_translated());
}

/// All nodes have one configuration, and each does its part of it.
#[test]
fn connections_that_an_unfit_node_has_go_on_where_other_nodes_serve_them() {
    assert!(!router(&running(""), &[]).forward_to_unfit);
    assert!(
        router(&running("  balance: {backends: ['192.0.2.11:6443', '192.0.2.21:6443']}"), &[])
            .forward_to_unfit
    );
}

#[test]
fn a_server_answers_by_the_node_that_balances_where_clients_keep_their_addresses() {
    let balanced = |source| {
        let backends = "['192.0.2.11:6443', '192.0.2.21:6443', '192.0.2.31:7443']";
        let vip = running(&format!("  balance: {{source: {source}, backends: {backends}}}"));
        let mut balancing = Balancing { own: [host(11), host(12)].into(), ..Balancing::default() };
        vip.balance(&BTreeSet::new(), &mut balancing);
        balancing.returns
    };
    let returns = balanced("Keep");
    assert_eq!(returns.servers, [(host(11), ProtocolPort { protocol: Protocol::Tcp, port: 6443 })].into());
    assert_eq!(returns.peers, [host(21), host(31)].into());
    assert_eq!(balanced("Masquerade"), windlass_engine::Returns::default());
}

#[test]
fn what_stands_in_the_way_names_the_interface_and_the_remedy() {
    let obstacle = |more: &str| {
        let mut vip = VirtualIp::new(settings(more));
        vip.find_place(&machine(), START);
        vip.obstacle(None)
    };
    assert_eq!(
        obstacle("  interface: eth9").unwrap(),
        "interface eth9 does not exist, is down or has no IPv4 address: bring it up, or name another interface"
    );
    assert_eq!(obstacle("  interface: eth1"), None, "of another network, but named");
    let text = b"vips: [{address: '2001:db8:1::100', ports: [6443]}]";
    let mut vip = VirtualIp::new(settings::parse(text, "vip.yaml").unwrap().vips.remove(0));
    vip.find_place(&machine(), START);
    assert_eq!(
        vip.obstacle(None).unwrap(),
        "no interface of this host has a network with 2001:db8:1::100: it has 2001:db8::/64 on eth1, fe80::/64 on eth1. Name the \
         interface whose LAN contains the address, or choose another address. Between different networks an address moves only by \
         BGP: set protocols: [bgp]"
    );
}
