//! The metrics of the client, under client-go's names, with its labels and buckets.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Seconds.
const BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// `code` of a call without an answer.
const NO_ANSWER: &str = "<error>";

/// What the calls of a process to its API server are counted in. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct ClientMetrics {
    requests: Family<RequestLabels, Counter>,
    seconds: Seconds,
    waits: Seconds,
}

type Seconds = Family<TimeLabels, Histogram, fn() -> Histogram>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    code: String,
    method: String,
    host: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct TimeLabels {
    verb: String,
    host: String,
}

impl Default for ClientMetrics {
    /// Metrics that count but are shown nowhere.
    fn default() -> Self {
        let seconds: fn() -> Histogram = || Histogram::new(BUCKETS);
        Self {
            requests: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            waits: Family::new_with_constructor(seconds),
        }
    }
}

impl ClientMetrics {
    /// Creates the metrics and registers them.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        registry.register(
            "rest_client_requests",
            "Calls to the API server by method and the status code of the answer",
            metrics.requests.clone(),
        );
        registry.register_with_unit(
            "rest_client_request_duration",
            "Time until a call to the API server was answered in full, watches apart",
            Unit::Seconds,
            metrics.seconds.clone(),
        );
        registry.register_with_unit(
            "rest_client_rate_limiter_duration",
            "Time a call to the API server was held back by this process' own limit",
            Unit::Seconds,
            metrics.waits.clone(),
        );
        metrics
    }

    /// `None`: there was no answer.
    pub(super) fn count(&self, host: &str, method: &Method, code: Option<StatusCode>) {
        let labels = RequestLabels {
            code: code.map_or_else(|| NO_ANSWER.to_owned(), |code| code.as_str().to_owned()),
            method: method.as_str().to_owned(),
            host: host.to_owned(),
        };
        self.requests.get_or_create(&labels).inc();
    }

    pub(super) fn answered_after(&self, host: &str, method: &Method, took: Duration) {
        observe(&self.seconds, host, method, took);
    }

    pub(super) fn waited(&self, host: &str, method: &Method, took: Duration) {
        observe(&self.waits, host, method, took);
    }
}

fn observe(family: &Seconds, host: &str, method: &Method, took: Duration) {
    let labels = TimeLabels { verb: method.as_str().to_owned(), host: host.to_owned() };
    family.get_or_create(&labels).observe(took.as_secs_f64());
}
