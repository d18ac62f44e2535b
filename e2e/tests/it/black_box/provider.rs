//! The library's recording provider, with a settable `ipMode` and the Service's ports in the status.

use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, PortStatus, Service};
use windlass_ccm::{
    Ensured, LoadBalancer, ProviderError, ServiceKey,
    fake::{Call, FakeProvider},
};

/// The provider.
#[derive(Debug, Default)]
pub(super) struct Ported {
    pub(super) fake: FakeProvider,
    mode: Mutex<Option<&'static str>>,
}

impl Ported {
    /// `ipMode` of what is given from now on.
    pub(super) fn set_mode(&self, mode: Option<&'static str>) {
        *self.mode.lock().unwrap_or_else(PoisonError::into_inner) = mode;
    }

    /// How often it was asked about a Service.
    pub(super) fn calls_for(&self, service: &str) -> usize {
        let about = |call: &&Call| match call {
            Call::Get(name) | Call::Ensure(name, _) | Call::UpdateNodes(name, _) | Call::Delete(name) => {
                name == service
            }
            Call::Metadata(_) | Call::Exists(_) | Call::Shutdown(_) => false,
        };
        self.fake.calls().iter().filter(about).count()
    }
}

impl LoadBalancer for Ported {
    async fn get(
        &self,
        cluster: &str,
        service: &Service,
    ) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        self.fake.get(cluster, service).await
    }

    async fn ensure(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<Ensured, ProviderError> {
        let mut ensured = self.fake.ensure(cluster, service, nodes).await?;
        if let Ensured::Ready { status, .. } = &mut ensured {
            let mode = *self.mode.lock().unwrap_or_else(PoisonError::into_inner);
            for entry in status.ingress.iter_mut().flatten() {
                entry.ip_mode = mode.map(str::to_owned);
                let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
                let ports = ports.map(|port| PortStatus {
                    port: port.port,
                    protocol: port.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
                    error: None,
                });
                entry.ports = Some(ports.collect());
            }
        }
        Ok(ensured)
    }

    async fn update_nodes(
        &self,
        cluster: &str,
        service: &Service,
        nodes: &[Arc<Node>],
    ) -> Result<(), ProviderError> {
        self.fake.update_nodes(cluster, service, nodes).await
    }

    async fn ensure_deleted(&self, cluster: &str, service: &Service) -> Result<(), ProviderError> {
        self.fake.ensure_deleted(cluster, service).await
    }

    fn changes(&self) -> BoxStream<'static, ServiceKey> {
        self.fake.changes()
    }
}
