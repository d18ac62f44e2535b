//! The connection to the API server: as kube's own, but it notices when nobody is at the other end any more.
//!
//! Kube's client sets no TCP keep-alive. When the address of this host or the host of the API server goes away without a
//! word, its watches stay silent for five minutes, and requests try every idle connection in turn.

use std::time::Duration;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::{Body, ClientBuilder, ConfigExt as _, DynBody};
use tower::util::BoxService;
use tower::{BoxError, ServiceBuilder, ServiceExt as _};

/// Idle time of a connection before a keep-alive probe is sent to the peer. A connection that was idle for this long between two requests
/// is closed.
const IDLE: Duration = Duration::from_secs(5);
/// Interval between two keep-alive probes.
const INTERVAL: Duration = Duration::from_secs(3);
/// Longest time that data or a keep-alive probe may stay unanswered before the connection counts as dead. (The Go client takes 15 s after
/// 30 s of silence.)
const UNANSWERED: Duration = Duration::from_secs(10);

/// Requests over the wire.
pub(super) type HttpService = BoxService<Request<Body>, Response<Box<DynBody>>, BoxError>;

/// A client builder for the server of `config`, as [`ClientBuilder::try_from`] makes it, without its repeats. At most `idle`
/// connections are kept open while nothing is asked by them.
///
/// # Errors
/// As [`ClientBuilder::try_from`].
pub(super) fn builder(config: Config, idle: usize) -> Result<ClientBuilder<HttpService>, kube::Error> {
    if config.proxy_url.is_some() {
        // Through a proxy the connection is the proxy's, as kube makes it.
        return ClientBuilder::try_from(config);
    }
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_keepalive(Some(IDLE));
    tcp.set_keepalive_interval(Some(INTERVAL));
    tcp.set_tcp_user_timeout(Some(UNANSWERED));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    connector.set_reset_reader_on_write(config.reset_reader_on_write);
    let http = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        // When a watch has found out that its connection is dead, no request is made by others that are as old.
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(idle)
        .build::<_, Body>(connector);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(http)
        .map_response(|response| response.map(|body| Box::new(body.map_err(BoxError::from)) as Box<DynBody>))
        .boxed();
    Ok(ClientBuilder::new(service, config.default_namespace))
}
