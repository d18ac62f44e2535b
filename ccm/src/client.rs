//! A Kubernetes client whose calls are counted (service-contract S-51 `rest_client_*`) and, if asked for, limited.
//!
//! | file | concept |
//! |---|---|
//! | `metrics` | what is shown |
//! | `metrics_layer` | counts and times each call |
//! | `bucket` | the limit, without a clock |
//! | `limiter` | makes calls wait for it |
//! | `connection` | the connection, which notices when it is dead |

mod bucket;
mod connection;
mod limiter;
mod metrics;
mod metrics_layer;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::Uri;
use kube::client::retry::RetryPolicy;
use kube::{Client, Config};
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;
use tower::util::option_layer;

pub use self::bucket::{RateLimit, RateLimitError};
use self::limiter::LimiterLayer;
pub use self::metrics::ClientMetrics;
use self::metrics_layer::MetricsLayer;

/// Calls that may wait between the layers; as many as within kube's own client.
const WAITING: usize = 1024;

/// A client for the server of `config` whose calls are counted in `metrics` and kept to `limit`. Makes no call yet.
///
/// Counted is what goes over the wire: an answer 429, 503 or 504 that the client repeats by itself
/// ([`Config::default_retry`]) counts each time. A watch counts once, when it is opened.
///
/// # Errors
/// As [`Client::try_from`]: TLS or the credentials of `config` cannot be set up.
pub fn client(
    config: Config,
    limit: Option<RateLimit>,
    metrics: &ClientMetrics,
) -> Result<Client, kube::Error> {
    with_idle(config, limit, metrics, usize::MAX)
}

/// A client for [`Elector`](crate::lease::Elector), which has one connection. When that is dead, since the address of the API servers has
/// gone to another of them, the next request makes a new one: it does not meet others that are as dead, one after the other.
///
/// # Errors
/// As [`client`].
pub fn election_client(config: Config, metrics: &ClientMetrics) -> Result<Client, kube::Error> {
    with_idle(config, None, metrics, 1)
}

fn with_idle(
    mut config: Config,
    limit: Option<RateLimit>,
    metrics: &ClientMetrics,
    idle: usize,
) -> Result<Client, kube::Error> {
    let host = host_of(&config.cluster_url);
    // kube repeats calls beneath every layer that can be added, where nobody could count them.
    let repeats = std::mem::replace(&mut config.default_retry, false);
    let retry = repeats.then(|| RetryLayer::new(RetryPolicy::server_retry()));
    let limiter = limit.map(|limit| LimiterLayer::new(limit, metrics.clone(), Arc::clone(&host)));
    let builder = connection::builder(config, idle)?
        .with_layer(&MetricsLayer::new(metrics.clone(), host))
        .with_layer(&BufferLayer::new(WAITING))
        .with_layer(&option_layer(limiter))
        .with_layer(&option_layer(retry));
    Ok(builder.build())
}

/// `host:port` as the configuration has it: the label that client-go gives its metrics.
fn host_of(server: &Uri) -> Arc<str> {
    let host = server.host().unwrap_or_default();
    match server.port_u16() {
        Some(port) => format!("{host}:{port}").into(),
        None => host.into(),
    }
}
