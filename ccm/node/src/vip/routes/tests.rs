use windlass_engine::InterfaceInfo;
use windlass_engine::bgp::wire::Attributes;

use super::*;
use crate::vip::settings::{self, Settings};

fn settings(peers: &str) -> Settings {
    let text = format!(
        "bgp: {{localASN: 64512, peers: [{peers}]}}\nvips:\n\
         - {{address: 203.0.113.100, ports: [6443], protocols: [bgp], med: 7}}\n\
         - {{address: '2001:db8::100', ports: [6443], protocols: [bgp]}}\n\
         - {{address: 192.0.2.100, ports: [6443]}}\n"
    );
    settings::parse(text.as_bytes(), "vip.yaml").unwrap_or_else(|error| panic!("{error}"))
}

fn speaker_of(settings: &Settings, standing: Standing, passwords: &BTreeMap<PathBuf, Md5Key>) -> Speaker {
    let router_id = RouterId::new([192, 0, 2, 11].into()).unwrap();
    let vips = settings.vips.iter().map(|vip| (vip, standing));
    speaker(settings.bgp.as_ref().unwrap(), router_id, passwords, vips)
}

const PEERS: &str = "{address: 192.0.2.1, peerASN: 64500}, {gateway: IPv6, dynamicASN: External}";

#[test]
fn each_peer_gets_the_addresses_announced_by_bgp_and_no_other_by_their_standing() {
    let plain = Attributes { med: Some(7), ..Attributes::default() };
    for (standing, expected) in [
        (Standing::Good, Some(plain.clone())),
        (Standing::Degraded, Some(plain.degraded())),
        (Standing::Withheld, None),
    ] {
        let speaker = speaker_of(&settings(PEERS), standing, &BTreeMap::new());
        assert_eq!(speaker.peers.keys().collect::<Vec<_>>(), ["192.0.2.1", "IPv6 gateway"]);
        for routes in speaker.routes.values() {
            let found: Vec<String> = routes.keys().map(ToString::to_string).collect();
            let all = ["203.0.113.100/32", "2001:db8::100/128"];
            assert_eq!(found, if expected.is_some() { &all[..] } else { &[] }, "{standing:?}");
            assert_eq!(routes.values().next().map(|one| (**one).clone()), expected, "{standing:?}");
        }
        assert_eq!(speaker.routes.len(), 2);
    }
}

#[test]
fn checks_degrade_a_node_and_only_one_that_cannot_serve_is_withheld() {
    for (can_serve, failing, proving, expected) in [
        (true, 0, 0, Standing::Good),
        (true, 99, 0, Standing::Good),
        (true, 100, 0, Standing::Degraded),
        (true, 0, 100, Standing::Degraded),
        (true, 60, 60, Standing::Degraded),
        (true, u8::MAX, u8::MAX, Standing::Degraded),
        (false, 0, 0, Standing::Withheld),
        (false, 100, 0, Standing::Withheld),
    ] {
        let found = standing(can_serve, LostPriority { failing, proving });
        assert_eq!(found, expected, "{can_serve} {failing} {proving}");
    }
}

#[test]
fn an_address_whose_family_no_router_takes_is_reported() {
    let [v4, v6] = Family::ALL.map(|family| BTreeSet::from([family]));
    let both = BTreeSet::from(Family::ALL);
    let untaken = |address: &str, sessions: &[&BTreeSet<Family>]| {
        untaken(address.parse().unwrap(), sessions.iter().copied())
    };
    for (address, sessions) in [
        ("203.0.113.100", &[][..]),
        ("203.0.113.100", &[&v4]),
        ("203.0.113.100", &[&v6, &both]),
        ("2001:db8::100", &[&v4, &v6]),
    ] {
        assert_eq!(untaken(address, sessions), None, "{address} {sessions:?}");
    }
    for (address, sessions, expected) in [
        ("203.0.113.100", &[&v6][..], "no BGP router takes IPv4 routes"),
        ("2001:db8::100", &[&v4, &v4], "no BGP router takes IPv6 routes"),
    ] {
        let found = untaken(address, sessions).unwrap_or_default();
        assert!(found.contains(expected), "{address} {sessions:?}: {found}");
    }
}

#[test]
fn a_peer_with_a_password_has_no_session_before_the_password_is_known() {
    let settings = settings("{address: 192.0.2.1, peerASN: 64500, passwordFile: /etc/windlass/bgp}");
    let none = speaker_of(&settings, Standing::Good, &BTreeMap::new());
    assert_eq!(none, Speaker::default());
    let key = Md5Key::new(b"secret").unwrap();
    let known = speaker_of(&settings, Standing::Good, &[("/etc/windlass/bgp".into(), key.clone())].into());
    assert_eq!(known.peers["192.0.2.1"].password, Some(key));
}

#[test]
fn the_settings_of_a_peer_reach_its_session() {
    let settings = settings(
        "{address: 'fe80::1', interface: eth0, peerASN: 64500, port: 1179, holdTimeSeconds: 9, keepaliveSeconds: 2, \
         ttlSecurityHops: 2, nextHops: {ipv4: 192.0.2.11}}",
    );
    let speaker = speaker_of(&settings, Standing::Good, &BTreeMap::new());
    let peer = &speaker.peers["fe80::1%eth0"];
    assert_eq!((peer.port, peer.minimum_ttl, peer.source), (1179, Some(254), None));
    assert_eq!(peer.next_hops.ipv4, Some([192, 0, 2, 11].into()));
    assert_eq!((peer.session.hold_time.seconds(), peer.session.local_as.get()), (9, 64512));
    assert!(peer.session.extended_next_hop, "IPv4 routes may have an IPv6 next hop there");
}

/// A host with these addresses, and those by which it reaches the internet.
fn host(addresses: &[&str], sources: &[&str]) -> HostAddresses {
    let mut eth0 = InterfaceInfo::default();
    for address in addresses {
        match address.parse().unwrap() {
            IpAddr::V4(v4) => eth0.ipv4.push((v4, 24)),
            IpAddr::V6(v6) => eth0.ipv6.push((v6, 64)),
        }
    }
    eth0.ipv6_lasting = eth0.ipv6.len();
    let mut host = HostAddresses::default();
    host.interfaces = vec![eth0];
    host.sources = sources.iter().map(|source| source.parse().unwrap()).collect();
    host
}

#[test]
fn the_identifier_is_an_ipv4_address_of_the_node_or_follows_from_its_ipv6_address() {
    let virtual_ips = ["192.0.2.100".parse().unwrap()].into();
    let id = |host: HostAddresses| router_id(&host, &virtual_ips).map(|id| id.to_string());
    assert_eq!(id(host(&["192.0.2.100", "192.0.2.11"], &[])).unwrap(), "192.0.2.11");
    assert_eq!(id(host(&["192.0.2.11", "198.51.100.11"], &["198.51.100.11"])).unwrap(), "198.51.100.11");
    assert_eq!(id(HostAddresses::default()), None);
    let of_v6: Vec<String> =
        (1..200).map(|last| id(host(&[&format!("2001:db8::{last:x}")], &[])).unwrap()).collect();
    assert_eq!(of_v6.iter().collect::<BTreeSet<_>>().len(), of_v6.len(), "each node has another");
    let first = |id: &String| id.split('.').next().unwrap().parse::<u8>().unwrap();
    assert!(of_v6.iter().map(first).all(|first| (1..127).contains(&first)), "{of_v6:?}");
}
