//! Errors of sharing.

use std::io;

use windlass_kernel::netfilter::failure::{Failure, Refusal};

#[cfg(test)]
mod tests;

/// Part of nf_tables that sharing needs and that kernels may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Missing {
    /// Tables that see the frames of an interface.
    #[error("chains of the family netdev (nf_tables, CONFIG_NF_TABLES_NETDEV, CONFIG_NETFILTER_INGRESS)")]
    Netdev,
    /// Sending of frames to neighbours.
    #[error("the expression fwd (module nft_fwd_netdev, CONFIG_NFT_FWD_NETDEV)")]
    Fwd,
    /// Hashing.
    #[error("the expression hash (module nft_hash, CONFIG_NFT_HASH)")]
    Hash,
}

impl Missing {
    /// Name of the step by which the kernel shows that it has the part.
    pub(super) fn step(self) -> String {
        format!("use {self}")
    }
}

/// Reason why the desired sharing is not in force.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SharingError {
    /// The kernel lacks a part of nf_tables: this node directs no packets to others.
    #[error("this kernel lacks {missing}: {source}; load the module, or run a kernel that has it")]
    Unsupported {
        /// Missing part.
        missing: Missing,
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

impl From<Failure> for SharingError {
    fn from(failure: Failure) -> Self {
        let (refusal, is_absence) = (failure.refusal(), failure.is_absence());
        let Failure { what, source } = failure;
        let tried =
            [Missing::Netdev, Missing::Fwd, Missing::Hash].into_iter().find(|part| part.step() == what);
        match (refusal, tried) {
            (Refusal::Denied, _) => Self::Denied { what, source },
            (Refusal::Other, Some(missing)) if is_absence => Self::Unsupported { missing, source },
            (Refusal::Unsupported, tried) => {
                Self::Unsupported { missing: tried.unwrap_or(Missing::Netdev), source }
            }
            (Refusal::Other, _) => Self::Kernel { what, source },
        }
    }
}
