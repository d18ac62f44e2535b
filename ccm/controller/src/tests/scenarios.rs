//! What happens in a cluster, and what must be so afterwards.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::rig::{Rig, custom, key, pool};

/// One thing that happens.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) pools: Vec<Value>,
    /// Before: a healthy controller sees to it.
    pub(super) before: fn(&mut Rig),
    /// It happens.
    pub(super) happens: fn(&mut Rig),
    /// How many addresses each Service is to have then.
    pub(super) counts: BTreeMap<&'static str, usize>,
    /// What else must be so.
    pub(super) after: fn(&Rig),
}

pub(super) fn annotated(annotations: &Value) -> Value {
    json!({ "metadata": { "annotations": annotations } })
}

fn sharing(port: u16) -> Value {
    json!({
        "metadata": { "annotations": { "windlass.dev/sharing-key": "k" } },
        "spec": { "ports": [{ "name": "p", "port": port, "protocol": "TCP", "nodePort": 30000 + u32::from(port) }] },
    })
}

fn nothing(_: &mut Rig) {}

/// The Service had the address, and let go of it.
fn keep_back(rig: &Rig, address: &str, name: &str) {
    let uid = rig.api.get(&key(name)).expect("a Service")["metadata"]["uid"].clone();
    let mut claim = custom(
        "VirtualIP",
        address,
        &json!({
            "address": address, "pool": "p", "owners": [{ "namespace": "ns", "name": name, "uid": uid }],
            "quarantine": { "reason": "Released", "until": "2030-01-01T00:00:00Z" },
        }),
    );
    claim["status"] = json!({ "conditions": [{
        "type": "Announced", "status": "False", "reason": "Withdrawn", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }] });
    rig.api.put(claim);
}

fn four() -> Vec<Value> {
    vec![pool("p", &["192.0.2.16/29"], &json!({}))]
}

/// All of them.
pub(super) fn all() -> Vec<Scenario> {
    vec![
        Scenario {
            name: "a Service is created",
            pools: four(),
            before: nothing,
            happens: |rig| rig.create("a", &json!({})),
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.16"]),
        },
        Scenario {
            name: "another hand empties the status of a Service",
            pools: four(),
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| rig.edit("a", &json!({ "status": { "loadBalancer": { "ingress": null } } })),
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.16"]),
        },
        Scenario {
            name: "another hand puts an address of a pool into the status of a Service",
            pools: four(),
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| {
                let ingress =
                    json!([{ "ip": "192.0.2.16", "ipMode": "VIP" }, { "ip": "192.0.2.18", "ipMode": "VIP" }]);
                rig.edit("a", &json!({ "status": { "loadBalancer": { "ingress": ingress } } }));
            },
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.16"]),
        },
        Scenario {
            name: "a Service is deleted",
            pools: four(),
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| rig.delete("a"),
            counts: [].into(),
            after: |_| {},
        },
        Scenario {
            name: "a Service is deleted while another waits for its address",
            pools: vec![pool("p", &["192.0.2.7/32"], &json!({}))],
            before: |rig| {
                rig.create("a", &json!({}));
                rig.create("b", &json!({}));
            },
            happens: |rig| rig.delete("a"),
            counts: [("b", 1)].into(),
            after: |rig| assert_eq!(rig.shown("b"), ["192.0.2.7"]),
        },
        Scenario {
            name: "a Service stops being a load balancer",
            pools: four(),
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| {
                // The API server clears the status of such a Service.
                rig.edit(
                    "a",
                    &json!({ "spec": { "type": "ClusterIP" }, "status": { "loadBalancer": null } }),
                );
            },
            counts: [("a", 0)].into(),
            after: |_| {},
        },
        Scenario {
            name: "a Service is made anew under its name and asks for its address",
            pools: four(),
            before: |rig| {
                rig.create("b", &annotated(&json!({ "windlass.dev/addresses": "192.0.2.16" })));
                rig.create("a", &annotated(&json!({ "windlass.dev/addresses": "192.0.2.17" })));
            },
            happens: |rig| {
                let had = rig.shown("a").concat();
                rig.edit("a", &json!({ "metadata": { "finalizers": null } }));
                rig.delete("a");
                rig.create("a", &annotated(&json!({ "windlass.dev/addresses": had })));
            },
            counts: [("a", 1), ("b", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.17"]),
        },
        Scenario {
            name: "a Service is a load balancer again while its address is kept back",
            pools: four(),
            before: |rig| {
                rig.create("a", &json!({ "spec": { "type": "ClusterIP", "externalTrafficPolicy": null } }));
                keep_back(rig, "192.0.2.18", "a");
            },
            happens: |rig| {
                rig.edit(
                    "a",
                    &json!({ "spec": { "type": "LoadBalancer", "externalTrafficPolicy": "Cluster" } }),
                );
            },
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.18"]),
        },
        Scenario {
            name: "a Service asks for another address",
            pools: four(),
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| rig.edit("a", &annotated(&json!({ "windlass.dev/addresses": "192.0.2.21" }))),
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.21"]),
        },
        Scenario {
            name: "the address of a Service is taken out of its pool, which lets it move",
            pools: vec![pool("p", &["192.0.2.16/30"], &json!({ "onRemoval": "Move" }))],
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| {
                rig.api.edit("virtualippools//p", &json!({ "spec": { "addresses": ["192.0.2.24/30"] } }));
            },
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.24"]),
        },
        Scenario {
            name: "the address of a Service is taken out of its pool, and it keeps it",
            pools: vec![pool("p", &["192.0.2.16/30"], &json!({}))],
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| {
                rig.api.edit("virtualippools//p", &json!({ "spec": { "addresses": ["192.0.2.24/30"] } }));
            },
            counts: [("a", 1)].into(),
            after: |rig| {
                assert_eq!(rig.shown("a"), ["192.0.2.16"]);
                assert_eq!(rig.reason("a"), "True AddressOutsidePools");
            },
        },
        Scenario {
            name: "another host has the address",
            pools: four(),
            before: |rig| rig.take("192.0.2.16"),
            happens: |rig| rig.create("a", &json!({})),
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.17"]),
        },
        Scenario {
            name: "the object of an address is deleted by hand",
            pools: four(),
            before: |rig| rig.create("a", &json!({})),
            happens: |rig| rig.api.delete("virtualips//192.0.2.16"),
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.16"]),
        },
        Scenario {
            name: "a Service joins another's address",
            pools: four(),
            before: |rig| rig.create("a", &sharing(80)),
            happens: |rig| rig.create("b", &sharing(81)),
            counts: [("a", 1), ("b", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), rig.shown("b")),
        },
        Scenario {
            name: "a Service leaves an address to others",
            pools: four(),
            before: |rig| {
                rig.create("a", &sharing(80));
                rig.create("b", &sharing(81));
            },
            happens: |rig| rig.delete("a"),
            counts: [("b", 1)].into(),
            after: |rig| assert_eq!(rig.shown("b"), ["192.0.2.16"]),
        },
        Scenario {
            name: "three Services share an address at once",
            pools: four(),
            before: nothing,
            happens: |rig| {
                for (name, port) in [("a", 80), ("b", 81), ("c", 82)] {
                    rig.create(name, &sharing(port));
                }
            },
            counts: [("a", 1), ("b", 1), ("c", 1)].into(),
            after: |_| {},
        },
        Scenario {
            name: "a Service that shares takes another's port and gets an address of its own",
            pools: four(),
            before: |rig| {
                rig.create("a", &sharing(80));
                rig.create("b", &sharing(81));
            },
            happens: |rig| rig.edit("b", &sharing(80)),
            counts: [("a", 1), ("b", 1)].into(),
            after: |rig| {
                assert_eq!(rig.shown("a"), ["192.0.2.16"]);
                assert_eq!(rig.shown("b"), ["192.0.2.17"]);
            },
        },
        Scenario {
            name: "a dual-stack Service is created",
            pools: vec![pool("p", &["192.0.2.16/29", "2001:db8::8/125"], &json!({}))],
            before: nothing,
            happens: |rig| rig.create("a", &dual("RequireDualStack")),
            counts: [("a", 2)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.16", "2001:db8::8"]),
        },
        Scenario {
            name: "a family is added to a pool",
            pools: four(),
            before: |rig| rig.create("a", &dual("PreferDualStack")),
            happens: |rig| {
                rig.api.edit(
                    "virtualippools//p",
                    &json!({ "spec": { "addresses": ["192.0.2.16/29", "2001:db8::8/125"] } }),
                );
            },
            counts: [("a", 2)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.16", "2001:db8::8"]),
        },
        Scenario {
            name: "a Service that requires both families gets none of one",
            pools: four(),
            before: nothing,
            happens: |rig| rig.create("a", &dual("RequireDualStack")),
            counts: [("a", 0)].into(),
            after: |rig| assert_eq!(rig.reason("a"), "False NoFreeAddress"),
        },
        Scenario {
            name: "a Service asks for three addresses",
            pools: four(),
            before: nothing,
            happens: |rig| rig.create("a", &annotated(&json!({ "windlass.dev/address-count": "3" }))),
            counts: [("a", 3)].into(),
            after: |_| {},
        },
        Scenario {
            name: "a Service asks for fewer addresses",
            pools: four(),
            before: |rig| rig.create("a", &annotated(&json!({ "windlass.dev/address-count": "3" }))),
            happens: |rig| rig.edit("a", &annotated(&json!({ "windlass.dev/address-count": null }))),
            counts: [("a", 1)].into(),
            after: |rig| assert_eq!(rig.shown("a"), ["192.0.2.16"]),
        },
    ]
}

pub(super) fn dual(policy: &str) -> Value {
    json!({ "spec": { "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": policy, "clusterIPs": ["10.0.0.1", "fd00::1"] } })
}
