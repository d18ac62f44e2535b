use super::*;

const DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

#[test]
fn a_key_is_written_as_in_keepalived() {
    assert_eq!(format!("hex:{DIGITS}").parse(), Ok(key(0)));
    assert_eq!(format!("  hex:{DIGITS}\n").to_uppercase().replace("HEX", "hex").parse(), Ok(key(0)));
    let phrase = "correct horse battery staple, twice";
    assert_eq!(phrase.parse(), Key::new(phrase.as_bytes()));
    assert_eq!(format!("hex:{}", "ff".repeat(64)).parse(), Key::new(&[255; 64]));
}

#[test]
fn a_key_that_is_none_is_refused_without_telling_it() {
    for (text, expected) in [
        (String::new(), InvalidKey::Length(0)),
        ("hunter2".to_owned(), InvalidKey::Length(7)),
        ("x".repeat(65), InvalidKey::Length(65)),
        (format!("hex:{}", "ab".repeat(31)), InvalidKey::Length(31)),
        (format!("hex:{}", "ab".repeat(65)), InvalidKey::Length(65)),
        (format!("hex:{}a", "ab".repeat(32)), InvalidKey::Hex(65)),
        (format!("hex:{}zz", "ab".repeat(32)), InvalidKey::Hex(64)),
        (format!("hex:{}ß", "ab".repeat(32)), InvalidKey::Hex(64)),
    ] {
        assert_eq!(text.parse::<Key>(), Err(expected), "{text}");
    }
    assert!(!InvalidKey::Length(7).to_string().contains("hunter2"));
    assert_eq!(KeyId::new(0), Err(InvalidKey::Id));
}

#[test]
fn a_key_shows_its_fingerprint_and_not_its_secret() {
    let secret = "correct horse battery staple, twice";
    let shown = format!("{:?}", Keyring::new(id(1), secret.parse().unwrap()));
    assert!(!shown.contains("horse") && !shown.contains("99, 111"), "{shown}");
    assert_eq!(key(0).fingerprint(), key(0).fingerprint());
    assert_ne!(key(0).fingerprint(), key(1).fingerprint());
    assert_eq!(key(0).fingerprint().len(), 16);
}

#[test]
fn ids_are_unique_in_a_ring() {
    assert_eq!(ring().with(id(1), key(9)), Err(InvalidKey::Duplicate(id(1))));
    let ring = ring().with(id(2), key(9)).unwrap();
    assert_eq!(ring.get(2), Some((id(2), &key(9))));
    assert_eq!(ring.get(3), None);
    assert_eq!(ring.get(0), None);
}

/// Old key everywhere, then both, then the new one signs, then the old one goes: in each step all nodes hear each other.
#[test]
fn a_secret_is_changed_one_node_at_a_time() {
    let old = Keyring::new(id(1), key(1));
    let prepared = Keyring::new(id(1), key(1)).with(id(2), key(2)).unwrap();
    let switched = Keyring::new(id(2), key(2)).with(id(1), key(1)).unwrap();
    let new = Keyring::new(id(2), key(2));
    let image = Image::of(IPV4);
    let hears = |receiver: &Keyring, sender: &Keyring| {
        let trailer = Signer::default().sign(sender, window(5), image.subject(), at(THEN));
        Verifier::default().verify(receiver, window(5), image.subject(), &trailer, at(THEN)).map(|v| v.key)
    };
    for pair in [&old, &prepared, &switched, &new].windows(2) {
        assert!(hears(pair[0], pair[1]).is_ok() && hears(pair[1], pair[0]).is_ok());
    }
    assert_eq!(hears(&prepared, &switched), Ok(id(2)));
    // Skipping the preparation is what fails.
    assert_eq!(hears(&old, &switched), Err(AuthError::UnknownKey(2)));
}
