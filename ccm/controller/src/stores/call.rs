//! Calls to the API server, none of which is waited for without end.

use std::future::Future;
use std::time::Duration;

use windlass_ccm::ProviderError;
use windlass_ccm::apiserver::{CallError, call_within};
use windlass_common::strict;

/// Maximum duration of one call.
const LIMIT: Duration = Duration::from_secs(10);

/// Failed call and its reason.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {error}{}", strict::remedy(&error.to_string()))]
pub(crate) struct CallFailed {
    what: String,
    #[source]
    pub(crate) error: CallError,
}

impl From<CallFailed> for ProviderError {
    fn from(failed: CallFailed) -> Self {
        Self::Transient(failed.to_string())
    }
}

/// Makes one call; `what` names the operation in the error if it fails.
///
/// # Errors
/// The API server refuses, or does not answer in time.
pub(crate) async fn call<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
    what: impl FnOnce() -> String,
) -> Result<T, CallFailed> {
    call_within(LIMIT, request).await.map_err(|error| CallFailed { what: what(), error })
}
