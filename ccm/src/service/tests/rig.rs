//! A service controller that runs against an API server in memory, in virtual time.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::fake::FakeProvider;
use crate::metrics::Metrics;
use crate::provider::{Ensured, ProviderError, ServiceKey};
use crate::service::{ServiceController, ServiceOptions};
use crate::store::with_informers;
use crate::testing::apiserver::ApiServer;
use crate::testing::node;

pub(super) const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
pub(super) const CLASS_FINALIZER: &str = "cloud-provider/load-balancer-cleanup";
pub(super) const WEB: &str = "services/default/web";
pub(super) const ENSURING: &str = "Normal EnsuringLoadBalancer Ensuring load balancer";
pub(super) const ENSURED: &str = "Normal EnsuredLoadBalancer Ensured load balancer";
pub(super) const DELETING: &str = "Normal DeletingLoadBalancer Deleting load balancer";
pub(super) const DELETED: &str = "Normal DeletedLoadBalancer Deleted load balancer";

pub(super) struct Rig {
    pub(super) api: ApiServer,
    pub(super) provider: Arc<FakeProvider>,
    pub(super) running: Option<(CancellationToken, JoinHandle<()>)>,
    pub(super) workers: usize,
    /// The client of the controller that was started last.
    pub(super) client: u64,
}

impl Rig {
    /// An API server with these Services and node n1, and the controller running.
    pub(super) fn new(services: impl IntoIterator<Item = Value>) -> Self {
        Self::with_provider(FakeProvider::default(), services)
    }

    pub(super) fn with_provider(provider: FakeProvider, services: impl IntoIterator<Item = Value>) -> Self {
        let api = ApiServer::default();
        api.put(node("n1"));
        for service in services {
            api.put(service);
        }
        let mut rig = Self { api, provider: Arc::new(provider), running: None, workers: 1, client: 0 };
        rig.start();
        rig
    }

    /// Another controller for the same cluster.
    pub(super) fn over(api: ApiServer, provider: Arc<FakeProvider>) -> Self {
        let mut rig = Self { api, provider, running: None, workers: 1, client: 0 };
        rig.start();
        rig
    }

    pub(super) fn start(&mut self) {
        let token = CancellationToken::new();
        let options = ServiceOptions { workers: self.workers, ..ServiceOptions::default() };
        let metrics = Metrics::unregistered("lease");
        let (client, number) = self.api.numbered_client();
        self.client = number;
        let (provider, stop) = (Arc::clone(&self.provider), token.clone());
        let task = tokio::spawn(async move {
            let run = |informers| {
                ServiceController::new(client.clone(), informers, provider, options, metrics).run(stop)
            };
            with_informers(client.clone(), run).await.expect("watches");
        });
        self.running = Some((token, task));
    }

    pub(super) async fn stop(&mut self) {
        if let Some((token, task)) = self.running.take() {
            token.cancel();
            task.await.expect("the controller ends");
        }
    }

    /// The controller process dies and another one takes over; memory is lost.
    pub(super) async fn restart(&mut self) {
        self.stop().await;
        self.start();
    }

    pub(super) async fn until_served(&self, key: &str, ip: &str) {
        self.api.until("the address in the status", |api| ingress(api, key) == Some(ip.to_owned())).await;
    }

    pub(super) async fn until_event(&self, event: &str) {
        self.api.until(event, |api| api.events().iter().any(|seen| seen == event)).await;
    }

    /// Lets ten virtual minutes pass: whatever was to come has come.
    pub(super) async fn idle(&self) {
        tokio::time::sleep(Duration::from_mins(10)).await;
    }

    pub(super) fn writes(&self) -> Vec<(String, Value)> {
        let writes = self.api.writes().into_iter().filter(|write| !write.path.starts_with("events/"));
        writes.map(|write| (format!("{} {}", write.verb, write.path), write.body)).collect()
    }
}

pub(super) fn ingress(api: &ApiServer, key: &str) -> Option<String> {
    let service = api.get(key)?;
    Some(service.pointer("/status/loadBalancer/ingress/0/ip")?.as_str()?.to_owned())
}

pub(super) fn finalizers(api: &ApiServer, key: &str) -> Value {
    api.get(key).map_or(Value::Null, |service| service["metadata"]["finalizers"].clone())
}

pub(super) fn key(name: &str) -> ServiceKey {
    ServiceKey { namespace: "default".to_owned(), name: name.to_owned() }
}

pub(super) fn pending(message: &str) -> Ensured {
    Ensured::Pending { works: false, reason: "Waiting", message: message.to_owned() }
}

pub(super) fn rejected(message: &str) -> ProviderError {
    ProviderError::Rejected { reason: "Full", message: message.to_owned() }
}

pub(super) fn patch_of_status() -> String {
    format!("patch {WEB}/status")
}

pub(super) fn to_cluster_ip() -> Value {
    // As the API server does it: the status goes with the type (S-30).
    json!({ "spec": { "type": "ClusterIP" }, "status": { "loadBalancer": { "ingress": null } } })
}
