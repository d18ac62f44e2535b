//! Whether the adverts of a family reach this thread. A router that hears none would become a second Active.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_kernel::sockets::AdvertFilter;
use windlass_vrrp::Vrid;

/// What the kernel does for a family's adverts on an interface.
#[derive(Debug, Default)]
pub(super) struct ReceiveFilter {
    /// Whether its socket is waited for, or why not.
    polled: Option<Result<(), String>>,
    /// What it lets through.
    own: Option<AdvertFilter>,
    /// Why it lets nothing else through.
    refusal: Option<String>,
}

impl ReceiveFilter {
    /// Whether its socket is waited for.
    pub(super) fn is_polled(&self) -> bool {
        matches!(self.polled, Some(Ok(())))
    }

    /// The kernel's answer when it was asked to wait for a new socket, which lets nothing through yet.
    pub(super) fn polled(&mut self, answer: Result<(), String>) {
        *self = Self { polled: Some(answer), own: None, refusal: None };
    }

    /// Whether the socket lets exactly this through.
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

    /// Whether a router of this VRID hears these peers; `None` while the kernel was not asked.
    pub(super) fn hears(&self, vrid: Vrid, peers: &BTreeSet<IpAddr>) -> Option<Result<(), String>> {
        match (&self.polled, &self.own, &self.refusal) {
            (None, _, _) => None,
            (Some(Err(reason)), _, _) => Some(Err(reason.clone())),
            (Some(Ok(())), Some(own), _) if own.passes(vrid, peers) => Some(Ok(())),
            (Some(Ok(())), _, refusal) => refusal.clone().map(Err),
        }
    }

    /// Whether the kernel refused something, which may succeed later.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some() || matches!(self.polled, Some(Err(_)))
    }
}
