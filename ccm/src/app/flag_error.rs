//! Errors in the values of flags.

use super::controllers::UnknownController;
use crate::client::RateLimitError;
use crate::lease::ElectionError;

/// Flags that make no sense.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FlagError {
    /// The kubelet's value for a node that a cloud-controller-manager serves.
    #[error(
        "--cloud-provider=external is for kubelets: it tells them that a cloud-controller-manager serves them; give \
         --cloud-provider={own} here, or leave the flag out"
    )]
    External {
        /// Name of this provider.
        own: String,
    },
    /// Another provider.
    #[error(
        "--cloud-provider={given}: this is the cloud-controller-manager of {own}; give --cloud-provider={own}, or leave \
         the flag out"
    )]
    OtherProvider {
        /// Value of the flag.
        given: String,
        /// Name of this provider.
        own: String,
    },
    /// `--controllers` names a controller that there is not.
    #[error("--controllers: {0}")]
    Controllers(#[from] UnknownController),
    /// A count below 1.
    #[error("--{flag}={value}: {flag} must be a positive number; give 1 or more")]
    NotPositive {
        /// The flag, without dashes.
        flag: &'static str,
        /// Its value.
        value: String,
    },
    /// A count below 0.
    #[error("--{flag}={value}: {flag} cannot be a negative number; give 0 or more")]
    Negative {
        /// The flag, without dashes.
        flag: &'static str,
        /// Its value.
        value: String,
    },
    /// Another lock than a Lease.
    #[error(
        "--leader-elect-resource-lock={0}: only leases are used as locks; give leases, or leave the flag out"
    )]
    Lock(String),
    /// The durations of the election contradict each other.
    #[error("--leader-elect-lease-duration, -renew-deadline, -retry-period: {0}")]
    Election(#[from] ElectionError),
    /// A limit on requests that lets none through.
    #[error("--kube-api-qps, --kube-api-burst: {0}")]
    Rate(#[from] RateLimitError),
    /// Half a certificate.
    #[error("--{given} is given and --{missing} is not; a certificate needs both")]
    HalfCertificate {
        /// The flag that is there.
        given: &'static str,
        /// The one that is not.
        missing: &'static str,
    },
    /// A flag of the HTTPS port.
    #[error("--{flag}={value}: {reason}")]
    Serving {
        /// The flag, without dashes.
        flag: &'static str,
        /// Its value.
        value: String,
        /// Fault of the value, and what to give instead.
        reason: String,
    },
}
