//! Messages made by a program and decoded by a second one, both apart from this crate.

use super::*;

const V1: &str = "M 0033 01 04 fc00 005a c000020b 16 0214 010400010001 010400020001 0200 41040000fc00";
const V2: &str = "M 0047 01 04 5ba0 0009 c000020b 2a 0228 010400010001 010400020001 0200 0506000100010002 \
                  400ac01e0001018000020180 4104fa56ea01";
/// V2 without graceful restart, which the speaker does not offer.
const V2_SENT: &str = "M 003b 01 04 5ba0 0009 c000020b 1e 021c 010400010001 010400020001 0200 0506000100010002 \
                       4104fa56ea01";

// shows: bgp B1, B31, B32
#[test]
fn golden_offers_are_emitted_and_decoded() {
    let both = [Family::V4, Family::V6];
    let first = open(64512, 90, &both);
    assert_eq!(hex(&encoded(|out| first.encode(out))), hex(&unhex(V1)), "V1");
    assert_eq!(decoded(&unhex(V1)), Ok(Message::Open(first)), "V1");
    let mut second = open(4_200_000_001, 9, &both);
    second.capabilities.extended_next_hop = true;
    assert_eq!(hex(&encoded(|out| second.encode(out))), hex(&unhex(V2_SENT)), "V2");
    for text in [V2, V2_SENT] {
        assert_eq!(decoded(&unhex(text)), Ok(Message::Open(second.clone())), "{text}");
    }
}

// shows: bgp B1, B58
#[test]
fn golden_messages_without_routes_are_emitted_and_decoded() {
    let of = |error: ErrorCode, data: &[u8]| Notification { error, data: data.to_vec() };
    let rows = [
        ("V14", "M 0022 03 0602 0c 6e6f646520647261696e6564", Notification::shutdown("node drained")),
        ("V15", "M 0015 03 0202", ErrorCode::BAD_PEER_AS.into()),
        ("V16", "M 0015 03 0400", ErrorCode::HOLD_TIMER_EXPIRED.into()),
        ("V17", "M 0017 03 0102 1001", of(ErrorCode::BAD_LENGTH, &[0x10, 1])),
        ("V18", "M 0015 03 060a", ErrorCode::BFD_DOWN.into()),
        ("V19", "M 0018 03 0609 0602 00", of(ErrorCode::HARD_RESET, &[6, 2, 0])),
    ];
    for (name, text, notification) in rows {
        assert_eq!(hex(&encoded(|out| notification.encode(out))), hex(&unhex(text)), "{name}");
        assert_eq!(decoded(&unhex(text)), Ok(Message::Notification(notification)), "{name}");
    }
    let v3 = unhex("M 0013 04");
    assert_eq!((encoded(keepalive), decoded(&v3)), (v3, Ok(Message::Keepalive)));
    for (text, family) in [("M 0017 05 00010001", Family::V4), ("M 0017 05 00020001", Family::V6)] {
        assert_eq!(encoded(|out| route_refresh(out, family)), unhex(text));
        assert_eq!(decoded(&unhex(text)), Ok(Message::RouteRefresh(Some(family))));
    }
}

// shows: bgp B43, B44, B45, B46, B52
#[test]
fn golden_routes_are_emitted_and_counted() {
    let plain = Attributes::default();
    let customer = Community::new(64512, 100);
    let marked = Attributes { communities: communities(&[customer]), ..Attributes::default() };
    let degraded = Attributes {
        communities: communities(&[Community::GRACEFUL_SHUTDOWN, customer]),
        large: Communities::new([LargeCommunity([64512, 1, 2])]).unwrap(),
        extended: Communities::new([ExtendedCommunity::link_bandwidth(asn(64512), 2e6)]).unwrap(),
        ..Attributes::default()
    };
    let peering = external(64512);
    let internal = Peering { is_internal: true, ..peering.clone() };
    let two_octet = Peering { four_octet: false, ..external(4_200_000_001) };
    let by_ipv6 = Peering { ipv4: peering.ipv6.map(NextHop::V6), ..peering.clone() };
    let (vip, other, vip_v6) = ("203.0.113.10", "203.0.113.11", "2001:db8:f::10");
    let rows = [
        (
            "V4",
            announcement(&peering, &marked, &[vip]),
            "M 0037 02 0000 001b 40010100 40020602010000fc00 400304c000020b c00804fc000064 20cb00710a",
        ),
        (
            "V5",
            announcement(&internal, &plain, &[vip, other]),
            "M 0036 02 0000 0015 40010100 400200 400304c000020b 40050400000064 20cb00710a20cb00710b",
        ),
        (
            "V6",
            announcement(&two_octet, &plain, &[vip]),
            "M 0037 02 0000 001b 40010100 40020402015ba0 400304c000020b c011060201fa56ea01 20cb00710a",
        ),
        (
            "V7",
            announcement(&peering, &plain, &[vip_v6]),
            "M 004d 02 0000 0036 800e26 000201 10 20010db8000000010000000000000011 00 80 \
          20010db8000f00000000000000000010 40010100 40020602010000fc00",
        ),
        (
            "V8",
            announcement(&by_ipv6, &plain, &[vip]),
            "M 0041 02 0000 002a 800e1a 000101 10 20010db8000000010000000000000011 00 20cb00710a 40010100 \
          40020602010000fc00",
        ),
        (
            "V9",
            announcement(&peering, &degraded, &[vip]),
            "M 0055 02 0000 0039 40010100 40020602010000fc00 400304c000020b c00808fc000064ffff0000 \
          c010080004fc0049f42400 c0200c0000fc000000000100000002 20cb00710a",
        ),
    ];
    for (name, bytes, text) in rows {
        assert_eq!(hex(&bytes), hex(&unhex(text)), "{name}");
        let announced = if name == "V5" { 2 } else { 1 };
        let update = ReceivedUpdate { announced, ..ReceivedUpdate::default() };
        assert_eq!(decoded(&bytes), Ok(Message::Update(update)), "{name}");
    }
}

// shows: bgp B41, B50
#[test]
fn golden_withdrawals_and_ends_of_rib_are_emitted_and_counted() {
    let v4 = [prefix("203.0.113.10"), prefix("203.0.113.0/24")];
    let rows = [
        (
            "V10",
            encoded(|out| assert_eq!(withdraw(out, Family::V4, v4), 2)),
            2,
            "M 0020 02 0009 20cb00710a18cb0071 0000",
        ),
        (
            "V11",
            encoded(|out| assert_eq!(withdraw(out, Family::V6, [prefix("2001:db8:f::10")]), 1)),
            1,
            "M 002e 02 0000 0017 800f14 000201 80 20010db8000f00000000000000000010",
        ),
        ("V12", encoded(|out| end_of_rib(out, Family::V4)), 0, "M 0017 02 0000 0000"),
        ("V13", encoded(|out| end_of_rib(out, Family::V6)), 0, "M 001d 02 0000 0006 800f03 000201"),
    ];
    for (name, bytes, withdrawn, text) in rows {
        assert_eq!(hex(&bytes), hex(&unhex(text)), "{name}");
        let update = ReceivedUpdate { withdrawn, ..ReceivedUpdate::default() };
        assert_eq!(decoded(&bytes), Ok(Message::Update(update)), "{name}");
    }
}
