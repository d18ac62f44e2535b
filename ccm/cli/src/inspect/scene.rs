//! Clusters for tests, as the API server would tell of them.

use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::{CONDITION_ADDRESS_ALLOCATED, virtual_ip_name};

use super::snapshot::Snapshot;

/// Returns the time at which the cluster is read.
pub(super) fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

/// Returns the time `seconds` before [`now`].
pub(super) fn ago(seconds: i64) -> String {
    (now() - SignedDuration::from_secs(seconds)).to_string()
}

pub(super) fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub(super) fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": ago(7200),
    })
}

pub(super) fn pool(name: &str, left: i64) -> Value {
    json!({
        "metadata": { "name": name, "creationTimestamp": ago(86_400) },
        "spec": { "addresses": ["192.0.2.0/24"] },
        "status": {
            "ipv4": { "total": 256, "assigned": 256 - left, "available": left, "quarantined": 0 },
            "conditions": [condition("Ready", "True", "Usable", "256 addresses"),
                condition("Announceable", "True", "AllAnnounceable", "by n1")],
        },
    })
}

pub(super) fn node(name: &str) -> Value {
    json!({
        "metadata": { "name": name, "creationTimestamp": ago(86_400) },
        "status": { "conditions": [condition("Ready", "True", "KubeletReady", "")] },
    })
}

pub(super) fn network(name: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "spec": {
            "agentVersion": "0.1.0", "capabilities": ["SourceRanges"],
            "interfaces": [{ "name": "eth0", "mac": "02:00:00:00:00:01", "addresses": ["198.51.100.1/24"] }],
        },
    })
}

/// Carried by n1, n2 and n3, in this order; n1 is Active.
pub(super) fn router(name: &str) -> Value {
    let ranked = |name: &str, priority: u8| json!({ "name": name, "priority": priority, "address": "198.51.100.1", "interface": "eth0" });
    json!({
        "metadata": { "name": name, "creationTimestamp": ago(86_400) },
        "spec": {
            "vrid": 1, "segment": "192.0.2.0/24", "advertisementIntervalMilliseconds": 100,
            "nodes": [ranked("n1", 254), ranked("n2", 238), ranked("n3", 222)],
        },
        "status": { "activeNode": "n1", "activeSince": ago(7200), "transitions": 1 },
    })
}

/// Returns a VirtualIP of the Service `default/<service>`.
pub(super) fn vip(address: &str, service: &str, router: &str) -> Value {
    let parsed = address.parse().unwrap();
    json!({
        "metadata": { "name": virtual_ip_name(parsed), "creationTimestamp": ago(7200) },
        "spec": {
            "address": address, "pool": "default", "virtualRouter": router,
            "owners": [{ "namespace": "default", "name": service, "uid": format!("uid-{service}") }],
            "ports": [{ "protocol": "TCP", "port": 80 }],
        },
        "status": { "activeNode": "n1", "conditions": [condition("Announced", "True", "Active", "node n1")] },
    })
}

/// Returns the VirtualIP of `default/web` with this condition LoadShared: n1 has the first 60 lots and n3 the others, of which n2 had 60 to 62
/// and 70.
pub(super) fn shared_vip(status: &str, reason: &str, message: &str) -> Value {
    let mut vip = vip("192.0.2.10", "web", "r1");
    let node = |key: &str, name: &str| json!({ "key": key, "name": name, "address": "198.51.100.1" });
    let former = format!("{}bbb{}b{}", "-".repeat(60), "-".repeat(7), "-".repeat(49));
    vip["spec"]["loadSharing"] = json!({
        "nodes": [node("a", "n1"), node("b", "n2"), node("c", "n3")],
        "lots": "a".repeat(60) + &"c".repeat(60), "formerLots": [former],
    });
    vip["status"]["conditions"] = json!([
        condition("Announced", "True", "Active", ""),
        condition("LoadShared", status, reason, message)
    ]);
    vip
}

/// With one address, and this condition.
pub(super) fn service(name: &str, address: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "default", "uid": format!("uid-{name}"), "creationTimestamp": ago(7200),
        },
        "spec": { "type": "LoadBalancer", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{ "port": 80, "protocol": "TCP" }] },
        "status": {
            "loadBalancer": { "ingress": if address.is_empty() { json!([]) } else { json!([{ "ip": address }]) } },
            "conditions": [condition(CONDITION_ADDRESS_ALLOCATED, status, reason, message)],
        },
    })
}

pub(super) fn lease(holder: &str, renewed: i64) -> Value {
    json!({
        "metadata": { "name": "cloud-controller-manager", "namespace": "kube-system" },
        "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15,
            "acquireTime": format!("{:.6}", ago(7200).parse::<Timestamp>().unwrap()),
            "renewTime": format!("{:.6}", ago(renewed).parse::<Timestamp>().unwrap()),
        },
    })
}

/// Three nodes, one Service, and nothing that is wrong.
pub(super) fn healthy() -> Snapshot {
    let mut snapshot =
        Snapshot { server: "https://192.0.2.1:6443".to_owned(), now: now(), ..Snapshot::default() };
    for name in ["n1", "n2", "n3"] {
        snapshot.nodes.objects.push(object(node(name)));
        snapshot.networks.objects.push(object(network(name)));
    }
    snapshot.pools.objects.push(object(pool("default", 100)));
    snapshot.routers.objects.push(object(router("r1")));
    snapshot.leases.objects.push(object(lease("n1_0123", 3)));
    let has = "192.0.2.10 from pool \"default\"";
    snapshot.services.objects.push(object(service("web", "192.0.2.10", "True", "Allocated", has)));
    snapshot.vips.objects.push(object(vip("192.0.2.10", "web", "r1")));
    snapshot
}
