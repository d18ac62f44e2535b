use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::units::Vrid;

mod keys;
mod replay;
mod wire;

/// Wire images of the draft's appendix: key 00…1f with id 1, VRID 51, priority 200, sequence 0x6800000080000000.
const IPV4: (&str, &str, &str) =
    ("198.51.100.10", "3133c80100644402c0000264", "0101000068000000800000001b84bc4e8e43892dc6d98448f8ee2265");
const IPV6: (&str, &str, &str) = (
    "fe80::10",
    "3133c8010064a2e9fe800000000000000000000000000100",
    "010100006800000080000000c8c56146ebfd66ee10ec4d8186461b78",
);
/// The vectors' time.
const THEN: u64 = 0x6800_0000;

fn unhex(digits: &str) -> Vec<u8> {
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn key(first: u8) -> Key {
    Key::new(&std::array::from_fn::<u8, 32, _>(|at| first.wrapping_add(u8::try_from(at).unwrap()))).unwrap()
}

fn id(number: u8) -> KeyId {
    KeyId::new(number).unwrap()
}

fn ring() -> Keyring {
    Keyring::new(id(1), key(0))
}

fn at_millis(millis: u64) -> WallTime {
    WallTime::since_epoch(Duration::from_millis(millis))
}

fn at(seconds: u64) -> WallTime {
    at_millis(seconds * 1000)
}

fn window(seconds: u64) -> AntiReplay {
    AntiReplay::Window(Window::from_seconds(seconds).unwrap())
}

/// One signed advert, as a receiver has it.
#[derive(Clone)]
struct Image {
    source: IpAddr,
    vrid: u8,
    message: Vec<u8>,
    trailer: Trailer,
}

impl Image {
    fn of((source, message, trailer): (&str, &str, &str)) -> Self {
        let trailer = unhex(trailer).try_into().unwrap();
        Self { source: source.parse().unwrap(), vrid: 51, message: unhex(message), trailer }
    }

    /// Message and trailer as one, to alter a byte of it.
    fn flip(mut self, byte: usize, mask: u8) -> Self {
        let message = self.message.len();
        if byte < message {
            self.message[byte] ^= mask;
        } else {
            self.trailer[byte - message] ^= mask;
        }
        self
    }

    fn subject(&self) -> SignedData<'_> {
        SignedData { source: self.source, vrid: Vrid::new(self.vrid).unwrap(), message: &self.message }
    }

    fn signed(mut self, signer: &mut Signer, anti_replay: AntiReplay, now: WallTime) -> Self {
        self.trailer = signer.sign(&ring(), anti_replay, self.subject(), now);
        self
    }

    fn verify(
        &self,
        verifier: &mut Verifier,
        anti_replay: AntiReplay,
        now: WallTime,
    ) -> Result<(), AuthError> {
        verifier.verify(&ring(), anti_replay, self.subject(), &self.trailer, now).map(|_| ())
    }

    fn verify_alone(&self) -> Result<(), AuthError> {
        self.verify(&mut Verifier::default(), AntiReplay::Monotonic, at(THEN))
    }
}

/// Scenarios 46 and 47.
#[test]
fn the_images_of_the_draft_are_accepted_and_made() {
    for vector in [IPV4, IPV6] {
        let image = Image::of(vector);
        assert_eq!(image.verify_alone(), Ok(()), "{vector:?}");
        assert_eq!(image.verify(&mut Verifier::default(), window(5), at(THEN)), Ok(()), "{vector:?}");
        // 0x8000 of 65536 is half a second.
        let made = Image { trailer: [0; TRAILER_LENGTH], ..image.clone() };
        let made = made.signed(&mut Signer::default(), window(5), at_millis(THEN * 1000 + 500));
        assert_eq!(made.trailer, image.trailer, "{vector:?}");
    }
}

/// Scenarios 48 and 49, each byte of the table in keepalived's own test.
#[test]
fn what_was_altered_is_refused_but_for_the_checksum() {
    let wrong = Err(AuthError::InvalidHmac(id(1)));
    for (what, byte, expected) in [
        ("version", 0, wrong),
        ("priority", 2, wrong),
        ("interval", 5, wrong),
        ("checksum", 6, Ok(())),
        ("checksum", 7, Ok(())),
        ("address", 23, wrong),
        ("type", 24, Err(AuthError::Malformed { kind: 0, reserved: 0 })),
        ("key id", 25, Err(AuthError::UnknownKey(0))),
        ("reserved", 26, Err(AuthError::Malformed { kind: 1, reserved: 0x0100 })),
        ("seconds", 28, wrong),
        ("fraction", 32, wrong),
        ("counter", 34, wrong),
        ("HMAC", 36, wrong),
    ] {
        assert_eq!(Image::of(IPV6).flip(byte, 1).verify_alone(), expected, "{what}");
    }
}

/// Scenario 50.
#[test]
fn another_source_or_virtual_router_cannot_use_the_trailer() {
    let wrong = Err(AuthError::InvalidHmac(id(1)));
    for vector in [IPV4, IPV6] {
        let image = Image::of(vector);
        assert_eq!(Image { vrid: 52, ..image.clone() }.verify_alone(), wrong);
        assert_eq!(Image { source: "fe80::20".parse().unwrap(), ..image.clone() }.verify_alone(), wrong);
        assert_eq!(Image { source: "198.51.100.11".parse().unwrap(), ..image }.verify_alone(), wrong);
    }
}

/// The zeros after an IPv4 address do not make it the IPv6 address of the same bytes.
#[test]
fn the_family_is_part_of_what_is_signed() {
    let image = Image { source: "c633:640a::".parse().unwrap(), ..Image::of(IPV4) };
    assert_eq!(image.verify_alone(), Err(AuthError::InvalidHmac(id(1))));
}

fn authenticator(mode: AuthMode) -> Authenticator {
    Authenticator::new(Some(Authentication { keyring: ring(), mode, anti_replay: window(5) }))
}

/// Scenario 54, and the way to authentication without an outage: each mode takes what the one before sends.
#[test]
fn modes_differ_in_what_they_send_and_take() {
    let image = Image::of(IPV4);
    let wrong = image.clone().flip(20, 1);
    for (mode, signs, takes_unsigned) in [
        (AuthMode::Enforce, true, Err(AuthError::Missing)),
        (AuthMode::Permissive, true, Ok(None)),
        (AuthMode::ReceiveOnly, false, Ok(None)),
    ] {
        let mut authenticator = authenticator(mode);
        assert_eq!(authenticator.sign(image.subject(), at(THEN)).is_some(), signs, "{mode:?}");
        assert_eq!(authenticator.admit(image.subject(), None, at(THEN)), takes_unsigned, "{mode:?}");
        let refused = authenticator.admit(wrong.subject(), Some(&wrong.trailer), at(THEN));
        assert_eq!(refused.unwrap_err().label(), "auth_invalid_hmac", "{mode:?}");
        let verified = authenticator.admit(image.subject(), Some(&image.trailer), at(THEN)).unwrap();
        assert_eq!(verified, Some(VerifiedAdvert { key: id(1), skew: 0, drifting: false }), "{mode:?}");
    }
    assert_eq!(AuthMode::default(), AuthMode::Enforce);
}

#[test]
fn a_change_of_configuration_does_not_let_an_old_advert_in() {
    let image = Image::of(IPV4);
    let mut authenticator = authenticator(AuthMode::Permissive);
    authenticator.admit(image.subject(), Some(&image.trailer), at(THEN)).unwrap();
    let config = authenticator.config().cloned().unwrap();
    authenticator.reconfigure(None);
    assert_eq!(authenticator.admit(image.subject(), None, at(THEN)), Ok(None), "off");
    assert_eq!(authenticator.sign(image.subject(), at(THEN)), None, "off");
    authenticator.reconfigure(Some(Authentication { mode: AuthMode::Enforce, ..config }));
    let again = authenticator.admit(image.subject(), Some(&image.trailer), at(THEN));
    assert_eq!(again.unwrap_err().label(), "auth_replay");
}

#[test]
fn a_window_is_1_to_300_s_and_by_default_three_intervals_or_5_s() {
    for seconds in [0, 301, 65_541] {
        assert_eq!(Window::from_seconds(seconds), Err(InvalidWindow(seconds)));
    }
    for (centiseconds, seconds) in [(1, 5), (100, 5), (166, 5), (167, 6), (200, 6), (4095, 123)] {
        let interval = Interval::from_centiseconds(centiseconds).unwrap();
        assert_eq!(Window::for_interval(interval).seconds(), seconds, "{interval}");
    }
    assert_eq!(Window::for_interval(Interval::from_seconds(255).unwrap()).seconds(), 300);
}

#[test]
fn every_reason_has_its_own_label_and_says_what_to_do() {
    let distinct: BTreeSet<_> = AuthError::LABELS.iter().collect();
    assert_eq!(distinct.len(), AuthError::LABELS.len());
    for error in [
        AuthError::Missing,
        AuthError::Malformed { kind: 2, reserved: 0 },
        AuthError::UnknownKey(7),
        AuthError::Stale { skew: -60, window: 5 },
        AuthError::InvalidHmac(id(1)),
        AuthError::Replay { sequence: 1, last: 2 },
    ] {
        assert_eq!(error.label(), AuthError::LABELS[error.index()]);
        assert!(!error.to_string().is_empty());
    }
    let stale = AuthError::Stale { skew: -60, window: 5 }.to_string();
    assert_eq!(stale, "stamped -60 s from this clock, 5 s allowed: synchronise the clocks");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))] // 0.13 ms each

    #[test]
    fn any_byte_altered_in_any_way_is_refused_but_for_the_checksum(byte in 0..52_usize, mask in 1..=255_u8) {
        let verdict = Image::of(IPV6).flip(byte, mask).verify_alone();
        prop_assert_eq!(verdict.is_ok(), (6..8).contains(&byte));
    }

    #[test]
    fn what_is_signed_is_accepted_by_who_has_the_key_and_by_no_one_else(
        source in prop_oneof![any::<[u8; 4]>().prop_map(IpAddr::from), any::<[u8; 16]>().prop_map(IpAddr::from)],
        vrid in 1..=255_u8,
        message in proptest::collection::vec(any::<u8>(), 0..200),
        millis in 0..u64::from(u32::MAX) * 1000,
    ) {
        let image = Image { source, vrid, message, trailer: [0; TRAILER_LENGTH] };
        let image = image.signed(&mut Signer::default(), window(1), at_millis(millis));
        prop_assert_eq!(image.verify(&mut Verifier::default(), window(1), at_millis(millis)), Ok(()));
        let other = Keyring::new(id(1), key(1));
        let refused =
            Verifier::default().verify(&other, window(1), image.subject(), &image.trailer, at_millis(millis));
        prop_assert_eq!(refused, Err(AuthError::InvalidHmac(id(1))));
    }

    #[test]
    fn any_bytes_are_verified_or_refused_without_panic(
        message in proptest::collection::vec(any::<u8>(), 0..40),
        trailer in any::<[u8; TRAILER_LENGTH]>(),
        seconds in any::<u64>(),
    ) {
        let image = Image { source: IpAddr::from([0; 4]), vrid: 1, message, trailer };
        prop_assert!(image.verify(&mut Verifier::default(), window(300), at(seconds / 1000)).is_err());
    }
}
