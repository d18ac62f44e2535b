//! The fake's load balancers.

use std::sync::Arc;

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{LoadBalancerIngress, LoadBalancerStatus, Node, Service};

use super::{Call, CallGuard, FakeProvider, Method, ready, take_stream};
use crate::provider::{Ensured, LoadBalancer, ProviderError, ServiceKey};

impl FakeProvider {
    /// From now on a status entry with this address is another controller's.
    pub fn set_foreign(&self, ip: &str) {
        self.lock().foreign.insert(ip.to_owned());
    }

    /// Answers to the next calls of `ensure`, in order. An error from [`FakeProvider::fail_next`] comes first.
    pub fn next_ensure(&self, answers: impl IntoIterator<Item = Result<Ensured, ProviderError>>) {
        self.lock().ensure.extend(answers);
    }

    /// Returns true if a load balancer of the Service with this UID exists.
    pub fn has(&self, uid: &str) -> bool {
        self.lock().load_balancers.contains_key(uid)
    }

    /// The UIDs of the Services that have a load balancer, in order.
    pub fn load_balancers(&self) -> Vec<String> {
        let mut uids: Vec<String> = self.lock().load_balancers.keys().cloned().collect();
        uids.sort();
        uids
    }

    /// A load balancer that an earlier process made for the Service with this UID.
    pub fn seed(&self, uid: &str, status: LoadBalancerStatus) {
        self.lock().load_balancers.insert(uid.to_owned(), status);
    }

    /// Names the Service on [`LoadBalancer::changes`]. More than 64 unread names are dropped.
    pub fn changed(&self, key: ServiceKey) {
        drop(self.service_changes.try_send(key));
    }

    fn begin_service(&self, service: &Service, call: Call) -> CallGuard<'_> {
        self.begin(format!("service {}", uid(service)), call)
    }
}

impl LoadBalancer for FakeProvider {
    fn serves_class(&self, class: Option<&str>) -> bool {
        self.classes.iter().any(|served| served.as_deref() == class)
    }

    fn condition_type(&self) -> Option<&'static str> {
        self.condition
    }

    fn is_own_ingress(&self, entry: &LoadBalancerIngress) -> bool {
        entry.ip.as_ref().is_some_and(|ip| !self.lock().foreign.contains(ip))
    }

    async fn get(
        &self,
        _cluster: &str,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        let _busy = self.begin_service(service, Call::Get(name(service)));
        self.apply_script(Method::Get, &name(service)).await?;
        Ok(self.lock().load_balancers.get(&uid(service)).cloned())
    }

    async fn ensure(
        &self,
        _cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<Ensured, ProviderError> {
        let _busy = self.begin_service(service, Call::Ensure(name(service), names(nodes)));
        self.apply_script(Method::Ensure, &name(service)).await?;
        let mut inner = self.lock();
        let answer = inner.ensure.pop_front().unwrap_or_else(|| Ok(ready("192.0.2.1")));
        if let Ok(ensured) = &answer {
            let status = match ensured {
                Ensured::Ready { status, .. } | Ensured::Refused { status, .. } => status.clone(),
                Ensured::Pending { .. } => LoadBalancerStatus::default(),
            };
            inner.load_balancers.insert(uid(service), status);
        }
        answer
    }

    async fn update_nodes(
        &self,
        _cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<(), ProviderError> {
        let _busy = self.begin_service(service, Call::UpdateNodes(name(service), names(nodes)));
        self.apply_script(Method::UpdateNodes, &name(service)).await
    }

    async fn ensure_deleted(&self, _cluster: &str, service: &Service) -> Result<(), ProviderError> {
        let _busy = self.begin_service(service, Call::Delete(name(service)));
        self.apply_script(Method::Delete, &name(service)).await?;
        self.lock().load_balancers.remove(&uid(service));
        Ok(())
    }

    fn changes(&self) -> BoxStream<'static, ServiceKey> {
        take_stream(&self.service_changes_for_controller)
    }
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
