//! Makes calls wait for the process' own limit, first come, first served.

use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Request, Uri};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};
use tower::{Layer, Service, ServiceExt as _};

use super::bucket::{RateLimit, TokenBucket};
use super::metrics::ClientMetrics;
use super::metrics_layer::is_watch;

/// Paths of calls that never wait: the renewal of a lease, which would be lost, and the reviews of tokens and permissions. Upstream makes
/// these calls with clients of their own.
const URGENT: [&str; 3] =
    ["/apis/coordination.k8s.io/", "/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/"];

/// Puts a [`Limiter`] around a service; all of one layer share one bucket.
#[derive(Debug, Clone)]
pub(super) struct LimiterLayer {
    /// A call that waits for a token holds the lock; further calls queue for it. A cancelled call leaves the queue and has taken no token.
    bucket: Arc<Mutex<TokenBucket>>,
    metrics: ClientMetrics,
    host: Arc<str>,
}

impl LimiterLayer {
    pub(super) fn new(limit: RateLimit, metrics: ClientMetrics, host: Arc<str>) -> Self {
        Self { bucket: Arc::new(Mutex::new(TokenBucket::new(limit, Instant::now()))), metrics, host }
    }

    /// Returns when a call may be made.
    pub(super) async fn token(&self) {
        let mut bucket = self.bucket.lock().await;
        while let Err(wait) = bucket.take(Instant::now()) {
            sleep(wait).await;
        }
    }
}

impl<S> Layer<S> for LimiterLayer {
    type Service = Limiter<S>;

    fn layer(&self, inner: S) -> Limiter<S> {
        Limiter { inner, layer: self.clone() }
    }
}

/// A service whose calls wait for the limit.
#[derive(Debug, Clone)]
pub(super) struct Limiter<S> {
    inner: S,
    layer: LimiterLayer,
}

impl<S, Q> Service<Request<Q>> for Limiter<S>
where
    S: Service<Request<Q>> + Clone + Send + 'static,
    S::Future: Send,
    Q: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    /// Always: a call that waits here takes no place of one that need not.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let Self { inner, layer } = self.clone();
        async move {
            if is_limited(request.uri()) {
                let began = Instant::now();
                layer.token().await;
                layer.metrics.waited(&layer.host, request.method(), began.elapsed());
            }
            inner.oneshot(request).await
        }
        .boxed()
    }
}

/// Returns true if a call has to wait for a token. Watches do not, as in client-go.
fn is_limited(uri: &Uri) -> bool {
    !is_watch(uri) && !URGENT.iter().any(|group| uri.path().starts_with(group))
}
