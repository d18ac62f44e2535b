//! A provider in memory that records what it is asked, and fails, delays and hangs on demand: for tests.
//!
//! With [`crate::testing::apiserver::ApiServer`] a controller, or a whole program, is tested in virtual time without a
//! cluster:
//!
//! ```
//! use std::sync::Arc;
//! use tokio_util::sync::CancellationToken;
//! use windlass_ccm::fake::{FakeProvider, Method};
//! use windlass_ccm::metrics::Metrics;
//! use windlass_ccm::node::{NodeController, NodeOptions, TAINT_UNINITIALIZED};
//! use windlass_ccm::store::with_informers;
//! use windlass_ccm::testing::{apiserver::ApiServer, node, with};
//! use windlass_ccm::{InstanceMetadata, ProviderError};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let api = ApiServer::default();
//! let taint = serde_json::json!({ "key": TAINT_UNINITIALIZED, "value": "true", "effect": "NoSchedule" });
//! api.put(with(node("n1"), &serde_json::json!({ "spec": { "taints": [taint] } })));
//! let provider = Arc::new(FakeProvider::default());
//! provider.set_metadata("n1", InstanceMetadata { zone: "rack-1".to_owned(), ..InstanceMetadata::default() });
//! provider.fail_next(Method::Metadata, [ProviderError::Transient("the inventory is away".to_owned())]);
//!
//! let metrics = Metrics::unregistered("example");
//! let (client, machines) = (api.client(), Arc::clone(&provider));
//! tokio::spawn(with_informers(client.clone(), |informers| {
//!     NodeController::new(client, informers, machines, NodeOptions::default(), metrics)
//!         .run(CancellationToken::new())
//! }));
//!
//! api.until("the zone", |api| {
//!     let node = api.get("nodes//n1").unwrap_or_default();
//!     node["metadata"]["labels"]["topology.kubernetes.io/zone"] == "rack-1"
//! })
//! .await;
//! assert_eq!(provider.calls().len(), 2, "the failed call, and the one after it");
//! # }
//! ```

mod calls;
mod instances;
mod load_balancers;
mod script;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus};
use tokio::sync::mpsc;
use tokio::time::Instant;

pub use self::calls::{Call, Method};
use self::script::FaultScript;
use crate::provider::{Ensured, InstanceMetadata, ProviderError, ServiceKey};

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<(Instant, Call)>,
    script: FaultScript,
    load_balancers: HashMap<String, LoadBalancerStatus>,
    ensure: VecDeque<Result<Ensured, ProviderError>>,
    foreign: HashSet<String>,
    metadata: HashMap<String, InstanceMetadata>,
    missing: HashSet<String>,
    off: HashSet<String>,
    busy: HashMap<String, usize>,
    overlaps: usize,
    most_at_once: usize,
}

/// The fake. Without instructions every load balancer gets address 192.0.2.1, and every machine exists, runs, and is
/// unknown otherwise. Where a call is to fail or to wait, its subject is the name of the Service or Node.
#[derive(Debug)]
pub struct FakeProvider {
    classes: Vec<Option<String>>,
    condition: Option<&'static str>,
    inner: Mutex<Inner>,
    service_changes: mpsc::Sender<ServiceKey>,
    service_changes_for_controller: Mutex<Option<mpsc::Receiver<ServiceKey>>>,
    node_changes_sender: mpsc::Sender<String>,
    node_changes_for_controller: Mutex<Option<mpsc::Receiver<String>>>,
}

impl Default for FakeProvider {
    fn default() -> Self {
        Self::serving(None)
    }
}

impl FakeProvider {
    /// A provider of this `spec.loadBalancerClass`; `None` serves classless Services.
    pub fn serving(class: Option<&str>) -> Self {
        let (service_changes, receiver) = mpsc::channel(64);
        let (node_changes_sender, node_receiver) = mpsc::channel(64);
        Self {
            classes: vec![class.map(str::to_owned)],
            condition: None,
            inner: Mutex::default(),
            service_changes,
            service_changes_for_controller: Mutex::new(Some(receiver)),
            node_changes_sender,
            node_changes_for_controller: Mutex::new(Some(node_receiver)),
        }
    }

    /// The same, serving this class too.
    #[must_use]
    pub fn and_serving(mut self, class: Option<&str>) -> Self {
        self.classes.push(class.map(str::to_owned));
        self
    }

    /// The same with a condition of this type.
    #[must_use]
    pub fn with_condition(mut self, type_: &'static str) -> Self {
        self.condition = Some(type_);
        self
    }

    /// Returns the calls received so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.iter().map(|(_, call)| call.clone()).collect()
    }

    /// Returns the calls received so far, with their times.
    pub fn timed_calls(&self) -> Vec<(Instant, Call)> {
        self.lock().calls.clone()
    }

    /// Returns the calls received so far, and removes them.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().calls).into_iter().map(|(_, call)| call).collect()
    }

    /// Returns the number of calls for a Service that arrived while another call for it was in progress: 0 with a correct controller.
    pub fn overlaps(&self) -> usize {
        self.lock().overlaps
    }

    /// Returns the largest number of Services and Nodes on which it worked at the same time.
    pub fn most_at_once(&self) -> usize {
        self.lock().most_at_once
    }

    /// The next calls of this method fail like this, in order, whatever they are about.
    pub fn fail_next(&self, method: Method, errors: impl IntoIterator<Item = ProviderError>) {
        self.lock().script.fail_next(method, errors);
    }

    /// From now on every call of this method about `subject` fails like this; `None`: it works again.
    pub fn fail_on(&self, method: Method, subject: &str, error: Option<ProviderError>) {
        self.lock().script.fail_on(method, subject, error);
    }

    /// From now on every call of this method takes this long. [`Duration::MAX`]: it is never answered.
    pub fn delay(&self, method: Method, time: Duration) {
        self.lock().script.delay(method, time);
    }

    /// From now on every call of this method about `subject` takes this long instead. [`Duration::MAX`]: it is never
    /// answered.
    pub fn delay_on(&self, method: Method, subject: &str, time: Duration) {
        self.lock().script.delay_on(method, subject, time);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call, which lasts until the guard is dropped. `object` names what it is about, uniquely.
    fn begin(&self, object: String, call: Call) -> CallGuard<'_> {
        let mut inner = self.lock();
        inner.calls.push((Instant::now(), call));
        let busy = inner.busy.entry(object.clone()).or_default();
        *busy += 1;
        let overlap = *busy > 1;
        inner.overlaps += usize::from(overlap);
        inner.most_at_once = inner.most_at_once.max(inner.busy.len());
        CallGuard { provider: self, object }
    }

    /// Lets others run, so that overlapping calls would show; then what the test asked for.
    async fn apply_script(&self, method: Method, subject: &str) -> Result<(), ProviderError> {
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        let delay = self.lock().script.delay_of(method, subject);
        if delay == Duration::MAX {
            std::future::pending::<()>().await;
        }
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        self.lock().script.error_of(method, subject).map_or(Ok(()), Err)
    }
}

/// A call under way.
struct CallGuard<'a> {
    provider: &'a FakeProvider,
    object: String,
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        let mut inner = self.provider.lock();
        if let Some(busy) = inner.busy.get_mut(&self.object) {
            *busy -= 1;
            if *busy == 0 {
                inner.busy.remove(&self.object);
            }
        }
    }
}

/// The receiver as a stream, for the first caller; nothing for later ones.
fn take_stream<T: Send + 'static>(receiver: &Mutex<Option<mpsc::Receiver<T>>>) -> BoxStream<'static, T> {
    match receiver.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(receiver) => stream::unfold(receiver, |mut receiver| async {
            receiver.recv().await.map(|one| (one, receiver))
        })
        .boxed(),
        None => stream::pending().boxed(),
    }
}

/// A status with one address and no mode, as a provider gives it.
pub fn with_ip(ip: &str) -> LoadBalancerStatus {
    let entry = LoadBalancerIngress { ip: Some(ip.to_owned()), ..LoadBalancerIngress::default() };
    LoadBalancerStatus { ingress: Some(vec![entry]) }
}

/// A load balancer with one address that works.
pub fn ready(ip: &str) -> Ensured {
    Ensured::Ready { status: with_ip(ip), works: true, reason: "Given", message: format!("it has {ip}") }
}

#[cfg(test)]
mod tests;
