//! Services with `externalTrafficPolicy: Local`, through the whole controller: watches, the two seconds that a first endpoint
//! waits, restarts and changes of the policy.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use windlass_ccm::testing::faults::Random;

use super::rig::{Rig, custom, pool, text};

const NODES: [&str; 2] = ["n1", "n2"];
const SERVICES: [&str; 3] = ["a", "b", "c"];
/// When a change has surely reached the virtual routers: a first endpoint counts after two seconds.
const SETTLED: Duration = Duration::from_secs(10);

/// What a pod on a node does; `None`: there is none.
type Pod = Option<(bool, bool)>;
const READY: Pod = Some((true, false));
const TERMINATING: Pod = Some((false, true));

fn local(health_port: u16) -> Value {
    json!({ "spec": { "externalTrafficPolicy": "Local", "healthCheckNodePort": health_port } })
}

fn put_slice(rig: &Rig, service: &str, pods: [Pod; 2]) {
    let endpoint = |(node, pod): (&str, Pod)| {
        let (ready, terminating) = pod?;
        let conditions = json!({ "ready": ready, "serving": true, "terminating": terminating });
        Some(json!({ "addresses": ["10.0.0.1"], "nodeName": node, "conditions": conditions }))
    };
    let endpoints: Vec<_> = NODES.into_iter().zip(pods).filter_map(endpoint).collect();
    rig.api.put(json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": { "name": format!("{service}-x"), "namespace": "ns", "uid": format!("slice-{service}"),
                      "labels": { "kubernetes.io/service-name": service } },
        "addressType": "IPv4", "endpoints": endpoints, "ports": [],
    }));
}

/// The nodes that serve the Service's address together.
fn servers(rig: &Rig, service: &str) -> BTreeSet<String> {
    let [address] = &rig.shown(service)[..] else { panic!("{service} shows {:?}", rig.shown(service)) };
    let vip = rig.api.get(&format!("virtualips//{address}")).expect("a VirtualIP");
    let lots = text(&vip["spec"]["loadSharing"]["lots"]);
    let nodes = vip["spec"]["loadSharing"]["nodes"].as_array().cloned().unwrap_or_default();
    nodes.iter().filter(|node| lots.contains(&text(&node["key"]))).map(|node| text(&node["name"])).collect()
}

/// The virtual router of the Service's address, and the node that it prefers.
fn placed(rig: &Rig, service: &str) -> (Value, String) {
    let [address] = &rig.shown(service)[..] else { panic!("{service} shows {:?}", rig.shown(service)) };
    let vip = rig.api.get(&format!("virtualips//{address}")).expect("a VirtualIP");
    let router = text(&vip["spec"]["virtualRouter"]);
    let router = rig.api.get(&format!("virtualrouters//{router}")).expect("a VirtualRouter");
    let nodes = router["spec"]["nodes"].as_array().cloned().unwrap_or_default();
    let preferred = nodes.iter().max_by_key(|node| node["priority"].as_u64()).expect("a node");
    (router.clone(), text(&preferred["name"]))
}

#[tokio::test(start_paused = true)]
async fn an_address_moves_two_seconds_after_the_next_pod_is_ready_and_not_before() {
    let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({}))]);
    put_slice(&rig, "a", [READY, None]);
    rig.create("a", &local(30000));
    let controller = rig.controller();
    rig.settle().await;
    assert_eq!(placed(&rig, "a").1, "n1");
    put_slice(&rig, "a", [TERMINATING, READY]);
    sleep(Duration::from_millis(1900)).await;
    assert_eq!(placed(&rig, "a").1, "n1", "kube-proxy of n2 may not serve it yet");
    sleep(Duration::from_millis(600)).await;
    assert_eq!(placed(&rig, "a").1, "n2");
    let vip = rig.api.list("virtualips").remove(0);
    assert_eq!(vip["spec"]["healthCheckNodePorts"], json!([30000]));
    rig.settle().await;
    controller.kill().await;
    rig.check_that_a_restart_writes_nothing("after a rollout").await;
}

#[tokio::test(start_paused = true)]
async fn whatever_pods_policies_and_controllers_do_an_address_is_where_it_is_served_best() {
    for seed in 1..=20 {
        let mut dice = Random::new(seed);
        let mut below = |end: u64| usize::try_from(dice.below(end)).expect("small");
        let mut rig = Rig::new(&[pool("p", &["192.0.2.16/29"], &json!({}))]);
        let shares = seed % 2 == 0;
        let load_sharing = if shares { "Local" } else { "None" };
        rig.api.put(custom("Announcement", "shares", &json!({ "loadSharing": load_sharing })));
        let mut pods: BTreeMap<&str, [Pod; 2]> = SERVICES.map(|service| (service, [READY, None])).into();
        let mut is_local: BTreeMap<&str, bool> = SERVICES.map(|service| (service, true)).into();
        for service in SERVICES {
            put_slice(&rig, service, pods[service]);
            rig.create(service, &local(30000));
        }
        let mut controller = rig.controller();
        rig.settle().await;
        for step in 0..40 {
            let service = SERVICES[below(3)];
            match below(10) {
                0 => {
                    controller.kill().await;
                    controller = rig.controller();
                }
                1 => {
                    let cluster = json!({ "spec": { "externalTrafficPolicy": "Cluster", "healthCheckNodePort": null } });
                    let to_local = !is_local[service];
                    is_local.insert(service, to_local);
                    rig.edit(service, &if to_local { local(30000) } else { cluster });
                }
                _ => {
                    let pod = [None, READY, TERMINATING][below(3)];
                    let of = pods.get_mut(service).expect("its pods");
                    of[below(2)] = pod;
                    put_slice(&rig, service, *of);
                }
            }
            // Often not enough for it to settle.
            sleep([Duration::from_millis(300), Duration::from_secs(1), SETTLED][below(3)]).await;
            if step % 8 != 7 {
                continue;
            }
            sleep(SETTLED).await;
            for service in SERVICES {
                let (router, node) = placed(&rig, service);
                let policy = router["spec"]["externalTrafficPolicy"].as_str().unwrap_or("Cluster");
                let worth = |pod: &Pod| match *pod {
                    None => 0,
                    TERMINATING => 1,
                    Some(_) => 2,
                };
                let best = pods[service].iter().map(worth).max();
                let is_best = |pod: &Pod| worth(pod) > 0 && Some(worth(pod)) == best;
                let best_nodes: BTreeSet<String> = std::iter::zip(NODES, &pods[service])
                    .filter(|(_, pod)| is_best(pod))
                    .map(|(node, _)| node.to_owned())
                    .collect();
                let servers = servers(&rig, service);
                if shares && is_local[service] && (best_nodes.len() > 1 || policy == "Cluster") {
                    let is_served = best_nodes.is_empty() || servers == best_nodes;
                    assert!(
                        is_served,
                        "seed {seed}, step {step}: {servers:?} serve {service}, pods {:?}",
                        pods[service]
                    );
                    assert_eq!(policy, "Cluster", "seed {seed}, step {step}: any node may direct packets");
                    continue;
                }
                assert_eq!(policy == "Local", is_local[service], "seed {seed}, step {step}: {router}");
                if !is_local[service] {
                    continue;
                }
                let here = NODES.iter().position(|one| **one == node).expect("a node");
                let found = pods[service].get(here).map(worth);
                assert_eq!(
                    found, best,
                    "seed {seed}, step {step}: {service} on {node}, pods {:?}",
                    pods[service]
                );
            }
        }
        rig.settle().await;
        controller.kill().await;
        rig.check_that_a_restart_writes_nothing(&format!("seed {seed}")).await;
    }
}
