//! What a provider says of itself is what the state goes by.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{LoadBalancerStatus, Node, Service};

use crate::provider::{Ensured, LoadBalancer, ProviderError};
use crate::service::jobs::{PolicyOf, ProviderPolicy as _};
use crate::testing::{lb, service};

/// A provider that answers nothing as it would by default.
struct Unlike;

impl LoadBalancer for Unlike {
    fn serves_class(&self, class: Option<&str>) -> bool {
        class == Some("example.com/lb")
    }

    fn requeue_after(&self, _: &Service, _: &Service) -> Option<Duration> {
        Some(Duration::from_secs(7))
    }

    fn depends_on_nodes(&self) -> bool {
        false
    }

    async fn get(&self, _: &str, _: &Service) -> Result<Option<LoadBalancerStatus>, ProviderError> {
        Ok(None)
    }

    async fn ensure(&self, _: &str, _: &Service, _: &[Arc<Node>]) -> Result<Ensured, ProviderError> {
        Ok(Ensured::ready(LoadBalancerStatus::default()))
    }

    async fn update_nodes(&self, _: &str, _: &Service, _: &[Arc<Node>]) -> Result<(), ProviderError> {
        Ok(())
    }

    async fn ensure_deleted(&self, _: &str, _: &Service) -> Result<(), ProviderError> {
        Ok(())
    }
}

#[test]
fn the_provider_is_asked_and_not_its_defaults() {
    let (policy, web) = (PolicyOf(&Unlike), service(lb("web")));
    assert!(policy.serves_class(Some("example.com/lb")) && !policy.serves_class(None));
    assert_eq!(policy.requeue_after(&web, &web), Some(Duration::from_secs(7)));
    assert!(!policy.depends_on_nodes());
}
