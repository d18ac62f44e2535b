//! VRIDs that foreign VRRP and CARP routers use: the ones that count, and the rate at which our routers leave theirs to them. Any host
//! on the LAN can send such adverts, and nothing signs them.
//!
//! - Of one source at most [`MAX_VRIDS_OF_A_SOURCE`] VRIDs count, and on a segment at most [`MAX_FOREIGN_VRIDS`], those of the sources
//!   with the fewest first: no sender takes all VRIDs.
//! - The routers of a segment whose VRIDs are taken change them together, then none of them for [`PAUSE`]. The pause doubles with each
//!   change after that, up to [`LONGEST_PAUSE`], until there was none for [`CALM`].
//! - A router that signs its adverts keeps its VRID beside a foreign router, which cannot obey it without the key.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use windlass_api::NodeNetwork;

use super::Planner;

/// Maximum number of VRIDs of one source that count.
pub(super) const MAX_VRIDS_OF_A_SOURCE: usize = 32;
/// Maximum number of VRIDs that count on a segment: half of all.
pub(super) const MAX_FOREIGN_VRIDS: usize = 128;
/// Time between two changes of VRIDs on a segment, at first and at most.
pub(super) const PAUSE: Duration = Duration::from_mins(10);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_hours(6);
/// Time without a change after which the next pause is the shortest again.
pub(super) const CALM: Duration = Duration::from_hours(24);

/// The VRIDs of foreign routers of a family that count, on links that are each a node and its interface.
pub(super) fn foreign_vrids(
    is_ipv4: bool,
    is_link: impl Fn(&str, &str) -> bool,
    networks: &[Arc<NodeNetwork>],
) -> BTreeSet<u8> {
    let mut by_source: BTreeMap<IpAddr, BTreeSet<u8>> = BTreeMap::new();
    for network in networks {
        let Some(node) = network.metadata.name.as_deref() else { continue };
        let heard = network.spec.foreign_routers.iter();
        for one in heard.filter(|one| one.source.is_ipv4() == is_ipv4 && is_link(node, &one.interface)) {
            by_source.entry(one.source).or_default().insert(one.vrid);
        }
    }
    let mut sources: Vec<BTreeSet<u8>> = by_source.into_values().collect();
    sources.sort_by_key(BTreeSet::len);
    let mut counted = BTreeSet::new();
    for vrid in sources.into_iter().flat_map(|vrids| vrids.into_iter().take(MAX_VRIDS_OF_A_SOURCE)) {
        if counted.len() < MAX_FOREIGN_VRIDS {
            counted.insert(vrid);
        }
    }
    counted
}

/// Earliest time at which the routers of a segment may leave their VRIDs to foreign routers.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextChange {
    /// `None`: now.
    pub(super) from: Option<Timestamp>,
    /// The change's number in a row of them.
    pub(super) number: u32,
}

impl Planner<'_> {
    /// Returns when the routers of a segment may change their VRIDs, from the creation times of those that earlier changes made.
    pub(super) fn next_change(&self, segment: IpNet) -> NextChange {
        let now = self.input.now;
        let on_it = self.routers.values().filter(|draft| draft.segment == Some(segment));
        let changes = on_it.filter(|draft| draft.vrid_changes > 0).filter_map(|draft| {
            let age = Duration::try_from(now.duration_since(draft.created?)).unwrap_or_default();
            (age < CALM).then_some((draft.created?, draft.vrid_changes))
        });
        let (last, number) = changes.fold((None, 0), |(last, number), (created, changes)| {
            (last.max(Some(created)), number.max(changes))
        });
        let pause = PAUSE.saturating_mul(1 << number.saturating_sub(1).min(16)).min(LONGEST_PAUSE);
        let from = last.and_then(|last| last.checked_add(pause).ok()).filter(|from| *from > now);
        NextChange { from, number: number.saturating_add(1) }
    }
}
