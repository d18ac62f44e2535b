//! Connections that the kernel is to forget, by the helper thread.

use std::collections::BTreeSet;
use std::net::IpAddr;

use windlass_kernel::connections::Tracking;
use windlass_kernel::mark_mask::MarkMask;

/// Connections that the kernel is to forget.
pub(super) enum Forgotten {
    /// Closed connections to these VIPs.
    Closed(BTreeSet<IpAddr>),
    /// Connections to these VIPs with these marks in these bits, which were forwarded.
    Marked(BTreeSet<(IpAddr, u32)>, MarkMask),
}

impl Forgotten {
    /// Has the kernel forget them.
    pub(super) fn forget(self) {
        let forgotten = Tracking::open().and_then(|mut tracking| match &self {
            Self::Closed(vips) => tracking.forget_closed(vips),
            Self::Marked(marked, bits) => tracking.forget_marked(marked, *bits),
        });
        match (forgotten, self) {
            (Ok(count), _) => tracing::debug!(count, "forgot connections"),
            (Err(error), Self::Closed(_)) => {
                tracing::debug!(%error, "closed connections stay known until they expire");
            }
            (Err(error), Self::Marked(..)) => {
                tracing::warn!(%error, "connections that were forwarded stay known until they expire");
            }
        }
    }
}
