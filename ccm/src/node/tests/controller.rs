use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use prometheus::{Registry, TextEncoder};
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{UNINITIALIZED, fresh, machine};
use crate::fake::{Call, FakeProvider, Method};
use crate::metrics::Metrics;
use crate::node::{NodeController, NodeOptions};
use crate::provider::{InstanceMetadata, ProviderError};
use crate::store::with_informers;
use crate::testing::apiserver::ApiServer;
use crate::testing::{node, with};

/// When the nodes were made, in seconds since 1970.
const BEGIN: i64 = 1_767_225_600;

struct Rig {
    api: ApiServer,
    provider: Arc<FakeProvider>,
    token: CancellationToken,
    options: NodeOptions,
    registry: Registry,
}

impl Rig {
    fn start(self) -> Self {
        let provider = Arc::clone(&self.provider);
        let metrics = Metrics::register(&self.registry, "lease").expect("metrics");
        let (client, options, token) = (self.api.client(), self.options.clone(), self.token.clone());
        tokio::spawn(with_informers(client.clone(), |informers| {
            let mut controller = NodeController::new(client, informers, provider, options, metrics);
            controller.clock = || Timestamp::from_second(BEGIN + 20).expect("a time");
            controller.run(token)
        }));
        self
    }

    fn new(nodes: impl IntoIterator<Item = Value>) -> Self {
        let rig = Self {
            api: ApiServer::default(),
            provider: Arc::default(),
            token: CancellationToken::new(),
            options: NodeOptions::default(),
            registry: Registry::default(),
        };
        for node in nodes {
            rig.api.put(node);
        }
        rig
    }

    fn shows(&self, line: &str) -> bool {
        let text = TextEncoder::new().encode_to_string(&self.registry.gather()).expect("text");
        text.lines().any(|shown| shown == line)
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

// shows: ccm-contract N-09
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

// shows: ccm-contract N-08, N-14
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

// shows: ccm-contract 188, N-03
#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_initialized_says_why_once_and_is_tried_again_188() {
    let rig = Rig::new([fresh("n1")]);
    let away = || ProviderError::Transient("inventory does not answer".to_owned());
    rig.provider.fail_next(Method::Metadata, [away(), away(), away(), away()]);
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    let rig = rig.start();
    rig.api.until("initialization", |api| !tainted(api, "n1")).await;
    let failed = "Warning SyncNodeFailed Error syncing node: \
                  failed to get instance metadata: inventory does not answer";
    let last_failures: Vec<_> =
        rig.api.events().into_iter().filter(|event| event.starts_with("Warning")).collect();
    assert_eq!(last_failures, [failed]);
}

#[tokio::test(start_paused = true)]
async fn a_refused_node_ip_is_told_once_and_again_when_it_is_another() {
    let rig = Rig::new([fresh("n1")]).start();
    let (one, other) = ("192.0.2.200 is a VIP", "192.0.2.201 is a VIP");
    let rows = [
        (Some(one), vec![one]),
        (Some(one), vec![one]),
        (Some(other), vec![one, other]),
        (None, vec![one, other]),
    ];
    for (refused, expected) in rows {
        let refused = refused.map(str::to_owned);
        let machine =
            InstanceMetadata { node_ip_refused: refused, ..machine(&[("InternalIP", "192.0.2.11")]) };
        rig.provider.set_metadata("n1", machine);
        rig.provider.take_calls();
        rig.provider.node_changed("n1");
        rig.api.until("the provider to be asked", |_| !rig.provider.calls().is_empty()).await;
        tokio::time::sleep(Duration::from_secs(30)).await;
        let last_failures: Vec<_> = rig.api.events();
        let last_failures: Vec<_> =
            last_failures.iter().filter_map(|event| event.strip_prefix("Warning NodeIPRefused ")).collect();
        assert_eq!(last_failures, expected);
        assert!(!rig.is_tainted("n1"), "it is initialized with the other address");
    }
}

#[tokio::test(start_paused = true)]
async fn the_provider_decides_when_it_is_asked_again() {
    let rig = Rig::new([fresh("n1")]);
    rig.provider.fail_next(
        Method::Metadata,
        [ProviderError::RetryAfter {
            after: Duration::from_secs(42),
            reason: "the agent has not reported yet".to_owned(),
        }],
    );
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    let began = Instant::now();
    let rig = rig.start();
    rig.api.until("initialization", |api| !tainted(api, "n1")).await;
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(42) && took < Duration::from_secs(43), "{took:?}");
}

// shows: ccm-contract N-10
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

// shows: ccm-contract N-10
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

// shows: ccm-contract 173, N-03
#[tokio::test(start_paused = true)]
async fn a_node_of_another_provider_keeps_its_taint_173() {
    let rig = Rig::new([fresh("n1")]).start();
    rig.api.until("asked for", |_| !rig.provider.calls().is_empty()).await;
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(rig.is_tainted("n1"));
    assert_eq!(rig.api.writes(), []);
}

// shows: ccm-contract N-09
#[tokio::test(start_paused = true)]
async fn how_long_a_node_waited_is_measured_from_its_creation_n_09() {
    let made = Timestamp::from_second(BEGIN).expect("a time").to_string();
    let rig =
        Rig::new([with(fresh("n1"), &json!({ "metadata": { "creationTimestamp": made } })), node("n2")]);
    rig.provider.set_metadata("n1", machine(&[("InternalIP", "192.0.2.11")]));
    let rig = rig.start();
    let running = "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"cloud-node\"}";
    rig.api.until("the event", |api| !api.events().is_empty()).await;
    for histogram in ["cloud_provider_taint_removal", "initial_node_sync"] {
        let name = format!("node_controller_{histogram}_delay_seconds");
        assert!(rig.shows(&format!("{name}_sum 20")), "{name}");
        assert!(rig.shows(&format!("{name}_count 1")), "{name}: n2 needed nothing");
    }
    assert!(rig.shows(&format!("{running} 1")));
    rig.token.cancel();
    rig.api.until("the end", |_| rig.shows(&format!("{running} 0"))).await;
}

// shows: ccm-contract 205 to 208
#[tokio::test(start_paused = true)]
async fn each_period_asks_the_provider_once_per_node_with_any_number_of_workers_205_to_208() {
    for workers in [1, 5, 10, 30] {
        let mut rig = Rig::new((0..100).map(|number| node(&format!("n{number}"))));
        rig.options.workers = workers;
        rig.provider.delay(Method::Metadata, Duration::from_millis(10));
        let rig = rig.start();
        for round in 1..=2 {
            let asked = |_: &ApiServer| rig.provider.calls().len() == 100;
            rig.api.until("every node to be asked for", asked).await;
            tokio::time::sleep(Duration::from_mins(4)).await;
            let mut calls: Vec<_> =
                rig.provider.take_calls().iter().map(|call| call.subject().to_owned()).collect();
            assert_eq!(calls.len(), 100, "{workers} workers, round {round}");
            calls.sort();
            calls.dedup();
            assert_eq!(calls.len(), 100, "{workers} workers, round {round}");
        }
        assert_eq!((rig.provider.overlaps(), rig.provider.most_at_once()), (0, workers));
        rig.token.cancel();
    }
}

// shows: ccm-contract 197, 198
#[tokio::test(start_paused = true)]
async fn a_tainted_node_gets_its_addresses_with_its_initialization_and_not_otherwise_197_198() {
    let rig = Rig::new([fresh("n1"), fresh("n2")]);
    // n1: no provider ID anywhere. n2: a machine of nobody.
    let nameless =
        InstanceMetadata { provider_id: String::new(), ..machine(&[("InternalIP", "192.0.2.11")]) };
    rig.provider.set_metadata("n1", nameless);
    let rig = rig.start();
    tokio::time::sleep(Duration::from_mins(30)).await;
    assert!(rig.is_tainted("n1") && rig.is_tainted("n2"));
    let written = rig.api.writes().into_iter().filter(|write| write.path.starts_with("nodes/")).count();
    assert_eq!(written, 0);
}
