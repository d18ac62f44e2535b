//! Whether the adverts of a family reach this thread. A router that hears none would become a second Active.

use windlass_vrrp::Vrid;

use crate::sockets::VridSet;

/// What the kernel does for a family's adverts on an interface.
#[derive(Debug, Default)]
pub(super) struct ReceiveFilter {
    /// Whether its socket is waited for, or why not.
    polled: Option<Result<(), String>>,
    /// VRIDs that it lets through.
    vrids: Option<VridSet>,
    /// Why it lets no others through.
    refusal: Option<String>,
}

impl ReceiveFilter {
    /// Whether its socket is waited for.
    pub(super) fn is_polled(&self) -> bool {
        matches!(self.polled, Some(Ok(())))
    }

    /// The kernel's answer when it was asked to wait for a new socket, which lets nothing through yet.
    pub(super) fn polled(&mut self, answer: Result<(), String>) {
        *self = Self { polled: Some(answer), vrids: None, refusal: None };
    }

    /// Whether the socket lets exactly these through.
    pub(super) fn passes_exactly(&self, vrids: VridSet) -> bool {
        self.vrids == Some(vrids)
    }

    /// The kernel's answer when it was asked to let exactly these through.
    pub(super) fn filtered(&mut self, vrids: VridSet, answer: Result<(), String>) {
        self.refusal = answer.err();
        if self.refusal.is_none() {
            self.vrids = Some(vrids);
        }
    }

    /// Whether a router of this VRID hears; `None` while the kernel was not asked.
    pub(super) fn hears(&self, vrid: Vrid) -> Option<Result<(), String>> {
        match (&self.polled, self.vrids, &self.refusal) {
            (None, _, _) => None,
            (Some(Err(reason)), _, _) => Some(Err(reason.clone())),
            (Some(Ok(())), Some(vrids), _) if vrids.contains(vrid) => Some(Ok(())),
            (Some(Ok(())), _, refusal) => refusal.clone().map(Err),
        }
    }

    /// Whether the kernel refused something, which may succeed later.
    pub(super) fn is_refused(&self) -> bool {
        self.refusal.is_some() || matches!(self.polled, Some(Err(_)))
    }
}
