//! Errors of netlink.

use std::fmt;
use std::io;

use nix::errno::Errno;

/// Reason for which the kernel refused a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Its error number.
    pub errno: Errno,
    /// The kernel's message, if it sends one (extended acknowledgement).
    pub message: Option<String>,
}

impl std::error::Error for Refusal {}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.message {
            Some(message) => write!(f, "{} ({message})", self.errno),
            None => write!(f, "{}", self.errno),
        }?;
        match self.errno {
            // EACCES is IPv6 switched off on the interface, in the kernel's own words.
            Errno::EPERM => write!(
                f,
                ": the process lacks CAP_NET_ADMIN; run it as root or add the capability \
                 (Kubernetes: securityContext.capabilities.add: [NET_ADMIN])"
            ),
            _ => Ok(()),
        }
    }
}

/// Reason why an exchange with the kernel failed.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The kernel refused the request.
    #[error("the kernel refused it: {0}")]
    Refused(#[from] Refusal),
    /// The receive buffer was too small for the answers: the request may or may not have been carried out.
    #[error(
        "the kernel's answers were lost because the netlink receive buffer was full: raise net.core.rmem_max"
    )]
    AnswersLost,
    /// The socket failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// Operation that failed.
        what: &'static str,
        /// Error from the kernel.
        source: io::Error,
    },
    /// The kernel sent something that is no netlink message.
    #[error("cannot read the kernel's netlink message: {0}")]
    Malformed(String),
}

impl NetlinkError {
    /// For `map_err`: `what` failed.
    pub(super) fn io(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { what, source }
    }

    /// The error number of a refusal.
    #[cfg(test)]
    pub(crate) fn errno(&self) -> Option<Errno> {
        match self {
            Self::Refused(refusal) => Some(refusal.errno),
            Self::AnswersLost | Self::Io { .. } | Self::Malformed(_) => None,
        }
    }
}
