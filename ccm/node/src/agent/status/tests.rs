use std::sync::{Arc, LazyLock};
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use windlass_api::{
    ConnectionPolicy, ExternalTrafficPolicy, Quarantine, QuarantineReason, ServiceRef, Transport,
    VirtualIPSpec, VirtualIPStatus, VirtualRouterSpec, VirtualRouterStatus,
};

use super::super::activity::{CONFIRM_AFTER, Claimant, ConflictingHost};

use super::*;

mod connections;
mod load_shared;

const NOW: Timestamp = Timestamp::constant(1_700_000_000, 0);

fn assignment(peers: &[&str]) -> Assignment {
    Assignment {
        forced: [].into(),
        virtual_router: "a".into(),
        interface: "eth0".into(),
        vrid: 64,
        priority: 200,
        interval_milliseconds: 100,
        source: "192.0.2.11".parse().unwrap(),
        peers: peers.iter().map(|peer| peer.parse().unwrap()).collect(),
        addresses: ["192.0.2.200".parse().unwrap()].into(),
        unproven: [].into(),
        preferred: [].into(),
        before: 0,
        health_check_node_ports: [].into(),
        preempt_delay_seconds: 0,
        transport: Transport::Multicast,
        unicast_fallback: true,
        virtual_mac: false,
        key_id: None,
        checks: [].into(),
        address_conflict: AddressConflictPolicy::Defend,
        connections: ConnectionPolicy::Forward,
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        replicas: vec![],
    }
}

const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 200));

/// Active, and answering for the address.
fn activity(number: u64) -> RouterActivity {
    let period = ActivePeriod { number, since: Timestamp::constant(1_690_000_000, 0) };
    RouterActivity { period: Some(period), claimed: [ADDRESS].into(), ..RouterActivity::default() }
}

static GUARDED: Unguarded = Unguarded { all: None, some: BTreeMap::new() };
static NOTHING_SHARED: LazyLock<SharingState> = LazyLock::new(SharingState::default);
static NOTHING_FOUND: BTreeMap<RouterKey, Replicated> = BTreeMap::new();

fn context(now: Instant) -> NodeContext<'static> {
    NodeContext {
        node: "n1",
        now,
        wall: NOW,
        unguarded: &GUARDED,
        connections: &NOTHING_FOUND,
        sharing: &NOTHING_SHARED,
    }
}

fn router(active: Option<&str>, transitions: i64) -> Arc<VirtualRouter> {
    let spec = VirtualRouterSpec {
        vrid: 64,
        segment: "192.0.2.0/24".into(),
        advertisement_interval_milliseconds: 100,
        nodes: vec![],
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        announcement: None,
        preempt_delay_seconds: 0,
        transport: Transport::default(),
        unicast_fallback: true,
        virtual_mac: false,
        authentication: None,
        checks: vec![],
        address_conflict: AddressConflictPolicy::Defend,
        connections: ConnectionPolicy::Forward,
        replaces: None,
    };
    let mut router = VirtualRouter::new("a", spec);
    router.metadata.uid = Some("uid-a".into());
    router.metadata.resource_version = Some("7".into());
    let active_since = active.map(|_| "2020-01-01T00:00:00Z".to_owned());
    router.status = Some(VirtualRouterStatus {
        active_node: active.map(str::to_owned),
        active_since,
        transitions,
        conditions: vec![],
    });
    Arc::new(router)
}

fn condition(type_: &str, status: &str) -> Condition {
    Condition {
        type_: type_.into(),
        status: status.into(),
        reason: "Was".into(),
        message: "as it was".into(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::UNIX_EPOCH),
    }
}

fn vip(active: Option<&str>, conditions: Vec<Condition>) -> Arc<VirtualIP> {
    let spec = VirtualIPSpec {
        on_address_in_use: windlass_api::OnAddressInUse::Refuse,
        load_sharing: None,
        former_pools: Vec::new(),
        address: "192.0.2.200".parse().unwrap(),
        pool: "lan".into(),
        owners: vec![ServiceRef { namespace: "default".into(), name: "web".into(), uid: "1".into() }],
        virtual_router: Some("a".into()),
        announcement: None,
        sources: Vec::new(),
        ports: Vec::new(),
        external_traffic_policy: ExternalTrafficPolicy::Cluster,
        health_check_node_ports: Vec::new(),
        quarantine: None,
    };
    let mut vip = VirtualIP::new("192.0.2.200", spec);
    vip.metadata.uid = Some("uid-v".into());
    vip.metadata.resource_version = Some("9".into());
    vip.metadata.generation = Some(2);
    vip.status = Some(VirtualIPStatus { active_node: active.map(str::to_owned), conditions });
    Arc::new(vip)
}

fn patches_of(
    activity: &RouterActivity,
    now: Instant,
    routers: &[Arc<VirtualRouter>],
    vips: &[Arc<VirtualIP>],
    reported: &Reported,
) -> Vec<StatusPatch> {
    let assignments = [assignment(&["192.0.2.12"])];
    let activities = [(assignments[0].key().unwrap(), activity.clone())].into();
    patches(context(now), &ActiveRouter::among(&assignments, &activities), &[], routers, vips, reported, 100)
}

fn active_patches(
    routers: &[Arc<VirtualRouter>],
    vips: &[Arc<VirtualIP>],
    number: u64,
    reported: &Reported,
) -> Vec<StatusPatch> {
    patches_of(&activity(number), Instant::now(), routers, vips, reported)
}

// shows: allocation 104, 105
#[test]
fn a_new_active_says_so_on_router_and_address_conditional_on_what_it_saw() {
    let got = active_patches(&[router(Some("n2"), 4)], &[vip(Some("n2"), vec![])], 1, &Reported::default());
    let [on_router, on_vip] = &got[..] else { panic!("{got:?}") };
    assert_eq!(
        on_router.body,
        json!({
            "metadata": { "uid": "uid-a", "resourceVersion": "7" },
            "status": { "activeNode": "n1", "activeSince": "2023-07-22T04:26:40.000Z", "transitions": 5 },
        })
    );
    assert_eq!(on_vip.body["metadata"], json!({ "uid": "uid-v", "resourceVersion": "9" }));
    assert_eq!(
        on_vip.body["status"],
        json!({
            "activeNode": "n1",
            "conditions": [{
                "type": "Announced", "status": "True", "reason": "Active", "observedGeneration": 2,
                "message": "Node n1 answers for 192.0.2.200 on eth0 (VRID 64)",
                "lastTransitionTime": "2023-11-14T22:13:20Z",
            }],
        })
    );
}

#[test]
fn an_active_says_who_does_not_hear_its_multicast_and_when_all_hear_it_again() {
    let mut shown = VirtualRouter::clone(&router(Some("n1"), 4));
    shown.spec.nodes = [("n1", "192.0.2.11"), ("n2", "192.0.2.12"), ("n3", "192.0.2.13")]
        .map(|(name, address)| RankedNode {
            name: name.into(),
            priority: 100,
            address: address.parse().unwrap(),
            interface: "eth0".into(),
            joining: false,
            former_address: None,
        })
        .into();
    let deaf = |last: &[u8]| RouterActivity {
        deaf: last.iter().map(|last| [192, 0, 2, *last].into()).collect(),
        ..activity(1)
    };
    let mut tell = |activity: &RouterActivity| {
        let shown_now = [Arc::new(shown.clone())];
        let got = patches_of(activity, Instant::now(), &shown_now, &[], &Reported::default());
        let status = got.first()?.body["status"].clone();
        assert_eq!(status.get("activeNode"), None, "that is shown");
        let conditions: Vec<Condition> = serde_json::from_value(status["conditions"].clone()).unwrap();
        shown.status.as_mut().unwrap().conditions.clone_from(&conditions);
        let [one] = &conditions[..] else { panic!("{conditions:?}") };
        Some((one.status.clone(), one.reason.clone(), one.message.clone()))
    };
    assert_eq!(tell(&deaf(&[])), None, "all is as it should be");
    let (status, reason, message) = tell(&deaf(&[12, 13])).unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "UnicastFallback"));
    assert!(message.contains("adverts of node n1 on eth0 do not reach n2, n3,"), "{message}");
    assert_eq!(tell(&deaf(&[12, 13])), None, "it is shown");
    assert!(tell(&deaf(&[13])).unwrap().2.contains("reach n3,"));
    let (status, reason, _) = tell(&deaf(&[])).unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Heard"));
    assert_eq!(tell(&deaf(&[])), None);
}

#[test]
fn an_active_that_cannot_keep_clients_apart_says_so_and_what_helps() {
    let ports = json!([{ "protocol": "TCP", "port": 80 }]);
    let restricted = |by_kube_proxy: bool, conditions| {
        let mut vip = (*vip(None, conditions)).clone();
        let sources = json!([{ "ports": ports, "allowed": ["10.0.0.0/8"], "byKubeProxy": by_kube_proxy }]);
        vip.spec.sources = serde_json::from_value(sources).unwrap();
        Arc::new(vip)
    };
    let withheld = RouterActivity { claimed: [].into(), ..activity(1) };
    let nowhere = Unguarded { all: Some("no nf_tables".into()), ..Unguarded::default() };
    let told = |vip: &Arc<VirtualIP>, activity: &RouterActivity| {
        let assignments = [assignment(&["192.0.2.12"])];
        let activities = [(assignments[0].key().unwrap(), activity.clone())].into();
        let context = NodeContext { unguarded: &nowhere, ..context(Instant::now()) };
        let vips = std::slice::from_ref(vip);
        patches(
            context,
            &ActiveRouter::among(&assignments, &activities),
            &[],
            &[] as &[Arc<VirtualRouter>],
            vips,
            &Reported::default(),
            100,
        )
    };
    let [patch] = &told(&restricted(false, vec![]), &withheld)[..] else { panic!("one word") };
    assert_eq!(patch.body["status"]["activeNode"], Value::Null);
    let written = &patch.body["status"]["conditions"][0];
    assert_eq!((&written["status"], &written["reason"]), (&json!("False"), &json!("Unguarded")));
    let message = written["message"].as_str().unwrap();
    assert!(
        message.contains("node n1") && message.contains("no nf_tables") && message.contains("source ranges"),
        "{message}"
    );
    // Once is enough.
    let known: Condition = serde_json::from_value(written.clone()).unwrap();
    assert_eq!(told(&restricted(false, vec![known]), &withheld), []);
    // What is answered for all the same is announced, and what kube-proxy sees to needs no word.
    let [patch] = &told(&restricted(false, vec![]), &activity(1))[..] else { panic!("one word") };
    assert_eq!(patch.body["status"]["conditions"][0]["reason"], "Active");
    assert_eq!(told(&restricted(true, vec![]), &withheld), []);
}

/// What becomes of the shown conditions of an address in service.
fn conditions_by(
    node: NodeContext<'_>,
    active: &Assignment,
    host: Option<[u8; 6]>,
    shown: &[Condition],
) -> Vec<Condition> {
    conditions_of(vip(Some("n1"), shown.to_vec()), node, active, host)
}

/// The same of this address.
fn conditions_of(
    vip: Arc<VirtualIP>,
    node: NodeContext<'_>,
    active: &Assignment,
    host: Option<[u8; 6]>,
) -> Vec<Condition> {
    let claimants = host.map(|mac| (ADDRESS, Claimant { mac, heard: node.now })).into_iter().collect();
    let activities = [(active.key().unwrap(), RouterActivity { claimants, ..activity(1) })].into();
    let assignments = std::slice::from_ref(active);
    let routers: [Arc<VirtualRouter>; 0] = [];
    let shown = vip.status.as_ref().unwrap().conditions.clone();
    let vips = [vip];
    let active = ActiveRouter::among(assignments, &activities);
    let patches = patches(node, &active, &[], &routers, &vips, &Reported::default(), 100);
    match &patches[..] {
        [] => shown,
        [patch] => serde_json::from_value(patch.body["status"]["conditions"].clone()).unwrap(),
        more => panic!("{more:?}"),
    }
}

const STATION: [u8; 6] = [2, 0x99, 0, 0, 0, 0];

#[test]
fn a_host_beside_the_active_is_told_on_the_address_until_it_was_silent_for_long_enough() {
    let (defends, now) = (assignment(&["192.0.2.12"]), Instant::now());
    let yields = Assignment { address_conflict: AddressConflictPolicy::Yield, ..defends.clone() };
    let announced = [condition("Announced", "True")];
    assert_eq!(conditions_by(context(now), &defends, None, &announced), announced);
    assert_eq!(conditions_by(context(now), &yields, Some(STATION), &announced), announced, "Announced tells");
    let told = conditions_by(context(now), &defends, Some(STATION), &announced);
    let [still, conflict] = &told[..] else { panic!("{told:?}") };
    assert_eq!(still.status, "True");
    let written = (conflict.type_.as_str(), conflict.status.as_str(), conflict.reason.as_str());
    assert_eq!(written, ("AddressConflict", "True", "Defended"));
    assert!(conflict.message.contains("host, 02:99:00:00:00:00, uses 192.0.2.200"), "{conflict:?}");
    // A node that became Active a moment ago has not heard it yet.
    let began = Timestamp::constant(1_690_000_000, 0);
    let soon = NodeContext { wall: began + Duration::from_secs(599), ..context(now) };
    for (what, node, active, host, is_told) in [
        ("it goes on", context(now), &defends, Some(STATION), true),
        ("another node has taken over", soon, &defends, None, true),
        ("it is silent", context(now), &defends, None, false),
        ("it is to be yielded from now on", soon, &yields, Some(STATION), false),
    ] {
        let expected = if is_told { &told[..] } else { &told[..1] };
        assert_eq!(conditions_by(node, active, host, &told), expected, "{what}");
    }
    let other = conditions_by(context(now), &defends, Some([2, 0xaa, 0, 0, 0, 0]), &told);
    assert!(
        other[1].message.contains("02:aa") && other[1].last_transition_time == told[1].last_transition_time
    );
}

#[test]
fn of_an_address_that_is_not_announced_no_conflict_is_told() {
    let shown = vec![condition("Announced", "True"), condition("AddressConflict", "True")];
    let host = ConflictingHost { mac: [2; 6], found: Instant::now() };
    let taken = RouterActivity { claimed: [].into(), taken: [(ADDRESS, host)].into(), ..activity(1) };
    let later = Instant::now() + CONFIRM_AFTER;
    let got = patches_of(&taken, later, &[], &[vip(Some("n1"), shown)], &Reported::default());
    let conditions = got[0].body["status"]["conditions"].as_array().unwrap();
    assert_eq!((conditions.len(), &conditions[0]["reason"]), (1, &json!("AddressTaken")));
}

#[test]
fn nothing_is_written_where_the_cluster_knows_already() {
    let known = vip(Some("n1"), vec![condition("Announced", "True")]);
    assert_eq!(active_patches(&[router(Some("n1"), 4)], &[known], 1, &Reported::default()), []);
}

#[test]
fn nothing_is_written_about_what_this_node_is_not_active_for() {
    let vips = [vip(Some("n2"), vec![])];
    let backup = RouterActivity { period: None, ..activity(1) };
    assert_eq!(patches_of(&backup, Instant::now(), &[router(None, 0)], &vips, &Reported::default()), []);
    let mut other = VirtualIP::clone(&vips[0]);
    other.spec.address = "192.0.2.201".parse().unwrap();
    let mut moved = VirtualIP::clone(&vips[0]);
    moved.spec.virtual_router = Some("b".into());
    let vips = [Arc::new(other), Arc::new(moved)];
    assert_eq!(active_patches(&[], &vips, 1, &Reported::default()), []);
}

#[test]
fn the_condition_keeps_its_time_while_it_stays_true_and_others_conditions_stay() {
    let conditions = vec![condition("Announced", "True"), condition("Other", "False")];
    let got = active_patches(&[], &[vip(Some("n2"), conditions)], 1, &Reported::default());
    let written = &got[0].body["status"]["conditions"];
    assert_eq!(written[1], serde_json::to_value(condition("Other", "False")).unwrap());
    assert_eq!(written[0]["lastTransitionTime"], "1970-01-01T00:00:00Z");
    let flipped = active_patches(
        &[],
        &[vip(Some("n1"), vec![condition("Announced", "False")])],
        1,
        &Reported::default(),
    );
    assert_eq!(flipped[0].body["status"]["conditions"][0]["lastTransitionTime"], "2023-11-14T22:13:20Z");
}

// shows: allocation 105
#[test]
fn another_nodes_word_is_overwritten_once_and_then_stands_for_a_while_so_that_two_actives_do_not_fight() {
    let theirs = [router(Some("n2"), 4)];
    let their_vips = [vip(Some("n2"), vec![condition("Announced", "True")])];
    let mut reported = Reported::default();
    for patch in active_patches(&theirs, &their_vips, 1, &reported) {
        reported.accepted(&patch, Instant::now());
    }
    // n2 spoke again after us: it became Active later, or there is a partition.
    let newer = |object: &Arc<VirtualRouter>| {
        let mut object = VirtualRouter::clone(object);
        object.metadata.resource_version = Some("8".into());
        Arc::new(object)
    };
    let mut newer_vip = VirtualIP::clone(&their_vips[0]);
    newer_vip.metadata.resource_version = Some("10".into());
    let newer_vips = [Arc::new(newer_vip)];
    assert_eq!(active_patches(&[newer(&theirs[0])], &newer_vips, 1, &reported), []);
    // The next time this node becomes Active, it says so again.
    assert_eq!(active_patches(&[newer(&theirs[0])], &newer_vips, 2, &reported).len(), 2);
}

// shows: allocation 105
#[test]
fn who_stays_active_has_the_last_word_and_two_that_do_not_hear_each_other_write_less_and_less() {
    const LAST: u64 = 3600;
    let begin = Instant::now();
    let (mut ours, mut theirs) = (Reported::default(), Reported::default());
    let (mut shown, mut version, mut writes) = ("n2", 1, 0);
    let router_as = |shown: &str, version: u32| {
        let mut object = VirtualRouter::clone(&router(Some(shown), 4));
        object.metadata.resource_version = Some(version.to_string());
        [Arc::new(object)]
    };
    for second in 0..LAST + 600 {
        let now = begin + Duration::from_secs(second);
        for (node, reported) in [("n1", &mut ours), ("n2", &mut theirs)] {
            // The other falls back to Backup, and says nothing more.
            if node == "n2" && second >= LAST {
                continue;
            }
            let assignments = [assignment(&["192.0.2.12"])];
            let activities = [(assignments[0].key().unwrap(), activity(1))].into();
            let active = ActiveRouter::among(&assignments, &activities);
            let (context, none) = (NodeContext { node, ..context(now) }, [] as [Arc<VirtualIP>; 0]);
            for patch in patches(context, &active, &[], &router_as(shown, version), &none, reported, 100) {
                reported.accepted(&patch, now);
                (shown, version, writes) = (node, version + 1, writes + 1);
            }
        }
        assert!(second < LAST + LONGEST_PAUSE.as_secs() || shown == "n1", "after {second} s");
    }
    assert!(writes <= 2 * (5 + LAST / LONGEST_PAUSE.as_secs()), "{writes}");
}

#[test]
fn an_accepted_patch_is_not_repeated_while_the_watch_still_shows_the_old_version() {
    let routers = [router(None, 0)];
    let mut reported = Reported::default();
    let first = active_patches(&routers, &[], 1, &reported);
    reported.accepted(&first[0], Instant::now());
    assert_eq!(active_patches(&routers, &[], 1, &reported), []);
    // A newer version without our word (someone cleared it): said again.
    let mut newer = VirtualRouter::clone(&routers[0]);
    newer.metadata.resource_version = Some("8".into());
    assert_eq!(active_patches(&[Arc::new(newer)], &[], 1, &reported).len(), 1);
}

#[test]
fn objects_that_are_gone_are_forgotten_when_they_may_be_most() {
    let mut reported = Reported::default();
    let mut patch = active_patches(&[router(None, 0)], &[], 1, &reported).remove(0);
    for number in 0..1000 {
        patch.uid = format!("uid-{number}");
        reported.accepted(&patch, Instant::now());
    }
    reported.prune(1000, std::iter::once("uid-7"));
    assert_eq!(reported.claimed.len(), 1000, "not worth the time yet");
    reported.prune(1, std::iter::once("uid-7"));
    assert_eq!((reported.claimed.len(), reported.patched.len()), (1, 1));
}

#[test]
fn so_many_patches_are_decided_on_at_once_and_no_more() {
    let vips: Vec<_> = (0..300)
        .map(|number| {
            let mut vip = VirtualIP::clone(&vip(None, vec![]));
            vip.metadata.uid = Some(format!("uid-{number}"));
            Arc::new(vip)
        })
        .collect();
    assert_eq!(active_patches(&[router(None, 0)], &vips, 1, &Reported::default()).len(), 100);
}

#[test]
fn an_address_that_is_asked_for_is_not_called_announced_yet() {
    let asking = RouterActivity { claimed: [].into(), ..activity(1) };
    let vips = [vip(None, vec![])];
    assert_eq!(patches_of(&asking, Instant::now(), &[], &vips, &Reported::default()), []);
}

// shows: allocation 121
#[test]
fn an_address_that_another_host_has_is_called_taken_after_a_while_and_announced_when_it_is_free() {
    let start = Instant::now();
    let mut activity = activity(1);
    activity.note_taken(ADDRESS, [2, 0, 0, 0, 0, 0x99], start);
    let vips = [vip(None, vec![])];
    let now = |after: Duration| patches_of(&activity, start + after, &[], &vips, &Reported::default());
    assert_eq!(now(CONFIRM_AFTER * 9 / 10), [], "it may be a node of ours that knows less");
    let got = now(CONFIRM_AFTER);
    let status = &got[0].body["status"];
    assert_eq!(status["activeNode"], Value::Null);
    let written = &status["conditions"][0];
    assert_eq!((&written["status"], &written["reason"]), (&json!("False"), &json!("AddressTaken")));
    assert_eq!(
        written["message"],
        "Another host, 02:00:00:00:00:99 on eth0 of node n1, uses 192.0.2.200: Windlass announces it once \
         that host stops. Remove the address from that host"
    );
    // Reported once.
    let known = serde_json::from_value(written.clone()).unwrap();
    let known = [vip(None, vec![known])];
    assert_eq!(patches_of(&activity, start + CONFIRM_AFTER, &[], &known, &Reported::default()), []);
    // Another host has it now.
    activity.note_taken(ADDRESS, [2, 0, 0, 0, 0, 0x98], start);
    assert_eq!(patches_of(&activity, start + CONFIRM_AFTER, &[], &known, &Reported::default()).len(), 1);
    assert_eq!(activity.claim(&[ADDRESS]), [ADDRESS]);
    let got = patches_of(&activity, start + CONFIRM_AFTER, &[], &known, &Reported::default());
    assert_eq!(got[0].body["status"]["conditions"][0]["status"], "True");
    assert_eq!(got[0].body["status"]["activeNode"], "n1");
}

#[test]
fn who_announced_an_address_says_that_it_is_in_quarantine_and_nobody_else_does() {
    let quarantined = |active: Option<&str>| {
        let mut vip = VirtualIP::clone(&vip(active, vec![condition("Announced", "True")]));
        let (reason, until) = (QuarantineReason::Released, Time(NOW));
        vip.spec.quarantine = Some(Quarantine { reason, until, message: String::new() });
        vip.spec.virtual_router = None;
        [Arc::new(vip)]
    };
    let backup = RouterActivity::default();
    let mut reported = Reported::default();
    assert_eq!(patches_of(&backup, Instant::now(), &[], &quarantined(Some("n2")), &reported), []);
    assert_eq!(patches_of(&backup, Instant::now(), &[], &quarantined(None), &reported), []);
    let got = patches_of(&backup, Instant::now(), &[], &quarantined(Some("n1")), &reported);
    let status = &got[0].body["status"];
    assert_eq!(
        (&status["activeNode"], &status["conditions"][0]["reason"]),
        (&Value::Null, &json!("Quarantined"))
    );
    assert_eq!(got[0].basis, None);
    reported.accepted(&got[0], Instant::now());
    assert_eq!(patches_of(&backup, Instant::now(), &[], &quarantined(Some("n1")), &reported), []);
}

// shows: allocation 105
#[test]
fn an_orderly_stop_speaks_only_where_nobody_can_take_over() {
    let routers = [router(Some("n1"), 4)];
    let vips = [vip(Some("n1"), vec![condition("Announced", "True")])];
    for (peers, expected) in [(&["192.0.2.12"][..], 0), (&[], 2)] {
        let got = shutdown_patches(context(Instant::now()), &[assignment(peers)], &routers, &vips);
        assert_eq!(got.len(), expected, "{peers:?}: {got:?}");
        for patch in &got {
            assert_eq!(patch.body["status"]["activeNode"], Value::Null);
        }
        if let Some(on_vip) = got.get(1) {
            assert_eq!(on_vip.body["status"]["conditions"][0]["status"], "False");
            assert_eq!(on_vip.body["status"]["conditions"][0]["reason"], "AgentStopped");
        }
    }
    let elsewhere = [router(Some("n2"), 4)];
    let vips: [Arc<VirtualIP>; 0] = [];
    assert_eq!(shutdown_patches(context(Instant::now()), &[assignment(&[])], &elsewhere, &vips), []);
}

#[test]
fn an_address_that_is_refused_is_said_to_be_by_the_active_and_where_there_is_none_by_anybody_once() {
    let refused = |alone| [Refused { address: ADDRESS, reason: "the kernel has it".to_owned(), alone }];
    let known = || {
        let mut known = condition("Announced", "False");
        (known.reason, known.message) = ("AddressRefused".to_owned(), "the kernel has it".to_owned());
        known
    };
    let withheld = RouterActivity { claimed: [].into(), ..activity(1) };
    // This node is Active for the virtual router, or there is no such router here.
    for (is_active, alone, vip, expected) in [
        (true, false, vip(None, vec![]), 1),
        (true, false, vip(Some("n2"), vec![condition("Announced", "True")]), 1),
        (true, false, vip(None, vec![known()]), 0),
        (false, true, vip(None, vec![]), 1),
        (false, true, vip(Some("n1"), vec![condition("Announced", "True")]), 1),
        (false, true, vip(Some("n2"), vec![condition("Announced", "True")]), 0),
        (false, true, vip(None, vec![known()]), 0),
        (false, false, vip(None, vec![]), 0),
    ] {
        let mut assignment = assignment(&["192.0.2.12"]);
        assignment.addresses = ["192.0.2.201".parse().unwrap()].into();
        let assignments = if is_active { vec![assignment] } else { vec![] };
        let activities = assignments.iter().map(|one| (one.key().unwrap(), withheld.clone())).collect();
        let active = ActiveRouter::among(&assignments, &activities);
        let routers: &[Arc<VirtualRouter>] = &[];
        let got = patches(
            context(Instant::now()),
            &active,
            &refused(alone),
            routers,
            &[vip],
            &Reported::default(),
            100,
        );
        assert_eq!(got.len(), expected, "active {is_active}, alone {alone}: {got:?}");
        for patch in got {
            let condition = &patch.body["status"]["conditions"][0];
            assert_eq!(patch.body["status"]["activeNode"], Value::Null);
            let reported = (&condition["status"], &condition["reason"], &condition["message"]);
            assert_eq!(reported, (&json!("False"), &json!("AddressRefused"), &json!("the kernel has it")));
        }
    }
}
