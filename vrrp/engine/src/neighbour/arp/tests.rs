use super::*;

const OURS: Mac = [2, 0, 0, 0, 0, 1];
const THEIRS: Mac = [2, 0, 0, 0, 0, 2];
const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

fn claim(address: Ipv4Addr, mac: Mac) -> Claim {
    Claim { address: address.into(), mac }
}

/// Checked by hand against RFC 826's figure and RFC 5227 §3.
#[test]
fn gratuitous_arp_is_broadcast_as_request_and_as_reply() {
    assert_eq!(
        format!("{:?}", announce_as_request(VIP, OURS)),
        "ffffffffffff02000000000108060001080006040001020000000001cb007101000000000000cb007101"
    );
    assert_eq!(
        format!("{:?}", announce_as_reply(VIP, OURS)),
        "ffffffffffff02000000000108060001080006040002020000000001cb007101020000000001cb007101"
    );
}

/// RFC 5227 §2.1.1: sender 0.0.0.0, target link-layer address zero.
#[test]
fn a_probe_claims_nothing() {
    let probe = probe(VIP, OURS);
    assert_eq!(
        format!("{probe:?}"),
        "ffffffffffff0200000000010806000108000604000102000000000100000000000000000000cb007101"
    );
    let packet = parse(probe.bytes()).unwrap();
    assert_eq!(packet.claim, None);
    assert_eq!(packet.query.map(|query| query.target()), Some(VIP.into()));
}

#[test]
fn a_reply_goes_to_who_asked_and_names_our_mac() {
    let query = Query::Arp { target: VIP, sender: HOST, sender_mac: THEIRS };
    let answer = query.answer(OURS);
    assert_eq!(
        format!("{answer:?}"),
        "02000000000202000000000108060001080006040002020000000001cb007101020000000002c0000232"
    );
    assert_eq!(parse(answer.bytes()), Some(NeighbourPacket { claim: Some(claim(VIP, OURS)), query: None }));
}

#[test]
fn every_packet_claims_its_sender_and_a_request_asks_for_its_target() {
    let asks = |target, sender| Some(Query::Arp { target, sender, sender_mac: THEIRS });
    let none = Ipv4Addr::UNSPECIFIED;
    for (name, operation, sender, target, expected_claim, query) in [
        ("request", REQUEST, HOST, VIP, Some(claim(HOST, THEIRS)), asks(VIP, HOST)),
        ("probe", REQUEST, none, VIP, None, asks(VIP, none)),
        ("gratuitous request", REQUEST, VIP, VIP, Some(claim(VIP, THEIRS)), None),
        ("gratuitous reply", REPLY, VIP, VIP, Some(claim(VIP, THEIRS)), None),
        ("reply", REPLY, VIP, HOST, Some(claim(VIP, THEIRS)), None),
    ] {
        let frame = frame(BROADCAST, operation, (THEIRS, sender), (NOBODY, target));
        assert_eq!(parse(frame.bytes()), Some(NeighbourPacket { claim: expected_claim, query }), "{name}");
    }
}

// shows: allocation 101
#[test]
fn other_frames_are_not_taken_for_arp() {
    let good = announce_as_request(VIP, OURS);
    assert!(parse(good.bytes()).is_some());
    for length in 0..LENGTH {
        assert_eq!(parse(&good.bytes()[..length]), None, "{length} bytes");
    }
    // Ethertype, hardware, protocol, lengths, operation.
    for at in 12..22 {
        let mut bad = good.bytes().to_vec();
        bad[at] ^= 0x40;
        assert_eq!(parse(&bad), None, "byte {at}");
    }
}

#[test]
fn padding_of_short_frames_is_ignored() {
    let mut padded = announce_as_request(VIP, OURS).bytes().to_vec();
    padded.resize(60, 0xff);
    assert_eq!(parse(&padded), Some(NeighbourPacket { claim: Some(claim(VIP, OURS)), query: None }));
}
