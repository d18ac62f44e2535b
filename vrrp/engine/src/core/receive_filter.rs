//! Check that the adverts of a family reach this thread. A router that receives none would become a second Active.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_kernel::sockets::AdvertFilter;
use windlass_vrrp::Vrid;

/// State of the kernel's filter for a family's adverts on an interface.
#[derive(Debug, Default)]
pub(super) struct ReceiveFilter {
    /// Result of adding its socket to the poller; `None`: not added yet.
    polled: Option<Result<(), String>>,
    /// Filter in force: the adverts that pass.
    own: Option<AdvertFilter>,
    /// Reason why the kernel refused the last filter.
    refusal: Option<String>,
}

impl ReceiveFilter {
    /// Returns true if its socket is waited for.
    pub(super) fn is_polled(&self) -> bool {
        matches!(self.polled, Some(Ok(())))
    }

    /// The kernel's answer when it was asked to wait for a new socket, which lets nothing through yet.
    pub(super) fn polled(&mut self, answer: Result<(), String>) {
        *self = Self { polled: Some(answer), own: None, refusal: None };
    }

    /// Returns true if the socket lets exactly this through.
    pub(super) fn passes_exactly(&self, own: &AdvertFilter) -> bool {
        self.own.as_ref() == Some(own)
    }

    /// The kernel's answer when it was asked to let exactly this through.
    pub(super) fn filtered(&mut self, own: AdvertFilter, answer: Result<(), String>) {
        self.refusal = answer.err();
        if self.refusal.is_none() {
            self.own = Some(own);
        }
    }

    /// Returns whether a router of this VRID receives these peers' adverts; `None` while the kernel was not asked.
    pub(super) fn hears(&self, vrid: Vrid, peers: &BTreeSet<IpAddr>) -> Option<Result<(), String>> {
        match (&self.polled, &self.own, &self.refusal) {
            (None, _, _) => None,
            (Some(Err(reason)), _, _) => Some(Err(reason.clone())),
            (Some(Ok(())), Some(own), _) if own.passes(vrid, peers) => Some(Ok(())),
            (Some(Ok(())), _, refusal) => refusal.clone().map(Err),
        }
    }

    /// Returns true if the kernel refused something, which may succeed later.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some() || matches!(self.polled, Some(Err(_)))
    }
}
