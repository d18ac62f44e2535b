use std::time::Duration;

use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, date_time_ymd};

use super::*;

fn signed(params: &CertificateParams) -> Vec<u8> {
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn valid(from: i32, until: i32) -> Vec<u8> {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (date_time_ymd(from, 3, 1), date_time_ymd(until, 3, 1));
    signed(&params)
}

fn named(names: impl IntoIterator<Item = (DnType, DnValue)>) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for (kind, value) in names {
        params.distinguished_name.push(kind, value);
    }
    signed(&params)
}

fn utf8(text: &str) -> DnValue {
    DnValue::Utf8String(text.to_owned())
}

fn at(text: &str) -> UnixTime {
    let seconds = text.parse::<jiff::Timestamp>().unwrap().as_second();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds.try_into().unwrap()))
}

#[test]
fn both_ends_of_a_validity_belong_to_it_in_either_form_of_time() {
    // Years before 2050 are written with two digits, later ones with four.
    let table = [
        (2020, 2030, "2020-02-29T23:59:59Z", false),
        (2020, 2030, "2020-03-01T00:00:00Z", true),
        (2020, 2030, "2030-03-01T00:00:00Z", true),
        (2020, 2030, "2030-03-01T00:00:01Z", false),
        (1960, 2049, "2049-03-01T00:00:00Z", true),
        (1960, 2049, "2049-03-01T00:00:01Z", false),
        (2049, 2050, "2050-03-01T00:00:00Z", true),
        (2060, 9999, "2060-02-28T00:00:00Z", false),
        (2060, 9999, "2061-01-01T00:00:00Z", true),
    ];
    for (from, until, now, expected) in table {
        let validity = validity(&valid(from, until)).unwrap();
        assert_eq!(covers(&validity, at(now)), expected, "{from} to {until} at {now}");
    }
    let forever = validity(&valid(2020, 9999)).unwrap();
    assert!(!covers(&forever, UnixTime::since_unix_epoch(Duration::MAX)), "a time that no calendar has");
}

#[test]
fn the_common_name_is_the_user_and_the_organizations_are_the_groups() {
    let printable = DnValue::PrintableString("ops".try_into().unwrap());
    let whole = named([
        (DnType::CountryName, utf8("CH")),
        (DnType::OrganizationName, printable),
        (DnType::CommonName, utf8("jane")),
    ]);
    let read = user(&whole).unwrap();
    assert_eq!((read.name.as_str(), read.groups), ("jane", vec!["ops".to_owned()]));
    let long = "x".repeat(200);
    assert_eq!(user(&named([(DnType::CommonName, utf8(&long))])).unwrap().name, long);
}

#[test]
fn several_organizations_are_several_groups_and_of_several_common_names_the_last_counts() {
    // rcgen writes each kind once: one certificate is made from another by other object identifiers of the same length.
    let street = [0x55, 0x04, 0x09];
    let unit = [0x55, 0x04, 0x0b];
    let mut whole = named([
        (DnType::OrganizationName, utf8("system:masters")),
        (DnType::OrganizationalUnitName, utf8("ops")),
        (DnType::CommonName, utf8("first")),
        (DnType::CustomDnType(vec![2, 5, 4, 9]), utf8("last")),
    ]);
    for (found, wanted) in [(street, [0x55, 0x04, 0x03]), (unit, [0x55, 0x04, 0x0a])] {
        let mut places = Vec::new();
        for (at, bytes) in whole.windows(3).enumerate() {
            if bytes == found {
                places.push(at);
            }
        }
        assert!(!places.is_empty());
        for at in places {
            whole[at..at + 3].copy_from_slice(&wanted);
        }
    }
    let read = user(&whole).unwrap();
    assert_eq!((read.name.as_str(), read.groups), ("last", vec!["system:masters".into(), "ops".into()]));
}

#[test]
fn a_certificate_that_names_nobody_is_refused() {
    let wide = DnValue::BmpString("jane".try_into().unwrap());
    let table = [
        (named([]), "no common name"),
        (named([(DnType::OrganizationName, utf8("system:masters"))]), "no common name"),
        (named([(DnType::CommonName, utf8(""))]), "no common name"),
        (named([(DnType::CommonName, wide)]), "no text"),
        ([named([(DnType::CommonName, utf8("jane"))]), vec![0]].concat(), "behind it"),
    ];
    for (certificate, reason) in table {
        let error = user(&certificate).unwrap_err();
        assert!(error.contains(reason), "{error}");
    }
}

#[test]
fn what_is_no_certificate_is_refused_and_names_nobody() {
    let whole = named([(DnType::CommonName, utf8("jane"))]);
    for end in 0..whole.len() {
        assert!(user(&whole[..end]).is_err(), "cut at {end}");
        assert!(validity(&whole[..end]).is_err(), "cut at {end}");
    }
}
