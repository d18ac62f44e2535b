use serde_json::{Value, json};

use windlass_ipam::{Requirement, Selector};

use super::*;

fn read(spec: Value) -> ParsedSpec {
    parse_spec(&serde_json::from_value(spec).expect("a spec"))
}

fn problems(parsed: &ParsedSpec) -> Vec<String> {
    parsed.problems.iter().map(ToString::to_string).collect()
}

#[test]
fn a_spec_that_says_nothing_else_is_the_default_policy() {
    let read = read(json!({ "addresses": ["192.0.2.10", "2001:db8::/127"] }));
    assert_eq!(read.addresses.to_string(), "192.0.2.10, 2001:db8::-2001:db8::1");
    assert!(read.reserved.is_empty() && read.problems.is_empty(), "{read:?}");
    assert_eq!(read.policy, Policy::default());
}

#[test]
fn every_field_of_the_policy_is_taken_over() {
    let selector = json!({
        "matchLabels": { "app": "web" },
        "matchExpressions": [
            { "key": "a", "operator": "In", "values": ["x", "y"] },
            { "key": "b", "operator": "NotIn", "values": ["z"] },
            { "key": "c", "operator": "Exists" },
            { "key": "d", "operator": "DoesNotExist", "values": [] },
        ],
    });
    let read = read(json!({
        "addresses": ["192.0.2.0/28"], "autoAssign": false, "disabled": true, "avoidReserved": "SubnetAndClassC",
        "priority": 7, "namespaces": ["a"], "namespaceSelectors": [{}], "serviceSelectors": [selector],
        "allocationOrder": "LeastRecentlyUsed", "quarantineSeconds": 0, "namespaceQuarantineSeconds": 3600,
        "maxPerNamespace": 9, "maxPerService": 3, "whenFull": "Wait",
    }));
    let values = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    let expected = Policy {
        auto_assign: false,
        disabled: true,
        priority: 7,
        order: Order::LeastRecentlyUsed,
        avoid_class_c: true,
        quarantine: Duration::ZERO,
        namespace_quarantine: Duration::from_hours(1),
        limits: Limits { per_namespace: Some(9), per_owner: Some(3) },
        when_full: WhenFull::Wait,
        namespaces: values(&["a"]),
        namespace_selectors: vec![Selector::default()],
        service_selectors: vec![Selector {
            labels: [("app".to_owned(), "web".to_owned())].into(),
            requirements: vec![
                Requirement::In("a".into(), values(&["x", "y"])),
                Requirement::NotIn("b".into(), values(&["z"])),
                Requirement::Exists("c".into()),
                Requirement::DoesNotExist("d".into()),
            ],
        }],
    };
    assert_eq!(read.policy, expected);
    assert!(read.problems.is_empty(), "{:?}", read.problems);
}

#[test]
fn reserved_addresses_of_cidrs_are_kept_back_and_those_of_ranges_and_small_cidrs_are_none() {
    let addresses = json!([
        "192.0.2.0/28",
        "192.0.2.16/30",
        "192.0.2.20/31",
        "192.0.2.22/32",
        "198.51.100.0-198.51.100.255",
        "2001:db8::/126",
        "2001:db8:1::/127",
        "2001:db8:2::/112",
        " 2001:db8:3::/64 ",
        "203.0.113.9",
    ]);
    for (avoid, expected) in [
        ("None", ""),
        ("Subnet", "192.0.2.0, 192.0.2.15-192.0.2.16, 192.0.2.19"),
        ("SubnetAndClassC", "192.0.2.0, 192.0.2.15-192.0.2.16, 192.0.2.19"),
    ] {
        let read = read(json!({ "addresses": addresses, "avoidReserved": avoid }));
        let of_v6 = ", 2001:db8::, 2001:db8:2::, 2001:db8:3::, \
                     2001:db8:3:0:fdff:ffff:ffff:ff80-2001:db8:3:0:fdff:ffff:ffff:ffff";
        let expected = if avoid == "None" { String::new() } else { format!("{expected}{of_v6}") };
        assert_eq!(read.reserved.to_string(), expected, "{avoid}");
        assert_eq!(read.policy.avoid_class_c, avoid == "SubnetAndClassC");
    }
}

#[test]
fn what_is_excluded_is_no_part_of_the_pool() {
    let read = read(json!({
        "addresses": ["192.0.2.0/28"], "exclude": ["192.0.2.0", "192.0.2.4-192.0.2.11", "198.51.100.0/24"],
        "avoidReserved": "Subnet",
    }));
    assert_eq!(read.addresses.to_string(), "192.0.2.1-192.0.2.3, 192.0.2.12-192.0.2.15");
    assert_eq!(read.reserved.to_string(), "192.0.2.15");
}

#[test]
fn an_exclusion_or_selector_that_means_nothing_is_named_and_the_pool_gives_nothing_until_then() {
    let expression = |operator: &str, values: &[&str]| json!([{}, { "matchExpressions": [{ "key": "a", "operator": operator, "values": values }] }]);
    let nothing = "; until then the pool gives nothing";
    for (field, value, expected) in [
        ("exclude", json!(["192.0.2.x"]), "InvalidExclusion: spec.exclude: address range \"192.0.2.x\""),
        (
            "serviceSelectors",
            expression("Near", &["x"]),
            "InvalidSelector: spec.serviceSelectors[1]: label \"a\" has the operator \"Near\": write In, NotIn, Exists or \
             DoesNotExist",
        ),
        (
            "namespaceSelectors",
            expression("In", &[]),
            "InvalidSelector: spec.namespaceSelectors[1]: label \"a\" has the operator In and no values: name at least one",
        ),
        (
            "namespaceSelectors",
            expression("Exists", &["x"]),
            "InvalidSelector: spec.namespaceSelectors[1]: label \"a\" has the operator Exists and values: leave the values out",
        ),
    ] {
        let mut spec = json!({ "addresses": ["192.0.2.0/28"] });
        spec[field] = value;
        let read = read(spec);
        let said = problems(&read);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(expected) && said[0].ends_with(nothing), "{said:?}");
        assert!(read.policy.disabled, "{field}");
    }
}

#[test]
fn addresses_written_twice_count_once_and_are_named() {
    let read = read(json!({ "addresses": [
        "2001:db8::1-2001:db8::9", "2001:db8::3-2001:db8::5", "2001:db8::9-2001:db8::a",
    ] }));
    assert_eq!(read.addresses.to_string(), "2001:db8::1-2001:db8::a");
    let expected = "DuplicateAddresses: 2001:db8::3-2001:db8::5, 2001:db8::9 written more than once: write each address once";
    assert_eq!(problems(&read), [expected]);
    assert!(!read.policy.disabled);
}

#[test]
fn what_a_newer_version_wrote_is_read_as_far_as_it_is_known_and_told() {
    let read = read(json!({
        "addresses": ["192.0.2.0/29"], "avoidReserved": "Everything", "allocationOrder": "Random", "onRemoval": "Ask",
        "onAddressInUse": "Ask", "aNewField": { "a": [1] },
    }));
    assert_eq!(read.addresses.to_string(), "192.0.2.0-192.0.2.7");
    assert_eq!((read.policy.disabled, read.policy.order), (true, Order::Lowest));
    let value = "has a value that this version does not know: upgrade the controller; until then";
    let expected = [
        format!("UnknownValue: spec.avoidReserved {value} the pool gives nothing"),
        format!("UnknownValue: spec.allocationOrder {value} it is Lowest"),
        format!("UnknownValue: spec.onRemoval {value} it is Keep"),
        format!("UnknownValue: spec.onAddressInUse {value} it is Refuse"),
    ];
    assert_eq!(problems(&read), expected);
}
