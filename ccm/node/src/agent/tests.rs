//! Panics of the agent's parts beside a running engine.

use std::fmt::Debug;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use prometheus::TextEncoder;
use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata};
use windlass_ccm::testing::apiserver::ApiServer;

use super::cluster::tests::{in_namespace, options};
use super::*;

/// Longest time for which a test waits.
const LIMIT: Duration = Duration::from_mins(1);

/// Places at which the agent panics while a test orders it.
#[derive(Default)]
struct Faults {
    /// The first list of virtual IPs, if true.
    list: AtomicBool,
    /// Each report of the node's network.
    publish: AtomicBool,
    /// Each decision that leaves an object out.
    decide: AtomicBool,
}

impl Faults {
    fn client(self: &Arc<Self>, api: &ApiServer) -> Client {
        let (faults, inner) = (Arc::clone(self), api.client());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (faults, inner) = (Arc::clone(&faults), inner.clone());
            async move {
                let path = request.uri().path();
                let is_of = |kind: &str| path.contains(kind);
                assert!(!is_of("virtualips") || !faults.list.swap(false, Ordering::SeqCst), "a list panics");
                let is_publication = is_of("nodenetworks") && request.method() == Method::PATCH;
                assert!(!is_publication || !faults.publish.load(Ordering::SeqCst), "a publication panics");
                inner.send(request).await
            }
        });
        Client::new(service, "default")
    }
}

/// Subscriber that panics in the thread that logs that an object is left out.
struct PanicsAtLog(Arc<Faults>);

struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

impl tracing::Subscriber for PanicsAtLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut message = Message(String::new());
        event.record(&mut message);
        let is_left_out = message.0 == "left out";
        assert!(!is_left_out || !self.0.decide.load(Ordering::SeqCst), "a decision panics");
    }
}

fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status().expect("the command ip");
    assert!(status.success(), "ip {arguments}");
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    let version = if kind == "Node" { "v1" } else { "windlass.dev/v1alpha1" };
    let metadata = json!({ "name": name, "uid": format!("uid-{name}") });
    json!({ "apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec })
}

/// A virtual router of this node alone, with a VRID that all share.
fn router(name: &str) -> Value {
    let node = json!({ "name": "n1", "priority": 254, "address": "192.0.2.11", "interface": "eth0" });
    let spec = json!({
        "vrid": 64, "segment": "192.0.2.0/24", "advertisementIntervalMilliseconds": 100, "nodes": [node],
    });
    object("VirtualRouter", name, &spec)
}

fn vip(address: &str, router: &str) -> Value {
    let owner = json!({ "namespace": "default", "name": "web", "uid": "1" });
    let spec = json!({ "address": address, "pool": "lan", "owners": [owner], "virtualRouter": router });
    object("VirtualIP", &windlass_api::virtual_ip_name(address.parse().unwrap()), &spec)
}

/// An agent, seen by its metrics.
struct Observed {
    registry: Registry,
    api: ApiServer,
    is_active: bool,
}

impl Observed {
    /// Returns the value of the metric that begins like this.
    fn metric(&self, name: &str) -> Option<f64> {
        let page = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        let line = page.lines().find(|line| line.starts_with(name))?;
        line.rsplit(' ').next()?.parse().ok()
    }

    fn faults(&self, part: &str) -> f64 {
        self.metric(&format!("windlass_engine_helper_faults_total{{thread=\"{part}\"}}")).unwrap_or_default()
    }

    fn is_away(&self, part: &str) -> bool {
        self.metric(&format!("windlass_engine_helper_away{{thread=\"{part}\"}}")) == Some(1.0)
    }

    fn is_reported(&self, part: &str) -> bool {
        let of_part =
            |event: &String| event.starts_with(&format!("Warning AgentPartMissing {part} panicked"));
        self.api.events().iter().any(of_part)
    }

    /// Waits until `condition` holds. The node stays Active meanwhile, if it was.
    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let poll = async {
            while !condition(self) {
                if self.is_active {
                    self.assert_undisturbed();
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(tokio::time::timeout(LIMIT, poll).await.is_ok(), "in vain: {what}: {:?}", self.api.events());
    }

    fn assert_undisturbed(&self) {
        let seen = ["windlass_vrrp_state", "windlass_vrrp_transitions_total"].map(|name| self.metric(name));
        assert_eq!(seen, [Some(2.0), Some(1.0)], "the node stays Active");
    }
}

/// Has parts of an agent panic whose node is Active.
async fn panic_one_after_the_other(observed: &mut Observed, faults: &Faults) {
    observed.until("Active", |seen| seen.metric("windlass_vrrp_state") == Some(2.0)).await;
    observed.is_active = true;
    let watch = "agent-watch-virtualips";
    assert!(observed.faults(watch) > 0.0, "it panicked before the node was Active");
    observed.until("event", |seen| seen.is_reported(watch)).await;

    let publisher = "agent-publish";
    assert!(!observed.is_away(publisher));
    faults.publish.store(true, Ordering::SeqCst);
    ip("addr add 198.51.100.9/24 dev eth0");
    observed.until("two panics", |seen| seen.faults(publisher) >= 2.0).await;
    assert!(observed.is_away(publisher));
    observed.until("event", |seen| seen.is_reported(publisher)).await;
    let is_published = |seen: &Observed| {
        seen.api.get("nodenetworks//n1").is_some_and(|shown| shown.to_string().contains("198.51.100.9"))
    };
    assert!(!is_published(observed), "the function is missing");
    faults.publish.store(false, Ordering::SeqCst);
    observed.until("published", is_published).await;

    let decisions = "agent-decisions";
    faults.decide.store(true, Ordering::SeqCst);
    observed.api.put(router("b"));
    observed.api.put(vip("192.0.2.202", "b"));
    observed.until("a panic", |seen| seen.faults(decisions) >= 1.0).await;
    observed.api.put(vip("192.0.2.201", "a"));
    let before = observed.faults(decisions);
    observed.until("two more panics", |seen| seen.faults(decisions) >= before + 2.0).await;
    observed.until("event", |seen| seen.is_reported(decisions)).await;
    assert_eq!(observed.metric("windlass_vrrp_addresses"), Some(1.0), "the function is missing");
    faults.decide.store(false, Ordering::SeqCst);
    observed.until("decided", |seen| seen.metric("windlass_vrrp_addresses") == Some(2.0)).await;
    let name = windlass_api::virtual_ip_name([192, 0, 2, 201].into());
    let is_reported = |seen: &Observed| {
        let vip = seen.api.get(&format!("virtualips//{name}")).expect("a virtual IP");
        vip["status"].to_string().contains("n1")
    };
    observed.until("reported", is_reported).await;
    observed.assert_undisturbed();
}

async fn run_beside_panics(folder: &Path) {
    for arguments in
        ["link add eth0 type veth peer name lan0", "link set lan0 up", "link set eth0 up", "link set lo up"]
    {
        ip(arguments);
    }
    ip("addr add 192.0.2.11/24 dev eth0");
    let (api, faults) = (ApiServer::default(), Arc::new(Faults::default()));
    for one in [object("Node", "n1", &json!({})), object("NodeNetwork", "n1", &json!({ "agentVersion": "" }))]
    {
        api.put(one);
    }
    api.put(router("a"));
    api.put(vip("192.0.2.200", "a"));
    faults.list.store(true, Ordering::SeqCst);
    let _guard = tracing::subscriber::set_default(PanicsAtLog(Arc::clone(&faults)));
    let (registry, token) = (Registry::new(), CancellationToken::new());
    let mut observed = Observed { registry: registry.clone(), api: api.clone(), is_active: false };
    let agent = run(faults.client(&api), options(folder), registry, token.clone());
    let test = async {
        panic_one_after_the_other(&mut observed, &faults).await;
        token.cancel();
    };
    let (ended, ()) = tokio::join!(agent, test);
    ended.unwrap();
}

// shows: threats T-33
#[test]
fn a_part_of_the_agent_that_panics_is_reported_and_returns_while_the_node_stays_active() {
    in_namespace("parts", |folder| async move { run_beside_panics(&folder).await });
}
