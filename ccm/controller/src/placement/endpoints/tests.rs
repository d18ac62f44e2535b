use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_ccm::watch::Event;

use super::*;

/// `(node, ready, serving, terminating)`.
type Pod<'a> = (&'a str, bool, bool, bool);

const READY: (bool, bool, bool) = (true, true, false);

fn slice(name: &str, service: &str, version: u64, family: &str, pods: &[Pod<'_>]) -> EndpointSlice {
    let endpoint = |(node, ready, serving, terminating): &Pod<'_>| {
        json!({ "addresses": ["10.0.0.1"], "nodeName": node,
                "conditions": { "ready": ready, "serving": serving, "terminating": terminating } })
    };
    raw(name, service, version, family, &json!(pods.iter().map(endpoint).collect::<Vec<_>>()))
}

fn raw(name: &str, service: &str, version: u64, family: &str, endpoints: &Value) -> EndpointSlice {
    let body = json!({
        "metadata": { "namespace": "ns", "name": name, "uid": name, "resourceVersion": version.to_string(),
                      "labels": { LABEL_SERVICE: service, "x": "y" } },
        "addressType": family, "endpoints": endpoints, "ports": [],
    });
    slimmed(serde_json::from_value(body).expect("a slice"))
}

fn owner(name: &str) -> ServiceRef {
    ServiceRef { namespace: "ns".into(), name: name.into(), uid: "u".into() }
}

/// The slices, with the index kept up.
struct Cluster {
    slices: Store<EndpointSlice>,
    index: EndpointIndex,
    begin: Instant,
    version: u64,
}

impl Cluster {
    fn new() -> Self {
        let (slices, index) = (Store::default(), EndpointIndex::default());
        Self { slices, index, begin: Instant::now(), version: 0 }
    }

    fn take(&mut self, event: Event<EndpointSlice>, at_ms: u64, is_new: bool) {
        let now = self.begin + Duration::from_millis(at_ms);
        for change in self.slices.handle(event.map(Arc::new)) {
            self.index.on_change(&self.slices, &change, |_| is_new, now);
        }
    }

    fn put(&mut self, name: &str, pods: &[Pod<'_>], at_ms: u64, is_new: bool) {
        self.version += 1;
        self.take(Event::Apply(slice(name, "web", self.version, "IPv4", pods)), at_ms, is_new);
    }

    fn states(&self, at_ms: u64) -> Vec<(String, EndpointState, usize)> {
        let now = self.begin + Duration::from_millis(at_ms);
        let serving = self.index.serving(&self.slices, &[owner("web")], true, now);
        serving.into_iter().map(|(node, one)| (node, one.state, one.ready)).collect()
    }
}

fn ready(node: &str) -> Pod<'_> {
    (node, READY.0, READY.1, READY.2)
}

// shows: allocation 88 to 91; field-reports F-40
#[test]
fn what_counts_as_serving_is_what_kube_proxy_uses() {
    let rows = [
        (json!({ "ready": true, "serving": true, "terminating": false }), Some(EndpointState::Ready)),
        (json!({}), Some(EndpointState::Ready)),
        (json!(null), Some(EndpointState::Ready)),
        (json!({ "ready": false, "serving": true, "terminating": true }), Some(EndpointState::Terminating)),
        (json!({ "ready": false, "serving": true, "terminating": false }), None),
        (json!({ "ready": false, "serving": false, "terminating": true }), None),
        (json!({ "ready": false, "terminating": true }), None),
        (json!({ "ready": true, "serving": true, "terminating": true }), Some(EndpointState::Ready)),
    ];
    for (conditions, expected) in rows {
        let endpoints = json!([{ "addresses": ["10.0.0.1"], "nodeName": "n1", "conditions": conditions }]);
        let slice = raw("a", "web", 1, "IPv4", &endpoints);
        let found: Vec<_> = serving_endpoints(&slice).map(|(_, state)| state).collect();
        assert_eq!(found, Vec::from_iter(expected), "{conditions}");
    }
    let nowhere = raw("a", "web", 1, "IPv4", &json!([{ "addresses": ["10.0.0.1"] }]));
    assert_eq!(serving_endpoints(&nowhere).count(), 0, "an endpoint without a node is on none");
    assert_eq!(serving_endpoints(&raw("a", "web", 1, "IPv4", &json!(null))).count(), 0);
}

#[test]
fn a_first_endpoint_counts_in_full_after_two_seconds_and_what_was_there_before_at_once() {
    let mut cluster = Cluster::new();
    cluster.put("a", &[ready("n1")], 0, false);
    assert_eq!(cluster.states(0), [("n1".into(), EndpointState::Ready, 1)]);
    cluster.put("a", &[ready("n1"), ready("n2")], 100, true);
    let (n1, n2) = ("n1".to_owned(), "n2".to_owned());
    let new = [(n1.clone(), EndpointState::Ready, 1), (n2.clone(), EndpointState::JustReady, 1)];
    assert_eq!(cluster.states(2099), new);
    assert_eq!(cluster.index.next_settled(cluster.begin), Some(cluster.begin + Duration::from_millis(2100)));
    // A second one there, or the same in another slice, is not new.
    cluster.put("b", &[ready("n2")], 1500, true);
    let both = [(n1.clone(), EndpointState::Ready, 1), (n2.clone(), EndpointState::Ready, 2)];
    assert_eq!(cluster.states(2100), both);
    cluster.put("a", &[ready("n1")], 3000, true);
    assert_eq!(cluster.states(3000), [(n1, EndpointState::Ready, 1), (n2, EndpointState::Ready, 1)]);
    assert_eq!(cluster.index.next_settled(cluster.begin + Duration::from_secs(3)), None);
}

#[test]
fn one_that_comes_and_goes_begins_anew_each_time() {
    let mut cluster = Cluster::new();
    for round in 0..5 {
        cluster.put("a", &[ready("n1")], round * 1000, true);
        assert_eq!(cluster.states(round * 1000 + 500), [("n1".into(), EndpointState::JustReady, 1)]);
        cluster.put("a", &[], round * 1000 + 900, true);
        assert!(cluster.states(round * 1000 + 900).is_empty());
    }
    assert!(cluster.index.settled_at.is_empty());
}

#[test]
fn a_new_pod_beside_one_that_ends_is_no_reason_to_leave_the_node() {
    let mut cluster = Cluster::new();
    cluster.put("a", &[ready("n1")], 0, false);
    cluster.put("a", &[("n1", false, true, true)], 100, true);
    assert_eq!(cluster.states(100), [("n1".into(), EndpointState::Terminating, 0)]);
    cluster.put("a", &[("n1", false, true, true), ready("n1")], 200, true);
    assert_eq!(cluster.states(200), [("n1".into(), EndpointState::Terminating, 1)]);
    assert_eq!(cluster.states(2200), [("n1".into(), EndpointState::Ready, 1)]);
}

#[test]
fn a_node_serves_an_address_of_two_services_as_it_serves_the_worse_of_them() {
    let mut cluster = Cluster::new();
    let four = |name: &str, version, pods: &[Pod<'_>]| Event::Apply(slice(name, name, version, "IPv4", pods));
    cluster.take(four("a", 1, &[ready("n1"), ready("n2"), ready("n2")]), 0, false);
    cluster.take(four("b", 2, &[("n1", false, true, true), ready("n2"), ready("n3")]), 0, false);
    let serving = |owners: &[&str], is_ipv4| {
        let owners: Vec<_> = owners.iter().map(|name| owner(name)).collect();
        let nodes = cluster.index.serving(&cluster.slices, &owners, is_ipv4, cluster.begin);
        nodes.into_iter().map(|(node, one)| (node, one.state, one.ready)).collect::<Vec<_>>()
    };
    let expected = [("n1".into(), EndpointState::Terminating, 0), ("n2".into(), EndpointState::Ready, 1)];
    assert_eq!(serving(&["a", "b"], true), expected);
    assert_eq!(serving(&["a", "nothing"], true).len(), 2, "one without endpoints does not count");
    assert!(serving(&["a"], false).is_empty(), "the other family has its own");
}

#[test]
fn a_slice_that_names_another_service_or_goes_is_counted_no_more() {
    let mut cluster = Cluster::new();
    cluster.put("a", &[ready("n1")], 0, false);
    cluster.take(Event::Apply(slice("a", "other", 9, "IPv4", &[ready("n1")])), 0, true);
    assert!(cluster.states(9).is_empty());
    cluster.take(Event::Delete(slice("a", "other", 10, "IPv4", &[])), 0, true);
    assert!(cluster.index.slices.is_empty());
}

#[test]
fn only_a_change_of_where_endpoints_serve_is_news() {
    let four = |version, pods: &[Pod<'_>]| Some(Arc::new(slice("a", "web", version, "IPv4", pods)));
    let rows = [
        (four(1, &[ready("n1")]), four(2, &[ready("n1")]), false),
        (four(1, &[ready("n1")]), four(2, &[ready("n2")]), true),
        (four(1, &[ready("n1")]), four(2, &[("n1", false, true, true)]), true),
        (four(1, &[("n1", false, false, false)]), four(2, &[]), false),
        (None, four(1, &[]), false),
        (None, four(1, &[ready("n1")]), true),
        (four(1, &[ready("n1")]), None, true),
    ];
    for (old, new, expected) in rows {
        let change = Change { old, new };
        assert_eq!(may_differ(&change), expected, "{change:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))] // 1.3 ms each

    /// Any history of slices leaves the index as a fresh one of the same slices, but for what is new.
    #[test]
    fn the_index_is_what_the_slices_say(
        steps in prop::collection::vec((0..4usize, 0..3usize, prop::collection::vec((0..3usize, 0..3usize), 0..4)), 1..40),
    ) {
        let (names, services, nodes) = (["a", "b", "c", "d"], ["web", "api", "db"], ["n1", "n2", "n3"]);
        let kinds = [READY, (false, true, true), (false, false, false)];
        let mut cluster = Cluster::new();
        for (index, (name, service, pods)) in steps.iter().enumerate() {
            let pods: Vec<Pod<'_>> =
                pods.iter().map(|(node, kind)| (nodes[*node], kinds[*kind].0, kinds[*kind].1, kinds[*kind].2)).collect();
            let new = slice(names[*name], services[*service], index as u64 + 1, "IPv4", &pods);
            let event = if pods.len() == 3 { Event::Delete(new) } else { Event::Apply(new) };
            cluster.take(event, index as u64 * 300, true);
            let mut fresh = Cluster::new();
            for slice in cluster.slices.iter() {
                fresh.take(Event::Apply((**slice).clone()), 0, false);
            }
            prop_assert_eq!(&cluster.index.slices, &fresh.index.slices);
            let later = cluster.begin + Duration::from_mins(1);
            for service in services {
                let serving = |one: &Cluster| one.index.serving(&one.slices, &[owner(service)], true, later);
                prop_assert_eq!(serving(&cluster), serving(&fresh));
            }
            for ((service, _), settling) in &cluster.index.settled_at {
                let ready = cluster.index.ready_nodes(&cluster.slices, &(service.clone(), true), None);
                prop_assert!(settling.keys().all(|node| ready.contains(node)), "{} {:?}", service, settling);
            }
        }
    }
}
