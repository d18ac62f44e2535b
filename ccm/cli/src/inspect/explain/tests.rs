use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::{Value, json};

use super::*;
use crate::inspect::details::KubeProxy;
use crate::inspect::scene::{ago, condition, healthy, network, node, now, object, pool, router, service};

mod sharing;

fn explained(text: &str, snapshot: &Snapshot, details: &Details) -> Explanation {
    Explanation::of(&Subject::parse(text, "default").unwrap(), None, snapshot, details).unwrap()
}

/// Whether all of this is in the words for people.
fn says(explanation: &Explanation, parts: &[&str]) {
    let text = explanation.text(now());
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in:\n{text}");
    }
}

#[test]
fn a_subject_is_a_service_or_an_address() {
    let service =
        |namespace: &str, name: &str| Subject::Service { namespace: namespace.into(), name: name.into() };
    for (text, expected) in [
        ("web", Some(service("here", "web"))),
        ("shop/web", Some(service("shop", "web"))),
        ("192.0.2.10", Some(Subject::Address("192.0.2.10".parse().unwrap()))),
        ("2001:db8::1", Some(Subject::Address("2001:db8::1".parse().unwrap()))),
        ("192.0.2.300:x", None),
        ("a/b/c", None),
        ("/web", None),
        ("", None),
    ] {
        assert_eq!(Subject::parse(text, "here").ok(), expected, "{text:?}");
    }
}

#[test]
fn the_whole_path_is_told_to_who_asks_for_a_service_or_for_its_address() {
    let snapshot = healthy();
    for subject in ["web", "default/web", "192.0.2.10"] {
        let explanation = explained(subject, &snapshot, &Details::default());
        assert!(!explanation.has_problem());
        says(
            &explanation,
            &[
                "Service default/web",
                "AddressAllocated True Allocated since 120m",
                "of the pools that it may use, default is the first",
                "1. default (priority 100) may be used: 100 of 256 IPv4 addresses left",
                "pool default lists it",
                "by node n1",
                "r1: VRID 1 on 192.0.2.0/24",
                "n1 since 120m, 0 moves",
                "*   n1     254        good",
                "first in the list",
                "ports 80/TCP; nodes refuse what is for others",
                "TCP connections continue when it moves from a node that is up",
            ],
        );
    }
}

#[test]
fn a_service_that_waits_is_told_why_and_what_each_pool_is_to_it() {
    let mut snapshot = healthy();
    let mut own = service("b", "", "False", "NoSuchPool", "pool \"edge\" does not exist");
    own["metadata"]["annotations"] = json!({ "windlass.dev/pool": "edge" });
    snapshot.services.objects.push(object(own));
    let mut other = pool("closed", 5);
    other["spec"]["namespaces"] = json!(["shop"]);
    other["spec"]["priority"] = json!(10);
    snapshot.pools.objects.push(object(other));
    let explanation = explained("b", &snapshot, &Details::default());
    assert!(explanation.has_problem());
    says(
        &explanation,
        &[
            "error Service default/b NoSuchPool: pool \"edge\" does not exist\n  do: create the pool",
            "IPv4; pool edge",
            "1. closed (priority 10) not used: pool \"closed\"",
            "shop",
            "2. default (priority 100) not used: the Service names pool edge",
            "no address",
        ],
    );
}

#[test]
fn a_pool_whose_limit_is_reached_is_not_used_and_the_holder_keeps_what_it_has() {
    for (limit, words) in [
        (
            "maxPerNamespace",
            "gives the Services of a namespace 1 of a family at most, and those of this one have 1",
        ),
        ("maxPerService", "gives a Service 1 of a family at most, and this one has 1"),
    ] {
        let mut snapshot = healthy();
        snapshot.pools.objects[0] = {
            let mut pool = pool("default", 100);
            pool["spec"][limit] = json!(1);
            object(pool)
        };
        says(&explained("web", &snapshot, &Details::default()), &["1. default (priority 100) may be used"]);
        let (name, count) = if limit == "maxPerService" { ("web", "2") } else { ("b", "1") };
        let mut own = service(name, "", "False", "NoFreeAddress", "");
        own["metadata"]["annotations"] = json!({ "windlass.dev/address-count": count });
        snapshot.services.objects.retain(|one| one.metadata.name.as_deref() != Some(name));
        snapshot.services.objects.push(object(own));
        let expected = format!("1. default (priority 100) not used: pool \"default\" {words}");
        says(&explained(name, &snapshot, &Details::default()), &[&expected]);
    }
}

#[test]
fn the_rule_by_which_a_pool_was_chosen_is_told() {
    let annotated = |key: &str, value: &str| {
        let mut own = service("web", "192.0.2.10", "True", "Allocated", "");
        own["metadata"]["annotations"] = json!({ key: value });
        object(own)
    };
    let earlier = |namespaces: Value| {
        let mut pool = pool("a", 5);
        pool["spec"]["priority"] = json!(1);
        pool["spec"]["namespaces"] = namespaces;
        pool
    };
    let rows: [(Service, &str); 2] = [
        (annotated("windlass.dev/addresses", "192.0.2.10"), "names its addresses"),
        (annotated("windlass.dev/pool", "default"), "names pool default"),
    ];
    for (own, expected) in rows {
        let mut snapshot = healthy();
        snapshot.services.objects[0] = own;
        says(&explained("web", &snapshot, &Details::default()), &[expected]);
    }
    for (namespaces, expected) in
        [(json!([]), "default gave it; a comes first now"), (json!(["shop"]), "default is the first")]
    {
        let mut snapshot = healthy();
        snapshot.pools.objects.push(object(earlier(namespaces)));
        says(&explained("web", &snapshot, &Details::default()), &[expected]);
    }
}

#[test]
fn a_request_that_cannot_be_read_is_told_as_the_controller_tells_it() {
    let mut snapshot = healthy();
    let mut own = service("b", "", "False", "InvalidRequest", "");
    own["metadata"]["annotations"] = json!({ "windlass.dev/address-count": "none" });
    snapshot.services.objects.push(object(own));
    says(&explained("b", &snapshot, &Details::default()), &["cannot be read", "windlass.dev/address-count"]);
}

/// What is made of the nodes of the one virtual router, and what is expected of their places.
type Row = (&'static str, fn(&mut Snapshot), &'static [&'static str]);

#[test]
fn each_node_has_its_place_for_a_reason() {
    let rows: &[Row] = &[
        (
            "the preferred one fails a check",
            |it| {
                let mut failing = network("n1");
                failing["spec"]["failedChecks"] = json!(["kube-proxy: no answer for 15 s"]);
                it.networks.objects[0] = object(failing);
                active(it, "n2");
            },
            &["node n1 comes first, and node n2 has the addresses", "kube-proxy: no answer for 15 s"],
        ),
        (
            "one is cordoned, and yields",
            |it| {
                let mut cordoned = node("n2");
                cordoned["spec"] = json!({ "unschedulable": true });
                it.nodes.objects[1] = object(cordoned);
                let mut yielding = router("r1");
                yielding["spec"]["announcement"] = json!("edge");
                yielding["spec"]["nodes"][1]["priority"] = json!(60);
                it.routers.objects[0] = object(yielding);
                it.announcements.objects.push(object(json!({
                    "metadata": { "name": "edge" },
                    "spec": {
                        "unschedulableNodes": "Yield",
                        "preferredNodes": [{ "weight": 7, "selector": { "matchLabels": { "rack": "a" } } }],
                    },
                })));
                it.nodes.objects[2].metadata.labels = Some([("rack".to_owned(), "a".to_owned())].into());
            },
            &[
                "fair",
                "it is cordoned, and its Announcement has unschedulableNodes: Yield",
                "prefers it (weight 7)",
            ],
        ),
        (
            "one is excluded",
            |it| {
                let mut excluded = node("n2");
                excluded["metadata"]["labels"] =
                    json!({ "node.kubernetes.io/exclude-from-external-load-balancers": "" });
                it.nodes.objects[1] = object(excluded);
            },
            &["it is excluded (label node.kubernetes.io/exclude-from-external-load-balancers"],
        ),
        (
            "one is gone, one without an agent, one joins",
            |it| {
                it.nodes.objects.remove(0);
                it.networks.objects.remove(1);
                let mut joining = router("r1");
                joining["spec"]["nodes"][2]["joining"] = json!(true);
                it.routers.objects[0] = object(joining);
            },
            &["there is no Node of that name any more", "no agent reports from there", "it is joining"],
        ),
        (
            "another is Active for a reason that the cluster does not know",
            |it| active(it, "n2"),
            &["node n1 comes first, and node n2 has the addresses: it may have come back a moment ago"],
        ),
    ];
    for (what, change, parts) in rows {
        let mut snapshot = healthy();
        change(&mut snapshot);
        println!("{what}");
        says(&explained("web", &snapshot, &Details::default()), parts);
    }
}

fn active(snapshot: &mut Snapshot, node: &str) {
    let mut moved = router("r1");
    moved["status"] = json!({ "activeNode": node, "activeSince": ago(5), "transitions": 4 });
    snapshot.routers.objects[0] = object(moved);
}

#[test]
fn with_local_traffic_the_ready_pods_of_each_node_are_told() {
    let mut snapshot = healthy();
    let mut local = router("r1");
    local["spec"]["externalTrafficPolicy"] = json!("Local");
    local["spec"]["nodes"][1]["priority"] = json!(30);
    snapshot.routers.objects[0] = object(local);
    let slice = |family: &str, address: &str, ready: bool| -> EndpointSlice {
        object(json!({
            "metadata": { "namespace": "default", "labels": { "kubernetes.io/service-name": "web" } },
            "addressType": family,
            "endpoints": [{ "addresses": [address], "nodeName": "n1", "conditions": { "ready": ready } }],
        }))
    };
    let details = Details {
        endpoint_slices: vec![
            slice("IPv4", "203.0.113.1", true),
            slice("IPv4", "203.0.113.2", false),
            slice("IPv6", "2001:db8:1::1", true),
        ],
        ..Details::default()
    };
    says(
        &explained("web", &snapshot, &details),
        &["1 ready pods of the Service", "no ready pod of the Service is there"],
    );
}

#[test]
fn what_is_known_of_the_lan_and_of_kube_proxy_and_what_happened_is_told() {
    let mut snapshot = healthy();
    let mut seen = network("n2");
    seen["spec"]["duplicates"] =
        json!([{ "interface": "eth0", "address": "192.0.2.10", "mac": "02:00:00:00:00:99" }]);
    seen["spec"]["foreignRouters"] =
        json!([{ "interface": "eth0", "vrid": 1, "source": "192.0.2.77", "version": 3 }]);
    snapshot.networks.objects[1] = object(seen);
    let event = |reason: &str, seconds: i64| -> Event {
        object(json!({
            "metadata": {}, "involvedObject": { "namespace": "default", "name": "web", "uid": "uid-web" },
            "reason": reason, "message": format!("said {reason}"), "lastTimestamp": ago(seconds),
        }))
    };
    let settings = |conf: &str| KubeProxy::of(&object(json!({ "data": { "config.conf": conf } })));
    let details = Details {
        events: vec![event("EnsuredLoadBalancer", 600), event("AnnouncingNodeChanged", 60)],
        kube_proxy: settings("kind: KubeProxyConfiguration\nmode: nftables\n"),
        ..Details::default()
    };
    let explanation = explained("192.0.2.10", &snapshot, &details);
    says(
        &explanation,
        &[
            "02:00:00:00:00:99 on eth0, as node n2 saw it",
            "192.0.2.77 (version 3)",
            "kube-proxy: mode nftables",
            "60s ago",
        ],
    );
    assert_eq!(explanation.events[0].reason, "AnnouncingNodeChanged", "the newest comes first");
    assert_eq!(settings("mode: \"\"\n").unwrap().mode, "iptables");
    let unknown = explained("web", &snapshot, &Details::default());
    assert!(!unknown.text(now()).contains("kube-proxy: mode"));
}

#[test]
fn an_address_without_a_service_is_told_by_its_pool_and_one_of_no_pool_is_an_error() {
    let snapshot = healthy();
    says(
        &explained("192.0.2.77", &snapshot, &Details::default()),
        &["no Service has it: it is in pool default"],
    );
    let error = |text: &str| -> String {
        let subject = Subject::parse(text, "default").unwrap();
        Explanation::of(&subject, None, &snapshot, &Details::default()).unwrap_err().to_string()
    };
    assert!(error("198.51.100.9").contains("is in no pool"));
    assert!(error("nobody").contains("there is no Service default/nobody"));
}

#[test]
fn sharing_quarantine_and_replication_are_told() {
    let mut snapshot = healthy();
    let mut router = router("r1");
    router["spec"]["connections"] = json!("Replicate");
    snapshot.routers.objects[0] = object(router);
    let mut vip: Value = crate::inspect::scene::vip("192.0.2.10", "web", "r1");
    vip["spec"]["owners"]
        .as_array_mut()
        .unwrap()
        .push(json!({ "namespace": "mail", "name": "smtp", "uid": "uid-smtp" }));
    vip["spec"]["sources"] =
        json!([{ "ports": [{ "protocol": "TCP", "port": 80 }], "allowed": ["10.0.0.0/8"] }]);
    vip["status"]["conditions"] = json!([
        condition("Announced", "True", "Active", ""),
        condition("ConnectionsReplicated", "False", "NotInSync", "no other node has them"),
    ]);
    snapshot.vips.objects[0] = object(vip);
    says(
        &explained("web", &snapshot, &Details::default()),
        &[
            "default/web, mail/smtp (they share it)",
            "80/TCP only from 10.0.0.0/8, kept by the guard",
            "Replicate, and as Forward for now. NotInSync: no other node has them",
        ],
    );
    let mut vip: Value = crate::inspect::scene::vip("192.0.2.10", "web", "r1");
    vip["spec"]["quarantine"] = json!({ "reason": "Released", "until": ago(-30), "message": "let go of" });
    snapshot.vips.objects[0] = object(vip);
    says(
        &explained("192.0.2.10", &snapshot, &Details::default()),
        &["Released until 2026-06-01T12:00:30Z: let go of"],
    );
}
