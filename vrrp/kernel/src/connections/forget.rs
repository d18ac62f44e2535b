//! Removes stale connections from the kernel, so that it judges a packet on its own.
//!
//! While the kernel knows a connection that was forwarded, kube-proxy leaves it alone, and so also a new connection from the same port.
//! While it knows one that is closed, for two minutes, it takes packets of another connection from the same port, which began on another
//! node, for invalid.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use windlass_vrrp::Family;
use windlass_vrrp::replication::Transport;

use super::entry::{CLOSE, LAST_ACK};
use super::error::TrackingError;
use super::listing::{Listed, Selection};
use super::tracking::Tracking;
use crate::mark_mask::MarkMask;

#[cfg(test)]
mod tests;

/// Maximum number of VIPs that are listed one by one; for more, the kernel lists all connections of the family.
const ONE_BY_ONE: usize = 4;

impl Tracking {
    /// Removes connections to these VIPs that have these marks in these bits, and returns their number.
    pub fn forget_marked(
        &mut self,
        marked: &BTreeSet<(IpAddr, u32)>,
        bits: MarkMask,
    ) -> Result<usize, TrackingError> {
        let mut vips: BTreeMap<(Family, u32), BTreeSet<IpAddr>> = BTreeMap::new();
        for (vip, mark) in marked {
            vips.entry((Family::of(*vip), *mark)).or_default().insert(*vip);
        }
        vips.into_iter().try_fold(0_usize, |removed, ((family, mark), vips)| {
            let with_mark = Selection::of(family).with_mark(mark, bits.get());
            let more = self.remove_each(&with_mark, |listed| is_to(listed, &vips))?;
            Ok(removed.saturating_add(more))
        })
    }

    /// Removes closed TCP connections to these VIPs, and returns their number.
    pub fn forget_closed(&mut self, vips: &BTreeSet<IpAddr>) -> Result<usize, TrackingError> {
        selections(vips).into_iter().try_fold(0_usize, |removed, selection| {
            let more = self.remove_each(&selection, |listed| is_closed(listed) && is_to(listed, vips))?;
            Ok(removed.saturating_add(more))
        })
    }
}

/// Returns the lists to request to find TCP connections to these VIPs.
fn selections(vips: &BTreeSet<IpAddr>) -> Vec<Selection> {
    let of_family = |family: Family| {
        let tcp = Selection::of(family).with_protocol(Transport::Tcp.number());
        let count = vips.iter().filter(|vip| Family::of(**vip) == family).count();
        // The kernel does not filter by an IPv6 destination.
        if family == Family::V4 && count <= ONE_BY_ONE {
            vips.iter().filter(|vip| vip.is_ipv4()).map(|vip| tcp.to(*vip)).collect()
        } else if count > 0 {
            vec![tcp]
        } else {
            Vec::new()
        }
    };
    [Family::V4, Family::V6].into_iter().flat_map(of_family).collect()
}

fn is_to(listed: &Listed<'_>, vips: &BTreeSet<IpAddr>) -> bool {
    listed.destination().is_some_and(|vip| vips.contains(&vip))
}

/// Nothing comes after LAST_ACK, TIME_WAIT, CLOSE.
fn is_closed(listed: &Listed<'_>) -> bool {
    listed.tcp_state().is_some_and(|state| (LAST_ACK..=CLOSE).contains(&state))
}
