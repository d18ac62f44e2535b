//! A provider that keeps load balancers in memory, records what it is asked and fails on demand: for tests.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::stream::{self, BoxStream, StreamExt as _};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};
use tokio::sync::mpsc;

use crate::provider::{Ensured, InstanceMetadata, Instances, LoadBalancer, ProviderError, ServiceKey};

/// One call, with the Service's name and, where nodes were given, theirs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Call {
    /// [`LoadBalancer::get`].
    Get(String),
    /// [`LoadBalancer::ensure`].
    Ensure(String, Vec<String>),
    /// [`LoadBalancer::update_nodes`].
    UpdateNodes(String, Vec<String>),
    /// [`LoadBalancer::ensure_deleted`].
    Delete(String),
    /// [`Instances::metadata`].
    Metadata(String),
}

#[derive(Debug, Default)]
struct Inner {
    calls: Vec<Call>,
    balancers: HashMap<String, LoadBalancerStatus>,
    ensure: VecDeque<Result<Ensured, ProviderError>>,
    update: VecDeque<ProviderError>,
    delete: VecDeque<ProviderError>,
    foreign: HashSet<String>,
    metadata: HashMap<String, InstanceMetadata>,
    metadata_errors: VecDeque<ProviderError>,
    busy: HashMap<String, usize>,
    overlaps: usize,
    ensure_takes: Duration,
    most_at_once: usize,
}

/// The fake. Without instructions every load balancer gets address 192.0.2.1 and every node is unknown.
#[derive(Debug)]
pub struct FakeProvider {
    classes: Vec<Option<String>>,
    condition: Option<&'static str>,
    inner: Mutex<Inner>,
    news: mpsc::Sender<ServiceKey>,
    news_for_controller: Mutex<Option<mpsc::Receiver<ServiceKey>>>,
    node_news: mpsc::Sender<String>,
    node_news_for_controller: Mutex<Option<mpsc::Receiver<String>>>,
}

impl Default for FakeProvider {
    fn default() -> Self {
        Self::serving(None)
    }
}

impl FakeProvider {
    /// A provider of this `spec.loadBalancerClass`; `None` serves classless Services.
    pub fn serving(class: Option<&str>) -> Self {
        let (news, receiver) = mpsc::channel(64);
        let (node_news, node_receiver) = mpsc::channel(64);
        Self {
            classes: vec![class.map(str::to_owned)],
            condition: None,
            inner: Mutex::default(),
            news,
            news_for_controller: Mutex::new(Some(receiver)),
            node_news,
            node_news_for_controller: Mutex::new(Some(node_receiver)),
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

    /// From now on a status entry with this address is another controller's.
    pub fn set_foreign(&self, ip: &str) {
        self.lock().foreign.insert(ip.to_owned());
    }

    /// What it was asked so far.
    pub fn calls(&self) -> Vec<Call> {
        self.lock().calls.clone()
    }

    /// Forgets what it was asked; returns it.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.lock().calls)
    }

    /// How often it was asked about one Service while it still worked on that Service: never, with a good controller.
    pub fn overlaps(&self) -> usize {
        self.lock().overlaps
    }

    /// On how many Services it worked at the same time, at most.
    pub fn most_at_once(&self) -> usize {
        self.lock().most_at_once
    }

    /// Answers to the next calls of `ensure`, in order.
    pub fn next_ensure(&self, answers: impl IntoIterator<Item = Result<Ensured, ProviderError>>) {
        self.lock().ensure.extend(answers);
    }

    /// From now on every `ensure` takes this long.
    pub fn ensure_takes(&self, time: Duration) {
        self.lock().ensure_takes = time;
    }

    /// The next calls of `update_nodes` fail like this.
    pub fn fail_updates(&self, errors: impl IntoIterator<Item = ProviderError>) {
        self.lock().update.extend(errors);
    }

    /// The next calls of `ensure_deleted` fail like this.
    pub fn fail_deletes(&self, errors: impl IntoIterator<Item = ProviderError>) {
        self.lock().delete.extend(errors);
    }

    /// The next calls of `metadata` fail like this.
    pub fn fail_metadata(&self, errors: impl IntoIterator<Item = ProviderError>) {
        self.lock().metadata_errors.extend(errors);
    }

    /// What is known of a node's machine from now on.
    pub fn set_metadata(&self, node: &str, metadata: InstanceMetadata) {
        self.lock().metadata.insert(node.to_owned(), metadata);
    }

    /// Whether a load balancer of the Service with this UID exists.
    pub fn has(&self, uid: &str) -> bool {
        self.lock().balancers.contains_key(uid)
    }

    /// A load balancer that an earlier process made for the Service with this UID.
    pub fn seed(&self, uid: &str, status: LoadBalancerStatus) {
        self.lock().balancers.insert(uid.to_owned(), status);
    }

    /// Names the Service on [`LoadBalancer::changes`]. More than 64 unread names are dropped.
    pub fn changed(&self, key: ServiceKey) {
        drop(self.news.try_send(key));
    }

    /// Names the Node on [`Instances::node_changes`]. More than 64 unread names are dropped.
    pub fn node_changed(&self, node: &str) {
        drop(self.node_news.try_send(node.to_owned()));
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call and lets others run, so that overlapping calls would show.
    async fn record(&self, service: &Service, call: Call) {
        let uid = uid(service);
        {
            let mut inner = self.lock();
            inner.calls.push(call);
            let busy = inner.busy.entry(uid.clone()).or_default();
            *busy += 1;
            let overlap = *busy > 1;
            inner.overlaps += usize::from(overlap);
            let at_once = inner.busy.values().filter(|count| **count > 0).count();
            inner.most_at_once = inner.most_at_once.max(at_once);
        }
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        if let Some(busy) = self.lock().busy.get_mut(&uid) {
            *busy -= 1;
        }
    }
}

impl LoadBalancer for FakeProvider {
    fn serves_class(&self, class: Option<&str>) -> bool {
        self.classes.iter().any(|served| served.as_deref() == class)
    }

    fn condition_type(&self) -> Option<&'static str> {
        self.condition
    }

    fn is_own_ingress(&self, _service: &Service, entry: &LoadBalancerIngress) -> bool {
        entry.ip.as_ref().is_some_and(|ip| !self.lock().foreign.contains(ip))
    }

    async fn get(
        &self,
        _cluster: &str,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        self.record(service, Call::Get(name(service))).await;
        Ok(self.lock().balancers.get(&uid(service)).cloned())
    }

    async fn ensure(
        &self,
        _cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<Ensured, ProviderError> {
        self.record(service, Call::Ensure(name(service), names(nodes))).await;
        let time = self.lock().ensure_takes;
        tokio::time::sleep(time).await;
        let mut inner = self.lock();
        let answer = inner.ensure.pop_front().unwrap_or_else(|| Ok(ready("192.0.2.1")));
        if let Ok(ensured) = &answer {
            let status = match ensured {
                Ensured::Ready { status, .. } | Ensured::Refused { status, .. } => status.clone(),
                Ensured::Pending { .. } => LoadBalancerStatus::default(),
            };
            inner.balancers.insert(uid(service), status);
        }
        answer
    }

    async fn update_nodes(
        &self,
        _cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<(), ProviderError> {
        self.record(service, Call::UpdateNodes(name(service), names(nodes))).await;
        self.lock().update.pop_front().map_or(Ok(()), Err)
    }

    async fn ensure_deleted(&self, _cluster: &str, service: &Service) -> Result<(), ProviderError> {
        self.record(service, Call::Delete(name(service))).await;
        let mut inner = self.lock();
        if let Some(error) = inner.delete.pop_front() {
            return Err(error);
        }
        inner.balancers.remove(&uid(service));
        Ok(())
    }

    fn changes(&self) -> BoxStream<'static, ServiceKey> {
        told(&self.news_for_controller)
    }
}

impl Instances for FakeProvider {
    async fn exists(&self, _node: &Node) -> Result<bool, ProviderError> {
        Ok(true)
    }

    async fn shutdown(&self, _node: &Node) -> Result<bool, ProviderError> {
        Ok(false)
    }

    async fn metadata(&self, node: &Node) -> Result<Option<InstanceMetadata>, ProviderError> {
        let name = node.metadata.name.clone().unwrap_or_default();
        let mut inner = self.lock();
        inner.calls.push(Call::Metadata(name.clone()));
        match inner.metadata_errors.pop_front() {
            Some(error) => Err(error),
            None => Ok(inner.metadata.get(&name).cloned()),
        }
    }

    fn node_changes(&self) -> BoxStream<'static, String> {
        told(&self.node_news_for_controller)
    }
}

/// What the receiver is told, for who asks first.
fn told<T: Send + 'static>(receiver: &Mutex<Option<mpsc::Receiver<T>>>) -> BoxStream<'static, T> {
    match receiver.lock().unwrap_or_else(PoisonError::into_inner).take() {
        Some(receiver) => {
            stream::unfold(receiver, |mut news| async { news.recv().await.map(|one| (one, news)) }).boxed()
        }
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
    Ensured::Ready { status: with_ip(ip), reason: "Given", message: format!("it has {ip}") }
}

fn name(service: &Service) -> String {
    service.metadata.name.clone().unwrap_or_default()
}

fn uid(service: &Service) -> String {
    service.metadata.uid.clone().unwrap_or_default()
}

fn names(nodes: &[Arc<Node>]) -> Vec<String> {
    nodes.iter().filter_map(|node| node.metadata.name.clone()).collect()
}
