//! `spec.externalIPs` from the Service to its `VirtualIP` and back.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::rig::{Rig, pool, text};

/// A Service that lists external IPs and is no load balancer.
fn lists(addresses: &[&str], port: u16) -> Value {
    json!({ "spec": {
        "type": "ClusterIP", "externalIPs": addresses, "externalTrafficPolicy": null,
        "ports": [{ "name": "p", "port": port, "protocol": "TCP", "targetPort": 8080 }],
    } })
}

/// Owners of each address that is announced.
fn owned(rig: &Rig) -> Vec<(String, Vec<String>)> {
    let vips = rig.api.list("virtualips").into_iter();
    let announced = vips.filter(|vip| vip["spec"]["quarantine"].is_null());
    let owners = |vip: &Value| vip["spec"]["owners"].as_array().cloned().unwrap_or_default();
    let mut owned: Vec<_> = announced
        .map(|vip| {
            let names = owners(&vip).iter().map(|owner| text(&owner["name"])).collect();
            (text(&vip["spec"]["address"]), names)
        })
        .collect();
    owned.sort();
    owned
}

fn is(address: &str, owners: &[&str]) -> (String, Vec<String>) {
    (address.to_owned(), owners.iter().map(|owner| (*owner).to_owned()).collect())
}

/// What was told of refusals, each once.
fn refusals(rig: &Rig) -> BTreeSet<String> {
    let told = rig.api.list("events").into_iter();
    let told = told.filter(|event| event["reason"] == "ExternalIPRefused");
    told.map(|event| format!("{} {}", text(&event["type"]), text(&event["message"]))).collect()
}

// shows: ccm-contract S-39
#[tokio::test(start_paused = true)]
async fn external_ips_are_claimed_where_a_pool_allows_it_refused_elsewhere_and_withdrawn_with_the_reason_for_them()
 {
    let mut rig = Rig::new(&[
        pool("auto", &["192.0.2.64/28"], &json!({ "quarantineSeconds": 2 })),
        pool("closed", &["192.0.2.32/28"], &json!({})),
        pool(
            "open",
            &["192.0.2.16/28"],
            &json!({ "allowExternalIPs": true, "autoAssign": false, "quarantineSeconds": 2 }),
        ),
    ]);
    let controller = rig.controller();
    rig.create("a", &lists(&["192.0.2.17", "203.0.113.1"], 80));
    rig.settle().await;
    rig.create("b", &lists(&["192.0.2.17"], 81));
    rig.create("c", &lists(&["192.0.2.17"], 80));
    rig.create("d", &lists(&["192.0.2.33"], 80));
    rig.create("lb", &json!({}));
    rig.settle().await;
    assert_eq!(owned(&rig), [is("192.0.2.17", &["a", "b"]), is("192.0.2.64", &["lb"])]);
    let refused = [
        "Warning external IP 192.0.2.17 is not announced: Service ns/a has it and listens on port 80 too: \
         use another port or address",
        "Warning external IP 192.0.2.33 is not announced: pool \"closed\" does not allow external IPs: set \
         spec.allowExternalIPs there",
    ];
    assert_eq!(refusals(&rig), refused.map(str::to_owned).into());
    assert_eq!(rig.shown("a"), Vec::<String>::new(), "it is the user's, not the load balancer's");

    // A load balancer keeps its own address beside it.
    rig.edit("lb", &json!({ "spec": { "externalIPs": ["192.0.2.18"] } }));
    // The port of the address is free.
    rig.edit("a", &json!({ "spec": { "externalIPs": null } }));
    rig.settle().await;
    let both = [is("192.0.2.17", &["b", "c"]), is("192.0.2.18", &["lb"]), is("192.0.2.64", &["lb"])];
    assert_eq!(owned(&rig), both);
    assert_eq!(rig.shown("lb"), ["192.0.2.64"]);
    assert_eq!(refusals(&rig).len(), 2, "told once: {:?}", refusals(&rig));
    controller.kill().await;
    let told = |rig: &Rig| {
        let refused =
            rig.api.list("events").into_iter().filter(|event| event["reason"] == "ExternalIPRefused");
        refused.count()
    };
    let before = told(&rig);
    rig.check_that_a_restart_writes_nothing("external IPs").await;
    assert_eq!((before, told(&rig)), (2, 2), "what is refused is not told again after a restart");

    let controller = rig.controller();
    rig.edit("b", &json!({ "spec": { "externalIPs": null } }));
    rig.delete("c");
    rig.settle().await;
    assert_eq!(owned(&rig), [is("192.0.2.18", &["lb"]), is("192.0.2.64", &["lb"])]);
    rig.api.edit("virtualippools//open", &json!({ "spec": { "allowExternalIPs": false } }));
    rig.settle().await;
    assert_eq!(owned(&rig), [is("192.0.2.64", &["lb"])]);
    let told = refusals(&rig);
    assert!(
        told.iter().any(|said| said.contains("192.0.2.18") && said.contains("does not allow")),
        "{told:?}"
    );
    controller.kill().await;
}
