use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::{Announcement, NodeNetwork, VirtualIP, VirtualIPPool, VirtualRouter};
use windlass_ccm::store::Change;
use windlass_ccm::watch::Event;

use super::shared::SharedState;
use super::watched_kinds::WatchedKind;
use super::*;
use crate::allocation::ledger::ClaimAction;
use crate::allocation::request::owner;
use crate::placement::plan::why_unplaced;
use crate::wakeup::Urgency;

fn object<K: serde::de::DeserializeOwned>(body: Value) -> K {
    serde_json::from_value(body).expect("an object")
}

fn pool(name: &str, addresses: &[&str]) -> VirtualIPPool {
    object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIPPool",
        "metadata": { "name": name, "uid": name, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "addresses": addresses },
    }))
}

/// A Service created at minute `minute`, whose status shows `address`.
fn service(name: &str, minute: u8, address: Option<&str>) -> Service {
    let ingress: Vec<_> = address.iter().map(|ip| json!({ "ip": ip, "ipMode": "VIP" })).collect();
    object(json!({
        "metadata": {
            "namespace": "ns", "name": name, "uid": format!("uid-{name}"), "resourceVersion": "1",
            "creationTimestamp": format!("2026-01-01T00:{minute:02}:00Z"),
        },
        "spec": { "type": "LoadBalancer" },
        "status": { "loadBalancer": { "ingress": ingress } },
    }))
}

fn vip(address: &str, owner: &str, version: u64) -> VirtualIP {
    object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": address, "uid": format!("uid-{address}"), "resourceVersion": version.to_string() },
        "spec": {
            "address": address, "pool": "p",
            "owners": [ { "namespace": "ns", "name": owner, "uid": format!("uid-{owner}") } ],
        },
    }))
}

impl SharedState {
    /// A complete list of one kind, as a watch begins with it.
    pub(crate) fn list<K: WatchedKind>(&self, objects: Vec<K>) {
        self.handle(Event::<K>::Init);
        for object in objects {
            self.handle(Event::InitApply(object));
        }
        self.handle(Event::<K>::InitDone);
    }
}

/// All lists complete.
fn started(pools: Vec<VirtualIPPool>, vips: Vec<VirtualIP>, services: Vec<Service>) -> SharedState {
    let shared = SharedState::default();
    shared.list(services);
    shared.list(vips);
    shared.list::<VirtualRouter>(vec![]);
    shared.list::<NodeNetwork>(vec![]);
    shared.list::<Node>(vec![]);
    shared.list::<Namespace>(vec![]);
    shared.list::<EndpointSlice>(vec![]);
    shared.list::<Announcement>(vec![]);
    assert!(!shared.state().allocation.is_ready(), "nobody is given anything before every list is complete");
    shared.list(pools);
    assert!(shared.state().allocation.is_ready());
    shared
}

fn named(shared: &SharedState) -> Vec<String> {
    let mut names = Vec::new();
    let mut stream = Arc::clone(&shared.services_to_sync).stream();
    while let Some(Some(key)) = futures::FutureExt::now_or_never(futures::StreamExt::next(&mut stream)) {
        names.push(key.name);
    }
    names
}

fn wait(shared: &SharedState, service: &Service) {
    let owner = owner(service).expect("an owner");
    let mut state = shared.state();
    let wanted = state.allocation.base_request(&state.stores, service).expect("a request");
    assert!(state.allocation.allocate(&owner, service, wanted).0.is_err(), "there must be no address left");
}

#[tokio::test(start_paused = true)]
async fn a_promise_that_comes_to_nothing_brings_a_pass_that_counts_it_no_more() {
    let shared = started(vec![pool("p", &["192.0.2.1/32"])], vec![], vec![service("a", 0, None)]);
    let pass = async || {
        tokio::time::timeout(Duration::from_secs(9), shared.planner_wakeup.due_after(Instant::now())).await
    };
    while pass().await.is_ok() {}
    let (owner, address) =
        (owner(&service("a", 0, None)).expect("an owner"), "192.0.2.1".parse().expect("an address"));
    let service = service("a", 0, None);
    {
        let mut state = shared.state();
        let wanted = state.allocation.base_request(&state.stores, &service).expect("a request");
        assert!(state.allocation.allocate(&owner, &service, wanted).0.is_ok());
    }
    shared.vip_absent(address, &owner, None);
    assert!(shared.state().ledger().held_by(&owner).is_empty());
    assert!(pass().await.is_ok());
}

fn claims(shared: &SharedState) -> Vec<String> {
    let state = shared.state();
    let claims = state.ledger().claims().flat_map(|(address, holders)| {
        let state = &state;
        holders.iter().map(move |holder| {
            let claim = match state.ledger().claim_action(holder, address) {
                ClaimAction::Owned => "object",
                ClaimAction::Create => "reserved",
                ClaimAction::Join { .. } | ClaimAction::LiftQuarantine(_) => "another's object",
            };
            format!("{address} {} {claim}", holder.name)
        })
    });
    claims.collect()
}

#[test]
fn the_ledger_is_rebuilt_from_objects_first_and_then_from_what_services_show() {
    let shared = started(
        vec![pool("p", &["192.0.2.0/29"])],
        vec![vip("192.0.2.1", "a", 3), vip("203.0.113.9", "gone", 4)],
        vec![
            service("a", 9, Some("192.0.2.1")),
            service("b", 5, Some("192.0.2.2")),
            service("c", 6, Some("192.0.2.2")),
            service("d", 7, Some("198.51.100.1")),
            service("e", 8, None),
        ],
    );
    assert_eq!(
        claims(&shared),
        [
            "192.0.2.0 c reserved",
            "192.0.2.1 a object",
            "192.0.2.2 b reserved",
            "192.0.2.3 d reserved",
            "192.0.2.4 e reserved",
            "203.0.113.9 gone object"
        ],
        "of two that show one address the older has it; what is in no pool is not ours; the others follow by age"
    );
}

#[test]
fn a_restart_knows_what_was_known_before() {
    let build = || {
        started(
            vec![pool("p", &["192.0.2.0/29"])],
            vec![vip("192.0.2.3", "a", 3), vip("192.0.2.1", "b", 7)],
            vec![service("a", 1, Some("192.0.2.3")), service("b", 2, Some("192.0.2.1"))],
        )
    };
    let (before, after) = (build(), build());
    assert_eq!(before.state().ledger(), after.state().ledger());
    for name in ["a", "b"] {
        let service = service(name, 1, None);
        let owner = owner(&service).expect("an owner");
        let held = before.state().ledger().held_by(&owner);
        let mut after = after.state();
        let wanted = after.allocation.base_request(&after.stores, &service).expect("a request");
        let given = after.allocation.allocate(&owner, &service, wanted).0.expect("kept");
        assert_eq!([given.addresses[0].address], held[..]);
    }
}

#[test]
fn a_freed_address_is_offered_to_the_oldest_that_waits_and_to_no_more_than_it_serves() {
    let (old, young) = (service("old", 1, None), service("young", 2, None));
    let mut elsewhere = service("elsewhere", 0, None);
    elsewhere.metadata.annotations = Some([("windlass.dev/pool".to_owned(), "q".to_owned())].into());
    let shared = started(
        vec![pool("p", &["192.0.2.0/31"]), pool("q", &["203.0.113.0/32"])],
        vec![vip("192.0.2.0", "a", 3), vip("192.0.2.1", "b", 4), vip("203.0.113.0", "c", 5)],
        vec![young.clone(), old.clone(), elsewhere.clone()],
    );
    for one in [&young, &elsewhere, &old] {
        wait(&shared, one);
    }
    assert!(named(&shared).is_empty());
    shared.forget(&vip("192.0.2.0", "a", 8));
    assert_eq!(named(&shared), ["old"]);
    assert!(claims(&shared).contains(&"192.0.2.0 old reserved".to_owned()), "nobody can be faster");
    // One that wants no address any more waits no longer.
    let mut changed = elsewhere;
    changed.metadata.resource_version = Some("19".into());
    changed.spec.get_or_insert_default().type_ = Some("ClusterIP".into());
    shared.learn(changed);
    shared.forget(&vip("203.0.113.0", "c", 9));
    assert_eq!(named(&shared), ["young"]);
}

#[test]
fn a_pool_that_grows_serves_those_that_wait_oldest_first() {
    let waiting = [service("young", 2, None), service("old", 1, None), service("youngest", 3, None)];
    let shared =
        started(vec![pool("p", &["192.0.2.0/32"])], vec![vip("192.0.2.0", "a", 3)], waiting.to_vec());
    let mut grown = pool("p", &["192.0.2.0/31", "192.0.2.9/32"]);
    grown.metadata.resource_version = Some("20".into());
    shared.learn(grown);
    assert_eq!(named(&shared), ["old", "young"]);
}

#[test]
fn a_service_is_named_when_it_asks_for_something_else_though_the_service_controller_sees_no_change() {
    let web = service("web", 1, None);
    let shared = started(vec![], vec![], vec![web.clone()]);
    let learn = |version: u64, change: &dyn Fn(&mut Service)| {
        let mut changed = web.clone();
        changed.metadata.resource_version = Some(version.to_string());
        change(&mut changed);
        shared.learn(changed);
        named(&shared)
    };
    let label = |service: &mut Service| {
        service.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    };
    assert_eq!(learn(5, &label), ["web"]);
    let finalizer = |service: &mut Service| {
        label(service);
        service.metadata.finalizers = Some(vec!["example.org/x".into()]);
    };
    assert!(learn(6, &finalizer).is_empty());
    let local = |service: &mut Service| {
        finalizer(service);
        service.spec.get_or_insert_default().external_traffic_policy = Some("Local".into());
    };
    assert_eq!(learn(7, &local), ["web"]);
    let selector = |service: &mut Service| {
        local(service);
        service.spec.get_or_insert_default().selector = Some([("app".to_owned(), "web".to_owned())].into());
    };
    assert_eq!(learn(8, &selector), ["web"]);
}

#[test]
fn a_label_of_its_namespace_that_opens_a_pool_serves_a_service_that_waits_36() {
    let namespace = |team: &str, version: u64| -> Namespace {
        object(json!({ "metadata": {
            "name": "ns", "uid": "ns", "resourceVersion": version.to_string(), "labels": { "team": team } } }))
    };
    let mut of_team = pool("p", &["192.0.2.0/32"]);
    of_team.spec.namespace_selectors = vec![object(json!({ "matchLabels": { "team": "x" } }))];
    let shared = started(vec![of_team], vec![], vec![service("web", 1, None)]);
    shared.learn(namespace("y", 5));
    assert!(named(&shared).is_empty());
    shared.learn(namespace("x", 6));
    assert_eq!(named(&shared), ["web"]);
    shared.learn(namespace("y", 7));
    assert!(named(&shared).is_empty());
    assert_eq!(claims(&shared), ["192.0.2.0 web reserved"], "what is given is kept");
}

#[test]
fn a_service_is_named_when_another_lets_it_share_or_no_longer() {
    let shared = started(vec![pool("p", &["192.0.2.0/32"])], vec![], vec![]);
    let with_port = |name: &str, port: u16| -> Service {
        let mut service = service(name, 1, None);
        service.metadata.annotations = Some([("windlass.dev/sharing-key".to_owned(), "k".to_owned())].into());
        service.spec.get_or_insert_default().ports = Some(vec![object(json!({ "port": port }))]);
        service
    };
    let place = |service: &Service| {
        let owner = owner(service).expect("an owner");
        let mut state = shared.state();
        let wanted = state.allocation.base_request(&state.stores, service).expect("a request");
        let (placed, affected) = state.allocation.allocate(&owner, service, wanted);
        (placed.is_ok(), affected.into_iter().map(|key| key.name).collect::<Vec<_>>())
    };
    assert_eq!(place(&with_port("a", 80)), (true, vec![]));
    assert_eq!(place(&with_port("b", 80)), (false, vec![]), "the same port");
    assert_eq!(place(&with_port("a", 81)), (true, vec!["b".to_owned(), "b".to_owned()]));
    assert_eq!(place(&with_port("b", 80)), (true, vec![]), "nothing new");
    assert_eq!(place(&with_port("a", 80)), (false, vec![]), "b stays");
}

#[test]
fn a_service_is_named_when_its_address_is_announced_or_cannot_be() {
    let shared = started(
        vec![pool("p", &["192.0.2.0/31"])],
        vec![vip("192.0.2.0", "a", 3)],
        vec![service("a", 1, None)],
    );
    let because = |version, status: &str, reason: &str, message: &str| {
        let mut vip = vip("192.0.2.0", "a", version);
        let condition = json!({ "type": "Announced", "status": status, "reason": reason, "message": message,
                                "lastTransitionTime": "2026-01-01T00:00:00Z" });
        vip.status = Some(object(json!({ "conditions": [condition] })));
        vip.spec.virtual_router = (status == "True").then(|| "v4".to_owned());
        vip
    };
    let with = |version, status: &str, message: &str| {
        let reason = if status == "True" { "Active" } else { "NoSegment" };
        because(version, status, reason, message)
    };
    assert!(named(&shared).is_empty());
    let rows: [(u64, &str, &str, &[&str]); 5] = [
        (4, "False", "no subnet", &["a"]),
        (5, "False", "no subnet", &[]),
        (6, "False", "no interface", &["a"]),
        (7, "True", "node n1", &["a"]),
        (8, "True", "node n2", &[]),
    ];
    for (version, status, message, expected) in rows {
        shared.learn(with(version, status, message));
        assert_eq!(named(&shared), expected, "{status} {message}");
    }
    assert!(with(9, "True", "").is_announced());
    assert_eq!(why_unplaced(&with(9, "False", "no subnet")), Some("no subnet"));
    let mut placed = with(9, "False", "no subnet");
    placed.spec.virtual_router = Some("v4".into());
    assert_eq!(why_unplaced(&placed), None, "a router carries it now");
    for reason in ["Quarantined", "AgentStopped", "AddressTaken"] {
        let back = because(9, "False", reason, "an agent's word of the time before");
        assert_eq!(why_unplaced(&back), None, "{reason}");
    }
}

#[test]
fn an_object_deleted_by_hand_names_its_service_and_keeps_its_address() {
    let shared = started(
        vec![pool("p", &["192.0.2.0/31"])],
        vec![vip("192.0.2.0", "a", 3)],
        vec![service("a", 1, Some("192.0.2.0"))],
    );
    shared.forget(&vip("192.0.2.0", "a", 4));
    assert_eq!(named(&shared), ["a"]);
    assert_eq!(claims(&shared), ["192.0.2.0 a reserved"]);
}

#[test]
fn a_service_that_shows_anothers_address_is_named_also_when_pools_were_heard_of_first() {
    let services = || vec![service("a", 1, Some("192.0.2.1")), service("b", 2, Some("192.0.2.2"))];
    let vips = vec![vip("192.0.2.1", "a", 1), vip("192.0.2.2", "b", 1)];
    let shared = started(vec![pool("p", &["192.0.2.0/28"])], vips, services());
    named(&shared);
    let mut list = services();
    for service in &mut list {
        service.metadata.resource_version = Some("2".to_owned());
    }
    // The service controller has seen it before there was a pool, and was not concerned.
    let ingress = |service: &mut Service| service.status.as_mut()?.load_balancer.as_mut()?.ingress.clone();
    let [a, b] = &mut list[..] else { unreachable!() };
    let both = ingress(b).into_iter().chain(ingress(a)).flatten().collect();
    *b.status.as_mut().unwrap().load_balancer.as_mut().unwrap() = LoadBalancerStatus { ingress: Some(both) };
    shared.list(list);
    assert_eq!(named(&shared), ["b"]);
}

#[test]
fn a_broken_watch_is_made_good_by_its_next_list() {
    let shared = started(
        vec![pool("p", &["192.0.2.0/30"])],
        vec![vip("192.0.2.0", "a", 3), vip("192.0.2.1", "b", 4)],
        vec![service("a", 1, None)],
    );
    shared.list(vec![vip("192.0.2.2", "c", 9)]);
    assert_eq!(claims(&shared), ["192.0.2.0 a reserved", "192.0.2.2 c object"], "b's is free: b is gone");
    assert_eq!(named(&shared), ["a"]);
}

#[test]
fn addresses_of_nodes_are_never_given_but_a_bound_vip_is_none() {
    let shared = started(vec![pool("p", &["192.0.2.0/30"])], vec![vip("192.0.2.2", "a", 3)], vec![]);
    let node = json!({ "metadata": { "name": "n1", "uid": "n1", "resourceVersion": "8" } });
    shared.learn::<Node>(object(node));
    shared.learn::<NodeNetwork>(object(json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": "NodeNetwork",
        "metadata": { "name": "n1", "uid": "n1", "resourceVersion": "9" },
        "spec": { "interfaces": [
            { "name": "eth0", "mac": "02:00:00:00:00:01", "addresses": ["192.0.2.1/16", "192.0.2.2/32"] } ] },
    })));
    assert!(shared.review_pools());
    let reviewed = shared.state().allocation.reviewed();
    assert_eq!(reviewed[0].pool.addresses.to_string(), "192.0.2.0, 192.0.2.2-192.0.2.3");
    assert_eq!(reviewed[0].problems.len(), 1);
}

#[test]
fn only_what_the_planner_looks_at_of_a_node_calls_for_a_pass() {
    let node = |version: u64, change: &[(&str, Value)]| {
        let mut body = json!({
            "metadata": { "name": "n1", "uid": "n1", "resourceVersion": version.to_string(), "labels": {} },
            "spec": { "podCIDRs": ["10.0.0.0/24"] },
            "status": { "addresses": [ { "type": "InternalIP", "address": "192.0.2.1" } ], "conditions": [] },
        });
        for (path, value) in change {
            *body.pointer_mut(path).expect("a field") = value.clone();
        }
        Arc::new(object::<Node>(body))
    };
    let exclude = "node.kubernetes.io/exclude-from-external-load-balancers";
    let ready = |at: &str| json!([{ "type": "Ready", "status": "True", "lastHeartbeatTime": at }]);
    let rows = [
        ("a heartbeat", "/status/conditions", ready("2026-01-01T00:00:10Z"), Urgency::Never),
        ("a label", "/metadata/labels", json!({ "rack": "7" }), Urgency::Never),
        ("excluded", "/metadata/labels", json!({ exclude: "" }), Urgency::Now),
        ("pods", "/spec/podCIDRs", json!(["10.0.1.0/24"]), Urgency::Now),
        (
            "address",
            "/status/addresses",
            json!([{ "type": "InternalIP", "address": "192.0.2.2" }]),
            Urgency::Now,
        ),
    ];
    let state = ClusterState::default();
    for (what, path, value, expected) in rows {
        let news = Change { old: Some(node(1, &[])), new: Some(node(2, &[(path, value)])) };
        assert_eq!(Node::urgency(&state, &news), expected, "{what}");
    }
    assert_eq!(
        Node::urgency(&state, &Change { old: None, new: Some(node(1, &[])) }),
        Urgency::Now,
        "it joins"
    );
    assert_eq!(
        Node::urgency(&state, &Change { old: Some(node(1, &[])), new: None }),
        Urgency::Now,
        "it leaves"
    );
}
