use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use windlass_api::{
    Announcement, ExternalTrafficPolicy, NodeNetwork, VirtualIPPool, VirtualIPSpec, VirtualRouter,
    virtual_ip_name,
};

use super::*;
use crate::state::ClusterState;
use crate::state::shared::SharedState;

fn object<K: serde::de::DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).expect("an object")
}

fn custom<K: serde::de::DeserializeOwned>(kind: &str, name: &str, spec: &Value) -> K {
    object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": kind, "spec": spec,
        "metadata": { "name": name, "uid": name, "resourceVersion": "1" },
    }))
}

fn holder(name: &str) -> ServiceRef {
    ServiceRef { namespace: "ns".into(), name: name.into(), uid: name.into() }
}

fn vip(last: u8, owner: &str, router: Option<&str>) -> VirtualIP {
    let address = IpAddr::from([192, 0, 2, last]);
    let spec = VirtualIPSpec {
        on_address_in_use: windlass_api::OnAddressInUse::Refuse,
        load_sharing: None,
        former_pools: Vec::new(),
        address,
        pool: "p".into(),
        owners: vec![holder(owner)],
        virtual_router: router.map(str::to_owned),
        announcement: None,
        sources: Vec::new(),
        ports: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        health_check_node_ports: Vec::new(),
        quarantine: None,
    };
    let mut vip = VirtualIP::new(&virtual_ip_name(address), spec);
    vip.metadata.uid = Some(format!("vip-{last}"));
    vip.metadata.resource_version = Some("2".into());
    vip
}

/// Two nodes on 192.0.2.0/24, one first in the virtual routers `a`, `c` and `e`, the other in the others to `f`.
fn shared(vips: Vec<VirtualIP>) -> SharedState {
    let shared = SharedState::default();
    let interfaces = |number: u8| json!([{ "name": "eth0", "mac": "02:00:00:00:00:01", "addresses": [format!("192.0.2.{number}/24")] }]);
    let network = |number| {
        custom::<NodeNetwork>(
            "NodeNetwork",
            &format!("n{number}"),
            &json!({ "interfaces": interfaces(number) }),
        )
    };
    let router = |name: &str, vrid: u8, order: [u8; 2]| {
        let nodes = order.iter().zip([254, 238]).map(|(number, priority)| {
            json!({ "name": format!("n{number}"), "priority": priority, "interface": "eth0",
                    "address": format!("192.0.2.{number}") })
        });
        let spec = json!({ "vrid": vrid, "segment": "192.0.2.0/24", "nodes": nodes.collect::<Vec<_>>(),
                           "advertisementIntervalMilliseconds": 100 });
        custom::<VirtualRouter>("VirtualRouter", name, &spec)
    };
    let node =
        |name| object::<Node>(json!({ "metadata": { "name": name, "uid": name, "resourceVersion": "1" } }));
    shared.list(vec![custom::<VirtualIPPool>(
        "VirtualIPPool",
        "p",
        &json!({ "addresses": ["192.0.2.128/25"] }),
    )]);
    shared.list::<Announcement>(Vec::new());
    shared.list(vips);
    let routers = [("a", [1, 2]), ("b", [2, 1]), ("c", [1, 2]), ("d", [2, 1]), ("e", [1, 2]), ("f", [2, 1])];
    shared.list((64..).zip(routers).map(|(vrid, (name, order))| router(name, vrid, order)).collect());
    shared.list(vec![network(1), network(2)]);
    shared.list::<Service>(Vec::new());
    shared.list(vec![node("n1"), node("n2")]);
    shared.list::<Namespace>(Vec::new());
    shared.list::<EndpointSlice>(Vec::new());
    assert!(shared.state().allocation.is_ready(), "every list is complete");
    shared
}

fn named(shared: &SharedState, last: u8, owner: &str) -> Option<String> {
    let ClusterState { stores, allocation, placement, .. } = &mut *shared.state();
    placement.router_for_new_vip(stores, allocation, &holder(owner), &vip(last, owner, None))
}

#[test]
fn vips_made_at_the_same_time_name_the_routers_in_turn() {
    let carriers = ["a", "b", "c", "d", "e", "f", "b"];
    let carried = (128..).zip(carriers).map(|(last, router)| vip(last, &format!("s{last}"), Some(router)));
    let shared = shared(carried.collect());
    let names = [135, 136, 137].map(|last| named(&shared, last, "new"));
    assert_eq!(names, ["a", "c", "d"].map(|name| Some(name.to_owned())), "none of them is known yet");
    shared.learn(vip(135, "new", Some("a")));
    assert_eq!(named(&shared, 138, "newer"), Some("e".to_owned()), "and each counts once");
    assert_eq!(named(&shared, 139, "newest"), Some("f".to_owned()));
}

#[test]
fn the_planner_places_the_second_address_of_a_service() {
    let carried = (128..).zip(["a", "b", "c", "d", "e", "f"]);
    let carried = carried.map(|(last, router)| vip(last, &format!("s{last}"), Some(router)));
    let shared = shared(carried.collect());
    assert_eq!(named(&shared, 134, "s128"), None);
    assert!(named(&shared, 134, "s134").is_some());
}
