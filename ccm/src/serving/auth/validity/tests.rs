use std::time::Duration;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};

use super::*;

fn certificate(from: i32, until: i32) -> Vec<u8> {
    let mut params = CertificateParams::default();
    (params.not_before, params.not_after) = (date_time_ymd(from, 3, 1), date_time_ymd(until, 3, 1));
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn at(text: &str) -> UnixTime {
    let seconds = text.parse::<jiff::Timestamp>().unwrap().as_second();
    UnixTime::since_unix_epoch(Duration::from_secs(seconds.try_into().unwrap()))
}

#[test]
fn both_ends_belong_to_it_in_either_form_of_time() {
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
        let validity = Validity::of(&certificate(from, until)).unwrap();
        assert_eq!(validity.covers(at(now)), expected, "{from} to {until} at {now}");
    }
}

#[test]
fn what_is_no_certificate_is_refused() {
    let whole = certificate(2020, 2030);
    for end in 0..whole.len() {
        assert!(Validity::of(&whole[..end]).is_err(), "cut at {end}");
    }
    for (tag, text) in [
        (UTC_TIME, "209913000000Z"),
        (UTC_TIME, "2001010000"),
        (GENERALIZED_TIME, ""),
        (0x0c, "200101000000Z"),
    ] {
        let mut input = [&[tag, u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        assert!(time(&mut &*input).is_err(), "{text}");
        input.truncate(1);
        assert!(time(&mut &*input).is_err());
    }
}
