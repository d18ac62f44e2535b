//! Errors of connection tracking.

use std::io;

/// Reason why a request to the kernel's connection tracking failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrackingError {
    /// The process lacks the permission.
    #[error(
        "cannot {what}: {source}: the process lacks CAP_NET_ADMIN; run it as root or add the capability \
         (Kubernetes: securityContext.capabilities.add: [NET_ADMIN])"
    )]
    Denied {
        /// Operation that failed.
        what: &'static str,
        /// Error from the kernel.
        source: io::Error,
    },
    /// The kernel lacks the function.
    #[error(
        "cannot {what}: {source}: this kernel lacks a part of connection tracking; load the modules nf_conntrack_netlink and nf_nat"
    )]
    Unsupported {
        /// Operation that failed.
        what: &'static str,
        /// Error from the kernel.
        source: io::Error,
    },
    /// The kernel is built without events, or without connection tracking.
    #[error(
        "cannot follow connections: {path} is absent: this kernel sends no connection tracking events; load \
         the module nf_conntrack_netlink, or run a kernel with CONFIG_NF_CONNTRACK_EVENTS"
    )]
    NoEvents {
        /// File that is absent.
        path: &'static str,
    },
    /// Events are switched off.
    #[error(
        "cannot follow connections: net.netfilter.nf_conntrack_events is 0, so the kernel sends no events; \
         set it to 1 or 2 (sysctl -w net.netfilter.nf_conntrack_events=1)"
    )]
    EventsOff,
    /// The table changed whenever it was listed.
    #[error(
        "cannot list connections: the kernel changed its table during each of {tries} attempts; try again \
         later"
    )]
    Unsteady {
        /// Number of attempts.
        tries: u32,
    },
    /// Any other error.
    #[error("cannot {what}: {source}: compare `conntrack -L` and `conntrack -S` on the node")]
    Kernel {
        /// Operation that failed.
        what: &'static str,
        /// Error from the kernel.
        source: io::Error,
    },
}

impl TrackingError {
    /// For `map_err`: `what` failed.
    pub(super) fn of(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Denied { what, source },
            Some(libc::EOPNOTSUPP | libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::EINVAL) => {
                Self::Unsupported { what, source }
            }
            _ => Self::Kernel { what, source },
        }
    }
}
