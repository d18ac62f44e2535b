use std::sync::Mutex;

use serde_json::json;
use tokio::task::JoinHandle;

use super::*;
use crate::app::{Flags, NoInstances, NoLoadBalancer};
use crate::fake::{FakeProvider, Method};
use crate::provider::{InstanceMetadata, Instances, LoadBalancer};
use crate::serving::Probe;
use crate::testing::apiserver::ApiServer;
use crate::testing::{lb, node, with};

const LEASE: &str = "leases/kube-system/cloud-controller-manager";

/// What a provider says when it is started.
type Start<B, I> = Box<dyn FnOnce() -> Result<Capabilities<B, I>, BoxError> + Send>;

struct Plain<B, I> {
    start: Start<B, I>,
    started: Arc<Mutex<Option<Instant>>>,
}

impl<B: LoadBalancer, I: Instances> CloudProvider for Plain<B, I> {
    const NAME: &'static str = "plain";
    type LoadBalancer = B;
    type Instances = I;

    async fn start(self, _: Context) -> Result<Capabilities<B, I>, BoxError> {
        *self.started.lock().unwrap() = Some(Instant::now());
        (self.start)()
    }
}

struct Rig {
    api: ApiServer,
    token: CancellationToken,
    health: HealthChecks,
    started: Arc<Mutex<Option<Instant>>>,
    registry: Registry,
    task: JoinHandle<Result<(), RunError>>,
}

#[derive(Debug, clap::Parser)]
struct Cli {
    #[command(flatten)]
    flags: Flags,
}

fn options(flags: &[&str], identity: &str) -> ManagerOptions {
    let cli = <Cli as clap::Parser>::try_parse_from([&["ccm"], flags].concat()).unwrap();
    cli.flags.options("plain", identity.to_owned()).unwrap()
}

fn start<B: LoadBalancer, I: Instances>(
    api: &ApiServer,
    flags: &[&str],
    identity: &str,
    start: impl FnOnce() -> Result<Capabilities<B, I>, BoxError> + Send + 'static,
) -> Rig {
    let (health, token) = (HealthChecks::new(), CancellationToken::new());
    let (options, registry) = (options(flags, identity), Registry::new());
    let manager = Manager::new(api.client(), options, &registry, health.clone()).unwrap();
    let started = Arc::default();
    let provider = Plain { start: Box::new(start), started: Arc::clone(&started) };
    let task = tokio::spawn(manager.run(provider, token.clone()));
    Rig { api: api.clone(), token, health, started, registry, task }
}

/// A cluster with a Service and a node that is not initialized.
fn cluster() -> ApiServer {
    let api = ApiServer::default();
    api.put(lb("web"));
    let taint = json!({ "key": crate::node::TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule" });
    api.put(with(node("n1"), &json!({ "spec": { "providerID": null, "taints": [taint] } })));
    api
}

/// A provider of everything, that knows node n1.
fn everything() -> Capabilities<FakeProvider, FakeProvider> {
    let provider = Arc::new(FakeProvider::default());
    let metadata = InstanceMetadata { provider_id: "plain://n1".to_owned(), ..InstanceMetadata::default() };
    provider.set_metadata("n1", metadata);
    Capabilities::new().with_load_balancer(Arc::clone(&provider)).with_instances(provider)
}

impl Rig {
    fn served(&self) -> bool {
        self.api.get("services/default/web").unwrap()["status"]["loadBalancer"]["ingress"][0]["ip"]
            .is_string()
    }

    fn initialized(&self) -> bool {
        self.api.get("nodes//n1").unwrap()["spec"]["providerID"].is_string()
    }

    fn started(&self) -> Option<Instant> {
        *self.started.lock().unwrap()
    }

    /// Waits, at most an hour of virtual time.
    async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..36_000 {
            if condition(self) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
        panic!("never: {what}");
    }

    /// Waits until it ends, at most an hour of virtual time.
    async fn ended(self) -> Result<(), RunError> {
        timeout(Duration::from_hours(1), self.task).await.expect("it ends").unwrap()
    }

    async fn stop(self) -> Result<(), RunError> {
        self.token.cancel();
        self.ended().await
    }
}

fn holder(api: &ApiServer) -> String {
    let lease = api.get(LEASE).unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

// shows: ccm-contract S-50, S-51
#[tokio::test(start_paused = true)]
async fn a_provider_of_everything_serves_services_and_nodes_and_lets_the_lease_go_at_its_end() {
    let rig = start(&cluster(), &[], "one", || Ok(everything()));
    rig.until("served", |rig| rig.served() && rig.initialized()).await;
    let api = rig.api.clone();
    assert_eq!(holder(&api), "one");
    let metrics = prometheus::TextEncoder::new().encode_to_string(&rig.registry.gather()).unwrap();
    // The names of service-contract S-51.
    for line in [
        "workqueue_adds_total{name=\"service\"} ",
        "workqueue_adds_total{name=\"Nodes\"} ",
        "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"service\"} 1",
        "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"cloud-node\"} 1",
        "running_managed_controllers{manager=\"cloud-controller-manager\",name=\"cloud-node-lifecycle\"} 1",
        "leader_election_master_status{name=\"cloud-controller-manager\"} 1",
    ] {
        assert!(metrics.lines().any(|shown| shown.starts_with(line)), "{line} is missing in\n{metrics}");
    }
    rig.stop().await.unwrap();
    assert_eq!(holder(&api), "", "released");
    let told = api.events();
    assert!(told.contains(&"Normal LeaderElection one became leader".to_owned()), "{told:?}");
    assert!(told.contains(&"Normal LeaderElection one stopped leading".to_owned()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn only_the_selected_controllers_work() {
    for (flag, services, nodes) in [
        ("--controllers=service", true, false),
        ("--controllers=*,-service", false, true),
        ("--controllers=", false, false),
    ] {
        let rig = start(&cluster(), &[flag, "--leader-elect=false"], "one", || Ok(everything()));
        sleep(Duration::from_mins(10)).await;
        assert_eq!((rig.served(), rig.initialized()), (services, nodes), "{flag}");
        assert!(rig.api.get(LEASE).is_none(), "no election");
        rig.stop().await.unwrap();
    }
}

// shows: ccm-contract S-63
#[tokio::test(start_paused = true)]
async fn a_provider_of_nothing_leads_and_does_nothing() {
    let rig = start(&cluster(), &[], "one", || Ok(Capabilities::<NoLoadBalancer, NoInstances>::new()));
    sleep(Duration::from_mins(10)).await;
    assert!(!rig.served() && !rig.initialized() && !rig.task.is_finished());
    assert_eq!(holder(&rig.api), "one");
    rig.stop().await.unwrap();
}

// shows: ccm-contract S-60
#[tokio::test(start_paused = true)]
async fn a_standby_is_well_and_starts_its_provider_only_when_it_leads() {
    let api = cluster();
    let first = start(&api, &[], "one", || Ok(everything()));
    first.until("served", Rig::served).await;
    let second = start(&api, &[], "two", || Ok(everything()));
    sleep(Duration::from_mins(10)).await;
    assert_eq!(second.started(), None);
    assert_eq!(
        second.health.ask(Probe::Healthz).unwrap(),
        "[+]ping ok\n[+]leaderElection ok\nhealthz check passed\n"
    );
    first.stop().await.unwrap();
    second.until("the second leads", |rig| rig.started().is_some()).await;
    second.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_ends_it_at_once_with_an_error() {
    let api = cluster();
    let rig = start(&api, &[], "one", || Ok(everything()));
    rig.until("served", Rig::served).await;
    api.edit(LEASE, &json!({ "spec": { "holderIdentity": "two" } }));
    let error = rig.ended().await.unwrap_err().to_string();
    assert!(error.starts_with("leaderelection lost: lease kube-system/cloud-controller-manager"), "{error}");
    assert!(api.events().contains(&"Normal LeaderElection one stopped leading".to_owned()), "S-61");
    api.take_writes();
    api.put(lb("late"));
    sleep(Duration::from_mins(10)).await;
    assert_eq!(api.take_writes(), [], "nothing of it goes on");
}

#[tokio::test(start_paused = true)]
async fn background_work_that_ends_ends_the_process() {
    for (ends, expected) in [
        (Ok(()), "the inventory ended by itself"),
        (Err("its file is gone"), "the inventory ended by itself: its file is gone"),
    ] {
        let rig = start(&cluster(), &[], "one", move || {
            let work = async move {
                sleep(Duration::from_mins(1)).await;
                ends
            };
            Ok(everything().with_background("the inventory", work))
        });
        let api = rig.api.clone();
        let error = rig.ended().await.unwrap_err().to_string();
        assert_eq!(error, expected);
        assert_eq!(holder(&api), "", "released");
    }
}

#[tokio::test(start_paused = true)]
async fn background_work_is_dropped_at_the_end() {
    let background = Arc::new(());
    let held = Arc::clone(&background);
    let rig = start(&cluster(), &[], "one", move || {
        let work = async move {
            std::future::pending::<()>().await;
            drop(held);
            Ok::<_, BoxError>(())
        };
        Ok(everything().with_background("what never ends", work))
    });
    rig.until("served", Rig::served).await;
    rig.stop().await.unwrap();
    assert_eq!(Arc::strong_count(&background), 1);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_start_says_why_and_lets_the_lease_go() {
    let refuse = || Err::<Capabilities<FakeProvider, FakeProvider>, BoxError>("no address was given".into());
    let rig = start(&cluster(), &[], "one", refuse);
    let api = rig.api.clone();
    let error = rig.ended().await.unwrap_err().to_string();
    assert_eq!(error, "provider plain cannot start: no address was given");
    assert_eq!(holder(&api), "");
}

// shows: ccm-contract S-63
#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_not_healthy_is_waited_for_but_not_for_long_s_63() {
    for (ill, waited) in [(0, 0), (4, 4), (3600, 10)] {
        let (api, begin) = (cluster(), Instant::now());
        api.set_healthy(ill == 0);
        let rig = start(&api, &["--leader-elect=false"], "one", || Ok(everything()));
        let recovery = async {
            sleep(Duration::from_secs(ill)).await;
            api.set_healthy(true);
        };
        tokio::join!(recovery, rig.until("started", |rig| rig.started().is_some()));
        let seconds = (rig.started().unwrap() - begin).as_secs();
        assert!((waited..=waited + 1).contains(&seconds), "ill for {ill} s, waited {seconds} s");
        rig.until("served", Rig::served).await;
        rig.stop().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_start_one_after_the_other_if_so_asked() {
    let flags = ["--controller-start-interval=1h", "--controllers=service,cloud-node"];
    let rig = start(&cluster(), &flags, "one", || Ok(everything()));
    rig.until("the nodes", Rig::initialized).await;
    sleep(Duration::from_mins(50)).await;
    assert!(!rig.served(), "the second controller is not due yet");
    rig.until("the Services", Rig::served).await;
    rig.stop().await.unwrap();
}

// shows: ccm-contract S-62
#[tokio::test(start_paused = true)]
async fn each_started_controller_and_the_election_have_a_check_s_62() {
    let rig = start(&cluster(), &["--controllers=service"], "one", || Ok(everything()));
    rig.until("served", Rig::served).await;
    for _ in 0..60 {
        sleep(Duration::from_mins(1)).await;
        assert_eq!(
            rig.health.ask(Probe::Livez).unwrap(),
            "[+]ping ok\n[+]leaderElection ok\n[+]service-lb-controller ok\nlivez check passed\n"
        );
    }
    rig.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_node_lifecycle_controller_looks_every_node_monitor_period() {
    let api = ApiServer::default();
    api.put(with(
        node("n1"),
        &json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } }),
    ));
    let flags = ["--controllers=cloud-node-lifecycle", "--node-monitor-period=40s", "--leader-elect=false"];
    let provider = Arc::new(FakeProvider::default());
    let instances = Arc::clone(&provider);
    let rig =
        start(&api, &flags, "one", || Ok(Capabilities::<NoLoadBalancer, _>::new().with_instances(instances)));
    // Each time: does it exist, is it shut down?
    rig.until("two looks", |_| provider.calls().len() == 4).await;
    let calls = provider.timed_calls();
    assert_eq!((calls[2].0 - calls[0].0).as_secs(), 40);
    provider.set_exists("n1", false);
    rig.until("the deletion", |rig| rig.api.get("nodes//n1").is_none()).await;
    assert!(rig.stop().await.is_ok());
}

// shows: ccm-contract 286
#[tokio::test(start_paused = true)]
async fn as_many_nodes_are_looked_at_at_once_as_the_flag_says() {
    for (flag, at_once) in
        [("--concurrent-node-lifecycle-syncs=1", 1), ("--concurrent-node-lifecycle-syncs=3", 3)]
    {
        let api = ApiServer::default();
        for number in 0..4 {
            let not_ready = json!({ "status": { "conditions": [{ "type": "Ready", "status": "False" }] } });
            api.put(with(node(&format!("n{number}")), &not_ready));
        }
        let flags = ["--controllers=cloud-node-lifecycle", "--leader-elect=false", flag];
        let provider = Arc::new(FakeProvider::default());
        provider.delay(Method::Exists, Duration::MAX);
        let instances = Arc::clone(&provider);
        let rig = start(&api, &flags, "one", || {
            Ok(Capabilities::<NoLoadBalancer, _>::new().with_instances(instances))
        });
        rig.until("as many are asked", |_| provider.calls().len() == at_once).await;
        sleep(Duration::from_secs(20)).await;
        assert_eq!(provider.calls().len(), at_once, "{flag}");
        assert!(rig.stop().await.is_ok());
    }
}

// shows: ccm-contract S-07
#[tokio::test(start_paused = true)]
async fn services_with_a_class_carry_the_finalizer_of_their_provider_s_07() {
    let api = ApiServer::default();
    let class = json!({ "spec": { "loadBalancerClass": "example.com/lb" } });
    api.put(with(lb("web"), &class));
    let provider = Arc::new(FakeProvider::serving(Some("example.com/lb")));
    let capabilities = || Ok(Capabilities::<_, NoInstances>::new().with_load_balancer(provider));
    let rig = start(&api, &["--controllers=service", "--leader-elect=false"], "one", capabilities);
    rig.until("served", Rig::served).await;
    let finalizers = api.get("services/default/web").unwrap()["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["plain/load-balancer-cleanup"]));
    rig.stop().await.unwrap();
}

struct Taken;

impl CloudProvider for Taken {
    const NAME: &'static str = "taken";
    type LoadBalancer = NoLoadBalancer;
    type Instances = NoInstances;

    fn register(&self, registry: &Registry) -> prometheus::Result<()> {
        prometheus::register_int_gauge_with_registry!("workqueue_depth", "Things", registry).map(drop)
    }

    async fn start(self, _: Context) -> Result<Capabilities<NoLoadBalancer, NoInstances>, BoxError> {
        Err("it was started".into())
    }
}

#[tokio::test]
async fn a_provider_whose_metric_has_a_taken_name_is_not_started() {
    let file = std::env::temp_dir().join(format!("windlass-taken-{}", std::process::id()));
    let kubeconfig = json!({
        "clusters": [{ "name": "c", "cluster": { "server": "http://127.0.0.1:1" } }],
        "contexts": [{ "name": "c", "context": { "cluster": "c" } }], "current-context": "c",
    });
    std::fs::write(&file, kubeconfig.to_string()).unwrap();
    let flags = [&*format!("--kubeconfig={}", file.display()), "--secure-port=0"];
    let error = run(Taken, options(&flags, "one"), CancellationToken::new()).await.unwrap_err().to_string();
    std::fs::remove_file(&file).unwrap();
    assert!(error.contains("metrics") && error.contains("name that no other metric"), "{error}");
}
