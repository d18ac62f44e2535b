use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ServiceSpec;

use super::*;

fn service(field: &[&str], annotation: Option<&str>) -> Service {
    let mut service = Service::default();
    let field = field.iter().map(ToString::to_string).collect();
    service.spec = Some(ServiceSpec { load_balancer_source_ranges: Some(field), ..ServiceSpec::default() });
    let annotation = annotation.map(|text| (ANNOTATION_SOURCE_RANGES.to_owned(), text.to_owned()));
    service.metadata.annotations = annotation.map(|one| BTreeMap::from([one]));
    service
}

fn texts(ranges: &[IpNet]) -> Vec<String> {
    ranges.iter().map(ToString::to_string).collect()
}

/// What is read of a field and of an annotation with the same entries.
fn read_both(text: &str) -> [Result<Option<SourceRanges>, SourceRangesError>; 2] {
    let entries: Vec<&str> = text.split(',').collect();
    [SourceRanges::of(&service(&entries, None)), SourceRanges::of(&service(&[], Some(text)))]
}

// shows: ccm-contract 141 to 146
#[test]
fn malformed_ranges_are_errors_in_the_field_and_in_the_annotation_141_to_146() {
    let table = [
        ("10.0.0.1/33", "10.0.0.1/33"),
        ("foo.bar", "foo.bar"),
        ("10.0.0.1/32,*", "*"),
        ("10.0.0.1/32,", ""),
        ("10.0.0.1/32, ", ""),
        ("10.0.0.1", "10.0.0.1"),
        ("2001:db8::/129", "2001:db8::/129"),
        ("10.0.0.0/8;192.0.2.0/24", "10.0.0.0/8;192.0.2.0/24"),
        ("10.0.0.0/-1", "10.0.0.0/-1"),
        ("fe80::%eth0/64", "fe80::%eth0/64"),
    ];
    for (text, wrong) in table {
        let places = [RangesPlace::Field, RangesPlace::Annotation];
        for (place, read) in places.into_iter().zip(read_both(text)) {
            let value = wrong.to_owned();
            assert_eq!(read, Err(SourceRangesError::NotARange { place, value }), "{text:?}");
        }
    }
    for mapped in ["::ffff:10.0.0.0/104", "::ffff:0.0.0.0/96"] {
        let mapped = SourceRanges::of(&service(&[], Some(mapped))).unwrap_err();
        assert!(matches!(mapped, SourceRangesError::Mapped { .. }), "{mapped}");
    }
    SourceRanges::of(&service(&[], Some("::ffff:0.0.0.0/95")))
        .expect("a range of more than mapped addresses");
}

#[test]
fn an_error_names_place_value_and_remedy_and_shows_no_more_than_a_line() {
    let endless = "x".repeat(100_000);
    let error = SourceRanges::of(&service(&[], Some(&endless))).unwrap_err().to_string();
    assert!(error.starts_with(ANNOTATION_SOURCE_RANGES) && error.contains("192.0.2.0/24"), "{error}");
    assert!(error.len() < 300, "{error}");
}

// shows: ccm-contract 147 to 150
#[test]
fn ranges_are_read_trimmed_and_each_once_147_to_150() {
    let table = [
        ("192.168.0.1/32", vec!["192.168.0.1/32"]),
        ("192.168.0.1/32,192.168.0.1/32", vec!["192.168.0.1/32"]),
        ("192.168.0.1/32,192.168.0.2/32", vec!["192.168.0.1/32", "192.168.0.2/32"]),
        ("  192.168.0.1/32 , 192.168.0.2/32  ", vec!["192.168.0.1/32", "192.168.0.2/32"]),
        ("192.0.2.0/24,10.0.0.0/8,192.0.2.0/24", vec!["10.0.0.0/8", "192.0.2.0/24"]),
        // Bits beyond the prefix are none of the range.
        ("192.168.0.77/24,192.168.0.0/24", vec!["192.168.0.0/24"]),
        ("2001:DB8::1/32", vec!["2001:db8::/32"]),
        // As the API server and kube-proxy read what was stored before leading zeros were refused.
        ("010.0.0.0/8", vec!["10.0.0.0/8"]),
    ];
    for (text, expected) in table {
        for read in read_both(text) {
            assert_eq!(texts(read.unwrap().unwrap().ranges()), expected, "{text:?}");
        }
    }
}

// shows: ccm-contract 151, 152
#[test]
fn without_ranges_everybody_is_let_in_151_152() {
    let nothing = Service::default();
    for service in [&nothing, &service(&[], None), &service(&[], Some("")), &service(&[], Some("  "))] {
        assert_eq!(SourceRanges::of(service), Ok(None));
    }
}

// shows: ccm-contract 153
#[test]
fn a_range_of_all_ipv4_addresses_allows_all_153() {
    let table = [
        ("0.0.0.0/0", true),
        ("192.168.0.0/0", true),
        ("192.168.0.1/32,0.0.0.0/0", true),
        ("192.168.0.1/32", false),
        ("192.168.0.1/32,192.168.0.2/32", false),
        ("::/0", false),
    ];
    for (text, expected) in table {
        for read in read_both(text) {
            assert_eq!(read.unwrap().unwrap().is_allow_all(), expected, "{text:?}");
        }
    }
}

// shows: ccm-contract S-37
#[test]
fn the_annotation_counts_only_where_the_field_is_empty() {
    let both = SourceRanges::of(&service(&["10.0.0.0/8"], Some("192.0.2.0/24"))).unwrap().unwrap();
    assert_eq!((both.place(), texts(both.ranges())), (RangesPlace::Field, vec!["10.0.0.0/8".to_owned()]));
    // Not even its mistakes count.
    assert!(SourceRanges::of(&service(&["10.0.0.0/8"], Some("nonsense"))).is_ok());
    let annotation = SourceRanges::of(&service(&[], Some("192.0.2.0/24"))).unwrap().unwrap();
    assert_eq!(annotation.place(), RangesPlace::Annotation);
}

// shows: ccm-contract S-37
#[test]
fn each_family_is_judged_by_itself() {
    type Allowed = Option<Vec<&'static str>>;
    let table: [(&str, Allowed, Allowed); 6] = [
        ("10.0.0.0/8", Some(vec!["10.0.0.0/8"]), Some(vec![])),
        ("2001:db8::/32", Some(vec![]), Some(vec!["2001:db8::/32"])),
        ("10.0.0.0/8,2001:db8::/32", Some(vec!["10.0.0.0/8"]), Some(vec!["2001:db8::/32"])),
        ("0.0.0.0/0", None, Some(vec![])),
        ("0.0.0.0/0,::/0", None, None),
        // In as few as say the same.
        ("10.0.0.0/9,10.128.0.0/9,10.1.0.0/16", Some(vec!["10.0.0.0/8"]), Some(vec![])),
    ];
    for (text, ipv4, ipv6) in table {
        let read = SourceRanges::of(&service(&[], Some(text))).unwrap().unwrap();
        for (expected, is_ipv4) in [(ipv4, true), (ipv6, false)] {
            let expected = expected.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(read.allowed(is_ipv4).map(|all| texts(&all)), expected, "{text:?} {is_ipv4}");
        }
    }
}

#[test]
fn kube_proxy_enforces_the_field_in_the_families_that_it_names() {
    let table = [
        (service(&["10.0.0.0/8"], None), true, false),
        (service(&["2001:db8::/32"], None), false, true),
        (service(&["10.0.0.0/8", "2001:db8::/32"], None), true, true),
        (service(&[], Some("10.0.0.0/8,2001:db8::/32")), false, false),
    ];
    for (service, ipv4, ipv6) in table {
        let read = SourceRanges::of(&service).unwrap().unwrap();
        let found = (read.are_enforced_by_kube_proxy(true), read.are_enforced_by_kube_proxy(false));
        assert_eq!(found, (ipv4, ipv6), "{read:?}");
    }
}
