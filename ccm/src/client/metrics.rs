//! The metrics of the client, under client-go's names, with its labels and buckets.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus::{
    HistogramVec, IntCounterVec, Registry, register_histogram_vec_with_registry,
    register_int_counter_vec_with_registry,
};

/// Seconds.
const BUCKETS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
/// `code` of a call without an answer.
const NO_ANSWER: &str = "<error>";

/// Metrics of the calls of a process to its API server. Cheap to clone; all clones count together.
#[derive(Debug, Clone)]
pub struct ClientMetrics {
    requests: IntCounterVec,
    seconds: HistogramVec,
    waits: HistogramVec,
}

impl ClientMetrics {
    /// Creates the metrics and registers them.
    ///
    /// # Errors
    /// Another metric of the registry has the name of one.
    pub fn register(registry: &Registry) -> prometheus::Result<Self> {
        Ok(Self {
            requests: register_int_counter_vec_with_registry!(
                "rest_client_requests_total",
                "Calls to the API server by status code (`<error>` without an answer) and method; a \
                 watch counts when it opens",
                &["code", "method", "host"],
                registry
            )?,
            seconds: register_histogram_vec_with_registry!(
                "rest_client_request_duration_seconds",
                "Time until the whole answer of the API server arrived; without watches",
                &["verb", "host"],
                BUCKETS.to_vec(),
                registry
            )?,
            waits: register_histogram_vec_with_registry!(
                "rest_client_rate_limiter_duration_seconds",
                "Delay of a call to the API server by the process's own limit",
                &["verb", "host"],
                BUCKETS.to_vec(),
                registry
            )?,
        })
    }

    /// `None`: there was no answer.
    pub(super) fn count(&self, host: &str, method: &Method, code: Option<StatusCode>) {
        let code = code.as_ref().map_or(NO_ANSWER, StatusCode::as_str);
        self.requests.with_label_values(&[code, method.as_str(), host]).inc();
    }

    pub(super) fn answered_after(&self, host: &str, method: &Method, took: Duration) {
        self.seconds.with_label_values(&[method.as_str(), host]).observe(took.as_secs_f64());
    }

    pub(super) fn waited(&self, host: &str, method: &Method, took: Duration) {
        self.waits.with_label_values(&[method.as_str(), host]).observe(took.as_secs_f64());
    }
}
