//! Errors of the guard.

use std::io;

use windlass_kernel::netfilter::failure::{Failure, Refusal};

/// Reason why the guard is not in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GuardError {
    /// The kernel has no nf_tables, or not all of it that is needed.
    #[error(
        "cannot {what}: {source}: this kernel lacks a part of nf_tables; run Linux 5.9 or later with the modules \
         nf_tables, nft_chain_nat, nft_ct, nft_redir, nft_reject_inet"
    )]
    Unsupported {
        /// Operation that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The process may not change nf_tables.
    #[error(
        "cannot {what}: {source}: the process lacks CAP_NET_ADMIN; run it as root or add the capability \
         (Kubernetes: securityContext.capabilities.add: [NET_ADMIN])"
    )]
    Denied {
        /// Operation that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("cannot {what}: {source}: compare `nft list ruleset` on the node")]
    Kernel {
        /// Operation that failed.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
}

impl From<Failure> for GuardError {
    fn from(failure: Failure) -> Self {
        let refusal = failure.refusal();
        let Failure { what, source } = failure;
        match refusal {
            Refusal::Denied => Self::Denied { what, source },
            Refusal::Unsupported => Self::Unsupported { what, source },
            Refusal::Other => Self::Kernel { what, source },
        }
    }
}

impl GuardError {
    pub(super) fn is_absence(&self) -> bool {
        matches!(self, Self::Kernel { source, .. } if source.raw_os_error() == Some(libc::ENOENT))
    }
}
