use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

use super::*;

/// The certificate of a CA for these years, in PEM, and what it signs with.
fn authority(from: i32, until: i32) -> (String, Issuer<'static, KeyPair>) {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("of {from}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), Issuer::new(params, key))
}

/// A certificate of jane's for the years 2021 to 2039.
fn jane(issuer: &Issuer<'static, KeyPair>) -> CertificateDer<'static> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "jane");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2021, 1, 1), date_time_ymd(2039, 1, 1));
    params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
}

#[test]
fn neither_a_certificate_nor_its_ca_is_accepted_before_or_after_its_time() {
    let [(old, by_old), (new, by_new)] = [authority(2020, 2030), authority(2028, 2050)];
    let [by_old, by_new] = [jane(&by_old), jane(&by_new)];
    let both = format!("{new}{old}");
    let table = [
        (&old, &by_old, 2020, Err("not valid yet")),
        (&old, &by_old, 2025, Ok(())),
        (&old, &by_old, 2031, Err("no CA of client certificates here is valid now")),
        (&new, &by_new, 2025, Err("no CA of client certificates here is valid now")),
        (&new, &by_new, 2031, Ok(())),
        (&new, &by_new, 2040, Err("expired")),
        // While both are valid, whatever one of them signed is good.
        (&both, &by_old, 2029, Ok(())),
        (&both, &by_new, 2029, Ok(())),
        (&both, &by_old, 2031, Err("UnknownIssuer")),
        (&both, &by_new, 2031, Ok(())),
    ];
    for (cas, certificate, year, expected) in table {
        let ca = ClientCa::default();
        ca.set(cas.as_bytes()).unwrap();
        let day = jiff::civil::date(year, 7, 1).to_zoned(jiff::tz::TimeZone::UTC).unwrap().timestamp();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(day.as_second().try_into().unwrap()));
        match (ca.user(certificate, &[], now), expected) {
            (Ok(user), Ok(())) => {
                assert_eq!((&*user.name, user.groups), ("jane", vec![AUTHENTICATED.to_owned()]));
            }
            (Err(error), Err(reason)) => assert!(error.contains(reason), "{year}: {error}"),
            (found, _) => panic!("{year}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn a_text_without_cas_changes_nothing() {
    let ca = ClientCa::default();
    let (pem, issuer) = authority(2020, 2050);
    let now = UnixTime::since_unix_epoch(Duration::from_hours(60 * 365 * 24 - 24));
    ca.set(pem.as_bytes()).unwrap();
    let broken = pem.replace("MII", "MIX");
    for (text, reason) in
        [("", "no certificate"), ("nonsense", "no certificate"), (&broken, "cannot be used")]
    {
        let error = ca.set(text.as_bytes()).unwrap_err();
        assert!(error.contains(reason), "{text:?}: {error}");
        // One that is good does not make up for another that is not.
        assert_eq!(ca.set(format!("{pem}{text}").as_bytes()).is_ok(), !text.contains("BEGIN"), "{text:?}");
        assert!(ca.user(&jane(&issuer), &[], now).is_ok());
    }
    ca.clear();
    assert!(ca.user(&jane(&issuer), &[], now).unwrap_err().contains("is known here"));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changes_is_taken_over_and_a_broken_one_is_not() {
    let path = std::env::temp_dir().join(format!("windlass-followed-ca-{}", std::process::id()));
    let [(old, by_old), (new, by_new)] = [authority(2020, 2050), authority(2020, 2050)];
    let [by_old, by_new] = [jane(&by_old), jane(&by_new)];
    let now = UnixTime::since_unix_epoch(Duration::from_hours(60 * 365 * 24 - 24));
    let ca = ClientCa::default();
    std::fs::write(&path, &old).unwrap();
    let following = tokio::spawn(follow_file(load(&path, &ca).unwrap(), ca.clone()));
    let known = || [&by_old, &by_new].map(|certificate| ca.user(certificate, &[], now).is_ok());
    for (text, expected) in [(&*old, [true, false]), ("nonsense", [true, false]), (&*new, [false, true])] {
        std::fs::write(&path, text).unwrap();
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(known(), expected, "{text}");
    }
    following.abort();
    std::fs::remove_file(path).unwrap();
}
