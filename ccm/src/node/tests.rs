//! Numbers are those of the scenario catalogue, service-contract §4.3 and §4.5.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::NodeAddress;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::addresses::wanted_addresses;
use super::decide::{NodeChange, decide, initialize_patch, node_matters};
use super::{NodeController, NodeOptions};
use crate::fake::{Call, FakeProvider};
use crate::metrics::Metrics;
use crate::provider::{InstanceMetadata, ProviderError};
use crate::testing::apiserver::ApiServer;
use crate::testing::{node, node_object, with};

/// Types and addresses.
type List<'a> = &'a [(&'a str, &'a str)];

const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";

fn fresh(name: &str) -> Value {
    let change = json!({
        "spec": {
            "providerID": null,
            "taints": [
                { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" },
                { "key": UNINITIALIZED, "value": "true", "effect": "NoSchedule" }
            ]
        },
        "status": { "addresses": [{ "type": "Hostname", "address": name }] }
    });
    with(node(name), &change)
}

fn node_ip(ips: &str) -> Value {
    json!({ "metadata": { "annotations": { "alpha.kubernetes.io/provided-node-ip": ips } } })
}

fn addresses(list: &[(&str, &str)]) -> Vec<NodeAddress> {
    list.iter()
        .map(|(kind, address)| NodeAddress { type_: (*kind).to_owned(), address: (*address).to_owned() })
        .collect()
}

fn shown(list: &[NodeAddress]) -> Vec<(&str, &str)> {
    list.iter().map(|entry| (entry.type_.as_str(), entry.address.as_str())).collect()
}

fn machine(list: &[(&str, &str)]) -> InstanceMetadata {
    InstanceMetadata {
        provider_id: "fake://12345".to_owned(),
        addresses: addresses(list),
        ..InstanceMetadata::default()
    }
}

fn decided(node: Value, machine: &InstanceMetadata) -> NodeChange {
    decide(&node_object(node), Some(machine)).expect("a decision").unwrap_or_default()
}

#[test]
fn an_uninitialized_node_gets_everything_167_172() {
    let mut metadata =
        machine(&[("Hostname", "a.example"), ("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")]);
    metadata.instance_type = "box".to_owned();
    metadata.zone = "rack-1".to_owned();
    metadata.region = "site-1".to_owned();
    let change = decided(fresh("n1"), &metadata);
    assert_eq!(change.addresses, Some(metadata.addresses.clone()), "167: the provider's host name wins");
    let initialize = change.initialize.expect("initialization");
    assert_eq!(initialize.provider_id.as_deref(), Some("fake://12345"));
    let taints: Vec<_> = initialize.taints.iter().map(|taint| taint.key.as_str()).collect();
    assert_eq!(taints, ["node.kubernetes.io/not-ready"], "172: only ours goes");
    let labels: Vec<_> =
        initialize.labels.iter().map(|(label, value)| (label.as_str(), value.as_str())).collect();
    assert_eq!(
        labels,
        [
            ("node.kubernetes.io/instance-type", "box"),
            ("topology.kubernetes.io/region", "site-1"),
            ("topology.kubernetes.io/zone", "rack-1")
        ],
        "171"
    );
}

#[test]
fn kubelets_host_name_stays_if_the_provider_has_none_168() {
    let change = decided(fresh("n1"), &machine(&[("InternalIP", "192.0.2.11")]));
    let list = change.addresses.expect("addresses");
    assert_eq!(shown(&list), [("InternalIP", "192.0.2.11"), ("Hostname", "n1")]);
}

#[test]
fn an_existing_provider_id_is_kept_169_177() {
    let node = with(fresh("n1"), &json!({ "spec": { "providerID": "metal3://x" } }));
    let initialize = decided(node, &machine(&[])).initialize.expect("initialization");
    assert_eq!(initialize.provider_id, None);
}

#[test]
fn without_any_provider_id_the_taint_stays_187() {
    let nameless = InstanceMetadata::default();
    let error = decide(&node_object(fresh("n1")), Some(&nameless)).expect_err("no provider ID").to_string();
    assert_eq!(error, "cloud provider does not set node provider ID for node n1");
    let node = with(fresh("n1"), &json!({ "spec": { "providerID": "metal3://x" } }));
    assert!(decided(node, &nameless).initialize.is_some(), "204: the node has one");
}

#[test]
fn an_initialized_node_is_not_initialized_again_170() {
    let change = decided(node("n1"), &machine(&[("InternalIP", "192.0.2.11")]));
    assert_eq!(change.initialize, None);
    assert!(change.addresses.is_some(), "but its addresses are looked after (N-10)");
}

#[test]
fn somebody_elses_node_is_left_alone_173() {
    assert_eq!(decide(&node_object(fresh("n1")), None), Ok(None));
}

#[test]
fn an_empty_list_from_the_provider_keeps_the_addresses() {
    let change = decided(fresh("n1"), &machine(&[]));
    assert_eq!(change.addresses, None);
    assert!(change.initialize.is_some());
}

#[test]
fn labels_that_are_right_are_not_written_and_kubelets_are_replaced() {
    let mut metadata = machine(&[]);
    metadata.zone = "rack-1".to_owned();
    metadata.region = "site-1".to_owned();
    let labels = json!({ "metadata": { "labels": { "topology.kubernetes.io/zone": "rack-1", "topology.kubernetes.io/region": "x" } } });
    let initialize = decided(with(fresh("n1"), &labels), &metadata).initialize.expect("initialization");
    assert_eq!(
        initialize.labels.into_iter().collect::<Vec<_>>(),
        [("topology.kubernetes.io/region".to_owned(), "site-1".to_owned())]
    );
}

#[test]
fn addresses_are_compared_in_order_192_to_196_and_n_13() {
    let current = [("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11"), ("Hostname", "n1")];
    let node = with(node("n1"), &json!({ "status": { "addresses": addresses(&current) } }));
    let rows: [(&str, List<'_>, bool); 5] = [
        ("192 equal, dual-stack", &current, false),
        (
            "193 another value",
            &[("InternalIP", "192.0.2.12"), ("InternalIP", "2001:db8::11"), ("Hostname", "n1")],
            true,
        ),
        (
            "194 one more",
            &[
                ("InternalIP", "192.0.2.11"),
                ("InternalIP", "2001:db8::11"),
                ("ExternalIP", "203.0.113.1"),
                ("Hostname", "n1"),
            ],
            true,
        ),
        ("195 one less", &[("InternalIP", "192.0.2.11"), ("Hostname", "n1")], true),
        (
            "196 types swapped",
            &[("ExternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11"), ("Hostname", "n1")],
            true,
        ),
    ];
    for (what, provided, differs) in rows {
        assert_eq!(decided(node.clone(), &machine(provided)).addresses.is_some(), differs, "{what}");
    }
}

#[test]
fn the_node_ip_annotation_orders_and_filters_174_and_235_to_248() {
    let rows: [(&str, &str, List<'_>, List<'_>); 9] = [
        (
            "174, 235 one internal",
            "192.0.2.11",
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")],
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")],
        ),
        (
            "236 the external one",
            "203.0.113.1",
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1")],
            &[("ExternalIP", "203.0.113.1"), ("InternalIP", "192.0.2.11")],
        ),
        (
            "237 two types match",
            "192.0.2.11",
            &[
                ("InternalIP", "192.0.2.11"),
                ("InternalIP", "192.0.2.12"),
                ("ExternalIP", "192.0.2.11"),
                ("ExternalIP", "203.0.113.1"),
            ],
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "192.0.2.11")],
        ),
        (
            "239 several internal",
            "192.0.2.12",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "192.0.2.12"), ("ExternalIP", "203.0.113.1")],
            &[("InternalIP", "192.0.2.12"), ("ExternalIP", "203.0.113.1")],
        ),
        (
            "241 IPv6 spelt differently",
            "2001:db8:0::11",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11")],
            &[("InternalIP", "2001:db8::11")],
        ),
        (
            "243 both families, annotation order",
            "2001:db8::11,192.0.2.11",
            &[("InternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11")],
            &[("InternalIP", "2001:db8::11"), ("InternalIP", "192.0.2.11")],
        ),
        (
            "245 several per family",
            "192.0.2.12,2001:db8::12",
            &[
                ("InternalIP", "192.0.2.11"),
                ("InternalIP", "192.0.2.12"),
                ("InternalIP", "2001:db8::11"),
                ("InternalIP", "2001:db8::12"),
            ],
            &[("InternalIP", "192.0.2.12"), ("InternalIP", "2001:db8::12")],
        ),
        (
            "247 externals stay",
            "192.0.2.11",
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1"), ("ExternalIP", "203.0.113.2")],
            &[("InternalIP", "192.0.2.11"), ("ExternalIP", "203.0.113.1"), ("ExternalIP", "203.0.113.2")],
        ),
        (
            "248 one internal, one external",
            "192.0.2.11,2001:db8::11",
            &[
                ("InternalIP", "2001:db8::12"),
                ("InternalIP", "192.0.2.12"),
                ("ExternalIP", "192.0.2.11"),
                ("InternalIP", "2001:db8::11"),
            ],
            &[("ExternalIP", "192.0.2.11"), ("InternalIP", "2001:db8::11")],
        ),
    ];
    for (what, annotation, provided, expected) in rows {
        let node = node_object(with(fresh("n1"), &node_ip(annotation)));
        let list = wanted_addresses(&node, &addresses(provided)).expect(what);
        let expected: Vec<_> = expected.iter().copied().chain([("Hostname", "n1")]).collect();
        assert_eq!(shown(&list), expected, "{what}");
    }
}

#[test]
fn a_node_ip_that_cannot_be_kept_leaves_the_taint_175_176_240_242() {
    let offered = [("InternalIP", "192.0.2.11")];
    let rows = [
        ("175", "invalid-ip", "\"invalid-ip\" is not an IP address"),
        ("176, 240", "192.0.2.12", "matches ip: 192.0.2.12; it offers InternalIP 192.0.2.11, Hostname n1"),
        ("242", "192.0.2.11,2001:db8::11", "matches ip: 2001:db8::11"),
        ("two of one family", "192.0.2.11,192.0.2.12", "names two addresses of one family"),
        ("three", "192.0.2.11,2001:db8::11,192.0.2.12", "names 3 addresses"),
        ("empty", "", "\"\" is not an IP address"),
    ];
    for (what, annotation, reason) in rows {
        let node = node_object(with(fresh("n1"), &node_ip(annotation)));
        let error = decide(&node, Some(&machine(&offered))).expect_err(what).to_string();
        assert!(error.starts_with("provided node ip for node \"n1\" is not valid: "), "{what}: {error}");
        assert!(error.contains(reason), "{what}: {error}");
    }
}

#[test]
fn duplicate_addresses_are_dropped_233() {
    let change =
        decided(fresh("n1"), &machine(&[("InternalIP", "192.0.2.11"), ("InternalIP", "192.0.2.11")]));
    assert_eq!(
        shown(&change.addresses.expect("addresses")),
        [("InternalIP", "192.0.2.11"), ("Hostname", "n1")]
    );
}

#[test]
fn the_taint_is_removed_only_from_the_node_that_was_read() {
    let node = with(fresh("n1"), &json!({ "metadata": { "resourceVersion": "7" } }));
    let change = decided(node.clone(), &machine(&[])).initialize.expect("initialization");
    assert_eq!(
        initialize_patch(&node_object(node), &change),
        json!({
            "metadata": { "resourceVersion": "7" },
            "spec": {
                "providerID": "fake://12345",
                "taints": [{ "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }]
            }
        })
    );
}

#[test]
fn heartbeats_are_no_reason_to_look_again() {
    let beat = json!({ "metadata": { "resourceVersion": "9" }, "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
    assert!(!node_matters(&node_object(node("n1")), &node_object(with(node("n1"), &beat))));
    let rows = [
        ("annotation", node_ip("192.0.2.11")),
        ("taint", json!({ "spec": { "taints": [{ "key": UNINITIALIZED, "effect": "NoSchedule" }] } })),
        ("label", json!({ "metadata": { "labels": { "a": "b" } } })),
        ("addresses", json!({ "status": { "addresses": addresses(&[("Hostname", "n1")]) } })),
    ];
    for (what, change) in rows {
        assert!(node_matters(&node_object(node("n1")), &node_object(with(node("n1"), &change))), "{what}");
    }
}

struct Rig {
    api: ApiServer,
    provider: Arc<FakeProvider>,
    token: CancellationToken,
}

impl Rig {
    fn start(self) -> Self {
        let metrics = Metrics::unregistered("lease");
        let provider = Arc::clone(&self.provider);
        let controller = NodeController::new(self.api.client(), provider, NodeOptions::default(), metrics);
        tokio::spawn(controller.run(self.token.clone()));
        self
    }

    fn new(nodes: impl IntoIterator<Item = Value>) -> Self {
        let rig =
            Self { api: ApiServer::default(), provider: Arc::default(), token: CancellationToken::new() };
        for node in nodes {
            rig.api.put(node);
        }
        rig
    }

    fn is_tainted(&self, name: &str) -> bool {
        tainted(&self.api, name)
    }
}

fn tainted(api: &ApiServer, name: &str) -> bool {
    let node = api.get(&format!("nodes//{name}")).unwrap_or_default();
    node["spec"]["taints"]
        .as_array()
        .is_some_and(|taints| taints.iter().any(|taint| taint["key"] == UNINITIALIZED))
}

#[tokio::test(start_paused = true)]
async fn a_node_has_its_addresses_before_it_loses_the_taint() {
    let rig = Rig::new([fresh("n1")]);
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    let rig = rig.start();
    let synced = "Normal Synced Node synced successfully";
    rig.api.until("the event", |api| api.events() == [synced]).await;
    assert!(!rig.is_tainted("n1"));
    let writes: Vec<_> = rig.api.writes().into_iter().filter(|write| write.event().is_none()).collect();
    let paths: Vec<_> = writes.iter().map(|write| write.path.as_str()).collect();
    assert_eq!(paths, ["nodes//n1/status", "nodes//n1"], "addresses first, the taint last");
    let stored = rig.api.get("nodes//n1").expect("the node");
    assert_eq!(stored["spec"]["providerID"], "fake://12345");
    assert_eq!(stored["status"]["addresses"][0]["address"], "192.0.2.11");
    assert_eq!(stored["status"]["conditions"][0]["type"], "Ready", "kubelet's status stays");
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert_eq!(rig.api.writes().len(), 3, "and then nothing is written");
}

#[tokio::test(start_paused = true)]
async fn a_write_of_kubelets_in_between_costs_nothing_but_another_attempt() {
    let rig = Rig::new([fresh("n1")]);
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    rig.api.fail("patch", "nodes//n1", 409);
    rig.api.fail("patch", "nodes//n1", 409);
    let rig = rig.start();
    rig.api.until("initialization", |api| !tainted(api, "n1")).await;
    assert!(!rig.api.events().iter().any(|event| event.starts_with("Warning")), "{:?}", rig.api.events());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_initialized_says_why_once_and_is_tried_again_188() {
    let rig = Rig::new([fresh("n1")]);
    let away = || ProviderError::Transient("inventory does not answer".to_owned());
    rig.provider.fail_metadata([away(), away(), away(), away()]);
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    let rig = rig.start();
    rig.api.until("initialization", |api| !tainted(api, "n1")).await;
    let failed = "Warning SyncNodeFailed Error syncing node: \
                  failed to get instance metadata: inventory does not answer";
    let told: Vec<_> = rig.api.events().into_iter().filter(|event| event.starts_with("Warning")).collect();
    assert_eq!(told, [failed]);
}

#[tokio::test(start_paused = true)]
async fn the_provider_decides_when_it_is_asked_again() {
    let rig = Rig::new([fresh("n1")]);
    rig.provider.fail_metadata([ProviderError::RetryAfter {
        after: Duration::from_secs(42),
        reason: "the agent has not reported yet".to_owned(),
    }]);
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    let began = Instant::now();
    let rig = rig.start();
    rig.api.until("initialization", |api| !tainted(api, "n1")).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(42) && took < Duration::from_secs(43), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn addresses_are_refreshed_now_and_then_n_10() {
    let rig = Rig::new([node("n1"), node("n2")]).start();
    rig.api.until("both asked for", |_| rig.provider.calls().len() == 2).await;
    assert_eq!(rig.api.writes(), []);
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.99")]));
    let changed = Instant::now();
    rig.api
        .until("the new address", |api| {
            let node = api.get("nodes//n1").unwrap_or_default();
            node["status"]["addresses"][0]["address"] == "192.0.2.99"
        })
        .await;
    assert!(changed.elapsed() <= Duration::from_mins(5) + Duration::from_secs(1), "{:?}", changed.elapsed());
    let calls = rig.provider.calls();
    let asked = |name: &str| calls.iter().filter(|call| **call == Call::Metadata(name.to_owned())).count();
    assert_eq!(asked("n2"), 2, "205 to 208: one call per node and period");
    assert!(asked("n1") <= 3, "and at most one for the change: {}", asked("n1"));
    assert_eq!(rig.api.writes().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_is_looked_at_when_the_provider_has_news_of_its_machine() {
    let rig = Rig::new([node("n1")]).start();
    rig.api.until("asked for", |_| !rig.provider.calls().is_empty()).await;
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.99")]));
    let changed = Instant::now();
    rig.provider.node_changed("unknown");
    rig.provider.node_changed("n1");
    rig.api.until("the new address", |api| !api.writes().is_empty()).await;
    assert!(changed.elapsed() < Duration::from_secs(1), "{:?}", changed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_provider_keeps_its_taint_173() {
    let rig = Rig::new([fresh("n1")]).start();
    rig.api.until("asked for", |_| !rig.provider.calls().is_empty()).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(rig.is_tainted("n1"));
    assert_eq!(rig.api.writes(), []);
}
