//! Failed operations on nf_tables.

use std::convert::Infallible;
use std::error::Error;
use std::io;

use super::chain::DeviceChain;

/// Reason why the desired contents of a table are not in force. `E` has the reasons that are no answers of the kernel.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError<E: Error + 'static = Infallible> {
    /// The kernel has no nf_tables, or not all of it that is needed.
    #[error(
        "{0}: this kernel lacks a part of nf_tables; run Linux 5.9 or later with the modules nf_tables, nft_chain_nat, nft_nat, \
         nft_masq, nft_numgen, nft_ct, nft_redir, nft_reject_inet"
    )]
    Unsupported(Failure),
    /// The process may not change nf_tables.
    #[error(
        "{0}: the process lacks CAP_NET_ADMIN; run it as root or add the capability (Kubernetes: \
         securityContext.capabilities.add: [NET_ADMIN])"
    )]
    Denied(Failure),
    /// The kernel refused something else.
    #[error("{0}: compare `nft list ruleset` on the node")]
    Kernel(Failure),
    /// No table has such contents.
    #[error(transparent)]
    Contents(E),
}

impl<E: Error> From<Failure> for TableError<E> {
    fn from(failure: Failure) -> Self {
        match failure.refusal {
            Refusal::Denied => Self::Denied(failure),
            Refusal::Unsupported => Self::Unsupported(failure),
            Refusal::Absent | Refusal::Other => Self::Kernel(failure),
        }
    }
}

/// Operation that failed, and its error.
#[derive(Debug, thiserror::Error)]
#[error("cannot {what}: {source}")]
pub struct Failure {
    /// Operation that failed.
    what: String,
    /// Error from the kernel.
    source: io::Error,
    refusal: Refusal,
}

/// Kind of the kernel's answer to an operation that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Refusal {
    /// The process may not change nf_tables.
    Denied,
    /// The kernel has no nf_tables, or not the part that the operation needs.
    Unsupported,
    /// The object to change does not exist.
    Absent,
    /// Anything else.
    Other,
}

impl Failure {
    /// Failure of the operation `what`, as in "cannot `what`".
    pub fn new(what: impl Into<String>, source: io::Error) -> Self {
        let refusal = match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Refusal::Denied,
            Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => Refusal::Unsupported,
            Some(libc::ENOENT) => Refusal::Absent,
            _ => Refusal::Other,
        };
        Self { what: what.into(), source, refusal }
    }

    /// The same, as the failure of a batch that makes a table. Everything that such a batch refers to is in it, but for the interfaces
    /// of chains: if anything else is absent, it is a kind of chain or expression.
    #[must_use]
    pub fn of_new_table(self) -> Self {
        let is_part = self.is_absence() && !DeviceChain::is_named_in(&self.what);
        Self { refusal: if is_part { Refusal::Unsupported } else { self.refusal }, ..self }
    }

    /// Returns true if the object to change does not exist.
    pub fn is_absence(&self) -> bool {
        self.refusal == Refusal::Absent
    }

    /// Returns true if the kernel lacks a part of nf_tables.
    pub fn is_lack(&self) -> bool {
        self.refusal == Refusal::Unsupported
    }
}
