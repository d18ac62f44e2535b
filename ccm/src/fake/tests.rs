use std::future::Future;
use std::pin::Pin;

use k8s_openapi::api::core::v1::{Node, Service};

use super::*;
use crate::provider::{Instances as _, LoadBalancer as _};
use crate::testing::{lb, node, node_object, service};

const METHODS: [Method; 7] = [
    Method::Get,
    Method::Ensure,
    Method::UpdateNodes,
    Method::Delete,
    Method::Exists,
    Method::Shutdown,
    Method::Metadata,
];

type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), ProviderError>> + 'a>>;

/// Calls a method about `web` or `n1`.
fn ask<'a>(provider: &'a FakeProvider, method: Method, web: &'a Service, n1: &'a Node) -> Answer<'a> {
    match method {
        Method::Get => Box::pin(async { provider.get("c", web).await.map(drop) }),
        Method::Ensure => Box::pin(async { provider.ensure("c", web, &[]).await.map(drop) }),
        Method::UpdateNodes => Box::pin(provider.update_nodes("c", web, &[])),
        Method::Delete => Box::pin(provider.ensure_deleted("c", web)),
        Method::Exists => Box::pin(async { provider.exists(n1).await.map(drop) }),
        Method::Shutdown => Box::pin(async { provider.shutdown(n1).await.map(drop) }),
        Method::Metadata => Box::pin(async { provider.metadata(n1).await.map(drop) }),
    }
}

#[tokio::test(start_paused = true)]
async fn every_call_can_fail_wait_and_hang_and_is_recorded_with_its_time() {
    let (web, n1) = (service(lb("web")), node_object(node("n1")));
    for method in METHODS {
        let provider = FakeProvider::default();
        let began = Instant::now();
        let once = ProviderError::Transient("once".to_owned());
        let always = ProviderError::NotFound("always".to_owned());
        provider.fail_next(method, [once.clone()]);
        provider.delay(method, Duration::from_secs(3));
        assert_eq!(ask(&provider, method, &web, &n1).await, Err(once));
        assert_eq!(began.elapsed(), Duration::from_secs(3), "{method:?}");
        assert_eq!(ask(&provider, method, &web, &n1).await, Ok(()), "{method:?}");

        let subject = provider.calls()[0].subject().to_owned();
        provider.fail_on(method, &subject, Some(always.clone()));
        assert_eq!(ask(&provider, method, &web, &n1).await, Err(always));
        provider.fail_on(method, &subject, None);
        provider.delay_on(method, &subject, Duration::MAX);
        let hanging = tokio::time::timeout(Duration::from_hours(24), ask(&provider, method, &web, &n1)).await;
        assert!(hanging.is_err(), "{method:?}");
        provider.delay_on(method, &subject, Duration::ZERO);
        assert_eq!(ask(&provider, method, &web, &n1).await, Ok(()), "{method:?}");

        let times: Vec<_> = provider.timed_calls().iter().map(|(at, _)| (*at - began).as_secs()).collect();
        assert_eq!(times, [0, 3, 6, 9, 9 + 24 * 3600], "{method:?}");
        assert!(provider.calls().iter().all(|call| call.method() == method), "{method:?}");
        assert_eq!(provider.overlaps(), 0, "a call that was given up has ended");
    }
}

#[tokio::test(start_paused = true)]
async fn two_calls_about_one_object_at_once_are_an_overlap() {
    let (provider, web, other) = (FakeProvider::default(), service(lb("web")), service(lb("other")));
    provider.delay(Method::Ensure, Duration::from_secs(1));
    let _ = tokio::join!(provider.ensure("c", &web, &[]), provider.ensure("c", &other, &[]));
    assert_eq!((provider.overlaps(), provider.most_at_once()), (0, 2));
    let _ = tokio::join!(provider.ensure("c", &web, &[]), provider.get("c", &web));
    assert_eq!(provider.overlaps(), 1);
}
