use serde_json::json;

use super::pods::{Progress, Target, Trial, pod, progress, targets};
use super::*;
use crate::inspect::problems::Severity;
use crate::inspect::scene::{node, object};
use crate::inspect::snapshot::Snapshot;

/// A node of one network that hears these, by these ways.
fn hears(node: &str, network: &str, heard: &[(&str, &[Way])]) -> Tried {
    let heard = heard.iter().map(|(name, ways)| ((*name).to_owned(), ways.iter().copied().collect()));
    let networks = vec![network.parse().unwrap()];
    Tried {
        node: node.to_owned(),
        report: Ok(Report { networks, heard: heard.collect(), failed: BTreeSet::new() }),
    }
}

fn told(tried: &[Tried]) -> Vec<(Severity, String, String)> {
    let told = findings(tried).into_iter();
    told.map(|it| {
        assert!(!it.message.is_empty() && !it.remedy.is_empty(), "{it:?}");
        (it.severity, it.name, it.reason)
    })
    .collect()
}

fn fact(tried: &[Tried]) -> String {
    facts(tried).remove(0).value
}

const BOTH: &[Way] = &[Way::MulticastV4, Way::UnicastV4];
const UNICAST: &[Way] = &[Way::UnicastV4];

#[test]
fn nodes_that_hear_each_other_are_well_and_what_each_does_not_hear_is_told_of_it() {
    let all_hear = [
        hears("n1", "192.0.2.11/24", &[("n2", BOTH), ("n3", BOTH)]),
        hears("n2", "192.0.2.12/24", &[("n1", BOTH), ("n3", BOTH)]),
        hears("n3", "192.0.2.13/24", &[("n1", BOTH), ("n2", BOTH)]),
    ];
    assert_eq!(told(&all_hear), []);
    assert_eq!(
        fact(&all_hear),
        "3 of 3 nodes tried it: multicast of VRRP passes in 6 of 6 directions by IPv4"
    );

    let mut snooped = all_hear.clone();
    snooped[1] = hears("n2", "192.0.2.12/24", &[("n1", UNICAST), ("n3", UNICAST)]);
    let expected = [(Severity::Warning, "n2".to_owned(), "WithoutMulticast".to_owned())];
    assert_eq!(told(&snooped), expected, "one finding for both");
    assert!(findings(&snooped)[0].message.contains("n1, n3"), "{:?}", findings(&snooped));

    let mut fenced = all_hear;
    fenced[2] = hears("n3", "192.0.2.13/24", &[]);
    fenced[0] = hears("n1", "192.0.2.11/24", &[("n2", BOTH)]);
    let blocked = |name: &str| (Severity::Error, name.to_owned(), "VRRPBlocked".to_owned());
    assert_eq!(told(&fenced), [blocked("n1"), blocked("n3")]);
    assert_eq!(fact(&fenced), "3 of 3 nodes tried it: multicast of VRRP passes in 3 of 6 directions by IPv4");
}

#[test]
fn nodes_with_no_network_in_common_are_not_expected_to_hear_each_other() {
    let apart = [hears("n1", "192.0.2.11/24", &[]), hears("n2", "198.51.100.12/24", &[])];
    assert_eq!(told(&apart), []);
    assert_eq!(fact(&apart), "2 of 2 nodes tried it: no two of them have a network in common");
    let families = [
        hears("n1", "2001:db8::1/64", &[("n2", &[Way::MulticastV4])]),
        hears("n2", "2001:db8::2/64", &[("n1", &[Way::MulticastV6])]),
    ];
    assert_eq!(
        told(&families),
        [(Severity::Error, "n1".to_owned(), "VRRPBlocked".to_owned())],
        "IPv6 is the one they share"
    );
}

#[test]
fn a_node_that_was_not_tried_and_one_that_cannot_send_are_told() {
    let mut failing = hears("n1", "192.0.2.11/24", &[]);
    failing.report.as_mut().unwrap().failed.insert("nothing can be sent".to_owned());
    let tried =
        [failing, Tried { node: "n2".to_owned(), report: Err("its kubelet is not ready".to_owned()) }];
    assert_eq!(
        told(&tried),
        [
            (Severity::Error, "n1".to_owned(), "NotSent".to_owned()),
            (Severity::Warning, "n2".to_owned(), "NotTried".to_owned()),
        ]
    );
    assert!(fact(&tried).starts_with("1 of 2 nodes tried it"), "{}", fact(&tried));
}

// shows: field-reports F-76
#[test]
fn a_pod_is_made_for_each_node_that_can_run_one_and_knows_the_addresses_of_all_others() {
    let with = |name: &str, addresses: &[&str]| {
        let mut node = node(name);
        let addresses = addresses.iter().map(|it| json!({ "type": "InternalIP", "address": it }));
        node["status"]["addresses"] =
            addresses.chain([json!({ "type": "Hostname", "address": name })]).collect();
        node
    };
    let mut windows = with("w1", &["192.0.2.21"]);
    windows["metadata"]["labels"] = json!({ "kubernetes.io/os": "windows" });
    let mut down = with("n9", &["192.0.2.19"]);
    down["status"]["conditions"][0]["status"] = json!("Unknown");
    let nodes = [with("n1", &["192.0.2.11", "2001:db8::11"]), with("n2", &["192.0.2.12"]), windows, down];
    let snapshot = Snapshot { nodes: Vec::from(nodes.map(object)).into(), ..Snapshot::default() };
    let (targets, untried) = targets(&snapshot);
    assert_eq!(targets.iter().map(|it| it.node.as_str()).collect::<Vec<_>>(), ["n1", "n2"]);
    let why: Vec<(&str, &str)> =
        untried.iter().map(|it| (it.node.as_str(), it.report.as_ref().unwrap_err().as_str())).collect();
    assert_eq!(why, [("n9", "its kubelet is not ready")], "a node with Windows takes no part");

    let trial = Trial { run: 7, image: "windlass:1", life: std::time::Duration::from_secs(184) };
    let spec = pod(&trial, &targets[1], &targets).spec.unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("n2"));
    assert_eq!(spec.node_selector, Some([("kubernetes.io/os".to_owned(), "linux".to_owned())].into()));
    assert_eq!(spec.active_deadline_seconds, Some(184), "nobody has to take it away");
    let args = spec.containers[0].args.as_deref().unwrap();
    assert_eq!(args, ["exchange", "--run=7", "--node=n2", "--peer=192.0.2.11", "--peer=2001:db8::11"]);
    let security = spec.containers[0].security_context.as_ref().unwrap().capabilities.as_ref().unwrap();
    assert_eq!(security.add.as_deref(), Some(["NET_RAW".to_owned()].as_slice()));
    let alone = [Target { node: "n1".to_owned(), addresses: Vec::new() }];
    assert_eq!(pod(&trial, &alone[0], &alone).spec.unwrap().containers[0].args.as_ref().unwrap().len(), 3);
}

#[test]
fn how_far_a_pod_is_is_told_in_the_kubelets_words() {
    let of = |status| progress(&object(json!({ "metadata": { "name": "p" }, "status": status })));
    let waiting = json!({ "reason": "ErrImageNeverPull", "message": "windlass:1 is not present" });
    let rows = [
        (json!({}), Progress::Waits(String::new())),
        (json!({ "phase": "Running" }), Progress::Runs),
        (
            json!({ "phase": "Pending", "containerStatuses": [{
                "name": "exchange", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": { "waiting": waiting } }] }),
            Progress::Stuck("ErrImageNeverPull: windlass:1 is not present".to_owned()),
        ),
        (
            json!({ "phase": "Pending", "containerStatuses": [{
                "name": "exchange", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                "state": { "waiting": { "reason": "ContainerCreating" } } }] }),
            Progress::Waits("ContainerCreating".to_owned()),
        ),
        (json!({ "phase": "Failed", "reason": "Evicted" }), Progress::Ended("Evicted".to_owned())),
    ];
    for (status, expected) in rows {
        assert_eq!(of(status), expected);
    }
}
