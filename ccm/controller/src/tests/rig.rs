//! A cluster in memory, with a node, its agent, and as many controllers as a test starts.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use windlass_ccm::app::{Manager, ManagerOptions};
use windlass_ccm::service::ServiceOptions;
use windlass_ccm::serving::HealthChecks;
use windlass_ccm::testing::apiserver::{ApiServer, RecordedWrite};
use windlass_ccm::testing::faults::Disconnect;

use crate::stores::clock::Clock;
use crate::{Settings, Windlass};

/// When the tests begin.
const BEGIN: i64 = 1_767_312_000;
/// Nothing that a controller does by itself takes longer, quarantine and back-off included.
const QUIET: Duration = Duration::from_mins(11);
/// Every Service that does not settle within this many times [`QUIET`] never will.
const PATIENCE: usize = 20;

/// The cluster.
pub(super) struct Rig {
    pub(super) api: ApiServer,
    clock: Clock,
    agent: JoinHandle<()>,
    /// Addresses that another host of the LAN has.
    taken: std::sync::Arc<std::sync::Mutex<BTreeSet<String>>>,
    made: u64,
}

/// A controller that runs.
pub(super) struct Running {
    pub(super) number: u64,
    task: JoinHandle<()>,
}

impl Running {
    /// It dies at once.
    pub(super) async fn kill(self) {
        self.task.abort();
        drop(self.task.await);
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.agent.abort();
    }
}

impl Rig {
    /// A cluster with two nodes on 192.0.2.0/24 and 2001:db8::/64, and these pools.
    pub(super) fn new(pools: &[Value]) -> Self {
        let api = ApiServer::default();
        for (number, node) in ["n1", "n2"].iter().enumerate() {
            api.put(json!({
                "apiVersion": "v1", "kind": "Node", "metadata": { "name": node, "uid": format!("uid-{node}") },
                "spec": { "providerID": format!("windlass://{node}") },
                "status": { "conditions": [{ "type": "Ready", "status": "True" }] },
            }));
            let interface = json!({
                "name": "eth0", "mac": format!("02:00:00:00:00:0{number}"), "linkLocal": format!("fe80::{}", number + 1),
                "addresses": [format!("192.0.2.{}/24", 251 + number), format!("2001:db8::ff:{}/64", 1 + number)],
            });
            api.put(custom(
                "NodeNetwork",
                node,
                &json!({ "interfaces": [interface], "capabilities": ["SourceRanges", "LoadSharing"] }),
            ));
        }
        for pool in pools {
            api.put(pool.clone());
        }
        let begin = Instant::now();
        let clock = Clock::new(move || {
            let passed = i64::try_from((Instant::now() - begin).as_millis()).expect("a short test");
            Timestamp::from_millisecond(BEGIN * 1000 + passed).expect("a time")
        });
        let taken = std::sync::Arc::<std::sync::Mutex<BTreeSet<String>>>::default();
        let agent = tokio::spawn(agent(api.clone(), taken.clone()));
        Self { api, clock, agent, taken, made: 0 }
    }

    /// What time it is.
    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// From now on another host has the address.
    pub(super) fn take(&self, address: &str) {
        self.taken.lock().expect("no panic").insert(address.to_owned());
        self.report_taken();
    }

    /// That host lets go of the address.
    pub(super) fn let_go(&self, address: &str) {
        self.taken.lock().expect("no panic").remove(address);
        self.report_taken();
    }

    /// The nodes report at which host they see what.
    fn report_taken(&self) {
        let seen: Vec<_> = self
            .taken
            .lock()
            .expect("no panic")
            .iter()
            .map(|address| json!({ "interface": "eth0", "address": address, "mac": "02:00:00:00:99:99" }))
            .collect();
        for network in self.api.list("nodenetworks") {
            let key = format!("nodenetworks//{}", text(&network["metadata"]["name"]));
            self.api.edit(&key, &json!({ "spec": { "duplicates": seen } }));
        }
    }

    /// The agent of the only node is stopped in an orderly way.
    pub(super) fn stop_agent(&self) {
        self.agent.abort();
        for vip in self.api.list("virtualips") {
            let name = text(&vip["metadata"]["name"]);
            self.announced(&name, "False", "AgentStopped", "The agent was stopped");
        }
    }

    /// It is started again.
    pub(super) fn start_agent(&mut self) {
        self.agent = tokio::spawn(agent(self.api.clone(), self.taken.clone()));
    }

    /// An agent says this of a `VirtualIP`.
    pub(super) fn announced(&self, name: &str, status: &str, reason: &str, message: &str) {
        let condition = json!({ "type": "Announced", "status": status, "reason": reason, "message": message,
                                "lastTransitionTime": "2026-01-01T00:00:00Z" });
        self.api.edit(&format!("virtualips//{name}"), &json!({ "status": { "conditions": [condition] } }));
    }

    /// An agent says that its node announces an address, and that another host uses it, too.
    pub(super) fn contested(&self, name: &str, host: &str) {
        self.contested_at(name, host, "n1");
    }

    /// Likewise, the agent of this node.
    pub(super) fn contested_at(&self, name: &str, host: &str, node: &str) {
        let condition = |type_: &str, message: String| {
            json!({ "type": type_, "status": "True", "reason": "Active", "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let announced = condition("Announced", format!("Node {node} answers for it"));
        let conditions = [announced, condition("AddressConflict", format!("{host} uses it, too"))];
        self.api.edit(&format!("virtualips//{name}"), &json!({ "status": { "conditions": conditions } }));
    }

    /// Starts a controller.
    pub(super) fn controller(&self) -> Running {
        let (client, number) = self.api.numbered_client();
        let services = ServiceOptions { workers: 4, ..ServiceOptions::default() };
        let options = ManagerOptions { services, ..ManagerOptions::default() };
        let manager = Manager::new(client, options, &Registry::new(), HealthChecks::new()).expect("metrics");
        let provider = Windlass::new(Settings::default()).with_clock(self.clock.clone());
        let task = tokio::spawn(async move {
            let ended = manager.run(provider, CancellationToken::new()).await;
            ended.expect("a controller does not end by itself");
        });
        Running { number, task }
    }

    /// Creates a Service, or one that was deleted anew; `other/name` in another namespace.
    pub(super) fn create(&mut self, name: &str, change: &Value) {
        let (namespace, name) = parts(name);
        self.made += 1;
        let created = Timestamp::from_second(BEGIN + i64::try_from(self.made).expect("few")).expect("a time");
        let mut service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": name, "namespace": namespace, "uid": format!("uid-{name}-{}", self.made),
                          "creationTimestamp": created.to_string() },
            "spec": {
                "type": "LoadBalancer", "externalTrafficPolicy": "Cluster", "sessionAffinity": "None",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "clusterIPs": ["10.0.0.1"],
                "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080, "nodePort": 30080 }],
            },
            "status": { "loadBalancer": {} },
        });
        merge(&mut service, change);
        self.api.put(service);
    }

    /// Changes a Service as its user would.
    pub(super) fn edit(&self, name: &str, change: &Value) {
        self.api.edit(&key(name), change);
    }

    /// Deletes a Service as its user would.
    pub(super) fn delete(&self, name: &str) {
        if self.exists(name) {
            self.api.delete(&key(name));
        }
    }

    pub(super) fn exists(&self, name: &str) -> bool {
        self.api.get(&key(name)).is_some()
    }

    /// The addresses in the status of a Service.
    pub(super) fn shown(&self, name: &str) -> Vec<String> {
        let service = self.api.get(&key(name)).unwrap_or_default();
        let ingress = service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array).cloned();
        ingress.unwrap_or_default().iter().map(|entry| text(&entry["ip"])).collect()
    }

    /// Reason of the Service's condition.
    pub(super) fn reason(&self, name: &str) -> String {
        let condition = self.condition(name);
        condition.map(|one| format!("{} {}", text(&one["status"]), text(&one["reason"]))).unwrap_or_default()
    }

    /// Message of the Service's condition.
    pub(super) fn message(&self, name: &str) -> String {
        self.condition(name).map(|one| text(&one["message"])).unwrap_or_default()
    }

    fn condition(&self, name: &str) -> Option<Value> {
        let service = self.api.get(&key(name)).unwrap_or_default();
        let conditions = service.pointer("/status/conditions").and_then(Value::as_array).cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions.find(|one| one["type"] == windlass_api::CONDITION_ADDRESS_ALLOCATED)
    }

    /// Waits until nothing is written for longer than a controller ever waits.
    pub(super) async fn settle(&self) {
        for _ in 0..PATIENCE {
            self.api.take_writes();
            sleep(QUIET).await;
            if self.writes().is_empty() {
                return;
            }
        }
        panic!("it never settles: {:#?}\n{}", self.writes(), self.objects());
    }

    /// Waits for that long, and keeps the writes.
    pub(super) async fn settle_keeping_writes(&self) {
        sleep(QUIET).await;
    }

    /// The writes since the last call of `take_writes`, without events.
    pub(super) fn writes(&self) -> Vec<RecordedWrite> {
        self.api.writes().into_iter().filter(|write| !write.path.starts_with("events/")).collect()
    }

    /// Waits until the client is cut off (true), or nothing more is written (false).
    pub(super) async fn until_cut_or_settled(&self, client: u64) -> bool {
        for _ in 0..PATIENCE {
            self.api.take_writes();
            let end = Instant::now() + QUIET;
            while Instant::now() < end {
                if self.api.is_cut_off(client) {
                    return true;
                }
                tokio::select! {
                    () = self.api.changed() => {}
                    () = sleep(Duration::from_secs(20)) => {}
                }
            }
            if self.writes().is_empty() {
                return false;
            }
        }
        panic!("it never settles: {:#?}", self.writes());
    }

    /// What must hold of every cluster that has settled: objects and statuses agree, no address is owned by a Service that
    /// is not there, and two have one only if they may share it. `counts`: how many addresses each Service is to have.
    pub(super) fn check(&self, counts: &BTreeMap<&str, usize>, what: &str) {
        let objects = self.objects();
        let mut owned: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for vip in self.api.list("virtualips") {
            assert!(vip["spec"]["quarantine"].is_null(), "{what}: a quarantine without end: {vip}");
            let owners = vip["spec"]["owners"].as_array().cloned().unwrap_or_default();
            let keys: BTreeSet<String> =
                owners.iter().map(|owner| self.sharing_key(&text(&owner["name"]))).collect();
            assert!(
                owners.len() == 1 || (keys.len() == 1 && !keys.contains("")),
                "{what}: doubled: {vip}\n{objects}"
            );
            for owner in owners {
                let name = text(&owner["name"]);
                let service = self.api.get(&key(&name)).unwrap_or_default();
                assert_eq!(service["metadata"]["uid"], owner["uid"], "{what}: leaked: {vip}\n{objects}");
                owned.entry(name).or_default().insert(text(&vip["spec"]["address"]));
            }
        }
        for service in self.api.list("services") {
            let name = text(&service["metadata"]["name"]);
            let owned = owned.remove(&name).unwrap_or_default();
            let shown: BTreeSet<String> = self.shown(&name).into_iter().collect();
            assert_eq!(shown, owned, "{what}: {name} shows what it does not have\n{objects}");
            let expected = counts.get(name.as_str()).copied();
            assert_eq!(Some(shown.len()), expected, "{what}: addresses of {name}\n{objects}");
        }
        assert!(owned.is_empty(), "{what}: leaked {owned:?}\n{objects}");
        let there: BTreeSet<String> =
            self.api.list("services").iter().map(|service| text(&service["metadata"]["name"])).collect();
        let expected: BTreeSet<String> = counts.keys().map(|name| (*name).to_owned()).collect();
        assert_eq!(there, expected, "{what}: Services");
    }

    /// A controller that starts in a settled cluster finds nothing to do.
    pub(super) async fn check_that_a_restart_writes_nothing(&self, what: &str) {
        self.api.take_writes();
        let before = self.objects();
        let controller = self.controller();
        sleep(QUIET).await;
        assert_eq!(self.writes(), [], "{what}: a restart writes nothing\n{before}");
        controller.kill().await;
    }

    pub(super) fn sharing_key(&self, service: &str) -> String {
        let service = self.api.get(&key(service)).unwrap_or_default();
        text(&service["metadata"]["annotations"]["windlass.dev/sharing-key"])
    }

    /// Everything that claims and shows addresses, for people.
    pub(super) fn objects(&self) -> String {
        let vips =
            self.api.list("virtualips").into_iter().map(|vip| format!("{} {}", vip["metadata"], vip["spec"]));
        let services = self
            .api
            .list("services")
            .into_iter()
            .map(|service| format!("{} {} {}", service["metadata"], service["spec"], service["status"]));
        vips.chain(services).collect::<Vec<_>>().join("\n")
    }

    /// Runs a controller that is cut off at its `at`th write from now.
    pub(super) fn cut(&self, controller: &Running, at: usize, cut: Disconnect) {
        self.api.cut_at_write(controller.number, at, cut);
    }
}

/// What the agents do: they announce what a virtual router carries, and nothing else.
async fn agent(api: ApiServer, taken: std::sync::Arc<std::sync::Mutex<BTreeSet<String>>>) {
    loop {
        for vip in api.list("virtualips") {
            let address = text(&vip["spec"]["address"]);
            let carried = vip["spec"]["virtualRouter"].is_string() && vip["spec"]["quarantine"].is_null();
            let is_taken = taken.lock().expect("no panic").contains(&address);
            let (status, reason) = match (carried, is_taken) {
                (true, false) => ("True", "Announced"),
                (true, true) => ("False", "AddressTaken"),
                (false, _) => ("False", "Withdrawn"),
            };
            let said = vip.pointer("/status/conditions/0");
            let known = said.map(|one| (text(&one["status"]), text(&one["reason"])));
            let news = known.as_ref().is_none_or(|(is, why)| (is.as_str(), why.as_str()) != (status, reason));
            // Only what was announced is withdrawn: what never was is the planner's to speak of.
            if news && (carried || known.is_some_and(|(is, _)| is == "True")) {
                let condition = json!({ "type": "Announced", "status": status, "reason": reason,
                                        "message": format!("{address} {reason}"),
                                        "lastTransitionTime": "2026-01-01T00:00:00Z" });
                let key = format!("virtualips//{}", text(&vip["metadata"]["name"]));
                api.edit(&key, &json!({ "status": { "conditions": [condition] } }));
            }
        }
        tokio::select! {
            () = api.changed() => {}
            () = sleep(Duration::from_secs(7)) => {}
        }
    }
}

/// A `VirtualIPPool`.
pub(super) fn pool(name: &str, addresses: &[&str], change: &Value) -> Value {
    let mut spec = json!({ "addresses": addresses });
    merge(&mut spec, change);
    custom("VirtualIPPool", name, &spec)
}

/// An object of ours that belongs to the cluster.
pub(super) fn custom(kind: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "windlass.dev/v1alpha1", "kind": kind, "spec": spec,
        "metadata": { "name": name, "uid": format!("uid-{name}"), "creationTimestamp": "2026-01-01T00:00:00Z" },
    })
}

/// Key of a Service of namespace `ns`, or of another one: `other/name`.
pub(super) fn key(name: &str) -> String {
    let (namespace, name) = parts(name);
    format!("services/{namespace}/{name}")
}

/// Namespace and name.
fn parts(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("ns", name))
}

/// Text of a JSON string; empty for anything else.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn merge(target: &mut Value, change: &Value) {
    *target = windlass_ccm::testing::with(target.take(), change);
}
