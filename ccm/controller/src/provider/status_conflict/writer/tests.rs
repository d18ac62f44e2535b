use serde_json::{Value, json};

use super::*;

fn entry(manager: &str, second: u8, fields: &Value) -> ManagedFieldsEntry {
    let time = format!("2026-01-01T00:00:{second:02}Z");
    serde_json::from_value(json!({ "manager": manager, "time": time, "fieldsV1": fields })).expect("an entry")
}

#[test]
fn the_other_controller_that_wrote_the_addresses_last_is_named() {
    let addresses = json!({ "f:status": { "f:loadBalancer": { "f:ingress": {} } } });
    let spec = json!({ "f:spec": { "f:type": {} } });
    let ours = json!({ "f:status": {
        "f:loadBalancer": { "f:ingress": {} },
        "f:conditions": { ".": {}, "k:{\"type\":\"windlass.dev/AddressAllocated\"}": { ".": {}, "f:status": {} } },
    } });
    let theirs = json!({ "f:status": {
        "f:loadBalancer": { "f:ingress": {} },
        "f:conditions": { "k:{\"type\":\"example.com/Other\"}": { ".": {} } },
    } });
    for (entries, expected) in [
        (vec![], None),
        (vec![entry("kubectl", 1, &spec)], None),
        (vec![entry("windlass", 1, &ours)], None),
        (vec![entry("kube-vip", 1, &addresses), entry("kubectl", 2, &spec)], Some(("kube-vip", 1))),
        (vec![entry("first", 1, &addresses), entry("second", 2, &theirs)], Some(("second", 2))),
        (vec![entry("other", 1, &addresses), entry("windlass", 9, &ours)], Some(("other", 1))),
        (vec![entry("unknown", 1, &addresses)], Some(("", 1))),
    ] {
        let writer = Writer::of(&entries);
        let found = writer.as_ref().map(|writer| {
            let second = writer.time.map(Timestamp::as_second).map(|second| second % 60);
            (writer.name.as_deref().unwrap_or_default(), second.expect("a time"))
        });
        assert_eq!(found, expected, "{entries:?}");
    }
}
