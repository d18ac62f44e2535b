use super::*;

const OURS: Mac = [2, 0, 0, 0, 0, 1];
const THEIRS: Mac = [2, 0, 0, 0, 0, 2];
const VIP: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 1);
const HOST: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 50);

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Checked by hand against RFC 826's figure and RFC 5227 §3.
#[test]
fn gratuitous_arp_is_broadcast_as_request_and_as_reply() {
    let [request, reply] = gratuitous(VIP, OURS).map(|frame| hex(&frame));
    assert_eq!(
        request,
        "ffffffffffff02000000000108060001080006040001020000000001cb007101000000000000cb007101"
    );
    assert_eq!(reply, "ffffffffffff02000000000108060001080006040002020000000001cb007101020000000001cb007101");
}

#[test]
fn a_reply_goes_to_who_asked_and_names_our_mac() {
    let request = Arp { request: true, sender_mac: THEIRS, sender: HOST, target: VIP };
    assert_eq!(
        hex(&request.reply(OURS)),
        "02000000000202000000000108060001080006040002020000000001cb007101020000000002c0000232"
    );
    let reply = Arp::parse(&request.reply(OURS)).unwrap();
    assert_eq!(reply, Arp { request: false, sender_mac: OURS, sender: VIP, target: HOST });
}

#[test]
fn what_to_do_depends_on_who_claims_and_who_asks() {
    let none = Ipv4Addr::UNSPECIFIED;
    let other = Ipv4Addr::new(192, 0, 2, 51);
    for (name, request, sender_mac, sender, target, expected) in [
        ("who has VIP", true, THEIRS, HOST, VIP, Response::Reply),
        ("probe for VIP", true, THEIRS, none, VIP, Response::Reply),
        ("who has another", true, THEIRS, HOST, other, Response::Nothing),
        ("reply about another", false, THEIRS, other, HOST, Response::Nothing),
        ("reply that targets VIP", false, THEIRS, other, VIP, Response::Nothing),
        ("gratuitous request for VIP", true, THEIRS, VIP, VIP, Response::Conflict(VIP)),
        ("gratuitous reply for VIP", false, THEIRS, VIP, VIP, Response::Conflict(VIP)),
        ("VIP asks for another", true, THEIRS, VIP, HOST, Response::Conflict(VIP)),
        ("gratuitous for another", true, THEIRS, other, other, Response::Nothing),
        ("our own", true, OURS, VIP, VIP, Response::Nothing),
    ] {
        let arp = Arp { request, sender_mac, sender, target };
        assert_eq!(arp.judge(OURS, |address| address == VIP), expected, "{name}");
    }
}

#[test]
fn a_backup_has_no_answer() {
    let arp = Arp { request: true, sender_mac: THEIRS, sender: HOST, target: VIP };
    assert_eq!(arp.judge(OURS, |_| false), Response::Nothing);
}

#[test]
fn other_frames_are_not_taken_for_arp() {
    let [good, _] = gratuitous(VIP, OURS);
    assert!(Arp::parse(&good).is_some());
    for length in 0..FRAME {
        assert_eq!(Arp::parse(&good[..length]), None, "{length} bytes");
    }
    // Ethertype, hardware, protocol, lengths, operation.
    for at in 12..22 {
        let mut bad = good;
        bad[at] ^= 0x40;
        assert_eq!(Arp::parse(&bad), None, "byte {at}");
    }
}
