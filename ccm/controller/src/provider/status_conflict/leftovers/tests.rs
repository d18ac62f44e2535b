use serde_json::{Value, json};

use super::*;

fn at(time: &str) -> Timestamp {
    time.parse().expect("a time")
}

/// A Service whose addresses another controller wrote at that time, and of which Windlass says this.
fn service(wrote: Option<&str>, condition_status: Option<&str>) -> Service {
    let written = |time: &str| {
        json!({ "manager": "old-balancer", "time": time, "subresource": "status",
                "fieldsV1": { "f:status": { "f:loadBalancer": { "f:ingress": {} } } } })
    };
    let condition = |status: &str| {
        json!({ "type": "windlass.dev/AddressAllocated", "status": status, "reason": "R", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
    };
    serde_json::from_value(json!({
        "metadata": { "namespace": "ns", "name": "web", "managedFields": Vec::from_iter(wrote.map(written)) },
        "spec": { "type": "LoadBalancer" },
        "status": { "conditions": Vec::from_iter(condition_status.map(condition)) },
    }))
    .expect("a Service")
}

#[test]
fn what_was_there_first_is_removed_once_and_what_is_written_again_stays() {
    let (before, claimed, after) = ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z");
    let rows = [
        ("never served", Some(before), None, Some(claimed), true),
        ("never served, and written meanwhile", Some(after), None, Some(claimed), true),
        ("nobody is noted", None, None, Some(claimed), false),
        ("it is served", Some(before), Some("True"), Some(claimed), false),
        ("written again", Some(after), Some("True"), Some(claimed), false),
        ("it has waited so far", Some(before), Some("False"), Some(claimed), true),
        (
            "written again, and no node announces it any more",
            Some(after),
            Some("False"),
            Some(claimed),
            false,
        ),
        ("in the same second", Some(claimed), Some("False"), Some(claimed), false),
        ("nothing is claimed", Some(before), Some("False"), None, false),
        ("nonsense for a condition", Some(after), Some("Unknown"), Some(claimed), false),
    ];
    for (what, wrote, condition_status, claimed, removed) in rows {
        let found = leftover_writer(&service(wrote, condition_status), claimed.map(at));
        let expected = removed.then(|| Writer { name: Some("old-balancer".into()), time: wrote.map(at) });
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn what_is_told_names_the_entries_who_wrote_them_and_why_they_are_removed() {
    let entries: Vec<LoadBalancerIngress> =
        serde_json::from_value(json!([{ "ip": "203.0.113.9" }, { "hostname": "lb.example" }]))
            .expect("entries");
    let writer = Writer { name: Some("old-balancer".into()), time: None };
    assert_eq!(
        removal_message(&entries, Some(&writer), false),
        "removed 203.0.113.9, lb.example from the status, left there by controller \"old-balancer\": no pool \
         holds it, and Windlass serves this Service now. If the other controller does serve it and writes it \
         again, Windlass leaves it"
    );
    assert_eq!(
        removal_message(&entries[..1], None, true),
        "removed 203.0.113.9 from the status, written by another controller: no pool holds it, and spec.loadBalancerClass \
         gives this Service to Windlass alone"
    );
}

#[test]
fn an_entry_that_is_added_concerns_a_service_of_our_class() {
    let shows = |class: Value, entries: Value| -> Service {
        serde_json::from_value(json!({
            "metadata": { "namespace": "ns", "name": "web" },
            "spec": { "type": "LoadBalancer", "loadBalancerClass": class },
            "status": { "loadBalancer": { "ingress": entries } },
        }))
        .expect("a Service")
    };
    let ours = || json!(LOAD_BALANCER_CLASS);
    let own = json!([{ "ip": "192.0.2.1" }]);
    let more = json!([{ "ip": "192.0.2.1" }, { "hostname": "lb.example" }]);
    let is_ours = |address: std::net::IpAddr| address.to_string() == "192.0.2.1";
    for (class, old, new, littered, what) in [
        (ours(), &own, &more, true, "added"),
        (ours(), &more, &more, false, "there as before"),
        (ours(), &more, &own, false, "removed"),
        (ours(), &json!([]), &own, false, "our own"),
        (Value::Null, &own, &more, false, "of a classless one"),
    ] {
        let found =
            adds_foreign_ingress(&shows(class.clone(), old.clone()), &shows(class, new.clone()), is_ours);
        assert_eq!(found, littered, "{what}");
    }
}
