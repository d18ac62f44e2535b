use windlass_bgp::session::{Config, ExpectedAs};
use windlass_bgp::{Asn, HoldTime, RouterId};

use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn peer(endpoint: Endpoint) -> PeerConfig {
    let session = Config {
        local_as: Asn::new(64512).unwrap(),
        router_id: RouterId::new([192, 0, 2, 1].into()).unwrap(),
        expected_as: ExpectedAs::External,
        families: Family::ALL.into(),
        hold_time: HoldTime::new(30).unwrap(),
        keepalive: None,
        extended_next_hop: false,
    };
    PeerConfig::new(session, endpoint)
}

fn speaker(endpoints: impl IntoIterator<Item = Endpoint>) -> Speaker {
    let peers =
        endpoints.into_iter().enumerate().map(|(n, endpoint)| (format!("peer-{n:02}"), peer(endpoint)));
    Speaker { peers: peers.collect(), ..Speaker::default() }
}

fn planned(speaker: &Speaker, routes: &[HostRoute]) -> Vec<String> {
    sessions(speaker, routes).0.keys().map(ToString::to_string).collect()
}

fn host(ipv4: &[&str], ipv6: &[&str]) -> HostAddresses {
    let mut eth0 = InterfaceInfo::default();
    eth0.name = "eth0".to_owned();
    eth0.ipv4 = ipv4.iter().map(|text| (text.parse().unwrap(), 24)).collect();
    eth0.ipv6 = ipv6.iter().map(|text| (text.parse().unwrap(), 64)).collect();
    eth0.ipv6_lasting = ipv6.len();
    let mut host = HostAddresses::default();
    host.addresses = ipv4.iter().chain(ipv6).map(|text| ("eth0".to_owned(), ip(text))).collect();
    host.interfaces = vec![eth0];
    host
}

fn words(next_hops: NextHops) -> String {
    let v6 = next_hops.ipv6.map(|NextHopV6(global, local)| {
        local.map_or(global.to_string(), |local| format!("{global}+{local}"))
    });
    format!("{} {}", next_hops.ipv4.map_or("-".to_owned(), |v4| v4.to_string()), v6.unwrap_or("-".to_owned()))
}

// shows: bgp B54
#[test]
fn a_gateway_peer_has_a_session_for_each_gateway_of_a_default_route_of_its_family() {
    let route = |destination: &str, interface, gateway| {
        HostRoute::new(destination.parse().unwrap(), interface, Some(ip(gateway)), true)
    };
    let routes = [
        route("0.0.0.0/0", "eth0", "192.0.2.1"),
        route("0.0.0.0/0", "eth1", "198.51.100.1"),
        route("10.0.0.0/8", "eth0", "192.0.2.7"),
        route("::/0", "eth0", "fe80::1"),
        HostRoute::new("0.0.0.0/0".parse().unwrap(), "tun0", None, true),
    ];
    let planned_of = |family| planned(&speaker([Endpoint::Gateway(family)]), &routes);
    assert_eq!(planned_of(Family::V4), ["peer-00 (192.0.2.1)", "peer-00 (198.51.100.1)"]);
    assert_eq!(planned_of(Family::V6), ["peer-00 (fe80::1%eth0)"]);
    assert_eq!(planned(&speaker([Endpoint::Gateway(Family::V4)]), &[]), [""; 0]);
}

// shows: bgp D5
#[test]
fn a_node_has_at_most_16_sessions() {
    let endpoints =
        (1..=18).map(|n| Endpoint::Address { address: ip(&format!("192.0.2.{n}")), interface: None });
    let speaker = speaker(endpoints);
    let (sessions, beyond) = sessions(&speaker, &[]);
    assert_eq!((sessions.len(), beyond), (MOST_SESSIONS, 2));
}

// shows: bgp D1
#[test]
fn next_hops_are_the_own_address_and_one_of_the_same_interface() {
    let host = host(&["192.0.2.1"], &["2001:db8::1", "fe80::a"]);
    for (own, peer, expected) in [
        ("192.0.2.1", "192.0.2.9", "192.0.2.1 2001:db8::1"),
        ("2001:db8::1", "2001:db8::9", "192.0.2.1 2001:db8::1+fe80::a"),
        ("2001:db8::1", "2001:db8:0:9::9", "192.0.2.1 2001:db8::1"),
        ("fe80::a", "fe80::9", "192.0.2.1 2001:db8::1+fe80::a"),
        ("198.51.100.1", "198.51.100.9", "198.51.100.1 -"),
    ] {
        assert_eq!(words(next_hops(ip(own), ip(peer), None, &host, None)), expected, "{own} to {peer}");
    }
}

// shows: bgp D2
#[test]
fn a_connection_is_displaced_by_the_loss_of_an_address_it_uses_and_by_the_first_one_of_a_family() {
    let (own, peer) = (ip("192.0.2.2"), ip("192.0.2.9"));
    let both = ["2001:db8::2"];
    for (before, after, expected) in [
        (host(&["192.0.2.2"], &both), host(&["192.0.2.2"], &both), false),
        (
            host(&["192.0.2.2"], &both),
            host(&["192.0.2.1", "192.0.2.2"], &["2001:db8::1", "2001:db8::2"]),
            false,
        ),
        (host(&["192.0.2.2"], &both), host(&["192.0.2.1"], &both), true),
        (host(&["192.0.2.2"], &both), host(&["192.0.2.2"], &["2001:db8::1"]), true),
        (host(&["192.0.2.2"], &both), host(&["192.0.2.2"], &[]), true),
        (host(&["192.0.2.2"], &[]), host(&["192.0.2.2"], &both), true),
    ] {
        let used = next_hops(own, peer, None, &before, None);
        assert_eq!(is_displaced(own, peer, None, &after, used), expected, "{before:?}\n{after:?}");
    }
}
