use serde_json::json;

use super::*;

#[test]
fn a_service_that_is_kept_holds_when_it_was_edited_and_no_unused_room() {
    let entry = |manager: &str, subresource: &str, second: u8| {
        let time = format!("2026-01-01T00:00:{second:02}Z");
        json!({ "manager": manager, "subresource": subresource, "time": time, "fieldsV1": { "f:spec": {} } })
    };
    let managed = [entry("kubectl", "", 7), entry("helm", "", 3), entry("windlass", "status", 9)];
    let text = json!({
        "metadata": { "name": "web", "finalizers": ["a/b"], "managedFields": managed,
                      "creationTimestamp": "2026-01-01T00:00:01Z" },
        "spec": { "clusterIPs": ["192.0.2.1"], "ipFamilies": ["IPv4"], "ports": [{ "port": 80 }] },
        "status": {
            "loadBalancer": { "ingress": [{ "ip": "192.0.2.2" }] },
            "conditions": [{ "type": "T", "status": "True", "reason": "R", "message": "m",
                             "lastTransitionTime": "2026-01-01T00:00:00Z" }],
        },
    })
    .to_string();
    let mut kept: Service = serde_json::from_str(&text).expect("a Service");
    let before = kept.clone();
    service(&mut kept);
    let seventh = "2026-01-01T00:00:07Z".parse().expect("a time");
    assert_eq!((edited(&before), edited(&kept)), (Some(seventh), Some(seventh)), "a status is no edit");
    let left = kept.metadata.managed_fields.clone().expect("one entry");
    assert_eq!(left, [ManagedFieldsEntry { time: Some(Time(seventh)), ..Default::default() }]);
    kept.metadata.managed_fields = None;
    assert_eq!(edited(&kept), Some("2026-01-01T00:00:01Z".parse().expect("a time")), "made and never edited");
    assert_eq!(kept.spec, before.spec, "all else stays");
    assert_eq!(kept.status, before.status);
    let (spec, status) = (kept.spec.expect("a spec"), kept.status.expect("a status"));
    let rooms = [
        kept.metadata.finalizers.map(|list| list.capacity()),
        spec.cluster_ips.map(|list| list.capacity()),
        spec.ip_families.map(|list| list.capacity()),
        spec.ports.map(|list| list.capacity()),
        status.conditions.map(|list| list.capacity()),
        status.load_balancer.and_then(|balancer| balancer.ingress).map(|list| list.capacity()),
    ];
    assert_eq!(rooms, [Some(1); 6]);
}

#[test]
fn a_node_that_is_kept_holds_no_images() {
    let text = json!({
        "metadata": { "name": "n1", "managedFields": [{ "manager": "kubelet" }] },
        "status": { "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
                    "images": [{ "names": ["a"], "sizeBytes": 1 }] },
    });
    let mut kept: Node = serde_json::from_value(text).expect("a Node");
    node(&mut kept);
    assert_eq!(kept.metadata.managed_fields, None);
    let status = kept.status.expect("a status");
    assert_eq!((status.images, status.addresses.map(|list| list.len())), (None, Some(1)));
}
