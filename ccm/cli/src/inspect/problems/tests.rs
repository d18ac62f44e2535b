use serde_json::{Value, json};
use windlass_api::{CONDITION_ADDRESS_CONFLICT, CONDITION_CONNECTIONS_REPLICATED};

use super::*;
use crate::inspect::scene::{
    ago, condition, healthy, lease, network, node, object, pool, router, service, vip,
};
use crate::inspect::snapshot::Cause;

/// The severity, kind, name and reason of each problem.
fn told(snapshot: &Snapshot) -> Vec<(Severity, &'static str, String, String)> {
    all(snapshot).into_iter().map(|one| (one.severity, one.kind, one.name, one.reason)).collect()
}

/// `value` with one part set.
fn with(mut value: Value, pointer: &str, part: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[key] = part;
    value
}

#[test]
fn where_nothing_is_wrong_nothing_is_told() {
    assert_eq!(all(&healthy()), []);
}

/// A change to a cluster in which nothing is wrong.
type Change = fn(&mut Snapshot);

#[test]
fn what_is_wrong_is_told_once_with_its_object_its_reason_and_a_remedy() {
    use Severity::{Error, Warning};
    let rows: &[(&str, Change, Severity, &str, &str, &str)] = &[
        (
            "a Service without an address",
            |it| it.services.objects.push(object(service("b", "", "False", "NoFreeAddress", "none is left"))),
            Error,
            "Service",
            "default/b",
            "NoFreeAddress",
        ),
        (
            "a Service of which nothing is said",
            |it| {
                let silent = with(service("b", "", "", "", ""), "/status/conditions", json!([]));
                it.services.objects.push(object(silent));
            },
            Error,
            "Service",
            "default/b",
            "NotServed",
        ),
        (
            "a Service that has less than it asks for",
            |it| {
                it.services.objects[0] =
                    object(service("web", "192.0.2.10", "True", "FamilyMissing", "no IPv6"));
            },
            Warning,
            "Service",
            "default/web",
            "FamilyMissing",
        ),
        (
            "an address that no node announces, whose Service says nothing of it",
            |it| {
                let taken = condition("Announced", "False", "AddressTaken", "another host has it");
                let vip = vip("192.0.2.10", "web", "r1");
                it.vips.objects[0] = object(with(vip, "/status/conditions", json!([taken])));
            },
            Error,
            "VirtualIP",
            "192.0.2.10",
            "AddressTaken",
        ),
        (
            "an address that no virtual router carries",
            |it| {
                let vip = with(vip("192.0.2.10", "web", "r1"), "/spec/virtualRouter", Value::Null);
                it.vips.objects[0] = object(with(vip, "/status", json!({})));
                it.routers.objects.clear();
            },
            Error,
            "VirtualIP",
            "192.0.2.10",
            "NotAnnounced",
        ),
        (
            "an address that another host uses, too",
            |it| {
                let all = json!([
                    condition("Announced", "True", "Active", ""),
                    condition(CONDITION_ADDRESS_CONFLICT, "True", "Defended", "another host"),
                ]);
                it.vips.objects[0] = object(with(vip("192.0.2.10", "web", "r1"), "/status/conditions", all));
            },
            Warning,
            "VirtualIP",
            "192.0.2.10",
            "Defended",
        ),
        (
            "connections that do not outlive their node, where they are to",
            |it| {
                let all = json!([
                    condition("Announced", "True", "Active", ""),
                    condition(CONDITION_CONNECTIONS_REPLICATED, "False", "NotInSync", "no other node"),
                ]);
                it.vips.objects[0] = object(with(vip("192.0.2.10", "web", "r1"), "/status/conditions", all));
            },
            Warning,
            "VirtualIP",
            "192.0.2.10",
            "NotInSync",
        ),
        (
            "an address that one node serves although several could",
            |it| {
                let all = json!([
                    condition("Announced", "True", "Active", ""),
                    condition("LoadShared", "False", "OfALaterVersion", "Node n1 alone serves it"),
                ]);
                it.vips.objects[0] = object(with(vip("192.0.2.10", "web", "r1"), "/status/conditions", all));
            },
            Warning,
            "VirtualIP",
            "192.0.2.10",
            "OfALaterVersion",
        ),
        (
            "an address whose node and whose router's node differ for long",
            |it| it.routers.objects[0] = object(with(router("r1"), "/status/activeNode", json!("n2"))),
            Warning,
            "VirtualIP",
            "192.0.2.10",
            "NodesDisagree",
        ),
        (
            "a virtual router in which no node is Active",
            |it| it.routers.objects[0] = object(with(router("r1"), "/status", json!({}))),
            Error,
            "VirtualRouter",
            "r1",
            "NoActiveNode",
        ),
        (
            "a virtual router with one node",
            |it| {
                let mut router = router("r1");
                router["spec"]["nodes"].as_array_mut().unwrap().truncate(1);
                it.routers.objects[0] = object(router);
            },
            Warning,
            "VirtualRouter",
            "r1",
            "SingleNode",
        ),
        (
            "a virtual router whose nodes are all drained",
            |it| {
                let mut router = router("r1");
                for (node, priority) in
                    router["spec"]["nodes"].as_array_mut().unwrap().iter_mut().zip([60, 59, 58])
                {
                    node["priority"] = json!(priority);
                }
                it.routers.objects[0] = object(router);
            },
            Warning,
            "VirtualRouter",
            "r1",
            "NoGoodNode",
        ),
        (
            "a virtual router whose multicast is not heard",
            |it| {
                let heard = json!([condition("MulticastHeard", "False", "UnicastFallback", "by n2")]);
                it.routers.objects[0] = object(with(router("r1"), "/status/conditions", heard));
            },
            Warning,
            "VirtualRouter",
            "r1",
            "UnicastFallback",
        ),
        (
            "a lease that nobody renews",
            |it| it.leases.objects[0] = object(lease("n1_0123", 600)),
            Error,
            "Lease",
            "kube-system/cloud-controller-manager",
            "NoLeader",
        ),
        (
            "no lease",
            |it| it.leases.objects.clear(),
            Error,
            "Lease",
            "kube-system/cloud-controller-manager",
            "NoLeader",
        ),
        (
            "a pool that is full",
            |it| it.pools.objects[0] = object(pool("default", 0)),
            Warning,
            "VirtualIPPool",
            "default",
            "Full",
        ),
        (
            "a pool of which no address can be announced",
            |it| {
                let not = json!([condition("Announceable", "False", "NoSegment", "no node has a subnet")]);
                it.pools.objects[0] = object(with(pool("default", 100), "/status/conditions", not));
            },
            Error,
            "VirtualIPPool",
            "default",
            "NoSegment",
        ),
        ("no pool", |it| it.pools.objects.clear(), Warning, "VirtualIPPool", "", "NoPool"),
        (
            "an Announcement that does not apply",
            |it| {
                let not = condition("Applied", "False", "NoNode", "it selects no node");
                it.announcements.objects.push(object(json!({
                    "metadata": { "name": "edge" }, "spec": {}, "status": { "conditions": [not] },
                })));
            },
            Warning,
            "Announcement",
            "edge",
            "NoNode",
        ),
        (
            "a node without an agent",
            |it| it.nodes.objects.push(object(node("n4"))),
            Warning,
            "Node",
            "n4",
            "NoAgent",
        ),
        (
            "a node on which something fails",
            |it| {
                let failed = with(network("n2"), "/spec/failedChecks", json!(["kube-proxy: no answer"]));
                it.networks.objects[1] = object(failed);
            },
            Warning,
            "Node",
            "n2",
            "CheckFailed",
        ),
        (
            "a node that is not ready",
            |it| it.nodes.objects[1] = object(with(node("n2"), "/status/conditions", json!([]))),
            Warning,
            "Node",
            "n2",
            "NotReady",
        ),
        (
            "agents of two versions",
            |it| it.networks.objects[1] = object(with(network("n2"), "/spec/agentVersion", json!("0.0.9"))),
            Warning,
            "DaemonSet",
            "windlass-system/windlass-agent",
            "Versions",
        ),
        (
            "nodes of a subnet with several MTUs",
            |it| {
                for (index, mtu) in [1500, 9000].into_iter().enumerate() {
                    let network = network(&format!("n{}", index + 1));
                    it.networks.objects[index] = object(with(network, "/spec/interfaces/0/mtu", json!(mtu)));
                }
            },
            Warning,
            "Subnet",
            "198.51.100.0/24",
            "MTUDiffers",
        ),
        (
            "a kind that cannot be read",
            |it| {
                it.vips.missing = Some(Missing {
                    kind: "VirtualIPs".to_owned(),
                    cause: Cause::Forbidden,
                    message: "VirtualIPs cannot be listed".to_owned(),
                    remedy: "use other credentials".to_owned(),
                });
            },
            Error,
            "Kind",
            "VirtualIPs",
            "Forbidden",
        ),
    ];
    for (what, change, severity, kind, name, reason) in rows {
        let mut snapshot = healthy();
        change(&mut snapshot);
        let problems = told(&snapshot);
        assert_eq!(problems, [(*severity, *kind, (*name).to_owned(), (*reason).to_owned())], "{what}");
        let problem = &all(&snapshot)[0];
        assert!(!problem.message.is_empty() && !problem.remedy.is_empty(), "{what}: {problem:?}");
    }
}

#[test]
fn what_a_service_tells_is_not_told_again_of_its_address() {
    let mut snapshot = healthy();
    let message = "192.0.2.10: another host has it";
    snapshot.services.objects[0] = object(service("web", "192.0.2.10", "False", "NotAnnounced", message));
    let taken = json!([condition("Announced", "False", "AddressTaken", message)]);
    snapshot.vips.objects[0] = object(with(vip("192.0.2.10", "web", "r1"), "/status/conditions", taken));
    let told = told(&snapshot);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].1, told[0].3.as_str()), ("Service", "NotAnnounced"));
}

#[test]
fn what_is_new_is_given_time_and_what_is_no_windlass_service_is_not_looked_at() {
    let mut snapshot = healthy();
    let silent = with(service("b", "", "", "", ""), "/status/conditions", json!([]));
    let young = with(silent.clone(), "/metadata/creationTimestamp", json!(ago(5)));
    let of_another = with(silent.clone(), "/spec/loadBalancerClass", json!("example.org/other"));
    let internal = with(silent, "/spec/type", json!("ClusterIP"));
    snapshot.services.objects.extend([young, of_another, internal].map(object));
    let fresh = with(vip("192.0.2.11", "b", "r1"), "/metadata/creationTimestamp", json!(ago(5)));
    snapshot.vips.objects.push(object(with(fresh, "/status", json!({}))));
    let quarantine = json!({ "reason": "Released", "until": ago(-60) });
    snapshot.vips.objects.push(object(with(vip("192.0.2.12", "gone", "r1"), "/spec/quarantine", quarantine)));
    assert_eq!(told(&snapshot), []);
}

// shows: field-reports F-76
#[test]
fn a_node_with_windows_is_none_without_an_agent() {
    let mut snapshot = healthy();
    let with_system = |name: &str, system: &str| {
        object(with(node(name), "/metadata/labels", json!({ "kubernetes.io/os": system })))
    };
    snapshot.nodes.objects.push(with_system("w1", "windows"));
    assert_eq!(told(&snapshot), []);
    snapshot.nodes.objects.push(with_system("n4", "linux"));
    let told_of: Vec<String> = told(&snapshot).into_iter().map(|it| it.3).collect();
    assert_eq!(told_of, ["NoAgent"]);
}

fn controller_pod(name: &str, node: &str, ready: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "windlass-system", "creationTimestamp": ago(7200),
            "labels": { "app.kubernetes.io/name": "windlass", "app.kubernetes.io/component": "controller" },
        },
        "spec": { "nodeName": node, "containers": [{ "name": "controller", "args": ["controller", "--classless-services=false"] }] },
        "status": { "conditions": [condition("Ready", ready, "", "")], "containerStatuses": [{
            "name": "controller", "restartCount": 1, "ready": ready == "True", "image": "windlass:dev", "imageID": "",
            "state": { "waiting": { "reason": "CrashLoopBackOff" } },
        }] },
    })
}

#[test]
fn pods_tell_whether_the_lease_is_their_own_and_whether_they_run() {
    let mut snapshot = healthy();
    snapshot.pods.objects.push(object(controller_pod("c-1", "n1", "True")));
    assert_eq!(told(&snapshot), [], "the lease is held from the pod's node");

    snapshot.leases.objects[0] = object(lease("n3_0123", 3));
    let told_of = told(&snapshot);
    assert_eq!(told_of[0].3, "HeldByAnother", "{told_of:?}");
    snapshot.leases.objects[0] = object(lease("c-1.example.org_0123", 3));
    assert_eq!(told(&snapshot), [], "a host of another name tells nothing");

    snapshot.leases.objects[0] = object(lease("n1_0123", 3));
    snapshot.pods.objects.push(object(controller_pod("c-2", "n2", "False")));
    let problems = all(&snapshot);
    assert_eq!((problems[0].kind, problems[0].reason.as_str()), ("Pod", "NotReady"));
    assert!(problems[0].message.contains("CrashLoopBackOff"), "{problems:?}");
}

#[test]
fn classless_services_are_another_controllers_if_ours_is_told_to_leave_them() {
    let mut snapshot = healthy();
    let silent = with(service("b", "", "", "", ""), "/status/conditions", json!([]));
    snapshot.services.objects.push(object(silent));
    assert_eq!(told(&snapshot).len(), 1);
    snapshot.pods.objects.push(object(controller_pod("c-1", "n1", "True")));
    assert_eq!(told(&snapshot), []);
}

#[test]
fn the_page_has_each_reason_that_is_told_here_for_the_first_time() {
    let page = include_str!("../../../../../docs/conditions.md");
    let told = [
        include_str!("addresses.rs"),
        include_str!("controllers.rs"),
        include_str!("nodes.rs"),
        include_str!("pools.rs"),
    ]
    .concat();
    let quoted = told.split('"').skip(1).step_by(2);
    // One CamelCase word, after the kind and the name.
    let is_reason = |word: &&str| {
        word.len() > 3 && word.chars().all(char::is_alphabetic) && word.starts_with(char::is_uppercase)
    };
    let kinds = [
        "Service",
        "VirtualIP",
        "VirtualRouter",
        "VirtualIPPool",
        "Announcement",
        "Lease",
        "Node",
        "DaemonSet",
        "Subnet",
        "True",
        "False",
    ];
    let reasons: std::collections::BTreeSet<&str> =
        quoted.filter(is_reason).filter(|word| !kinds.contains(word)).collect();
    assert!(reasons.len() > 15, "{reasons:?}");
    for reason in reasons.into_iter().filter(|reason| !["ReportDoubted"].contains(reason)) {
        assert!(page.contains(&format!("`{reason}`")), "{reason}");
    }
    for cause in [Cause::NotInstalled, Cause::Forbidden, Cause::Unreachable, Cause::Unreadable, Cause::Failed]
    {
        assert!(page.contains(&format!("`{cause:?}`")), "{cause:?}");
    }
}
