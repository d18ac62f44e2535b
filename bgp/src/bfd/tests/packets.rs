//! Control packets as bytes.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

// shows: bgp B82, B83, B84, B86
/// A whole life, each packet as a program apart from this crate has it.
#[test]
fn golden_packets_are_sent_and_decoded() {
    let q1 = "20400318 11223344 00000000 000f4240 000493e0 00000000";
    let q2 = "20800318 11223344 aabbccdd 000f4240 000493e0 00000000";
    let q3 = "20e00318 11223344 aabbccdd 000493e0 000493e0 00000000";
    let q4 = "20d00318 aabbccdd 11223344 000493e0 000493e0 0000c350";
    let q5 = "21400318 11223344 00000000 000f4240 000493e0 00000000";
    let q6 = "27000318 11223344 aabbccdd 000f4240 000493e0 00000000";
    let mut session = session();
    let expect = |session: &mut Session, text: &str, now| {
        let packets = sent(session, now);
        let texts: Vec<String> = packets.iter().map(|packet| hex(&packet.encode())).collect();
        assert_eq!(texts, [hex(&unhex(text))]);
        assert_eq!(Packet::decode(&unhex(text)), Ok(packets[0]));
    };
    expect(&mut session, q1, START);
    session.handle_packet(&Packet { your_discriminator: None, ..packet(State::Down) }, START).unwrap();
    expect(&mut session, q2, START);
    session.handle_packet(&packet(State::Up), START).unwrap();
    expect(&mut session, q3, START);
    let answer = Packet::decode(&unhex(q4)).unwrap();
    assert_eq!(answer, Packet { is_final: true, ..packet(State::Up) });
    session.handle_packet(&answer, START).unwrap();
    assert!(sent(&mut session, START).is_empty());
    let late = START + millis(900);
    let mut silent = session.clone();
    silent.handle_timeout(late);
    expect(&mut silent, q5, late);
    session.take_down(START);
    expect(&mut session, q6, START);
}

// shows: bgp B80
#[test]
fn a_wrong_packet_is_dropped_for_the_first_reason() {
    let rows = [
        ("20400318", Rejection::Truncated(4)),
        ("40400018 00000000 00000000 000f4240 000493e0 00000000", Rejection::Version(2)),
        ("20400017 00000000 00000000 000f4240 000493e0 00000000", Rejection::Length(0x17)),
        ("20440019 00000000 00000000 000f4240 000493e0 00000000", Rejection::Length(0x19)),
        ("20400019 00000000 00000000 000f4240 000493e0 00000000", Rejection::Truncated(24)),
        ("20410018 00000000 00000000 000f4240 000493e0 00000000", Rejection::ZeroMultiplier),
        ("20410318 00000000 00000000 000f4240 000493e0 00000000", Rejection::Multipoint),
        ("20800318 00000000 00000000 000f4240 000493e0 00000000", Rejection::ZeroDiscriminator),
        ("20800318 aabbccdd 00000000 000f4240 000493e0 00000000", Rejection::NoSession),
        ("20c00318 aabbccdd 00000000 000f4240 000493e0 00000000", Rejection::NoSession),
        ("2044031a aabbccdd 00000000 000f4240 000493e0 00000000 0103", Rejection::Authenticated),
    ];
    for (text, reason) in rows {
        assert_eq!(Packet::decode(&unhex(text)), Err(reason), "{text}");
    }
    // AdminDown and Down need not name a session, and bytes behind the packet are no part of it.
    for text in ["2000", "2040"] {
        let packet = format!("{text}0318 aabbccdd 00000000 000f4240 000493e0 00000000 ffff");
        assert!(Packet::decode(&unhex(&packet)).is_ok(), "{text}");
    }
}

// shows: bgp B81
#[test]
fn a_packet_of_another_session_changes_nothing() {
    let mut session = session_in(State::Up);
    let before = session.poll_timeout();
    let foreign = Packet { your_discriminator: Some(PEER), ..packet(State::Down) };
    assert_eq!(session.handle_packet(&foreign, START + millis(1)), Err(Rejection::UnknownSession));
    assert_eq!((session.state(), session.poll_timeout()), (State::Up, before));
}

proptest! {
    // shows: bgp B80
    #[test]
    fn any_bytes_are_decoded_or_dropped_without_panic(
        bytes in vec(any::<u8>(), 0..80),
        small in vec(prop_oneof![0..2_u8, 20..30_u8, any::<u8>()], 0..40),
    ) {
        let _ = Packet::decode(&bytes);
        let _ = Packet::decode(&[&[0x20], &small[..]].concat());
    }

    // shows: bgp B80
    /// The first byte has the version, so that most are decoded.
    #[test]
    fn a_decoded_packet_is_encoded_to_what_was_read(bytes in vec(any::<u8>(), 24), diagnostic in 0_u8..32) {
        let mut bytes = bytes;
        (bytes[0], bytes[3]) = (0x20 | diagnostic, 24);
        if let Ok(packet) = Packet::decode(&bytes) {
            // Bits C, A, D and M and echo are neither kept nor sent.
            bytes[1] &= 0xf0;
            bytes[20..].fill(0);
            prop_assert_eq!(hex(&packet.encode()), hex(&bytes));
            prop_assert_eq!(Packet::decode(&packet.encode()), Ok(packet));
        }
    }
}
