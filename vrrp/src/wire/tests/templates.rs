//! Adverts that are built once and signed often.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::auth::{AntiReplay, AuthMode, Authentication, Authenticator, Key, KeyId, Keyring, WallTime};

fn authenticator(mode: AuthMode) -> Authenticator {
    let keyring = Keyring::new(KeyId::new(1).unwrap(), Key::new(&[7; 32]).unwrap());
    Authenticator::new(Some(Authentication { keyring, mode, anti_replay: AntiReplay::Monotonic }))
}

fn adverts() -> impl Iterator<Item = (Advert, Version, Checksum)> {
    let kinds = [
        ("192.0.2.1", "192.0.2.50", Version::V2, Checksum::Rfc9568),
        ("192.0.2.1", "192.0.2.50", Version::V3, Checksum::Rfc9568),
        ("192.0.2.1", "192.0.2.50", Version::V3, Checksum::Rfc5798),
        ("fe80::1", "fe80::50", Version::V3, Checksum::Rfc9568),
    ];
    kinds.into_iter().flat_map(|(source, address, version, checksum)| {
        [0, 100].map(|priority| (advert(source, 7, priority, 100, &[address]), version, checksum))
    })
}

#[test]
fn a_template_signed_again_and_again_is_what_is_built_whole() {
    let lead = [0xee; 14];
    for (advert, version, checksum) in adverts() {
        let (mut of_template, mut whole) =
            (authenticator(AuthMode::Enforce), authenticator(AuthMode::Enforce));
        let mut template = AdvertTemplate::new(&advert, version, checksum, &lead);
        let mut seen = BTreeSet::new();
        for seconds in [1000, 1000, 1001] {
            let now = WallTime::since_epoch(Duration::from_secs(seconds));
            let signed = template.sign(|subject| of_template.sign(subject, now)).unwrap();
            let expected = advert.signed_datagram(version, checksum, |subject| whole.sign(subject, now));
            assert_eq!(signed[..14], lead);
            assert_eq!(signed[14..], expected, "{advert:?} {version:?} {checksum:?}");
            assert!(seen.insert(signed.to_vec()), "no two are alike");
        }
    }
}

#[test]
fn a_template_that_is_not_signed_gives_nothing_to_send() {
    let now = WallTime::since_epoch(Duration::from_secs(1));
    for (advert, version, checksum) in adverts() {
        let mut template = AdvertTemplate::new(&advert, version, checksum, &[]);
        let mut silent = authenticator(AuthMode::ReceiveOnly);
        assert_eq!(template.sign(|subject| silent.sign(subject, now)), None);
    }
}
