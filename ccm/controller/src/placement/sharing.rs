//! Sharing of an address by several nodes (`docs/dev/sharing.md`): which of them serves which lots.
//!
//! [`lots`] gives each node its share, [`next`] decides when, and [`memory`] has the times that the objects do not.

mod lots;
mod memory;

use std::net::IpAddr;
use std::time::Duration;

use jiff::Timestamp;
use windlass_api::VirtualIP;

pub(crate) use lots::{Lots, Weights};
pub(crate) use memory::SharingMemory;

/// Time for which a former server of a lot may have connections of it.
const HISTORY: Duration = Duration::from_hours(1);
/// Time for which shares have to be uneven until lots move, if all nodes that are to serve do.
const PATIENCE: Duration = Duration::from_secs(10);

/// The lots of an address as they are to be.
#[derive(Debug)]
pub(crate) struct Next<'a> {
    pub(crate) lots: Lots<'a>,
    /// Some nodes have much more or less than their share, and the lots do not move yet.
    pub(crate) is_uneven: bool,
    /// Time at which they are to be others, without any other cause.
    pub(crate) look_again: Option<Timestamp>,
}

/// Returns the lots of a VIP among nodes. Nodes that begin or cease to serve count immediately, other changes of weights after
/// [`PATIENCE`]. If the VIP was not shared, the node that announces it had all connections.
pub(crate) fn next<'a>(
    vip: &'a VirtualIP,
    weights: &Weights<'a>,
    memory: &SharingMemory,
    now: Timestamp,
) -> Next<'a> {
    let address = vip.spec.address;
    let shown = vip.spec.load_sharing.as_ref().and_then(|shared| Lots::read(address, shared).ok());
    let mut lots = shown.unwrap_or_else(|| Lots::of_one(address, vip.active_node()));
    let (mut is_uneven, mut due) = (false, None);
    let ends =
        |lot: usize, node: &str| later(memory.former_since(address, lot, node).unwrap_or(now), HISTORY);
    lots.forget(|lot, node| ends(lot, node) <= now);
    if lots.lacks(weights) {
        lots.share(weights);
    } else if lots.is_uneven(weights) {
        let at = later(memory.uneven_since(address).unwrap_or(now), PATIENCE);
        if at <= now {
            lots.share(weights);
        } else {
            (is_uneven, due) = (true, Some(at));
        }
    }
    let expiry = lots.former().map(|(lot, node)| ends(lot, node)).min();
    Next { lots, is_uneven, look_again: due.into_iter().chain(expiry).min() }
}

fn later(time: Timestamp, by: Duration) -> Timestamp {
    time.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Returns the address of a node in the object, while it is nowhere else.
pub(crate) fn shown_address(vip: &VirtualIP, node: &str) -> Option<IpAddr> {
    let nodes = vip.spec.load_sharing.iter().flat_map(|shared| &shared.nodes);
    nodes.into_iter().find(|one| one.name == node).map(|one| one.address)
}

#[cfg(test)]
mod tests;
