//! Messages that are wrong, and the NOTIFICATION that answers each.

use super::*;

fn refusal(text: &str) -> String {
    let notification = decoded(&unhex(text)).unwrap_err();
    format!("{}/{} {}", notification.error.0, notification.error.1, hex(&notification.data))
}

// shows: bgp B2, B3, B4, B5
#[test]
fn a_wrong_header_is_answered_with_what_is_wrong() {
    let rows = [
        ("fffffffffffffffffffffffffffffffe 0013 04", "1/1 "),
        ("M 0012 04", "1/2 0012"),
        ("M 1001 02", "1/2 1001"),
        ("M ffff 02", "1/2 ffff"),
        ("M 001c 01", "1/2 001c"),
        ("M 0016 02", "1/2 0016"),
        ("M 0014 03 06", "1/2 0014"),
        ("M 0014 04 00", "1/2 0014"),
        ("M 0018 05 0001000100", "1/2 0018"),
        ("M 0013 00", "1/3 00"),
        ("M 0013 06", "1/3 06"),
    ];
    for (text, expected) in rows {
        assert_eq!(refusal(text), expected, "{text}");
    }
}

// shows: bgp B6
#[test]
fn a_message_is_taken_when_it_is_whole_and_its_header_is_judged_before() {
    let whole = unhex("M 0017 05 00010001");
    for length in 0..whole.len() {
        assert_eq!(decode(&whole[..length]), Ok(None), "{length}");
    }
    let two = [whole.clone(), unhex("M 0013 04")].concat();
    assert_eq!(decode(&two), Ok(Some((Message::RouteRefresh(Some(Family::V4)), whole.len()))));
    assert!(decode(&unhex("M 1001 02")).is_err(), "before the rest of it has arrived");
}

/// An OPEN of version 4, AS 64512, hold time 90 s with these optional parameters behind their length.
fn offer(parameters: &str) -> String {
    let length = 28 + parameters.replace(' ', "").len() / 2;
    format!("M {length:04x} 01 04 fc00 005a c000020b {parameters}")
}

// shows: bgp B30, B32, B33, B34
#[test]
fn a_wrong_offer_is_answered_with_what_is_wrong() {
    let rows = [
        ("M 001d 01 03 fc00 005a c000020b 00", "2/1 0004"),
        ("M 001d 01 04 0000 005a c000020b 00", "2/2 "),
        ("M 001d 01 04 5ba0 005a c000020b 00", "2/2 "),
        ("M 001d 01 04 fc00 0001 c000020b 00", "2/6 "),
        ("M 001d 01 04 fc00 0002 c000020b 00", "2/6 "),
        ("M 001d 01 04 fc00 005a 00000000 00", "2/3 "),
        // The capability has another AS, or 0, or AS_TRANS.
        (&offer("08 0206 41040000fc01"), "2/2 "),
        (&offer("08 0206 410400000000"), "2/2 "),
        ("M 0025 01 04 5ba0 005a c000020b 08 0206 410400005ba0", "2/2 "),
        // Lengths that do not fit.
        (&offer("01"), "2/0 "),
        (&offer("00 00"), "2/0 "),
        (&offer("01 02"), "2/0 "),
        (&offer("03 0202 02"), "2/0 "),
        (&offer("03 0201 02"), "2/0 "),
        (&offer("04 0202 0201"), "2/0 "),
        (&offer("05 0203 010100"), "2/0 "),
        (&offer("05 0203 410100"), "2/0 "),
        (&offer("05 0203 050100"), "2/0 "),
        (&offer("ff ff"), "2/0 "),
        (&offer("ff ff 0001"), "2/0 "),
        // A parameter of another type.
        (&offer("02 0100"), "2/4 "),
    ];
    for (text, expected) in rows {
        assert_eq!(refusal(text), expected, "{text}");
    }
}

// shows: bgp B32
#[test]
fn an_offer_may_have_several_parameters_unknown_capabilities_and_long_lengths() {
    let expected = Ok(Message::Open(open(64512, 90, &[Family::V4, Family::V6])));
    let rows = [
        // One parameter for each capability.
        "1c 0206 010400010001 0206 010400020001 0202 0200 0206 41040000fc00",
        // L2VPN, multicast, roles, a repeated family and an unknown capability.
        "2e 022c 010400010001 010400020001 010400190046 010400010002 090100 010400010001 c801aa 0200 41040000fc00",
        // RFC 9072.
        "ff ff 0017 020014 010400010001 010400020001 0200 41040000fc00",
    ];
    for text in rows {
        assert_eq!(decoded(&unhex(&offer(text))), expected, "{text}");
    }
    let Ok(Message::Open(open)) = decoded(&unhex(&offer("00"))) else { panic!("a good offer") };
    assert_eq!((open.asn, open.capabilities), (asn(64512), Capabilities::none()));
}

// shows: bgp B55
#[test]
fn an_update_is_refused_for_its_lengths_and_counted_otherwise() {
    for text in ["M 0017 02 0001 0000", "M 0017 02 0000 0001", "M 0019 02 0003 ffff 0000"] {
        assert_eq!(refusal(text), "3/1 ", "{text}");
    }
    let rows = [
        // Withdrawn, announced, and in the attributes of another family.
        ("M 0027 02 0005 20cb00710a 0000 20cb00710b 18cb0071 00 ", 3, 1, false),
        ("M 003e 02 0000 0027 800e1e 000201 10 20010db8000000010000000000000011 00 80 20010db8", 0, 0, true),
        ("M 002e 02 0000 0017 800f14 000201 80 20010db8000f00000000000000000010", 0, 1, false),
        ("M 001e 02 0000 0007 900f0003 001946", 0, 0, false),
        // A prefix or an attribute that is too long.
        ("M 001d 02 0000 0000 21cb00710a00", 0, 0, true),
        ("M 001b 02 0000 0000 20cb0071", 0, 0, true),
        ("M 001a 02 0000 0003 400105", 0, 0, true),
    ];
    for (text, announced, withdrawn, malformed) in rows {
        let mut bytes = unhex(text);
        let length = u16::try_from(bytes.len()).unwrap().to_be_bytes();
        bytes[16..18].copy_from_slice(&length);
        if text.contains("0027 800e1e") {
            // The attribute is whole, its prefix is not.
            let attributes = u16::try_from(bytes.len() - 23).unwrap();
            bytes[21..23].copy_from_slice(&attributes.to_be_bytes());
            bytes[25] = u8::try_from(attributes - 3).unwrap();
        }
        let expected = ReceivedUpdate { announced, withdrawn, malformed };
        assert_eq!(decoded(&bytes), Ok(Message::Update(expected)), "{text}");
    }
}

// shows: bgp B7
#[test]
fn a_refresh_of_a_family_that_is_not_ours_is_told_apart() {
    for text in ["M 0017 05 00190046", "M 0017 05 00010002"] {
        assert_eq!(decoded(&unhex(text)), Ok(Message::RouteRefresh(None)), "{text}");
    }
}

// shows: bgp B58
#[test]
fn a_notification_is_printed_with_its_names_and_a_harmless_reason() {
    let of = |error, data: &[u8]| Notification { error, data: data.to_vec() }.to_string();
    let shutdown = "cease: administrative shutdown (6/2)";
    assert_eq!(of(ErrorCode::HOLD_TIMER_EXPIRED, &[]), "hold timer expired (4/0)");
    assert_eq!(of(ErrorCode::SHUTDOWN, &[]), shutdown);
    assert_eq!(of(ErrorCode::SHUTDOWN, &[200, b'a']), shutdown, "its length is wrong");
    assert_eq!(of(ErrorCode::SHUTDOWN, b"\x05a\x1b[1m"), format!("{shutdown}: a\u{fffd}[1m"));
    assert_eq!(of(ErrorCode::SHUTDOWN, b"\x02\xff!"), format!("{shutdown}: \u{fffd}!"));
    assert_eq!(of(ErrorCode::HARD_RESET, b"\x06\x04\x02up"), "cease: administrative reset (6/4): up");
    assert_eq!(of(ErrorCode::HARD_RESET, &[6]), "cease: hard reset (6/9)");
    assert_eq!(of(ErrorCode(6, 0), &[]), "cease: no reason given (6/0)");
    assert_eq!(of(ErrorCode(99, 1), &[]), "unknown error (99/1)");
    assert_eq!(Notification::shutdown("").communication(), None);
    let long = Notification::shutdown(&format!("{}é", "a".repeat(254)));
    assert_eq!(long.communication(), Some("a".repeat(254)), "cut before a character that does not fit");
}
