//! Calls to the API server, none of which is waited for without end.

use std::future::Future;
use std::time::Duration;

/// How long one call may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Makes one call; `what` says what could not be done if nobody answers.
///
/// # Errors
/// In words, if there is no answer in time.
pub(crate) async fn limited<T>(
    call: impl Future<Output = T>,
    what: impl FnOnce() -> String,
) -> Result<T, String> {
    let late = |_| format!("{}: the API server did not answer within {} s", what(), LIMIT.as_secs());
    tokio::time::timeout(LIMIT, call).await.map_err(late)
}
