//! Calls to the API server: limits on their duration, and errors worded for people.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

/// No single call of a controller takes longer: a connection that silently died must not hold a worker for ever.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Events are a courtesy: nothing waits longer for one.
pub(crate) const EVENT_TIMEOUT: Duration = Duration::from_secs(2);

/// A longer `retryAfterSeconds` of the API server than this is cut.
const LONGEST_WAIT: Duration = Duration::from_mins(5);

/// Error of a failed call to the API server.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The API server refused the call, or the transport failed.
    #[error("{}", describe(.0))]
    Kube(#[from] kube::Error),
    /// No answer.
    #[error("no answer from the API server within {0:?}")]
    Timeout(Duration),
}

impl CallError {
    /// The HTTP status code, if the API server answered.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Kube(kube::Error::Api(status)) => Some(status.code),
            Self::Kube(_) | Self::Timeout(_) => None,
        }
    }

    /// The object is not there.
    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// The object changed since it was read.
    pub fn is_conflict(&self) -> bool {
        self.code() == Some(409)
    }

    /// The API server refused what was written as invalid.
    pub fn is_invalid(&self) -> bool {
        self.code() == Some(422)
    }
}

/// Returns the delay that the API server requested in `retryAfterSeconds`, at most [`LONGEST_WAIT`].
pub(crate) fn asked_to_wait(error: &kube::Error) -> Option<Duration> {
    let kube::Error::Api(status) = error else { return None };
    let seconds = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    (seconds > 0).then(|| Duration::from_secs(u64::from(seconds)).min(LONGEST_WAIT))
}

/// Makes one call, at most [`CALL_TIMEOUT`] long.
pub(crate) async fn call<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, CallError> {
    call_within(CALL_TIMEOUT, request).await
}

/// Makes one call, which takes at most `limit`.
///
/// # Errors
/// The API server refused the call, the transport failed, or no answer came.
pub async fn call_within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(limit, request).await {
        Ok(answer) => Ok(answer?),
        Err(_) => Err(CallError::Timeout(limit)),
    }
}

/// The API server's own words, or the chain of causes when it could not be asked.
pub fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return if status.message.is_empty() {
            format!("the API server answered {} {}", status.code, status.reason)
        } else {
            status.message.clone()
        };
    }
    sentence(error)
}

/// Returns the error and its causes in one sentence, without causes that an outer error already includes.
pub fn sentence(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let words = inner.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Layer(&'static str, #[source] Option<Box<Self>>);

    fn layers(words: &[&'static str]) -> Layer {
        Layer(words[0], (words.len() > 1).then(|| Box::new(layers(&words[1..]))))
    }

    #[test]
    fn a_cause_that_the_error_already_tells_is_not_told_twice() {
        for (words, expected) in [
            (
                &["cannot start", "cannot open: refused; allow it", "refused"][..],
                "cannot start: cannot open: refused; allow it",
            ),
            (&["cannot read x", "no such file"], "cannot read x: no such file"),
            (&["alone"], "alone"),
        ] {
            assert_eq!(sentence(&layers(words)), expected);
        }
    }
}
