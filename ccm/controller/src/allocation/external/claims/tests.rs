use std::sync::Arc;

use futures::{FutureExt as _, StreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_api::{Announcement, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::events::{EventSink, Recorder};
use windlass_ccm::testing::apiserver::ApiServer;
use windlass_ccm::watch::Event;

use super::*;
use crate::provider::load_balancer::Provider;
use crate::state::ClusterState;
use crate::state::shared::SharedState;

fn object<K: serde::de::DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).expect("an object")
}

/// A cluster with this many Services that each list as many addresses of a pool that does not allow it.
fn listed(services: usize, entries: usize) -> SharedState {
    let shared = SharedState::default();
    let addresses: Vec<String> = (0..entries).map(|end| format!("192.0.2.{end}")).collect();
    shared.list((0..services).map(|number| service(&format!("s{number:03}"), &addresses)).collect());
    shared.list::<VirtualIP>(vec![]);
    shared.list::<VirtualRouter>(vec![]);
    shared.list::<NodeNetwork>(vec![]);
    shared.list::<Node>(vec![]);
    shared.list::<Namespace>(vec![]);
    shared.list::<EndpointSlice>(vec![]);
    shared.list::<Announcement>(vec![]);
    shared.list(vec![pool(1, false)]);
    shared
}

fn service(name: &str, addresses: &[String]) -> Service {
    object(json!({
        "metadata": { "namespace": "evil", "name": name, "uid": name, "resourceVersion": "1" },
        "spec": { "type": "ClusterIP", "externalIPs": addresses, "ports": [{ "port": 80, "protocol": "TCP" }] },
    }))
}

fn pool(version: u64, allows: bool) -> VirtualIPPool {
    object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool",
        "metadata": { "name": "p", "uid": "p", "resourceVersion": version.to_string() },
        "spec": { "addresses": ["192.0.2.0/24"], "allowExternalIPs": allows },
    }))
}

/// How many entries are decided on in each portion of a pass.
fn portions(shared: &SharedState) -> Vec<usize> {
    let ClusterState { allocation, stores, .. } = &mut *shared.state();
    let (mut after, mut portions, mut before) = (None, Vec::new(), 0);
    loop {
        after = allocation.external_ip_steps(stores, after.as_ref()).last;
        let refused = allocation.external_ips.refused().count("p");
        portions.push(refused - before);
        before = refused;
        if after.is_none() {
            return portions;
        }
    }
}

// shows: threats T-04
#[test]
fn a_pass_leaves_the_state_to_others_after_a_number_of_entries_however_services_share_them() {
    assert_eq!(portions(&listed(300, 1)), [256, 44, 0], "many Services");
    assert_eq!(portions(&listed(9, 64)), [256, 256, 64, 0], "many entries");
    // No more than what one Service may have beyond it.
    assert_eq!(portions(&listed(7, 60)), [300, 120, 0], "a Service is looked at as a whole");
    assert_eq!(portions(&listed(0, 1)), [0]);
}

// shows: threats T-04
#[test]
fn a_pool_that_changes_has_those_looked_at_that_hold_an_external_ip_and_not_all_that_list_one() {
    let shared = listed(300, 64);
    let queued = || {
        let (mut names, mut queue) = (Vec::new(), Arc::clone(&shared.services_to_sync).stream());
        while let Some(Some(key)) = queue.next().now_or_never() {
            names.push(key.name);
        }
        names
    };
    let looked_at = |version, allows| {
        shared.handle(Event::Apply(pool(version, allows)));
        let candidates = {
            let ClusterState { allocation, stores, .. } = &mut *shared.state();
            allocation.take_orphan_candidates(stores)
        };
        (queued(), candidates.into_iter().map(|one| one.name).collect::<Vec<_>>())
    };
    queued();
    assert_eq!(looked_at(2, true), (vec![], vec![]));
    // The first gets them all; the others have the same port.
    portions(&shared);
    assert_eq!(looked_at(3, false), (vec!["s000".to_owned()], vec!["s000".to_owned()]));
}

// shows: threats T-04
#[tokio::test(start_paused = true)]
async fn a_victim_is_told_however_many_services_have_to_be_told_that_they_may_not_have_what_they_list() {
    // More than there is room for among the events that are yet to be written.
    let shared = Arc::new(listed(5000, 1));
    shared.handle(Event::Apply(service("victim", &[])));
    shared.handle(Event::Apply(object::<VirtualIP>(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": "192.0.2.200", "uid": "vip", "resourceVersion": "1" },
        "spec": {
            "address": "192.0.2.200", "pool": "p",
            "owners": [{ "namespace": "evil", "name": "victim", "uid": "victim" }],
        },
    }))));
    // The last of them all.
    shared.handle(Event::Apply(service("thief", &["192.0.2.200".to_owned()])));
    let (api, token) = (ApiServer::default(), CancellationToken::new());
    let (events, writer) = EventSink::new(Recorder::new(api.client(), "test"), token);
    let provider = Provider::new(api.client(), shared, events);
    provider.external_claims().await;
    drop(provider);
    writer.await;
    let told = api.list("events");
    let victims: Vec<_> = told.iter().filter(|event| event["reason"] == event::FOREIGN_EXTERNAL_IP).collect();
    assert_eq!(victims.len(), 1, "of {} events", told.len());
    assert_eq!(victims[0]["involvedObject"]["name"], "victim");
}
