//! Counts and conditions.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use windlass_api::{AddressCounts, NodeNetwork, ServiceRef, VirtualIP, VirtualIPPoolStatus};
use windlass_ipam::{Counts, Family};

use super::*;

fn at(text: &str) -> Timestamp {
    text.parse().expect("a time")
}

fn reviewed(fields: &Value) -> ReviewedPool {
    let pools = [pool_with("a", EARLY, &["192.0.2.0/30", "2001:db8::/32"], fields)];
    review(&pools, &UnusableAddresses::default(), |_| false).remove(0)
}

fn counts(family: Family) -> Counts {
    match family {
        Family::V4 => Counts { total: 4, reserved: 1, assigned: 1, quarantined: 1, withdrawn: 0 },
        Family::V6 => Counts { total: 1 << 96, ..Counts::default() },
    }
}

fn said(status: &VirtualIPPoolStatus) -> Vec<String> {
    let conditions = status.conditions.iter();
    conditions.map(|one| format!("{}={} {}: {}", one.type_, one.status, one.reason, one.message)).collect()
}

#[test]
fn status_counts_what_is_usable_and_keeps_the_time_of_the_last_transition() {
    let one = reviewed(&json!({}));
    let none = PoolFindings::default();
    let first = status(None, Some(3), &one, &Announceability::Unknown, counts, &none, at(EARLY));
    assert_eq!(first.ipv4, Some(AddressCounts { total: 3, assigned: 1, available: 1, quarantined: 1 }));
    assert_eq!(first.ipv6.as_ref().map(|counts| counts.total), Some(i64::MAX), "more than can be shown");
    assert_eq!(said(&first), ["Ready=True Usable: every address can be given"]);
    let again = status(Some(&first), Some(3), &one, &Announceability::Unknown, counts, &none, at(LATE));
    assert_eq!(again, first, "nothing changed, nothing written");

    let problem = |reason, message: &str| Problem { reason, message: message.into() };
    let problems = vec![problem(Reason::Overlap, "x"), problem(Reason::NodeAddress, "y")];
    let bad = ReviewedPool { problems, ..one };
    let second = status(Some(&first), Some(3), &bad, &Announceability::Unknown, counts, &none, at(LATE));
    assert_eq!(said(&second), ["Ready=False Overlap: x; y"]);
    assert_eq!(second.conditions[0].last_transition_time, Time(at(LATE)));
}

#[test]
fn a_pool_that_gives_nothing_has_nothing_available_and_says_why() {
    let one = reviewed(&json!({ "disabled": true }));
    let shown =
        status(None, Some(3), &one, &Announceability::Unknown, counts, &PoolFindings::default(), at(EARLY));
    assert_eq!(shown.ipv4, Some(AddressCounts { total: 3, assigned: 1, available: 0, quarantined: 1 }));
    assert_eq!(
        said(&shown),
        ["Ready=True Disabled: spec.disabled: it gives nothing new, and its Services keep their addresses"]
    );
    // One whose selector means nothing gives nothing either: it is not known whom it is for.
    let unreadable =
        json!({ "serviceSelectors": [{ "matchExpressions": [{ "key": "a", "operator": "Near" }] }] });
    let one = reviewed(&unreadable);
    let shown =
        status(None, Some(3), &one, &Announceability::Unknown, counts, &PoolFindings::default(), at(EARLY));
    assert_eq!(shown.ipv4.as_ref().map(|counts| counts.available), Some(0));
    assert_eq!(
        said(&shown),
        [
            "Ready=False InvalidSelector: spec.serviceSelectors[0]: label \"a\" has the operator \"Near\": write In, NotIn, \
          Exists or DoesNotExist; until then the pool gives nothing"
        ]
    );
}

#[test]
fn a_pool_whose_exclusions_leave_nothing_says_so() {
    let one = reviewed(&json!({ "exclude": ["192.0.2.0/24", "2001:db8::/32"] }));
    let shown =
        status(None, Some(3), &one, &Announceability::Unknown, counts, &PoolFindings::default(), at(EARLY));
    assert_eq!(
        said(&shown),
        [
            "Ready=False NoAddresses: spec.exclude leaves out every address of spec.addresses: add addresses, or exclude fewer"
        ]
    );
}

#[test]
fn of_many_services_that_keep_an_address_some_are_named() {
    let mut kept = Arc::unwrap_or_clone(vip("198.51.100.1", "a", None));
    let owner = kept.spec.owners[0].clone();
    kept.spec.owners = (0..64).map(|n| ServiceRef { name: format!("s{n}"), ..owner.clone() }).collect();
    let findings = PoolFindings::new([&Arc::new(kept)], [], |_| None).remove("a").expect("findings");
    let shown =
        status(None, Some(3), &reviewed(&json!({})), &Announceability::Unknown, counts, &findings, at(EARLY));
    let said = said(&shown).remove(1);
    assert!(said.contains("198.51.100.1 of ns/s0, ns/s1, ns/s2, ns/s3, ns/s4 and 59 more."), "{said}");
}

fn vip(address: &str, pool: &str, quarantine: Option<&str>) -> Arc<VirtualIP> {
    let quarantine = quarantine.map(|reason| json!({ "reason": reason, "until": LATE }));
    Arc::new(object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP", "metadata": { "name": address },
        "spec": {
            "address": address, "pool": pool, "quarantine": quarantine,
            "owners": [{ "namespace": "ns", "name": format!("s-{address}"), "uid": "u" }],
        },
    })))
}

#[test]
fn addresses_that_left_the_pools_and_those_that_others_have_are_named_until_it_is_over() {
    let vips = [
        vip("192.0.2.1", "a", None),
        vip("203.0.113.1", "a", None),
        vip("203.0.113.2", "a", Some("Released")),
        vip("192.0.2.2", "a", Some("Released")),
        vip("192.0.2.3", "a", Some("AddressTaken")),
    ];
    let networks: [Arc<NodeNetwork>; 2] = ["n1", "n2"].map(|name| {
        Arc::new(object(json!({
            "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": name },
            "spec": { "duplicates": [
                { "interface": "eth0", "address": "192.0.2.1", "mac": "02:00:00:00:00:99" },
                { "interface": "eth0", "address": "203.0.113.9", "mac": "02:00:00:00:00:99" },
            ] },
        })))
    });
    let pool_of = |address: IpAddr| address.to_string().starts_with("192.0.2.").then_some("a");
    let findings = PoolFindings::new(&vips, &networks, pool_of);
    assert_eq!(findings.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(findings["a"].conflicts(), 2);
    let one = reviewed(&json!({}));
    let shown = status(None, Some(3), &one, &Announceability::Unknown, counts, &findings["a"], at(EARLY));
    assert_eq!(
        said(&shown)[1..],
        [
            "AddressesKept=True OutsidePools: in no pool any more, and kept by their Services: 203.0.113.1 of \
             ns/s-203.0.113.1. To give them others, set spec.onRemoval: Move here, or annotate their VirtualIPs with \
             windlass.dev/allow-move=true",
            "AddressConflict=True AddressTaken: another host of the LAN has 192.0.2.1 (on 02:00:00:00:00:99), 192.0.2.3: \
             take it off the address, or exclude the address from the pool",
        ]
    );
    assert!(shown.cidrs.contains(&"203.0.113.1/32".to_owned()), "nobody else may list it: {:?}", shown.cidrs);
    assert!(!shown.cidrs.contains(&"203.0.113.2/32".to_owned()), "nobody has it: {:?}", shown.cidrs);
    let over = status(
        Some(&shown),
        Some(3),
        &one,
        &Announceability::Unknown,
        counts,
        &PoolFindings::default(),
        at(LATE),
    );
    assert_eq!(said(&over), ["Ready=True Usable: every address can be given"]);
}

#[test]
fn whether_all_of_it_can_be_announced_is_a_condition_of_its_own_until_it_is_not_known() {
    let one = reviewed(&json!({}));
    let none = PoolFindings::default();
    let announceability =
        Announceability::Known { holds: false, reason: "NoSegment", message: "x".to_owned() };
    let shown = status(None, Some(3), &one, &announceability, counts, &none, at(EARLY));
    let usable = "Ready=True Usable: every address can be given";
    assert_eq!(said(&shown), [usable, "Announceable=False NoSegment: x"]);
    assert_eq!(
        status(Some(&shown), Some(3), &one, &announceability, counts, &none, at(LATE)),
        shown,
        "nothing is written"
    );
    let unknown = status(Some(&shown), Some(3), &one, &Announceability::Unknown, counts, &none, at(LATE));
    assert_eq!(said(&unknown), [usable]);
}

#[test]
fn conditions_of_others_stay() {
    let mut theirs = status(
        None,
        Some(3),
        &reviewed(&json!({})),
        &Announceability::Unknown,
        counts,
        &PoolFindings::default(),
        at(EARLY),
    );
    theirs.conditions[0].type_ = "Theirs".into();
    let shown = status(
        Some(&theirs),
        Some(3),
        &reviewed(&json!({})),
        &Announceability::Unknown,
        counts,
        &PoolFindings::default(),
        at(LATE),
    );
    let types: Vec<_> = shown.conditions.iter().map(|one| one.type_.as_str()).collect();
    assert_eq!(types, ["Theirs", "Ready"]);
}

#[test]
fn addresses_are_shown_as_cidrs_whoever_has_them() {
    let shown = |pools: &[Arc<VirtualIPPool>], unusable: &UnusableAddresses| -> Vec<Vec<String>> {
        let reviewed = review(pools, unusable, |_| false);
        let none = PoolFindings::default();
        let status_of = |one: &ReviewedPool| {
            status(None, Some(3), one, &Announceability::Unknown, counts, &none, at(EARLY))
        };
        reviewed.iter().map(|one| status_of(one).cidrs).collect()
    };
    let fields = json!({ "exclude": ["192.0.2.8"] });
    let older = pool_with("a", EARLY, &["192.0.2.5-192.0.2.11", "2001:db8::2-2001:db8::3"], &fields);
    let younger = pool("b", LATE, &["192.0.2.0/28"]);
    let mut unusable = UnusableAddresses::default();
    unusable.nodes.insert("192.0.2.6".parse().expect("an address"), "n1".to_owned());
    // A node's address is inside all the same; what an older pool has is not.
    assert_eq!(
        shown(&[older, younger], &unusable),
        [
            vec!["192.0.2.5/32", "192.0.2.6/31", "192.0.2.9/32", "192.0.2.10/31", "2001:db8::2/127"],
            vec!["192.0.2.0/30", "192.0.2.4/32", "192.0.2.8/32", "192.0.2.12/30"],
        ]
    );
    // The largest of too many.
    let odd: Vec<String> = (0..64).map(|n| format!("10.{n}.0.1-10.{n}.255.254")).collect();
    let odd: Vec<&str> = odd.iter().map(String::as_str).collect();
    let shown = shown(&[pool("a", EARLY, &odd)], &UnusableAddresses::default()).remove(0);
    assert_eq!(shown.len(), 1024, "of {}", 64 * 30);
    assert!(shown.contains(&"10.63.64.0/18".to_owned()) && !shown.contains(&"10.0.0.1/32".to_owned()));
    assert!(shown.is_sorted_by_key(|cidr| cidr.parse::<ipnet::IpNet>().expect("a CIDR")));
}
