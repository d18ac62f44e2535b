use std::net::IpAddr;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use windlass_api::AnnouncementStatus;

use super::*;

fn announcement(name: &str, created: &str, spec: &Value) -> Arc<Announcement> {
    let object = json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "Announcement", "spec": spec,
        "metadata": { "name": name, "creationTimestamp": created },
    });
    Arc::new(serde_json::from_value(object).expect("an Announcement"))
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-02-01T00:00:00Z";

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A Service of the namespace `ns`, which has the label `team=a`.
fn service(own: &[(&str, &str)]) -> Requester {
    Requester { namespace: "ns".into(), namespace_labels: labels(&[("team", "a")]), labels: labels(own) }
}

fn applied(announcements: &Announcements, pool: &str, service: &Requester) -> Option<String> {
    announcements.select(pool, Some(service), None).applied
}

#[test]
fn what_is_left_out_selects_all_and_what_is_given_must_all_match() {
    let rows = [
        (json!({}), true),
        (json!({ "pools": ["p"] }), true),
        (json!({ "pools": ["q"] }), false),
        (json!({ "namespaces": ["ns"] }), true),
        (json!({ "namespaces": ["other"] }), false),
        (
            json!({ "namespaces": ["other"], "namespaceSelectors": [{ "matchLabels": { "team": "a" } }] }),
            true,
        ),
        (json!({ "serviceSelectors": [{ "matchLabels": { "app": "db" } }] }), false),
        (
            json!({ "serviceSelectors": [{ "matchLabels": { "app": "db" } }, { "matchLabels": { "app": "web" } }] }),
            true,
        ),
        (json!({ "pools": ["p"], "serviceSelectors": [{ "matchLabels": { "app": "db" } }] }), false),
    ];
    for (spec, selects) in rows {
        let announcements = Announcements::new([announcement("a", EARLY, &spec)].iter());
        let applied = applied(&announcements, "p", &service(&[("app", "web")]));
        assert_eq!(applied.is_some(), selects, "{spec}");
    }
}

#[test]
fn the_lowest_priority_applies_then_the_oldest_then_the_first_name_and_the_others_are_overruled() {
    let objects = [
        announcement("young", LATE, &json!({})),
        announcement("old", EARLY, &json!({})),
        announcement("b-old", EARLY, &json!({})),
        announcement("low", LATE, &json!({ "priority": 1 })),
        announcement("other", EARLY, &json!({ "priority": 0, "pools": ["q"] })),
    ];
    let selected = Announcements::new(objects.iter()).select("p", Some(&service(&[])), None);
    assert_eq!(selected.applied.as_deref(), Some("low"));
    assert_eq!(selected.overruled, ["b-old", "old", "young"]);
}

#[test]
fn one_that_is_being_deleted_applies_no_more() {
    let mut going = announcement("a", EARLY, &json!({}));
    Arc::make_mut(&mut going).metadata.deletion_timestamp =
        serde_json::from_value(json!(LATE)).expect("a time");
    assert!(Announcements::new([going].iter()).is_empty());
}

#[test]
fn what_nobody_can_tell_stays_as_it_is() {
    let unreadable =
        json!({ "serviceSelectors": [{ "matchExpressions": [{ "key": "a", "operator": "Near" }] }] });
    let objects = [announcement("a", EARLY, &unreadable), announcement("b", LATE, &json!({}))];
    let announcements = Announcements::new(objects.iter());
    let of = |service: Option<&Requester>, shown| announcements.select("p", service, shown).applied;
    let service = service(&[]);
    assert_eq!(of(Some(&service), Some("a")).as_deref(), Some("a"), "its selector cannot be read");
    assert_eq!(of(Some(&service), None).as_deref(), Some("b"), "and takes nothing new");
    assert_eq!(of(None, Some("a")).as_deref(), Some("a"), "the Service is not known");
    assert_eq!(of(None, Some("gone")), None);
    assert_eq!(of(None, None), None);
}

#[test]
fn interfaces_are_those_that_are_named_but_for_those_that_are_excluded() {
    let rows = [
        (json!({}), "eth0", true),
        (json!({}), "docker0", false),
        (json!({}), "virbr1", false),
        (json!({ "excludeInterfaces": [] }), "docker0", true),
        (json!({ "interfaces": ["eth*"] }), "eth1", true),
        (json!({ "interfaces": ["eth*"] }), "bond0", false),
        (json!({ "interfaces": ["eth*"], "excludeInterfaces": ["eth1"] }), "eth1", false),
        (json!({ "interfaces": ["docker0"] }), "docker0", true),
        (json!({ "interfaces": ["docker*"] }), "docker0", false),
    ];
    for (spec, name, allowed) in rows {
        let announcements = Announcements::new([announcement("a", EARLY, &spec)].iter());
        let parsed = announcements.get(Some("a")).expect("it");
        let mut interface: InterfaceInfo =
            serde_json::from_value(json!({ "name": name, "mac": "", "addresses": [] }))
                .expect("an interface");
        assert_eq!(parsed.allows_interface(&interface), allowed, "{spec} {name}");
        interface.isolated = true;
        let is_named = parsed.interfaces.iter().any(|one| one == name);
        assert_eq!(
            parsed.allows_interface(&interface),
            is_named,
            "{spec} {name}, a bridge that leads nowhere"
        );
    }
}

#[test]
fn weights_of_all_preferences_that_match_a_node_are_added_up() {
    let of = |key: &str, value: &str, weight: i32| json!({ "weight": weight, "selector": { "matchLabels": { (key): value } } });
    let spec = json!({ "preferredNodes": [of("rack", "a", 10), of("disk", "fast", 5)] });
    let announcements = Announcements::new([announcement("a", EARLY, &spec)].iter());
    let parsed = announcements.get(Some("a")).expect("it");
    for (node, weight) in [
        (&[][..], 0),
        (&[("rack", "a")], 10),
        (&[("rack", "a"), ("disk", "fast")], 15),
        (&[("disk", "fast")], 5),
    ] {
        assert_eq!(parsed.weight(&labels(node)), weight, "{node:?}");
    }
    assert!(announcements.look_at_labels());
}

#[test]
fn those_that_may_apply_to_a_pool_end_with_the_first_that_leaves_nothing_to_the_others() {
    let objects = [
        announcement("1-web", EARLY, &json!({ "serviceSelectors": [{ "matchLabels": { "app": "web" } }] })),
        announcement("2-q", EARLY, &json!({ "pools": ["q"] })),
        announcement("3-p", EARLY, &json!({ "pools": ["p"] })),
        announcement("4-all", EARLY, &json!({})),
    ];
    let announcements = Announcements::new(objects.iter());
    let names = |pool: &str| -> Vec<_> {
        announcements.of_pool(pool).iter().map(|one| one.name.clone().unwrap_or_default()).collect()
    };
    assert_eq!(names("p"), ["1-web", "3-p"]);
    assert_eq!(names("r"), ["1-web", "4-all"]);
    let none = Announcements::new(objects[..2].iter());
    assert_eq!(none.of_pool("r").len(), 2, "and at the end what holds without any");
}

fn address(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

/// `status Reason: message` of the condition.
fn said(spec: &Value, findings: &AnnouncementFindings) -> String {
    let announcements = Announcements::new([announcement("a", EARLY, spec)].iter());
    let parsed = announcements.get(Some("a")).expect("it");
    let status = status(None, Some(3), parsed, findings, EARLY.parse().expect("a time"));
    let Condition { status, reason, message, observed_generation, .. } = &status.conditions[0];
    assert_eq!(*observed_generation, Some(3));
    format!("{status} {reason}: {message}")
}

// shows: field-reports F-80
#[test]
fn the_condition_says_whether_it_applies_to_all_that_it_selects_and_what_to_do() {
    let findings = AnnouncementFindings::default;
    let overruled = (1..=5).map(|last| (address(last), "b".to_owned())).collect();
    let unreadable =
        json!({ "nodeSelectors": [{ "matchExpressions": [{ "key": "a", "operator": "Near" }] }] });
    let rows = [
        (json!({}), findings(), "True NothingSelected: it selects no virtual IP yet"),
        (
            json!({}),
            AnnouncementFindings { virtual_ips: 2, ..findings() },
            "True AppliesToAll: Windlass announces each virtual IP it selects with its settings",
        ),
        (
            json!({}),
            AnnouncementFindings { virtual_ips: 2, overruled, ..findings() },
            "False Overruled: another Announcement comes first for 192.0.2.1 (Announcement \"b\"), 192.0.2.2 (Announcement \
             \"b\"), 192.0.2.3 (Announcement \"b\") and others: give this one a lower spec.priority, or let it select less",
        ),
        (
            json!({ "vrrp": { "vridRange": { "first": 7, "last": 9 } } }),
            AnnouncementFindings { virtual_ips: 2, left_behind: [address(1)].into(), ..findings() },
            "False NoVRID: 192.0.2.1 still announced as before: no VRID from 7 to 9 is left on their \
             segment; extend spec.vrrp.vridRange, or free some",
        ),
        (
            json!({ "vrrp": { "authentication": { "keyId": 7 } } }),
            AnnouncementFindings { virtual_ips: 2, without_key: [address(1)].into(), ..findings() },
            "False NoKey: 192.0.2.1 still announced as before: not each of their nodes has key 7 (spec.vrrpKeys of its \
             NodeNetwork); add an entry 7 to Secret windlass-vrrp-keys in the namespace of the agents",
        ),
        (
            json!({}),
            AnnouncementFindings { is_without_node: true, ..findings() },
            "False NoNode: no node with a Windlass agent that spec.nodeSelectors selects has a subnet on an interface that \
             spec.interfaces and spec.excludeInterfaces leave: correct these",
        ),
        (
            json!({ "interfaces": ["eth9"] }),
            AnnouncementFindings { is_without_node: true, ..findings() },
            "False NoNode: no node with a Windlass agent that spec.nodeSelectors selects has a subnet on an interface that \
             spec.interfaces and spec.excludeInterfaces leave: correct these. An interface without an address of its own is not used: \
             give eth9 an address of the subnet on the nodes",
        ),
        (
            json!({ "interfaces": ["eth9", "lxcbr1", "veth*"] }),
            AnnouncementFindings { is_without_node: true, ..findings() },
            "False NoNode: no node with a Windlass agent that spec.nodeSelectors selects has a subnet on an interface that \
             spec.interfaces and spec.excludeInterfaces leave: correct these. Agents report lxcbr1, veth* only if it is a network card, \
             a VLAN or a bond: other interfaces whose names begin so are of pod networks. Rename the interface (a .link file of systemd-udev), or name that of the LAN",
        ),
        (
            unreadable,
            findings(),
            "False InvalidSelector: spec.nodeSelectors[0]: label \"a\" has the operator \"Near\": write In, NotIn, Exists or \
             DoesNotExist; until that is put right it applies to no further virtual IP",
        ),
    ];
    for (spec, findings, expected) in rows {
        assert_eq!(said(&spec, &findings), expected);
    }
}

#[test]
fn a_status_that_says_so_already_is_not_written_again_and_conditions_of_others_stay() {
    let announcements = Announcements::new([announcement("a", EARLY, &json!({}))].iter());
    let parsed = announcements.get(Some("a")).expect("it");
    let findings = AnnouncementFindings { virtual_ips: 1, ..AnnouncementFindings::default() };
    let foreign: Condition = serde_json::from_value(json!({
        "type": "Theirs", "status": "True", "reason": "So", "message": "", "lastTransitionTime": EARLY,
    }))
    .expect("a condition");
    let shown = AnnouncementStatus { virtual_ips: 0, conditions: vec![foreign.clone()] };
    let now = |text: &str| text.parse().expect("a time");
    let first = status(Some(&shown), Some(1), parsed, &findings, now(EARLY));
    assert_eq!((first.virtual_ips, &first.conditions[0]), (1, &foreign));
    assert_eq!(status(Some(&first), Some(1), parsed, &findings, now(LATE)), first);
}
