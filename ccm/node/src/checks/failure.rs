//! Reason for a failed attempt at a server, for people; a connection that is driven until its answer arrives.

use std::error::Error;
use std::fmt;

/// Failed attempt. Each cause begins with a space or `: `.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The server did not answer; perhaps it does at another of its addresses. `missing`: the stage that the attempt did not reach.
    Silent { missing: &'static str, cause: String },
    /// The server answered that it is not well, or otherwise than it should; or it cannot be asked.
    Unwell { what: String, cause: String },
}

impl Failure {
    /// Creates a failure without a cause.
    pub(super) fn unwell(what: impl Into<String>) -> Self {
        Self::Unwell { what: what.into(), cause: String::new() }
    }

    /// Creates the failure of a connection that brought no answer.
    pub(super) fn no_answer(error: &dyn Error) -> Self {
        let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
        Self::Silent { missing: "answer", cause: format!(": {error}{source}") }
    }
}

impl From<hyper::Error> for Failure {
    fn from(error: hyper::Error) -> Self {
        Self::no_answer(&error)
    }
}

/// Returns the answer, which arrives only while the connection is driven. A connection that fails first is the failure. Both futures are
/// large, and stay with the caller.
pub(super) async fn driven<T>(
    mut answer: impl Future<Output = Result<T, Failure>> + Unpin,
    connection: impl Future<Output = hyper::Result<()>> + Unpin,
) -> Result<T, Failure> {
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => {
            ended?;
            answer.await
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Silent { missing, cause } => write!(f, "no {missing}{cause}"),
            Self::Unwell { what, cause } => write!(f, "{what}{cause}"),
        }
    }
}
