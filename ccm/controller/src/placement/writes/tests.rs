mod random;

use k8s_openapi::api::core::v1::{Namespace, Node, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;
use windlass_api::{Announcement, NodeNetwork, VirtualIPPool};

use super::*;
use crate::allocation::settings::Settings;
use crate::state::shared::SharedState;
use crate::state::watched_kinds::WatchedKind;
use crate::stores::clock::Clock;
use windlass_ccm::store::{Informer, version};
use windlass_ccm::testing::with;
use windlass_ccm::watch::Event;

const NOW: &str = "2026-01-02T00:00:00Z";

fn list<K: WatchedKind + serde::de::DeserializeOwned>(shared: &SharedState, objects: &[Value]) {
    shared.handle(Event::<K>::Init);
    for object in objects {
        shared.handle(Event::<K>::InitApply(serde_json::from_value(object.clone()).expect("an object")));
    }
    shared.handle(Event::<K>::InitDone);
}

fn custom(kind: &str, name: &str, version: u64, spec: &Value) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": kind, "spec": spec,
        "metadata": { "name": name, "uid": format!("uid-{name}"), "resourceVersion": version.to_string(),
                      "generation": 1 },
    })
}

fn vip(address: &str, pool: &str) -> Value {
    let owners = json!([{ "namespace": "ns", "name": "web", "uid": "u" }]);
    custom("VirtualIP", address, 5, &json!({ "address": address, "pool": pool, "owners": owners }))
}

/// One node on 192.0.2.0/24, the pool `p` and these VIPs.
fn shared(pool: &str, vips: &[Value]) -> SharedState {
    let clock = Clock::new(|| NOW.parse().expect("a time"));
    let shared = SharedState::new(Settings::default(), clock, Informer::default(), Informer::default());
    let interfaces = json!([{ "name": "eth0", "mac": "02:00:00:00:00:01", "addresses": ["192.0.2.1/24"] }]);
    list::<VirtualIPPool>(
        &shared,
        &[custom("VirtualIPPool", pool, 2, &json!({ "addresses": ["192.0.2.8/29"] }))],
    );
    list::<Announcement>(&shared, &[]);
    list::<VirtualIP>(&shared, vips);
    list::<VirtualRouter>(&shared, &[]);
    list::<NodeNetwork>(&shared, &[custom("NodeNetwork", "n1", 3, &json!({ "interfaces": interfaces }))]);
    list::<Node>(&shared, &[json!({ "metadata": { "name": "n1", "uid": "n1", "resourceVersion": "4" } })]);
    list::<Service>(&shared, &[]);
    list::<Namespace>(&shared, &[]);
    list::<EndpointSlice>(&shared, &[]);
    shared
}

/// Plans and writes until there is nothing to write, as the API server would carry it out; returns the writes.
fn settle(shared: &SharedState) -> Vec<PlannedWrite> {
    let mut all = Vec::new();
    for _ in 0..10 {
        assert!(shared.review_pools(), "all is known");
        let writes = PlannedWrites::new(shared).expect("all is known");
        let writes: Vec<PlannedWrite> = writes.stages().into_iter().flatten().collect();
        if writes.is_empty() {
            return all;
        }
        for write in &writes {
            carry_out(shared, write);
        }
        all.extend(writes);
    }
    panic!("it never settles: {all:?}");
}

fn carry_out(shared: &SharedState, write: &PlannedWrite) {
    fn merged<K: WatchedKind + serde::Serialize + serde::de::DeserializeOwned>(old: &K, patch: &Value) -> K {
        let mut object = serde_json::to_value(old).expect("JSON");
        assert_eq!(
            object["metadata"]["resourceVersion"], patch["metadata"]["resourceVersion"],
            "a precondition"
        );
        object = with(object, patch);
        object["metadata"]["resourceVersion"] = json!((version(old) + 1).to_string());
        serde_json::from_value(object).expect("an object")
    }
    match write {
        PlannedWrite::CreateRouter(router) => {
            let mut router = (**router).clone();
            let number = 100 + shared.state().stores.routers.revision();
            router.metadata.resource_version = Some(number.to_string());
            router.metadata.uid = Some(number.to_string());
            shared.learn(router);
        }
        PlannedWrite::Router { name, patch } => {
            let old = Arc::clone(shared.state().stores.routers.get(name).expect("known"));
            shared.learn(merged(&*old, patch));
        }
        PlannedWrite::Vip { name, patch } | PlannedWrite::VipStatus { name, patch } => {
            let old = Arc::clone(shared.state().stores.vips.get(name).expect("known"));
            shared.learn(merged(&*old, patch));
        }
        PlannedWrite::PoolStatus { name, patch, .. } => {
            let old = Arc::clone(shared.state().stores.pools.get(name).expect("known"));
            shared.learn(merged(&*old, patch));
        }
        PlannedWrite::AnnouncementStatus { name, patch, .. } => {
            let old = Arc::clone(shared.state().stores.announcements.get(name).expect("known"));
            shared.learn(merged(&*old, patch));
        }
        PlannedWrite::DeleteRouter(router) => shared.forget(&**router),
    }
}

/// JSON merge patch (RFC 7386).
fn kinds(writes: &[PlannedWrite]) -> Vec<&'static str> {
    let kind = |write: &PlannedWrite| match write {
        PlannedWrite::CreateRouter(_) => "create router",
        PlannedWrite::Router { .. } => "router",
        PlannedWrite::Vip { .. } => "vip",
        PlannedWrite::VipStatus { .. } => "vip status",
        PlannedWrite::PoolStatus { .. } => "pool status",
        PlannedWrite::AnnouncementStatus { .. } => "announcement status",
        PlannedWrite::DeleteRouter(_) => "delete router",
    };
    writes.iter().map(kind).collect()
}

#[test]
fn a_new_vip_gets_its_router_and_then_nothing_more_is_written() {
    let shared = shared("p", &[vip("192.0.2.8", "p")]);
    let writes = settle(&shared);
    assert_eq!(kinds(&writes), ["create router", "vip", "pool status"]);
    let state = shared.state();
    let vip = state.stores.vips.get("192.0.2.8").expect("known");
    assert_eq!(vip.spec.virtual_router.as_deref(), Some("v4-192.0.2.0-24-64"));
    let status = state.stores.pools.get("p").expect("known").status.clone().unwrap_or_default();
    assert_eq!(status.ipv4.map(|counts| (counts.total, counts.assigned, counts.available)), Some((8, 1, 7)));
    assert_eq!(status.ipv6, None);
}

#[test]
fn a_router_that_carries_nothing_goes_after_all_else() {
    let shared = shared("p", &[vip("192.0.2.8", "p")]);
    settle(&shared);
    let gone = Arc::clone(shared.state().stores.vips.get("192.0.2.8").expect("known"));
    shared.forget(&*gone);
    assert_eq!(kinds(&settle(&shared)), ["delete router", "pool status"]);
}

#[test]
fn an_address_whose_pool_was_renamed_belongs_to_the_new_one() {
    let shared = shared("renamed", &[vip("192.0.2.8", "p")]);
    settle(&shared);
    let state = shared.state();
    let vip = state.stores.vips.get("192.0.2.8").expect("known");
    assert_eq!((vip.spec.pool.as_str(), vip.spec.virtual_router.is_some()), ("renamed", true));
}

#[test]
fn an_address_in_quarantine_leaves_the_virtual_router_that_a_hand_left_it_in_or_named() {
    let quarantine = json!({ "reason": "Released", "until": NOW, "message": "m" });
    let shared = shared("p", &[vip("192.0.2.8", "p"), vip("192.0.2.9", "p")]);
    settle(&shared);
    let change = |change: &dyn Fn(&mut Value)| {
        let known = Arc::clone(shared.state().stores.vips.get("192.0.2.8").expect("known"));
        let mut body = serde_json::to_value(&*known).expect("JSON");
        change(&mut body);
        body["metadata"]["resourceVersion"] = json!((version(&*known) + 1).to_string());
        shared.learn::<VirtualIP>(serde_json::from_value(body).expect("a VirtualIP"));
    };
    let router = || shared.state().stores.vips.get("192.0.2.8").expect("known").spec.virtual_router.clone();
    change(&|vip| vip["spec"]["quarantine"] = quarantine.clone());
    assert!(router().is_some());
    assert_eq!((kinds(&settle(&shared))[0], router()), ("vip", None), "left in its virtual router");
    change(&|vip| vip["spec"]["virtualRouter"] = json!("nowhere"));
    assert_eq!((kinds(&settle(&shared)), router()), (vec!["vip"], None), "sent to one that is not there");
    change(&|vip| vip["spec"]["quarantine"] = Value::Null);
    settle(&shared);
    assert_eq!(router().as_deref(), Some("v4-192.0.2.0-24-64"), "in service again");
}

#[test]
fn what_the_last_node_announced_before_it_went_is_announced_no_more() {
    let shared = shared("p", &[vip("192.0.2.8", "p")]);
    settle(&shared);
    let announced = || {
        let mut vip = serde_json::to_value(&**shared.state().stores.vips.get("192.0.2.8").expect("known"))
            .expect("JSON");
        vip["metadata"]["resourceVersion"] = json!("50");
        vip["status"] = json!({ "activeNode": "n1", "conditions": [
            { "type": "Announced", "status": "True", "reason": "Active", "message": "m",
              "lastTransitionTime": "2026-01-01T00:00:00Z" } ] });
        shared.learn::<VirtualIP>(serde_json::from_value(vip).expect("a VirtualIP"));
    };
    let network =
        |spec: &Value| serde_json::from_value(custom("NodeNetwork", "n1", 60, spec)).expect("a NodeNetwork");
    let shown = || {
        let vip = Arc::clone(shared.state().stores.vips.get("192.0.2.8").expect("known"));
        let condition = vip.announced().expect("a condition").clone();
        let active = vip.status.clone().unwrap_or_default().active_node;
        (condition.status, condition.reason, active, vip.spec.virtual_router.is_some())
    };
    announced();
    // Its agent, which is there, tells of the subnet that it lost.
    shared.learn::<NodeNetwork>(network(&json!({ "interfaces": [] })));
    settle(&shared);
    assert_eq!(
        shown(),
        ("True".into(), "Active".into(), Some("n1".into()), true),
        "the agent speaks for itself"
    );
    shared.forget::<NodeNetwork>(&network(&json!({ "interfaces": [] })));
    settle(&shared);
    assert_eq!(shown().0, "True", "an agent that does not report may still announce");
    let node = shared.state().stores.nodes.get("n1").expect("known");
    shared.forget::<Node>(&node);
    assert!(kinds(&settle(&shared)).contains(&"vip status"));
    assert_eq!(
        shown(),
        ("False".into(), "NoSegment".into(), None, true),
        "it stays for when the node is back"
    );
}

#[test]
fn since_when_nobody_announces_an_address_is_when_that_became_so() {
    let mut lost = vip("203.0.113.1", "p");
    lost["status"] = json!({ "conditions": [{ "type": "Announced", "status": "True", "reason": "R", "message": "m",
                                              "lastTransitionTime": "2026-01-01T00:00:00Z" }] });
    let mut lost: VirtualIP = serde_json::from_value(lost).expect("a VirtualIP");
    let conditions = &mut lost.status.get_or_insert_default().conditions;
    conditions.push(Condition { type_: CONDITION_ADDRESS_CONFLICT.into(), ..conditions[0].clone() });
    let why = |pool: &str| Unplaced::Segment { address: lost.spec.address, pool: pool.to_owned() };
    let at = |second: i64| Timestamp::from_second(second).expect("a time");
    let said = not_announced(&lost, &why("p"), at(1_800_000_000)).expect("news");
    assert_eq!(said[0].last_transition_time.0, at(1_800_000_000));
    assert_eq!(said.len(), 1, "nobody uses it beside a node");
    let mut again = lost.clone();
    again.status.get_or_insert_default().conditions = said;
    assert_eq!(not_announced(&again, &why("p"), at(1_900_000_000)), None);
    let other = not_announced(&again, &why("q"), at(1_900_000_000)).expect("other words");
    assert_eq!(other[0].last_transition_time.0, at(1_800_000_000), "it was not announced before, either");
}

#[test]
fn an_address_that_nobody_can_announce_says_so_once_and_others_conditions_stay() {
    let mut lost = vip("203.0.113.1", "p");
    lost["status"] = json!({ "conditions": [ { "type": "Other", "status": "True", "reason": "R", "message": "m",
                                               "lastTransitionTime": "2026-01-01T00:00:00Z" } ] });
    let shared = shared("p", &[lost]);
    assert_eq!(kinds(&settle(&shared)), ["vip status", "pool status"]);
    let state = shared.state();
    let vip = state.stores.vips.get("203.0.113.1").expect("known");
    let said: Vec<_> = vip
        .status
        .iter()
        .flat_map(|status| &status.conditions)
        .map(|one| format!("{} {} {}", one.type_, one.status, one.reason))
        .collect();
    assert_eq!(said, ["Other True R", "Announced False NoSegment"]);
}

#[test]
fn the_reason_that_an_address_is_not_shared_is_in_its_status_while_it_is_to_be() {
    let mut vip = vip("192.0.2.9", "p");
    vip["spec"]["ports"] = json!([{ "protocol": "TCP", "port": 80 }]);
    vip["spec"]["announcement"] = json!("a");
    let shared = shared("p", &[vip]);
    let reason = || {
        let state = shared.state();
        let status = state.stores.vips.get("192.0.2.9").and_then(|vip| vip.status.clone());
        let conditions = status.map(|status| status.conditions).unwrap_or_default();
        find(&conditions, CONDITION_LOAD_SHARED).map(|one| format!("{} {}", one.status, one.reason))
    };
    list::<Announcement>(&shared, &[custom("Announcement", "a", 6, &json!({ "loadSharing": "All" }))]);
    settle(&shared);
    assert_eq!(reason().as_deref(), Some("False AgentTooOld"));
    list::<Announcement>(&shared, &[]);
    settle(&shared);
    assert_eq!(reason(), None);
}

#[test]
fn former_servers_that_are_over_do_not_stay_in_the_object() {
    let nodes = vec![("n1".to_owned(), "192.0.2.1".parse().expect("an address"))];
    let table = windlass_api::LotTable { lots: [0; windlass_api::LOTS], former: Vec::new() };
    let shared = SharedLoad::of(windlass_api::SharedBy::Connection, nodes, &table);
    assert_eq!(shared_patch(shared.as_ref()).get("formerLots"), Some(&Value::Null));
    assert_eq!(shared_patch(None), Value::Null);
}
