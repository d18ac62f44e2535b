//! `bgp` and `protocols`.

use windlass_engine::BfdPath;
use windlass_engine::bgp::bfd::Config;
use windlass_engine::bgp::session::ExpectedAs;
use windlass_engine::bgp::wire::{Communities, Community, ExtendedCommunity, LargeCommunity, NextHopV6};

use super::refusals::check;
use super::*;

#[test]
fn all_fields_of_bgp_are_read() {
    let settings = read_text(
        "
bgp:
  localASN: 4200000000
  routerID: 192.0.2.11
  peers:
  - address: 192.0.2.1
    interface: eth0
    peerASN: 64500
    port: 1179
    sourceAddress: 192.0.2.11
    holdTimeSeconds: 9
    keepaliveSeconds: 3
    passwordFile: /etc/windlass/bgp
    ttlSecurityHops: 1
    bfd: {transmitIntervalMilliseconds: 50, detectMultiplier: 5, minimumTTL: 253}
    nextHops: {ipv4: 192.0.2.12, ipv6: '2001:db8::12'}
  - {gateway: IPv6, dynamicASN: Internal, bfd: {}}
vips:
- address: 203.0.113.100
  protocols: [vrrp, bgp]
  ports: [6443]
  communities: ['64512:100', no-export, no-advertise, no-peer, 'large:64512:1:2', 'rt:64512:7', 'soo:70000:8']
  localPreference: 200
  med: 5
  prepend: 2
",
    );
    let attributes = Attributes {
        prepend: 2,
        local_preference: 200,
        med: Some(5),
        communities: Communities::new([
            Community::new(64512, 100),
            Community::NO_EXPORT,
            Community::NO_ADVERTISE,
            Community::NO_PEER,
        ])
        .unwrap(),
        large: Communities::new([LargeCommunity([64512, 1, 2])]).unwrap(),
        extended: Communities::new([0x0002_fc00_0000_0007, 0x0203_0001_1170_0008].map(ExtendedCommunity))
            .unwrap(),
    };
    assert_eq!((settings.vips[0].vrrp, &settings.vips[0].route), (true, &Some(attributes)));
    let address = "192.0.2.1".parse().unwrap();
    let first = PeerSettings {
        endpoint: Endpoint::Address { address, interface: Some("eth0".to_owned()) },
        expected_as: ExpectedAs::Exactly(Asn::new(64500).unwrap()),
        port: 1179,
        source: Some("192.0.2.11".parse().unwrap()),
        hold_time: HoldTime::new(9).unwrap(),
        keepalive: Some(Duration::from_secs(3)),
        password_file: Some("/etc/windlass/bgp".into()),
        minimum_ttl: Some(255),
        bfd: Some(bfd(50, 300, 5, BfdPath::Multihop { minimum_ttl: 253 })),
        next_hops: NextHops {
            ipv4: Some([192, 0, 2, 12].into()),
            ipv6: Some(NextHopV6("2001:db8::12".parse().unwrap(), None)),
        },
    };
    let second = PeerSettings {
        endpoint: Endpoint::Gateway(windlass_engine::bgp::Family::V6),
        expected_as: ExpectedAs::Internal,
        port: 179,
        source: None,
        hold_time: HoldTime::new(30).unwrap(),
        keepalive: None,
        password_file: None,
        minimum_ttl: None,
        bfd: Some(bfd(300, 300, 3, BfdPath::SingleHop)),
        next_hops: NextHops { ipv4: None, ipv6: None },
    };
    let expected = BgpSettings {
        local_as: Asn::new(4_200_000_000).unwrap(),
        router_id: Some(RouterId::new([192, 0, 2, 11].into()).unwrap()),
        peers: vec![first, second],
    };
    assert_eq!(settings.bgp, Some(expected));
}

fn bfd(transmit: u64, receive: u64, multiplier: u8, path: BfdPath) -> BfdConfig {
    let (transmit, receive) = (Duration::from_millis(transmit), Duration::from_millis(receive));
    BfdConfig::new(Config { transmit, receive, multiplier: multiplier.try_into().unwrap() }, path).unwrap()
}

/// One peer and one address with these fields.
fn file(peer: &str, vip: &str) -> String {
    format!(
        "bgp: {{localASN: 64512, peers: [{{{peer}}}]}}\nvips: [{{address: 203.0.113.100, ports: [1], {vip}}}]"
    )
}

#[test]
fn fields_of_a_bgp_peer() {
    const AT: &str = "peerASN: 64500, address";
    let of = |fields: &str| file(fields, "protocols: [bgp]");
    check(
        &[
            (
                "peerASN: 64500",
                "1:32: bgp.peers[0]: it has neither address nor gateway: give one, as address: 192.0.2.1 or gateway: IPv4",
            ),
            (
                "address: 192.0.2.1, gateway: IPv4",
                "1:62: bgp.peers[0].gateway: the peer has an address as well: give one of address and gateway",
            ),
            (
                "gateway: both",
                "1:42: bgp.peers[0].gateway: both is neither IPv4 nor IPv6: name the family of the default route",
            ),
            (
                "gateway: IPv4, interface: eth0",
                "1:59: bgp.peers[0].interface: a gateway is reached by the interface of its route: leave it out",
            ),
            (
                "address: 'fe80::1'",
                "1:42: bgp.peers[0].address: fe80::1 is a link-local address, which each interface has: name the interface, as interface: eth0",
            ),
            (
                "address: 203.0.113.100",
                "1:42: bgp.peers[0].address: 203.0.113.100 is a virtual IP: give an address that one host has",
            ),
            (
                "address: 192.0.2.1",
                "1:32: bgp.peers[0]: it has neither peerASN nor dynamicASN: give one, as peerASN: 64500 or dynamicASN: External",
            ),
            (
                "address: 192.0.2.1, peerASN: 1, dynamicASN: External",
                "1:77: bgp.peers[0].dynamicASN: the peer has a peerASN as well: give one, as peerASN: 64500 or dynamicASN: External",
            ),
            (
                "address: 192.0.2.1, dynamicASN: Any",
                "1:65: bgp.peers[0].dynamicASN: Any is neither External nor Internal: use one of the two",
            ),
            (
                "address: 192.0.2.1, peerASN: 23456",
                "1:62: bgp.peers[0].peerASN: AS 23456 is reserved: use 1 to 4294967295, and not 23456 (AS_TRANS, RFC 6793): write it as 64512",
            ),
            (
                &format!("{AT}: 192.0.2.1, sourceAddress: '2001:db8::1'"),
                "1:84: bgp.peers[0].sourceAddress: 2001:db8::1 is IPv6, and the peer is not: give the node's address of the peer's family",
            ),
            (
                &format!("{AT}: 192.0.2.1, holdTimeSeconds: 2"),
                "1:86: bgp.peers[0].holdTimeSeconds: hold time of 2 s is not allowed: use 0 or 3 to 65535 (RFC 4271 §4.2): leave it out for 30",
            ),
            (
                &format!("{AT}: 192.0.2.1, keepaliveSeconds: 11"),
                "1:87: bgp.peers[0].keepaliveSeconds: 11 s is more than a third of the hold time of 30 s: use less, a longer holdTimeSeconds, or leave it out",
            ),
            (
                &format!("{AT}: 192.0.2.1, passwordFile: bgp"),
                "1:83: bgp.peers[0].passwordFile: bgp is not an absolute path: begin it with /",
            ),
            (
                &format!("{AT}: 192.0.2.1, ttlSecurityHops: 0"),
                "1:86: bgp.peers[0].ttlSecurityHops: 0 is out of range: use 1 to 254",
            ),
            (
                &format!("{AT}: 192.0.2.1, nextHops: {{ipv6: 192.0.2.11}}"),
                "1:86: bgp.peers[0].nextHops.ipv6: 192.0.2.11 is IPv4: give an address as 2001:db8::11",
            ),
        ],
        of,
    );
}

#[test]
fn protocols_and_attributes_of_a_virtual_ip() {
    let of = |fields: &str| file("address: 192.0.2.1, peerASN: 64500", fields);
    check(
        &[
            ("protocols: []", "2:56: vips[0].protocols: the list is empty: use [vrrp], [bgp] or [vrrp, bgp]"),
            (
                "protocols: [ospf]",
                "2:57: vips[0].protocols[0]: ospf is neither vrrp nor bgp: use [vrrp], [bgp] or [vrrp, bgp]",
            ),
            ("protocols: [bgp, bgp]", "2:62: vips[0].protocols[1]: bgp is named twice: name it once"),
            (
                "protocols: [bgp], priority: 150",
                "2:73: vips[0].priority: it is a setting of VRRP, and protocols does not contain vrrp: leave it out, or add vrrp to protocols",
            ),
            (
                "med: 5",
                "2:50: vips[0].med: it is a setting of BGP, and protocols does not contain bgp: leave it out, or add bgp to protocols",
            ),
            (
                "protocols: [vrrp, bgp], bind: true",
                "2:75: vips[0].bind: with bgp, packets arrive at all nodes, and bind adds the address to one: leave bind out, and let the program listen on the node's own address",
            ),
            (
                "protocols: [bgp], communities: ['1:2', '70000:1']",
                "2:84: vips[0].communities[1]: 70000:1 is not a community: write it as 64512:100, large:64512:1:2, rt:64512:7, soo:64512:8, no-export, no-advertise or no-peer",
            ),
            (
                "protocols: [bgp], communities: ['rt:70000:70000']",
                "2:77: vips[0].communities[0]: rt:70000:70000 is not a community: write it as 64512:100, large:64512:1:2, rt:64512:7, soo:64512:8, no-export, no-advertise or no-peer",
            ),
            (
                "protocols: [bgp], communities: ['large:1:2']",
                "2:77: vips[0].communities[0]: large:1:2 is not a community: write it as 64512:100, large:64512:1:2, rt:64512:7, soo:64512:8, no-export, no-advertise or no-peer",
            ),
            ("protocols: [bgp], prepend: 17", "2:72: vips[0].prepend: 17 is out of range: use 0 to 16"),
            (
                "protocols: [bgp], balance: {source: Keep, backends: ['192.0.2.11:1']}",
                "2:81: vips[0].balance.source: with bgp, connections are balanced by all nodes, and Keep is not tested for that: use Masquerade",
            ),
            (
                "protocols: [vrrp]",
                "1:6: bgp: no virtual IP is announced by BGP: add bgp to the protocols of one, or leave this out",
            ),
        ],
        of,
    );
    check(
        &[
            (
                "169.254.1.1",
                "1:18: vips[0].address: 169.254.1.1/32 is not announced: it has loopback, link-local, multicast or reserved addresses: use another address, or protocols: [vrrp]",
            ),
            (
                "'fe80::5'",
                "1:18: vips[0].address: fe80::5/128 is not announced: it has loopback, link-local, multicast or reserved addresses: use another address, or protocols: [vrrp]",
            ),
            (
                "240.0.0.1",
                "1:18: vips[0].address: 240.0.0.1/32 is not announced: it has loopback, link-local, multicast or reserved addresses: use another address, or protocols: [vrrp]",
            ),
        ],
        |address| format!("vips: [{{address: {address}, ports: [1], protocols: [bgp]}}]"),
    );
}

#[test]
fn the_speaker_itself() {
    check(
        &[
            (
                "",
                "2:54: vips[0].protocols: 203.0.113.1 is to be announced by BGP, and there are no BGP peers: add `bgp: {localASN: 64512, peers: [{address: 192.0.2.1, peerASN: 64500}]}`",
            ),
            ("bgp: {peers: []}", "1:6: bgp.localASN: it is missing: write it as 64512"),
            (
                "bgp: {localASN: 64512}",
                "1:6: bgp.peers: there are 0 BGP peers: name 1 to 16, as address: 192.0.2.1 or gateway: IPv4",
            ),
            (
                "bgp: {localASN: 64512, routerID: 224.0.0.1, peers: [{gateway: IPv4, dynamicASN: External}]}",
                "1:34: bgp.routerID: 224.0.0.1 is not a unicast address: use an IPv4 address of the node, or leave it out",
            ),
            (
                "bgp: {localASN: 64512, routerID: n1, peers: [{gateway: IPv4, dynamicASN: External}]}",
                "1:34: bgp.routerID: n1 is not an IPv4 address: use an IPv4 address of the node, or leave it out",
            ),
            (
                "bgp: {localASN: 64512, peers: [{address: 192.0.2.1, peerASN: 1}, {address: 192.0.2.1, peerASN: 2}]}",
                "1:66: bgp.peers[1]: an earlier peer is at the same place: name each peer once",
            ),
            (
                "bgp: {localASN: 64512, bfd: {}}",
                "1:24: unknown field `bfd`, expected one of localASN, routerID, peers in `bgp: {localASN: 64512, bfd: {}}`: correct it; docs/api-vip.md has an example",
            ),
            (
                "bgp: {localASN: 64512, peers: [{gateway: IPv4, dynamicASN: External, bfd: {transmitIntervalMilliseconds: 49}}]}",
                "1:106: bgp.peers[0].bfd.transmitIntervalMilliseconds: 49 is out of range: use 50 to 60000",
            ),
            (
                "bgp: {localASN: 64512, peers: [{gateway: IPv4, dynamicASN: External, bfd: {detectMultiplier: 0}}]}",
                "1:94: bgp.peers[0].bfd.detectMultiplier: 0 is out of range: use 1 to 255",
            ),
            (
                "bgp: {localASN: 64512, peers: [{gateway: IPv4, dynamicASN: External, bfd: {minimumTTL: 255}}]}",
                "1:88: bgp.peers[0].bfd.minimumTTL: 255 is out of range: use 1 to 254",
            ),
        ],
        |bgp| format!("{bgp}\nvips: [{{address: 203.0.113.1, ports: [1], protocols: [bgp]}}]"),
    );
}
