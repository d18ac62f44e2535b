use super::*;

const OURS: Mac = [2, 0, 0, 0, 0, 1];
const THEIRS: Mac = [2, 0, 0, 0, 0, 2];

fn vip() -> Ipv6Addr {
    "2001:db8::50".parse().unwrap()
}

fn host() -> Ipv6Addr {
    "fe80::2".parse().unwrap()
}

fn claim(address: Ipv6Addr, mac: Mac) -> Claim {
    Claim { address: address.into(), mac }
}

/// A message within IPv6 and Ethernet, from THEIRS, with a right checksum.
fn packet(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> Vec<u8> {
    let mut frame = [&group_mac_v6(destination)[..], &THEIRS, &[0x86, 0xdd, 0x60, 0, 0, 0, 0]].concat();
    frame.extend([u8::try_from(message.len()).unwrap(), 58, 255]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.extend(message);
    let sum = checksum(source, destination, message);
    frame[ICMP + 2..ICMP + 4].copy_from_slice(&sum.to_be_bytes());
    frame
}

fn solicitation(target: Ipv6Addr, options: &[u8]) -> Vec<u8> {
    [&[135, 0, 0, 0, 0, 0, 0, 0][..], &target.octets(), options].concat()
}

fn advertisement_of(target: Ipv6Addr, flags: u8, options: &[u8]) -> Vec<u8> {
    [&[136, 0, 0, 0, flags, 0, 0, 0][..], &target.octets(), options].concat()
}

const SOURCE_OPTION: [u8; 8] = [1, 1, 2, 0, 0, 0, 0, 2];
const OTHER_TARGET: [u8; 8] = [2, 1, 2, 0, 0, 0, 0, 9];

/// By hand after RFC 4861 §4.4 and RFC 8200 §3. Checksum: pseudo header 2001+db8+50+ff02+1+20+3a = 12d66, message
/// 8800+a000+2001+db8+50+201+200+1 = 15a0b, in all 28771, folded 8773, inverted 788c.
#[test]
fn an_unsolicited_advertisement_goes_to_all_nodes_with_router_and_override() {
    assert_eq!(
        format!("{:?}", announce(vip(), OURS)),
        concat!(
            "333300000001",
            "020000000001",
            "86dd",
            "60000000",
            "0020",
            "3aff",
            "20010db8000000000000000000000050",
            "ff020000000000000000000000000001",
            "8800",
            "788c",
            "a0000000",
            "20010db8000000000000000000000050",
            "0201",
            "020000000001",
        )
    );
}

#[test]
fn a_solicited_advertisement_goes_to_who_asked() {
    let query = Query::Ndp { target: vip(), sender: host(), sender_mac: THEIRS };
    let frame = query.answer(OURS);
    let bytes = frame.bytes();
    assert_eq!(bytes[..6], THEIRS);
    assert_eq!(bytes[IP + 24..ICMP], host().octets());
    assert_eq!(bytes[ICMP + 4], ROUTER | SOLICITED | OVERRIDE);
    assert_eq!(parse(bytes), Some(NeighbourPacket { claim: Some(claim(vip(), OURS)), query: None }));
}

/// RFC 4861 §7.2.4: who has no address yet is answered through the group of all nodes, unsolicited.
#[test]
fn duplicate_address_detection_is_answered_to_all_nodes() {
    let asks = packet(Ipv6Addr::UNSPECIFIED, solicited_node(vip()), &solicitation(vip(), &[]));
    let packet = parse(&asks).unwrap();
    assert_eq!(packet.claim, None);
    assert_eq!(packet.query.unwrap().answer(OURS), announce(vip(), OURS));
}

#[test]
fn a_probe_is_duplicate_address_detection() {
    let probe = probe(vip(), OURS);
    let bytes = probe.bytes();
    assert_eq!(bytes.len(), 78);
    assert_eq!(bytes[..6], [0x33, 0x33, 0xff, 0, 0, 0x50]);
    assert_eq!(bytes[IP + 8..IP + 24], [0; 16]);
    let packet = parse(bytes).unwrap();
    assert_eq!((packet.claim, packet.query.map(|q| q.target())), (None, Some(vip().into())));
}

#[test]
fn solicited_node_groups_are_those_of_the_last_24_bits() {
    for (address, group) in
        [("2001:db8::50", "ff02::1:ff00:50"), ("fe80::aabb:ccdd:eeff", "ff02::1:ffdd:eeff")]
    {
        assert_eq!(solicited_node(address.parse().unwrap()), group.parse::<Ipv6Addr>().unwrap());
    }
}

#[test]
fn what_is_said_and_asked() {
    let group = solicited_node(vip());
    let unspecified = Ipv6Addr::UNSPECIFIED;
    let other: Mac = [2, 0, 0, 0, 0, 9];
    let asks = |sender| Some(Query::Ndp { target: vip(), sender, sender_mac: THEIRS });
    for (name, frame, expected_claim, query) in [
        (
            "solicitation",
            packet(host(), group, &solicitation(vip(), &SOURCE_OPTION)),
            Some(claim(host(), THEIRS)),
            asks(host()),
        ),
        (
            "reachability check",
            packet(host(), vip(), &solicitation(vip(), &[])),
            Some(claim(host(), THEIRS)),
            asks(host()),
        ),
        ("DAD", packet(unspecified, group, &solicitation(vip(), &[])), None, asks(unspecified)),
        (
            "DAD with a nonce (RFC 7527)",
            packet(unspecified, group, &solicitation(vip(), &[14, 1, 1, 2, 3, 4, 5, 6])),
            None,
            asks(unspecified),
        ),
        (
            "advertisement",
            packet(vip(), ALL_NODES, &advertisement_of(vip(), 0x20, &OTHER_TARGET)),
            Some(claim(vip(), other)),
            None,
        ),
        (
            "advertisement without option",
            packet(vip(), host(), &advertisement_of(vip(), 0x60, &[])),
            Some(claim(vip(), THEIRS)),
            None,
        ),
    ] {
        assert_eq!(parse(&frame), Some(NeighbourPacket { claim: expected_claim, query }), "{name}");
    }
}

#[test]
fn what_is_not_valid_is_not_heard() {
    let group = solicited_node(vip());
    let good = packet(host(), group, &solicitation(vip(), &SOURCE_OPTION));
    assert!(parse(&good).is_some());
    for length in 0..good.len() {
        assert_eq!(parse(&good[..length]), None, "cut to {length} bytes");
    }
    let hop_limit = IP + 7;
    for at in (12..14).chain([IP, IP + 6, hop_limit]).chain(IP + 8..good.len()) {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        assert_eq!(parse(&bad), None, "byte {at} changed");
    }
    let unspecified = Ipv6Addr::UNSPECIFIED;
    for (name, source, destination, message) in [
        ("multicast target", host(), group, solicitation(ALL_NODES, &[])),
        ("code", host(), group, [&[135, 1], &solicitation(vip(), &[])[2..]].concat()),
        ("DAD with source option", unspecified, group, solicitation(vip(), &SOURCE_OPTION)),
        ("DAD to another group", unspecified, ALL_NODES, solicitation(vip(), &[])),
        ("option of no length", host(), group, solicitation(vip(), &[1, 0, 2, 0, 0, 0, 0, 2])),
        ("option cut off", host(), group, solicitation(vip(), &[1, 2, 2, 0, 0, 0, 0, 2])),
        ("half an option", host(), group, solicitation(vip(), &[1])),
        ("solicited to a group", vip(), ALL_NODES, advertisement_of(vip(), 0x60, &OTHER_TARGET)),
        ("redirect", host(), group, [&[137], &solicitation(vip(), &[])[1..]].concat()),
    ] {
        assert_eq!(parse(&packet(source, destination, &message)), None, "{name}");
    }
}

#[test]
fn padding_of_short_frames_is_ignored() {
    let mut padded = packet(host(), vip(), &solicitation(vip(), &[]));
    padded.resize(padded.len() + 10, 0xff);
    assert!(parse(&padded).is_some());
}
