//! Counts each call when its answer begins and times it until its answer has ended.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::time::Instant;
use tower::{Layer, Service};

use super::metrics::ClientMetrics;

/// Puts a [`MetricsService`] around a service.
#[derive(Debug, Clone)]
pub(super) struct MetricsLayer {
    metrics: ClientMetrics,
    host: Arc<str>,
}

impl MetricsLayer {
    pub(super) fn new(metrics: ClientMetrics, host: Arc<str>) -> Self {
        Self { metrics, host }
    }
}

impl<S> Layer<S> for MetricsLayer {
    type Service = MetricsService<S>;

    fn layer(&self, inner: S) -> MetricsService<S> {
        MetricsService { inner, layer: self.clone() }
    }
}

/// A service whose calls are counted.
#[derive(Debug, Clone)]
pub(super) struct MetricsService<S> {
    inner: S,
    layer: MetricsLayer,
}

impl<S, Q, B> Service<Request<Q>> for MetricsService<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = Response<CountedBody<B>>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let mut call = CountedCall::begin(self.layer.clone(), request.method(), request.uri());
        let answer = self.inner.call(request);
        async move {
            let answer = answer.await?;
            call.answered(answer.status());
            Ok(answer.map(|body| CountedBody { body, _call: call }))
        }
        .boxed()
    }
}

/// Call in progress. It ends when this is dropped: answered in full, failed, or cancelled by its caller.
#[derive(Debug)]
struct CountedCall {
    layer: MetricsLayer,
    method: Method,
    /// True for a watch, which lasts as long as its client wants: its length is no measure of the server.
    is_watch: bool,
    began: Instant,
    is_counted: bool,
}

impl CountedCall {
    fn begin(layer: MetricsLayer, method: &Method, uri: &Uri) -> Self {
        let is_watch = is_watch(uri);
        Self { layer, method: method.clone(), is_watch, began: Instant::now(), is_counted: false }
    }

    fn answered(&mut self, code: StatusCode) {
        self.layer.metrics.count(&self.layer.host, &self.method, Some(code));
        self.is_counted = true;
    }
}

impl Drop for CountedCall {
    fn drop(&mut self) {
        let MetricsLayer { metrics, host } = &self.layer;
        if !self.is_counted {
            metrics.count(host, &self.method, None);
        }
        if !self.is_watch {
            metrics.answered_after(host, &self.method, self.began.elapsed());
        }
    }
}

/// Returns true if a request opens a watch.
pub(super) fn is_watch(uri: &Uri) -> bool {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    parameters.any(|parameter| matches!(parameter, "watch=true" | "watch=1"))
}

/// The body of an answer: the call lasts until it has been read.
#[derive(Debug)]
pub(super) struct CountedBody<B> {
    body: B,
    _call: CountedCall,
}

impl<B: HttpBody + Unpin> HttpBody for CountedBody<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
