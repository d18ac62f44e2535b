use super::*;
use crate::auth::{AuthError, SEAL_LENGTH};

fn way() -> Way {
    Way { from: "192.0.2.1".parse().unwrap(), to: "192.0.2.2".parse().unwrap() }
}

fn message() -> Message {
    let body = Body::Resync { ticket: 1, reason: Reason::Start };
    Message { epoch: Epoch { start: 1, random: 2 }, challenge: 3, body }
}

fn envelopes(secret: u8, mode: AuthMode) -> Envelopes {
    Envelopes::new(Some((keyring(secret), mode)))
}

#[test]
fn each_mode_takes_what_the_one_before_it_sends() {
    let bytes = message().encode().unwrap();
    let signed = envelopes(7, AuthMode::Enforce).close(bytes.clone(), way());
    assert_eq!(signed.len(), bytes.len() + SEAL_LENGTH);
    let mut altered = signed.clone();
    altered[20] ^= 1;
    let wrong = Err(AuthError::InvalidHmac(KeyId::new(1).unwrap()).into());
    for (mode, signs, unsigned) in [
        (AuthMode::Enforce, true, Err(AuthError::Missing.into())),
        (AuthMode::Permissive, true, Ok(message())),
        (AuthMode::ReceiveOnly, false, Ok(message())),
    ] {
        let envelopes = envelopes(7, mode);
        let closed = envelopes.close(bytes.clone(), way());
        assert_eq!(closed, if signs { signed.clone() } else { bytes.clone() });
        assert_eq!(envelopes.open(&bytes, way()), unsigned, "{mode:?}");
        assert_eq!(envelopes.open(&signed, way()), Ok(message()), "{mode:?}");
        assert_eq!(envelopes.open(&altered, way()), wrong, "{mode:?}");
    }
    assert_eq!(Envelopes::default().close(bytes.clone(), way()), bytes);
    assert_eq!(Envelopes::default().open(&signed, way()), Ok(message()), "off: not looked at");
}

#[test]
fn any_bit_altered_is_refused() {
    let envelopes = envelopes(7, AuthMode::Enforce);
    let signed = envelopes.close(message().encode().unwrap(), way());
    for bit in 0..signed.len() * 8 {
        let mut altered = signed.clone();
        altered[bit / 8] ^= 1 << (bit % 8);
        assert!(envelopes.open(&altered, way()).is_err(), "bit {bit}");
    }
    for length in 0..signed.len() {
        assert!(envelopes.open(&signed[..length], way()).is_err(), "{length} bytes");
    }
}

#[test]
fn only_the_two_nodes_and_the_key_fit() {
    let envelopes = envelopes(7, AuthMode::Enforce);
    let Way { from, to } = way();
    let signed = envelopes.close(message().encode().unwrap(), way());
    let other = "c000:201::".parse().unwrap();
    for way in
        [Way { from: to, to: from }, Way { from: other, to }, Way { from, to: other }, Way { from, to: from }]
    {
        assert!(envelopes.open(&signed, way).is_err(), "{way:?}");
    }
    let refused = self::envelopes(8, AuthMode::Enforce).open(&signed, way()).unwrap_err();
    assert_eq!(refused.label(), "auth_invalid_hmac");
    assert!(refused.index() < Refusal::REASONS);
}

/// Of the same bytes, by Python's hmac module.
#[test]
fn the_trailer_is_as_documented() {
    let signed = envelopes(7, AuthMode::Enforce).close(message().encode().unwrap(), way());
    let expected = 0x3293_334e_2e68_5dc9_b23a_06dc_0570_e80b_u128;
    let (_, seal) = signed.split_last_chunk::<SEAL_LENGTH>().unwrap();
    assert_eq!(seal[..4], [1, 1, 0, 0]);
    assert_eq!(seal[4..], expected.to_be_bytes());
}
